"use strict";
// The search in the texts of groups. It works in slices of time, so that the page stays alive.

const transcripts = (() => {
  const MOST_HELD = 128e6; // characters of texts that stay in memory; others are read anew for each search
  const SLICE_MS = 12; // of work between two looks at what else there is to do
  const TELL_MS = 300; // between two tellings of what was found so far
  const BEFORE = 24; // characters of a snippet before the hit
  const LONGEST = 160; // characters of a snippet
  const AT_ONCE = 8; // texts that are read side by side
  const held = new Map(); // by row
  const damaged = new Set(); // rows whose texts cannot be read
  let shared = null; // the lines of context and tools that stand in every group; they are not searched
  let room = MOST_HELD;
  let rested = 0;

  /** Let the page do what it has to, if it waits for long. */
  async function rest() {
    if (performance.now() - rested < SLICE_MS) return;
    await new Promise((go) => setTimeout(go));
    rested = performance.now();
  }

  // Lines hold texts as JSON strings: a person looks for what stands in them, not for the escapes.
  const plain = (lines) => lines.join("\n").replace(/\\(?:(["\\/])|n)/g, (_, kept) => kept ?? " ");

  /** The lines of a row that a whole file may share, null if its text is not in the page, and the others. */
  async function linesOf(rows, row) {
    const said = ((await explanations().catch(() => []))[row] ?? []).filter(Boolean);
    try {
      const text = await textOf(row, rows);
      if (!text) return [null, said];
      const ofPanel = text.rollouts.flatMap(({ judges = [] }) => judges.map(({ explanation }) => explanation));
      return [[...text.context, ...text.tools.split("\n")], [text.rubric, ...text.strings, ...said, ...ofPanel]];
    } catch {
      damaged.add(row);
      return [null, said];
    }
  }

  /** What all groups seem to share, by a few of them; `found` takes out what one of the others lacks. */
  async function start(rows) {
    if (shared) return;
    const some = rows.key.map((_, row) => row).filter((row) => rows.text[row]);
    const picked = new Set(Array.from({ length: AT_ONCE }, (_, i) => some[Math.floor((i * (some.length - 1)) / (AT_ONCE - 1))]));
    const texts = (await Promise.all([...picked].filter((row) => row !== undefined).map((row) => linesOf(rows, row)))).map(([common]) => common).filter(Boolean);
    shared ??= new Set(texts.length > 1 ? texts[0].filter((line) => line && texts.every((text) => text.includes(line))) : []);
  }

  /** The text of a row without what all share. */
  async function found(rows, row) {
    if (held.has(row)) return held.get(row);
    const [common, own] = await linesOf(rows, row);
    if (common) for (const line of shared) if (!common.includes(line)) shared.delete(line);
    await rest();
    const text = plain([...(common ?? []).filter((line) => !shared.has(line)), ...own]);
    const result = { text, lower: text.toLowerCase() };
    room -= 2 * text.length;
    if (room > 0) held.set(row, result);
    return result;
  }

  /** The hits that stand together in a text with a few words around them, as `[before, hit, between, hit, …, behind]`. */
  function snippetOf({ text, lower }, words) {
    if (text.length !== lower.length) return null;
    const near = (at) => words.filter((word) => lower.slice(at, at + LONGEST / 2).includes(word)).length;
    const places = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
    if (!places.length) return null;
    const at = places.reduce((best, place) => (near(place) > near(best) ? place : best));
    const from = Math.max(0, at - BEFORE);
    const start = from && Math.min(at, lower.indexOf(" ", from) + 1);
    const any = words.map((word) => RegExp.escape?.(word) ?? word.replace(/[^\p{L}\p{N}\s]/gu, "\\$&")).join("|");
    const piece = text.slice(start, turns.whole(text, start + LONGEST)).replace(/\s+/g, " ");
    return piece.split(new RegExp(`(${any})`, "i"));
  }

  /** Search, and `tell` what was found so far, again and again, until `wanted` says no or all is searched. */
  async function search(rows, words, tell, wanted) {
    await start(rows);
    const hits = new Map();
    const sharing = shared.size;
    let told = performance.now();
    for (let from = 0; from < rows.key.length; from += AT_ONCE) {
      const part = rows.key.slice(from, from + AT_ONCE).map((_, i) => from + i);
      const texts = await Promise.all(part.map((row) => found(rows, row)));
      for (const [i, row] of part.entries()) {
        const own = haystack(rows)[row];
        if (words.every((word) => texts[i].lower.includes(word) || own.includes(word))) hits.set(row, snippetOf(texts[i], words));
      }
      await rest();
      if (!wanted()) return;
      if (performance.now() - told > TELL_MS) {
        tell({ hits: new Map(hits), done: false, read: from + part.length });
        told = performance.now();
      }
    }
    if (shared.size < sharing) {
      held.clear(); // a line that one of the last groups lacks was left out of the first ones
      room = MOST_HELD;
      return search(rows, words, tell, wanted);
    }
    const everywhere = plain([...shared]).toLowerCase();
    tell({ hits, done: true, common: words.filter((word) => everywhere.includes(word)), unread: damaged.size });
  }

  const NONE_YET = { hits: new Map(), done: false, read: 0 };

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
function searchNote({ done, read, common, unread }, rows) {
  if (!done) return `searching, ${whole(read)} of ${whole(rows.key.length)} read…`;
  const absent = rows.text.filter((at) => !at).length;
  return [
    common.length && `${common.map((word) => `“${visible(word)}”`).join(" and ")} also in the text that all groups share, which is not searched`,
    absent && `the transcripts of ${many(absent, "group")} are not in this page and not searched`,
    unread && `those of ${many(unread, "group")} cannot be read`,
  ].filter(Boolean).join("; ");
}
