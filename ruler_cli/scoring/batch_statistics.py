"""The scores of a group by judge and pass, and running sums over the groups of a batch.

The sums tell how good the judges are. Their memory does not grow with the number of groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import fsum, sqrt
from operator import attrgetter

from ruler_cli.formats.fields import PASSING, printable
from ruler_cli.scoring import window_shifts
from ruler_cli.scoring.reliability import Anova, NoiseEstimator, NoisePrior
from ruler_cli.scoring.sums import (
    CORRELATIONS,
    LengthSums,
    Moments,
    PositionBias,
    pair_products,
    quantile,
)
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    BatchFigures,
    Contradiction,
    GroupResult,
    GroupScores,
    Pair,
    PassScores,
)

_EXACT = 12
_DIGITS = 9
"""Decimals of a score from a fit to windows: those behind them are the solver's rounding."""
Correction = Callable[[PassScores], Sequence[float]]
"""The corrected scores of a request, in its order."""
UNCORRECTED: Correction = attrgetter("scores")


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """One judge's scores of a group.

    `cells[i]` are the scores of distinct rollout i in the order of `pass_scores`; if the judge saw windows,
    the windows' levels are subtracted and `fit` has them. `scores[i]` is the mean of the cells, within
    [0, 1]; None if there are none. `windows` are the distinct rollouts and the corrected scores of each
    request. `passes` counts the scores that every rollout has at least.
    """

    judge: int
    pass_scores: Sequence[PassScores]
    windows: Sequence[tuple[tuple[int, ...], Sequence[float]]]
    cells: Sequence[Sequence[float]]
    scores: Sequence[float | None]
    passes: int
    fit: window_shifts.WindowFit | None = None


def tables(result: GroupResult, correct: Correction = UNCORRECTED) -> list[ScoreTable]:
    """A table for each judge that gave any score, by the judges' numbers."""
    by_judge: dict[int, list[PassScores]] = {}
    for one in sorted(
        result.pass_scores, key=lambda each: (each.judge, each.pass_index, each.window)
    ):
        by_judge.setdefault(one.judge, []).append(one)
    return [_table(result, judge, own, correct) for judge, own in by_judge.items()]


def _table(
    result: GroupResult,
    judge: int,
    pass_scores: Sequence[PassScores],
    correct: Correction,
) -> ScoreTable:
    windows = [(one.distinct, correct(one)) for one in pass_scores]
    cells: Sequence[Sequence[float]]
    fit = None
    if result.windows > 1:
        fit = window_shifts.fit(windows, len(result.sizes))
        cells = fit.adjusted
        scores = [None if x is None else round(x, _DIGITS) for x in fit.scores]
    else:
        rows: list[list[float]] = [[] for _ in result.sizes]
        for distinct, given in windows:
            for rollout, score in zip(distinct, given, strict=True):
                rows[rollout].append(score)
        cells = rows
        scores = [mean(row) if row else None for row in rows]
    within = [None if x is None else min(1.0, max(0.0, x)) for x in scores]
    passes = min(map(len, cells))
    return ScoreTable(judge, pass_scores, windows, cells, within, passes, fit)


def anova(result: GroupResult, used: Sequence[ScoreTable]) -> Anova | None:
    """The analysis of variance of rollout × (judge, pass); None if there is only one of either."""
    rollouts = len(result.sizes)
    if rollouts < 2 or len(result.pass_scores) < 2:
        return None
    if result.windows > 1:  # the fit subtracts the level of every window of every judge
        fit = used[0].fit if len(used) == 1 else None
        whole = fit or window_shifts.fit(
            [window for table in used for window in table.windows], rollouts
        )
        return whole.anova if whole.anova.k > 1 else None
    columns = [column for table in used for column in zip(*table.cells, strict=True)]
    return Anova.of(columns) if len(columns) > 1 else None


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, rounded to twelve decimals; of equal values it is exactly that value.

    Without rounding, .3 and .45 would have another mean than .35 and .4 in binary fractions, and chance
    would decide which rollout is the best.
    """
    if len(values) == 1:
        return values[0]
    least, most = min(values), max(values)
    if least == most:
        return values[0]
    return min(max(round(fsum(values) / len(values), _EXACT), least), most)


_ENOUGH = 30
"""Rewarded rollouts below which no correlation of errors is reported: its own error is then about 0.2."""
_LISTED = 20
"""Contradictions of a kind that are listed: those with the most extreme scores."""
_KEY = 200
"""Characters of a group's key in a listing: a key may be as long as a prompt."""
_STEPS = 1000
"""Steps of the reliability between 0 and 1, for its median."""
_FLAT = 1e-6
"""A smaller standard deviation of a judge's scores is rounding: it gives every rollout the same score."""


class BatchStatistics:
    """Sums over the groups of a batch.

    `add` counts the replies about a group, which the scores of this group and others may depend on;
    `add_scores` counts its scores. `names` are the judges' names in the figures, by number. In `input_order`
    a position says what the rollout is, so it tells no position bias.
    """

    def __init__(self, names: Sequence[str] = (), *, input_order: bool = False) -> None:
        self.position_bias = PositionBias()
        self.noise = NoiseEstimator()
        self._names, self._input_order = tuple(names), input_order
        self._moments: dict[int, Moments] = {}
        self._groups = self._tied = self._degraded = 0
        self._scores = Moments()
        self._reliability: Counter[int] = Counter()
        self._length = LengthSums()
        self._pairs: dict[tuple[int, int], dict[str, Counter[str]]] = {}
        # by the outcome of the rollouts, which their scores contradict
        self._contradictions: Counter[bool] = Counter()
        self._listed: dict[bool, list[Contradiction]] = {True: [], False: []}
        self._outcomes: Counter[bool | None] = Counter()

    def add(self, result: GroupResult) -> None:
        """Count a group's replies: scores by position, the noise between passes, the scale of each judge."""
        if not self._input_order:
            self.position_bias.add(*[one.scores for one in result.pass_scores])
        if result.judges > 1:
            for one in result.pass_scores:
                if (
                    one.judge != result.escalated_to
                ):  # it saw other groups than the panel did
                    self._moments.setdefault(one.judge, Moments()).add(one.scores)
        self._add_noise(result, UNCORRECTED)

    def refit_noise(self, results: Iterable[GroupResult], how: CombineSettings) -> None:
        """Once every group is added, estimate the noise again from scores corrected as `how` says.

        Without that, differences that are corrected afterwards would still count as noise.
        """
        if how.standardize or (how.debias and self.position_bias.enough):
            self.noise = NoiseEstimator()
            for result in results:
                self._add_noise(result, partial(self.corrected, how))

    def corrected(
        self, how: CombineSettings, pass_scores: PassScores
    ) -> Sequence[float]:
        """The scores of a request in its order, without position bias and on one scale, as `how` says."""
        scores: Sequence[float] = pass_scores.scores
        if how.debias and self.position_bias.enough:
            corrections = self.position_bias.corrections(len(scores))
            scores = [
                score - less for score, less in zip(scores, corrections, strict=True)
            ]
        return self._standard(pass_scores.judge, scores) if how.standardize else scores

    def _add_noise(self, result: GroupResult, correct: Correction) -> None:
        if len(result.pass_scores) < 2 or result.alone:
            return
        every = tables(result, correct)
        variance = anova(
            result, [t for t in every if t.judge == result.escalated_to] or every
        )
        if variance is not None:
            self.noise.add(variance.ms_res, variance.df_res)

    @property
    def prior(self) -> NoisePrior:
        """The noise of any group, as estimated from the groups so far."""
        return self.noise.prior()

    def _standard(self, judge: int, scores: Sequence[float]) -> Sequence[float]:
        """A judge's scores on the scale of all: with their mean and standard deviation over the batch.

        The scores of a judge that gives one score to all are only shifted. Those of an escalation, which
        has no scale in common with the panel, stay as they are. Scores may leave [0, 1].
        """
        own = self._moments.get(judge, Moments())
        if own.number < 2 or len(self._moments) < 2:
            return scores
        pooled = sum((self._moments[j] for j in sorted(self._moments)), Moments())
        stretch = pooled.deviation / own.deviation if own.deviation > _FLAT else 1.0
        return [pooled.mean + (score - own.mean) * stretch for score in scores]

    def add_scores(self, key: str, result: GroupResult, scores: GroupScores) -> None:
        """Count a group's scores; `key` names the group if one of its rollouts is listed."""
        self._groups += 1
        self._tied += scores.tied
        self._degraded += scores.degraded
        self._scores.add(score for score in scores.scores if score is not None)
        if scores.reliability is not None:
            self._reliability[round(scores.reliability * _STEPS)] += 1
        # the first number in the group of each distinct rollout with a score
        numbers: dict[int, int] = {}
        judged: list[float] = []
        for i, (distinct, rollout) in enumerate(
            zip(result.owner, scores.rollouts, strict=True)
        ):
            score = rollout.judge_score
            if distinct is not None and distinct not in numbers and score is not None:
                numbers[distinct] = i
                judged.append(score)
        if len(numbers) > 1:
            self._length.add([result.sizes[distinct] for distinct in numbers], judged)
            self._add_pairs(
                result, [(scores.rollouts[i].by_judge, i) for i in numbers.values()]
            )
        self._add_outcomes(key, result, scores)

    def _add_pairs(
        self, result: GroupResult, rollouts: Sequence[tuple[Mapping[int, float], int]]
    ) -> None:
        """Count every two judges on the distinct rollouts of a group, each with its number in the group."""
        for pair in combinations(sorted({one.judge for one in result.pass_scores}), 2):
            one, other = pair
            rows = [
                (own[one], own[other], result.rewards[i] if result.rewards else None)
                for own, i in rollouts
                if one in own and other in own
            ]
            if rows:
                sums = self._pairs.setdefault(
                    pair, {kind: Counter() for kind in CORRELATIONS}
                )
                for kind, own_sums in pair_products(rows).items():
                    sums[kind].update(own_sums)

    def _add_outcomes(self, key: str, result: GroupResult, scores: GroupScores) -> None:
        """Count the rollouts with and without a verifier's outcome, and those whose score contradicts it."""
        outcomes = zip(scores.rollouts, result.outcomes, strict=False)
        for i, (rollout, passed) in enumerate(outcomes, 1):
            score = rollout.judge_score
            if score is None:
                continue
            self._outcomes[passed] += 1
            if passed is not None and passed == (score < PASSING):
                self._contradictions[passed] += 1
                listed = self._listed[passed]
                listed.append(Contradiction(printable(key, _KEY), i, score))
                # of equal scores the first
                listed.sort(key=lambda odd: odd.score, reverse=not passed)
                del listed[_LISTED:]

    def figures(self, *, debias: bool = False, checked: bool = False) -> BatchFigures:
        """The figures of the batch.

        `debias`: the position bias was to be corrected. `checked`: outcomes were asked for, so rollouts
        without one are counted even if none has one.
        """
        tenths, prior, outcomes = [0] * 10, self.prior, self._outcomes
        checked |= bool(outcomes[True] or outcomes[False])
        for step, groups in self._reliability.items():
            tenths[min(9, step * 10 // _STEPS)] += groups
        median = (
            quantile(self._reliability, 0.5) / _STEPS if self._reliability else None
        )
        return BatchFigures(
            groups=self._groups,
            mean_score=self._scores.mean if self._scores.number else None,
            tie_rate=self._tied / self._groups if self._groups else None,
            degraded=self._degraded,
            slot_curve=self.position_bias.bins(),
            slot_groups=self.position_bias.groups,
            debiased=debias and self.position_bias.enough,
            length=self._length.trend(),
            judges=tuple(self._pair(pair) for pair in sorted(self._pairs)),
            reliability=tuple(tenths),
            reliability_median=median,
            noise=sqrt(prior.variance) if prior.df > 0 else None,
            flawed=self._contradictions[True],
            flawed_listed=tuple(self._listed[True]),
            near_misses=self._contradictions[False],
            near_misses_listed=tuple(self._listed[False]),
            without_outcome=outcomes[None] if checked else 0,
        )

    def _pair(self, pair: tuple[int, int]) -> Pair:
        """The figures of two judges; their errors need enough rewards."""
        one, other = (self._names[number] for number in pair)
        sums = self._pairs[pair]
        scores, errors = (of(sums[kind]) for kind, of in CORRELATIONS.items())
        rollouts, rewarded = int(sums["scores"]["n"]), int(sums["errors"]["n"])
        return Pair(
            (one, other),
            scores,
            rollouts,
            errors if rewarded >= _ENOUGH else None,
            rewarded,
        )
