"use strict";
// The page: which view a hash asks for, the head and the foot around it, places, keys.

/** What the page is drawn from, beside the address. */
const app = { data: null, page: "", root: null };

const SCROLL_PAUSE_MS = 100;

// ---- Places in the history ------------------------------------------------------------------------

let pause = 0;

/** The scroll position of this entry of the history, kept in it: also a reload comes back to it. */
function keepPlace() {
  clearTimeout(pause);
  const top = document.querySelector(".grid")?.scrollTop ?? scrollY;
  if (history.state?.top !== top) history.replaceState({ top }, "");
}

/** Scroll the window down to a place as soon as the page is that long: views fill in later than they open. */
function scrollDown(top) {
  scrollTo(0, top);
  if (scrollY >= top - 1) return;
  const longer = new ResizeObserver(() => {
    scrollTo(0, top);
    if (scrollY >= top - 1) stop();
  });
  const stop = () => longer.disconnect();
  longer.observe(app.root);
  for (const name of ["wheel", "touchstart", "keydown", "hashchange"]) addEventListener(name, stop, { once: true });
}

/** Open a hash; `replace` for what is no step to come back to, as each letter of a search. */
function go(hash, { replace = false } = {}) {
  if (replace) clearTimeout(pause);
  else keepPlace();
  history[replace ? "replaceState" : "pushState"]({}, "", hash);
  arrive();
}

/** Show what the address asks for. Focus moves with the page, so that keys and screen readers follow. */
function arrive() {
  clearTimeout(pause);
  const asked = route.parse(location.hash);
  const page = asked.page + (asked.page === "group" ? `=${asked.key}&${asked.nth ?? 1}` : "");
  const before = app.page;
  app.page = page;
  draw();
  if (page === before) return;
  if (asked.page !== "groups") scrollDown(history.state?.top ?? 0);
  if (before) document.querySelector(asked.page === "groups" ? ".grid" : "main").focus({ preventScroll: true });
}

function draw() {
  const asked = route.parse(location.hash);
  lib.render(html`<${App} data=${app.data} asked=${asked} printing=${theme.printing} />`, app.root);
}

// ---- Parts of the page ----------------------------------------------------------------------------

function Header({ data, asked }) {
  const entries = Object.entries(VIEWS).filter(([, { entry }]) => entry);
  return html`<header class="top">
    <div class="top-line">
      <h1 title=${visible(data.source)}>${visible(data.source)}</h1>
      <nav aria-label="Report">
        ${entries.map(([page, { entry }]) => html`<a key=${page} href=${`#${page}`}
          aria-current=${asked.page === page ? "page" : undefined}>${entry(data)}</a>`)}
      </nav>
      <span class="buttons">
        <${marks.Button} />
        <${ThemeButton} />
        <button type="button" aria-keyshortcuts="?" onClick=${showHelp}>Keys</button>
      </span>
    </div>
    <${Found} data=${data} />
  </header>`;
}

const KEYS = [
  ["/", "search in the table"],
  ["p", "the next list, worst first: disputed, flawed positives, …"],
  ["f", "filter the table by a field"],
  ["t", "export the list of the table"],
  ["↑ ↓", "the row above, below"],
  ["Page Up, Page Down", "a page of rows up, down"],
  ["Home, End", "the first row, the last row"],
  ["Enter", "open the group, or sort by a column's head"],
  ["← →", "the next column's head; on a group's page, the next rollout"],
  ["j, k", "the next group, the one before"],
  ["r", "mark the group as reviewed, or take that back"],
  ["w", "mark the group with a word of your own"],
  ["g, b", "mark the rollout as good, as bad, or take that back"],
  ["n, N", "a note on the rollout, on the group; Esc leaves it"],
  ["c", "copy a link to the rollout, or to the group"],
  ["m", "all marks: save and open files"],
  ["Esc", "back to the table; out of the search; close this"],
  ["?", "this list"],
];

function Help() {
  return html`<dialog id="help" class="help" aria-labelledby="help-title">
    <h2 id="help-title">Keys</h2>
    <dl>${KEYS.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <p>The address holds filters, order and search: a copy of it, or of a group's link, opens the same view.</p>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}

function showHelp() {
  const help = document.getElementById("help");
  if (!help.open) help.showModal();
}

/** Said in place of a group that is not there: the nearest keys, or the groups that share its key. */
function Unknown({ data, asked }) {
  const known = rowsByKey(data.rows);
  const same = known.get(asked.key);
  const near = same ?? nearest(known.keys(), asked.key).map((key) => known.get(key)[0]);
  const said = same ? `There are ${same.length} groups with this key, but no number ${asked.nth}` : "No group in this report has the key";
  const entry = (i) => {
    const [nth, of] = nthOfKey(data.rows, i);
    return html`<li key=${i}><a href=${groupHash(data.rows, i)}>${visible(data.rows.key[i])}</a>${of > 1 && ` (${nth} of ${of})`}</li>`;
  };
  return html`<section class="unknown">
    <h2>No such group</h2>
    <p>${said}: <code>${visible(asked.key)}</code></p>
    ${data.left_out && html`<p>It may be one of those that were left out of this file.</p>`}
    ${near.length > 0 && html`<p>${same ? "They are:" : "The nearest keys:"}</p><ul>${near.slice(0, 20).map(entry)}</ul>`}
    <p><a href="#groups">All groups in a table</a></p>
  </section>`;
}

function Group({ data, route: asked, printing }) {
  const row = rowOf(data.rows, asked);
  if (row === undefined) return html`<${Unknown} data=${data} asked=${asked} />`;
  return html`<${GroupPage} key=${row} data=${data} route=${asked} row=${row} printing=${printing} />`;
}

/** The table, made anew when a mark has changed. */
const Table = (props) => html`<${Groups} key=${marks.useMarks()} ...${props} />`;

/**
 * The views by the page of a route (base.js): how each is shown, and its entry in the navigation, if it has
 * one. Each gets `{data, route, printing}`.
 */
const VIEWS = {
  overview: { show: Overview, entry: () => "Overview" },
  groups: { show: Table, entry: ({ rows }) => html`Groups <span class="n">${number(rows.key.length, 0)}</span>` },
  group: { show: Group },
  ...instead.views,
};

function App({ data, asked, printing }) {
  const page = html`<${VIEWS[asked.page].show} data=${data} route=${asked} printing=${printing} />`;
  lib.useLayoutEffect(() => {
    const of = asked.page === "group" ? `${visible(asked.key)} · ` : "";
    document.title = `${of}${visible(data.source)} · ruler report`;
    app.root.className = `is-${asked.page}`;
  });
  return html`<${Header} data=${data} asked=${asked} />
    <main tabindex="-1">${page}</main>
    <footer>Made by ruler ${visible(data.ruler)}.</footer>
    <${Help} />
    <${marks.Dialog} />`;
}

// ---- Keys and opening -----------------------------------------------------------------------------

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select, textarea, dialog[open]")) return;
  const asked = route.parse(location.hash);
  if (event.key === "?") showHelp();
  else if (event.key === "m") marks.showDialog();
  else if (event.key === "/") {
    if (asked.page !== "groups") go("#groups");
    document.getElementById("search").focus();
  } else if (asked.page === "groups" && Object.hasOwn(TABLE_KEYS, event.key)) TABLE_KEYS[event.key](app.data.rows, asked.conditions);
  else if (event.key === "Escape" && asked.page === "group") go(listing.hash);
  else if (asked.page === "groups" && (event.key === "Escape" || (/^Arrow(Down|Up)$/.test(event.key) && event.target.matches("body, main")))) {
    document.querySelector(".grid").focus();
  }
  else return;
  event.preventDefault();
}

function listen() {
  history.scrollRestoration = "manual";
  addEventListener("hashchange", arrive);
  addEventListener("keydown", onKey);
  // Captured: the grid's own scrolling does not bubble.
  addEventListener("scroll", () => {
    clearTimeout(pause);
    pause = setTimeout(keepPlace, SCROLL_PAUSE_MS);
  }, { capture: true, passive: true });
  addEventListener("click", (event) => { if (event.target.closest?.("a")) keepPlace(); }, { capture: true });
  addEventListener("pagehide", keepPlace);
  addEventListener("resize", draw);
}

openPage((data, root) => {
  data.rows = columnsOfRows(data);
  Object.assign(app, { data, root });
  opened.rows = data.rows;
  marks.start();
  listen();
  showing(draw);
  arrive();
}, { idle: () => prepare(app.data.rows) });
