"use strict";
// The overview: how the run went, which groups to look at, what to do next, and the charts. All is counted over
// the whole file.

/** One figure of the run; a link where groups stand behind it. */
function Tile({ name, value, more, means, conditions, bad }) {
  const inner = html`<span class=${`value${bad ? " bad" : ""}`}>${value}</span><span class="name">${name}</span>
    ${more && html`<span class="more">${more}</span>`}`;
  return conditions
    ? html`<li class="tile card" title=${means}><a href=${link(conditions)}>${inner}</a></li>`
    : html`<li class="tile card" title=${means}>${inner}</li>`;
}

const FAST = 0.05; // seconds below which the time of a group is not that of a judge

/** The figures that tell how the run went, of a judge with a model or an `embedded` one; one that tells nothing, as the cost of a free judge, is left out. */
function tiles(f, disputed, embedded) {
  const { groups, rollouts } = f;
  const share = (n) => percent(n / groups.scored);
  const found = [];
  if (groups.failed)
    found.push({ name: "failed", value: whole(groups.failed), more: `${percent(groups.failed / groups.all)} of all`, conditions: { where: "failed" }, bad: true });
  if (groups.scored)
    found.push({ name: "live", value: whole(groups.live), more: `${share(groups.live)}, ${embedded ? "scores differ" : "usable for GRPO"}`, means: `live: the scores of the group differ by more than the judge's noise${embedded ? "" : ", so a trainer such as GRPO learns from it"}`, conditions: { where: "live" } });
  if (groups.tied)
    found.push({ name: "tied", value: whole(groups.tied), more: `${share(groups.tied)}, ${embedded ? "scores alike" : "no signal"}`, means: `tied: the scores of the group are equal, or differ by no more than the judge's noise${embedded ? "" : ", so a trainer learns nothing from it"}`, conditions: { where: "tied" } });
  if (f.scores.mean !== null)
    found.push({ name: "mean score", value: number(f.scores.mean, 2), more: `of ${many(rollouts.scored, "rollout")}` });
  if (f.reliability.median !== null)
    found.push({ name: "reliability", value: number(f.reliability.median, 2), more: "median; 1 repeats fully", means: "reliability: how well the differences in a group would repeat: 1 fully, 0 not at all; the median of the groups" });
  if (f.against_label.agreement !== null)
    found.push({
      name: "agreement",
      value: percent(f.against_label.agreement),
      more: "with the rewards",
      conditions: disputed ? { where: "disputed", sort: "-disagreement" } : undefined,
    });
  if (rollouts.suspect)
    found.push({ name: "suspect", value: whole(rollouts.suspect), more: rollouts.suspect === 1 ? "rollout" : "rollouts", conditions: { flag: "suspect" }, bad: true });
  if (f.cost_usd)
    found.push({ name: "cost", value: usd(f.cost_usd), more: `${usd(f.cost_usd / f.cost_groups)} a group` });
  return found;
}

/** A large number in short: "184k". */
const compact = (n) => new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 }).format(n).toLowerCase();

/** The run in a sentence. */
function verdict({ groups }) {
  const parts = [`${whole(groups.scored)} of ${many(groups.all, "group")} scored`];
  if (groups.failed) parts.push(`${whole(groups.failed)} failed`);
  if (groups.unmarked) parts.push(`${whole(groups.unmarked)} not judged`);
  return parts.join(", ");
}

/** Judges, passes, time, tokens and speed of the run. */
function judged(f) {
  const names = Object.keys(f.judges).filter(Boolean);
  const passes = Object.keys(f.passes);
  const shown = (at) => at.slice(0, 16).replace("T", " ");
  const parts = [names.slice(0, 4).map(visible).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more judges` : "")];
  if (passes.length === 1) parts.push(passes[0] === "1" ? "1 pass" : `${visible(passes[0])} passes`);
  if (f.started_at) {
    const [from, to] = [shown(f.started_at), shown(f.ended_at)];
    const end = from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to;
    parts.push(`${from === to ? from : `${from} to ${end}`} UTC`);
  }
  const tokens = f.usage.prompt_tokens + f.usage.completion_tokens;
  if (tokens) parts.push(`${many(f.usage.calls, "call")}, ${compact(tokens)} tokens`);
  if (f.latency_s.p50 >= FAST) parts.push(`a group in ${seconds(f.latency_s.p50)}, 90% within ${seconds(f.latency_s.p90)}`);
  return parts.filter(Boolean).join(" · ");
}

const UNKNOWN = "(text not found)";

/** Words with the groups of each, if there are several. */
function counted(counts) {
  const all = Object.entries(counts);
  return all.map(([name, n]) => (all.length > 1 ? `${name} (${many(n, "group")})` : name)).join(", ");
}

/** The parameters of each judge in words; the digest if their text is not known. */
function parametersInWords({ digest, text }) {
  try {
    const each = JSON.parse(text).map(({ judge, model: _, params, ...asked }) => {
      const given = Object.entries({ ...params, ...asked }).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`);
      return [judge, given.join(", ") || "none given"];
    });
    return each.length > 1 ? each.map(([judge, given]) => `${judge}: ${given}`).join("; ") : each[0][1];
  } catch {
    return `${digest} ${UNKNOWN}`;
  }
}

/** What made the scores: rows of a name, a sentence and a text. */
function madeByRows({ served, rubrics, more_rubrics, params, more_params, versions, built_in }) {
  const rows = [];
  if (Object.keys(served).length) rows.push(["served as", counted(served)]);
  const listed = (name, list, more, words) => {
    const several = list.length + more > 1;
    if (several) rows.push([name, `${whole(list.length + more)} different`]);
    for (const one of list) {
      const [sentence, text] = words(one);
      rows.push([several ? "" : name, sentence + (several ? `, ${many(one.groups, "group")}` : ""), text]);
    }
    if (more) rows.push(["", `${whole(more)} more`]);
  };
  const known = (one) => (one.digest === built_in ? " (built-in)" : one.text === null ? ` ${UNKNOWN}` : one.text ? "" : " (none)");
  listed("rubric", rubrics, more_rubrics, (one) => [one.digest + known(one), one.text]);
  listed("parameters", params, more_params, (one) => [parametersInWords(one)]);
  if (Object.keys(versions).length) rows.push(["ruler", counted(versions)]);
  return rows;
}

/** What made the scores, as the file and a ledger say it: rubrics, parameters, the models that answered. */
function MadeBy({ made }) {
  const rows = madeByRows(made);
  if (!rows.length) return null;
  return html`<details class="card made">
    <summary><h3>What made the scores</h3></summary>
    <dl>${rows.map(([name, sentence, text], i) => html`<div key=${i}><dt>${name}</dt>
      <dd>${visible(sentence)}${text && html`<pre>${visible(text)}</pre>`}</dd></div>`)}</dl>
  </details>`;
}

/** Why groups failed, the commonest sentence first. */
function Reasons({ figures }) {
  if (!figures.reasons.length) return null;
  return html`<section class="card reasons" aria-labelledby="reasons-head">
    <h3 id="reasons-head">Why groups failed</h3>
    <ul>
      ${figures.reasons.map(
        (why) => html`<li title=${visible(why.reason)}>
          <a href=${link({ where: "failed", kind: why.kind })}>${many(why.groups, "group")}, ${kindInWords(why.kind)} (${visible(why.kind)})</a>:
          ${" "}${visible(why.reason)}
        </li>`,
      )}
    </ul>
  </section>`;
}

/** The task of a group, if the table has it. */
function Task({ rows, ordinal }) {
  const task = visible(rows.task[rows.ordinal.indexOf(ordinal)] ?? "");
  return task && html`<span class="task" title=${task}>${task}</span>`;
}

/** Groups to look at: each with its reason and its scores, and a link if the table has it. */
function Shortlist({ id, title, note, entries, data, more = [] }) {
  if (!entries.length) return null;
  const { rows } = data;
  const named = (entry) => {
    const row = rows.ordinal.indexOf(entry.ordinal);
    return row < 0 ? visible(entry.group.key) : html`<a href=${groupHash(rows, row)}>${visible(entry.group.key)}</a>`;
  };
  return html`<section class="card shortlist" aria-labelledby=${`${id}-head`}>
    <h3 id=${`${id}-head`}>${title}</h3>
    <p class="note">${note}${more.length > 0 && html`${" "}<a href=${link({ where: more })}>Show ${more.join(" and ")} groups in the table</a>`}</p>
    <ul>
      ${entries.map((entry) => html`<li key=${entry.ordinal}>
        <span class="group" title=${visible(entry.group.key)}>${named(entry)}</span>
        <${Task} rows=${rows} ordinal=${entry.ordinal} />
        <span class=${`why${entry.group.status === "failed" ? " bad" : ""}`} title=${visible(entry.why)}>${visible(entry.why)}</span>
        ${entry.group.status === "failed"
          ? html`<span class="reason" title=${visible(entry.group.reason)}>${visible(entry.group.reason)}</span>`
          : html`<${Strip} scores=${entry.group.scores} labels=${entry.group.labels} scale=${rewardScale(data)} />`}
      </li>`)}
    </ul>
  </section>`;
}

function Worst({ data }) {
  const { worst } = data;
  const counts = tally(data.rows).where;
  const more = ["failed", "unreliable", "disputed"].filter((word) => counts.get(word));
  const dotted = worst.some((entry) => entry.group.scores.some((score) => score !== null));
  return html`<div class="shortlists">
    <${Shortlist} id="worst" title="Groups, the worst first" note="Failed, suspect, against their rewards, tied though rewards differ, unreliable."
      entries=${worst} data=${data} more=${more} />
  </div>
  ${dotted && html`<${StripLegend} data=${data} />`}`;
}

/** Names of the sentences about the judge, of those of the terminal (cli/sentences.py). */
const OF_JUDGE = ["agreement", "", "position", "length", "reliability", "weak judge", "explanations", "flags"];

/** What the figures say about the judge. */
function OfJudge({ facts }) {
  const findings = facts.filter(([name, sentence]) => sentence && OF_JUDGE.includes(name));
  return findings.length > 0 && html`<${Findings} id="findings-head" title="The judge" findings=${findings} />`;
}

/** The criteria of the rubric: the one that goes with the score the most first. */
function Criteria({ criteria }) {
  if (!criteria.length) return null;
  const shown = criteria.slice(0, 24);
  const columns = [
    ["Mean", "mean", "The mean value over all rollouts, from 0 to 1"],
    ["With the score", "with_score", "The correlation of its values with the scores within groups: 1 or −1 decides them, 0 does not matter"],
    ["Reliability", "reliability", "How well its differences in a group would repeat: 1 fully, 0 not at all; known from two passes on"],
    ["First − last", "first_less_last", "Its mean for the rollout shown first, less that for the one shown last"],
  ];
  const cell = (value) => (value === null ? "–" : number(value, 2));
  return html`<section class="card criteria" aria-labelledby="criteria-head">
    <h3 id="criteria-head">Criteria</h3>
    <div class="scroll" role="region" aria-label="Table of the criteria" tabindex="0"><table>
      <thead><tr><th scope="col">Criterion</th>${columns.map(([name, , says]) => html`<th scope="col" title=${says}>${name}</th>`)}</tr></thead>
      <tbody>${shown.map((one) => html`<tr><th scope="row">${visible(one.name)}</th>
        ${columns.map(([, key]) => html`<td>${cell(one[key])}</td>`)}</tr>`)}</tbody>
    </table></div>
    ${shown.length < criteria.length && html`<p class="muted">${criteria.length - shown.length} more, each in fewer rollouts, are in the JSON.</p>`}
  </section>`;
}

/** The overview page. */
function Overview({ data }) {
  const { figures } = data;
  const drawings = lib.useMemo(() => charts(figures), [figures]);
  return html`<section aria-labelledby="overview-head">
    <h2 id="overview-head">${verdict(figures)}</h2>
    <p class="judged">${judged(figures)}</p>
    <ul class="tiles">${tiles(figures, tally(data.rows).where.get("disputed"), data.embedded).map((tile) => html`<${Tile} ...${tile} />`)}</ul>
    <${Worst} data=${data} />
    <div class="beside">
      <${Reasons} figures=${figures} />
      <${OfJudge} facts=${data.facts} />
    </div>
    <${Criteria} criteria=${figures.criteria} />
    <${MadeBy} made=${data.made_by} />
    ${drawings.length > 0 && html`<div class="charts">${drawings.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} />`)}</div>`}
    ${!drawings.length && figures.groups.scored > 0 && html`<p class="muted">Charts are drawn from 10 scored groups on.</p>`}
  </section>`;
}
