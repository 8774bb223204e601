"use strict";

// A group's page: why it is told, its figures, its rollouts, and the keys to walk among them.
const GroupPage = (() => {
  const { useState, useEffect, useLayoutEffect, useMemo, useRef } = lib;
  const { TurnList, Text, counted } = turnlist;
  const { Rollouts, Side, One, entriesOf, sorted, referenceOf } = rolloutViews;
  const address = route.format; // the page has a property of that name

  const BECAUSE = {
    failed: "no rollout has a score",
    disagrees: "the judge orders its rollouts against their labels",
    suspect: "a rollout has text that addresses the judge",
    unsure: "its passes are few for the judge's noise: the scores are unsure",
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
    refused: ["the judge or its provider would not, or rejected the request", "Look at the reason, then ask again or another judge:"],
    too_long: ["it does not fit into the judge's context", "Ask a judge with a longer context:"],
    input: ["there is nothing in it to judge", "Mend its records in the dump, then score them:"],
    budget: ["--max-cost was reached first", "Run it again; what has been answered costs nothing:"],
    interrupted: ["the run was stopped before it was judged", "The same command goes on where it stopped:"],
    unknown: ["the file does not say why in a way this version knows", "Ask again:"],
  };
  const AGAIN = "ruler score … --retry-failed";

  const turnsOf = new WeakMap(); // rows → groups by telling, made once for all pages

  function neighbours(rows, row) {
    if (!turnsOf.has(rows)) {
      const order = rows.telling.map((_, i) => i).sort((a, b) => rows.telling[a] - rows.telling[b]);
      const place = [];
      order.forEach((r, i) => (place[r] = i));
      turnsOf.set(rows, { order, place });
    }
    const { order, place } = turnsOf.get(rows);
    const at = place[row];
    return { at, of: order.length, previous: order[at - 1], next: order[at + 1] };
  }

  // The address of a row's group; `nth` only where an earlier one has the same key.
  function hashOf(rows, row, rest = {}) {
    const key = rows.key[row];
    let nth = 1;
    for (let i = rows.key.indexOf(key); i < row; i = rows.key.indexOf(key, i + 1)) nth += 1;
    return address({ page: "group", key, ...(nth > 1 ? { nth } : {}), ...rest });
  }

  const percent = (x) => (x === null ? "–" : `${number(100 * x, 0)}%`);

  // ---- Head ----------------------------------------------------------------------------------------

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
      ${state === "select" && html`<code class="address" ref=${shown}>${visible(url)}</code>`}`;
  }

  const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

  function Facts({ rows, row }) {
    const at = (name) => rows[name][row];
    const signal = at("status") === "scored" && (at("tied") ? "tied: nothing to learn from" : "live: a trainer learns from it");
    return html`<dl class="facts">
      <${Fact} name="Status">${at("status") === "unmarked" ? "never scored" : at("status")}${signal && `, ${signal}`}<//>
      <${Fact} name="Judge"><bdi>${visible(at("judge")) || "–"}</bdi>${at("passes") !== null && `, ${counted(at("passes"), "pass").replace(/passs$/, "passes")}`}<//>
      <${Fact} name="Mean score">${number(at("mean"), 3)}<//>
      <${Fact} name="Spread (sd)">${number(at("sd"), 3)}<//>
      <${Fact} name="Reliability">${number(at("reliability"), 2)}${at("weight") !== null && `, weight ${number(at("weight"), 2)}`}<//>
      <${Fact} name="Against the labels">${at("disagreement") === null ? "–" : `${percent(at("disagreement"))} of the pairs`}<//>
      <${Fact} name="Cost">${usd(at("cost"))}<//>
      <${Fact} name="Tokens">${number(at("tokens"), 0)}<//>
      <${Fact} name="Latency">${seconds(at("latency"))}<//>
      <${Fact} name="Judged at">${at("at") === null ? "–" : `${moment(at("at"))} UTC`}<//>
      <${Fact} name="In the file">group ${number(at("ordinal"), 0)}<//>
    </dl>`;
  }

  function Failure({ rows, row }) {
    if (rows.status[row] === "unmarked") return html`<p class="notice">It has no marks of ruler: it was never scored.</p>`;
    if (rows.status[row] !== "failed") return null;
    const kind = Object.hasOwn(FAILED, rows.kind[row]) ? rows.kind[row] : "unknown";
    const [why, way] = FAILED[kind];
    return html`<div class="notice failed" role="note">
      <p><b>Not scored (${kind}):</b> ${why}.</p>
      ${rows.reason[row] && html`<p class="foreign"><${Text} text=${rows.reason[row]} /></p>`}
      <p>${way} <code>${AGAIN}</code></p>
    </div>`;
  }

  function Head({ data, row, hash }) {
    const { rows } = data;
    const { at, of, previous, next } = neighbours(rows, row);
    const step = (to, word, key) =>
      to === undefined
        ? html`<span class="step" aria-disabled="true">${word}</span>`
        : html`<a class="step" href=${hashOf(rows, to)} aria-keyshortcuts=${key} title=${`${word} (${key})`}>${word}</a>`;
    return html`<header>
      <nav aria-label="Groups" class="steps">
        ${step(previous, "← previous group", "k")} ${step(next, "next group →", "j")}
        <span>${number(at + 1, 0)} of ${number(of, 0)}, the most telling first</span>
      </nav>
      <h2 tabindex="-1">Group <bdi class="key">${visible(rows.key[row])}</bdi></h2>
      ${rows.task[row] && html`<p class="foreign task"><${Text} text=${rows.task[row]} /></p>`}
      <p>${Object.hasOwn(BECAUSE, rows.because[row]) ? `Worth a look: ${BECAUSE[rows.because[row]]}.` : "Nothing about it stands out."}</p>
      <${Failure} rows=${rows} row=${row} />
      <${Facts} rows=${rows} row=${row} />
      ${rows.flags[row].length > 0 &&
      html`<ul class="flags">
        ${rows.flags[row].map((flag) => html`<li><b>${visible(flag)}</b>${Object.hasOwn(FLAGS, flag) && `: ${FLAGS[flag]}`}</li>`)}
      </ul>`}
      <p class="ways"><${Copied} hash=${hash} /> <span>In a terminal: <code>${turns.command(data.source, rows.key[row])}</code></span></p>
    </header>`;
  }

  // ---- The page ------------------------------------------------------------------------------------

  // The group's text: undefined while it is read, null where the file has none; an Error where it cannot be.
  function useText(data, row) {
    const [found, setFound] = useState({});
    useEffect(() => {
      let wanted = true;
      const tell = (text, said = null) => wanted && setFound({ row, text, said });
      const read = async () => {
        const text = await textOf(row, data.rows);
        tell(text, text ? null : ((await explanations())[row] ?? null));
      };
      read().catch((error) => tell(error));
      return () => (wanted = false);
    }, [data, row]);
    return found.row === row ? found : {};
  }

  // Whether the page is being printed: then all of it is built, one rollout under another.
  function usePrinting() {
    const [printing, setPrinting] = useState(false);
    useEffect(() => {
      const [start, stop] = [() => setPrinting(true), () => setPrinting(false)];
      addEventListener("beforeprint", start);
      addEventListener("afterprint", stop);
      return () => {
        removeEventListener("beforeprint", start);
        removeEventListener("afterprint", stop);
      };
    }, []);
    return printing;
  }

  // j, k or Alt with an arrow: another group; left, right: another rollout. Not while something is typed.
  function useKeys(toGroup, toRollout) {
    const latest = useRef(null);
    latest.current = { toGroup, toRollout };
    useEffect(() => {
      const pressed = (event) => {
        const { key, altKey, target } = event;
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
        if (target instanceof Element && target.closest("input, select, textarea, .scroll")) return;
        const group = { j: !altKey && 1, k: !altKey && -1, ArrowDown: altKey && 1, ArrowUp: altKey && -1 }[key];
        const rollout = !altKey && { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!group && !rollout) return;
        event.preventDefault();
        if (group) latest.current.toGroup(group);
        else latest.current.toRollout(rollout);
      };
      addEventListener("keydown", pressed);
      return () => removeEventListener("keydown", pressed);
    }, []);
  }

  const SHORT = { lines: 4, characters: 1500 };
  const FEW = { lines: 4, characters: 200 }; // of tools, which take ten times the room once they are indented

  // What all rollouts share, once; open where it is short.
  function Shared({ name, lines, raw, printing, note, limit = SHORT }) {
    if (!lines.length) return null;
    const short = lines.length <= limit.lines && lines.join("").length <= limit.characters;
    const list = { strings: lines, lines: lines.map((_, i) => i), raw };
    return html`<details class="shared" open=${short || printing}>
      <summary><h3>${name}</h3> <span>${note}</span></summary>
      <${TurnList} list=${list} eager=${printing} />
    </details>`;
  }

  function toolNames(lines) {
    const named = (line) => {
      try {
        return String(JSON.parse(line).name ?? "…");
      } catch {
        return "…";
      }
    };
    const names = lines.slice(0, 12).map((line) => visible(named(line)).slice(0, 60));
    return `${lines.length}: ${names.join(", ")}${lines.length > 12 ? ", …" : ""}`;
  }

  function Choice({ name, value, options, onPick }) {
    return html`<label>${name} <select value=${value} onChange=${(event) => onPick(event.target.value)}>
      ${options.map(([of, says]) => html`<option value=${of}>${says}</option>`)}
    </select></label>`;
  }

  function Controls({ page, order, setOrder, setRaw }) {
    const passes = Math.min(8, Math.max(0, ...page.all.map((e) => e.slots.length)));
    const seen = Array.from({ length: passes }, (_, i) => [String(i), passes > 1 ? `as the judge saw them, pass ${i + 1}` : "as the judge saw them"]);
    const shown = sorted(page.all.filter((e) => e.lines.length), "rank");
    const against = [[0, "none"], ...shown.map((e) => [e.at + 1, `${e.name}: ${rolloutViews.rankOf(e)}`])];
    const view = (name, says) =>
      html`<button type="button" aria-pressed=${page.view === name} onClick=${() => page.go({ view: name })}>${says}</button>`;
    return html`<p class="controls">
      <span role="group" aria-label="View" class="switch">${view("side", "side by side")}${view("one", "one by one")}</span>
      <${Choice} name="Order" value=${order} onPick=${setOrder} options=${[["rank", "best first"], ["input", "as in the input"], ...seen]} />
      <${Choice} name="Compare with" value=${page.reference ? page.reference.at + 1 : 0} options=${against} onPick=${(to) => page.go({ against: Number(to) })} />
      <label><input type="checkbox" checked=${page.raw} onChange=${(event) => setRaw(event.target.checked)} /> as the judge read it</label>
    </p>`;
  }

  function Texts({ data, row, text, page, order, setOrder, setRaw, entries }) {
    if (text === undefined) return html`<p role="status">Reading the text …</p>`;
    if (text instanceof Error) return html`<p class="notice failed" role="alert">The text of this group cannot be read from the file: it was damaged or cut.</p>`;
    if (text === null) {
      return html`<section aria-label="Explanations">
        <p class="notice">Its text was left out of this file (${visible(data.left_out.rule)}). It is shown in a terminal by${" "}
          <code>${turns.command(data.source, data.rows.key[row])}</code></p>
        ${entries.map((e) => e.said && html`<p class="foreign"><b>${e.name}</b>, ${rolloutViews.rankOf(e)}: <${Text} text=${e.said} /></p>`)}
      </section>`;
    }
    const tools = text.tools ? text.tools.split("\n") : [];
    const view = page.view === "one" && !page.eager;
    return html`
      <${Shared} key=${`context-${row}`} name="Shared context" lines=${text.context} raw=${page.raw} printing=${page.eager} note=${counted(text.context.length, "turn")} />
      <${Shared} key=${`tools-${row}`} name="Tools" lines=${tools} raw=${page.raw} limit=${FEW} note=${toolNames(tools)} />
      <section aria-label="What the rollouts did">
        <h3>What they did</h3>
        <${Controls} page=${page} order=${order} setOrder=${setOrder} setRaw=${setRaw} />
        <${view ? One : Side} entries=${entries} page=${page} />
      </section>`;
  }

  function Group({ data, asked, row }) {
    const { rows } = data;
    const [order, setOrder] = useState("rank");
    const [raw, setRaw] = useState(false);
    const { text, said } = useText(data, row);
    const eager = usePrinting();
    const all = useMemo(() => entriesOf(rows, row, text instanceof Error ? null : text, said), [rows, row, text, said]);
    const entries = useMemo(() => sorted(all, order), [all, order]);
    const rest = { view: asked.view, rollout: asked.rollout, against: asked.against };
    const href = (changes) => hashOf(rows, row, { ...rest, ...changes });
    const page = {
      row, text, raw, all, eager, href,
      view: asked.view ?? "side",
      chosen: all[asked.rollout - 1]?.at,
      reference: referenceOf(all, asked.against),
      go: (changes) => location.replace(href(changes)), // no step back for each rollout looked at
    };
    const toGroup = (by) => {
      const to = neighbours(rows, row)[by > 0 ? "next" : "previous"];
      if (to !== undefined) location.hash = hashOf(rows, to);
    };
    const toRollout = (by) => {
      const among = page.view === "side" ? entries.filter((e) => e.alike === e.at) : entries;
      const at = among.findIndex((e) => e.at === page.chosen);
      const next = among[at < 0 ? (page.view === "side" ? 0 : Math.max(by, 0)) : at + by];
      if (next) page.go({ rollout: next.at + 1 });
    };
    useKeys(toGroup, toRollout);
    return html`<article class="group-page">
      <${Head} data=${data} row=${row} hash=${href({})} />
      <section aria-label="Rollouts"><h3>Rollouts</h3><${Rollouts} entries=${entries} href=${href} chosen=${page.chosen} /></section>
      <${Texts} data=${data} row=${row} text=${text} page=${page} order=${order} setOrder=${setOrder} setRaw=${setRaw} entries=${entries} />
    </article>`;
  }

  // `row` is the group's index in data.rows, -1 where no group has the key that was asked for.
  return ({ data, route: asked, row }) => {
    if (data.rows.key[row] !== undefined) return html`<${Group} data=${data} asked=${asked} row=${row} />`;
    return html`<article class="group-page"><h2>No such group</h2>
      <p class="notice">No group in this file has the key <bdi class="key">${visible(asked.key)}</bdi>.
        It may have been left out, or the link is of another file. <a href=${link({})}>All groups</a></p></article>`;
  };
})();
