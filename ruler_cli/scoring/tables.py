"""Replies about a group → a table of scores for each judge, and the variance between passes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import fsum, sqrt
from operator import attrgetter

from ruler_cli.scoring.statistics import Anova
from ruler_cli.scoring.window_shifts import WindowFit, fit
from ruler_cli.types import GroupResult, PassScores, in_order, value

_EXACT = 12
_DIGITS = 9
"""Decimals of a score from a fit to windows: those behind them are the solver's rounding."""
Correction = Callable[[PassScores], Sequence[float]]
"""The corrected scores of a request, in its order."""
UNCORRECTED: Correction = attrgetter("scores")
EPSILON = 1e-9
"""Rounding of a difference of decimals."""
_OF_JUDGE = ("reply", "transport", "refused", "too_long")
"""Kinds of errors that another judge may not have."""


def mean(values: Sequence[float]) -> float:
    """Return the mean, rounded to twelve decimals; of equal values it is exactly that value.

    Without rounding, .3 and .45 would have another mean than .35 and .4 in binary fractions, and chance
    would decide which rollout is the best.
    """
    rounded = round(fsum(values) / len(values), _EXACT)
    return min(max(rounded, min(values)), max(values))


@value
class ScoreTable:
    """One judge's scores of a group.

    `shown[i]` are the replies about distinct rollout i, each with its position there, and `cells[i]` its scores in
    them; if the judge saw windows, the windows' levels are subtracted and `fit` has them. `scores[i]` is the mean of
    the cells, within [0, 1]; None if there are none. `windows` are the distinct rollouts and the corrected scores of
    each request. `passes` counts the scores that every rollout has at least, but for those that the judge has
    `refused` to score in every pass.
    """

    pass_scores: Sequence[PassScores]
    windows: Sequence[tuple[Sequence[int], Sequence[float]]]
    shown: Sequence[Sequence[tuple[PassScores, int]]]
    cells: Sequence[Sequence[float]]
    scores: Sequence[float | None]
    passes: int
    fit: WindowFit | None
    refused: Collection[int]

    @property
    def judge(self) -> int:
        """The number of the judge."""
        return self.pass_scores[0].judge

    @property
    def each(self) -> bool:
        """Return whether the judge saw each rollout alone: one score is all that it has to say."""
        return self.pass_scores[0].asked_alone

    def vetoed(self, rollouts: Collection[int]) -> ScoreTable:
        """Return the table in which these distinct rollouts score 0 in every pass."""
        cells = list(self.cells)
        scores = list(self.scores)
        for rollout in rollouts:
            cells[rollout] = [0.0] * len(cells[rollout])
            if scores[rollout] is not None:
                scores[rollout] = 0.0
        return replace(
            self,
            cells=cells,
            scores=scores,
        )


def _table(
    result: GroupResult, passes: Sequence[PassScores], correct: Correction
) -> ScoreTable:
    """Return the table of the judge of these passes."""
    windows = [(reply.distinct, correct(reply)) for reply in passes]
    shown: list[list[tuple[PassScores, int]]] = [[] for _ in result.sizes]
    rows: list[list[float]] = [[] for _ in result.sizes]
    refused = set[int]()
    for reply, (distinct, values) in zip(
        passes,
        windows,
        strict=True,
    ):
        refused.update(reply.unanswered)
        for position, rollout in enumerate(distinct):
            shown[rollout].append((reply, position))
            rows[rollout].append(values[position])
    refused = {rollout for rollout in refused if not rows[rollout]}
    # a value of a criterion says the same in every window
    alike = passes[0].asked_alone or result.rubric is not None
    fitted = None
    cells: Sequence[Sequence[float]] = rows
    means = [mean(row) if row else None for row in rows]
    if result.windows > 1 and not alike:
        fitted = fit(windows, len(result.sizes))
        cells = fitted.adjusted
        means = [score and round(score, _DIGITS) for score in fitted.scores]
    scores = [
        None if score is None else min(1.0, max(0.0, score)) for score in means
    ]
    numbers = [
        len(row) for number, row in enumerate(rows) if number not in refused
    ]
    return ScoreTable(
        passes,
        windows,
        shown,
        cells,
        scores,
        min(numbers, default=0),
        fitted,
        refused,
    )


def variance_of(
    result: GroupResult, used: Sequence[ScoreTable]
) -> Anova | None:
    """Analyse the variance of rollout × (judge, pass); None if there is only one of either."""
    if result.alone or len(result.pass_scores) < 2:
        return None
    fits = [table.fit for table in used if table.fit]
    if fits:  # it subtracts the level of every window of every judge
        whole = fits[0]
        if len(fits) > 1:
            windows = list[tuple[Sequence[int], Sequence[float]]]()
            for table in used:
                windows += table.windows if table.fit else ()
            whole = fit(windows, len(result.sizes))
        return whole.anova if whole.anova.k > 1 else None
    columns = list[Sequence[float]]()
    for table in used:
        # one that was shown in windows, and lacks one, has more scores of some rollouts
        rows = [row[: table.passes] for row in table.cells if row]
        # a judge that was asked about each rollout may lack some
        if table.passes and len(rows) == len(table.cells):
            columns += zip(*rows, strict=True)
    return Anova.of(columns) if len(columns) > 1 else None


class PassTables:
    """The tables of a group's passes, made once."""

    def __init__(
        self,
        result: GroupResult,
        correct: Correction = UNCORRECTED,
    ) -> None:
        """Make a table for each judge that gave any score, by the judges' numbers."""
        self.result = result
        by_judge: dict[int, list[PassScores]] = {}
        for reply in sorted(result.pass_scores, key=in_order):
            by_judge.setdefault(reply.judge, []).append(reply)
        self.tables = [
            _table(
                result,
                passes,
                correct,
            )
            for passes in by_judge.values()
        ]


def undecided(result: GroupResult, gap: float) -> bool:
    """Return whether the judges of a group leave it to a stronger one.

    They do if no two of its scores lie further apart than the gap, or than twice the standard error of a score over
    passes; and if there are no scores, for another reason than the group itself, the cap or an interruption.
    """
    made = PassTables(result)
    tables = [table for table in made.tables if table.passes]
    if not tables:
        errors = [call.error for call in result.failed_calls]
        return any(error.kind in _OF_JUDGE for error in errors)
    if result.alone:
        return False
    scores = []
    for row in zip(*[table.scores for table in tables], strict=True):
        present = [score for score in row if score is not None]
        if present:
            scores.append(mean(present))
    variance = variance_of(result, tables)
    error = sqrt(variance.ms_res / variance.k) if variance else 0.0
    return max(scores) - min(scores) <= max(gap, 2 * error) + EPSILON
