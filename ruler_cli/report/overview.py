"""Groups of a scored file, one after another → the figures of the run; no group is kept."""

from __future__ import annotations

import math

from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Usage
from ruler_cli.report.bins import GROUPS, SECONDS, Bins, Labels, Quantiles, Timeline
from ruler_cli.report.slots import requests
from ruler_cli.report.tallies import Reasons, Tally
from ruler_cli.report.values import Cell, Ends, Overview, SlotBar
from ruler_cli.statistics.slots import SlotCurve
from ruler_cli.statistics.sums import LengthSums, Moments

REASONS = 6
"""How many reasons of failures are told."""
_YEAR = 366 * 86400.0
_TIMED = 0.9
"""The share of judged groups that must tell a time for an axis of time."""


class Gathering:
    """The figures of a run as its groups come; memory does not grow with them.

    Times: groups judged more than a year from the median time are no part of the axis of time, nor of
    the run's start and end. Where they and groups that tell no time are more than one in ten, the axis
    is the number of the group in the file.
    """

    def __init__(self) -> None:
        self._status = {"scored": 0, "failed": 0, "unmarked": 0}
        self._own = self._suspects = self._labelled = self._rollouts_failed = self._rollouts = 0
        self._tied = self._one_score = 0
        self._kinds, self._flags, self._judges, self._passes = Tally(12), Tally(), Tally(), Tally()
        self._reasons = Reasons()
        self._cost, self._costed, self._usage = 0.0, 0, Usage()
        self._latency, self._spread, self._reliable = Quantiles(), Quantiles(), Quantiles()
        self._scores, self._spreads, self._reliability = Bins(1, 20), Bins(0.5, 20), Bins(1, 10)
        self._tenths = Bins(1, 10)
        self._labels = Labels(self._tenths)
        self._lengths: dict[tuple[int, int], int] = {}
        self._moments, self._length, self._slots = Moments(), LengthSums(), SlotCurve()
        self._pairs, self._against = 0, 0.0
        self._times, self._numbers = Timeline(SECONDS), Timeline(GROUPS, 1)

    def add(self, group: MarkedGroup) -> None:
        """Count the next group of the file."""
        self._status[group.status] += 1
        for flag in group.flags:
            self._flags.add(flag)
        self._rollouts += len(group.rollouts)
        if group.status != "unmarked":
            self._judged(group)
        self._rollout_counts(group)
        if group.scores:
            self._scored(group)

    def _judged(self, group: MarkedGroup) -> None:
        kind = ""
        if group.failed:
            kind = self._kinds.add(group.kind)
            self._reasons.add(group.kind, group.reason, group.key)
        if group.judge:
            self._judges.add(group.judge)
        if group.passes is not None:
            self._passes.add(str(group.passes))
        if group.cost is not None:
            self._cost += group.cost
            self._costed += 1
        self._usage += group.usage
        if group.latency is not None:
            self._latency.add(group.latency)
        self._numbers.add(sum(self._status.values()), kind)
        if group.judged_at is not None and math.isfinite(group.judged_at):
            self._times.add(group.judged_at, kind)

    def _rollout_counts(self, group: MarkedGroup) -> None:
        for rollout in group.rollouts:
            self._rollouts_failed += rollout.status == "failed"
            self._suspects += rollout.suspect
            label, score = rollout.label, rollout.score
            self._labelled += label is not None
            if score is None:
                continue
            self._scores.add(score)
            self._own += label == score
            if label is not None:
                self._labels.add(score, label)
            at = self._tenths.place(score), rollout.size.bit_length()
            self._lengths[at] = self._lengths.get(at, 0) + 1

    def _scored(self, group: MarkedGroup) -> None:
        self._tied += group.tied
        self._one_score += group.one_score
        self._moments.add(group.scores)
        if group.sd is not None:
            self._spreads.add(round(group.sd, 9))  # as the table has it, which the bin's mark leads to
            self._spread.add(group.sd)
        if group.reliability is not None:
            self._reliability.add(group.reliability)
            self._reliable.add(group.reliability)
        against, pairs = group.disputes
        self._against += against
        self._pairs += pairs
        told = [(r.size, r.judged) for r in group.rollouts if r.judged is not None]
        if len(told) > 1:
            self._length.add([size for size, _ in told], [score for _, score in told])
        self._slots.add(*requests(group))

    def overview(self) -> Overview:
        """All figures of the groups so far."""
        scored, n = self._status["scored"], self._moments.number
        judged = scored + self._status["failed"]
        near = self._times.near(_YEAR)
        timed = sum(stretch.groups for stretch in near)
        by_time = judged > 0 and timed >= _TIMED * judged
        bars = self._times.bars(near) if by_time else self._numbers.bars(self._numbers.near())
        curve = self._slots.curve()
        return Overview(
            groups=sum(self._status.values()),
            **self._status,
            tied=self._tied,
            one_score=self._one_score,
            live=scored - self._tied,
            kinds=self._kinds.found(),
            reasons=self._reasons.commonest(REASONS),
            flags=self._flags.found(),
            judges=self._judges.found(),
            passes=_numbered(self._passes.found()),
            rollouts=self._rollouts,
            rollouts_scored=n,
            rollouts_failed=self._rollouts_failed,
            labelled=self._labelled,
            own_labels=self._own,
            suspects=self._suspects,
            cost=self._cost if self._costed else None,
            costed=self._costed,
            usage=self._usage,
            latency=_latency(self._latency),
            started=near[0].first if near else None,
            ended=max(stretch.last for stretch in near) if near else None,
            scores=self._scores.bars(),
            score_mean=self._moments.mean if n else None,
            score_sd=math.sqrt(self._moments.square / n) if n else None,
            spreads=self._spreads.bars(),
            spread_median=self._spread.at(0.5),
            against_label=self._labels.cells(),
            pairs=self._pairs,
            against=self._against,
            slots=tuple(SlotBar((b.start, b.stop), b.mean, b.error, b.scores) for b in curve),
            slot_groups=self._slots.groups,
            lengths=self._length_cells(),
            length=self._length.found(),
            reliability=self._reliability.bars(),
            reliability_median=self._reliable.at(0.5),
            reliable_groups=self._reliable.total,
            over_time=bars,
            time_unit="time" if by_time else "group",
            untimed=judged - timed,
        )

    def _length_cells(self) -> tuple[Cell, ...]:
        def sizes(digits: int) -> Ends:
            return (2.0 ** (digits - 1), 2.0**digits) if digits else (0.0, 1.0)

        return tuple(
            Cell(self._tenths.ends(score), sizes(digits), n)
            for (score, digits), n in sorted(self._lengths.items())
        )


def _numbered(found: dict[str, int]) -> dict[int, int]:
    """Numbers of passes, the lowest first; 0 stands for any others."""
    numbers: dict[int, int] = {}
    for word, n in found.items():
        passes = int(word) if word.isdecimal() else 0
        numbers[passes] = numbers.get(passes, 0) + n
    return dict(sorted(numbers.items()))


def _latency(found: Quantiles) -> dict[str, float]:
    told = {name: found.at(share) for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    known = {name: value for name, value in told.items() if value is not None}
    return known | ({"max": found.greatest} if found.total else {})
