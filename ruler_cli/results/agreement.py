"""Scored groups → how well scores agree with labels, and judges with one another: one file, or two.

Of each group every judge adds amounts to sums, and each statistic is a function of these. Its interval is
that of the percentile bootstrap over groups (Efron 1979), so a group is stored as the amounts that it adds.
In a large file several random groups share one unit. Groups are independent, so such units are as well, and
resampling units gives the variance that resampling groups gives. The number of units only sets how exactly
that variance is known: with 500 of them its root is off by 1 / sqrt(2 · 500), about 3 %. Memory and time
stay those of 500 groups.
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import itemgetter
from statistics import NormalDist, fmean
from typing import Any

from ruler_cli.results.annotations import Json, ScoredGroup, ScoredRollout
from ruler_cli.scoring.statistics import (
    CORRELATIONS,
    PRODUCTS,
    concordance,
    pair_products,
)

MOST_UNITS = 500
RESAMPLES = 1_000
LEVEL = 0.95
FEWEST = 5
"""Groups below which there is no interval: resamples of so few groups estimate no error."""
PAIR_BINS = {
    "gap": ("to 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4"),
    "slot": ("earlier", "later", "alike"),
    "length": ("shorter", "longer", "alike"),
}
"""The kinds by which pairs of rollouts are divided, and the bins of each."""
_GAPS = (0.05, 0.1, 0.2, 0.4)
_ALIKE = 0.05
"""Two rollouts are alike in length if the longer one is longer by at most this share."""
MOST_CRITERIA = 64
"""Criteria that are measured against labels."""
BASELINES = {"longer": 1, "shorter": -1}
"""Judges that know nothing but the length of a rollout: which one wins, and the sign of its bytes as a score."""
_AT_ONCE = 128
"""Rollouts of a group whose pairs are counted by kind; of more, a sample."""
_CORRELATION = (-1.0, 1.0)
_SHARE = (0.0, 1.0)
_UNBOUND = (-math.inf, math.inf)

Totals = Mapping[Any, float]
Agreement = Json
"""The object that `ruler agree` prints as JSON.

The first of `scorers` is the file's own score; the judges of a panel follow. `baselines` are judges of length
alone, on the same rollouts, `criteria` are those of the rubric, each value as it is. `mixed_groups` have rollouts
with different labels. `two` holds the worse and the better label if there are only two. `differences` are
those of two files, the first less the second.
"""
Measured = Json
"""The `value` of a statistic over so many `groups`, and the ends of its 95 % interval, `low` and `high`.

None: it is not defined, or there are too few groups for an interval.
"""
_Scores = Sequence[float | None]
_Rated = tuple[float, float, ScoredRollout]
"""A judge's score of a rollout, its label, and its annotation."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A function of sums, None if it is not defined; its groups are those that add to the sum `basis`.

    `bounds` are the least and the greatest value that it can have. `mute` is the sum of what says nothing, in units
    of the basis: ties.
    """

    value: Callable[[Totals], float | None]
    basis: Hashable
    bounds: tuple[float, float] = _UNBOUND
    mute: Hashable = None

    def __sub__(self, other: Statistic) -> Statistic:
        """Subtract in each resample, so that what both have in common cancels out."""

        def value(sums: Totals) -> float | None:
            a = self.value(sums)
            b = other.value(sums)
            return None if a is None or b is None else a - b

        least, most = self.bounds
        width = most - least
        return Statistic(value, self.basis, (-width, width))

    def of(self, sums: Totals) -> float | None:
        """Return its value if that is a finite number."""
        value = self.value(sums)
        return value if value is not None and math.isfinite(value) else None


def ratio(
    top: Hashable,
    bottom: Hashable,
    bounds: tuple[float, float] = _SHARE,
    scale: float = 1.0,
) -> Statistic:
    """Divide one sum by another."""

    def value(sums: Totals) -> float | None:
        below = sums.get(bottom, 0.0)
        return scale * sums.get(top, 0.0) / below if below else None

    return Statistic(value, bottom, bounds)


class BootstrapUnits:
    """The sums of groups in at most `most` units; the same groups give the same intervals.

    `groups` counts the groups that added to a sum.
    """

    def __init__(self, most: int = MOST_UNITS) -> None:
        self._units: list[dict[Hashable, float]] = []
        self._most = most
        self._random = random.Random(0)
        self.groups: Counter[Hashable] = Counter()

    def next(self) -> int:
        """Choose the unit of the next group, by number."""
        if len(self._units) < self._most:
            self._units.append({})
            return len(self._units) - 1
        # not round robin: in a file that improves from its begin to its end units would be alike
        return self._random.randrange(self._most)

    def add(self, number: int, sums: Totals) -> None:
        """Add the amounts of one group to a unit."""
        unit = self._units[number]
        for key, amount in sums.items():
            unit[key] = unit.get(key, 0.0) + amount
            self.groups[key] += bool(amount)

    def total(self, key: Hashable) -> float:
        """Return a sum over all groups."""
        return math.fsum(self._column(key))

    def _column(self, key: Hashable) -> list[float]:
        """Return the amounts of a sum, by unit."""
        return [unit.get(key, 0.0) for unit in self._units]

    def measure(
        self, statistics: Mapping[Any, Statistic], resamples: int = RESAMPLES
    ) -> dict[Any, Measured]:
        """Measure each statistic with its interval; all intervals come from the same resamples."""
        columns = {key: self._column(key) for key in self.groups}
        totals = {key: math.fsum(column) for key, column in columns.items()}
        measured: dict[Any, Measured] = {}
        drawn: dict[Any, list[float | None]] = {}
        for name, statistic in statistics.items():
            value = statistic.of(totals)
            groups = self.groups[statistic.basis]
            measured[name] = {
                "value": value,
                "low": None,
                "high": None,
                "groups": groups,
            }
            if value is not None and groups >= FEWEST:
                drawn[name] = []
        random_ = random.Random(0)
        numbers = range(len(self._units))
        for _ in range(resamples if drawn else 0):
            drawn_units = random_.choices(numbers, k=len(numbers))
            pick = itemgetter(*drawn_units)
            sums = {key: sum(pick(column)) for key, column in columns.items()}
            for name, values in drawn.items():
                values.append(statistics[name].of(sums))
        for name, values in drawn.items():
            ordered = sorted(value for value in values if value is not None)
            # a statistic that most resamples do not define has no interval
            if len(ordered) * 2 >= resamples:
                statistic = statistics[name]
                whole = totals.get(statistic.basis, 0.0)
                mute = totals.get(statistic.mute, 0.0) / whole if whole else 0.0
                measured[name] |= _interval(
                    measured[name], ordered, statistic.bounds, mute
                )
        return measured


def _interval(
    measured: Measured,
    ordered: Sequence[float],
    bounds: tuple[float, float],
    mute: float = 0.0,
) -> dict[str, float]:
    """Return the ends of the central 95 % of the drawn values; with few groups a little more than that.

    Resamples of n groups vary by sqrt((n - 1) / n) too little and know nothing of Student's t, so the
    percentiles lie further out (Hesterberg 2015, the expanded percentile interval).
    If all groups have one value the resamples do too, and tell nothing of other groups: with 95 %
    certainty at most 3 in n of all groups differ from n that are alike (Hanley & Lippman-Hand 1983). Where only
    the share `mute` says nothing, this holds for that share.
    """
    value = measured["value"]
    groups = measured["groups"]
    free = groups - 1
    normal = NormalDist()
    z = normal.inv_cdf((1 + LEVEL) / 2)
    # a series in 1 / n
    second = (z**3 + z) / (4 * free)
    third = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free * free)
    t = z + second + third
    cut = int(len(ordered) * normal.cdf(-t * math.sqrt(groups / free)))
    low = ordered[cut]
    high = ordered[-1 - cut]
    least, most = bounds
    rounding = 1e-12 * max(1.0, abs(value))
    alike = 1.0 if high - low <= rounding else mute
    if math.isfinite(most - least):
        margin = alike * min(1.0, 3 / groups) * (most - least)
        low = min(low, value - margin)
        high = max(high, value + margin)
    return {
        "low": max(least, low),
        "high": min(most, high),
    }


class AgreementBuilder:
    """The judges of one file or of two; they share the units of one bootstrap, and so their resamples."""

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self._units = BootstrapUnits()
        self._judges = [_JudgeSums(name, self._units) for name in names]
        self._panel: dict[str, _JudgeSums] = {}
        self._criteria: dict[str, _JudgeSums] = {}
        self._baselines = {
            name: _JudgeSums(name, self._units, details=False) for name in BASELINES
        }
        self._groups = 0
        self._rollouts = 0

    def add(self, *groups: ScoredGroup) -> None:
        """Add one group as each file has it; only rollouts that are scored in all files count."""
        first = groups[0]
        rollouts = first.rollouts
        self._groups += 1
        self._rollouts += len(rollouts)
        unit = self._units.next()
        every = [[r.judge_score for r in group.rollouts] for group in groups]
        common = [None not in scores for scores in zip(*every, strict=True)]
        rows: dict[_JudgeSums, _Scores] = {}
        for judge, group, scores in zip(self._judges, groups, every, strict=True):
            rows[judge] = [
                score if both else None
                for score, both in zip(scores, common, strict=True)
            ]
            judge.add(unit, group, rows[judge])
        for name, sign in BASELINES.items():
            sizes = [
                sign * float(rollout.size) if both else None
                for rollout, both in zip(rollouts, common, strict=True)
            ]
            self._baselines[name].add(unit, first, sizes)
        if len(groups) == 1:
            rows = {}
            # in the order of the file
            for name in dict.fromkeys(name for r in rollouts for name in r.judges):
                judge = self._panel.setdefault(
                    name, _JudgeSums(name, self._units, details=False)
                )
                rows[judge] = [r.judges.get(name) for r in rollouts]
                judge.add(unit, first, rows[judge])
            for name in dict.fromkeys(c.name for r in rollouts for c in r.criteria):
                if name in self._criteria or len(self._criteria) < MOST_CRITERIA:
                    criterion = self._criteria.setdefault(
                        name, _JudgeSums(name, self._units, details=False)
                    )
                    values = [{c.name: c.value for c in r.criteria} for r in rollouts]
                    criterion.add(unit, first, [own.get(name) for own in values])
        labels = [r.label for r in rollouts]
        for one, other in combinations(rows, 2):
            both = [
                (a, b, label)
                for a, b, label in zip(rows[one], rows[other], labels, strict=True)
                if a is not None and b is not None
            ]
            for kind, products in pair_products(both).items():
                pair = (one, other, kind)
                amounts = {(*pair, name): amount for name, amount in products.items()}
                self._units.add(unit, amounts)

    def agreement(self, paired: Json | None = None) -> Agreement:
        """Measure all groups so far; `paired` counts the groups of two files."""
        panel = list(self._panel.values()) if len(self._panel) > 1 else []
        baselines = [*self._baselines.values()]
        criteria = [*self._criteria.values()]
        every = (*self._judges, *panel, *baselines, *criteria)
        each = {judge: judge.statistics() for judge in every}
        wanted: dict[Any, Statistic] = {
            (judge, name): statistic
            for judge, own in each.items()
            for name, statistic in own.items()
        }
        # either side is empty: one file has one score, two files have no panel
        pairs = [*combinations(self._judges, 2), *combinations(panel, 2)]
        for pair in pairs:
            for kind in CORRELATIONS:
                wanted[pair, kind] = _within(*pair, kind)
        compared = []
        if paired is not None:
            one, two = (each[judge] for judge in self._judges)
            compared = [name for name in one if name in two and "." not in name]
            for name in compared:
                wanted[name] = one[name] - two[name]
        values = self._units.measure(wanted)
        for name in compared:
            low = values[name]["low"]
            high = values[name]["high"]
            values[name]["told_apart"] = low is not None and not low <= 0 <= high
        main = self._judges[0]
        return {
            "labels": {
                "path": None,
                "two": main.labels and list(main.labels),
            },
            "groups": self._groups,
            "mixed_groups": self._units.groups[main, "pairs"],
            "rollouts": self._rollouts,
            "paired": paired,
            "bootstrap": {
                "level": LEVEL,
                "resamples": RESAMPLES,
                "seed": 0,
                "units": min(self._groups, MOST_UNITS),
            },
            **{
                kind: [
                    judge.as_json({name: values[judge, name] for name in each[judge]})
                    for judge in judges
                ]
                for kind, judges in (
                    ("scorers", (*self._judges, *panel)),
                    ("baselines", baselines),
                    ("criteria", criteria),
                )
            },
            "differences": {name: values[name] for name in compared},
            "correlations": [
                {
                    "judges": [judge.name for judge in pair],
                    "errors": values[pair, "errors"],
                    "scores": values[pair, "scores"],
                }
                for pair in pairs
            ],
        }


def _within(one: _JudgeSums, other: _JudgeSums, kind: str) -> Statistic:
    """Make a correlation of two judges within groups from their `pair_products`."""

    def value(totals: Totals) -> float | None:
        keys = {name: (one, other, kind, name) for name in PRODUCTS}
        sums = {name: totals.get(key, 0.0) for name, key in keys.items()}
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
        """Add one group to its unit of the bootstrap.

        Accuracy is over pairs, τ_b and regret are over groups. Regret is the best label less that of the
        top-scored rollout, or the mean of several. Chance regret is the best label less the mean of all.
        """
        rated = [
            (score, rollout.label, rollout)
            for score, rollout in zip(scores, group.rollouts, strict=True)
            if score is not None and rollout.label is not None
        ]
        sums: dict[str, float] = {"compared": len(rated)} if rated else {}
        pairs = concordance([(score, label) for score, label, _ in rated])
        if pairs.pairs:
            given = [label for _, label, _ in rated]
            best = max(given)
            top = max(score for score, _, _ in rated)
            picked = [label for score, label, _ in rated if score == top]
            sums |= {
                "pairs": pairs.pairs,
                "won": pairs.won + pairs.tied / 2,
                "tied": pairs.tied,
                "tops": 1.0,
                "top1_regret": best - fmean(picked),
                "chance_regret": best - fmean(given),
            }
            tau = pairs.tau_b
            if tau is not None:
                sums |= {"taus": 1.0, "tau": tau}
            if self._details:
                sums |= by_kind(rated)
        if self._details and group.cost_usd is not None and group.rollouts:
            sums |= {"cost": group.cost_usd, "costed": len(group.rollouts)}
        self._units.add(unit, {(self, name): amount for name, amount in sums.items()})
        for score, label, _ in rated:
            least, most = self._range
            self._range = (min(least, label), max(most, label))
            if len(self._labels) < 3:
                self._labels.add(label)
                units, own, labels = self._rows
                units.append(unit)
                own.append(score)
                labels.append(label)

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistics of this judge by name; called once, after the last group."""

        def share(top: str, of: str, *more: Any) -> Statistic:
            return ratio((self, top), (self, of), *more)

        least, most = self._range
        worst = (0.0, max(0.0, most - least))
        statistics = {
            "pairwise_accuracy": replace(share("won", "pairs"), mute=(self, "tied")),
            "tied_share": share("tied", "pairs"),
            "kendall_tau_b": share("tau", "taus", _CORRELATION),
            "top1_regret": share("top1_regret", "tops", worst),
            "chance_regret": share("chance_regret", "tops", worst),
        }
        if self.labels is not None:
            statistics["auc"] = self._auc(*self.labels)
        if self._details:
            statistics["cost_per_1000_usd"] = share("cost", "costed", _UNBOUND, 1000.0)
            for kind, names in PAIR_BINS.items():
                for i in range(len(names)):
                    name = f"{kind}.{i}"
                    if self._units.groups[self, name]:
                        statistics[name] = share(f"{name}.won", name)
        return statistics

    def _auc(self, worse: float, better: float) -> Statistic:
        """Make the share of pairs (better, worse) of all groups in which the better has the higher score.

        AUC is no ratio of sums over groups, as rollouts of different groups are compared, but near its
        value it is linear in what each rollout adds to its error (Obuchowski 1997, for ROC data in clusters).
        """
        rows = list(zip(*self._rows, strict=True))
        bad = sorted(score for _, score, label in rows if label == worse)
        good = sorted(score for _, score, label in rows if label == better)
        below = sum(_below(bad, score) for score in good)
        auc = below / (len(good) * len(bad))
        for unit, score, label in rows:
            if label == better:
                share = _below(bad, score) / len(bad)
                term = (share - auc) / len(good)
            else:
                share = 1 - _below(good, score) / len(good)
                term = (share - auc) / len(bad)
            self._units.add(unit, {(self, "auc"): term})

        def value(sums: Totals) -> float:
            return auc + sums.get((self, "auc"), 0.0)

        return Statistic(value, (self, "compared"), _SHARE)

    def as_json(self, values: Mapping[str, Measured]) -> Json:
        """Return the values of `statistics` as JSON; those of one kind's bins become a list."""

        def total(name: str) -> float:
            return self._units.total((self, name))

        scorer: Json = {
            "name": self.name,
            "compared": round(total("compared")),
            **_counted(*map(total, ("pairs", "won", "tied"))),
        }
        for name, value in values.items():
            kind, _, number = name.partition(".")
            if number:
                bin_ = {
                    "bin": PAIR_BINS[kind][int(number)],
                    **_counted(*map(total, (name, f"{name}.won", f"{name}.tied"))),
                    "accuracy": value,
                }
                scorer.setdefault(f"by_{kind}", []).append(bin_)
            else:
                scorer[name] = value
        return scorer


def _counted(pairs: float, won: float, tied: float) -> Json:
    """Return how many pairs there are, and how many against the labels and tied; a tie counts half as won."""
    against = round(pairs - won - tied / 2)
    return {"pairs": round(pairs), "against": against, "tied": round(tied)}


def by_kind(rated: Sequence[_Rated]) -> dict[str, float]:
    """Count pairs by kind: `gap.0` is the number in its first bin, `gap.0.won` those won, a tie one half, `gap.0.tied`.

    A tied pair has no score gap and is in no bin of that kind.
    """
    counts: dict[str, float] = defaultdict(float)
    if len(rated) > _AT_ONCE:
        rated = random.Random(len(rated)).sample(rated, _AT_ONCE)
    by_label = sorted(rated, key=itemgetter(1))
    for (low, least, worse), (high, most, better) in combinations(by_label, 2):
        if least != most:
            won = 0.5 if high == low else float(high > low)
            for bin_ in _bins(round(abs(high - low), 9), better, worse):
                counts[bin_] += 1
                counts[f"{bin_}.won"] += won
                counts[f"{bin_}.tied"] += high == low
    return counts


def _bins(gap: float, better: ScoredRollout, worse: ScoredRollout) -> Iterator[str]:
    if gap:
        yield f"gap.{bisect_left(_GAPS, gap)}"
    at = better.mean_position
    other = worse.mean_position
    if at is not None and other is not None:
        later = round(at - other, 9)
        yield f"slot.{int(later > 0) if later else 2}"
    longer = max(better.size, worse.size)
    alike = abs(better.size - worse.size) <= _ALIKE * longer
    yield f"length.{2 if alike else int(better.size == longer)}"


def _below(ordered: Sequence[float], score: float) -> float:
    """Count the lower scores, an equal one as one half."""
    below = bisect_left(ordered, score)
    up_to = bisect_right(ordered, score)
    return (below + up_to) / 2
