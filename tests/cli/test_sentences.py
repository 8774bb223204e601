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
    bars = [
        {"mean": mean, "error": error, "n": 40}
        for mean in (first, 0.0, 0.0, last)
    ]
    return finding(
        "position bias", slots={"bins": bars, "groups": groups, "corrected": 0}
    )


def test_position_bias() -> None:
    """A position has an advantage if its mean exceeds two standard errors, and --set debias=true is suggested."""
    assert (
        bias(0.04, 0.0)
        == "first +0.040 (± 0.010); --set debias=true corrects it"
    )
    assert (
        bias(0.0, -0.05)
        == "last -0.050 (± 0.010); --set debias=true corrects it"
    )
    assert bias(0.04, -0.05).startswith("first +0.040, last -0.050 (± 0.010)")
    assert bias(0.015, -0.015) == "no significant position bias"
    assert bias(0.4, -0.4, None) == "no significant position bias"
    assert (
        bias(0.4, -0.4, groups=sentences.FEW - 1)
        == finding("position bias")
        == ""
    )


def test_position_bias_of_passes() -> None:
    """With a reliability there are several passes, which average the bias."""
    bars = [
        {"mean": mean, "error": 0.01, "n": 40} for mean in (0.05, 0.0, -0.05)
    ]
    slots = {"bins": bars, "groups": 40, "corrected": 20}
    ends = {40: "; averaged over passes", 0: "; --set debias=true corrects it"}
    for groups, end in ends.items():
        several = O["reliability"] | {"groups": groups}
        assert finding(
            "position bias", slots=slots, reliability=several
        ).endswith(end)
    slots["corrected"] = 21
    assert finding("position bias", slots=slots).endswith("; subtracted")


def length(slope: float, groups: int = 40) -> str:
    """The sentence on a run with this trend."""
    trend = {
        "slope": slope,
        "error": 0.01,
        "correlation": 0.3,
        "groups": groups,
    }
    return finding("length", lengths=trend)


def test_length() -> None:
    """A trend is named if it is beyond two standard errors over enough groups."""
    assert (
        length(0.05)
        == "twice as long scores +0.050 ± 0.010 (correlation +0.30)"
    )
    assert length(0.015) == "no significant length bias"
    assert length(0.05, 3) == finding("length") == ""
