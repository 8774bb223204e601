"""Sums over the groups of a batch: those that correct the scores of each group, and those for the figures.

Their memory does not grow with the number of groups, but for one number of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import sqrt
from operator import sub

from ruler_cli.scoring.criteria import rounding
from ruler_cli.scoring.figures import Figures
from ruler_cli.scoring.rewards import PASSING
from ruler_cli.scoring.statistics import (
    ROUNDING,
    Moments,
    Noise,
    PositionBias,
    correlation,
    quantile,
)
from ruler_cli.scoring.tables import (
    UNCORRECTED,
    Correction,
    PassTables,
    variance_of,
)
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    BatchFigures,
    GroupResult,
    GroupScores,
    Pair,
    PassScores,
)

_FINEST = 1e-8
"""The least variance of rounding: passes that agree to the last bit would outweigh all others."""
_FLAT = 1e-6
"""A smaller standard deviation of a judge's scores is rounding: it gives every rollout the same score."""


class BatchStatistics:
    """Sums over the replies about the groups of a batch that combining needs.

    In `input_order` a position says what the rollout is, so it tells no position bias.
    """

    def __init__(self, *, input_order: bool = False) -> None:
        self.position_bias = PositionBias()
        self.noise = Noise()
        self._input_order = input_order
        self._moments: dict[int, Moments] = {}

    def add(self, made: PassTables) -> None:
        """Count a group's replies: scores by position, the noise between passes, the scale of each judge."""
        result = made.result
        if not self._input_order:
            placed = [
                reply.scores for reply in result.pass_scores if reply.placed
            ]
            self.position_bias.add(*placed)
        for reply in result.pass_scores:
            # a judge of escalations saw other groups than the panel did
            if result.judges > 1 and reply.judge != result.escalated_to:
                moments = self._moments.setdefault(reply.judge, Moments())
                moments.add(reply.scores)
        self.add_noise(made)

    def add_noise(self, made: PassTables) -> None:
        """Count the noise between the passes of a group."""
        result = made.result
        if len(result.pass_scores) < 2 or result.alone:
            return
        strongest = result.escalated_to
        stronger = [table for table in made.tables if table.judge == strongest]
        variance = variance_of(result, stronger or made.tables)
        if variance is None:
            return
        grid = ROUNDING
        errors = [reply.error for reply in result.pass_scores]
        if all(errors):
            # probabilities are finer than the scores that judges write
            grid = max(_FINEST, max(errors) ** 2 / 3)
        if result.rubric is not None:
            grid *= rounding(result.rubric)
        self.noise.add(
            variance.ms_res,
            variance.df_res,
            grid,
        )

    def corrects(self, how: CombineSettings) -> bool:
        """Return whether scores are corrected by the batch, as `how` says."""
        debiased = how.debias and self.position_bias.enough
        return bool(how.standardize) or debiased

    def correction(self, how: CombineSettings) -> Correction:
        """Return the corrections for the scores of a request, as `how` says."""
        if self.corrects(how):
            return partial(self._corrected, how)
        return UNCORRECTED

    def _corrected(
        self,
        how: CombineSettings,
        reply: PassScores,
    ) -> Sequence[float]:
        """Return the scores of a request in its order, without position bias and on one scale, as `how` says.

        On one scale, a judge's scores have the mean and the standard deviation of all over the batch. Those
        of a judge that gives one score to all are only shifted. Those of an escalation, which has no scale in
        common with the panel, stay as they are. Scores may leave [0, 1].
        """
        scores: Sequence[float] = reply.scores
        if how.debias and self.position_bias.enough and reply.placed:
            bias = self.position_bias.corrections(len(scores))
            scores = list(
                map(
                    sub,
                    scores,
                    bias,
                )
            )
        scale = self._moments.get(reply.judge, Moments())
        if not how.standardize or scale.number < 2 or len(self._moments) < 2:
            return scores
        # in the order of the judges, since sums of floats depend on it
        pooled = Moments()
        for _, moments in sorted(self._moments.items()):
            pooled += moments
        stretch = 1.0
        if scale.deviation > _FLAT:
            stretch = pooled.deviation / scale.deviation
        return [
            pooled.mean + (score - scale.mean) * stretch for score in scores
        ]


class ScoreSums:
    """Sums over the scores of a run, and how many of them contradict outcomes.

    `names` are the judges' names in the figures, by number.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.figures = Figures(whole=False)
        self._names = tuple(names)
        # by the outcome of the rollouts, which their scores contradict
        self._contradictions = Counter[bool]()
        self._outcomes = Counter[bool | None]()

    def add(
        self,
        result: GroupResult,
        scores: GroupScores,
        *,
        own_words: bool = True,
    ) -> None:
        """Count a group's scores; `own_words`: its judges explain each rollout by themselves."""
        self.figures.add(scores, own_words=own_words)
        for i, passed in enumerate(result.outcomes):
            score = scores.rollouts[i].judge_score
            if score is None:
                continue
            self._outcomes[passed] += 1
            if passed is None or passed != (score < PASSING):
                continue
            self._contradictions[passed] += 1

    def of(
        self,
        batch: BatchStatistics,
        *,
        debias: bool = False,
        checked: bool = False,
    ) -> BatchFigures:
        """Return the figures of a batch.

        `debias`: the position bias was to be corrected. `checked`: outcomes were asked for, so rollouts
        without one are counted even if none has one.
        """
        noise = batch.noise
        outcomes = self._outcomes
        checked |= bool(outcomes[True] or outcomes[False])
        figures = self.figures
        counts = figures.counts
        groups = counts["groups"]
        tenths = [0] * 10
        for reliability in figures.numbers["reliability"]:
            tenths[min(9, int(round(reliability, 3) * 10))] += 1
        pairs = []
        for (first, second), sums in sorted(figures.by_judges.items()):
            names = (self._names[first], self._names[second])
            pairs.append(
                Pair(
                    names,
                    correlation(sums),
                    sums["n"],
                )
            )
        bias = batch.position_bias
        return BatchFigures(
            groups=groups,
            mean_score=figures.scores.mean if figures.scores.number else None,
            tie_rate=counts["tied"] / groups if groups else None,
            degraded=counts["degraded"],
            slot_curve=bias.bins(),
            slot_groups=bias.groups,
            debiased=debias and bias.enough,
            length=figures.lengths.trend(),
            judges=tuple(pairs),
            reliability=tuple(tenths),
            reliability_median=quantile(figures.numbers["reliability"], 0.5),
            noise=sqrt(noise.variance) if noise.df > 0 else None,
            flawed=self._contradictions[True],
            near_misses=self._contradictions[False],
            without_outcome=outcomes[None] if checked else 0,
        )
