"use strict";
// The table of groups: only the rows in sight, and a few around them, are in the document.

const PHONE = 700; // as in report.css
const ON_PHONE = { key: 24, task: 20 }; // pixels of the lines above the scores
/**
 * Pixels; all rows are this high, so that a row's place is a product and none has to be measured: the tallest stack of
 * dots fits. On a phone key, flags and task stand above the scores.
 */
function rowHeight(data) {
  const strip = (instead.strip ?? commonHeight(data)) + 2;
  if (innerWidth > PHONE || theme.printing) return strip;
  return strip + ON_PHONE.key + (some("task")(data.rows) ? ON_PHONE.task : 0);
}
/** The rows drawn change by so many at once, and as many are drawn above and below those in sight. */
const STEP = 10;
const PRINTED = 200;
const TWO_LINES = 40; // pixels of a row from which on two lines of a task fit

/** The table as it was last shown: where a group's page goes back to, and what comes next there. */
const listing = { hash: "#groups", order: null, top: 0, row: -1 };

/** The reasons for a look and the flags of a file, in a word or two and in a sentence; a class by how bad it is. */
const MARKS = {
  disagrees: ["disputed", "the judge orders many pairs against their rewards", "warn"],
  suspect: ["suspect", "a rollout has text that addresses the judge", "bad"],
  unsure: ["unreliable", "its scores are more noise than signal", "warn"],
  tied: ["tied", "its scores are equal, or not told apart beyond the judge's noise", "plain"],
  spread: ["far apart", "its best score is far above its worst", "plain"],
};

/** What to know of a group before its scores count: `[words, sentence, class]`, the worst first. */
function flagsOf(rows, i) {
  const scored = (rows.b_status ?? rows.status)[i] === "scored" || rows.status[i] === "scored";
  if (!scored && rows.status[i] === "failed") return [[`failed: ${visible(rows.kind[i] || "unknown")}`, visible(rows.reason[i]), "bad"]];
  if (!scored) return [["not judged", "not judged", "plain"]];
  const words = new Set([...rows.reasons[i], ...rows.flags[i]]); // suspect is a reason and a flag
  return [...words].map((word) => MARKS[word] ?? [word, "", "plain"]);
}

/** The same, behind what people say of it. */
const marksOf = (rows, i) => [...marks.flagsOf(rows, i), ...flagsOf(rows, i)];

const marksInWords = (rows, i) => marksOf(rows, i).map(([words]) => words).join(", ");

function MarksCell({ rows, i }) {
  return marksOf(rows, i).map(([words, why, kind]) => html`<span key=${words} class=${`mark ${kind}`} title=${why}>${words}</span>${" "}`);
}

function StripCell({ data, i }) {
  const why = data.rows.status[i] === "failed" && visible(data.rows.reason[i]);
  if (why) return html`<span class="muted" title=${why}>${why}</span>`;
  return html`<${Strip} scores=${data.rows.scores[i]} labels=${data.rows.labels[i]} scale=${rewardScale(data)} height=${commonHeight(data)} />`;
}

function KeyCell({ rows, i }) {
  const [nth, of] = nthOfKey(rows, i);
  const key = visible(rows.key[i]);
  const end = key.length > 2 * TAIL ? key.slice(turns.whole(key, key.length - TAIL)) : "";
  return html`<a href=${groupHash(rows, i)} tabindex="-1"><span>${key.slice(0, key.length - end.length)}</span>${end && html`<span class="tail">${end}</span>`}</a>
    ${of > 1 && html`<span class="muted"> (${nth} of ${of})</span>`}`;
}

/** Whether any row has a value of this name that is neither empty nor 0; or any value at all. */
const some = (name) => (rows) => rows[name].some(Boolean);
const known = (name) => (rows) => rows[name].some((value) => value !== null);
const marked = (rows) => rows.key.some((_, i) => marksOf(rows, i).length > 0);

const TAIL = 8; // characters of the end of a long key, which tells it from others
const between = (least, width, most) => Math.min(most, Math.max(least, width));
const widest = (rows, widthOf) => rows.key.reduce((most, _, i) => Math.max(most, widthOf(i)), 0);
/** The width of a column of keys, or of flags, in rem: as much as the longest needs, within bounds. */
const keyWidth = (rows) => between(4.5, 1.7 + 0.49 * widest(rows, (i) => rows.key[i].length), 11);
const flagsWidth = (rows) => between(9, 1 + widest(rows, (i) => marksOf(rows, i).reduce((sum, [words]) => sum + 1.35 + 0.45 * words.length, 0)), 14);

/**
 * The columns. `least` is the width in rem, a number or computed from the rows; with a `share` a column takes that part
 * of what is left, and `paper` is its share in print. `in` tells if the file has something to show there; `text` is what
 * a cell says, also in its title where it can be clipped; `orders`: its two orders in words, if they are not those of
 * its text; `down`: a first click sorts from the greatest; `means` is told of the head.
 */
const COLUMNS = [
  { name: "key", least: keyWidth, share: 0.3, paper: 1.4, title: "key", text: (rows, i) => visible(rows.key[i]), cell: KeyCell, clipped: true },
  { name: "task", least: 16, share: 4, paper: 3, in: some("task"), title: "task", text: (rows, i) => visible(rows.task[i]), clipped: true },
  { name: "telling", least: flagsWidth, paper: 1.4, in: marked, title: "flags", orders: ["worst first", "best first"], text: marksInWords, cell: MarksCell, clipped: true,
    means: "why to look at a group; sorts the worst first" },
  { name: "scores", least: 11, share: 1, paper: 2, title: "scores 0 to 1", cell: StripCell, down: true, means: "each dot is a rollout; sorts by the best" },
  { name: "mean", least: 3.6, title: "mean", text: (rows, i) => number(rows.mean[i], 2), down: true, means: "mean score" },
  { name: "sd", least: 3.4, title: "sd", text: (rows, i) => number(rows.sd[i], 2), down: true,
    means: "standard deviation of the scores" },
  { name: "reliability", least: 5.6, in: known("reliability"), title: "reliability", text: (rows, i) => number(rows.reliability[i], 2), down: true,
    means: "how far more passes would order the rollouts the same: 1 is certain" },
  { name: "disagreement", least: 7.2, in: known("disagreement"), title: "disputed", text: (rows, i) => (rows.disagreement[i] === null ? NONE : percent(rows.disagreement[i])), down: true,
    means: "share of the pairs with different rewards that the judge orders against them; equal scores count half" },
  { name: "rollouts", least: 4.8, in: ({ scores }) => scores.some((of) => of.length !== scores[0].length), title: "rollouts", text: (rows, i) => number(rows.scores[i].length, 0), down: true },
  { name: "cost", least: 5.2, in: some("cost"), title: "cost", text: (rows, i) => usd(rows.cost[i]), down: true },
  { name: "tokens", least: 4.9, in: some("tokens"), title: "tokens", text: (rows, i) => number(rows.tokens[i], 0), down: true },
];
const FIGURES = ["mean", "sd", "reliability", "disagreement"]; // that a failed group does not have

const shownColumns = new WeakMap();

/** The columns in which the file has something to show, with their widths; marks of people can add flags. */
function columnsOf(rows) {
  const known = shownColumns.get(rows);
  if (known?.version === marks.version) return known.columns;
  const shown = COLUMNS.filter((column) => column.in?.(rows) ?? true);
  const columns = shown.map((column) => ({ ...column, least: typeof column.least === "function" ? column.least(rows) : column.least }));
  shownColumns.set(rows, { version: marks.version, columns });
  return columns;
}

/** The tracks of the grid, on a screen and in print, and the width below which it scrolls. */
function tracksOf(columns) {
  const track = ({ least, share }) => (share ? `minmax(${least}rem, ${share}fr)` : `${least}rem`);
  return {
    "--tracks": columns.map(track).join(" "),
    "--paper": columns.map(({ paper }) => `${paper ?? 1}fr`).join(" "),
    "--least": `${columns.reduce((sum, { least }) => sum + least, 0)}rem`,
    "--figures": 1 + columns.filter(({ name }) => FIGURES.includes(name)).length,
  };
}

/** One row. It is made anew only where what it shows has changed. */
function Row({ data, i, position, active }) {
  const { rows } = data;
  return lib.useMemo(() => html`<div role="row" id=${`row-${position}`}
      class=${`row is-${rows.status[i]}${active ? " active" : ""}`} aria-rowindex=${position + 2} data-position=${position}>
    ${columnsOf(rows).map(({ name, text, cell, clipped }, at) => {
      const said = text?.(rows, i);
      return html`<div role="gridcell" class=${`cell ${name}`} aria-colindex=${at + 1}
        title=${clipped ? said || undefined : undefined}>${cell ? html`<${cell} ...${{ data, rows, i }} />` : said}</div>`;
    })}
  </div>`, [rows, i, position, active]);
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
  const sort = (column) => go(sortHash(conditions, column), { replace: true });
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
      const way = here ? (now.down ? "descending" : "ascending") : "none";
      return html`<div role="columnheader" key=${column.name} class=${`cell ${column.name}`} aria-colindex=${at + 1} aria-sort=${way}>
        <button type="button" tabindex=${column === stop ? 0 : -1} title=${column.means} onClick=${() => sort(column)}>${column.title}<span
          aria-hidden="true">${here && !column.orders ? (now.down ? " ▼" : " ▲") : ""}</span>${here && column.orders && html`<span
          class="by" aria-hidden="true">, ${column.orders[Number(now.down)]}</span>`}</button></div>`;
    })}
  </div></div>`;
}

/** Where the keys of the grid go to from a position; undefined for all other keys. */
function target(key, position, page, count) {
  const to = { ArrowDown: position + 1, ArrowUp: position - 1, Home: 0, End: count - 1,
               PageDown: position + page, PageUp: position - page }[key];
  return to === undefined ? undefined : Math.max(0, Math.min(count - 1, to));
}

/** The first row to draw when the grid is scrolled that far down. */
function firstAt(top, height) {
  return Math.max(0, (Math.floor(top / height / STEP) - 1) * STEP);
}

/** Scroll position, first row drawn and active row of a grid; they come back with the table. */
function usePlace(box, order, height) {
  const [first, setFirst] = lib.useState(0);
  const [active, setActive] = lib.useState(0);
  const look = () => {
    if (!box.current) return; // the browser tells of a scroll after a click has led away
    listing.top = box.current.scrollTop;
    setFirst(firstAt(listing.top, height));
  };
  lib.useLayoutEffect(() => {
    const same = listing.hash === location.hash;
    const top = history.state?.top ?? (same ? listing.top : 0);
    setActive(Math.max(0, same ? order.indexOf(listing.row) : 0));
    Object.assign(listing, { hash: location.hash || "#groups", order });
    box.current.scrollTop = top;
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

function Grid({ data, order, conditions, printing }) {
  const { rows } = data;
  const box = lib.useRef(null);
  const height = rowHeight(data);
  const { first, active, look, moveTo } = usePlace(box, order, height);
  const most = Math.ceil(innerHeight / height) + 3 * STEP;
  const [from, to] = printing ? [0, PRINTED] : [first, first + most];
  const onKeyDown = (event) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey || !order.length) return;
    const page = Math.floor(box.current.clientHeight / height) - 2;
    const next = target(event.key, active, page, order.length);
    if (next !== undefined) moveTo(next);
    else if (event.key === "Enter") {
      listing.row = order[active];
      go(groupHash(rows, listing.row));
    } else return;
    event.preventDefault();
  };
  const onClick = (event) => {
    const row = event.target.closest("[data-position]");
    if (!row) return;
    listing.row = order[Number(row.dataset.position)];
    // A link goes there by itself, also into a new tab; a drag over the text selects it.
    if (!event.target.closest("a") && getSelection().isCollapsed) go(groupHash(rows, listing.row));
  };
  const columns = columnsOf(rows);
  const style = { ...tracksOf(columns), "--row": `${height}px`, "--lines": height < TWO_LINES ? 1 : 2 };
  const drawn = order.slice(from, to);
  // Keyed by place modulo what is drawn: rows that leave lend their elements to those that come.
  const key = (position) => (printing ? position : position % most);
  const row = (i, position) =>
    html`<${Row} key=${key(position)} data=${data} i=${i} position=${position} active=${position === active} />`;
  const inSight = active >= from && active < from + drawn.length;
  return html`<div class="grid" role="grid" tabindex="0" ref=${box} aria-label="Groups" aria-rowcount=${order.length + 1}
      style=${style} aria-colcount=${columns.length} aria-activedescendant=${inSight && !printing ? `row-${active}` : undefined}
      onScroll=${look} onKeyDown=${onKeyDown} onClick=${onClick}>
    <${Head} columns=${columns} conditions=${conditions} />
    <div role="rowgroup" class="body" style=${printing ? "" : `height: ${order.length * height}px`}>
      <div role="presentation" style=${printing ? "" : `transform: translateY(${from * height}px)`}>
        ${drawn.map((i, at) => row(i, from + at))}
      </div>
    </div>
  </div>`;
}

/** What to know of a search in texts, in words: it is not over, or there are texts that it does not see. */
function searchNote({ rows: found, unread }, rows) {
  if (!found) return "searching transcripts…";
  const absent = rows.text.filter((at) => !at).length;
  const notes = [];
  if (absent) notes.push(`the transcripts of ${many(absent, "group")} are not in this page and not searched`);
  if (unread) notes.push(`those of ${many(unread, "group")} cannot be read`);
  return notes.join("; ");
}

/** The order of the rows under these conditions. While an answer of a moment is awaited, the last order stays. */
function useOrder(rows, conditions) {
  const query = link(conditions);
  const words = searchWords(conditions);
  const search = transcripts.useWords(words);
  const last = lib.useRef(null);
  const order = lib.useMemo(() => arrange(rows, conditions, search.rows), [rows, query, search.rows === null]);
  if (search.rows || search.unread === null) last.current = order;
  return [last.current ?? order, words.length ? searchNote(search, rows) : ""];
}

/** The table of groups under the conditions of a route. */
function Groups({ data, route: asked, printing = false }) {
  const { rows } = data;
  const { conditions } = asked;
  const [order, note] = useOrder(rows, conditions);
  return html`<section class="groups" aria-label="Table of groups">
    <${Filters} data=${data} conditions=${conditions} unread=${asked.unread} order=${order} note=${note} />
    ${printing && order.length > PRINTED && html`<p class="printed">
      The first ${PRINTED} of the ${number(order.length, 0)} groups that match are printed.</p>`}
    ${!order.length && html`<p class="none">No group fulfils all of these conditions.${" "}
      <a href="#groups">Show all groups</a></p>`}
    <${Grid} data=${data} order=${order} conditions=${conditions} printing=${printing} />
    <${StripLegend} data=${data} />
  </section>`;
}
