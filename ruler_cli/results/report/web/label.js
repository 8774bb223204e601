"use strict";

// The page on which a person compares pairs of rollouts, without knowing what anybody said of them. The answers are
// lines of labels.jsonl (results/labels.py).
(() => {
  const { useState, useEffect, useLayoutEffect, useRef } = lib;
  const { TurnList, Folded, Later } = turnlist;
  const SHORT = 600; // characters of shared turns that are not folded
  const LONGEST = { name: 100, note: 2000 };
  const TURNED = { left: "right", right: "left" };
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
    ["o", "all of each text, or in brief"],
    ["s", "the summary, where labels.jsonl is downloaded"],
  ];

  const page = {
    data: null,
    name: "",
    at: 0, // the comparison in sight
    own: new Map(), // by place: {choice, note, at, seconds}; without a choice it is a note alone
    view: "start", // or "pair" or "summary"
    said: "", // for a screen reader
    kept: true, // the browser keeps the answers
    changed: false, // since the last download
    brief: true, // long texts are folded
    since: 0, // when the comparison came in sight
    root: null,
  };
  const count = () => page.data.comparisons.length;
  const answered = () => [...page.own.values()].filter(({ choice }) => choice).length;
  const isAnswered = (place) => Boolean(page.own.get(place)?.choice);

  /** The place of the first comparison without an answer, from one on and then from the first; -1: there is none. */
  function unanswered(from = 0) {
    const places = page.data.comparisons.map((_, i) => (from + i) % count());
    return places.find((place) => !isAnswered(place)) ?? -1;
  }

  // ---- Answers and lines -----------------------------------------------------------------------------

  const text = (value, most) => (typeof value === "string" ? value.toWellFormed().slice(0, most) : "");

  /** Take an answer, unless a later one is there; any value may stand in a file or in the browser's storage. */
  function put(place, value) {
    const choice = BUTTONS.some(([name]) => name === value?.choice) ? value.choice : "";
    const note = text(value?.note, LONGEST.note);
    const now = page.own.get(place);
    const later = (Date.parse(value?.at) || 0) >= (Date.parse(now?.at) || 0);
    if (!(place >= 0 && place < count()) || !(choice || note) || (now && !later)) return false;
    page.own.set(place, { choice, note, at: text(value.at, LONGEST.name), seconds: Number.isFinite(value.seconds) ? value.seconds : null });
    return true;
  }

  /** A comparison by its group and its rollouts, whichever stands left. */
  const pairKey = ({ group, left, right }) => JSON.stringify([group, ...[left, right].sort()]);

  /** Read lines of one's own labels; return how many there were, and how many were something else. */
  function read(lines) {
    const places = new Map(page.data.comparisons.map((pair, place) => [pairKey(pair), place]));
    let own = 0;
    for (const line of lines) {
      try {
        const value = JSON.parse(line);
        const place = places.get(pairKey(value));
        if (place === undefined || value.by !== page.name) continue;
        if (value.left !== page.data.comparisons[place].left) value.choice = TURNED[value.choice] ?? value.choice;
        put(place, value);
        own += 1;
      } catch {
        // not a line of labels
      }
    }
    return [own, lines.length - own];
  }

  function written() {
    const lines = page.data.comparisons.map((pair, place) => isAnswered(place) && `${JSON.stringify({ ...pair, ...page.own.get(place), by: page.name })}\n`);
    return lines.filter(Boolean).join("");
  }

  // ---- What the browser keeps ------------------------------------------------------------------------

  const slot = () => `ruler-label-${page.data.draw}`;

  /** Take what the browser keeps, also from another window. */
  function recall() {
    try {
      const { name, at, own } = JSON.parse(localStorage.getItem(slot())) ?? {};
      page.name ||= text(name, LONGEST.name);
      if (at >= 0 && at < count() && page.view === "start") page.at = Math.trunc(at);
      if (Array.isArray(own)) own.forEach((entry) => put(entry?.[0], entry?.[1]));
    } catch {
      // damaged, or refused, as keep() will say
    }
  }

  function keep() {
    recall();
    try {
      localStorage.setItem(slot(), JSON.stringify({ name: page.name, at: page.at, own: [...page.own] }));
      page.kept = true;
    } catch {
      page.kept = false; // refused, or full
    }
  }

  // ---- Steps -----------------------------------------------------------------------------------------

  function draw() {
    lib.render(html`<${App} />`, page.root);
  }

  /** Show a view; focus moves with it, so that keys and screen readers follow. `said` is what was done. */
  function show(view, place = page.at, said = "") {
    Object.assign(page, { view, said, at: place, since: performance.now() });
    keep();
    draw();
    scrollTo(0, 0);
    document.getElementById("view-head")?.focus({ preventScroll: true });
  }

  function walk(by) {
    const to = page.at + by;
    if (to >= count()) show("summary");
    else if (to >= 0) show("pair", to);
  }

  function answer(choice) {
    const place = page.at;
    const before = isAnswered(place);
    const note = page.own.get(place)?.note ?? "";
    const seconds = Math.round((performance.now() - page.since) / 100) / 10;
    page.own.set(place, { choice, note, at: new Date().toISOString(), seconds });
    page.changed = true;
    const next = before ? place + 1 : unanswered(place);
    const ended = next < 0 || next >= count();
    show(ended ? "summary" : "pair", ended ? place : next, `Comparison ${place + 1}: ${choice}. ${answered()} of ${count()} answered.`);
  }

  function unfold() {
    page.brief = !page.brief;
    draw();
  }

  function setNote(place, note) {
    page.own.set(place, { choice: "", seconds: null, ...page.own.get(place), note: text(note, LONGEST.note), at: new Date().toISOString() });
    page.changed = true;
    keep();
    draw();
  }

  function save() {
    download(written(), "labels.jsonl");
    page.changed = false;
    page.said = "labels.jsonl is downloaded";
    draw();
  }

  async function open(files) {
    const texts = await Promise.all([...files].map((file) => file.text()));
    const [own, others] = read(texts.join("\n").split("\n").filter((line) => line.trim()));
    page.said = `${many(own, "answer")} of yours${others ? `, ${many(others, "line")} about something else` : ""}`;
    keep();
    draw();
  }

  // ---- A comparison ----------------------------------------------------------------------------------

  /** The text of a comparison: undefined while it is read, an Error where it cannot be. */
  function useText(place) {
    const [found, setFound] = useState(undefined);
    useEffect(() => {
      let wanted = true;
      const tell = (news) => wanted && setFound(news);
      textOf(place, page.data).then(tell, tell);
      return () => (wanted = false);
    }, [place]);
    return found;
  }

  /** The text in parts: the turns before the task, the task, and what both rollouts share from there on. */
  function partsOf({ context, lines: [left, right], strings }) {
    const kinds = context.map((line) => turns.turnOf(line).kind);
    const agent = kinds.findIndex((kind) => ["assistant", "call", "thinking"].includes(kind));
    const task = kinds.slice(0, agent < 0 ? kinds.length : agent).lastIndexOf("user");
    const end = task < 0 ? 0 : task;
    const common = turns.parting(left, right);
    const lines = (indices) => indices.map((index) => strings[index]);
    return {
      before: context.slice(0, end),
      task: task < 0 ? [] : [context[task]],
      same: [...context.slice(end + (task < 0 ? 0 : 1)), ...lines(left.slice(0, common))],
      sides: [lines(left.slice(common)), lines(right.slice(common))],
    };
  }

  /** What both share, in a fold that is open where it is short. */
  function Shared({ name, note, lines, pictures, children }) {
    if (!lines.length) return null;
    return html`<details class="g-shared" open=${lines.join("").length <= SHORT}>
      <summary><h3>${name}</h3> <span class="muted">${note}</span></summary>
      ${children ?? html`<${TurnList} lines=${lines} pictures=${pictures} />`}
    </details>`;
  }

  const SIDES = ["Left", "Right"];

  /** Both rollouts: beside one another, or one at a time where there is no room. */
  function Sides({ sides, pictures }) {
    const [shown, setShown] = useState("Left");
    const tops = useRef({});
    const pick = (name) => {
      tops.current[shown] = scrollY;
      setShown(name);
    };
    useLayoutEffect(() => { if (tops.current[shown] !== undefined) scrollTo(0, tops.current[shown]); }, [shown]);
    return html`<div class="l-tabs chips" role="group" aria-label="Rollout in sight">
        ${SIDES.map((name) => html`<button key=${name} type="button" aria-pressed=${shown === name} onClick=${() => pick(name)}>${name}</button>`)}</div>
      <div class="l-sides">${SIDES.map((name, i) => html`<section key=${name} class=${`l-side${shown === name ? "" : " l-hidden"}`} id=${`side-${name.toLowerCase()}`} aria-label=${`${name} rollout`}>
        <h3>${name} <span class="muted">${many(sides[i].length, "turn")}</span></h3>
        ${sides[i].length ? html`<${Later} rem="60" soon=${true}>${() => html`<${TurnList} lines=${sides[i]} pictures=${pictures} brief=${page.brief} />`}<//>` : html`<p class="g-notice">It ends with what both share.</p>`}
      </section>`)}</div>`;
  }

  function Body({ place }) {
    const found = useText(place);
    if (found === undefined) return html`<p>Reading the text …</p>`;
    if (found instanceof Error) return html`<p class="g-notice g-failed" role="alert">This text cannot be read: the file was damaged or cut.</p>`;
    const { before, task, same, sides } = partsOf(found);
    const tools = found.tools ? found.tools.split("\n") : [];
    const { pictures } = found;
    return html`<div class="g-shares">
        <${Shared} name="Rubric" note="by which to judge" lines=${found.rubric ? [found.rubric] : []}>
          <p class="g-foreign"><${Folded} text=${found.rubric} /></p><//>
        <${Shared} name="Tools" note=${whole(tools.length)} lines=${tools} />
        <${Shared} name=${task.length ? "Before the task" : "Instructions"} note=${many(before.length, "turn")} lines=${before} pictures=${pictures} />
        <${Shared} name="Both begin alike" note=${many(same.length, "turn")} lines=${same} pictures=${pictures} />
      </div>
      ${task.length > 0 && html`<section aria-label="Task"><${TurnList} lines=${task} pictures=${pictures} /></section>`}
      <${Sides} sides=${sides} pictures=${pictures} />`;
  }

  function Bar({ place }) {
    const { choice, note = "" } = page.own.get(place) ?? {};
    return html`<section class="l-bar" aria-label="Your answer">
      <div class="l-choices">${BUTTONS.map(([name, says, key, keys]) => html`<button key=${name} type="button" class="l-choice" data-choice=${name}
        aria-pressed=${choice === name} aria-keyshortcuts=${keys} onClick=${() => answer(name)}>${says} <kbd aria-hidden="true">${key}</kbd></button>`)}</div>
      <div class="l-walk">
        <button type="button" aria-keyshortcuts="k" disabled=${place === 0} onClick=${() => walk(-1)}>← back</button>
        <input key=${place} id="note" type="text" placeholder="note" aria-label="Note" autocomplete="off" maxlength=${LONGEST.note}
          aria-keyshortcuts="n" value=${note} onInput=${(event) => setNote(place, event.target.value)} />
        <button type="button" aria-keyshortcuts="j" onClick=${() => walk(1)}>next →</button>
      </div>
    </section>`;
  }

  function Pair() {
    const place = page.at;
    return html`<article class="group-page l-pair">
      <h2 id="view-head" tabindex="-1">Comparison ${place + 1} <span class="muted">of ${count()} · group <bdi>${visible(page.data.comparisons[place].group)}</bdi></span>
        <button type="button" aria-keyshortcuts="o" aria-pressed=${!page.brief} onClick=${unfold}>All text</button></h2>
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
      page.name = text(event.target.elements.name.value.trim(), LONGEST.name) || page.name;
      if (page.name) onName();
    };
    return html`<form class="l-line" onSubmit=${submit}>
      <label>Your name <input name="name" required autocomplete="name" maxlength=${LONGEST.name} value=${page.name} /></label>
      <button type="submit">${button}</button>
    </form>`;
  }

  function Start() {
    return html`<section class="l-text">
      <h2 id="view-head" tabindex="-1">${many(count(), "comparison")}</h2>
      <p>Two attempts of an agent at one task stand side by side, in random order. Long texts are folded; <kbd>o</kbd> opens them all. Say which one is better, by the
        buttons or by keys. Say <em>equal</em> if neither is, and <em>unsure</em> if you cannot tell.</p>
      <p>Your answers stay in this browser until you download them as <code>labels.jsonl</code>. Nothing is sent. You may
        stop after any comparison, as their order is random, and go on later.</p>
      <${Name} button="Start" onName=${() => show("pair", Math.max(0, unanswered()))} />
      <${Keys} />
    </section>`;
  }

  const To = ({ place }) => html`<button type="button" aria-label=${`comparison ${place + 1}`} onClick=${() => show("pair", place)}>${place + 1}</button>`;

  function Summary() {
    const left = page.data.comparisons.map((_, place) => place).filter((place) => !isAnswered(place));
    return html`<section class="l-text">
      <h2 id="view-head" tabindex="-1">${answered()} of ${many(count(), "comparison")} answered</h2>
      ${left.length > 0 && html`<p>Without an answer: ${left.slice(0, 100).map((place) => html`<${To} key=${place} place=${place} /> `)}${left.length > 100 && "…"}</p>`}
      <p class="l-line">
        <button type="button" disabled=${!answered()} onClick=${save}>Download labels.jsonl</button>
        <label>Open labels.jsonl <input type="file" multiple onChange=${(event) => open(event.target.files)} /></label>
      </p>
      <p>Send the file to the person who gave you this page, who runs: <code>ruler agree SCORED --people labels.jsonl</code></p>
      <${Name} button="Change" onName=${() => show("summary", page.at, "the name is changed")} />
      <${Keys} />
    </section>`;
  }

  // ---- The page --------------------------------------------------------------------------------------

  const VIEWS = { start: Start, pair: Pair, summary: Summary };

  function App() {
    const { view, said, kept } = page;
    const begun = view !== "start";
    return html`<header class="top l-head">
        <h1>Which is better?</h1>
        ${begun && html`<label class="l-progress"><progress max=${count()} value=${answered()}></progress> ${answered()} of ${count()}</label>`}
        ${begun && html`<button type="button" aria-keyshortcuts="s" aria-pressed=${view === "summary"}
          onClick=${() => show(view === "summary" ? "pair" : "summary")}>Summary</button>`}
        <p class=${view === "summary" ? "l-said" : "unseen"} role="status">${said}</p>
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
    else if (key === "o") unfold();
    else if (key === "j" || key === "k") walk(key === "j" ? 1 : -1);
    else if (!Object.hasOwn(KEYS, key)) return;
    else if (!event.repeat) answer(KEYS[key]); // a key that is held down is one answer
    event.preventDefault();
  }

  openPage((data, root) => {
    Object.assign(page, { data, root });
    data.text = spansOf(data.texts);
    addEventListener("keydown", onKey);
    addEventListener("storage", () => {
      recall();
      draw();
    });
    addEventListener("beforeunload", (event) => { if (!page.kept && page.changed && answered()) event.preventDefault(); });
    recall();
    if (page.name) show(unanswered() < 0 ? "summary" : "pair");
    else draw();
  }, "page");
})();
