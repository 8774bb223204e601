"use strict";
// What all scripts of the pages share: reading the data, showing foreign text and numbers, files, routes.

const html = lib.htm.bind(lib.h);

/** What a page of two files (compare.js) puts in the place of the report's own: the Overview, About, Failure, a legend, a Strip. */
const instead = {};

// ---- Reading --------------------------------------------------------------------------------------

/** The bytes of base64 text. */
function unbase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** The value of one block: base64 of gzip of JSON. It reads the stream itself, which for a small one is much faster. */
async function unpack(text) {
  const { readable, writable } = new DecompressionStream("gzip");
  const writer = writable.getWriter();
  // what is wrong with the bytes the reader says, too
  writer.write(unbase64(text)).catch(() => {});
  writer.close().catch(() => {});
  const reader = readable.getReader();
  const decoder = new TextDecoder();
  let json = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return JSON.parse(json + decoder.decode());
    json += decoder.decode(value, { stream: true });
  }
}

/** The value in the element of this id; it is read anew at each call. */
async function decode(id) {
  return unpack(document.getElementById(id).textContent.trim());
}

/**
 * The text of a group, null where it was left out.
 * `data.rows.text` says where its block is: only that piece of a text of megabytes is copied.
 */
async function textOf(row, rows = opened.rows) {
  const at = rows.text[row];
  if (!at) return null;
  const block = document.getElementById("texts");
  const only = block.childNodes.length === 1 ? block.firstChild : null;
  const text = await unpack(only ? only.substringData(at[0], at[1]) : block.textContent.substr(at[0], at[1]));
  text.rollouts.forEach((rollout, i) => { rollout.lines = text.lines[i]; });
  return text;
}

/** Where each text stands in their block, and its size, from the sizes; they are a line each, and one of size 0 is none. */
function spansOf(sizes) {
  let end = 0;
  return sizes.map((size) => {
    const at = end;
    end += size + 1;
    return size ? [at, size] : null;
  });
}

/** The rows of the data as columns by name, which is how all views read them. */
function columnsOfRows(data) {
  const { rows, ranked, texts, fields, values } = data;
  const ranks = new Map(ranked.map((ordinal, rank) => [ordinal, rank]));
  const columns = { telling: rows.map((row) => ranks.get(row.ordinal)), text: spansOf(texts), fields, values };
  for (const name of Object.keys(rows[0])) columns[name] = rows.map((row) => row[name]);
  columns.tokens = columns.usage.map((usage) => usage.prompt_tokens + usage.completion_tokens);
  if (columns.b_scores) {
    columns.order = columns.pairs.map((pairs, i) => (pairs ? columns.against[i] / pairs : null));
    columns.flags = columns.flags.map((flags, i) => [...new Set([...flags, ...columns.b_flags[i]])]);
  }
  columns.middle = rewardScale({ ...data, rows: columns });
  return columns;
}

/** Read the data and `show` them in an element; where that fails the page, a `what`, says so. */
async function openPage(show, what = "report") {
  const stand = document.getElementById("app");
  const root = document.createElement("div");
  let data = null;
  try {
    data = await decode("data");
  } catch (error) {
    stand.textContent = `This ${what} cannot be opened: its data cannot be read. The file may be cut short, or the ` +
      `browser too old (it needs DecompressionStream, of 2023). Make it again with “ruler report”. (${error.message})`;
    return;
  }
  root.id = "app";
  stand.replaceWith(root);
  show(data, root);
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "1"; }));
}

/** The data once it is read (app.js), so that `textOf(row)` needs no second argument. */
const opened = { rows: null };

let reading = null;

/** The explanations of all groups, one list a group; read once, when first asked for. */
function explanations() {
  reading ??= decode("said");
  return reading;
}

/** What was worked out once from the rows of a page, by its name. */
const memory = new WeakMap();

function once(rows, name, work) {
  if (!memory.has(rows)) memory.set(rows, new Map());
  const held = memory.get(rows);
  if (!held.has(name)) held.set(name, work());
  return held.get(name);
}

// ---- Showing --------------------------------------------------------------------------------------

// Cc: controls; Cf: format characters, as bidi overrides, zero widths and tags; Cs: lone surrogates;
// then line separators, letters that show as nothing, and selectors that can carry hidden text.
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Foreign text with what cannot be seen, or moves what can, written out: \x1b, \u202e, \u{e0041}. */
function visible(text) {
  return String(text ?? "").replace(HIDDEN, (c) => {
    const code = c.codePointAt(0);
    if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
    const hex = code.toString(16);
    return code < 0x10000 ? "\\u" + hex.padStart(4, "0") : `\\u{${hex}}`;
  });
}

const NONE = "–";
const formats = new Map();

/** A number with that many digits after the point, unsaid: at most 3; "," between thousands; "–" for none. */
function number(x, digits) {
  if (x === null || x === undefined || !Number.isFinite(x)) return NONE;
  if (!formats.has(digits)) {
    const options = { minimumFractionDigits: digits ?? 0, maximumFractionDigits: digits ?? 3, signDisplay: "negative" };
    formats.set(digits, new Intl.NumberFormat("en-US", options));
  }
  return formats.get(digits).format(x);
}

const whole = (n) => number(n, 0);
const many = (n, what) => `${whole(n)} ${what}${n === 1 ? "" : "s"}`;

/** Bytes in the unit that fits: "812 B", "3.4 KiB". */
function bytes(x) {
  if (x === null || x === undefined) return NONE;
  if (x < 1024) return `${number(x, 0)} B`;
  const power = Math.min(4, Math.floor(Math.log2(x) / 10));
  return `${number(x / 1024 ** power, 1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}

/** Seconds in the unit that fits: "0.82 s", "14.2 s", "3.3 min", "2.1 h". */
function seconds(x) {
  if (x === null || x === undefined) return NONE;
  if (x < 60) return `${number(x, x < 10 ? 2 : 1)} s`;
  return x < 3600 ? `${number(x / 60, 1)} min` : `${number(x / 3600, 1)} h`;
}

/** US dollars: two digits from a dollar on, else enough to see the first two that count. */
function usd(x) {
  if (x === null || x === undefined) return NONE;
  if (x === 0 || Math.abs(x) >= 1) return `$${number(x, 2)}`;
  return `$${number(x, Math.min(8, 1 - Math.floor(Math.log10(Math.abs(x)))))}`;
}

/** Hand a text of JSON lines to the browser as a file. */
function download(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// ---- The frame of a page --------------------------------------------------------------------------

/** Whether the page is printed, and what draws it anew. */
const paper = { printing: false };

/** Draw the page by this function, now and on paper. */
function showing(draw) {
  for (const [name, printing] of [["beforeprint", true], ["afterprint", false]]) {
    addEventListener(name, () => {
      paper.printing = printing;
      draw();
    });
  }
  draw();
}

/** What was found in the file, when the page was made, and what was left out of it, and by which rule. */
function Found({ data }) {
  const made = data.made.slice(0, 16).replace("T", " ");
  return html`<p class="found">${visible(data.found)} · made ${visible(made)} UTC</p>
    ${data.left_out && html`<p class="left-out">${visible(data.left_out)}</p>`}`;
}

// ---- Routes ---------------------------------------------------------------------------------------

const FIELD = "field."; // before the path of a field
const GROUP_RANGES = ["mean", "sd", "reliability", "disagreement"];
/** Ranges over rollouts, and the column that holds a list of them for each group. */
const ROLLOUT_RANGES = { score: "scores", label: "labels", bytes: "bytes" };
const rangeNames = () => [...GROUP_RANGES, ...Object.keys(ROLLOUT_RANGES)];

/** "0.4..0.45", "0.4..", "..1" or "3" as a Range; null for anything else. */
function readRange(text) {
  const ends = text.includes("..") ? text.split("..") : [text, text];
  if (ends.length !== 2 || ends.every((end) => end.trim() === "")) return null;
  const range = ends.map((end) => (end.trim() === "" ? null : Number(end)));
  if (range[0] !== null && range[1] !== null && range[0] > range[1]) return null;
  return range.every((end) => end === null || Number.isFinite(end)) ? range : null;
}

/** The fields of conditions with another value of one; without a value it is taken out. */
function withField({ field = [] }, path, value) {
  return [...field.filter(([other]) => other !== path), ...(value ? [[path, value]] : [])];
}

/**
 * Conditions of a query: `where`, words that are all true of a group (conditions.js); ranges by their names; `field`,
 * paths and values; `search` and `sort`. Under `unread` are the parts that say nothing we know.
 */
function readConditions(query) {
  const conditions = {};
  const unread = [];
  for (const [name, value] of new URLSearchParams(query)) {
    const range = rangeNames().includes(name) ? readRange(value) : null;
    if (range) conditions[name] = range;
    else if (name === "where" && value) conditions.where = [...(conditions.where ?? []), value];
    else if (name === "search" || name === "sort") conditions[name] = value;
    else if (name.startsWith(FIELD) && value) conditions.field = withField(conditions, name.slice(FIELD.length), value);
    else unread.push(value ? `${name}=${value}` : name);
  }
  return { conditions, unread };
}

/** The hash of the table with these conditions; those that are empty or null are left out. */
function link(conditions) {
  const query = new URLSearchParams();
  for (const word of conditions.where ?? []) query.append("where", word);
  for (const name of rangeNames()) {
    const range = conditions[name];
    if (range) query.append(name, `${range[0] ?? ""}..${range[1] ?? ""}`);
  }
  for (const [path, value] of conditions.field ?? []) query.append(FIELD + path, value);
  for (const name of ["search", "sort"]) if (conditions[name]) query.append(name, conditions[name]);
  return query.size ? `#groups?${query}` : "#groups";
}

const route = {
  /** What a hash asks for. `nth` tells groups of the same key apart, 1 the first; `id` is that of a rollout. */
  parse(hash) {
    const text = hash.replace(/^#/, "");
    if (text === "groups" || text.startsWith("groups?")) return { page: "groups", ...readConditions(text.slice(7)) };
    if (!text.startsWith("group=")) return { page: "overview", conditions: {}, unread: [] };
    const asked = new URLSearchParams(text);
    return { page: "group", key: asked.get("group"), nth: Number(asked.get("nth") ?? 1), id: asked.get("id"), conditions: {} };
  },

  /** The hash of the page of a group. */
  format({ key, nth, id }) {
    return `#${new URLSearchParams({ group: key, ...(nth > 1 && { nth }), ...(id && { id }) })}`;
  },
};

// ---- Groups by key --------------------------------------------------------------------------------

/** The rows of each key: a Map, as a key may be "__proto__". */
function rowsByKey(rows) {
  return once(rows, "keys", () => {
    const found = new Map();
    rows.key.forEach((key, i) => (found.has(key) ? found.get(key).push(i) : found.set(key, [i])));
    return found;
  });
}

/** Which of the groups of its key row i is, from 1, and how many there are. */
function nthOfKey(rows, i) {
  const same = rowsByKey(rows).get(rows.key[i]);
  return [same.indexOf(i) + 1, same.length];
}

/** The row of the group that a route asks for: of those with its key the one that has the rollout; undefined without any. */
function rowOf(rows, { key, nth, id }) {
  const same = rowsByKey(rows).get(key) ?? [];
  const named = same[(nth ?? 1) - 1];
  const has = (i) => i !== undefined && rows.ids[i].includes(id);
  return id && !has(named) ? (same.find(has) ?? named) : named;
}

/** The hash of row i's page, at the rollout of an id. */
function groupHash(rows, i, id) {
  return route.format({ key: rows.key[i], nth: nthOfKey(rows, i)[0], id });
}
