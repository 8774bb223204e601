"use strict";

// Marks and notes of people on groups and rollouts: kept in the browser, saved and opened as JSON lines
// (results/labels.py reads them), shown in the table and on a group's page.
const marks = (() => {
  const { useState, useLayoutEffect, useRef } = lib;
  const { Text } = turnlist;

  /** Words for a group, and what each says; anyone may use others. */
  const WORDS_OF_GROUP = {
    reviewed: "somebody has looked at it",
    misjudged: "the judge's scores are wrong",
    broken: "the task or its reward is at fault",
    hacked: "a rollout gets its reward without doing the task",
  };
  const WORDS_OF_ROLLOUT = { good: ["g", "it does the task: the label 1"], bad: ["b", "it does not: the label 0"] };
  const LONGEST = 4000; // characters of a text in a line, as labels.py takes them
  const LONGEST_WORD = 40;
  const LONGEST_NAME = 80;
  const MOST_BYTES = 32 << 20; // of a file
  const MOST_IDS = 64; // of a group, by which it is known
  const MOST_PEOPLE = 50; // whose marks are shown at one place
  const MOST_WORDS = 20; // to filter by
  const LONGEST_TITLE = 2000;
  const LARGEST = 1e50; // of a label, as annotations.py takes it
  const PREFIX = "ruler-mark "; // of the storage's keys; then [group, rollout, person] as JSON
  const NAME = "ruler-name";
  const ME = null; // the person of this browser, whatever the name

  /**
   * @typedef {Object} Line what a person says of a group or a rollout; with neither a mark nor a note: nothing any more
   * @property {string} mark a word
   * @property {string} note
   * @property {string} at a time as ISO 8601
   * @property {string[]} [of] of a group: ids of its rollouts, as another file may have a group of that key
   * `label`, `drawn` and `chance` are those of a line that was opened.
   */

  const held = new Map(); // "ROLLOUT GROUP" → people → Line
  const state = { name: null, kept: true, saved: true, writing: "", message: "", about: null, version: 0 };
  const listeners = new Set();

  /** Draw what shows marks or messages anew. */
  const tell = () => listeners.forEach((listener) => listener({}));

  function changed() {
    state.version += 1;
    shownColumns.delete(opened.rows);
    tell();
  }

  /** Draw a component anew with each change; the number of changes of marks. */
  function useMarks() {
    const [, set] = useState({});
    useLayoutEffect(() => {
      listeners.add(set);
      return () => listeners.delete(set);
    }, []);
    return state.version;
  }

  /** Show a message on the page of a group, or with none in the dialog. */
  function say(message, about = null) {
    Object.assign(state, { message, about });
    tell();
  }

  // ---- What is held --------------------------------------------------------------------------------

  const thing = (group, rollout) => `${rollout} ${group}`;
  const parts = (of) => [of.slice(of.indexOf(" ") + 1), of.slice(0, of.indexOf(" "))];
  const speaks = (line) => Boolean(line && (line.mark || line.note || line.label !== undefined));
  const mine = (group, rollout) => held.get(thing(group, rollout))?.get(ME);

  /** What people say of a group or a rollout, as [person, line], this browser's first. */
  function saidOf(group, rollout) {
    const people = [...(held.get(thing(group, rollout)) ?? [])].filter(([, line]) => speaks(line));
    return people.sort(([a], [b]) => (a === ME ? -1 : b === ME ? 1 : a < b ? -1 : 1));
  }

  const nameOf = (person) => (person === ME ? state.name || "you" : visible(person) || "no name");

  const idsByKey = new Map();

  /** The ids of the rollouts of all groups of a key. */
  function idsOf(group) {
    const { rows } = opened;
    if (!idsByKey.has(group)) idsByKey.set(group, new Set((rowsByKey(rows).get(group) ?? []).flatMap((i) => rows.ids[i])));
    return idsByKey.get(group);
  }

  /** Whether this report has what a line is about; a group is known by one of its rollouts. */
  function isHere(group, rollout, of = []) {
    const ids = idsOf(group);
    if (rollout) return ids.has(rollout);
    return rowsByKey(opened.rows).has(group) && (!of.length || of.some((id) => ids.has(id)));
  }

  const signOf = (group) => [...idsOf(group)].slice(0, MOST_IDS);

  function put(group, rollout, person, line) {
    const of = thing(group, rollout);
    if (!held.has(of)) held.set(of, new Map());
    held.get(of).set(person, line);
  }

  const timeOf = (line) => Date.parse(line?.at) || 0;

  /** Take a line, unless the same person has one that is as late; false if so. */
  function merge(group, rollout, person, line) {
    const now = held.get(thing(group, rollout))?.get(person);
    if (timeOf(now) && timeOf(now) >= timeOf(line)) return false;
    put(group, rollout, person, line);
    return true;
  }

  // ---- The browser's storage -----------------------------------------------------------------------

  /** Try something with the storage; where it is refused or full, marks last as long as the page. */
  function stored(work) {
    try {
      return work(localStorage);
    } catch {
      state.kept = false;
      return undefined;
    }
  }

  const keyOf = (group, rollout, person) => PREFIX + JSON.stringify([group, rollout, person]);

  function keep(group, rollout, person) {
    const line = held.get(thing(group, rollout)).get(person);
    stored((storage) => storage.setItem(keyOf(group, rollout, person), JSON.stringify(line)));
    state.saved = false;
  }

  /** Read what the storage has of this report's groups. */
  function load() {
    stored((storage) => {
      state.name = storage.getItem(NAME);
      for (const key of Object.keys(storage)) if (key.startsWith(PREFIX)) read(key, storage.getItem(key));
    });
  }

  /** Read one entry of the storage; null where it is gone. */
  function read(key, text) {
    try {
      const [group, rollout, by] = JSON.parse(key.slice(PREFIX.length));
      const person = by === state.name ? ME : by;
      if (text === null) return void held.get(thing(group, rollout))?.delete(person);
      const value = JSON.parse(text);
      const { line } = lineOf({ ...value, group, rollout, by: by ?? "" });
      if (Array.isArray(value.of)) line.of = value.of;
      if (!isHere(group, rollout, line.of)) return;
      if (by === person) put(group, rollout, person, line);
      else merge(group, rollout, person, line);
    } catch {
      // not written by this page
    }
  }

  /** Change what this browser's person says. */
  function set(group, rollout, change) {
    const now = { mark: "", note: "", ...mine(group, rollout) };
    if (Object.hasOwn(change, "mark")) delete now.label; // it was that of the word before
    const line = { ...now, ...change, at: `${new Date().toISOString().slice(0, 19)}Z` };
    if (!rollout) line.of = signOf(group);
    put(group, rollout, ME, line);
    keep(group, rollout, ME);
    changed();
  }

  /** Give this browser's person a name; what stands under it is then theirs. */
  function rename(name) {
    state.name = name.trim();
    stored((storage) => storage.setItem(NAME, state.name));
    for (const [of, people] of held) {
      const line = state.name && people.get(state.name);
      if (!line) continue;
      const [group, rollout] = parts(of);
      forget(group, rollout, state.name);
      if (merge(group, rollout, ME, line)) keep(group, rollout, ME);
    }
    changed();
    say(state.name ? `Your marks are saved with the name ${visible(state.name)}.` : "Your marks are saved without a name.");
  }

  function forget(group, rollout, person) {
    held.get(thing(group, rollout)).delete(person);
    stored((storage) => storage.removeItem(keyOf(group, rollout, person)));
  }

  function forgetPerson(person) {
    for (const [of, people] of held) if (people.has(person)) forget(...parts(of), person);
    changed();
    say(`The marks of ${nameOf(person)} are removed.`);
  }

  // ---- Files ---------------------------------------------------------------------------------------

  /** A parsed line of a file as {group, rollout, by, line}; null for a comparison; an Error says why it is neither. */
  function lineOf(value) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("is not a JSON object");
    const given = (name) => (Object.hasOwn(value, name) ? (value[name] ?? "") : "");
    const text = (name) => {
      const found = given(name);
      const fits = typeof found === "string" && [...found.slice(0, 2 * LONGEST + 1)].length <= LONGEST;
      if (!fits) throw new Error(`has a \`${name}\` that is not text of ${number(LONGEST)} letters`);
      return found;
    };
    if (typeof given("group") !== "string" || !Object.hasOwn(value, "group")) throw new Error("has no `group`");
    if (Object.hasOwn(value, "choice")) return null;
    const line = { mark: text("mark"), note: text("note"), at: text("at") };
    if (text("drawn")) line.drawn = text("drawn");
    for (const [name, least, most] of [["label", -LARGEST, LARGEST], ["chance", Number.MIN_VALUE, 1]]) {
      const found = given(name);
      if (found === "") continue;
      if (typeof found !== "number" || found < least || found > most) throw new Error(`has a \`${name}\` that is no number, or not in its bounds`);
      line[name] = found;
    }
    return { group: value.group, rollout: text("rollout"), by: text("by"), line };
  }

  function parseLine(text, place) {
    try {
      return lineOf(JSON.parse(text));
    } catch (error) {
      throw new Error(`${place} ${error instanceof SyntaxError || error instanceof RangeError ? "is not JSON" : error.message}`);
    }
  }

  /** The lines of files, of a person's lines on one thing the latest; an Error names the file and the line that is wrong. */
  async function readFiles(files) {
    const latest = new Map();
    let comparisons = 0;
    for (const file of files) {
      if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${bytes(file.size)}, more than ${bytes(MOST_BYTES)}`);
      const lines = (await file.text()).split("\n");
      for (let i = 0; i < lines.length; i++) {
        if (!lines[i].trim()) continue;
        const one = parseLine(lines[i], `${file.name}, line ${number(i + 1)}`);
        const key = one && keyOf(one.group, one.rollout, one.by);
        if (!one) comparisons += 1;
        else if (!timeOf(one.line) || timeOf(latest.get(key)?.line) <= timeOf(one.line)) latest.set(key, one);
      }
    }
    return { found: [...latest.values()], comparisons };
  }

  /** Merge files into what is held, and say in a sentence what came of it. */
  async function open(files) {
    let lines;
    try {
      lines = await readFiles(files);
    } catch (error) {
      return say(`${visible(error.message)}. Nothing was changed.`);
    }
    const count = { taken: 0, older: 0, elsewhere: 0 };
    for (const { group, rollout, by, line } of lines.found) {
      const person = by === (state.name ?? "") ? ME : by;
      if (!isHere(group, rollout)) count.elsewhere += 1;
      else if (!merge(group, rollout, person, rollout ? line : { ...line, of: signOf(group) })) count.older += 1;
      else {
        count.taken += 1;
        keep(group, rollout, person);
      }
    }
    changed();
    const parts = [
      `${many(count.taken, "mark")} added`,
      count.older && `${number(count.older)} as new here, or newer`,
      count.elsewhere && `${number(count.elsewhere)} on groups or rollouts that are not in this report`,
      lines.comparisons && `${many(lines.comparisons, "comparison")} left aside`,
    ];
    return say(`${parts.filter(Boolean).join(", ")}.`);
  }

  /** All that is held as JSON lines, in the order of the report; what was taken back stands as an empty line of its person. */
  function* linesOf(rows) {
    const done = new Set();
    for (let i = 0; i < rows.key.length; i++) {
      for (const rollout of ["", ...rows.ids[i]]) {
        const of = thing(rows.key[i], rollout);
        if (done.has(of)) continue;
        done.add(of);
        for (const [person, { of: _, mark, note, at, ...more }] of held.get(of) ?? []) {
          const line = { group: rows.key[i], rollout, mark, note, by: person ?? state.name ?? "", at, ...more };
          yield JSON.stringify(line, (_, value) => (typeof value === "string" ? wellFormed(value) : value));
        }
      }
    }
  }

  function save() {
    download([...linesOf(opened.rows)].map((line) => `${line}\n`).join(""), "marks.jsonl");
    state.saved = true;
    say("Written to marks.jsonl.");
  }

  // ---- In the table --------------------------------------------------------------------------------

  const WHERE = {
    reviewed: ["reviewed", "somebody has given it a word"],
    unreviewed: ["unreviewed", "nobody has given it a word yet"],
    noted: ["with a note", "there is a note on it or on one of its rollouts"],
  };
  let counted = { version: -1 };

  /** The rows by state and by word, for filters; made once for each change. */
  function rowsByWord() {
    if (counted.version === state.version) return counted;
    counted = { version: state.version, where: { reviewed: new Set(), noted: new Set() }, mark: new Map() };
    for (const [of, people] of held) {
      const [group, rollout] = parts(of);
      const rows = rowsByKey(opened.rows).get(group).filter((i) => !rollout || opened.rows.ids[i].includes(rollout));
      for (const { mark, note } of people.values()) {
        const sets = [mark && !rollout && counted.where.reviewed, note && counted.where.noted];
        if (mark) sets.push(counted.mark.get(mark) ?? counted.mark.set(mark, new Set()).get(mark));
        for (const found of sets.filter(Boolean)) rows.forEach((i) => found.add(i));
      }
    }
    return counted;
  }

  const isWhere = (i, word) => (word === "unreviewed" ? !rowsByWord().where.reviewed.has(i) : rowsByWord().where[word].has(i));
  const isMarked = (i, words) => words.some((word) => rowsByWord().mark.get(word)?.has(i));
  const isOurs = (word) => Object.hasOwn(WHERE, word);

  /** Words of `where` in two lists, of which a row fulfils one word each: those of marks, and the others. */
  const parted = (words) => [words.filter(isOurs), words.filter((word) => !isOurs(word))].filter((part) => part.length);

  /** Filters by marks, once there are any or the address asks for them. */
  function Filters({ rows, conditions }) {
    useMarks();
    const { where, mark } = rowsByWord();
    const asked = { where: conditions.where ?? [], mark: conditions.mark ?? [] };
    const counts = { reviewed: where.reviewed.size, unreviewed: mark.size && rows.key.length - where.reviewed.size, noted: where.noted.size };
    const common = [...mark.keys()].filter((word) => !isOurs(word)).sort((a, b) => mark.get(b).size - mark.get(a).size);
    const words = [...new Set([...common.slice(0, MOST_WORDS), ...asked.mark])].sort();
    const chips = [
      ...Object.entries(WHERE).map(([word, [title, why]]) => ["where", word, title, why, counts[word]]),
      ...words.map((word) => ["mark", word, visible(word), "a group or one of its rollouts has this mark", mark.get(word)?.size ?? 0]),
    ].filter(([name, word, , , count]) => count || asked[name].includes(word));
    if (!chips.length) return null;
    return html`<div class="chips" role="group" aria-label="filter by marks">
      <span class="chips-name">marks</span>
      ${chips.map(([name, word, title, why, count]) => html`<button key=${name + word} type="button" class="chip" title=${why}
        aria-pressed=${asked[name].includes(word) ? "true" : "false"} onClick=${() => go(link(toggled(conditions, name, word)))}>
        ${title} <span class="n">${number(count, 0)}</span></button>`)}
    </div>`;
  }

  const times = (n, word) => (n ? `${number(n)} ${word}` : "");

  /** What people say of a row in a word or two, as the flags of the table: `[words, sentence, class]`. */
  function flagsOf(rows, i) {
    if (!held.size) return [];
    const group = rows.key[i];
    const own = saidOf(group, "");
    const all = [...own, ...new Set(rows.ids[i])].flatMap((id) => (typeof id === "string" ? saidOf(group, id) : [id]));
    if (!all.length) return [];
    const words = [...new Set(own.map(([, line]) => line.mark).filter(Boolean))];
    const count = (word) => all.slice(own.length).filter(([, line]) => line.mark === word).length;
    const parts = [...words.map((word) => `✓ ${visible(word)}`), times(count("good"), "good"), times(count("bad"), "bad"), all.some(([, line]) => line.note) && "✎"];
    const said = all.map(([person, { mark, note }]) => `${nameOf(person)}: ${[visible(mark), visible(note)].filter(Boolean).join(", ")}`);
    return [[parts.filter(Boolean).join(" · ") || "marked", said.join("\n").slice(0, LONGEST_TITLE), "own"]];
  }

  // ---- On a group's page ---------------------------------------------------------------------------

  /** What others say: with their names, to read only. */
  function Others({ group, rollout }) {
    const others = saidOf(group, rollout).filter(([person]) => person !== ME);
    const more = others.splice(MOST_PEOPLE).length;
    return html`${others.map(([person, { mark, note, label }]) => html`<p key=${person} class="m-other">
      <b>${nameOf(person)}</b>${" "}${mark && html`<span class=${`m-word m-${wordClass(mark)}`}>${visible(mark)}</span>`}
      ${label !== undefined && ` label ${number(label)}`}
      ${note && html` <span class="g-foreign"><${Text} text=${note} /></span>`}</p>`)}
      ${more > 0 && html`<p class="m-other">and ${number(more)} more</p>`}`;
  }

  const wordClass = (mark) => (Object.hasOwn(WORDS_OF_ROLLOUT, mark) ? mark : "plain");

  /** A note of one's own: a button to write it, and the text. One note is written at a time. */
  function useNote(group, rollout, what) {
    const of = thing(group, rollout);
    const writing = state.writing === of;
    const note = mine(group, rollout)?.note ?? "";
    const field = useRef(null);
    const write = (on) => {
      state.writing = on ? of : "";
      tell();
    };
    useLayoutEffect(() => {
      if (writing) field.current.focus();
      return () => { if (writing && state.writing === of) state.writing = ""; };
    }, [writing]);
    const onKeyDown = (event) => {
      if (event.key !== "Escape" && !(event.key === "Enter" && (event.ctrlKey || event.metaKey))) return;
      event.preventDefault();
      event.stopPropagation();
      const near = event.target.closest("[tabindex='-1']") ?? document.querySelector("main");
      write(false);
      near.focus({ preventScroll: true });
    };
    const button = html`<button type="button" aria-keyshortcuts=${rollout ? "n" : "Shift+N"} data-key="n" aria-expanded=${writing} aria-label=${`${writing ? "done: " : ""}note on ${what}`}
      onClick=${() => write(!writing)}>✎ ${writing ? "done" : "note"}</button>`;
    const text = html`
      ${writing && html`<textarea ref=${field} rows="3" maxlength=${LONGEST} aria-label=${`Note on ${what}`} value=${note}
        placeholder="Kept as you write; Esc leaves" onKeyDown=${onKeyDown} onInput=${(event) => set(group, rollout, { note: event.target.value })}></textarea>`}
      ${note && html`<p class=${`m-note g-foreign${writing ? " g-printed" : ""}`}><${Text} text=${note} /></p>`}`;
    return [button, text];
  }

  function Word({ word, title, shortcut, label, pressed, onClick }) {
    return html`<button type="button" class=${`m-word m-${wordClass(word)}`} title=${title} aria-label=${label} aria-pressed=${pressed ? "true" : "false"}
      aria-keyshortcuts=${shortcut} onClick=${onClick}>${visible(word)}</button>`;
  }

  function toggleGroup(group, word) {
    const now = mine(group, "")?.mark === word;
    set(group, "", { mark: now ? "" : word });
    say(now ? "Mark taken back." : `Marked ${visible(word)}.`, group);
  }

  /** The marks of a group, with all that is to be told of marks on its page. */
  function OfGroup({ group, same, children }) {
    useMarks();
    const [button, text] = useNote(group, "", "the group");
    const now = mine(group, "")?.mark ?? "";
    const toggle = (word) => toggleGroup(group, word);
    const used = [...rowsByWord().mark.keys()].filter((word) => !Object.hasOwn(WORDS_OF_ROLLOUT, word));
    const words = new Set([...Object.keys(WORDS_OF_GROUP), ...used.slice(0, 8), ...(now ? [now] : [])]);
    return html`<section class="m-group" aria-label="Marks of the group">
      <div class="m-line">
        <span role="group" aria-label="Mark of the group" class="m-words">
          ${[...words].map((word) => html`<${Word} key=${word} word=${word} title=${WORDS_OF_GROUP[word]} shortcut=${word === "reviewed" ? "r" : undefined}
            pressed=${word === now} onClick=${() => toggle(word)} />`)}
          <${OwnWord} onWord=${toggle} />
        </span>
        ${button}${children}
        <span role="status" class="m-status">${state.about === group && state.message}</span>
      </div>
      ${now && html`<p class="g-printed">Marked ${visible(now)}.</p>`}
      ${text}
      <${Others} group=${group} rollout="" />
      ${same > 1 && html`<p class="m-hint">The ${same} groups of this key share the mark and the note.</p>`}
      <${Hints} />
    </section>`;
  }

  /** A field for a word of one's own. */
  function OwnWord({ onWord }) {
    const onKeyDown = (event) => {
      const word = event.target.value.trim();
      if (event.key === "Enter" && word) onWord(word);
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      event.stopPropagation();
      event.target.value = "";
      document.querySelector("main").focus({ preventScroll: true });
    };
    return html`<input class="m-own" type="text" maxlength=${LONGEST_WORD} size="9" placeholder="own word" aria-label="Another word for the group; Enter sets it"
      aria-keyshortcuts="w" autocomplete="off" onKeyDown=${onKeyDown} />`;
  }

  /** The question for a name after the first mark, and what to know if the browser keeps nothing. */
  function Hints() {
    const any = [...held.values()].some((people) => speaks(people.get(ME)));
    if (!any) return null;
    return html`${state.name === null && html`<${Name} label="Your name, for your marks" skip=${true} />`}
      ${!state.kept && html`<p class="warn">This browser does not keep your marks: they last as long as this page. Save them (m).</p>`}`;
  }

  function Name({ label, skip = false }) {
    const onSubmit = (event) => {
      event.preventDefault();
      rename(new FormData(event.target).get("name"));
    };
    return html`<form class="m-name" onSubmit=${onSubmit}>
      <label>${label} <input name="name" maxlength=${LONGEST_NAME} value=${state.name ?? ""} autocomplete="off" /></label>
      ${" "}<button>${state.name ? "Change" : "OK"}</button>
      ${skip && html` <button type="button" onClick=${() => rename("")}>without a name</button>`}
    </form>`;
  }

  const toggleOf = ({ group, id, name }, word) => {
    const now = mine(group, id)?.mark === word;
    set(group, id, { mark: now ? "" : word });
    say(now ? `Mark of ${name} taken back.` : `${name} marked ${word}.`, group);
  };

  function Words({ e, keys }) {
    const now = mine(e.group, e.id)?.mark ?? "";
    return html`<span role="group" aria-label=${`Mark of rollout ${e.at + 1}`} class="m-words">
      ${Object.entries(WORDS_OF_ROLLOUT).map(([word, [key, title]]) => html`<${Word} key=${word} word=${word} title=${title} label=${`${word}: rollout ${e.at + 1}`}
        shortcut=${keys ? key : undefined} pressed=${word === now} onClick=${() => toggleOf(e, word)} />`)}
      ${now && html`<span class="g-printed">${visible(now)}</span>`}
    </span>`;
  }

  /** The marks of a rollout where its text stands; `children` are more buttons. */
  function OfRollout({ e, children }) {
    useMarks();
    const [button, text] = useNote(e.group, e.id, `rollout ${e.at + 1}`);
    return html`<div class="m-rollout" data-id=${e.id}>
      <p class="m-line"><${Words} e=${e} keys=${true} /> ${button} ${children}</p>
      ${text}
      <${Others} group=${e.group} rollout=${e.id} />
    </div>`;
  }

  /** The same in the table of rollouts, in short. */
  function InTable({ e }) {
    useMarks();
    const said = saidOf(e.group, e.id);
    const others = said.filter(([person, line]) => person !== ME && line.mark).slice(0, MOST_PEOPLE).map(([person, line]) => `${nameOf(person)}: ${visible(line.mark)}`);
    const noted = said.filter(([, line]) => line.note).map(([person, line]) => `${nameOf(person)}: ${visible(line.note)}`);
    return html`<${Words} e=${e} />${noted.length > 0 && html` <span role="img" aria-label="has a note" title=${noted.join("\n").slice(0, LONGEST_TITLE)}>✎</span>`}
      ${others.length > 0 && html`<span class="m-other">${others.join(", ")}</span>`}`;
  }

  /** One's own mark of a rollout beside its name, which stays in sight. */
  function Sign({ e }) {
    useMarks();
    const mark = mine(e.group, e.id)?.mark;
    return mark ? html` <em class=${`m-sign m-${wordClass(mark)}`}>${visible(mark)}</em>` : null;
  }

  const isSaid = (e) => saidOf(e.group, e.id).length > 0;

  /**
   * Do what a key stands for on the page of a row, to the group or to the rollout `e`, if one is chosen. True if it is a
   * key of marks. What writes or copies is a button on the page, which is pressed.
   */
  function press(key, row, e) {
    const group = opened.rows.key[row];
    const word = Object.keys(WORDS_OF_ROLLOUT).find((one) => WORDS_OF_ROLLOUT[one][0] === key);
    if (key === "r") toggleGroup(group, "reviewed");
    else if (word && e) toggleOf(e, word);
    else if (word) say("Choose a rollout first, with ← or →.", group);
    else if (key === "w") document.querySelector(".m-own").focus();
    else if (["n", "N", "c"].includes(key)) {
      const place = e && key !== "N" ? `.m-rollout[data-id="${e.id}"]` : ".m-group";
      document.querySelector(`${place} [data-key="${key.toLowerCase()}"]`)?.click();
    } else return false;
    return true;
  }

  // ---- Saving and opening --------------------------------------------------------------------------

  /** The number of marks of each person, this browser's first. */
  function countPeople() {
    const counts = new Map([[ME, 0]]);
    for (const people of held.values()) {
      for (const [person, line] of people) if (speaks(line)) counts.set(person, (counts.get(person) ?? 0) + 1);
    }
    return counts;
  }

  /** The button in the page's head. */
  function Button() {
    useMarks();
    const all = [...countPeople().values()].reduce((sum, n) => sum + n, 0);
    return html`<button type="button" aria-keyshortcuts="m" onClick=${showDialog}>Marks${all > 0 && html` <span class="n">${number(all)}</span>`}</button>`;
  }

  function showDialog() {
    const dialog = document.getElementById("marks");
    say("");
    if (!dialog.open) dialog.showModal();
  }

  function Person({ person, count }) {
    return html`<li><bdi>${nameOf(person)}</bdi>: ${many(count, "mark")}
      ${person !== ME && html` <button type="button" onClick=${() => forgetPerson(person)}>remove</button>`}</li>`;
  }

  function Dialog() {
    useMarks();
    const picker = useRef(null);
    const onChange = async (event) => {
      const files = [...event.target.files];
      event.target.value = "";
      if (files.length) await open(files);
    };
    const people = [...countPeople()].filter(([, count]) => count > 0).slice(0, MOST_PEOPLE);
    return html`<dialog id="marks" class="help m-dialog" aria-labelledby="marks-title">
      <h2 id="marks-title">Marks and notes</h2>
      ${people.length ? html`<ul>${people.map(([person, count]) => html`<${Person} key=${person} ...${{ person, count }} />`)}</ul>`
        : html`<p>None yet. On a group's page, r marks the group as reviewed, g and b mark a rollout as good or bad, n writes a note.</p>`}
      <p>${state.kept ? "They are kept in this browser, and a new report of the same groups shows them. Save them to hand them on."
        : html`<span class="warn">This browser does not keep them: they last as long as this page.</span>`}</p>
      <${Name} label="Your name" />
      <p class="m-line"><button type="button" disabled=${!people.length} onClick=${save}>Save marks.jsonl</button>
        <button type="button" onClick=${() => picker.current.click()}>Open marks …</button>
        <input ref=${picker} type="file" hidden multiple accept=".jsonl,.json,.txt" aria-label="Files of marks" onChange=${onChange} /></p>
      <div role="status">${state.about === null && state.message}</div>
      <p class="muted">A file is merged with these: of a person's marks on one thing the latest counts.
        ${" "}<code>ruler agree --people</code> reads it: good is the label 1, bad the label 0.</p>
      <form method="dialog"><button>Close</button></form>
    </dialog>`;
  }

  /** Read what is kept, and follow what other pages change. */
  function start() {
    load();
    addEventListener("storage", ({ key, newValue }) => {
      if (key === NAME) state.name = newValue;
      else if (key?.startsWith(PREFIX)) read(key, newValue);
      changed();
    });
    addEventListener("beforeunload", (event) => { if (!state.kept && !state.saved) event.preventDefault(); });
  }

  return { isWhere, isMarked, isOurs, parted, flagsOf, Filters, OfGroup, OfRollout, InTable, Sign, isSaid, press, Button, Dialog, showDialog, useMarks, start,
           get version() { return state.version; } };
})();
