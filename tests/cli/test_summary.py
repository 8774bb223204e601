"""The lines about a batch's scores."""

from __future__ import annotations

from dataclasses import fields, replace

from ruler_cli.cli.messages import safe
from ruler_cli.cli.summary import figure_lines, summary_lines
from ruler_cli.observer import BatchFigures, Contradiction, Length, Pair, PositionBin, Summary

FULL = BatchFigures(
    groups=50,
    tie_rate=0.5,
    degraded=2,
    slot_curve=(
        PositionBin(0, 0, 0.031, 0.004, 50),
        PositionBin(0, 1, 0.0, 0.002, 300),
        PositionBin(1, 1, -0.031, 0.004, 50),
    ),
    slot_groups=50,
    length=Length(0.02, 0.004, 0.2, 50),
    judges=(Pair(("a", "b"), 0.61, 400, 0.33, 400), Pair(("a", "c"), 0.5, 400, None, 0)),
    reliability=(1, 0, 0, 0, 2, 0, 0, 7, 20, 20),
    reliability_median=0.87,
    flawed=5,
    flawed_listed=tuple(Contradiction(f"task {i}", i + 1, 0.1 * i) for i in range(5)),
    near_misses=1,
    near_misses_listed=(Contradiction("task 9", 2, 0.9),),
    without_outcome=3,
)


def test_no_figures() -> None:
    """A batch without known figures adds no line."""
    assert not [*figure_lines(BatchFigures(groups=3, tie_rate=0.0))]
    assert not [line for line in summary_lines(Summary()) if "position" in line or "reliab" in line]


def test_all_figures() -> None:
    """Each known figure is one line."""
    assert [*figure_lines(FULL)] == [
        "degraded: of 2 groups a pass brought no scores",
        "reliability: 0.87 in the median, below 0.5 in 3 of 50 groups",
        "position bias, first to last: +0.031 +0.000 -0.031 (each ± 0.004 at most)",
        "length: twice as long scores +0.020 ± 0.004, correlation +0.20 within groups",
        "a and b: scores correlate 0.61 within groups, errors against the reward 0.33",
        "a and c: scores correlate 0.50 within groups",
        "5 rollouts passed with a score below 0.5 (flawed positives): group task 0 rollout 1 (0.00), "
        "group task 1 rollout 2 (0.10), group task 2 rollout 3 (0.20), …",
        "1 rollout failed with a score from 0.5 on (near misses): group task 9 rollout 2 (0.90)",
        "3 rollouts without an outcome",
    ]
    assert {*figure_lines(FULL)} <= set(summary_lines(Summary(figures=FULL)))


def test_too_few_groups() -> None:
    """Bias measured over fewer than 20 groups, and a slope within its error, are not reported."""
    few = replace(FULL, slot_groups=19, length=Length(0.02, 0.004, 0.2, 19))
    assert not [line for line in figure_lines(few) if line.startswith(("position", "length"))]
    flat = replace(FULL, length=Length(0.02, 0.011, 0.2, 50))
    assert not [line for line in figure_lines(flat) if line.startswith("length")]
    assert [*figure_lines(replace(FULL, debiased=True))][2].endswith(", subtracted")


def test_hostile_key() -> None:
    """A group's key, which is foreign text, is truncated and sends no escape code."""
    odd = Contradiction("\x1b[2J\n\u202e" * 50, 1, 0.1)
    (line,) = figure_lines(BatchFigures(flawed=1, flawed_listed=(odd,)))
    assert len(line) < 200
    assert not set(safe(line).replace("\n", "")) & {"\x1b", "\u202e"}


def test_windows_and_escalations() -> None:
    """Groups that were shown in windows, or scored by the stronger judge, are counted."""
    lines = summary_lines(Summary(windowed=1, escalated=2))
    assert {"1 group shown in windows", "2 groups scored by the stronger judge"} <= set(lines)
    assert not [line for line in summary_lines(Summary()) if "windows" in line or "stronger" in line]


def test_no_duplicate_line() -> None:
    """No line appears twice."""
    counts = {field.name: 2 for field in fields(Summary) if field.type == "int"}
    lines = summary_lines(Summary(**counts))  # type: ignore[arg-type]  # by name
    assert len(set(lines)) == len(lines) > 10
