"""Rollouts of NeMo-Gym."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.values import read, reader, render

MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "72"}],
}
THOUGHT = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Half is 24."}],
}
CALL = {
    "type": "function_call",
    "call_id": "c",
    "name": "calc",
    "arguments": '{"x": 1}',
    "id": None,
}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "72"}


def rollout(
    *output: dict[str, Any], request: Any = "q", **changed: Any
) -> dict[str, Any]:
    """One line of `rollouts.jsonl`."""
    request = request if isinstance(request, dict) else {"input": request}
    record = {
        "responses_create_params": request,
        "response": {"id": "r", "output": list(output)},
    }
    return {**record, "reward": 1.0, **changed}


def rendered(record: dict[str, Any]) -> list[str]:
    """Return the lines that a judge reads."""
    return render(read(record)[0].rollouts[0].messages)


def test_items() -> None:
    """Reasoning, calls, results and messages of the output keep their order."""
    assert rendered(rollout(THOUGHT, CALL, RESULT, MESSAGE)) == [
        'user: "q"',
        'assistant thinking: "Half is 24."',
        'call calc: {"x":1}',
        'tool calc: "72"',
        'assistant: "72"',
    ]


def test_input() -> None:
    """The input is a text or a list of items, with the instructions before it as a system message."""
    request = {
        "input": [{"role": "user", "content": "q", "type": "message"}],
        "instructions": "Be brief.",
    }
    assert rendered(rollout(MESSAGE, request=request))[:2] == [
        'system: "Be brief."',
        'user: "q"',
    ]
    assert (
        rendered(rollout(MESSAGE, request={"input": "q", "instructions": None}))[0]
        == 'user: "q"'
    )


def test_unknown_item() -> None:
    """The judge reads an item of an unknown kind whole."""
    item = {
        "type": "web_search_call",
        "id": "ws",
        "status": "completed",
        "action": {"query": "clips"},
    }
    assert rendered(rollout(item, MESSAGE))[1] == (
        'assistant: "{\\"type\\":\\"web_search_call\\",\\"action\\":{\\"query\\":\\"clips\\"}}"'
    )


def test_tools() -> None:
    """The request's tools are the rollout's."""
    record = rollout(
        MESSAGE, request={"input": "q", "tools": [{"type": "function", "name": "calc"}]}
    )
    assert read(record)[0].rollouts[0].tools == [{"type": "function", "name": "calc"}]


def test_key() -> None:
    """The task's index is the group key, even if it is 0."""
    assert [
        r.key for r in read(rollout(MESSAGE, _ng_task_index=0, _ng_rollout_index=3))
    ] == ["0"]


def test_no_index() -> None:
    """Without an index, rollouts with the same whole input are a group."""
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    more = [*turns, {"role": "user", "content": "r"}]
    one, same, other, instructed = read(
        rollout(MESSAGE, request={"input": turns}),
        rollout(THOUGHT, MESSAGE, request={"input": turns, "temperature": 1}),
        rollout(MESSAGE, request={"input": more}),
        rollout(MESSAGE, request={"input": turns, "instructions": "Be brief."}),
    )
    assert one.key == same.key
    assert len({one.key, other.key, instructed.key}) == 3


def test_environments() -> None:
    """The agent's name belongs to the key, because each environment numbers its tasks anew."""
    one, other = {"agent_ref": {"name": "math"}}, {"agent_ref": {"name": "chess"}}
    lines = [rollout(MESSAGE, _ng_task_index=0, **more) for more in (one, other, one)]
    keys = [r.key for r in read(*lines)]
    assert keys[0] == keys[2] != keys[1]
    assert [r.key for r in read(rollout(MESSAGE, task_idx=4, agent_ref=None))] == ["4"]


@pytest.mark.parametrize("empty", [[], "", None])
def test_task_in_metadata(empty: Any) -> None:
    """An empty input takes its task from the metadata, and leaves out the solution there."""
    metadata = {
        "problem_statement": "Fix it.",
        "instance_dict": '{"patch": "solved"}',
        "patch": "solved",
    }
    record = rollout(
        MESSAGE, request={"input": empty, "metadata": metadata}, model_patch="mine"
    )
    assert rendered(record) == [
        'user: "Fix it."',
        'assistant: "72"',
        'submission: "mine"',
    ]
    other = rollout(
        MESSAGE,
        request={"input": empty, "metadata": {"problem_statement": "Fix that."}},
    )
    assert len({r.key for r in read(record, other)}) == 2
    given = rollout(MESSAGE, request={"input": "q", "metadata": metadata})
    assert rendered(given) == ['user: "q"', 'assistant: "72"']


def test_task_in_output() -> None:
    """An output may begin with the task, which then distinguishes groups."""
    task = {"type": "message", "role": "user", "content": "Count."}
    given = {"input": [], "metadata": {"problem_statement": "Count well."}}
    assert rendered(rollout(task, MESSAGE, request=given)) == [
        'user: "Count."',
        'assistant: "72"',
    ]
    other = {**task, "content": "Count on."}
    lines = [rollout(first, MESSAGE, request={"input": []}) for first in (task, other)]
    assert len({r.key for r in read(*lines)}) == 2
    with pytest.raises(UnreadableError, match="no group key"):
        read(
            rollout(task, MESSAGE, request={"input": []}),
            rollout(MESSAGE, request={"input": []}),
        )


def test_transitions() -> None:
    """An output of lists repeats earlier messages, so only lists that no other continues are histories."""
    task = {"type": "message", "role": "user", "content": "Count."}
    steps: Any = [[task, CALL], [task, CALL, RESULT, MESSAGE]]
    assert rendered(rollout(*steps, request={"input": []}))[1:] == [
        'call calc: {"x":1}',
        'tool calc: "72"',
        'assistant: "72"',
    ]
    apart: Any = [[task, THOUGHT], [task, MESSAGE]]
    (result,) = read(rollout(*apart, request={"input": []}))[0].rollouts
    assert (result.messages, result.histories) == (apart[1], (apart[0],))


def test_materialized_inputs() -> None:
    """The materialized inputs, which hold no response, are refused."""
    with pytest.raises(UsageError, match="holds no rollouts"):
        reader({"responses_create_params": {"input": []}, "_ng_task_index": 0})
