"use strict";
// What the conditions of a table mean: the words that are true of a group, which rows fulfil conditions, in which order.

/**
 * What can be true of a group: by its word in an address its name, what it means, how bad it is, and the sort that
 * shows the worst first. It is a chip of the table, and with a third part a flag too.
 */
const WORDS = {
  failed: ["failed", "asked about, and no rollout has a score", "bad"],
  suspect: ["suspect", "a rollout has text that addresses the judge", "bad"],
  disputed: ["disputed", "the judge orders a quarter or more of the pairs against their rewards", "warn", "-disagreement"],
  flawed: ["flawed positives", "a rollout with a high reward has the lowest score of its group, below one with a low reward", "warn", "-flawed"],
  near: ["near misses", "a rollout with a low reward has the highest score of its group, above one with a high reward", "warn", "-near"],
  unreliable: ["low reliability", "its scores are more noise than signal", "warn", "reliability"],
  apart: ["far apart", "its best score is 0.5 or more above its worst", "plain"],
  tied: ["tied", "its scores are equal, or not told apart beyond the judge's noise: no signal for a trainer", "plain"],
  live: ["live", "its scores differ by more than the judge's noise: a trainer learns from it"],
  unmarked: ["not judged", "it has no annotation of ruler", "plain"],
  degraded: ["degraded", "a pass or a judge brought no scores; the others count", "plain"],
  escalated: ["escalated", "the stronger judge scored it", "plain"],
  windows: ["windows", "shown to the judge in parts", "plain"],
  shortened: ["shortened", "what is too long was shown shortened", "plain"],
  pictures_left_out: ["pictures left out", "judged without some of its pictures", "plain"],
  alone: ["alone", "one rollout only: nothing to compare", "plain"],
  cached: ["cached", "all replies came from the ledger"],
  reply: ["unusable reply", "failed: the judge answered, and nothing usable"],
  transport: ["judge failed", "failed: the judge could not be reached, or answered with an error"],
  refused: ["judge refused", "failed: the judge or its provider rejected the request"],
  too_long: ["too long", "failed: it does not fit into the judge's context"],
  input: ["nothing to judge", "failed: there is nothing in it to judge"],
  budget: ["cost cap", "failed: --max-cost was reached first"],
  interrupted: ["interrupted", "failed: the run was stopped first"],
  reviewed: ["reviewed", "somebody has looked at it"],
  unreviewed: ["unreviewed", "nobody has looked at it yet"],
  good: ["good", "somebody has marked a rollout as good"],
  bad: ["bad", "somebody has marked a rollout as bad"],
  noted: ["with a note", "there is a note on it or on one of its rollouts"],
};
/** Reasons for a look (highlights.py) that have another word here. */
const REASONS = { disagrees: "disputed", unsure: "unreliable", spread: "apart" };
/** Of these a group is one. */
const STATES = ["failed", "live", "tied", "unmarked"];

const aboutWord = (word) => (Object.hasOwn(WORDS, word) ? WORDS[word] : [visible(word), ""]);

/**
 * How a group's scores contradict its rewards, `{flawed, near}`: the distance from the lowest rollout that passed up to
 * the highest that failed. `flawed` if the one that passed is the lowest of the group, `near` if the one that failed
 * is the highest; else null.
 */
function gapOf({ scores, labels, middle }, i) {
  const passed = [];
  const failed = [];
  scores[i].forEach((score, r) => {
    const label = labels[i][r];
    if (score !== null && label !== null && middle !== null) (label > middle ? passed : failed).push(score);
  });
  const gap = passed.length && failed.length ? Math.max(...failed) - Math.min(...passed) : 0;
  return {
    flawed: gap > 0 && Math.min(...passed) <= Math.min(...failed) ? gap : null,
    near: gap > 0 && Math.max(...failed) >= Math.max(...passed) ? gap : null,
  };
}

const gapsOf = (rows) => once(rows, "gaps", () => rows.key.map((_, i) => gapOf(rows, i)));

/** The words that are true of each row by the file itself, those of WORDS in its order. */
function wordsOfRows(rows) {
  const places = new Map(Object.keys(WORDS).map((word, place) => [word, place]));
  const place = (word) => places.get(word) ?? places.size;
  return once(rows, "words", () => rows.key.map((_, i) => {
    const { status, live, tied, kind, reasons, flags } = rows;
    const gap = gapsOf(rows)[i];
    const words = [status[i], live[i] && "live", tied[i] && "tied", kind[i], gap.flawed && "flawed", gap.near && "near", ...flags[i],
                   ...reasons[i].map((word) => (Object.hasOwn(REASONS, word) ? REASONS[word] : word))];
    return new Set(words.filter((word) => word && word !== "scored").sort((a, b) => place(a) - place(b)));
  }));
}

const isWord = (rows, i, word) => wordsOfRows(rows)[i].has(word) || marks.isWord(i, word);

/** What to know of a group before its scores count, what people say of it first: `[name, sentence, class]`. */
function flagsOf(rows, i) {
  const flags = [...wordsOfRows(rows)[i]].map(aboutWord).filter(([, , tone]) => tone);
  if (rows.status[i] === "failed" && !instead.Failure) flags[0] = [`failed: ${aboutWord(rows.kind[i])[0]}`, visible(rows.reason[i]), "bad"];
  return [...marks.flagsOf(i), ...flags];
}

/** Whether x is in the range: LOW <= x <= HIGH, as for `ruler select`. */
function within(x, [low, high]) {
  return x !== null && x !== undefined && (low === null || x >= low) && (high === null || x <= high);
}

/** What a row itself says to a search, lower case. */
const haystack = (rows) => once(rows, "haystack", () => rows.key.map((key, i) => `${key}\n${rows.task[i]}\n${rows.reason[i]}`.toLowerCase()));

/** The different words of a search, lower case. */
const searchWords = ({ search = "" }) => [...new Set(search.toLowerCase().split(/\s+/).filter(Boolean))];

/** A test of a row: whether one and the same rollout is in all the ranges, as a mark of a chart stands for such rollouts. */
function someRollout(columns, ranges) {
  return (i) => columns[0][i].some((_, r) => ranges.every((range, at) => within(columns[at][i][r], range)));
}

/** A test of a row: whether a rollout of the group has this value of a field. */
function hasField({ fields, values }, [path, value]) {
  const at = fields.findIndex((field) => field.path === path);
  const number = fields[at]?.values.indexOf(value) ?? -1;
  return (i) => number >= 0 && [values[i][at]].flat().includes(number);
}

/** A test of a row by these conditions; `hits` are the rows in whose texts the words of the search were found. */
function matcher(rows, conditions, hits) {
  const tests = [];
  for (const word of conditions.where ?? []) tests.push((i) => isWord(rows, i, word));
  for (const name of GROUP_RANGES) {
    if (conditions[name]) tests.push((i) => within(rows[name][i], conditions[name]));
  }
  const asked = Object.keys(ROLLOUT_RANGES).filter((name) => conditions[name]);
  if (asked.length) {
    tests.push(someRollout(asked.map((name) => rows[ROLLOUT_RANGES[name]]), asked.map((name) => conditions[name])));
  }
  for (const field of conditions.field ?? []) tests.push(hasField(rows, field));
  const words = searchWords(conditions);
  if (words.length) tests.push((i) => hits.has(i) || words.every((word) => haystack(rows)[i].includes(word)));
  return (i) => tests.every((test) => test(i));
}

// ---- Order ----------------------------------------------------------------------------------------

const natural = new Intl.Collator("en", { numeric: true });

/** What each column sorts by: a number or null; of texts their place in the alphabet. */
const SORTS = new Map([
  ["key", (rows) => alphabet(rows.key)],
  ["task", (rows) => alphabet(rows.task)],
  ["rollouts", (rows) => rows.scores.map((scores) => scores.length)],
  ["scores", (rows) => rows.scores.map((scores) => Math.max(...scores.map((score) => score ?? -Infinity))).map((best) => (best > -Infinity ? best : null))],
  ["flawed", (rows) => gapsOf(rows).map((gap) => gap.flawed)],
  ["near", (rows) => gapsOf(rows).map((gap) => gap.near)],
  ...["mean", "sd", "reliability", "disagreement", "cost_usd", "tokens", "telling", "ordinal"].map((name) => [name, (rows) => rows[name]]),
]);

/** The place of each text in the alphabet, 10 after 9. */
function alphabet(texts) {
  const places = new Map([...new Set(texts)].sort(natural.compare).map((text, place) => [text, place]));
  return texts.map((text) => places.get(text));
}

/** The column and the direction of `sort`: the worst first where it names none. */
function sorting(conditions) {
  const asked = conditions.sort ?? "";
  const down = asked.startsWith("-");
  const column = down ? asked.slice(1) : asked;
  return SORTS.has(column) ? { column, down } : { column: "telling", down: false };
}

/** The rows that fulfil the conditions, in their order; rows without a value come last either way. */
function arrange(rows, conditions, hits) {
  const test = matcher(rows, conditions, hits);
  const { column, down } = sorting(conditions);
  const keys = once(rows, column, () => SORTS.get(column)(rows)).map((key) => (key === null ? Infinity : down ? -key : key));
  const apart = (a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : rows.telling[a] - rows.telling[b]);
  return rows.key.map((_, i) => i).filter(test).sort(apart);
}

// ---- Words ----------------------------------------------------------------------------------------

/** For each range its name in words, and how its ends are written. */
const RANGE_WORDS = {
  mean: ["mean score", number],
  sd: ["standard deviation", number],
  reliability: ["reliability", number],
  disagreement: ["disputed", percent],
  score: ["score", number],
  label: ["original reward", number],
  bytes: ["length", bytes],
};

/** A range in plain words, both ends in it: "score 0.4 to 0.45", "score from 0.95", "length up to 3.4 KiB". */
function rangeInWords(name, [low, high]) {
  const [title, shown] = RANGE_WORDS[name];
  if (low === null) return `${title} up to ${shown(high)}`;
  if (high === null) return `${title} from ${shown(low)}`;
  return `${title} ${stretch(low, high, shown)}`;
}
