"use strict";
// What the conditions of a table mean: which rows fulfil them, in which order, and how to say them.

/** Whether x is in the range: LOW <= x <= HIGH, as for `ruler select`. */
function within(x, range) {
  const low = range[0];
  const high = range[1];
  if (Array.isArray(x)) return x.some((one) => within(one, range)); // of a rollout in each pass
  if (x === null || x === undefined) return false;
  return (low === null || x >= low) && (high === null || x <= high);
}

/** The reasons for a look (highlights.py) that are states of a group, by the word of `where`. */
const REASONS = { disputed: "disagrees", unreliable: "unsure", apart: "spread" };

function isWhere(rows, i, word) {
  if (marks.isOurs(word)) return marks.isWhere(i, word);
  if (Object.hasOwn(REASONS, word)) return rows.reasons[i].includes(REASONS[word]);
  if (word === "flawed" || word === "near") return gapsOf(rows)[i][word] !== null;
  return word === "live" || word === "tied" ? rows[word][i] : rows.status[i] === word;
}

const haystacks = new WeakMap();

/** What a row itself says to a search, lower case; made once for all searches. */
function haystack(rows) {
  if (!haystacks.has(rows)) haystacks.set(rows, rows.key.map((key, i) => `${key}\n${rows.task[i]}\n${rows.reason[i]}`.toLowerCase()));
  return haystacks.get(rows);
}

/** The different words of a search, lower case. */
const searchWords = ({ search = "" }) => [...new Set(search.toLowerCase().split(/\s+/).filter(Boolean))];

/**
 * A test of a row: whether one and the same rollout is in all the ranges, as a mark of a chart stands
 * for such rollouts. Plain loops, no destructuring: it looks at each rollout of the file, and the first
 * time runs uncompiled.
 */
function someRollout(columns, ranges) {
  return (i) => {
    const count = columns[0][i].length;
    for (let r = 0; r < count; r++) {
      let at = 0;
      while (at < columns.length && within(columns[at][i][r], ranges[at])) at++;
      if (at === columns.length) return true;
    }
    return false;
  };
}

/** A test of a row: whether a rollout of the group has this value of a field. */
function hasField({ fields, values }, [path, value]) {
  const at = fields.findIndex((field) => field.path === path);
  const number = fields[at]?.values.indexOf(value) ?? -1;
  if (number < 0) return () => false;
  return (i) => (Array.isArray(values[i][at]) ? values[i][at].includes(number) : values[i][at] === number);
}

/**
 * A test of a row by these conditions; what is the same for all rows is worked out once. `inTexts` is a Map from each
 * word of the search to the rows whose texts hold it; without it texts are not searched.
 */
function matcher(rows, conditions, inTexts) {
  const tests = [];
  const { where, kind, flag, mark } = conditions;
  for (const words of marks.parted(where ?? [])) tests.push((i) => words.some((word) => isWhere(rows, i, word)));
  if (mark?.length) tests.push((i) => marks.isMarked(i, mark));
  if (kind?.length) tests.push((i) => kind.includes(rows.kind[i]));
  if (flag?.length) tests.push((i) => rows.flags[i].some((f) => flag.includes(f)));
  for (const name of GROUP_RANGES) {
    if (conditions[name]) tests.push((i) => within(rows[name][i], conditions[name]));
  }
  const asked = Object.keys(ROLLOUT_RANGES).filter((name) => conditions[name]);
  if (asked.length) {
    tests.push(someRollout(asked.map((name) => rows[ROLLOUT_RANGES[name]]), asked.map((name) => conditions[name])));
  }
  for (const field of conditions.field ?? []) tests.push(hasField(rows, field));
  const words = searchWords(conditions);
  if (words.length) {
    const own = haystack(rows);
    tests.push((i) => words.every((word) => own[i].includes(word) || inTexts?.get(word)[i]));
  }
  return (i) => tests.every((test) => test(i));
}

// ---- Order ----------------------------------------------------------------------------------------

const natural = new Intl.Collator("en", { numeric: true });

/** What each column sorts by: a number or null; of texts their place in the alphabet. */
const SORTS = new Map([
  ["key", (rows) => alphabet(rows.key)],
  ["task", (rows) => alphabet(rows.task)],
  ["status", (rows) => alphabet(rows.status.map((status, i) => `${status} ${rows.kind[i]} ${rows.tied[i]}`))],
  ["rollouts", (rows) => rows.scores.map((scores) => scores.length)],
  ["scores", (rows) => rows.scores.map((scores) => greatest(scores))],
  ...["mean", "sd", "reliability", "disagreement", "cost", "tokens", "telling", "latency", "at", "ordinal", "passes"]
    .map((name) => [name, (rows) => rows[name]]),
  ["flags", (rows) => alphabet(rows.flags.map((flags) => flags.join(" ") || null))],
]);

function greatest(scores) {
  const found = scores.filter((score) => score !== null);
  return found.length ? Math.max(...found) : null;
}

/** The place of each text in the alphabet, 10 after 9; none for an empty one. */
function alphabet(texts) {
  const places = new Map([...new Set(texts)].sort(natural.compare).map((text, place) => [text, place]));
  return texts.map((text) => (text === null ? null : places.get(text)));
}

const sortKeys = new WeakMap();

function keysOf(rows, column) {
  if (!sortKeys.has(rows)) sortKeys.set(rows, new Map());
  const known = sortKeys.get(rows);
  if (!known.has(column)) known.set(column, SORTS.get(column)(rows));
  return known.get(column);
}

/** The column and the direction of `sort`: the worst first where it names none. */
function sorting(conditions) {
  const asked = conditions.sort ?? "";
  const down = asked.startsWith("-");
  const column = down ? asked.slice(1) : asked;
  return SORTS.has(column) ? { column, down } : { column: "telling", down: false };
}

/** The rows that fulfil the conditions, in their order; rows without a value come last either way. */
function arrange(rows, conditions, inTexts) {
  const test = matcher(rows, conditions, inTexts);
  const { column, down } = sorting(conditions);
  const found = [];
  for (let i = 0; i < rows.key.length; i++) if (test(i)) found.push(i);
  const telling = rows.telling;
  const keys = keysOf(rows, column).map((key) => (key === null ? Infinity : down ? -key : key));
  const apart = (a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : telling[a] - telling[b]);
  return found.sort(apart);
}

/** Work out in idle time what the first search and the first sort by a text would wait for. */
function prepare(rows) {
  const jobs = [() => haystack(rows), () => keysOf(rows, "key"), () => keysOf(rows, "task"), () => keysOf(rows, "flags"), transcripts.startAhead];
  const idle = (job) => (window.requestIdleCallback ?? setTimeout)(job);
  const next = () => {
    jobs.shift()();
    if (jobs.length) idle(next);
  };
  idle(next);
}

// ---- Words ----------------------------------------------------------------------------------------

const decimals = (digits) => (x) => number(x, digits);
const utc = (x) => `${moment(x)} UTC`;
/** For each range its name in words, and how its ends are written; "rollout …": one rollout of the group. */
const RANGE_WORDS = {
  mean: ["mean score", decimals()],
  sd: ["standard deviation", decimals()],
  reliability: ["reliability", decimals()],
  disagreement: ["disagreement", decimals()],
  cost: ["cost", usd],
  tokens: ["tokens", decimals(0)],
  latency: ["time", seconds],
  at: ["judged", utc],
  ordinal: ["number in the file", decimals(0)],
  passes: ["passes", decimals(0)],
  score: ["score", decimals()],
  label: ["original reward", decimals()],
  bytes: ["length", bytes],
  slot: ["position in the prompt", decimals(2)],
  spread: ["spread over passes", decimals()],
};

/** A range in plain words, both ends in it: "score 0.40 to 0.45", "score from 0.95", "cost up to $1.00". */
function rangeInWords(name, [low, high]) {
  const [title, shown] = RANGE_WORDS[name];
  if (low === null) return `${title} up to ${shown(high)}`;
  if (high === null) return `${title} from ${shown(low)}`;
  return low === high ? `${title} ${shown(low)}` : `${title} ${shown(low)} to ${shown(high)}`;
}

// ---- Nearest --------------------------------------------------------------------------------------

const NEAR_LENGTH = 200;

function twos(text) {
  const found = new Set();
  const plain = ` ${text.slice(0, NEAR_LENGTH).toLowerCase()} `;
  for (let i = 0; i + 2 <= plain.length; i++) found.add(plain.slice(i, i + 2));
  return found;
}

/** The keys most like a text, by the pairs of letters they share; at most `most`, none that share nothing. */
function nearest(keys, text, most = 5) {
  const asked = twos(text);
  const likeness = (key) => {
    const has = twos(key);
    let both = 0;
    for (const two of has) if (asked.has(two)) both++;
    return (2 * both) / (asked.size + has.size);
  };
  return [...keys].map((key) => [likeness(key), key]).filter(([like]) => like > 0.2)
    .sort((a, b) => b[0] - a[0]).slice(0, most).map(([, key]) => key);
}
