"use strict";
// The scores of a group as dots on a line from 0 to 1, which tell high rewards from low ones by form and height.

const DOT = 3.5; // pixels
const STRIP = 36; // pixels, high
const [LEVELS, PITCH] = [3, 5]; // of dots above one another, and the pixels from one to the next
const NEAR = 4; // hundredths between two scores below which their dots would cover one another
/** The first height of dots by their reward, above the line, on it or below, and the way to the next. */
const LANES = { high: [-5, -1], unknown: [0, -1], none: [0, -1], low: [5, 1] };
const SAID = 12; // scores that are spelled out; of more, the ends

/** Where rewards part: the middle of those of the file, of a page of two files those of its rows; null without two. */
function rewardScale(data) {
  return once(data.rows, "middle", () => {
    const known = data.figures?.against_label.cells.map(({ label }) => label) ?? data.rows.labels;
    const ends = known.flat().filter((label) => label !== null).sort((a, b) => a - b);
    return ends[0] < ends.at(-1) ? (ends[0] + ends.at(-1)) / 2 : null;
  });
}

/** The class of a dot: `unknown` has no reward although others have one, `none` is in a file without two rewards. */
function formOf(label, middle) {
  if (middle === null) return "none";
  return label === null ? "unknown" : label > middle ? "high" : "low";
}

/** A score in percent of the line. */
const percentOf = (score) => Math.min(1, Math.max(0, score)) * 100;

/** For each score that there is its number and its level: near ones have different levels, as far as there are so many. */
function levelsOf(scores, near = NEAR) {
  const scored = scores.map((_, i) => i).filter((i) => scores[i] !== null).sort((a, b) => scores[a] - scores[b]);
  const last = []; // the last dot of each level
  return scored.map((i) => {
    const at = percentOf(scores[i]);
    const free = last.findIndex((before) => at - before >= near);
    const level = free < 0 ? last.length % LEVELS : free;
    last[level] = at;
    return [i, level];
  });
}

const reward = (label) => number(label, Number.isInteger(label) ? 0 : undefined);

/** The same in words, best first: "0.78 (reward 1), 0.54 (reward 0)". */
function scoresInWords(scores, labels) {
  const order = scores.map((_, i) => i).filter((i) => scores[i] !== null).sort((a, b) => scores[b] - scores[a]);
  const words = order.map((i) => number(scores[i], 2) + (labels[i] === null ? "" : ` (reward ${reward(labels[i])})`));
  if (words.length > SAID) words.splice(SAID / 2, words.length - SAID, "…");
  return words.join(", ");
}

/** A line from 0 to 1 with a dot for each rollout; its name for a screen reader is the scores. */
function Strip({ scores, labels, middle }) {
  const said = scoresInWords(scores, labels);
  if (!said) return html`<span class="muted">${NONE}</span>`;
  const line = STRIP / 2;
  const ofForm = (form) => {
    const own = scores.map((score, i) => (formOf(labels[i], middle) === form ? score : null));
    const [first, way] = LANES[form];
    return levelsOf(own).map(([i, level]) => html`<circle key=${i} class=${form} cx=${`${percentOf(own[i])}%`} cy=${line + first + way * level * PITCH} r=${DOT} />`);
  };
  return html`<svg class="strip" role="img" height=${STRIP} aria-label=${`scores, best first: ${said}`}>
    <title>${said}</title>
    <line x1="0%" x2="100%" y1=${line} y2=${line} />
    ${[0, 50, 100].map((x) => html`<line key=${x} x1=${`${x}%`} x2=${`${x}%`} y1=${line - 4} y2=${line + 4} />`)}
    ${Object.keys(LANES).map(ofForm)}
  </svg>`;
}

/** What the dots mean, in a line. */
function StripLegend({ rows }) {
  const { middle } = rows;
  const dot = (form) => html`<svg class="strip-dot" aria-hidden="true"><circle class=${form} cx="6" cy="6" r=${DOT} /></svg>`;
  return html`<p class="strip-legend">${instead.legend ?? "Each dot is a rollout, placed by its score."}
    ${middle !== null && html` <span>${dot("high")}original reward above ${reward(middle)}</span>
      <span>${dot("low")}${reward(middle)} or less</span>
      ${rows.labels.some((of) => of.includes(null)) && html`<span>${dot("unknown")}none</span>`}`}</p>`;
}
