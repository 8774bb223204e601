"""Scored groups → their figures: one accumulator for a run, a scored file, two of them and a step of a training.

Its memory does not grow with the number of groups, but for one number of each; that of a report keeps some numbers of
each rollout, too.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from ruler_cli.scoring.statistics import (
    Anova,
    Concordance,
    LengthSums,
    Moments,
    PositionBias,
    concordance,
    correlation,
    products,
)
from ruler_cli.types import CriterionScore, GroupScores, RolloutValues

_DECIMALS = 9
_CORRECTED = 0.001
"""A difference between a score and those of its passes, which have three decimals, that is more than rounding."""
_MOST_CRITERIA = 64
"""Criteria that have figures; rubrics of single records may name more."""
_STATES = ("tied", "alone", "one_score", "degraded")
_MOST_JUDGES = 16
"""Judges that are counted, each two of which are compared; a file with more of them is damaged or hostile."""


_Passes = tuple[Sequence[float], Sequence[float]]
"""The positions and the scores of a rollout, by pass."""


@dataclass
class CriterionSums:
    """Sums of one criterion over groups."""

    values: Moments = field(default_factory=Moments)
    products: Counter[str] = field(default_factory=Counter)
    variance: Anova = field(default_factory=Anova)
    positions: PositionBias = field(default_factory=PositionBias)

    def add(self, rows: Sequence[tuple[CriterionScore, RolloutValues]]) -> None:
        """Add the rollouts of one group; identical ones count once for the passes."""
        self.values.add([criterion.value for criterion, _ in rows])
        pairs = []
        distinct: dict[int | None, _Passes] = {}
        for criterion, rollout in rows:
            if rollout.judge_score is not None:
                pairs.append((criterion.value, rollout.judge_score))
            distinct[rollout.distinct] = (rollout.positions, criterion.passes)
        self.products.update(products(pairs))
        requests = _by_pass(distinct.values())
        if len(distinct) > 1 and requests:
            self.positions.add(*map(_in_order, requests))
        if len(distinct) > 1 and len(requests) > 1:
            scores = [[score for _, score in shown] for shown in requests]
            self.variance += Anova.of(scores)

    @property
    def reliability(self) -> float | None:
        """The reliability of its differences within groups over passes; None without passes."""
        variance = self.variance
        if not variance.df_res or not variance.ms_item:
            return None
        return max(0.0, 1 - variance.ms_res / variance.ms_item)

    @property
    def with_score(self) -> float | None:
        """The correlation of its values with the scores within groups."""
        return correlation(self.products)


class Figures:
    """The figures of the groups so far.

    `counts` are those of groups, by name. `means` have the moments of the judges' own scores, the labels and the bytes,
    `judges` those of each judge of a panel. `by_label` are the products of score and label, and `by_judges` those of
    each two judges, within groups. `numbers` are the `reliability` and the `spread` of each group that has one, the
    `score` and the `bytes` of each rollout with a score, and if it has a label its score as `labelled`, and its
    `label`.
    """

    def __init__(self, *, whole: bool = True) -> None:
        """Leave out what only a report of a file shows, unless the figures are to be `whole`."""
        self._whole = whole
        self.counts = Counter[str]()
        self.scores = Moments()
        self.means: defaultdict[str, Moments] = defaultdict(Moments)
        self.judges: defaultdict[Hashable, Moments] = defaultdict(Moments)
        self.by_label = Counter[str]()
        self.by_judges: dict[tuple[Any, Any], Counter[str]] = {}
        self.numbers: defaultdict[str, array[float]] = defaultdict(
            lambda: array("d")
        )
        self.pairs = Concordance()
        self.lengths = LengthSums()
        self.positions = PositionBias()
        self.criteria: dict[str, CriterionSums] = {}

    def add(
        self,
        group: GroupScores,
        *,
        own_words: bool = True,
    ) -> None:
        """Count a group with scores; `own_words`: its judges explain each rollout by themselves."""
        scored = []
        scores = []
        distinct: dict[int | None, RolloutValues] = {}
        for rollout in group.rollouts:
            if rollout.score is not None:
                scored.append(rollout)
                scores.append(rollout.score)
                if rollout.judge_score is not None:
                    distinct.setdefault(rollout.distinct, rollout)
        self.scores.add(scores)
        if group.reliability is not None:
            self.numbers["reliability"].append(group.reliability)
        self.counts["groups"] += 1
        for name in _STATES:
            self.counts[name] += getattr(group, name)
        texts = [rollout.explanation.strip() for rollout in scored]
        several = len(texts) > 1 and not group.alone
        explained = several and own_words and all(texts)
        self.counts["explained"] += explained
        self.counts["same_explanations"] += explained and len({*texts}) == 1
        sizes = [(row.size, row.judge_score) for row in distinct.values()]
        self.lengths.add(sizes)  # type: ignore[arg-type]
        if any(len(rollout.by_judge) > 1 for rollout in scored):
            self._add_judges(scored, distinct.values())
        if self._whole:
            self.counts["live"] += not group.tied
            self._add_values(scored, scores)
            self._add_positions(scored)
            self._add_criteria(scored)

    def _add_values(
        self,
        scored: Sequence[RolloutValues],
        scores: Sequence[float],
    ) -> None:
        """Count the judges' own scores, the labels and the lengths."""
        numbers = self.numbers
        numbers["score"].extend(scores)
        judged = []
        labelled = []
        has_label = False
        for rollout in scored:
            judge_score = rollout.judge_score
            label = rollout.label
            numbers["bytes"].append(rollout.size)
            if judge_score is not None:
                judged.append(judge_score)
            if label is None:
                continue
            has_label = True
            numbers["labelled"].append(rollout.score or 0.0)
            numbers["label"].append(label)
            if judge_score is not None:
                labelled.append((judge_score, label))
        self.counts["labelled"] += has_label
        self.means["bytes"].add([rollout.size for rollout in scored])
        self.means["score"].add(judged)
        self.means["label"].add([label for _, label in labelled])
        self.pairs += concordance(labelled)
        self.by_label.update(products(labelled))
        if len(scores) > 1:
            # as in the table of a page, to which a bin links
            spread = round(Moments().add(scores).spread, _DECIMALS)
            numbers["spread"].append(spread)

    def _add_positions(self, scored: Sequence[RolloutValues]) -> None:
        """Count the scores by position."""
        by_position = scores_by_position(scored)
        self.positions.add(*by_position)
        if by_position and len(by_position[0]) > 1:
            # as with the order of the input
            shown = [*dict.fromkeys([rollout.positions for rollout in scored])]
            self.counts["in_order"] += shown == sorted(shown)
            self.counts["corrected"] += any(map(_is_corrected, scored))

    def _add_judges(
        self,
        scored: Sequence[RolloutValues],
        distinct: Iterable[RolloutValues],
    ) -> None:
        """Count each judge of a panel, and every two of them on distinct rollouts."""
        judges: dict[Any, None] = {}
        for rollout in scored:
            if len(rollout.by_judge) < 2:
                continue
            for judge, score in rollout.by_judge.items():
                if judge in self.judges or len(self.judges) < _MOST_JUDGES:
                    self.judges[judge].add([score])
                    judges[judge] = None
        panels = [rollout.by_judge for rollout in distinct]
        for first, second in combinations(judges, 2):
            rows = [
                (panel[first], panel[second])
                for panel in panels
                if first in panel and second in panel
            ]
            if rows:
                sums = self.by_judges.setdefault((first, second), Counter())
                sums.update(products(rows))

    def _add_criteria(self, scored: Sequence[RolloutValues]) -> None:
        rows: defaultdict[str, list[tuple[CriterionScore, RolloutValues]]]
        rows = defaultdict(list)
        for rollout in scored:
            for criterion in rollout.criteria:
                rows[criterion.name].append((criterion, rollout))
        for name, values in rows.items():
            if name in self.criteria or len(self.criteria) < _MOST_CRITERIA:
                self.criteria.setdefault(name, CriterionSums()).add(values)


def _is_corrected(rollout: RolloutValues) -> bool:
    """Return whether a score is not that of its passes, as with `debias` or `standardize`."""
    passes = Moments().add(rollout.pass_scores)
    score = rollout.judge_score
    if score is None or not passes.number:
        return False
    return abs(score - passes.mean) > _CORRECTED


def _by_pass(rollouts: Iterable[_Passes]) -> list[list[tuple[float, float]]]:
    """Return for each pass the position and the score of each rollout; empty if their passes differ in number."""
    by_rollout = []
    numbers = set()
    for positions, scores in rollouts:
        numbers.update([len(positions), len(scores)])
        by_rollout.append(
            [
                *zip(
                    positions,
                    scores,
                    strict=False,
                )
            ]
        )
    if len(numbers) != 1:
        return []
    return [[*shown] for shown in zip(*by_rollout, strict=True)]


def _in_order(shown: Sequence[tuple[float, float]]) -> list[float]:
    return [score for _, score in sorted(shown)]


def scores_by_position(rollouts: Sequence[RolloutValues]) -> list[list[float]]:
    """Return for each pass the scores of the distinct rollouts in the order in which the judge saw them.

    Identical rollouts share their positions and count once. Empty if the rollouts of a request or their positions are
    not all known: windows, a missing rollout, passes without their scores.
    """
    distinct: dict[int | None, _Passes] = {}
    for rollout in rollouts:
        scores = rollout.pass_scores
        score = rollout.judge_score
        if not scores and score is not None and len(rollout.positions) == 1:
            scores = (score,)
        distinct.setdefault(rollout.distinct, (rollout.positions, scores))
    last = len(distinct) - 1
    ordered = []
    for shown in _by_pass(distinct.values()):
        positions = sorted([round(at * last) for at, _ in shown])
        if positions != [*range(last + 1)]:
            return []
        ordered.append(_in_order(shown))
    return ordered
