"use strict";
// The page of a trend: what drifts, a chart of each quantity over the steps, and the steps as a table.

(() => {
  const FORMS = [
    ["var(--accent)", "circle", "●"],
    ["var(--kind-transport)", "square", "■"],
    ["var(--kind-input)", "triangle", "▲"],
    ["var(--kind-too-long)", "diamond", "◆"],
    ["var(--kind-refused)", "star", "★"],
    ["var(--kind-budget)", "cross", "✚"],
  ]; // of a line: its colour, its dots, and these in the legend
  const LINES = FORMS.length;

  const at = (group, name) => (step) => step[group]?.[name];
  const share = (group, name) => (step) => (step[group].all ? step[group][name] / step[group].all : null);

  /** A name that fits a legend: of a long one the beginning and the end. */
  function fitting(name) {
    const letters = [...visible(name)];
    return letters.length > 40 ? `${letters.slice(0, 26).join("")}…${letters.slice(-12).join("")}` : letters.join("");
  }

  /** A chart of lines over the steps; a rule stands at the first step of each drift. Null if no line has a value. */
  function overSteps({ steps, drift }, { id, heading, sentence, lines, shown = short, kinds = [], rare = false }) {
    const point = (line) => (step, i) => ({ step: step.step, href: `#step-${i}`, value: line.of(step, i) });
    const drawnLines = lines
      .map((line) => ({ ...line, points: steps.map(point(line)).filter(({ value }) => Number.isFinite(value)) }))
      .filter(({ points }) => points.some(({ value }) => value || !rare))
      .map((line, i) => ({ ...line, form: FORMS[i % LINES] }));
    if (!drawnLines.length) return null;
    const marks = drift.filter((one) => kinds.includes(one.kind));
    const from = marks.length ? ` Beyond chance from step ${[...new Set(marks.map((one) => number(one.step)))].join(" and ")} on.` : "";
    const cell = (value) => (Number.isFinite(value) ? shown(value) : NONE);
    const name = (words, { step, value }) => `step ${number(step)}: ${words} ${shown(value)}; show the step`;
    return {
      id,
      heading,
      sentence: sentence + from,
      legend: drawnLines.length > 1 && drawnLines.map(({ words, title, form: [colour, , glyph] }) => ({ words, title, colour, glyph })),
      table: {
        head: ["step", ...drawnLines.map((line) => line.words)],
        rows: steps.map((step, i) => [number(step.step), ...drawnLines.map((line) => cell(line.of(step, i)))]),
      },
      draw: (width) =>
        drawn(width, {
          x: { label: "step →", ticks: Math.min(8, steps.length, width / 60), tickFormat: (x) => number(x), domain: [steps[0].step, steps.at(-1).step], inset: 6 },
          y: { grid: true, ticks: 4, tickFormat: shown },
          marks: [
            lib.ruleX(marks, { x: "step", stroke: "var(--bad)", strokeWidth: 2, strokeDasharray: "5 3" }),
            ...drawnLines.flatMap(({ words, points, form: [colour, symbol] }) => [
              lib.line(points, { x: "step", y: "value", stroke: colour, strokeWidth: 1.5 }),
              lib.dot(points.map((one) => ({ ...one, name: name(words, one) })), { x: "step", y: "value", r: steps.length > 60 ? 2 : 3.2, symbol, fill: colour, ...linked }),
            ]),
          ],
        }),
    };
  }

  /** The lines of what has names, as criteria: those that change the most, and how many are left out. */
  function named(steps, list) {
    const names = [...new Set(steps.flatMap((step) => step[list].map((one) => one.name)))];
    const lines = names.map((name) => {
      const of = (step) => step[list].find((one) => one.name === name)?.mean;
      const values = steps.map(of).filter(Number.isFinite);
      return { words: fitting(name), title: visible(name), of, change: Math.max(...values) - Math.min(...values) };
    });
    lines.sort((a, b) => b.change - a.change);
    const more = lines.length > LINES ? ` ${many(lines.length - LINES, "more")}, which change less, are in the JSON.` : "";
    return [lines.slice(0, LINES), more];
  }

  /** All charts that have a value. */
  function trendCharts(data) {
    const { steps, tests } = data.trend;
    const label = visible(data.label);
    const reward = { words: `mean ${label}`, of: at("label", "mean") };
    const score = { words: "mean score", of: at("score", "mean") };
    const within = steps.every(({ label }) => !label || (label.mean >= 0 && label.mean <= 1));
    const listed = (id, heading, sentence, kinds) => {
      const [lines, more] = named(steps, id);
      return { id, heading, sentence: sentence + more, lines, kinds };
    };
    const gaps = tests.filter(({ kind }) => kind !== "length").map(({ values }) => ({ words: "score", of: (_, i) => values[i] }));
    return [
      { id: "score", heading: within ? `Score and ${label}` : "Score", sentence: "The mean of each step.", lines: within ? [score, reward] : [score], kinds: ["label"] },
      { id: "label", heading: `Mean ${label}`, sentence: "The mean of each step.", lines: within ? [] : [reward], kinds: ["label"] },
      { id: "gap", heading: "Score beyond what explains it", sentence: `The mean score less what the ${label}, or the held-out judge, explains of it: flat as long as both move together.`, lines: gaps, kinds: ["label", "held_out"] },
      { id: "order", heading: `Agreement with the ${label}`, sentence: "The share of pairs in order.", lines: [{ words: "pairs in order", of: at("against_label", "accuracy") }], shown: percent },
      { id: "length", heading: "Correlation with length", sentence: "Within groups, of the score with the length of a rollout; away from 0 length explains the score.", lines: [{ words: "score", of: at("with_length", "score") }], kinds: ["length"] },
      { id: "spread", heading: "Spread in groups", sentence: "The median standard deviation of the scores within a group.", lines: [{ words: "spread", of: at("spread", "median") }] },
      { id: "shares", heading: "Tied, suspect, unscored, cut off", sentence: "Shares of groups, and of rollouts.", shown: percent, rare: true,
        lines: [{ words: "tied groups", of: share("groups", "tied") }, ...Object.entries({ suspect: "suspect", failed: "without a score", truncated: "truncated", aborted: "aborted", error: "error" }).map(([name, words]) => ({ words, of: share("rollouts", name) }))] },
      { id: "bytes", heading: "Length", sentence: "Bytes that the agent wrote in a rollout, the mean.", lines: [{ words: "length", of: at("bytes", "mean") }], shown: bytes },
      listed("judges", "Judges", "The mean score of each judge.", ["held_out"]),
      listed("criteria", "Criteria", "The mean of each criterion, from 0 to 1.", []),
    ].map((chart) => overSteps(data.trend, chart)).filter(Boolean);
  }

  function Steps({ table }) {
    return html`<section class="card criteria steps" aria-labelledby="steps-head">
      <h3 id="steps-head">Steps</h3>
      <div class="scroll" role="region" aria-label="Table of the steps" tabindex="0"><table>
        <thead><tr>${table.head.map((head) => html`<th key=${head} scope="col">${head}</th>`)}</tr></thead>
        <tbody>${table.rows.map(([step, ...cells], i) => html`<tr key=${i} id=${`step-${i}`}>
          <th scope="row" class=${step.endsWith("!") ? "warn" : ""}>${step}</th>${cells.map((cell, j) => html`<td key=${j}>${cell}</td>`)}</tr>`)}</tbody>
      </table></div>
    </section>`;
  }

  function TrendPage({ data, charts }) {
    return html`<header class="top">
        <div class="top-line">
          <h1 title=${visible(data.source)}>${visible(data.source)}</h1>
          <nav aria-label="Report"><a href="#drift-head">Drift</a><a href="#charts">Charts</a><a href="#steps-head">Steps</a></nav>
          <span class="buttons"><${ThemeButton} /></span>
        </div>
        <${Found} data=${data} />
      </header>
      <main tabindex="-1"><section aria-labelledby="overview-head">
        <h2 id="overview-head">${visible(data.heading)}</h2>
        <p class="judged">${visible(data.judged)}</p>
        <${Findings} id="drift-head" title="What the tests say" findings=${data.findings} />
        <div class="charts" id="charts">${charts.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} />`)}</div>
        <${Steps} table=${data.table} />
      </section></main>
      <footer>Made by ruler ${visible(data.ruler)}.</footer>`;
  }

  openPage((data, root) => {
    root.className = "is-overview";
    document.title = `${visible(data.source)} · ruler report`;
    const charts = trendCharts(data);
    const draw = () => lib.render(html`<${TrendPage} data=${data} charts=${charts} />`, root);
    showing(draw);
    draw();
  });
})();
