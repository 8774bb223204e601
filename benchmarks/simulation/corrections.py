"""Coverage of the intervals of `ruler agree`: labels drawn from a known truth, many times for each cell.

A cell holds if its intervals miss the truth no oftener than 6 %, but for three Monte Carlo errors.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations, product
from statistics import NormalDist, fmean
from unittest.mock import patch

from ruler_cli.results.agreement import AgreementBuilder, Vote
from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.scoring import bootstrap
from ruler_cli.scoring.bootstrap import CorrectedMean, Measured

LABELS = (20, 50, 100)
JUDGES = ("right", "good", "poor", "useless")
SHARES = (0.5, 0.85)
SIZES = (2, 4, 8)
GROUPS = 150
ACCURACIES = (0.5, 0.7, 0.85, 0.95)
PEOPLE = ("one", "three, each pair by one", "three, each pair by all")
ABILITY, ABILITY_SPREAD = 0.9, 0.04
"""The mean chance that a person names the better rollout, and its standard deviation over people."""
FEWER_RESAMPLES = patch.object(bootstrap, "RESAMPLES", 250)
"""Resamples of an interval; the product takes more."""
ALIKE = 0.4
"""The correlation of two labels, or of the judge's luck, in one group."""
_WRONG = 0.05
"""The share of labels from which the judge that is nearly right differs."""
_NOISE = {"good": 0.6, "poor": 2.5}
_Row = tuple[float, float]
"""The judge's value of a rollout, and the true one."""
_Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The share of intervals that hold the truth, and their mean width."""

    share: float
    width: float

    @classmethod
    def of(cls, truths: Sequence[float], ends: Sequence[_Ends]) -> Coverage:
        """Count the intervals that hold their truths."""
        both = zip(truths, ends, strict=True)
        held = [low <= truth <= high for truth, (low, high) in both]
        return cls(fmean(held), fmean(high - low for low, high in ends))

    def holds(self, runs: int) -> bool:
        """Return whether it is 94 %, but for three Monte Carlo errors."""
        return self.share >= 0.94 - 3 * math.sqrt(0.94 * 0.06 / runs)

    def __str__(self) -> str:
        return f"{100 * self.share:5.1f} % {self.width:.3f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Means over rollouts, with labels of some."""

    labels: int
    size: int
    judge: str
    share: float

    def __str__(self) -> str:
        return f"{self.labels:4} {self.size:5} {self.judge:8} {self.share:5.2f}"


@dataclass(frozen=True, slots=True)
class Covered:
    """The coverage of labels alone, of the corrected mean, and of PPI++ as it was published."""

    alone: Coverage
    corrected: Coverage
    plain: Coverage


@dataclass(frozen=True, slots=True)
class AccuracyCell:
    """Pairwise accuracy with pairs labelled by people, so many of each group."""

    labels: int
    of_group: int
    accuracy: float
    people: str = "one"

    def __str__(self) -> str:
        return f"{self.labels:4} {self.of_group:4} {self.accuracy:5.2f}  {self.people:24}"


def world(cell: Cell, dice: random.Random) -> list[list[_Row]]:
    """Draw the groups of a cell. A label is the sign of a normal quality, and the judge sees it with noise."""
    height = NormalDist().inv_cdf(cell.share)
    return [_group(cell, height, dice) for _ in range(GROUPS)]


def _group(cell: Cell, height: float, dice: random.Random) -> list[_Row]:
    common = dice.gauss(0, math.sqrt(ALIKE))
    own = [dice.gauss(0, math.sqrt(1 - ALIKE)) for _ in range(cell.size)]
    noise = [dice.gauss(0, _NOISE.get(cell.judge, 1.0)) for _ in own]
    return [
        _seen(cell.judge, height + common + quality, error, dice)
        for quality, error in zip(own, noise, strict=True)
    ]


def _seen(
    judge: str, quality: float, error: float, dice: random.Random
) -> _Row:
    label = float(quality > 0)
    if judge == "right":
        return abs(label - (dice.random() < _WRONG)), label
    seen = error if judge == "useless" else quality + error
    return min(1.0, max(0.0, round(0.55 + 0.15 * seen, 2))), label


@FEWER_RESAMPLES
def corrections(cell: Cell, runs: int) -> Covered:
    """Measure the coverage of a cell."""
    dice = random.Random(str(cell))
    alone, corrected, plain = list[_Ends](), list[_Ends](), list[_Ends]()
    for _ in range(runs):
        groups = world(cell, dice)
        places = [
            (g, i) for g, group in enumerate(groups) for i in range(len(group))
        ]
        drawn = dice.sample(places, cell.labels)
        labelled: dict[int, list[tuple[float, float, float]]] = {}
        for g, i in drawn:
            labelled.setdefault(g, []).append((*groups[g][i], 1.0))
        mean = CorrectedMean()
        for g, group in enumerate(groups):
            mean.add([score for score, _ in group], labelled.get(g, []))
        found = mean.estimate()
        assert found is not None
        alone.append(_ends(found["labels"]))
        corrected.append(_ends(found["corrected"]))
        scores = [score for group in groups for score, _ in group]
        plain.append(_plain(scores, [groups[g][i] for g, i in drawn]))
    every = (alone, corrected, plain)
    return Covered(*[Coverage.of([cell.share] * runs, ends) for ends in every])


def _ends(estimate: Measured) -> _Ends:
    assert estimate["low"] is not None
    return estimate["low"], estimate["high"]


def _plain(scores: Sequence[float], labelled: Sequence[_Row]) -> _Ends:
    """Return the interval of PPI++ for independent labels, with the normal distribution (arXiv 2311.01453)."""
    n, number = len(labelled), len(scores)
    seen, labels = ([row[side] for row in labelled] for side in (0, 1))
    spread = _variance(scores)
    middle, label = fmean(seen), fmean(labels)
    both = sum((f - middle) * (y - label) for f, y in labelled) / (n - 1)
    slope = (
        min(1.0, max(0.0, both / ((1 + n / number) * spread)))
        if spread
        else 0.0
    )
    value = label + slope * (fmean(scores) - middle)
    rest = _variance([y - slope * f for f, y in labelled])
    half = 1.96 * math.sqrt(slope**2 * spread / number + rest / n)
    return value - half, value + half


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


@FEWER_RESAMPLES
def accuracies(
    cell: AccuracyCell, runs: int
) -> tuple[Coverage, Coverage | None]:
    """Measure the coverage of the accuracy, and of the agreement of two of the people if there are several.

    Both are about those who labelled.
    """
    dice = random.Random(str(cell))
    found, of_people = list[_Ends](), list[_Ends]()
    truths, ceilings = list[float](), list[float]()
    for _ in range(runs):
        abilities = _abilities(cell, dice)
        agreement = _labelled(cell, abilities, dice).agreement()
        found.append(_ends(agreement["scorers"][0]["pairwise_accuracy"]))
        ability = fmean(abilities.values())
        right = cell.accuracy
        truths.append(right * ability + (1 - right) * (1 - ability))
        if agreement["people"]:
            of_people.append(_ends(agreement["people"]))
            two = combinations(abilities.values(), 2)
            ceilings.append(fmean(a * b + (1 - a) * (1 - b) for a, b in two))
    people = Coverage.of(ceilings, of_people) if of_people else None
    return Coverage.of(truths, found), people


def _abilities(cell: AccuracyCell, dice: random.Random) -> dict[str, float]:
    """Draw people, with the chance of each to name the better rollout."""
    if cell.people == "one":
        return {"ana": 1.0}
    return {
        name: min(1.0, dice.gauss(ABILITY, ABILITY_SPREAD))
        for name in ("ana", "bo", "cy")
    }


def _labelled(
    cell: AccuracyCell, abilities: Mapping[str, float], dice: random.Random
) -> AgreementBuilder:
    """Draw the labels of a cell, as `ruler agree` adds them."""
    builder = AgreementBuilder("score")
    names = [*abilities]
    alike = (1 - ALIKE) / ALIKE
    for start in range(0, cell.labels, cell.of_group):
        accuracy = cell.accuracy
        if cell.of_group > 1:
            accuracy = dice.betavariate(
                accuracy * alike, (1 - accuracy) * alike
            )
        votes = []
        scores = list[float]()
        for number in range(start, min(start + cell.of_group, cell.labels)):
            right = dice.random() < accuracy
            who = (
                names
                if cell.people.endswith("all")
                else [names[number % len(names)]]
            )
            choices = [dice.random() < abilities[name] for name in who]
            # the first rollout of the pair is better, and the judge tells so if it is right
            first = len(scores)
            scores += [0.75, 0.25] if right else [0.25, 0.75]
            for choice in choices:
                others = len(choices) - 1
                agreed = (
                    (choices.count(choice) - 1) / others if others else None
                )
                places = (first, first + 1) if choice else (first + 1, first)
                votes.append(
                    Vote(*places, share=1 / len(choices), agreed=agreed)
                )
        rollouts = [RolloutRecord("scored", score, score) for score in scores]
        group = GroupRecord("scored", str(start), rollouts=tuple(rollouts))
        builder.add(group, votes=votes, labelled=range(len(scores)))
    return builder


CELLS = [Cell(*parts) for parts in product(LABELS, SIZES, JUDGES, SHARES)]
ACCURACY_CELLS = [
    *[AccuracyCell(*parts) for parts in product(LABELS, (1, 4), ACCURACIES)],
    *[
        AccuracyCell(*parts)
        for parts in product(LABELS, (1,), (0.85,), PEOPLE[1:])
    ],
]


@dataclass(frozen=True, slots=True)
class Study:
    """The coverage of all cells, each with so many runs."""

    corrections: dict[Cell, Covered]
    accuracies: dict[AccuracyCell, tuple[Coverage, Coverage | None]]
    runs: int

    @classmethod
    def of(cls, runs: int, workers: int) -> Study:
        """Run all cells; the number of workers changes only the time."""
        times = [runs] * len(CELLS)
        with ProcessPoolExecutor(workers) as pool:
            found = pool.map(corrections, CELLS, times)
            also = pool.map(accuracies, ACCURACY_CELLS, times)
            return cls(
                dict(zip(CELLS, found, strict=True)),
                dict(zip(ACCURACY_CELLS, also, strict=True)),
                runs,
            )

    def lines(self) -> Iterator[tuple[str, bool]]:
        """Yield a line for each cell, with True if its intervals hold."""
        yield (
            "labels size judge    share | labels alone  | corrected     | PPI++",
            True,
        )
        for cell, one in self.corrections.items():
            holds = one.alone.holds(self.runs) and one.corrected.holds(
                self.runs
            )
            yield f"{cell} | {one.alone} | {one.corrected} | {one.plain}", holds
        yield (
            "labels, of a group, accuracy, people | accuracy      | two people",
            True,
        )
        for place, (judge, people) in self.accuracies.items():
            found = [own for own in (judge, people) if own]
            holds = all(own.holds(self.runs) for own in found)
            yield f"{place} | {' | '.join(map(str, found))}", holds

    def markdown(self) -> str:
        """Write the tables of benchmarks/README.md, with a sentence that describes them."""
        lines = [
            f"Simulated (`make simulate`): {self.runs} runs of each cell with a known truth, {GROUPS} groups of 2, 4 "
            "and 8 rollouts, labels drawn at random, means of 0.5 and 0.85. Coverage of 95 % intervals, the mean and "
            "the lowest of 6 cells, and mean widths:",
            "",
            f"| labels | judge | {' | '.join(_HEADS)} |",
            f"| --- | --- |{' --- |' * len(_HEADS)}",
        ]
        for labels, judge in product(LABELS, JUDGES):
            own = [
                one
                for cell, one in self.corrections.items()
                if (cell.labels, cell.judge) == (labels, judge)
            ]
            alone, corrected, plain = (
                [getattr(one, name) for one in own]
                for name in ("alone", "corrected", "plain")
            )
            cells = (
                str(labels),
                _JUDGES[judge],
                _range(alone),
                _range(corrected),
                f"{fmean(one.width for one in alone):.2f}",
                f"{fmean(one.width for one in corrected):.2f}",
                _range(plain),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines += [
            "",
            "Pairwise accuracy of 0.5 to 0.95, with one or four labelled pairs of a group; with three people it is "
            "0.85, and they err in a tenth of the pairs:",
            "",
            "| labels | people | coverage of the accuracy | width | coverage of the agreement of two people |",
            "| --- | --- | --- | --- | --- |",
        ]
        for labels, who in product(LABELS, PEOPLE):
            both = [
                one
                for place, one in self.accuracies.items()
                if (place.labels, place.people) == (labels, who)
            ]
            judges = [judge for judge, _ in both]
            people = [own for _, own in both if own]
            width = f"{fmean(one.width for one in judges):.2f}"
            ceiling = _range(people) if people else ""
            lines.append(
                f"| {labels} | {who} | {_range(judges)} | {width} | {ceiling} |"
            )
        return "\n".join(lines) + "\n"


_HEADS = (
    "coverage, labels alone",
    "coverage, corrected",
    "width, labels alone",
    "width, corrected",
    "coverage of PPI++ as published",
)
_JUDGES = {"right": "differs from 5 % of the labels"} | {
    name: name for name in JUDGES[1:]
}


def _range(found: Sequence[Coverage]) -> str:
    shares = [100 * one.share for one in found]
    if len(shares) == 1:
        return f"{shares[0]:.1f} %"
    return f"{fmean(shares):.1f} %, {min(shares):.1f} %"


def report(study: Study, write: Callable[[str], object]) -> int:
    """Write all cells, and return the number of those whose intervals do not hold."""
    failed = 0
    for line, holds in study.lines():
        write(line + ("" if holds else "  NO"))
        failed += not holds
    return failed
