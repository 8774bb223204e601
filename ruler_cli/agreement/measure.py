"""Scored groups → everything that is told of them: one file, or two of the same input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from ruler_cli.agreement.bootstrap import MOST_UNITS, Figure, Measure, Units, difference
from ruler_cli.agreement.correlation import error_sums, of_errors, plain, sums
from ruler_cli.agreement.measures import NO_DIFFERENCE, Scorer, Tally
from ruler_cli.agreement.scored import Scored, Scores

_Row = tuple[Tally, Scored, Scores]
_POINTS = 0.6
"""Half an interval's width is about this by the root of the number of mixed groups, for groups of 8."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Two judges: how their scores go together within groups, and how their errors do."""

    one: str
    other: str
    plain: Figure
    errors: Figure


@dataclass(frozen=True, slots=True)
class Agreement:
    """What was measured. The first scorer is what the file says; judges of a panel follow.

    `mixed` are groups with rollouts of different labels, `labels` the worse and the better one where
    there are only two. `differences` are those of two files, the first less the second. `units` is how
    many units the groups were resampled in.
    """

    groups: int
    mixed: int
    rollouts: int
    labels: tuple[float, float] | None
    scorers: tuple[Scorer, ...]
    correlations: tuple[Correlation, ...]
    differences: Mapping[str, Figure]
    units: int

    @property
    def empty(self) -> bool:
        """Whether there is nothing that scores could be compared with."""
        told = [f for s in self.scorers for name, f in s.figures.items() if name != "cost_per_1000_usd"]
        told += [c.plain for c in self.correlations]
        return all(figure.value is None for figure in told)

    @property
    def expected_width(self) -> float | None:
        """About what an interval of the pairwise accuracy is wide on either side; None: nothing is mixed."""
        return min(0.5, _POINTS / math.sqrt(self.mixed)) if self.mixed else None


def measure(groups: Iterable[Scored], name: str, most_units: int = MOST_UNITS) -> Agreement:
    """One scored file, and each judge of its panel."""
    board = _Board(most_units)
    main = board.tally(name, details=True)
    panel: dict[str, Tally] = {}
    for group in groups:
        rows = [(main, group, group.scores)]
        for judge, scores in group.judges.items():
            if judge not in panel:
                panel[judge] = board.tally(judge, details=False)
            rows.append((panel[judge], group, scores))
        board.add(rows, rows[1:])
    judges = list(panel.values()) if len(panel) > 1 else []
    return board.agreement([main, *judges], list(combinations(judges, 2)), compared=False)


def measure_two(
    pairs: Iterable[tuple[Scored, Scored]], names: tuple[str, str], most_units: int = MOST_UNITS
) -> Agreement:
    """Two scored files of one input, over the rollouts that both have scored."""
    board = _Board(most_units)
    first, second = (board.tally(name, details=True) for name in names)
    for one, other in pairs:
        both = [None not in pair for pair in zip(one.scores, other.scores, strict=True)]
        rows = [(first, one, _only(one.scores, both)), (second, other, _only(other.scores, both))]
        board.add(rows, rows)
    return board.agreement([first, second], [(first, second)], compared=True)


def _only(scores: Scores, wanted: list[bool]) -> Scores:
    return tuple(score if want else None for score, want in zip(scores, wanted, strict=True))


class _Board:
    """Tallies that share the units of one bootstrap."""

    def __init__(self, most_units: int) -> None:
        self._units = Units(most_units)
        self._tallies: list[Tally] = []
        self._groups = self._mixed = self._rollouts = 0

    def tally(self, name: str, *, details: bool) -> Tally:
        self._tallies.append(Tally(name, f"{len(self._tallies)}:", details=details))
        return self._tallies[-1]

    def add(self, rows: list[_Row], judges: list[_Row]) -> None:
        """One group by the scores of each tally, first what the file says; judges are correlated."""
        group = rows[0][1]
        found: dict[str, float] = {}
        for tally, own, scores in rows:
            found |= tally.sums(own, scores)
        for (one, _, scores), (other, _, others) in combinations(judges, 2):
            found |= _together(group, scores, others, _pair(one, other))
        unit = self._units.add(found)
        for tally, _, _ in rows:
            tally.keep(unit)
        self._groups += 1
        self._rollouts += len(group.scores)
        self._mixed += found.get(f"{rows[0][0].prefix}pairs", 0) > 0

    def agreement(
        self, tallies: list[Tally], pairs: list[tuple[Tally, Tally]], *, compared: bool
    ) -> Agreement:
        units = self._units
        each = [tally.measures(units) for tally in tallies]
        all_: dict[tuple[object, str], Measure] = {
            (i, name): measure for i, found in enumerate(each) for name, measure in found.items()
        }
        for one, other in pairs:
            p = _pair(one, other)
            all_["plain", p] = Measure(plain(p), f"{p}aa", (-1.0, 1.0))
            all_["errors", p] = Measure(of_errors(f"{p}e"), f"{p}eaa", (-1.0, 1.0))
        names = [n for n in each[0] if n in each[-1] and "." not in n and n not in NO_DIFFERENCE]
        for name in names if compared else ():
            all_["difference", name] = difference(each[0][name], each[-1][name])
        figures = units.figures(all_)
        totals = units.totals()
        return Agreement(
            self._groups,
            self._mixed,
            self._rollouts,
            tallies[0].two,
            tuple(
                tally.scorer({name: figures[i, name] for name in found}, totals)
                for i, (tally, found) in enumerate(zip(tallies, each, strict=True))
            ),
            tuple(
                Correlation(a.name, b.name, figures["plain", _pair(a, b)], figures["errors", _pair(a, b)])
                for a, b in pairs
            ),
            {name: figures["difference", name] for name in names} if compared else {},
            len(units),
        )


def _pair(one: Tally, other: Tally) -> str:
    return "|".join(sorted((one.prefix, other.prefix)))


def _together(group: Scored, scores: Scores, others: Scores, prefix: str) -> dict[str, float]:
    """What a group adds to the correlations of two judges: rollouts that both scored."""
    both = [
        (a, b, label)
        for a, b, label in zip(scores, others, group.labels, strict=True)
        if a is not None and b is not None
    ]
    labelled = [(a, b, label) for a, b, label in both if label is not None]
    found: dict[str, float] = {}
    if len(both) > 1:
        found = sums([a for a, _, _ in both], [b for _, b, _ in both], prefix)
    if len(labelled) > 1:
        ones, twos, labels = ([row[i] for row in labelled] for i in range(3))
        found |= error_sums(ones, twos, labels, f"{prefix}e")
    return found


def told_apart(figure: Figure) -> bool:
    """Whether a difference is more than chance: its interval does not hold 0."""
    return figure.low is not None and figure.high is not None and not figure.low <= 0 <= figure.high


def ranked(scorers: tuple[Scorer, ...], name: str = "pairwise_accuracy") -> list[tuple[str, str]]:
    """Pairs (better, worse) of judges whose intervals do not overlap; no other two are ranked."""
    out = []
    for one, other in combinations(scorers, 2):
        a, b = one.figures.get(name), other.figures.get(name)
        if a is None or b is None or None in (a.low, a.high, b.low, b.high):
            continue
        if (a.low or 0) > (b.high or 0):
            out.append((one.name, other.name))
        elif (b.low or 0) > (a.high or 0):
            out.append((other.name, one.name))
    return out
