"""Scored groups → how often scores order two rollouts as labels do, for one file or two.

Of each group every judge adds its labelled pairs to sums, and each statistic is a function of these. Its interval is
that of the bootstrap over groups (Efron 1979), so a group is stored as the amounts that it adds: the score
interval with the variance of the resamples.
In a large file several random groups share one unit. Groups are independent, so such units are as well, and
resampling units gives the variance that resampling groups gives. The number of units only sets how exactly
that variance is known: with 500 of them its root is off by 1 / sqrt(2 · 500), about 3 %. Memory and time
stay those of 500 groups.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Any, NamedTuple

from ruler_cli.results.record import GroupRecord, Json, RolloutRecord
from ruler_cli.scoring.inference import (
    FEWEST,
    MEASURED,
    Measured,
    bounded_interval,
)
from ruler_cli.scoring.statistics import Moments, correlation, products, won

MOST_UNITS = 500
RESAMPLES = 1_000
_GAPS = {
    0.05: "to 0.05",
    0.1: "to 0.1",
    0.2: "to 0.2",
    0.4: "to 0.4",
    9e99: "above 0.4",
}
BINS = (
    *(("gap", name) for name in _GAPS.values()),
    *(("slot", name) for name in ("earlier", "later", "alike")),
    *(("length", name) for name in ("shorter", "longer", "alike")),
)
"""The kinds by which pairs of rollouts are divided, and the bins of each."""
_ALIKE = 0.05
"""Two rollouts are alike in length if the longer one is longer by at most this share."""
MOST_JUDGES = 80
"""Judges and criteria that are measured."""
BASELINES = {"longer": 1, "shorter": -1}
"""Judges that know nothing but the length of a rollout: which one wins, and the sign of its bytes as a score."""
GATED = "with_unscored"
"""The pairwise accuracy in which a pair counts as wrong if the judge was asked about it and gave no score."""
_JUDGES_FAILURES = ("reply", "refused", "too_long", "unknown")
DECIDES = "pairwise_accuracy"
"""The figure that decides if two judges differ: of many intervals one leaves out 0 by chance far too often."""
_AT_ONCE = 128
"""Labelled rollouts of a group whose pairs are compared; of more, a sample."""
_ROUNDING = 1e-24
"""A variance below this is the rounding of sums."""
EQUAL = 0.5

Totals = Mapping[Any, float]
Agreement = Json
"""The object that `ruler agree` prints as JSON.

The first of `scorers` is the file's own score; the judges of a panel follow. `baselines` are judges of length
alone, on the same rollouts, `criteria` are those of the rubric, each value as it is. `mixed_groups` have rollouts
with different labels. `differences` are those of two files, the first less the second.
"""
_Judge = tuple[str, str]
"""A name, and what it is of: the `scorers`, of a `panel`, of `baselines` or of `criteria`, and its name."""
_Values = Mapping[_Judge, Sequence[float | None]]
_PEOPLE = ("agreement", "judge")


def was_asked(group: GroupRecord) -> bool:
    """Tell if the judge was asked about a group: it scored a part of it, or failed by itself."""
    return group.status == "scored" or group.kind in _JUDGES_FAILURES


@dataclass(frozen=True, slots=True)
class Statistic:
    """A function of sums from `least` to 1, None if it is not defined; its groups are those that add to `basis`.

    `mute` is the sum of what says nothing, in units of the basis: ties.
    """

    value: Callable[[Totals], float | None]
    basis: Hashable
    mute: Hashable = None
    least: float = 0.0

    def __sub__(self, other: Statistic) -> Statistic:
        """Subtract in each resample, so that what both have in common cancels out."""

        def value(sums: Totals) -> float | None:
            a = self.value(sums)
            b = other.value(sums)
            return None if a is None or b is None else a - b

        return Statistic(value, self.basis, least=-1.0)


def ratio(top: Hashable, bottom: Hashable, mute: Hashable = None) -> Statistic:
    """Divide one sum by another that is as large or larger."""

    def value(sums: Totals) -> float | None:
        below = sums.get(bottom, 0.0)
        return sums.get(top, 0.0) / below if below else None

    return Statistic(value, bottom, mute)


class BootstrapUnits:
    """The sums of groups in at most `most` units; the same groups give the same intervals.

    `groups` counts the groups that added to a sum.
    """

    def __init__(self, most: int = MOST_UNITS) -> None:
        self._units: list[Counter[Any]] = []
        self._most = most
        self._random = random.Random(0)
        self.groups = Counter[Hashable]()

    def add(self, sums: Totals) -> None:
        """Add a group."""
        # not round robin: in a file that improves from its begin to its end units would be alike
        number = self._random.randrange(self._most)
        if len(self._units) < self._most:
            self._units.append(Counter())
            number = -1
        self._units[number].update(sums)
        self.groups.update(key for key, amount in sums.items() if amount)

    def measure(
        self, statistics: Mapping[Any, Statistic], resamples: int = RESAMPLES
    ) -> dict[Any, Measured]:
        """Measure each statistic with its interval; all intervals come from the same resamples."""
        columns = {key: [unit[key] for unit in self._units] for key in self.groups}
        totals = {key: math.fsum(column) for key, column in columns.items()}
        if max(self.groups.values(), default=0) < FEWEST:
            resamples = 0
        random_ = random.Random(0)
        drawn = []
        for _ in range(resamples):
            pick = itemgetter(
                *random_.choices(range(len(self._units)), k=len(self._units))
            )
            drawn.append({key: sum(pick(column)) for key, column in columns.items()})
        measured: dict[Any, Measured] = {}
        for name, statistic in statistics.items():
            value = statistic.value(totals)
            groups = self.groups[statistic.basis]
            ends: tuple[float | None, float | None] = None, None
            if value is not None and groups >= FEWEST:
                known = [statistic.value(sums) for sums in drawn]
                values = [one for one in known if one is not None]
                # a statistic that most resamples do not define has no interval
                if len(values) * 2 >= resamples:
                    mute = totals.get(statistic.mute, 0.0) / totals[statistic.basis]
                    moments = Moments().add(values)
                    ends = _ends(value, moments, groups, statistic.least, mute)
            measured[name] = dict(zip(MEASURED, (value, *ends, groups), strict=True))
        return measured


def _ends(
    value: float, resamples: Moments, groups: int, least: float, mute: float
) -> tuple[float, float]:
    """Return the ends of the interval with the variance of resamples, which vary by (n - 1) / n too little.

    If all groups have one value the resamples do too, and tell nothing of other groups: with 95 % certainty at
    most 3 in n of all groups differ from n that are alike (Hanley & Lippman-Hand 1983). Where only the share
    `mute` says nothing, this holds for that share.
    """
    low = high = value
    variance = resamples.deviation**2
    if variance < _ROUNDING:
        variance = 0.0
        mute = 1.0
    if variance or round(value, 12) in (least, 1.0):
        variance *= groups / (groups - 1)
        low, high = bounded_interval(value, variance, (least, 1.0), groups, groups - 1)
    margin = mute * min(1.0, 3 / groups) * (1 - least)
    return max(least, min(low, value - margin)), min(1.0, max(high, value + margin))


class LabelledPair(NamedTuple):
    """Two rollouts of a group, by index, and the word of people on them.

    Of each person: 1 if the first is better, 0 if the second is, 0.5 if they are equal. `weight` is the inverse of
    the chance that the pair had to be drawn.
    """

    first: int
    second: int
    values: Sequence[float]
    weight: float = 1.0

    @property
    def decided(self) -> list[float]:
        """The word of those who say that one of them is better."""
        return [value for value in self.values if value != EQUAL]

    def sides(self) -> Iterator[tuple[int, int, float, float]]:
        """Yield the better rollout and the worse one, for each order that somebody names.

        With it stand the share of these people, and how often another one agrees with one of them; equal is one half.
        """
        decided = self.decided
        equal = len(self.values) - len(decided)
        others = max(1, len(self.values) - 1)
        orders = (self.first, self.second), (self.second, self.first)
        for value, order in zip((1.0, 0.0), orders, strict=True):
            if same := decided.count(value):
                yield *order, same / len(decided), (same - 1 + equal / 2) / others


def pairs_of(
    labels: Sequence[float | None], weights: Sequence[float] = ()
) -> Iterator[LabelledPair]:
    """Yield all pairs of rollouts with a label."""
    known = [i for i, label in enumerate(labels) if label is not None]
    if len(known) > _AT_ONCE:
        known = random.Random(0).sample(known, _AT_ONCE)
    for i, j in combinations(known, 2):
        one: Any = labels[i]
        other: Any = labels[j]
        weight = weights[i] * weights[j] if weights else 1.0
        yield LabelledPair(i, j, [won(one, other)], weight)


class AgreementBuilder:
    """The judges of one file or of two; they share the units of one bootstrap, and so their resamples."""

    def __init__(self, *names: str) -> None:
        """Name the judge of each file."""
        self._units = BootstrapUnits()
        self._main: list[_Judge] = [("scorers", name) for name in names]
        self._judges = dict.fromkeys(self._main)
        self._judges |= dict.fromkeys(("baselines", name) for name in BASELINES)
        # numbers of groups, rollouts and pairs, whatever their weights
        self._counts = defaultdict[Any, float](float)

    def add(
        self,
        *groups: GroupRecord,
        labels: Sequence[float | None] | None = None,
        weights: Sequence[float] = (),
        pairs: Sequence[LabelledPair] | None = None,
    ) -> None:
        """Add one group as each file has it; only rollouts that all files score count.

        Rollouts are compared by `labels`, with `weights`, in place of their own, or by `pairs`.
        """
        rollouts = groups[0].rollouts
        values = self._values(groups)
        scores = values[self._main[0]]
        shown = labelled = {i for pair in pairs or () for i in pair[:2]}
        if pairs is None:
            labels = labels or [rollout.label for rollout in rollouts]
            pairs = [*pairs_of(labels, weights)]
            shown = {*range(len(labels))}
            labelled = {i for i in shown if labels[i] is not None}
        self._counts["groups"] += 1
        self._counts["rollouts"] += len(shown)
        for judge, own in values.items():
            compared = sum(own[i] is not None for i in labelled)
            self._counts[judge, "compared"] += compared
        sums = defaultdict[Any, float](float)
        if len(groups) > 1:
            both = zip(*[values[judge] for judge in self._main], strict=True)
            sums.update(products("ab", [row for row in both if None not in row]))
        for pair in pairs:
            for better, worse, share, agreed in pair.sides():
                weight = pair.weight * share
                sums["asked"] += weight * was_asked(groups[0])
                for key, amount in _amounts(values, rollouts, better, worse):
                    self._counts[key] += share * amount
                    sums[key] += weight * amount
                high, low = scores[better], scores[worse]
                if pair.values[1:] and high is not None and low is not None:
                    sums["people"] += weight
                    sums["agreement"] += weight * agreed
                    sums["judge"] += weight * won(high, low)
        self._units.add(sums)

    def _values(self, groups: Sequence[GroupRecord]) -> _Values:
        """Return the value of each rollout by each judge; None where some file has no score."""
        rollouts = groups[0].rollouts
        every = [[r.judge_score for r in group.rollouts] for group in groups]
        values: dict[_Judge, Sequence[float | None]] = {
            **dict(zip(self._main, every, strict=True)),
            **{
                ("baselines", name): [sign * r.size for r in rollouts]
                for name, sign in BASELINES.items()
            },
        }
        if len(groups) == 1:
            criteria = [r.criterion_values for r in rollouts]
            panel = [r.panel for r in rollouts]
            for kind, rows in (("panel", panel), ("criteria", criteria)):
                for name in dict.fromkeys(name for row in rows for name in row):
                    if (kind, name) in self._judges or len(self._judges) < MOST_JUDGES:
                        self._judges[kind, name] = None
                        values[kind, name] = [row.get(name) for row in rows]
        common = [None not in scores for scores in zip(*every, strict=True)]
        return {
            judge: [v if both else None for v, both in zip(own, common, strict=True)]
            for judge, own in values.items()
        }

    def agreement(self, paired: Json | None = None) -> Agreement:
        """Measure all groups so far; `paired` counts the groups of two files."""
        wanted: dict[Any, Statistic] = {
            ("people", name): ratio(name, "people") for name in _PEOPLE
        }
        for judge in self._judges:
            pairs, tops, tied = ((judge, name) for name in ("pairs", "won", "tied"))
            wanted[judge, DECIDES] = ratio(tops, pairs, tied)
            wanted[judge, "tied_share"] = ratio(tied, pairs)
            if [judge] == self._main:
                wanted[judge, GATED] = ratio(tops, "asked", tied)
            for bin_ in BINS:
                if self._counts[*pairs, *bin_]:
                    wanted[judge, *bin_] = ratio((*tops, *bin_), (*pairs, *bin_))
        if len(self._main) > 1:
            wanted["scores"] = Statistic(correlation, "aa", least=-1.0)
            for name in _DIFFERENCES:
                one, other = (wanted[judge, name] for judge in self._main)
                wanted["differences", name] = one - other
        values = self._units.measure(wanted)
        several = sum(kind == "panel" for kind, _ in self._judges) > 1

        def listed(*kinds: str) -> list[Json]:
            judges = [judge for judge in self._judges if judge[0] in kinds]
            return [self._as_json(judge, values) for judge in judges]

        main = self._main[0]
        people = {name: values["people", name] for name in _PEOPLE}
        return {
            "labels": {"path": None},
            "groups": round(self._counts["groups"]),
            "mixed_groups": values[main, DECIDES]["groups"],
            "rollouts": round(self._counts["rollouts"]),
            "paired": paired,
            "scorers": listed("scorers", "panel" if several else ""),
            "baselines": listed("baselines"),
            "criteria": listed("criteria"),
            "differences": {
                name: _told_apart(values["differences", name], decides=name == DECIDES)
                for name in _DIFFERENCES
                if "scores" in values
            },
            "correlation": values.get("scores"),
            "people": people if people["judge"]["groups"] else None,
        }

    def _as_json(self, judge: _Judge, values: Mapping[Any, Measured]) -> Json:
        """Return the values of a judge as JSON; those of one kind's bins are a list."""
        scorer: Json = {
            "name": judge[1],
            "compared": round(self._counts[judge, "compared"]),
            **self._counted(judge),
        }
        for key, value in values.items():
            if key[0] != judge:
                continue
            if len(key) == 2:
                scorer[key[1]] = value
                continue
            bin_ = {"bin": key[2], **self._counted(*key), "accuracy": value}
            scorer.setdefault(f"by_{key[1]}", []).append(bin_)
        return scorer

    def _counted(self, judge: _Judge, *bin_: str) -> Json:
        """Return how many pairs there are, and how many against the labels and tied; a tie counts half as won."""
        pairs, tops, tied = (
            self._counts[judge, name, *bin_] for name in ("pairs", "won", "tied")
        )
        against = round(pairs - tops - tied / 2)
        return {"pairs": round(pairs), "against": against, "tied": round(tied)}


_DIFFERENCES = (DECIDES, "tied_share")


def _told_apart(difference: Measured, *, decides: bool) -> Measured:
    """Add to the difference that decides if its interval lies on one side of 0; None to others."""
    low = difference["low"]
    apart = low is not None and not low <= 0 <= difference["high"]
    return difference | {"told_apart": apart if decides else None}


def _amounts(
    values: _Values, rollouts: Sequence[RolloutRecord], better: int, worse: int
) -> Iterator[tuple[Hashable, float]]:
    """Yield what a pair adds to the sums of each judge that has values for both; a tie is won by one half.

    It counts with all pairs, and the judges' own also with those of its kinds.
    """
    bins = [*_bins(rollouts[better], rollouts[worse])]
    for judge, own in values.items():
        high, low = own[better], own[worse]
        if high is None or low is None:
            continue
        gap = round(abs(high - low), 9)
        kinds = (
            [("gap", next(_GAPS[end] for end in _GAPS if gap <= end))] if gap else []
        )
        for bin_ in ((), *(bins + kinds if judge[0] == "scorers" else ())):
            yield (judge, "pairs", *bin_), 1.0
            yield (judge, "won", *bin_), won(high, low)
            yield (judge, "tied", *bin_), float(high == low)


def _bins(better: RolloutRecord, worse: RolloutRecord) -> Iterator[tuple[str, str]]:
    """Yield the kinds of a pair that no score tells."""
    at = better.mean_position
    other = worse.mean_position
    if at is not None and other is not None:
        later = round(at - other, 9)
        yield "slot", "alike" if not later else "later" if later > 0 else "earlier"
    longer = max(better.size, worse.size)
    alike = abs(better.size - worse.size) <= _ALIKE * longer
    yield (
        "length",
        "alike" if alike else "longer" if better.size == longer else "shorter",
    )
