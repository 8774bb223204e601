"use strict";

// Marks and notes of people on groups and rollouts: kept in the browser, saved and opened as JSON lines
// (results/labels.py reads them), shown in the table and on a group's page.
const marks = (() => {
  const { useState, useLayoutEffect, useRef } = lib;
  const { Text } = turnlist;
  const KEYS = { reviewed: "r", good: "g", bad: "b" };
  const MEANS = { reviewed: "you have looked at the group", good: "it does the task: the label 1", bad: "it does not: the label 0" };
  const STORED = "ruler-marks";
  const NAME = "ruler-name";
  const LONGEST = 4000; // characters of a note, as labels.py takes them
  const MOST_PEOPLE = 50; // whose marks are shown at one place

  /**
   * What people say, by group, rollout (empty for the group) and person (empty for that of this browser): lines of
   * marks.jsonl. `of` are ids of rollouts of a group, as another file may have another group of that key.
   */
  let held = new Map();
  const state = { name: "", kept: true, saved: true, message: "", version: 0, ofRows: null };
  const listeners = new Set();

  function changed() {
    state.version += 1;
    state.ofRows = null;
    listeners.forEach((listener) => listener({}));
  }

  /** Draw a component anew with each change; the number of changes. */
  function useMarks() {
    const [, set] = useState({});
    useLayoutEffect(() => {
      listeners.add(set);
      return () => listeners.delete(set);
    }, []);
    return state.version;
  }

  const keyOf = ({ group, rollout = "", by = "" }) => JSON.stringify([group, rollout, by]);
  const mine = (group, rollout) => held.get(keyOf({ group, rollout }));
  const idsOf = (group) => (rowsByKey(opened.rows).get(group) ?? []).flatMap((i) => opened.rows.ids[i]);

  /** Take lines: of a person's on one thing the latest, or else the last, counts. */
  function merge(lines) {
    for (const line of lines) {
      const now = held.get(keyOf(line));
      if (!now || (Date.parse(line.at) || 0) >= (Date.parse(now.at) || 0)) held.set(keyOf(line), line);
    }
    changed();
  }

  const isText = (value) => value === undefined || (typeof value === "string" && value.length <= LONGEST);

  /** The marks in a text of JSON lines, and how many lines are none. */
  function parse(text) {
    const lines = [];
    let others = 0;
    for (const json of text.split("\n").filter((line) => line.trim())) {
      try {
        const line = JSON.parse(json);
        const fits = typeof line.group === "string" && !("choice" in line) && ["rollout", "mark", "note", "by", "at"].every((name) => isText(line[name]));
        if (!fits) throw new Error();
        lines.push(line);
      } catch {
        others += 1;
      }
    }
    return [lines, others];
  }

  const asText = (lines) => lines.map((line) => `${JSON.stringify(line)}\n`).join("").toWellFormed();

  /** Read what the browser keeps, also what another window has written. */
  function load() {
    try {
      state.name = localStorage.getItem(NAME) ?? "";
      merge(parse(localStorage.getItem(STORED) ?? "")[0]);
    } catch {
      state.kept = false; // refused
    }
  }

  function keep() {
    try {
      localStorage.setItem(NAME, state.name);
      localStorage.setItem(STORED, asText([...held.values()]));
    } catch {
      state.kept = false; // refused, or full
    }
    state.saved = false;
  }

  /** Change what this browser's person says. */
  function set(group, rollout, change) {
    load();
    const { label, ...now } = { mark: "", note: "", ...mine(group, rollout) };
    // the label of an opened line is that of its word
    if (label !== undefined && !("mark" in change)) now.label = label;
    const time = `${new Date().toISOString().slice(0, 19)}Z`;
    const line = { ...now, ...change, group, rollout, by: "", at: now.at > time ? now.at : time };
    if (!rollout) line.of = idsOf(group).slice(0, 64);
    merge([line]);
    keep();
  }

  const toggle = (group, rollout, mark) => set(group, rollout, { mark: mine(group, rollout)?.mark === mark ? "" : mark });

  async function open(files) {
    const before = held.size;
    let others = 0;
    for (const file of files) {
      const [lines, unread] = parse(await file.text());
      merge(lines.map((line) => (line.by === state.name ? { ...line, by: "" } : line)));
      others += unread;
    }
    keep();
    state.message = `${many(held.size - before, "new mark")}${others ? `; ${many(others, "line")} with no mark` : ""}`;
    changed();
  }

  function save() {
    const lines = [...held.values()].map(({ of: _, ...line }) => ({ ...line, by: line.by || state.name }));
    download(asText(lines), "marks.jsonl");
    state.saved = true;
  }

  // ---- In the table --------------------------------------------------------------------------------

  /** What is said of each row, of its group and of its rollouts. */
  function ofRows() {
    if (state.ofRows) return state.ofRows;
    state.ofRows = new Map();
    for (const line of held.values()) {
      if (!line.mark && !line.note) continue;
      for (const i of rowsByKey(opened.rows).get(line.group) ?? []) {
        const has = (id) => opened.rows.ids[i].includes(id);
        if (line.rollout ? !has(line.rollout) : line.of && !line.of.some(has)) continue;
        if (!state.ofRows.has(i)) state.ofRows.set(i, []);
        state.ofRows.get(i).push(line);
      }
    }
    return state.ofRows;
  }

  const isReviewed = (i) => (ofRows().get(i) ?? []).some(({ rollout, mark }) => !rollout && mark);
  const TESTS = {
    reviewed: isReviewed,
    unreviewed: (i) => !isReviewed(i),
    good: (i) => (ofRows().get(i) ?? []).some(({ mark }) => mark === "good"),
    bad: (i) => (ofRows().get(i) ?? []).some(({ mark }) => mark === "bad"),
    noted: (i) => (ofRows().get(i) ?? []).some(({ note }) => note),
  };
  const isWord = (i, word) => Object.hasOwn(TESTS, word) && TESTS[word](i);

  /** How many rows each word is true of. */
  const tally = () => Object.entries(TESTS).map(([word, test]) => [word, opened.rows.key.filter((_, i) => test(i)).length]);

  const inWords = ({ by, mark = "", note = "" }) => `${visible(by || state.name || "you")}: ${[mark, note].filter(Boolean).map(visible).join(", ")}`;

  /** What people say of a row, as the flags of the table: `[words, sentence, class]`. */
  function flagsOf(i) {
    const lines = ofRows().get(i) ?? [];
    const words = [...new Set(lines.map(({ mark, note }) => (mark ? visible(mark) : note && "✎")))];
    return lines.length ? [[words.join(" · "), lines.map(inWords).join("\n").slice(0, LONGEST), "own"]] : [];
  }

  /** A name, and files of marks to save and to open: folded above the table. */
  function Files() {
    useMarks();
    const picker = useRef(null);
    const rename = (event) => {
      state.name = event.target.value.trim();
      keep();
    };
    const onChange = async ({ target }) => {
      await open([...target.files]);
      target.value = "";
    };
    return html`<details class="add" id="marks"><summary>Marks and notes${held.size > 0 && html` <span class="n">${whole(held.size)}</span>`}</summary>
      <p>On a group's page r marks the group as reviewed, g and b a rollout as good or bad, n writes a note. ${state.kept ? "They are kept in this browser; save them to hand them on."
        : html`<span class="warn">This browser does not keep them: they last as long as this page.</span>`}</p>
      <label>Your name <input value=${state.name} maxlength="80" onChange=${rename} autocomplete="off" /></label>
      <button type="button" disabled=${!held.size} onClick=${save}>Save marks.jsonl</button>
      <button type="button" onClick=${() => picker.current.click()}>Open marks …</button>
      <input ref=${picker} type="file" hidden multiple accept=".jsonl" aria-label="Files of marks" onChange=${onChange} />
      <span role="note">${state.message}</span>
    </details>`;
  }

  // ---- On a group's page ---------------------------------------------------------------------------

  /** Words to mark a group or a rollout with, a note on it, and what others say of it. */
  function Marks({ row, rollout = "", what, words }) {
    useMarks();
    const [writing, setWriting] = useState(false);
    const field = useRef(null);
    useLayoutEffect(() => writing && field.current.focus(), [writing]);
    const group = opened.rows.key[row];
    const { mark, note = "" } = mine(group, rollout) ?? {};
    const others = (ofRows().get(row) ?? []).filter((line) => line.by && (line.rollout ?? "") === rollout);
    const onKeyDown = (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      setWriting(false);
      document.querySelector("main").focus({ preventScroll: true });
    };
    return html`<div class="m-marks" role="group" aria-label=${`Marks of ${what}`}>
      ${words.map((word) => html`<button key=${word} type="button" class=${`chip m-${word}`} title=${MEANS[word]} aria-label=${`${word}: ${what}`}
        aria-pressed=${mark === word ? "true" : "false"} onClick=${() => toggle(group, rollout, word)}>${word}</button>`)}
      <button type="button" class="chip" data-note aria-expanded=${writing} aria-label=${`note on ${what}`} onClick=${() => setWriting(!writing)}>✎ note</button>
      ${writing ? html`<textarea ref=${field} rows="3" maxlength=${LONGEST} aria-label=${`Note on ${what}`} value=${note} placeholder="Kept as you write; Esc leaves"
        onKeyDown=${onKeyDown} onInput=${(event) => set(group, rollout, { note: event.target.value })}></textarea>`
        : note && html`<p class="m-note g-foreign"><${Text} text=${note} /></p>`}
      ${others.slice(0, MOST_PEOPLE).map((line) => html`<p key=${line.by} class="m-note g-foreign">${inWords(line)}</p>`)}
    </div>`;
  }

  function OfGroup({ row }) {
    useMarks();
    return html`<${Marks} row=${row} what="the group" words=${["reviewed"]} />
      ${!state.kept && held.size > 0 && html`<p class="warn">This browser does not keep your marks: save them above the table.</p>`}`;
  }

  const OfRollout = ({ row, e }) => html`<${Marks} row=${row} rollout=${e.id} what=${`rollout ${e.at + 1}`} words=${["good", "bad"]} />`;

  /** Do what a key stands for, to the group of a row or to the rollout `e`; true if it is a key of marks. */
  function press(key, row, e) {
    const word = Object.keys(KEYS).find((name) => KEYS[name] === key);
    if (word) toggle(opened.rows.key[row], word === "reviewed" ? "" : e.id, word);
    else if (key === "n" || key === "N") document.querySelector(`${key === "N" ? ".g-head" : `[data-rollout="${e.at + 1}"]`} [data-note]`)?.click();
    else return false;
    return true;
  }

  /** Read what is kept, and follow what other pages change. */
  function start() {
    load();
    addEventListener("storage", load);
    addEventListener("beforeunload", (event) => { if (!state.kept && !state.saved) event.preventDefault(); });
  }

  return { isWord, tally, flagsOf, Files, OfGroup, OfRollout, press, useMarks, start };
})();
