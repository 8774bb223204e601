"use strict";
// The table of groups: only the rows in sight, and a few around them, are in the document.

const PHONE = 700; // pixels, as in report.css
const [ROW, PHONE_ROW] = [44, 86]; // pixels; all rows are this high, so that a row's place is a product
/** The rows drawn change by so many at once, and as many are drawn above and below those in sight. */
const STEP = 10;
const PRINTED = 200;
const TAIL = 8; // characters of the end of a long key, which tells it from others

/** The table as it was last shown: where a group's page goes back to, what comes next there, and what was searched. */
const listing = { hash: "#groups", order: null, top: 0, row: -1, words: [] };

const rowHeight = () => (innerWidth > PHONE || paper.printing ? ROW : PHONE_ROW);

const FlagsCell = ({ rows, i }) =>
  flagsOf(rows, i).map(([words, why, tone]) => html`<span key=${words} class=${`mark ${tone}`} title=${why}>${words}</span>${" "}`);

function ScoresCell({ rows, i }) {
  const why = rows.status[i] === "failed" && visible(rows.reason[i]);
  if (why) return html`<span class="muted" title=${why}>${why}</span>`;
  return html`<${Strip} scores=${rows.scores[i]} labels=${rows.labels[i]} middle=${rows.middle} />`;
}

function KeyCell({ rows, i }) {
  const [nth, of] = nthOfKey(rows, i);
  const key = visible(rows.key[i]);
  const end = key.length > 2 * TAIL ? key.slice(turns.whole(key, key.length - TAIL)) : "";
  return html`<a href=${groupHash(rows, i)} tabindex="-1"><span>${key.slice(0, key.length - end.length)}</span>${end && html`<span class="tail">${end}</span>`}</a>
    ${of > 1 && html`<span class="muted"> (${nth} of ${of})</span>`}`;
}

/** The width of the column of keys: that of the longest, as far as there is room. */
function keyTrack(rows) {
  const longest = once(rows, "longest key", () => rows.key.reduce((most, key) => Math.max(most, key.length), 0));
  return `minmax(5rem, ${Math.min(10, Math.max(5, longest / 2 + 1.5))}rem)`;
}

/** The task, or what a search has found. */
function TaskCell({ rows, i, hit }) {
  if (!hit) return visible(rows.task[i]);
  return html`<span class="hit">…${hit.map((part, at) => (at % 2 ? html`<mark>${visible(part)}</mark>` : visible(part)))}…</span>`;
}

const some = (name) => (rows) => rows[name].some(Boolean);
const known = (name) => (rows) => rows[name].some((value) => value !== null);

/**
 * The columns: `track` is the width; `in` tells if the file has something to show there; `wide`: only in windows of so
 * many pixels; `text` is what a cell says, also in its title where it can be clipped; `down`: a first click sorts from
 * the greatest; `means` is told of the head.
 */
const COLUMNS = [
  { name: "key", track: keyTrack, title: "key", text: (rows, i) => visible(rows.key[i]), cell: KeyCell, clipped: true },
  { name: "task", track: "minmax(8rem, 4fr)", in: some("task"), title: "task", text: (rows, i) => visible(rows.task[i]), cell: TaskCell, clipped: true },
  { name: "telling", track: "minmax(12rem, 2fr)", title: "flags", text: (rows, i) => flagsOf(rows, i).map(([words]) => words).join(", "), cell: FlagsCell, clipped: true,
    means: "why to look at a group; sorts the worst first" },
  { name: "scores", track: "minmax(8rem, 1fr)", title: "scores 0 to 1", cell: ScoresCell, down: true, means: "each dot is a rollout; sorts by the best" },
  { name: "mean", track: "3.7rem", title: "mean", text: (rows, i) => number(rows.mean[i], 2), down: true, means: "mean score" },
  { name: "sd", track: "3.5rem", title: "sd", text: (rows, i) => number(rows.sd[i], 2), down: true, means: "standard deviation of the scores" },
  { name: "reliability", track: "5.7rem", in: known("reliability"), title: "reliability", text: (rows, i) => number(rows.reliability[i], 2), down: true,
    means: "how far more passes would order the rollouts the same: 1 is certain" },
  { name: "disagreement", track: "5rem", in: known("disagreement"), title: "disputed", text: (rows, i) => shareOf(rows.disagreement[i]), down: true,
    means: "share of the pairs with different rewards that the judge orders against them; equal scores count half" },
  { name: "rollouts", track: "4.9rem", wide: 1200, in: ({ scores }) => scores.some((of) => of.length !== scores[0].length), title: "rollouts",
    text: (rows, i) => whole(rows.scores[i].length), down: true },
  { name: "cost_usd", track: "5.2rem", wide: 1200, in: some("cost_usd"), title: "cost", text: (rows, i) => usd(rows.cost_usd[i]), down: true },
  { name: "tokens", track: "5rem", wide: 1200, in: some("tokens"), title: "tokens", text: (rows, i) => whole(rows.tokens[i]), down: true },
];

const shareOf = (share) => (share === null ? NONE : percent(share));

/** The columns in which the file has something to show, and the window room. */
function columnsOf(rows) {
  const shown = once(rows, "columns", () => COLUMNS.filter((column) => column.in?.(rows) ?? true));
  return shown.filter(({ wide = 0 }) => innerWidth >= wide);
}

const FIGURES = ["mean", "sd", "reliability", "disagreement"];

/** The columns of a row: one without scores has its reason in the place of its figures, `span` of them. */
function cellsOf(rows, columns, i) {
  const bare = rows.status[i] === "failed" && columns.some(({ cell }) => cell === ScoresCell);
  const cells = columns.map((column, at) => ({ ...column, at })).filter(({ name }) => !bare || !FIGURES.includes(name));
  return { cells, span: 1 + columns.length - cells.length };
}

/** One row. It is made anew only where what it shows has changed. */
function Row({ rows, columns, i, position, active, hit }) {
  return lib.useMemo(() => {
    const { cells, span } = cellsOf(rows, columns, i);
    return html`<div role="row" id=${`row-${position}`}
      class=${`row is-${rows.status[i]}${active ? " active" : ""}`} aria-rowindex=${position + 2} data-position=${position} style=${{ "--span": span }}>
    ${cells.map(({ name, text, cell, clipped, at }) => html`<div key=${name} role="gridcell" class=${`cell ${name}`} aria-colindex=${at + 1}
      title=${clipped ? text(rows, i) || undefined : undefined}>${cell ? html`<${cell} ...${{ rows, i, hit }} />` : text(rows, i)}</div>`)}
  </div>`;
  }, [rows, i, position, active, hit, columns.length, marks.useMarks()]);
}

/** The hash of the table sorted by a column; once more: the other way. */
function sortHash(conditions, { name, down = false }) {
  const now = sorting(conditions);
  const falling = now.column === name ? !now.down : down;
  const first = name === "telling" && !falling;
  return link({ ...conditions, sort: first ? undefined : (falling ? "-" : "") + name });
}

/** The columns' heads: one stop of the tab key, arrows go from one to the next. */
function Head({ columns, conditions }) {
  const now = sorting(conditions);
  const stop = columns.find(({ name }) => name === now.column) ?? columns[0];
  const onKeyDown = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "ArrowDown") event.target.closest(".grid").focus();
    if (!by) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll("button")];
    buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(event.target) + by))].focus();
  };
  return html`<div role="rowgroup" class="head"><div role="row" class="row" aria-rowindex="1" onKeyDown=${onKeyDown}>
    ${columns.map((column, at) => {
      const here = now.column === column.name;
      return html`<div role="columnheader" key=${column.name} class=${`cell ${column.name}`} aria-colindex=${at + 1}
          aria-sort=${here ? (now.down ? "descending" : "ascending") : "none"}>
        <button type="button" tabindex=${column === stop ? 0 : -1} title=${column.means}
          onClick=${() => go(sortHash(conditions, column), { replace: true })}>${column.title}<span aria-hidden="true">${here ? (now.down ? " ▼" : " ▲") : ""}</span></button></div>`;
    })}
  </div></div>`;
}

/** Where the keys of the grid go to from a position; undefined for all other keys. */
function target(key, position, page, count) {
  const to = { ArrowDown: position + 1, ArrowUp: position - 1, Home: 0, End: count - 1,
               PageDown: position + page, PageUp: position - page }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** Scroll position, first row drawn and active row of a grid; they come back with the table. */
function usePlace(box, order, height) {
  const [first, setFirst] = lib.useState(0);
  const [active, setActive] = lib.useState(0);
  const look = () => {
    if (!box.current) return; // the browser tells of a scroll after a click has led away
    listing.top = box.current.scrollTop;
    setFirst(Math.max(0, (Math.floor(listing.top / height / STEP) - 1) * STEP));
  };
  lib.useLayoutEffect(() => {
    const same = listing.hash === location.hash;
    setActive(Math.max(0, same ? order.indexOf(listing.row) : 0));
    Object.assign(listing, { hash: location.hash || "#groups", order });
    box.current.scrollTop = history.state?.top ?? (same ? listing.top : 0);
    look();
  }, [order]);
  const moveTo = (position) => {
    const room = box.current.clientHeight - box.current.querySelector(".head").offsetHeight;
    const top = position * height;
    if (top < box.current.scrollTop) box.current.scrollTop = top;
    else if (top + height > box.current.scrollTop + room) box.current.scrollTop = top + height - room;
    listing.row = order[position];
    setActive(position);
    look();
  };
  return { first, active, look, moveTo };
}

function Grid({ rows, order, conditions, hits }) {
  const box = lib.useRef(null);
  const height = rowHeight();
  const { printing } = paper;
  const { first, active, look, moveTo } = usePlace(box, order, height);
  const most = Math.ceil(innerHeight / height) + 3 * STEP;
  const [from, to] = printing ? [0, PRINTED] : [first, first + most];
  const open = (position) => {
    listing.row = order[position];
    go(groupHash(rows, listing.row));
  };
  const onKeyDown = (event) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey || !order.length) return;
    const page = Math.floor(box.current.clientHeight / height) - 2;
    const next = target(event.key, active, page, order.length);
    if (next !== undefined) moveTo(next);
    else if (event.key === "Enter") open(active);
    else return;
    event.preventDefault();
  };
  const onClick = (event) => {
    const row = event.target.closest("[data-position]");
    if (!row) return;
    listing.row = order[Number(row.dataset.position)];
    // A link goes there by itself, also into a new tab; a drag over the text selects it.
    if (!event.target.closest("a") && getSelection().isCollapsed) open(Number(row.dataset.position));
  };
  const columns = columnsOf(rows);
  const drawn = order.slice(from, to);
  // Keyed by place modulo what is drawn: rows that leave lend their elements to those that come.
  const key = (position) => (printing ? position : position % most);
  const row = (i, at) => html`<${Row} key=${key(from + at)} ...${{ rows, columns, i, position: from + at, active: from + at === active, hit: hits.get(i) }} />`;
  const inSight = active >= from && active < from + drawn.length;
  const style = { "--tracks": columns.map(({ track }) => track.call?.(null, rows) ?? track).join(" "), "--row": `${height}px` };
  return html`<div class="grid" role="grid" tabindex="0" ref=${box} aria-label="Groups" aria-rowcount=${order.length + 1}
      style=${style} aria-colcount=${columns.length} aria-activedescendant=${inSight && !printing ? `row-${active}` : undefined}
      onScroll=${look} onKeyDown=${onKeyDown} onClick=${onClick}>
    <${Head} columns=${columns} conditions=${conditions} />
    <div role="rowgroup" class="body" style=${printing ? "" : `height: ${order.length * height}px`}>
      <div role="presentation" style=${printing ? "" : `transform: translateY(${from * height}px)`}>${drawn.map(row)}</div>
    </div>
  </div>`;
}

/** The table of groups under the conditions of a route. */
function Groups({ data: { rows }, route: { conditions, unread } }) {
  const words = searchWords(conditions);
  const search = transcripts.useHits(rows, words);
  const version = marks.useMarks();
  const order = lib.useMemo(() => arrange(rows, conditions, search.hits), [rows, link(conditions), search, version]);
  listing.words = words;
  return html`<section class="groups" aria-label="Table of groups">
    <${Filters} ...${{ rows, conditions, unread, order }} note=${words.length ? searchNote(search, rows) : ""} />
    ${paper.printing && order.length > PRINTED && html`<p class="printed">The first ${PRINTED} of the ${whole(order.length)} groups are printed.</p>`}
    ${!order.length && (search.done || !words.length) && html`<p class="none">No group matches. <a href="#groups">Show all groups</a></p>`}
    <${Grid} rows=${rows} order=${order} conditions=${conditions} hits=${words.length ? search.hits : new Map()} />
    <${StripLegend} rows=${rows} />
  </section>`;
}
