"""Reply text → a score for each label, or the defect by name. Nothing is matched by position or clamped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
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
"""Ends and beginnings of thoughts, of many models and of gpt-oss' channels, and of JSON that may hold the scores."""
_QUOTES = {'"', "'", "`", "“", "”"}
_EDGE = re.compile(r"(?:[\s\ufeff{}\[\]*`]++|<\|\w++\|>)*+")
"""Text around the scores that means nothing: blanks, fences, markers of a template, a doubled brace."""
_FENCE = re.compile(r"```[\w-]*\s*\Z")
_HEADING = re.compile(
    r"[^.!?。\n]{0,80}[:\uff1a*]\s*|.*```[\w-]*\s*", re.DOTALL
)
"""Text before the scores that is not a thought: a line such as `Here it is:`, or any text before a fence."""
_DRAFT = re.compile(
    r"\b(?:draft|maybe|perhaps|tentative(?:ly)?|suppose|let me try|(?:first|initial) (?:idea|guess|try|pass|thought))\b"
    r"[^\n]*\s*(?:```[\w-]*\s*)?\Z",
    re.IGNORECASE,
)
"""A line before scores that are a draft."""
_TAKES_BACK = re.compile(
    r"scores?[\"'`]?\s*[:=]|\b(?:wait|hmm+|second thoughts?|re-?(?:consider|think|vis)\w*|draft|correct(?:ion|ed)"
    r"|(?:too|so) (?:high|low|much|generous|harsh)|final (?:answer|scores?|verdict)|(?:on|upon) reflection"
    r"|moment mal|warte|entwurf|zu (?:hoch|niedrig)|attend\w*|en fait|espera|de hecho|подожди\w*|исправ\w*)\b"
    r"|\bno[,.;:!]|等等|等一下|不对|重新|应该|草稿|修正|待って|やはり|訂正|잠깐|다시",
    re.IGNORECASE,
)
"""Words behind scores that take them back."""
_DOUBTS = re.compile(
    r"\b(?:instead|actually|lower|higher|less|more|needs?|but|however|should|must|not)\b",
    re.IGNORECASE,
)
"""Words that are more than a closing phrase."""
_DECIMAL = re.compile(r"(?<![\d.])[01]?\.\d+(?!\.?\d)")
"""A number that may be a score."""
_ENDS = (*sorted(_QUOTES), *".!?…。\uff01\uff1f)}]*")
"""Endings of a text that is complete."""
_FAREWELL = 80
"""Characters of harmless text behind the scores: `I hope this helps.`"""
_NAMED = re.compile(r"scores[\"'`]\s*:")
_EXTRA_COMMA = re.compile(
    r'"(?>(?:[^"\\]|\\.)*)(?:"|\Z)|(,)(?=\s{0,99}[\]}])', re.DOTALL
)
"""A string, or a comma behind the last item."""
_PLAIN = r"[0-9]*\.?[0-9]+"
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|({_PLAIN})\s*(?:%|/\s*({_PLAIN}))"
)
"""A number, or one that names its own scale: `80%` and `8/10`."""
_NEAR = 1e-6 + 1e-12
"""Distance up to which a score is the bound of its scale: 1.0000001 is 1, and -0.0000001 is 0."""
_TRIES = 2000
"""Beginnings of JSON, and tags of thoughts, that are looked at."""
_HUGE = 10**9
_WIDEST = 40
"""Characters of the longest number in a string."""
_LONGEST = 1_000_000
"""Characters of a reply that are parsed, from its end; no answer is longer."""


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


# judges write line breaks in strings
_DECODER = json.JSONDecoder(object_pairs_hook=_members, strict=False)


Entry = tuple[tuple[float, ...], str]
"""The numbers of a rollout, in [0, 1], and its explanation: its score alone, or the value of each criterion."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The entries of a reply, by label.

    `bounds`: all numbers that do not name their scale are 0 or 1; `mended`: commas too many were left out; `unknown`
    counts the entries with an id that was not asked for.
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
    """The text behind the last closed thought: its beginning, the whole JSON in it, and where other JSON begins."""

    begin: int
    values: list[_Json]
    broken: list[int]


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
    try:
        return _final_scores(
            text,
            labels,
            criteria,
            whole=whole,
        )
    except (CutOffError, ScaleError):
        raise
    except DefectError:
        mended = _EXTRA_COMMA.sub(_without_comma, text)
        if whole or mended == text or len(_NAMED.findall(text)) > 1:
            raise
        parsed = _final_scores(
            mended,
            labels,
            criteria,
        )
        return replace(parsed, mended=True)


def _without_comma(match: re.Match[str]) -> str:
    return "" if match[1] else match[0]


def _answer(text: str) -> _Answer:
    """Read a text to its end: a tag inside JSON is text that it quotes. DefectError if it holds too much.

    CutOffError if it ends inside a thought. Where JSON breaks, reading goes on behind the break, so that nothing
    inside of it is taken for whole.
    """
    begin = at = 0
    opened = False
    values: list[_Json] = []
    broken: list[int] = []
    for _ in range(_TRIES):
        mark = _MARK.search(text, at)
        if mark is None and opened:
            raise CutOffError("the answer ended inside a thought")
        if mark is None:
            return _Answer(
                begin,
                values,
                broken,
            )
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


def _final_scores(
    text: str,
    labels: Sequence[str],
    criteria: Collection[str],
    *,
    whole: bool = False,
) -> ParsedReply:
    """Read the last scores of a text; DefectError if the text around them says that they may be a draft."""
    answer = _answer(text)
    listed = []
    for start, end, value in answer.values:
        bare = start < min(answer.broken, default=end)
        entries, rest = _listed(
            value,
            labels,
            bare=bare,
        )
        if entries is not None:
            listed.append((start, end, entries, rest))
    if not listed:
        empty = not text[answer.begin :].strip()
        lacks = "was empty" if empty else "held no JSON object with `scores`"
        raise DefectError(f"the answer {lacks}")
    # behind its own scores a judge may quote those of a rollout, which have other ids
    asked_for = [
        candidate
        for candidate in listed
        if not _labels(candidate[2]).isdisjoint(labels)
    ]
    start, end, entries, rest = (asked_for or listed)[-1]
    parsed = _checked(
        entries,
        labels,
        criteria,
    )
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
    numbers = set[float]()
    for scores, _ in parsed.entries.values():
        numbers.update(scores)
    more = re.search(r"\d", after) and any(label in after for label in labels)
    more = more or not numbers.issuperset(map(float, _DECIMAL.findall(words)))
    draft = more or _DRAFT.search(before) or not (closing or farewell)
    if draft or (whole and not (opening and closing)):
        raise DefectError(
            "text around its scores may take them back: give them alone"
        )
    return parsed


def _listed(
    value: Any,
    labels: Sequence[str],
    *,
    bare: bool,
) -> tuple[Any, str]:
    """Return what a JSON value has for entries, None if nothing, and the members behind the entries, as text.

    `bare`: a list or a map of the ids may stand alone, without `scores` around it.
    """
    alone = bare and isinstance(value, dict) and value.keys() == {*labels}
    rest = ""
    if isinstance(value, dict) and not alone:
        names = [
            name
            for name, member in value.items()
            if name == _KEY or (isinstance(member, dict) and _KEY in member)
        ]
        if not names:
            return None, ""
        name = _KEY if _KEY in names else names[-1]
        rest = str([*value.items()][[*value].index(name) + 1 :])
        value = value[name] if name == _KEY else value[name][_KEY]
    elif not bare:
        return None, ""
    if isinstance(value, dict):
        value = [_entry(label, item) for label, item in value.items()]
    return value, rest


def _checked(
    entries: Any,
    labels: Sequence[str],
    criteria: Collection[str],
) -> ParsedReply:
    """The entries with numbers from 0 to 1; DefectError unless there is one for each label."""
    if not isinstance(entries, list):
        raise DefectError("`scores` was neither a list nor an object")
    numbers_by_label: dict[str, list[tuple[float, bool]]] = {}
    explanations = {}
    unknown = 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise DefectError("an entry of `scores` was no object")
        label = _label(entry)
        if label not in labels:
            unknown += 1
            continue
        values = _values(entry, criteria) if criteria else [entry.get("score")]
        numbers = [_share(value) for value in values]
        if numbers_by_label.setdefault(label, numbers) != numbers:
            raise DefectError("one id had two different scores")
        explanation = entry.get("explanation")
        text = explanation if isinstance(explanation, str) else ""
        explanations[label] = readable_text(text)
    missing = len(labels) - len(numbers_by_label)
    if missing:
        raise DefectError(f"{missing} of {len(labels)} ids had no score")
    scored = {}
    plain = set()
    for label, numbers in numbers_by_label.items():
        shares = tuple([share for share, _ in numbers])
        scored[label] = (shares, explanations[label])
        plain.update([share for share, scaled in numbers if not scaled])
    bounds = bool(plain) and plain <= {0.0, 1.0}
    return ParsedReply(
        scored,
        bounds,
        unknown=unknown,
    )


def _values(entry: dict[str, Any], criteria: Collection[str]) -> list[Any]:
    """The values of an entry in the order of the criteria; DefectError unless exactly these have one."""
    values = entry.get("criteria")
    if not isinstance(values, dict):
        raise DefectError("an entry had no object `criteria`")
    if values.keys() != {*criteria}:
        right = len({*criteria} & values.keys())
        others = len(values) - right
        raise DefectError(
            f"`criteria` had {right} of {len(criteria)} ids, and {others} others"
        )
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


def _share(value: Any) -> tuple[float, bool]:
    """Return a score in [0, 1], and True if it names its own scale; else DefectError.

    A score next to a bound of its scale is that bound.
    """
    number, scaled = _number(value)
    nested = isinstance(value, dict | list)
    shown = type(value).__name__ if nested else repr(value)[:40]
    if not math.isfinite(number):
        raise DefectError(f"a score was no number ({shown})")
    if not -_NEAR <= number <= 1 + _NEAR:
        error = DefectError if scaled else ScaleError
        raise error(f"a score was out of range ({shown}): {SCALE}")
    near = round(number)
    is_bound = abs(number - near) <= _NEAR
    return (float(near) if is_bound else number), scaled


def _number(value: Any) -> tuple[float, bool]:
    """A score as written, 0.8, "0.8", "8/10" or "80%" → (number, True if it names its own scale).

    NaN if it is not a number.
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
