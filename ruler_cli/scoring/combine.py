"""All that judges said of a group → its verdict: pure, and changed afterwards without a call."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, fsum, inf, sqrt

from ruler_cli.ballots import Ballot, Miss, Outcome, Verdict
from ruler_cli.records import Failure
from ruler_cli.scoring.batch import Batch, Table, anova, mean, tables
from ruler_cli.settings import CombineSettings
from ruler_cli.statistics import reliability

_BALANCED = 2
"""Passes from which on the scores of an escalation stand: an order and its reverse."""


def combine(judged: Outcome, how: CombineSettings, batch: Batch) -> Verdict | Failure:
    """The scores of a group's rollouts, and how good they are.

    `batch` is what is known of all groups, or of those so far: the noise of a pass, the slot curve, how
    judges differ. A Failure where no judge counts, where the run was interrupted before all was asked,
    and where the original rewards that are asked for are not there.
    """
    misses = sorted(judged.misses, key=lambda m: (m.judge, m.turn, m.window))
    for miss in misses:
        if miss.failure.kind == "interrupted":
            return miss.failure
    found = tables(judged, lambda ballot: _cells(ballot, judged, how, batch))
    asked_once = judged.alone and how.single != "score"
    least = 1 if asked_once else max(1, how.min_passes)
    counted = [table for table in found if table.passes >= least]
    # one pass of a stronger judge, its reverse cut off by the cap, is no better than two of the others
    final = [table for table in counted if table.judge == judged.final and table.passes >= _BALANCED]
    used = final or [table for table in counted if table.judge != judged.final] or counted
    if not used:
        return _failure(judged, found, misses, least)
    verdict = _verdict(judged, used, counted, degraded=_degraded(judged, used, misses))
    verdict = _rated(verdict, judged, used, how, batch)
    return _by_rewards(verdict, judged, how)


def settle(every: Iterable[Outcome], how: CombineSettings, batch: Batch) -> None:
    """Once every group was added to the batch: let it know the noise of scores as `how` has them count.

    Without that, what --debias and --standardize take out of the scores would still count as their noise.
    """
    if how.standardize or (how.debias and batch.slots.enough):
        batch.hear_again((judged, partial(_cells, judged=judged, how=how, batch=batch)) for judged in every)


def _cells(ballot: Ballot, judged: Outcome, how: CombineSettings, batch: Batch) -> Sequence[float]:
    """What a ballot's scores count as: without its slots' share, on the scale of all judges."""
    scores: Sequence[float] = ballot.scores
    if how.debias and batch.slots.enough:
        away = batch.slots.corrections(len(scores))
        scores = [score - less for score, less in zip(scores, away, strict=True)]
    if how.standardize and judged.judges > 1:
        scores = batch.standard(ballot.judge, scores)
    return scores


def _verdict(judged: Outcome, used: Sequence[Table], counted: Sequence[Table], *, degraded: bool) -> Verdict:
    """The judges' scores and what goes with them, for each rollout; nothing yet of how good they are."""
    bodies = range(len(judged.sizes))
    scores = [mean([s for table in used if (s := table.scores[body]) is not None]) for body in bodies]
    cells = [[cell for table in used for cell in table.cells[body]] for body in bodies]
    spread = [_deviation(row) for row in cells]
    said = _explanations(used, scores)
    places, given = _shown(judged, used)
    by_judge: list[tuple[float | None, ...]] = [(None,) * len(judged.owner)] * _judges(judged)
    for table in counted:
        by_judge[table.judge] = tuple(None if b is None else table.scores[b] for b in judged.owner)
    per_rollout = tuple(None if body is None else scores[body] for body in judged.owner)
    return Verdict(
        scores=per_rollout,
        explanations=tuple(
            judged.faults[i] if body is None else said[body] for i, body in enumerate(judged.owner)
        ),
        suspects=frozenset(i for i, body in enumerate(judged.owner) if body in judged.suspects),
        passes=max(table.passes for table in used),
        judged=per_rollout,
        used=tuple(table.judge for table in used),
        spread=tuple(None if body is None else spread[body] for body in judged.owner),
        by_judge=tuple(by_judge),
        slots=tuple(() if body is None else tuple(places[body]) for body in judged.owner),
        pass_scores=tuple(() if body is None else tuple(given[body]) for body in judged.owner),
        degraded=degraded,
        rescaled=sum(ballot.rescaled for ballot in judged.ballots),
        unknown=sum(ballot.unknown for ballot in judged.ballots),
        shortened=judged.shortened,
    )


def _judges(judged: Outcome) -> int:
    """How many judges there are to tell of."""
    return max(judged.judges, 1 + (judged.final or 0), *(1 + ballot.judge for ballot in judged.ballots))


def _deviation(cells: Sequence[float]) -> float | None:
    if len(cells) < 2:
        return None
    middle = mean(cells)
    return sqrt(fsum((cell - middle) ** 2 for cell in cells) / (len(cells) - 1))


def _explanations(used: Sequence[Table], scores: Sequence[float]) -> list[str]:
    """For each body what was said with the score nearest its own; of equally near ones the earliest pass."""
    if len(used) == 1 and len(used[0].ballots) == 1:
        (only,) = used[0].ballots
        return [text for _, text in sorted(zip(only.bodies, only.explanations, strict=True))]
    best: list[tuple[float, int, int, str]] = [(inf, 0, 0, "")] * len(scores)
    for table in used:
        left = list(map(iter, table.cells))
        for ballot in table.ballots:
            for body, text in zip(ballot.bodies, ballot.explanations, strict=True):
                off = round(abs(next(left[body]) - scores[body]), 9)  # as far is as far, rounding aside
                best[body] = min(best[body], (off, ballot.turn, table.judge, text), key=lambda b: b[:3])
    return [text for *_, text in best]


def _shown(judged: Outcome, used: Sequence[Table]) -> tuple[list[list[float]], list[list[float]]]:
    """For each body, judge by judge and pass by pass: its place, 0 first and 1 last, and its score."""
    places: list[list[float]] = [[] for _ in judged.sizes]
    given: list[list[float]] = [[] for _ in judged.sizes]
    for table in used:
        for ballot in table.ballots:
            last = max(1, len(ballot.bodies) - 1)
            for slot, (body, score) in enumerate(zip(ballot.bodies, ballot.scores, strict=True)):
                places[body].append(slot / last)
                given[body].append(score)
    return places, given


def _degraded(judged: Outcome, used: Sequence[Table], misses: Sequence[Miss]) -> bool:
    """Whether scores are missing that were to count."""
    judges = {table.judge for table in used}
    if judged.final is None:
        judges.update(range(judged.judges))
    elif judged.final not in judges:
        return True
    return any(miss.judge in judges for miss in misses)


def _rated(
    verdict: Verdict, judged: Outcome, used: Sequence[Table], how: CombineSettings, batch: Batch
) -> Verdict:
    """With how far the scores can be trusted: as far as passes tell, but one score for all is no signal."""
    if judged.alone:
        flagged = how.single != "score"
        return replace(verdict, tied=flagged, weight=0.0 if flagged else None)
    table, prior = anova(judged, used), batch.prior
    known = table is not None and reliability.known(table, prior)
    if _one_score(verdict, used):
        return replace(verdict, one_score=True, tied=True, weight=0.0, reliability=0.0 if known else None)
    if table is None or not known:
        return verdict
    value = reliability.icc(table, prior)
    wanted = reliability.passes_for(value, table.k)
    return replace(
        verdict,
        reliability=value,
        weight=value,
        tied=reliability.tied(table, prior),
        passes_for=None if wanted is None else ceil(wanted / len(used)),
    )


def _one_score(verdict: Verdict, used: Sequence[Table]) -> bool:
    """Whether the judges gave all rollouts the same: on the whole, or each time they were asked.

    Each time: --debias subtracts from equal scores what their places are worth, and makes them differ.
    """
    return reliability.one_score(verdict.judged) or all(
        reliability.one_score(ballot.scores) for table in used for ballot in table.ballots
    )


def _by_rewards(verdict: Verdict, judged: Outcome, how: CombineSettings) -> Verdict | Failure:
    """With what the dump said of the rollouts: its reward mixed in, its outcome above all.

    What makes the scores equal leaves no signal; what tells equal ones apart is no signal of the judges.
    """
    scores = verdict.scores
    if how.blend is not None:
        rewards = judged.rewards or (None,) * len(scores)
        mixed: list[float | None] = []
        for i, (score, reward) in enumerate(zip(scores, rewards, strict=True), 1):
            if score is None:
                mixed.append(None)
            elif reward is None:
                return Failure("input", f"--blend: rollout {i} has no reward that is a number")
            elif not 0 <= reward <= 1:
                told = f"--blend: rollout {i} has the reward {reward:g}, and scores go from 0 to 1"
                return Failure("input", f"{told}; name one of that scale with --reward PATH")
            else:
                mixed.append(how.blend * score + (1 - how.blend) * reward)
        scores = tuple(mixed)
    if how.by_outcome and judged.outcomes:
        scores = ordered(scores, judged.outcomes)
    if scores is verdict.scores:
        return verdict
    verdict = replace(verdict, scores=scores)
    levelled = not judged.alone and reliability.one_score(scores)
    return replace(verdict, tied=True, weight=0.0) if levelled else verdict


def _failure(judged: Outcome, found: Sequence[Table], misses: Sequence[Miss], least: int) -> Failure:
    """Why no judge counts: the first request that brought nothing, and what there was beside it.

    What --max-cost left out goes before all else: a run with more money may score the group.
    """
    if not misses and not found:
        faults = [judged.faults[i] for i, body in enumerate(judged.owner) if body is None]
        first = f"no trajectory can be judged; the first: {faults[0]}" if faults else ""
        return Failure("input", first or "the group has no trajectories")
    misses = sorted(misses, key=lambda miss: miss.failure.kind != "budget")
    if not found:
        return misses[0].failure
    best = max(found, key=lambda table: table.passes)
    own = [miss for miss in misses if miss.judge == best.judge]
    asked = len({ballot.turn for ballot in best.ballots} | {miss.turn for miss in own})
    windowed = judged.windows > 1
    told = f"some rollouts have scores of {best.passes}" if windowed else f"{best.passes}"
    told += f" of {asked} passes{'' if windowed else ' brought scores'}, --min-passes asks for {least}"
    if not misses:
        return Failure("reply", told)
    failure = (misses if misses[0].failure.kind == "budget" else own or misses)[0].failure
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
