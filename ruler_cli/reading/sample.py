"""INPUT → what is counted of all its records, and the groups that are laid out for all of them.

Laying out a gigabyte takes minutes. So of a large input some groups are laid out, and each of them stands for
others with as many rollouts and about as many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ruler_cli.formats.detect import SAMPLE
from ruler_cli.formats.rewards import number
from ruler_cli.reading.index import place
from ruler_cli.reading.input import Input
from ruler_cli.types import Group, Problem, Record

SMALL = 64 << 20
"""Bytes of input up to which every group is laid out."""
_SAMPLE, _ENOUGH = (32, 128), 6 << 20
"""Groups that are laid out of a large input, the fewest and the most, beside one of each kind; and the bytes
of groups that are enough."""


@dataclass(slots=True)
class SampleCounts:
    """Values at one place of all rollouts: how many are absent, no number, and what the others come to."""

    absent: int = 0
    other: int = 0
    numbers: int = 0
    total: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0
    of_truth: bool = True

    def add(self, value: Any) -> None:
        """Count one."""
        found = number(value)
        if found is None:
            self.absent += value is None
            self.other += value is not None
            return
        self.lowest = min(self.lowest, found) if self.numbers else found
        self.highest = max(self.highest, found) if self.numbers else found
        self.numbers += 1
        self.total += found
        self.of_truth = self.of_truth and found in (0.0, 1.0)

    @property
    def seen(self) -> bool:
        """Tell if there is any."""
        return self.numbers + self.other > 0

    @property
    def facts(self) -> dict[str, Any]:
        """The counts, and the mean of the numbers; the share of true ones where all are 0 or 1."""
        known = self.numbers > 0
        return {
            "numbers": self.numbers,
            "absent": self.absent,
            "no_number": self.other,
            "min": self.lowest if known else None,
            "mean": self.total / self.numbers if known else None,
            "max": self.highest if known else None,
        }


class Notes:
    """Count records, bytes and rollouts, tally rewards and outcomes, and keep the first records."""

    def __init__(self, on_problem: Callable[[Problem], None]) -> None:
        """`on_problem` is told what cannot be judged of records, once."""
        self._on_problem = on_problem
        self._begin()

    def _begin(self) -> None:
        self.bytes = self.records = self.rollouts = 0
        self.rewards, self.outcomes = SampleCounts(), SampleCounts()
        self.first: list[Record] = []

    def again(self) -> None:
        """Begin anew, since other records belong together; what cannot be judged is told already."""
        self._begin()
        self._on_problem = lambda _: None

    def add(self, record: Record, rollouts: int) -> None:
        """Note one record, and how many rollouts begin in it."""
        line = record.line
        self.records += 1
        self.bytes += len(line.raw) // record.parts
        if len(self.first) < SAMPLE:
            self.first.append(record)
        if not record.rollouts:
            self._on_problem(Problem(line.number, "is a group without trajectories", b"", line.place))
        for rollout in record.rollouts:
            if rollout.error is not None:
                self._on_problem(Problem(line.number, rollout.problem, b"", line.place))
                continue
            if rollouts > 0:  # no later part of one that was noted
                self.rollouts += 1
                self.rewards.add(rollout.reward)
                self.outcomes.add(rollout.outcome)
            rollouts -= 1


@dataclass(slots=True)
class Share:
    """Groups that one of `size` bytes is laid out for, itself included: bytes of all and of the longest."""

    size: int = 1
    groups: int = 1
    bytes: int = 1
    longest: int = 1

    @property
    def mean(self) -> float:
        """How long they are on average, to the one that is laid out."""
        return self.bytes / self.groups / self.size

    @property
    def most(self) -> float:
        """How long the longest is, to the one that is laid out."""
        return self.longest / self.size


def sample(found: Input, size: int) -> Iterator[tuple[Group, Share]]:
    """Groups of an input of so many bytes, and what each stands for: all of a small one or of a stream.

    Of a large one the first group of each kind, and every so many of those that follow, in an order that has
    nothing to do with the input's. A kind has as many as is its part in the bytes.
    """
    survey, index = found.survey, found.index
    if survey is None or size <= SMALL:
        yield from ((group, Share()) for group in found.groups)
        return
    size, whole = index.volume(), survey.reader.format.shape != "trajectory"
    most = size / min(_SAMPLE[1], max(_SAMPLE[0], _ENOUGH * survey.groups // size))
    shares: dict[int, Share] = {}
    last: dict[tuple[int, int], Share] = {}
    for record, rollouts, length in index.groups(each_line=whole):
        kind = _leading(rollouts, 6), _leading(length, 3)
        share = last.get(kind)
        if share is None or share.bytes + length > most:
            last[kind] = shares[record] = Share(length, 1, length, length)
            continue
        share.groups, share.bytes = share.groups + 1, share.bytes + length
        share.longest = max(share.longest, length)
    for group in found.picked([[record] for record in sorted(shares)] if whole else index.records(shares)):
        yield group, shares[place(group.records[0])]


def _leading(number: int, digits: int) -> int:
    """A number to its first binary digits."""
    less = max(0, number.bit_length() - digits)
    return number >> less << less
