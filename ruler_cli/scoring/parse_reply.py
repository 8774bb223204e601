"""Reply text → a score for each label, or the defect by name. Never by position, clamped or padded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_KEY = "scores"
_END = "</think>"
_FENCE = r"```[\w-]*[ \t\r]*"
_FRACTION = r"([0-9]*\.?[0-9]+)\s*/\s*([0-9]*\.?[0-9]+)"
_PERCENT = r"([0-9]*\.?[0-9]+)\s*%"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_OPENED = re.compile(r'"scores"\s*:\s*\{')
_MEMBER = re.compile(r'[\s,]*"([^"\\]*)"\s*:\s*(?=\{)')
"""The beginning of an object of entries, and of a member of it; no id needs an escape."""
_CLEARLY_TEN = 2.0
"""Below this a best score above 1 is a slip on a scale to 1, not a scale to 10."""
_TRIES = 60
_HUGE = 10**9
_LONGEST = 1_000_000
"""Characters of a reply that are looked at, from its end; no verdict is longer."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object's members; a key that stands twice with two values has none."""
    out = dict(pairs)
    if len(out) == len(pairs):
        return out
    out.clear()
    for key, value in pairs:
        out[key] = value if key not in out or out[key] == value else None
    return out


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says: label → (score in [0, 1], explanation), and what had to be mended."""

    entries: dict[str, tuple[float, str]]
    rescaled: bool = False
    unknown: int = 0


class DefectError(Exception):
    """A reply cannot be used: the reason is half a sentence that a judge and a person understand."""


def read(text: str, labels: Sequence[str]) -> Reading:
    """Read a whole reply; DefectError unless it scores exactly the expected labels."""
    return _weigh(_find(text[-_LONGEST:]), labels)


def read_complete(text: str, labels: Sequence[str]) -> dict[str, tuple[float, str]]:
    """The entries of a reply that was cut off that are whole; none where any is doubtful."""
    body = _bare(text)
    at = -1 if "<think>" in body else max(0, body.rfind(f'"{_KEY}"'))
    keyed = _OPENED.match(body, at) if at >= 0 else None
    found = _members_from(body, keyed.end()) if keyed else _items_from(body, at)
    whole = [entry for entry in found if isinstance(entry, dict) and entry.get("trajectory_id") in labels]
    try:
        reading = _weigh(whole, list(dict.fromkeys(entry["trajectory_id"] for entry in whole)))
    except DefectError:
        return {}
    return {} if reading.rescaled else reading.entries


def _items_from(body: str, at: int) -> Iterator[Any]:
    """The objects of a list that may have no end."""
    at = body.find("[", at) if at >= 0 else -1
    while at >= 0 and (at := body.find("{", at)) >= 0:
        try:
            entry, at = _DECODER.raw_decode(body, at)
        except (ValueError, RecursionError):
            return
        yield entry


def _members_from(body: str, at: int) -> Iterator[Any]:
    """The members of an object that may have no end, as entries of the list."""
    while member := _MEMBER.match(body, at):
        try:
            value, at = _DECODER.raw_decode(body, member.end())
        except (ValueError, RecursionError):
            return
        yield _entry(member[1], value)


def _weigh(found: list[Any], labels: Sequence[str]) -> Reading:
    """The entries of a verdict, one for each label."""
    chosen: dict[str, tuple[Any, str]] = {}
    unknown = 0
    for entry in found:
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
        chosen[label] = (value, explanation if isinstance(explanation, str) else "")
    lost = len(labels) - len(chosen)
    if lost:
        raise DefectError(f"{lost} of {len(labels)} ids had no score")
    scores, rescaled = _numbers([value for value, _ in chosen.values()])
    return Reading(
        {label: (score, said) for (label, (_, said)), score in zip(chosen.items(), scores, strict=True)},
        rescaled,
        unknown,
    )


def _bare(text: str) -> str:
    """The text after the last `</think>`, without a fence around it."""
    return _unfenced(text[-_LONGEST:].rpartition(_END)[2])


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        head, _, rest = text.partition("\n")
        if rest and re.fullmatch(_FENCE, head):
            return rest[:-3].strip()
    return text


def _find(text: str) -> list[Any]:
    """The `scores` list of the whole answer, or of the last balanced object that holds one."""
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
    """An entry of the list, from a member of the object; its own id may not be another."""
    if not isinstance(value, dict) or value.get("trajectory_id", label) != label:
        return None
    return {**value, "trajectory_id": label}


def _wholes(text: str) -> Iterator[Any]:
    """The answer where it is JSON from its beginning, or from some `</think>` on, to its end.

    Thoughts and explanations may quote a `</think>`, so the last one need not end the thought.
    """
    at, tries = 0, 0
    while at >= 0 and tries < _TRIES:
        with suppress(ValueError, RecursionError):
            yield _DECODER.decode(_unfenced(text[at:]))
        tries += 1
        mark = text.find(_END, at)
        at = mark + len(_END) if mark >= 0 else -1


def _last_object(text: str) -> dict[str, Any] | None:
    """Try the braces left of each `"scores"`, from the last one on; bounded, for hostile text."""
    end, tries, read_so_far = len(text), 0, 0
    while tries < _TRIES and (key := text.rfind(f'"{_KEY}"', 0, end)) >= 0:
        brace = key
        while tries < _TRIES and (brace := text.rfind("{", 0, brace)) >= 0:
            tries += 1
            try:
                value, stop = _DECODER.raw_decode(text, brace)
            except json.JSONDecodeError as error:
                read_so_far += error.pos - brace
                if read_so_far > 4 * _LONGEST:
                    return None
                continue
            except (ValueError, RecursionError):
                continue
            if stop > key and isinstance(value, dict) and _KEY in value:
                return value
            break
        end = key
    return None


def _numbers(values: Iterable[Any]) -> tuple[list[float], bool]:
    """Scores in [0, 1]; bare numbers consistently on a scale to 10 are rescaled, else DefectError."""
    read_off = [_number(value) for value in values]
    bare: list[float] = []
    for value, (number, scaled) in zip(values, read_off, strict=True):
        if number is None or not math.isfinite(number):
            raise DefectError(f"a score was no number ({_show(value)})")
        if number < 0:
            raise DefectError(f"a score was negative ({_show(value)})")
        if number > (1 if scaled else 10):
            raise DefectError(f"a score was out of range ({_show(value)})")
        if not scaled:
            bare.append(number)
    if not any(number > 1 for number in bare):
        return [abs(number or 0.0) for number, _ in read_off], False  # abs: -0 is 0
    if max(bare) < _CLEARLY_TEN:
        raise DefectError(f"a score was out of range ({max(bare):g})")
    if any(0 < number < 1 for number in bare):
        raise DefectError("scores stood on mixed scales, some from 0 to 1 and some from 0 to 10")
    return [abs(n or 0.0) / (1 if scaled else 10) for n, scaled in read_off], True


def _number(value: Any) -> tuple[float | None, bool]:
    """A score as written → (number, whether it names its own scale): 0.8, "0.8", "8/10", "80%"."""
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
