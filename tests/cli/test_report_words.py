"""What the figures of a run mean, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ruler_cli.cli import report_words as words
from ruler_cli.figures import Length
from ruler_cli.records import Usage
from ruler_cli.report.values import Bar, Cell, Overview, SlotBar

O = Overview(groups=40, scored=40, live=40)  # noqa: E741 - an overview is o throughout


def curve(first: float, last: float, error: float | None = 0.01) -> Overview:
    """A run whose rollouts shown first and last are this far above their groups."""
    bars = tuple(
        SlotBar((start, start + 0.25), mean, error, 40)
        for start, mean in ((0.0, first), (0.25, 0.0), (0.5, 0.0), (0.75, last))
    )
    return replace(O, slots=bars, slot_groups=40)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (curve(0.04, 0.0), "shown first scores 0.040 ± 0.010 more than its group: --debias"),
        (curve(0.0, -0.05), "shown last scores 0.050 ± 0.010 less than its group: --debias"),
        (
            curve(0.04, -0.05),
            "shown first scores 0.040 ± 0.010 more and shown last scores 0.050 ± 0.010 less",
        ),
        (curve(0.015, -0.015), "no sure difference (first +0.015 ± 0.010)"),
        (curve(0.4, -0.4, None), "no sure difference (first +0.400)"),
    ],
)
def test_slots(run: Overview, told: str) -> None:
    """A place is called an advantage where its mean is beyond two standard errors, with the way out."""
    assert told in words.slots(run)
    assert ("--debias" in words.slots(run)) is ("no sure difference" not in told)
    assert words.slots(replace(run, slot_groups=words.FEW - 1)) == ""


@pytest.mark.parametrize(
    ("slope", "told"),
    [
        (0.05, "longer scores more: twice as long +0.050 ± 0.010, correlation +0.30"),
        (-0.05, "longer scores less"),
        (0.015, "makes no sure difference (twice as long +0.015 ± 0.010)"),
    ],
)
def test_length(slope: float, told: str) -> None:
    """A trend is told as one where it is beyond two standard errors of enough groups."""
    trend = Length(slope, 0.01, 0.3, 40)
    assert told in words.length(replace(O, length=trend))
    assert words.length(replace(O, length=replace(trend, groups=3))) == ""
    assert words.length(O) == ""


def test_reliability() -> None:
    """More passes are advised where most of what tells rollouts apart is noise."""
    bars = tuple(Bar((n / 10, (n + 1) / 10), n) for n in range(10))
    fine = replace(O, reliability=bars, reliable_groups=45, reliability_median=0.7)
    assert words.reliability(fine) == "0.70 in the median of 45 groups, below 0.5 in 10"
    assert "--passes" in words.reliability(replace(fine, reliability_median=0.3))
    assert words.reliability(O) == ""


def test_agreement() -> None:
    """The share of pairs in order, then how many of the lowest and of the highest label are misplaced."""
    cells = (Cell((0.2, 0.3), (0, 0), 7), Cell((0.8, 0.9), (0, 0), 3), Cell((0.4, 0.5), (1, 1), 2))
    told = list(words.agreement(replace(O, pairs=10, against=2.5, against_label=(*cells, cells[1]))))
    assert told[0].startswith("75% of 10 pairs")
    assert told[1] == "6 of 13 rollouts with reward 0 score 0.5 or more"
    assert told[2] == "2 of 2 rollouts with reward 1 score below 0.5"
    assert list(words.agreement(O)) == []


def test_when() -> None:
    """Two moments of one day name it once; without them nothing is said."""
    day = 1_795_219_200.0
    assert words.judges(replace(O, judges={"m": 40}, passes={1: 30, 4: 10})) == (
        "m; 1 pass (30 groups), 4 passes (10 groups)"
    )
    assert words.judges(replace(O, started=day, ended=day + 3600)) == "2026-11-21 00:00 to 01:00 UTC"
    assert words.judges(replace(O, started=day, ended=day + 90_000)) == (
        "2026-11-21 00:00 to 2026-11-22 01:00 UTC"
    )
    assert words.judges(O) == ""


def test_cost() -> None:
    """Money says of how many groups it is known; tokens and cached ones stand beside it."""
    usage = Usage(prompt=1_250_000, completion=9_000, cached=1000, calls=80)
    assert words.cost(replace(O, cost=20.0, costed=10, usage=usage)) == (
        "$20.00 ($2.00 a group, told of 10 groups), 80 calls, "
        "1.25M prompt (1k of it cached) + 9k completion tokens"
    )
    assert words.cost(replace(O, cost=0.0, costed=40)) == "$0"
    assert words.cost(O) == ""
