"""Scored groups → how well scores agree with labels, and judges with one another: one file, or two.

Of each group every judge adds amounts to sums, and each statistic is a function of these. Its interval is
that of the bootstrap over groups (Efron 1979), so a group is stored as the amounts that it adds: the score
interval of a share with the variance of the resamples, and for all else their percentiles.
In a large file several random groups share one unit. Groups are independent, so such units are as well, and
resampling units gives the variance that resampling groups gives. The number of units only sets how exactly
that variance is known: with 500 of them its root is off by 1 / sqrt(2 · 500), about 3 %. Memory and time
stay those of 500 groups.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import combinations
from operator import itemgetter
from statistics import NormalDist, fmean
from typing import Any, TypeVar

from ruler_cli.results.annotations import Json, ScoredGroup, ScoredRollout
from ruler_cli.scoring.inference import FEWEST, score_interval, t_quantile
from ruler_cli.scoring.statistics import (
    CORRELATIONS,
    PRODUCTS,
    Moments,
    concordance,
    pair_products,
    won,
)

MOST_UNITS = 500
RESAMPLES = 1_000
LEVEL = 0.95
PAIR_BINS = {
    "gap": ("to 0.05", "to 0.1", "to 0.2", "to 0.4", "above 0.4"),
    "slot": ("earlier", "later", "alike"),
    "length": ("shorter", "longer", "alike"),
}
"""The kinds by which pairs of rollouts are divided, and the bins of each."""
_BINS = PAIR_BINS | {"reliability": ("to 0.5", "to 0.9", "above 0.9")}
"""These, and the bins of whole groups."""
_RELIABILITIES = (0.5, 0.9)
_GAPS = (0.05, 0.1, 0.2, 0.4)
_ALIKE = 0.05
"""Two rollouts are alike in length if the longer one is longer by at most this share."""
MOST_CRITERIA = 64
"""Criteria that are measured against labels."""
BASELINES = {"longer": 1, "shorter": -1}
"""Judges that know nothing but the length of a rollout: which one wins, and the sign of its bytes as a score."""
GATED = "with_unscored"
"""The pairwise accuracy in which a pair counts as wrong if the judge was asked about it and gave no score."""
_JUDGES_FAILURES = ("reply", "refused", "too_long", "unknown")
DECIDES = "pairwise_accuracy"
"""The figure that decides if two judges differ: of eight intervals one leaves out 0 by chance far too often."""
_AT_ONCE = 128
"""Rollouts of a group whose pairs are counted by kind; of more, a sample."""
_ROUNDING = 1e-24
"""A variance below this is the rounding of sums."""
_ALL = 1e-9
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
_NONE: Mapping[Any, Statistic] = {}
_NO_PEOPLE = (0.0, 1)
_Scores = Sequence[float | None]
_Rated = tuple[float, float, ScoredRollout]
"""A judge's score of a rollout, its label, and its annotation."""


def was_asked(group: ScoredGroup) -> bool:
    """Tell if the judge was asked about a group: it scored a part of it, or failed by itself."""
    return group.status == "scored" or group.kind in _JUDGES_FAILURES


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


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A label of one person for a part of a group: the unit of the group, and what the label counts.

    `weight` is the inverse of the chance that it had to be drawn. Labels of several people for the same thing
    share a count of 1. `by` is the one who gave it, if that counts.
    """

    unit: int
    weight: float = 1.0
    share: float = 1.0
    by: str | None = None


_Unit = dict[Hashable, float]
_Key = TypeVar("_Key", bound=Hashable)
_Absent = TypeVar("_Absent", float, None)


class BootstrapUnits:
    """The sums of groups in at most `most` units; the same groups give the same intervals.

    `groups` counts the groups that added to a sum.
    """

    def __init__(self, most: int = MOST_UNITS) -> None:
        self._units: list[_Unit] = []
        # sums of labels by person, and by unit and person
        self._people: dict[str, _Unit] = {}
        self._cells: dict[tuple[int, str], _Unit] = {}
        self._most = most
        self._random = random.Random(0)
        self._number = 0
        self._counted: dict[Hashable, int] = {}
        self.groups: Counter[Hashable] = Counter()

    def next(self) -> int:
        """Choose the unit of the next group, by number."""
        self._number += 1
        if len(self._units) < self._most:
            self._units.append({})
            return len(self._units) - 1
        # not round robin: in a file that improves from its begin to its end units would be alike
        return self._random.randrange(self._most)

    def add(self, number: int, sums: Totals) -> None:
        """Add amounts of the last group to its unit."""
        _add(self._units[number], sums)
        for key, amount in sums.items():
            if amount and self._counted.get(key) != self._number:
                self._counted[key] = self._number
                self.groups[key] += 1

    def add_by_person(self, number: int, sums: Totals, by: str) -> None:
        """Add amounts that a label of this person gave, so that intervals of shares know of other people."""
        self.add(number, sums)
        _add(self._people.setdefault(by, {}), sums)
        _add(self._cells.setdefault((number, by), {}), sums)

    def total(self, key: Hashable) -> float:
        """Return a sum over all groups."""
        return math.fsum(unit.get(key, 0.0) for unit in self._units)

    def measure(
        self, statistics: Mapping[Any, Statistic], resamples: int = RESAMPLES
    ) -> dict[Any, Measured]:
        """Measure each statistic with its interval; all intervals come from the same resamples."""
        totals = {key: self.total(key) for key in self.groups}
        measured: dict[Any, Measured] = {}
        wanted: dict[Any, Statistic] = {}
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
                wanted[name] = statistic
        drawn = self._drawn(wanted, resamples)
        more = self._variance_by_people(wanted)
        for name, values in drawn.items():
            # a statistic that most resamples do not define has no interval
            if len(values) * 2 >= resamples:
                statistic = statistics[name]
                whole = totals.get(statistic.basis, 0.0)
                mute = totals.get(statistic.mute, 0.0) / whole if whole else 0.0
                if statistic.bounds == _SHARE:
                    people = more.get(name, _NO_PEOPLE)
                    ends = _share_interval(measured[name], values, people, mute)
                else:
                    ends = _interval(measured[name], sorted(values), statistic.bounds)
                measured[name] |= ends
        return measured

    def _drawn(
        self, wanted: Mapping[Any, Statistic], resamples: int
    ) -> dict[Any, list[float]]:
        """Return the defined values of statistics in resamples of the units."""
        drawn: dict[Any, list[float]] = {name: [] for name in wanted}
        columns = _columns(self._units, 0.0)
        random_ = random.Random(0)
        numbers = range(len(self._units))
        for _ in range(resamples if drawn else 0):
            pick = itemgetter(*random_.choices(numbers, k=len(numbers)))
            sums = {key: sum(pick(column)) for key, column in columns.items()}
            for name, statistic in wanted.items():
                value = statistic.of(sums)
                if value is not None:
                    drawn[name].append(value)
        return drawn

    def _variance_by_people(
        self, wanted: Mapping[Any, Statistic]
    ) -> dict[Any, tuple[float, int]]:
        """Return the variance of shares that comes from the choice of people, beside that of groups.

        With it stand its degrees of freedom.

        Labels are clustered by group and by person. Their variance is that between groups, and that between
        people less that of single cells, which both hold (Cameron, Gelbach & Miller 2011). The last two are
        those of the delete-one jackknife (Efron & Stein 1981): people are few.
        """
        totals: _Unit = {}
        for sums in self._people.values():
            _add(totals, sums)
        found = {}
        for name, statistic in wanted.items():
            if statistic.bounds == _SHARE and statistic.basis in totals:
                people = _without_each(statistic, totals, self._people.values())
                if len(people) > 1:
                    cells = _without_each(statistic, totals, self._cells.values())
                    more = _jackknife(people) - _jackknife(cells)
                    found[name] = (max(0.0, more), len(people) - 1)
        return found


def _add(unit: _Unit, sums: Totals) -> None:
    for key, amount in sums.items():
        unit[key] = unit.get(key, 0.0) + amount


def _columns(
    rows: Sequence[Mapping[_Key, float]], absent: _Absent
) -> dict[_Key, list[float | _Absent]]:
    """Return the values of each key, one for each row; of a row that lacks it `absent`."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key, absent) for row in rows] for key in keys}


def _variance(values: Sequence[float], units: int) -> float:
    """Return the variance of a statistic from its resamples, which of n units vary by (n - 1) / n too little."""
    return Moments().add(values).deviation ** 2 * units / (units - 1)


def _without_each(
    statistic: Statistic, totals: Totals, parts: Iterable[Totals]
) -> list[float]:
    """Return the values of a statistic without each part that adds to it, where they are defined."""
    values = []
    for part in parts:
        whole = totals[statistic.basis]
        own = part.get(statistic.basis, 0.0)
        # a part that adds all leaves nothing but the rounding of sums
        if 0 < own < (1 - _ALL) * whole:
            rest = {key: total - part.get(key, 0.0) for key, total in totals.items()}
            value = statistic.of(rest)
            if value is not None:
                values.append(value)
    return values


def _jackknife(values: Sequence[float]) -> float:
    """Return the variance of a statistic from its values without each of n parts: (n − 1)² / n of theirs."""
    number = len(values)
    return Moments().add(values).deviation ** 2 * (number - 1) ** 2 / number


def _share_interval(
    measured: Measured,
    values: Sequence[float],
    people: tuple[float, int],
    mute: float,
) -> dict[str, float]:
    """Return the ends of the score interval of a share, with the variance of its resamples and that of `people`.

    Few people tell little of their variance, so the degrees of freedom are those of the sum (Satterthwaite 1946).

    If all groups have one value the resamples do too, and tell nothing of other groups: with 95 % certainty at
    most 3 in n of all groups differ from n that are alike (Hanley & Lippman-Hand 1983). Where only the share
    `mute` says nothing, this holds for that share.
    """
    value = measured["value"]
    groups = measured["groups"]
    spread = _variance(values, groups)
    if spread < _ROUNDING:
        spread = 0.0
        mute = 1.0
    more, free = people
    low = high = value
    df = float(groups - 1)
    if more:
        df = (spread + more) ** 2 / (spread**2 / df + more**2 / free)
    if spread + more > 0 or round(value, 12) in _SHARE:
        low, high = score_interval(value, spread + more, groups, df)
    margin = mute * min(1.0, 3 / groups)
    return {
        "low": max(0.0, min(low, value - margin)),
        "high": min(1.0, max(high, value + margin)),
    }


def _interval(
    measured: Measured, ordered: Sequence[float], bounds: tuple[float, float]
) -> dict[str, float]:
    """Return the ends of the central 95 % of the drawn values; with few groups a little more than that.

    Resamples of n groups vary by sqrt((n - 1) / n) too little and know nothing of Student's t, so the
    percentiles lie further out (Hesterberg 2015, the expanded percentile interval). If all groups have one value,
    at most 3 in n of all groups differ, as above.
    """
    value = measured["value"]
    groups = measured["groups"]
    free = groups - 1
    normal = NormalDist()
    cut = int(len(ordered) * normal.cdf(-t_quantile(free) * math.sqrt(groups / free)))
    low = ordered[cut]
    high = ordered[-1 - cut]
    least, most = bounds
    if math.isfinite(most - least) and high - low <= 1e-12 * max(1.0, abs(value)):
        margin = min(1.0, 3 / groups) * (most - least)
        low = min(low, value - margin)
        high = max(high, value + margin)
    return {
        "low": max(least, low),
        "high": min(most, high),
    }


class AgreementBuilder:
    """The judges of one file or of two; they share the units of one bootstrap, and so their resamples.

    What else is measured on the same groups adds to `units`.
    """

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self.units = BootstrapUnits()
        self._judges = [_JudgeSums(name, self.units) for name in names]
        self._panel: dict[str, _JudgeSums] = {}
        self._criteria: dict[str, _JudgeSums] = {}
        self._baselines: dict[str, _JudgeSums] = {}
        for name in BASELINES:
            self._named(self._baselines, name)
        self._groups = 0
        self._rollouts = 0

    def next(self, rollouts: int) -> int:
        """Begin a group with so many rollouts, and return its unit."""
        self._groups += 1
        self._rollouts += rollouts
        return self.units.next()

    def add(self, *groups: ScoredGroup, row: LabelRow | None = None) -> int:
        """Add one group as each file has it, and return its unit; only rollouts that all files score count.

        With a `row` it is two rollouts of the group that was begun last, the better of which has the label 1.
        """
        first = groups[0]
        rollouts = first.rollouts
        unit = self.next(len(rollouts)) if row is None else row.unit
        every = [[r.judge_score for r in group.rollouts] for group in groups]
        common = [None not in scores for scores in zip(*every, strict=True)]
        rows: dict[_JudgeSums, _Scores] = {}
        for judge, group, scores in zip(self._judges, groups, every, strict=True):
            rows[judge] = [
                score if both else None
                for score, both in zip(scores, common, strict=True)
            ]
            judge.add(unit, group, rows[judge], row)
        for name, sign in BASELINES.items():
            sizes = [
                sign * float(rollout.size) if both else None
                for rollout, both in zip(rollouts, common, strict=True)
            ]
            self._baselines[name].add(unit, first, sizes, row)
        if len(groups) == 1:
            rows = {}
            for name, scores in _columns([r.judges for r in rollouts], None).items():
                judge = self._named(self._panel, name)
                rows[judge] = scores
                judge.add(unit, first, scores, row)
            criteria = [{c.name: c.value for c in r.criteria} for r in rollouts]
            for name, values in _columns(criteria, None).items():
                if name in self._criteria or len(self._criteria) < MOST_CRITERIA:
                    criterion = self._named(self._criteria, name)
                    criterion.add(unit, first, values, row)
        labels = [r.label for r in rollouts]
        weight = 1.0 if row is None else row.weight * row.share
        for one, other in combinations(rows, 2):
            both = [
                (a, b, label)
                for a, b, label in zip(rows[one], rows[other], labels, strict=True)
                if a is not None and b is not None
            ]
            for kind, products in pair_products(both).items():
                pair = (one, other, kind)
                amounts = {
                    (*pair, name): weight * amount for name, amount in products.items()
                }
                self.units.add(unit, amounts)
        return unit

    def miss(self, row: LabelRow) -> None:
        """Add two rollouts that the judge of the one file was asked about, and that lack a score."""
        amounts = {(self._judges[0], "asked"): row.weight * row.share}
        if row.by is None:
            self.units.add(row.unit, amounts)
        else:
            self.units.add_by_person(row.unit, amounts, row.by)

    def _named(self, known: dict[str, _JudgeSums], name: str) -> _JudgeSums:
        return known.setdefault(name, _JudgeSums(name, self.units, details=False))

    def agreement(
        self, paired: Json | None = None, more: Mapping[Any, Statistic] = _NONE
    ) -> Agreement:
        """Measure all groups so far; `paired` counts the groups of two files.

        `more` are other statistics of the `units`, measured in the same resamples, and returned by their keys.
        """
        panel = list(self._panel.values()) if len(self._panel) > 1 else []
        scorers = (*self._judges, *panel)
        baselines = self._baselines.values()
        criteria = self._criteria.values()
        each = {
            judge: judge.statistics() for judge in (*scorers, *baselines, *criteria)
        }
        main = self._judges[0]
        if len(self._judges) == 1:
            gated = ratio((main, "won"), (main, "asked"))
            each[main][GATED] = replace(gated, mute=(main, "tied"))
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
        differences: Mapping[str, Statistic] = {}
        if paired is not None:
            differences = _differences(*(each[judge] for judge in self._judges))
        values = self.units.measure({**wanted, **more, **differences})

        def listed(judges: Iterable[_JudgeSums]) -> list[Json]:
            return [
                judge.as_json({name: values[judge, name] for name in each[judge]})
                for judge in judges
            ]

        return {
            "labels": {
                "path": None,
                "two": main.labels and list(main.labels),
            },
            "groups": self._groups,
            "mixed_groups": self.units.groups[main, "pairs"],
            "rollouts": self._rollouts,
            "paired": paired,
            "bootstrap": {
                "level": LEVEL,
                "resamples": RESAMPLES,
                "seed": 0,
                "units": min(self._groups, MOST_UNITS),
            },
            "scorers": listed(scorers),
            "baselines": listed(baselines),
            "criteria": listed(criteria),
            "differences": {
                name: _told_apart(values[name], decides=name == DECIDES)
                for name in differences
            },
            "correlations": [
                {
                    "judges": [judge.name for judge in pair],
                    "errors": values[pair, "errors"],
                    "scores": values[pair, "scores"],
                }
                for pair in pairs
            ],
            **{name: values[name] for name in more},
        }


def _differences(
    one: Mapping[str, Statistic], other: Mapping[str, Statistic]
) -> dict[str, Statistic]:
    """Subtract the statistics of two judges, but for those of the bins of pairs."""
    names = [name for name in one if name in other and "." not in name]
    return {name: one[name] - other[name] for name in names}


def _told_apart(difference: Measured, *, decides: bool) -> Measured:
    """Add to the difference that decides if its interval lies on one side of 0; None to others."""
    low = difference["low"]
    apart = low is not None and not low <= 0 <= difference["high"]
    return difference | {"told_apart": apart if decides else None}


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
        self._counts: Counter[str] = Counter()
        self._range = (math.inf, -math.inf)
        self._labels: set[float] = set()

    @property
    def labels(self) -> tuple[float, float] | None:
        """The worse and the better label; None unless there are exactly two."""
        return self._range if len(self._labels) == 2 else None

    def add(
        self, unit: int, group: ScoredGroup, scores: _Scores, row: LabelRow | None
    ) -> None:
        """Add one group to its unit of the bootstrap.

        Accuracy is over pairs, τ_b and regret are over groups. Regret is the best label less that of the
        top-scored rollout, or the mean of several. Chance regret is the best label less the mean of all.
        With a `row` it is one pair, and has an accuracy alone.
        """
        rated = [
            (score, rollout.label, rollout)
            for score, rollout in zip(scores, group.rollouts, strict=True)
            if score is not None and rollout.label is not None
        ]
        sums: dict[str, float] = {"compared": len(rated)} if rated else {}
        pairs = concordance([(score, label) for score, label, _ in rated])
        if pairs.pairs:
            counted = {
                "pairs": pairs.pairs,
                "won": pairs.won + pairs.tied / 2,
                "tied": pairs.tied,
            }
            sums |= counted
            if row is None:
                sums |= _of_group(rated, pairs.tau_b)
            if self._details:
                sums |= by_kind(rated)
                if group.reliability is not None:
                    bin_ = bisect_left(_RELIABILITIES, group.reliability)
                    name = f"reliability.{bin_}"
                    sums[name] = pairs.pairs
                    sums |= {f"{name}.{own}": counted[own] for own in ("won", "tied")}
        if self._details and was_asked(group):
            every = [(0.0, r.label) for r in group.rollouts if r.label is not None]
            if asked := concordance(every).pairs:
                sums["asked"] = asked
        costed = self._details and row is None and group.rollouts
        if costed and group.cost_usd is not None:
            sums |= {"cost": group.cost_usd, "costed": len(group.rollouts)}
        own = row or LabelRow(unit)
        weight = own.weight * own.share
        amounts = {(self, name): weight * amount for name, amount in sums.items()}
        if own.by is not None:
            keys = [(self, name) for name in ("pairs", "won", "asked")]
            by_person = {key: amounts.pop(key) for key in keys if key in amounts}
            self._units.add_by_person(unit, by_person, own.by)
        self._units.add(unit, amounts)
        for name, amount in sums.items():
            self._counts[name] += own.share * amount  # type: ignore[assignment]  # halves
        for _, label, _ in rated if row is None else ():
            least, most = self._range
            self._range = (min(least, label), max(most, label))
            if len(self._labels) < 3:
                self._labels.add(label)

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
        if self._details:
            statistics["cost_per_1000_usd"] = share("cost", "costed", _UNBOUND, 1000.0)
            for kind, names in _BINS.items():
                for i in range(len(names)):
                    name = f"{kind}.{i}"
                    if self._units.groups[self, name]:
                        statistics[name] = share(f"{name}.won", name)
        return statistics

    def as_json(self, values: Mapping[str, Measured]) -> Json:
        """Return the values of `statistics` as JSON; those of one kind's bins become a list."""

        def counted(*names: str) -> Json:
            return _counted(*[self._counts[name] for name in names])

        scorer: Json = {
            "name": self.name,
            "compared": round(self._counts["compared"]),
            **counted("pairs", "won", "tied"),
        }
        for name, value in values.items():
            kind, _, number = name.partition(".")
            if number:
                bin_ = {
                    "bin": _BINS[kind][int(number)],
                    **counted(name, f"{name}.won", f"{name}.tied"),
                    "accuracy": value,
                }
                scorer.setdefault(f"by_{kind}", []).append(bin_)
            else:
                scorer[name] = value
        return scorer


def _of_group(rated: Sequence[_Rated], tau: float | None) -> dict[str, float]:
    """Return what a whole group adds: its regrets, and τ_b if it is defined."""
    given = [label for _, label, _ in rated]
    best = max(given)
    top = max(score for score, _, _ in rated)
    picked = [label for score, label, _ in rated if score == top]
    sums = {
        "tops": 1.0,
        "top1_regret": best - fmean(picked),
        "chance_regret": best - fmean(given),
    }
    return sums if tau is None else sums | {"taus": 1.0, "tau": tau}


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
            for bin_ in _bins(round(abs(high - low), 9), better, worse):
                counts[bin_] += 1
                counts[f"{bin_}.won"] += won(high, low)
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


def count_below(ordered: Sequence[float], score: float) -> float:
    """Count the lower scores, an equal one as one half."""
    below = bisect_left(ordered, score)
    up_to = bisect_right(ordered, score)
    return (below + up_to) / 2
