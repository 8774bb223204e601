"use strict";
// The groups of the table as they are filtered → a file of JSON lines, and the command that selects them.

const LIST = "list.jsonl";
const SELECTED = "selected.jsonl";
const ROUNDED = 1e-8; // figures of the page are rounded to nine decimals: a nearer end of a range may part them otherwise

/** A line for each group, as files of marks have it. */
const linesOf = (rows, order) => order.map((i) => `${JSON.stringify({ group: rows.key[i], rollout: "", mark: "listed" })}\n`).join("");

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

/** The command that selects the groups of the table, and whether it reads the list. */
function selectCommand(data, conditions) {
  const source = [data.sources ?? data.source].flat()[0];
  const found = conditionsOfSelect(data, conditions);
  const rest = found ? found.map((one) => `--where ${turns.shellWord(one)}`).join(" ") : `--marks ${LIST}`;
  return { command: `ruler select ${turns.shellWord(source.startsWith("-") ? `./${source}` : source)} ${SELECTED} ${rest}`, reads: !found };
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

/** How many groups of the file a list would take besides, as they have the key of one in it. */
function alsoTaken(rows, order) {
  const listed = new Set(order);
  const keys = new Set(order.map((i) => rows.key[i]));
  return [...keys].reduce((n, key) => n + rowsByKey(rows).get(key).filter((i) => !listed.has(i)).length, 0);
}

/** The export of the list: folded, under the search. */
function TakeAway({ data, conditions, order }) {
  const [open, setOpen] = lib.useState(false);
  const { rows } = data;
  const inside = () => {
    const { command, reads } = selectCommand(data, conditions);
    const more = reads ? alsoTaken(rows, order) : 0;
    return html`<div class="take">
      <p><button type="button" disabled=${!order.length} onClick=${() => download(linesOf(rows, order), LIST)}>Save ${LIST}</button>
        ${" "}${many(order.length, "group")}, a JSON line each.</p>
      <p><${Command} text=${command} /></p>
      <p class="muted">${reads ? `It reads ${LIST}: save it beside the file first.` : "It selects the same groups without the list."}
        ${more > 0 && ` ${many(more, "other group")} with the key of one in the list would be taken, too.`}</p>
    </div>`;
  };
  return html`<details class="add" id="take" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>Export the list</summary>${open && inside()}
  </details>`;
}
