"""Reply text → a score for each label, or the defect by name. Nothing is matched by position or clamped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, NamedTuple

from ruler_cli.types import readable_text

_KEY = "scores"
SCALE = "the scale goes from 0 to 1"
"""The words by which a defect names the scale."""
_MARK = re.compile(
    r"""
    (?P<close>
        </(?:\w+:)?(?i:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad)\s*>
        | \[/THINK\] | ◁/think▷ | <\|END_THINKING\|> | <\|end_of_thought\|> | <channel\|>
        | (?:<\|channel\|>\s*|\bassistant)final\b(?:[^{[]{0,60}?<\|message\|>)?
    )
    | (?P<open>
        <(?:\w+:)?(?i:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad)\b[^<>]{0,60}>
        | \[THINK\] | ◁think▷ | <\|START_THINKING\|> | <\|begin_of_thought\|> | <\|channel\|?> | \Aanalysis(?=[A-Z])
    )
    | \{\s*" | \[\s*\{\s*"
    """,
    re.VERBOSE,
)
"""Ends and beginnings of thoughts, of many models and of gpt-oss' channels, and of JSON that may be a verdict."""
_QUOTES = {'"', "'", "`", "“", "”"}
_EDGE = re.compile(r"(?:[\s\ufeff{}\[\]*`]++|<\|\w++\|>)*+")
"""Text around a verdict that says nothing: blanks, fences, markers of a template, a doubled brace."""
_FENCE = re.compile(r"```[\w-]*\s*\Z")
_HEADING = re.compile(
    r"[^.!?。\n]{0,80}[:\uff1a*]\s*|.*```[\w-]*\s*", re.DOTALL
)
"""Text before a verdict that is no thought: a line such as `Here it is:`, or any text before a fence."""
_DRAFT = re.compile(
    r"\b(?:draft|maybe|perhaps|tentative(?:ly)?|suppose|let me try|(?:first|initial) (?:idea|guess|try|pass|thought))\b"
    r"[^\n]*\s*(?:```[\w-]*\s*)?\Z",
    re.IGNORECASE,
)
"""The line before scores that are not meant to last."""
_TAKES_BACK = re.compile(
    r"scores?[\"'`]?\s*[:=]|\b(?:wait|hmm+|second thoughts?|re-?(?:consider|think|vis)\w*|draft|correct(?:ion|ed)"
    r"|(?:too|so) (?:high|low|much|generous|harsh)|final (?:answer|scores?|verdict)|(?:on|upon) reflection"
    r"|moment mal|warte|entwurf|zu (?:hoch|niedrig)|attend\w*|en fait|espera|de hecho|подожди\w*|исправ\w*)\b"
    r"|\bno[,.;:!]|等等|等一下|不对|重新|应该|草稿|修正|待って|やはり|訂正|잠깐|다시",
    re.IGNORECASE,
)
"""Words behind scores that do not last."""
_DOUBTS = re.compile(
    r"\b(?:instead|actually|lower|higher|less|more|needs?|but|however|should|must|not)\b",
    re.IGNORECASE,
)
"""Words that are no farewell."""
_DECIMAL = re.compile(r"(?<![\d.])[01]?\.\d+(?!\.?\d)")
"""A number that may be a score."""
_ENDS = (*sorted(_QUOTES), *".!?…。\uff01\uff1f)}]*")
"""Ends of a text that does not break off."""
_FAREWELL = 80
"""Characters behind a verdict that may stand there whatever stands before it: `I hope this helps.`"""
_NAMED = re.compile(r"scores[\"'`]\s*:")
_TOKEN = re.compile(
    r"""
    "(?:[^"\\]|\\.)*" | (?P<single>'(?:[^'\\]|\\.)*') | (?P<odd>["'])
    | (?P<drop>
        (?://|\#)[^\n"'\d{}[\]]{0,200}?(?P<comma>,?)[ \t]*(?=\n|\Z)
        | /\*[^"'\d{}[\]]{0,200}?\*/
        | ,(?=\s*[\]}])
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Strings, and what may be left out: a comment without numbers, quotes and brackets, a comma behind the last item."""
_ESCAPE = re.compile(
    r"""\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\?(?P<mark>['"\\])"""
)
"""An escape of JSON, or a character that needs one; Python escapes the single quote, too."""
_INVISIBLE = re.compile(
    r"[\u200b-\u200f\u2060-\u2064\ufeff]|\\u(?:200[b-f]|206[0-4]|feff)", re.I
)
_PLAIN = r"[0-9]*\.?[0-9]+"
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|({_PLAIN})\s*(?:%|/\s*({_PLAIN}))"
)
"""A number, or one that names its own scale: `80%` and `8/10`."""
"""Beginnings of an object of entries, of a member of it, whose id needs no escape, and of an item of a list."""
_NEAR = 1e-6 + 1e-12
"""Distance up to which a score is the bound of its scale: 1.0000001 is 1, and -0.0000001 is 0."""
_TRIES = 2000
"""Beginnings of JSON, and tags of thoughts, that are looked at."""
_HUGE = 10**9
_WIDEST = 40
"""Characters of the longest number in a string."""
_LONGEST = 1_000_000
"""Characters of a reply that are parsed, from its end; no answer is longer."""
_MENDABLE = 200_000
"""Characters of a reply that is mended: its event loop waits meanwhile."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; the value of a key that has two different ones is None."""
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    members.clear()
    for key, value in pairs:
        members[key] = (
            value if key not in members or members[key] == value else None
        )
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)
_LENIENT = json.JSONDecoder(object_pairs_hook=_members, strict=False)
"""One that takes line breaks in strings."""


Entry = tuple[tuple[float, ...], str]
"""The numbers of a rollout, in [0, 1], and its explanation: its score alone, or the value of each criterion."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The entries of a reply, by label.

    `bounds`: all numbers that do not name their scale are 0 or 1; `mended`: the text was no JSON of the form asked
    for; `unknown` counts the entries with an id that was not asked for.
    """

    entries: dict[str, Entry]
    bounds: bool = False
    mended: bool = False
    unknown: int = 0


class DefectError(Exception):
    """A reply that cannot be used; the message is half a sentence that a judge and a person understand."""


class CutOffError(DefectError):
    """A reply that ends inside a thought."""


class ScaleError(DefectError):
    """A reply with a score outside the scale."""


_Json = tuple[int, int, Any]
"""Begin and end of a JSON value in a text, and the value."""


class _Answer(NamedTuple):
    """The text behind the last closed thought: its beginning, the whole JSON in it, and where other JSON begins.

    `opened`: a thought begins in it.
    """

    begin: int
    values: list[_Json]
    broken: list[int]
    opened: bool


def parse(
    text: str,
    labels: Sequence[str],
    criteria: Collection[str] = (),
    *,
    whole: bool = False,
) -> ParsedReply:
    """Parse a whole reply; DefectError unless it scores exactly the expected labels, by exactly these criteria.

    `whole`: text before and behind the JSON is a defect, too, and nothing is mended.
    """
    text = text[-_LONGEST:]
    answer = _answer(text)
    if answer.opened:
        raise CutOffError("the answer ended inside a thought")
    try:
        return _verdict(text, answer, labels, criteria, whole=whole)
    except ScaleError:
        raise
    except DefectError as defect:
        if whole or len(_NAMED.findall(text)) > 1 or len(text) > _MENDABLE:
            raise
        try:
            mended, value = _mended(text[answer.begin :])
            answer = _Answer(0, [value], [], opened=False)
            return replace(
                _verdict(mended, answer, labels, criteria), mended=True
            )
        except ScaleError:
            raise
        except (DefectError, ValueError, RecursionError):
            raise defect from None


def _answer(text: str) -> _Answer:
    """Read a text to its end: a tag inside JSON is text that it quotes. DefectError if it holds too much.

    Where JSON breaks, reading goes on behind the break, so that nothing inside of it is taken for whole.
    """
    begin = at = 0
    opened = False
    values: list[_Json] = []
    broken: list[int] = []
    for _ in range(_TRIES):
        mark = _MARK.search(text, at)
        if mark is None:
            return _Answer(begin, values, broken, opened)
        start, at = mark.span()
        if mark["close"] or mark["open"]:
            if {text[start - 1 : start], text[at : at + 1]} <= _QUOTES:
                continue
            opened = mark["close"] is None
            if not opened:
                begin, values, broken = at, [], []
            continue
        try:
            value, at = _DECODER.raw_decode(text, start)
            values.append((start, at, value))
        except json.JSONDecodeError as error:
            at = max(at, error.pos)
            broken.append(start)
        except (ValueError, RecursionError):
            broken.append(start)
    raise DefectError("the answer held no JSON object with `scores`")


def _verdict(
    text: str,
    answer: _Answer,
    labels: Sequence[str],
    criteria: Collection[str],
    *,
    whole: bool = False,
) -> ParsedReply:
    """Read the last verdict of an answer; DefectError if the text around it says that it may be a draft."""
    listed = []
    for start, end, value in answer.values:
        bare = start < min(answer.broken, default=end)
        entries, mended, rest = _listed(value, labels, bare=bare)
        if entries is not None:
            listed.append((start, end, entries, mended, rest))
    if not listed:
        empty = not text[answer.begin :].strip()
        lacks = "was empty" if empty else "held no JSON object with `scores`"
        raise DefectError(f"the answer {lacks}")
    # behind its own verdict a judge may quote that of a rollout, which has other ids
    asked_for = [
        candidate
        for candidate in listed
        if not _labels(candidate[2]).isdisjoint(labels)
    ]
    start, end, entries, mended, rest = (asked_for or listed)[-1]
    parsed = _checked(entries, labels, criteria)
    before = text[answer.begin : start]
    after = words = text[end:]
    for later, past, _ in answer.values:
        if later >= end:
            words = words.replace(text[later:past], "")
    opening = _EDGE.fullmatch(_FENCE.sub("", before))
    closing = _EDGE.fullmatch(words)
    short = len(words) <= _FAREWELL and not _DOUBTS.search(words)
    farewell = (
        (opening or _HEADING.fullmatch(before) or short)
        and words.rstrip().endswith(_ENDS)
        and not _TAKES_BACK.search(words)
    )
    after += rest
    more = re.search(r"\d", after) and any(label in after for label in labels)
    numbers = chain.from_iterable(
        asked_for for asked_for, _ in parsed.entries.values()
    )
    more = more or not {*map(float, _DECIMAL.findall(words))} <= {*numbers}
    draft = more or _DRAFT.search(before) or not (closing or farewell)
    if draft or (whole and not (opening and closing)):
        raise DefectError(
            "text around its scores may take them back: give them alone"
        )
    return replace(parsed, mended=mended)


def _listed(
    value: Any,
    labels: Sequence[str],
    *,
    bare: bool,
) -> tuple[Any, bool, str]:
    """Return what a JSON value has for entries, None if nothing; True if its form is not the one asked for; the rest.

    `bare`: a list or a map of the ids may stand alone, without `scores` around it. The rest are the members behind
    the entries, as text.
    """
    nothing = None, False, ""
    alone = bare and isinstance(value, dict) and value.keys() == {*labels}
    rest = ""
    if isinstance(value, dict) and not alone:
        names = [
            name
            for name, member in value.items()
            if name == _KEY or (isinstance(member, dict) and _KEY in member)
        ]
        if not names:
            return nothing
        name = _KEY if _KEY in names else names[-1]
        rest = str([*value.items()][[*value].index(name) + 1 :])
        value = value[name] if name == _KEY else value[name][_KEY]
    elif not bare:
        return nothing
    if isinstance(value, list) or not isinstance(value, dict):
        return value, False, rest
    plain = any(isinstance(item, int | float | str) for item in value.values())
    return (
        [_entry(label, item) for label, item in value.items()],
        alone or plain,
        rest,
    )


def _mended(text: str) -> tuple[str, _Json]:
    """Return a text without what nobody sees, and the one JSON value in it, with slips mended; else ValueError.

    A slip is a line break, an escape or a quote that JSON does not know, a comment, a comma too many. None of them
    holds a number, so no number can change, move or go.
    """
    text = _INVISIBLE.sub("", text)
    end = max(text.rfind("}"), text.rfind("]")) + 1
    start = min(text.find(mark) % (end + 1) for mark in "{[")
    area = text[start:end]
    single = "'" in area.partition('"')[0]

    def token(match: re.Match[str]) -> str:
        if match["odd"] or (match["single"] and not single):
            raise ValueError
        if match["drop"]:
            return match["comma"] or ""
        return f'"{_ESCAPE.sub(_escaped, match[0][1:-1])}"'

    # a comma too many may stand before a comment
    area = _TOKEN.sub(token, _TOKEN.sub(token, area))
    return text, (start, end, _LENIENT.decode(area))


def _escaped(match: re.Match[str]) -> str:
    mark = match["mark"]
    if mark is None:
        return match[0]
    return mark if mark == "'" else f"\\{mark}"


def _checked(
    entries: Any,
    labels: Sequence[str],
    criteria: Collection[str],
) -> ParsedReply:
    """The entries with numbers from 0 to 1; DefectError unless there is one for each label."""
    if not isinstance(entries, list):
        raise DefectError("`scores` was neither a list nor an object")
    numbers_by_label: dict[str, list[Any]] = {}
    explanations: dict[str, str] = {}
    unknown = 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise DefectError("an entry of `scores` was no object")
        label = _label(entry)
        if label not in labels:
            unknown += 1
            continue
        numbers = _values(entry, criteria) if criteria else [entry.get("score")]
        before = numbers_by_label.setdefault(label, numbers)
        # NaN differs from itself
        if before is not numbers and [*map(_number, before)] != [
            *map(_number, numbers)
        ]:
            raise DefectError(
                f"one id had two different {'values' if criteria else 'scores'}"
            )
        explanation = entry.get("explanation")
        text = explanation if isinstance(explanation, str) else ""
        explanations[label] = readable_text(text)
    missing = len(labels) - len(numbers_by_label)
    if missing:
        raise DefectError(f"{missing} of {len(labels)} ids had no score")
    shares, bounds = _shares([*chain.from_iterable(numbers_by_label.values())])
    left = iter(shares)
    scored = {
        label: (tuple(islice(left, len(numbers))), explanations[label])
        for label, numbers in numbers_by_label.items()
    }
    return ParsedReply(scored, bounds, unknown=unknown)


def _values(
    entry: dict[str, Any],
    criteria: Collection[str],
) -> list[Any]:
    """The values of an entry in the order of the criteria; DefectError unless exactly these have one."""
    values = entry.get("criteria")
    if not isinstance(values, dict):
        raise DefectError("an entry had no object `criteria`")
    if values.keys() != {*criteria}:
        absent = len({*criteria} - values.keys())
        more = len(values.keys() - {*criteria})
        wrong = [f"lacked {absent} of {len(criteria)} ids"] if absent else []
        wrong += [f"had {more} unknown ids"] if more else []
        raise DefectError(f"`criteria` {' and '.join(wrong)}")
    return [values[name] for name in criteria]


def _label(entry: Any) -> str:
    """The id of an entry, "" without one."""
    label = entry.get("trajectory_id") if isinstance(entry, dict) else None
    return label.strip() if isinstance(label, str) else ""


def _labels(entries: Any) -> set[str]:
    return {*map(_label, entries)} if isinstance(entries, list) else set()


def _entry(label: str, value: Any) -> Any:
    """An entry of the list from a member of an object; None if it has another id of its own."""
    if isinstance(value, int | float | str):
        value = {"score": value}
    if (
        not isinstance(value, dict)
        or value.get("trajectory_id", label) != label
    ):
        return None
    return {**value, "trajectory_id": label}


def _shares(values: Sequence[Any]) -> tuple[list[float], bool]:
    """Scores in [0, 1], and True if all that do not name their scale, at least one, are 0 or 1; else DefectError.

    A score next to a bound of its scale is that bound.
    """
    numbers = [_number(value) for value in values]
    shares = []
    for value, (number, scaled) in zip(values, numbers, strict=True):
        nested = isinstance(value, dict | list)
        shown = type(value).__name__ if nested else repr(value)[:40]
        if not math.isfinite(number):
            raise DefectError(f"a score was no number ({shown})")
        if not -_NEAR <= number <= 1 + _NEAR:
            error = DefectError if scaled else ScaleError
            raise error(f"a score was out of range ({shown}): {SCALE}")
        # next to a bound, a score is that
        near = round(number)
        shares.append(float(near) if abs(number - near) <= _NEAR else number)
    plain = {
        share
        for share, (_, scaled) in zip(shares, numbers, strict=True)
        if not scaled
    }
    return shares, bool(plain) and plain <= {0.0, 1.0}


def _number(value: Any) -> tuple[float, bool]:
    """A score as written, 0.8, "0.8", "8/10" or "80%" → (number, True if it names its own scale).

    NaN if it is no number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (float(value) if abs(value) < _HUGE else math.inf), False
    text = value.strip() if isinstance(value, str) else ""
    match = _NUMBER.fullmatch(text) if len(text) <= _WIDEST else None
    if match is None:
        return math.nan, False
    if match[1]:
        return float(match[1]), False
    whole = float(match[3] or 100)
    return (float(match[2]) / whole if whole else math.nan), True
