"""Scored groups → figures of each criterion: its mean, what it decides, its reliability and its position bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ruler_cli.results.annotations import Json, ScoredGroup, ScoredRollout
from ruler_cli.scoring.statistics import (
    CORRELATIONS,
    Anova,
    Moments,
    PositionBias,
    pair_products,
)
from ruler_cli.types import CriterionScore

_MOST = 64
"""Criteria that have figures; rubrics of single records may name more."""


@dataclass
class _Sums:
    """Sums of one criterion over groups."""

    values: Moments = field(default_factory=Moments)
    products: Counter[str] = field(default_factory=Counter)
    variance: Anova = field(default_factory=lambda: Anova(0.0, 0, 0.0, 0, 0.0))
    positions: PositionBias = field(default_factory=PositionBias)

    def add(
        self, rows: list[tuple[CriterionScore, ScoredRollout]], *, windows: bool
    ) -> None:
        """Add the rollouts of one group; identical ones share their positions and count once for the passes.

        In `windows` others share them too, so the passes tell nothing.
        """
        self.values.add(one.value for one, _ in rows)
        pairs = [
            (one.value, rollout.judge_score, None)
            for one, rollout in rows
            if rollout.judge_score is not None
        ]
        self.products.update(pair_products(pairs).get("scores", {}))
        if windows:
            return
        distinct = {rollout.positions: one.passes for one, rollout in rows}
        passes = {len(own) for own in (*distinct, *distinct.values())}
        if len(distinct) < 2 or len(passes) != 1 or passes == {0}:
            return
        columns = [*zip(*distinct.values(), strict=True)]
        self.positions.add(
            *(
                [value for _, value in sorted(zip(shown, column, strict=True))]
                for shown, column in zip(
                    zip(*distinct, strict=True), columns, strict=True
                )
            )
        )
        if len(columns) > 1:
            own, before = Anova.of(columns), self.variance
            self.variance = Anova(
                before.between + own.between,
                before.df_item + own.df_item,
                before.rest + own.rest,
                before.df_res + own.df_res,
                own.k,
            )

    def as_json(self, name: str) -> Json:
        """Return the figures."""
        variance = self.variance
        reliability = None
        if variance.df_res and variance.ms_item:
            reliability = max(0.0, 1 - variance.ms_res / variance.ms_item)
        bins = self.positions.bins()
        return {
            "name": name,
            "rollouts": self.values.number,
            "mean": self.values.mean,
            "with_score": CORRELATIONS["scores"](self.products),
            "reliability": reliability,
            "first_less_last": bins[0].mean - bins[-1].mean if bins else None,
        }


class CriteriaFigures:
    """Figures of the criteria of a file, by their names; of the first 64 names."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sums] = {}

    def add(self, group: ScoredGroup) -> None:
        """Add a scored group."""
        for name, rows in by_criterion(group).items():
            if name in self._sums or len(self._sums) < _MOST:
                sums = self._sums.setdefault(name, _Sums())
                sums.add(rows, windows="windows" in group.flags)

    def as_json(self) -> list[Json]:
        """Return the figures of each criterion, the most frequent first, of these the one that decides the most."""
        figures = [sums.as_json(name) for name, sums in self._sums.items()]
        # of rubrics of single records the common criteria come first
        return sorted(
            figures,
            key=lambda one: (-one["rollouts"], -abs(one["with_score"] or 0.0)),
        )


def by_criterion(
    group: ScoredGroup,
) -> Mapping[str, list[tuple[CriterionScore, ScoredRollout]]]:
    """Return the values of each criterion in a group, each with its rollout."""
    rows: dict[str, list[tuple[CriterionScore, ScoredRollout]]] = {}
    for rollout in group.rollouts:
        if rollout.status == "scored":
            for one in rollout.criteria:
                rows.setdefault(one.name, []).append((one, rollout))
    return rows
