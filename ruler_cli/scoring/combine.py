"""Replies of all judges about a group → its scores, and the sums over the groups of a batch behind them.

All of it are pure functions of replies: other options need no new call. The sums tell how good the judges
are. Their memory does not grow with the number of groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress, count, repeat
from math import ceil, fsum, sqrt
from operator import attrgetter, not_, sub
from typing import Any, NamedTuple

from ruler_cli.scoring.figures import Figures
from ruler_cli.scoring.rewards import PASSING
from ruler_cli.scoring.statistics import (
    CORRELATIONS,
    ROUNDING,
    Anova,
    Moments,
    NoiseEstimator,
    PositionBias,
    one_score,
    passes_for,
    quantile,
    rate,
)
from ruler_cli.scoring.window_shifts import WindowFit, fit
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    NO_ANSWER,
    NO_ANSWERS,
    BatchFigures,
    Contradiction,
    CriterionScore,
    FailedCall,
    GroupError,
    GroupResult,
    GroupScores,
    Pair,
    PassScores,
    RolloutValues,
    printable,
)

_EXACT = 12
_DIGITS = 9
"""Decimals of a score from a fit to windows: those behind them are the solver's rounding."""
Correction = Callable[[PassScores], Sequence[float]]
"""The corrected scores of a request, in its order."""
UNCORRECTED: Correction = attrgetter("scores")
_IN_ORDER = attrgetter("judge", "pass_index", "window")


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, rounded to twelve decimals; of equal values it is exactly that value.

    Without rounding, .3 and .45 would have another mean than .35 and .4 in binary fractions, and chance
    would decide which rollout is the best.
    """
    least = min(values)
    most = max(values)
    if least == most:
        return values[0]
    return min(max(round(fsum(values) / len(values), _EXACT), least), most)


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """One judge's scores of a group.

    `cells[i]` are the scores of distinct rollout i in the order of `pass_scores`; if the judge saw windows,
    the windows' levels are subtracted and `fit` has them. `scores[i]` is the mean of the cells, within
    [0, 1]; None if there are none. `windows` are the distinct rollouts and the corrected scores of each
    request. `passes` counts the scores that every rollout has at least, but for those that the judge has `refused` to
    score in every pass.
    """

    judge: int
    pass_scores: Sequence[PassScores]
    windows: Sequence[tuple[tuple[int, ...], Sequence[float]]]
    cells: Sequence[Sequence[float]]
    scores: Sequence[float | None]
    passes: int
    fit: WindowFit | None = None
    refused: frozenset[int] = frozenset()

    @property
    def each(self) -> bool:
        """Return whether the judge saw each rollout alone: one score is all that it has to say."""
        return self.pass_scores[0].asked_alone

    def vetoed(self, rollouts: Collection[int]) -> ScoreTable:
        """Return the table in which these distinct rollouts score 0 in every pass."""
        cells = [
            [0.0] * len(own) if at in rollouts else own
            for at, own in enumerate(self.cells)
        ]
        scores = [
            0.0 if at in rollouts and score is not None else score
            for at, score in enumerate(self.scores)
        ]
        return replace(self, cells=cells, scores=scores)


def tables(
    result: GroupResult, correct: Correction = UNCORRECTED
) -> list[ScoreTable]:
    """A table for each judge that gave any score, by the judges' numbers."""
    by_judge: dict[int, list[PassScores]] = {}
    for one in sorted(result.pass_scores, key=_IN_ORDER):
        by_judge.setdefault(one.judge, []).append(one)
    made = []
    for judge, own in by_judge.items():
        windows = [(one.distinct, correct(one)) for one in own]
        fitted = None
        scores: list[float | None]
        cells: Sequence[Sequence[float]]
        # a value of a criterion says the same in every window
        if (
            result.windows > 1
            and not own[0].asked_alone
            and result.rubric is None
        ):
            fitted = fit(windows, len(result.sizes))
            cells = fitted.adjusted
            scores = [
                None if x is None else round(x, _DIGITS) for x in fitted.scores
            ]
        else:
            cells = rows = [list[float]() for _ in result.sizes]
            for distinct, given in windows:
                for rollout, score in zip(distinct, given, strict=True):
                    rows[rollout].append(score)
            scores = [mean(row) if row else None for row in rows]
        scores = [None if x is None else min(1.0, max(0.0, x)) for x in scores]
        unanswered = {at for one in own for at in one.unanswered}
        refused = frozenset([at for at in unanswered if not cells[at]])
        rows_asked = [
            len(row) for at, row in enumerate(cells) if at not in refused
        ]
        passes = min(rows_asked, default=0)
        made.append(
            ScoreTable(
                judge, own, windows, cells, scores, passes, fitted, refused
            )
        )
    return made


def anova(result: GroupResult, used: Sequence[ScoreTable]) -> Anova | None:
    """The analysis of variance of rollout × (judge, pass); None if there is only one of either."""
    if result.alone or len(result.pass_scores) < 2:
        return None
    fitted = [table for table in used if table.fit]
    if fitted:  # it subtracts the level of every window of every judge
        whole = fitted[0].fit
        if len(fitted) > 1:
            windows = [one for table in fitted for one in table.windows]
            whole = fit(windows, len(result.sizes))
        return whole.anova if whole and whole.anova.k > 1 else None
    # a judge that was asked about each rollout may lack some
    whole_tables = [table for table in used if table.passes]
    columns: list[tuple[float, ...]] = []
    for table in whole_tables:
        # one that was shown in windows, and lacks one, has more scores of some rollouts
        rows = [own[: table.passes] for own in table.cells if own]
        if len(rows) == len(table.cells):
            columns += zip(*rows, strict=True)
    return Anova.of(columns) if len(columns) > 1 else None


class PassTables:
    """The tables of a group's passes, and the analysis of their variance, each made once."""

    def __init__(
        self, result: GroupResult, correct: Correction = UNCORRECTED
    ) -> None:
        self.result = result
        self.tables = tables(result, correct)
        self._variances: dict[tuple[int, ...], Anova | None] = {}

    def variance(self, used: Sequence[ScoreTable]) -> Anova | None:
        """Analyse some of its tables, or copies of them."""
        key = tuple(map(id, used))
        if not all(
            any(table is known for known in self.tables) for table in used
        ):
            return anova(self.result, used)
        if key not in self._variances:
            self._variances[key] = anova(self.result, used)
        return self._variances[key]


_ENOUGH = 30
"""Rewarded rollouts below which no correlation of errors is reported: its own error is then about 0.2."""
_LISTED = 20
"""Contradictions of a kind that are listed: those with the most extreme scores."""
_KEY = 200
"""Characters of a group's key in a listing: a key may be as long as a prompt."""
_FINEST = 1e-8
"""The least variance of rounding: passes that agree to the last bit would outweigh all others."""
_FLAT = 1e-6
"""A smaller standard deviation of a judge's scores is rounding: it gives every rollout the same score."""


class BatchStatistics:
    """Sums over the groups of a batch that combining needs, and the `sums` of the scores behind it.

    `add` counts the replies about a group, which the scores of this group and others may depend on;
    `add_scores` counts its scores. `names` are the judges' names in the figures, by number. In `input_order`
    a position says what the rollout is, so it tells no position bias.
    """

    def __init__(
        self, names: Sequence[str] = (), *, input_order: bool = False
    ) -> None:
        self.position_bias = PositionBias()
        self.noise = NoiseEstimator()
        self.sums = Figures(whole=False)
        self._names = tuple(names)
        self._input_order = input_order
        self._moments: dict[int, Moments] = {}
        # by the outcome of the rollouts, which their scores contradict
        self._contradictions: Counter[bool] = Counter()
        self._listed: dict[bool, list[Contradiction]] = {
            True: [],
            False: [],
        }
        self._outcomes: Counter[bool | None] = Counter()
        self._latest: PassTables | None = None

    def tables_of(
        self, result: GroupResult, how: CombineSettings
    ) -> PassTables:
        """Return the tables of a group with scores corrected as `how` says; those of the newest group are there."""
        if how.standardize or (how.debias and self.position_bias.enough):
            return PassTables(result, partial(self.corrected, how))
        if self._latest is None or self._latest.result is not result:
            self._latest = PassTables(result)
        return self._latest

    def add(self, result: GroupResult) -> None:
        """Count a group's replies: scores by position, the noise between passes, the scale of each judge."""
        if not self._input_order:
            compared = [one.scores for one in result.pass_scores if one.placed]
            self.position_bias.add(*compared)
        for one in result.pass_scores:
            # a judge of escalations saw other groups than the panel did
            if result.judges > 1 and one.judge != result.escalated_to:
                moments = self._moments.setdefault(one.judge, Moments())
                moments.add(one.scores)
        self._latest = PassTables(result)
        self._add_noise(self._latest)

    def refit_noise(
        self, results: Iterable[GroupResult], how: CombineSettings
    ) -> None:
        """Once every group is added, estimate the noise again from scores corrected as `how` says.

        Without that, differences that are corrected afterwards would still count as noise.
        """
        if how.standardize or (how.debias and self.position_bias.enough):
            self.noise = NoiseEstimator()
            for result in results:
                self._add_noise(self.tables_of(result, how))

    def _add_noise(self, every: PassTables) -> None:
        result = every.result
        if len(result.pass_scores) > 1 and not result.alone:
            strongest = result.escalated_to
            stronger = [
                table for table in every.tables if table.judge == strongest
            ]
            variance = every.variance(stronger or every.tables)
            if variance is not None:
                values = result.rubric.rounding if result.rubric else 1.0
                errors = [one.error for one in result.pass_scores]
                # probabilities are finer than the scores that judges write
                grid = (
                    max(_FINEST, max(errors) ** 2 / 3)
                    if all(errors)
                    else ROUNDING
                )
                self.noise.add(variance.ms_res, variance.df_res, grid * values)

    def corrected(
        self, how: CombineSettings, one: PassScores
    ) -> Sequence[float]:
        """The scores of a request in its order, without position bias and on one scale, as `how` says.

        On one scale, a judge's scores have the mean and the standard deviation of all over the batch. Those
        of a judge that gives one score to all are only shifted. Those of an escalation, which has no scale in
        common with the panel, stay as they are. Scores may leave [0, 1].
        """
        scores: Sequence[float] = one.scores
        if how.debias and self.position_bias.enough and one.placed:
            bias = self.position_bias.corrections(len(scores))
            scores = list(map(sub, scores, bias))
        own = self._moments.get(one.judge, Moments())
        if not how.standardize or own.number < 2 or len(self._moments) < 2:
            return scores
        # in the order of the judges, since sums of floats depend on it
        each = [moments for _, moments in sorted(self._moments.items())]
        pooled = sum(each, Moments())
        stretch = 1.0
        if own.deviation > _FLAT:
            stretch = pooled.deviation / own.deviation
        return [pooled.mean + (score - own.mean) * stretch for score in scores]

    def add_scores(
        self, key: str, result: GroupResult, scores: GroupScores
    ) -> None:
        """Count a group's scores; `key` names the group if one of its rollouts is listed."""
        self.sums.add(scores)
        for i, passed in enumerate(result.outcomes):
            score = scores.rollouts[i].judge_score
            if score is not None:
                self._add_outcome(passed, score, key, i + 1)

    def _add_outcome(
        self, passed: bool | None, score: float, key: str, number: int
    ) -> None:
        """Count a rollout with or without a verifier's outcome, and list it if its score contradicts it.

        The rollout is the one with this number in the group of this key.
        """
        self._outcomes[passed] += 1
        if passed is None or passed != (score < PASSING):
            return
        self._contradictions[passed] += 1
        listed = self._listed[passed]
        listed.append(Contradiction(printable(key, _KEY), number, score))
        # of equal scores the first
        listed.sort(key=lambda odd: odd.score, reverse=not passed)
        del listed[_LISTED:]

    def figures(
        self, *, debias: bool = False, checked: bool = False
    ) -> BatchFigures:
        """The figures of the batch.

        `debias`: the position bias was to be corrected. `checked`: outcomes were asked for, so rollouts
        without one are counted even if none has one.
        """
        prior = self.noise.prior()
        outcomes = self._outcomes
        checked |= bool(outcomes[True] or outcomes[False])
        sums = self.sums
        groups = sums.counts["groups"]
        tenths = [0] * 10
        for reliability in sums.reliability:
            tenths[min(9, int(round(reliability, 3) * 10))] += 1
        return BatchFigures(
            groups=groups,
            mean_score=sums.scores.mean if sums.scores.number else None,
            tie_rate=sums.counts["tied"] / groups if groups else None,
            degraded=sums.counts["degraded"],
            slot_curve=self.position_bias.bins(),
            slot_groups=self.position_bias.groups,
            debiased=debias and self.position_bias.enough,
            length=sums.lengths.trend(),
            judges=tuple(self._pair(*pair) for pair in sorted(sums.by_judges)),
            reliability=tuple(tenths),
            reliability_median=quantile(sums.reliability, 0.5),
            noise=sqrt(prior.variance) if prior.df > 0 else None,
            flawed=self._contradictions[True],
            flawed_listed=tuple(self._listed[True]),
            near_misses=self._contradictions[False],
            near_misses_listed=tuple(self._listed[False]),
            without_outcome=outcomes[None] if checked else 0,
        )

    def _pair(self, one: int, other: int) -> Pair:
        """The figures of two judges; their errors need enough rewards."""
        sums = self.sums.by_judges[one, other]
        scores, errors = (of(sums[kind]) for kind, of in CORRELATIONS.items())
        rewarded = sums["errors"]["n"]
        return Pair(
            (self._names[one], self._names[other]),
            scores,
            sums["scores"]["n"],
            errors if rewarded >= _ENOUGH else None,
            rewarded,
        )


def undecided(result: GroupResult, gap: float) -> bool:
    """Return whether the judges of a group leave it to a stronger one.

    They do if no two of its scores lie further apart than the gap, or than twice the standard error of a score over
    passes; and if there are no scores, for another reason than the group itself, the cap or an interruption.
    """
    every = [table for table in tables(result) if table.passes]
    if not every:
        errors = [call.error for call in result.failed_calls]
        return any(error.kind in _OF_JUDGE for error in errors)
    if result.alone:
        return False
    rows = zip(*[table.scores for table in every], strict=True)
    known = [[score for score in row if score is not None] for row in rows]
    scores = [mean(row) for row in known if row]
    variance = anova(result, every)
    error = sqrt(variance.ms_res / variance.k) if variance else 0.0
    return max(scores) - min(scores) <= max(gap, 2 * error) + _EPSILON


_OF_JUDGE = ("reply", "transport", "refused", "too_long")
"""Kinds of errors of a judge that another one may not have."""
_BALANCED = 2
"""Passes from which the scores of an escalation count: an order and its reverse."""


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
    failed_calls = sorted(result.failed_calls, key=_IN_ORDER)
    for call in failed_calls:
        if call.error.kind == "interrupted":
            return call.error
    made = batch.tables_of(result, how)
    every = made.tables
    absolute = single == "score" or any(table.each for table in every)
    one_pass = result.alone and not absolute
    least = 1 if one_pass else max(1, how.min_passes)
    counted = [
        table
        for table in every
        if table.passes >= (min(least, 1) if table.each else least)
    ]
    if not counted:
        return _error(every, failed_calls, least)
    stronger = [
        table for table in counted if table.judge == result.escalated_to
    ]
    panel = [table for table in counted if table.judge != result.escalated_to]
    # the mean of fewer judges would put a rollout that one refused on another scale than its siblings
    unrefused = [table for table in panel if not table.refused] or panel[:1]
    lacking = len(unrefused) < len(panel)
    panel = unrefused
    # one pass of a stronger judge, its reverse cut off by the cap, is no better than two of the others
    whole = any(table.passes >= _BALANCED for table in stronger)
    used = stronger if whole or not panel else panel
    judges = {table.judge for table in used}
    # scores are missing that should count
    wanted = judges.union(
        range(result.judges if result.escalated_to is None else 0)
    )
    degraded = any(call.judge in wanted for call in failed_calls)
    degraded |= lacking or result.escalated_to not in (None, *judges)
    criteria = _criteria(result, used)
    # the names of those that each distinct rollout breaks
    vetoes: list[list[str]] = [[] for _ in criteria]
    if rubric := result.rubric:
        vetoes = [
            rubric.vetoes([one.value for one in own]) if own else []
            for own in criteria
        ]
    vetoed = {at for at, names in enumerate(vetoes) if names}
    if vetoed:
        counted = [table.vetoed(vetoed) for table in counted]
        used = [table for table in counted if table.judge in judges]
    rollouts = _rollouts(result, used, counted, criteria, vetoes)

    reliability = more = None
    # identical ones have one score, however it was asked for
    signalless = one_pass or (result.alone and len(rollouts) > 1)
    tied = signalless
    level = False
    if not result.alone:
        variance = made.variance(used)
        rated = rate(variance, batch.noise.prior()) if variance else None
        if variance and rated:
            reliability, tied = rated
            more = passes_for(reliability, variance.k)
        level = one_score([one.score for one in rollouts])
        if not vetoed:
            level = level or all(map(_is_level, used))
        if level:  # no signal
            tied = True
            more = None
            reliability = reliability and 0.0
    scores = GroupScores(
        rollouts,
        used=tuple([table.judge for table in used]),
        passes=max([table.passes for table in used]),
        tied=tied,
        one_score=level,
        alone=result.alone,
        reliability=reliability,
        weight=0.0 if signalless or level else reliability,
        passes_for=more and ceil(more / len(used)),
        degraded=degraded,
    )
    return _by_rewards(scores, result, how)


_EPSILON = 1e-9
"""Rounding of a difference of decimals."""


def _is_level(table: ScoreTable) -> bool:
    """Return whether a judge gave all rollouts one score.

    Probabilities are one if they differ by a unit of their last digit. Written scores are so in every request: what is
    subtracted from equal ones for position bias differs.
    """
    error = max(one.error for one in table.pass_scores)
    if not error:
        return all(one_score(one.scores) for one in table.pass_scores)
    scores = [score for score in table.scores if score is not None]
    return max(scores) - min(scores) <= 2 * error + _EPSILON


class _Shown(NamedTuple):
    """A rollout in one request: relative position, score as given and as corrected, (pass, judge).

    The position is None if the judge saw it alone.
    """

    position: float | None
    given: float
    corrected: float
    order: tuple[int, int]
    explanation: str


_Criteria = Sequence[tuple[CriterionScore, ...]]
"""The values of the criteria of each distinct rollout; none if the rubric is a text."""


def _criteria(result: GroupResult, used: Sequence[ScoreTable]) -> _Criteria:
    """The mean over judges and passes of each criterion, and its value at each position, in the order of the tables."""
    if result.rubric is None:
        return [()] * len(result.sizes)
    rows: list[list[list[tuple[float, ...]]]] = [[] for _ in result.sizes]
    alone = [table.each for table in used]
    for table in used:
        own: list[list[tuple[float, ...]]] = [[] for _ in result.sizes]
        for one in table.pass_scores:
            for distinct, values in zip(
                one.distinct, one.criteria, strict=True
            ):
                own[distinct].append(values)
        for row, passes in zip(rows, own, strict=True):
            row.append(passes)
    return [
        tuple(
            map(
                _criterion,
                result.rubric.names,
                count(),
                repeat(row),
                repeat(alone),
            )
        )
        if any(row)
        else ()
        for row in rows
    ]


def _criterion(
    name: str,
    number: int,
    judges: Sequence[Sequence[Sequence[float]]],
    alone: Sequence[bool],
) -> CriterionScore:
    """The scores of one criterion, from the values that each judge gave in each pass to all of them.

    A judge that saw the rollout `alone` has no position, and counts in the mean only.
    """
    own = [[values[number] for values in passes] for passes in judges]
    value = mean([mean(passes) for passes in own if passes])
    placed = compress(own, map(not_, alone))
    return CriterionScore(name, value, tuple(chain.from_iterable(placed)))


def _rollouts(
    result: GroupResult,
    used: Sequence[ScoreTable],
    counted: Sequence[ScoreTable],
    criteria: _Criteria,
    vetoes: Sequence[Sequence[str]],
) -> tuple[RolloutValues, ...]:
    """The score of each rollout in input order; an unreadable one has its reason for an explanation.

    A score is the mean of the judges' scores, with the explanation of the pass whose score is nearest to it. So is
    that of each judge.
    """
    judges = {table.judge for table in used}
    shown: list[list[_Shown]] = [[] for _ in result.sizes]
    for table in counted:
        cells = list(map(iter, table.cells))
        for one in table.pass_scores:
            last = max(1, len(one.distinct) - 1)
            order = one.pass_index, table.judge
            for position, distinct in enumerate(one.distinct):
                made = _Shown(
                    position / last if one.placed else None,
                    0.0 if vetoes[distinct] else one.scores[position],
                    next(cells[distinct]),
                    order,
                    one.explanations[position],
                )
                shown[distinct].append(made)
    scores: list[tuple[Any, ...]] = []
    for distinct, each in enumerate(shown):
        if not any(one.order[1] in judges for one in each):
            scores.append(
                (None, NO_ANSWER, None, None, {}, {}, (), (), False, ())
            )
            continue
        every = [(table.judge, table.scores[distinct]) for table in counted]
        by_judge = {judge: known for judge, known in every if known is not None}
        score = mean([by_judge[t.judge] for t in used if t.judge in by_judge])
        own = [one for one in each if one.order[1] in judges]
        nearest = own[0]
        spread = None
        said = {}
        if len(counted) > 1:
            said = {
                judge: _nearest(
                    known, [one for one in each if one.order[1] == judge]
                )
                for judge, known in by_judge.items()
            }
        if len(own) > 1:
            nearest = _nearest(score, own)
            values = [one.corrected for one in own]
            middle = mean(values)
            square = fsum((x - middle) ** 2 for x in values)
            spread = sqrt(square / (len(values) - 1))
        explanation = nearest.explanation
        if broken := vetoes[distinct]:
            named = ", ".join(f"“{name}”" for name in broken)
            explanation = f"{explanation} The judge's score is 0 by the veto of {named}.".strip()
        made_score = (
            score,
            explanation,
            score,
            spread,
            by_judge,
            {judge: one.explanation for judge, one in said.items()},
            tuple([one.position for one in own if one.position is not None]),
            tuple([one.given for one in own if one.position is not None]),
            distinct in result.suspects,
            criteria[distinct],
        )
        scores.append(made_score)
    rollouts = []
    for i, owner in enumerate(result.owner):
        if owner is None:
            rollouts.append(RolloutValues(None, result.faults[i]))
            continue
        label = result.rewards[i] if result.rewards else None
        arguments = (*scores[owner], label, result.sizes[owner], owner)
        rollouts.append(RolloutValues(*arguments))
    return tuple(rollouts)


def _nearest(score: float, shown: Sequence[_Shown]) -> _Shown:
    """Return where a rollout got the score that is nearest to this one; of equals the first pass."""
    # equal distances may differ by rounding
    return min(
        shown, key=lambda s: (round(abs(s.corrected - score), 9), s.order)
    )


def _by_rewards(
    scores: GroupScores, result: GroupResult, how: CombineSettings
) -> GroupScores | GroupError:
    """The scores with the dump's rewards mixed in and ordered by its outcomes, as `how` says.

    Scores that become equal by that are no signal; equal ones that then differ are no signal of the judges.
    """
    values = list(scores.scores)
    blend = how.blend
    for i, value in enumerate(values):
        if blend is None or value is None:
            continue
        reward = result.rewards[i] if result.rewards else None
        if reward is None or not 0 <= reward <= 1:
            has = "no reward" if reward is None else f"the reward {reward:g}"
            return GroupError(
                "input",
                f"rollout {i + 1} has {has}, and scores are blended with rewards from 0 to 1; name the path "
                "of such a reward",
            )
        values[i] = blend * value + (1 - blend) * reward
    if how.order_by_outcome and result.outcomes:
        values = ordered(values, result.outcomes)
    if tuple(values) == scores.scores:
        return scores
    changed = zip(scores.rollouts, values, strict=True)
    rollouts = tuple(
        replace(rollout, score=value) for rollout, value in changed
    )
    scores = replace(scores, rollouts=rollouts)
    if not result.alone and one_score(values):
        return replace(scores, tied=True, weight=0.0)
    return scores


def _error(
    every: Sequence[ScoreTable],
    failed_calls: Sequence[FailedCall],
    least: int,
) -> GroupError:
    """The error of a group of which no judge counts: that of the first failed call, and the passes there are.

    A call that the cost cap left out goes before all others: a run with more money may score the group.
    """
    if (
        every
        and not failed_calls
        and not any(map(any, (t.cells for t in every)))
    ):
        return NO_ANSWERS
    if not every:
        return min(
            failed_calls, key=lambda call: call.error.kind != "budget"
        ).error
    best = max(every, key=lambda table: table.passes)
    failed = sorted(
        failed_calls,
        key=lambda call: (
            call.error.kind != "budget",
            call.judge != best.judge,
        ),
    )
    asked = {one.pass_index for one in best.pass_scores}
    asked |= {call.pass_index for call in failed if call.judge == best.judge}
    counts = f"{best.passes} of {len(asked)} passes scored every rollout"
    reason = f"{counts}, and {least} are needed"
    if best.each:
        answered = sum(map(bool, best.cells))
        counts = (
            f"{answered} of {len(best.cells)} distinct rollouts have an answer"
        )
        reason = f"{counts}, and all need one"
    if not failed:
        return GroupError("reply", reason)
    error = failed[0].error
    return replace(
        error, reason=f"{reason}; the first that did not: {error.reason}"
    )


def ordered(
    scores: Sequence[float | None], outcomes: Sequence[bool | None]
) -> list[float | None]:
    """Scores of a group in which none that failed is above one that passed; they may be equal.

    Of all such scores they are the nearest, by the sum of squared changes: isotonic regression on an order
    of two levels (Barlow et al. 1972). There is one line c; a passed score below it is raised to it, and a
    failed one above it is lowered to it. Nothing changes if nothing contradicts. A rollout without a score
    or an outcome stays as it is.
    """
    result = list(scores)
    up: list[float] = []
    down: list[float] = []
    for score, passed in zip(scores, outcomes, strict=True):
        if score is not None and passed is not None:
            (up if passed else down).append(score)
    if not up or not down or max(down) <= min(up):
        return result
    # The balance of the sums of both changes grows with the line, and is linear between two scores. So the
    # line is the mean of the scores that move, once it is known between which scores it lies.
    levels = sorted({*up, *down})

    def balance(line: float) -> float:
        raised = fsum(line - score for score in up if score < line)
        lowered = fsum(score - line for score in down if score > line)
        return raised - lowered

    # at the highest no score is lowered any more
    above = levels[bisect_left(levels, 0.0, key=balance)]
    moved = [score for score in up if score < above]
    moved += [score for score in down if score >= above]
    line = fsum(moved) / len(moved)
    line = min(max(line, levels[0]), above)
    for i, passed in enumerate(outcomes):
        score = scores[i]
        if score is not None and passed is not None:
            result[i] = max(score, line) if passed else min(score, line)
    return result
