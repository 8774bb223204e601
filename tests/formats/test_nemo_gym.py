"""NeMo-Gym's rollouts."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.prompting.render import render
from tests.values import read, reader

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "72"}]}
THOUGHT = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Half is 24."}]}
CALL = {"type": "function_call", "call_id": "c", "name": "calc", "arguments": '{"x": 1}', "id": None}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "72"}


def rollout(*output: dict[str, Any], asked: Any = "q", **changed: Any) -> dict[str, Any]:
    """One line of `rollouts.jsonl`."""
    asked = asked if isinstance(asked, dict) else {"input": asked}
    record = {"responses_create_params": asked, "response": {"id": "r", "output": list(output)}}
    return {**record, "reward": 1.0, **changed}


def shown(record: dict[str, Any]) -> list[str]:
    """The lines that a judge reads."""
    return render(read(record)[0].rollouts[0].messages)


def test_items() -> None:
    """Reasoning, calls, results and messages of the output are shown in their order."""
    assert shown(rollout(THOUGHT, CALL, RESULT, MESSAGE)) == [
        'user: "q"',
        'assistant thinking: "Half is 24."',
        'call calc: {"x":1}',
        'tool calc: "72"',
        'assistant: "72"',
    ]


def test_asked() -> None:
    """The input is a text or a list of items; instructions stand before it as the system's message."""
    asked = {"input": [{"role": "user", "content": "q", "type": "message"}], "instructions": "Be brief."}
    assert shown(rollout(MESSAGE, asked=asked))[:2] == ['system: "Be brief."', 'user: "q"']
    assert shown(rollout(MESSAGE, asked={"input": "q", "instructions": None}))[0] == 'user: "q"'


def test_tools_of_the_server() -> None:
    """An item of a kind that is not known is shown whole, not as an empty turn."""
    item = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "clips"}}
    assert shown(rollout(item, MESSAGE))[1] == (
        'assistant: "{\\"type\\":\\"web_search_call\\",\\"action\\":{\\"query\\":\\"clips\\"}}"'
    )


def test_tools() -> None:
    """Tools are those of the request."""
    record = rollout(MESSAGE, asked={"input": "q", "tools": [{"type": "function", "name": "calc"}]})
    assert read(record)[0].rollouts[0].tools == [{"type": "function", "name": "calc"}]


def test_key() -> None:
    """The index of the task is the group, 0 too."""
    assert [r.key for r in read(rollout(MESSAGE, _ng_task_index=0, _ng_rollout_index=3))] == ["0"]


def test_no_index() -> None:
    """Without an index, equal input is a group: all of it, also the messages after an assistant's turn."""
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    more = [*turns, {"role": "user", "content": "r"}]
    one, same, other, instructed = read(
        rollout(MESSAGE, asked={"input": turns}),
        rollout(THOUGHT, MESSAGE, asked={"input": turns, "temperature": 1}),
        rollout(MESSAGE, asked={"input": more}),
        rollout(MESSAGE, asked={"input": turns, "instructions": "Be brief."}),
    )
    assert one.key == same.key
    assert len({one.key, other.key, instructed.key}) == 3


def test_environments() -> None:
    """An index begins anew in each environment: the agent's name belongs to the key."""
    one, other = {"agent_ref": {"name": "math"}}, {"agent_ref": {"name": "chess"}}
    lines = [rollout(MESSAGE, _ng_task_index=0, **more) for more in (one, other, one)]
    keys = [r.key for r in read(*lines)]
    assert keys[0] == keys[2] != keys[1]
    assert [r.key for r in read(rollout(MESSAGE, task_idx=4, agent_ref=None))] == ["4"]


@pytest.mark.parametrize("empty", [[], "", None])
def test_task_in_metadata(empty: Any) -> None:
    """An empty input has its task in the metadata; the solution that stands there too is never shown."""
    metadata = {"problem_statement": "Fix it.", "instance_dict": '{"patch": "solved"}', "patch": "solved"}
    record = rollout(MESSAGE, asked={"input": empty, "metadata": metadata}, model_patch="mine")
    assert shown(record) == ['user: "Fix it."', 'assistant: "72"', 'submission: "mine"']
    other = rollout(MESSAGE, asked={"input": empty, "metadata": {"problem_statement": "Fix that."}})
    assert len({r.key for r in read(record, other)}) == 2
    given = rollout(MESSAGE, asked={"input": "q", "metadata": metadata})
    assert shown(given) == ['user: "q"', 'assistant: "72"']


def test_task_in_output() -> None:
    """An output that begins with the task has it already; different ones are different groups."""
    task = {"type": "message", "role": "user", "content": "Count."}
    given = {"input": [], "metadata": {"problem_statement": "Count well."}}
    assert shown(rollout(task, MESSAGE, asked=given)) == ['user: "Count."', 'assistant: "72"']
    other = {**task, "content": "Count on."}
    lines = [rollout(first, MESSAGE, asked={"input": []}) for first in (task, other)]
    assert len({r.key for r in read(*lines)}) == 2
    with pytest.raises(UnreadableError, match="no group key"):
        read(rollout(task, MESSAGE, asked={"input": []}), rollout(MESSAGE, asked={"input": []}))


def test_transitions() -> None:
    """An output of lists repeats the messages so far at each step: shown are those that none continues."""
    task = {"type": "message", "role": "user", "content": "Count."}
    steps: Any = [[task, CALL], [task, CALL, RESULT, MESSAGE]]
    assert shown(rollout(*steps, asked={"input": []}))[1:] == [
        'call calc: {"x":1}',
        'tool calc: "72"',
        'assistant: "72"',
    ]
    apart: Any = [[task, THOUGHT], [task, MESSAGE]]
    (result,) = read(rollout(*apart, asked={"input": []}))[0].rollouts
    assert (result.messages, result.histories) == (apart[1], (apart[0],))


def test_inputs() -> None:
    """The materialized inputs are refused, with the way out."""
    with pytest.raises(UsageError, match="give the file with the rollouts"):
        reader({"responses_create_params": {"input": []}, "_ng_task_index": 0})
