"""A truth in the text of each rollout, and the law that its score lands on that rollout and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.simulated import truth
from ruler_cli.errors import RulerError, UnreadableError
from ruler_cli.files.parse import first_records, parse
from ruler_cli.files.values import lookup
from ruler_cli.formats.paths import rollout_object
from ruler_cli.formats.reader import Reader, detect
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Line, Rollout
from tests.values import render

_TRUTH = re.compile(r"truth=([0-9]{0,3}\.[0-9]{1,17}|[0-9]{1,3})")
EXACT = {"persistent": 0, "slot": 0, "noise": 0, "level": 0}
"""Parameters with which the simulated judge gives the true scores."""


def plant(records: Sequence[bytes]) -> list[bytes]:
    """Records with a truth, a multiple of 0.05 of its own, in a text of each rollout."""
    result = _reader(records)
    out, drawn = [], 0
    for number, raw in enumerate(records, 1):
        try:
            value = parse(raw)
            rollouts = sorted(
                (
                    r
                    for part in result.read(Line(number, 0, raw))
                    for r in part.rollouts
                )
                if result
                else (),
                key=lambda r: [(str(type(p)), p) for p in r.path],
            )
        except (UnreadableError, RecursionError):
            out.append(raw)
            continue
        taken: set[tuple[Any, ...]] = set()
        for rollout in rollouts:
            drawn += 8
            _plant(value, rollout, f" truth={drawn % 21 * 5 / 100}", taken)
        out.append(json.dumps(value).encode() if taken else raw)
    return out


def _plant(
    value: Any, rollout: Rollout, stated: str, taken: set[tuple[Any, ...]]
) -> None:
    """Put a text behind the last own message that stands in the record, as it is or in JSON text."""
    for message in reversed(rollout.messages):
        text = message.get("content")
        if (
            not isinstance(text, str)
            or not text
            or message.get("role") in ("user", "system")
        ):
            continue
        quoted, leaves = (
            json.dumps(text)[1:-1],
            [pair for pair in _texts(value) if pair[0] not in taken],
        )
        result = next(
            ((p, text, stated, "") for p, leaf in leaves if leaf == text), None
        )
        for path, leaf in leaves if result is None else ():
            head, there, tail = leaf.rpartition(quoted)
            if there and leaf[:1] in "[{":
                result = (path, head + quoted, stated, tail)
        if result is not None:
            path, *parts = result
            taken.add(path)
            _holder(value, path)[path[-1]] = "".join(parts)
            return


def misplaced(
    records: Sequence[bytes], written: Sequence[bytes]
) -> Iterator[str]:
    """Each rollout of `written` whose score is not the truth that it states."""
    result = _reader(records)
    parts: dict[str, list[tuple[float, float]]] = {}
    stated: dict[str, set[float]] = {}
    for number, raw in enumerate(written, 1):
        try:
            value = parse(raw)
            rollouts = (
                [
                    r
                    for part in result.read(Line(number, 0, raw))
                    for r in part.rollouts
                ]
                if result
                else []
            )
        except (UnreadableError, RecursionError):
            continue
        for rollout in rollouts:
            if rollout.member is not None:
                stated.setdefault(rollout.member, set()).update(
                    _stated(rollout)
                )
            pair = _pair(value, rollout, result) if result else None
            if pair is None:
                continue
            if rollout.member is not None:
                parts.setdefault(rollout.member, []).append(pair)
            elif abs(pair[0] - pair[1]) > 1e-9:
                yield f"record {number} {rollout.path}: score {pair[1]}, truth {pair[0]}"
    for member, pairs in parts.items():
        if {score for _, score in pairs} - stated[member]:
            yield f"{member}: parts of one rollout have {pairs}"


def _stated(rollout: Rollout) -> set[float]:
    """Every truth in a rollout: of several parts the last shown part counts."""
    shown = "\n".join(
        line
        for part in (rollout.messages, *rollout.histories)
        for line in render(part)
    )
    return {
        round(float(number) * 20) / 20
        for number in re.findall(r"truth=([0-9.]*[0-9])", shown)
    }


def _pair(
    value: Any, rollout: Rollout, result: Reader
) -> tuple[float, float] | None:
    """A rollout's truth and its score; None if it states no truth or has no score."""
    if rollout.error is not None or not rollout.messages:
        return None
    own = rollout.messages[
        first_agent_turn(rollout.messages) :
    ]  # earlier messages may be the context of all rollouts
    shown = "\n".join(
        line for part in (own, *rollout.histories) for line in render(part)
    )
    if not _TRUTH.search(shown):  # a truth that was damaged is none
        return None
    layout = result.format
    if layout.listed:
        notes = value.get("ruler")
        notes = notes.get("rollouts") if isinstance(notes, dict) else notes
        annotation = (
            notes[int(rollout.path[-1])] if isinstance(notes, list) else None
        )
    else:
        annotation = lookup(rollout_object(value, rollout), layout.ruler)
    score = annotation.get("score") if isinstance(annotation, dict) else None
    return None if score is None else (round(truth(shown) * 20) / 20, score)


def _reader(records: Sequence[bytes]) -> Reader | None:
    """The reader of most of these records; None if none reads any."""
    lines = [Line(i, 0, raw) for i, raw in enumerate(records[:50], 1)]
    try:
        return detect("in", first_records("in", lines), InputSettings("in"))
    except (RulerError, RecursionError):
        return None


def _texts(
    value: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], str]]:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        if isinstance(item, str):
            yield (*path, key), item
        else:
            yield from _texts(item, (*path, key))


def _holder(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path[:-1]:
        value = value[part]
    return value
