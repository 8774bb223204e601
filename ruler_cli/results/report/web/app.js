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
  const page = `${asked.page} ${asked.key} ${asked.nth}`;
  const before = app.page;
  app.page = page;
  draw();
  if (page === before) return;
  if (asked.page !== "groups") scrollTo(0, history.state?.top ?? 0);
  if (before) document.querySelector(asked.page === "groups" ? ".grid" : "main").focus({ preventScroll: true });
}

function draw() {
  lib.render(html`<${App} data=${app.data} asked=${route.parse(location.hash)} />`, app.root);
}

// ---- Parts of the page ----------------------------------------------------------------------------

function Header({ data, asked }) {
  const entry = (page, words) => html`<a href=${`#${page}`} aria-current=${asked.page === page ? "page" : undefined}>${words}</a>`;
  return html`<header class="top">
    <div class="top-line">
      <h1 title=${visible(data.source)}>${visible(data.source)}</h1>
      <nav aria-label="Report">${entry("overview", "Overview")}
        ${entry("groups", html`Groups <span class="n">${whole(data.rows.key.length)}</span>`)}</nav>
      <button type="button" class="keys" aria-keyshortcuts="?" onClick=${showHelp}>Keys</button>
    </div>
    ${asked.page !== "group" && html`<${Found} data=${data} />`}
  </header>`;
}

const KEYS = [
  ["/", "search in the table"],
  ["↑ ↓, Page Up, Page Down, Home, End", "another row"],
  ["Enter", "open the group, or sort by a column's head"],
  ["j, k", "the next group, the one before"],
  ["← →", "another rollout beside the best; the next column's head"],
  ["r", "mark the group as reviewed, or take that back"],
  ["g, b", "mark the rollout as good, as bad, or take that back"],
  ["n, N", "a note on the rollout, on the group; Esc leaves it"],
  ["c", "copy a link to what is shown"],
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

function Group({ data, route: asked }) {
  const row = rowOf(data.rows, asked);
  if (row !== undefined) return html`<${GroupPage} key=${row} data=${data} route=${asked} row=${row} />`;
  return html`<section class="unknown">
    <h2>No such group</h2>
    <p>This page has no group <code>${visible(asked.key)}</code>${asked.nth > 1 && ` number ${asked.nth}`}.${data.left_out && " It may be one of those that were left out of this file."}</p>
    <p><a href="#groups">All groups in a table</a></p>
  </section>`;
}

const VIEWS = { overview: instead.Overview ?? Overview, groups: Groups, group: Group };

function App({ data, asked }) {
  lib.useLayoutEffect(() => {
    const of = asked.page === "group" ? `${visible(asked.key)} · ` : "";
    document.title = `${of}${visible(data.source)} · ruler report`;
    app.root.className = `is-${asked.page}`;
  });
  return html`<${Header} data=${data} asked=${asked} />
    <main tabindex="-1"><${VIEWS[asked.page]} data=${data} route=${asked} /></main>
    <footer>Made by ruler ${visible(data.ruler)}.</footer>
    <${Help} />`;
}

// ---- Keys and opening -----------------------------------------------------------------------------

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select, textarea, dialog[open]")) return;
  const { page } = route.parse(location.hash);
  if (event.key === "?") showHelp();
  else if (event.key === "/") {
    if (page !== "groups") go("#groups");
    document.getElementById("search").focus();
  } else if (event.key === "Escape" && page === "group") go(listing.hash);
  else if (page === "groups" && (event.key === "Escape" || (/^Arrow(Down|Up)$/.test(event.key) && event.target.matches("body, main")))) {
    document.querySelector(".grid").focus();
  } else return;
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
  showing(arrive);
});
