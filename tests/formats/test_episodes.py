"""Episodes and traces of verifiers and prime-rl."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.prompting.prompt import build_layout
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group
from tests.formats.changes import FAILED, SCORED, written
from tests.values import read, reader, talk

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


def episode(*traces: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """An episode of 0.3.1."""
    record = {
        "id": "e",
        "env": {"id": "x"},
        "task": {**TASK, "key": "k", "hash": "h"},
        "ok": True,
    }
    return {**record, "errors": [], "traces": list(traces), **changed}


def test_roles() -> None:
    """Agents of several roles are one rollout with one score; untrained agents get none."""
    record = episode(
        trace("solver"), trace("user", trainable=False), trace("critic")
    )
    (result,) = read(record)
    assert [(r.path, r.member) for r in result.rollouts] == [
        (("traces", 0), "e"),
        (("traces", 2), "e"),
    ]
    second = read({**record, "id": "f"})[0]
    ask = AskSettings()
    assert len(build_layout(Group("k", (result, second)), ask).owner) == 4
    done = written(record, SCORED)
    assert [t["rewards"].keys() for t in done["traces"]] == [
        {"ruler"},
        WEIGHTED.keys(),
        {"ruler"},
    ]
    assert done["traces"][1] == record["traces"][1]


def test_failed_trace() -> None:
    """A failed trace has the reward `null`, as verifiers writes an absent reward."""
    done = written(episode(trace()), FAILED)["traces"][0]
    assert done["rewards"] == {"ruler": None}
    assert done["info"]["ruler"]["independent_reward"] == WEIGHTED
    again = written(episode(done), SCORED)["traces"][0]
    assert again["rewards"]["ruler"]["score"] == SCORED["score"]
    assert again["info"]["ruler"]["independent_reward"] == WEIGHTED


@pytest.mark.parametrize("more", [{}, {"version": 1}, {"group_id": "g"}])
@pytest.mark.parametrize(
    "rewards", [{"a": {"score": 1.0, "weight": 1.0}}, {"a": 1.0}]
)
def test_format_after_failure(
    rewards: dict[str, Any], more: dict[str, Any]
) -> None:
    """A failed trace keeps its format beside scored ones."""
    nodes = [{"message": talk("4")[0]}, {"parent": 0, "message": talk("4")[1]}]
    trace = {"nodes": nodes, "task": {"key": "t"}, "rewards": rewards, **more}
    scored, failed = written(trace, SCORED), written(trace, FAILED)
    assert reader(scored, failed).format.name == reader(trace).format.name
    assert written(failed, SCORED) == scored
