"""Pairs that people are to compare, drawn from scored groups."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ruler_cli.results.draw import DrawnPair, PairDraw
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.record import GroupRecord
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group
from tests.results.report.written import group, rollout, written

Groups = list[tuple[Group, GroupRecord]]


def read(path: Path, *lines: dict[str, Any]) -> Groups:
    """The groups of a file of these lines."""
    settings = InputSettings(str(written(path, *lines)))
    with ExitStack() as stack:
        file = ScoredFile(open_input(settings, stack, lambda problem: None))
        return [(g, s) for _, g, s in file.groups()]


def of(key: str, *scores: float | None, **row: Any) -> dict[str, Any]:
    """A group of rollouts with these scores; `each` holds a list of annotations for them."""
    mine = [
        {name: values[i] for name, values in row.items()}
        for i in range(len(scores))
    ]
    return group(
        key,
        *(rollout(f"{key} {i}", score, **mine[i]) for i, score in enumerate(scores)),
    )  # fmt: skip


def draw(groups: Groups, most: int, seed: int = 0) -> list[DrawnPair]:
    """Draw from the groups; of each the name is kept."""
    pairs = PairDraw(most, seed)
    for row, scored in groups:
        pairs.add(row, scored, lambda _, s: s.key)
    return pairs.drawn()


def about(pair: DrawnPair) -> tuple[str, ...]:
    """The group and both rollouts, whichever stands left."""
    return (pair.group, *sorted(pair.ids))


def sizes(*numbers: int) -> list[dict[str, Any]]:
    """Groups of so many rollouts, with random scores."""
    dice = random.Random(len(numbers))
    return [
        of(f"g{i}", *(round(dice.random(), 3) for _ in range(n)))
        for i, n in enumerate(numbers)
    ]


def is_random(pair: DrawnPair) -> bool:
    """Return whether a pair was drawn at random."""
    return pair.drawn == "random"


@pytest.mark.parametrize("disputed", [0, 2])
def test_chances(tmp_path: Path, disputed: int) -> None:
    """Over many seeds any pair is drawn at random as often as any other, as its chance says, disputed or not.

    Either rollout stands left half of the time.
    """
    numbers = (2, 3, 4, 5, 3, 2, 4, 3, 2, 3)
    lines = sizes(*numbers)
    for line in lines[:disputed]:
        for i, row in enumerate(line["trajectories"]):
            judges = [
                {"judge": "a", "score": i / 10},
                {"judge": "b", "score": -i / 10},
            ]
            row["ruler"]["judges"] = judges
    groups = read(tmp_path / "s.jsonl", *lines)
    seeds = 600
    drawn = Counter[tuple[str, ...]]()
    chances = []
    left = 0
    for seed in range(seeds):
        result = draw(groups, 6, seed)
        assert len(result) == 6
        left += result[0].indices[0] < result[0].indices[1]
        at_random = [*filter(is_random, result)]
        assert len(at_random) >= 3
        drawn.update(map(about, at_random))
        (chance,) = {pair.chance for pair in at_random}
        chances.append(chance or 0.0)
        assert round(len(at_random) / chances[-1]) == sum(
            comb(n, 2) for n in numbers
        )
    assert len(drawn) == sum(comb(n, 2) for n in numbers)
    chance = fmean(chances)
    error = (chance * (1 - chance) / seeds) ** 0.5
    for pair, times in drawn.items():
        assert abs(times / seeds - chance) <= 4.5 * error, pair
    assert 240 < left < 360


def test_reproducible(tmp_path: Path) -> None:
    """The seed and the content decide, not the order of groups and rollouts, nor their scores."""
    lines = sizes(*[4] * 12)
    groups = read(tmp_path / "s.jsonl", *lines)
    first = draw(groups, 9)
    for line in lines:
        line["trajectories"].reverse()
        for i, row in enumerate(line["trajectories"]):
            row["ruler"]["score"] = i / 10
    again = draw(read(tmp_path / "t.jsonl", *lines[::-1]), 9)
    assert [(p.group, p.ids, p.drawn, p.chance) for p in again] == [
        (p.group, p.ids, p.drawn, p.chance) for p in first
    ]
    assert {*map(about, draw(groups, 9, 1))} != {*map(about, first)}


def test_disputed(tmp_path: Path) -> None:
    """Half are the pairs on which passes or judges disagree most, two of a group at most."""
    agreed = [of(f"a{i}", 0.1, 0.5, 0.9) for i in range(40)]
    slots = [[0.0, 1.0]] * 3
    passes = [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]]
    wild = [
        of(f"w{i}", 0.5, 0.5, 0.5, slots=slots, pass_scores=passes)
        for i in range(3)
    ]
    judges = of(
        "judges", 0.4, 0.6, judges=[{"x": 0.9, "y": 0.1}, {"x": 0.1, "y": 0.9}]
    )
    groups = read(tmp_path / "s.jsonl", *agreed, *wild, judges)
    drawn = draw(groups, 24)
    others = [pair for pair in drawn if not is_random(pair)]
    assert len(drawn) == 24
    # all that there are, but for those drawn at random besides
    assert 5 <= len(others) <= 7
    assert {pair.chance for pair in others} == {None}
    disputed = Counter({"w0": 2, "w1": 2, "w2": 2, "judges": 1})
    assert not Counter(pair.group for pair in others) - disputed
    assert len([*filter(is_random, draw(groups, 9))]) >= 5


def test_no_pairs(tmp_path: Path) -> None:
    """Rollouts that are identical, have no score or cannot be read are in no pair."""
    twins = group("twins", rollout("same", 0.1), rollout("same", 0.1))
    unscored = of("unscored", 0.5, None, status=["scored", "failed"])
    unread = group("unread", rollout("one", 0.5), rollout("two", 0.4))
    unread["trajectories"][1]["messages"] = []
    lines = (twins, unscored, unread, of("alone", 0.5))
    assert draw(read(tmp_path / "s.jsonl", *lines), 5) == []
