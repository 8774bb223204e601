"use strict";

// A group's page: its head, its rollouts as links, and the turns of up to three of them beside one another.
// A rollout is known by its number in the group, from 1, as #3, and in a link by its id.
const GroupPage = (() => {
  const { useState, useEffect, useLayoutEffect, useMemo, useRef } = lib;
  const { TurnList, Text, Folded, Later } = turnlist;
  const [ONE, TWO] = [PHONE, 1100]; // pixels of a window below which so many columns stand side by side
  const THREE = 3;
  const FAST = 0.05; // seconds below which the time of a group is not that of a judge
  const CHUNK = 10; // rows of turns that are built at once
  const REM_OF_A_ROW = 12;
  const SEARCHABLE = 4000; // turns of a group that are built also while out of sight
  const SHORT = 600; // characters of what is open from the start
  const OPINION = 400; // characters of an explanation shown before anyone asks for more
  const MOST_HITS = 2000;
  const AGENT = ["assistant", "call", "thinking"];

  // ---- What is shown -------------------------------------------------------------------------------

  // The group's text: undefined while it is read, null where the file has none; an Error where it cannot be.
  function useText(row) {
    const [found, setFound] = useState({});
    useEffect(() => {
      let wanted = true;
      const read = async () => {
        const text = await textOf(row);
        const said = text ? null : (await explanations())[row];
        if (wanted) setFound({ text, said });
      };
      read().catch((text) => wanted && setFound({ text }));
      return () => (wanted = false);
    }, [row]);
    return found;
  }

  // The rollouts of a row as values, best first; `text` has none of it where the file has not.
  function entriesOf(rows, row, text, said) {
    const scores = rows.scores[row];
    const ranks = turns.ranks(scores);
    const alike = turns.firstAlike(scores.map((_, i) => ({ lines: text?.lines?.[i] ?? [] })));
    const entries = scores.map((score, i) => {
      const told = text?.rollouts?.[i] ?? {};
      const of = (prefix, explanation, second) => ({ score: rows[`${prefix}scores`][row][i], said: explanation || second || "" });
      const own = !rows.b_scores && told.judges?.find(({ explanation }) => explanation && explanation === told.explanation);
      const opinions = [{ name: rows.b_scores ? "A" : "", by: own ? [visible(own.judge), own.score] : undefined, ...of("", told.explanation, said?.[i]) }];
      if (rows.b_scores) opinions.push({ name: "B", ...of("b_", told.second?.explanation || told.second?.reason, said?.[scores.length + i]) });
      else for (const { judge, score, explanation } of told.judges ?? []) if (explanation && explanation !== told.explanation) opinions.push({ name: visible(judge), score, said: explanation });
      return { ...told, at: i, name: `#${i + 1}`, id: rows.ids[row][i], score, rank: ranks[i], alike: alike[i], label: rows.labels[row][i],
               tied: ranks.filter((rank) => rank === ranks[i]).length > 1, bytes: rows.bytes[row][i], opinions, lines: told.lines ?? [] };
    });
    return entries.sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || a.at - b.at);
  }

  const rankOf = (e) => (e.rank === null ? "no score" : `rank ${e.rank}${e.tied ? ", tied" : ""}`);
  const scoresOf = (e) => e.opinions.filter(({ name }, i) => i === 0 || name === "B").map(({ name, score }) => `${name} ${number(score, 3)}`.trim()).join(", ");

  // What there is to know of a rollout beside its scores and turns.
  function factsOf(e) {
    const { judge_score: judged = null, slots = [], pass_scores: passes = [], judges = [], criteria = [] } = e;
    const list = (name, values) => values.length > 0 && `${name} ${values.join(", ")}`;
    return [
      e.label !== null && `reward ${reward(e.label)}`,
      judged !== null && judged !== e.score && e.opinions[1]?.name !== "B" && `the judge's own score ${number(judged, 3)}`,
      list("passes (position):", passes.map((score, i) => `${number(score, 2)} (${number(slots[i], 2)})`)),
      passes.length > 1 && `spread ${number(e.spread, 3)}`,
      list("panel:", judges.filter(({ explanation }) => !explanation).map(({ judge, score }) => `${visible(judge)} ${number(score, 2)}`)),
      list("criteria:", criteria.map(({ name, value }) => `${visible(name)} ${number(value, 2)}`)),
      many(e.lines.length, "turn"),
      bytes(e.bytes),
      e.ended && `ended: ${visible(e.ended)}`,
      e.alike !== e.at && `same text as #${e.alike + 1}`,
    ].filter(Boolean).join(" · ");
  }

  /** The groups around this one: of the table as it was last shown, or the worst first where that lacks it. */
  function neighbours(rows, row) {
    const matched = listing.order?.includes(row);
    const order = matched ? listing.order : arrange(rows, {}, new Map());
    const at = order.indexOf(row);
    return { at, of: order.length, previous: order[at - 1], next: order[at + 1], matched };
  }

  // ---- Head ----------------------------------------------------------------------------------------

  /** The group's figures in a line, without those that the file does not have. */
  function figuresInWords(rows, row, prefix = "") {
    const at = (name) => rows[prefix + name][row];
    const against = at("disagreement");
    const { prompt_tokens: read, completion_tokens: written } = at("usage");
    return [
      visible(at("judge")),
      at("passes") !== null && (at("passes") === 1 ? "1 pass" : `${whole(at("passes"))} passes`),
      at("mean") !== null && `mean ${number(at("mean"), 2)}`,
      at("sd") !== null && `sd ${number(at("sd"), 2)}`,
      at("reliability") !== null && `reliability ${number(at("reliability"), 2)}`,
      against !== null && `${percent(against)} of the pairs against their rewards`,
      at("cost_usd") && usd(at("cost_usd")),
      read + written > 0 && `${whole(read + written)} tokens`,
      at("latency_s") > FAST && seconds(at("latency_s")),
    ].filter(Boolean).join(" · ");
  }

  const About = ({ rows, row }) => html`<p class="g-meta">${figuresInWords(rows, row)}</p>`;

  function Failure({ rows, row }) {
    if (rows.status[row] !== "failed") return null;
    return html`<div class="g-notice g-failed" role="note">
      <p><b>Not scored (${visible(rows.kind[row])}):</b> <span class="g-foreign"><${Text} text=${rows.reason[row] || aboutWord(rows.kind[row])[1]} /></span></p>
      <p>The same command asks again with <code>--retry-failed</code>.</p>
    </div>`;
  }

  function CopyLink() {
    const [said, setSaid] = useState("");
    const copy = () => navigator.clipboard.writeText(location.href).then(() => setSaid("copied"), () => setSaid("copy the address of this page"));
    useEffect(() => setSaid(""), [location.hash]);
    return html`<button type="button" class="chip" data-copy aria-keyshortcuts="c" onClick=${copy}>Copy link</button> <span role="status">${said}</span>`;
  }

  function Head({ rows, row }) {
    const { at, of, previous, next, matched } = neighbours(rows, row);
    const [nth, same] = nthOfKey(rows, row);
    const step = (to, word, key) => to !== undefined && html`<a href=${groupHash(rows, to)} aria-keyshortcuts=${key}>${word}</a>`;
    return html`<header class="g-head">
      <nav aria-label="Groups" class="g-line">
        <a href=${listing.hash} aria-keyshortcuts="Escape">↑ ${listing.hash === "#groups" ? "all groups" : "the groups that matched"}</a>
        ${step(previous, "← previous", "k")} ${step(next, "next →", "j")}
        <span class="muted">${whole(at + 1)} of ${whole(of)}${matched ? "" : ", the worst first"}</span>
        ${same > 1 && html`<span class="warn">Group ${nth} of ${same} with the same key.</span>`}
      </nav>
      <div class="g-line">
        <h2 tabindex="-1">Group <bdi class="g-key">${visible(rows.key[row])}</bdi></h2>
        ${flagsOf(rows, row).map(([words, why, tone]) => html`<span key=${words} class=${`mark ${tone}`} title=${why}>${words}</span>`)}
        <${marks.OfGroup} row=${row} /><${CopyLink} />
      </div>
      ${rows.task[row] && html`<p class="g-foreign g-task"><${Folded} text=${rows.task[row]} most=${OPINION} /></p>`}
      <${instead.Failure ?? Failure} rows=${rows} row=${row} />
      <${instead.About ?? About} rows=${rows} row=${row} />
    </header>`;
  }

  // ---- What they did -------------------------------------------------------------------------------

  // What all rollouts in sight share, once; a `brief` one is open where it is short.
  function Shared({ name, note, lines, pictures, brief, children }) {
    if (!lines.length) return null;
    return html`<details class="g-shared" open=${(brief && lines.join("").length <= SHORT) || paper.printing}>
      <summary>${name} <span class="muted">${note}</span></summary>
      ${children ?? html`<${Later} rem=${lines.length} soon=${lines.length <= SEARCHABLE}>${() => html`<${TurnList} lines=${lines} pictures=${pictures} />`}<//>`}
    </details>`;
  }

  /** A rollout in the head of its column, which stays in sight: its name, its scores, its marks. */
  const Title = ({ row, e, chosen }) => html`<div class=${`g-title${chosen ? " g-chosen" : ""}`} data-rollout=${e.at + 1} tabindex="-1" aria-label=${`rollout ${e.at + 1}, ${rankOf(e)}`} role="group">
    <h4>${e.name} <b>${scoresOf(e)}</b> <span class="muted">${rankOf(e)}</span></h4>
    <${marks.OfRollout} row=${row} e=${e} />
  </div>`;

  /** What is known of a rollout, and what its judges say. */
  const Opinions = ({ e }) => html`<div class="g-about">
    <p class="muted">${factsOf(e)}</p>
    ${e.suspect && html`<p class="warn">Has text that addresses the judge.</p>`}
    ${e.reason && html`<p class="g-foreign warn"><${Folded} text=${e.reason} most=${OPINION} /></p>`}
    ${e.opinions.map(({ name, score, said, by = [name, score] }) => said && html`<blockquote class="g-foreign" key=${name}>
      ${by[0] && html`<b>${by[0]} ${number(by[1], 3)}</b> `}<${Folded} text=${said} most=${OPINION} /></blockquote>`)}
  </div>`;

  /** The turns of a rollout from one on in steps: each begins with what the agent does after something else. */
  function stepsOf(lines, from) {
    const steps = [];
    let before = false;
    lines.slice(from).forEach((line, i) => {
      const acts = AGENT.includes(turns.turnOf(line).kind);
      if (!steps.length || (acts && !before)) steps.push({ first: from + i + 1, lines: [] });
      steps.at(-1).lines.push(line);
      before = acts;
    });
    return steps;
  }

  /** Rollouts beside one another: what all of them begin with once, then step by step; the page scrolls. */
  function Columns({ row, shown, text, chosen }) {
    const { strings = [], pictures } = text ?? {};
    const common = shown.length > 1 ? Math.min(...shown.map((e) => turns.parting(shown[0].lines, e.lines))) : 0;
    const columns = useMemo(() => shown.map((e) => stepsOf(e.lines.map((index) => strings[index]), common)), [text, common, ...shown]);
    const rows = useMemo(() => turns.aligned(columns.map((steps) => steps.map(({ lines }) => lines))), [columns]);
    const ends = columns.map((steps, i) => rows.findLastIndex((row) => row[i] !== null) + 1);
    const { length } = rows;
    const soon = shown.reduce((n, e) => n + e.lines.length, 0) <= SEARCHABLE;
    const rowOf = (at) => html`<div key=${at} class="g-row">${columns.map((steps, i) => html`<div key=${i}>
      ${(rows[at][i] ?? null) !== null && html`<${TurnList} ...${steps[rows[at][i]]} pictures=${pictures} />`}
      ${at === ends[i] && html`<p class="muted">${shown[i].name} has ended.</p>`}</div>`)}</div>`;
    const chunks = [];
    for (let from = 0; from < length; from += CHUNK) {
      const ofChunk = Array.from({ length: Math.min(CHUNK, length - from) }, (_, i) => from + i);
      chunks.push(html`<${Later} key=${`${shown.map((e) => e.at)}-${from}`} rem=${ofChunk.length * REM_OF_A_ROW} soon=${soon}>${() => ofChunk.map(rowOf)}<//>`);
    }
    return html`<div class="g-columns" style=${{ "--n": shown.length }}>
      <div class="g-row g-titles">${shown.map((e) => html`<${Title} key=${e.at} row=${row} e=${e} chosen=${e.at === chosen} />`)}</div>
      <div class="g-row">${shown.map((e) => html`<${Opinions} key=${e.at} e=${e} />`)}</div>
      ${common > 0 && html`<${Shared} brief=${true} name="All of them begin alike" note=${many(common, "turn")} lines=${shown[0].lines.slice(0, common).map((index) => strings[index])} pictures=${pictures} />`}
      ${chunks}
    </div>`;
  }

  /** The rollouts to show: the best, and those that were chosen last; filled up in their order. */
  function inSight(entries, recent, chosen) {
    const room = Math.min(entries.length, innerWidth < ONE ? 1 : innerWidth < TWO ? 2 : THREE);
    const best = entries[0].at;
    if (room === 1) return [entries.find((e) => e.at === chosen) ?? entries[0]];
    const picked = [best, ...recent.filter((at) => at !== best).slice(1 - room)];
    const rest = entries.map((e) => e.at).filter((at) => !picked.includes(at));
    const from = entries.findIndex((e) => e.at === picked.at(-1));
    const ordered = [...rest.filter((at) => entries.findIndex((e) => e.at === at) > from), ...rest.reverse()];
    const shown = [...picked, ...ordered].slice(0, room);
    return entries.filter((e) => shown.includes(e.at));
  }

  /** All rollouts as links, best first: a click puts one among those in sight. */
  function Picks({ rows, row, entries, shown, chosen }) {
    const pick = (e) => html`<a key=${e.at} class="chip" href=${groupHash(rows, row, e.id)} aria-current=${shown.includes(e) ? "true" : undefined}
      aria-label=${`rollout ${e.at + 1}, ${rankOf(e)}`}>${e.name} <b>${scoresOf(e)}</b>${e.label !== null && html` <span class="muted">reward ${reward(e.label)}</span>`}</a>`;
    return html`<nav class="chips" aria-label="Rollouts">${entries.map(pick)}
      ${shown.length < entries.length && html`<span class="muted g-keys">← → for the others</span>`}</nav>`;
  }

  /** Mark what was searched in all that is shown; a button leads to the first hit. */
  function Hits({ box }) {
    const [first, setFirst] = useState(null);
    const { words } = listing;
    useEffect(() => {
      if (!words.length || !window.Highlight) return undefined;
      let pause = 0;
      const mark = () => {
        if (!box.current) return; // the group was left, and this effect has not ended yet
        const ranges = [];
        const walker = document.createTreeWalker(box.current.querySelector(".g-columns") ?? box.current, NodeFilter.SHOW_TEXT);
        while (walker.nextNode() && ranges.length < MOST_HITS) {
          const text = walker.currentNode.data.toLowerCase();
          if (text.length !== walker.currentNode.length) continue;
          for (const word of words) {
            for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
              const range = new Range();
              range.setStart(walker.currentNode, at);
              range.setEnd(walker.currentNode, at + word.length);
              ranges.push(range);
            }
          }
        }
        CSS.highlights.set("search", new Highlight(...ranges));
        setFirst(ranges.find((range) => range.startContainer.parentElement.checkVisibility()) ?? null);
      };
      const watch = new MutationObserver(() => {
        clearTimeout(pause);
        pause = setTimeout(mark, 100);
      });
      watch.observe(box.current, { childList: true, subtree: true });
      mark();
      return () => {
        watch.disconnect();
        clearTimeout(pause);
        CSS.highlights.delete("search");
      };
    }, [words.join(" ")]);
    return first && html`<button type="button" class="chip" onClick=${() => first.startContainer.parentElement.scrollIntoView({ block: "center" })}>
      first “${visible(words.join(" "))}” ↓</button>`;
  }

  // ---- The page ------------------------------------------------------------------------------------

  /** j, k: another group; ← →: another rollout; letters of marks; not while something is typed. */
  function useKeys(keys) {
    const latest = useRef(null);
    latest.current = keys;
    // at once: a key that is pressed before the next frame must not get lost
    useLayoutEffect(() => {
      const pressed = (event) => {
        if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.target.closest?.("input, select, textarea, dialog")) return;
        if (latest.current(event.key)) event.preventDefault();
      };
      addEventListener("keydown", pressed);
      return () => removeEventListener("keydown", pressed);
    }, []);
  }

  // `row` is the group's index in the rows, `route` what the address asks for. On paper all rollouts stand one under another.
  function Group({ data: { rows }, route: asked, row }) {
    const { text, said } = useText(row);
    const entries = useMemo(() => entriesOf(rows, row, text, said), [row, text, said]);
    const box = useRef(null);
    const recent = useRef([]);
    const chosen = asked.id ? entries.find((e) => e.id === asked.id)?.at : undefined;
    if (chosen !== undefined) recent.current = [...recent.current.filter((at) => at !== chosen), chosen];
    const shown = inSight(entries, recent.current, chosen);
    const current = entries.find((e) => e.at === chosen) ?? shown[0];
    const choose = (e) => e && go(groupHash(rows, row, e.id), { replace: true }); // no step back for each rollout looked at
    const walk = (to) => to !== undefined && go(groupHash(rows, to));
    useKeys((key) => {
      const { previous, next } = neighbours(rows, row);
      const at = entries.indexOf(current);
      if (key === "j") walk(next);
      else if (key === "k") walk(previous);
      else if (key === "ArrowRight") choose(entries[at + 1]);
      else if (key === "ArrowLeft") choose(entries[at - 1]);
      else if (key === "c") box.current.querySelector("[data-copy]").click();
      else return marks.press(key, row, current);
      return true;
    });
    const damaged = text instanceof Error;
    const tools = text?.tools ? text.tools.split("\n") : [];
    return html`<article class="group-page" ref=${box}>
      <${Head} rows=${rows} row=${row} />
      ${asked.id && chosen === undefined && html`<p class="g-notice" role="note">The link asks for a rollout (${visible(asked.id)}) that is not in this report.</p>`}
      ${text === undefined && html`<p role="status">Reading the text …</p>`}
      ${text === null && html`<p class="g-notice">Its text was left out of this file; <code>ruler report … --group KEY</code> shows it.</p>`}
      ${damaged && html`<p class="g-notice g-failed" role="alert">The text of this group cannot be read: the file was damaged or cut.</p>`}
      ${text && !damaged && html`<div class="g-shares">
        <${Shared} name="Rubric" note="of this group" lines=${text.rubric ? [text.rubric] : []}><p class="g-foreign"><${Folded} text=${text.rubric} /></p><//>
        <${Shared} name="Shared context" note=${many(text.context.length, "turn")} lines=${text.context} pictures=${text.pictures} />
        <${Shared} name="Tools" note=${whole(tools.length)} lines=${tools} />
      </div>`}
      <section aria-label="Rollouts">
        <div class="g-line"><h3>Rollouts</h3><${Picks} ...${{ rows, row, entries, shown, chosen }} /><${Hits} box=${box} /></div>
        ${paper.printing ? entries.map((e) => html`<${Columns} key=${e.at} row=${row} shown=${[e]} text=${text} />`)
          : html`<${Columns} ...${{ row, shown, text, chosen: current.at }} />`}
      </section>
    </article>`;
  }

  return Object.assign(Group, { figuresInWords, factsOf });
})();
