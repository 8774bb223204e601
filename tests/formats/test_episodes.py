"""Episodes and traces of verifiers and prime-rl."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.prompting.prompt import build_layout
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group
from tests.formats.changes import FAILED, SCORED, written
from tests.values import read, reader, render, talk

TASK = {"type": "T", "data": {"idx": 0, "prompt": "q"}}
WEIGHTED = {
    "correct": {"score": 1.0, "weight": 1.0},
    "style": {"score": 0.5, "weight": 0.2},
}


def node(
    text: str, parent: int | None = None, role: str = "assistant"
) -> dict[str, Any]:
    """A message of the graph; the root has no `parent`."""
    message = {
        "message": {"role": role, "content": text},
        "sampled": role == "assistant",
    }
    return message if parent is None else {"parent": parent, **message}


NODES = [node("q", None, "user"), node("a", 0)]


def trace(
    name: str = "agent", *, trainable: bool = True, **changed: Any
) -> dict[str, Any]:
    """A trace of 0.3."""
    agent = {"config": {}, "name": name, "trainable": trainable}
    record = {
        "version": 1,
        "id": name,
        "task": TASK,
        "agent": agent,
        "nodes": NODES,
        "rewards": WEIGHTED,
    }
    return {**record, "metrics": {}, "info": {}, **changed}


def old_trace(**changed: Any) -> dict[str, Any]:
    """A trace of 0.2."""
    record = {
        "id": "t",
        "task": TASK,
        "nodes": NODES,
        "rewards": {"correct": 1.0},
        "metrics": {},
    }
    return {**record, "info": {}, "errors": [], **changed}


def episode(*traces: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """An episode of 0.3.1."""
    record = {
        "id": "e",
        "env": {"id": "x"},
        "task": {**TASK, "key": "k", "hash": "h"},
        "ok": True,
    }
    return {**record, "errors": [], "traces": list(traces), **changed}


def texts(messages: list[Any]) -> list[str]:
    """The contents of messages."""
    return [message["content"] for message in messages]


def test_reading() -> None:
    """Messages come from the graph; tools, rewards and outcome come from the trace."""
    record = read(episode(trace(tools=[{"name": "calc"}])))[0]
    (rollout,) = record.rollouts
    assert (record.key, texts(rollout.messages), rollout.path) == (
        "k",
        ["q", "a"],
        ("traces", 0),
    )
    assert (rollout.tools, rollout.reward, rollout.outcome) == (
        [{"name": "calc"}],
        WEIGHTED,
        1.0,
    )
    assert rollout.member is None


def test_last_leaf() -> None:
    """The path to the last leaf is the conversation; other leaves are histories of the rollout."""
    nodes = [
        *NODES,
        node("b", 1, "user"),
        node("lost", 2),
        node("summary", 0),
        node("end", 4),
    ]
    rollout = read(old_trace(nodes=nodes))[0].rollouts[0]
    assert texts(rollout.messages) == ["q", "summary", "end"]
    assert [texts(history) for history in rollout.histories] == [
        ["q", "a", "b", "lost"]
    ]


def test_call_without_content() -> None:
    """A tool call without `content` is read, with the thought before it."""
    call = {
        "role": "assistant",
        "reasoning_content": "I add.",
        "tool_calls": [{"id": "c", "name": "f"}],
    }
    rollout = read(old_trace(nodes=[NODES[0], {"parent": 0, "message": call}]))[
        0
    ].rollouts[0]
    assert render(rollout.messages)[1] == 'assistant thinking: "I add."\ncall f: null'


def test_roles() -> None:
    """Agents of several roles are one rollout with one score; untrained agents get none."""
    record = episode(trace("solver"), trace("user", trainable=False), trace("critic"))
    (result,) = read(record)
    assert [(r.path, r.member) for r in result.rollouts] == [
        (("traces", 0), "e"),
        (("traces", 2), "e"),
    ]
    other = read({**record, "id": "f"})[0]
    ask = AskSettings()
    assert len(build_layout(Group("k", (result, other)), ask).owner) == 4
    done = written(record, SCORED)
    assert [t["rewards"].keys() for t in done["traces"]] == [
        {"ruler"},
        WEIGHTED.keys(),
        {"ruler"},
    ]
    assert done["traces"][1] == record["traces"][1]


def test_agents_of_an_episode() -> None:
    """Agents of one role are separate rollouts, a broken trace fails alone, one agent is trained."""
    (best,) = read(episode(trace(), trace(nodes=[NODES[0], node("b", 0)])))
    assert [r.member for r in best.rollouts] == [None, None]
    (broken,) = read(episode(trace("solver"), trace("critic", nodes=[])))
    assert [r.error is None for r in broken.rollouts] == [True, False]
    with pytest.raises(UnreadableError, match="`trainable`"):
        read(episode(trace(trainable=False)))


KEY: list[Any] = [
    (episode(trace()), "k"),
    (episode(trace(), task={**TASK, "hash": "h"}), "h"),
    (episode(trace(task={**TASK, "key": "inner"}), task=None), "inner"),
    (old_trace(task={**TASK, "key": "k"}), "k"),
    (episode(trace(), group={"id": "g"}), "g"),
    (old_trace(group_id="g"), "g"),
    (trace(group_id="g"), "g"),
]


def test_key(subtests: pytest.Subtests) -> None:
    """The group's id is the key, or else the task's key or hash, of the episode or its first trace."""
    for record, key in KEY:
        with subtests.test(record=str(record), key=str(key)):
            assert read(record)[0].key == key


def test_equal_tasks() -> None:
    """Without a key, equal tasks are a group."""
    other = {**TASK, "data": {"idx": 1}}
    one, again, second = read(
        old_trace(), old_trace(nodes=[NODES[0], node("b", 0)]), old_trace(task=other)
    )
    assert one.key == again.key != second.key
    inside = read(episode(trace(), task=None))[0]
    assert inside.key == one.key


NAMES: list[Any] = [
    (episode(), "verifiers episodes", True),
    (episode(group={"id": "g"}), "prime-rl episodes", True),
    (trace(), "verifiers traces", True),
    (trace(rewards={}), "verifiers traces", True),
    (trace(rewards={"ruler": None}), "verifiers traces", True),
    (trace(version=2, rewards={"correct": 1.0}), "verifiers traces", False),
    (old_trace(), "verifiers traces", False),
    (old_trace(rewards={}), "verifiers traces", False),
    (old_trace(group_id="g"), "prime-rl traces", False),
    (trace(group_id="g"), "prime-rl traces", True),
]


def test_names(subtests: pytest.Subtests) -> None:
    """Keys tell the framework, and the kind of rewards tells how its version writes them."""
    for record, name, weighted in NAMES:
        with subtests.test(record=str(record), name=str(name)):
            form = reader(record).format
            assert (form.name, b"weight" in form.written) == (name, weighted)


def test_failed_trace() -> None:
    """A failed trace has the reward `null`, as verifiers writes an absent reward."""
    done = written(episode(trace()), FAILED)["traces"][0]
    assert done["rewards"] == {"ruler": None}
    assert done["info"]["ruler"]["independent_reward"] == WEIGHTED
    again = written(episode(done), SCORED)["traces"][0]
    assert again["rewards"]["ruler"]["score"] == SCORED["score"]
    assert again["info"]["ruler"]["independent_reward"] == WEIGHTED


@pytest.mark.parametrize("more", [{}, {"version": 1}, {"group_id": "g"}])
@pytest.mark.parametrize("rewards", [{"a": {"score": 1.0, "weight": 1.0}}, {"a": 1.0}])
def test_format_after_failure(rewards: dict[str, Any], more: dict[str, Any]) -> None:
    """A failed trace keeps its format beside scored ones."""
    nodes = [{"message": talk("4")[0]}, {"parent": 0, "message": talk("4")[1]}]
    trace = {"nodes": nodes, "task": {"key": "t"}, "rewards": rewards, **more}
    scored, failed = written(trace, SCORED), written(trace, FAILED)
    assert reader(scored, failed).format.name == reader(trace).format.name
    assert written(failed, SCORED) == scored
