"use strict";
// The search in the texts of groups: it runs in a worker, or, if the browser starts none, in slices on the page.

/**
 * A search in the texts of all groups, which are read once. `answer` gets what is found: `{id, found, unread}`, for
 * each word the rows whose text holds it, as ones among zeros, and the number of texts that are damaged. Returned is the
 * function that takes the messages: first `{spans, texts, said}`, the blocks of the page, then `{id, words}`. A newer
 * question ends an older one. The source of the function is the program of the worker, so it uses nothing but `unpack`
 * from outside.
 */
function textSearch(answer) {
  const MOST_HELD = 128e6; // characters of texts that stay in memory; others are read anew for each question
  const SLICE = 10; // milliseconds of work between two looks at what else there is to do
  const held = [];
  const unread = new Set();
  let source = null;
  let explanations = [];
  let room = MOST_HELD;
  let ready = null;
  let latest = 0;
  let rested = 0;

  async function rest() {
    if (performance.now() - rested < SLICE) return;
    await new Promise((go) => setTimeout(go));
    rested = performance.now();
  }

  // Lines hold texts as JSON strings: a person looks for what stands in them, not for the escapes.
  const plain = (text) => text.replace(/\\(["\\/])/g, "$1").toLowerCase();

  /** The text of a row as it is searched; empty if the page does not have it, or it is damaged. */
  async function read(row) {
    const at = source.spans[row];
    if (!at) return "";
    try {
      const { context, tools, rubric, strings, rollouts } = await unpack(source.texts.slice(at[0], at[0] + at[1]));
      const said = rollouts.flatMap((one) => one.judges.map(({ explanation }) => explanation));
      return plain([...context, tools, rubric, ...strings, ...said].join("\n"));
    } catch {
      unread.add(row);
      return "";
    }
  }

  async function readAll(blocks) {
    source = blocks;
    const listed = await unpack(blocks.said).catch(() => []);
    explanations = source.spans.map((_, row) => (listed[row] ?? []).filter(Boolean).join("\n").toLowerCase());
    for (let row = 0; row < source.spans.length && room > 0; row++) {
      const text = await read(row);
      room -= text.length;
      if (room > 0) held[row] = text;
      await rest();
    }
  }

  async function search({ id, words }) {
    latest = id;
    await ready;
    const found = words.map(() => new Uint8Array(source.spans.length));
    for (let row = 0; row < source.spans.length; row++) {
      const text = held[row] ?? (await read(row));
      words.forEach((word, i) => { found[i][row] = Number(explanations[row].includes(word) || text.includes(word)); });
      await rest();
      if (latest !== id) return;
    }
    answer({ id, found, unread: unread.size });
  }

  return (message) => {
    if (message.words) search(message);
    else ready = readAll(message);
  };
}

/** The search of this page; it begins with the first question, or earlier with `start` or `startAhead`. */
const transcripts = (() => {
  const AHEAD = 16e6; // characters of the block of texts up to which they are read before a person asks
  const MOST_KNOWN = 64; // words whose rows are kept
  const known = new Map(); // the rows of each word
  const waiting = new Set(); // functions to call after an answer
  let ask = null;
  let asked = { id: 0, words: [] };
  let unread = null; // the number of damaged texts, null before the first answer

  const program = () => [unbase64, unpack, textSearch].join("\n") + "\nconst ask = textSearch(postMessage); onmessage = ({ data }) => ask(data);";
  // The policy of the page lets this name alone make the address of a worker, and it makes no other than this one.
  const policy = { createScriptURL: () => URL.createObjectURL(new Blob([program()], { type: "text/javascript" })) };

  function trusted() {
    try {
      return window.trustedTypes?.createPolicy("ruler-search", policy) ?? policy;
    } catch {
      return policy; // the policy of a server forbids it, and then the worker too
    }
  }

  const addresses = trusted();

  function answer({ id, found, unread: damaged }) {
    if (id !== asked.id) return;
    unread = damaged;
    asked.words.forEach((word, i) => known.set(word, found[i]));
    for (const word of known.keys()) if (known.size > MOST_KNOWN && !asked.words.includes(word)) known.delete(word);
    for (const tell of waiting) tell();
  }

  /** Begin to read the texts, once. */
  function start() {
    if (ask) return;
    const block = (id) => document.getElementById(id).textContent;
    const blocks = { spans: opened.rows.text, texts: block("texts"), said: block("said").trim() };
    const onPage = () => {
      ask = textSearch(answer);
      ask(blocks);
      if (asked.id) ask(asked);
    };
    try {
      const worker = new Worker(addresses.createScriptURL(""));
      worker.onmessage = ({ data }) => answer(data);
      worker.onerror = (event) => {
        event.preventDefault();
        worker.terminate();
        onPage();
      };
      worker.postMessage(blocks);
      ask = (message) => worker.postMessage(message);
    } catch {
      onPage();
    }
  }

  /** Begin before a person asks, unless there are so many texts that it would take much memory. */
  function startAhead() {
    if (document.getElementById("texts").textContent.length <= AHEAD) start();
  }

  /**
   * What is known of these words: `rows`, a Map from each to the rows whose texts hold it, null while they are looked
   * for; `unread`, the number of damaged texts, null before the first answer.
   */
  function useWords(words) {
    const [, redraw] = lib.useState(0);
    lib.useEffect(() => {
      const tell = () => redraw((n) => n + 1);
      waiting.add(tell);
      return () => waiting.delete(tell);
    }, []);
    const all = words.join(" ");
    const done = words.every((word) => known.has(word));
    lib.useEffect(() => {
      if (done || asked.words.join(" ") === all) return;
      start();
      asked = { id: asked.id + 1, words };
      ask(asked);
    }, [all, done]);
    return { rows: done ? new Map(words.map((word) => [word, known.get(word)])) : null, unread };
  }

  return { start, startAhead, useWords };
})();
