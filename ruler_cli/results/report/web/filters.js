"use strict";
// Above the table: the search, what can be filtered by, and the conditions that hold.

const SEARCH_PAUSE_MS = 100;

const WHERE_WORDS = {
  live: ["live", "scored, and its scores differ by more than the judge's noise"],
  tied: ["tied", "all scores equal, or not told apart beyond the judge's noise"],
  disputed: ["disputed", "the judge orders a quarter or more of the pairs against their rewards"],
  flawed: ["flawed positive", "a rollout with a reward above the middle has the lowest score of its group, below one with a lower reward"],
  near: ["near miss", "a rollout with a reward at the middle or less has the highest score of its group, above one with a higher reward"],
  unreliable: ["unreliable", "its scores are more noise than signal: reliability below 0.5"],
  apart: ["far apart", "its best score is 0.5 or more above its worst"],
  scored: ["scored", "at least one rollout has a score"],
  failed: ["failed", "asked about, and no rollout has a score"],
  unmarked: ["not judged", "not judged"],
};

const tallies = new WeakMap();

/** How many rows each word of where, kind and flag is true of: `{where: Map, kind: Map, flag: Map}`. */
function tally(rows) {
  if (!tallies.has(rows)) {
    const counts = { where: new Map(), kind: new Map(), flag: new Map() };
    const add = (name, word) => counts[name].set(word, (counts[name].get(word) ?? 0) + 1);
    for (let i = 0; i < rows.key.length; i++) {
      for (const word of Object.keys(WHERE_WORDS)) if (isWhere(rows, i, word)) add("where", word);
      if (rows.kind[i]) add("kind", rows.kind[i]);
      for (const flag of new Set(rows.flags[i])) add("flag", flag);
    }
    tallies.set(rows, counts);
  }
  return tallies.get(rows);
}

/** The conditions with a word of where, kind or flag put in or taken out. */
function toggled(conditions, name, word) {
  const now = conditions[name] ?? [];
  return { ...conditions, [name]: now.includes(word) ? now.filter((w) => w !== word) : [...now, word] };
}

/** Buttons for the words of one name; a word that no row has is there only while it is asked for. */
function Chips({ name, label, counts, conditions, words }) {
  const asked = (conditions[name] ?? []).filter((word) => !marks.isOurs(word));
  // words of the lists before it are not here a second time
  const listed = PRESETS.filter(([, , sets]) => sets[name]);
  const elsewhere = (word) => listed.some(([, , sets]) => sets[name][0] === word && (!asked.includes(word) || isPreset(conditions, sets)));
  const all = [...new Set([...words.filter((word) => counts.get(word)), ...asked])].filter((word) => !elsewhere(word));
  if (!all.length) return null;
  return html`<div class="chips" role="group" aria-label=${`filter by ${label}`}>
    <span class="chips-name">${label}</span>
    ${all.map((word) => {
      const ours = name === "where" && Object.hasOwn(WHERE_WORDS, word);
      const [title, why] = ours ? WHERE_WORDS[word] : [visible(word), name === "kind" ? kindInWords(word) : ""];
      return html`<button key=${word} type="button" class="chip" aria-pressed=${asked.includes(word) ? "true" : "false"}
        title=${why} onClick=${() => go(link(toggled(conditions, name, word)))}>
        ${title} <span class="n">${number(counts.get(word) ?? 0, 0)}</span></button>`;
    })}
  </div>`;
}

/** The ranges and the unknown fields that hold, each with a button that takes it out, and the parts of the address we cannot read. */
function Ranges({ rows, conditions, unread }) {
  const names = RANGES.filter((name) => conditions[name]);
  const fields = (conditions.field ?? []).filter(([path]) => !rows.fields.some((field) => field.path === path));
  const rollouts = names.filter((name) => Object.hasOwn(ROLLOUT_RANGES, name));
  if (!names.length && !fields.length && !unread.length) return null;
  const without = (name) => go(link({ ...conditions, [name]: null }));
  return html`<div class="chips" role="group" aria-label="conditions that hold">
    ${names.length + fields.length > 0 && html`<span class="chips-name">only</span>`}
    ${names.map((name) => {
      const words = rangeInWords(name, conditions[name]);
      return html`<button key=${name} type="button" class="chip held" aria-label=${`remove: ${words}`}
        onClick=${() => without(name)}>${words} <span aria-hidden="true">×</span></button>`;
    })}
    ${fields.map(([path, value]) => html`<button key=${path} type="button" class="chip held" aria-label=${`remove: ${visible(path)} ${visible(value)}`}
      title="no record of this report has this field to filter by"
      onClick=${() => go(link({ ...conditions, field: withField(conditions, path, "") }))}>${visible(path)} ${visible(value)} <span aria-hidden="true">×</span></button>`)}
    ${rollouts.length > 0 && html`<span class="muted">of ${rollouts.length > 1 ? "one and the same" : "a"} rollout</span>`}
    ${unread.length > 0 && html`<span class="warn">not understood and left out: ${unread.map(visible).join(", ")}</span>`}
  </div>`;
}

const MOST_SHOWN = 4; // fields that stand in the open
const LONGEST_VALUE = 40; // characters of a value in its list

const fieldCounts = new WeakMap();

/** How many groups have each value of each field. */
function countsOfFields({ fields, values }) {
  if (!fieldCounts.has(fields)) {
    const counts = fields.map((field) => field.values.map(() => 0));
    for (const row of values) row.forEach((has, at) => { for (const one of [has ?? []].flat()) counts[at][one] += 1; });
    fieldCounts.set(fields, counts);
  }
  return fieldCounts.get(fields);
}

const inShort = (text) => visible(text.length > LONGEST_VALUE ? `${text.slice(0, turns.whole(text, LONGEST_VALUE))}…` : text);

/** A list of values for each field of the records, folded if there are many. */
function Fields({ rows, conditions }) {
  const { fields } = rows;
  const asked = new Map(conditions.field);
  if (!fields.length) return null;
  const counts = countsOfFields(rows);
  const choose = (path) => (event) => go(link({ ...conditions, field: withField(conditions, path, event.target.value) }));
  const one = ({ path, values }, at) => {
    const held = asked.get(path) ?? "";
    const listed = values.map((value, number) => [value, counts[at][number]]).sort(([a], [b]) => natural.compare(a, b));
    if (held && !values.includes(held)) listed.push([held, 0]);
    return html`<label key=${path} class=${held ? "held" : ""}><span title=${visible(path)}>${visible(path)}</span> <select value=${held} onChange=${choose(path)}>
      <option value="">any</option>
      ${listed.map(([value, n]) => html`<option key=${value} value=${value}>${inShort(value)} (${number(n, 0)})</option>`)}
    </select></label>`;
  };
  const all = html`<div class="fields" role="group" aria-label="filter by field">${fields.map(one)}</div>`;
  if (fields.length <= MOST_SHOWN && innerWidth > PHONE) return all;
  return html`<details class="add" id="fields" open=${asked.size > 0}><summary>Filter by field</summary>${all}</details>`;
}

/** A form that adds a range. */
function AddRange({ conditions }) {
  const [wrong, setWrong] = lib.useState("");
  const add = (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const range = readRange(`${given.get("low").trim()}..${given.get("high").trim()}`);
    setWrong(range ? "" : "Give a number at one end or both, as 0.4 and 0.8.");
    if (!range) return;
    event.target.reset();
    event.target.closest("details").open = false;
    go(link({ ...conditions, [given.get("name")]: range }));
  };
  const option = (name) => html`<option key=${name} value=${name}>${RANGE_WORDS[name][0]}</option>`;
  return html`<details class="add"><summary>Add a range</summary>
    <form onSubmit=${add}>
      <label>of <select name="name">${RANGES.map(option)}</select></label>
      <label>from <input name="low" inputmode="decimal" size="8" /></label>
      <label>to <input name="high" inputmode="decimal" size="8" /></label>
      <button type="submit">Add</button>
      <span class="bad" role="alert">${wrong}</span>
    </form>
  </details>`;
}

/** The search field: the address changes when the typing pauses. */
function Search({ conditions }) {
  const held = conditions.search ?? "";
  const [typed, setTyped] = lib.useState(held);
  const pause = lib.useRef(0);
  const latest = lib.useRef(conditions);
  latest.current = conditions;
  // What is being typed stands: only a search that came another way, as by going back, replaces it.
  lib.useEffect(() => { if (!pause.current) setTyped(held); }, [held]);
  const still = () => {
    clearTimeout(pause.current);
    pause.current = 0;
  };
  lib.useEffect(() => still, []);
  const search = (text) => {
    still();
    if (text !== (latest.current.search ?? "")) go(link({ ...latest.current, search: text }), { replace: true });
  };
  const onInput = (event) => {
    const text = event.target.value;
    setTyped(text);
    still();
    pause.current = setTimeout(() => search(text), SEARCH_PAUSE_MS);
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" && event.key !== "Escape" && event.key !== "ArrowDown") return;
    event.preventDefault();
    event.stopPropagation();
    const text = event.key === "Escape" ? "" : typed;
    setTyped(text);
    search(text);
    document.querySelector(".grid")?.focus();
  };
  return html`<input id="search" type="search" value=${typed} onInput=${onInput} onKeyDown=${onKeyDown}
    placeholder="Search keys, tasks, explanations, transcripts" aria-label="Search keys, tasks, reasons, explanations and transcripts"
    onFocus=${transcripts.start}
    aria-keyshortcuts="/" spellcheck="false" autocomplete="off" />`;
}

/** Unfold a part of the filters, if it is folded, and move to its first control. */
function unfold(selector) {
  const part = document.querySelector(selector);
  const folded = part?.closest("details");
  if (folded && !folded.open) folded.open = true;
  part?.querySelector("select, summary").focus();
}

/** What single keys do in the table, beside those of its rows. */
const TABLE_KEYS = {
  p: (rows, conditions) => {
    const next = nextPreset(rows, conditions);
    if (next) go(next);
  },
  f: () => unfold(".fields"),
  t: () => unfold("#take"),
};

/** Search, filters and the number of groups they leave. */
function Filters({ data, conditions, unread, order, note }) {
  const { rows } = data;
  const counts = tally(rows);
  const held = link({ ...conditions, sort: undefined }) !== "#groups";
  const all = rows.key.length;
  const few = `${number(order.length, 0)} of ${number(all, 0)} ${all === 1 ? "group matches" : "groups match"}`;
  const sorted = (name) => [...counts[name].keys()].sort((a, b) => counts[name].get(b) - counts[name].get(a));
  return html`<div class="filters">
    <div class="search-line">
      <${Search} conditions=${conditions} />
      <p role="status" aria-live="polite">${few}${note && `; ${note}`}</p>
      ${held && html`<button type="button" onClick=${() => go(link({ sort: conditions.sort }))}>Show all</button>`}
    </div>
    <div class="chip-lines">
      <div class="chip-line">
        <${Presets} rows=${rows} conditions=${conditions} />
        <${Chips} name="where" label="groups" counts=${counts.where} conditions=${conditions}
          words=${Object.keys(WHERE_WORDS)} />
        <${Chips} name="kind" label="failed by" counts=${counts.kind} conditions=${conditions} words=${sorted("kind")} />
        <${Chips} name="flag" label="flags" counts=${counts.flag} conditions=${conditions} words=${sorted("flag")} />
        <${marks.Filters} rows=${rows} conditions=${conditions} />
        <${Ranges} rows=${rows} conditions=${conditions} unread=${unread} />
      </div>
      <${Fields} rows=${rows} conditions=${conditions} />
      <${AddRange} conditions=${conditions} />
      <${TakeAway} data=${data} conditions=${conditions} order=${order} />
    </div>
  </div>`;
}
