"""INPUT → counts of all its records, and a sample of its groups for an estimate.

Building the layouts of a gigabyte takes minutes. So a large input is sampled: each sampled group stands for
others with as many rollouts and about as many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ruler_cli.files.scratch import place
from ruler_cli.formats.fields import number
from ruler_cli.formats.reader import SAMPLE
from ruler_cli.runs.input import Input
from ruler_cli.settings.rubric import scale_mistake
from ruler_cli.types import Group, Problem, Record

SMALL = 64 << 20
"""Largest input, in bytes, of which every group is used."""
_SAMPLE, _SAMPLE_BYTES = (32, 128), 6 << 20
"""Smallest and largest sample of a large input, in groups, beside one of each kind; bytes of a sample."""


@dataclass(slots=True)
class ValueCounts:
    """Statistics of one value of all rollouts: counts of `absent`, `other` (not a number) and `numbers`.

    `total`, `lowest` and `highest` are of the numbers. `of_truth`: all numbers are 0 or 1.
    """

    absent: int = 0
    other: int = 0
    numbers: int = 0
    total: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    of_truth: bool = True

    def add(self, value: Any) -> None:
        """Add the value of one rollout."""
        reward = number(value)
        if reward is None:
            self.absent += value is None
            self.other += value is not None
            return
        self.lowest = min(self.lowest, reward) if self.numbers else reward
        self.highest = max(self.highest, reward) if self.numbers else reward
        self.numbers += 1
        self.total += reward
        self.of_truth = self.of_truth and reward in (0.0, 1.0)

    @property
    def seen(self) -> bool:
        """Tell if any rollout has the value."""
        return self.numbers + self.other > 0

    @property
    def facts(self) -> dict[str, Any]:
        """Return the counts, and minimum, mean and maximum of the numbers; None without numbers."""
        known = self.numbers > 0
        return {
            "numbers": self.numbers,
            "absent": self.absent,
            "no_number": self.other,
            "min": self.lowest if known else None,
            "mean": self.total / self.numbers if known else None,
            "max": self.highest if known else None,
        }


class InputCounts:
    """Counts of records, bytes and rollouts, statistics of rewards and outcomes, and the first records."""

    def __init__(self, on_problem: Callable[[Problem], None]) -> None:
        """Take a callback for each record or rollout that cannot be judged."""
        self.again()
        self._on_problem: Callable[[Problem], None] = on_problem

    def again(self) -> None:
        """Start over, because the grouping changed; problems are reported already."""
        self.bytes = self.records = self.rollouts = 0
        self.rewards = ValueCounts()
        self.outcomes = ValueCounts()
        self.first: list[Record] = []
        self._on_problem = lambda _: None

    def add(self, record: Record, rollouts: int) -> None:
        """Add one record; `rollouts` is the number of rollouts that begin in it."""
        line = record.line
        self.records += 1
        self.bytes += len(line.raw) // record.parts
        if len(self.first) < SAMPLE:
            self.first.append(record)
        if not record.rollouts:
            self._on_problem(
                Problem(line.number, "is a group without trajectories", b"", line.place)
            )
        if mistake := scale_mistake(record.rubric):
            self._on_problem(
                Problem(line.number, f"has a rubric that {mistake}", b"", line.place)
            )
        for rollout in record.rollouts:
            if rollout.error is not None:
                self._on_problem(Problem(line.number, rollout.problem, b"", line.place))
                continue
            if rollouts > 0:  # later parts of a rollout are counted already
                self.rollouts += 1
                self.rewards.add(rollout.reward)
                self.outcomes.add(rollout.outcome)
            rollouts -= 1


@dataclass(slots=True)
class SampleWeight:
    """Groups that a sampled group of `size` bytes stands for, with itself; their bytes, and the longest."""

    size: int = 1
    groups: int = 1
    bytes: int = 1
    longest: int = 1

    @property
    def mean(self) -> float:
        """Ratio of their mean size to that of the sampled group."""
        return self.bytes / self.groups / self.size

    @property
    def longest_ratio(self) -> float:
        """Ratio of the longest size to that of the sampled group."""
        return self.longest / self.size


def sample(source: Input, size: int) -> Iterator[tuple[Group, SampleWeight]]:
    """Yield groups of an input of `size` bytes with their weights: all groups of a small input or a stream.

    Of a large input these are the first group of each kind, and some of those that follow, in an order that
    is independent of the input's. A kind is sampled in proportion to its bytes.
    """
    survey = source.survey
    index = source.index
    if survey is None or size <= SMALL:
        yield from ((group, SampleWeight()) for group in source.groups)
        return
    size = max(1, size * survey.mine // survey.groups)
    group_records = survey.reader.format.shape != "trajectory"
    bytes_per_sample = size / min(
        _SAMPLE[1], max(_SAMPLE[0], _SAMPLE_BYTES * survey.groups // size)
    )
    weights: dict[int, SampleWeight] = {}
    last: dict[tuple[int, int], SampleWeight] = {}
    for record, rollouts, length in index.groups(each_line=group_records):
        kind = leading_bits(rollouts, 6), leading_bits(length, 3)
        weight = last.get(kind)
        if weight is None or weight.bytes + length > bytes_per_sample:
            last[kind] = weights[record] = SampleWeight(length, 1, length, length)
            continue
        weight.groups = weight.groups + 1
        weight.bytes = weight.bytes + length
        weight.longest = max(weight.longest, length)
    for group in source.picked(weights):
        yield group, weights[place(group.records[0])]


def leading_bits(number: int, digits: int) -> int:
    """Round a number down to its first binary digits."""
    dropped = max(0, number.bit_length() - digits)
    return number >> dropped << dropped
