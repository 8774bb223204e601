"use strict";

// A rollout's turns on the page: built when they come near, folded where they are very long.
const turnlist = (() => {
  const { useState, useMemo, useRef, useLayoutEffect } = lib;
  const NEAR = "1200px"; // from what is in sight, at which turns are built
  const FOLD = 3000; // characters of a turn shown before anyone asks for more
  const FOLDED_LINES = 8; // of what tools get and give, which is JSON
  const BRIEF = { call: 70, result: 40, assistant: 130 }; // characters of a turn in brief, by its kind
  const BRIEF_OTHER = 120;
  const SPARE = 40; // characters too few to be folded
  const SLAB = 20000; // characters of an unfolded turn that are laid out only once they are in sight

  // Foreign text, with what cannot be seen written out and set apart.
  function Text({ text }) {
    return turns.pieces(text).map((piece) => (piece.hidden ? html`<span class="g-unseen">${piece.hidden}</span>` : piece));
  }

  // A long text in slabs that end with a line, since one block of megabytes takes seconds to lay out.
  function slabs(text) {
    const out = [];
    for (let from = 0; from < text.length; ) {
      const end = text.indexOf("\n", from + SLAB);
      const most = Math.min(text.length, from + 2 * SLAB);
      const to = end < 0 || end >= most ? turns.whole(text, most) : end + 1;
      out.push(text.slice(from, to));
      from = to;
    }
    return out;
  }

  // A long text, of which more is shown when somebody asks for it; `length` is of all there is, `read` makes all of it.
  function Folded({ text, length = text.length, most = FOLD, lines = Infinity, read = () => text, brief = false }) {
    const [all, setAll] = useState(false);
    let end = most;
    for (let line = 0, at = -1; line < lines && lines < Infinity; line++) {
      at = text.indexOf("\n", at + 1);
      if (at < 0) break;
      if (line === lines - 1) end = Math.min(most, at);
    }
    if (brief && length <= end + SPARE) end = length;
    else if (brief) end = Math.max(text.lastIndexOf(" ", end), end - SPARE / 2);
    if (length <= end) return html`<${Text} text=${text} />`;
    return html`${all ? slabs(read()).map((slab) => html`<span class="g-slab"><${Text} text=${slab} /></span>`) : html`<${Text} text=${text.slice(0, turns.whole(text, end))} />`}${" "}
      <button type="button" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "show less" : brief ? `… ${whole(length - end)} more` : `… all ${whole(length)} characters`}</button>`;
  }

  function Badge({ turn: { kind, who, name } }) {
    if (kind === "note") return null;
    const says = { call: "call", result: "tool", thinking: `${visible(who)} thinking` }[kind] ?? visible(who);
    return html`<span class="g-badge"><bdi>${says}</bdi>${name && html` <b><bdi>${visible(name)}</bdi></b>`}</span>`;
  }

  const PICTURE = /^\(((?:picture|audio|video|file) \d+) ([0-9a-f]{32})\)$/; // a mark of ruler's own, see prompting/render.py
  const BYTES = /^data:image\/(png|jpeg|gif|webp);base64,/;

  // A picture of the record: small, and large after a click; only its number where the file has no bytes of it.
  function Picture({ name, source }) {
    const [large, setLarge] = useState(false);
    if (!BYTES.test(source ?? "")) return html`<p class="muted g-left-out">${name}, which is not in this file</p>`;
    return html`<button type="button" class="g-picture" aria-expanded=${large} onClick=${() => setLarge(!large)}>
      <img src=${source} alt=${name} />
    </button>`;
  }

  function Content({ line: given, pictures, turn, brief }) {
    const picture = PICTURE.exec(given);
    if (picture) return html`<${Picture} name=${picture[1]} source=${pictures?.[picture[2]]} />`;
    const json = ["call", "result"].includes(turn.kind);
    if (brief) {
      const most = BRIEF[turn.kind] ?? BRIEF_OTHER;
      const { text, length } = json && !turn.body.startsWith('"') ? { text: turn.body, length: turn.body.length } : turns.readable(turn, FOLD);
      const line = text.slice(0, FOLD).replace(/\s+/g, " ").trim();
      const left = length - text.slice(0, FOLD).length;
      return html`<pre><${Folded} text=${line} length=${line.length + left} most=${most} brief=${true} read=${() => turns.readable(turn).text} /></pre>`;
    }
    const lines = json ? FOLDED_LINES : Infinity;
    return html`<pre><${Folded} ...${turns.readable(turn, FOLD)} lines=${lines} read=${() => turns.readable(turn).text} /></pre>`;
  }

  function Turn({ line, place, pictures, brief }) {
    return useMemo(() => {
      const turn = turns.turnOf(line);
      return html`<li class=${`g-turn g-${turn.kind}`}>
        <p class="g-turn-head"><${Badge} turn=${turn} /><span class="g-place">${place}</span></p>
        <${Content} ...${{ line, pictures, turn, brief }} />
      </li>`;
    }, [line, place, pictures, brief]);
  }

  // What is built once it is near what is in sight, or the browser is idle; until then room of that many rem.
  function Later({ rem, soon, children }) {
    const [near, setNear] = useState(false);
    const room = useRef(null);
    const built = near || paper.printing;
    useLayoutEffect(() => {
      if (built) return undefined;
      // for the browser's own search; what is too much for that is built only on the way
      const idle = soon && window.requestIdleCallback?.(() => setNear(true));
      const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && setNear(true), { rootMargin: NEAR });
      observer.observe(room.current);
      return () => {
        observer.disconnect();
        if (idle) cancelIdleCallback(idle);
      };
    }, [built]);
    return built ? children() : html`<div ref=${room} class="g-later" style=${{ height: `${rem}rem` }}></div>`;
  }

  // Lines as turns; the first of them is turn `first`. In `brief` a turn is a line or a few, with the rest behind a button.
  function TurnList({ lines, pictures, first = 1, brief = false }) {
    return html`<ol class=${`g-turns${brief ? " g-brief" : ""}`}>${lines.map((line, i) => html`<${Turn} key=${`${brief}${i}`} line=${line} place=${first + i} pictures=${pictures} brief=${brief} />`)}</ol>`;
  }

  return { TurnList, Text, Folded, Later };
})();
