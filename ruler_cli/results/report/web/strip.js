"use strict";
// The scores of a group as dots on a line from 0 to 1, which tell high rewards from low ones by form and height.

const DOT = 3.5; // pixels
const SMALL_DOT = 1.3; // of a group with more rollouts than CROWD, in which dots of one score are one
const MOST_DOT = 7.5;
const CROWD = 40;
const [LEAST, MOST] = [32, 46]; // pixels: the height of a strip
const EDGE = 5; // pixels from the middle of a dot to the edge of the strip, at least
const PITCH = 6; // pixels, at most, between dots of near scores, which stand at different heights
const CLEAR = 5; // as many where the strip is made higher for them
const NEAR = 4; // hundredths between two scores below which their dots would cover one another
/**
 * The lanes of dots: how far from the line the first is, the steps from there to a level, and the way.
 * Dots of the middle lane stand above and below the line in turn.
 */
const LANES = {
  high: { gap: 5, steps: (level) => level, way: () => -1 },
  none: { gap: 0, steps: (level) => Math.ceil(level / 2), way: (level) => (level % 2 ? 1 : -1) },
  low: { gap: 5, steps: (level) => level, way: () => 1 },
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

/** Levels of dots of these scores, from 0 up, different ones for near scores. */
function levelsOf(scores, near = NEAR) {
  const places = scores.map(hundredths);
  const last = []; // the last dot of each level
  const levels = [];
  for (const i of places.map((_, i) => i).sort((a, b) => places[a] - places[b])) {
    const free = last.findIndex((at) => places[i] - at >= near);
    levels[i] = free < 0 ? last.length : free;
    last[levels[i]] = places[i];
  }
  return levels;
}

/** The pixels from one level to the next, if so many steps must fit into so much room. */
const pitchOf = (steps, room) => Math.min(PITCH, room / Math.max(1, steps));

/**
 * The dots of a group by lane, `{score, n, form, level}`: a dot a rollout; of a crowd those of one score and lane, to
 * a hundredth, are one, and all stand on one level.
 */
function lanesOf(scores, labels, scale) {
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
  for (const dots of Object.values(lanes)) {
    const levels = levelsOf(dots.map((dot) => dot.score));
    dots.forEach((dot, i) => { dot.level = crowd ? 0 : levels[i]; });
  }
  return lanes;
}

/** The steps of each lane, from its first dot to its last. */
const stepsOf = (lanes) => Object.entries(lanes).map(([lane, dots]) => [lane, Math.max(0, ...dots.map((dot) => LANES[lane].steps(dot.level)))]);

/** The height of a strip in which the dots of these lanes are told apart, if it may be that high. */
function heightOf(lanes) {
  const half = stepsOf(lanes).map(([lane, steps]) => LANES[lane].gap + steps * CLEAR + EDGE);
  return Math.min(MOST, Math.max(LEAST, 2 * Math.max(...half)));
}

/** The dots in a strip of that height: `{form, at, y, r}`. They are never beyond its edges. */
function dotsOf(lanes, height, crowd) {
  const radius = (n) => (crowd ? Math.min(MOST_DOT, Math.max(2, SMALL_DOT * Math.sqrt(n))) : DOT);
  return stepsOf(lanes).flatMap(([lane, most]) => {
    const { gap, steps, way } = LANES[lane];
    const pitch = pitchOf(most, height / 2 - EDGE - gap);
    const y = (level) => height / 2 + way(level) * (gap + steps(level) * pitch);
    return lanes[lane].map(({ score, n, form, level }) => ({ form, at: hundredths(score), y: y(level), r: radius(n) }));
  });
}

const heights = new WeakMap();

/** The height of every strip of a table: that of its tallest stack of dots. */
function commonHeight(data) {
  const { rows } = data;
  if (!heights.has(rows)) {
    const scale = rewardScale(data);
    let height = LEAST;
    for (let i = 0; i < rows.scores.length && height < MOST; i++) {
      height = Math.max(height, heightOf(lanesOf(rows.scores[i], rows.labels[i], scale)));
    }
    heights.set(rows, height);
  }
  return heights.get(rows);
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
function Strip({ scores, labels, scale, height }) {
  if (!scores.some((score) => score !== null)) return html`<span class="muted">${NONE}</span>`;
  const said = scoresInWords(scores, labels);
  const lanes = lanesOf(scores, labels, scale);
  const high = height ?? heightOf(lanes);
  const line = high / 2;
  const ticks = [0, 50, 100].map((x) => html`<line key=${x} x1=${`${x}%`} x2=${`${x}%`} y1=${line - 4} y2=${line + 4} />`);
  return html`<svg class="strip" role="img" height=${high} aria-label=${`scores, best first: ${said}`}>
    <title>${said}</title>
    <line x1="0%" x2="100%" y1=${line} y2=${line} />${ticks}
    ${dotsOf(lanes, high, scores.length > CROWD).map(({ form, at, y, r }, i) => html`<circle key=${i} class=${form} cx=${`${at}%`} cy=${y} r=${r} />`)}
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
