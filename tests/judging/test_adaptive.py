"""Further passes go where they help, within two budgets, and never to a group that is a tie."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.judging.adaptive import (
    FIRST,
    MOST,
    UNIT,
    GroupStanding,
    allot,
)
from ruler_cli.prompting.prompt import balanced
from ruler_cli.types import GroupResult, PassScores


def _result(columns: Sequence[Sequence[float]], judges: int = 1) -> GroupResult:
    """A group from scores by rollout, pass by pass (and judge by judge in each), in balanced orders."""
    size = len(columns[0])
    all_scores = []
    for number, column in enumerate(columns):
        pass_index, judge = divmod(number, judges)
        order = balanced(range(size), pass_index)
        scores = tuple(column[rollout] for rollout in order)
        all_scores.append(
            PassScores(judge, pass_index, 0, tuple(order), scores, ("",) * size)
        )
    return GroupResult(
        tuple(range(size)), ("",) * size, (1,) * size, tuple(all_scores), judges=judges
    )


class _Group:
    """Scores of a group, drawn pass by pass as they are asked for."""

    def __init__(
        self,
        seed: int,
        *,
        spread: float,
        noise: float,
        size: int = 8,
        tokens: float = 100,
    ) -> None:
        self._rng = random.Random(seed)
        self._truths = [0.5 + spread * self._rng.gauss(0, 1) for _ in range(size)]
        self._noise = noise
        self._columns: list[list[float]] = []
        self.tokens = tokens

    def after(self, passes: int) -> GroupStanding | None:
        """The standing of the group after so many passes."""
        while len(self._columns) < passes:
            drawn = [
                truth + self._noise * self._rng.gauss(0, 1) for truth in self._truths
            ]
            self._columns.append([min(1.0, max(0.0, value)) for value in drawn])
        return GroupStanding.of(_result(self._columns[:passes]), self.tokens)


def _block(seed: int, number: int) -> list[_Group]:
    rng = random.Random(seed)
    return [
        _Group(
            rng.randrange(10**9),
            spread=rng.choice((0.0, 0.05, 0.2)),
            noise=rng.choice((0.0, 0.05, 0.2)),
            size=rng.randint(2, 9),
            tokens=rng.choice((10, 100, 100, 3000)),
        )
        for _ in range(number)
    ]


def _rounds(groups: Sequence[_Group], average: int) -> tuple[list[int], int]:
    """The passes of each group at the end, and the number of rounds; the rounds must end."""
    passes = [FIRST] * len(groups)
    for number in range(200):
        more = allot(
            [group.after(k) for group, k in zip(groups, passes, strict=True)], average
        )
        if not any(more):
            return passes, number
        passes = [k + extra for k, extra in zip(passes, more, strict=True)]
    raise AssertionError("the rounds do not end")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 24), st.integers(1, 7))
def test_both_budgets_hold(seed: int, number: int, average: int) -> None:
    """Passes and tokens stay at or below `average` per group, and no group gets more than its bound."""
    groups = _block(seed, number)
    passes, _ = _rounds(groups, average)
    allowed = max(average, FIRST)
    assert sum(passes) <= allowed * number
    assert sum(
        k * group.tokens for k, group in zip(passes, groups, strict=True)
    ) <= allowed * sum(group.tokens for group in groups)
    assert max(passes) <= max(FIRST, MOST * average)
    assert all((k - FIRST) % UNIT == 0 for k in passes)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 30), st.randoms(use_true_random=False))
def test_order_of_groups(seed: int, number: int, rng: random.Random) -> None:
    """The same block gets the same passes, and in another order each group gets its own."""
    result: list[GroupStanding | None] = [
        group.after(2) for group in _block(seed, number)
    ]
    given_passes = allot(result, 4)
    assert allot(result, 4) == given_passes
    order = rng.sample(range(number), number)
    moved = allot([result[i] for i in order], 4)
    by_group = dict(zip(order, moved, strict=True))
    if all(
        a != b for a, b in combinations(result, 2)
    ):  # two of a kind may change places
        assert [by_group[i] for i in range(number)] == given_passes
    assert sum(moved) == sum(given_passes)


@pytest.mark.parametrize(
    "columns",
    [
        [[0.5] * 8, [0.5] * 8],
        [[0.2] * 8, [0.9] * 8],
        [[0.4, 0.6] * 4, [0.6, 0.4] * 4],
    ],
    ids=[
        "all equal",
        "a pass stricter than the other",
        "passes that contradict one another",
    ],
)
def test_tied_group(columns: list[list[float]]) -> None:
    """No pass is spent if rollouts do not differ beyond noise, in one group or among others in need."""
    tied = GroupStanding.of(_result(columns), 100)
    others = [_Group(n, spread=0.2, noise=0.15).after(2) for n in range(30)]
    assert allot([tied], 4) == [0]
    more = allot([*others, tied], 4)
    assert more[-1] == 0
    assert sum(more) > 0


def test_noisy_groups_get_more() -> None:
    """Of groups with the same differences, those get more passes whose passes differ more."""
    quiet = [_Group(n, spread=0.2, noise=0.02) for n in range(30)]
    noisy = [_Group(100 + n, spread=0.2, noise=0.15) for n in range(30)]
    passes, _ = _rounds([*quiet, *noisy], 4)
    assert sum(passes[:30]) < sum(passes[30:]) / 2


def test_failed_group() -> None:
    """A failed group gets nothing, and the others get the passes that they would get without it."""
    result = [_Group(n, spread=0.2, noise=0.15).after(2) for n in range(12)]
    holed: list[GroupStanding | None] = [None, *result, None]
    assert allot(holed, 4) == [0, *allot(result, 4), 0]
    assert allot([None, None], 4) == [0, 0]
    assert allot([], 4) == []


def test_panels() -> None:
    """Groups that two judges score get further passes as any other."""
    rng = random.Random(5)

    def column() -> list[float]:
        return [0.1 * rollout + 0.08 * rng.gauss(0, 1) for rollout in range(8)]

    panel = [
        GroupStanding.of(_result([column() for _ in range(4)], judges=2), 100)
        for _ in range(20)
    ]
    assert all(standing is not None and standing.passes == 2 for standing in panel)
    assert sum(allot(panel, 4)) > 0


def test_no_standing() -> None:
    """One distinct rollout, no usable reply or an escalation leave nothing to decide."""
    assert GroupStanding.of(_result([[0.5], [0.5]]), 100) is None
    assert GroupStanding.of(replace(_result([[0.1, 0.2]]), pass_scores=()), 100) is None
    assert GroupStanding.of(replace(_result([[0.1, 0.2]]), escalated_to=0), 100) is None
