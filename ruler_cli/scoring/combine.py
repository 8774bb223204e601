"""Replies of all judges about a group → its scores.

All of it are pure functions of replies: other options need no new call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, inf

from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.blend import blended
from ruler_cli.scoring.criteria import broken_vetoes
from ruler_cli.scoring.statistics import (
    OWN_NOISE,
    Anova,
    Moments,
    Noise,
    one_score,
    passes_for,
    rate,
)
from ruler_cli.scoring.tables import (
    EPSILON,
    PassTables,
    ScoreTable,
    mean,
    variance_of,
)
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    NO_ANSWER,
    NO_ANSWERS,
    CriterionScore,
    FailedCall,
    GroupError,
    GroupResult,
    GroupScores,
    RolloutValues,
    in_order,
    value,
)

_BALANCED = 2
"""Passes from which the scores of an escalation count: an order and its reverse."""


@value
class Combination:
    """The scores of a group, and the `variance` between its passes, by which the batch's noise rates them."""

    scores: GroupScores
    variance: Anova | None

    @property
    def final(self) -> bool:
        """Return whether no other group changes anything."""
        return self.variance is None or self.variance.k >= OWN_NOISE

    def rated(self, noise: Noise) -> GroupScores:
        """Return the scores with their reliability beside the noise of the batch."""
        scores = self.scores
        variance = self.variance
        rating = variance and rate(variance, noise)
        if not variance or not rating:
            return scores
        reliability, tied = rating
        if scores.one_score:
            return replace(scores, reliability=0.0)
        passes = passes_for(reliability, variance.k)
        if passes is not None:
            passes = ceil(passes / len(scores.used))
        return replace(
            scores,
            tied=tied or scores.tied,
            reliability=reliability,
            weight=0.0 if scores.tied else reliability,
            passes_for=passes,
        )


Combined = Combination | GroupError
"""The scores of a group, or the error in their place."""


def combine(
    result: GroupResult,
    how: CombineSettings,
    batch: BatchStatistics,
    single: str = "flag",
) -> GroupScores | GroupError:
    """Return the scores of a group's rollouts within its batch, and how good they are.

    `batch` has the sums over all groups, or over those so far: the noise of a pass, the position bias, the
    scale of each judge. `single` is that of `AskSettings`. A GroupError if no judge counts, if the run was
    interrupted before all calls were made, or if original rewards are missing that it is blended with.
    """
    made = PassTables(result, batch.correction(how))
    combination = combined(
        made,
        how,
        single,
    )
    if isinstance(combination, GroupError):
        return combination
    return combination.rated(batch.noise)


def combined(
    made: PassTables,
    how: CombineSettings,
    single: str,
) -> Combined:
    """Return the scores of a group, which the noise of its batch is still to rate."""
    result = made.result
    failed_calls = sorted(result.failed_calls, key=in_order)
    for call in failed_calls:
        if call.error.kind == "interrupted":
            return call.error
    absolute = single == "score" or any(table.each for table in made.tables)
    one_pass = result.alone and not absolute
    least = 1 if one_pass else how.min_passes
    counted = [
        table
        for table in made.tables
        if table.passes >= (1 if table.each else least)
    ]
    if not counted:
        return _error(
            made.tables,
            failed_calls,
            least,
        )
    used, whole = _used(result, counted)
    judges = tuple([table.judge for table in used])
    criteria = _criteria(result, used)
    vetoes = {}
    for distinct, scores in criteria.items():
        assert result.rubric is not None  # noqa: S101 - it has the criteria
        values = [score.value for score in scores]
        if names := broken_vetoes(result.rubric, values):
            vetoes[distinct] = names
    if vetoes:
        counted = [table.vetoed(vetoes) for table in counted]
        used = [table for table in counted if table.judge in judges]
    rollouts = _rollouts(
        result,
        used,
        counted,
        criteria,
        vetoes,
    )
    judged = [rollout.score for rollout in rollouts]
    blend = blended(
        judged,
        result,
        how,
    )
    if isinstance(blend, GroupError):
        return blend
    level = not result.alone and (
        one_score(judged) or (not vetoes and all(map(_is_level, used)))
    )
    # identical ones have one score, however it was asked for
    signalless = one_pass or level or (result.alone and len(rollouts) > 1)
    if blend != judged:
        pairs = zip(
            rollouts,
            blend,
            strict=True,
        )
        rollouts = [replace(rollout, score=score) for rollout, score in pairs]
        # scores that become equal by rewards or outcomes carry no signal
        signalless = signalless or (not result.alone and one_score(blend))
    scores_of_group = GroupScores(
        tuple(rollouts),
        used=judges,
        passes=max([table.passes for table in used]),
        tied=signalless,
        one_score=level,
        alone=result.alone,
        weight=0.0 if signalless else None,
        degraded=not whole,
    )
    return Combination(scores_of_group, variance_of(result, used))


def _used(
    result: GroupResult, counted: Sequence[ScoreTable]
) -> tuple[Sequence[ScoreTable], bool]:
    """Return the tables that a group's scores are the mean of, and whether no score is missing that should count."""
    strongest = result.escalated_to
    stronger = [table for table in counted if table.judge == strongest]
    panel = [table for table in counted if table.judge != strongest]
    # the mean of fewer judges would put a rollout that one refused on another scale than its siblings
    unrefused = [table for table in panel if not table.refused] or panel[:1]
    # one pass of a stronger judge, its reverse cut off by the cap, is no better than two of the others
    balanced = any(table.passes >= _BALANCED for table in stronger)
    used = stronger if balanced or not panel else unrefused
    judges = {table.judge for table in used}
    wanted = set(judges)
    if strongest is None:
        wanted.update(range(result.judges))
    failed = any(call.judge in wanted for call in result.failed_calls)
    lacking = len(unrefused) < len(panel) or strongest not in (None, *judges)
    return used, not (failed or lacking)


def _is_level(table: ScoreTable) -> bool:
    """Return whether a judge gave all rollouts one score.

    Probabilities are one if they differ by a unit of their last digit. Written scores are so in every request: what is
    subtracted from equal ones for position bias differs.
    """
    error = max([reply.error for reply in table.pass_scores])
    if not error:
        return all(one_score(reply.scores) for reply in table.pass_scores)
    scores = [score for score in table.scores if score is not None]
    return max(scores) - min(scores) <= 2 * error + EPSILON


_Criteria = Mapping[int, tuple[CriterionScore, ...]]
"""The values of the criteria of distinct rollouts; empty if the rubric is a text."""
_Vetoes = Mapping[int, Sequence[str]]
"""The names of the vetoes that distinct rollouts break."""


def _criteria(result: GroupResult, used: Sequence[ScoreTable]) -> _Criteria:
    """Return the values of each criterion, over the judges and passes that a score is the mean of.

    A judge that saw the rollout alone has no position, and counts in the mean only.
    """
    criteria = dict[int, tuple[CriterionScore, ...]]()
    if result.rubric is None:
        return criteria
    for distinct in range(len(result.sizes)):
        tables = [table for table in used if table.shown[distinct]]
        scores = []
        for number, name in enumerate(result.rubric.names if tables else ()):
            means = []
            placed = []
            for table in tables:
                values = [
                    reply.criteria[position][number]
                    for reply, position in table.shown[distinct]
                ]
                means.append(mean(values))
                if not table.each:
                    placed += values
            scores.append(
                CriterionScore(
                    name,
                    mean(means),
                    tuple(placed),
                )
            )
        if scores:
            criteria[distinct] = tuple(scores)
    return criteria


def _rollouts(
    result: GroupResult,
    used: Sequence[ScoreTable],
    counted: Sequence[ScoreTable],
    criteria: _Criteria,
    vetoes: _Vetoes,
) -> list[RolloutValues]:
    """Return the score of each rollout in input order; an unreadable one has its reason for an explanation."""
    by_distinct = dict[int, RolloutValues]()
    rollouts = []
    for i, owner in enumerate(result.owner):
        if owner is None:
            rollouts.append(RolloutValues(None, result.reasons[i]))
            continue
        label = result.rewards[i] if result.rewards else None
        scored = by_distinct.get(owner)
        if scored is None:
            scored = _scored(
                result,
                owner,
                used,
                counted,
                label,
            )
            if owner in criteria:
                scored = replace(scored, criteria=criteria[owner])
            if owner in vetoes:
                scored = _with_vetoes(scored, vetoes[owner])
            by_distinct[owner] = scored
        elif scored.label != label:
            scored = replace(scored, label=label)
        rollouts.append(scored)
    return rollouts


def _with_vetoes(scored: RolloutValues, broken: Sequence[str]) -> RolloutValues:
    """Return the score of a rollout that breaks vetoes, which is 0, with their names."""
    named = ", ".join([f"“{name}”" for name in broken])
    words = f"The judge's score is 0 by the veto of {named}."
    return replace(
        scored,
        explanation=f"{scored.explanation} {words}".strip(),
        pass_scores=(0.0,) * len(scored.pass_scores),
    )


def _scored(
    result: GroupResult,
    distinct: int,
    used: Sequence[ScoreTable],
    counted: Sequence[ScoreTable],
    label: float | None,
) -> RolloutValues:
    """Return the score of a distinct rollout.

    It is the mean of the judges' scores, with the explanation of the pass whose score is nearest to it. So is
    that of each judge.
    """
    size = result.sizes[distinct]
    by_judge = {}
    explained = {}
    for table in counted:
        score_of_judge = table.scores[distinct]
        if score_of_judge is None:
            continue
        by_judge[table.judge] = score_of_judge
        if len(counted) > 1:
            words = _explanation(
                score_of_judge,
                distinct,
                [table],
            )
            explained[table.judge] = words
    means = []
    positions = []
    uncorrected = []
    corrected = list[float]()
    for table in used:
        if table.judge in by_judge:
            means.append(by_judge[table.judge])
        corrected += table.cells[distinct]
        for reply, position in table.shown[distinct]:
            if reply.placed:
                last = max(1, len(reply.distinct) - 1)
                positions.append(position / last)
                uncorrected.append(reply.scores[position])
    if not means:
        return RolloutValues(
            None, NO_ANSWER, label=label, size=size, distinct=distinct
        )
    score = mean(means)
    return RolloutValues(
        score,
        _explanation(
            score,
            distinct,
            used,
        ),
        judge_score=score,
        spread=Moments().add(corrected).deviation if corrected[1:] else None,
        by_judge=by_judge,
        explanations=explained,
        positions=tuple(positions),
        pass_scores=tuple(uncorrected),
        suspect=distinct in result.suspects,
        label=label,
        size=size,
        distinct=distinct,
    )


def _explanation(
    score: float, distinct: int, tables: Sequence[ScoreTable]
) -> str:
    """Return the explanation of the score of a rollout that is nearest to this one; of equals the first pass."""
    best = (inf, 0, 0)
    explanation = ""
    for table in tables:
        replies = zip(
            table.shown[distinct],
            table.cells[distinct],
            strict=True,
        )
        for (reply, position), corrected in replies:
            # equal distances may differ by rounding
            off = round(abs(corrected - score), 9)
            place = (off, reply.pass_index, reply.judge)
            if place < best:
                best = place
                explanation = reply.explanations[position]
    return explanation


def _error(
    tables: Sequence[ScoreTable],
    failed_calls: Sequence[FailedCall],
    least: int,
) -> GroupError:
    """Return the error of a group of which no judge counts: that of the first failed call, and the passes there are.

    A call that the cost cap left out goes before all others: a run with more money may score the group.
    """
    best = max(
        tables,
        key=lambda table: table.passes,
        default=None,
    )

    def rank(call: FailedCall) -> tuple[bool, bool]:
        is_other = best is not None and call.judge != best.judge
        return call.error.kind != "budget", is_other

    # of calls of equal kinds those of the best judge
    failed = sorted(failed_calls, key=rank)
    if best is None:
        return failed[0].error
    if best.each:
        answered = sum(map(bool, best.cells))
        reason = f"{answered} of {len(best.cells)} distinct rollouts have an answer, and all need one"
    else:
        asked = {reply.pass_index for reply in best.pass_scores}
        for call in failed:
            if call.judge == best.judge:
                asked.add(call.pass_index)
        reason = f"{best.passes} of {len(asked)} passes scored every rollout, and {least} are needed"
    if not failed:
        is_silent = not any(any(table.cells) for table in tables)
        return NO_ANSWERS if is_silent else GroupError("reply", reason)
    error = failed[0].error
    reason = f"{reason}; the first that did not: {error.reason}"
    return replace(error, reason=reason)
