"""Records of a scored file → groups with their annotations, as `record` has them."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.parse import dump, parse
from ruler_cli.formats.reader import Reader
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.results.record import (
    LARGEST,
    GroupRecord,
    Json,
    LabelSource,
    RolloutRecord,
    number_in,
    text_in,
)
from ruler_cli.scoring.rewards import number, passed
from ruler_cli.types import (
    Group,
    Record,
    Rollout,
)

_NOTHING: Json = {}
_Part = tuple[int, Rollout, Json]
"""A part of a rollout: its index among all rollouts of the group, and its annotation."""


class AnnotationReader:
    """Reads the annotations of one scored file, group by group.

    With `at_path`, labels stand at the user's path, and the format reader hands them over as the outcome.
    Else a label is the first original reward, or the outcome that the format knows. Without `sized`,
    rollouts have the size 0: to measure them is half of the work.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        at_path: bool = False,
        sized: bool = True,
    ) -> None:
        self.reader = reader
        self._at_path = at_path
        self._sized = sized
        self._line: tuple[bytes, Json] = (b"", {})

    def value(self, record: Record) -> Json:
        """Parse the line of a record; the groups of one columnar line share it.

        Numbers of more than 64 bits become floats.
        """
        raw = record.line.raw
        if self._line[0] is not raw:
            self._line = (raw, {})
            # nested as deeply as the reader could just read
            with suppress(RecursionError, UnreadableError):
                self._line = (raw, parse(raw, exact=False))
        return self._line[1]

    def group(self, group: Group) -> GroupRecord:
        """Read one group; parts of one rollout become one."""
        parts: dict[object, list[_Part]] = {}
        part = _NOTHING  # the group's own annotation
        judge = ""
        indices = count()
        for record in group.records:
            value = self.value(record)
            for rollout, index in zip(
                record.rollouts,
                indices,
                strict=False,
            ):
                values = self.reader.values(value, rollout)
                annotation = self.reader.previous_annotation(values) or _NOTHING
                name = index if rollout.member is None else rollout.member
                parts.setdefault(name, []).append((index, rollout, annotation))
                part = part or _object(annotation.get("group"))
                judge = judge or text_in(annotation.get("judge"))
            if self.reader.format.group_in_record:
                part = part or _object(value.get("ruler"))
        rollouts = tuple(map(self._rollout, parts.values()))
        return GroupRecord.read(
            part,
            group.key,
            judge,
            rollouts,
        )

    def _rollout(self, parts: list[_Part]) -> RolloutRecord:
        """Read a rollout; the annotation of its first part counts, and the end of the last one."""
        annotation = parts[0][2] | {"ended": parts[-1][2].get("ended")}
        label, label_source = self._label(parts)
        size = 0
        if self._sized:
            size = sum([_size(part) for _, part, _ in parts])
        return RolloutRecord.read(
            annotation,
            indices=tuple([index for index, _, _ in parts]),
            label=label,
            label_source=label_source,
            size=size,
        )

    def _label(self, parts: list[_Part]) -> tuple[float | None, LabelSource]:
        """Return the label of a rollout and its source; of several parts the last with a label counts.

        A reward that equals ruler's score is no label of itself.
        """
        outcome: Any = None
        for _, rollout, annotation in reversed(parts):
            reward = None if self._at_path else rollout.reward
            score = number_in(annotation.get("score"))
            ours = (
                score is not None
                and annotation.get("independent_reward") is None
            )
            if reward is not None and not (ours and number(reward) == score):
                return label_of(reward), "reward"
            outcome = rollout.outcome if outcome is None else outcome
        if outcome is None:
            return None, ""
        return label_of(outcome), "given" if self._at_path else "outcome"


def refuse_unannotated(
    name: str,
    groups: int,
    unmarked: int,
) -> None:
    """Raise UsageError if no group of the file `name` has ever been scored."""
    if groups == unmarked:
        raise UsageError(
            f"{name}: no rollout has an annotation of ruler; score it first: "
            f"`ruler score {name} scored.jsonl`"
        )


def label_of(value: Any) -> float | None:
    """Read a label as a number, as rewards are read, or 1 and 0 for words such as `passed` and `failed`.

    None for anything else: null, NaN, a number too large, an object without a reward.
    """
    label = number(value)
    if label is None:
        good = passed(value)
        return None if good is None else float(good)
    return label if abs(label) <= LARGEST else None


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else _NOTHING


def _size(rollout: Rollout) -> int:
    """Count the bytes of the agent's messages as JSON; the prompt is the same for all of a group."""
    agent_turns = rollout.messages[first_agent_turn(rollout.messages) :]
    try:
        return sum(
            [len(dump(part)) for part in (agent_turns, *rollout.histories)]
        )
    except RecursionError:  # so deep that it can be read but not written
        return 0
