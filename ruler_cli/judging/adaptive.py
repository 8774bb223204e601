"""Where further passes help most: pure, from what the passes so far said of a block of groups.

What a pass is worth.  A group's scores are x = t + e + noise: t the truth with variance T, e the judge's
persistent error with variance E, which no pass averages out, and noise of variance v per pass, so that
the mean of k passes has the variance S + v/k with S = T + E.  A trainer uses advantages
A = (x − mean)/sd, and the expected squared difference of two standardised values with correlation r is
2(1 − r).  Here r(k) = √T/√(S + v/k), so m further passes lower the squared error of n advantages by

    2 n √T (1/√(S + v/(k + m)) − 1/√(S + v/k)).

It is small for a tied group (T ≈ 0), for one whose passes agree already (v small) and for one whose
differences are large (S large); it falls with k, so spending greedily is best.

What is known of it.  v is the group's residual mean square drawn towards the block's (Smyth 2004), after
the block's slot curve is taken out: an order and its reverse cancel slots in the mean, but not in the
residual.  S is not plugged in, for eight rollouts tell little of it: F = MS_item/v divided by 1 + k·S/v
is F distributed, so each value of S/v on a grid has a likelihood; how common each is in the block is
fitted by a few steps of expectation and maximisation (nonparametric empirical Bayes, Laird 1978), and
the gain is its posterior mean.  T is S less the square of PERSISTENT: differences that small are not told
from the judge's own constant error by any number of passes.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, fsum, inf, log, log1p, sqrt
from typing import Self

from ruler_cli.scoring import reliability
from ruler_cli.scoring.batch_statistics import Correction, anova, tables
from ruler_cli.scoring.position_bias import PositionBias
from ruler_cli.scoring.reliability import NoiseEstimator, NoisePrior
from ruler_cli.types import GroupResult, PassScores

FIRST = 2
"""Passes that every group gets before any is compared: an order and its reverse tell its noise."""
UNIT = 2
"""Passes given at once: a pair, an order and its reverse. A single pass would leave its slots in the mean."""
MOST = 4
"""A group gets at most this many times the average, so that none waits for many rounds of another."""
RELIABLE = 0.8
"""Reliability from which a group counts as resolved: its scores then correlate by √0.8 ≈ 0.9 with what
endless passes of this judge would give, the usual floor for decisions (Nunnally 1978)."""
PERSISTENT = 0.08
"""Deviation of a judge's persistent error on the scale from 0 to 1: the working assumption of the simulated
judge, between 0.05 and 0.12. Taken smaller, passes go to groups that are tied but for that error."""

_SHARE, _LEAST = 0.5, 0.5
"""Part of what is left that a round may spend, as later rounds know more; and the fewest passes per group, as
every round waits for its slowest reply."""
_GRID = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)
_STEPS = 12
_HOPELESS = 0.1
"""Probability of any true difference below which a group gets no further pass."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A group between two rounds: what was said of it in `passes` so far, and what one costs in tokens."""

    judged: GroupResult
    passes: int
    tokens: float

    @classmethod
    def of(cls, judged: GroupResult, tokens: float) -> Self | None:
        """None where further passes are pointless: nothing to compare, no usable reply, or escalated."""
        if judged.alone or not judged.pass_scores or judged.escalated_to is not None:
            return None
        turns = [ballot.pass_index for ballot in judged.pass_scores] + [
            miss.pass_index for miss in judged.failed_calls
        ]
        return cls(judged, 1 + max(turns), max(tokens, 1.0))


def unresolved(standing: GroupStanding, prior: NoisePrior) -> bool:
    """Whether a stronger judge is worth its price: there is a difference, and it is not yet reliable.

    Not where the F test finds a tie, not from a reliability of RELIABLE on, and not where a single pass
    leaves both unknown. `prior` is what the batch says of the noise.
    """
    table = anova(standing.judged, tables(standing.judged))
    rated = None if table is None else reliability.rate(table, prior)
    return rated is not None and not rated[1] and rated[0] < RELIABLE


def allot(standings: Sequence[GroupStanding | None], average: int) -> list[int]:
    """How many further passes each group of a block gets in the next round; all zeros: the block is done.

    With those already spent, groups get at most `average` passes on average, and at most the tokens
    that `average` passes for each would take. None (failed, or nothing to compare) gets nothing and
    leaves nothing to others. Each round spends something or ends the block.
    """
    given = [0] * len(standings)
    present = [(i, standing) for i, standing in enumerate(standings) if standing is not None]
    passes = average * len(present) - sum(s.passes for _, s in present)
    tokens = fsum((average - s.passes) * s.tokens for _, s in present)
    if passes < UNIT or tokens <= 0:
        return given
    # a round may spend a part of it, no trifle, and enough for any group that can be paid at all
    part = max(_SHARE, max(UNIT, _LEAST * len(present)) / passes)
    dearest = max(s.tokens for _, s in present)
    allowed_passes = min(passes, part * passes)
    allowed_tokens = min(tokens, max(UNIT * dearest, part * tokens))
    groups = _groups([s for _, s in present])
    heap: list[tuple[float, int, int]] = []

    def offer(at: int) -> None:
        i, standing = present[at]
        total = standing.passes + given[i]
        if total + UNIT <= MOST * average and (worth := groups[at].gain(given[i])) > 0:
            heapq.heappush(heap, (-worth / (1 / passes + standing.tokens / tokens), i, at))

    for at in range(len(present)):
        offer(at)
    while heap:
        _, i, at = heapq.heappop(heap)
        price = UNIT * present[at][1].tokens
        if allowed_passes >= UNIT and allowed_tokens >= price:
            allowed_passes -= UNIT
            allowed_tokens -= price
            given[i] += UNIT
            offer(at)
    return given


class _Group:
    """One group's sums: of rollouts over all judges (None where one pass leaves none), of noise within each.

    What judges of a panel disagree on stays however often they are asked, so it is no noise here. `noise`
    is the noise variance v, and `likely` are the chances of each S/v, once the block has told.
    """

    def __init__(self, standing: GroupStanding, correct: Correction) -> None:
        judged = standing.judged
        every = tables(judged, correct)
        self.rollouts = len(judged.sizes)
        self.table = anova(judged, every)
        apart = [self.table] if len(every) == 1 else [anova(judged, [one]) for one in every]
        each = [own for own in apart if own is not None]
        self.df_res = sum(own.df_res for own in each)
        squares = fsum(own.ms_res * own.df_res for own in each)
        self.ms_res = squares / self.df_res if self.df_res else 0.0
        columns = float(sum(one.passes for one in every)) if self.table is None else self.table.k
        self.k = max(columns, 1.0)
        self.per_pass = self.k / max(1, standing.passes)
        self.noise = reliability.ROUNDING
        self.likely: tuple[float, ...] = ()

    def likelihood(self, prior: NoisePrior) -> tuple[float, ...]:
        """Of each S/v; () where nothing is known of the group; all on 0 where rollouts differ by less.

        The density of F · (1 + k·S/v), F on `df_item` and the shrunk noise's degrees of freedom.
        """
        variance, df = prior.shrink(self.ms_res, self.df_res)
        self.noise = max(variance, reliability.ROUNDING)
        if self.table is None or self.table.df_item < 1 or df <= 0:
            return ()
        if self.table.ms_item <= self.noise:
            return (1.0,) + (0.0,) * (len(_GRID) - 1)
        ratio, items = self.table.ms_item / self.noise, self.table.df_item
        logs = []
        for value in _GRID:
            scale = 1 + self.k * value
            tail = items * ratio / scale
            rest = tail if df == inf else (items + df) * log1p(tail / df)
            logs.append(-0.5 * (items * log(scale) + rest))
        top = max(logs)
        return tuple(exp(value - top) for value in logs)

    def gain(self, given: int) -> float:
        """How much UNIT passes after `given` others lower the squared error of the group's advantages."""
        before = self.noise / (self.k + self.per_pass * given)
        after = self.noise / (self.k + self.per_pass * (given + UNIT))
        total = hope = 0.0
        for ratio, probability in zip(_GRID, self.likely, strict=True):
            spread = ratio * self.noise
            true = spread - PERSISTENT**2
            if true > 0:
                hope += probability
                total += probability * sqrt(true) * (1 / sqrt(spread + after) - 1 / sqrt(spread + before))
        return 2 * self.rollouts * total if hope >= _HOPELESS else 0.0


def _groups(standings: Sequence[GroupStanding]) -> list[_Group]:
    """What the block says of each of its groups."""
    correct = _without_slots(standings)
    found = [_Group(standing, correct) for standing in standings]
    noise = NoiseEstimator()
    for group in found:
        noise.add(group.ms_res, group.df_res)
    likelihoods = [group.likelihood(noise.prior()) for group in found]
    common = _mixture([own for own in likelihoods if own])
    for group, own in zip(found, likelihoods, strict=True):
        group.likely = _posterior(common, own)
    return found


def _without_slots(standings: Sequence[GroupStanding]) -> Correction:
    """Scores less what the block's slot curve explains of them, as far as there are groups enough.

    Where all passes show one order (`--order input`) the curve would hold how good the rollouts are.
    """
    curve = PositionBias()
    turned = any(
        len({b.distinct for b in s.judged.pass_scores}) > 1 for s in standings if s.judged.windows == 1
    )
    for standing in standings if turned else ():
        curve.add(*(ballot.scores for ballot in standing.judged.pass_scores))
    corrections = cache(curve.corrections)

    def correct(ballot: PassScores) -> Sequence[float]:
        away = corrections(len(ballot.scores))
        return [score - less for score, less in zip(ballot.scores, away, strict=True)]

    return correct


def _mixture(likelihoods: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """How common each S/v is in the block; one group's worth of evenness for small blocks."""
    even = 1 / len(_GRID)
    common = (even,) * len(_GRID)
    for _ in range(_STEPS):
        shares = [_posterior(common, own) for own in likelihoods]
        common = tuple((even + fsum(column)) / (1 + len(shares)) for column in zip(*shares, strict=True))
        if not shares:
            return (even,) * len(_GRID)
    return common


def _posterior(common: Sequence[float], likelihood: Sequence[float]) -> tuple[float, ...]:
    if not likelihood:
        return tuple(common)
    joint = [a * b for a, b in zip(common, likelihood, strict=True)]
    total = sum(joint)
    return tuple(value / total for value in joint)


__all__ = ["FIRST", "MOST", "PERSISTENT", "RELIABLE", "UNIT", "GroupStanding", "allot", "unresolved"]
