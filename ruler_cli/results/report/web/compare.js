"use strict";
// A page of two files: judge A beside judge B. It puts its own into the tables of the report's other scripts.

(() => {
  const HEIGHT = [14, 28]; // pixels from the top, of the dots of A and of B
  const [PAIR_NEAR, PAIR_PITCH] = [5, 5]; // hundredths, and pixels between dots of near scores
  const MOST_LINES = 64; // rollouts of a group that are drawn; of more, those whose scores are furthest apart
  const { figuresInWords } = GroupPage;
  const { Text } = turnlist;

  // ---- Both scores of a rollout ----------------------------------------------------------------------

  /** Both scores of each rollout, the best of A first: "A 0.78, B 0.31 (reward 1); …". */
  function pairsInWords(a, b, labels) {
    const order = a.map((_, i) => i).sort((i, j) => (a[j] ?? -Infinity) - (a[i] ?? -Infinity));
    const words = order.map((i) => `A ${number(a[i], 2)}, B ${number(b[i], 2)}${labels[i] === null ? "" : ` (reward ${reward(labels[i])})`}`);
    if (words.length > SAID) words.splice(SAID / 2, words.length - SAID, "…");
    return words.join("; ");
  }

  /** Scores of A above those of B, a line for each rollout: where two lines cross the judges differ in the order. */
  function Pairs({ a, b, labels, middle }) {
    if (![...a, ...b].some((score) => score !== null)) return html`<span class="muted">${NONE}</span>`;
    const far = (i) => (a[i] === null || b[i] === null ? -1 : Math.abs(a[i] - b[i]));
    const shown = a.map((_, i) => i).sort((i, j) => far(j) - far(i)).slice(0, MOST_LINES);
    const said = pairsInWords(a, b, labels);
    const x = (score) => `${percentOf(score)}%`;
    const [above, below] = [a, b].map((scores, side) => new Map(
      levelsOf(shown.map((i) => scores[i]), PAIR_NEAR).map(([at, level]) => [shown[at], HEIGHT[side] + (side ? 1 : -1) * level * PAIR_PITCH])));
    const dots = (scores, heights) => [...heights].map(([i, y]) => html`<circle key=${i} class=${formOf(labels[i], middle)} cx=${x(scores[i])} cy=${y} r=${DOT} />`);
    return html`<svg class="strip pairs" role="img" height="42" aria-label=${`scores by A and B: ${said}`}>
      <title>${said}</title>
      ${HEIGHT.map((y) => html`<line key=${y} x1="0%" x2="100%" y1=${y} y2=${y} />`)}
      ${shown.map((i) => far(i) >= 0 && html`<line key=${i} class="pair" x1=${x(a[i])} y1=${above.get(i)} x2=${x(b[i])} y2=${below.get(i)} />`)}
      ${dots(a, above)}${dots(b, below)}
    </svg>`;
  }

  // ---- Table of groups -------------------------------------------------------------------------------

  const PairsCell = ({ rows, i }) => html`<${Pairs} a=${rows.scores[i]} b=${rows.b_scores[i]} labels=${rows.labels[i]} middle=${rows.middle} />`;
  const of = (name) => COLUMNS.find((column) => column.name === name);
  const figure = (name, track, title, means, shown = (x) => number(x, 2)) =>
    ({ name, track, title, means, down: true, in: known(name), text: (rows, i) => shown(rows[name][i]) });

  COLUMNS.splice(0, COLUMNS.length,
    of("key"), of("task"),
    { name: "scores", track: "minmax(9rem, 1fr)", title: "A above B, 0 to 1", cell: PairsCell, down: true, means: "each line is a rollout, from its score by A to that by B; sorts by the best of A" },
    figure("order", "6.4rem", "other order", "share of the pairs of rollouts that the judges order differently; equal scores of one count half", shareOf),
    figure("distance", "5.3rem", "distance", "mean distance between the scores of a rollout by A and by B"),
    figure("mean", "4.6rem", "mean A", "mean score by A"),
    figure("b_mean", "4.6rem", "mean B", "mean score by B"),
    { ...of("telling"), means: "how the judges differ; sorts by how much" },
    { ...figure("disagreement", "6.4rem", "A disputed", "share of the pairs with different rewards that A orders against them", shareOf), wide: 1200 },
    { ...figure("b_disagreement", "6.4rem", "B disputed", "share of the pairs with different rewards that B orders against them", shareOf), wide: 1200 },
  );
  for (const name of ["order", "distance", "b_mean", "b_disagreement"]) SORTS.set(name, (rows) => rows[name]);

  // ---- Conditions ------------------------------------------------------------------------------------

  const { suspect, reviewed, unreviewed, good, bad, noted } = WORDS;
  for (const word of Object.keys(WORDS)) delete WORDS[word];
  Object.assign(WORDS, {
    suspect,
    only_a: ["only A", "A scored it, B did not", "bad"],
    only_b: ["only B", "B scored it, A did not", "bad"],
    order: ["other order", "the judges order a quarter or more of the pairs differently", "warn", "-order"],
    distance: ["scores differ", "the scores of a rollout differ by 0.2 or more on average", "warn", "-distance"],
    reviewed, unreviewed, good, bad, noted,
  });

  for (const name of ["mean", "sd", "reliability", "disagreement", "score"]) RANGE_WORDS[name][0] += " by A";
  RANGE_WORDS.order = ["share of pairs in another order", percent];
  RANGE_WORDS.distance = ["distance of the scores", number];
  RANGE_WORDS.b_score = ["score by B", number];
  ROLLOUT_RANGES.b_score = "b_scores";
  GROUP_RANGES.push("order", "distance");

  // ---- A group ---------------------------------------------------------------------------------------

  /** Why a judge has no scores of the group: a sentence for each that has none. */
  function Failure({ rows, row }) {
    return [["A", ""], ["B", "b_"]].map(([judge, prefix]) => {
      const [status, kind, reason] = ["status", "kind", "reason"].map((name) => rows[prefix + name][row]);
      return status !== "scored" && html`<p key=${judge} class="g-notice g-failed g-foreign"><b>${judge} has no scores</b> (${
        status === "failed" ? visible(kind) : "never scored"})${reason && html`: <${Text} text=${reason} />`}</p>`;
    });
  }

  /** What both judges say of the group in figures: a line each, and how far they agree. */
  function About({ rows, row }) {
    const [pairs, against, distance] = ["pairs", "against", "distance"].map((name) => rows[name][row]);
    return html`<p class="g-meta"><b>A</b> ${figuresInWords(rows, row) || "no scores"}</p>
      <p class="g-meta"><b>B</b> ${figuresInWords(rows, row, "b_") || "no scores"}</p>
      <p class="g-meta">${pairs > 0 && `${number(against)} of ${many(pairs, "pair")} in another order`}${distance !== null && `; scores differ by ${number(distance, 2)} on average`}</p>`;
  }

  // ---- Overview --------------------------------------------------------------------------------------

  /** A table of both files' figures. */
  function Sides({ rows }) {
    return html`<div class="card sides"><table>
      <thead><tr><th scope="col"><span class="unseen">Figure</span></th><th scope="col">A</th><th scope="col">B</th><th scope="col">A − B</th></tr></thead>
      <tbody>${rows.filter(([, a, b]) => a || b).map(([name, a, b, difference]) => html`<tr key=${name}>
        <th scope="row">${name}</th><td>${visible(a) || NONE}</td><td>${visible(b) || NONE}</td><td>${visible(difference)}</td></tr>`)}</tbody>
    </table></div>`;
  }

  /** What both judges say of the rollout whose scores are the furthest apart. */
  function Said({ entry, rows }) {
    if (entry.furthest === null) return null;
    const row = rows.ordinal.indexOf(entry.ordinal);
    const name = `#${entry.furthest + 1}`;
    return html`<div class="said">
      <span>${row < 0 ? name : html`<a href=${groupHash(rows, row, rows.ids[row][entry.furthest])}>${name}</a>`}</span>
      ${entry.said.map(({ score, explanation }, i) => html`<p key=${i} title=${visible(explanation)}><b>${"AB"[i]} ${number(score, 2)}</b>
        ${" "}<${Text} text=${explanation || "no explanation"} /></p>`)}
    </div>`;
  }

  /** The groups on which the judges differ most. */
  function Differing({ data: { comparison, rows } }) {
    if (!comparison.differ.length) return html`<p>In no group do the judges differ much: a quarter of the pairs in another order, or scores 0.2 or more apart.</p>`;
    return html`<section class="card shortlist differing" aria-labelledby="differ-head">
      <h3 id="differ-head">Groups on which they differ most</h3>
      <p class="note">A above B, each line is a rollout: lines that cross are pairs in another order. Below, what both say of the rollout whose scores are the furthest apart. <a href="#groups">All in the table</a></p>
      <ul>${comparison.differ.map((entry) => html`<li key=${entry.ordinal}>
        <${ListedGroup} rows=${rows} ordinal=${entry.ordinal} name=${entry.key} />
        <span class="why">${number(entry.against)} of ${many(entry.pairs, "pair")}, differ by ${number(entry.distance, 2)}</span>
        <${Pairs} a=${entry.a.scores} b=${entry.b.scores} labels=${entry.a.labels} middle=${rows.middle} />
        <${Said} entry=${entry} rows=${rows} />
      </li>`)}</ul>
      <${StripLegend} rows=${rows} />
    </section>`;
  }

  function Overview({ data }) {
    const { verdict, groups, rollouts, opening, rows, findings, cells } = data.comparison;
    const chart = lib.useMemo(() => ({
      id: "scatter",
      heading: "A against B",
      sentence: `Rollouts by both scores; where both are alike the judges agree. ${SHADES}`,
      draw: fields(cells, { x: "a", y: "b", shown: short, label: "score by A", ofY: "score by B", axis: { domain: [0, 1], ticks: 5 } }),
    }), [cells]);
    return html`<section aria-labelledby="overview-head">
      <h2 id="overview-head">${visible(verdict)}</h2>
      <p class="judged">${many(groups, "group")}, ${many(rollouts, "rollout")} that both judges scored${opening && ` · ${visible(opening)}`}</p>
      <${Sides} rows=${rows} />
      <${Findings} id="findings-head" title="How far they agree" findings=${findings} />
      <${Differing} data=${data} />
      ${cells.length > 0 && html`<${Chart} chart=${chart} />`}
    </section>`;
  }

  Object.assign(instead, { Overview, About, Failure, legend: "Each line is a rollout: its score by A above, by B below." });
})();
