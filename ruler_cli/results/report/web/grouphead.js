"use strict";

// The head of a group's page: its neighbours, its name and its task; and below its rollouts the figures in two lines.
const groupHead = (() => {
  const { useState, useEffect, useRef } = lib;
  const { Text } = turnlist;

  const BECAUSE = {
    disagrees: "the judge orders many pairs of its rollouts against their rewards",
    suspect: "a rollout has text that addresses the judge",
    unsure: "its scores are more noise than signal, and more passes make them surer",
    spread: "its best score is far above its worst",
    tied: "its scores are tied: nothing in it for a trainer to learn",
  };
  const FLAGS = {
    suspect: "a rollout has text that addresses the judge",
    degraded: "a pass or a judge brought no scores; the others count",
    escalated: "the stronger judge scored it",
    windows: "shown to the judge in parts",
    shortened: "what is too long was shown shortened",
    pictures_left_out: "judged without some of its pictures",
    alone: "one rollout only: nothing to compare",
    cached: "all replies came from the ledger",
  };
  const FAILED = {
    reply: ["the judge answered, and nothing usable, also when asked again", "Ask again, or another judge:"],
    transport: ["the judge could not be reached, or answered with an error", "Ask again:"],
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
    return html`<button type="button" aria-keyshortcuts="c" data-key="c" onClick=${copy}>Copy link</button>
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
      <${Fact} name="Against the rewards">${disagreement}<//>
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

  /** The way to the table, as it was left, and to the groups around this one. */
  function Ways({ rows, row }) {
    const { at, of, previous, next, matched } = neighbours(rows, row);
    const [nth, same] = nthOfKey(rows, row);
    const step = (to, word, key) =>
      to === undefined
        ? html`<span class="g-step" aria-disabled="true">${word}</span>`
        : html`<a class="g-step" href=${groupHash(rows, to)} aria-keyshortcuts=${key}>${word}</a>`;
    return html`<nav aria-label="Groups" class="g-nav">
      <span class="group-bar"><a href=${listing.hash} aria-keyshortcuts="Escape">↑ ${listing.hash === "#groups" ? "All groups" : "The groups that matched"}</a></span>
      <span class="g-steps">${step(previous, "← previous group", "k")} ${step(next, "next group →", "j")}
        ${" "}<span>${number(at + 1, 0)} of ${number(of, 0)}${matched ? " as in the table" : ", the worst first"}</span></span>
      ${same > 1 && html`<span class="warn">Group ${nth} of ${same} with the same key.</span>`}
    </nav>`;
  }

  function Head({ data, row }) {
    const { rows } = data;
    return html`<header>
      <${Ways} rows=${rows} row=${row} />
      <h2 tabindex="-1">Group <bdi class="g-key">${visible(rows.key[row])}</bdi></h2>
      ${rows.task[row] && html`<p class="g-foreign g-task"><${Text} text=${rows.task[row]} /></p>`}
      <${instead.Failure ?? Failure} rows=${rows} row=${row} />
    </header>`;
  }

  /** The group's figures in a line, without those that the file does not have. */
  function figuresInWords(rows, row, prefix = "") {
    const at = (name) => rows[prefix + name][row];
    const against = at("disagreement");
    return [
      visible(at("judge")),
      at("passes") !== null && (at("passes") === 1 ? "1 pass" : `${number(at("passes"), 0)} passes`),
      at("mean") !== null && `mean ${number(at("mean"), 2)}`,
      at("sd") !== null && `sd ${number(at("sd"), 2)}`,
      at("reliability") !== null && `reliability ${number(at("reliability"), 2)}`,
      against !== null && `${percent(against)} of the pairs against their rewards`,
      at("cost") && usd(at("cost")),
    ].filter(Boolean).join(" · ");
  }

  /** What to know of the group beside its rollouts: a line why to look at it, a line of figures, the rest folded. */
  function About({ data, row }) {
    const { rows } = data;
    const reasons = rows.reasons[row].filter((reason) => Object.hasOwn(BECAUSE, reason)).map((reason) => BECAUSE[reason]);
    const flags = rows.flags[row].map((name) => [visible(name), Object.hasOwn(FLAGS, name) ? `: ${FLAGS[name]}` : ""]);
    return html`<section class="g-meta" aria-label="About the group">
      ${rows.status[row] === "scored" &&
      html`<p>${reasons.length ? `Worth a look: ${reasons.join("; ")}.` : "Nothing about it stands out."}</p>`}
      <details><summary>${figuresInWords(rows, row)} <span class="g-more">details</span></summary>
        <${Facts} rows=${rows} row=${row} />
        ${flags.length > 0 && html`<ul class="g-flags">${flags.map(([name, why]) => html`<li key=${name}><b>${name}</b>${why}</li>`)}</ul>`}
        <p class="g-ways"><span>In a terminal: <code>${turns.command(data.source, rows.key[row])}</code></span></p>
      </details>
    </section>`;
  }

  return { Head, About, Copied, figuresInWords, neighbours };
})();
