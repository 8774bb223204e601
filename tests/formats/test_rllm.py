"""rLLM's episodes."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.marking import marked, sample, without
from tests.values import line, read, reader, talk


def trajectory(*conversations: Any, name: str = "solver", reward: Any = 1.0) -> dict[str, Any]:
    """A trajectory whose steps recorded these conversations."""
    steps = [{"chat_completions": c, "reward": 0.0} for c in conversations or (talk("4"),)]
    return {"name": name, "uid": "u", "reward": reward, "steps": steps}


def episode(*trajectories: Any, **changed: Any) -> dict[str, Any]:
    """An episode of a training step."""
    record = {"training_step": 4, "episode_id": "t:1", "task": {"id": "t"}, "task_hash": "9f"}
    return {**record, "is_correct": True, "trajectories": list(trajectories), **changed}


def test_reading() -> None:
    """The last step's conversation is the whole one; reward and verdict are read."""
    (rollout,) = read(episode(trajectory(talk("4")[:1], talk("4"))))[0].rollouts
    assert (rollout.messages, rollout.histories, rollout.path) == (talk("4"), (), ("trajectories", 0))
    assert (rollout.reward, rollout.outcome, rollout.member) == (1.0, True, None)


def test_steps_apart() -> None:
    """A step's conversation that the last one does not continue is a further part of the rollout."""
    (rollout,) = read(episode(trajectory(talk("a"), talk("b"))))[0].rollouts
    assert (rollout.messages, rollout.histories) == (talk("b"), (talk("a"),))


def test_names() -> None:
    """Trajectories of several names are one rollout; several of one name are rollouts of their own."""
    parts = read(episode(trajectory(), trajectory(name="judge")))[0].rollouts
    assert [r.member for r in parts] == ["t:1", "t:1"]
    assert [r.member for r in read(episode(trajectory(), trajectory()))[0].rollouts] == [None, None]


def test_key() -> None:
    """The task in its training step; the eval store has a task alone."""
    one, later, other = read(
        *(episode(trajectory(), **c) for c in ({}, {"training_step": 5}, {"task_hash": "a"}))
    )
    assert len({one.key, later.key, other.key}) == 3
    stored = {"id": "x:1", "eval_idx": 0, "is_correct": False, "trajectories": [trajectory()]}
    assert read({**stored, "task": {"id": "t"}})[0].key == "t"
    asked = [
        read({**stored, "id": i, "task": {"q": q}})[0].key for i, q in (("x:1", 1), ("x:2", 1), ("y", 2))
    ]
    assert asked[0] == asked[1] != asked[2]


@pytest.mark.parametrize("trajectories", [[], None])
def test_failed(trajectories: Any) -> None:
    """A workflow that failed before its first trajectory is told as that."""
    with pytest.raises(UnreadableError, match="no `trajectories`"):
        reader(episode(trajectory())).read(line(episode(trajectories=trajectories)))


@pytest.mark.parametrize("broken", [7, {}, {"steps": []}, {"steps": [7]}, trajectory([])])
def test_not_recorded(broken: Any) -> None:
    """A trajectory without recorded messages is told, and stops no other of its episode."""
    with pytest.raises(UnreadableError, match="no `chat_completions`"):
        read(episode(broken))
    (found,) = read(episode(broken, trajectory()))
    assert [r.fault is None for r in found.rollouts] == [False, True]


def test_written_back() -> None:
    """Only the trajectory's `reward` and `metadata` change, not those of its steps or of the episode."""
    assert len({r.key for r in read(*sample("rllm"))}) == 2
    for record in sample("rllm"):
        done = marked(record)
        reward, free = ("trajectories", 0, "reward"), ("trajectories", 0, "metadata")
        assert without(done, reward, free) == without(record, reward)
        (inner,) = done["trajectories"]
        assert (inner["reward"], inner["metadata"].keys()) == (0.5, {"ruler"})
