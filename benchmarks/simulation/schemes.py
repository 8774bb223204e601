"""Ways to ask and to combine, each measured on the same groups: rows of the specification's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from benchmarks.simulation.measures import Measured, deviation, measured, ranks
from benchmarks.simulation.worlds import Asked, Case, Kind, cases, same
from ruler_cli.config import CombineSettings
from ruler_cli.judges.simulated import SimulatedModel
from ruler_cli.scoring.batch_statistics import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.types import GroupResult, GroupScores, PassScores

WEAK = SimulatedModel(persistent=0.12, slot=0.10, noise=0.12)
MEAN = CombineSettings()
Found = dict[str, Measured]


@dataclass(frozen=True, slots=True)
class Row:
    """A way to ask: its name, calls per group, and how the answers are combined."""

    name: str
    calls: int
    how: CombineSettings = MEAN


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


def passes(seed: int, kind: Kind, number: int) -> Found:
    """Every row over the same groups, and 4 balanced with the slot correction."""
    rows: dict[str, list[GroupResult]] = {row.name: [] for row in ROWS}
    groups = cases(seed, kind, number)
    for case in groups:
        balanced = Asked(case).first(8)
        unmoved = same([balanced[0], *(case.ask(balanced[0].distinct, turn) for turn in range(1, 8))])
        asked: Mapping[str, Sequence[PassScores]] = {
            "1, input order": [case.ask(range(len(case.truths)), 0)],
            "1, random order": balanced[:1],
            "1, random order + slot correction": balanced[:1],
            "2, same order": unmoved[:2],
            "2, an order and its reverse": balanced[:2],
            "4 balanced": balanced[:4],
            "8, same order": unmoved,
            "8 balanced": balanced,
        }
        for name, all_scores in asked.items():
            rows[name].append(case.judged(all_scores))
    return {row.name: combined(groups, rows[row.name], row.how) for row in ROWS}


def combined(groups: Sequence[Case], judged: Sequence[GroupResult], how: CombineSettings = MEAN) -> Measured:
    """The scores that ruler writes for a batch, measured."""
    batch = BatchStatistics()
    for one in judged:
        batch.add(one)
    return measured(
        (case.truths, scores_of(one, how, batch)) for case, one in zip(groups, judged, strict=True)
    )


def scores_of(judged: GroupResult, how: CombineSettings, batch: BatchStatistics) -> list[float]:
    """The verdict's scores; every simulated group has one."""
    group_scores = combine(judged, how, batch)
    assert isinstance(group_scores, GroupScores)
    return [score for score in group_scores.scores if score is not None]


def aggregates(seed: int, number: int) -> Found:
    """Four independent random orders: ruler's mean beside what else they could be combined by."""
    groups = cases(seed, "graded", number)
    asked = [case.judged([case.ask(case.drawn(), turn) for turn in range(4)]) for case in groups]
    result = {"mean": combined(groups, asked)}
    others: Mapping[str, tuple[Callable[[list[float]], list[float]], Callable[[list[float]], float]]] = {
        "median": (list, median),
        "mean of z-scores": (standardised, fmean),
        "Borda": (ranks, fmean),
    }
    for name, (each, over) in others.items():
        result[name] = measured(
            (case.truths, _aggregated(judged, each, over)) for case, judged in zip(groups, asked, strict=True)
        )
    return result


def _aggregated(
    judged: GroupResult, each: Callable[[list[float]], list[float]], over: Callable[[list[float]], float]
) -> list[float]:
    columns = [each(by_rollout([one])) for one in judged.pass_scores]
    return [over(list(row)) for row in zip(*columns, strict=True)]


def by_rollout(all_scores: Sequence[PassScores]) -> list[float]:
    """The scores of windows that show every rollout once, in the rollouts' order."""
    scores = {body: score for one in all_scores for body, score in zip(one.distinct, one.scores, strict=True)}
    return [scores[body] for body in range(len(scores))]


def standardised(scores: Sequence[float]) -> list[float]:
    """Scores in standard deviations from their mean."""
    mean, spread = fmean(scores), deviation(scores)
    return [(score - mean) / spread if spread else 0.0 for score in scores]


def panels(seed: int, number: int) -> Found:
    """Three weak judges, each an order and its reverse, whose persistent errors correlate; and one strong."""
    result = {}
    for shared in (0.3, 0.7):
        groups = cases(seed, "graded", number, (replace(WEAK, shared=shared),) * 3)
        asked = [
            case.judged([pass_scores for judge in range(3) for pass_scores in Asked(case, judge).first(2)])
            for case in groups
        ]
        result[f"three weak judges twice, errors correlated by {shared}"] = combined(groups, asked)
    strong = cases(seed, "graded", number)
    result["one strong judge twice"] = combined(
        strong, [case.judged(Asked(case).first(2)) for case in strong]
    )
    return result
