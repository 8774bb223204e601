"use strict";
// The table of groups: only the rows in sight, and a few around them, are in the document.

/** Pixels; all rows are this high, so that a row's place is a product and none has to be measured. */
const ROW_HEIGHT = 34;
/** The rows drawn change by so many at once, and as many are drawn above and below those in sight. */
const STEP = 10;
const PRINTED = 200;

/** The table as it was last shown: where a group's page goes back to, and what comes next there. */
const listing = { hash: "#groups", order: null, top: 0, row: -1 };

const WHY = new Map([
  ["failed", "no scores"],
  ["disagrees", "against the reward"],
  ["suspect", "addresses the judge"],
  ["unsure", "passes disagree"],
  ["tied", "nothing to learn"],
  ["spread", "scores far apart"],
  ["rest", ""],
]);

function statusInWords(rows, i) {
  if (rows.status[i] === "failed") return `failed: ${visible(rows.kind[i] || "unknown")}`;
  if (rows.status[i] === "scored") return rows.tied[i] ? "scored, tied" : "scored";
  return "not judged";
}

/** The scores, best first: "1.00 .40 .25". */
function scoresInWords(scores) {
  const found = scores.filter((score) => score !== null).sort((a, b) => b - a);
  return found.map((score) => number(score, 2).replace(/^(-?)0\./, "$1.")).join(" ") || NONE;
}

function whyInWords(rows, i) {
  return WHY.get(rows.because[i]) ?? visible(rows.because[i]);
}

function KeyCell({ rows, i }) {
  const [nth, of] = nthOfKey(rows, i);
  return html`<a href=${groupHash(rows, i)} tabindex="-1">${visible(rows.key[i])}</a>
    ${of > 1 && html`<span class="muted"> (${nth} of ${of})</span>`}`;
}

/**
 * The columns. `text` is what a cell says, also in its title where it can be clipped; `down`: a first
 * click sorts from the greatest; `means` is told of the head.
 */
const COLUMNS = [
  { name: "key", title: "key", text: (rows, i) => visible(rows.key[i]), cell: KeyCell, clipped: true },
  { name: "task", title: "task", text: (rows, i) => visible(rows.task[i]), clipped: true },
  { name: "status", title: "status", text: statusInWords, hint: (rows, i) => visible(rows.reason[i]) },
  { name: "telling", title: "why telling", text: whyInWords, clipped: true, means: "why a look at the group tells most" },
  { name: "rollouts", title: "rollouts", text: (rows, i) => number(rows.scores[i].length, 0), down: true },
  { name: "scores", title: "scores", text: (rows, i) => scoresInWords(rows.scores[i]), down: true, clipped: true },
  { name: "mean", title: "mean", text: (rows, i) => number(rows.mean[i], 2), down: true,
    means: "mean score" },
  { name: "sd", title: "sd", text: (rows, i) => number(rows.sd[i], 3), down: true,
    means: "standard deviation of the scores" },
  { name: "reliability", title: "reliability", text: (rows, i) => number(rows.reliability[i], 2), down: true,
    means: "how far more passes would order the rollouts the same: 1 is certain" },
  { name: "disagreement", title: "disagreement", text: (rows, i) => number(rows.disagreement[i], 2), down: true,
    means: "share of the pairs of unlike labels that the judge orders the other way; equal scores count half" },
  { name: "cost", title: "cost", text: (rows, i) => usd(rows.cost[i]), down: true },
  { name: "tokens", title: "tokens", text: (rows, i) => number(rows.tokens[i], 0), down: true },
  { name: "flags", title: "flags", text: (rows, i) => rows.flags[i].map(visible).join(", "), clipped: true },
];

/** One row. It is made anew only where what it shows has changed. */
function Row({ rows, i, position, active }) {
  return lib.useMemo(() => html`<div role="row" id=${`row-${position}`}
      class=${`row is-${rows.status[i]}${active ? " active" : ""}`} aria-rowindex=${position + 2} data-position=${position}>
    ${COLUMNS.map(({ name, text, cell, hint, clipped }) => {
      const said = text(rows, i);
      const title = hint ? hint(rows, i) || undefined : clipped ? said : undefined;
      return html`<div role="gridcell" class=${`cell ${name}`} title=${title}>${cell ? cell({ rows, i }) : said}</div>`;
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
function Head({ conditions }) {
  const now = sorting(conditions);
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
    ${COLUMNS.map((column) => {
      const here = now.column === column.name;
      const way = here ? (now.down ? "descending" : "ascending") : "none";
      return html`<div role="columnheader" key=${column.name} class=${`cell ${column.name}`} aria-sort=${way}>
        <button type="button" tabindex=${here ? 0 : -1} title=${column.means} onClick=${() => sort(column)}>${column.title}<span
          aria-hidden="true">${here ? (now.down ? " ▼" : " ▲") : ""}</span></button></div>`;
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
function firstAt(top) {
  return Math.max(0, (Math.floor(top / ROW_HEIGHT / STEP) - 1) * STEP);
}

/** Scroll position, first row drawn and active row of a grid; they come back with the table. */
function usePlace(box, order) {
  const [first, setFirst] = lib.useState(0);
  const [active, setActive] = lib.useState(0);
  const look = () => {
    listing.top = box.current.scrollTop;
    setFirst(firstAt(listing.top));
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
    const room = box.current.clientHeight - ROW_HEIGHT;
    const top = position * ROW_HEIGHT;
    if (top < box.current.scrollTop) box.current.scrollTop = top;
    else if (top + ROW_HEIGHT > box.current.scrollTop + room) box.current.scrollTop = top + ROW_HEIGHT - room;
    listing.row = order[position];
    setActive(position);
    look();
  };
  return { first, active, look, moveTo };
}

function Grid({ rows, order, conditions, printing }) {
  const box = lib.useRef(null);
  const { first, active, look, moveTo } = usePlace(box, order);
  const most = Math.ceil(innerHeight / ROW_HEIGHT) + 3 * STEP;
  const [from, to] = printing ? [0, PRINTED] : [first, first + most];
  const onKeyDown = (event) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey || !order.length) return;
    const page = Math.floor(box.current.clientHeight / ROW_HEIGHT) - 2;
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
  const drawn = order.slice(from, to);
  // Keyed by place modulo what is drawn: rows that leave lend their elements to those that come.
  const key = (position) => (printing ? position : position % most);
  const row = (i, position) =>
    html`<${Row} key=${key(position)} rows=${rows} i=${i} position=${position} active=${position === active} />`;
  const inSight = active >= from && active < from + drawn.length;
  return html`<div class="grid" role="grid" tabindex="0" ref=${box} aria-label="Groups" aria-rowcount=${order.length + 1}
      aria-colcount=${COLUMNS.length} aria-activedescendant=${inSight && !printing ? `row-${active}` : undefined}
      onScroll=${look} onKeyDown=${onKeyDown} onClick=${onClick}>
    <${Head} conditions=${conditions} />
    <div role="rowgroup" class="body" style=${printing ? "" : `height: ${order.length * ROW_HEIGHT}px`}>
      <div role="presentation" style=${printing ? "" : `transform: translateY(${from * ROW_HEIGHT}px)`}>
        ${drawn.map((i, at) => row(i, from + at))}
      </div>
    </div>
  </div>`;
}

/** The explanations, once a search asks for them; and a sentence while they are not there. */
function useExplanations(wanted) {
  const [said, setSaid] = lib.useState(null);
  const [note, setNote] = lib.useState("");
  lib.useEffect(() => {
    if (!wanted || said) return;
    setNote("reading explanations…");
    explanations().then((found) => { setSaid(found); setNote(""); },
                        () => setNote("explanations cannot be read, they are not searched"));
  }, [wanted]);
  return [said, note];
}

/** The table of groups under the conditions of a route. */
function Groups({ data, route: asked, printing = false }) {
  const { rows } = data;
  const { conditions } = asked;
  const query = link(conditions);
  const [said, note] = useExplanations(Boolean(conditions.search));
  const order = lib.useMemo(() => arrange(rows, conditions, conditions.search ? said : null), [rows, query, said]);
  return html`<section class="groups" aria-label="Table of groups">
    <${Filters} rows=${rows} conditions=${conditions} unread=${asked.unread} found=${order.length} note=${note} />
    ${printing && order.length > PRINTED && html`<p class="printed">
      The first ${PRINTED} of the ${number(order.length, 0)} groups that match are printed.</p>`}
    ${!order.length && html`<p class="none">No group fulfils all of these conditions.${" "}
      <a href="#groups">Show all groups</a></p>`}
    <${Grid} rows=${rows} order=${order} conditions=${conditions} printing=${printing} />
  </section>`;
}
