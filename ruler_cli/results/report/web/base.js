"use strict";
// What all scripts of the pages share: reading the data, showing foreign text and numbers, files, routes.

/** @typedef {[number|null, number|null]} Range from and to, both in it; null: open */
/**
 * @typedef {Object} Conditions what the groups of a table fulfil; every member may be missing
 * @property {string[]} [where] one of live, tied, disputed, unreliable, apart, scored, failed, unmarked, and one of the words of marks.js
 * @property {string[]} [kind] one of these kinds of failure
 * @property {string[]} [flag] one of these flags
 * @property {string[]} [mark] one of these marks, on the group or a rollout
 * @property {[string, string][]} [field] fields of the record, each a path and the value that a rollout has there
 * @property {string} [search] words, each somewhere in the group's key, task, reason, explanations or transcripts
 * @property {string} [sort] a column, with "-" before it: descending
 * Each name of RANGES may hold a {@link Range}.
 */

const html = lib.htm.bind(lib.h);

/** What a page of two files (compare.js) puts in the place of the report's own: `views`, the parts `About` and `Failure`, `legend`, heights of `rows`. */
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

/**
 * The positions of each rollout by pass, as the middles of the bins of the chart in which they count; null if
 * they do not: `shown` is how many rollouts the judge saw, if the file says so.
 */
function middles(slots, shown) {
  const middle = (place) => (place === 0 || place === shown - 1 ? Number(place > 0) : (2 * place - 1) / (2 * (shown - 2)));
  return slots.map((each) => (shown > 1 && each.length ? each.map((at) => middle(Math.round(at * (shown - 1)))) : null));
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
  const mean = (of) => (of.length ? of.reduce((sum, one) => sum + one, 0) / of.length : null);
  columns.places = columns.slots.map((slots) => slots.map(mean));
  columns.at = columns.judged_at.map((at) => (at === null ? null : Date.parse(at) / 1000));
  if (columns.b_scores) {
    columns.order = columns.pairs.map((pairs, i) => (pairs ? columns.against[i] / pairs : null));
    columns.flags = columns.flags.map((flags, i) => [...new Set([...flags, ...columns.b_flags[i]])]);
  }
  for (const side of columns.b_scores ? ["", "b_"] : [""]) {
    columns[`${side}cost`] = columns[`${side}cost_usd`];
    columns[`${side}latency`] = columns[`${side}latency_s`];
    columns[`${side}slots`] = columns[`${side}slots`].map((slots, i) => middles(slots, columns[`${side}shown`][i]));
    columns[`${side}tokens`] = columns[`${side}usage`].map((usage) => usage.prompt_tokens + usage.completion_tokens);
  }
  columns.middle = rewardScale({ ...data, rows: columns });
  return columns;
}

/** Read the data and `show` them in an element; where that fails the page, a `what`, says so. `idle` runs once it is drawn. */
async function openPage(show, { what = "report", idle = () => {} } = {}) {
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
  requestAnimationFrame(() => requestAnimationFrame(() => {
    document.documentElement.dataset.ready = "1";
    idle();
  }));
}

/** The data once it is read (app.js), so that `textOf(row)` needs no second argument. */
const opened = { rows: null };

let reading = null;

/** The explanations of all groups, one list a group; read once, when first asked for. */
function explanations() {
  reading ??= decode("said");
  return reading;
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
    const options = { minimumFractionDigits: digits ?? 0, maximumFractionDigits: digits ?? 3 };
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

/** Seconds in the unit that fits: "0.82 s", "14.2 s", "3 min 20 s", "2 h 5 min", "3 d 4 h". */
function seconds(x) {
  if (x === null || x === undefined) return NONE;
  if (x < 60) return `${number(x, x < 10 ? 2 : 1)} s`;
  const whole = Math.round(x);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** US dollars: two digits from a dollar on, else enough to see the first two that count. */
function usd(x) {
  if (x === null || x === undefined) return NONE;
  if (x === 0 || Math.abs(x) >= 1) return `$${number(x, 2)}`;
  return `$${number(x, Math.min(8, 1 - Math.floor(Math.log10(Math.abs(x)))))}`;
}

/** Seconds since 1970 as a date and time of day in UTC: "2026-11-21 14:00:05". */
function moment(x) {
  if (x === null || x === undefined || Math.abs(x) > 8.64e12) return NONE;
  return new Date(x * 1000).toISOString().slice(0, 19).replace("T", " ");
}

/** Hand a text of JSON lines to the browser as a file. */
function download(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// ---- Routes ---------------------------------------------------------------------------------------

const WORDS = ["where", "kind", "flag", "mark"];
const FIELD = "field."; // before the path of a field
const GROUP_RANGES = ["mean", "sd", "reliability", "disagreement", "cost", "tokens", "latency", "at", "ordinal", "passes"];
/** Ranges over rollouts, and the column that holds a list of them for each group. */
const ROLLOUT_RANGES = { score: "scores", label: "labels", bytes: "bytes", slot: "slots", spread: "spreads" };
const RANGES = [...GROUP_RANGES, ...Object.keys(ROLLOUT_RANGES)];

/** Text in which lone surrogates became U+FFFD, as in the data. */
const wellFormed = (text) => String(text).replace(/\p{Cs}/gu, "\ufffd");

/** encodeURIComponent for any text: it refuses lone surrogates. */
const encode = (text) => encodeURIComponent(wellFormed(text));

/** decodeURIComponent for any text: what is no encoding stays as it is. */
function unencode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** "0.4..0.45", "0.4..", "..1" or "3" as a Range; null for anything else. */
function readRange(text) {
  const ends = text.includes("..") ? text.split("..") : [text, text];
  if (ends.length !== 2 || ends.every((end) => end.trim() === "")) return null;
  const range = ends.map((end) => (end.trim() === "" ? null : Number(end)));
  if (range[0] !== null && range[1] !== null && range[0] > range[1]) return null;
  return range.every((end) => end === null || Number.isFinite(end)) ? range : null;
}

/** The pairs of a query: "a=1&b" → [["a", "1"], ["b", ""]]. */
function pairs(query) {
  return query.split("&").filter(Boolean).map((part) => {
    const at = part.indexOf("=");
    return at < 0 ? [unencode(part), ""] : [unencode(part.slice(0, at)), unencode(part.slice(at + 1))];
  });
}

/** The fields of conditions with another value of one; without a value it is taken out. */
function withField({ field = [] }, path, value) {
  return [...field.filter(([other]) => other !== path), ...(value ? [[path, value]] : [])];
}

/** Conditions of a query, and under `unread` the parts that say nothing we know. */
function readConditions(query) {
  const conditions = {};
  const unread = [];
  for (const [name, value] of pairs(query)) {
    const range = RANGES.includes(name) ? readRange(value) : null;
    if (range) conditions[name] = range;
    else if (WORDS.includes(name) && value) conditions[name] = [...(conditions[name] ?? []), value];
    else if (name === "search" || name === "sort") conditions[name] = value;
    else if (name.startsWith(FIELD) && value) conditions.field = withField(conditions, name.slice(FIELD.length), value);
    else unread.push(value ? `${name}=${value}` : name);
  }
  return { conditions, unread };
}

/** Conditions as a query; members that are empty, null or unknown are left out. */
function writeConditions(conditions) {
  const parts = [];
  for (const name of WORDS) for (const word of [conditions[name] ?? []].flat()) parts.push(`${name}=${encode(word)}`);
  for (const name of RANGES) {
    const range = conditions[name];
    if (range?.some((end) => Number.isFinite(end))) parts.push(`${name}=${range[0] ?? ""}..${range[1] ?? ""}`);
  }
  for (const [path, value] of conditions.field ?? []) parts.push(`${FIELD}${encode(path)}=${encode(value)}`);
  for (const name of ["search", "sort"]) if (conditions[name]) parts.push(`${name}=${encode(conditions[name])}`);
  return parts.join("&");
}

/** The pages that an address names without more than their name; the first for any other address. */
const PLAIN_PAGES = ["overview"];

const route = {
  /** What a hash asks for. `nth` tells groups of the same key apart, 1 the first; `id` is that of a rollout. */
  parse(hash) {
    const text = hash.replace(/^#/, "");
    if (text === "groups" || text.startsWith("groups?")) return { page: "groups", ...readConditions(text.slice(7)) };
    if (!text.startsWith("group=")) {
      return { page: PLAIN_PAGES.find((page) => page === text) ?? PLAIN_PAGES[0], conditions: {}, unread: [] };
    }
    const asked = new Map(pairs(text));
    const whole = (name) => (/^\d{1,9}$/.test(asked.get(name) ?? "") ? Number(asked.get(name)) : undefined);
    const view = ["side", "one"].find((v) => v === asked.get("view"));
    return { page: "group", key: asked.get("group"), nth: whole("nth"), id: asked.get("id") || undefined, view,
             rollout: whole("rollout"), against: whole("against"), conditions: {}, unread: [] };
  },

  /** The hash of a route, in one spelling: what parse gives back. */
  format(r) {
    if (r.page === "groups") return link(r.conditions ?? {});
    if (r.page !== "group") return `#${r.page}`;
    const rest = ["nth", "id", "view", "rollout", "against"].filter((name) => r[name] !== undefined && r[name] !== null);
    return `#group=${encode(r.key)}` + rest.map((name) => `&${name}=${encode(r[name])}`).join("");
  },
};

/** The hash of the table with these conditions; a word may stand alone: `link({where: "tied"})`. */
function link(conditions) {
  const query = writeConditions(conditions);
  return query ? `#groups?${query}` : "#groups";
}

// ---- Groups by key --------------------------------------------------------------------------------

const byKey = new WeakMap();

/** The rows of each key: a Map, as a key may be "__proto__". */
function rowsByKey(rows) {
  if (!byKey.has(rows)) {
    const found = new Map();
    rows.key.forEach((key, i) => (found.has(key) ? found.get(key).push(i) : found.set(key, [i])));
    byKey.set(rows, found);
  }
  return byKey.get(rows);
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

/** The hash of row i's page; `rest` may hold id, view, rollout and against. */
function groupHash(rows, i, rest = {}) {
  const [nth] = nthOfKey(rows, i);
  return route.format({ ...rest, page: "group", key: rows.key[i], nth: nth > 1 ? nth : undefined });
}
