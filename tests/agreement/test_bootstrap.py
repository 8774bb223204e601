"""Figures and intervals over groups."""

from __future__ import annotations

import math
import random

import pytest

from ruler_cli.agreement.bootstrap import Figure, Measure, Units, difference, ratio
from ruler_cli.agreement.measure import measure
from ruler_cli.agreement.measures import Tally
from tests.agreement.values import drawn

MEAN = Measure(ratio("x", "n"), "n", (0.0, 1.0))


def units(values: list[float], most: int = 500) -> Units:
    """Groups of one value each."""
    found = Units(most)
    for value in values:
        found.add({"x": value, "n": 1.0})
    return found


def test_a_mean() -> None:
    """The interval of a mean is as wide as its standard error says, a little more with few groups."""
    draw = random.Random(0)
    values = [draw.random() for _ in range(400)]
    figure = units(values).figures({"mean": MEAN})["mean"]
    mean = sum(values) / 400
    error = math.sqrt(sum((v - mean) ** 2 for v in values)) / 400
    assert figure.value == pytest.approx(mean)
    assert figure.groups == 400
    assert figure.low == pytest.approx(mean - 1.96 * error, abs=0.2 * error)
    assert figure.high == pytest.approx(mean + 1.96 * error, abs=0.2 * error)


def test_units_of_several_groups() -> None:
    """Many groups in few units have the value of all, and an interval about as wide as single ones give."""
    draw = random.Random(1)
    values = [draw.random() for _ in range(5_000)]
    single = units(values, 5_000).figures({"mean": MEAN}, resamples=300)["mean"]
    few = units(values, 250).figures({"mean": MEAN}, resamples=1_000)["mean"]
    assert few.value == pytest.approx(single.value)
    assert few.groups == single.groups == 5_000
    assert width(few) == pytest.approx(width(single), rel=0.25)


def test_drift_does_not_hide_in_units() -> None:
    """Groups that get better along the file leave the interval as it is for the same groups mixed."""
    values = [i / 2_000 for i in range(2_000)]
    mixed = random.Random(2).sample(values, len(values))
    one, other = (units(v, 200).figures({"mean": MEAN})["mean"] for v in (values, mixed))
    assert width(one) == pytest.approx(width(other), rel=0.25)


def test_same_groups_same_figures() -> None:
    """Nothing of an interval is left to chance."""
    groups = drawn(30, 6, seed=3)
    assert measure(groups, "a") == measure(groups, "a")


@pytest.mark.long
def test_coverage() -> None:
    """About 95 % of intervals hold the accuracy that was to be found, with 40 groups each."""
    truth = measure(drawn(4_000, 6, seed=10), "all").scorers[0].figures
    held = dict.fromkeys(("pairwise_accuracy", "auc", "kendall_tau_b", "top1_regret"), 0)
    for seed in range(200):
        found, tally = Units(), Tally("a", "", details=False)
        for group in drawn(40, 6, seed=100 + seed):
            tally.keep(found.add(tally.sums(group, group.scores)))
        figures = found.figures(tally.measures(found), resamples=200)
        for name in held:
            figure, true = figures[name], truth[name].value
            assert figure.low is not None
            assert figure.high is not None
            assert true is not None
            held[name] += figure.low <= true <= figure.high
    assert all(180 <= number <= 199 for number in held.values()), held


def test_few_groups() -> None:
    """Fewer than five groups have a value and no interval."""
    assert units([0.0, 1.0, 0.0, 1.0]).figures({"mean": MEAN})["mean"] == Figure(0.5, None, None, 4)
    assert units([0.0, 1.0, 0.0, 1.0, 0.5]).figures({"mean": MEAN})["mean"].known


def test_groups_that_are_all_alike() -> None:
    """Twelve of twelve is not certainty: at most 3 in 12 of all groups are otherwise."""
    assert units([1.0] * 12).figures({"mean": MEAN})["mean"] == Figure(1.0, 0.75, 1.0, 12)
    unbound = Measure(ratio("x", "n"), "n")
    assert units([2.5] * 12).figures({"mean": unbound})["mean"] == Figure(2.5, 2.5, 2.5, 12)


def test_not_defined() -> None:
    """A ratio to nothing is none, and so is one whose sums left the numbers there are."""
    nothing = Measure(ratio("x", "z"), "z")
    assert units([1.0] * 9).figures({"none": nothing})["none"] == Figure(None, None, None, 0)
    assert units([math.inf] * 9).figures({"mean": MEAN})["mean"].value is None
    assert Units().figures({"mean": MEAN})["mean"] == Figure(None, None, None, 0)


def test_difference_is_paired() -> None:
    """Two that go up and down together differ by little, however wide their own intervals are."""
    draw = random.Random(4)
    found = Units()
    for _ in range(60):
        a = draw.random()
        found.add({"a": a, "b": a - 0.1 + draw.uniform(-0.01, 0.01), "n": 1.0})
    one, other = (Measure(ratio(name, "n"), "n", (0.0, 1.0)) for name in "ab")
    figures = found.figures({"a": one, "b": other, "d": difference(one, other)})
    assert width(figures["d"]) < 0.1 * width(figures["a"])
    assert figures["d"].value == pytest.approx(0.1, abs=0.01)
    assert figures["d"].low is not None
    assert figures["d"].low > 0


def width(figure: Figure) -> float:
    """How wide an interval is."""
    assert figure.low is not None
    assert figure.high is not None
    return figure.high - figure.low
