"""Marks, labels, places and costs as scored files hold them."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.agreement.scored import Extract, Scored, Seen
from ruler_cli.marked.read import MOST_JUDGES
from ruler_cli.records import Group
from tests.values import read, reader, talk


def mark(score: Any, **more: Any) -> dict[str, Any]:
    """A mark as `score` writes it."""
    return {"status": "scored", "score": score, "judge": "m", "independent_reward": 1.0, **more}


def trajectory(ruler: Any, **more: Any) -> dict[str, Any]:
    """A trajectory of group g."""
    return {"group_id": "g", "messages": talk("four"), "reward": 0.1, "ruler": ruler, **more}


def of(*records: dict[str, Any], prints: bool = False, **told: Any) -> tuple[Scored, Seen]:
    """These records as one group."""
    extract = Extract(reader(*records, **told), given="outcome" in told, prints=prints)
    found = read(*records, **told)
    return extract.group(Group(str(found[0].key), tuple(found))), extract.seen


def test_a_trajectory_per_line() -> None:
    """Score, first reward, mean place, and the cost of the group, once."""
    group = {"cost_usd": 0.25}
    found, seen = of(
        trajectory(mark(0.5, slots=[0, 0.5], group=group)),
        trajectory(mark(0.75, slots=[1, 0.5], group=group, independent_reward=0)),
    )
    assert found.scores == (0.5, 0.75)
    assert found.labels == (1.0, 0.0)
    assert found.places == (0.25, 0.75)
    assert found.cost == 0.25
    assert found.sizes[0] == len(b'[{"role":"assistant","content":"four"}]')
    assert (seen.groups, seen.rollouts, seen.scored, seen.complete) == (1, 2, 2, True)
    assert seen.names == {"m": 2}


def test_the_judges_own() -> None:
    """Where an outcome or a reward moved a score, what the judge said counts: the score holds its label."""
    found, seen = of(trajectory(mark(0.9, judge_score=0.4)), trajectory(mark(0.5)))
    assert found.scores == (0.4, 0.5)
    assert (seen.moved, seen.scored) == (1, 2)


def test_a_group_per_line() -> None:
    """The group's part stands on the record."""
    rollouts = [{"messages": talk(t), "reward": 0.5, "ruler": mark(0.5)} for t in "ab"]
    record = {"group_id": "g", "trajectories": rollouts, "ruler": {"status": "scored", "cost_usd": 2}}
    found, _ = of(record)
    assert (found.key, found.cost, found.scores) == ("g", 2.0, (0.5, 0.5))


def test_failures_are_no_zeros() -> None:
    """What failed, has no mark or no label is counted and has no number."""
    failed = {"status": "failed", "kind": "refused", "reason": "no", "independent_reward": 1}
    found, seen = of(
        trajectory(failed, reward=None),
        {"group_id": "g", "messages": talk("x"), "reward": 0.5},
        trajectory(mark(0.5, independent_reward=None), reward=0.5),
        trajectory(mark(0.5, independent_reward="maybe")),
    )
    assert found.scores == (None, None, 0.5, 0.5)
    assert found.labels == (1.0, 0.5, None, None)
    assert (seen.failed, seen.unmarked, seen.unlabelled, seen.odd_labels) == (1, 1, 1, 1)
    assert not seen.complete


def test_labels_of_the_users_own() -> None:
    """A path leads into the rollout; words are labels."""
    given: list[Any] = ["passed", False, None, [{}]]
    records = [trajectory(mark(0.5), metadata={"ok": ok}) for ok in given]
    found, seen = of(*records, outcome="metadata.ok")
    assert found.labels == (1.0, 0.0, None, None)
    assert (seen.unlabelled, seen.odd_labels) == (1, 1)


@pytest.mark.parametrize(
    "odd", ["0.5", [0.5], {}, None, True, float("nan"), float("inf"), 10**400, 1e60, "x" * 10**5]
)
def test_odd_scores(odd: Any) -> None:
    """A score that is no finite number is counted, and none."""
    found, seen = of(trajectory(mark(odd)), trajectory(mark(0.5, judges={"a": odd, "b": 0.5})))
    assert found.scores == (None, 0.5)
    assert seen.odd_scores == 1
    assert found.judges == {"a": (None, None), "b": (None, 0.5)}


@pytest.mark.parametrize("odd", ["0.5", {}, [], [{}], ["a"], [None, 0.5], [2], [-1], [float("nan")], 3, True])
def test_odd_places(odd: Any) -> None:
    """Slots that are no places are as if they were not told."""
    assert of(trajectory(mark(0.5, slots=odd)))[0].places == (None,)


@pytest.mark.parametrize("odd", ["0.25", -1, float("nan"), 10**400, [1], {}, True])
def test_odd_costs(odd: Any) -> None:
    """A cost that is none is not known, and counted."""
    found, seen = of(trajectory(mark(0.5, group={"cost_usd": odd})))
    assert found.cost is None
    assert seen.odd_costs == 1
    assert of(trajectory(mark(0.5, group=odd)))[0].cost is None


def test_odd_panels() -> None:
    """A panel that is no object is none; of very many judges the first few count, the rest is counted."""
    assert of(trajectory(mark(0.5, judges=["a"])))[0].judges == {}
    found, seen = of(trajectory(mark(0.5, judges={str(i): 0.5 for i in range(100)})))
    assert len(found.judges) == MOST_JUDGES
    assert seen.more_judges == 100 - MOST_JUDGES
    assert not seen.complete


def test_odd_judges() -> None:
    """A judge's name that is no text is not told."""
    assert of(trajectory(mark(0.5, judge=["a"])))[1].names == {}


def test_rounding_makes_no_order() -> None:
    """Means that differ in their last binary digit are one score."""
    found, _ = of(trajectory(mark(0.1 + 0.2)), trajectory(mark(0.3)))
    assert len(set(found.scores)) == 1


def test_prints() -> None:
    """Rollouts are known again by their messages, whatever was written beside them."""
    one, _ = of(trajectory(mark(0.5)), prints=True)
    same, _ = of(trajectory(mark(0.9), logs=["x"]), prints=True)
    other, _ = of(trajectory(mark(0.5)) | {"messages": talk("five")}, prints=True)
    assert one.prints == same.prints != other.prints
    assert of(trajectory(mark(0.5)))[0].prints == ()


def test_parts_are_one_rollout() -> None:
    """Records that are parts of one rollout have one score, and the length of all."""
    uids = ["task_0_0", "task_0_1", "task_1_0"]
    records = [
        {
            "input": "user\nhi",
            "output": f"answer {i}",
            "score": 0.5,
            "step": 1,
            "uid": uid,
            "ruler": mark(0.25),
        }
        for i, uid in enumerate(uids)
    ]
    found, seen = of(*records)
    assert found.scores == (0.25, 0.25)
    assert found.sizes[0] > found.sizes[1]
    assert seen.rollouts == 2


def test_a_label_on_the_last_part() -> None:
    """The label of a rollout in parts is the last that any of them has, as for `score`."""
    records = [
        {
            "input": "user\nhi",
            "output": f"answer {uid}",
            "score": 0.25,
            "step": 1,
            "uid": uid,
            "ruler": mark(0.25, independent_reward=reward),
        }
        for uid, reward in [("task_0_0", None), ("task_0_1", 0.0), ("task_1_0", None), ("task_1_1", 1.0)]
    ]
    found, seen = of(*records)
    assert (found.labels, seen.unlabelled) == ((0.0, 1.0), 0)


def part(uid: str, score: float, reward: Any, **more: Any) -> dict[str, Any]:
    """A part of a rollout as a dump names it, scored."""
    scored = mark(score, independent_reward=reward)
    return {
        "input": "user\nhi",
        "output": uid,
        "score": score,
        "step": 1,
        "uid": uid,
        "ruler": scored,
        **more,
    }


def test_a_label_that_equals_the_score() -> None:
    """A label on the last part counts also where the judge's score is the same number."""
    found, seen = of(part("task_0_0", 1.0, None), part("task_0_1", 1.0, 1.0), part("task_1_0", 0.5, 0.0))
    assert (found.labels, seen.unlabelled) == ((1.0, 0.0), 0)


def test_a_part_with_another_field() -> None:
    """A later part takes the label over only where it has one in the field that labels are read from."""
    records = [
        part("task_0_0", 0.5, 0.0, ok=True),
        part("task_0_1", 0.5, 0.0),
        part("task_1_0", 0.5, 0.0, ok=False),
    ]
    found, seen = of(*records, outcome="ok")
    assert (found.labels, seen.unlabelled) == ((1.0, 0.0), 0)
