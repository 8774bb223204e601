"use strict";
// How the figures are drawn, by the plotting library: each plot is its numbers as a table and a function of
// the width. Every mark is a link with a name, to the groups that it counts.

const CHART_HEIGHT = 190;

/** A stretch in words. */
function stretch(from, to, shown) {
  const [low, high] = [shown(from), shown(to)];
  return low === high ? low : `${low} to ${high}`;
}

/** A share in percent, without digits that say nothing: "88%", "0.4%". */
const percent = (x) => `${number(100 * x, x > 0 && x < 0.01 ? 1 : 0)}%`;

/** What both axes and marks share: no space wasted, text in the page's own font. */
function drawn(width, options) {
  const plot = lib.plot({ width, height: CHART_HEIGHT, marginLeft: 48, marginBottom: 34, ...options });
  // its marks are named after their kind, which says nothing to a screen reader
  for (const group of plot.querySelectorAll("g[aria-label]:not([role])")) group.removeAttribute("aria-label");
  return plot;
}

/** The channels that make a mark a link with a name. */
const linked = { href: "href", ariaLabel: "name", title: "name" };

/** A histogram: bars over stretches. A bar is named by the least and the greatest value in it, as both ends count. */
function histogram(bins, { condition, shown, what, label, domain }) {
  const marks = bins.filter((bin) => bin.n).map((bin) => ({
    ...bin,
    href: link({ [condition]: bin.values }),
    words: stretch(...bin.values, shown),
    name: `${label} ${stretch(...bin.values, shown)}: ${many(bin.n, what)}; show the groups`,
  }));
  return {
    table: { head: [label, `${what}s`], rows: marks.map((m) => [m.words, whole(m.n)]) },
    draw: (width) =>
      drawn(width, {
        x: { label: `${label} →`, domain },
        y: { label: `↑ ${what}s`, grid: true, tickFormat: "~s", ticks: ticks(Math.max(...bins.map((bin) => bin.n))) },
        marks: [
          lib.rectY(
            marks,
            { x1: "from", x2: "to", y: "n", fill: "var(--accent)", insetLeft: 0.5, insetRight: 0.5, ...linked },
          ),
          lib.ruleY([0]),
        ],
      }),
  };
}

/** Scores against something else of the rollouts: how many fall into each field, the darker the more. */
function fields(cells, { condition, at, shown, label, axis, words }) {
  const marks = cells.map((cell) => ({
    n: cell.n,
    low: cell.score[0],
    high: cell.score[1],
    from: cell[at][0],
    to: cell[at][1],
    scores: stretch(...cell.values.score, short),
    words: stretch(...cell.values[at], shown),
    href: link({ score: cell.values.score, [condition]: cell.values[at] }),
    name:
      `score ${stretch(...cell.values.score, short)}, ${label} ${stretch(...cell.values[at], shown)}: ` +
      `${many(cell.n, "rollout")}; show the groups`,
  }));
  const shade = { fill: "var(--accent)", fillOpacity: "n", stroke: "var(--line)", ...linked };
  const options = { y1: "low", y2: "high", inset: 0.5, ...shade };
  return {
    table: {
      head: ["score", label, "rollouts"],
      rows: marks.map((m) => [m.scores, m.words, whole(m.n)]),
    },
    draw: (width) =>
      drawn(width, {
        opacity: { type: "sqrt", range: [0.12, 1] },
        x: { label: `${label} →`, ...axis, ...(words ? { domain: [...new Set(marks.map((m) => m.words))] } : {}) },
        y: { label: "↑ score", domain: [0, 1], ticks: 5 },
        marks: [
          words ? lib.barY(marks, { x: "words", ...options }) : lib.rect(marks, { x1: "from", x2: "to", ...options }),
        ],
      }),
  };
}

const decimal = (x) => number(x, 2);

/** A number without the zeros at its end. */
const short = (x) => number(x, 3).replace(/\.?0+$/, "");

/** Ticks of an axis that counts: never between two whole numbers. */
const ticks = (most) => Math.min(4, Math.max(1, most));

/** The closed range of the positions in a bin; none stands within a thousandth below its end. */
function positions({ from, to }) {
  return from === to ? [from, to] : [Math.max(from, 0.001), Number((Math.min(to, 1) - 1e-6).toFixed(6))];
}

/** Position bias: how far a position is above its group, with two standard errors. */
function slotCurve(bins) {
  const marks = bins.map((bin) => ({
    ...bin,
    x: (bin.from + bin.to) / 2,
    low: bin.mean - 2 * (bin.error ?? 0),
    high: bin.mean + 2 * (bin.error ?? 0),
    href: link({ slot: positions(bin) }),
    name:
      `shown at ${stretch(bin.from, bin.to, decimal)}: ${signed(bin.mean)} on average` +
      `${bin.error === null ? "" : ` (standard error ${number(bin.error, 3)})`}, ${many(bin.n, "score")}; show the groups`,
  }));
  return {
    table: {
      head: ["position", "above the group's mean", "standard error", "scores"],
      rows: bins.map((b) => [stretch(b.from, b.to, decimal), signed(b.mean), number(b.error, 3), whole(b.n)]),
    },
    draw: (width) =>
      drawn(width, {
        x: { label: "position in the prompt: 0 first, 1 last →", domain: [0, 1] },
        y: { label: "↑ above the group's mean", grid: true, ticks: 4 },
        marks: [
          lib.ruleY([0]),
          lib.line(marks, { x: "x", y: "mean", stroke: "var(--muted)", strokeDasharray: "3 3" }),
          lib.ruleX(marks, { x: "x", y1: "low", y2: "high", stroke: "var(--accent)" }),
          lib.dot(marks, { x: "x", y: "mean", r: 5, fill: "var(--accent)", ...linked }),
        ],
      }),
  };
}

const signed = (x) => (x > 0 ? "+" : "") + number(x, 3);

/** Why a group has no scores, in words. */
function kindInWords(kind) {
  const words = {
    reply: "unusable reply",
    transport: "judge failed",
    refused: "judge refused",
    too_long: "too long",
    input: "nothing to judge",
    budget: "cost cap",
    interrupted: "interrupted",
  };
  return words[kind] ?? visible(String(kind));
}
