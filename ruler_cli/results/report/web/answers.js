"use strict";

// Answers to comparisons ↔ lines of labels.jsonl, and what the browser keeps of them. Pure functions, no page.
// A line is that of ruler_cli/results/labels.py. A comparison is known by its place in the page.
const answers = (() => {
  const CHOICES = ["left", "right", "equal", "unsure"];
  const TURNED = { left: "right", right: "left" };
  const LONGEST = { name: 100, note: 2000 };

  /**
   * @typedef {Object} Answer
   * @property {string} choice one of CHOICES
   * @property {string} note
   * @property {string} at a time, as ISO 8601 has it
   * @property {number|null} seconds during which the comparison was in sight
   */
  /**
   * @typedef {Object} Labelling what a person said, and what is known of others
   * @property {string} name
   * @property {number} at the comparison in sight
   * @property {Map<number, Answer>} own
   * @property {Map<number, string>} notes those of comparisons without an answer
   * @property {Map<string, Map<number, Answer>>} others answers of other people, by their names
   * @property {string[]} more own lines about something else than these comparisons
   * @property {boolean} shown the answers of others were shown: then the own ones stay
   */

  const empty = () => ({ name: "", at: 0, own: new Map(), notes: new Map(), others: new Map(), more: [], shown: false });

  /** Text that a line can hold, without lone surrogates. */
  const plain = (text, most) => wellFormed(text).slice(0, most);

  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const textIn = (value) => (typeof value === "string" ? value : "");

  function parsed(text) {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }

  /** An answer of a line, or of what the browser kept; null: it is none. */
  function answerOf(value) {
    if (!isObject(value) || !CHOICES.includes(value.choice)) return null;
    const { choice, seconds: took } = value;
    const note = plain(textIn(value.note), LONGEST.note);
    return { choice, note, at: textIn(value.at), seconds: Number.isFinite(took) ? took : null };
  }

  /** Whether the first of two answers counts: the later one does. */
  function later(one, other) {
    const [a, b] = [one, other].map((each) => Date.parse(each.at) || 0);
    return a > b;
  }

  /** Put an answer into a map, unless a later one is there. */
  function put(map, place, answer) {
    if (!map.has(place) || later(answer, map.get(place))) map.set(place, answer);
  }

  function putOther(others, name, place, answer) {
    if (!others.has(name)) others.set(name, new Map());
    put(others.get(name), place, answer);
  }

  /** Change the name; answers that were opened as somebody's of this name are own ones. */
  function rename(labelling, name) {
    labelling.name = name;
    for (const [place, answer] of labelling.others.get(name) ?? []) put(labelling.own, place, answer);
    labelling.others.delete(name);
  }

  /** A comparison by its group and its rollouts, whichever stands left. */
  const pairKey = ({ group, left, right }) => JSON.stringify([group, ...[left, right].sort()]);

  /** Read lines of labels into a labelling; return how many of each kind there were. */
  function read(text, comparisons, labelling) {
    const places = new Map(comparisons.map((one, place) => [pairKey(one), place]));
    const known = new Set(labelling.more);
    const found = { own: 0, others: 0, elsewhere: 0, unread: 0 };
    for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
      const value = parsed(line);
      if (!isObject(value) || typeof value.group !== "string") {
        found.unread += 1;
        continue;
      }
      const name = textIn(value.by);
      const answer = answerOf(value);
      const place = answer ? places.get(pairKey(value)) : undefined;
      if (place === undefined) {
        found.elsewhere += 1;
        if (name === labelling.name && !known.has(line)) labelling.more.push(line);
        known.add(line);
        continue;
      }
      if (value.left !== comparisons[place].left) answer.choice = TURNED[answer.choice] ?? answer.choice;
      if (name === labelling.name) {
        found.own += 1;
        put(labelling.own, place, answer);
      } else {
        found.others += 1;
        putOther(labelling.others, name, place, answer);
      }
    }
    return found;
  }

  /** Own lines as a file: those of the comparisons in their order, then those about something else. */
  function written(comparisons, labelling) {
    const lines = [];
    comparisons.forEach((comparison, place) => {
      const answer = labelling.own.get(place);
      if (!answer) return;
      const { group, left, right, drawn, chance } = comparison;
      const { choice, note, at, seconds: took } = answer;
      lines.push(JSON.stringify({ group, left, right, choice, note, by: labelling.name, drawn, chance, at, seconds: took }));
    });
    return [...lines, ...labelling.more].map((line) => `${line}\n`).join("");
  }

  /** A labelling as the browser keeps it. */
  function packed({ name, at, own, notes, others, more, shown }) {
    const listed = [...others].map(([who, map]) => [who, [...map]]);
    return JSON.stringify({ name, at, own: [...own], notes: [...notes], others: listed, more, shown });
  }

  /** Put what the browser kept into a labelling; any text may stand there. Of two answers the later one counts. */
  function unpackInto(labelling, text, count) {
    const value = parsed(text ?? "");
    if (!isObject(value)) return;
    const entries = (list) => (Array.isArray(list) ? list.filter(Array.isArray) : []);
    const isPlace = (place) => Number.isInteger(place) && place >= 0 && place < count;
    const each = (list, use) => entries(list).forEach(([place, one]) => {
      const answer = answerOf(one);
      if (answer && isPlace(place)) use(place, answer);
    });
    labelling.name ||= plain(textIn(value.name), LONGEST.name);
    each(value.own, (place, answer) => put(labelling.own, place, answer));
    for (const [place, note] of entries(value.notes)) if (isPlace(place)) labelling.notes.set(place, plain(textIn(note), LONGEST.note));
    for (const [who, list] of entries(value.others)) each(list, (place, answer) => putOther(labelling.others, textIn(who), place, answer));
    const more = entries([value.more])[0] ?? [];
    labelling.more = [...new Set([...labelling.more, ...more.filter((line) => typeof line === "string")])];
    labelling.shown ||= value.shown === true;
    if (isPlace(value.at)) labelling.at = value.at;
  }

  /** The place of the first comparison without an answer, from one on and then from the first; -1: there is none. */
  function unanswered(labelling, count, from = 0) {
    for (let i = 0; i < count; i++) {
      const place = (from + i) % count;
      if (!labelling.own.has(place)) return place;
    }
    return -1;
  }

  return { CHOICES, LONGEST, empty, plain, rename, read, written, packed, unpackInto, unanswered };
})();
