"""The scores of a group from the replies of its judges."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations
from math import fsum
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.scoring.batch import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.scoring.tables import PassTables
from ruler_cli.settings.models import CombineSettings
from ruler_cli.types import (
    FailedCall,
    GroupError,
    GroupResult,
    GroupScores,
    PassScores,
)
from tests.scoring.group_results import (
    failed_call,
    group_result,
    groups,
    one_pass,
)


def scores_of(
    group: GroupResult, batch: BatchStatistics | None = None, **how: Any
) -> GroupScores:
    """The scores of a group that has them."""
    result = combine(group, CombineSettings(**how), batch or BatchStatistics())
    assert isinstance(result, GroupScores), result
    return result


def error_of(group: GroupResult, **how: Any) -> GroupError:
    """The error of a group without scores."""
    result = combine(group, CombineSettings(**how), BatchStatistics())
    assert isinstance(result, GroupError), result
    return result


def batch_of(*results: GroupResult) -> BatchStatistics:
    """A batch that has counted these groups."""
    batch = BatchStatistics()
    for group in results:
        batch.add(PassTables(group))
    return batch


def slanted(number: int = 30, by: float = 0.2) -> BatchStatistics:
    """A batch whose judge gives more to the rollouts that it sees first."""
    rng = random.Random(1)
    return batch_of(
        *(
            group_result(
                one_pass(
                    [
                        0.5 + by,
                        0.5 + 0.02 * rng.random(),
                        0.5 - by + 0.02 * rng.random(),
                    ]
                )
            )
            for _ in range(number)
        )
    )


# --- scores ---------------------------------------------------------------------------------------


@given(groups())
def test_mean_of_the_judges_means(group: GroupResult) -> None:
    """Every judge counts the same, for any number of passes, and identical rollouts have one score."""
    for row, rollout in zip(
        scores_of(group).rollouts, group.owner, strict=True
    ):
        if rollout is None:
            assert (row.score, row.explanation) == (None, "no messages")
            continue
        means = []
        for judge in range(group.judges):
            mine = [
                b.scores[b.distinct.index(rollout)]
                for b in group.pass_scores
                if b.judge == judge
            ]
            means.append(fsum(mine) / len(mine))
            assert row.by_judge[judge] == pytest.approx(means[-1], abs=1e-12)
        assert row.score == pytest.approx(fsum(means) / len(means), abs=1e-12)


@given(groups(), st.randoms(), st.booleans())
def test_order_of_replies(
    group: GroupResult, rng: random.Random, order: bool
) -> None:
    """The order of replies and failed calls does not change the result."""
    failed = (
        failed_call(7, 0, reason="first"),
        failed_call(8, 1, reason="second"),
        failed_call(9, 0, reason="third"),
    )
    group = replace(group, failed_calls=failed)
    second = replace(
        group,
        pass_scores=tuple(
            rng.sample(group.pass_scores, len(group.pass_scores))
        ),
        failed_calls=tuple(rng.sample(failed, len(failed))),
    )
    how = CombineSettings(order_by_outcome=order, min_passes=3)
    assert combine(group, how, BatchStatistics()) == combine(
        second, how, BatchStatistics()
    )


# --- who counts -----------------------------------------------------------------------------------


def test_judge_with_too_few_passes() -> None:
    """Below --set min_passes a judge's scores are left out, and the group is degraded."""
    replies = [one_pass([0.1, 0.9], t) for t in range(3)] + [
        one_pass([1.0, 0.0], 0, 1)
    ]
    lost = [failed_call(1, 1), failed_call(2, 1)]
    result = scores_of(group_result(*replies, *lost, judges=2), min_passes=2)
    assert result.scores == (0.1, 0.9)
    assert [row.by_judge for row in result.rollouts] == [{0: 0.1}, {0: 0.9}]
    assert result.degraded
    assert result.passes == 3
    assert scores_of(
        group_result(*replies, *lost, judges=2)
    ).scores == pytest.approx((0.55, 0.45))


def test_group_left_out_by_the_cap() -> None:
    """A group without scores counts as left out if the cap left out one of its calls."""
    result = error_of(
        group_result(
            failed_call(0, kind="refused"),
            failed_call(0, 1, "budget", "too dear"),
        )
    )
    assert (result.kind, result.reason) == ("budget", "too dear")
    some = group_result(
        one_pass([0.1, 0.9]),
        failed_call(1),
        failed_call(2, kind="budget"),
        judges=2,
    )
    assert error_of(some, min_passes=2).kind == "budget"


def test_lost_window() -> None:
    """If no answered window showed some rollouts, the group has no scores."""
    lost = FailedCall(0, 0, 1, GroupError("transport", "gone"))
    result = error_of(
        group_result(
            one_pass([0.1, 0.9], distinct=(0, 1)), lost, size=4, windows=2
        )
    )
    assert result.kind == "transport"
    assert result.reason == (
        "0 of 1 passes scored every rollout, and 1 are needed; the first that did not: gone"
    )


@given(groups(), st.booleans())
def test_interrupted_group(group: GroupResult, whole: bool) -> None:
    """An interrupted group has no scores, for any replies that it has: a rerun has to finish it."""
    stop = failed_call(3, kind="interrupted", reason="stopped")
    pass_scores = group.pass_scores if whole else ()
    result = error_of(
        replace(
            group, pass_scores=pass_scores, failed_calls=(failed_call(2), stop)
        )
    )
    assert (result.kind, result.reason) == ("interrupted", "stopped")


# --- how good -------------------------------------------------------------------------------------


def test_one_score_for_all_is_a_tie() -> None:
    """If all rollouts come to one score, the group is a tie of no weight, for any number of passes."""
    rise, fall = [0.2, 0.5, 0.8], [0.8, 0.5, 0.2]
    thrice = [one_pass(rise, i) for i in range(3)]
    rows: list[tuple[list[PassScores | FailedCall], float | None]] = [
        ([one_pass([0.8] * 3)], None),
        ([one_pass([0.8] * 3), one_pass([0.6] * 3, 1)], 0.0),
        ([one_pass(rise), one_pass(fall, 1)], 0.0),
        ([one_pass(rise), one_pass(fall, 0, 1)], 0.0),
        ([*thrice, one_pass(fall, 0, 1)], 0.0),
        ([one_pass([0.7] * 3), failed_call(1)], None),
    ]
    for replies, reliability in rows:
        judges = 1 + max(reply.judge for reply in replies)
        result = scores_of(group_result(*replies, judges=judges))
        assert (result.tied, result.one_score, result.weight) == (
            True,
            True,
            0.0,
        )
        assert (result.reliability, result.passes_for) == (reliability, None)
        assert len({*result.scores}) == 1


# --- debias and standardize -----------------------------------------------------------------------


def test_debias_corrects_position_bias() -> None:
    """--set debias=true lowers the first rollout to the last, if the batch gives more to the first."""
    group = group_result(one_pass([0.7, 0.5, 0.3]))
    result = scores_of(group, slanted(), debias=True)
    assert result.scores == pytest.approx((0.5, 0.5, 0.5), abs=0.02)
    assert all(row.by_judge == {0: row.score} for row in result.rollouts)
    assert scores_of(group, slanted()).scores == (0.7, 0.5, 0.3)


def test_debias_keeps_a_tie() -> None:
    """Corrections of equal scores differ by position and not by rollout: the group stays a tie."""
    for passes in (1, 2, 3):
        result = scores_of(
            group_result(*(one_pass([0.5] * 3, t) for t in range(passes))),
            slanted(),
            debias=True,
        )
        assert len(set(result.scores)) == 3
        assert (result.tied, result.one_score, result.weight) == (
            True,
            True,
            0.0,
        )


def mixed_panel(rng: random.Random) -> GroupResult:
    """A judge that is strict and flat and one that is neither."""
    true = [rng.random() for _ in range(4)]
    return group_result(
        one_pass([0.1 + 0.2 * t for t in true]),
        one_pass([0.2 + 0.6 * t for t in true], 0, 1),
        judges=2,
    )


def test_standardized_judges() -> None:
    """Over the batch all judges have the mean and the standard deviation of all together."""
    rng = random.Random(3)
    results = [mixed_panel(rng) for _ in range(50)]
    batch = batch_of(*results)
    result = [scores_of(group, batch, standardize=True) for group in results]
    raw = [s for group in results for b in group.pass_scores for s in b.scores]
    for judge in (0, 1):
        mine = [row.by_judge[judge] for v in result for row in v.rollouts]
        assert fsum(mine) / len(mine) == pytest.approx(
            fsum(raw) / len(raw), abs=0.01
        )
        assert stdev(mine) == pytest.approx(stdev(raw), abs=0.02)
    assert all(0 <= s <= 1 for v in result for s in v.scores if s is not None)


def test_standardize_is_for_panels() -> None:
    """A single judge and the judge of an escalation keep their scale; a constant judge is only shifted."""
    row = group_result(one_pass([0.1, 0.9]))
    assert scores_of(row, batch_of(row), standardize=True).scores == (0.1, 0.9)
    flat = group_result(
        one_pass([0.1, 0.9]), one_pass([0.3, 0.3], 0, 1), judges=2
    )
    result = scores_of(flat, batch_of(flat), standardize=True)
    assert [row.by_judge[1] for row in result.rollouts] == pytest.approx(
        [0.4, 0.4]
    )
    strong = [one_pass([0.6, 0.7], pass_index, 2) for pass_index in range(2)]
    final = group_result(
        one_pass([0.2, 0.8]),
        one_pass([0.1, 0.2], 0, 1),
        *strong,
        judges=2,
        escalated_to=2,
    )
    assert scores_of(final, batch_of(final), standardize=True).scores == (
        0.6,
        0.7,
    )


# --- rewards and outcomes -------------------------------------------------------------------------


@given(groups(), st.floats(0, 1))
def test_blend_is_the_weighted_mean(group: GroupResult, share: float) -> None:
    """The score is share · judge + (1 − share) · reward for each rollout, also for duplicates."""
    result, plain = scores_of(group, blend=share), scores_of(group)
    assert [row.judge_score for row in result.rollouts] == list(plain.scores)
    for score, mine, reward in zip(
        result.scores, plain.scores, group.rewards, strict=True
    ):
        assert (score is None) is (mine is None)
        if score is not None and mine is not None and reward is not None:
            assert score == pytest.approx(share * mine + (1 - share) * reward)
    assert scores_of(group, blend=1.0).scores == plain.scores


@pytest.mark.parametrize("reward", [-1.0, 1.5, 1e300])
def test_blend_mixes_no_scales(reward: float) -> None:
    """A reward outside 0 to 1 fails the group, and the message names it."""
    result = error_of(
        group_result(one_pass([0.1, 0.9]), rewards=(1.0, reward)), blend=0.5
    )
    assert result.kind == "input"
    assert result.reason.startswith(
        f"rollout 2 has the reward {reward:g}, and scores are blended with rewards from 0 to 1"
    )


@given(groups(), st.none() | st.floats(0, 1))
def test_order_by_outcome(group: GroupResult, blend: float | None) -> None:
    """With --set order_by_outcome=true no failed rollout is above a passed one, even with --set blend."""
    result = scores_of(group, order_by_outcome=True, blend=blend)
    pairs = list(zip(result.scores, group.outcomes, strict=True))
    for (first, good), (second, bad) in [
        *combinations(pairs, 2),
        *combinations(pairs[::-1], 2),
    ]:
        if (
            first is not None
            and second is not None
            and good is True
            and bad is False
        ):
            assert first >= second
    assert [first.judge_score for first in result.rollouts] == list(
        scores_of(group).scores
    )


@pytest.mark.parametrize("passes", [1, 2])
def test_tie_by_outcome(passes: int) -> None:
    """Scores that the outcome makes equal are no signal, although the judge gave different ones."""
    replies = [one_pass([0.1, 0.9], t) for t in range(passes)]
    group = group_result(*replies, outcomes=(True, False))
    result = scores_of(group, order_by_outcome=True)
    assert (result.tied, result.one_score, result.weight) == (True, False, 0.0)
    assert not scores_of(group).tied
    assert not scores_of(
        group_result(*replies, outcomes=(False, True)), order_by_outcome=True
    ).tied
    same = group_result(one_pass([0.4]), owner=(0, 0), outcomes=(True, False))
    scored = combine(
        same, CombineSettings(order_by_outcome=True), BatchStatistics(), "score"
    )
    assert isinstance(scored, GroupScores)
    assert scored.tied


# --- windows --------------------------------------------------------------------------------------


def windowed(
    seed: int, distinct: int = 24, windows: int = 4, judge: int = 0
) -> list[PassScores]:
    """Two passes over windows, each with a level of its own."""
    rng = random.Random(seed)
    replies = []
    for pass_index in range(2):
        order = rng.sample(range(distinct), distinct)
        for window in range(windows):
            shown = order[window::windows]
            level = rng.gauss(0, 0.1)
            inputs = [
                min(
                    1,
                    max(
                        0,
                        0.2
                        + 0.6 * rollout / distinct
                        + level
                        + rng.gauss(0, 0.02),
                    ),
                )
                for rollout in shown
            ]
            replies.append(
                one_pass(
                    inputs, pass_index, judge, window=window, distinct=shown
                )
            )
    return replies


@pytest.mark.parametrize("judges", [1, 2])
def test_windows_of_one_score_each(judges: int) -> None:
    """A judge that gives each window one score of its own gives no signal."""
    replies = [
        replace(row, scores=(level,) * len(row.scores))
        for judge in range(judges)
        for row, level in zip(
            windowed(1, judge=judge),
            (0.2, 0.9, 0.5, 0.5, 0.7, 0.1, 0.3, 1.0),
            strict=True,
        )
    ]
    result = scores_of(
        group_result(*replies, size=24, windows=4, judges=judges)
    )
    assert (result.tied, result.one_score, result.weight) == (True, True, 0.0)
    some = scores_of(group_result(*windowed(1), size=24, windows=4))
    assert (some.tied, some.one_score) == (False, False)


def test_lost_window_of_many() -> None:
    """If every rollout was shown at least once, there are scores and a reliability."""
    lost = FailedCall(0, 1, 3, GroupError("transport", "gone"))
    result = scores_of(
        group_result(*windowed(5)[:-1], lost, size=24, windows=4)
    )
    assert (result.degraded, result.passes) == (True, 1)
    assert None not in result.scores
    assert sum(row.spread is None for row in result.rollouts) == 6
    assert result.reliability is not None
