"""ATIF trajectories."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.scoring.render import render
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read


def one(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A trajectory; without steps a question and an answer."""
    asked = {"step_id": 1, "source": "user", "message": "Fix it."}
    answer = {"step_id": 2, "source": "agent", "message": "Fixed."}
    return {
        "schema_version": "ATIF-v1.8",
        "agent": {"name": "a", "version": "1"},
        "steps": [*steps] or [asked, answer],
        **more,
    }


def test_reading() -> None:
    """Without a task id the group is what stands before the first agent step; tools are the agent's."""
    groups = keyed(*sample("atif"))
    assert [said(rollouts) for rollouts in groups.values()] == [
        ["Platform 4, at 22:10.", "Platform 7, I think."],
        ["8 by 6 tiles: 48.", "2.4 × 1.8 = 4.32 m², so 43 tiles."],
    ]
    first = next(iter(groups.values()))[0]
    assert first.tools[0]["function"]["name"] == "timetable"
    assert render(first.messages)[2:] == [
        'assistant thinking: "A look first."\nassistant: "Let me see."\ncall timetable: {"to":"Tromsø"}',
        'tool timetable: "22:10 platform 4"',
        'assistant: "Platform 4, at 22:10."',
    ]
    assert list(keyed(*sample("atif"), group_by="extra.task_id")) == ["train", "tiles"]


def test_session_is_no_key() -> None:
    """A session is the run's, never the group's, and joins nothing by itself."""
    records = [one(session_id="s"), one(session_id="s")]
    ((rollouts),) = keyed(*records).values()
    assert [r.member for r in rollouts] == [None, None]


def test_continued() -> None:
    """A run that is continued in another file is one rollout with what has its session."""
    first = one(session_id="s", continued_trajectory_ref="trajectory.cont-1.json")
    copied = {**one()["steps"][0], "is_copied_context": True}
    second = one(copied, one()["steps"][1], session_id="s")
    ((rollouts),) = keyed(first, second, one(session_id="t")).values()
    assert [r.member for r in rollouts] == ["s", "s", None]


def test_subagents() -> None:
    """What a sub-agent did is a further part of the rollout."""
    deep = one({"step_id": 1, "source": "agent", "message": "Searched."}, trajectory_id="sub")
    (rollout,) = read(one(subagent_trajectories=[deep]))[0].rollouts
    assert [m["content"] for m in rollout.histories[0]] == ["Searched."]


def test_observations() -> None:
    """Results without a call, of a sub-agent, or in parts are shown as results."""
    results = [
        {"content": [{"type": "text", "text": "a"}, {"type": "image", "source": {"path": "x.png"}}]},
        {"subagent_trajectory_ref": [{"trajectory_id": "sub"}]},
        {"content": None},
    ]
    step = {"step_id": 1, "source": "system", "message": "Ran.", "observation": {"results": results}}
    shown = render(read(one(step, one()["steps"][1]))[0].rollouts[0].messages)
    assert shown[1:4] == ['tool: "a\\n[image]"', 'tool: "(a sub-agent\'s work)"', 'tool: ""']


@pytest.mark.parametrize("extra", [{}, {"extra": None}, {"extra": {"task_id": "t"}}])
def test_written(extra: dict[str, Any]) -> None:
    """The model forbids unknown keys, so score and mark go into `extra`."""
    record = one(**extra)
    done = written(record, SCORED)
    assert changed(record, done) <= {"extra", "extra.reward", "extra.ruler"}
    assert done["extra"]["reward"] == 0.625
    assert done["extra"]["ruler"]["independent_reward"] is None
    assert written(record, LOST)["extra"]["reward"] is None
    same_twice(record)
    same_twice(one(extra={"reward": 1.0}))


@pytest.mark.parametrize("steps", [None, [], "x"])
def test_no_steps(steps: Any) -> None:
    """A trajectory without steps says so."""
    with pytest.raises(UnreadableError, match="no steps in `steps`"):
        read({**one(), "steps": steps})
    with pytest.raises(UnreadableError, match=r"`steps\[0\]` is no object"):
        read({**one(), "steps": [7]})
