"use strict";

// The page on which a person compares pairs of rollouts, without knowing what anybody said of them.
(() => {
  const { useState, useEffect, useLayoutEffect, useRef } = lib;
  const { TurnList, Folded } = turnlist;
  const NEXT = "ruler agree SCORED --people labels.jsonl";
  const SHORT = 1500; // characters of shared turns that are not folded
  const KEYS = {
    1: "left", ArrowLeft: "left", 2: "right", ArrowRight: "right", 0: "equal", "=": "equal", "?": "unsure", u: "unsure",
  };
  const BUTTONS = [
    ["left", "Left is better", "1", "1 ArrowLeft"],
    ["equal", "Equal", "0", "0 ="],
    ["unsure", "Unsure", "?", "? u"],
    ["right", "Right is better", "2", "2 ArrowRight"],
  ];
  const LIST_OF_KEYS = [
    ["1 or ←", "the left one is better"],
    ["2 or →", "the right one is better"],
    ["0 or =", "they are equal"],
    ["? or u", "unsure"],
    ["n", "write a note; Esc leaves it"],
    ["j, k", "the next comparison, the one before"],
    ["s", "the summary, where labels.jsonl is downloaded"],
  ];

  const page = {
    data: null,
    labelling: answers.empty(),
    view: "start", // or "pair" or "summary"
    said: "", // for a screen reader
    kept: true, // the browser keeps the answers
    changed: false, // answers or notes, since the last download
    root: null,
    texts: new Map(),
  };
  const count = () => page.data.comparisons.length;

  // ---- What the browser keeps ------------------------------------------------------------------------

  const slot = () => `ruler-label-${page.data.draw}`;

  function keep() {
    try {
      localStorage.setItem(slot(), answers.packed(page.labelling));
      page.kept = true;
    } catch {
      page.kept = false; // refused, or full
    }
  }

  function recall(text) {
    answers.unpackInto(page.labelling, text, count());
  }

  /** Take what the same page in another window has kept; the comparison in sight stays. */
  function catchUp(text) {
    const { at } = page.labelling;
    recall(text);
    page.labelling.at = at;
    draw();
  }

  /** A window that was asleep has heard of nothing, and would write over it. */
  function wake() {
    try {
      if (!document.hidden) catchUp(localStorage.getItem(slot()));
    } catch {
      page.kept = false;
    }
  }

  // ---- Seconds ---------------------------------------------------------------------------------------

  const clock = { spent: new Map(), since: null, place: null };

  /** Count the seconds of a comparison while it is in sight; null: none is. */
  function watch(place) {
    const now = performance.now();
    if (clock.since !== null) clock.spent.set(clock.place, secondsOf(clock.place, now));
    Object.assign(clock, { place, since: place === null || document.hidden ? null : now });
  }

  function secondsOf(place, now = performance.now()) {
    const running = clock.place === place && clock.since !== null ? (now - clock.since) / 1000 : 0;
    return (clock.spent.get(place) ?? 0) + running;
  }

  // ---- Steps -----------------------------------------------------------------------------------------

  function draw() {
    lib.render(html`<${App} />`, page.root);
  }

  /** Show a view; focus moves with it, so that keys and screen readers follow. `said` is what was done. */
  function show(view, place = page.labelling.at, said = "") {
    Object.assign(page, { view, said });
    page.labelling.at = place;
    watch(view === "pair" ? place : null);
    keep();
    draw();
    scrollTo(0, 0);
    document.getElementById("view-head")?.focus({ preventScroll: true });
  }

  function walk(by) {
    const to = page.labelling.at + by;
    if (to >= count()) show("summary");
    else if (to >= 0) show("pair", to);
  }

  function answer(choice) {
    const { labelling } = page;
    const place = labelling.at;
    if (labelling.shown) return;
    const before = labelling.own.get(place);
    const note = before?.note ?? labelling.notes.get(place) ?? "";
    const took = Math.round(secondsOf(place) * 10) / 10;
    labelling.own.set(place, { choice, note, at: new Date().toISOString(), seconds: took });
    labelling.notes.delete(place);
    page.changed = true;
    const next = before ? place + 1 : answers.unanswered(labelling, count(), place);
    const said = `Comparison ${place + 1}: ${choice}. ${labelling.own.size} of ${count()} answered.`;
    const ended = next < 0 || next >= count();
    show(ended ? "summary" : "pair", ended ? place : next, said);
  }

  function setNote(place, text) {
    const { labelling } = page;
    const note = answers.plain(text, answers.LONGEST.note);
    const own = labelling.own.get(place);
    if (own) labelling.own.set(place, { ...own, note, at: new Date().toISOString() });
    else labelling.notes.set(place, note);
    page.changed = true;
    keep();
    draw();
  }

  function save() {
    download(answers.written(page.data.comparisons, page.labelling), "labels.jsonl");
    page.changed = false;
    page.said = "labels.jsonl is downloaded";
    draw();
  }

  async function open(files) {
    const sum = { own: 0, others: 0, elsewhere: 0, unread: 0 };
    for (const file of files) {
      try {
        const found = answers.read(await file.text(), page.data.comparisons, page.labelling);
        for (const name of Object.keys(sum)) sum[name] += found[name];
      } catch {
        sum.unread += 1;
      }
    }
    keep();
    page.said = [
      `${many(sum.own, "answer")} of yours`,
      `${whole(sum.others)} of other people`,
      sum.elsewhere > 0 && `${many(sum.elsewhere, "line")} about something else`,
      sum.unread > 0 && `${many(sum.unread, "line")} not readable`,
    ].filter(Boolean).join(", ");
    draw();
  }

  // ---- A comparison ----------------------------------------------------------------------------------

  function textAt(place) {
    if (!page.texts.has(place)) page.texts.set(place, textOf(place, page.data));
    return page.texts.get(place);
  }

  /** The text of a comparison: undefined while it is read, an Error where it cannot be. */
  function useText(place) {
    const [found, setFound] = useState({});
    useEffect(() => {
      let wanted = true;
      const tell = (text) => wanted && setFound({ place, text });
      textAt(place).then(tell, tell);
      for (const seen of [...page.texts.keys()]) if (Math.abs(seen - place) > 2) page.texts.delete(seen);
      if (place + 1 < count()) textAt(place + 1).catch(() => {}); // told when it is in sight
      return () => (wanted = false);
    }, [place]);
    return found.place === place ? found.text : undefined;
  }

  /** The text in parts: the turns before the task, the task, and what both rollouts share from there on. */
  function partsOf(text) {
    const kinds = text.context.map((line) => turns.turnOf(line).kind);
    const agent = kinds.findIndex((kind) => ["assistant", "call", "thinking"].includes(kind));
    const own = agent < 0 ? kinds.length : agent;
    const task = kinds.slice(0, own).lastIndexOf("user");
    const end = task < 0 ? own : task;
    const [left, right] = text.lines;
    const common = turns.parting(left, right);
    const shared = left.slice(0, common).map((index) => text.strings[index]);
    return {
      before: text.context.slice(0, end),
      task: task < 0 ? [] : [text.context[task]],
      same: [...text.context.slice(task < 0 ? end : end + 1), ...shared],
      sides: [left.slice(common), right.slice(common)],
    };
  }

  const listOf = (lines, pictures) => ({ strings: lines, lines: lines.map((_, i) => i), pictures, soon: true });

  /** What both share, in a fold that is open where it is short. */
  function Shared({ name, note, lines, pictures, children }) {
    if (!lines.length) return null;
    const short = lines.join("").length <= SHORT;
    return html`<details class="g-shared" open=${short && !children}>
      <summary><h3>${name}</h3> <span>${note}</span></summary>
      ${children ?? html`<${TurnList} list=${listOf(lines, pictures)} />`}
    </details>`;
  }

  function Side({ name, text, lines, hidden }) {
    const list = { strings: text.strings, lines, pictures: text.pictures, soon: lines.length <= 2000 };
    const heading = `${name} rollout`;
    return html`<section class=${`l-side${hidden ? " l-hidden" : ""}`} id=${`side-${name.toLowerCase()}`} aria-label=${heading}>
      <h3>${name} <span>${many(lines.length, "turn")}</span></h3>
      ${lines.length ? html`<${TurnList} list=${list} />` : html`<p class="g-notice">It ends with what both share.</p>`}
    </section>`;
  }

  /** Both rollouts: beside one another, or one at a time where there is no room. */
  function Sides({ text, sides }) {
    const [shown, setShown] = useState("Left");
    const box = useRef(null);
    const tops = useRef({});
    const pick = (name) => {
      tops.current[shown] = scrollY;
      setShown(name);
    };
    useLayoutEffect(() => {
      if (tops.current.Left === undefined && tops.current.Right === undefined) return;
      const start = box.current.getBoundingClientRect().top + scrollY;
      scrollTo(0, tops.current[shown] ?? Math.min(scrollY, start));
    }, [shown]);
    const tab = (name) => html`<button type="button" aria-pressed=${shown === name} onClick=${() => pick(name)}>${name}</button>`;
    return html`<div ref=${box}>
      <div class="l-tabs g-switch" role="group" aria-label="Rollout in sight">${tab("Left")}${tab("Right")}</div>
      <div class="l-sides">
        ${["Left", "Right"].map((name, i) => html`<${Side} name=${name} text=${text} lines=${sides[i]} hidden=${shown !== name} />`)}
      </div>
    </div>`;
  }

  function Body({ place }) {
    const text = useText(place);
    if (text === undefined) return html`<p>Reading the text …</p>`;
    if (text instanceof Error) {
      return html`<p class="g-notice g-failed" role="alert">This text cannot be read: the file was damaged or cut.</p>`;
    }
    const { before, task, same, sides } = partsOf(text);
    const tools = text.tools ? text.tools.split("\n") : [];
    const { pictures } = text;
    return html`
      <${Shared} name="Rubric" note="by which to judge" lines=${text.rubric ? [text.rubric] : []}>
        <p class="g-foreign"><${Folded} text=${text.rubric} /></p><//>
      <${Shared} name="Tools" note=${whole(tools.length)} lines=${tools}><${TurnList} list=${listOf(tools)} /><//>
      <${Shared} name=${task.length ? "Before the task" : "Instructions"} note=${many(before.length, "turn")} lines=${before} pictures=${pictures} />
      ${task.length > 0 && html`<section aria-label="Task"><h3>Task</h3><${TurnList} list=${listOf(task, pictures)} /></section>`}
      <${Shared} name="Both begin alike" note=${many(same.length, "turn")} lines=${same} pictures=${pictures} />
      <${Sides} text=${text} sides=${sides} />`;
  }

  function Note({ place }) {
    const { own, notes, shown } = page.labelling;
    const note = own.get(place)?.note ?? notes.get(place) ?? "";
    return html`<label class="l-note"><span class="g-unheard">Note</span>
      <input id="note" type="text" placeholder="note" autocomplete="off" maxlength=${answers.LONGEST.note}
        aria-keyshortcuts="n" disabled=${shown} value=${note} onInput=${(event) => setNote(place, event.target.value)} />
    </label>`;
  }

  function Bar({ place }) {
    const { own, shown } = page.labelling;
    const chosen = own.get(place)?.choice;
    const choice = ([name, says, key, keys]) => html`<button key=${name} type="button" class="l-choice" data-choice=${name} disabled=${shown}
      aria-pressed=${chosen === name} aria-keyshortcuts=${keys} onClick=${() => answer(name)}>${says} <kbd aria-hidden="true">${key}</kbd></button>`;
    return html`<section class="l-bar" aria-label="Your answer">
      <div class="l-choices">${BUTTONS.map(choice)}</div>
      <div class="l-walk">
        <button type="button" aria-keyshortcuts="k" disabled=${place === 0} onClick=${() => walk(-1)}>← back</button>
        <${Note} key=${place} place=${place} />
        <button type="button" aria-keyshortcuts="j" onClick=${() => walk(1)}>next →</button>
      </div>
    </section>`;
  }

  function Pair() {
    const place = page.labelling.at;
    return html`<article class="group-page l-pair">
      <h2 id="view-head" tabindex="-1">Comparison ${place + 1} <span>of ${count()} · group <bdi>${visible(page.data.comparisons[place].group)}</bdi></span></h2>
      <${Body} key=${place} place=${place} />
      <${Bar} place=${place} />
    </article>`;
  }

  // ---- Start and summary -----------------------------------------------------------------------------

  function Keys() {
    return html`<details class="l-keys"><summary>Keys</summary>
      <dl>${LIST_OF_KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    </details>`;
  }

  function Name({ button, onName }) {
    const submit = (event) => {
      event.preventDefault();
      const name = answers.plain(event.target.elements.name.value.trim(), answers.LONGEST.name);
      if (name) onName(name);
    };
    return html`<form class="l-name" onSubmit=${submit}>
      <label>Your name <input name="name" required autocomplete="name" maxlength=${answers.LONGEST.name} value=${page.labelling.name} /></label>
      <button type="submit">${button}</button>
    </form>`;
  }

  function Start() {
    const begin = (name) => {
      answers.rename(page.labelling, name);
      show("pair", Math.max(0, answers.unanswered(page.labelling, count())));
    };
    return html`<section class="l-text">
      <h2 id="view-head" tabindex="-1">${many(count(), "comparison")}</h2>
      <p>Two answers of an agent to one task stand side by side, in random order. Say which one is better, by the
        buttons or by keys. Say <em>equal</em> if neither is, and <em>unsure</em> if you cannot tell.</p>
      <p>Your answers stay in this browser until you download them as <code>labels.jsonl</code>. Nothing is sent. You may
        stop after any comparison, as their order is random, and go on later.</p>
      <${Name} button="Start" onName=${begin} />
      <${Keys} />
    </section>`;
  }

  /** What the answers of others show: how many are like the own ones, and the comparisons on which they are not. */
  function Others() {
    const { own, others } = page.labelling;
    const people = [...others].sort(([a], [b]) => (a < b ? -1 : 1));
    const named = (name) => html`<bdi>${visible(name) || "(no name)"}</bdi>`;
    const alike = (map) => [...map].filter(([place, { choice }]) => own.get(place)?.choice === choice).length;
    const differ = page.data.comparisons.map((_, place) => place)
      .filter((place) => people.some(([, map]) => map.has(place) && map.get(place).choice !== own.get(place)?.choice));
    return html`
      <ul>${people.map(([name, map]) => html`<li key=${name}>${named(name)}: ${alike(map)} of ${many(map.size, "answer")} as yours</li>`)}</ul>
      ${differ.length > 0 && html`<div class="l-scroll" role="region" aria-label="Comparisons on which you differ" tabindex="0"><table>
        <thead><tr><th scope="col">Comparison</th><th scope="col">You</th>${people.map(([name]) => html`<th key=${name} scope="col">${named(name)}</th>`)}</tr></thead>
        <tbody>${differ.map((place) => html`<tr key=${place}>
          <th scope="row"><${To} place=${place} /></th><td>${own.get(place)?.choice ?? NONE}</td>
          ${people.map(([name, map]) => html`<td key=${name}>${map.get(place)?.choice ?? NONE}</td>`)}
        </tr>`)}</tbody>
      </table></div>`}`;
  }

  const To = ({ place }) => html`<button type="button" class="l-to" aria-label=${`comparison ${place + 1}`} onClick=${() => show("pair", place)}>${place + 1}</button>`;

  function OtherPeople() {
    const { others, shown } = page.labelling;
    if (!others.size) return null;
    const reveal = () => {
      page.labelling.shown = true;
      keep();
      draw();
    };
    const who = others.size === 1 ? "another person" : `${others.size} other people`;
    const open = answers.unanswered(page.labelling, count()) >= 0;
    return html`<h3>Other people</h3>
      <p>Answers of ${who} are here. They are not in what you download.
        ${!shown && open && " They are shown once you have answered all."}</p>
      ${shown && html`<${Others} />`}
      ${!shown && !open && html`<p><button type="button" onClick=${reveal}>Show them</button> Yours can then no longer be changed here.</p>`}`;
  }

  function Summary() {
    const { labelling } = page;
    const left = page.data.comparisons.map((_, place) => place).filter((place) => !labelling.own.has(place));
    const rename = (name) => {
      answers.rename(labelling, name);
      page.said = "the name is changed";
      keep();
      draw();
    };
    return html`<section class="l-text">
      <h2 id="view-head" tabindex="-1">${labelling.own.size} of ${many(count(), "comparison")} answered</h2>
      ${left.length > 0 && html`<p>Without an answer: ${left.slice(0, 100).map((place) => html`<${To} key=${place} place=${place} /> `)}${left.length > 100 && "…"}</p>`}
      <p class="l-files">
        <button type="button" class="l-first" disabled=${!labelling.own.size && !labelling.more.length} onClick=${save}>Download labels.jsonl</button>
        <label class="l-open">Open labels.jsonl<input class="g-unheard" type="file" multiple onChange=${(event) => {
          open([...event.target.files]);
          event.target.value = "";
        }} /></label>
      </p>
      ${labelling.more.length > 0 && html`<p>${many(labelling.more.length, "line")} of yours about something else stay in your file.</p>`}
      <p>Send the file to the person who gave you this page, who runs: <code>${NEXT}</code></p>
      <${OtherPeople} />
      <h3>You</h3>
      <${Name} button="Change" onName=${rename} />
      <${Keys} />
    </section>`;
  }

  // ---- The page --------------------------------------------------------------------------------------

  const VIEWS = { start: Start, pair: Pair, summary: Summary };

  function App() {
    const { view, labelling, said, kept } = page;
    const begun = view !== "start";
    return html`<header class="top l-head">
        <h1>Which is better?</h1>
        ${begun && html`<label class="l-progress"><progress max=${count()} value=${labelling.own.size}></progress> ${labelling.own.size} of ${count()}</label>`}
        ${begun && html`<button type="button" aria-keyshortcuts="s" aria-pressed=${view === "summary"}
          onClick=${() => show(view === "summary" ? "pair" : "summary")}>Summary</button>`}
        <p class=${view === "summary" ? "l-said" : "g-unheard"} role="status">${said}</p>
        ${!kept && html`<p class="left-out" role="alert">This browser keeps nothing: download your answers before you leave.</p>`}
      </header>
      <main><${VIEWS[view]} /></main>`;
  }

  function onKey(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || page.view === "start") return;
    const { key, target } = event;
    if (target.closest?.("input")) {
      if (key === "Escape") target.blur();
      return;
    }
    if (key === "s") show(page.view === "summary" ? "pair" : "summary");
    else if (page.view !== "pair") return;
    else if (key === "n") document.getElementById("note").focus();
    else if (key === "j" || key === "k") walk(key === "j" ? 1 : -1);
    else if (!Object.hasOwn(KEYS, key)) return;
    else if (!event.repeat) answer(KEYS[key]); // a key that is held down is one answer
    event.preventDefault();
  }

  function listen() {
    addEventListener("keydown", onKey);
    addEventListener("storage", (event) => {
      if (event.key === slot() && event.newValue) catchUp(event.newValue);
    });
    document.addEventListener("visibilitychange", () => {
      watch(clock.place);
      wake();
    });
    addEventListener("pageshow", wake);
    addEventListener("beforeunload", (event) => {
      if (!page.kept && page.changed && page.labelling.own.size) event.preventDefault();
    });
  }

  openPage((data, root) => {
    Object.assign(page, { data, root });
    data.text = spansOf(data.texts);
    try {
      recall(localStorage.getItem(slot()));
    } catch {
      page.kept = false;
    }
    listen();
    if (page.labelling.name) show(answers.unanswered(page.labelling, count()) < 0 ? "summary" : "pair");
    else draw();
  }, { what: "page" });
})();
