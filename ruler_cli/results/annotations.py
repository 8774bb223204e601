"""A group of a scored file → its marks, each field looked at before it is believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.chat import first_turn
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import number, passed
from ruler_cli.reading.parse import dump, parse
from ruler_cli.results.scored_groups import AnnotationStatus, LabelSource, ScoredGroup, ScoredRollout
from ruler_cli.types import Group, Record, Rollout, Usage

KINDS = ("reply", "transport", "refused", "too_long", "input", "budget", "interrupted")
"""Why a group has no scores, as ruler names it; anything else in a file is `unknown`."""
MOST_JUDGES = 8
"""Judges of a panel that are told apart; a file that names more in its marks is damaged or hostile."""
LARGEST = 1e50
"""Beyond it no number is a score or a label: products of several must stay finite."""
_DIGITS = 9
"""Decimals of a score that count: a mean over passes in another order of addition is the same score."""

_Json = Mapping[str, Any]
_NOTHING: _Json = {}
_Part = tuple[int, Rollout, _Json]
"""A part of a rollout: its place among all of the group's, and its mark."""


class AnnotationReader:
    """Reads the marks of one scored file, group by group.

    `given`: labels stand where the user said, which the reader hands over as the outcome; else a label
    is the first original reward, or where there is none the outcome that the format knows. Not `sized`:
    rollouts have the size 0, since to measure them is half of the work.
    """

    def __init__(self, reader: Reader, *, given: bool = False, sized: bool = True) -> None:
        self.reader, self._given, self._sized = reader, given, sized
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})

    def group(self, group: Group) -> ScoredGroup:
        """One group; rollouts that are parts of one count once."""
        parts: dict[object, list[_Part]] = {}
        own: _Json = _NOTHING
        at = 0
        for record in group.records:
            value = self.value(record)
            for rollout in record.rollouts:
                mark = (self.reader.mark(value, rollout) if value else None) or _NOTHING
                name = at if rollout.member is None else ("member", rollout.member)
                parts.setdefault(name, []).append((at, rollout, mark))
                own = own or _object(mark.get("group"))
                at += 1
            if self.reader.format.told_once:
                own = own or _object(value.get("ruler"))
        return _group(group.key, tuple(self._rollout(found) for found in parts.values()), own)

    def value(self, record: Record) -> dict[str, Any]:
        """The record as it stands; the groups of one columnar line share it.

        No number of a mark has more than 64 bits.
        """
        if self._line[0] is not record.line.raw:
            try:
                self._line = (record.line.raw, parse(record.line.raw, exact=False))
            except (RecursionError, UnreadableError):  # at the very depth that the reader could just read
                self._line = (record.line.raw, {})
        return self._line[1]

    def _rollout(self, parts: list[_Part]) -> ScoredRollout:
        mark = parts[0][2]
        said = mark.get("status")
        score = _finite(mark.get("score")) if said == "scored" else None
        status: AnnotationStatus = (
            "unmarked" if "status" not in mark else "failed" if score is None else "scored"
        )
        odd = ["score"] if status == "failed" and said == "scored" else []
        judged = score
        if score is not None and mark.get("judge_score") is not None:
            judged = _finite(mark["judge_score"])
            odd += ["judge_score"] if judged is None else []
        judges, more = _panel(mark.get("judges")) if said == "scored" else ({}, 0)
        label, label_source = self._label(parts)
        slots, pass_scores = _numbers(mark.get("slots")), _numbers(mark.get("pass_scores"))
        if not all(0 <= place <= 1 for place in slots):
            slots = ()
        lost = status == "failed"
        return ScoredRollout(
            at=tuple([at for at, _, _ in parts]),
            status=status,
            score=score,
            judged=judged,
            label=label,
            explanation=_text(mark.get("explanation")),
            spread=_finite(mark.get("spread"), 0),
            slots=slots,
            pass_scores=pass_scores if len(pass_scores) == len(slots) else (),
            judges=judges,
            suspect=mark.get("suspect") is True,
            size=sum([_size(part) for _, part, _ in parts]) if self._sized else 0,
            kind=_kind(mark) if lost else "",
            reason="" if not lost else "its score is no number" if odd else _text(mark.get("reason")),
            judge=_text(mark.get("judge")),
            label_source=label_source,
            odd=tuple(odd),
            more_judges=more,
        )

    def _label(self, parts: list[_Part]) -> tuple[float | None, LabelSource]:
        """The label of a rollout, and where it stands; of one in parts, the last that has one."""
        outcome: Any = None
        for _, rollout, mark in reversed(parts):
            reward = None if self._given else _first_reward(rollout, mark)
            if reward is not None:
                return label_of(reward), "reward"
            outcome = rollout.outcome if outcome is None else outcome
        return (None, "") if outcome is None else (label_of(outcome), "outcome")


def label_of(value: Any) -> float | None:
    """A label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None where it is neither: null, NaN, a number too large, an object without a reward.
    """
    found = number(value)
    if found is None:
        good = passed(value)
        return None if good is None else float(good)
    return None if abs(found) > LARGEST else found


def _first_reward(rollout: Rollout, mark: _Json) -> Any:
    """What the dump gave before ruler wrote its score there: a score is no label of itself."""
    if mark and mark.get("independent_reward") is None:
        score = _finite(mark.get("score"))
        return None if score is not None and number(rollout.reward) == score else rollout.reward
    return rollout.reward


def _group(key: str, rollouts: tuple[ScoredRollout, ...], own: _Json) -> ScoredGroup:
    first = next((r for r in rollouts if r.status == "failed"), None)
    status: AnnotationStatus = "failed" if first or own.get("status") == "failed" else "unmarked"
    status = "scored" if any(r.status == "scored" for r in rollouts) else status
    lost, cost = status == "failed", _finite(own.get("cost_usd"), 0)
    told = own if own.get("kind") or not first else {"kind": first.kind, "reason": first.reason}
    return ScoredGroup(
        key=key,
        rollouts=rollouts,
        status=status,
        kind=_kind(told) if lost else "",
        reason=_text(told.get("reason")) if lost else "",
        judge=_text(own.get("judge")),
        passes=_whole(own.get("passes")),
        annotated_tied=own["tied"] if isinstance(own.get("tied"), bool) else None,
        reliability=_finite(own.get("reliability"), 0, 1),
        weight=_finite(own.get("weight"), 0),
        usage=_usage(_object(own.get("usage"))),
        cost=cost,
        latency=_finite(own.get("latency_s"), 0),
        judged_at=_time(own.get("judged_at")),
        flags=tuple(_flags(rollouts, own)),
        odd=("cost_usd",) if cost is None and own.get("cost_usd") is not None else (),
    )


def _flags(rollouts: tuple[ScoredRollout, ...], own: _Json) -> Iterable[str]:
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


def _finite(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """A number that stands as a number, within bounds; neither a truth value nor text is a score."""
    if (type(value) is not float and type(value) is not int) or not -LARGEST <= value <= LARGEST:
        return None  # NaN is within no bounds
    found = round(float(value), _DIGITS)
    return found if least <= found <= most else None


def _whole(value: Any) -> int | None:
    found = _finite(value, 0)
    return None if found is None else int(found)


def _numbers(value: Any) -> tuple[float, ...]:
    """The numbers of a list; none where it holds anything else."""
    if type(value) is not list:
        return ()
    found = [one for one in map(_finite, value) if one is not None]
    return tuple(found) if len(found) == len(value) else ()


def _panel(value: Any) -> tuple[Mapping[str, float], int]:
    """The scores of the first few judges, of those that have one, and how many more there are."""
    if not isinstance(value, Mapping) or not value:
        return {}, 0
    first = ((name, _finite(score)) for name, score in islice(value.items(), MOST_JUDGES))
    judges = {name: score for name, score in first if score is not None}
    return judges, max(0, len(value) - MOST_JUDGES)


def _usage(value: _Json) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")
    return Usage(*(_whole(value.get(name)) or 0 for name in names))


def _time(value: Any) -> float | None:
    """`2026-11-21T02:14:05Z` as seconds since 1970; a time that names no zone is UTC.

    None for one that has no date in UTC: a zone can lead out of the calendar.
    """
    try:
        found = datetime.fromisoformat(value)
        seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)
        return seconds
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _size(rollout: Rollout) -> int:
    """Bytes of what the agent did, as JSON; the prompt is the same for all of a group."""
    messages = rollout.messages
    try:
        own = len(dump(messages[first_turn(messages) :]))
        return own + sum(map(len, map(dump, rollout.histories))) if rollout.histories else own
    except RecursionError:  # so deep that it can be read but not written
        return 0


def refuse_unannotated(name: str, groups: int, unmarked: int) -> None:
    """UsageError where no group of the file `name` has ever been scored."""
    if groups == unmarked:
        raise UsageError(
            f"{name}: no rollout has a mark of ruler; score it first, with "
            f"`ruler score {name} scored.jsonl`, and give what that writes"
        )
