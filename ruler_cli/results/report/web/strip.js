"use strict";
// The scores of a group as dots on a line from 0 to 1, which tell high rewards from low ones by form and height.

const DOT = 3.5; // pixels
const SMALL_DOT = 1.3; // of a group with more rollouts than CROWD, in which dots of one score are one
const MOST_DOT = 7.5;
const CROWD = 40;
const LINE = 16; // pixels from the top
const PITCH = 6; // pixels, at most, between dots of near scores, which stand at different heights
const ROOM = 9; // pixels for all of them on one side of the line
const NEAR = 3; // hundredths between two scores below which their dots would cover one another
/** Pixels below the line of the dot of that level, `pitch` above or below the one before. */
const LANES = {
  high: (level, pitch) => -5 - level * pitch,
  none: (level, pitch) => (level % 2 ? 1 : -1) * Math.ceil(level / 2) * pitch,
  low: (level, pitch) => 5 + level * pitch,
};
const SAID = 12; // scores that are spelled out; of more, the ends

const scales = new WeakMap();

/** Where rewards part: the middle of those of the file, of a page of two files those of its rows; null without two. */
function rewardScale(data) {
  if (!scales.has(data)) {
    const known = data.figures?.against_label.cells.map(({ label }) => label) ?? data.rows.labels;
    const ends = known.flat().filter((label) => label !== null).sort((a, b) => a - b);
    const [low, high] = [ends[0], ends.at(-1)];
    scales.set(data, low < high ? (low + high) / 2 : null);
  }
  return scales.get(data);
}

/** The lane of a reward: low and high ones only where the file has both. */
function laneOf(label, scale) {
  if (label === null || label === undefined || scale === null) return "none";
  return label > scale ? "high" : "low";
}

/** The class of a dot: `unknown` has no reward although others have one. */
function formOf(label, scale) {
  const lane = laneOf(label, scale);
  return lane === "none" && scale !== null ? "unknown" : lane;
}

/** A score in hundredths from 0 to 100. */
const hundredths = (score) => Math.round(Math.min(1, Math.max(0, score)) * 100);

/** Levels of dots of these scores, from 0 up, different ones for near scores, and the pixels from one to the next. */
function stacked(scores, room, near = NEAR) {
  const places = scores.map(hundredths);
  const last = []; // the last dot of each level
  const levels = [];
  for (const i of places.map((_, i) => i).sort((a, b) => places[a] - places[b])) {
    const free = last.findIndex((at) => places[i] - at >= near);
    levels[i] = free < 0 ? last.length : free;
    last[levels[i]] = places[i];
  }
  return { levels, pitch: Math.min(PITCH, room / Math.max(1, ...levels)) };
}

/** The dots of a group: `{form, at, y, r}`, a dot a rollout; of a crowd those of one score and lane, to a hundredth, are one. */
function dotsOf(scores, labels, scale) {
  const crowd = scores.length > CROWD;
  const lanes = { high: [], none: [], low: [] };
  const scored = labels.filter((_, i) => scores[i] !== null).map((label) => laneOf(label, scale));
  const apart = new Set(scored).size > 1; // rewards of one kind need no lane
  scores.forEach((score, i) => {
    if (score === null) return;
    const lane = lanes[apart ? laneOf(labels[i], scale) : "none"];
    const same = crowd && lane.find((dot) => hundredths(dot.score) === hundredths(score));
    if (same) same.n += 1;
    else lane.push({ score, n: 1, form: formOf(labels[i], scale) });
  });
  return Object.entries(lanes).flatMap(([lane, dots]) => {
    const { levels, pitch } = stacked(dots.map((dot) => dot.score), lane === "none" ? 2 * ROOM : ROOM);
    const radius = (n) => (crowd ? Math.min(MOST_DOT, Math.max(2, SMALL_DOT * Math.sqrt(n))) : DOT);
    return dots.map(({ score, n, form }, i) => {
      return { form, at: hundredths(score), y: LINE + LANES[lane](crowd ? 0 : levels[i], pitch), r: radius(n) };
    });
  });
}

const reward = (label) => number(label, Number.isInteger(label) ? 0 : undefined);

/** The same in words, best first: "0.78 (reward 1), 0.54 (reward 0)". */
function scoresInWords(scores, labels) {
  const order = scores.map((_, i) => i).filter((i) => scores[i] !== null).sort((a, b) => scores[b] - scores[a]);
  const said = (i) => number(scores[i], 2) + (labels[i] === null || labels[i] === undefined ? "" : ` (reward ${reward(labels[i])})`);
  const words = order.map(said);
  if (words.length > SAID) words.splice(SAID / 2, words.length - SAID, "…");
  return words.join(", ") || "no scores";
}

/** A line from 0 to 1 with a dot for each rollout; its name for a screen reader is the scores. */
function Strip({ scores, labels, scale }) {
  if (!scores.some((score) => score !== null)) return html`<span class="muted">${NONE}</span>`;
  const said = scoresInWords(scores, labels);
  const ticks = [0, 50, 100].map((x) => html`<line key=${x} x1=${`${x}%`} x2=${`${x}%`} y1=${LINE - 4} y2=${LINE + 4} />`);
  return html`<svg class="strip" role="img" aria-label=${`scores, best first: ${said}`}>
    <title>${said}</title>
    <line x1="0%" x2="100%" y1=${LINE} y2=${LINE} />${ticks}
    ${dotsOf(scores, labels, scale).map(({ form, at, y, r }, i) => html`<circle key=${i} class=${form} cx=${`${at}%`} cy=${y} r=${r} />`)}
  </svg>`;
}

/** What the dots mean, in a line. */
function StripLegend({ data }) {
  const { scores, labels } = data.rows;
  if (!scores.some((of) => of.some((score) => score !== null))) return null;
  const middle = rewardScale(data);
  const dot = (lane) => html`<svg class="strip-dot" aria-hidden="true"><circle class=${lane} cx="6" cy="6" r=${DOT} /></svg>`;
  return html`<p class="strip-legend">${instead.legend ?? "Each dot is a rollout, placed by its score."}
    ${!instead.legend && scores.some((of) => of.length > CROWD) && ` In a group of more than ${CROWD}, a large dot is several with one score.`}
    ${middle !== null && html` <span>${dot("high")}original reward above ${reward(middle)}</span>
      <span>${dot("low")}${reward(middle)} or less</span>
      ${labels.some((of) => of.includes(null)) && html`<span>${dot("unknown")}none</span>`}`}</p>`;
}
