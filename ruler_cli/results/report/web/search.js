"use strict";
// The search in the texts of groups. It works in slices of time, so that the page stays alive.

const transcripts = (() => {
  const MOST_HELD = 64e6; // characters of texts that stay in memory; others are read anew for each search
  const SLICE_MS = 12; // of work between two looks at what else there is to do
  const TELL_MS = 300; // between two tellings of what was found so far
  const AROUND = 60; // characters of a snippet before and behind the hit
  const held = []; // by row
  let shared = null; // the lines of context and tools that stand in every group; they are not searched
  let room = MOST_HELD;
  let unread = 0; // damaged texts
  let reading = null;
  let rested = 0;

  /** Let the page do what it has to, if it waits for long. */
  async function rest() {
    if (performance.now() - rested < SLICE_MS) return;
    await new Promise((go) => setTimeout(go));
    rested = performance.now();
  }

  // Lines hold texts as JSON strings: a person looks for what stands in them, not for the escapes.
  const plain = (lines) => lines.join("\n").replace(/\\(?:(["\\/])|n)/g, (_, kept) => kept ?? " ");

  /** The lines of a row that a whole file may share, and the others; null if its text is not in the page. */
  async function linesOf(rows, row) {
    const said = ((await explanations().catch(() => []))[row] ?? []).filter(Boolean);
    try {
      const text = await textOf(row, rows);
      if (!text) return [[], said];
      const ofPanel = text.rollouts.flatMap(({ judges = [] }) => judges.map(({ explanation }) => explanation));
      return [[...text.context, ...text.tools.split("\n")], [text.rubric, ...text.strings, ...said, ...ofPanel]];
    } catch {
      unread += 1;
      return [[], said];
    }
  }

  function searchable([common, own]) {
    const text = plain([...common.filter((line) => !shared.has(line)), ...own]);
    return { text, lower: text.toLowerCase() };
  }

  /** Read all texts once, for what they share, and hold as many as there is room for. */
  async function readAll(rows) {
    const counts = new Map();
    for (let row = 0; row < rows.key.length; row++) {
      const lines = await linesOf(rows, row);
      for (const line of new Set(lines[0])) counts.set(line, (counts.get(line) ?? 0) + 1);
      room -= lines.flat().join("").length;
      if (room > 0) held[row] = lines;
      await rest();
    }
    const texts = rows.text.filter(Boolean).length - unread;
    shared = new Set([...counts].filter(([, count]) => count > 1 && count === texts).map(([line]) => line));
    held.forEach((lines, row) => { held[row] = searchable(lines); });
  }

  /** The first hit of a text with a few words around it, as `[before, hit, behind]`. */
  function snippetOf({ text, lower }, words) {
    const word = words.find((one) => lower.includes(one));
    if (!word || text.length !== lower.length) return null;
    const at = lower.indexOf(word);
    const end = at + word.length;
    return [text.slice(Math.max(0, at - AROUND), at), text.slice(at, end), text.slice(end, end + 2 * AROUND)].map((part) => part.replace(/\s+/g, " "));
  }

  /** Begin to read the texts, once. */
  const start = (rows) => (reading ??= readAll(rows));

  /** Search, and `tell` what was found so far, again and again, until `wanted` says no or all is searched. */
  async function search(rows, words, tell, wanted) {
    await start(rows);
    const hits = new Map();
    let told = performance.now();
    for (let row = 0; row < rows.key.length; row++) {
      const found = held[row] ?? searchable(await linesOf(rows, row));
      const own = haystack(rows)[row];
      if (words.every((word) => found.lower.includes(word) || own.includes(word))) hits.set(row, snippetOf(found, words));
      await rest();
      if (!wanted()) return;
      if (performance.now() - told > TELL_MS) {
        tell({ hits: new Map(hits), done: false });
        told = performance.now();
      }
    }
    const everywhere = plain([...shared]).toLowerCase();
    tell({ hits, done: true, common: words.filter((word) => everywhere.includes(word)), unread });
  }

  const NONE_YET = { hits: new Map(), done: false };

  /** What is found of these words: `hits`, the rows with a snippet of each; `done` once all is searched; words that all share. */
  function useHits(rows, words) {
    const [found, setFound] = lib.useState(NONE_YET);
    const all = words.join(" ");
    lib.useEffect(() => {
      let wanted = words.length > 0;
      if (wanted) search(rows, words, (news) => wanted && setFound({ all, ...news }), () => wanted);
      return () => (wanted = false);
    }, [all]);
    return found.all === all ? found : NONE_YET;
  }

  return { start, useHits };
})();

/** What to know of a search, in words. */
function searchNote({ done, common, unread }, rows) {
  if (!done) return "so far; searching the transcripts…";
  const absent = rows.text.filter((at) => !at).length;
  return [
    common.length && `${common.map((word) => `“${visible(word)}”`).join(" and ")} also in the text that all groups share, which is not searched`,
    absent && `the transcripts of ${many(absent, "group")} are not in this page and not searched`,
    unread && `those of ${many(unread, "group")} cannot be read`,
  ].filter(Boolean).join("; ");
}
