"use strict";
// The lists that people look through first, each at one click: where judge and reward differ, and where the judge is unsure.

const gaps = new WeakMap();

/**
 * How a group's scores contradict its rewards, `{flawed, near}`: the distance from the lowest rollout that passed up to
 * the highest that failed. `flawed` if that one is the lowest of the group, `near` if the other is the highest; else null.
 */
function gapOf(rows, i) {
  const { middle } = rows;
  const passed = [];
  const failed = [];
  rows.scores[i].forEach((score, r) => {
    const label = rows.labels[i][r];
    if (score !== null && label !== null && middle !== null) (label > middle ? passed : failed).push(score);
  });
  const gap = passed.length && failed.length ? Math.max(...failed) - Math.min(...passed) : 0;
  if (gap <= 0) return { flawed: null, near: null };
  return {
    flawed: Math.min(...passed) <= Math.min(...failed) ? gap : null,
    near: Math.max(...failed) >= Math.max(...passed) ? gap : null,
  };
}

function gapsOf(rows) {
  if (!gaps.has(rows)) gaps.set(rows, rows.key.map((_, i) => gapOf(rows, i)));
  return gaps.get(rows);
}

for (const name of ["flawed", "near"]) SORTS.set(name, (rows) => gapsOf(rows).map((gap) => gap[name]));

/** The lists: a title, what is in it, and its conditions, the worst first. */
const PRESETS = [
  ["disputed", WHERE_WORDS.disputed[1], { where: ["disputed"], sort: "-disagreement" }],
  ["flawed positives", WHERE_WORDS.flawed[1], { where: ["flawed"], sort: "-flawed" }],
  ["near misses", WHERE_WORDS.near[1], { where: ["near"], sort: "-near" }],
  ["low reliability", WHERE_WORDS.unreliable[1], { where: ["unreliable"], sort: "reliability" }],
  ["suspects", "a rollout has text that addresses the judge", { flag: ["suspect"] }],
];

/** The conditions that a list sets, and takes away; the others stay as they are, and of `where` words that are no states. */
const OF_PRESETS = { where: undefined, kind: undefined, flag: undefined, sort: undefined };
const otherWords = ({ where = [] }) => where.filter((word) => !Object.hasOwn(WHERE_WORDS, word));

const presetCount = (rows, { where = [], flag = [] }) => tally(rows)[where.length ? "where" : "flag"].get([...where, ...flag][0]) ?? 0;

/** The lists that have groups. */
const presetsOf = (rows) => PRESETS.filter(([, , sets]) => presetCount(rows, sets));

/** Whether these conditions are those of a list, whatever else they hold. */
function isPreset(conditions, sets) {
  const { where = [] } = conditions;
  const states = where.filter((word) => Object.hasOwn(WHERE_WORDS, word));
  const only = (of) => link(Object.fromEntries(Object.keys(OF_PRESETS).map((name) => [name, of[name]])));
  return only({ ...conditions, where: states }) === only(sets);
}

const withPreset = (conditions, sets) => link({ ...conditions, ...OF_PRESETS, ...sets, where: [...otherWords(conditions), ...(sets.where ?? [])] });

/** The hash of the list after the one that is shown, after the last that of the first; null without any. */
function nextPreset(rows, conditions) {
  const lists = presetsOf(rows);
  const at = lists.findIndex(([, , sets]) => isPreset(conditions, sets));
  return lists.length ? withPreset(conditions, lists[(at + 1) % lists.length][2]) : null;
}

/** A button for each list. */
function Presets({ rows, conditions }) {
  const lists = presetsOf(rows);
  if (!lists.length) return null;
  return html`<div class="chips" role="group" aria-label="lists, worst first">
    <span class="chips-name">worst first</span>
    ${lists.map(([title, why, sets]) => html`<button key=${title} type="button" class="chip" title=${why}
      aria-pressed=${isPreset(conditions, sets) ? "true" : "false"} onClick=${() => go(withPreset(conditions, isPreset(conditions, sets) ? {} : sets))}>
      ${title} <span class="n">${number(presetCount(rows, sets), 0)}</span></button>`)}
  </div>`;
}
