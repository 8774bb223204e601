"use strict";

// The judge's lines → turns to look at, and where two rollouts part ways. Pure functions, no page.
// The lines are those of ruler_cli/prompting/render.py: one turn a line, `head: <JSON>`.
const turns = (() => {
  const NAME = String.raw`"(?:[^"\\]|\\.)*"|[A-Za-z0-9_.-]+`;
  const HEAD = new RegExp(`^(${NAME})( \\d+(?= ))?(?: (${NAME}))?: `); // calls made at once have numbers
  const LONGEST_HEAD = 4096; // a name may be as long as its author likes; no need to look further
  const ROLES = new Set(["assistant", "user", "system", "developer"]);
  const DEEPEST = 40; // JSON nested deeper goes on in its line: indents alone could fill the memory

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

  // What a person reads of a turn: a JSON string as its text, other JSON indented, anything else as it is.
  // At most about `most` characters of it; `length` is of all there is.
  function readable(turn, most = Infinity) {
    const { body } = turn;
    if (body.startsWith('"')) {
      const text = parsed(body);
      if (typeof text === "string") return { text: text.slice(0, most), length: text.length };
    } else if (/^[[{]/.test(body) && parsed(body) !== undefined) {
      const text = tried(() => indented(body, most)) ?? body;
      const length = text.length > most ? Math.max(body.length, text.length) : text.length;
      return { text: text.slice(0, most), length };
    }
    return { text: body.slice(0, most), length: body.length };
  }

  // JSON with line breaks and indents, token by token: its numbers and keys stay as the judge saw them.
  // A line break in a string becomes one, since code and mails are what stands in there.
  function indented(json, most = Infinity) {
    const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;
    const out = [];
    let depth = 0;
    let size = 0;
    let before = "";
    const newline = () => (depth > DEEPEST ? "" : "\n" + "  ".repeat(depth));
    const write = (text) => {
      out.push(text);
      size += text.length;
    };
    for (const [token] of json.matchAll(tokens)) {
      if (size > most) break;
      const closing = token === "}" || token === "]";
      const opened = before === "{" || before === "[";
      if (closing) depth -= 1;
      if (closing ? !opened : opened || before === ",") write(newline());
      if (token === "{" || token === "[") depth += 1;
      write(token === ":" ? ": " : token.includes("\\n") ? broken(token, newline()) : token);
      before = token;
    }
    return out.join("");
  }

  function broken(token, newline) {
    const text = parsed(token);
    return typeof text === "string" ? `"${text.replaceAll("\n", (newline || "\n") + " ")}"` : token;
  }

  // How many first turns two rollouts share; arrays of indices into the group's strings.
  function parting(a, b) {
    const end = Math.min(a.length, b.length);
    let at = 0;
    while (at < end && a[at] === b[at]) at += 1;
    return at;
  }

  // The first character at which two texts differ, never in the middle of a surrogate pair; -1: nowhere.
  function difference(a, b) {
    if (a === b) return -1;
    const end = Math.min(a.length, b.length);
    let at = 0;
    while (at < end && a[at] === b[at]) at += 1;
    return Math.min(whole(a, at), whole(b, at));
  }

  // Where inside the turns of two rollouts at which they part the first unlike character stands.
  // undefined where the two are no turns of the same kind: there the whole turn differs.
  function insideTurn(mine, other, raw) {
    if (mine === undefined || other === undefined) return undefined;
    if (raw) return difference(mine, other);
    const [a, b] = [turnOf(mine), turnOf(other)];
    if (a.kind !== b.kind || a.who !== b.who || a.name !== b.name) return undefined;
    const at = difference(readable(a).text, readable(b).text);
    return at < 0 ? undefined : at; // unlike only in how the JSON is written
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

  // A word as a shell takes it; what cannot be seen is escaped, since people paste this into a terminal.
  function shellWord(text) {
    if (/^[A-Za-z0-9_./:@%+,=-]+$/.test(text)) return text;
    const unseen = new RegExp(String.raw`[\n\t]|${HIDDEN.source}`, "gu");
    if (!unseen.test(text)) return `'${text.replaceAll("'", String.raw`'\''`)}'`;
    const hex = (byte) => "\\x" + byte.toString(16).padStart(2, "0");
    const escaped = (c) => [...new TextEncoder().encode(c)].map(hex).join("");
    return `$'${text.replace(/['\\]/g, "\\$&").replace(unseen, escaped)}'`;
  }

  // The command that shows a group on a terminal; `sources` is the file, or a list of two.
  function command(sources, key) {
    const files = [sources].flat().map((source) => shellWord(source.startsWith("-") ? "./" + source : source));
    return `ruler report ${files.join(" ")} --group${key.startsWith("-") ? "=" : " "}${shellWord(key)}`;
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

  return {
    turnOf, readable, indented, parting, difference, insideTurn, firstAlike, ranks, shellWord, command, pieces, whole,
  };
})();
