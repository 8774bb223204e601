"use strict";
// A page of two files: judge A beside judge B. It puts its own into the tables of the report's other scripts.

(() => {
  const TALL = 42; // pixels
  const HEIGHT = { a: 14, b: 28 }; // pixels from the top
  const AWAY = { a: -1, b: 1 }; // the side of the line on which dots of near scores stand
  const [PAIR_ROOM, PAIR_NEAR] = [10, 5]; // pixels for them; hundredths, as the strips are narrow
  const MOST_LINES = 64; // rollouts of a group that are drawn; of more, those whose scores are furthest apart
  const { JUDGES, COLUMNS: OF_ROLLOUT, beginning, notesOf } = rolloutViews;
  const { figuresInWords } = groupHead;
  const { Text } = turnlist;

  // ---- Both scores of a rollout ----------------------------------------------------------------------

  /** Both scores of each rollout, the best of A first: "A 0.78, B 0.31 (reward 1); …". */
  function pairsInWords(a, b, labels) {
    const order = a.map((_, i) => i).sort((i, j) => (a[j] ?? -Infinity) - (a[i] ?? -Infinity));
    const said = (i) => `A ${number(a[i], 2)}, B ${number(b[i], 2)}${(labels[i] ?? null) === null ? "" : ` (reward ${reward(labels[i])})`}`;
    const words = order.map(said);
    if (words.length > SAID) words.splice(SAID / 2, words.length - SAID, "…");
    return words.join("; ");
  }

  /** The rollouts to draw, by their indices. */
  function drawnOf(a, b) {
    const all = a.map((_, i) => i);
    if (all.length <= MOST_LINES) return all;
    const far = (i) => (a[i] === null || b[i] === null ? -1 : Math.abs(a[i] - b[i]));
    return all.sort((i, j) => far(j) - far(i)).slice(0, MOST_LINES);
  }

  /** Scores of A above those of B, a line for each rollout: where two lines cross the judges differ in the order. */
  function Pairs({ a, b, labels, scale }) {
    if (![...a, ...b].some((score) => score !== null)) return html`<span class="muted">${NONE}</span>`;
    const said = pairsInWords(a, b, labels);
    const shown = drawnOf(a, b);
    const at = (score) => `${Math.min(1, Math.max(0, score)) * 100}%`;
    const heights = (side, scores) => {
      const known = shown.filter((i) => scores[i] !== null);
      const levels = levelsOf(known.map((i) => scores[i]), PAIR_NEAR);
      const pitch = pitchOf(Math.max(0, ...levels), PAIR_ROOM);
      return new Map(known.map((i, at) => [i, HEIGHT[side] + AWAY[side] * levels[at] * pitch]));
    };
    const y = { a: heights("a", a), b: heights("b", b) };
    const line = (i) => html`<line key=${i} class="pair" x1=${at(a[i])} y1=${y.a.get(i)} x2=${at(b[i])} y2=${y.b.get(i)} />`;
    const dot = (side, score, i) => score !== null && html`<circle key=${side + i} class=${formOf(labels[i], scale)} cx=${at(score)} cy=${y[side].get(i)} r=${DOT} />`;
    return html`<svg class="strip pairs" role="img" height=${TALL} aria-label=${`scores by A and B: ${said}`}>
      <title>${said}</title>
      ${["a", "b"].map((side) => html`<line key=${side} x1="0%" x2="100%" y1=${HEIGHT[side]} y2=${HEIGHT[side]} />`)}
      ${shown.map((i) => a[i] !== null && b[i] !== null && line(i))}
      ${shown.map((i) => [dot("a", a[i], i), dot("b", b[i], i)])}
    </svg>`;
  }

  // ---- Table of groups -------------------------------------------------------------------------------

  const PairsCell = ({ data, rows, i }) =>
    html`<${Pairs} a=${rows.scores[i]} b=${rows.b_scores[i]} labels=${rows.labels[i]} scale=${rewardScale(data)} />`;

  const inDigits = (name, digits) => (rows, i) => number(rows[name][i], digits);
  const inPercent = (name) => (rows, i) => (rows[name][i] === null ? NONE : percent(rows[name][i]));
  const own = (name) => COLUMNS.find((column) => column.name === name);

  COLUMNS.splice(0, COLUMNS.length,
    own("key"),
    { ...own("task"), least: 12 },
    { name: "scores", least: 11, share: 1, paper: 2, title: "A above B, 0 to 1", cell: PairsCell, down: true, means: "each line is a rollout, from its score by A to that by B; sorts by the best of A" },
    { name: "order", least: 6.2, title: "other order", text: inPercent("order"), down: true,
      means: "share of the pairs of rollouts that the judges order differently; equal scores of one count half" },
    { name: "distance", least: 5.2, title: "distance", text: inDigits("distance", 2), down: true, means: "mean distance between the scores of a rollout by A and by B" },
    { name: "mean", least: 4.4, title: "mean A", text: inDigits("mean", 2), down: true, means: "mean score by A" },
    { name: "b_mean", least: 4.4, title: "mean B", text: inDigits("b_mean", 2), down: true, means: "mean score by B" },
    { ...own("telling"), orders: ["most different first", "least different first"], means: "how the judges differ; sorts by how much" },
    { ...own("disagreement"), least: 7, title: "A disputed", means: "share of the pairs with different rewards that A orders against them; equal scores count half" },
    { name: "b_disagreement", least: 7, in: known("b_disagreement"), title: "B disputed", text: inPercent("b_disagreement"), down: true,
      means: "share of the pairs with different rewards that B orders against them; equal scores count half" },
  );
  for (const name of ["order", "distance", "b_mean", "b_disagreement"]) SORTS.set(name, (rows) => rows[name]);

  // ---- Conditions ------------------------------------------------------------------------------------

  /** Replace all entries of a table. */
  function replace(table, entries) {
    for (const name of Object.keys(table)) delete table[name];
    Object.assign(table, entries);
  }

  replace(WHERE_WORDS, {
    order: ["other order", "the judges order a quarter or more of the pairs differently"],
    distance: ["scores differ", "the scores of a rollout differ by 0.2 or more on average"],
    only_a: ["only A", "A scored it, B did not"],
    only_b: ["only B", "B scored it, A did not"],
  });
  PRESETS.length = 0;
  replace(REASONS, Object.fromEntries(Object.keys(WHERE_WORDS).map((word) => [word, word])));
  replace(MARKS, { suspect: MARKS.suspect, ...Object.fromEntries(Object.entries(WHERE_WORDS).map(([word, words]) => [word, [...words, word.startsWith("only") ? "bad" : "warn"]])) });

  for (const name of Object.keys(RANGE_WORDS)) {
    if (Object.hasOwn(ROLLOUT_RANGES, name) ? !["label", "bytes"].includes(name) : name !== "ordinal") RANGE_WORDS[name][0] += " by A";
  }
  Object.assign(RANGE_WORDS, {
    order: ["share of pairs in another order", decimals()],
    distance: ["distance of the scores", decimals()],
    b_mean: ["mean score by B", decimals()],
    b_sd: ["standard deviation by B", decimals()],
    b_score: ["score by B", decimals()],
  });
  ROLLOUT_RANGES.b_score = "b_scores";
  GROUP_RANGES.push("order", "distance", "b_mean", "b_sd");
  RANGES.push("order", "distance", "b_mean", "b_sd", "b_score");

  // ---- A group ---------------------------------------------------------------------------------------

  JUDGES.splice(0, 1,
    { name: "A", score: (e) => e.score, said: (e) => e.said },
    { name: "B", score: (e) => e.second.score, said: (e) => e.second.said || e.second.why },
  );

  const apart = (e) => (e.score === null || e.second.score === null ? null : e.score - e.second.score);
  const column = (name) => OF_ROLLOUT.find(([title]) => title === name);

  OF_ROLLOUT.splice(0, OF_ROLLOUT.length,
    column("Mark"),
    ["A", (e) => number(e.score, 3), () => true, "g-number g-score"],
    ["B", (e) => number(e.second.score, 3), () => true, "g-number g-score"],
    ["A − B", (e) => (apart(e) === null ? NONE : signed(apart(e))), (e) => apart(e) !== null, "g-number"],
    ["0 to 1", (e, scale) => html`<${Pairs} a=${[e.score]} b=${[e.second.score]} labels=${[e.label]} scale=${scale} />`, () => true, "g-strip"],
    column("Reward"),
    ["Spread A", (e) => number(e.spread, 3), (e) => e.spread !== null, "g-number"],
    ["Spread B", (e) => number(e.second.spread, 3), (e) => e.second.spread !== null, "g-number"],
    column("Notes"),
    ["Explanation of A", (e) => beginning(e.said), (e) => e.said, "g-said"],
    ["Explanation of B", (e) => beginning(e.second.said), (e) => e.second.said, "g-said"],
  );

  /** Why a judge has no scores of the group: a sentence for each that has none. */
  function Failure({ rows, row }) {
    return [["A", ""], ["B", "b_"]].map(([judge, prefix]) => {
      const [status, kind, reason] = ["status", "kind", "reason"].map((name) => rows[prefix + name][row]);
      if (status === "scored") return null;
      return html`<p key=${judge} class="g-notice g-failed g-foreign"><b>${judge} has no scores</b> (${
        status === "failed" ? kindInWords(kind) : "never scored"})${reason && html`: <${Text} text=${reason} />`}</p>`;
    });
  }

  /** What both judges say of the group in figures: a line each, and how far they agree. */
  function About({ data, row }) {
    const { rows } = data;
    const [pairs, against] = [rows.pairs[row], rows.against[row]];
    const alike = rows.judge[row] === rows.b_judge[row]; // then the files tell them apart
    const found = [
      pairs > 0 && `${number(against)} of ${many(pairs, "pair")} in another order`,
      rows.distance[row] !== null && `scores differ by ${number(rows.distance[row], 2)} on average`,
    ].filter(Boolean).join(", ");
    return html`<section class="g-meta" aria-label="About the group">
      <p><b>A</b>${alike && ` (${visible(data.sources[0])})`} ${figuresInWords(rows, row) || "no scores"}</p>
      <p><b>B</b>${alike && ` (${visible(data.sources[1])})`} ${figuresInWords(rows, row, "b_") || "no scores"}</p>
      <details><summary>${found || "nothing to compare"} <span class="g-more">command</span></summary>
        <p class="g-ways"><span>In a terminal: <code>${turns.command(data.sources, rows.key[row])}</code></span></p>
      </details>
    </section>`;
  }

  // ---- Overview --------------------------------------------------------------------------------------

  /** A table of both files' figures. */
  function Sides({ rows }) {
    return html`<div class="card sides" role="region" aria-label="Both judges" tabindex="0"><table>
      <thead><tr><th scope="col"><span class="g-unheard">Figure</span></th><th scope="col">A</th><th scope="col">B</th><th scope="col">A − B</th></tr></thead>
      <tbody>${rows.filter(([, a, b]) => a || b).map(([name, a, b, difference]) => html`<tr key=${name}>
        <th scope="row">${name}</th><td>${visible(a) || NONE}</td><td>${visible(b) || NONE}</td><td>${visible(difference)}</td></tr>`)}</tbody>
    </table></div>`;
  }

  /** What both judges say of the rollout whose scores are the furthest apart, side by side. */
  function Said({ entry, data }) {
    if (entry.furthest === null) return null;
    const row = data.rows.ordinal.indexOf(entry.ordinal);
    const name = `#${entry.furthest + 1}`;
    return html`<div class="said">
      <span>${row < 0 ? name : html`<a href=${groupHash(data.rows, row, { id: data.rows.ids[row][entry.furthest] })}>${name}</a>`}</span>
      ${entry.said.map(({ score, explanation }, i) => html`<p key=${i} title=${visible(explanation)}><b>${"AB"[i]} ${number(score, 2)}</b>
        ${" "}<${Text} text=${explanation || "no explanation"} /></p>`)}
    </div>`;
  }

  /** The groups on which the judges differ most. */
  function Differing({ data }) {
    const { differ } = data.comparison;
    const { where } = tally(data.rows);
    const more = ["order", "distance"].filter((word) => where.get(word));
    if (!differ.length) return html`<p>In no group do the judges differ much: a quarter of the pairs in another order, or scores 0.2 or more apart.</p>`;
    const named = (entry) => {
      const row = data.rows.ordinal.indexOf(entry.ordinal);
      return row < 0 ? visible(entry.key) : html`<a href=${groupHash(data.rows, row)}>${visible(entry.key)}</a>`;
    };
    return html`<section class="card shortlist differing" aria-labelledby="differ-head">
      <h3 id="differ-head">Groups on which they differ most</h3>
      <p class="note">A above B, each line is a rollout: lines that cross are pairs in another order. Below, what both say of the rollout whose scores are the furthest apart.
        ${more.length > 0 && html`${" "}<a href=${link({ where: more })}>Show in the table</a> those with a quarter or more of the pairs in another order, or scores that differ by 0.2 or more.`}</p>
      <ul>${differ.map((entry) => html`<li key=${entry.ordinal}>
        <span class="group" title=${visible(entry.key)}>${named(entry)}</span>
        <${Task} rows=${data.rows} ordinal=${entry.ordinal} />
        <span class="why">${number(entry.against)} of ${many(entry.pairs, "pair")}, differ by ${number(entry.distance, 2)}</span>
        <${Pairs} a=${entry.a.scores} b=${entry.b.scores} labels=${entry.a.labels} scale=${rewardScale(data)} />
        <${Said} entry=${entry} data=${data} />
      </li>`)}</ul>
    </section>`;
  }

  /** Rollouts by both scores: on the diagonal both judges agree. */
  function scatter(cells) {
    const marks = cells.map(({ a, b, n, values }) => ({
      n, x1: a[0], x2: a[1], y1: b[0], y2: b[1],
      words: [stretch(...values.a, short), stretch(...values.b, short)],
      href: link({ score: values.a, b_score: values.b }),
      name: `score ${stretch(...values.a, short)} by A and ${stretch(...values.b, short)} by B: ${many(n, "rollout")}; show the groups`,
    }));
    return {
      id: "scatter",
      heading: "A against B",
      sentence: "Rollouts by both scores; on the diagonal the judges agree. The stronger a colour, the more rollouts.",
      table: { head: ["score by A", "score by B", "rollouts"], rows: marks.map((mark) => [...mark.words, whole(mark.n)]) },
      draw: (width) =>
        drawn(width, {
          height: Math.min(width, 340),
          opacity: { type: "sqrt", range: [0.15, 1] },
          x: { label: "score by A →", domain: [0, 1], ticks: 5 },
          y: { label: "↑ score by B", domain: [0, 1], ticks: 5 },
          marks: [
            lib.line([[0, 0], [1, 1]], { stroke: "var(--muted)", strokeDasharray: "3 3" }),
            lib.rect(marks, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "var(--accent)", fillOpacity: "n", stroke: "var(--line)", inset: 0.5, ...linked }),
          ],
        }),
    };
  }

  function Overview({ data }) {
    const { comparison } = data;
    const chart = lib.useMemo(() => scatter(comparison.cells), [comparison]);
    return html`<section aria-labelledby="overview-head">
      <h2 id="overview-head">${many(comparison.groups, "group")}, ${many(comparison.rollouts, "rollout")} that both judges scored</h2>
      ${comparison.opening && html`<p class="judged">${visible(comparison.opening)}</p>`}
      <div class="beside">
        <${Sides} rows=${comparison.rows} />
        <div>
          <${Findings} id="findings-head" title="How far they agree" findings=${comparison.findings} />
          ${comparison.cells.length > 0 && html`<${Chart} chart=${chart} />`}
        </div>
      </div>
      <${Differing} data=${data} />
      <${StripLegend} data=${data} />
    </section>`;
  }

  instead.views = { overview: { show: Overview, entry: () => "Overview" } };
  instead.About = About;
  instead.Failure = Failure;
  instead.strip = TALL;
  instead.legend = "Each line is a rollout: its score by A above, by B below.";
})();
