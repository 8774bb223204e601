"use strict";
// The overview: how the run went, which groups to look at, and the charts. All is counted over the whole file.

/** One figure of the run; a link where groups stand behind it. */
function Tile({ name, value, more, where, bad }) {
  const inner = html`<span class=${`value${bad ? " bad" : ""}`}>${value}</span><span class="name">${name}</span> <span class="more">${more}</span>`;
  return html`<li class="tile card" title=${where && aboutWord(where)[1]}>${where ? html`<a href=${toggled({}, where)}>${inner}</a>` : inner}</li>`;
}

/** The figures that tell how the run went, of a judge with a model or an `embedded` one; one that tells nothing, as the cost of a free judge, is left out. */
function tiles(f, rows, embedded) {
  const { groups, rollouts } = f;
  const share = (n) => percent(n / groups.scored);
  const disputed = tally(rows).get("disputed") ? "disputed" : undefined;
  return [
    groups.failed && { name: "failed", value: whole(groups.failed), more: `${percent(groups.failed / groups.all)} of all`, where: "failed", bad: true },
    groups.scored && { name: "live", value: whole(groups.live), more: `${share(groups.live)}, ${embedded ? "scores differ" : "usable for GRPO"}`, where: "live" },
    groups.tied && { name: "tied", value: whole(groups.tied), more: `${share(groups.tied)}, ${embedded ? "scores alike" : "no signal"}`, where: "tied" },
    f.scores.mean !== null && { name: "mean score", value: number(f.scores.mean, 2), more: `of ${many(rollouts.scored, "rollout")}` },
    f.reliability.median !== null && { name: "reliability", value: number(f.reliability.median, 2), more: "median; 1 repeats fully" },
    f.against_label.agreement !== null && { name: "agreement", value: percent(f.against_label.agreement), more: "with the rewards", where: disputed },
    rollouts.suspect && { name: "suspect", value: whole(rollouts.suspect), more: rollouts.suspect === 1 ? "rollout" : "rollouts", where: "suspect", bad: true },
    f.cost_usd && { name: "cost", value: usd(f.cost_usd), more: `${usd(f.cost_usd / f.cost_groups)} per group` },
  ].filter(Boolean);
}

/** The run in a sentence. */
function verdict({ groups }) {
  const parts = [`${whole(groups.scored)} of ${many(groups.all, "group")} scored`];
  if (groups.failed) parts.push(`${whole(groups.failed)} failed`);
  if (groups.unmarked) parts.push(`${whole(groups.unmarked)} not judged`);
  return parts.join(", ");
}


/** Judges, passes, time and tokens of the run. */
function judged(f) {
  const compact = (n) => new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(n).toLowerCase();
  const names = Object.keys(f.judges).filter(Boolean);
  const passes = Object.keys(f.passes);
  const tokens = f.usage.prompt_tokens + f.usage.completion_tokens;
  const at = (time) => time.slice(0, 16).replace("T", " ");
  return [
    names.slice(0, 4).map(visible).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more judges` : ""),
    passes.length === 1 && (passes[0] === "1" ? "1 pass" : `${visible(passes[0])} passes`),
    f.started_at && `${stretch(f.started_at, f.ended_at, at)} UTC`,
    tokens > 0 && `${many(f.usage.calls, "call")}, ${compact(tokens)} tokens`,
  ].filter(Boolean).join(" · ");
}

/** What made the scores, as the file and a ledger say it: the models that answered, rubrics and parameters with their texts. */
function MadeBy({ made: { served, rubrics, params, versions, built_in: builtIn } }) {
  const times = (all, n) => (all.length > 1 ? ` (${many(n, "group")})` : "");
  const counted = (counts) => Object.entries(counts).map(([name, n], _, all) => name + times(all, n)).join(", ");
  const texts = (name, list) => list.map(({ digest, text, groups }) => {
    const known = digest === builtIn ? " (built-in)" : text === null ? " (text not found)" : "";
    return [name, digest + known + times(list, groups), text];
  });
  const rows = [["served as", counted(served)], ...texts("rubric", rubrics), ...texts("parameters", params), ["ruler", counted(versions)]].filter(([, sentence]) => sentence);
  return rows.length > 0 && html`<details class="card made">
    <summary><h3>What made the scores</h3></summary>
    <dl>${rows.map(([name, sentence, text], i) => html`<div key=${i}><dt>${name}</dt>
      <dd>${visible(sentence)}${text && html`<pre>${visible(text)}</pre>`}</dd></div>`)}</dl>
  </details>`;
}

/** Why groups failed, the commonest sentence first. */
function Reasons({ figures: { reasons } }) {
  return reasons.length > 0 && html`<section class="card reasons" aria-labelledby="reasons-head">
    <h3 id="reasons-head">Why groups failed</h3>
    <ul>${reasons.map((why) => html`<li title=${visible(why.reason)}>
      <a href=${link({ where: [why.kind] })}>${many(why.groups, "group")}, ${aboutWord(why.kind)[0]}</a>: ${visible(why.reason)}</li>`)}</ul>
  </section>`;
}

/** The key of a group in a list, a link if the table has it, and its task. */
function ListedGroup({ rows, ordinal, name }) {
  const row = rows.ordinal.indexOf(ordinal);
  const task = row >= 0 && visible(rows.task[row] ?? "");
  return html`<span class="group" title=${visible(name)}>${row < 0 ? visible(name) : html`<a href=${groupHash(rows, row)}>${visible(name)}</a>`}</span>
    ${task && html`<span class="task" title=${task}>${task}</span>`}`;
}

/** The groups to look at: each with its reason and its scores. */
function Worst({ data: { worst, rows } }) {
  return worst.length > 0 && html`<section class="card shortlist" aria-labelledby="worst-head">
    <h3 id="worst-head">Groups, the worst first</h3>
    <p class="note">Failed, suspect, disputed (against their rewards), tied though rewards differ, low reliability. <a href="#groups">All in the table</a></p>
    <ul>${worst.map(({ ordinal, group, why }) => html`<li key=${ordinal}>
      <${ListedGroup} rows=${rows} ordinal=${ordinal} name=${group.key} />
      <span class=${`why${group.status === "failed" ? " bad" : ""}`} title=${visible(why)}>${group.status === "failed" && group.kind ? `failed: ${aboutWord(group.kind)[0]}` : visible(why)}</span>
      ${group.status === "failed" ? html`<span class="reason" title=${visible(group.reason)}>${visible(group.reason)}</span>`
        : html`<${Strip} scores=${group.scores} labels=${group.labels} middle=${rows.middle} />`}
    </li>`)}</ul>
    <${StripLegend} rows=${rows} />
  </section>`;
}

/** Names of the sentences about the judge, of those of the terminal (cli/sentences.py). */
const OF_JUDGE = ["agreement", "against people", "", "position", "length", "reliability", "weak judge", "explanations", "flags"];

/** The criteria of the rubric: the one that goes with the score the most first. */
function Criteria({ criteria }) {
  const columns = [
    ["Mean", "mean", "The mean value over all rollouts, from 0 to 1"],
    ["With the score", "with_score", "The correlation of its values with the scores within groups: 1 or −1 decides them, 0 does not matter"],
    ["Reliability", "reliability", "How well its differences in a group would repeat: 1 fully, 0 not at all; known from two passes on"],
    ["First − last", "first_less_last", "Its mean for the rollout shown first, less that for the one shown last"],
  ];
  return criteria.length > 0 && html`<section class="card criteria" aria-labelledby="criteria-head">
    <h3 id="criteria-head">Criteria</h3>
    <table>
      <thead><tr><th scope="col">Criterion</th>${columns.map(([name, , says]) => html`<th scope="col" title=${says}>${name}</th>`)}</tr></thead>
      <tbody>${criteria.slice(0, 24).map((of) => html`<tr><th scope="row">${visible(of.name)}</th>
        ${columns.map(([, key]) => html`<td>${number(of[key], 2)}</td>`)}</tr>`)}</tbody>
    </table>
  </section>`;
}

/** The overview page. */
function Overview({ data }) {
  const { figures } = data;
  const drawings = lib.useMemo(() => charts(figures), [figures]);
  const ofJudge = data.facts.filter(([name, sentence]) => sentence && OF_JUDGE.includes(name));
  return html`<section aria-labelledby="overview-head">
    <h2 id="overview-head">${verdict(figures)}</h2>
    <p class="judged">${judged(figures)}</p>
    <ul class="tiles">${tiles(figures, data.rows, data.embedded).map((tile) => html`<${Tile} ...${tile} />`)}</ul>
    <${Worst} data=${data} />
    <${Reasons} figures=${figures} />
    ${ofJudge.length > 0 && html`<${Findings} id="findings-head" title="The judge" findings=${ofJudge} />`}
    <${Criteria} criteria=${figures.criteria} />
    <${MadeBy} made=${data.made_by} />
    <div class="charts">${drawings.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} />`)}</div>
  </section>`;
}
