"""A scored file → its groups with their annotations; each field is checked before it is used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.chat import first_agent_turn
from ruler_cli.formats.interface import printable
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.rewards import number, passed
from ruler_cli.results.scored_groups import (
    AnnotationStatus,
    LabelSource,
    ScoredGroup,
    ScoredRollout,
)
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Record, Rollout, Usage

FAILURE_KINDS = (
    "reply",
    "transport",
    "refused",
    "too_long",
    "input",
    "budget",
    "interrupted",
)
"""The kinds of failures that ruler writes; anything else in a file is `unknown`."""
MOST_JUDGES = 8
"""Judges of a panel that are read; a file with more of them is damaged or hostile."""
LARGEST = 1e50
"""The largest score or label: products of several must stay finite."""
_DIGITS = 9
"""Decimals of a score that count: a mean over passes added in another order is the same score."""

_DIGEST = re.compile("[0-9a-f]{16}")
_Json = Mapping[str, Any]
_NOTHING: _Json = {}
_Part = tuple[int, Rollout, _Json]
"""A part of a rollout: its index among all rollouts of the group, and its annotation."""


class ScoredFile:
    """A scored file; `counts` and `judges` are complete once all groups were read.

    `counts` holds the numbers of `groups` and of `rollouts`, and of rollouts:
    - `scored`, `failed`, `unmarked`
    - `odd_scores`: annotated as scored, but the score is no finite number
    - `moved`: a reward or an outcome moved the score away from the judges' own
    - `unlabelled`; `odd_labels`: the label is no number
    - `outcomes`: without a reward, labelled by a verifier or a person
    - `own_labels`: the label at the user's path equals the score

    `odd_costs` counts groups, `more_judges` the scores of judges beyond the first few.
    """

    def __init__(
        self, settings: InputSettings, stack: ExitStack, on_problem: OnProblem
    ) -> None:
        """UsageError if it holds no records; `on_problem` gets each record that cannot be read."""
        self._labels, self.source = settings.outcome, settings.source
        self.name = Location(settings.source).shown
        self.input = open_input(settings, stack, on_problem)
        if self.input.reader is None:
            raise UsageError(
                f"{self.name}: holds no records; give a file that `ruler score` wrote"
            )
        self.read_group = AnnotationReader(
            self.input.reader, given=settings.outcome is not None
        ).group
        self.counts: Counter[str] = Counter()
        self.judges: dict[str, None] = {}
        self._panel: set[str] = set()

    def groups(self) -> Iterator[tuple[Group, ScoredGroup]]:
        """Yield each group with its annotations.

        At the end UsageError if no group has any, or if no rollout has a label at the user's path.
        """
        unmarked, counts = 0, self.counts
        for group in self.input.groups:
            scored_group = self.read_group(group)
            counts["groups"] += 1
            counts["odd_costs"] += "cost_usd" in scored_group.invalid_fields
            unmarked += scored_group.status == "unmarked"
            for rollout in scored_group.rollouts:
                self._count(rollout)
            yield group, scored_group
        refuse_unannotated(self.name, counts["groups"], unmarked)
        unlabelled = counts["unlabelled"] + counts["odd_labels"]
        if self._labels is not None and unlabelled == counts["rollouts"]:
            problem = f"no rollout of {self.name} has a label there that can be used"
            remedy = "a label is a number, a truth value, or a word such as passed"
            raise UsageError(
                problem, remedy, option="labels", value=printable(self._labels)
            )

    def _count(self, rollout: ScoredRollout) -> None:
        counts, given = self.counts, self._labels is not None
        counts["rollouts"] += 1
        if rollout.judge_score is None:
            counts["odd_scores" if rollout.invalid_fields else rollout.status] += 1
        else:
            counts["scored"] += 1
            counts["moved"] += rollout.judge_score != rollout.score
            if rollout.judge and len(self.judges) < MOST_JUDGES:
                self.judges[rollout.judge] = None
        if rollout.label is None:
            counts["odd_labels" if rollout.label_source else "unlabelled"] += 1
        counts["outcomes"] += not given and rollout.label_source == "outcome"
        counts["own_labels"] += (
            given and rollout.label is not None and rollout.label == rollout.score
        )
        counts["more_judges"] += rollout.more_judges
        for name in rollout.judges:
            if len(self._panel) < MOST_JUDGES:
                self._panel.add(name)
            counts["more_judges"] += name not in self._panel

    @property
    def warning(self) -> str | None:
        """Warn if every label equals its score: then the labels are probably ruler's own scores."""
        if not 1 < self.counts["own_labels"] == self.counts["scored"]:
            return None
        return Sentence(
            "{labels:{path}}: every label equals its rollout's score; if ruler wrote it there, leave {labels} "
            "out to use the original rewards",
            path=printable(self._labels or ""),
        )


def refuse_unannotated(name: str, groups: int, unmarked: int) -> None:
    """Raise UsageError if no group of the file `name` has ever been scored."""
    if groups == unmarked:
        raise UsageError(
            f"{name}: no rollout has an annotation of ruler; score it first: "
            f"`ruler score {name} scored.jsonl`"
        )


class AnnotationReader:
    """Reads the annotations of one scored file, group by group.

    With `given`, labels stand at the user's path, and the format reader hands them over as the outcome.
    Else a label is the first original reward, or the outcome that the format knows. Without `sized`,
    rollouts have the size 0: to measure them is half of the work.
    """

    def __init__(
        self, reader: Reader, *, given: bool = False, sized: bool = True
    ) -> None:
        self.reader, self._given, self._sized = reader, given, sized
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})

    def group(self, group: Group) -> ScoredGroup:
        """Read one group; parts of one rollout become one."""
        parts: dict[object, list[_Part]] = {}
        group_part: _Json = _NOTHING
        index = 0
        for record in group.records:
            value = self.value(record)
            for rollout in record.rollouts:
                annotation = (
                    self.reader.previous_annotation(value, rollout) if value else None
                ) or _NOTHING
                name = index if rollout.member is None else ("member", rollout.member)
                parts.setdefault(name, []).append((index, rollout, annotation))
                group_part = group_part or _object(annotation.get("group"))
                index += 1
            if self.reader.format.group_in_record:
                group_part = group_part or _object(value.get("ruler"))
        return _group(
            group.key, tuple(self._rollout(one) for one in parts.values()), group_part
        )

    def value(self, record: Record) -> dict[str, Any]:
        """Parse the line of a record; the groups of one columnar line share it.

        Numbers of more than 64 bits become floats.
        """
        if self._line[0] is not record.line.raw:
            try:
                self._line = (record.line.raw, parse(record.line.raw, exact=False))
            except (
                RecursionError,
                UnreadableError,
            ):  # nested as deeply as the reader could just read
                self._line = (record.line.raw, {})
        return self._line[1]

    def _rollout(self, parts: list[_Part]) -> ScoredRollout:
        annotation = parts[0][2]
        is_scored = annotation.get("status") == "scored"
        score = judge_score = _finite(annotation.get("score")) if is_scored else None
        status: AnnotationStatus = "failed" if score is None else "scored"
        if "status" not in annotation:
            status = "unmarked"
        failed = status == "failed"
        invalid = ("score",) if failed and is_scored else ()
        if score is not None and annotation.get("judge_score") is not None:
            judge_score = _finite(annotation["judge_score"])
            invalid = ("judge_score",) if judge_score is None else ()
        judges, more = _panel(annotation.get("judges")) if is_scored else ({}, 0)
        label, label_source = self._label(parts)
        positions = _numbers(annotation.get("slots"))
        if not all(0 <= position <= 1 for position in positions):
            positions = ()
        pass_scores = _numbers(annotation.get("pass_scores"))
        if (
            len(pass_scores) == 1
            and judge_score is not None
            and round(judge_score, 3) == pass_scores[0]
        ):
            pass_scores = ()  # it says no more than the score
        reason = (
            "its score is no number" if invalid else _text(annotation.get("reason"))
        )
        return ScoredRollout(
            indices=tuple([index for index, _, _ in parts]),
            status=status,
            score=score,
            judge_score=judge_score,
            label=label,
            explanation=_text(annotation.get("explanation")),
            spread=_finite(annotation.get("spread"), 0),
            positions=positions,
            pass_scores=pass_scores if len(pass_scores) == len(positions) else (),
            judges=judges,
            suspect=annotation.get("suspect") is True,
            size=sum([_size(part) for _, part, _ in parts]) if self._sized else 0,
            kind=_kind(annotation) if failed else "",
            reason=reason if failed else "",
            judge=_text(annotation.get("judge")),
            label_source=label_source,
            invalid_fields=invalid,
            more_judges=more,
        )

    def _label(self, parts: list[_Part]) -> tuple[float | None, LabelSource]:
        """Return the label of a rollout and its source; of several parts the last with a label counts.

        A reward that equals ruler's score is no label of itself.
        """
        outcome: Any = None
        for _, rollout, annotation in reversed(parts):
            reward = None if self._given else rollout.reward
            score = _finite(annotation.get("score"))
            own = score is not None and annotation.get("independent_reward") is None
            if reward is not None and not (own and number(reward) == score):
                return label_of(reward), "reward"
            outcome = rollout.outcome if outcome is None else outcome
        return (None, "") if outcome is None else (label_of(outcome), "outcome")


def label_of(value: Any) -> float | None:
    """Read a label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None for anything else: null, NaN, a number too large, an object without a reward.
    """
    label = number(value)
    if label is None:
        good = passed(value)
        return None if good is None else float(good)
    return None if abs(label) > LARGEST else label


def _group(key: str, rollouts: tuple[ScoredRollout, ...], part: _Json) -> ScoredGroup:
    """Put a group together from its rollouts and its own part of the annotations."""
    first = next((r for r in rollouts if r.status == "failed"), None)
    status: AnnotationStatus = (
        "failed" if first or part.get("status") == "failed" else "unmarked"
    )
    status = "scored" if any(r.status == "scored" for r in rollouts) else status
    failed, cost = status == "failed", _finite(part.get("cost_usd"), 0)
    quality = part if status == "scored" else _NOTHING
    reliability, weight = (
        _finite(quality.get("reliability"), 0, 1),
        _finite(quality.get("weight"), 0),
    )
    failure = (
        part
        if part.get("kind") or not first
        else {"kind": first.kind, "reason": first.reason}
    )
    flags = {
        "suspect": any(r.suspect for r in rollouts),
        **{
            name: quality.get(name)
            for name in ("degraded", "escalated", "windows", "shortened")
        },
        "alone": len(rollouts) == 1,
        "cached": part.get("cached") is True,
    }
    return ScoredGroup(
        key=key,
        rollouts=rollouts,
        status=status,
        kind=_kind(failure) if failed else "",
        reason=_text(failure.get("reason")) if failed else "",
        judge=_text(part.get("judge")),
        passes=_whole(quality.get("passes")),
        annotated_tied=quality["tied"]
        if isinstance(quality.get("tied"), bool)
        else None,
        reliability=reliability,
        weight=None
        if reliability is None and weight == 1
        else weight,  # then it says nothing
        usage=_usage(_object(part.get("usage"))),
        cost=cost,
        latency=_finite(part.get("latency_s"), 0),
        judged_at=_time(part.get("judged_at")),
        rubric=_digest(part.get("rubric")),
        params=_digest(part.get("params")),
        version=_text(part.get("version")),
        served=_names(part.get("served")),
        flags=tuple([name for name, holds in flags.items() if holds]),
        invalid_fields=("cost_usd",)
        if cost is None and part.get("cost_usd") is not None
        else (),
    )


def _object(value: Any) -> _Json:
    return value if isinstance(value, Mapping) else _NOTHING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _digest(value: Any) -> str:
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else ""


def _names(value: Any) -> tuple[str, ...]:
    """Return the texts among the first few of a list."""
    first = value[:MOST_JUDGES] if isinstance(value, list) else ()
    return tuple([name for name in first if isinstance(name, str) and name])


def _kind(annotation: _Json) -> str:
    kind = annotation.get("kind")
    return kind if isinstance(kind, str) and kind in FAILURE_KINDS else "unknown"


def _finite(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """Return a JSON number within bounds, else None; neither a truth value nor text is a score."""
    if (
        type(value) is not float and type(value) is not int
    ) or not -LARGEST <= value <= LARGEST:
        return None  # NaN is within no bounds
    rounded = round(float(value), _DIGITS)
    return rounded if least <= rounded <= most else None


def _whole(value: Any) -> int | None:
    found = _finite(value, 0)
    return None if found is None else int(found)


def _numbers(value: Any) -> tuple[float, ...]:
    """Return the numbers of a list; none if it holds anything else."""
    if type(value) is not list:
        return ()
    numbers = [one for one in map(_finite, value) if one is not None]
    return tuple(numbers) if len(numbers) == len(value) else ()


def _panel(value: Any) -> tuple[Mapping[str, float], int]:
    """Return the scores of the first few judges that have one, and the number of judges beyond them."""
    pairs = (
        list(value.items()) if isinstance(value, Mapping) else []
    )  # as the first schema has it
    if isinstance(value, list):
        pairs = [
            (_text(one.get("judge")), one.get("score"))
            for one in value
            if isinstance(one, Mapping)
        ]
    first = ((name, _finite(score)) for name, score in pairs[:MOST_JUDGES])
    judges = {name: score for name, score in first if score is not None}
    return judges, max(0, len(pairs) - MOST_JUDGES)


def _usage(value: _Json) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")
    return Usage(*(_whole(value.get(name)) or 0 for name in names))


def _time(value: Any) -> float | None:
    """Read `2026-11-21T02:14:05Z` as seconds since 1970; a time without a zone is UTC.

    None if it has no date in UTC: a zone can lead out of the calendar.
    """
    try:
        time = datetime.fromisoformat(value)
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)
        return seconds
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _size(rollout: Rollout) -> int:
    """Count the bytes of the agent's messages as JSON; the prompt is the same for all of a group."""
    messages = rollout.messages
    try:
        own = len(dump(messages[first_agent_turn(messages) :]))
        return (
            own + sum(map(len, map(dump, rollout.histories)))
            if rollout.histories
            else own
        )
    except RecursionError:  # so deep that it can be read but not written
        return 0
