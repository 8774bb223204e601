"use strict";
// The groups of the table as they are filtered → a file of JSON lines, and the command that selects them if there is one.

const LIST = "list.jsonl";
const SELECTED = "selected.jsonl";
const ROUNDED = 1e-8; // figures of the page are rounded to nine decimals: a nearer end of a range may part them otherwise

/** A line for each group, with its key. */
const linesOf = (rows, order) => order.map((i) => `${JSON.stringify({ group: rows.key[i] })}\n`).join("");

/** States of a group, and what `ruler select` calls the same. */
const STATES = { live: ["live"], tied: ["tied"], failed: ["failed"], scored: ["scored"], disputed: ["disagreement", "disagreement=0.25.."] };

const FIGURES_OF_SELECT = ["mean", "reliability", "disagreement"];

/** A range as `ruler select` takes it; null if rounding could part the groups otherwise. */
function rangeOfSelect(rows, name, range) {
  const ends = range.filter((end) => end !== null);
  const close = rows[name].some((x) => x !== null && ends.some((end) => Math.abs(x - end) < ROUNDED));
  return close ? null : `${name}=${range[0] ?? ""}..${range[1] ?? ""}`;
}

/** The conditions of `ruler select` that choose just the groups of the table; null if none say the same. */
function conditionsOfSelect({ rows, figures }, conditions) {
  const { sort, where = [], field = [], ...others } = conditions;
  const whole = figures?.groups.all === rows.key.length; // else the file has groups that the table has not
  const known = Object.entries(others).filter(([, value]) => (Array.isArray(value) ? value.length : value));
  if (!whole || field.length || where.length > 1 || known.some(([name]) => !FIGURES_OF_SELECT.includes(name))) return null;
  const words = where.flatMap((word) => (Object.hasOwn(STATES, word) ? STATES[word] : [null]));
  const found = [...words, ...known.map(([name, range]) => rangeOfSelect(rows, name, range))];
  return found.length && !found.includes(null) ? found : null;
}

/** The command that selects the groups of the table; null if `ruler select` has no such conditions. */
function selectCommand(data, conditions) {
  const source = [data.sources ?? data.source].flat()[0];
  const rest = conditionsOfSelect(data, conditions)?.map((one) => `--where ${turns.shellWord(one)}`).join(" ");
  return rest ? `ruler select ${turns.shellWord(source.startsWith("-") ? `./${source}` : source)} ${SELECTED} ${rest}` : null;
}

/** A command with a button that copies it, or marks it if the browser lends no clipboard. */
function Command({ text }) {
  const [state, setState] = lib.useState("");
  const shown = lib.useRef(null);
  lib.useEffect(() => setState(""), [text]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState("copied");
    } catch {
      getSelection().selectAllChildren(shown.current);
      setState("marked, copy it");
    }
  };
  return html`<code ref=${shown}>${text}</code> <button type="button" onClick=${copy}>Copy command</button> <span role="status">${state}</span>`;
}

/** The export of the list: folded, under the search. */
function TakeAway({ data, conditions, order }) {
  const [open, setOpen] = lib.useState(false);
  const { rows } = data;
  const inside = () => {
    const command = selectCommand(data, conditions);
    return html`<div class="take">
      <p><button type="button" disabled=${!order.length} onClick=${() => download(linesOf(rows, order), LIST)}>Save ${LIST}</button>
        ${" "}${many(order.length, "group")}, a JSON line each.</p>
      ${command && html`<p><${Command} text=${command} /></p>
      <p class="muted">It selects the same groups without the list.</p>`}
    </div>`;
  };
  return html`<details class="add" id="take" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>Export the list</summary>${open && inside()}
  </details>`;
}
