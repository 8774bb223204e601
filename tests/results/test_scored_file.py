"""The annotations of a scored file, as values and as counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruler_cli.results.annotations import AnnotationReader, label_of
from ruler_cli.results.record import GroupRecord
from ruler_cli.types import Group
from tests.formats.test_every_format import annotations_in, each_layout, scored
from tests.results.select_values import annotated_groups
from tests.values import read, reader, talk


def annotation(score: Any, **more: Any) -> dict[str, Any]:
    """An annotation as `score` writes it."""
    return {
        "status": "scored",
        "score": score,
        "judge": "m",
        "independent_reward": 1.0,
        **more,
    }


def trajectory(ruler: Any, **more: Any) -> dict[str, Any]:
    """A trajectory of group g."""
    return {
        "group_id": "g",
        "messages": talk("four"),
        "reward": 0.1,
        "ruler": ruler,
        **more,
    }


def of(*records: dict[str, Any], **reported: Any) -> GroupRecord:
    """Read these records as one group."""
    result = read(*records, **reported)
    return AnnotationReader(
        reader(*records, **reported), at_path="outcome" in reported
    ).group(Group(str(result[0].key), tuple(result)))


@each_layout
def test_every_layout(name: str, tmp_path: Path) -> None:
    """Scores, explanations and first rewards that `score` writes are read back, in every format."""
    _, after = scored(name, tmp_path)
    written = [part for record in after for part in annotations_in(record)]
    groups = annotated_groups(tmp_path / "out.jsonl")
    for result in groups:
        assert (result.status, result.judge) == ("scored", "simulated")
        assert (result.passes, result.usage["calls"]) == (1, 1)
    rollouts = [rollout for result in groups for rollout in result.rollouts]
    read_back = {(rollout.score, rollout.explanation) for rollout in rollouts}
    assert read_back == {
        (part["score"], part["explanation"]) for part in written
    }
    first = {label_of(part["independent_reward"]) for part in written}
    assert first - {None} <= {rollout.label for rollout in rollouts}
    sourced = {
        rollout.label
        for rollout in rollouts
        if rollout.label_source == "reward"
    }
    assert sourced <= first


def test_trajectory_lines() -> None:
    """Every field of an annotation is read, and the group's part from the first rollout that has it."""
    part = {
        "status": "scored", "judge": "m", "passes": 2, "tied": False, "reliability": 0.75, "weight": 0.5,
        "cost_usd": 0.25, "latency_s": 1.5,
    }  # fmt: skip
    usage = {"calls": 2, "prompt_tokens": 30, "completion_tokens": 20}
    more_of_group = {
        "usage": usage,
        "cached": True,
        "judged_at": "2026-11-21T02:14:05Z",
    }
    row = {
        "judge_score": 0.4,
        "spread": 0.1,
        "explanation": "good",
        "suspect": True,
    }
    placed = {
        "slots": [0, 1],
        "judges": [
            {"judge": "a", "score": 0.3},
            {"judge": "b", "score": 0.7},
        ],
        "group": part | more_of_group,
    }
    result = of(
        trajectory(annotation(0.5, **row, **placed), reward=0.5),
        trajectory(annotation(0.75, group=part | more_of_group)),
    )
    first = result.rollouts[0]
    assert {name: getattr(first, name) for name in row} == row
    assert (first.status, first.score, first.label) == ("scored", 0.5, 1.0)
    assert (first.slots, first.mean_position) == ((0.0, 1.0), 0.5)
    assert first.panel == {"a": 0.3, "b": 0.7}
    assert first.size == len(b'[{"role":"assistant","content":"four"}]')
    assert {name: getattr(result, name) for name in part} == part
    assert result.usage | usage == result.usage
    assert result.time == 1795227245.0
    assert result.flags == ("suspect", "cached")


def test_failed_and_unmarked() -> None:
    """A group is failed if its annotation has no score, and unmarked if it has no annotation."""
    lost = {
        "status": "failed",
        "kind": "refused",
        "reason": "no",
        "independent_reward": 1,
    }
    result = of(
        trajectory(lost | {"group": lost}, reward=None),
        trajectory(lost, reward=None),
    )
    assert (result.status, result.kind, result.reason) == (
        "failed",
        "refused",
        "no",
    )
    assert [(r.status, r.kind, r.reason, r.label) for r in result.rollouts] == [
        ("failed", "refused", "no", 1.0)
    ] * 2
    plain = of({"group_id": "g", "messages": talk("x"), "reward": 0.5})
    assert (plain.status, plain.kind, plain.rollouts[0].status) == (
        "unmarked",
        "",
        "unmarked",
    )
    part = of(trajectory(annotation(0.5)), trajectory(lost))
    assert (part.status, part.kind, part.scores) == ("scored", "", (0.5,))


ODD: list[Any] = [
    "0.5",
    [0.5],
    {},
    True,
    float("nan"),
    float("inf"),
    10**400,
    1e60,
    "x" * 10**5,
    -(10**30),
]


def test_invalid_score() -> None:
    """A score that is no finite number is read as none, and its rollout as failed for that reason."""
    for odd in (*ODD[:-1], None):
        first, second = of(
            trajectory(annotation(odd)), trajectory(annotation(0.5))
        ).rollouts
        assert (first.status, first.score, first.judge_score) == (
            "failed",
            None,
            None,
        )
        assert first.odd_score
        assert (first.kind, first.reason) == (
            "unknown",
            "its score is not a number",
        )
        assert (second.status, second.score) == ("scored", 0.5)
        moved = of(
            trajectory(
                annotation(0.5, judge_score="no" if odd is None else odd)
            )
        ).rollouts[0]
        assert (moved.score, moved.judge_score, moved.odd_score) == (
            0.5,
            None,
            True,
        )


def test_invalid_group_part() -> None:
    """An impossible cost, time, share or count is unknown, and never zero."""
    names = (
        "reliability",
        "weight",
        "cost_usd",
        "latency_s",
        "judged_at",
        "passes",
        "tied",
        "usage",
    )
    for odd in ODD:
        result = of(
            trajectory(annotation(0.5, group=dict.fromkeys(names, odd)))
        )
        reported = (
            result.reliability,
            result.weight,
            result.cost_usd,
            result.latency_s,
            result.time,
            result.passes,
        )
        assert reported == (None,) * 6
        assert result.usage["calls"] == 0
        assert result.tied is (odd is True)
        assert of(trajectory(annotation(0.5, group=odd))).cost_usd is None


def part(uid: str, score: float, reward: Any) -> dict[str, Any]:
    """A scored part of a rollout, as its framework names it."""
    reported = annotation(score, independent_reward=reward)
    return {
        "input": "user\nhi",
        "output": uid,
        "score": score,
        "step": 1,
        "uid": uid,
        "ruler": reported,
    }


def test_parts() -> None:
    """Parts of one rollout have one score, the size of all, and the last label."""
    records = [
        part("task_0_0", 0.25, None),
        part("task_1_0", 0.5, 0.0),
        part("task_0_1", 0.25, 1.0),
    ]
    result = of(*records)
    assert [r.indices for r in result.rollouts] == [(0, 2), (1,)]
    assert [(r.score, r.label) for r in result.rollouts] == [
        (0.25, 1.0),
        (0.5, 0.0),
    ]
    assert result.rollouts[0].size > result.rollouts[1].size


def test_labels() -> None:
    """A label is the first reward, else the outcome; a reward written by ruler is no label."""
    mine = of(
        trajectory(annotation(0.5, independent_reward=None), reward=0.5),
        trajectory(annotation(0.5, independent_reward=0), reward=0.5),
        trajectory(annotation(0.5, independent_reward="maybe"), reward=0.5),
    )
    assert [(r.label, r.label_source) for r in mine.rollouts] == [
        (None, ""),
        (0.0, "reward"),
        (None, "reward"),
    ]
    inputs = of(
        trajectory(annotation(0.5), ok="passed"),
        trajectory(annotation(0.5)),
        outcome="ok",
    )
    assert [(r.label, r.label_source) for r in inputs.rollouts] == [
        (1.0, "given"),
        (None, ""),
    ]
