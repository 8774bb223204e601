"use strict";
// The page of a trend: what drifts, a chart of each quantity over the steps, and the steps as a table.

(() => {
  const FORMS = [
    ["var(--accent)", "circle", "●"],
    ["var(--bad)", "square", "■"],
    ["var(--good)", "triangle", "▲"],
    ["var(--violet)", "diamond", "◆"],
    ["var(--warn)", "star", "★"],
    ["var(--rose)", "cross", "✚"],
  ]; // of a line: its colour, its dots, and these in the legend
  const LONGEST = 40; // characters of a name in a legend

  const at = (group, name) => (step) => step[group]?.[name];
  const share = (group, name) => (step) => (step[group].all ? step[group][name] / step[group].all : null);

  /** A chart of lines over the steps; a rule stands at the first step of each drift. Null if no line has a value. */
  function overSteps({ steps, drift }, { id, heading, sentence, lines, shown = short, ticks = shown, kinds = [], rare = false }) {
    const name = (words, step, value) => `step ${number(step.step)}: ${words} ${shown(value)}; show the step`;
    const drawnLines = lines
      .map(([words, of, title = words]) => ({ words, title, points: steps.map((step, i) => ({ step: step.step, value: of(step, i), href: `#step-${i}`, name: name(words, step, of(step, i)) })) }))
      .map((line) => ({ ...line, points: line.points.filter(({ value }) => Number.isFinite(value)) }))
      .filter(({ points }) => points.some(({ value }) => value || !rare))
      .map((line, i) => ({ ...line, form: FORMS[i] }));
    if (!drawnLines.length) return null;
    const marks = drift.filter(({ kind }) => kinds.includes(kind));
    const from = marks.length ? ` Beyond chance from step ${[...new Set(marks.map(({ step }) => number(step)))].join(" and ")} on.` : "";
    return {
      id,
      heading,
      sentence: sentence + from,
      legend: drawnLines.length > 1 && drawnLines.map(({ words, title, form: [colour, , glyph] }) => ({ words, title, colour, glyph })),
      draw: (width) => drawn(width, {
        x: { label: "step →", ticks: Math.min(8, steps.length, width / 60), tickFormat: (x) => number(x), domain: [steps[0].step, steps.at(-1).step], inset: 6 },
        y: { label: null, grid: true, ticks: 4, tickFormat: ticks },
        marks: [
          lib.ruleX(marks, { x: "step", stroke: "var(--bad)", strokeWidth: 2, strokeDasharray: "5 3" }),
          ...drawnLines.flatMap(({ points, form: [colour, symbol] }) => [
            lib.line(points, { x: "step", y: "value", stroke: colour, strokeWidth: 1.5 }),
            lib.dot(points, { x: "step", y: "value", r: steps.length > 60 ? 2 : 3.2, symbol, fill: colour, ...linked }),
          ]),
        ],
      }),
    };
  }

  /** The lines of what has names, as criteria: those that change the most. */
  function named(steps, list) {
    const names = [...new Set(steps.flatMap((step) => step[list].map(({ name }) => name)))];
    const lines = names.map((name) => {
      const of = (step) => step[list].find((one) => one.name === name)?.mean;
      const values = steps.map(of).filter(Number.isFinite);
      const change = Math.max(...values) - Math.min(...values);
      return { change, line: [visible(name).slice(0, LONGEST), of, visible(name)] };
    });
    return lines.sort((a, b) => b.change - a.change).slice(0, FORMS.length).map(({ line }) => line);
  }

  /** All charts that have a value. */
  function trendCharts({ trend, label: path }) {
    const { steps, tests } = trend;
    const label = visible(path);
    const reward = [`mean ${label}`, at("label", "mean")];
    const score = ["mean score", at("score", "mean")];
    const within = steps.every(({ label: of }) => !of || (of.mean >= 0 && of.mean <= 1));
    const gaps = tests.filter(({ kind }) => ["label", "held_out"].includes(kind)).map(({ values }) => ["score", (_, i) => values[i]]);
    const ended = { suspect: "suspect", failed: "without a score", truncated: "truncated", aborted: "aborted", error: "error" };
    return [
      { id: "score", heading: within ? `Score and ${label}` : "Score", sentence: "The mean of each step.", lines: within ? [score, reward] : [score], kinds: ["label"] },
      { id: "label", heading: `Mean ${label}`, sentence: "The mean of each step.", lines: within ? [] : [reward], kinds: ["label"] },
      { id: "gap", heading: "Score beyond what explains it", sentence: `The mean score less what the ${label}, or the held-out judge, explains of it: flat as long as both move together.`, lines: gaps, kinds: ["label", "held_out"] },
      { id: "order", heading: `Agreement with the ${label}`, sentence: "The share of pairs in order.", lines: [["pairs in order", at("against_label", "accuracy")]], shown: percent },
      { id: "bytes", heading: "Length", sentence: "Bytes that the agent wrote in a rollout, the mean.", lines: [["length", at("bytes", "mean")]], shown: bytes, ticks: "~s", kinds: ["size"] },
      { id: "length", heading: "Correlation with length", sentence: "Within groups, of the score with the length of a rollout; away from 0 length explains the score.", lines: [["score", at("with_length", "score")]], kinds: ["length"] },
      { id: "spread", heading: "Spread in groups", sentence: "The median standard deviation of the scores within a group.", lines: [["spread", at("spread", "median")]] },
      { id: "shares", heading: "Tied, suspect, unscored, cut off", sentence: "Shares of groups, and of rollouts.", shown: percent, rare: true,
        lines: [["tied groups", share("groups", "tied")], ...Object.entries(ended).map(([name, words]) => [words, share("rollouts", name)])] },
      { id: "judges", heading: "Judges", sentence: "The mean score of each judge; of many those that change the most.", lines: named(steps, "judges"), kinds: ["held_out"] },
      { id: "criteria", heading: "Criteria", sentence: "The mean of each criterion, from 0 to 1; of many those that change the most.", lines: named(steps, "criteria") },
    ].map((chart) => overSteps(trend, chart)).filter(Boolean);
  }

  function Steps({ table }) {
    return html`<section class="card criteria" aria-labelledby="steps-head" tabindex="0" role="region">
      <h3 id="steps-head">Steps</h3>
      <table>
        <thead><tr>${table.head.map((head) => html`<th key=${head} scope="col">${head}</th>`)}</tr></thead>
        <tbody>${table.rows.map(([step, ...cells], i) => html`<tr key=${i} id=${`step-${i}`}>
          <th scope="row" class=${step.endsWith("!") ? "warn" : ""}>${step}</th>${cells.map((cell, j) => html`<td key=${j}>${cell}</td>`)}</tr>`)}</tbody>
      </table>
    </section>`;
  }

  function TrendPage({ data, charts }) {
    return html`<header class="top">
        <div class="top-line">
          <h1 title=${visible(data.source)}>${visible(data.source)}</h1>
          <nav aria-label="Report"><a href="#drift-head">Drift</a><a href="#charts">Charts</a><a href="#steps-head">Steps</a></nav>
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
    const all = trendCharts(data);
    showing(() => lib.render(html`<${TrendPage} data=${data} charts=${all} />`, root));
  });
})();
