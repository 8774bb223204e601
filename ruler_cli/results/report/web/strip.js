"use strict";
// The scores of a group as dots on a line from 0 to 1, which tell high rewards from low ones by form and height.

const DOT = 4; // pixels
const SMALL_DOT = 1.3; // of a group with more rollouts than CROWD
const LEAST_DOT = 2;
const MOST_DOT = 7.5;
const CROWD = 40;
const LANES = { high: 8, none: 13, low: 18 }; // pixels from the top
const SAID = 12; // scores that are spelled out; of more, the ends

const scales = new WeakMap();

/** Where rewards part: `{low, high, middle}` over all rows; null without rewards. A reward above the middle is high. */
function rewardScale(data) {
  if (!scales.has(data)) {
    let [low, high] = [Infinity, -Infinity];
    for (const { label } of data.figures.against_label.cells) {
      low = Math.min(low, label[0]);
      high = Math.max(high, label[1]);
    }
    scales.set(data, low <= high ? { low, high, middle: low < high ? (low + high) / 2 : null } : null);
  }
  return scales.get(data);
}

/** The lane of a reward: low and high ones only where the file has both. */
function laneOf(label, scale) {
  if (label === null || label === undefined || !scale || scale.middle === null) return "none";
  return label > scale.middle ? "high" : "low";
}

/** The dots of a group: `{lane, score, n, unknown}`; those of one score and lane, to a hundredth, are one. */
function dotsOf(scores, labels, scale) {
  const dots = new Map();
  scores.forEach((score, i) => {
    if (score === null) return;
    const lane = laneOf(labels[i], scale);
    const at = Math.round(Math.min(1, Math.max(0, score)) * 100);
    const dot = dots.get(`${lane} ${at}`) ?? { lane, at, n: 0, unknown: Boolean(scale?.middle) && lane === "none" };
    dot.n += 1;
    dots.set(`${lane} ${at}`, dot);
  });
  return [...dots.values()];
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
  const dot = scores.length > CROWD ? SMALL_DOT : DOT;
  const radius = (n) => Math.min(MOST_DOT, Math.max(LEAST_DOT, dot * Math.sqrt(n)));
  const ticks = [0, 50, 100].map((x) => html`<line key=${x} x1=${`${x}%`} x2=${`${x}%`} y1="9" y2="17" />`);
  return html`<svg class="strip" role="img" aria-label=${`scores, best first: ${said}`}>
    <title>${said}</title>
    <line x1="0%" x2="100%" y1="13" y2="13" />${ticks}
    ${dotsOf(scores, labels, scale).map(({ lane, at, n, unknown }) => html`<circle key=${`${lane}${at}`}
      class=${unknown ? "unknown" : lane} cx=${`${at}%`} cy=${LANES[lane]} r=${radius(n)} />`)}
  </svg>`;
}

/** What the dots mean, in a line. */
function StripLegend({ data }) {
  if (data.figures.scores.mean === null) return null;
  const scale = rewardScale(data);
  const dot = (lane) => html`<svg class="strip-dot" aria-hidden="true"><circle class=${lane} cx="6" cy="6" r=${DOT} /></svg>`;
  const middle = scale && scale.middle !== null ? reward(scale.middle) : null;
  return html`<p class="strip-legend">${instead.legend ?? "Each dot is a rollout, placed by its score. A large dot is several with one score."}
    ${middle !== null && html` <span>${dot("high")}original reward above ${middle}</span>
      <span>${dot("low")}${middle} or less</span>
      ${data.figures.rollouts.labelled < data.figures.rollouts.all && html`<span>${dot("unknown")}none</span>`}`}</p>`;
}
