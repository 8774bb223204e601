"""All that judges said of a group → its verdict: pure, and changed afterwards without a call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, fsum, sqrt

from ruler_cli.config import CombineSettings
from ruler_cli.scoring import reliability
from ruler_cli.scoring.batch_statistics import BatchStatistics, ScoreTable, anova, mean, tables
from ruler_cli.types import FailedCall, GroupError, GroupResult, GroupScores, RolloutScore

_BALANCED = 2
"""Passes from which on the scores of an escalation stand: an order and its reverse."""
_Shown = tuple[float, float, float, tuple[int, int], str]
"""A rollout in one request: its place, its score, the same as it counts, pass and judge, explanation."""


def combine(judged: GroupResult, how: CombineSettings, batch: BatchStatistics) -> GroupScores | GroupError:
    """The scores of a group's rollouts, and how good they are.

    `batch` is what is known of all groups, or of those so far: the noise of a pass, the slot curve, how
    judges differ. A GroupError where no judge counts, where the run was interrupted before all was asked,
    and where the original rewards that are asked for are not there.
    """
    misses = sorted(judged.failed_calls, key=lambda m: (m.judge, m.pass_index, m.window))
    for miss in misses:
        if miss.error.kind == "interrupted":
            return miss.error
    found = tables(judged, partial(batch.counted, how))
    asked_once = judged.alone and how.single != "score"
    least = 1 if asked_once else max(1, how.min_passes)
    counted = [table for table in found if table.passes >= least]
    # one pass of a stronger judge, its reverse cut off by the cap, is no better than two of the others
    final = [table for table in counted if table.judge == judged.escalated_to and table.passes >= _BALANCED]
    used = final or [table for table in counted if table.judge != judged.escalated_to] or counted
    if not used:
        return _failure(judged, found, misses, least)
    verdict = GroupScores(
        _rollouts(judged, used, counted),
        used=tuple([table.judge for table in used]),
        passes=max(table.passes for table in used),
        degraded=_degraded(judged, used, misses),
    )
    verdict = _rated(verdict, judged, used, how, batch)
    return _by_rewards(verdict, judged, how)


def _rollouts(
    judged: GroupResult, used: Sequence[ScoreTable], counted: Sequence[ScoreTable]
) -> tuple[RolloutScore, ...]:
    """The score of each rollout, as the judges gave it and without a word on how good it is."""
    shown: list[list[_Shown]] = [[] for _ in judged.sizes]
    for table in used:
        cells = list(map(iter, table.cells))
        for ballot in table.ballots:
            last = max(1, len(ballot.distinct) - 1)
            said = zip(ballot.distinct, ballot.scores, ballot.explanations, strict=True)
            for slot, (body, score, text) in enumerate(said):
                shown[body].append(
                    (slot / last, score, next(cells[body]), (ballot.pass_index, table.judge), text)
                )
    scores = [_score(body, each, used, counted, body in judged.suspects) for body, each in enumerate(shown)]
    return tuple(
        RolloutScore(None, judged.faults[i]) if body is None else scores[body]
        for i, body in enumerate(judged.owner)
    )


def _score(
    body: int,
    shown: Sequence[_Shown],
    used: Sequence[ScoreTable],
    counted: Sequence[ScoreTable],
    suspect: bool,
) -> RolloutScore:
    """The mean of the judges, with what was said first with the score nearest to it."""
    score = mean([own for table in used if (own := table.scores[body]) is not None])
    places, given, cells, _, _ = zip(*shown, strict=True)
    nearest = shown[0]
    if len(shown) > 1:  # as far is as far, rounding aside
        nearest = min(shown, key=lambda one: (round(abs(one[2] - score), 9), one[3]))
    return RolloutScore(
        score=score,
        explanation=nearest[-1],
        judge_score=score,
        spread=_deviation(cells),
        by_judge={t.judge: own for t in counted if (own := t.scores[body]) is not None},
        positions=places,
        pass_scores=given,
        suspect=suspect,
    )


def _deviation(cells: Sequence[float]) -> float | None:
    if len(cells) < 2:
        return None
    middle = mean(cells)
    return sqrt(fsum((cell - middle) ** 2 for cell in cells) / (len(cells) - 1))


def _degraded(judged: GroupResult, used: Sequence[ScoreTable], misses: Sequence[FailedCall]) -> bool:
    """Whether scores are missing that were to count."""
    judges = {table.judge for table in used}
    if judged.escalated_to is None:
        judges.update(range(judged.judges))
    elif judged.escalated_to not in judges:
        return True
    return any(miss.judge in judges for miss in misses)


def _rated(
    verdict: GroupScores,
    judged: GroupResult,
    used: Sequence[ScoreTable],
    how: CombineSettings,
    batch: BatchStatistics,
) -> GroupScores:
    """With how far the scores can be trusted: as far as passes tell, but one score for all is no signal."""
    if judged.alone:
        flagged = how.single != "score"
        return replace(verdict, tied=flagged, weight=0.0 if flagged else None)
    table = anova(judged, used)
    rated = None if table is None else reliability.rate(table, batch.prior)
    if _one_score(verdict, used):
        return replace(
            verdict, one_score=True, tied=True, weight=0.0, reliability=None if rated is None else 0.0
        )
    if table is None or rated is None:
        return verdict
    value, tied = rated
    wanted = reliability.passes_for(value, table.k)
    return replace(
        verdict,
        reliability=value,
        weight=value,
        tied=tied,
        passes_for=None if wanted is None else ceil(wanted / len(used)),
    )


def _one_score(verdict: GroupScores, used: Sequence[ScoreTable]) -> bool:
    """Whether the judges gave all rollouts the same: on the whole, or each time they were asked.

    Each time: --debias subtracts from equal scores what their places are worth, and makes them differ.
    """
    return reliability.one_score(verdict.scores) or all(
        reliability.one_score(ballot.scores) for table in used for ballot in table.ballots
    )


def _by_rewards(verdict: GroupScores, judged: GroupResult, how: CombineSettings) -> GroupScores | GroupError:
    """With what the dump said of the rollouts: its reward mixed in, its outcome above all.

    What makes the scores equal leaves no signal; what tells equal ones apart is no signal of the judges.
    """
    by_outcome = how.by_outcome and judged.outcomes
    if how.blend is None and not by_outcome:
        return verdict
    scores = verdict.scores
    if how.blend is not None:
        rewards = judged.rewards or (None,) * len(scores)
        mixed: list[float | None] = []
        for i, (score, reward) in enumerate(zip(scores, rewards, strict=True), 1):
            if score is None:
                mixed.append(None)
            elif reward is None:
                return GroupError("input", f"--blend: rollout {i} has no reward that is a number")
            elif not 0 <= reward <= 1:
                told = f"--blend: rollout {i} has the reward {reward:g}, and scores go from 0 to 1"
                return GroupError("input", f"{told}; name one of that scale with --reward PATH")
            else:
                mixed.append(how.blend * score + (1 - how.blend) * reward)
        scores = tuple(mixed)
    if by_outcome:
        scores = ordered(scores, judged.outcomes)
    if scores == verdict.scores:
        return verdict
    changed = zip(verdict.rollouts, scores, strict=True)
    verdict = replace(verdict, rollouts=tuple(replace(rollout, score=score) for rollout, score in changed))
    levelled = not judged.alone and reliability.one_score(scores)
    return replace(verdict, tied=True, weight=0.0) if levelled else verdict


def _failure(
    judged: GroupResult, found: Sequence[ScoreTable], misses: Sequence[FailedCall], least: int
) -> GroupError:
    """Why no judge counts: the first request that brought nothing, and what there was beside it.

    What --max-cost left out goes before all else: a run with more money may score the group.
    """
    misses = sorted(misses, key=lambda miss: miss.error.kind != "budget")
    if not found:
        return misses[0].error
    best = max(found, key=lambda table: table.passes)
    own = [miss for miss in misses if miss.judge == best.judge]
    asked = len({ballot.pass_index for ballot in best.ballots} | {miss.pass_index for miss in own})
    windowed = judged.windows > 1
    told = f"some rollouts have scores of {best.passes}" if windowed else f"{best.passes}"
    told += f" of {asked} passes{'' if windowed else ' brought scores'}, --min-passes asks for {least}"
    if not misses:
        return GroupError("reply", told)
    failure = (misses if misses[0].error.kind == "budget" else own or misses)[0].error
    return replace(failure, reason=f"{told}; the first that did not: {failure.reason}")


def ordered(scores: Sequence[float | None], outcomes: Sequence[bool | None]) -> tuple[float | None, ...]:
    """Scores of a group in which none that failed is above one that passed; ties between them may be.

    Of all such scores the nearest, by the sum of squared changes: isotonic regression on an order of two
    levels (Barlow et al. 1972). There is one line c; what passed below it is raised to it and what failed
    above it lowered to it. Nothing changes where nothing contradicts. A rollout without a score or an
    outcome stays as it is.
    """
    known = [(score, good) for score, good in zip(scores, outcomes, strict=True) if score is not None]
    up = sorted(score for score, good in known if good is True)
    down = sorted(score for score, good in known if good is False)
    if not up or not down or down[-1] <= up[0]:
        return tuple(scores)
    line = _line(up, down)
    return tuple(
        score if score is None or good is None else max(score, line) if good else min(score, line)
        for score, good in zip(scores, outcomes, strict=True)
    )


def _line(up: list[float], down: list[float]) -> float:
    """Where what is raised to the line and what is lowered to it move by the same sum.

    The balance of the two grows with the line and is straight between two scores, so the line is the
    mean of those that move, once it is known between which scores it lies.
    """
    places = sorted({*up, *down})

    def balance(line: float) -> float:
        raised = fsum(line - score for score in up if score < line)
        return raised - fsum(score - line for score in down if score > line)

    above = places[bisect_left(places, 0.0, key=balance)]  # at the highest nothing is lowered any more
    moved = [score for score in up if score < above] + [score for score in down if score >= above]
    return min(max(fsum(moved) / len(moved), places[0]), above)
