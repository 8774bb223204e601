"use strict";

// A rollout's turns on the page: built when they come near, folded where they are very long.
const turnlist = (() => {
  const { useState, useMemo, useRef, useLayoutEffect } = lib;
  const CHUNK = 20; // turns built at once
  const FOLD = 3000; // characters of a turn shown before anyone asks for more
  const BEFORE = 600; // of these, before the first difference
  const SLAB = 20000; // characters of an unfolded turn that are laid out only once they are in sight
  const REM_OF_A_TURN = 7;

  // Foreign text, with what cannot be seen written out and set apart.
  function Text({ text }) {
    const shown = (piece) => (piece.hidden ? html`<span class="g-unseen">${piece.hidden}</span>` : piece);
    return turns.pieces(text).map(shown);
  }

  // What of a turn to show: all of it, or a window of it around the first difference.
  function windowOf(line, raw, all, differs) {
    const most = all || differs !== undefined ? Infinity : FOLD;
    const whole = raw ? { text: line, length: line.length } : turns.readable(turns.turnOf(line), most);
    const { text, length } = whole;
    if (all || length <= FOLD) return { text, length, from: 0, to: text.length };
    const from = differs > FOLD - BEFORE ? turns.whole(text, differs - BEFORE) : 0;
    return { text, length, from, to: turns.whole(text, Math.min(text.length, from + FOLD)) };
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

  function Body({ text }) {
    if (text.length <= 2 * SLAB) return html`<${Text} text=${text} />`;
    return slabs(text).map((slab) => html`<span class="g-slab"><${Text} text=${slab} /></span>`);
  }

  // Text with its first unlike character marked; `at` undefined: nothing to mark.
  function Marked({ text, at }) {
    if (at === undefined || at < 0 || at > text.length) return html`<${Body} text=${text} />`;
    const end = at + (text.codePointAt(at) > 0xffff ? 2 : 1);
    const first = text.slice(at, end);
    return html`<${Body} text=${text.slice(0, at)} /><mark>
      <span class="g-unheard">first difference: </span>${
        first === "\n" ? "↵\n" : first ? html`<${Text} text=${first} />` : "(ends here)"
      }</mark><${Body} text=${text.slice(end)} />`;
  }

  function Content({ line, raw, differs }) {
    const [all, setAll] = useState(false);
    const of = [line, raw, all, differs];
    const { text, length, from, to } = useMemo(() => windowOf(...of), of);
    const at = differs === undefined ? undefined : differs - from;
    const part = length > to - from && !all;
    return html`
      ${part && from > 0 &&
      html`<p class="g-left-out">… the first ${number(from, 0)} characters are the same</p>`}
      <pre><${Marked} text=${text.slice(from, to)} at=${at} /></pre>
      ${part && html`<p class="g-left-out g-printed">… ${number(length, 0)} characters in all</p>`}
      ${length > FOLD &&
      html`<button type="button" aria-expanded=${all} onClick=${() => setAll(!all)}>
        ${all ? "show less" : `show all ${number(length, 0)} characters`}
      </button>`}`;
  }

  // A long text, of which more is shown when somebody asks for it.
  function Folded({ text }) {
    const [all, setAll] = useState(false);
    if (text.length <= FOLD) return html`<${Text} text=${text} />`;
    const shown = all ? text : `${text.slice(0, turns.whole(text, FOLD))}…`;
    return html`<${Body} text=${shown} />
      <button type="button" aria-expanded=${all} onClick=${() => setAll(!all)}>
        ${all ? "show less" : `show all ${number(text.length, 0)} characters`}
      </button>`;
  }

  function Badge({ turn: { kind, who, name } }) {
    if (kind === "note") return null;
    const says = { call: "call", result: "tool", thinking: `${visible(who)} thinking` }[kind] ?? visible(who);
    const named = name && html` <b><bdi>${visible(name)}</bdi></b>`;
    return html`<span class="g-badge"><bdi>${says}</bdi>${named}</span>`;
  }

  const PICTURE = /^\(((?:picture|audio|video|file) \d+) ([0-9a-f]{32})\)$/; // a mark of ruler's own, see prompting/render.py
  const BYTES = /^data:image\/(png|jpeg|gif|webp);base64,/;

  // A picture of the record: small, and large after a click; only its number where the file has no bytes of it.
  function Picture({ name, source }) {
    const [large, setLarge] = useState(false);
    if (!BYTES.test(source ?? "")) return html`<p class="g-left-out">${name}, which is not in this file</p>`;
    return html`<button type="button" class="g-picture" aria-expanded=${large} onClick=${() => setLarge(!large)}>
      <img src=${source} alt=${name} />
    </button>`;
  }

  function Turn({ line, place, raw, differs, pictures }) {
    return useMemo(() => {
      const picture = PICTURE.exec(line);
      if (picture) {
        return html`<li class="g-turn g-note">
          <p class="g-turn-head"><span class="g-place">${place}</span></p>
          <${Picture} name=${picture[1]} source=${pictures?.[picture[2]]} />
        </li>`;
      }
      const turn = turns.turnOf(line);
      return html`<li class=${`g-turn g-${turn.kind}`}>
        <p class="g-turn-head"><${Badge} turn=${turn} /><span class="g-place">${place}</span></p>
        <${Content} line=${line} raw=${raw} differs=${differs} />
      </li>`;
    }, [line, place, raw, differs, pictures]);
  }

  // Turns `from` to `to`, once they are near what is in sight; until then room for them.
  function Chunk({ list, from, to, eager, differs }) {
    const [near, setNear] = useState(false);
    const room = useRef(null);
    const built = near || eager;
    useLayoutEffect(() => {
      if (built) return undefined;
      // for the browser's own search; what is too much for that is built only on the way
      const idle = list.soon && window.requestIdleCallback?.(() => setNear(true));
      const found = ([entry]) => entry.isIntersecting && setNear(true);
      const within = { root: room.current.closest(".g-columns"), rootMargin: "1200px 600px" };
      const observer = new IntersectionObserver(found, within);
      observer.observe(room.current);
      return () => {
        observer.disconnect();
        if (idle) cancelIdleCallback(idle);
      };
    }, [built]);
    if (!built) return html`<div ref=${room} style=${{ height: `${(to - from) * REM_OF_A_TURN}rem` }}></div>`;
    const lines = list.lines.slice(from, to).map((index) => list.strings[index]);
    return html`<ol>
      ${lines.map((line, i) => {
        const place = from + i + 1;
        const here = i === 0 ? differs : undefined;
        const { raw, pictures } = list;
        return html`<${Turn} key=${place} ...${{ line, place, raw, differs: here, pictures }} />`;
      })}
    </ol>`;
  }

  function chunks(list, from, to, eager, differs) {
    const out = [];
    for (let at = from; at < to; at += CHUNK) {
      const first = at === from ? differs : undefined;
      const of = { list, from: at, to: Math.min(to, at + CHUNK), eager, differs: first };
      out.push(html`<${Chunk} key=${at} ...${of} />`);
    }
    return out;
  }

  // How this rollout goes on where it leaves the reference, in words; `here` where they stand at that place.
  function wordsOf({ name, common, mine, other }, here = "") {
    const after = common ? `after ${many(common, "turn")}` : "at the first turn";
    if (common === mine && common === other) return `the same as ${name} to the end`;
    if (common === mine) return `ends${here} ${after}; ${name} goes on`;
    if (common === other) return `goes on${here} ${after}, where ${name} ends`;
    return `differs from ${name}${here && " from here on,"} ${after}`;
  }

  // All turns of a list {strings, lines, raw, soon, pictures}; `against` is the rollout to compare with
  // {name, lines, common}, where `common` is how many first turns both have.
  function TurnList({ list, against, eager }) {
    if (against) return html`<${Compared} list=${list} against=${against} eager=${eager} />`;
    return html`<div class="g-turns">${chunks(list, 0, list.lines.length, eager)}</div>`;
  }

  function Compared({ list, against, eager }) {
    const end = list.lines.length;
    const { name, common } = against;
    const told = { name, common, mine: end, other: against.lines.length };
    const [mine, other] = [list.lines[common], against.lines[common]].map((index) => list.strings[index]);
    const differs = useMemo(() => turns.insideTurn(mine, other, list.raw), [mine, other, list.raw]);
    const same = `the first ${many(common, "turn")}, the same as in ${name}`;
    return html`<div class="g-turns">
      ${common > 0 &&
      html`<div class="g-common" role="group" aria-label=${same}>
        ${chunks(list, 0, common, eager)}
      </div>`}
      <h5 class="g-parting" tabindex="-1">${wordsOf(told, " here,")}</h5>
      <div>${chunks(list, common, end, eager, differs)}</div>
    </div>`;
  }

  return { TurnList, Text, Folded, wordsOf };
})();
