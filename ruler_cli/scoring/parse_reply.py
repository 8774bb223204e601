"""Reply text → a score for each label, or the defect by name. Nothing is matched by position or clamped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from ruler_cli.types import readable_text

_KEY = "scores"
_END = "</think>"
_FENCE = r"```[\w-]*[ \t\r]*"
_PLAIN = r"[0-9]*\.?[0-9]+"
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"|({_PLAIN})\s*(?:%|/\s*({_PLAIN}))"
)
"""A number, or one that names its own scale: `80%` and `8/10`."""
_OPENED = re.compile(r'"scores"\s*:\s*\{')
_MEMBER = re.compile(r'[\s,]*"([^"\\]*)"\s*:\s*(?=\{)')
_ITEM = re.compile(r"[^{]*")
"""Beginnings of an object of entries, of a member of it, whose id needs no escape, and of an item of a list."""
_CLEARLY_TEN = 2.0
"""A best score between 1 and this is an error on a scale to 1; from here on the scale goes to 10."""
_NEAR = 1e-6 + 1e-12
"""Distance up to which a score is the bound of its scale: 1.0000001 is 1, and -0.0000001 is 0."""
_TRIES = 60
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
        members[key] = value if key not in members or members[key] == value else None
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


Entry = tuple[tuple[float, ...], str]
"""The numbers of a rollout, in [0, 1], and its explanation: its score alone, or the value of each criterion."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The entries of a reply, by label.

    `rescaled`: the scores went to 10; `unknown` counts the entries with an id that was not asked for.
    """

    entries: dict[str, Entry]
    rescaled: bool = False
    unknown: int = 0


class DefectError(Exception):
    """A reply that cannot be used; the message is half a sentence that a judge and a person understand."""


def parse(
    text: str, labels: Sequence[str], criteria: Collection[str] = ()
) -> ParsedReply:
    """Parse a whole reply; DefectError unless it scores exactly the expected labels, by exactly these criteria."""
    return _checked(_entries(text[-_LONGEST:]), labels, criteria)


def parse_complete(
    text: str, labels: Sequence[str], criteria: Collection[str] = ()
) -> dict[str, Entry]:
    """The complete entries of a reply that was cut off, by label; none if any of them is doubtful."""
    bare = _bare(text)
    if "<think>" in bare:
        return {}
    at = max(0, bare.rfind(f'"{_KEY}"'))
    opened = _OPENED.match(bare, at)
    at = opened.end() if opened else bare.find("[", at)
    entries = []
    with suppress(ValueError, RecursionError):  # at the entry that has no end
        while at >= 0 and (begin := (_MEMBER if opened else _ITEM).match(bare, at)):
            value, at = _DECODER.raw_decode(bare, begin.end())
            entries.append(_entry(begin[1], value) if opened else value)
    complete = [
        entry
        for entry in entries
        if isinstance(entry, dict) and entry.get("trajectory_id") in labels
    ]
    answered = dict.fromkeys(entry["trajectory_id"] for entry in complete)
    try:
        parsed = _checked(complete, list(answered), criteria)
    except DefectError:
        return {}
    if parsed.rescaled:
        return {}
    return parsed.entries


def _checked(
    entries: list[Any], labels: Sequence[str], criteria: Collection[str]
) -> ParsedReply:
    """The entries with numbers from 0 to 1; DefectError unless there is one for each label."""
    given: dict[str, list[Any]] = {}
    explanations: dict[str, str] = {}
    unknown = 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise DefectError("an entry of `scores` was no object")
        label = entry.get("trajectory_id")
        label = label.strip() if isinstance(label, str) else ""
        if label not in labels:
            unknown += 1
            continue
        numbers = _values(entry, criteria) if criteria else [entry.get("score")]
        before = given.setdefault(label, numbers)
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
    missing = len(labels) - len(given)
    if missing:
        raise DefectError(f"{missing} of {len(labels)} ids had no score")
    shares, rescaled = _shares([*chain.from_iterable(given.values())])
    left = iter(shares)
    scored = {
        label: (tuple(islice(left, len(numbers))), explanations[label])
        for label, numbers in given.items()
    }
    return ParsedReply(scored, rescaled, unknown)


def _values(entry: dict[str, Any], criteria: Collection[str]) -> list[Any]:
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


def _bare(text: str) -> str:
    """The text after the last `</think>`, without a fence around it."""
    return _unfenced(text[-_LONGEST:].rpartition(_END)[2])


def _unfenced(text: str) -> str:
    # some servers begin with a byte order mark
    text = text.strip().removeprefix("\ufeff").strip()
    if text.startswith("```") and text.endswith("```"):
        head, _, rest = text.partition("\n")
        if rest and re.fullmatch(_FENCE, head):
            return rest[:-3].strip()
    return text


def _entries(text: str) -> list[Any]:
    """The entries of `scores` in the whole answer, or in the last balanced object that has that key.

    An answer reaches from the beginning, or from behind a `</think>`, to the end of the text. Thoughts and
    explanations may quote a `</think>`, so the last one need not end the thought.
    """
    ends = (end.end() for end in re.finditer(_END, text))
    for at in chain((0,), islice(ends, _TRIES)):
        with suppress(ValueError, RecursionError):
            whole = _DECODER.decode(_unfenced(text[at:]))
            break
    else:
        bare = _bare(text)
        if not bare:
            raise DefectError("the answer was empty")
        whole = _last_object(bare)
    if isinstance(whole, dict):
        whole = whole.get(_KEY)
    if whole is None:
        raise DefectError("the answer held no JSON object with `scores`")
    if isinstance(whole, dict):
        return [_entry(label, value) for label, value in whole.items()]
    if not isinstance(whole, list):
        raise DefectError("`scores` was neither a list nor an object")
    return whole


def _entry(label: str, value: Any) -> Any:
    """An entry of the list from a member of an object; None if it has another id of its own."""
    if not isinstance(value, dict) or value.get("trajectory_id", label) != label:
        return None
    return {**value, "trajectory_id": label}


def _last_object(text: str) -> dict[str, Any] | None:
    """The last object that has `scores`: the braces before each such key are tried, the last key first.

    The number of tries and of parsed characters is bounded, since the text may be hostile.
    """
    end = len(text)
    tries = 0
    parsed = 0
    while tries < _TRIES and (key := text.rfind(f'"{_KEY}"', 0, end)) >= 0:
        brace = key
        while tries < _TRIES and (brace := text.rfind("{", 0, brace)) >= 0:
            tries += 1
            try:
                value, stop = _DECODER.raw_decode(text, brace)
            except json.JSONDecodeError as error:
                parsed += error.pos - brace
                if parsed > 4 * _LONGEST:
                    return None
                continue
            except (ValueError, RecursionError):
                continue
            if stop > key and isinstance(value, dict) and _KEY in value:
                return value
            break
        end = key
    return None


def _shares(values: Sequence[Any]) -> tuple[list[float], bool]:
    """Scores in [0, 1], and True if plain numbers on a scale to 10 were rescaled; else DefectError.

    A score next to a bound of its scale is that bound.
    """
    numbers = [_number(value) for value in values]
    for value, (number, scaled) in zip(values, numbers, strict=True):
        wrong = ""
        if not math.isfinite(number):
            wrong = "no number"
        elif number < -_NEAR:
            wrong = "negative"
        elif number > (1 if scaled else 10) + _NEAR:
            wrong = "out of range"
        if wrong:
            nested = isinstance(value, dict | list)
            shown = type(value).__name__ if nested else repr(value)[:40]
            raise DefectError(f"a score was {wrong} ({shown})")
    plain = [number for number, scaled in numbers if not scaled]
    best = max(plain, default=0.0)
    rescaled = best > 1 + _NEAR
    if rescaled and best < _CLEARLY_TEN:
        raise DefectError(f"a score was out of range ({best:g})")
    if rescaled and any(_NEAR < number < 1 for number in plain):
        mixed = "scores stood on mixed scales, some from 0 to 1 and some from 0 to 10"
        raise DefectError(mixed)
    shares = []
    for number, scaled in numbers:
        top = 10 if rescaled and not scaled else 1
        within = 1.0 if number >= top - _NEAR else number / top
        shares.append(0.0 if number <= _NEAR else within)
    return shares, rescaled


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
