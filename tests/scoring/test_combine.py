"""From what judges said to a verdict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import fsum
from statistics import stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.config import CombineSettings
from ruler_cli.scoring.batch_statistics import BatchStatistics
from ruler_cli.scoring.combine import combine, ordered
from ruler_cli.types import FailedCall, GroupError, GroupResult, GroupScores, PassScores
from tests.scoring.saying import ballot, groups, judged, miss, scores


def verdict(group: GroupResult, batch: BatchStatistics | None = None, **how: Any) -> GroupScores:
    """The verdict of a group that has one."""
    found = combine(group, CombineSettings(**how), batch or BatchStatistics())
    assert isinstance(found, GroupScores), found
    return found


def failure(group: GroupResult, **how: Any) -> GroupError:
    """The failure of a group that has no verdict."""
    found = combine(group, CombineSettings(**how), BatchStatistics())
    assert isinstance(found, GroupError), found
    return found


def batch_of(*all_judged: GroupResult) -> BatchStatistics:
    """A batch that has counted these groups."""
    batch = BatchStatistics()
    for group in all_judged:
        batch.add(group)
    return batch


def slanted(number: int = 30, by: float = 0.2) -> BatchStatistics:
    """A batch whose judge gives more to what it sees first."""
    rng = random.Random(1)
    return batch_of(
        *(
            judged(ballot([0.5 + by, 0.5 + 0.02 * rng.random(), 0.5 - by + 0.02 * rng.random()]))
            for _ in range(number)
        )
    )


# --- scores ---------------------------------------------------------------------------------------


@given(st.lists(scores, min_size=1, max_size=8), st.randoms())
def test_one_pass_of_one_judge_is_its_answer(values: list[float], rng: random.Random) -> None:
    """What one judge says once is the verdict, bit for bit, score and explanation."""
    order = rng.sample(range(len(values)), len(values))
    said = ballot(values, bodies=order)
    found = verdict(judged(said))
    for slot, body in enumerate(order):
        one = found.rollouts[body]
        assert (one.score, one.judge_score, one.spread) == (values[slot], values[slot], None)
        assert one.explanation == said.explanations[slot]
    assert (found.passes, found.reliability, found.passes_for) == (1, None, None)
    same = max(values) - min(values) < 5e-10
    assert found.weight == (0.0 if same else None)
    assert found.tied is same
    assert found.one_score is (same and len(values) > 1)


@given(groups())
def test_the_score_is_the_mean_of_the_judges_means(group: GroupResult) -> None:
    """Every judge counts the same, however many passes it made, and every rollout of a body is alike."""
    for one, body in zip(verdict(group).rollouts, group.owner, strict=True):
        if body is None:
            assert (one.score, one.explanation) == (None, "no messages")
            continue
        means = []
        for judge in range(group.judges):
            own = [b.scores[b.distinct.index(body)] for b in group.pass_scores if b.judge == judge]
            means.append(fsum(own) / len(own))
            assert one.by_judge[judge] == pytest.approx(means[-1], abs=1e-12)
        assert one.score == pytest.approx(fsum(means) / len(means), abs=1e-12)


@given(groups(), st.randoms(), st.booleans())
def test_order_of_answers_is_nothing(group: GroupResult, rng: random.Random, order: bool) -> None:
    """In whatever order answers and failures came, the verdict is the same."""
    misses = (miss(7, 0, reason="first"), miss(8, 1, reason="second"), miss(9, 0, reason="third"))
    group = replace(group, failed_calls=misses)
    other = replace(
        group,
        pass_scores=tuple(rng.sample(group.pass_scores, len(group.pass_scores))),
        failed_calls=tuple(rng.sample(misses, len(misses))),
    )
    how = CombineSettings(by_outcome=order, min_passes=3)
    assert combine(group, how, BatchStatistics()) == combine(other, how, BatchStatistics())


@given(groups())
def test_the_explanation_is_of_the_nearest_score(group: GroupResult) -> None:
    """What is said of a rollout was said with a score as near its own as any."""
    for one, body in zip(verdict(group).rollouts, group.owner, strict=True):
        if body is None or one.judge_score is None:
            continue
        off = {
            b.explanations[b.distinct.index(body)]: abs(b.scores[b.distinct.index(body)] - one.judge_score)
            for b in group.pass_scores
        }
        assert off[one.explanation] <= min(off.values()) + 1e-8


# --- who counts -----------------------------------------------------------------------------------


def test_a_judge_with_too_few_passes_does_not_count() -> None:
    """Below --min-passes a judge's scores are left out, and the group is degraded."""
    said = [ballot([0.1, 0.9], t) for t in range(3)] + [ballot([1.0, 0.0], 0, 1)]
    lost = [miss(1, 1), miss(2, 1)]
    found = verdict(judged(*said, *lost, judges=2), min_passes=2)
    assert found.scores == (0.1, 0.9)
    assert [one.by_judge for one in found.rollouts] == [{0: 0.1}, {0: 0.9}]
    assert found.degraded
    assert found.passes == 3
    assert verdict(judged(*said, *lost, judges=2)).scores == pytest.approx((0.55, 0.45))


def test_what_the_cap_left_out_is_left_out() -> None:
    """A group that no judge scored and the cap kept from one counts as left out, whoever failed before."""
    found = failure(judged(miss(0, kind="refused"), miss(0, 1, "budget", "too dear")))
    assert (found.kind, found.reason) == ("budget", "too dear")
    some = judged(ballot([0.1, 0.9]), miss(1), miss(2, kind="budget"), judges=2)
    assert failure(some, min_passes=2).kind == "budget"


def test_a_lost_window_fails_the_pass() -> None:
    """Where some rollouts were in no window that was answered, nothing is scored."""
    lost = FailedCall(0, 0, 1, GroupError("transport", "gone"))
    found = failure(judged(ballot([0.1, 0.9], bodies=(0, 1)), lost, size=4, windows=2))
    assert found.kind == "transport"
    assert found.reason == (
        "some rollouts have scores of 0 of 1 passes, --min-passes asks for 1; the first that did not: gone"
    )


@given(groups(), st.booleans())
def test_an_interrupted_group_is_never_a_verdict(group: GroupResult, whole: bool) -> None:
    """Whatever was answered before the run was stopped, a rerun has to finish the group."""
    stop = miss(3, kind="interrupted", reason="stopped")
    ballots = group.pass_scores if whole else ()
    found = failure(replace(group, pass_scores=ballots, failed_calls=(miss(2), stop)))
    assert (found.kind, found.reason) == ("interrupted", "stopped")


# --- how good -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "reliability"),
    [
        ([ballot([0.8, 0.8, 0.8])], None),
        ([ballot([0.8] * 3), ballot([0.6] * 3, 1)], 0.0),
        ([ballot([0.2, 0.5, 0.8]), ballot([0.8, 0.5, 0.2], 1)], 0.0),
        ([ballot([0.1, 0.7, 0.4]), ballot([0.7, 0.1, 0.4], 0, 1)], 0.0),
        ([ballot([0.1, 0.2, 0.3], t) for t in range(3)] + [ballot([0.3, 0.2, 0.1], 0, 1)], 0.0),
        ([ballot([0.7] * 3), miss(1)], None),
    ],
    ids=[
        "one pass",
        "level passes",
        "passes that cancel",
        "a panel that cancels",
        "unlike numbers",
        "a miss",
    ],
)
def test_one_score_for_all_is_no_signal(
    said: list[PassScores | FailedCall], reliability: float | None
) -> None:
    """Where the judges' scores come out as one, the group is a tie of no weight, by however many passes."""
    found = verdict(judged(*said, judges=1 + max(s.judge for s in said)))
    assert (found.tied, found.one_score, found.weight) == (True, True, 0.0)
    assert (found.reliability, found.passes_for) == (reliability, None)
    assert len({score for score in found.scores if score is not None}) == 1


def test_passes_needed_are_of_the_whole_panel() -> None:
    """A panel of three that needs six columns needs two passes."""
    rows = [[0.3, 0.45, 0.6], [0.35, 0.5, 0.5], [0.25, 0.5, 0.6]]
    one = verdict(judged(*(ballot(row, t) for t, row in enumerate(rows))))
    panel = verdict(judged(*(ballot(row, 0, j) for j, row in enumerate(rows)), judges=3))
    assert one.reliability == panel.reliability
    assert one.passes_for is not None
    assert panel.passes_for == -(-one.passes_for // 3)
    assert one.passes_for > 1


# --- debias and standardize -----------------------------------------------------------------------


@given(groups(least=2))
def test_debias_by_nothing_is_nothing(group: GroupResult) -> None:
    """Where every slot scored alike, or too few groups are known, debias changes no bit."""
    flat = batch_of(*(judged(ballot([0.5, 0.5, 0.5])) for _ in range(30)))
    few = slanted(5)
    for batch in (flat, few, BatchStatistics()):
        assert verdict(group, batch, debias=True) == verdict(group, batch)


def test_debias_takes_out_the_slots() -> None:
    """What was seen first and was given more for it comes down to what was seen last."""
    group = judged(ballot([0.7, 0.5, 0.3]))
    found = verdict(group, slanted(), debias=True)
    assert found.scores == pytest.approx((0.5, 0.5, 0.5), abs=0.02)
    assert all(one.by_judge == {0: one.score} for one in found.rollouts)
    assert verdict(group, slanted()).scores == (0.7, 0.5, 0.3)


def test_debias_makes_no_signal_of_one_score() -> None:
    """What is subtracted from equal scores tells places apart and no rollouts: the group stays a tie."""
    for passes in (1, 2, 3):
        found = verdict(judged(*(ballot([0.5] * 3, t) for t in range(passes))), slanted(), debias=True)
        assert len(set(found.scores)) == 3
        assert (found.tied, found.one_score, found.weight) == (True, True, 0.0)


def turned(rng: random.Random, error: float = 0.01) -> GroupResult:
    """Two passes, an order and its reverse, of a judge that is fond of places and hardly errs otherwise."""
    true = [rng.uniform(0.3, 0.7) for _ in range(6)]
    places = (0.2, 0.05, 0.0, 0.0, -0.05, -0.2)

    def said(turn: int) -> PassScores:
        order = rng.sample(range(6), 6)
        shown = zip(order, places, strict=True)
        return ballot([true[i] + by + rng.gauss(0, error) for i, by in shown], turn, bodies=tuple(order))

    return judged(said(0), said(1))


def test_what_is_subtracted_is_no_noise() -> None:
    """What debias takes out of the scores is no noise of the batch any more, so that reliability rises."""
    rng = random.Random(5)
    all_judged = [turned(rng) for _ in range(60)]
    how, batch = CombineSettings(debias=True), batch_of(*all_judged)
    batch.settle(all_judged, CombineSettings())
    raw, before = batch.prior, [verdict(group, batch).reliability for group in all_judged]
    batch.settle(all_judged, how)
    after = [verdict(group, batch, debias=True).reliability for group in all_judged]
    assert raw.variance > 0.01
    assert batch.prior.variance < 0.001
    assert all(a is not None and b is not None and a > b for a, b in zip(after, before, strict=True))
    assert min(a for a in after if a is not None) > 0.9
    assert batch.slots.groups == 60


def mixed_panel(rng: random.Random) -> GroupResult:
    """A judge that is strict and flat and one that is neither."""
    true = [rng.random() for _ in range(4)]
    return judged(
        ballot([0.1 + 0.2 * t for t in true]), ballot([0.2 + 0.6 * t for t in true], 0, 1), judges=2
    )


def test_standardized_judges_have_one_mean_and_spread() -> None:
    """Over the batch all judges come to the same mean and standard deviation: that of all together."""
    rng = random.Random(3)
    all_judged = [mixed_panel(rng) for _ in range(50)]
    batch = batch_of(*all_judged)
    found = [verdict(group, batch, standardize=True) for group in all_judged]
    raw = [s for group in all_judged for b in group.pass_scores for s in b.scores]
    for judge in (0, 1):
        own = [one.by_judge[judge] for v in found for one in v.rollouts]
        assert fsum(own) / len(own) == pytest.approx(fsum(raw) / len(raw), abs=0.01)
        assert stdev(own) == pytest.approx(stdev(raw), abs=0.02)
    assert all(0 <= s <= 1 for v in found for s in v.scores if s is not None)


def test_standardize_is_for_panels() -> None:
    """One judge, a judge that gives one score to all, and the judge of an escalation: no scale is made up."""
    one = judged(ballot([0.1, 0.9]))
    assert verdict(one, batch_of(one), standardize=True).scores == (0.1, 0.9)
    flat = judged(ballot([0.1, 0.9]), ballot([0.3, 0.3], 0, 1), judges=2)
    found = verdict(flat, batch_of(flat), standardize=True)
    assert [one.by_judge[1] for one in found.rollouts] == pytest.approx([0.4, 0.4])
    strong = [ballot([0.6, 0.7], turn, 2) for turn in range(2)]
    final = judged(ballot([0.2, 0.8]), ballot([0.1, 0.2], 0, 1), *strong, judges=2, escalated_to=2)
    assert verdict(final, batch_of(final), standardize=True).scores == (0.6, 0.7)


# --- rewards and outcomes -------------------------------------------------------------------------


@given(groups(), st.floats(0, 1))
def test_blend_is_the_weighted_mean(group: GroupResult, share: float) -> None:
    """The score is share · judge + (1 − share) · reward for each rollout, also for duplicates."""
    found, plain = verdict(group, blend=share), verdict(group)
    assert [one.judge_score for one in found.rollouts] == list(plain.scores)
    for score, own, reward in zip(found.scores, plain.scores, group.rewards, strict=True):
        assert (score is None) is (own is None)
        if score is not None and own is not None and reward is not None:
            assert score == pytest.approx(share * own + (1 - share) * reward)
    assert verdict(group, blend=1.0).scores == plain.scores


@pytest.mark.parametrize("reward", [-1.0, 1.5, 1e300])
def test_blend_mixes_no_scales(reward: float) -> None:
    """A reward outside 0 to 1 fails the group, which says which, rather than make a score of no scale."""
    found = failure(judged(ballot([0.1, 0.9]), rewards=(1.0, reward)), blend=0.5)
    assert found.kind == "input"
    assert found.reason.startswith(f"--blend: rollout 2 has the reward {reward:g}, and scores go from 0 to 1")


@given(groups(), st.none() | st.floats(0, 1))
def test_what_failed_never_outranks_what_passed(group: GroupResult, blend: float | None) -> None:
    """With --order-by-outcome no failed rollout is above a passed one, whatever was mixed in before."""
    found = verdict(group, by_outcome=True, blend=blend)
    pairs = list(zip(found.scores, group.outcomes, strict=True))
    for (one, good), (other, bad) in [*combinations(pairs, 2), *combinations(pairs[::-1], 2)]:
        if one is not None and other is not None and good is True and bad is False:
            assert one >= other
    assert [one.judge_score for one in found.rollouts] == list(verdict(group).scores)


@pytest.mark.parametrize("passes", [1, 2])
def test_what_an_outcome_levels_is_a_tie(passes: int) -> None:
    """Scores that the outcome makes equal are no signal any more, though the judge told them apart."""
    said = [ballot([0.1, 0.9], t) for t in range(passes)]
    group = judged(*said, outcomes=(True, False))
    found = verdict(group, by_outcome=True)
    assert (found.tied, found.one_score, found.weight) == (True, False, 0.0)
    assert not verdict(group).tied
    assert not verdict(judged(*said, outcomes=(False, True)), by_outcome=True).tied
    same = judged(ballot([0.4]), owner=(0, 0), outcomes=(True, False))
    assert not verdict(same, by_outcome=True, single="score").tied


rated = st.lists(st.tuples(st.none() | scores, st.sampled_from([None, False, True])), min_size=1, max_size=12)


def far(before: Sequence[float | None], after: Sequence[float | None]) -> float:
    """The sum of squared changes."""
    return sum((a - b) ** 2 for a, b in zip(before, after, strict=True) if a is not None and b is not None)


@given(rated, st.lists(st.floats(0, 1), min_size=12, max_size=12), st.floats(0, 1))
def test_the_order_by_outcome_is_the_nearest(
    pairs: list[tuple[float | None, bool | None]], others: list[float], line: float
) -> None:
    """Of all scores in which what failed is not above what passed it has the least change, and no more."""
    before, outcomes = [s for s, _ in pairs], [o for _, o in pairs]
    after = ordered(before, outcomes)
    assert ordered(after, outcomes) == after
    assert all(now == was for was, now, o in zip(before, after, outcomes, strict=True) if o is None)
    for these in (others[: len(pairs)], [0.0 if s is None else s for s in before]):
        rows = zip(before, outcomes, these, strict=True)
        kept = [
            s if s is None or o is None else max(other, line) if o else min(other, line)
            for s, o, other in rows
        ]
        assert far(before, after) <= far(before, kept) + 1e-12


# --- windows --------------------------------------------------------------------------------------


def windowed(seed: int, bodies: int = 24, windows: int = 4, judge: int = 0) -> list[PassScores]:
    """Two passes over windows, each with a level of its own."""
    rng = random.Random(seed)
    said = []
    for turn in range(2):
        order = rng.sample(range(bodies), bodies)
        for window in range(windows):
            shown = order[window::windows]
            level = rng.gauss(0, 0.1)
            given = [min(1, max(0, 0.2 + 0.6 * body / bodies + level + rng.gauss(0, 0.02))) for body in shown]
            said.append(ballot(given, turn, judge, window=window, bodies=shown))
    return said


@pytest.mark.parametrize("judges", [1, 2])
def test_windows_of_one_score_each_are_a_tie(judges: int) -> None:
    """A judge that gives each window one score, whichever, has told no two rollouts apart."""
    said = [
        replace(one, scores=(level,) * len(one.scores))
        for judge in range(judges)
        for one, level in zip(windowed(1, judge=judge), (0.2, 0.9, 0.5, 0.5, 0.7, 0.1, 0.3, 1.0), strict=True)
    ]
    found = verdict(judged(*said, size=24, windows=4, judges=judges))
    assert (found.tied, found.one_score, found.weight) == (True, True, 0.0)
    some = verdict(judged(*windowed(1), size=24, windows=4))
    assert (some.tied, some.one_score) == (False, False)


def test_windows_come_to_one_order() -> None:
    """Levels of windows are taken out of scores and spread, and the order is found through them."""
    found = verdict(judged(*windowed(5), size=24, windows=4))
    got = [score for score in found.scores if score is not None]
    inverted = sum(a > b for a, b in combinations(got, 2))
    assert inverted < 25  # of 276 pairs
    spread = [one.spread for one in found.rollouts if one.spread is not None]
    assert len(spread) == 24
    assert sum(spread) / 24 < 0.06
    assert found.reliability is not None
    assert (found.passes, found.tied, found.reliability > 0.8) == (2, False, True)
    assert all(len(one.positions) == 2 for one in found.rollouts)


def test_a_lost_window_of_many_is_borne() -> None:
    """Where every rollout was seen at least once, there are scores and a reliability."""
    lost = FailedCall(0, 1, 3, GroupError("transport", "gone"))
    found = verdict(judged(*windowed(5)[:-1], lost, size=24, windows=4))
    assert (found.degraded, found.passes) == (True, 1)
    assert None not in found.scores
    assert sum(one.spread is None for one in found.rollouts) == 6
    assert found.reliability is not None
