"use strict";

// The rollouts of a group: as values, as a table, side by side, and one by one.
// A rollout is known by its number in the group, from 1: #3 on the page, `rollout=3`, `against=3` in a link.
const rolloutViews = (() => {
  const { useLayoutEffect, useMemo, useRef } = lib;
  const { TurnList, Text, Folded, wordsOf } = turnlist;
  const NO_ONE = 0; // `against=0`: compare with none

  // ---- What is shown -------------------------------------------------------------------------------

  // The rollouts of a row as values; `text` is null where the file has none of it.
  function entriesOf(rows, row, text, said) {
    const scores = rows.scores[row];
    const ranks = turns.ranks(scores);
    const told = text?.rollouts ?? [];
    const alike = turns.firstAlike(scores.map((_, i) => ({ lines: told[i]?.lines ?? [] })));
    return scores.map((score, i) => {
      const one = told[i] ?? {};
      const judges = (one.judges ?? []).filter(({ score: own }) => own !== null);
      return {
        at: i, name: `#${i + 1}`, id: rows.ids[row][i], group: rows.key[row], score, rank: ranks[i], alike: alike[i],
        tiedRank: ranks.indexOf(ranks[i]) !== ranks.lastIndexOf(ranks[i]),
        label: rows.labels[row][i], bytes: rows.bytes[row][i],
        place: rows.places[row][i], spread: rows.spreads[row][i],
        judged: one.judge_score ?? null, slots: one.slots ?? [], passes: one.pass_scores ?? [], judges: judges.map(({ judge, score: own }) => [judge, own]),
        explained: new Map(judges.filter(({ explanation }) => explanation).map(({ judge, explanation }) => [judge, explanation])), criteria: new Map((one.criteria ?? []).map(({ name, value }) => [name, value])),
        suspect: Boolean(one.suspect || one.second?.suspect), ended: one.ended ?? "", why: one.reason ?? "", said: one.explanation ?? said?.[i] ?? "",
        lines: one.lines ?? [], second: rows.b_scores ? secondOf(rows, row, i, one.second, said) : null,
      };
    });
  }

  // The same rollout by the judge of the second file.
  function secondOf(rows, row, i, told, said) {
    const [score, spread] = [rows.b_scores[row][i], rows.b_spreads[row][i]];
    return { score, spread, said: told?.explanation || said?.[rows.scores[row].length + i] || "", why: told?.reason ?? "" };
  }

  // Who judged: the name, if there are several, the score and the explanation of a rollout.
  const JUDGES = [{ name: "", score: (e) => e.score, said: (e) => e.said }];

  // Each explanation, with who gave it: both files, the judges of a panel, or the judge of the file, without a name.
  function explanationsOf(e) {
    const named = (name, score, text) => ({ who: name && `${name} ${number(score, 3)}`, text });
    if (e.second || !e.explained.size) return JUDGES.map(({ name, score, said }) => named(name, score(e), said(e)));
    const each = e.judges.map(([name, score]) => named(visible(name), score, e.explained.get(name)));
    return each.some(({ text }) => text === e.said) ? each : [named("", e.score, e.said), ...each];
  }

  // Best first, as in the input, or as the judge saw them in a pass; what has no such place comes last.
  function sorted(entries, order) {
    const by = { input: (e) => e.at, rank: (e) => e.rank }[order] ?? ((e) => e.slots[Number(order)]);
    return [...entries].sort((a, b) => (by(a) ?? Infinity) - (by(b) ?? Infinity) || a.at - b.at);
  }

  // The rollout to compare with: the one asked for, else the best that has a text.
  function referenceOf(entries, asked) {
    if (asked === NO_ONE) return null;
    const shown = entries.filter((e) => e.lines.length);
    const found = shown.find((e) => e.at + 1 === asked) ?? sorted(shown, "rank")[0];
    return found && shown.length > 1 ? found : null;
  }

  const spoken = (e) => `rollout ${e.at + 1}, ${rankOf(e)}`;
  const rankOf = (e) => (e.rank === null ? "no score" : `rank ${e.rank}`) + (e.second ? " by A" : "") + (e.tiedRank ? ", tied" : "");

  // ---- Table of rollouts ---------------------------------------------------------------------------

  const STRIP = "0 to 1";

  // Columns as [heading, what stands in it, whether this rollout has it, class]; one that none has is left out.
  const COLUMNS = [
    ["Mark", (e) => html`<${marks.InTable} e=${e} />`, (e) => !theme.printing || marks.isSaid(e), "g-marks"],
    ["Rank", (e) => (e.rank === null ? "–" : `${e.rank}${e.tiedRank ? "=" : ""}`), (e) => e.rank !== null, "g-number"],
    ["Score", (e) => number(e.score, 3), (e) => e.score !== null, "g-number g-score"],
    [STRIP, (e, scale) => html`<${Strip} scores=${[e.score]} labels=${[e.label]} scale=${scale} />`, (e) => e.score !== null, "g-strip"],
    ["Reward", (e) => reward(e.label), (e) => e.label !== null, "g-number"],
    ["Spread", (e) => number(e.spread, 3), (e) => e.spread !== null, "g-number"],
    ["Judge's own", (e) => number(e.judged, 3), (e) => e.judged !== null && e.judged !== e.score, "g-number"],
    ["Panel", (e) => panelOf(e), (e) => e.judges.length > 0, "g-panels"],
    ["Length", (e) => bytes(e.bytes), () => true, "g-number"],
    ["Notes", notesOf, (e) => notesOf(e), "g-notes"],
    ["Explanation", (e) => beginning(e.said), (e) => e.said, "g-said"],
  ];

  // A column for each criterion that any of the rollouts has.
  function criteriaColumns(entries) {
    const names = new Set(entries.flatMap((e) => [...e.criteria.keys()]));
    return [...names].map((name) => [visible(name), (e) => number(e.criteria.get(name) ?? null, 2), (e) => e.criteria.has(name), "g-number g-criterion"]);
  }

  const FIRST = 300; // characters of an explanation in the table; all of it stands with the rollout

  const beginning = (said) =>
    html`<span class="g-foreign"><${Text} text=${said.length > FIRST ? `${said.slice(0, turns.whole(said, FIRST))}…` : said} /></span>`;

  // 0 is the first place, 1 the last; of several passes each, with its score if the file has it.
  function placeOf(e) {
    if (e.place === null) return "–";
    if (e.slots.length < 2) return number(e.place, 2);
    return e.slots.map((s, i) => (e.passes.length ? `pass ${i + 1}: ${number(e.passes[i], 2)} (position ${number(s, 2)})` : number(s, 2))).join(", ");
  }

  const panelOf = (e) =>
    e.judges.map(([name, s]) => html`<span class="g-panel"><bdi>${visible(name)}</bdi> ${number(s, 3)}</span>`);

  function notesOf(e) {
    const notes = [];
    if (e.suspect) notes.push("addresses the judge");
    if (e.ended) notes.push(`ended: ${e.ended}`);
    if (e.alike !== e.at) notes.push(`same text as #${e.alike + 1}`);
    if (e.score === null && !e.second) notes.push("no score");
    return notes.join("; ");
  }

  function Rollouts({ entries, href, chosen, scale }) {
    const [before, behind] = [COLUMNS.slice(0, 4), COLUMNS.slice(4)];
    const shown = [...before, ...criteriaColumns(entries), ...behind].filter(([, , has]) => entries.some(has));
    return html`<div class="g-scroll" role="region" aria-label="Table of the rollouts" tabindex="0">
      <table role="table">
        <thead role="rowgroup">
          <tr role="row"><th scope="col" role="columnheader">Rollout</th>${shown.map(([name, , , kind]) => html`<th scope="col" role="columnheader" class=${kind}>${name}</th>`)}</tr>
        </thead>
        <tbody role="rowgroup">
          ${entries.map((e) => html`<tr role="row" class=${e.at === chosen ? "g-chosen" : ""}>
            <th scope="row" role="rowheader"><a href=${href({ rollout: e.at + 1 })} aria-label=${spoken(e)}>${e.name}</a></th>
            ${shown.map(([name, value, , kind]) => html`<td role="cell" class=${kind} data-name=${name}>${value(e, scale)}</td>`)}
          </tr>`)}
        </tbody>
      </table>
    </div>`;
  }

  // ---- A rollout -----------------------------------------------------------------------------------

  function About({ e, page }) {
    const twins = page.all.filter((o) => o !== e && o.alike === e.alike);
    const link = (o) => html`<a href=${page.href({ view: "one", rollout: o.at + 1 })}>${o.name}</a>`;
    const said = explanationsOf(e);
    const facts = [
      e.label !== null && `reward ${reward(e.label)}`,
      e.judged !== null && e.judged !== e.score && `the judge's own score ${number(e.judged, 3)}`,
      e.spread !== null && `spread ${number(e.spread, 3)}`,
      e.place !== null && (e.passes.length > 1 && e.slots.length > 1 ? placeOf(e) : `position ${placeOf(e)}`),
      e.lines.length > 0 && many(e.lines.length, "turn"),
      bytes(e.bytes),
      e.ended && `ended: ${e.ended}`,
    ];
    return html`<div class="g-about">
      <p>${facts.filter(Boolean).join(" · ")}</p>
      ${e.suspect && html`<p class="g-warning">Has text that addresses the judge.</p>`}
      ${twins.length > 0 && html`<p>Same text: ${twins.map((o) => html`${link(o)} `)}</p>`}
      ${e.why && html`<p class="g-foreign g-warning"><${Folded} text=${e.why} /></p>`}
      ${said.some(({ text }) => text) && html`<div class="g-judges">
        ${said.map(({ who, text }) => html`<blockquote class="g-foreign" data-judge=${who}>
          <${Folded} text=${text || "no explanation"} /></blockquote>`)}
      </div>`}
    </div>`;
  }

  // What a rollout is compared with, and how many first turns they share; null: with none, or the same text.
  function againstOf(e, reference) {
    if (!reference || reference.alike === e.alike || !e.lines.length) return null;
    const { name, lines } = reference;
    return { name, lines, common: turns.parting(e.lines, lines) };
  }

  function Rollout({ e, page, pinned, column }) {
    const ref = useRef(null);
    const { text, raw, reference, eager } = page;
    const against = useMemo(() => againstOf(e, reference), [e, reference]);
    const where =
      against &&
      wordsOf({ name: against.name, common: against.common, mine: e.lines.length, other: against.lines.length });
    const list = { strings: text?.strings ?? [], lines: e.lines, raw, soon: page.soon, pictures: text?.pictures };
    const classes = ["g-rollout", pinned && "g-pinned", page.chosen === e.at && "g-chosen"];
    const style = column ? { gridColumn: pinned ? "1 / -1" : String(column) } : {};
    return html`<section ref=${ref} class=${classes.filter(Boolean).join(" ")} style=${style}
        tabindex="-1" data-rollout=${e.at + 1} aria-label=${spoken(e)}>
      <h4>
        <span>${e.name}</span> <span>${rankOf(e)}</span>${JUDGES.map(({ name, score }) => html` <b>${name && `${name} `}${number(score(e), 3)}</b>`)}
        ${reference?.at === e.at && html` <em>reference</em>`}<${marks.Sign} e=${e} />
      </h4>
      <div class="g-top">
        <${marks.OfRollout} e=${e}><${groupHead.Copied} hash=${groupHash(opened.rows, page.row, { id: e.id })} /><//>
        <${About} e=${e} page=${page} />
        ${where &&
        html`<button type="button" class="g-to-parting" onClick=${() => toParting(ref.current)}>${where} ↓</button>`}
      </div>
      ${e.lines.length
        ? html`<${TurnList} list=${list} against=${against} eager=${eager} />`
        : html`<p class="g-notice">There is no text of this rollout.</p>`}
    </section>`;
  }

  const STILL = 8; // frames
  const FRAMES = 90;

  // Turns that come near on the way are built and move the place, so it is gone to until it stays.
  function toParting(section) {
    const parting = section.querySelector(".g-parting");
    let still = 0;
    let frames = 0;
    const go = () => {
      const before = parting.getBoundingClientRect().top;
      parting.scrollIntoView({ block: "center", inline: "nearest" });
      still = Math.abs(parting.getBoundingClientRect().top - before) < 1 ? still + 1 : 0;
      frames += 1;
      if (still < STILL && frames < FRAMES) requestAnimationFrame(go);
    };
    go();
    parting.focus({ preventScroll: true });
  }

  // ---- Views ---------------------------------------------------------------------------------------

  // Focus goes to the rollout that was asked for, but not away from what picks the next one.
  function follow(section) {
    if (!document.activeElement?.closest("select, button, input")) section.focus({ preventScroll: true });
  }

  function Side({ entries, page }) {
    const panel = useRef(null);
    const distinct = entries.filter((e) => e.alike === e.at || !e.lines.length);
    const first = page.reference && distinct.find((e) => e.alike === page.reference.alike);
    const shown = first ? [first, ...distinct.filter((e) => e !== first)] : distinct;
    const chosen = page.chosen === undefined ? undefined : entries.find((e) => e.at === page.chosen)?.alike;
    useLayoutEffect(() => {
      const column = chosen !== undefined && panel.current.querySelector(`[data-rollout="${chosen + 1}"]`);
      if (!column) return;
      column.scrollIntoView({ block: "nearest", inline: "start" });
      follow(column);
    }, [chosen, page.row]);
    const tracks = { "--n": shown.length };
    const column = (e, i) => {
      const of = { e, page, pinned: e === first, column: i + 1 };
      return html`<${Rollout} key=${`${page.row}-${e.at}`} ...${of} />`;
    };
    return html`<div class="g-columns" ref=${panel} style=${tracks}
      role="region" aria-label="Rollouts side by side" tabindex="0">${shown.map(column)}</div>`;
  }

  function One({ entries, page }) {
    const e = entries.find((o) => o.at === page.chosen) ?? entries[0];
    const at = entries.indexOf(e);
    const box = useRef(null);
    useLayoutEffect(() => {
      if (page.chosen === undefined) return;
      box.current.scrollIntoView();
      follow(box.current.querySelector(".g-rollout"));
    }, [page.chosen, page.row]);
    const show = (of) => page.go({ view: "one", rollout: of + 1 });
    const to = (i) => show(entries[i].at);
    const option = (o) => {
      const same = o.alike === o.at ? "" : `, same as #${o.alike + 1}`;
      return html`<option value=${o.at}>${o.name}: ${rankOf(o)}, ${number(o.score, 3)}${same}</option>`;
    };
    const last = entries.length - 1;
    return html`<div class="g-one" ref=${box}>
      <p class="g-controls">
        <button type="button" disabled=${at === 0} onClick=${() => to(at - 1)}>← previous</button>
        <label>Rollout <select value=${e.at} onChange=${(event) => show(Number(event.target.value))}>
          ${entries.map(option)}
        </select></label>
        <button type="button" disabled=${at === last} onClick=${() => to(at + 1)}>next →</button>
        <span>${at + 1} of ${entries.length}</span>
      </p>
      <${Rollout} key=${`${page.row}-${e.at}`} e=${e} page=${page} />
    </div>`;
  }

  return { JUDGES, COLUMNS, beginning, notesOf, panelOf, entriesOf, sorted, referenceOf, rankOf, Rollouts, Side, One };
})();
