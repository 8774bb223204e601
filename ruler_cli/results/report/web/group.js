"use strict";

// A group's page: its head, its rollouts and their texts, and the keys to walk among them.
const GroupPage = (() => {
  const { useState, useEffect, useLayoutEffect, useMemo, useRef } = lib;
  const { TurnList, Text, Folded } = turnlist;
  const { Head, About, Copied, neighbours } = groupHead;
  const { JUDGES, Rollouts, Side, One, entriesOf, sorted, referenceOf, rankOf } = rolloutViews;

  // The group's text: undefined while it is read, null where the file has none; an Error where it cannot be.
  function useText(data, row) {
    const [found, setFound] = useState({});
    useEffect(() => {
      let wanted = true;
      const tell = (text, said = null) => wanted && setFound({ row, text, said });
      const read = async () => {
        const text = await textOf(row, data.rows);
        tell(text, text ? null : ((await explanations())[row] ?? null));
      };
      read().catch((error) => tell(error));
      return () => (wanted = false);
    }, [data, row]);
    return found.row === row ? found : {};
  }

  // j, k or Alt with an arrow: another group; left, right: another rollout; letters of marks. Not while something is typed.
  function useKeys(toGroup, toRollout, press) {
    const latest = useRef(null);
    latest.current = { toGroup, toRollout, press };
    // at once: a key that is pressed before the next frame must not get lost
    useLayoutEffect(() => {
      const pressed = (event) => {
        const { key, altKey, target } = event;
        if (event.defaultPrevented || event.ctrlKey || event.metaKey) return;
        if (target instanceof Element && target.closest("input, select, textarea, dialog")) return;
        if (!altKey && latest.current.press(key)) return event.preventDefault();
        if (event.shiftKey || (key.startsWith("Arrow") && target instanceof Element && target.closest(".g-scroll"))) return;
        const group = (altKey ? { ArrowDown: 1, ArrowUp: -1 } : { j: 1, k: -1 })[key];
        const rollout = altKey ? 0 : { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!group && !rollout) return;
        event.preventDefault();
        if (group) latest.current.toGroup(group);
        else latest.current.toRollout(rollout);
      };
      addEventListener("keydown", pressed);
      return () => removeEventListener("keydown", pressed);
    }, []);
  }

  const SEARCHABLE = 4000; // turns of a group that are built also while out of sight
  const SHORT = { lines: 4, characters: 1500 };
  const FEW = { lines: 4, characters: 200 }; // of tools, which take ten times the room once they are indented

  // What all rollouts share, once; open where it is short.
  function Shared({ name, lines, raw, pictures, printing, note, limit = SHORT, children }) {
    if (!lines.length) return null;
    const short = lines.length <= limit.lines && lines.join("").length <= limit.characters;
    const list = { strings: lines, lines: lines.map((_, i) => i), raw, pictures, soon: lines.length <= SEARCHABLE };
    return html`<details class="g-shared" open=${short || printing}>
      <summary><h3>${name}</h3> <span>${note}</span></summary>
      ${children ?? html`<${TurnList} list=${list} eager=${printing} />`}
    </details>`;
  }

  function toolNames(lines) {
    const named = (line) => {
      try {
        return String(JSON.parse(line).name ?? "…");
      } catch {
        return "…";
      }
    };
    const names = lines.slice(0, 12).map((line) => visible(named(line)).slice(0, 60));
    return `${lines.length}: ${names.join(", ")}${lines.length > 12 ? ", …" : ""}`;
  }

  function Choice({ name, value, options, onPick }) {
    return html`<label>${name} <select value=${value} onChange=${(event) => onPick(event.target.value)}>
      ${options.map(([of, says]) => html`<option value=${of}>${says}</option>`)}
    </select></label>`;
  }

  function Controls({ page, order, choose }) {
    const passes = Math.min(8, Math.max(0, ...page.all.map((e) => e.slots.length)));
    const pass = (i) => (passes > 1 ? `, pass ${i + 1}` : "");
    const seen = Array.from({ length: passes }, (_, i) => [String(i), `as the judge saw them${pass(i)}`]);
    const orders = [["rank", "best first"], ["input", "as in the input"], ...seen];
    const shown = sorted(page.all.filter((e) => e.lines.length), "rank");
    const against = [[0, "none"], ...shown.map((e) => [e.at + 1, `${e.name}: ${rankOf(e)}`])];
    const reference = page.reference ? page.reference.at + 1 : 0;
    const view = (name, says) => {
      const pick = () => page.go({ view: name });
      return html`<button type="button" aria-pressed=${page.view === name} onClick=${pick}>${says}</button>`;
    };
    return html`<p class="g-controls">
      <span role="group" aria-label="View" class="g-switch">
        ${view("side", "side by side")}${view("one", "one by one")}
      </span>
      <${Choice} name="Order" value=${order} options=${orders} onPick=${(to) => choose({ order: to })} />
      ${shown.length > 1 &&
      html`<${Choice} name="Compare with" value=${reference} options=${against}
        onPick=${(to) => page.go({ against: Number(to) })} />`}
      <label><input type="checkbox" checked=${page.raw} onChange=${(event) => choose({ raw: event.target.checked })} />
        ${" "}as the judge read it</label>
    </p>`;
  }

  // What there is of a group whose text was left out of the file.
  function LeftOutText({ data, row, entries }) {
    const said = (e) => html`<div key=${e.at} data-rollout=${e.at + 1} tabindex="-1">
      ${JUDGES.filter((judge) => judge.said(e)).map((judge) => html`<p class="g-foreign">
        <b>${e.name}</b>, ${judge.name || rankOf(e)}: <${Text} text=${judge.said(e)} /></p>`)}
      <${marks.OfRollout} e=${e}><${Copied} hash=${groupHash(data.rows, row, { id: e.id })} /><//>
    </div>`;
    return html`<section aria-label="Explanations">
      <p class="g-notice">Its text was left out of this file.
        ${" "}In a terminal: <code>${turns.command(data.sources ?? data.source, data.rows.key[row])}</code></p>
      ${entries.map(said)}
    </section>`;
  }

  function Texts({ row, page, order, choose, entries }) {
    const { text, raw, eager } = page;
    const tools = text.tools ? text.tools.split("\n") : [];
    const definitions = { lines: tools, raw, limit: FEW, note: toolNames(tools) };
    const note = many(text.context.length, "turn");
    const context = { lines: text.context, raw, pictures: text.pictures, printing: eager, note };
    const rubric = { lines: text.rubric ? text.rubric.split("\n") : [], printing: eager, note: "of this group" };
    return html`
      <${Shared} key=${`rubric-${row}`} name="Rubric" ...${rubric}><p class="g-foreign"><${Folded} text=${text.rubric} /></p><//>
      <${Shared} key=${`context-${row}`} name="Shared context" ...${context} />
      <${Shared} key=${`tools-${row}`} name="Tools" ...${definitions} />
      <section aria-label="What the rollouts did">
        <h3>What they did</h3>
        <${Controls} page=${page} order=${order} choose=${choose} />
        <${page.view === "one" && !eager ? One : Side} entries=${entries} page=${page} />
      </section>`;
  }

  function Body({ data, row, page, order, choose, entries }) {
    if (page.text === undefined) return html`<p role="status">Reading the text …</p>`;
    if (page.text === null) return html`<${LeftOutText} data=${data} row=${row} entries=${entries} />`;
    if (!(page.text instanceof Error)) return html`<${Texts} ...${{ row, page, order, choose, entries }} />`;
    return html`<p class="g-notice g-failed" role="alert">
      The text of this group cannot be read: the file was damaged or cut.</p>`;
  }

  const choices = { order: "rank", raw: false }; // they hold for the next group too

  // `row` is the group's index in data.rows, `route` what the address asks for. For printing all of it is
  // built, one rollout under another.
  function Group({ data, route: asked, row, printing: eager }) {
    const { rows } = data;
    const [{ order, raw }, setChoices] = useState(choices);
    const choose = (changes) => setChoices({ ...Object.assign(choices, changes) });
    const { text, said } = useText(data, row);
    const all = useMemo(() => entriesOf(rows, row, text, said), [rows, row, text, said]);
    const entries = useMemo(() => sorted(all, order), [all, order]);
    const named = asked.id ? rows.ids[row].indexOf(asked.id) : -1;
    const rest = { view: asked.view, against: asked.against, ...(named < 0 ? { rollout: asked.rollout } : { id: asked.id }) };
    const href = (changes) => groupHash(rows, row, { ...rest, ...(changes.rollout && { id: undefined }), ...changes });
    const page = {
      row, text, raw, all, eager, href,
      view: asked.view ?? "side",
      soon: all.reduce((n, e) => n + e.lines.length, 0) <= SEARCHABLE,
      chosen: all[named < 0 ? asked.rollout - 1 : named]?.at,
      reference: referenceOf(all, asked.against),
      go: (changes) => go(href(changes), { replace: true }), // no step back for each rollout looked at
    };
    const toGroup = (by) => {
      const to = neighbours(rows, row)[by > 0 ? "next" : "previous"];
      if (to !== undefined) go(groupHash(rows, to));
    };
    const toRollout = (by) => {
      const among = page.view === "side" ? entries.filter((e) => e.alike === e.at) : entries;
      const at = among.findIndex((e) => e.at === page.chosen);
      const next = among[at < 0 ? (page.view === "side" ? 0 : Math.max(by, 0)) : at + by];
      if (next) page.go({ rollout: next.at + 1 });
    };
    const current = all[page.chosen] ?? (page.view === "one" || all.length === 1 ? entries[0] : undefined);
    useKeys(toGroup, toRollout, (key) => marks.press(key, row, current));
    const link = (id) => groupHash(rows, row, { view: asked.view, id });
    return html`<article class="group-page">
      <${Head} data=${data} row=${row} />
      ${asked.id && named < 0 && html`<p class="g-notice" role="note">The link asks for a rollout (${visible(asked.id)}) that is not in this report:
        its group has other rollouts here.</p>`}
      <${marks.OfGroup} group=${rows.key[row]} same=${nthOfKey(rows, row)[1]}><${Copied} hash=${link()} /><//>
      <section aria-label="Rollouts">
        <h3>Rollouts</h3>
        <${Rollouts} entries=${entries} href=${href} chosen=${page.chosen} scale=${rewardScale(data)} />
      </section>
      <${instead.About ?? About} data=${data} row=${row} />
      <${Body} ...${{ data, row, page, order, choose, entries }} />
    </article>`;
  }

  return Group;
})();
