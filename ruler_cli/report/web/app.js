"use strict";
// The page: which view a hash asks for, the head and the foot around it, keys, theme and print.

async function open() {
  const root = document.getElementById("app");
  const data = await decode("data");
  opened.rows = data.rows;
  root.replaceChildren();
  const draw = () => {
    const asked = route.parse(location.hash);
    const row = asked.page === "group" ? data.rows.key.indexOf(asked.key) : -1;
    const page = asked.page === "overview" ? html`<${Overview} data=${data} />`
      : asked.page === "groups" ? html`<${Groups} data=${data} route=${asked} />`
        : html`<${GroupPage} data=${data} route=${asked} row=${row} />`;
    lib.render(page, root);
  };
  addEventListener("hashchange", draw);
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "1"; }));
}

open();
