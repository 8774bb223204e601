"""Concordance, τ_b, regret and kinds of pairs, by hand and against looking at every pair."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.pairs import KINDS, Concordance, Item, concordance, regret, slices
from tests.agreement.values import grades, rows


def naive(found: list[tuple[float, float]]) -> Concordance:
    """Look at each pair."""
    pairs = won = tied = spread = 0
    for (score, label), (other, other_label) in combinations(found, 2):
        spread += score != other
        if label != other_label:
            pairs += 1
            tied += score == other
            won += (score - other) * (label - other_label) > 0
    return Concordance(pairs, won, tied, spread)


def test_by_hand() -> None:
    """Three rollouts, two passed: one pair won, one tied."""
    found = concordance([0.9, 0.4, 0.4], [1, 1, 0])
    assert found == Concordance(pairs=2, won=1, tied=1, spread=2)
    assert found.lost == 0
    assert found.tau_b == 0.5  # (1 - 0) / sqrt(2 * 2)


def test_nothing_to_order() -> None:
    """Where all labels or all scores are equal τ_b is not defined, and no zero."""
    assert concordance([0.1, 0.9], [1, 1]).tau_b is None
    assert concordance([0.5, 0.5], [0, 1]).tau_b is None
    assert concordance([0.5], [0]) == Concordance(0, 0, 0, 0)


@given(rows)
def test_as_if_each_pair_was_looked_at(found: list[tuple[float, float]]) -> None:
    """Counts are those of looking at each pair."""
    scores, labels = zip(*found, strict=True)
    assert concordance(scores, labels) == naive(found)


@given(rows)
def test_perfect_and_reversed(found: list[tuple[float, float]]) -> None:
    """Scores that are the labels win all pairs; turned around they lose all."""
    labels = [label for _, label in found]
    best, worst = concordance(labels, labels), concordance([-label for label in labels], labels)
    assert (best.won, best.tied) == (best.pairs, 0)
    assert (worst.lost, worst.tied) == (best.pairs, 0)
    assert best.tau_b in (None, 1.0)


def test_regret_by_hand() -> None:
    """Of two that are both on top the mean label counts; by chance it is the mean of all."""
    assert regret([0.9, 0.9, 0.1], [1, 0, 1]) == (0.5, 1 - 2 / 3)
    assert regret([0.1, 0.2], [5, 3]) == (2, 1)
    assert regret([0.2, 0.1], [5, 3]) == (0, 1)


@given(rows)
def test_regret_is_within_the_labels(found: list[tuple[float, float]]) -> None:
    """Regret lies between nothing and what the best is above the worst."""
    scores, labels = zip(*found, strict=True)
    missed, by_chance = regret(scores, labels)
    assert -1e-12 <= missed <= max(labels) - min(labels) + 1e-12
    assert -1e-12 <= by_chance <= max(labels) - min(labels) + 1e-12


def test_slices_by_hand() -> None:
    """A pair is in one bin of each kind that is known of both its rollouts."""
    better = Item(0.9, 1, place=0.1, size=500)
    worse = Item(0.8, 0, place=0.9, size=5_000)
    assert slices([worse, better]) == {
        ("gap", 1): (1, 1.0),
        ("slot", 0): (1, 1.0),
        ("place", 0): (1, 1.0),
        ("length", 0): (1, 1.0),
        ("size", 2): (1, 1.0),
    }
    assert slices([Item(0.5, 1), Item(0.5, 0)]) == {}
    assert slices([Item(0.5, 1, size=100), Item(0.5, 0, size=100)]) == {
        ("length", 2): (1, 0.5),
        ("size", 0): (1, 0.5),
    }
    assert ("place", 2) in slices([Item(0.5, 1, place=1.0), Item(0.5, 0, place=0.0)])


items = st.builds(Item, grades, grades, grades, st.integers(0, 10**6))


@given(st.lists(items, max_size=9))
def test_slices_part_the_pairs(found: list[Item]) -> None:
    """The bins of a kind hold every pair once, won as often as it is won; no gap, no bin of gaps."""
    whole = concordance([i.score for i in found], [i.label for i in found])
    pairs: Counter[str] = Counter()
    won: Counter[str] = Counter()
    bins = {kind.name: len(kind.bins) for kind in KINDS}
    for (kind, bin_), (number, sum_) in slices(found).items():
        assert 0 <= bin_ < bins[kind]
        pairs[kind] += number
        won[kind] += sum_  # type: ignore[assignment]  # halves
    for kind in bins:
        tied = whole.tied if kind == "gap" else 0
        assert pairs[kind] == whole.pairs - tied
        assert math.isclose(won[kind], whole.won + (whole.tied - tied) / 2)


@pytest.mark.long
def test_a_large_group_is_seen_in_parts() -> None:
    """Of ten thousand rollouts not every pair is looked at, and always the same ones."""
    many = [Item(i / 10_000, i % 2, size=10) for i in range(10_000)]
    found = slices(many)
    assert found == slices(many)
    number = sum(pairs for (kind, _), (pairs, _) in found.items() if kind == "length")
    assert 300_000 < number < 330_000  # 5,000 · 5,000 there are
    scores, labels = [i.score for i in many], [i.label for i in many]
    assert concordance(scores, labels).pairs == 25_000_000
