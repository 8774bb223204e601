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

  const meanOf = (name) => (step) => step[name];
  const valueOf = (group, name) => (step) => known(step[group]?.[name]);
  const known = (value) => (value === null || value === undefined ? null : { mean: value, error: null });
  const shareOf = (name) => (step) => (step.rollouts.all ? known(step.rollouts[name] / step.rollouts.all) : null);
  const unscored = (step) => (step.rollouts.all ? known(1 - step.rollouts.scored / step.rollouts.all) : null);
  const tied = (step) => (step.groups.scored ? known(step.groups.tied / step.groups.scored) : null);

  /** A name that fits a legend: of a long one the beginning and the end. */
  function fitting(name) {
    const letters = [...visible(name)];
    return letters.length > 40 ? `${letters.slice(0, 26).join("")}…${letters.slice(-12).join("")}` : letters.join("");
  }

  /** The points of a line: those of the steps that have a value. */
  function pointsOf({ words, of, shown }, steps) {
    const points = steps.map((step, i) => ({ step: step.step, href: `#step-${i}`, ...of(step) })).filter((point) => Number.isFinite(point.mean));
    return points.map((point) => {
      const off = 2 * (point.error ?? 0);
      const about = point.error === null ? "" : ` (standard error ${shown(point.error)})`;
      return { ...point, low: point.mean - off, high: point.mean + off, name: `step ${number(point.step)}: ${words} ${shown(point.mean)}${about}; show the step` };
    });
  }

  /** A band of two standard errors: a field around each point, up to halfway to its neighbours. */
  function bandOf(points) {
    const middle = (i, j) => (points[i].step + (points[j] ?? points[i]).step) / 2;
    return points.map((point, i) => ({ ...point, from: middle(i, i - 1), to: middle(i, i + 1) }));
  }

  /** A chart of lines over the steps; a rule stands at the first step of each drift. Null if no line has a value. */
  function overSteps({ steps, drift }, { id, heading, sentence, lines, shown = short, kinds = [] }) {
    const drawnLines = lines
      .map((line) => ({ ...line, points: pointsOf({ shown, ...line }, steps) }))
      .filter((line) => line.points.length && !(line.rare && line.points.every((point) => point.mean === 0)))
      .map((line, i) => ({ ...line, form: FORMS[i % LINES] }));
    if (!drawnLines.length) return null;
    const marks = drift.filter((one) => kinds.includes(one.kind));
    const from = marks.length ? ` Beyond chance from step ${[...new Set(marks.map((one) => number(one.step)))].join(" and ")} on.` : "";
    const cell = (line, step) => {
      const value = line.of(step);
      return value ? shown(value.mean) + (value.error === null ? "" : ` ± ${shown(value.error)}`) : NONE;
    };
    return {
      id,
      heading,
      sentence: sentence + from,
      legend: drawnLines.length > 1 && drawnLines.map(({ words, title, form: [colour, , glyph] }) => ({ words, title, colour, glyph })),
      table: {
        head: ["step", ...drawnLines.map((line) => line.words)],
        rows: steps.map((step) => [number(step.step), ...drawnLines.map((line) => cell(line, step))]),
      },
      draw: (width) =>
        drawn(width, {
          x: { label: "step →", ticks: Math.min(8, steps.length, width / 60), tickFormat: (x) => number(x), domain: [steps[0].step, steps.at(-1).step], inset: 6 },
          y: { grid: true, ticks: 4, tickFormat: shown },
          marks: [
            lib.ruleX(marks, { x: "step", stroke: "var(--bad)", strokeWidth: 2, strokeDasharray: "5 3" }),
            ...drawnLines.flatMap(({ points, form: [colour, symbol] }) => [
              lib.rect(bandOf(points).filter((point) => point.error), { x1: "from", x2: "to", y1: "low", y2: "high", fill: colour, fillOpacity: 0.16 }),
              lib.line(points, { x: "step", y: "mean", stroke: colour, strokeWidth: 1.5 }),
              lib.dot(points, { x: "step", y: "mean", r: steps.length > 60 ? 2 : 3.2, symbol, fill: colour, ...linked }),
            ]),
          ],
        }),
    };
  }

  /** The lines of what has names, as criteria: those that change the most, and how many are left out. */
  function named(steps, list) {
    const names = [...new Set(steps.flatMap((step) => step[list].map((one) => one.name)))];
    const lines = names.map((name) => {
      const of = (step) => known(step[list].find((one) => one.name === name)?.mean);
      const values = steps.map(of).filter(Boolean).map((value) => value.mean);
      return { words: fitting(name), title: visible(name), of, change: Math.max(...values) - Math.min(...values) };
    });
    lines.sort((a, b) => b.change - a.change);
    const more = lines.length > LINES ? ` ${many(lines.length - LINES, "more")}, which change less, are in the JSON.` : "";
    return [lines.slice(0, LINES), more];
  }

  /** All charts that have a value. */
  function trendCharts(data) {
    const { steps, slopes } = data.trend;
    const label = visible(data.label);
    const reward = { words: `mean ${label}`, of: meanOf("label") };
    const score = { words: "mean score", of: meanOf("score") };
    const within = steps.every(({ label }) => !label || (label.mean >= 0 && label.mean <= 1));
    const [criteria, moreCriteria] = named(steps, "criteria");
    const [judges, moreJudges] = named(steps, "judges");
    const [ways, moreWays] = named(steps, "ways");
    const gap = (kind) => ({ words: "gap", of: (step) => step.gaps[kind] ?? null });
    return [
      { id: "score", heading: within ? `Score and ${label}` : "Score", sentence: "The mean of each step; a band is two standard errors over groups.", lines: within ? [score, reward] : [score], kinds: ["label"] },
      { id: "label", heading: `Mean ${label}`, sentence: "The mean of each step.", lines: within ? [] : [reward], kinds: ["label"] },
      { id: "gap", heading: `Score beyond the ${label}`, sentence: `The mean score less ${number(slopes.label, 2)} times the mean ${label}: flat as long as the score follows the ${label}.`, lines: [gap("label")], kinds: ["label"] },
      { id: "agreement", heading: `Agreement with the ${label}`, sentence: `The share of pairs in order, and correlations of score and ${label}.`, kinds: [],
        lines: [{ words: "pairs in order", of: valueOf("against_label", "accuracy") }, { words: "correlation within groups", of: valueOf("against_label", "within") }, { words: "correlation overall", of: valueOf("against_label", "overall") }] },
      { id: "length", heading: "Correlation with length", sentence: "Within groups, of the score with the length of a rollout; away from 0 length explains the score.", kinds: ["length"],
        lines: [{ words: "score", of: valueOf("with_length", "score") }, { words: label, of: valueOf("with_length", "label") }] },
      { id: "spread", heading: "Spread and ties", sentence: "The mean standard deviation of the scores within groups, and the share of tied groups.", kinds: ["spread"],
        lines: [{ words: "spread", of: meanOf("spread") }, { words: "tied groups", of: tied, rare: true }] },
      { id: "shares", heading: "Suspect, unscored, cut off", sentence: "Shares of rollouts.", shown: percent, kinds: ["suspects", "unscored"],
        lines: [{ words: "suspect", of: shareOf("suspect") }, { words: "without a score", of: unscored }, ...["truncated", "aborted", "error"].map((name) => ({ words: name, of: shareOf(name) }))].map((line) => ({ ...line, rare: true })) },
      { id: "bytes", heading: "Length", sentence: "Bytes that the agent wrote in a rollout, the mean.", lines: [{ words: "length", of: meanOf("bytes") }], shown: bytes },
      { id: "turns", heading: "Turns", sentence: "Turns of the agent in a rollout, the mean.", lines: [{ words: "turns", of: meanOf("turns") }] },
      { id: "ways", heading: "Judged apart", sentence: `The mean score of the groups that were judged in one way; no test runs across them.${moreWays}`, lines: ways },
      { id: "judges", heading: "Judges", sentence: `The mean score of each judge.${moreJudges}`, lines: judges, kinds: ["held_out"] },
      { id: "held-out", heading: "First judge beyond the second", sentence: `The mean score of the first judge less ${number(slopes.held_out, 2)} times that of the second.`, lines: [gap("held_out")], kinds: ["held_out"] },
      { id: "criteria", heading: "Criteria", sentence: `The mean of each criterion, from 0 to 1.${moreCriteria}`, lines: criteria },
    ].map((chart) => overSteps(data.trend, chart)).filter(Boolean);
  }

  function Steps({ table }) {
    return html`<section class="card criteria steps" aria-labelledby="steps-head">
      <h3 id="steps-head">Steps</h3>
      <div class="scroll" role="region" aria-label="Table of the steps" tabindex="0"><table>
        <thead><tr>${table.head.map((head) => html`<th key=${head} scope="col">${head}</th>`)}<th scope="col">look into it</th></tr></thead>
        <tbody>${table.rows.map(([step, ...cells], i) => html`<tr key=${i} id=${`step-${i}`}>
          <th scope="row">${step}</th>${cells.map((cell, j) => html`<td key=${j} class=${j ? "" : "warn"}>${visible(cell)}</td>`)}
          <td><code>${visible(table.commands[i])}</code></td></tr>`)}</tbody>
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
