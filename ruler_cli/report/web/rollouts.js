"use strict";

// The rollouts of a group: as values, as a table, side by side, and one by one.
// A rollout is known by its number in the group, from 1: #3 on the page, `rollout=3` and `against=3` in a link.
const rolloutViews = (() => {
  const { useLayoutEffect, useRef } = lib;
  const { TurnList, Text, wordsOf, counted } = turnlist;
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
      return {
        at: i, name: `#${i + 1}`, score, rank: ranks[i], alike: alike[i],
        tiedRank: ranks.indexOf(ranks[i]) !== ranks.lastIndexOf(ranks[i]),
        label: rows.labels[row][i], bytes: rows.bytes[row][i], place: rows.places[row][i], spread: rows.spreads[row][i],
        judged: one.judged ?? null, slots: one.slots ?? [], judges: Object.entries(one.judges ?? {}),
        suspect: one.suspect ?? false, why: one.why ?? "", said: one.said ?? said?.[i] ?? "", lines: one.lines ?? [],
      };
    });
  }

  // Best first, as in the input, or as the judge saw them in a pass; what has no such place comes last.
  function sorted(entries, order) {
    const by = order === "input" ? (e) => e.at : order === "rank" ? (e) => e.rank : (e) => e.slots[Number(order)];
    return [...entries].sort((a, b) => (by(a) ?? Infinity) - (by(b) ?? Infinity) || a.at - b.at);
  }

  // The rollout to compare with: the one asked for, else the best that has a text.
  function referenceOf(entries, asked) {
    if (asked === NO_ONE) return null;
    const shown = entries.filter((e) => e.lines.length);
    const found = shown.find((e) => e.at + 1 === asked) ?? sorted(shown, "rank")[0];
    return found && shown.length > 1 ? found : null;
  }

  const rankOf = (e) => (e.rank === null ? "no score" : `rank ${e.rank}${e.tiedRank ? ", tied" : ""}`);

  // ---- Table of rollouts ---------------------------------------------------------------------------

  // Columns as [heading, what stands in it, whether this rollout has it]; one that none has is left out.
  const columns = (entries) =>
    [
      ["Rank", (e) => (e.rank === null ? "–" : `${e.rank}${e.tiedRank ? "=" : ""}`), () => true],
      ["Score", (e) => number(e.score, 3), () => true],
      ["Judge's own", (e) => number(e.judged, 3), (e) => e.judged !== null && e.judged !== e.score],
      ["Spread", (e) => number(e.spread, 3), (e) => e.spread !== null],
      ["Label", (e) => number(e.label, Number.isInteger(e.label) ? 0 : 3), (e) => e.label !== null],
      ["Shown at", placeOf, (e) => e.place !== null],
      ["Panel", (e) => e.judges.map(([name, s]) => html`<span class="panel"><bdi>${visible(name)}</bdi> ${number(s, 3)}</span>`), (e) => e.judges.length > 0],
      ["Length", (e) => bytes(e.bytes), () => true],
      ["Notes", notesOf, (e) => notesOf(e)],
    ].filter(([, , has]) => entries.some(has));

  // 0 is the first place, 1 the last; one for each pass.
  function placeOf(e) {
    if (e.place === null) return "–";
    return e.slots.length > 1 ? `${number(e.place, 2)} (${e.slots.map((s) => number(s, 2)).join(", ")})` : number(e.place, 2);
  }

  function notesOf(e) {
    const notes = [];
    if (e.suspect) notes.push("addresses the judge");
    if (e.alike !== e.at) notes.push(`same text as #${e.alike + 1}`);
    if (e.score === null) notes.push("no score");
    return notes.join("; ");
  }

  function Rollouts({ entries, href, chosen }) {
    const shown = columns(entries);
    return html`<div class="scroll" role="region" aria-label="Table of the rollouts" tabindex="0">
      <table>
        <thead>
          <tr><th scope="col">Rollout</th>${shown.map(([name]) => html`<th scope="col">${name}</th>`)}</tr>
        </thead>
        <tbody>
          ${entries.map((e) => html`<tr class=${e.at === chosen ? "chosen" : ""}>
            <th scope="row"><a href=${href({ view: "one", rollout: e.at + 1 })} aria-label=${`rollout ${e.at + 1}, ${rankOf(e)}`}>${e.name}</a></th>
            ${shown.map(([name, value]) => html`<td class=${name === "Notes" || name === "Panel" ? "" : "number"}>${value(e)}</td>`)}
          </tr>`)}
        </tbody>
      </table>
    </div>`;
  }

  // ---- A rollout -----------------------------------------------------------------------------------

  function About({ e, entries, page }) {
    const twins = entries.filter((o) => o !== e && o.alike === e.alike);
    const link = (o) => html`<a href=${page.href({ view: "one", rollout: o.at + 1 })}>${o.name}</a>`;
    const facts = [
      e.label !== null && `label ${number(e.label, Number.isInteger(e.label) ? 0 : 3)}`,
      e.judged !== null && e.judged !== e.score && `the judge's own score ${number(e.judged, 3)}`,
      e.spread !== null && `spread ${number(e.spread, 3)}`,
      e.place !== null && `shown at ${placeOf(e)}`,
      e.lines.length > 0 && counted(e.lines.length, "turn"),
      bytes(e.bytes),
    ];
    return html`<div class="about">
      <p>${facts.filter(Boolean).join(" · ")}</p>
      ${e.suspect && html`<p class="warning">Has text that addresses the judge.</p>`}
      ${twins.length > 0 && html`<p>Same text: ${twins.map((o) => html`${link(o)} `)}</p>`}
      ${e.why && html`<p class="foreign warning"><${Text} text=${e.why} /></p>`}
      ${e.said && html`<blockquote class="foreign"><${Text} text=${e.said} /></blockquote>`}
    </div>`;
  }

  function Rollout({ e, entries, page, pinned, column }) {
    const ref = useRef(null);
    const { text, raw, reference, eager } = page;
    const against = reference && reference.alike !== e.alike && e.lines.length ? { name: reference.name, lines: reference.lines } : null;
    const list = { strings: text?.strings ?? [], lines: e.lines, raw };
    const common = against && turns.parting(e.lines, against.lines);
    const where = against && wordsOf({ name: against.name, common, mine: e.lines.length, other: against.lines.length });
    return html`<section ref=${ref} class=${`rollout${pinned ? " pinned" : ""}${page.chosen === e.at ? " chosen" : ""}`}
        style=${column ? { gridColumn: pinned ? "1 / -1" : String(column) } : {}} tabindex="-1"
        data-rollout=${e.at + 1} aria-label=${`rollout ${e.at + 1}, ${rankOf(e)}`}>
      <h4><span>${e.name}</span> <span>${rankOf(e)}</span> <b>${number(e.score, 3)}</b>${reference?.at === e.at && html` <em>reference</em>`}</h4>
      <div class="top">
        <${About} e=${e} entries=${entries} page=${page} />
        ${where && html`<button type="button" class="to-parting" onClick=${() => toParting(ref.current)}>${where} ↓</button>`}
      </div>
      ${text && (e.lines.length ? html`<${TurnList} list=${list} against=${against} eager=${eager} />` : html`<p class="notice">There is no text of this rollout.</p>`)}
    </section>`;
  }

  // Turns that come near on the way there are built and move it, so it is looked for twice.
  function toParting(section) {
    const parting = section.querySelector(".parting");
    const go = () => parting.scrollIntoView({ block: "center", inline: "nearest" });
    go();
    requestAnimationFrame(() => requestAnimationFrame(go));
    parting.focus({ preventScroll: true });
  }

  // ---- Views ---------------------------------------------------------------------------------------

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
      const idle = document.activeElement === document.body || panel.current.contains(document.activeElement);
      if (idle) column.focus({ preventScroll: true });
    }, [chosen, page.row]);
    const tracks = { "--n": shown.length };
    return html`<div class="columns" ref=${panel} role="region" aria-label="Rollouts side by side" tabindex="0" style=${tracks}>
      ${shown.map((e, i) => html`<${Rollout} key=${`${page.row}-${e.at}`} e=${e} entries=${page.all} page=${page} pinned=${e === first} column=${i + 1} />`)}
    </div>`;
  }

  function One({ entries, page }) {
    const e = entries.find((o) => o.at === page.chosen) ?? entries[0];
    const at = entries.indexOf(e);
    const to = (i) => page.go({ view: "one", rollout: entries[i].at + 1 });
    return html`<div>
      <p class="controls">
        <button type="button" disabled=${at === 0} onClick=${() => to(at - 1)}>← previous</button>
        <label>Rollout <select value=${e.at} onChange=${(event) => page.go({ view: "one", rollout: Number(event.target.value) + 1 })}>
          ${entries.map((o) => html`<option value=${o.at}>${o.name}: ${rankOf(o)}, ${number(o.score, 3)}${o.alike === o.at ? "" : `, same as #${o.alike + 1}`}</option>`)}
        </select></label>
        <button type="button" disabled=${at === entries.length - 1} onClick=${() => to(at + 1)}>next →</button>
        <span>${at + 1} of ${entries.length}</span>
      </p>
      <${Rollout} key=${`${page.row}-${e.at}`} e=${e} entries=${page.all} page=${page} />
    </div>`;
  }

  return { entriesOf, sorted, referenceOf, rankOf, Rollouts, Side, One };
})();
