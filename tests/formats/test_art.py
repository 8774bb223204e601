"""OpenPipe ART in each of its formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from ruler_cli.types import Record
from tests.values import line, read, reader

SYSTEM = {"role": "system", "content": "You are helpful."}
USER = {"role": "user", "content": "What is 2+2?"}
CALL = {
    "id": "call_1",
    "function": {"arguments": '{"a": 2, "b": 2}', "name": "add"},
    "type": "function",
}
CALLED = {"content": None, "role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "4"}
FOUR = {"content": "4", "role": "assistant"}
TOOL = {
    "function": {"name": "add", "parameters": {"type": "object", "properties": {}}},
    "type": "function",
}
MESSAGES = [SYSTEM, USER, CALLED, RESULT, FOUR]


def choice(message: dict[str, Any]) -> dict[str, Any]:
    """A Choice as pydantic writes it."""
    return {
        "finish_reason": "stop",
        "index": 0,
        "logprobs": {"content": []},
        "message": message,
    }


CHOICES = [SYSTEM, USER, choice(CALLED), RESULT, choice(FOUR)]


def one(record: dict[str, Any]) -> Record:
    """The record of one line."""
    return read(record)[0]


def test_group_lines() -> None:
    """(a) A line is a group, and a Choice in it has no role of its own."""
    record = one(
        {
            "trajectories": [
                {
                    "reward": 1.0,
                    "messages_and_choices": CHOICES,
                    "tools": [TOOL],
                    "logs": ["x"],
                },
                {
                    "reward": 0.0,
                    "messages_and_choices": [SYSTEM, USER, choice(FOUR)],
                    "tools": None,
                },
            ]
        }
    )
    assert [r.messages for r in record.rollouts] == [MESSAGES, [SYSTEM, USER, FOUR]]
    assert [r.reward for r in record.rollouts] == [1.0, 0.0]
    assert [r.tools for r in record.rollouts] == [[TOOL], None]


def test_model_dump() -> None:
    """(b) `model_dump_json` of a group is read without its exceptions."""
    record = one(
        {
            "trajectories": [
                {
                    "messages_and_choices": CHOICES,
                    "additional_histories": [],
                    "reward": 1.0,
                    "tools": None,
                }
            ],
            "exceptions": [
                {"type": "<class 'ValueError'>", "message": "boom", "traceback": "…"}
            ],
            "metadata": {"scenario_id": "s1"},
            "logs": ["glog"],
        }
    )
    assert record.key == "s1"
    assert record.rollouts[0].messages == MESSAGES


def test_rows_v1() -> None:
    """(c) A Parquet row of version 1 holds tools and tool calls as JSON text."""
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": json.dumps([CALL]),
        "trainable": True,
    }
    row = {
        "group_index": 3,
        "group_metadata": "{}",
        "reward": 1.0,
        "metrics": '{"correct": true}',
    }
    record = one({**row, "tools": json.dumps([TOOL]), "messages": [USER, called]})
    assert record.key == "3"
    assert record.rollouts[0].messages == [USER, called]
    assert record.rollouts[0].tools == [TOOL]


def test_rows_v2() -> None:
    """(d) A Parquet row of version 2 is read from its JSON payload, NaN included."""
    inner = {
        "messages_and_choices": CHOICES,
        "reward": 0.5,
        "metrics": {"x": float("nan")},
    }
    row = {
        "format_version": 2,
        "group_index": 1,
        "trajectory_index": 0,
        "messages": None,
        "reward": 0.5,
    }
    record = one({**row, "trajectory_json": json.dumps(inner)})
    assert (record.key, record.rollouts[0].messages, record.rollouts[0].reward) == (
        "1",
        MESSAGES,
        0.5,
    )


@pytest.mark.parametrize("payload", ["", "[]", "{", 7, {}, "null"])
def test_bad_payload(payload: Any) -> None:
    """A row is unreadable if its payload is not a JSON object."""
    with pytest.raises(UnreadableError, match=r"is no object|has no messages"):
        one({"group_index": 1, "trajectory_json": payload})


def test_sentinel_row() -> None:
    """The sentinel row of an empty group has no messages."""
    with pytest.raises(UnreadableError, match="has no messages"):
        one({"group_index": 1, "trajectory_index": None, "trajectory_json": None})


def test_defaults_left_out() -> None:
    """(e) The newest `model_dump` leaves out a reward of 0.0."""
    record = one(
        {
            "trajectories": [{"messages_and_choices": [USER, FOUR]}],
            "metadata": {"scenario_id": "s1"},
        }
    )
    assert record.rollouts[0].messages == [USER, FOUR]
    layout = reader({"messages_and_choices": []}).format
    assert layout.absent == b"0.0"


def test_sft_and_logging() -> None:
    """(f, g) Fine-tuning lines and `for_logging()` are native trajectories."""
    assert one({"messages": [USER, FOUR], "tools": [TOOL]}).rollouts[0].tools == [TOOL]
    logged = {
        "reward": 0.2,
        "metrics": {},
        "messages": [USER, {**FOUR, "trainable": True}],
        "logs": [],
    }
    assert one(logged).rollouts[0].reward == 0.2


def exchange(request: Any, response: Any, kind: str = "messages") -> dict[str, Any]:
    """A recorded call."""
    return {
        "request": {kind: request, "tools": [TOOL]},
        "response": response,
        "model": "m",
    }


def test_chat_exchanges() -> None:
    """Recorded chat completions are one conversation if each continues the previous one."""
    sent = {
        "role": "assistant",
        "content": None,
        "tool_calls": [CALL],
        "refusal": None,
        "audio": None,
    }
    first = exchange([SYSTEM, USER], {"choices": [choice(sent)]})
    again = {"role": "assistant", "tool_calls": [CALL]}
    second = exchange([SYSTEM, USER, again, RESULT], {"choices": [choice(FOUR)]})
    rollout = one({"exchanges": {"chat_completions": [first, second]}}).rollouts[0]
    called = rollout.messages[2]["tool_calls"][0]
    assert called["arguments"] == '{"a": 2, "b": 2}'
    assert [rollout.messages[i] for i in (0, 1, 3, 4)] == [SYSTEM, USER, RESULT, FOUR]
    assert rollout.histories == ()
    assert rollout.tools == [TOOL]


def test_forked_exchanges() -> None:
    """A call that does not continue the previous one begins another history of the rollout."""
    one_call = exchange([USER], {"choices": [choice(FOUR)]})
    other = exchange([SYSTEM], {"choices": [choice(FOUR)]})
    rollout = one({"exchanges": {"chat_completions": [one_call, other]}}).rollouts[0]
    assert (rollout.messages, rollout.histories) == ([SYSTEM, FOUR], ([USER, FOUR],))


def test_other_exchanges() -> None:
    """Recorded calls of Responses, Messages and plain completions are read."""
    item = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}
    recorded = {
        "responses": [exchange("hi", {"output": [item]}, "input")],
        "messages": [
            exchange(
                [USER],
                {"role": "assistant", "content": [{"type": "text", "text": "4"}]},
            )
        ],
        "completions": [exchange("2+2=", {"choices": [{"text": "4"}]}, "prompt")],
    }
    rollout = one({"exchanges": recorded}).rollouts[0]
    assert rollout.messages == [
        {"role": "user", "content": "2+2="},
        {"role": "assistant", "content": "4"},
    ]
    assert rollout.histories == (
        [{"role": "user", "content": "hi"}, item],
        [USER, {"role": "assistant", "content": "4"}],
    )


@pytest.mark.parametrize(
    "recorded", [None, {}, {"chat_completions": 5}, {"chat_completions": [7, {}]}, []]
)
def test_no_exchanges(recorded: Any) -> None:
    """A trajectory is unreadable if its exchanges hold no conversation."""
    detected = reader({"exchanges": {}})
    with pytest.raises(UnreadableError, match="has no messages"):
        detected.read(line({"exchanges": recorded}))


def test_additional_histories() -> None:
    """Additional histories belong to the rollout."""
    more = [{"messages_and_choices": [USER, choice(FOUR)]}, [USER, FOUR]]
    rollout = one(
        {"messages_and_choices": CHOICES, "additional_histories": more}
    ).rollouts[0]
    assert rollout.histories == ([USER, FOUR], [USER, FOUR])


def test_prompt_beside() -> None:
    """A prompt beside a conversation does not stand for it; it is the task of one without any."""
    beside = {"prompt": "2 + 2?", "messages": None}
    whole = one({**beside, "messages_and_choices": CHOICES})
    assert whole.rollouts[0].messages == MESSAGES
    alone = one({**beside, "messages_and_choices": [choice(FOUR)]})
    assert alone.rollouts[0].messages == [{"role": "user", "content": "2 + 2?"}, FOUR]
