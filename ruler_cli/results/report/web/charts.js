"use strict";
// The charts of the pages, drawn by the plotting library. A mark that counts groups is a link to them, with a name.

const CHART_HEIGHT = 190;
const ENOUGH = 10; // groups from which on a chart shows more than a list of them, as in figures.py

const short = (x) => number(x);
const signed = (x) => (x > 0 ? "+" : "") + number(x, 3);

/** A stretch in words. */
function stretch(from, to, shown) {
  const [low, high] = [shown(from), shown(to)];
  return low === high ? low : `${low} to ${high}`;
}

/** A share in percent, without digits that say nothing: "88%", "0.4%". */
const percent = (x) => `${number(100 * x, x > 0 && x < 0.01 ? 1 : 0)}%`;

/** What all plots share: no space wasted, text in the page's own font. */
const drawn = (width, options) => lib.plot({ width, height: CHART_HEIGHT, marginLeft: 48, marginBottom: 34, ...options });

/** The channels that make a mark a link with a name. */
const linked = { href: "href", ariaLabel: "name", title: "name" };

/** A histogram: bars over stretches. A bar is named by the least and the greatest value in it, as both ends count. */
function histogram(bins, { condition, what, label, domain }) {
  const bars = bins.filter((bin) => bin.n).map((bin) => ({
    ...bin,
    href: link({ [condition]: bin.values }),
    name: `${label} ${stretch(...bin.values, short)}: ${many(bin.n, what)}; show the groups`,
  }));
  const most = Math.max(...bins.map((bin) => bin.n));
  return (width) => drawn(width, {
    x: { label: `${label} →`, domain },
    y: { label: `↑ ${what}s`, grid: true, tickFormat: "~s", ticks: Math.min(4, most) },
    marks: [lib.rectY(bars, { x1: "from", x2: "to", y: "n", fill: "var(--accent)", insetLeft: 0.5, insetRight: 0.5, ...linked }), lib.ruleY([0])],
  });
}

/** How many rollouts fall into each field of two quantities, the darker the more; `x` and `y` are members of the cells. */
function fields(cells, { x, y, shown, label, ofY, axis }) {
  const marks = cells.map((cell) => ({
    n: cell.n, x1: cell[x][0], x2: cell[x][1], y1: cell[y][0], y2: cell[y][1],
    words: stretch(...cell.values[x], shown),
    href: link({ [x === "a" ? "score" : x]: cell.values[x], [y === "b" ? "b_score" : y]: cell.values[y] }),
    name: `${ofY} ${stretch(...cell.values[y], short)}, ${label} ${stretch(...cell.values[x], shown)}: ${many(cell.n, "rollout")}; show the groups`,
  }));
  const shade = { y1: "y1", y2: "y2", fill: "var(--accent)", fillOpacity: "n", stroke: "var(--line)", inset: 0.5, ...linked };
  const words = cells.every((cell) => cell[x][0] === cell[x][1]);
  return (width) => drawn(width, {
    opacity: { type: "sqrt", range: [0.12, 1] },
    x: { label: `${label} →`, ...axis, ...(words && { domain: [...new Set(marks.map((mark) => mark.words))] }) },
    y: { label: `↑ ${ofY}`, domain: [0, 1], ticks: 5 },
    marks: [words ? lib.barY(marks, { x: "words", ...shade }) : lib.rect(marks, { x1: "x1", x2: "x2", ...shade })],
  });
}

/** How far a position is above its group, with two standard errors. */
function slotCurve(bins) {
  const marks = bins.map((bin) => ({
    ...bin,
    x: (bin.from + bin.to) / 2,
    low: bin.mean - 2 * (bin.error ?? 0),
    high: bin.mean + 2 * (bin.error ?? 0),
    name: `shown at ${stretch(bin.from, bin.to, short)}: ${signed(bin.mean)} on average, ${many(bin.n, "score")}`,
  }));
  return (width) => drawn(width, {
    x: { label: "position in the prompt: 0 first, 1 last →", domain: [0, 1] },
    y: { label: "↑ above the group's mean", grid: true, ticks: 4 },
    marks: [
      lib.ruleY([0]),
      lib.ruleX(marks, { x: "x", y1: "low", y2: "high", stroke: "var(--accent)" }),
      lib.dot(marks, { x: "x", y: "mean", r: 5, fill: "var(--accent)", title: "name" }),
    ],
  });
}

const SHADES = "The stronger a colour, the more rollouts.";

/** The charts of a run that have enough groups, and differ in something: an id, a heading, a sentence, how it is drawn. */
function charts({ groups, scores, spread, against_label: labels, slots, lengths, reliability }) {
  const differ = (cells, axis) => new Set(cells.map((cell) => String(cell[axis]))).size > 1;
  const spreadTo = Math.max(0.2, ...spread.bins.filter((bin) => bin.n).map((bin) => bin.to));
  const slope = lengths.slope == null ? "" : ` In its group, a rollout twice as long scores ${signed(lengths.slope)} (± ${number(lengths.error, 3)}).`;
  return [
    [groups.scored, "scores", "Scores", `Mean ${number(scores.mean, 2)}, standard deviation ${number(scores.sd, 2)}.`,
      () => histogram(scores.bins, { condition: "score", what: "rollout", label: "score", domain: [0, 1] })],
    [spread.bins.reduce((n, bin) => n + bin.n, 0), "spread", "Spread within groups",
      `Standard deviation of a group's scores, median ${number(spread.median, 2)}; at 0 there is nothing to learn from.`,
      () => histogram(spread.bins, { condition: "sd", what: "group", label: "spread", domain: [0, spreadTo] })],
    [labels.agreement !== null && differ(labels.cells, "label") && labels.groups, "labels", "Judge against original reward",
      `Of ${many(labels.pairs, "pair")} of rollouts with different rewards the judge orders ${percent(labels.agreement)} the same way; 50% is chance. ${SHADES}`,
      () => fields(labels.cells, { x: "label", y: "score", shown: short, label: "original reward", ofY: "score" })],
    [slots.bins.length > 1 && slots.groups, "slots", "Position bias",
      `How far a rollout scores above its group by its position in the prompt, over ${many(slots.groups, "group")}; flat is fair.`, () => slotCurve(slots.bins)],
    [differ(lengths.cells, "bytes") && groups.scored, "lengths", "Score against length", `Length of what the agent did, in bytes.${slope} ${SHADES}`,
      () => fields(lengths.cells, { x: "bytes", y: "score", shown: bytes, label: "length", ofY: "score", axis: { type: "log", base: 2, tickFormat: (x) => bytes(x), ticks: 5 } })],
    [reliability.groups, "reliability", "Reliability",
      `Of ${many(reliability.groups, "group")} judged more than once, median ${number(reliability.median, 2)}; 1 is certain, 0 all noise.`,
      () => histogram(reliability.bins, { condition: "reliability", what: "group", label: "reliability", domain: [0, 1] })],
  ].filter(([shown]) => shown >= ENOUGH).map(([, id, heading, sentence, make]) => ({ id, heading, sentence, draw: make() }));
}

/** A chart that is drawn anew when its width changes. */
function Chart({ chart }) {
  const place = lib.useRef(null);
  lib.useLayoutEffect(() => {
    const node = place.current;
    let drawnAt = 0;
    const draw = () => {
      const width = Math.round(node.clientWidth);
      if (!width || width === drawnAt) return;
      drawnAt = width;
      const svg = chart.draw(width);
      // a group of links, not an image: an image would hide them from a screen reader
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", `${chart.heading}. ${chart.sentence}`);
      // the library names its layers, which have no role that takes a name
      for (const layer of svg.querySelectorAll("g[aria-label]")) layer.removeAttribute("aria-label");
      node.replaceChildren(svg);
    };
    const watch = new ResizeObserver(draw);
    watch.observe(node);
    draw();
    return () => watch.disconnect();
  }, [chart]);
  return html`<figure class="chart card" id=${`chart-${chart.id}`}>
    <h3>${chart.heading}</h3>
    <figcaption>${chart.sentence}</figcaption>
    ${chart.legend && html`<ul class="legend">${chart.legend.map(({ words, title, colour, glyph }) => html`<li>
      <span style=${{ color: colour }} aria-hidden="true">${glyph} </span><span title=${title}>${words}</span></li>`)}</ul>`}
    <div class="plot" ref=${place}></div>
  </figure>`;
}

/** Sentences, each with a name, under a head with this id. */
function Findings({ id, title, findings }) {
  return html`<section class="card findings" aria-labelledby=${id}>
    <h3 id=${id}>${title}</h3>
    <dl>${findings.map(([name, sentence], i) => html`<div key=${i}><dt>${name}</dt><dd>${visible(sentence)}</dd></div>`)}</dl>
  </section>`;
}
