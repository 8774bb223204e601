"use strict";

// The head of a group's page: why it is told, its figures in words, its link, and its neighbours.
const groupHead = (() => {
  const { useState, useEffect, useRef } = lib;
  const { Text } = turnlist;

  const BECAUSE = {
    disagrees: "the judge orders its rollouts against their labels",
    suspect: "a rollout has text that addresses the judge",
    unsure: "its passes disagree: the scores are unsure, and more passes make them surer",
    spread: "its scores lie far apart",
    tied: "its scores are tied: nothing in it for a trainer to learn",
  };
  const FLAGS = {
    suspect: "a rollout has text that addresses the judge",
    degraded: "a pass or a judge brought no scores; the others count",
    escalated: "the stronger judge scored it",
    windows: "shown to the judge in parts",
    shortened: "what is too long was shown shortened",
    alone: "one rollout only: nothing to compare",
    cached: "all replies came from the ledger",
  };
  const FAILED = {
    reply: ["the judge answered, and nothing usable, also when asked again", "Ask again, or another judge:"],
    transport: ["no answer came from the judge", "Ask again:"],
    refused: ["the judge or its provider would not, or rejected the request", "Ask again, or another judge:"],
    too_long: ["it does not fit into the judge's context", "Ask a judge with a longer context:"],
    input: ["there is nothing in it to judge", "Mend its records in the dump, then score them:"],
    budget: ["--max-cost was reached first", "Run it again; what has been answered costs nothing:"],
    interrupted: ["the run was stopped before it was judged", "The same command goes on where it stopped:"],
    unknown: ["the file does not say why in a way this version knows", "Ask again:"],
  };
  const NOT_ASKED = ["input", "budget", "interrupted"]; // these need no --retry-failed

  const orders = new WeakMap(); // rows → groups by telling, made once for all of them

  /** The groups around this one: of the table as it was last shown, or by telling where that lacks it. */
  function neighbours(rows, row) {
    if (!orders.has(rows)) orders.set(rows, rows.telling.map((_, i) => i).sort((a, b) => rows.telling[a] - rows.telling[b]));
    const matched = listing.order?.includes(row) ?? false;
    const order = matched ? listing.order : orders.get(rows);
    const at = order.indexOf(row);
    return { at, of: order.length, previous: order[at - 1], next: order[at + 1], matched };
  }

  function Copied({ hash }) {
    const [state, setState] = useState("");
    const shown = useRef(null);
    const url = location.href.replace(/#.*/s, "") + hash;
    useEffect(() => setState(""), [hash]);
    useEffect(() => state === "select" && getSelection().selectAllChildren(shown.current), [state]);
    async function copy() {
      try {
        await navigator.clipboard.writeText(url);
        setState("copied");
      } catch {
        setState("select"); // no clipboard, as in many browsers for a page from a file
      }
    }
    return html`<button type="button" onClick=${copy}>Copy link</button>
      <span role="status">${state === "copied" ? "copied" : state && "copy the marked text:"}</span>
      ${state === "select" && html`<code class="g-address" ref=${shown}>${visible(url)}</code>`}`;
  }

  const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

  function Facts({ rows, row }) {
    const at = (name) => rows[name][row];
    const weight = at("weight") === null ? "" : `, weight ${number(at("weight"), 2)}`;
    const against = at("disagreement");
    const disagreement = against === null ? "–" : `${number(100 * against, 0)}% of the pairs`;
    const signal = at("tied") ? "scored, tied: nothing to learn from" : "scored, live: a trainer learns from it";
    const status = { scored: signal, failed: "failed", unmarked: "never scored" }[at("status")];
    return html`<dl class="g-facts">
      <${Fact} name="Status">${status}<//>
      <${Fact} name="Judge"><bdi>${visible(at("judge")) || "–"}</bdi><//>
      <${Fact} name="Passes">${number(at("passes"), 0)}<//>
      <${Fact} name="Mean score">${number(at("mean"), 3)}<//>
      <${Fact} name="Spread (sd)">${number(at("sd"), 3)}<//>
      <${Fact} name="Reliability">${number(at("reliability"), 2)}${weight}<//>
      <${Fact} name="Against the labels">${disagreement}<//>
      <${Fact} name="Cost">${usd(at("cost"))}<//>
      <${Fact} name="Tokens">${number(at("tokens"), 0)}<//>
      <${Fact} name="Latency">${seconds(at("latency"))}<//>
      <${Fact} name="Judged at">${at("at") === null ? "–" : `${moment(at("at"))} UTC`}<//>
      <${Fact} name="In the file">group ${number(at("ordinal"), 0)}<//>
    </dl>`;
  }

  function Failure({ rows, row }) {
    if (rows.status[row] === "unmarked") {
      return html`<p class="g-notice">It has no marks of ruler: it was never scored.</p>`;
    }
    if (rows.status[row] !== "failed") return null;
    const kind = Object.hasOwn(FAILED, rows.kind[row]) ? rows.kind[row] : "unknown";
    const [why, way] = FAILED[kind];
    const again = NOT_ASKED.includes(kind) ? "ruler score …" : "ruler score … --retry-failed";
    return html`<div class="g-notice g-failed" role="note">
      <p><b>Not scored (${kind}):</b> ${why}.</p>
      ${rows.reason[row] && html`<p class="g-foreign"><${Text} text=${rows.reason[row]} /></p>`}
      <p>${way} <code>${again}</code></p>
    </div>`;
  }

  function Head({ data, row, hash }) {
    const { rows } = data;
    const { at, of, previous, next, matched } = neighbours(rows, row);
    const step = (to, word, key) =>
      to === undefined
        ? html`<span class="g-step" aria-disabled="true">${word}</span>`
        : html`<a class="g-step" href=${groupHash(rows, to)} aria-keyshortcuts=${key}>${word}</a>`;
    const why = Object.hasOwn(BECAUSE, rows.because[row]) ? BECAUSE[rows.because[row]] : "";
    const flag = (name) =>
      html`<li><b>${visible(name)}</b>${Object.hasOwn(FLAGS, name) && `: ${FLAGS[name]}`}</li>`;
    return html`<header>
      <nav aria-label="Groups" class="g-steps">
        ${step(previous, "← previous group", "k")} ${step(next, "next group →", "j")}
        <span>${number(at + 1, 0)} of ${number(of, 0)}${matched ? " as in the table" : ", the most telling first"}</span>
      </nav>
      <h2 tabindex="-1">Group <bdi class="g-key">${visible(rows.key[row])}</bdi></h2>
      ${rows.task[row] && html`<p class="g-foreign g-task"><${Text} text=${rows.task[row]} /></p>`}
      ${rows.status[row] === "scored" &&
      html`<p>${why ? `Worth a look: ${why}.` : "Nothing about it stands out."}</p>`}
      <${Failure} rows=${rows} row=${row} />
      <${Facts} rows=${rows} row=${row} />
      ${rows.flags[row].length > 0 && html`<ul class="g-flags">${rows.flags[row].map(flag)}</ul>`}
      <p class="g-ways"><${Copied} hash=${hash} />
        <span>In a terminal: <code>${turns.command(data.source, rows.key[row])}</code></span></p>
    </header>`;
  }

  return { Head, neighbours };
})();
