"""The groups that further passes help most.

Groups decide in blocks of neighbours, so that memory stays flat. A block is a stretch of the input, so the
requests depend on the input and the replies only, never on the order of replies: a run that is repeated asks
the same. While one block waits for its slowest reply the others go on.

docs/method.md derives the worth of a pass. Its names are used here: T and E are the variances of the truth
and of the judge's persistent error, S = T + E; v is the noise variance of a pass, k counts the passes so far.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, fsum, inf, log, log1p, sqrt
from typing import Self

import anyio

from ruler_cli.scoring import statistics
from ruler_cli.scoring.combine import Correction, anova, tables
from ruler_cli.scoring.statistics import NoiseEstimator, NoisePrior, PositionBias
from ruler_cli.types import UNANSWERED, Group, GroupResult, PassScores

FIRST = 2
"""Passes that every group gets before any is compared: an order and its reverse tell its noise."""
UNIT = 2
"""Passes given at once: an order and its reverse. A single pass would leave its positions in the mean."""
MOST = 4
"""A group gets at most this many times the average, so that none waits for many rounds of another."""
PERSISTENT = 0.08
"""Deviation of a judge's persistent error on the scale from 0 to 1: the working assumption of the simulated
judge, between 0.05 and 0.12. Taken smaller, passes go to groups that are tied but for that error."""

_SHARE = 0.5
"""Part of what is left that a round may spend, as later rounds know more."""
_LEAST = 0.5
"""Fewest passes per group that a round may spend, as every round waits for its slowest reply."""
_GRID = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2)
_STEPS = 12
_HOPELESS = 0.1
"""Probability of any true difference below which a group gets no further pass."""
BLOCK_GROUPS = 64
"""Groups of a block."""
BLOCK_BYTES = 16 << 20
"""Bytes of a block's input: a quarter of the bytes that a run may hold."""


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """A group between two rounds: its replies in `passes` so far, and the tokens of one pass."""

    result: GroupResult
    passes: int
    tokens: float

    @classmethod
    def of(cls, result: GroupResult, tokens: float) -> Self | None:
        """Return None if further passes are pointless: nothing to compare, no usable reply, or escalated."""
        if result.alone or not result.pass_scores or result.escalated_to is not None:
            return None
        indices = [scores.pass_index for scores in result.pass_scores]
        indices += [call.pass_index for call in result.failed_calls]
        return cls(result, 1 + max(indices), max(tokens, 1.0))


def allot(standings: Sequence[GroupStanding | None], average: int) -> list[int]:
    """Allot the further passes of the next round to the groups of a block; all zeros: the block is done.

    With those already spent, groups get at most `average` passes on average, and at most the tokens
    that `average` passes for each would take. None (failed, or nothing to compare) gets nothing and
    leaves nothing to others. Each round spends something or ends the block.
    """
    given = [0] * len(standings)
    present = {
        at: standing for at, standing in enumerate(standings) if standing is not None
    }
    known = list(present.values())
    passes = sum(average - standing.passes for standing in known)
    tokens = fsum((average - standing.passes) * standing.tokens for standing in known)
    if passes < UNIT or tokens <= 0:
        return given
    # a round may spend a part of it, no trifle, and enough for any group that can be paid at all
    least = max(UNIT, _LEAST * len(known))
    part = max(_SHARE, least / passes)
    dearest = max(standing.tokens for standing in known)
    allowed_passes = min(passes, part * passes)
    allowed_tokens = min(tokens, max(UNIT * dearest, part * tokens))
    groups = dict(zip(present, _groups(known), strict=True))
    heap: list[tuple[float, int]] = []

    def offer(at: int) -> None:
        """Queue a group's next passes by their worth for their price, while it may have more."""
        standing = present[at]
        if standing.passes + given[at] + UNIT > MOST * average:
            return
        worth = groups[at].gain(given[at])
        if worth > 0:
            price = 1 / passes + standing.tokens / tokens
            heapq.heappush(heap, (-worth / price, at))

    for at in present:
        offer(at)
    while heap:
        _, at = heapq.heappop(heap)
        price = UNIT * present[at].tokens
        if allowed_passes >= UNIT and allowed_tokens >= price:
            allowed_passes -= UNIT
            allowed_tokens -= price
            given[at] += UNIT
            offer(at)
    return given


class _Group:
    """One group's sums: of rollouts over all judges (None if one pass leaves none), of noise within each.

    A disagreement between judges of a panel stays however often they are asked, so it is no noise here.
    `noise` is the noise variance v, and `likely` are the probabilities of each S/v, known with the block.
    """

    def __init__(self, standing: GroupStanding, correct: Correction) -> None:
        result = standing.result
        every = tables(result, correct)
        self.rollouts = len(result.sizes)
        self.table = anova(result, every)
        each = [table for one in every if (table := anova(result, [one]))]
        self.df_res = sum(table.df_res for table in each)
        square = fsum(table.ms_res * table.df_res for table in each)
        self.ms_res = square / max(1, self.df_res)
        passes = self.table.k if self.table else sum(one.passes for one in every)
        self.k = max(1.0, passes)
        self.per_pass = self.k / max(1, standing.passes)
        self.noise = statistics.ROUNDING
        self.likely: tuple[float, ...] = ()

    def likelihood(self, prior: NoisePrior) -> tuple[float, ...]:
        """The likelihood of each S/v; () if nothing is known; all on 0 if rollouts differ by less than noise.

        The density of F · (1 + k·S/v), F on `df_item` and the shrunk noise's degrees of freedom.
        """
        variance, df = prior.shrink(self.ms_res, self.df_res)
        self.noise = max(variance, statistics.ROUNDING)
        table = self.table
        if table is None or table.df_item < 1 or df <= 0:
            return ()
        if table.ms_item <= self.noise:
            return (1.0,) + (0.0,) * (len(_GRID) - 1)
        ratio = table.ms_item / self.noise
        items = table.df_item
        logs = []
        for value in _GRID:
            scale = 1 + self.k * value
            tail = items * ratio / scale
            if df != inf:
                tail = (items + df) * log1p(tail / df)
            logs.append(-0.5 * (items * log(scale) + tail))
        top = max(logs)
        return tuple(exp(value - top) for value in logs)

    def gain(self, given: int) -> float:
        """The squared error of the group's advantages that UNIT passes after `given` others save."""
        passes = self.k + self.per_pass * given
        more_passes = self.k + self.per_pass * (given + UNIT)
        before = self.noise / passes
        after = self.noise / more_passes
        total = hope = 0.0
        for ratio, probability in zip(_GRID, self.likely, strict=True):
            spread = ratio * self.noise
            true = spread - PERSISTENT**2
            if true > 0:
                hope += probability
                saved = 1 / sqrt(spread + after) - 1 / sqrt(spread + before)
                total += probability * sqrt(true) * saved
        return 2 * self.rollouts * total if hope >= _HOPELESS else 0.0


def _groups(standings: Sequence[GroupStanding]) -> list[_Group]:
    """Estimate the noise and the likely S/v of each group from the whole block."""
    correct = _without_position_bias(standings)
    groups = [_Group(standing, correct) for standing in standings]
    noise = NoiseEstimator()
    for group in groups:
        noise.add(group.ms_res, group.df_res)
    likelihoods = [group.likelihood(noise.prior()) for group in groups]
    known = [own for own in likelihoods if own]
    even = 1 / len(_GRID)  # one even group is added, for small blocks
    common = (even,) * len(_GRID)
    for _ in range(_STEPS if known else 0):
        shares = [_posterior(common, own) for own in known]
        common = tuple(
            (even + fsum(column)) / (1 + len(shares))
            for column in zip(*shares, strict=True)
        )
    for group, own in zip(groups, likelihoods, strict=True):
        group.likely = _posterior(common, own) if own else common
    return groups


def _without_position_bias(standings: Sequence[GroupStanding]) -> Correction:
    """Return the correction of scores for the block's position bias, as far as there are groups enough.

    If all passes show one order, that of INPUT, the bias would hold the quality of the rollouts.
    """
    curve = PositionBias()
    results = [standing.result for standing in standings]
    turned = any(
        len({scores.distinct for scores in result.pass_scores}) > 1
        for result in results
        if result.windows == 1
    )
    if turned:
        for result in results:
            curve.add(*[scores.scores for scores in result.pass_scores])
    corrections = cache(curve.corrections)

    def correct(scores: PassScores) -> Sequence[float]:
        bias = corrections(len(scores.scores))
        return list(map(operator.sub, scores.scores, bias))

    return correct


def _posterior(
    common: Sequence[float], likelihood: Sequence[float]
) -> tuple[float, ...]:
    joint = list(map(operator.mul, common, likelihood))
    total = sum(joint)
    return tuple(value / total for value in joint)


class Blocks:
    """Gives each group that is read its place in a block."""

    def __init__(self, average: int) -> None:
        """`average` passes are spent over a block."""
        self._average = average
        self._open = _Block(average)

    def place(self, group: Group) -> BlockMember:
        """Make a place for the next group of the input."""
        members = self._open.members
        too_large = self._open.bytes + group.size > BLOCK_BYTES
        if members and (too_large or len(members) == BLOCK_GROUPS):
            self.close()
        return BlockMember(self._open, group)

    def close(self) -> None:
        """End the block: it is full, or the input is at its end."""
        self._open.closed = True
        self._open.end_round()
        self._open = _Block(self._average)


class _Block:
    """One block: each member reports its standing, and the last one to report decides for all.

    `ended` counts members that can get no further pass: they do not wait. `extra` are the passes of each
    member in this round.
    """

    def __init__(self, average: int) -> None:
        self._average = average
        self.members: list[BlockMember] = []
        self.extra: list[int] = []
        self.bytes = self.waiting = self.ended = 0
        self.closed = self.unanswered = False
        self.round_over = anyio.Event()

    def end_round(self) -> None:
        """Give all members their passes, once none is missing; none if they depend on a missing reply."""
        if not self.closed or self.waiting + self.ended < len(self.members):
            return
        self.extra = [0] * len(self.members)
        if not self.unanswered:
            standings = [member.standing for member in self.members]
            self.extra = allot(standings, self._average)
        self.waiting = 0
        self.round_over.set()
        self.round_over = anyio.Event()


class BlockMember:
    """One group's place in its block, and its standing (None: it failed)."""

    def __init__(self, block: _Block, group: Group) -> None:
        self._block = block
        self._number = len(block.members)
        self.standing: GroupStanding | None = None
        block.bytes += group.size
        block.members.append(self)

    @property
    def undecided(self) -> bool:
        """Tell if replies are missing, of this group or of others, that the block decides by."""
        return self.standing is not None and self._block.unanswered

    async def more(self, result: GroupResult, tokens: float) -> int:
        """Return the number of further passes; 0 ends the group."""
        self.standing = GroupStanding.of(result, tokens)
        self._block.unanswered |= any(
            call.error.reason == UNANSWERED.reason for call in result.failed_calls
        )
        if self.standing is None:
            # the others need not be waited for: a judge that fails is soon known
            self._block.ended += 1
            self._block.end_round()
            return 0
        while True:
            round_over = self._block.round_over
            self._block.waiting += 1
            self._block.end_round()
            await round_over.wait()
            extra = self._block.extra
            if extra[self._number] or not any(extra):
                return extra[self._number]
