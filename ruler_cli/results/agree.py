"""Scored groups → how well scores agree with labels, and judges with one another: one file, or two.

Of each group every judge adds amounts to sums, and each statistic is a function of these (`bootstrap.py`).
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

from ruler_cli.results.bootstrap import (
    BootstrapUnits,
    MeasuredValue,
    Statistic,
    Totals,
    difference,
    ratio,
)
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.scoring.statistics import (
    CORRELATIONS,
    PRODUCTS,
    concordance,
    pair_products,
)

Agreement = dict[str, Any]
"""The object that `ruler agree --json` prints.

The first of `scorers` is the file's own score; the judges of a panel follow. `mixed_groups` have rollouts
with different labels. `two` holds the worse and the better label if there are only two. `differences` are
those of two files, the first less the second. `ranked` are pairs of a panel's judges whose intervals of the
accuracy do not overlap. `expected_half_width` is about half the width of an interval of the accuracy.
"""
_Pair = tuple["_JudgeSums", "_JudgeSums"]
_Scores = Sequence[float | None]
_Rated = tuple[float, float, ScoredRollout]
"""A judge's score of a rollout, its label, and its annotation."""

PAIR_BINS = {
    "gap": ("to 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4"),
    "slot": ("earlier", "later", "alike"),
    "place": ("first third", "middle", "last third"),
    "length": ("shorter", "longer", "alike"),
    "size": ("to 1,000", "to 4,000", "to 16,000", "to 64,000", "above 64,000"),
}
"""The kinds by which pairs of rollouts are divided, and the bins of each."""
_GAPS = (0.05, 0.1, 0.2, 0.4)
_SIZES = (1_000, 4_000, 16_000, 64_000)
_ALIKE = 0.05
"""Two rollouts are alike in length if the longer one is longer by at most this share."""
_AT_ONCE = 128
"""Rollouts of a group whose pairs are counted by kind; of more, a sample."""
_POINTS = 0.6
"""Half an interval's width times the root of the number of mixed groups, about, for groups of 8."""
_CORRELATION, _SHARE, _UNBOUND = (-1.0, 1.0), (0.0, 1.0), (-math.inf, math.inf)


class AgreementBuilder:
    """The judges of one file or of two; they share the units of one bootstrap, and so their resamples."""

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self._units = BootstrapUnits()
        self._judges = [_JudgeSums(name, self._units) for name in names]
        self._panel: dict[str, _JudgeSums] = {}
        self._groups = self._rollouts = 0

    def add(self, *groups: ScoredGroup) -> None:
        """Add one group as each file has it; only rollouts that are scored in all files count."""
        self._groups += 1
        self._rollouts += len(groups[0].rollouts)
        unit = self._units.next()
        own = [[r.judge_score for r in group.rollouts] for group in groups]
        common = [None not in scores for scores in zip(*own, strict=True)]
        rows: dict[_JudgeSums, _Scores] = {}
        for judge, group, scores in zip(self._judges, groups, own, strict=True):
            known = zip(scores, common, strict=True)
            rows[judge] = [score if both else None for score, both in known]
            judge.add(unit, group, rows[judge])
        if len(groups) == 1:
            rows = dict(self._add_panel(unit, groups[0]))
        labels = [rollout.label for rollout in groups[0].rollouts]
        for one, other in combinations(rows, 2):
            every = zip(rows[one], rows[other], labels, strict=True)
            both = [
                (a, b, label)
                for a, b, label in every
                if a is not None and b is not None
            ]
            for kind, products in pair_products(both).items():
                sums: dict[Hashable, float] = {
                    (one, other, kind, name): products[name]
                    for name in PRODUCTS
                    if name in products
                }
                self._units.add(unit, sums)

    def _add_panel(
        self, unit: int, group: ScoredGroup
    ) -> Iterator[tuple[_JudgeSums, _Scores]]:
        names = [name for rollout in group.rollouts for name in rollout.judges]
        for name in dict.fromkeys(names):
            if name not in self._panel:
                self._panel[name] = _JudgeSums(name, self._units, details=False)
            scores = [r.judges.get(name) for r in group.rollouts]
            self._panel[name].add(unit, group, scores)
            yield self._panel[name], scores

    def agreement(self, paired: Mapping[str, Any] | None = None) -> Agreement:
        """Measure all groups so far; `paired` counts the groups of two files."""
        panel = list(self._panel.values()) if len(self._panel) > 1 else []
        pairs = list(combinations(panel if paired is None else self._judges, 2))
        each = {judge: judge.statistics() for judge in (*self._judges, *panel)}
        wanted: dict[Hashable, Statistic] = {
            (judge, name): statistic
            for judge, own in each.items()
            for name, statistic in own.items()
        }
        for pair in pairs:
            wanted |= {(pair, kind): _within(*pair, kind) for kind in CORRELATIONS}
        compared = []
        if paired is not None:
            one, two = (each[judge] for judge in self._judges)
            compared = [name for name in one if name in two and "." not in name]
            wanted |= {name: difference(one[name], two[name]) for name in compared}
        values = self._units.measure(wanted)
        scorers = [
            judge.as_json({name: values[judge, name] for name in own})
            for judge, own in each.items()
        ]
        main = self._judges[0]
        mixed = self._units.groups((main, "pairs"))
        return {
            "labels": {"path": None, "two": main.labels and list(main.labels)},
            "groups": self._groups,
            "mixed_groups": mixed,
            "rollouts": self._rollouts,
            "paired": paired,
            "bootstrap": self._units.settings(),
            "expected_half_width": min(0.5, _POINTS / math.sqrt(mixed))
            if mixed
            else None,
            "scorers": scorers,
            "differences": {name: _told_apart(values[name]) for name in compared},
            "ranked": list(_ranked(scorers[1:])) if paired is None else [],
            "correlations": [
                {
                    "judges": [a.name, b.name],
                    "errors": values[(a, b), "errors"],
                    "scores": values[(a, b), "scores"],
                }
                for a, b in pairs
            ],
        }


def _told_apart(difference: MeasuredValue) -> dict[str, Any]:
    """Add `told_apart` to a difference: true if its interval does not hold 0."""
    low, high = difference["low"], difference["high"]
    apart = low is not None and high is not None and not low <= 0 <= high
    return {**difference, "told_apart": apart}


def _ranked(scorers: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for pair in combinations(scorers, 2):
        for better, worse in (pair, pair[::-1]):
            low = better["pairwise_accuracy"]["low"]
            high = worse["pairwise_accuracy"]["high"]
            if low is not None and high is not None and low > high:
                yield {"better": better["name"], "worse": worse["name"]}


def _within(one: _JudgeSums, other: _JudgeSums, kind: str) -> Statistic:
    """Make a correlation of two judges within groups from their `pair_products`."""

    def value(totals: Totals) -> float | None:
        sums = {name: totals.get((one, other, kind, name), 0.0) for name in PRODUCTS}
        return CORRELATIONS[kind](sums)

    return Statistic(value, (one, other, kind, "aa"), _CORRELATION)


class _JudgeSums:
    """The sums of one judge over groups. With `details` also its cost, and its pairs by kind."""

    def __init__(
        self, name: str, units: BootstrapUnits, *, details: bool = True
    ) -> None:
        self.name = name
        self._units = units
        self._details = details
        self._range = (math.inf, -math.inf)
        self._labels: set[float] = set()
        # unit, score and label of each rollout, until there is a third label
        self._rows = (array("H"), array("d"), array("d"))

    @property
    def labels(self) -> tuple[float, float] | None:
        """The worse and the better label; None unless there are exactly two."""
        return self._range if len(self._labels) == 2 else None

    def add(self, unit: int, group: ScoredGroup, scores: _Scores) -> None:
        """Add one group to its unit of the bootstrap."""
        both = zip(scores, group.rollouts, strict=True)
        rated = [
            (score, r.label, r)
            for score, r in both
            if score is not None and r.label is not None
        ]
        sums = _sums(rated)
        if self._details and group.cost_usd is not None and group.rollouts:
            sums |= {"cost": group.cost_usd, "costed": float(len(group.rollouts))}
        if self._details and "pairs" in sums:
            sums |= by_kind(rated)
        self._units.add(unit, {(self, name): amount for name, amount in sums.items()})
        for score, label, _ in rated:
            self._range = (min(self._range[0], label), max(self._range[1], label))
            if len(self._labels) < 3:
                self._labels.add(label)
                units, scores_, labels = self._rows
                units.append(unit)
                scores_.append(score)
                labels.append(label)

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistics of this judge by name; called once, after the last group."""

        def share(
            top: str, of: str, bounds: tuple[float, float] = _SHARE, scale: float = 1.0
        ) -> Statistic:
            return Statistic(ratio((self, top), (self, of), scale), (self, of), bounds)

        statistics = {
            "pairwise_accuracy": share("won", "pairs"),
            "tied_share": share("tied", "pairs"),
            "kendall_tau_b": share("tau", "taus", _CORRELATION),
        }
        if self.labels is not None:  # then the pairs are those of the AUC
            statistics["auc_within_groups"] = statistics["pairwise_accuracy"]
            statistics["auc"] = self._auc(*self.labels)
        worst = (0.0, max(0.0, self._range[1] - self._range[0]))
        for name in ("top1_regret", "chance_regret"):
            statistics[name] = share(name, "tops", worst)
        if self._details:
            statistics["cost_per_1000_usd"] = share("cost", "costed", _UNBOUND, 1000.0)
            for kind, names in PAIR_BINS.items():
                for bin_ in (f"{kind}.{i}" for i in range(len(names))):
                    if self._units.groups((self, bin_)):
                        statistics[bin_] = share(f"{bin_}.won", bin_)
        return statistics

    def _auc(self, worse: float, better: float) -> Statistic:
        """Make the share of pairs (better, worse) of all groups in which the better has the higher score.

        AUC is no ratio of sums over groups, as rollouts of different groups are compared, but near its
        value it is linear in what each rollout adds to its error (Obuchowski 1997, for ROC data in clusters).
        """
        rows = list(zip(*self._rows, strict=True))
        bad, good = (
            sorted(score for _, score, label in rows if label == side)
            for side in (worse, better)
        )
        auc = sum(_below(bad, score) for score in good) / (len(good) * len(bad))
        for unit, score, label in rows:
            if label == better:
                term = (_below(bad, score) / len(bad) - auc) / len(good)
            else:
                term = (1 - _below(good, score) / len(good) - auc) / len(bad)
            self._units.add(unit, {(self, "auc"): term})
        return Statistic(
            lambda sums: auc + sums.get((self, "auc"), 0.0), (self, "compared"), _SHARE
        )

    def as_json(self, values: Mapping[str, MeasuredValue]) -> dict[str, Any]:
        """Return the values of `statistics` as JSON; those of one kind's bins become a list."""
        compared, pairs, won, tied = (
            self._units.total((self, name))
            for name in ("compared", "pairs", "won", "tied")
        )
        scorer: dict[str, Any] = {
            "name": self.name,
            "compared": round(compared),
            "pairs": round(pairs),
            "in_order": round(won - tied / 2),
            "against": round(pairs - won - tied / 2),
            "tied": round(tied),
        }
        scorer |= {name: value for name, value in values.items() if "." not in name}
        for name, value in values.items():
            kind, _, number = name.partition(".")
            if number:
                bin_ = {
                    "bin": PAIR_BINS[kind][int(number)],
                    "pairs": round(self._units.total((self, name))),
                    "accuracy": value,
                }
                scorer.setdefault(f"by_{kind}", []).append(bin_)
        return scorer


def _sums(rated: Sequence[_Rated]) -> dict[str, float]:
    """Return the amounts of one group: accuracy is over pairs, τ_b and regret are over groups.

    Regret is the best label less that of the top-scored rollout, or the mean of several. Chance regret is
    the best label less the mean of all.
    """
    if not rated:
        return {}
    scores = [score for score, _, _ in rated]
    labels = [label for _, label, _ in rated]
    sums: dict[str, float] = {"compared": len(rated)}
    pairs = concordance(scores, labels)
    if pairs.pairs:
        best, top = max(labels), max(scores)
        picked = [label for score, label, _ in rated if score == top]
        sums |= {
            "pairs": pairs.pairs,
            "won": pairs.won + pairs.tied / 2,
            "tied": pairs.tied,
            "tops": 1.0,
            "top1_regret": best - fmean(picked),
            "chance_regret": best - fmean(labels),
        }
        if (tau := pairs.tau_b) is not None:
            sums |= {"taus": 1.0, "tau": tau}
    return sums


def by_kind(rated: Sequence[_Rated]) -> dict[str, float]:
    """Count pairs by kind: `gap.0` is the number in its first bin, `gap.0.won` those won, a tie one half.

    A tied pair has no score gap and is in no bin of that kind.
    """
    counts: dict[str, float] = defaultdict(float)
    if len(rated) > _AT_ONCE:
        rated = random.Random(len(rated)).sample(rated, _AT_ONCE)
    by_label = sorted(rated, key=lambda one: one[1])
    for (low, least, worse), (high, most, better) in combinations(by_label, 2):
        if least == most:
            continue
        won = 1.0 if high > low else 0.0 if high < low else 0.5
        for bin_ in _bins(round(abs(high - low), 9), better, worse):
            counts[bin_] += 1
            counts[f"{bin_}.won"] += won
    return counts


def _bins(gap: float, better: ScoredRollout, worse: ScoredRollout) -> Iterator[str]:
    if gap:
        yield f"gap.{bisect_left(_GAPS, gap)}"
    at, other = better.mean_position, worse.mean_position
    if at is not None and other is not None:
        later = round(at - other, 9)
        yield f"slot.{0 if later < 0 else 1 if later > 0 else 2}"
        yield f"place.{min(2, int(at * 3))}"
    longer = max(better.size, worse.size)
    alike = abs(better.size - worse.size) <= _ALIKE * longer
    yield f"length.{2 if alike else int(better.size == longer)}"
    yield f"size.{bisect_left(_SIZES, longer)}"


def _below(ordered: Sequence[float], score: float) -> float:
    """Count the lower scores, an equal one as one half."""
    return (bisect_left(ordered, score) + bisect_right(ordered, score)) / 2
