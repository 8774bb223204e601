"""Pairs that people are to compare, drawn from scored groups."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from ruler_cli.results.draw import DrawnPair, PairDraw
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.record import GroupRecord
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group
from tests.results.report.written import group, rollout, written

Groups = list[tuple[Group, GroupRecord]]


def read(path: Path, *lines: dict[str, Any]) -> Groups:
    """The groups of a file of these lines."""
    settings = InputSettings(str(written(path, *lines)))
    with ExitStack() as stack:
        file = ScoredFile(settings, stack, lambda problem: None)
        return [(g, s) for _, g, s in file.groups()]


def of(key: str, *scores: float | None, **each: Any) -> dict[str, Any]:
    """A group of rollouts with these scores; `each` holds a list of annotations for them."""
    own = [
        {name: values[i] for name, values in each.items()} for i in range(len(scores))
    ]
    return group(
        key,
        *(rollout(f"{key} {i}", score, **own[i]) for i, score in enumerate(scores)),
    )  # fmt: skip


def draw(groups: Groups, most: int, seed: int = 0) -> list[DrawnPair]:
    """Draw from the groups; of each the name is kept."""
    pairs = PairDraw(most, seed)
    for one, scored in groups:
        pairs.add(one, scored, lambda _, s: s.key)
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


@pytest.mark.parametrize("disputed", [0, 2])
def test_chances(tmp_path: Path, disputed: int) -> None:
    """Over many seeds any pair is drawn at random as often as any other, as its chance says, disputed or not."""
    numbers = (2, 3, 4, 5, 3, 2, 4, 3, 2, 3)
    lines = sizes(*numbers)
    for line in lines[:disputed]:
        for i, one in enumerate(line["trajectories"]):
            one["ruler"] |= {"score": i / 10, "independent_reward": -i}
    groups = read(tmp_path / "s.jsonl", *lines)
    seeds = 800
    drawn = Counter[tuple[str, ...]]()
    chances = []
    totals = []
    for seed in range(seeds):
        found = draw(groups, 6, seed)
        assert len(found) == 6
        at_random = [*filter(is_random, found)]
        assert len(at_random) >= 3
        drawn.update(map(about, at_random))
        (chance,) = {pair.chance for pair in at_random}
        chances.append(chance or 0.0)
        totals.append(len(at_random) / chances[-1])
    pairs = sum(n * (n - 1) // 2 for n in numbers)
    assert len(drawn) == pairs
    chance = fmean(chances)
    error = (chance * (1 - chance) / seeds) ** 0.5
    for pair, times in drawn.items():
        assert abs(times / seeds - chance) <= 4.5 * error, pair
    assert {round(total) for total in totals} == {pairs}


def test_sides_and_order(tmp_path: Path) -> None:
    """Either rollout stands left half of the time, and ways to draw are mixed from the first pair on."""
    lines = sizes(*[4] * 20)
    for line in lines:
        line["trajectories"][0]["ruler"] |= {"score": 1, "independent_reward": 0}
        line["trajectories"][1]["ruler"] |= {"score": 0, "independent_reward": 1}
    groups = read(tmp_path / "s.jsonl", *lines)
    firsts = Counter[str]()
    left = 0
    for seed in range(300):
        found = draw(groups, 9, seed)
        firsts[found[0].drawn] += 1
        left += found[0].indices[0] < found[0].indices[1]
    assert 120 < firsts["random"] < 210
    assert 110 < left < 190


def test_reproducible(tmp_path: Path) -> None:
    """The seed and the content decide, not the order of groups and rollouts, and scores only how many are at random."""
    lines = sizes(*[4] * 12)
    groups = read(tmp_path / "s.jsonl", *lines)
    first = draw(groups, 9)
    for line in lines:
        line["trajectories"].reverse()
    again = draw(read(tmp_path / "t.jsonl", *lines[::-1]), 9)
    assert [(p.group, p.ids, p.drawn, p.chance) for p in again] == [
        (p.group, p.ids, p.drawn, p.chance) for p in first
    ]
    assert {*map(about, draw(groups, 9, 1))} != {*map(about, first)}
    for line in lines:
        for i, one in enumerate(line["trajectories"]):
            one["ruler"]["score"] = i / 10
    rescored = draw(read(tmp_path / "u.jsonl", *lines), 9)
    fewer, more = sorted(
        ({*map(about, filter(is_random, each))} for each in (first, rescored)), key=len
    )
    assert 5 <= len(fewer) < 9
    assert fewer < more


def is_random(pair: DrawnPair) -> bool:
    """Tell if a pair was drawn at random."""
    return pair.drawn == "random"


def test_disputed(tmp_path: Path) -> None:
    """Half are the pairs on which passes, judges or the reward disagree most, two of a group at most."""
    agreed = [of(f"a{i}", 0.1, 0.5, 0.9) for i in range(40)]
    slots = [[0.0, 1.0]] * 3
    passes = [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]]
    wild = [
        of(f"w{i}", 0.5, 0.5, 0.5, slots=slots, pass_scores=passes) for i in range(3)
    ]
    judges = of("judges", 0.4, 0.6, judges=[{"x": 0.9, "y": 0.1}, {"x": 0.1, "y": 0.9}])
    reward = of("reward", 0.2, 0.7, independent_reward=[1, 0])
    groups = read(tmp_path / "s.jsonl", *agreed, *wild, judges, reward)
    drawn = draw(groups, 24)
    others = [pair for pair in drawn if not is_random(pair)]
    assert len(drawn) == 24
    # all that there are, but for those drawn at random besides
    assert 6 <= len(others) <= 8
    assert {pair.chance for pair in others} == {None}
    telling = Counter({"w0": 2, "w1": 2, "w2": 2, "judges": 1, "reward": 1})
    assert not Counter(pair.group for pair in others) - telling
    assert len([*filter(is_random, draw(groups, 9))]) >= 5


@pytest.mark.parametrize("most", [18, 19, 500])
def test_all_pairs(tmp_path: Path, most: int) -> None:
    """If there are no more pairs than asked for, all are drawn, with the chance 1."""
    found = draw(read(tmp_path / "s.jsonl", *sizes(4, 4, 4)), most)
    assert len({*map(about, found)}) == len(found) == 18
    assert {(pair.drawn, pair.chance) for pair in found} == {("random", 1.0)}


@pytest.mark.parametrize("most", [1, 2, 3, 17])
def test_number(tmp_path: Path, most: int) -> None:
    """So many different pairs are drawn as are asked for, if there are as many."""
    found = draw(read(tmp_path / "s.jsonl", *sizes(4, 4, 4)), most)
    assert len({*map(about, found)}) == len(found) == most


def test_no_pairs(tmp_path: Path) -> None:
    """Rollouts that are identical, have no score or cannot be read are in no pair."""
    twins = group("twins", rollout("same", 0.1), rollout("same", 0.1))
    unscored = of("unscored", 0.5, None, status=["scored", "failed"])
    unread = group("unread", rollout("one", 0.5), rollout("two", 0.4))
    unread["trajectories"][1]["messages"] = []
    lines = (twins, unscored, unread, of("alone", 0.5))
    assert draw(read(tmp_path / "s.jsonl", *lines), 5) == []


def test_large_group(tmp_path: Path) -> None:
    """Of a group of very many rollouts pairs of a sample are drawn."""
    groups = read(tmp_path / "s.jsonl", of("g", *(i / 200 for i in range(200))))
    found = draw(groups, 3_000)
    assert len({*map(about, found)}) == 3_000
    (chance,) = {pair.chance for pair in filter(is_random, found)}
    assert chance == 3_000 / (128 * 127 / 2)


def test_few_are_kept(tmp_path: Path) -> None:
    """Texts are kept of the groups that may be drawn from: hardly more for many groups than for few."""
    groups = read(tmp_path / "s.jsonl", *sizes(*[3] * 600))
    kept = 0

    def keep(_: Group, scored: GroupRecord) -> str:
        nonlocal kept
        kept += 1
        return scored.key

    pairs = PairDraw(6, 0)
    for one, scored in groups:
        pairs.add(one, scored, keep)
    assert kept < 150
    assert all(pair.kept == pair.group for pair in pairs.drawn())
