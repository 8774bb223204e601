"""Scored groups → how well scores agree with labels, and judges with one another: one file, or two.

Of each group every judge adds amounts to sums, and each statistic is a function of these (`bootstrap.py`).
"""

from __future__ import annotations

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ruler_cli.results.bootstrap import (
    BootstrapUnits,
    MeasuredValue,
    Statistic,
    Totals,
    difference,
    ratio,
)
from ruler_cli.results.pairing import DigestedGroup, GroupPair, OnLeftOut, pair_groups
from ruler_cli.results.scored_file import MOST_JUDGES
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout
from ruler_cli.scoring.sums import CORRELATIONS, PRODUCTS, concordance, pair_products

Agreement = dict[str, Any]
"""The object that `ruler agree --json` prints.

The first of `scorers` is the file's own score; the judges of a panel follow. `mixed_groups` have rollouts
with different labels. `two` holds the worse and the better label if there are only two. `differences` are
those of two files, the first less the second. `ranked` are pairs of a panel's judges whose intervals of the
accuracy do not overlap. `expected_half_width` is about half the width of an interval of the accuracy.
"""
_Pair = tuple["_JudgeSums", "_JudgeSums"]
_Row = tuple[ScoredGroup, Sequence[float | None]]
"""A group, and a judge's scores of its rollouts."""
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
"""Rollouts whose pairs all count; a larger group is divided at random into parts of this size."""
_NO_MERIT = frozenset({"chance_regret", "tied_share"})
"""Statistics that are no merit of a judge, so that two judges are not compared by them."""
_POINTS = 0.6
"""Half an interval's width times the root of the number of mixed groups, about, for groups of 8."""
_CORRELATION, _SHARE, _UNBOUND = (-1.0, 1.0), (0.0, 1.0), (-math.inf, math.inf)


def measure(groups: Iterable[ScoredGroup], name: str) -> Agreement:
    """Measure one scored file, and each judge of its panel."""
    comparison = _Comparison()
    main = _JudgeSums(name, comparison.units)
    panel: dict[str, _JudgeSums] = {}
    for group in groups:
        rows: dict[_JudgeSums, _Row] = {
            main: (group, [r.judge_score for r in group.rollouts])
        }
        for judge in dict.fromkeys(
            judge for rollout in group.rollouts for judge in rollout.judges
        ):
            if judge not in panel and len(panel) < MOST_JUDGES:
                panel[judge] = _JudgeSums(judge, comparison.units, details=False)
            if judge in panel:
                rows[panel[judge]] = (
                    group,
                    [r.judges.get(judge) for r in group.rollouts],
                )
        comparison.add(rows, [judge for judge in panel.values() if judge in rows])
    judges = list(panel.values()) if len(panel) > 1 else []
    return comparison.agreement([main, *judges], list(combinations(judges, 2)))


def measure_two(
    first: Iterator[DigestedGroup],
    second: Iterator[DigestedGroup],
    on_left_out: OnLeftOut,
    on_pair: Callable[[GroupPair], object] = lambda _: None,
) -> Agreement:
    """Measure two scored files of one input, over the rollouts scored in both; see `pair_groups`.

    `on_pair` gets each group that both files have.
    """
    comparison, paired = _Comparison(), dict[str, Any]()
    judges = [_JudgeSums(name, comparison.units) for name in "AB"]
    for pair in pair_groups(first, second, paired, on_left_out):
        one, other, _ = pair
        rows = ((one, _common_scores(one, other)), (other, _common_scores(other, one)))
        comparison.add(dict(zip(judges, rows, strict=True)), judges)
        on_pair(pair)
    return comparison.agreement(judges, [(judges[0], judges[1])], paired)


def _common_scores(group: ScoredGroup, other: ScoredGroup) -> list[float | None]:
    """Return the scores of a group, None for a rollout without a score in the other file."""
    both = zip(group.rollouts, other.rollouts, strict=True)
    return [None if b.judge_score is None else a.judge_score for a, b in both]


class _Comparison:
    """Judges that share the units of one bootstrap, and so their resamples."""

    def __init__(self) -> None:
        self.units = BootstrapUnits()
        self._groups = self._rollouts = 0

    def add(
        self, rows: Mapping[_JudgeSums, _Row], correlated: Sequence[_JudgeSums]
    ) -> None:
        """Add one group with the scores of each judge; the file's own scores come first."""
        unit = self.units.next()
        for judge, (group, scores) in rows.items():
            judge.add(unit, group, scores)
        for one, other in combinations(correlated, 2):
            labels = [rollout.label for rollout in rows[one][0].rollouts]
            every = zip(rows[one][1], rows[other][1], labels, strict=True)
            both = [
                (a, b, label)
                for a, b, label in every
                if a is not None and b is not None
            ]
            for what, sums in pair_products(both).items():
                self.units.add(
                    unit,
                    {
                        (one, other, what, name): sums[name]
                        for name in sums
                        if name != "n"
                    },
                )
        self._groups += 1
        self._rollouts += len(group.rollouts)

    def agreement(
        self,
        judges: Sequence[_JudgeSums],
        pairs: Sequence[_Pair],
        paired: dict[str, Any] | None = None,
    ) -> Agreement:
        """Measure all groups so far; with `paired`, the counts of two files, compare the two judges."""
        each = {judge: judge.statistics() for judge in judges}
        wanted: dict[Hashable, Statistic] = {}
        for judge, own in each.items():
            wanted |= {(judge, name): statistic for name, statistic in own.items()}
        for pair in pairs:
            wanted |= {(pair, kind): _within(*pair, kind) for kind in CORRELATIONS}
        first, last = each[judges[0]], each[judges[-1]]
        names = [
            n
            for n in first
            if paired and n in last and "." not in n and n not in _NO_MERIT
        ]
        wanted |= {name: difference(first[name], last[name]) for name in names}
        values = self.units.measure(wanted)
        scorers = [
            judge.as_json({name: values[judge, name] for name in own})
            for judge, own in each.items()
        ]
        mixed = self.units.groups((judges[0], "pairs"))
        return {
            "labels": {
                "path": None,
                "two": judges[0].labels and list(judges[0].labels),
            },
            "groups": self._groups,
            "mixed_groups": mixed,
            "rollouts": self._rollouts,
            "paired": paired,
            "bootstrap": self.units.settings(),
            "expected_half_width": min(0.5, _POINTS / math.sqrt(mixed))
            if mixed
            else None,
            "scorers": scorers,
            "differences": {name: _told_apart(values[name]) for name in names},
            "ranked": [] if paired else list(_ranked(scorers[1:])),
            "correlations": [
                {"judges": [a.name, b.name]}
                | {of: values[(a, b), of] for of in ("errors", "scores")}
                for a, b in pairs
            ],
        }


def _told_apart(difference: MeasuredValue) -> dict[str, Any]:
    """Add `told_apart` to a difference: true if its interval does not hold 0."""
    low, high = difference["low"], difference["high"]
    return {
        **difference,
        "told_apart": low is not None and high is not None and not low <= 0 <= high,
    }


def _ranked(scorers: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    for pair in combinations(scorers, 2):
        for better, worse in (pair, pair[::-1]):
            low, high = (
                better["pairwise_accuracy"]["low"],
                worse["pairwise_accuracy"]["high"],
            )
            if low is not None and high is not None and low > high:
                yield {"better": better["name"], "worse": worse["name"]}


def _within(one: _JudgeSums, other: _JudgeSums, kind: str) -> Statistic:
    """Make a correlation of two judges within groups from their `pair_products`."""

    def value(totals: Totals) -> float | None:
        return CORRELATIONS[kind](
            {name: totals.get((one, other, kind, name), 0.0) for name in PRODUCTS}
        )

    return Statistic(value, (one, other, kind, "aa"), _CORRELATION)


class _JudgeSums:
    """The sums of one judge over groups. With `details` also its cost, and its pairs by kind."""

    def __init__(
        self, name: str, units: BootstrapUnits, *, details: bool = True
    ) -> None:
        self.name, self._units, self._details = name, units, details
        self._range = (math.inf, -math.inf)
        self._labels: set[float] = set()
        # unit, score and label of each rollout, until there is a third label
        self._rows = (array("H"), array("d"), array("d"))

    @property
    def labels(self) -> tuple[float, float] | None:
        """The worse and the better label; None unless there are exactly two."""
        return self._range if len(self._labels) == 2 else None

    def add(
        self, unit: int, group: ScoredGroup, scores: Sequence[float | None]
    ) -> None:
        """Add one group to its unit of the bootstrap."""
        both = zip(scores, group.rollouts, strict=True)
        rated = [
            (score, r.label, r)
            for score, r in both
            if score is not None and r.label is not None
        ]
        sums = _sums(rated)
        if self._details and group.cost is not None and group.rollouts:
            sums |= {"cost": group.cost, "costed": float(len(group.rollouts))}
        if self._details and "pairs" in sums:
            sums |= by_kind(rated)
        self._units.add(unit, {(self, name): amount for name, amount in sums.items()})
        for score, label, _ in rated:
            self._range = (min(self._range[0], label), max(self._range[1], label))
            if len(self._labels) < 3:
                self._labels.add(label)
                self._rows[0].append(unit)
                self._rows[1].append(score)
                self._rows[2].append(label)

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
        statistics |= {
            name: share(name, "tops", worst)
            for name in ("top1_regret", "chance_regret")
        }
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
        _, scores, labels = self._rows
        bad, good = (
            sorted(
                score
                for score, label in zip(scores, labels, strict=True)
                if label == side
            )
            for side in (worse, better)
        )
        auc = sum(_below(bad, score) for score in good) / (len(good) * len(bad))
        for unit, score, label in zip(*self._rows, strict=True):
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
        scorer: dict[str, Any] = {"name": self.name}
        total = {
            name: self._units.total((self, name))
            for name in ("compared", "pairs", "won", "tied")
        }
        scorer |= {name: round(total[name]) for name in ("compared", "pairs")}
        in_order, tied = round(total["won"] - total["tied"] / 2), round(total["tied"])
        scorer |= {
            "in_order": in_order,
            "against": scorer["pairs"] - in_order - tied,
            "tied": tied,
        }
        scorer |= {name: value for name, value in values.items() if "." not in name}
        for name, value in values.items():
            if "." in name:
                kind, number = name.split(".")
                pairs = round(self._units.total((self, name)))
                bin_ = {
                    "bin": PAIR_BINS[kind][int(number)],
                    "pairs": pairs,
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
    scores, labels = [score for score, _, _ in rated], [label for _, label, _ in rated]
    sums: dict[str, float] = {"compared": len(rated)}
    pairs = concordance(scores, labels)
    if pairs.pairs:
        sums |= {
            "pairs": pairs.pairs,
            "won": pairs.won + pairs.tied / 2,
            "tied": pairs.tied,
        }
        best, top = max(labels), max(scores)
        picked = [label for score, label, _ in rated if score == top]
        sums |= {
            "tops": 1.0,
            "top1_regret": best - math.fsum(picked) / len(picked),
            "chance_regret": best - math.fsum(labels) / len(labels),
        }
        if (tau := pairs.tau_b) is not None:
            sums |= {"taus": 1.0, "tau": tau}
    return sums


def by_kind(rated: Sequence[_Rated]) -> dict[str, float]:
    """Count pairs by kind: `gap.0` is the number in its first bin, `gap.0.won` those won, a tie one half.

    A tied pair has no score gap and is in no bin of that kind.
    """
    counts: dict[str, float] = {}
    if len(rated) > _AT_ONCE:
        rated = random.Random(len(rated)).sample(rated, len(rated))
    for start in range(0, len(rated), _AT_ONCE):
        for one, other in combinations(rated[start : start + _AT_ONCE], 2):
            if one[1] == other[1]:
                continue
            (better, _, a), (worse, _, b) = (
                (one, other) if one[1] > other[1] else (other, one)
            )
            won = 1.0 if better > worse else 0.0 if better < worse else 0.5
            for bin_ in _bins(round(abs(better - worse), 9), a, b):
                counts[bin_] = counts.get(bin_, 0.0) + 1
                counts[f"{bin_}.won"] = counts.get(f"{bin_}.won", 0.0) + won
    return counts


def _bins(gap: float, better: ScoredRollout, worse: ScoredRollout) -> Iterator[str]:
    if gap:
        yield f"gap.{bisect_left(_GAPS, gap)}"
    if better.mean_position is not None and worse.mean_position is not None:
        later = round(better.mean_position - worse.mean_position, 9)
        yield f"slot.{0 if later < 0 else 1 if later > 0 else 2}"
        yield f"place.{min(2, int(better.mean_position * 3))}"
    longer = max(better.size, worse.size)
    alike = abs(better.size - worse.size) <= _ALIKE * longer
    yield f"length.{2 if alike else 0 if better.size < worse.size else 1}"
    yield f"size.{bisect_left(_SIZES, longer)}"


def _below(ordered: Sequence[float], score: float) -> float:
    """Count the lower scores, an equal one as one half."""
    return (bisect_left(ordered, score) + bisect_right(ordered, score)) / 2
