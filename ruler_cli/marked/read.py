"""A group of a scored file → its marks, each field looked at before it is believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.chat import first_turn
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import number
from ruler_cli.marked.labels import LARGEST, label_of
from ruler_cli.marked.values import MarkedGroup, MarkedRollout, Status
from ruler_cli.records import Group, Record, Rollout, Usage

KINDS = ("reply", "transport", "refused", "too_long", "input", "budget", "interrupted")
"""Why a group has no scores, as ruler names it; anything else in a file is `unknown`."""
FLAGS = ("suspect", "degraded", "escalated", "windows", "shortened", "alone", "cached")
"""What may be said of a group, the weightiest first."""
_MOST_JUDGES = 8
_DIGITS = 9
"""Decimals of a score that count: a mean over passes in another order of addition is the same score."""

_Json = Mapping[str, Any]
_NOTHING: _Json = {}


class Marks:
    """Reads the marks of one scored file, group by group.

    `given`: labels stand where the user said, which the reader hands over as the outcome; else a label
    is the first original reward, or where there is none the outcome that the format knows.
    """

    def __init__(self, reader: Reader, *, given: bool = False) -> None:
        self._reader, self._given = reader, given
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})

    def group(self, group: Group) -> MarkedGroup:
        """One group; rollouts that are parts of one count once."""
        parts: dict[object, list[tuple[int, Rollout, _Json]]] = {}
        own: _Json = _NOTHING
        at = 0
        for record in group.records:
            value = self._value(record)
            for rollout in record.rollouts:
                mark = (self._reader.mark(value, rollout) if value else None) or _NOTHING
                name = at if rollout.member is None else ("member", rollout.member)
                parts.setdefault(name, []).append((at, rollout, mark))
                own = own or _object(mark.get("group"))
                at += 1
            if self._reader.format.shape == "group":
                own = own or _object(value.get("ruler"))
        return _group(group.key, tuple(self._rollout(found) for found in parts.values()), own)

    def _value(self, record: Record) -> dict[str, Any]:
        """The record as it stands; the groups of one columnar line share it."""
        if self._line[0] is not record.line.raw:
            try:
                self._line = (record.line.raw, parse(record.line.raw))
            except (RecursionError, UnreadableError):  # at the very depth that the reader could just read
                self._line = (record.line.raw, {})
        return self._line[1]

    def _rollout(self, parts: list[tuple[int, Rollout, _Json]]) -> MarkedRollout:
        _, rollout, mark = parts[0]
        score = _finite(mark.get("score")) if mark.get("status") == "scored" else None
        moved = _finite(mark.get("judge_score"))
        told = _object(mark.get("judges"))
        judges = {name: s for name, value in told.items() if (s := _finite(value)) is not None}
        status: Status = "unmarked" if "status" not in mark else "failed" if score is None else "scored"
        odd = status == "failed" and mark.get("status") == "scored"
        return MarkedRollout(
            at=tuple(at for at, _, _ in parts),
            rollout=rollout,
            status=status,
            score=score,
            judged=score if moved is None or score is None else moved,
            label=self._label([(part, one) for _, part, one in parts]),
            explanation=_text(mark.get("explanation")),
            spread=_finite(mark.get("spread")),
            slots=_slots(mark.get("slots")),
            judges=dict(list(judges.items())[:_MOST_JUDGES]),
            suspect=mark.get("suspect") is True,
            size=sum(len(_agent(part)) for _, part, _ in parts),
            kind=_kind(mark) if status == "failed" else "",
            reason="its score is no number" if odd else _text(mark.get("reason") or ""),
        )

    def _label(self, parts: list[tuple[Rollout, _Json]]) -> float | None:
        """The label of a rollout; of one in parts, the last that has one."""
        found = [self._raw_label(rollout, mark) for rollout, mark in parts]
        rewards = [reward for reward, _ in found if reward is not None]
        outcomes = [outcome for _, outcome in found if outcome is not None]
        return label_of((rewards or outcomes or [None])[-1])

    def _raw_label(self, rollout: Rollout, mark: _Json) -> tuple[Any, Any]:
        if self._given:
            return None, rollout.outcome
        reward = rollout.reward
        if mark and mark.get("independent_reward") is None:
            # the dump had no reward before ruler wrote its score there: a score is no label of itself
            score = _finite(mark.get("score"))
            reward = None if score is not None and number(reward) == score else reward
        return reward, rollout.outcome


def _group(key: str, rollouts: tuple[MarkedRollout, ...], own: _Json) -> MarkedGroup:
    failed = [r for r in rollouts if r.status == "failed"]
    scored = [r for r in rollouts if r.status == "scored"]
    status: Status = (
        "scored" if scored else "failed" if failed or own.get("status") == "failed" else "unmarked"
    )
    lost = status == "failed"
    first = failed[0] if failed else None
    told = own if own.get("kind") else {"kind": first.kind, "reason": first.reason} if first else _NOTHING
    return MarkedGroup(
        key=key,
        rollouts=rollouts,
        status=status,
        kind=_kind(told) if lost else "",
        reason=_text(told.get("reason")) if lost else "",
        judge=_text(own.get("judge")),
        passes=_whole(own.get("passes")),
        marked_tied=own["tied"] if isinstance(own.get("tied"), bool) else None,
        reliability=_finite(own.get("reliability")),
        weight=_finite(own.get("weight")),
        usage=_usage(_object(own.get("usage"))),
        cost=_at_least_0(own.get("cost_usd")),
        latency=_at_least_0(own.get("latency_s")),
        judged_at=_time(own.get("judged_at")),
        flags=tuple(_flags(rollouts, own)),
    )


def _flags(rollouts: tuple[MarkedRollout, ...], own: _Json) -> Iterable[str]:
    if any(r.suspect for r in rollouts):
        yield "suspect"
    yield from (name for name in ("degraded", "escalated", "windows", "shortened") if own.get(name))
    if len(rollouts) == 1:
        yield "alone"
    if own.get("cached") is True:
        yield "cached"


def _object(value: Any) -> _Json:
    return value if isinstance(value, Mapping) else _NOTHING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _kind(mark: _Json) -> str:
    kind = mark.get("kind")
    return kind if isinstance(kind, str) and kind in KINDS else "unknown"


def _finite(value: Any) -> float | None:
    """A number that stands as a number; neither a truth value nor text is a score."""
    found = number(value) if type(value) in (int, float) else None
    return None if found is None or abs(found) > LARGEST else round(found, _DIGITS)


def _at_least_0(value: Any) -> float | None:
    found = _finite(value)
    return found if found is not None and found >= 0 else None


def _whole(value: Any) -> int | None:
    found = _at_least_0(value)
    return int(found) if found is not None else None


def _slots(value: Any) -> tuple[float, ...]:
    """The places of a rollout; none where what stands there is no place."""
    if not isinstance(value, list):
        return ()
    found = [place for place in map(_finite, value) if place is not None and 0 <= place <= 1]
    return tuple(found) if len(found) == len(value) else ()


def _usage(value: _Json) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")
    return Usage(*(_whole(value.get(name)) or 0 for name in names))


def _time(value: Any) -> float | None:
    """`2026-11-21T02:14:05Z` as seconds since 1970."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _agent(rollout: Rollout) -> bytes:
    """What the agent did, as JSON; the prompt is the same for all of a group."""
    messages = rollout.messages
    try:
        return b"".join(dump(part) for part in (messages[first_turn(messages) :], *rollout.histories))
    except RecursionError:  # so deep that it can be read but not written
        return b""
