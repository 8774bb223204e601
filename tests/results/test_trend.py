"""Steps of a training: their numbers, their figures, and the drifts that are planted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.drift import CASES, World, training
from ruler_cli.results.annotations import ScoredGroup, ScoredRollout
from ruler_cli.results.trend import (
    Drift,
    DriftKind,
    StepBuilder,
    Trend,
    TrendStep,
    step_numbers,
    step_of,
)
from ruler_cli.types import CriterionScore

LARGE = [(world, kind) for world, kinds in CASES[1::2] for kind in kinds]
"""The larger size of each drift."""


def named(trend: Trend) -> dict[DriftKind, Drift]:
    """The drifts by their kinds."""
    return {one.kind: one for one in trend.drifts}


@pytest.mark.parametrize(("world", "kind"), LARGE, ids=[kind for _, kind in LARGE])
def test_planted_drift(world: World, kind: DriftKind) -> None:
    """A drift is named with a step behind its onset, and with levels that moved its way."""
    drift = named(Trend(training(world, 11, 30), "order"))[kind]
    assert 10 <= drift.at < 30
    assert 7 <= drift.since <= drift.at
    first, *_ = drift.levels.values()
    rises = kind != "spread"
    assert (first[1] > first[0]) is rises


@pytest.mark.parametrize(
    "world",
    [
        World(),
        World(improves=True),
        World(longer=True),
        World(improves=True, longer=True, correlation=0.5),
    ],
)
def test_nothing_drifts(world: World) -> None:
    """A policy that improves, longer answers and steps that follow one another are no drift."""
    trend = Trend(training(world, 4, 30), "order")
    assert trend.drifts == []
    assert len(trend.evidence) == 6


def steps_of(scores: list[float], labels: list[float], groups: int = 12) -> Trend:
    """A training with these mean scores and mean labels; the rollouts of a group differ by a pattern."""
    made = []
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        builder = StepBuilder()
        for g in range(groups):
            off = 0.02 * math.sin(7 * g + i)
            other = 0.02 * math.cos(5 * g + 3 * i)
            builder.add(
                ScoredGroup(
                    "",
                    tuple(
                        rollout(score + off + 0.1 * j, label + other + 0.1 * j)
                        for j in (-1, 1)
                    ),
                    "scored",
                ),
                [1, 1],
            )
        made.append(TrendStep(i, "", builder.figures()))
    return Trend(made, "order")


def rollout(
    score: float | None, label: float | None = None, **own: Any
) -> ScoredRollout:
    """A rollout with a judge's score."""
    status = "failed" if score is None else "scored"
    own = {
        "indices": (0,),
        "status": status,
        "score": score,
        "judge_score": score,
    } | own
    return ScoredRollout(label=label, **own)


def test_rise_with_the_label() -> None:
    """A score that rises faster than the label does is no drift as long as the label rises, too."""
    ramp = [0.3 + 0.02 * max(0, i - 8) for i in range(24)]
    faster = [0.3 + 0.04 * max(0, i - 8) for i in range(24)]
    assert "label" not in named(steps_of(faster, ramp))
    assert "label" in named(steps_of(faster, [0.3] * 24))


def test_label_falls() -> None:
    """A score that stays while the label falls is a drift; one that falls with it is none."""
    ramp = [0.6 - 0.03 * max(0, i - 8) for i in range(20)]
    drift = named(steps_of([0.5] * 20, ramp))["label"]
    before, after = drift.levels["label"]
    assert after < before
    assert "label" not in named(steps_of(ramp, ramp))


def test_any_scale_of_labels() -> None:
    """Labels in another unit give the same drift."""
    scores = [0.4 + 0.03 * max(0, i - 8) for i in range(20)]
    labels = [0.5 + 0.01 * math.sin(5 * i) for i in range(20)]
    plain = steps_of(scores, labels).drifts
    # as _steps_ adds the pattern, all of it is multiplied
    scaled = [
        TrendStep(one.number, "", one.figures) for one in steps_of(scores, labels).steps
    ]
    for step in scaled:
        pairs = step.figures.pairs["label"]
        pairs._groups = [(n, a, 1000 * b) for n, a, b in pairs._groups]
        sums = pairs.sums
        pairs._overall = {
            "aa": sums["aa"],
            "ab": 1e3 * sums["ab"],
            "bb": 1e6 * sums["bb"],
        }
    other = Trend(scaled, "order").drifts
    assert [(one.kind, one.at, one.since) for one in other] == [
        (one.kind, one.at, one.since) for one in plain
    ]


def test_small_file() -> None:
    """Steps of few groups that are off count for less than steps of many."""

    def after(groups: int) -> float:
        end = steps_of([0.53] * 2, [0.5] * 2, groups).steps
        steps = steps_of([0.5] * 20, [0.5] * 20).steps
        steps += [TrendStep(20 + one.number, "", one.figures) for one in end]
        return Trend(steps, "order").evidence[0]

    assert after(2) < 2 < after(12)


def test_figures() -> None:
    """The figures of a step are those of its rollouts; what no rollout has is null and never 0."""
    builder = StepBuilder()
    criteria = (CriterionScore("safe", 0.25), CriterionScore("short", 1.0))
    one = rollout(0.2, 0.0, size=100, suspect=True, judges={"a": 0.1, "b": 0.3})
    two = rollout(0.6, 1.0, size=300, criteria=criteria, judges={"a": 0.5, "b": 0.7})
    lost = rollout(None, 1.0, size=500, ended="truncated")
    builder.add(ScoredGroup("g", (one, two, lost), "scored"), [1, 2, 6])
    builder.add(ScoredGroup("h", (rollout(0.4, 1.0),), "scored"), [3])
    builder.add(ScoredGroup("lost", (rollout(None),), "failed", kind="reply"), [0])
    found = builder.figures().json
    assert found["groups"] == {
        "all": 3, "scored": 2, "failed": 1, "unmarked": 0, "tied": 1, "suspects": 1, "unscored": 2,
    }  # fmt: skip
    assert found["rollouts"] == {
        "all": 5, "scored": 3, "labelled": 4, "suspect": 1, "truncated": 1, "aborted": 0, "error": 0,
    }  # fmt: skip
    assert found["score"]["mean"] == pytest.approx(0.4)
    assert found["label"]["mean"] == pytest.approx(2 / 3)
    assert found["spread"] == {"mean": pytest.approx(0.2), "error": None}
    assert found["bytes"]["mean"] == 180
    assert found["turns"]["mean"] == pytest.approx(12 / 5)
    assert found["against_label"]["within"] == pytest.approx(1)
    assert found["against_label"]["pairs"] == 1
    assert found["against_label"]["accuracy"] == 1
    assert found["criteria"] == [
        {"name": "safe", "mean": 0.25, "rollouts": 1},
        {"name": "short", "mean": 1.0, "rollouts": 1},
    ]
    assert [(one["name"], one["mean"]) for one in found["judges"]] == [
        ("a", pytest.approx(0.3)),
        ("b", pytest.approx(0.5)),
    ]
    nothing = StepBuilder().figures().json
    for name in ("score", "label", "spread", "bytes", "turns"):
        assert nothing[name] is None
    assert nothing["against_label"]["accuracy"] is None
    assert nothing["with_length"] == {"score": None, "label": None}


def test_too_few_steps() -> None:
    """With four steps nothing is tested, and no test claims that nothing drifts."""
    trend = Trend(training(World(both_judges=0.3), 1, 4), "order")
    assert trend.drifts == []
    assert trend.evidence == []
    assert [one["evidence"] for one in trend.as_json()["tests"]] == [None] * 6


@pytest.mark.parametrize(
    ("names", "fields", "numbers", "origin"),
    [
        (["step-10.jsonl", "step-9.jsonl"], [], [10, 9], "name"),
        (["out/7/a.jsonl", "out/12/a.jsonl"], [], [7, 12], "name"),
        (["r2-s010.jsonl.gz", "r2-s100.jsonl.gz"], [], [10, 100], "name"),
        (["step-10.jsonl", "step-1.5.jsonl", "step-9.jsonl"], [], [10, 1.5, 9], "name"),
        (["e0.25/a.jsonl.gz", "e1.0/a.jsonl.gz"], [], [0.25, 1], "name"),
        (["v1.2/s3.1.jsonl", "v1.2/s3.10.jsonl"], [], [1, 10], "name"),
        (["s1.2.3.jsonl", "s1.2.4.jsonl"], [], [3, 4], "name"),
        (["a.jsonl", "b.jsonl"], [20, 10], [20, 10], "field"),
        (["s1-t1.jsonl", "s2-t2.jsonl"], [None, None], [1, 2], "order"),
        (["s1.jsonl", "s01.jsonl"], [5, 5], [1, 2], "order"),
        (["s1.jsonl", "x2.jsonl"], [5, None], [1, 2], "order"),
        ([f"s{'9' * 5000}.jsonl", "s1.jsonl"], [], [1, 2], "order"),
        (["s\u0661.jsonl", "s\u0662.jsonl"], [], [1, 2], "order"),
    ],
)
def test_step_numbers(
    names: list[str], fields: list[float | None], numbers: list[float], origin: str
) -> None:
    """A step is the one number in which names differ, else what records agree on, else the place of the file."""
    found, source = step_numbers(names, fields)
    assert ([*found], source) == (numbers, origin)


@pytest.mark.parametrize(
    ("record", "step"),
    [
        ({"step": 3}, 3),
        ({"global_step": 4.0}, 4),
        ({"metadata": {"step": 5}}, 5),
        ({"step": True, "global_step": 6}, 6),
        ({"step": "7", "metadata": {"global_step": 2}}, 2),
        ({"step": math.nan}, None),
        ({"step": 1e300}, None),
        ({"metadata": [{"step": 1}]}, None),
        ({}, None),
    ],
)
def test_step_of_record(record: dict[str, Any], step: float | None) -> None:
    """A record names its step by a finite number, itself or in its metadata."""
    assert step_of(record) == step
