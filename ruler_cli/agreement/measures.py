"""What is measured of one judge: what a group adds to its sums, and the figures they come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ruler_cli.agreement.bootstrap import Figure, Measure, Totals, Units, ratio
from ruler_cli.agreement.pairs import KINDS, Item, Kind, concordance, regret, slices
from ruler_cli.agreement.pooled import Pooled
from ruler_cli.agreement.scored import Scored, Scores

SMALLER_IS_BETTER = frozenset({"top1_regret", "cost_per_1000_usd"})
NO_DIFFERENCE = frozenset({"chance_regret", "tied_share"})
"""Figures that are no merit of a judge, so that two judges are not compared by them."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs of one kind: how many, and the share of them in the right order."""

    name: str
    pairs: int
    accuracy: Figure


@dataclass(frozen=True, slots=True)
class Scorer:
    """The figures of one judge; `breakdowns` are its pairwise accuracy by kinds of pairs."""

    name: str
    pairs: int
    compared: int
    figures: Mapping[str, Figure]
    breakdowns: Mapping[str, tuple[Bin, ...]]


class Tally:
    """Sums of one judge over groups; all judges of a measurement share the units, so their resamples.

    `prefix` tells its sums from others'; `details`: pairs are told apart by kind as well.
    """

    def __init__(self, name: str, prefix: str, *, details: bool) -> None:
        self.name, self.prefix, self._details = name, prefix, details
        self._pooled = Pooled()
        self._waiting: tuple[list[float], list[float]] = ([], [])
        self._range = (math.inf, -math.inf)

    @property
    def two(self) -> tuple[float, float] | None:
        """The worse and the better label, where there are exactly two."""
        return self._pooled.two

    def sums(self, group: Scored, scores: Scores) -> dict[str, float]:
        """What a group adds, by these scores of its rollouts; `keep` must follow."""
        items = [
            Item(score, label, place, size)
            for score, label, place, size in zip(
                scores,
                group.labels,
                group.places or [None] * len(scores),
                group.sizes or [None] * len(scores),
                strict=True,
            )
            if score is not None and label is not None
        ]
        scored, labels = [item.score for item in items], [item.label for item in items]
        self._waiting = (scored, labels)
        self._range = (min(self._range[0], *labels), max(self._range[1], *labels)) if labels else self._range
        found = _sums(scored, labels)
        if self._details:
            if group.cost is not None and scores:
                found |= {"cost": group.cost, "costed": float(len(scores))}
            for (kind, bin_), (pairs, won) in slices(items).items() if found.get("pairs") else ():
                found[f"{kind}.{bin_}"] = float(pairs)
                found[f"{kind}.{bin_}.won"] = won
        return {self.prefix + key: amount for key, amount in found.items()}

    def keep(self, unit: int) -> None:
        """The group is in this unit of the bootstrap."""
        self._pooled.add(unit, *self._waiting)

    def measures(self, units: Units) -> dict[str, Measure]:
        """All that can be measured of this judge, by name; asked for once, when all groups are there."""
        p = self.prefix
        widest = (0.0, 1.0)
        accuracy = Measure(ratio(p + "won", p + "pairs"), p + "pairs", widest)
        found = {
            "pairwise_accuracy": accuracy,
            "tied_share": Measure(ratio(p + "tied", p + "pairs"), p + "pairs", widest),
            "kendall_tau_b": Measure(ratio(p + "tau", p + "taus"), p + "taus", (-1.0, 1.0)),
        }
        auc = self._pooled.auc()
        if self._pooled.two is not None:
            found["auc_within_groups"] = accuracy  # of two labels the pairs are those of the AUC
        if auc is not None:
            for unit, term in self._pooled.terms():
                units.put(unit, p + "auc", term)
            found["auc"] = Measure(_linear(auc, p + "auc"), p + "compared", widest)
        worst = (0.0, max(0.0, self._range[1] - self._range[0]))
        found["top1_regret"] = Measure(ratio(p + "regret", p + "tops"), p + "tops", worst)
        found["chance_regret"] = Measure(ratio(p + "chance", p + "tops"), p + "tops", worst)
        if self._details:
            found["cost_per_1000_usd"] = Measure(ratio(p + "cost", p + "costed", 1000.0), p + "costed")
            for kind in KINDS:
                for i in range(len(kind.bins)):
                    key = f"{p}{kind.name}.{i}"
                    if units.groups(key):
                        found[f"{kind.name}.{i}"] = Measure(ratio(f"{key}.won", key), key, widest)
        return found

    def scorer(self, figures: Mapping[str, Figure], totals: Totals) -> Scorer:
        """The figures that `measures` came to."""
        return Scorer(
            self.name,
            round(totals.get(self.prefix + "pairs", 0)),
            round(totals.get(self.prefix + "compared", 0)),
            {name: figure for name, figure in figures.items() if "." not in name},
            {kind.name: bins for kind in KINDS if (bins := self._bins(kind, figures, totals))},
        )

    def _bins(self, kind: Kind, figures: Mapping[str, Figure], totals: Totals) -> tuple[Bin, ...]:
        return tuple(
            Bin(name, round(totals[f"{self.prefix}{kind.name}.{i}"]), figures[f"{kind.name}.{i}"])
            for i, name in enumerate(kind.bins)
            if f"{kind.name}.{i}" in figures
        )


def _sums(scores: Sequence[float], labels: Sequence[float]) -> dict[str, float]:
    if not scores:
        return {}
    found: dict[str, float] = {"compared": len(scores)}
    pairs = concordance(scores, labels)
    if pairs.pairs:
        missed, by_chance = regret(scores, labels)
        found |= {"pairs": pairs.pairs, "won": pairs.won + pairs.tied / 2, "tied": pairs.tied}
        found |= {"tops": 1.0, "regret": missed, "chance": by_chance}
        tau = pairs.tau_b
        if tau is not None:
            found |= {"taus": 1.0, "tau": tau}
    return found


def _linear(value: float, key: str) -> Callable[[Totals], float | None]:
    """A value whose error in a resample is a sum."""
    return lambda sums: value + sums.get(key, 0.0)
