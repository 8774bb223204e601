"""Steps of a training: their numbers, their figures, and the drifts that are planted."""

from __future__ import annotations

import math

import pytest

from benchmarks.drift import CASES, NONE, World, training
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.results.trend import (
    Drift,
    DriftKind,
    Trend,
    TrendStep,
    step_numbers,
)


def named(trend: Trend) -> dict[DriftKind, Drift]:
    """The drifts by their kinds."""
    return {row.kind: row for row in trend.drifts}


@pytest.mark.parametrize(("kind", "world"), [*CASES.values()][1::2])
def test_planted_drift(kind: DriftKind, world: World) -> None:
    """A drift is named with a step behind its onset, and with levels that rise."""
    drift = named(Trend(training(world, 11, 30)))[kind]
    assert 10 <= drift.step < 30
    assert 7 <= drift.since <= drift.step
    before, after = drift.levels["score"]
    assert after > before


@pytest.mark.parametrize("world", [*NONE.values()][:-2])
def test_nothing_drifts(world: World) -> None:
    """A policy that improves and steps that follow one another are no drift; answers that grow are one of size."""
    trend = Trend(training(world, 4, 30))
    assert {drift.kind for drift in trend.drifts} <= {"size"}
    assert [row.kind for row in trend.tests] == [
        "label" if world.labels else "held_out",
        "length",
        "size",
    ]


def steps_of(
    scores: list[float],
    labels: list[float],
    groups: int = 12,
    unit: float = 1.0,
) -> list[TrendStep]:
    """A training with these mean scores and mean labels; the rollouts of a group differ by a pattern."""
    made = []
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        step = TrendStep("", i)
        for g in range(groups):
            off = 0.02 * math.sin(7 * g + i)
            second = 0.02 * math.cos(5 * g + 3 * i)
            rollouts = [
                rollout(
                    score + off + 0.1 * j, unit * (label + second + 0.1 * j)
                )
                for j in (-1, 1)
            ]
            step.file.add(GroupRecord("scored", rollouts=tuple(rollouts)))
        made.append(step)
    return made


def rollout(score: float, label: float) -> RolloutRecord:
    """A rollout with a judge's score."""
    return RolloutRecord(
        "scored", score, score, indices=(0,), label=label, size=9
    )


def test_rise_with_the_label() -> None:
    """A score that rises faster than the label does is no drift as long as the label rises, too."""
    ramp = [0.3 + 0.02 * max(0, i - 8) for i in range(24)]
    faster = [0.3 + 0.04 * max(0, i - 8) for i in range(24)]
    assert "label" not in named(Trend(steps_of(faster, ramp)))
    assert "label" in named(Trend(steps_of(faster, [0.3] * 24)))


def test_small_file() -> None:
    """Steps of few groups that are off count for less than steps of many."""

    def drifts(groups: int) -> list[Drift]:
        steps = steps_of([0.5] * 20, [0.5] * 20)
        rise = [0.5 + 0.02 * i for i in range(1, 7)]
        for step in steps_of(rise, [0.5] * 6, groups):
            step.step += 20
            steps.append(step)
        return Trend(steps).drifts

    assert drifts(2) == []
    assert [row.kind for row in drifts(12)] == ["label"]


def test_step_numbers() -> None:
    """A step is the last number that differs in the names of the files, else the place of the file."""
    rows: list[tuple[str, list[float], str]] = [
        ("out/7/a.jsonl out/12/a.jsonl", [7, 12], "name"),
        ("r2-s010.jsonl.gz r2-s100.jsonl.gz", [10, 100], "name"),
        ("step-10.jsonl step-1.5.jsonl", [10, 1.5], "name"),
        ("s1-t4.jsonl s2-t2.jsonl", [4, 2], "name"),
        ("s10/rank_0.jsonl s9/rank_0.jsonl", [10, 9], "name"),
        ("s1.jsonl s01.jsonl", [1, 2], "order"),
        ("s1.jsonl x.jsonl", [1, 2], "order"),
        (f"s{'9' * 5000}.jsonl s1.jsonl", [1, 2], "order"),
        ("s\u0661.jsonl s\u0662.jsonl", [1, 2], "order"),
    ]
    for names, numbers, origin in rows:
        steps, source = step_numbers(names.split())
        assert ([*steps], source) == (numbers, origin), names
