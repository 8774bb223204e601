"""A scored file → its groups with their annotations; each field is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, get_args

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.location import Location
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.chat import first_agent_turn
from ruler_cli.formats.fields import number, passed, printable
from ruler_cli.formats.reader import Reader
from ruler_cli.results.figures import FiguresBuilder
from ruler_cli.results.scored_groups import (
    AnnotationStatus,
    LabelSource,
    ScoredGroup,
    ScoredRollout,
)
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Kind, Record, Rollout, Usage

FAILURE_KINDS = get_args(Kind)
"""The kinds of failures that ruler writes; anything else in a file is `unknown`."""
MOST_JUDGES = 12
"""Judges of a panel that are read; a file with more of them is damaged or hostile."""
LARGEST = 1e50
"""The largest score or label: products of several must stay finite."""
_DIGITS = 9
"""Decimals of a score that count: a mean over passes added in another order is the same score."""
_DIGEST = re.compile("[0-9a-f]{16}")

Wanted = Callable[[str], bool] | None
"""Tells if a group is wanted, by its key; None: all are."""
_Json = Mapping[str, Any]
_NOTHING: _Json = {}
_Part = tuple[int, Rollout, _Json]
"""A part of a rollout: its index among all rollouts of the group, and its annotation."""


class ScoredFile:
    """A scored file; its `figures` and their counts are complete once all groups were read."""

    def __init__(
        self, settings: InputSettings, stack: ExitStack, on_problem: OnProblem
    ) -> None:
        """UsageError if it holds no records; `on_problem` gets each record that cannot be read."""
        self._labels = settings.outcome
        self.source = settings.source
        self.name = Location(settings.source).shown
        self.input = open_input(settings, stack, on_problem)
        if self.input.reader is None:
            problem = f"{self.name}: holds no records"
            raise UsageError(f"{problem}; give a file that `ruler score` wrote")
        self._reader = AnnotationReader(
            self.input.reader, given=self._labels is not None
        )
        self.figures = FiguresBuilder()

    def groups(self, wanted: Wanted = None) -> Iterator[tuple[int, Group, ScoredGroup]]:
        """Yield each group with its number, from 1, and its annotations; or those with a `wanted` key.

        After all groups UsageError if none has an annotation, or none a label at the user's path.
        """
        for number_, group in enumerate(self.input.groups, 1):
            if wanted is None or wanted(group.key):
                scored = self._reader.group(group)
                self.figures.add(scored, group.rubric)
                yield number_, group, scored
        if wanted is None:
            self._refuse_unusable()

    def _refuse_unusable(self) -> None:
        groups, rollouts = self.figures.groups, self.figures.rollouts
        refuse_unannotated(self.name, groups["all"], groups["unmarked"])
        unusable = rollouts["unlabelled"] + rollouts["odd_labels"]
        if self._labels is not None and unusable == rollouts["all"]:
            raise UsageError(
                f"no rollout of {self.name} has a usable label there",
                "a label is a number, true or false, or a word such as passed",
                option="labels",
                value=printable(self._labels),
            )

    @property
    def warnings(self) -> list[str]:
        """Warn if every label equals its score: then the labels are probably ruler's own scores."""
        rollouts = self.figures.rollouts
        if not 1 < rollouts["own_labels"] == rollouts["scored"]:
            return []
        return [
            Sentence(
                "{labels:{path}}: every label of {name} equals its score; if ruler wrote it there, leave out "
                "{labels} to use the original rewards",
                path=printable(self._labels or ""),
                name=self.name,
            )
        ]


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
        self.reader = reader
        self._given = given
        self._sized = sized
        self._line: tuple[bytes, dict[str, Any]] = (b"", {})
        self._judges = set[str]()

    def group(self, group: Group) -> ScoredGroup:
        """Read one group; parts of one rollout become one."""
        parts: dict[object, list[_Part]] = {}
        group_part: _Json = _NOTHING
        index = 0
        for record in group.records:
            value = self.value(record)
            for rollout in record.rollouts:
                found = self.reader.previous_annotation(value, rollout) if value else {}
                annotation = found or _NOTHING
                name = index if rollout.member is None else ("member", rollout.member)
                parts.setdefault(name, []).append((index, rollout, annotation))
                group_part = group_part or _object(annotation.get("group"))
                index += 1
            if self.reader.format.group_in_record:
                group_part = group_part or _object(value.get("ruler"))
        rollouts = tuple(map(self._rollout, parts.values()))
        judges = (
            _text(one.get("judge")) for each in parts.values() for *_, one in each
        )
        return _group(group.key, rollouts, group_part, next(filter(None, judges), ""))

    def value(self, record: Record) -> dict[str, Any]:
        """Parse the line of a record; the groups of one columnar line share it.

        Numbers of more than 64 bits become floats.
        """
        raw = record.line.raw
        if self._line[0] is not raw:
            try:
                self._line = (raw, parse(raw, exact=False))
            # nested as deeply as the reader could just read
            except (RecursionError, UnreadableError):
                self._line = (raw, {})
        return self._line[1]

    def _rollout(self, parts: list[_Part]) -> ScoredRollout:
        annotation = parts[0][2]
        is_scored = annotation.get("status") == "scored"
        score = judge_score = _finite(annotation.get("score")) if is_scored else None
        if score is not None and annotation.get("judge_score") is not None:
            judge_score = _finite(annotation["judge_score"])
        odd_score = is_scored and judge_score is None
        status: AnnotationStatus = "failed" if score is None else "scored"
        if "status" not in annotation:
            status = "unmarked"
        failed = status == "failed"
        reason = "its score is no number" if odd_score else annotation.get("reason")
        positions = _numbers(annotation.get("slots"))
        if not all(0 <= position <= 1 for position in positions):
            positions = ()
        pass_scores = _numbers(annotation.get("pass_scores"))
        only = judge_score is not None and (round(judge_score, 3),) == pass_scores
        if only or len(pass_scores) != len(positions):
            pass_scores = ()  # a single one says no more than the score
        label, label_source = self._label(parts)
        judges, more_judges = self._panel(annotation.get("judges"))
        return ScoredRollout(
            indices=tuple([index for index, _, _ in parts]),
            status=status,
            score=score,
            judge_score=judge_score,
            label=label,
            explanation=_text(annotation.get("explanation")),
            spread=_amount(annotation.get("spread")),
            positions=positions,
            pass_scores=pass_scores,
            judges=judges if is_scored else {},
            suspect=annotation.get("suspect") is True,
            size=sum([_size(part) for _, part, _ in parts]) if self._sized else 0,
            kind=_kind(annotation) if failed else "",
            reason=_text(reason) if failed else "",
            label_source=label_source,
            odd_score=odd_score,
            more_judges=more_judges,
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
        if outcome is None:
            return None, ""
        return label_of(outcome), "given" if self._given else "outcome"

    def _panel(self, value: Any) -> tuple[Mapping[str, float], int]:
        """Return the scores of a panel's judges, and the number of judges beyond the first of the file."""
        if isinstance(value, Mapping):  # as the first schema has it
            pairs = [*value.items()]
        else:
            listed = [*filter(None, map(_object, value))] if type(value) is list else []
            pairs = [(_text(one.get("judge")), one.get("score")) for one in listed]
        judges, more = dict[str, float](), 0
        for name, score in pairs:
            if len(self._judges) < MOST_JUDGES:
                self._judges.add(name)
            if name not in self._judges:
                more += 1
            elif (known := _finite(score)) is not None:
                judges[name] = known
        return judges, more


def label_of(value: Any) -> float | None:
    """Read a label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None for anything else: null, NaN, a number too large, an object without a reward.
    """
    label = number(value)
    if label is None:
        good = passed(value)
        return None if good is None else float(good)
    return None if abs(label) > LARGEST else label


def _group(
    key: str, rollouts: tuple[ScoredRollout, ...], part: _Json, judge: str
) -> ScoredGroup:
    """Put a group together from its rollouts and its own part of the annotations."""
    failures = [r for r in rollouts if r.status == "failed"]
    status: AnnotationStatus = "unmarked"
    kind = reason = ""
    if any(r.status == "scored" for r in rollouts):
        status = "scored"
    elif failures or part.get("status") == "failed":
        status = "failed"
        kind, reason = _kind(part), _text(part.get("reason"))
        if failures and not part.get("kind"):
            kind, reason = failures[0].kind, failures[0].reason
    quality = part if status == "scored" else _NOTHING
    fields = {name: read(part.get(name)) for name, read in _OF_GROUP.items()}
    fields |= {name: read(quality.get(name)) for name, read in _OF_SCORED.items()}
    if fields["reliability"] is None and fields["weight"] == 1:
        fields["weight"] = None  # then it says nothing
    flags = {
        "suspect": any(r.suspect for r in rollouts),
        **{name: quality.get(name) for name in _FLAGS},
        "alone": len(rollouts) == 1,
        "cached": part.get("cached") is True,
    }
    return ScoredGroup(
        key=key,
        rollouts=rollouts,
        status=status,
        kind=kind,
        reason=reason,
        judge=_text(part.get("judge")) or judge,
        annotated_tied=quality.get("tied") is True,
        odd_cost=fields["cost_usd"] is None and part.get("cost_usd") is not None,
        flags=tuple([name for name, holds in flags.items() if holds]),
        **fields,
    )


def _object(value: Any) -> _Json:
    return value if isinstance(value, Mapping) else _NOTHING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _digest(value: Any) -> str:
    return value if _DIGEST.fullmatch(_text(value)) else ""


def _names(value: Any) -> tuple[str, ...]:
    """Return the texts among the first few of a list."""
    first = value[:MOST_JUDGES] if isinstance(value, list) else ()
    return tuple(filter(None, map(_text, first)))


def _kind(annotation: _Json) -> str:
    kind = _text(annotation.get("kind"))
    return kind if kind in FAILURE_KINDS else "unknown"


def _finite(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """Return a JSON number within bounds, else None; neither a truth value nor text is a score."""
    if type(value) not in (float, int) or not -LARGEST <= value <= LARGEST:
        return None  # NaN is within no bounds
    rounded = round(float(value), _DIGITS)
    return rounded if least <= rounded <= most else None


def _whole(value: Any) -> int | None:
    found = _finite(value, 0)
    return None if found is None else int(found)


def _numbers(value: Any) -> tuple[float, ...]:
    """Return the numbers of a list; none if it holds anything else."""
    numbers = [*map(_finite, value)] if type(value) is list else []
    known = [one for one in numbers if one is not None]
    return tuple(known) if len(known) == len(numbers) else ()


def _amount(value: Any) -> float | None:
    return _finite(value, 0)


def _share(value: Any) -> float | None:
    return _finite(value, 0, 1)


def _usage(value: Any) -> Usage:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "calls")
    return Usage(*(_whole(_object(value).get(name)) or 0 for name in names))


def _time(value: Any) -> float | None:
    """Read `2026-11-21T02:14:05Z` as seconds since 1970; a time without a zone is UTC.

    None if it has no date in UTC: a zone can lead out of the calendar.
    """
    try:
        time = datetime.fromisoformat(value)
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        datetime.fromtimestamp(seconds, UTC)
    except (
        TypeError,
        ValueError,
        OverflowError,
        OSError,
    ):  # OSError: out of the calendar
        return None
    return seconds


def _size(rollout: Rollout) -> int:
    """Count the bytes of the agent's messages as JSON; the prompt is the same for all of a group."""
    own = rollout.messages[first_agent_turn(rollout.messages) :]
    try:
        return sum([len(dump(part)) for part in (own, *rollout.histories)])
    except RecursionError:  # so deep that it can be read but not written
        return 0


_OF_GROUP: Mapping[str, Callable[[Any], Any]] = {
    "usage": _usage,
    "cost_usd": _amount,
    "latency_s": _amount,
    "judged_at": _time,
    "rubric": _digest,
    "params": _digest,
    "version": _text,
    "served": _names,
}
"""Fields of a group's part, and what reads each."""
_OF_SCORED: Mapping[str, Callable[[Any], Any]] = {
    "passes": _whole,
    "reliability": _share,
    "weight": _amount,
}
"""Those of a group that has scores."""
_FLAGS = ("degraded", "escalated", "windows", "shortened")
"""Fields of a group that has scores, and that are flags if they are true or not zero."""
