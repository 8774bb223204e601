"use strict";
// The charts of the overview: which there are, what each says in a sentence, and how it stands on the page.

const CHARTS = {
  scores: scoreChart,
  spread: spreadChart,
  labels: labelChart,
  slots: slotChart,
  lengths: lengthChart,
  reliability: reliabilityChart,
};

const ENOUGH = 10; // groups from which on a chart shows more than a list of them, as in figures.py

/** How many groups a chart would show; none if nothing in it differs. */
const SHOWN = {
  scores: ({ groups }) => groups.scored,
  spread: ({ spread }) => spread.bins.reduce((n, bin) => n + bin.n, 0),
  labels: ({ against_label: { cells, groups } }) => (differ(cells, "label") ? groups : 0),
  slots: ({ slots }) => (slots.bins.length > 1 ? slots.groups : 0),
  lengths: ({ lengths, groups }) => (differ(lengths.cells, "bytes") ? groups.scored : 0),
  reliability: ({ reliability }) => reliability.groups,
};

/** Whether cells differ along an axis. */
const differ = (cells, axis) => new Set(cells.map((cell) => String(cell[axis]))).size > 1;

/** The charts that the figures deserve: an id, a heading, a sentence, its numbers, how it is drawn. */
function charts(figures) {
  return Object.keys(CHARTS).filter((id) => SHOWN[id](figures) >= ENOUGH).map((id) => ({ id, ...CHARTS[id](figures) }));
}

function scoreChart({ scores }) {
  return {
    heading: "Scores",
    sentence: `Mean ${number(scores.mean, 2)}, standard deviation ${number(scores.sd, 2)}.`,
    ...histogram(scores.bins, { condition: "score", shown: short, what: "rollout", label: "score", domain: [0, 1] }),
  };
}

function spreadChart({ spread }) {
  return {
    heading: "Spread within groups",
    sentence: `Standard deviation of a group's scores, median ${number(spread.median, 2)}; at 0 there is nothing to learn from.`,
    ...histogram(spread.bins, { condition: "sd", shown: short, what: "group", label: "spread", domain: [0, Math.max(0.2, ...spread.bins.filter((bin) => bin.n).map((bin) => bin.to))] }),
  };
}

function labelChart({ against_label: found }) {
  const words = found.cells.every((cell) => cell.label[0] === cell.label[1]);
  const agreed = found.agreement;
  return {
    heading: "Judge against original reward",
    sentence:
      agreed === null
        ? "No group holds rollouts of different rewards."
        : `Of ${many(found.pairs, "pair")} of rollouts with different rewards the judge orders ${percent(agreed)} the same way; 50% is chance. The stronger a colour, the more rollouts.`,
    ...fields(found.cells, {
      condition: "label",
      at: "label",
      shown: short,
      label: "original reward",
      words,
    }),
  };
}

function slotChart({ slots }) {
  return {
    heading: "Position bias",
    sentence: `How far a rollout scores above its group by its position in the prompt, over ${many(slots.groups, "group")}; flat is fair.`,
    ...slotCurve(slots.bins),
  };
}

function lengthChart({ lengths }) {
  const trend =
    lengths.slope == null
      ? ""
      : ` In its group, a rollout twice as long scores ${signed(lengths.slope)} (± ${number(lengths.error, 3)}).`;
  return {
    heading: "Score against length",
    sentence: `Length of what the agent did, in bytes.${trend} The stronger a colour, the more rollouts.`,
    ...fields(lengths.cells, {
      condition: "bytes",
      at: "bytes",
      shown: bytes,
      label: "length",
      axis: { type: "log", base: 2, tickFormat: (x) => bytes(x), ticks: 5 },
    }),
  };
}

function reliabilityChart({ reliability }) {
  return {
    heading: "Reliability",
    sentence: `Of ${many(reliability.groups, "group")} judged more than once, median ${number(reliability.median, 2)}; 1 is certain, 0 all noise.`,
    ...histogram(reliability.bins, {
      condition: "reliability",
      shown: short,
      what: "group",
      label: "reliability",
      domain: [0, 1],
    }),
  };
}

/** A chart that is drawn anew when its width changes; its numbers stand below it as a table. */
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
    ${chart.legend && html`<${Legend} entries=${chart.legend} />`}
    <div class="plot" ref=${place}></div>
    <details>
      <summary>The numbers</summary>
      <${Numbers} table=${chart.table} name=${chart.heading} />
    </details>
  </figure>`;
}

/** Which colour is what; an entry with a glyph is of a line with such dots, and leads nowhere. */
function Legend({ entries }) {
  const entry = ({ words, title, colour, href, glyph }) =>
    glyph
      ? html`<span style=${{ color: colour }} aria-hidden="true">${glyph} </span><span title=${title}>${words}</span>`
      : html`<a href=${href}><span class="swatch" style=${{ background: colour }} aria-hidden="true"></span>${words}</a>`;
  return html`<ul class="legend">${entries.map((one) => html`<li>${entry(one)}</li>`)}</ul>`;
}

/** Sentences, each with a name, under a head with this id. */
function Findings({ id, title, findings }) {
  return html`<section class="card findings" aria-labelledby=${id}>
    <h3 id=${id}>${title}</h3>
    <dl>${findings.map(([name, sentence], i) => html`<div key=${i}><dt>${name}</dt><dd>${visible(sentence)}</dd></div>`)}</dl>
  </section>`;
}

/** A table of numbers. */
function Numbers({ table, name }) {
  return html`<table class="numbers" aria-label=${name}>
    <thead>
      <tr>${table.head.map((head) => html`<th scope="col">${head}</th>`)}</tr>
    </thead>
    <tbody>
      ${table.rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
    </tbody>
  </table>`;
}
