"use strict";
// The table of groups.

function Groups({ data }) {
  return html`<ul>${data.rows.key.slice(0, 200).map((key) => html`<li><a href=${route.format({ page: "group", key })}>${visible(key)}</a></li>`)}</ul>`;
}
