"""Groups → all figures: one judge, a panel, and two files."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.measure import Agreement, measure, measure_two, ranked, told_apart
from ruler_cli.agreement.pairs import concordance
from ruler_cli.agreement.scored import Scored
from tests.agreement.values import drawn, rows, scored


def value(found: Agreement, name: str, judge: int = 0) -> float | None:
    """A figure's value."""
    return found.scorers[judge].figures[name].value


def test_by_hand() -> None:
    """Two mixed groups and one that is not: pairs are pooled, τ_b and regret are means over groups."""
    groups = [
        scored([0.9, 0.4, 0.4], [1, 1, 0], cost=0.3),  # one pair won, one tied; tau .5; regret 0
        scored([0.1, 0.8], [1, 0], cost=0.1),  # lost; tau -1; regret 1
        scored([0.5, 0.6], [1, 1]),
    ]
    found = measure(groups, "score")
    assert (found.groups, found.mixed, found.rollouts, found.labels) == (3, 2, 7, (0.0, 1.0))
    assert (found.scorers[0].pairs, found.scorers[0].compared) == (3, 7)
    assert value(found, "pairwise_accuracy") == value(found, "auc_within_groups") == pytest.approx(0.5)
    assert value(found, "tied_share") == pytest.approx(1 / 3)
    assert value(found, "kendall_tau_b") == -0.25
    assert value(found, "top1_regret") == 0.5
    assert value(found, "chance_regret") == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert value(found, "cost_per_1000_usd") == pytest.approx(1000 * 0.4 / 5)
    assert value(found, "auc") == pytest.approx(4.5 / 10)
    assert found.scorers[0].figures["pairwise_accuracy"].groups == 2
    assert found.expected_width == pytest.approx(0.6 / 2**0.5)


@given(st.lists(rows, max_size=6))
def test_pairs_are_pooled(groups: list[list[tuple[float, float]]]) -> None:
    """The accuracy is that of all pairs of all groups, ties one half."""
    found = measure([scored(*zip(*group, strict=True)) for group in groups], "score")
    each = [concordance(*zip(*group, strict=True)) for group in groups]
    pairs = sum(c.pairs for c in each)
    won = sum(c.won + c.tied / 2 for c in each)
    assert value(found, "pairwise_accuracy") == (pytest.approx(won / pairs) if pairs else None)
    taus = [tau for c in each if (tau := c.tau_b) is not None]
    assert value(found, "kendall_tau_b") == (pytest.approx(sum(taus) / len(taus)) if taus else None)
    assert found.mixed == sum(c.pairs > 0 for c in each)


def test_missing_is_left_out() -> None:
    """A rollout without a score or a label is as if it was not there."""
    whole = [scored([0.9, 0.4, 0.4], [1, 1, 0])]
    holes = [scored([0.9, None, 0.4, 0.7, 0.4], [1, 1, 1, None, 0])]
    assert measure(whole, "a").scorers == measure(holes, "a").scorers


def test_nothing() -> None:
    """Where nothing can be compared there is no figure at all; scores of one group are no comparison."""
    assert measure([], "a").empty
    assert measure([scored([0.1, 0.2], [1, 1])], "a").empty
    assert measure([scored([0.1, 0.2], [None, None])], "a").empty
    assert measure([], "a").expected_width is None


def panel(count: int, same: bool) -> list[Scored]:
    """Three judges: one good, one as good with errors of its own or the same, one that guesses."""
    draw, found = random.Random(0), []
    for group in drawn(count, 6, seed=5):
        guess = [draw.random() for _ in group.scores]
        again = group.scores if same else [0.4 * (x or 0) + draw.gauss(0.3, 0.3) for x in group.labels]
        judges = {"good": group.scores, "other": tuple(again), "guess": tuple(guess)}
        found.append(scored(group.scores, group.labels, key=group.key, judges=judges))
    return found


def test_panel() -> None:
    """Judges are ranked where their intervals lie apart, and nowhere else."""
    found = measure(panel(150, same=False), "score")
    assert [s.name for s in found.scorers] == ["score", "good", "other", "guess"]
    assert set(ranked(found.scorers[1:])) == {("good", "guess"), ("other", "guess")}
    few = measure(panel(12, same=False), "score")
    assert ranked(few.scorers[1:]) == []


def test_panel_errors() -> None:
    """Errors that two judges share are told, and those that they do not."""
    found = {(c.one, c.other): c for c in measure(panel(150, same=True), "score").correlations}
    assert found["good", "other"].errors.value == pytest.approx(1.0)
    assert found["good", "other"].plain.value == pytest.approx(1.0)
    apart = measure(panel(150, same=False), "score").correlations[0]
    assert apart.errors.value == pytest.approx(0, abs=0.1)
    assert apart.plain.value is not None
    assert apart.plain.value > 0.1


def test_one_judge_is_no_panel() -> None:
    """A single judge's own scores are not told twice."""
    groups = [scored([0.9, 0.1], [1, 0], judges={"a": (0.9, 0.1)})]
    assert len(measure(groups, "score").scorers) == 1


def test_two_files() -> None:
    """The same judge twice is not told apart from itself; a good one is from one that guesses."""
    good = drawn(150, 6, seed=7)
    draw = random.Random(1)
    guess = [scored([draw.random() for _ in g.scores], g.labels, key=g.key) for g in good]
    same = measure_two(zip(good, good, strict=True), ("A", "B"))
    assert {f.value for n, f in same.differences.items() if n != "cost_per_1000_usd"} == {0.0}
    assert not any(told_apart(f) for f in same.differences.values())
    found = measure_two(zip(good, guess, strict=True), ("A", "B"))
    assert told_apart(found.differences["pairwise_accuracy"])
    for name, figure in found.differences.items():
        if name == "cost_per_1000_usd":
            continue
        a, b = value(found, name), value(found, name, 1)
        assert a is not None
        assert b is not None
        assert figure.value == pytest.approx(a - b)
    assert found.correlations[0].errors.value == pytest.approx(0, abs=0.1)


def test_two_files_over_common_rollouts() -> None:
    """A rollout that one judge failed on counts for neither."""
    one = [scored([0.9, 0.4, None], [1, 0, 0])]
    other = [scored([0.9, 0.4, 0.1], [1, 0, 0])]
    found = measure_two(zip(one, other, strict=True), ("A", "B"))
    assert [s.pairs for s in found.scorers] == [1, 1]


def test_two_judges_without_labels() -> None:
    """Judges can be compared with one another where there is nothing else."""
    one = [scored([0.9, 0.4], [None, None], key=str(i)) for i in range(9)]
    other = [scored([0.8, 0.1 + i / 10], [None, None], key=str(i)) for i in range(9)]
    found = measure_two(zip(one, other, strict=True), ("A", "B"))
    assert not found.empty
    assert found.correlations[0].plain.value is not None
    assert found.correlations[0].errors.value is None
    assert found.differences["pairwise_accuracy"].value is None


def test_huge_numbers() -> None:
    """Labels as large as there may be make no figure that is no number."""
    groups = [scored([0.9, 1e50, -1e50], [1e50, -1e50, 0.0], key=str(i)) for i in range(9)]
    found = measure_two(zip(groups, groups, strict=True), ("A", "B"))
    for scorer in found.scorers:
        assert all(f.value is None or abs(f.value) < 1e60 for f in scorer.figures.values())
