"""Figures of agreement: one judge, a panel, and two files."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.results.agreement import Agreement, AgreementBuilder
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.scoring.statistics import concordance
from tests.results.agree_values import (
    drawn,
    grades,
    measure,
    rows,
    scored,
    scored_rollout,
)


def value(result: Agreement, name: str, judge: int = 0) -> Any:
    """A figure's value."""
    return result["scorers"][judge][name]["value"]


def two(one: list[GroupRecord], other: list[GroupRecord]) -> Agreement:
    """Measure two files whose groups all match."""
    builder = AgreementBuilder("A", "B")
    for pair in zip(one, other, strict=True):
        builder.add(*pair)
    return builder.agreement({})


def test_by_hand() -> None:
    """Two mixed groups and one uniform: pairs are pooled."""
    groups = [
        scored([0.9, 0.4, 0.4], [1, 1, 0]),  # one pair won, one tied
        scored([0.1, 0.8], [1, 0]),  # lost
        scored([0.5, 0.6], [1, 1]),
    ]
    result = measure(groups, "score")
    assert (result["groups"], result["mixed_groups"], result["rollouts"]) == (3, 2, 7)
    assert (result["scorers"][0]["pairs"], result["scorers"][0]["compared"]) == (3, 7)
    assert value(result, "pairwise_accuracy") == pytest.approx(0.5)
    assert value(result, "tied_share") == pytest.approx(1 / 3)
    assert result["scorers"][0]["pairwise_accuracy"]["groups"] == 2
    assert measure(groups, "score") == result


@given(st.lists(rows, max_size=6))
def test_pooled_pairs(groups: list[list[tuple[float, float]]]) -> None:
    """The accuracy is that of all pairs of all groups, with ties as halves."""
    result = measure([scored(*zip(*group, strict=True)) for group in groups], "score")
    each = [concordance(group) for group in groups]
    pairs = sum(c.pairs for c in each)
    won = sum(c.won + c.tied / 2 for c in each)
    assert value(result, "pairwise_accuracy") == (
        pytest.approx(won / pairs) if pairs else None
    )
    assert result["mixed_groups"] == sum(c.pairs > 0 for c in each)


def test_missing_values() -> None:
    """A rollout without a score or a label is ignored; only for the gate one without a score is wrong."""
    whole = [scored([0.9, 0.4, 0.4], [1, 1, 0])]
    holes = [scored([0.9, None, 0.4, 0.7, 0.4], [1, 1, 1, None, 0])]
    (one,), (other,) = (measure(groups, "a")["scorers"] for groups in (whole, holes))
    gated = [own.pop("with_unscored")["value"] for own in (one, other)]
    assert one == other
    assert gated == [1.5 / 2, 1.5 / 3]


def bins(result: Agreement) -> dict[tuple[str, str], tuple[int, int, int]]:
    """The pairs of each bin, those against the labels and those tied."""
    return {
        (kind, one["bin"]): (one["pairs"], one["against"], one["tied"])
        for kind in ("gap", "slot", "length")
        for one in result["scorers"][0].get(f"by_{kind}", ())
    }


def test_pairs_by_kind() -> None:
    """A pair is in one bin of each kind that is known for both rollouts; a tied one has no gap."""
    better = scored_rollout(0.9, 1, 0.1, size=500)
    worse = scored_rollout(0.8, 0, 0.9, size=5_000)
    found = measure([GroupRecord("scored", "g", rollouts=(worse, better))])
    names = ("gap", "to 0.1"), ("slot", "earlier"), ("length", "shorter")
    assert bins(found) == dict.fromkeys(names, (1, 0, 0))
    tied = [scored_rollout(0.5, label, size=100) for label in (1.0, 0.0)]
    found = measure([GroupRecord("scored", "g", rollouts=tuple(tied))])
    assert bins(found) == {("length", "alike"): (1, 0, 1)}


items = st.builds(scored_rollout, grades, grades, grades, size=st.integers(0, 10**6))


@given(st.lists(items, max_size=9))
def test_bins(rollouts: list[RolloutRecord]) -> None:
    """The bins of a kind hold every pair once with its result; without gaps there is no bin of gaps."""
    result = measure([GroupRecord("scored", "g", rollouts=tuple(rollouts))])
    (scorer,) = result["scorers"]
    for kind in ("gap", "slot", "length"):
        tied = 0 if kind == "gap" else scorer["tied"]
        found = [own for (name, _), own in bins(result).items() if name == kind]
        sums = [sum(column) for column in zip(*found, strict=True)] or [0, 0, 0]
        assert sums == [
            scorer["pairs"] - scorer["tied"] + tied,
            scorer["against"],
            tied,
        ]


def test_sampled_pairs() -> None:
    """Of ten thousand rollouts a fixed sample of pairs is measured."""
    many = [scored([i / 10_000 for i in range(10_000)], [i % 2 for i in range(10_000)])]
    result = measure(many)
    assert result == measure(many)
    assert 3_500 < result["scorers"][0]["pairs"] < 4_500  # of 5,000 · 5,000


def panel(count: int) -> list[GroupRecord]:
    """Three judges: a good one, one as good with errors of its own, and one that guesses."""
    draw, result = random.Random(0), []
    for group in drawn(count, 6, seed=5):
        scores, labels = (
            [r.judge_score or 0.0 for r in group.rollouts],
            [r.label for r in group.rollouts],
        )
        guess = [draw.random() for _ in scores]
        again = [0.4 * (x or 0) + draw.gauss(0.3, 0.3) for x in labels]
        judges = {"good": scores, "other": again, "guess": guess}
        result.append(scored(scores, labels, key=group.key, judges=judges))
    return result


def test_panel() -> None:
    """The interval of a good judge lies above that of one that guesses."""
    result = measure(panel(150), "score")
    assert [s["name"] for s in result["scorers"]] == ["score", "good", "other", "guess"]
    _, good, _, guess = (s["pairwise_accuracy"] for s in result["scorers"])
    assert good["low"] > guess["high"]
    one = [scored([0.9, 0.1], [1, 0], judges={"a": (0.9, 0.1)})]
    assert len(measure(one, "score")["scorers"]) == 1  # a single judge is no panel


def test_two_files() -> None:
    """A judge does not differ from itself; a good one differs from one that guesses."""
    good = drawn(150, 6, seed=7)
    draw = random.Random(1)
    guess = [
        scored(
            [draw.random() for _ in g.rollouts],
            [r.label for r in g.rollouts],
            key=g.key,
        )
        for g in good
    ]
    same = two(good, good)["differences"]
    assert {f["value"] for f in same.values()} == {0.0}
    decided = {n: f["told_apart"] for n, f in same.items()}
    assert decided.pop("pairwise_accuracy") is False
    assert {*decided.values()} == {None}
    result = two(good, guess)
    assert result["differences"]["pairwise_accuracy"]["told_apart"]
    for name in result["differences"]:
        less = value(result, name) - value(result, name, 1)
        assert result["differences"][name]["value"] == pytest.approx(less)
    assert abs(result["correlation"]["value"]) < 0.1


def test_common_rollouts() -> None:
    """A rollout on which one judge failed counts for neither."""
    result = two(
        [scored([0.9, 0.4, None], [1, 0, 0])], [scored([0.9, 0.4, 0.1], [1, 0, 0])]
    )
    assert [s["pairs"] for s in result["scorers"]] == [1, 1]


def test_two_judges_without_labels() -> None:
    """Two judges can be compared with each other without a label."""
    one = [scored([0.9, 0.4], [None, None], key=str(i)) for i in range(9)]
    result = two(
        one, [scored([0.8, 0.1 + i / 10], [None, None], key=str(i)) for i in range(9)]
    )
    assert result["correlation"]["value"] is not None
    assert result["differences"]["pairwise_accuracy"]["value"] is None


def test_huge_numbers() -> None:
    """Labels of the largest size give only finite figures."""
    groups = [
        scored([0.9, 1e50, -1e50], [1e50, -1e50, 0.0], key=str(i)) for i in range(9)
    ]
    result = two(groups, groups)
    reported = [
        figure["value"]
        for figure in result["scorers"][0].values()
        if isinstance(figure, dict)
    ]
    assert all(number is None or abs(number) < 1e60 for number in reported)
