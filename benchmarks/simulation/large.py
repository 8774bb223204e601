"""Groups of 64 that a judge sees in windows of 8: the requests, and their combination into one order."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from benchmarks.simulation.measures import spearman
from benchmarks.simulation.schemes import (
    MEAN,
    by_rollout,
    scores_of,
    standardised,
)
from benchmarks.simulation.worlds import HIGHEST, LOWEST, Case, Model
from ruler_cli.prompting.prompt import balanced
from ruler_cli.prompting.windows import LEAST, Packing, Windows
from ruler_cli.scoring import window_shifts
from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.types import PassScores

SIZE, WINDOW, STEP = 64, 8, 4
MODEL = Model(noise=0.09, level=0.10, stretch=0.35, gain=0.25, shared=1.0)
NOISIER = replace(MODEL, noise=1.5 * MODEL.noise)


def large(seed: int) -> dict[str, float]:
    """Return Spearman's correlation with the truth, by scheme for one group of 64."""
    rng = random.Random(f"{seed}/large")
    truths = [
        min(HIGHEST, max(LOWEST, 0.5 + 0.12 * rng.gauss())) for _ in range(SIZE)
    ]
    case = Case(truths, rng, (MODEL, NOISIER))
    windows = _windows(case)
    result = {
        "disjoint windows, z-scored": _standardised(windows[0]),
        "shared anchors": _anchored(case, 2),
        "two random windows each": _combined(case, windows[:2]),
        "three random windows each": _combined(case, windows),
        "sliding window": _sliding(case),
        "one long call": _whole(case, 0),
        "one long call, 1.5 times the noise": _whole(case, 1),
    }
    return {name: spearman(truths, scores) for name, scores in result.items()}


def _windows(case: Case) -> list[list[PassScores]]:
    """Deal three passes into windows as ruler does."""
    base = case.random_order()
    dealt = list[Windows]()
    for even in (0, 2):
        keys = defaultdict[tuple[int, int, int], float](case.rng.random)
        packing = Packing(
            [0] * SIZE,
            math.inf,
            SIZE,
            order=partial(balanced, base),
            draw=lambda *drawn, keys=keys: keys[drawn],
        )
        pair = packing.pair(even, SIZE // WINDOW, LEAST)
        assert pair
        dealt.extend(pair)
    return [
        [
            case.ask(window, pass_index, window=number, new_noise=True)
            for number, window in enumerate(windows)
        ]
        for pass_index, windows in enumerate(dealt[:3])
    ]


def _combined(
    case: Case, passes: Sequence[Sequence[PassScores]]
) -> list[float]:
    """Combine windows as ruler does."""
    all_scores = [pass_scores for each in passes for pass_scores in each]
    one = replace(
        case.group_result(all_scores, windows=SIZE // WINDOW), judges=1
    )
    return [
        round(score, 9) for score in scores_of(one, MEAN, BatchStatistics())
    ]


def _standardised(all_scores: Sequence[PassScores]) -> list[float]:
    standard = [
        replace(one, scores=tuple(standardised(one.scores)))
        for one in all_scores
    ]
    return [round(score, 9) for score in by_rollout(standard)]


def _anchored(case: Case, anchors: int) -> list[float]:
    """Put the same few rollouts into every window, which determine its shift."""
    shown = case.random_order()
    fixed, rest, size = shown[:anchors], shown[anchors:], WINDOW - anchors
    seen = []
    for start in range(0, len(rest), size):
        window = [*fixed, *rest[start : start + size]]
        pass_scores = case.ask(
            case.rng.sample(window, len(window)), 0, new_noise=True
        )
        seen.append((pass_scores.distinct, pass_scores.scores))
    return [
        round(score, 9)
        for score in window_shifts.fit(seen, SIZE).scores
        if score is not None
    ]


def _sliding(case: Case) -> list[float]:
    """Sort one window after another from the back, each shifted by half a window."""
    order = case.random_order()
    for start in range(SIZE - WINDOW, -1, -STEP):
        pass_scores = case.ask(order[start : start + WINDOW], 0, new_noise=True)
        ranked = sorted(
            zip(pass_scores.scores, pass_scores.distinct, strict=True),
            key=lambda pair: -pair[0],
        )
        order[start : start + WINDOW] = [index for _, index in ranked]
    scores = [0.0] * SIZE
    for position, index in enumerate(order):
        scores[index] = -float(position)
    return scores


def _whole(case: Case, judge: int) -> list[float]:
    return by_rollout(
        [case.ask(case.random_order(), 0, judge=judge, new_noise=True)]
    )
