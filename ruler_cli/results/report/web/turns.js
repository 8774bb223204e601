"use strict";

// The judge's lines → turns to look at, and where two rollouts part ways. Pure functions, no page.
// The lines are those of ruler_cli/prompting/render.py: one turn a line, `head: <JSON>`.
const turns = (() => {
  const NAME = String.raw`"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-]+`;
  const HEAD = new RegExp(`^(${NAME})( \\d+(?= ))?(?: (${NAME}))?: `); // calls made at once have numbers
  const LONGEST_HEAD = 4096; // a name may be as long as its author likes; no need to look further
  const GAP = -0.5; // what a step without one beside it costs
  const LINE = 72; // characters of JSON that stand on one line
  const MOST_CELLS = 5e5; // of a table of steps against steps; longer rollouts stand step by step
  const ROLES = new Set(["assistant", "user", "system", "developer"]);

  const MOST_PIECES = 2000; // spans; in text that hides more than that none of it stands out

  const unquoted = (name) => (name?.startsWith('"') ? (parsed(name) ?? name) : (name ?? ""));

  function tried(work) {
    try {
      return work();
    } catch {
      return undefined; // no JSON, or nested too deeply or too long for the browser
    }
  }

  const parsed = (json) => tried(() => JSON.parse(json));

  // One line → {kind, who, name, body}; `kind` is one of a fixed few, so that it may be a class.
  function turnOf(line) {
    const head = HEAD.exec(line.slice(0, LONGEST_HEAD));
    if (!head) return { kind: "note", who: "", name: "", body: line };
    const [all, first, number = "", second] = head;
    const turn = { who: unquoted(first), name: `${number} ${unquoted(second)}`.trim(), body: line.slice(all.length) };
    // a role called "call" stands in quotes, so these three words are ruler's own
    if (first === "call" && second) return { ...turn, kind: "call" };
    if (first === "tool") return { ...turn, kind: "result" };
    if (second === "thinking") return { ...turn, name: "", kind: "thinking" };
    return { ...turn, kind: ROLES.has(turn.who) ? turn.who : "other" };
  }

  // Indented JSON with what fits into a line on one: `{ "id": 7 }`. A line that opens or closes ends or begins with a bracket.
  function tight(json) {
    const open = [{ lines: [], flat: true }];
    for (const line of json.split("\n")) {
      if (/[[{]$/.test(line)) {
        open.push({ lines: [line], flat: true });
        continue;
      }
      if (!/^ *[\]}]/.test(line) || open.length < 2) {
        open.at(-1).lines.push(line);
        continue;
      }
      const { lines, flat } = open.pop();
      const all = [...lines, line];
      const one = `${lines[0]} ${all.slice(1).map((each) => each.trim()).join(" ")}`;
      const fits = flat && one.trim().length <= LINE && !one.includes("\\n");
      if (!fits) open.at(-1).flat = false;
      open.at(-1).lines.push(...(fits ? [one] : all));
    }
    return open[0].lines.join("\n");
  }

  // JSON with line breaks and indents; its numbers stay as the judge saw them, if the browser can keep them so.
  function indented(body) {
    const number = (_, value, context) => (typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value);
    const json = tight(JSON.stringify(JSON.parse(body, number), null, 2));
    // a line break in a string becomes one, since code and mails are what stands in there
    return json.replace(/\\(.)/g, (escaped, letter) => (letter === "n" ? "\n" : escaped));
  }

  // What a person reads of a turn, at most `most` characters of it: a JSON string as its text, other JSON indented,
  // anything else as it is; `length` is of all there is.
  function readable({ body }, most = Infinity) {
    let text = body;
    if (body.startsWith('"')) text = String(parsed(body) ?? body);
    else if (/^[[{]/.test(body)) text = tried(() => indented(body)) ?? body;
    return { text: text.slice(0, most), length: text.length };
  }

  // How many first turns two rollouts share; arrays of indices into the group's strings.
  function parting(a, b) {
    const end = Math.min(a.length, b.length);
    let at = 0;
    while (at < end && a[at] === b[at]) at += 1;
    return at;
  }

  // What the agent does in a step: the names of its calls, and these with what they get; both empty where it talks.
  function deedOf(lines) {
    const calls = lines.map(turnOf).filter(({ kind }) => kind === "call");
    return { names: calls.map(({ name }) => name).join("\n"), all: calls.map(({ name, body }) => name + body).join("\n") };
  }

  // How well two steps stand beside one another.
  function fit(a, b) {
    if (a.names !== b.names) return a.names && b.names ? -0.3 : -0.9;
    return !a.names ? 1 : a.all === b.all ? 4 : 3;
  }

  // Rows of places in the columns, null for a gap, so that steps with the same calls stand beside one another.
  function aligned(columns) {
    const [first, ...others] = columns.map((steps) => steps.map(deedOf));
    const plain = Array.from({ length: Math.max(...columns.map((steps) => steps.length)) }, (_, at) => columns.map((steps) => (at < steps.length ? at : null)));
    if (others.some((deeds) => first.length * deeds.length > MOST_CELLS)) return plain;
    let rows = first.map((deed, at) => ({ deeds: [deed], at: [at] }));
    others.forEach((deeds, i) => { rows = joined(rows, deeds, i + 1); });
    return rows.map(({ at }) => at);
  }

  // Rows with one column more: the alignment of the best fit, by dynamic programming from the end.
  function joined(rows, deeds, number) {
    const [n, m] = [rows.length, deeds.length];
    const best = Array.from({ length: n + 1 }, () => new Float64Array(m + 1));
    const pair = (i, j) => best[i + 1][j + 1] + (i === 0 && j === 0 ? 9 : Math.max(...rows[i].deeds.map((deed) => fit(deed, deeds[j]))));
    for (let i = n; i >= 0; i--) {
      for (let j = m; j >= 0; j--) {
        if (i === n || j === m) best[i][j] = GAP * (n - i + m - j);
        else best[i][j] = Math.max(pair(i, j), best[i + 1][j] + GAP, best[i][j + 1] + GAP);
      }
    }
    const out = [];
    for (let i = 0, j = 0; i < n || j < m; ) {
      if (i < n && j < m && best[i][j] === pair(i, j)) out.push({ deeds: [...rows[i].deeds, deeds[j]], at: [...rows[i++].at, j++] });
      else if (i < n && (j === m || best[i][j] === best[i + 1][j] + GAP)) out.push({ deeds: rows[i].deeds, at: [...rows[i++].at, null] });
      else out.push({ deeds: [deeds[j]], at: [...Array(number).fill(null), j++] });
    }
    return out;
  }

  // For each rollout the first one with the same text, itself where there is none; without text: itself.
  function firstAlike(rollouts) {
    const seen = new Map();
    return rollouts.map(({ lines }, i) => {
      if (!lines.length) return i;
      const text = lines.join(" ");
      if (!seen.has(text)) seen.set(text, i);
      return seen.get(text);
    });
  }

  // 1 for the highest score; equal ones share a rank; null where there is no score.
  function ranks(scores) {
    const sorted = scores.filter((s) => s !== null).sort((a, b) => b - a);
    const first = new Map();
    sorted.forEach((score, i) => first.has(score) || first.set(score, i + 1));
    return scores.map((score) => first.get(score) ?? null);
  }

  // Text in pieces, as it is and {hidden} in turn, for what a reader would not see or be misled by.
  function pieces(text) {
    const out = [];
    let end = 0;
    for (const { 0: found, index } of text.matchAll(new RegExp(`(?:${HIDDEN.source})+`, "gu"))) {
      if (out.length > MOST_PIECES) return [visible(text)];
      if (index > end) out.push(text.slice(end, index));
      out.push({ hidden: visible(found) });
      end = index + found.length;
    }
    if (end < text.length) out.push(text.slice(end));
    return out;
  }

  // The place itself, or the one before where it would part a surrogate pair.
  function whole(text, at) {
    return at > 0 && /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(at - 1, at + 1)) ? at - 1 : at;
  }

  return { turnOf, readable, parting, aligned, firstAlike, ranks, pieces, whole };
})();
