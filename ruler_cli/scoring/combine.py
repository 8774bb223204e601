"""Replies of all judges about a group → its scores, as pure functions: other options need no new call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, fsum, sqrt
from typing import NamedTuple

from ruler_cli.scoring import reliability
from ruler_cli.scoring.batch_statistics import (
    BatchStatistics,
    ScoreTable,
    anova,
    mean,
    tables,
)
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    FailedCall,
    GroupError,
    GroupResult,
    GroupScores,
    RolloutScore,
)

_BALANCED = 2
"""Passes from which the scores of an escalation count: an order and its reverse."""


class _Shown(NamedTuple):
    """A rollout in one request: relative position, score as given and as corrected, (pass, judge)."""

    position: float
    given: float
    corrected: float
    order: tuple[int, int]
    explanation: str


def combine(
    result: GroupResult,
    how: CombineSettings,
    batch: BatchStatistics,
    single: str = "flag",
) -> GroupScores | GroupError:
    """The scores of a group's rollouts, and how good they are.

    `batch` has the sums over all groups, or over those so far: the noise of a pass, the position bias, the
    scale of each judge. `single` is that of `AskSettings`. A GroupError if no judge counts, if the run was
    interrupted before all calls were made, or if original rewards are missing that it is blended with.
    """
    failed_calls = sorted(
        result.failed_calls, key=lambda call: (call.judge, call.pass_index, call.window)
    )
    for call in failed_calls:
        if call.error.kind == "interrupted":
            return call.error
    every = tables(result, partial(batch.corrected, how))
    one_pass = result.alone and single != "score"
    least = 1 if one_pass else max(1, how.min_passes)
    counted = [table for table in every if table.passes >= least]
    if not counted:
        return _error(result, every, failed_calls, least)
    panel = [table for table in counted if table.judge != result.escalated_to]
    stronger = [table for table in counted if table.judge == result.escalated_to]
    # one pass of a stronger judge, its reverse cut off by the cap, is no better than two of the others
    whole = any(table.passes >= _BALANCED for table in stronger)
    used = stronger if whole or not panel else panel
    scores = GroupScores(
        _rollouts(result, used, counted),
        used=tuple([table.judge for table in used]),
        passes=max([table.passes for table in used]),
        degraded=_degraded(result, used, failed_calls),
    )
    scores = _rated(scores, result, used, batch, flagged=one_pass)
    return _by_rewards(scores, result, how)


def _rollouts(
    result: GroupResult, used: Sequence[ScoreTable], counted: Sequence[ScoreTable]
) -> tuple[RolloutScore, ...]:
    """The score of each rollout in input order; an unreadable one has its reason for an explanation."""
    shown: list[list[_Shown]] = [[] for _ in result.sizes]
    for table in used:
        cells = list(map(iter, table.cells))
        for one in table.pass_scores:
            last = max(1, len(one.distinct) - 1)
            order = one.pass_index, table.judge
            in_order = zip(one.distinct, one.scores, one.explanations, strict=True)
            for position, (distinct, score, explanation) in enumerate(in_order):
                corrected = next(cells[distinct])
                shown[distinct].append(
                    _Shown(position / last, score, corrected, order, explanation)
                )
    scores = [
        _score(i, own, used, counted, i in result.suspects)
        for i, own in enumerate(shown)
    ]
    return tuple(
        [
            RolloutScore(None, result.faults[i])
            if distinct is None
            else scores[distinct]
            for i, distinct in enumerate(result.owner)
        ]
    )


def _score(
    distinct: int,
    shown: Sequence[_Shown],
    used: Sequence[ScoreTable],
    counted: Sequence[ScoreTable],
    suspect: bool,
) -> RolloutScore:
    """The mean of the judges' scores, with the explanation of the pass whose score is nearest to it."""
    by_judge = {
        table.judge: own
        for table in counted
        if (own := table.scores[distinct]) is not None
    }
    score = mean([by_judge[table.judge] for table in used if table.judge in by_judge])
    nearest = shown[0]
    spread = None
    if len(shown) > 1:  # equal distances may differ by rounding
        nearest = min(
            shown, key=lambda one: (round(abs(one.corrected - score), 9), one.order)
        )
        spread = _deviation([one.corrected for one in shown])
    return RolloutScore(
        score,
        nearest.explanation,
        score,
        spread,
        by_judge,
        tuple([one.position for one in shown]),
        tuple([one.given for one in shown]),
        suspect,
    )


def _deviation(cells: Sequence[float]) -> float:
    """The standard deviation of at least two scores."""
    middle = mean(cells)
    return sqrt(fsum((cell - middle) ** 2 for cell in cells) / (len(cells) - 1))


def _degraded(
    result: GroupResult, used: Sequence[ScoreTable], failed_calls: Sequence[FailedCall]
) -> bool:
    """Tell if scores are missing that should count."""
    judges = {table.judge for table in used}
    if result.escalated_to is None:
        judges.update(range(result.judges))
    elif result.escalated_to not in judges:
        return True
    return any(call.judge in judges for call in failed_calls)


def _rated(
    scores: GroupScores,
    result: GroupResult,
    used: Sequence[ScoreTable],
    batch: BatchStatistics,
    *,
    flagged: bool,
) -> GroupScores:
    """The scores with their reliability, if several passes tell it; one score for all is no signal."""
    if result.alone:
        return replace(scores, tied=flagged, weight=0.0 if flagged else None)
    table = anova(result, used)
    rated = None if table is None else reliability.rate(table, batch.prior)
    if _one_score(scores, used):
        return replace(
            scores,
            one_score=True,
            tied=True,
            weight=0.0,
            reliability=None if rated is None else 0.0,
        )
    if table is None or rated is None:
        return scores
    value, tied = rated
    wanted = reliability.passes_for(value, table.k)
    return replace(
        scores,
        reliability=value,
        weight=value,
        tied=tied,
        passes_for=None if wanted is None else ceil(wanted / len(used)),
    )


def _one_score(scores: GroupScores, used: Sequence[ScoreTable]) -> bool:
    """Tell if the judges gave all rollouts one score: in the mean, or in every single request.

    In every request: what is subtracted for position bias from equal scores differs, and so they do then.
    """
    return reliability.one_score(scores.scores) or all(
        reliability.one_score(one.scores) for table in used for one in table.pass_scores
    )


def _by_rewards(
    scores: GroupScores, result: GroupResult, how: CombineSettings
) -> GroupScores | GroupError:
    """The scores with the dump's rewards mixed in and ordered by its outcomes, as `how` says.

    Scores that become equal by that are no signal; equal ones that then differ are no signal of the judges.
    """
    if how.blend is None and not how.order_by_outcome:
        return scores
    values = scores.scores
    if how.blend is not None:
        rewards = result.rewards or (None,) * len(values)
        for i, (value, reward) in enumerate(zip(values, rewards, strict=True), 1):
            if value is not None and (reward is None or not 0 <= reward <= 1):
                has = "no reward" if reward is None else f"the reward {reward:g}"
                return GroupError(
                    "input",
                    f"rollout {i} has {has}, and scores are blended with rewards from 0 to 1; name the path of "
                    "such a reward",
                )
        share = how.blend
        values = tuple(
            None
            if value is None or reward is None
            else share * value + (1 - share) * reward
            for value, reward in zip(values, rewards, strict=True)
        )
    if how.order_by_outcome and result.outcomes:
        values = ordered(values, result.outcomes)
    if values == scores.scores:
        return scores
    changed = zip(scores.rollouts, values, strict=True)
    rollouts = tuple(replace(rollout, score=value) for rollout, value in changed)
    scores = replace(scores, rollouts=rollouts)
    level = not result.alone and reliability.one_score(values)
    return replace(scores, tied=True, weight=0.0) if level else scores


def _error(
    result: GroupResult,
    every: Sequence[ScoreTable],
    failed_calls: Sequence[FailedCall],
    least: int,
) -> GroupError:
    """The error of a group of which no judge counts: that of the first failed call, and the passes there are.

    A call that the cost cap left out goes before all others: a run with more money may score the group.
    """
    if not every:
        return min(failed_calls, key=lambda call: call.error.kind != "budget").error
    best = max(every, key=lambda table: table.passes)
    failed = sorted(
        failed_calls,
        key=lambda call: (call.error.kind != "budget", call.judge != best.judge),
    )
    asked = {one.pass_index for one in best.pass_scores}
    asked |= {call.pass_index for call in failed if call.judge == best.judge}
    counts = f"{best.passes} of {len(asked)} passes scored every rollout"
    reason = f"{counts}, and {least} are needed"
    if not failed:
        return GroupError("reply", reason)
    error = failed[0].error
    return replace(error, reason=f"{reason}; the first that did not: {error.reason}")


def ordered(
    scores: Sequence[float | None], outcomes: Sequence[bool | None]
) -> tuple[float | None, ...]:
    """Scores of a group in which none that failed is above one that passed; they may be equal.

    Of all such scores they are the nearest, by the sum of squared changes: isotonic regression on an order
    of two levels (Barlow et al. 1972). There is one line c; a passed score below it is raised to it, and a
    failed one above it is lowered to it. Nothing changes if nothing contradicts. A rollout without a score
    or an outcome stays as it is.
    """
    known = [
        (score, passed)
        for score, passed in zip(scores, outcomes, strict=True)
        if score is not None
    ]
    up = sorted(score for score, passed in known if passed is True)
    down = sorted(score for score, passed in known if passed is False)
    if not up or not down or down[-1] <= up[0]:
        return tuple(scores)
    line = _line(up, down)
    return tuple(
        score
        if score is None or passed is None
        else max(score, line)
        if passed
        else min(score, line)
        for score, passed in zip(scores, outcomes, strict=True)
    )


def _line(up: list[float], down: list[float]) -> float:
    """The line at which scores are raised and lowered by the same sum; both lists are sorted.

    The balance of the two sums grows with the line and is linear between two scores. So the line is the
    mean of the scores that move, once it is known between which scores it lies.
    """
    levels = sorted({*up, *down})

    def balance(line: float) -> float:
        raised = fsum(line - score for score in up if score < line)
        return raised - fsum(score - line for score in down if score > line)

    above = levels[
        bisect_left(levels, 0.0, key=balance)
    ]  # at the highest no score is lowered any more
    moved = [score for score in up if score < above] + [
        score for score in down if score >= above
    ]
    return min(max(fsum(moved) / len(moved), levels[0]), above)
