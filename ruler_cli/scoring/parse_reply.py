"""Reply text → a score for each label, or the defect by name. Nothing is matched by position or clamped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ruler_cli.types import readable_text

_KEY = "scores"
_END = "</think>"
_FENCE = r"```[\w-]*[ \t\r]*"
_FRACTION = r"([0-9]*\.?[0-9]+)\s*/\s*([0-9]*\.?[0-9]+)"
_PERCENT = r"([0-9]*\.?[0-9]+)\s*%"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_OPENED = re.compile(r'"scores"\s*:\s*\{')
_MEMBER = re.compile(r'[\s,]*"([^"\\]*)"\s*:\s*(?=\{)')
"""Beginnings of an object of entries and of a member of it; no id needs an escape."""
_CLEARLY_TEN = 2.0
"""A best score between 1 and this is an error on a scale to 1; from here on the scale goes to 10."""
_NEAR = 1e-6 + 1e-12
"""Distance up to which a score is the bound of its scale: 1.0000001 is 1, and -0.0000001 is 0."""
_TRIES = 60
_HUGE = 10**9
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


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The entries of a reply: label → (score in [0, 1], explanation).

    `rescaled`: the scores went to 10; `unknown` counts the entries with an id that was not asked for.
    """

    entries: dict[str, tuple[float, str]]
    rescaled: bool = False
    unknown: int = 0


class DefectError(Exception):
    """A reply that cannot be used; the message is half a sentence that a judge and a person understand."""


def parse(text: str, labels: Sequence[str]) -> ParsedReply:
    """Parse a whole reply; DefectError unless it scores exactly the expected labels."""
    return _checked(_entries(text[-_LONGEST:]), labels)


def parse_complete(text: str, labels: Sequence[str]) -> dict[str, tuple[float, str]]:
    """The complete entries of a reply that was cut off, by label; none if any of them is doubtful."""
    bare = _bare(text)
    at = -1 if "<think>" in bare else max(0, bare.rfind(f'"{_KEY}"'))
    keyed = _OPENED.match(bare, at) if at >= 0 else None
    entries = _members_from(bare, keyed.end()) if keyed else _items_from(bare, at)
    complete = [
        one
        for one in entries
        if isinstance(one, dict) and one.get("trajectory_id") in labels
    ]
    try:
        parsed = _checked(
            complete, list(dict.fromkeys(one["trajectory_id"] for one in complete))
        )
    except DefectError:
        return {}
    return {} if parsed.rescaled else parsed.entries


def _items_from(text: str, at: int) -> Iterator[Any]:
    """The objects of a list that may have no end."""
    at = text.find("[", at) if at >= 0 else -1
    while at >= 0 and (at := text.find("{", at)) >= 0:
        try:
            entry, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield entry


def _members_from(text: str, at: int) -> Iterator[Any]:
    """The members of an object that may have no end, as entries of a list."""
    while member := _MEMBER.match(text, at):
        try:
            value, at = _DECODER.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            return
        yield _entry(member[1], value)


def _checked(entries: list[Any], labels: Sequence[str]) -> ParsedReply:
    """The entries with scores from 0 to 1; DefectError unless there is one for each label."""
    chosen: dict[str, tuple[Any, str]] = {}
    unknown = 0
    for entry in entries:
        if not isinstance(entry, dict):
            raise DefectError("an entry of `scores` was no object")
        label = entry.get("trajectory_id")
        label = label.strip() if isinstance(label, str) else ""
        if label not in labels:
            unknown += 1
            continue
        value, explanation = entry.get("score"), entry.get("explanation")
        if label in chosen and _number(chosen[label][0]) != _number(value):
            raise DefectError("one id had two different scores")
        chosen[label] = (
            value,
            readable_text(explanation) if isinstance(explanation, str) else "",
        )
    missing = len(labels) - len(chosen)
    if missing:
        raise DefectError(f"{missing} of {len(labels)} ids had no score")
    scores, rescaled = _scores([value for value, _ in chosen.values()])
    return ParsedReply(
        {
            label: (score, text)
            for (label, (_, text)), score in zip(chosen.items(), scores, strict=True)
        },
        rescaled,
        unknown,
    )


def _bare(text: str) -> str:
    """The text after the last `</think>`, without a fence around it."""
    return _unfenced(text[-_LONGEST:].rpartition(_END)[2])


def _unfenced(text: str) -> str:
    text = (
        text.strip().removeprefix("\ufeff").strip()
    )  # some servers begin with a byte order mark
    if text.startswith("```") and text.endswith("```"):
        head, _, rest = text.partition("\n")
        if rest and re.fullmatch(_FENCE, head):
            return rest[:-3].strip()
    return text


def _entries(text: str) -> list[Any]:
    """The entries of `scores` in the whole answer, or in the last balanced object that has that key."""
    bare = _bare(text)
    if not bare:
        raise DefectError("the answer was empty")
    whole = next(_wholes(text), None)
    if whole is None:
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


def _wholes(text: str) -> Iterator[Any]:
    """The JSON values that reach from the beginning, or from behind a `</think>`, to the end of the text.

    Thoughts and explanations may quote a `</think>`, so the last one need not end the thought.
    """
    at, tries = 0, 0
    while at >= 0 and tries < _TRIES:
        with suppress(ValueError, RecursionError):
            yield _DECODER.decode(_unfenced(text[at:]))
        tries += 1
        end = text.find(_END, at)
        at = end + len(_END) if end >= 0 else -1


def _last_object(text: str) -> dict[str, Any] | None:
    """The last object that has `scores`: the braces before each such key are tried, the last key first.

    The number of tries and of parsed characters is bounded, since the text may be hostile.
    """
    end, tries, parsed = len(text), 0, 0
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


def _scores(values: Iterable[Any]) -> tuple[list[float], bool]:
    """Scores in [0, 1], and True if plain numbers on a scale to 10 were rescaled; else DefectError."""
    numbers = [_number(value) for value in values]
    bare: list[float] = []
    for value, (number, scaled) in zip(values, numbers, strict=True):
        if number is None or not math.isfinite(number):
            raise DefectError(f"a score was no number ({_show(value)})")
        if number < -_NEAR:
            raise DefectError(f"a score was negative ({_show(value)})")
        if number > (1 if scaled else 10) + _NEAR:
            raise DefectError(f"a score was out of range ({_show(value)})")
        if not scaled:
            bare.append(number)
    if not any(number > 1 + _NEAR for number in bare):
        return [_share(number, 1) for number, _ in numbers], False
    if max(bare) < _CLEARLY_TEN:
        raise DefectError(f"a score was out of range ({max(bare):g})")
    if any(_NEAR < number < 1 for number in bare):
        raise DefectError(
            "scores stood on mixed scales, some from 0 to 1 and some from 0 to 10"
        )
    return [_share(number, 1 if scaled else 10) for number, scaled in numbers], True


def _share(number: float | None, top: int) -> float:
    """The score in [0, 1] of a number on a scale to `top`; next to a bound it is that bound."""
    if number is None or number <= _NEAR:
        return 0.0
    return 1.0 if number >= top - _NEAR else number / top


def _number(value: Any) -> tuple[float | None, bool]:
    """A score as written, 0.8, "0.8", "8/10" or "80%" → (number, True if it names its own scale)."""
    if isinstance(value, bool):
        return None, False
    if isinstance(value, int | float):
        return (float(value) if abs(value) < _HUGE else math.inf), False
    if not isinstance(value, str):
        return None, False
    text = value.strip()
    if len(text) > 40:
        return None, False
    if fraction := re.fullmatch(_FRACTION, text):
        whole = float(fraction[2])
        return (float(fraction[1]) / whole if whole else None), True
    if percent := re.fullmatch(_PERCENT, text):
        return float(percent[1]) / 100, True
    return (float(text) if re.fullmatch(_NUMBER, text) else None), False


def _show(value: Any) -> str:
    return type(value).__name__ if isinstance(value, dict | list) else repr(value)[:40]
