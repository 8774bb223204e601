"use strict";
// The overview: the run's figures, why groups failed, and the charts. All is counted over the whole file.

/** One figure of the run; a link where groups stand behind it. */
function Tile({ name, value, more, conditions }) {
  const inner = html`<span class="value">${value}</span><span class="name">${name}</span>
    ${more && html`<span class="more">${more}</span>`}`;
  return conditions
    ? html`<li class="tile card"><a href=${link(conditions)}>${inner}</a></li>`
    : html`<li class="tile card">${inner}</li>`;
}

/** The figures in one line each: what there is, what failed, what it took. */
function tiles(f) {
  const share = (n, all) => (all ? `${number((100 * n) / all, 1)} %` : "");
  const { groups, rollouts, usage } = f;
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  const found = [
    { name: "groups", value: whole(groups.all), conditions: {} },
    { name: "scored", value: whole(groups.scored), more: share(groups.scored, groups.all), conditions: { where: "scored" } },
    { name: "failed", value: whole(groups.failed), more: share(groups.failed, groups.all), conditions: { where: "failed" } },
    { name: "tied", value: whole(groups.tied), more: groups.tied ? `${share(groups.tied, groups.scored)}, nothing to learn` : share(groups.tied, groups.scored), conditions: { where: "tied" } },
    { name: "live", value: whole(groups.live), more: share(groups.live, groups.scored), conditions: { where: "live" } },
    { name: "rollouts scored", value: whole(rollouts.scored), more: `of ${whole(rollouts.all)}` },
    { name: "cost", value: f.cost_usd === null ? "unknown" : usd(f.cost_usd), more: f.cost_usd === null || !f.cost_groups ? "" : `${usd(f.cost_usd / f.cost_groups)} a group` },
    { name: "tokens", value: whole(tokens), more: `${whole(usage.calls)} calls` },
  ];
  if (f.latency_s.p50 != null)
    found.push({ name: "a group took", value: seconds(f.latency_s.p50), more: `90 % within ${seconds(f.latency_s.p90)}` });
  if (f.against_label.agreement != null)
    found.push({
      name: "agreement with rewards",
      value: `${number(100 * f.against_label.agreement, 1)} %`,
      more: "show where they differ",
      conditions: { disagreement: [0.5, null], sort: "-disagreement" },
    });
  if (rollouts.suspect)
    found.push({ name: "rollouts address a judge", value: whole(rollouts.suspect), conditions: { flag: "suspect" } });
  return found;
}

/** Why groups failed, the commonest sentence first. */
function Reasons({ figures }) {
  if (!figures.reasons.length) return null;
  return html`<section class="card reasons" aria-labelledby="reasons-head">
    <h3 id="reasons-head">Why groups failed</h3>
    <ul>
      ${figures.reasons.map(
        (why) => html`<li>
          <a href=${link({ where: "failed", kind: why.kind })}>${many(why.groups, "group")}, ${kindInWords(why.kind)} (${visible(why.kind)})</a>:
          ${" "}${visible(why.reason)}
        </li>`,
      )}
    </ul>
  </section>`;
}

/** The overview page. */
function Overview({ data }) {
  const figures = data.figures;
  const drawings = lib.useMemo(() => charts(figures), [figures]);
  return html`<section aria-labelledby="overview-head">
    <h2 id="overview-head">Overview</h2>
    <ul class="tiles">${tiles(figures).map((tile) => html`<${Tile} ...${tile} />`)}</ul>
    <${Reasons} figures=${figures} />
    <div class="charts">${drawings.map((chart) => html`<${Chart} key=${chart.id} chart=${chart} />`)}</div>
  </section>`;
}
