"""The figures of a run, against a look at all of its groups at once."""

from __future__ import annotations

import gc
import math
import statistics
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Usage
from ruler_cli.report.overview import REASONS, Gathering
from ruler_cli.report.values import Overview
from tests.report.values import NOON, drawn, group


def of(groups: Iterable[MarkedGroup]) -> Overview:
    """The figures of these groups."""
    gathering = Gathering()
    for one in groups:
        gathering.add(one)
    return gathering.overview()


ALL = list(drawn(1500))
FOUND = of(ALL)
ROLLOUTS = [r for g in ALL for r in g.rollouts]
SCORES = [r.score for r in ROLLOUTS if r.score is not None]


def near(value: float | None) -> object:
    """The same but for rounding."""
    return pytest.approx(value, rel=1e-9, abs=1e-12)


def within_half_a_percent(value: float) -> object:
    """As near as a quantile is told."""
    return pytest.approx(value, rel=0.0051)


def rank(values: Sequence[float], share: float) -> float:
    """The least value that this share of all is at or below."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def test_groups_and_rollouts() -> None:
    """Every group and every rollout is counted once, by what became of it."""
    assert FOUND.groups == len(ALL) == FOUND.scored + FOUND.failed + FOUND.unmarked
    assert FOUND.failed == sum(g.failed for g in ALL) > 0
    assert FOUND.unmarked == sum(g.status == "unmarked" for g in ALL) > 0
    assert (FOUND.tied, FOUND.live) == (sum(g.tied for g in ALL), sum(g.live for g in ALL))
    assert FOUND.tied + FOUND.live == FOUND.scored
    assert FOUND.one_score == sum(g.one_score for g in ALL)
    assert FOUND.rollouts == len(ROLLOUTS)
    assert FOUND.rollouts_scored == len(SCORES)
    assert FOUND.rollouts_failed == sum(r.status == "failed" for r in ROLLOUTS)
    assert FOUND.labelled == sum(r.label is not None for r in ROLLOUTS)
    assert FOUND.suspects == sum(r.suspect for r in ROLLOUTS) > 0


def test_words() -> None:
    """Kinds, flags, judges and passes are counted by group, the commonest first."""
    judged = [g for g in ALL if g.status != "unmarked"]
    assert FOUND.kinds == Counter(g.kind for g in ALL if g.failed)
    assert list(FOUND.kinds.values()) == sorted(FOUND.kinds.values(), reverse=True)
    assert FOUND.flags == Counter(flag for g in ALL for flag in g.flags)
    assert FOUND.judges == Counter(g.judge for g in judged)
    assert FOUND.passes == Counter(g.passes for g in judged if g.passes is not None)


def test_money_tokens_and_time() -> None:
    """Sums are over the groups that tell a value, quantiles within half a percent."""
    costs = [g.cost for g in ALL if g.cost is not None]
    assert (FOUND.cost, FOUND.costed) == (near(math.fsum(costs)), len(costs))
    assert sum((g.usage for g in ALL), Usage()) == FOUND.usage
    waits = [g.latency for g in ALL if g.latency is not None]
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert FOUND.latency[name] == within_half_a_percent(rank(waits, share))
    assert FOUND.latency["max"] == max(waits)


def test_scores_and_spreads() -> None:
    """Bars count what lies in them, an edge in the one above it."""
    last = len(FOUND.scores) - 1
    for i, bar in enumerate(FOUND.scores):
        low, high = bar.ends
        assert bar.ends == (i / 20, (i + 1) / 20)
        assert bar.n == sum(low <= s < high or (i == last and s == high) for s in SCORES)
    assert FOUND.score_mean == near(statistics.fmean(SCORES))
    assert FOUND.score_sd == near(statistics.pstdev(SCORES))
    spreads = [g.sd for g in ALL if g.sd is not None]
    assert sum(bar.n for bar in FOUND.spreads) == len(spreads)
    for bar in FOUND.spreads[:-1]:
        assert bar.n == sum(bar.ends[0] <= round(sd, 9) < bar.ends[1] for sd in spreads)
    assert FOUND.spread_median == within_half_a_percent(rank(spreads, 0.5))
    told = [g.reliability for g in ALL if g.reliability is not None and g.scores]
    assert [bar.n for bar in FOUND.reliability] == [sum(int(x * 10) == i for x in told) for i in range(10)]
    assert FOUND.reliable_groups == len(told)
    assert FOUND.reliability_median == within_half_a_percent(rank(told, 0.5))


def test_scores_against_labels() -> None:
    """Cells count rollouts by score and label; pairs are those of every group."""
    both = [(r.score, r.label) for r in ROLLOUTS if r.score is not None and r.label is not None]
    assert sum(cell.n for cell in FOUND.against_label) == len(both)
    for cell in FOUND.against_label:
        low, high = cell.score
        inside = [s for s, y in both if cell.other == (y, y) and (low <= s < high or s == high == 1)]
        assert cell.n == len(inside) > 0
    assert FOUND.pairs == sum(g.disputes[1] for g in ALL)
    assert FOUND.against == sum(g.disputes[0] for g in ALL)
    assert FOUND.agreement == near(1 - FOUND.against / FOUND.pairs)


def test_lengths() -> None:
    """Cells are powers of two of bytes, and the trend is the slope within groups."""
    for cell in FOUND.lengths:
        (low, high), (least, most) = cell.score, cell.other
        inside = [
            r for r in ROLLOUTS if r.score is not None and least <= r.size < most
            and (low <= r.score < high or r.score == high == 1)
        ]  # fmt: skip
        assert cell.n == len(inside)
        assert most == 2 * least or (least, most) == (0, 1)
    assert sum(cell.n for cell in FOUND.lengths) == len(SCORES)
    xx = xy = 0.0
    for g in ALL:
        told = [(math.log2(max(1, r.size)), r.judged) for r in g.rollouts if r.judged is not None]
        if len(told) > 1:
            x, y = (statistics.fmean(row[i] for row in told) for i in (0, 1))
            xx += sum((a - x) ** 2 for a, _ in told)
            xy += sum((a - x) * (b - y) for a, b in told)
    assert FOUND.length is not None
    assert FOUND.length.slope == near(xy / xx)


def test_balanced_orders_say_nothing_of_slots() -> None:
    """Where every rollout has the same mean place, there is no curve, not one of rounding errors."""
    each = [{"slots": (0.0, 1.0)}, {"slots": (1.0, 0.0)}, {"slots": (0.333, 0.667)}]
    found = of([group([0.1, 0.5, 0.9], each=each)] * 30)
    assert (found.slots, found.slot_groups) == ((), 0)


def test_nothing_at_all() -> None:
    """Of no groups nothing is told, and nothing is a zero that was not counted."""
    found = of([])
    assert found == Overview(time_unit="group")
    assert found.agreement is None


def test_failures_are_no_zeros() -> None:
    """Of groups that all failed there is no mean, no bar and no cost."""
    found = of([group([None, None], cost=None)] * 3)
    assert (found.failed, found.rollouts_failed, found.scored) == (3, 6, 0)
    assert found.score_mean is found.score_sd is found.spread_median is found.cost is None
    assert (found.scores, found.spreads, found.reliability, found.latency) == ((), (), (), {})


def test_reasons() -> None:
    """Sentences that differ in numbers and ids are one; the commonest few are told as the first put them."""
    said = [f"the request takes 1{i:02d},122 tokens, id req_011CSHoEe{i:03d}XyZ" for i in range(20)]
    groups = [group([None], key=f"k{i}", reason=reason, kind="too_long") for i, reason in enumerate(said)]
    groups += [group([None], key="other", reason="reset", kind="transport")] * 30
    groups += [group([None], reason=f"odd {word}") for word in "abcdefgh"]
    reasons = of(groups).reasons
    assert len(reasons) == REASONS
    assert (reasons[0].reason, reasons[0].groups, reasons[0].first) == ("reset", 30, "other")
    assert (reasons[1].reason, reasons[1].groups, reasons[1].first) == (said[0], 20, "k0")


@pytest.mark.parametrize("odd", [-62135596800.0, 253402300799.0, 0.0, float("nan"), 1e50, None])
def test_an_odd_time_is_counted_apart(odd: float | None) -> None:
    """A time out of this world, or none, makes no bar wider, and is no start of the run."""
    groups = [group([0.5, 0.9], judged_at=NOON + i) for i in range(100)]
    groups[7] = replace(groups[7], judged_at=odd)
    groups[9] = replace(groups[9], judged_at=NOON + 99.5)
    found = of(groups)
    assert (found.started, found.ended, found.untimed) == (NOON, NOON + 99.5, 1)
    assert sum(bar.groups for bar in found.over_time) == 99
    assert found.over_time[0].ends[0] >= NOON - 60
    assert found.over_time[-1].ends[1] <= NOON + 200


def test_over_time() -> None:
    """At most 60 bars of one width hold every group once, by its time, whatever the order."""
    for seconds in (1, 59, 60, 61, 3600, 86_400, 3_000_000):
        times = [NOON + (i * 7919) % seconds for i in range(seconds if seconds < 3000 else 3000)]
        groups = [group([None] if i % 3 else [0.5], judged_at=at) for i, at in enumerate(times)]
        found = of(groups)
        assert found.time_unit == "time"
        assert 1 <= len(found.over_time) <= 60
        widths = {bar.ends[1] - bar.ends[0] for bar in found.over_time}
        assert len(widths) == 1
        for bar in found.over_time:
            inside = [
                g for g in groups if g.judged_at is not None and bar.ends[0] <= g.judged_at < bar.ends[1]
            ]
            assert bar.groups == len(inside)
            assert sum(bar.failed.values()) == sum(g.failed for g in inside)
        assert sum(bar.groups for bar in found.over_time) == len(groups)


def test_without_times() -> None:
    """Where more than one group in ten tells no time, the axis is the number in the file from 1."""
    found = of(group([0.5], judged_at=NOON if i % 2 else None) for i in range(101))
    assert found.time_unit == "group"
    assert found.over_time[0].ends == (1.0, 6.0)
    assert [bar.groups for bar in found.over_time] == [5] * 20 + [1]
    assert found.untimed == 51


def test_labels_of_many_values() -> None:
    """More than 12 different labels are told in 12 equal stretches that hold all of them."""
    labels = [i / 100 - 0.3 for i in range(101)]
    found = of(group([0.5], [label]) for label in labels)
    assert len(found.against_label) == 12
    assert found.against_label[0].other[0] == labels[0]
    assert found.against_label[-1].other[1] == labels[-1]
    for cell in found.against_label[:-1]:
        assert cell.n == sum(cell.other[0] <= label < cell.other[1] for label in labels)
    assert sum(cell.n for cell in found.against_label) == 101


def test_labels_of_very_many_values() -> None:
    """Very many different labels are told in stretches to within 1/128 of their range."""
    labels = [(i * 7919) % 100_003 / 100_003 for i in range(30_000)]
    found = of(group([0.5], [label]) for label in labels)
    assert len(found.against_label) == 12
    assert sum(cell.n for cell in found.against_label) == len(labels)
    for cell in found.against_label:
        assert cell.n == pytest.approx(len(labels) / 12, rel=0.1)


def test_scores_out_of_range() -> None:
    """What lies outside 0 to 1 counts in the end bars, and in the mean as it is."""
    found = of([group([-3.0, 7.0])])
    assert (found.scores[0].n, found.scores[-1].n, sum(bar.n for bar in found.scores)) == (1, 1, 2)
    assert (found.score_mean, found.score_sd) == (2.0, 5.0)
    assert found.spreads[-1].n == 1


def hostile(groups: int) -> Iterator[MarkedGroup]:
    """Groups of which no two have a word, a label, a time or a size in common."""
    for i in range(groups):
        word = f"{i:x}".translate(str.maketrans("0123456789", "ghijklmnop"))
        yield group(
            [None] if i % 2 else [i / 7, -i * 1e40],
            [float(i)] if i % 2 else [i / 3, -i / 3],
            key=f"key {word}",
            kind=f"kind {word}" if i % 2 else "",
            reason=f"reason {word}",
            judge=f"judge {word}",
            passes=i,
            flags=(f"flag {word}",),
            judged_at=float((i * 7919 % groups) * 10**6 - 10**8),
            latency=1.00001**i,
            each=[{"size": i}] * (1 if i % 2 else 2),
        )


def usual(groups: int) -> Iterator[MarkedGroup]:
    """Small groups as files have them, over 28 hours."""
    found = [replace(one, rollouts=one.rollouts[:2]) for one in drawn(300)]
    for i in range(groups):
        yield replace(found[i % 300], judged_at=NOON + i * 7919 % 100_000)


def held(groups: Iterable[MarkedGroup]) -> int:
    """The most bytes that figures take, of ten looks on the way."""
    todo = list(groups)
    part = len(todo) // 10
    tracemalloc.start()
    try:
        gathering, most = Gathering(), 0
        for i in range(10):
            for one in todo[i * part : (i + 1) * part]:
                gathering.add(replace(one))  # what a group keeps of itself goes with it
            gathering.overview()
            gc.collect()  # what Python keeps of small objects that are gone is not counted
            most = max(most, tracemalloc.get_traced_memory()[0])
        return most
    finally:
        tracemalloc.stop()


def test_memory() -> None:
    """Ten times the groups take the same memory, but for counts that have become larger numbers."""
    assert held(usual(3000)) < 1.3 * held(usual(300))


@pytest.mark.long
def test_memory_of_hostile_files() -> None:
    """A file in which no two words are the same takes no more memory for more of them, and none is lost."""
    assert held(hostile(8000)) < 1.2 * held(hostile(4000))
    found = of(hostile(6000))
    assert sum(found.judges.values()) == found.groups == 6000
    assert sum(found.kinds.values()) == found.failed == 3000
    assert sum(found.flags.values()) == sum(found.passes.values()) == 6000
    assert len(found.judges) < 30 > len(found.passes)
    assert sum(sum(bar.failed.values()) for bar in found.over_time) <= 3000
    assert len(found.over_time) <= 60
