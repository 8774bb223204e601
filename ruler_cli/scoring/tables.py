"""What each judge gave each distinct rollout of a group, pass by pass, and the mean of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from ruler_cli.ballots import Ballot, Judged
from ruler_cli.statistics import shifts
from ruler_cli.statistics.reliability import Anova

_EXACT = 12
_DIGITS = 9
"""Decimals of a score that was solved for: what is behind them is the solver's rounding."""
Correct = Callable[[Ballot], Sequence[float]]
"""The scores of a ballot, aligned with its bodies, as they are to count."""


@dataclass(frozen=True, slots=True)
class Table:
    """One judge's word on a group.

    `cells[i]` are the scores of body i in the order of `ballots`; where it was shown in windows, without
    the windows' levels, which are `fitted`. `scores[i]` is its mean, within [0, 1]; None where it has no
    cell. `windows` are bodies and scores of each ballot.
    """

    judge: int
    ballots: tuple[Ballot, ...]
    windows: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    cells: tuple[tuple[float, ...], ...]
    scores: tuple[float | None, ...]
    fitted: shifts.Fitted | None = None

    @property
    def passes(self) -> int:
        """How often every body was scored at least."""
        return min(map(len, self.cells), default=0)


def as_given(ballot: Ballot) -> Sequence[float]:
    """The scores as the judge gave them."""
    return ballot.scores


def tables(judged: Judged, correct: Correct = as_given) -> list[Table]:
    """A table for each judge that gave any score, by the judges' numbers."""
    by_judge: dict[int, list[Ballot]] = {}
    for ballot in sorted(judged.ballots, key=lambda b: (b.judge, b.turn, b.window)):
        by_judge.setdefault(ballot.judge, []).append(ballot)
    return [_table(judged, judge, ballots, correct) for judge, ballots in by_judge.items()]


def _table(judged: Judged, judge: int, ballots: list[Ballot], correct: Correct) -> Table:
    windows = tuple((ballot.bodies, tuple(correct(ballot))) for ballot in ballots)
    bodies = len(judged.sizes)
    cells: tuple[tuple[float, ...], ...]
    scores: tuple[float | None, ...]
    fitted = None
    if judged.windows > 1:
        fitted = shifts.fit(windows, bodies)
        cells, scores = fitted.adjusted, fitted.scores
    else:
        found: list[list[float]] = [[] for _ in range(bodies)]
        for shown, given in windows:
            for body, score in zip(shown, given, strict=True):
                found[body].append(score)
        cells = tuple(map(tuple, found))
        scores = tuple(mean(row) if row else None for row in cells)
    within = tuple(None if score is None else min(max(score, 0.0), 1.0) for score in scores)
    if fitted is not None:
        within = tuple(None if score is None else round(score, _DIGITS) for score in within)
    return Table(judge, tuple(ballots), windows, cells, within, fitted)


def anova(judged: Judged, used: Sequence[Table]) -> Anova | None:
    """The analysis of variance of rollout × (judge, pass); None where there is only one of either."""
    bodies = len(judged.sizes)
    if bodies < 2:
        return None
    if judged.windows > 1:  # a judge's window is one more window: the levels of both are taken out
        fitted = used[0].fitted if len(used) == 1 else None
        found = (fitted or shifts.fit([w for table in used for w in table.windows], bodies)).anova
        return found if found.k > 1 else None
    columns = [column for table in used for column in zip(*table.cells, strict=True)]
    return Anova.of(columns) if len(columns) > 1 else None


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean to twelve decimals; of equal values it is the value.

    What is behind them is how decimals are rounded in binary: .3 and .45 would come to another mean than
    .35 and .4, and chance would decide who is the best.
    """
    least, most = min(values), max(values)
    if least == most:
        return values[0]
    return min(max(round(fsum(values) / len(values), _EXACT), least), most)
