"""Schemes to ask and to combine, each measured on the same groups: rows of the specification's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from benchmarks.simulation.measures import Measured, deviation, measured, ranks
from benchmarks.simulation.worlds import (
    BalancedCase,
    Case,
    Kind,
    Model,
    cases,
    renumbered,
)
from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.scoring.tables import PassTables
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import GroupResult, GroupScores, PassScores

WEAK = Model(persistent=0.12, slot=0.10, noise=0.12)
MEAN = CombineSettings()
MeasuredRows = dict[str, Measured]


@dataclass(frozen=True, slots=True)
class Row:
    """A scheme: its name, calls per group, and the settings that combine its scores."""

    name: str
    calls: int
    settings: CombineSettings = MEAN


ROWS = (
    Row("1, input order", 1),
    Row("1, random order", 1),
    Row("1, random order + slot correction", 1, CombineSettings(debias=True)),
    Row("2, same order", 2),
    Row("2, an order and its reverse", 2),
    Row("4 balanced", 4),
    Row("8, same order", 8),
    Row("8 balanced", 8),
)


def passes(seed: int, kind: Kind, number: int) -> MeasuredRows:
    """Measure every row over the same groups."""
    rows: dict[str, list[GroupResult]] = {row.name: [] for row in ROWS}
    groups = cases(seed, kind, number)
    for case in groups:
        balanced = BalancedCase(case).first(8)
        unmoved = renumbered(
            [
                balanced[0],
                *(
                    case.ask(balanced[0].distinct, pass_index)
                    for pass_index in range(1, 8)
                ),
            ]
        )
        by_row: Mapping[str, Sequence[PassScores]] = {
            "1, input order": [case.ask(range(len(case.truths)), 0)],
            "1, random order": balanced[:1],
            "1, random order + slot correction": balanced[:1],
            "2, same order": unmoved[:2],
            "2, an order and its reverse": balanced[:2],
            "4 balanced": balanced[:4],
            "8, same order": unmoved,
            "8 balanced": balanced,
        }
        for name, all_scores in by_row.items():
            rows[name].append(case.group_result(all_scores))
    return {
        row.name: combined(groups, rows[row.name], row.settings) for row in ROWS
    }


def combined(
    groups: Sequence[Case],
    results: Sequence[GroupResult],
    settings: CombineSettings = MEAN,
) -> Measured:
    """Measure the scores that ruler writes for a batch."""
    batch = BatchStatistics()
    for one in results:
        batch.add(PassTables(one))
    return measured(
        (case.truths, scores_of(one, settings, batch))
        for case, one in zip(groups, results, strict=True)
    )


def scores_of(
    result: GroupResult, settings: CombineSettings, batch: BatchStatistics
) -> list[float]:
    """Return the final scores; every simulated group has one for each rollout."""
    group_scores = combine(result, settings, batch)
    assert isinstance(group_scores, GroupScores)
    return [score for score in group_scores.scores if score is not None]


def aggregates(seed: int, number: int) -> MeasuredRows:
    """Measure four independent random orders: ruler's mean beside other aggregates."""
    groups = cases(seed, "graded", number)
    results = [
        case.group_result(
            [
                case.ask(case.random_order(), pass_index)
                for pass_index in range(4)
            ]
        )
        for case in groups
    ]
    result = {"mean": combined(groups, results)}
    others: Mapping[
        str,
        tuple[
            Callable[[list[float]], list[float]], Callable[[list[float]], float]
        ],
    ] = {
        "median": (list, median),
        "mean of z-scores": (standardised, fmean),
        "Borda": (ranks, fmean),
    }
    for name, (each, over) in others.items():
        result[name] = measured(
            (case.truths, _aggregated(one, each, over))
            for case, one in zip(groups, results, strict=True)
        )
    return result


def _aggregated(
    result: GroupResult,
    each: Callable[[list[float]], list[float]],
    over: Callable[[list[float]], float],
) -> list[float]:
    columns = [each(by_rollout([one])) for one in result.pass_scores]
    return [over(list(row)) for row in zip(*columns, strict=True)]


def by_rollout(all_scores: Sequence[PassScores]) -> list[float]:
    """Return the scores of windows that show every rollout once, in the rollouts' order."""
    scores = {
        index: score
        for one in all_scores
        for index, score in zip(one.distinct, one.scores, strict=True)
    }
    return [scores[index] for index in range(len(scores))]


def standardised(scores: Sequence[float]) -> list[float]:
    """Return scores in standard deviations from their mean."""
    mean, spread = fmean(scores), deviation(scores)
    return [(score - mean) / spread if spread else 0.0 for score in scores]


def panels(seed: int, number: int) -> MeasuredRows:
    """Measure three weak judges with correlated errors, each an order and its reverse; and one strong."""
    result = {}
    for shared in (0.3, 0.7):
        groups = cases(
            seed, "graded", number, (replace(WEAK, shared=shared),) * 3
        )
        results = [
            case.group_result(
                [
                    pass_scores
                    for judge in range(3)
                    for pass_scores in BalancedCase(case, judge).first(2)
                ]
            )
            for case in groups
        ]
        result[f"three weak judges twice, errors correlated by {shared}"] = (
            combined(groups, results)
        )
    strong = cases(seed, "graded", number)
    result["one strong judge twice"] = combined(
        strong,
        [case.group_result(BalancedCase(case).first(2)) for case in strong],
    )
    return result
