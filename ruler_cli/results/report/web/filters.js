"use strict";
// Above the table: the search, what can be filtered by, and the conditions that hold.

const SEARCH_PAUSE_MS = 150;

/** How many rows each word is true of. */
function tally(rows) {
  return once(rows, "tally", () => {
    const counts = new Map();
    for (const words of wordsOfRows(rows)) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    return counts;
  });
}

/** The hash of the table with a word put in, sorted by it, or taken out. A group is in one state, so another one leaves. */
function toggled(conditions, word) {
  const { where = [], ...others } = conditions;
  const [, , , sort] = aboutWord(word);
  if (where.includes(word)) return link({ ...others, sort: others.sort === sort ? undefined : others.sort, where: where.filter((w) => w !== word) });
  const kept = STATES.includes(word) ? where.filter((w) => !STATES.includes(w)) : where;
  return link({ ...others, sort: sort ?? others.sort, where: [...kept, word] });
}

/** A button for each word that is true of some groups and not of all; they stay where they are. */
function Chips({ rows, conditions }) {
  const asked = conditions.where ?? [];
  const counts = new Map([...tally(rows), ...marks.tally()]);
  const some = Object.keys(WORDS).filter((word) => counts.get(word) && counts.get(word) < rows.key.length);
  const words = [...new Set([...some, ...asked])];
  return words.length > 0 && html`<div class="chips" role="group" aria-label="filter by what is true of a group">
    ${words.map((word) => html`<button key=${word} type="button" class="chip" aria-pressed=${asked.includes(word) ? "true" : "false"}
      title=${aboutWord(word)[1]} onClick=${() => go(toggled(conditions, word))}>
      ${aboutWord(word)[0]} <span class="n">${whole(counts.get(word) ?? 0)}</span></button>`)}
  </div>`;
}

/** The ranges and the unknown fields that hold, each with a button that takes it out, and the parts of the address we cannot read. */
function Held({ rows, conditions, unread }) {
  const unknown = (conditions.field ?? []).filter(([path]) => !rows.fields.some((field) => field.path === path));
  const held = [
    ...rangeNames().filter((name) => conditions[name]).map((name) => [rangeInWords(name, conditions[name]), { [name]: null }]),
    ...unknown.map(([path, value]) => [`${visible(path)} ${visible(value)}`, { field: withField(conditions, path, "") }]),
  ];
  return html`${held.map(([words, without]) => html`<button key=${words} type="button" class="chip held" aria-label=${`remove: ${words}`}
      onClick=${() => go(link({ ...conditions, ...without }))}>${words} <span aria-hidden="true">×</span></button>`)}
    ${unread.length > 0 && html`<span class="warn">not understood and left out: ${unread.map(visible).join(", ")}</span>`}`;
}

const LONGEST_VALUE = 40; // characters of a value in its list

/** How many groups have each value of each field. */
function countsOfFields({ fields, values }) {
  const counts = fields.map((field) => field.values.map(() => 0));
  for (const row of values) row.forEach((has, at) => { for (const value of [has ?? []].flat()) counts[at][value] += 1; });
  return counts;
}

const inShort = (text) => visible(text.length > LONGEST_VALUE ? `${text.slice(0, turns.whole(text, LONGEST_VALUE))}…` : text);

/** A list of values for each field of the records. */
function Fields({ rows, conditions }) {
  const asked = new Map(conditions.field);
  const counts = once(rows, "field counts", () => countsOfFields(rows));
  const list = ({ path, values }, at) => {
    const held = asked.get(path) ?? "";
    const listed = values.map((value, number) => [value, counts[at][number]]).sort(([a], [b]) => natural.compare(a, b));
    if (held && !values.includes(held)) listed.push([held, 0]);
    return html`<label key=${path}><span title=${visible(path)}>${visible(path)}</span>
      <select value=${held} onChange=${(event) => go(link({ ...conditions, field: withField(conditions, path, event.target.value) }))}>
        <option value="">any</option>
        ${listed.map(([value, n]) => html`<option key=${value} value=${value}>${inShort(value)} (${whole(n)})</option>`)}
      </select></label>`;
  };
  return rows.fields.length > 0 && html`<details class="add" id="fields" open=${asked.size > 0}><summary>Filter by field</summary>
    <div class="fields" role="group" aria-label="filter by field">${rows.fields.map(list)}</div></details>`;
}

/** The search field: the address changes when the typing pauses. */
function Search({ rows, conditions }) {
  const held = conditions.search ?? "";
  const pause = lib.useRef(0);
  const field = lib.useRef(null);
  // what is being typed stands: only a search that came another way, as by going back, replaces it
  lib.useEffect(() => { if (!pause.current) field.current.value = held; }, [held]);
  const search = () => {
    clearTimeout(pause.current);
    pause.current = 0;
    const text = field.current?.value ?? held;
    if (text !== held) go(link({ ...conditions, search: text }), { replace: true });
  };
  const latest = lib.useRef(search);
  latest.current = search;
  const onInput = () => {
    clearTimeout(pause.current);
    pause.current = setTimeout(() => latest.current(), SEARCH_PAUSE_MS);
  };
  const onKeyDown = (event) => {
    if (!["Enter", "Escape", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") event.target.value = "";
    search();
    document.querySelector(".grid").focus();
  };
  return html`<input id="search" type="search" ref=${field} onInput=${onInput} onKeyDown=${onKeyDown} onFocus=${() => transcripts.start(rows)} aria-keyshortcuts="/"
    placeholder="Search keys, tasks, explanations, transcripts" aria-label="Search keys, tasks, reasons, explanations and transcripts"
    spellcheck="false" autocomplete="off" />`;
}

/** Search, filters and the number of groups they leave. */
function Filters({ rows, conditions, unread, order, note }) {
  marks.useMarks();
  const held = link({ ...conditions, sort: undefined }) !== "#groups";
  const few = `${whole(order.length)} of ${many(rows.key.length, "group")}`;
  return html`<div class="filters">
    <div class="search-line">
      <${Search} rows=${rows} conditions=${conditions} />
      <${Held} rows=${rows} conditions=${conditions} unread=${unread} />
      ${held && html`<button type="button" onClick=${() => go(link({ sort: conditions.sort }))}>Show all</button>`}
      <p role="status" aria-live="polite">${few}${note && `; ${note}`}</p>
    </div>
    <${Chips} rows=${rows} conditions=${conditions} />
    <div class="folds"><${Fields} rows=${rows} conditions=${conditions} /><${marks.Files} /></div>
  </div>`;
}
