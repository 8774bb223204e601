"""The figures of a run in sentences."""

from __future__ import annotations

from typing import Any

from ruler_cli.cli import sentences
from ruler_cli.results.figures import FileFigures

O: dict[str, Any] = {**FileFigures().figures(lambda _: {})}  # noqa: E741 - figures are o throughout
O["groups"] = {**O["groups"], "all": 40, "scored": 40, "live": 40}


def finding(name: str, **figures: Any) -> str:
    """The sentence on a run with these figures."""
    return dict(sentences.findings(O | figures)).get(name, "")


def bias(
    first: float, last: float, error: float | None = 0.01, groups: int = 40
) -> str:
    """The sentence on a run whose rollouts shown first and last score this far above their groups."""
    bars = [{"mean": mean, "error": error, "n": 40} for mean in (first, 0.0, 0.0, last)]
    return finding("position", slots={"bins": bars, "groups": groups, "corrected": 0})


def test_position_bias() -> None:
    """A position has an advantage if its mean exceeds two standard errors, and --set debias=true is suggested."""
    assert bias(0.04, 0.0) == "first +0.040 (± 0.010); --set debias=true corrects it"
    assert bias(0.0, -0.05) == "last -0.050 (± 0.010); --set debias=true corrects it"
    assert bias(0.04, -0.05).startswith("first +0.040, last -0.050 (± 0.010)")
    assert bias(0.015, -0.015) == "no significant position bias"
    assert bias(0.4, -0.4, None) == "no significant position bias"
    assert bias(0.4, -0.4, groups=sentences.FEW - 1) == finding("position") == ""


def test_position_bias_of_passes() -> None:
    """With a reliability there are several passes, which average the bias."""
    bars = [{"mean": mean, "error": 0.01, "n": 40} for mean in (0.05, 0.0, -0.05)]
    slots = {"bins": bars, "groups": 40, "corrected": 20}
    ends = {40: "; averaged over passes", 0: "; --set debias=true corrects it"}
    for groups, end in ends.items():
        several = O["reliability"] | {"groups": groups}
        assert finding("position", slots=slots, reliability=several).endswith(end)
    slots["corrected"] = 21
    assert finding("position", slots=slots).endswith("; subtracted")


def length(slope: float, groups: int = 40) -> str:
    """The sentence on a run with this trend."""
    trend = {"slope": slope, "error": 0.01, "correlation": 0.3, "groups": groups}
    return finding("length", lengths=trend)


def test_length() -> None:
    """A trend is named if it is beyond two standard errors over enough groups."""
    assert length(0.05) == "twice as long scores +0.050 ± 0.010 (correlation +0.30)"
    assert length(0.015) == "no significant length bias"
    assert length(0.05, 3) == finding("length") == ""


def test_reliability() -> None:
    """The sentence advises more passes if most of the differences between rollouts are noise."""
    bars = [{"from": n / 10, "to": (n + 1) / 10, "n": n} for n in range(10)]
    result = {"bins": bars, "groups": 45, "median": 0.7}
    assert finding("reliability", reliability=result) == (
        "median 0.70, below 0.5 in 10 of 45 groups"
    )
    low = result | {"median": 0.3}
    assert "--passes" in finding("reliability", reliability=low)
    assert finding("reliability") == ""


def test_agreement() -> None:
    """The pairs in order, against it and tied, then misplaced rollouts of the lowest and highest label."""
    counted = (((0.2, 0.3), 0, 7), ((0.8, 0.9), 0, 6), ((0.4, 0.5), 1, 2))
    cells = [
        {"score": score, "label": [label, label], "n": n} for score, label, n in counted
    ]
    result = {"cells": cells, "pairs": 10, "against": 2.5, "tied": 1, "agreement": 0.75}
    assert list(sentences.agreement(O | {"against_label": result})) == [
        "7 of 10 pairs with different rewards in order, 2 reversed, 1 tied (75.0%, ties count half; "
        "chance: 50%)",
        "6 of 13 rollouts with reward 0 score 0.5 or more",
        "2 of 2 rollouts with reward 1 score below 0.5",
    ]
    all_tied = result | {"pairs": 57, "against": 22.0, "tied": 44, "agreement": 35 / 57}
    assert next(sentences.agreement(O | {"against_label": all_tied})) == (
        "13 of 57 pairs with different rewards in order, 0 reversed, 44 tied (61.4%, ties count half; "
        "chance: 50%)"
    )
    assert list(sentences.agreement(O)) == []


def test_judges_and_time() -> None:
    """The judges, their passes and both times are named; without them there is no sentence."""
    reported = O | {"judges": {"m": 40}, "passes": {"1": 30, "4": 10}}
    assert sentences.judges(reported) == "m; 1 (30 groups), 4 (10 groups) passes"
    assert sentences.judges(O | {"passes": {"1": 40}}) == "1 pass"
    begin, day = {"started_at": "2026-11-21T00:00:05Z"}, "2026-11-21 00:00"
    assert (
        dict(sentences.times(O | begin | {"ended_at": "2026-11-21T01:00:05Z"}))[
            "judged"
        ]
        == f"{day} to 2026-11-21 01:00 UTC"
    )
    assert (
        dict(sentences.times(O | begin | {"ended_at": "2026-11-22T01:00:00Z"}))[
            "judged"
        ]
        == f"{day} to 2026-11-22 01:00 UTC"
    )
    assert sentences.judges(O) == ""
    assert [*sentences.times(O)] == []


def test_cost() -> None:
    """The cost has the number of groups with a known cost; tokens and cached ones stand beside it."""
    usage = {
        "prompt_tokens": 1_250_000,
        "completion_tokens": 9_000,
        "cached_tokens": 1000,
        "calls": 80,
    }
    assert sentences.cost(
        O | {"cost_usd": 20.0, "cost_groups": 10, "usage": usage}
    ) == (
        "$20.00 ($2.00 a group, known for 10 groups), 80 calls, "
        "1.25M prompt (1k of it cached) + 9k completion tokens"
    )
    assert sentences.cost(O | {"cost_usd": 0.0, "cost_groups": 40}) == "$0"
    assert sentences.cost(O) == ""
