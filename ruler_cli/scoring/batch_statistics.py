"""The scores of a group, judge by judge and pass by pass; and running sums over the groups of a batch.

The sums say how good the judges are, in memory that does not grow with the groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import fsum, sqrt
from operator import attrgetter

from ruler_cli.config import CombineSettings
from ruler_cli.formats.rewards import PASSING
from ruler_cli.observer import BatchFigures, Contradiction, Pair
from ruler_cli.scoring import window_shifts
from ruler_cli.scoring.reliability import Anova, Noise, Prior
from ruler_cli.scoring.sums import LengthSums, Moments, PairSums, SlotCurve, quantile
from ruler_cli.types import GroupResult, GroupScores, PassScores

_EXACT = 12
_DIGITS = 9
"""Decimals of a score that was solved for: what is behind them is the solver's rounding."""
Correct = Callable[[PassScores], Sequence[float]]
"""The scores of a ballot, aligned with its bodies, as they are to count."""
AS_GIVEN: Correct = attrgetter("scores")


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """One judge's word on a group.

    `cells[i]` are the scores of body i in the order of `ballots`; where it was shown in windows, without
    the windows' levels, which are `fitted`. `scores[i]` is its mean, within [0, 1]; None where it has no
    cell. `windows` are bodies and scores of each ballot.
    """

    judge: int
    ballots: tuple[PassScores, ...]
    windows: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    cells: tuple[tuple[float, ...], ...]
    scores: tuple[float | None, ...]
    fitted: window_shifts.Fitted | None = None

    @property
    def passes(self) -> int:
        """How often every body was scored at least."""
        return min(map(len, self.cells), default=0)


def tables(judged: GroupResult, correct: Correct = AS_GIVEN) -> list[ScoreTable]:
    """A table for each judge that gave any score, by the judges' numbers."""
    by_judge: dict[int, list[PassScores]] = {}
    for ballot in sorted(judged.pass_scores, key=lambda b: (b.judge, b.pass_index, b.window)):
        by_judge.setdefault(ballot.judge, []).append(ballot)
    return [_table(judged, judge, ballots, correct) for judge, ballots in by_judge.items()]


def _table(judged: GroupResult, judge: int, ballots: list[PassScores], correct: Correct) -> ScoreTable:
    windows = tuple((ballot.distinct, tuple(correct(ballot))) for ballot in ballots)
    bodies = len(judged.sizes)
    cells: tuple[tuple[float, ...], ...]
    scores: tuple[float | None, ...]
    fitted = None
    if judged.windows > 1:
        fitted = window_shifts.fit(windows, bodies)
        cells = fitted.adjusted
        scores = tuple(None if score is None else round(score, _DIGITS) for score in fitted.scores)
    else:
        found: list[list[float]] = [[] for _ in range(bodies)]
        for shown, given in windows:
            for body, score in zip(shown, given, strict=True):
                found[body].append(score)
        cells = tuple(map(tuple, found))
        scores = tuple(mean(row) if row else None for row in cells)
    within = tuple(None if score is None else min(max(score, 0.0), 1.0) for score in scores)
    return ScoreTable(judge, tuple(ballots), windows, cells, within, fitted)


def anova(judged: GroupResult, used: Sequence[ScoreTable]) -> Anova | None:
    """The analysis of variance of rollout × (judge, pass); None where there is only one of either."""
    bodies = len(judged.sizes)
    if bodies < 2:
        return None
    if judged.windows > 1:  # a judge's window is one more window: the levels of both are taken out
        fitted = used[0].fitted if len(used) == 1 else None
        found = (fitted or window_shifts.fit([w for table in used for w in table.windows], bodies)).anova
        return found if found.k > 1 else None
    columns = [column for table in used for column in zip(*table.cells, strict=True)]
    return Anova.of(columns) if len(columns) > 1 else None


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean to twelve decimals; of equal values it is the value.

    What is behind them is how decimals are rounded in binary: .3 and .45 would come to another mean than
    .35 and .4, and chance would decide who is the best.
    """
    least, most = min(values), max(values)
    if least == most:
        return values[0]
    return min(max(round(fsum(values) / len(values), _EXACT), least), most)


_LISTED = 20
_KEY = 200
"""Characters of a group's key that are kept: a key may be as long as a prompt."""
_STEPS = 1000
"""How finely reliabilities are told apart for their median."""
_FLAT = 1e-6
"""A judge whose scores deviate less than this has one score for all, whatever rounding says."""


class BatchStatistics:
    """Sums over the groups that were judged, in two steps.

    `add` counts what a group's verdict may need of the batch, before the verdict; `conclude` what comes
    of the verdict. `names` are what judges are called in the figures, by number.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.slots = SlotCurve()
        self.noise = Noise()
        self._names = tuple(names)
        self._moments: dict[int, Moments] = {}
        self._groups = self._tied = self._degraded = 0
        self._reliability: Counter[int] = Counter()
        self._length = LengthSums()
        self._pairs: dict[tuple[int, int], PairSums] = {}
        self._flawed, self._near = _Listing(lowest=True), _Listing(lowest=False)
        self._told = self._untold = 0

    def add(self, judged: GroupResult) -> None:
        """Count what was said of a group: by slot, how passes differ, how each judge scores."""
        self.slots.add(*(ballot.scores for ballot in judged.pass_scores))
        if judged.judges > 1:
            for ballot in judged.pass_scores:
                if ballot.judge != judged.escalated_to:  # it saw other groups than the panel did
                    self._moments.setdefault(ballot.judge, Moments()).add(ballot.scores)
        self._hear(judged, AS_GIVEN)

    def settle(self, every: Iterable[GroupResult], how: CombineSettings) -> None:
        """Once every group was added: learn the noise of scores as `how` has them count.

        Without that, what --debias and --standardize take out of the scores would still count as noise.
        """
        if how.standardize or (how.debias and self.slots.enough):
            self.noise = Noise()
            for judged in every:
                self._hear(judged, partial(self.counted, how))

    def counted(self, how: CombineSettings, ballot: PassScores) -> Sequence[float]:
        """What a ballot's scores count as: without its slots' share, on the scale of all judges."""
        scores: Sequence[float] = ballot.scores
        if how.debias and self.slots.enough:
            away = self.slots.corrections(len(scores))
            scores = [score - less for score, less in zip(scores, away, strict=True)]
        return self._standard(ballot.judge, scores) if how.standardize else scores

    def _hear(self, judged: GroupResult, correct: Correct) -> None:
        if len(judged.pass_scores) < 2 or judged.alone:
            return
        found = tables(judged, correct)
        table = anova(judged, [t for t in found if t.judge == judged.escalated_to] or found)
        if table is not None:
            self.noise.add(table.ms_res, table.df_res)

    @property
    def prior(self) -> Prior:
        """What the groups so far say of the noise of any group."""
        return self.noise.prior()

    def _standard(self, judge: int, scores: Sequence[float]) -> Sequence[float]:
        """A judge's scores on the scale of all: with their mean and standard deviation over the batch.

        A judge that gives one score to all is only shifted, and that of an escalation, which has no scale
        in common with the panel, left alone. Scores may leave [0, 1].
        """
        own = self._moments.get(judge, Moments())
        if own.number < 2 or len(self._moments) < 2:
            return scores
        pooled = sum((self._moments[j] for j in sorted(self._moments)), Moments())
        stretch = pooled.deviation / own.deviation if own.deviation > _FLAT else 1.0
        return [pooled.mean + (score - own.mean) * stretch for score in scores]

    def conclude(self, key: str, judged: GroupResult, verdict: GroupScores) -> None:
        """Count a group's verdict; `key` names the group where a rollout of it is listed."""
        self._groups += 1
        self._tied += verdict.tied
        self._degraded += verdict.degraded
        if verdict.reliability is not None:
            self._reliability[round(verdict.reliability * _STEPS)] += 1
        first = {body: i for i, body in reversed(tuple(enumerate(judged.owner))) if body is not None}
        scores = {body: s for body, i in first.items() if (s := verdict.rollouts[i].judge_score) is not None}
        if len(scores) > 1:
            self._length.add([judged.sizes[body] for body in scores], list(scores.values()))
            self._pair(judged, [(verdict.rollouts[i].by_judge, i) for i in first.values()])
        for i, (rollout, said) in enumerate(zip(verdict.rollouts, judged.outcomes, strict=False), 1):
            self._odd(key, i, rollout.judge_score, said)

    def _pair(self, judged: GroupResult, rollouts: Sequence[tuple[Mapping[int, float], int]]) -> None:
        """Count every two judges on the distinct rollouts of a group, each by its first place in it."""
        judges = sorted({judge for by_judge, _ in rollouts for judge in by_judge})
        for one, other in combinations(judges, 2):
            both = [(own[one], own[other], i) for own, i in rollouts if one in own and other in own]
            if both:
                rewards = [judged.rewards[i] if judged.rewards else None for *_, i in both]
                sums = self._pairs.setdefault((one, other), PairSums())
                sums.add([p for p, _, _ in both], [q for _, q, _ in both], rewards)

    def _odd(self, key: str, rollout: int, score: float | None, good: bool | None) -> None:
        if score is None:
            return
        if good is None:
            self._untold += 1
            return
        self._told += 1
        if good and score < PASSING:
            self._flawed.add(key, rollout, score)
        elif not good and score >= PASSING:
            self._near.add(key, rollout, score)

    def figures(self, *, debias: bool = False, checked: bool = False) -> BatchFigures:
        """What the batch comes to.

        `debias` tells that the slot curve was to be subtracted, `checked` that outcomes were asked for:
        then it is told, too, that there are none.
        """
        tenths, prior = [0] * 10, self.prior
        for step, groups in self._reliability.items():
            tenths[min(9, step * 10 // _STEPS)] += groups
        median = quantile(self._reliability, 0.5) / _STEPS if self._reliability else None
        return BatchFigures(
            groups=self._groups,
            tie_rate=self._tied / self._groups if self._groups else None,
            degraded=self._degraded,
            slot_curve=self.slots.curve(),
            slot_groups=self.slots.groups,
            debiased=debias and self.slots.enough,
            length=self._length.found(),
            judges=tuple(self._named(*pair) for pair in sorted(self._pairs)),
            reliability=tuple(tenths),
            reliability_median=median,
            noise=sqrt(prior.variance) if prior.df > 0 else None,
            flawed=self._flawed.number,
            flawed_listed=self._flawed.listed(),
            near_misses=self._near.number,
            near_misses_listed=self._near.listed(),
            without_outcome=self._untold if self._told or checked else 0,
        )

    def _named(self, one: int, other: int) -> Pair:
        sums = self._pairs[one, other]
        names = tuple(
            self._names[judge] if judge < len(self._names) else f"judge {judge + 1}" for judge in (one, other)
        )
        return Pair((names[0], names[1]), sums.correlation(), sums.rollouts, sums.errors(), sums.rewarded)


class _Listing:
    """The most extreme of what was counted; of equals the first."""

    def __init__(self, *, lowest: bool) -> None:
        self.number = 0
        self._sign = 1 if lowest else -1
        self._kept: list[Contradiction] = []

    def add(self, key: str, rollout: int, score: float) -> None:
        self.number += 1
        shown = "".join(c if c.isprintable() else "\ufffd" for c in key[:_KEY])  # it stands in reports
        self._kept.append(Contradiction(shown + "…" * (len(key) > _KEY), rollout, score))
        if len(self._kept) > 2 * _LISTED:
            self._kept = list(self.listed())

    def listed(self) -> tuple[Contradiction, ...]:
        return tuple(sorted(self._kept, key=lambda odd: self._sign * odd.score)[:_LISTED])
