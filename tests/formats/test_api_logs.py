"""Logs of calls of a model's API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.values import read, render

QUESTION = {"role": "user", "content": "How many bees?"}
TOOL = {"name": "count", "description": "Count.", "parameters": {}}
LINES = ['user: "How many bees?"', 'assistant: "Seven."\ncall count: {"of":"bees"}']
OPENAI = (
    {"messages": [QUESTION], "tools": [{"type": "function", "function": TOOL}]},
    {"choices": [{"message": {"role": "assistant", "content": "Seven.", "tool_calls": [
        {"id": "c", "function": {"name": "count", "arguments": '{"of":"bees"}'}}]}}]},
)  # fmt: skip
BODIES = {
    "OpenAI": OPENAI,
    "Anthropic": (
        {"messages": [QUESTION], "tools": [TOOL]},
        {"type": "message", "role": "assistant", "content": [
            {"type": "text", "text": "Seven."},
            {"type": "tool_use", "id": "c", "name": "count", "input": {"of": "bees"}}]},
    ),
    "Gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "How many bees?"}]}],
         "tools": [{"functionDeclarations": [TOOL]}]},
        {"candidates": [{"content": {"role": "model", "parts": [
            {"text": "Seven."}, {"functionCall": {"name": "count", "args": {"of": "bees"}}}]}}]},
    ),
    "Responses": (
        {"input": "How many bees?", "tools": [TOOL]},
        {"object": "response", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seven."}]},
            {"type": "function_call", "call_id": "c", "name": "count", "arguments": '{"of":"bees"}'}]},
    ),
}  # fmt: skip


def lines_of(record: dict[str, Any]) -> list[str]:
    """Return the lines that a judge reads of the only rollout of a record."""
    ((rollout,),) = [one.rollouts for one in read(record)]
    assert rollout.tools == [TOOL] or rollout.tools == OPENAI[0]["tools"]
    return "\n".join(render(rollout.messages)).split("\n")


def test_bodies(subtests: pytest.Subtests) -> None:
    """The bodies of every API have the same lines, wherever they stand."""
    for name, (request, response) in BODIES.items():
        places: dict[str, dict[str, Any]] = {
            "plain": {"request": request, "response": response},
            "body": {"request": {"url": "u", "body": request}, "response": {"body": response}},
            "names": {"request_body": request, "response_body": response},
            "batch": {"custom_id": "1", "body": request, "response": {"body": response}},
            "ends": {"input": request, "output": response},
            "text": {"request": json.dumps(request), "response": json.dumps(response)},
        }  # fmt: skip
        for place, record in places.items():
            with subtests.test(name=name, place=place):
                assert lines_of(record) == "\n".join(LINES).split("\n")


def test_sessions() -> None:
    """Records of a session are one rollout if they continue one another, and else several."""
    request, response = OPENAI
    reply = response["choices"][0]["message"]
    longer = {
        "messages": [
            QUESTION,
            reply,
            {"role": "tool", "tool_call_id": "c", "content": "7"},
        ]
    }
    end = {"choices": [{"message": {"role": "assistant", "content": "7 bees."}}]}
    other = {"choices": [{"message": {"role": "assistant", "content": "No idea."}}]}
    bodies = ((request, response), (longer, end), (request, other))
    records = [{"request": a, "response": b} for a, b in bodies]
    named = read(*({**record, "session_id": "s"} for record in records))
    first, second, third = (one.rollouts[0].member for one in named)
    assert first == second != third
    assert len({one.key for one in named}) == 1
    alone = read(*records)
    assert [one.rollouts[0].member for one in alone] == [None] * 3
    assert alone[0].key == alone[2].key != alone[1].key


def test_answers_of_a_request() -> None:
    """The choices of a response are a group, and one that holds nothing has an error."""
    choices = [{"message": {"content": "a"}}, {"text": "b"}, {"finish_reason": "error"}]
    record = {"request": {"prompt": "q"}, "response": {"choices": choices}}
    (group,) = read(record)
    shown = [render(one.messages) for one in group.rollouts[:2]]
    assert shown == [['user: "q"', f'assistant: "{text}"'] for text in "ab"]
    assert "no answer" in str(group.rollouts[2].error)


def test_text_as_response() -> None:
    """A response that is a text is the answer, whatever JSON it is."""
    for text in ("Seven.", '{"role": "assistant", "content": "Seven."}'):
        (record,) = read({"request": OPENAI[0], "response": text})
        assert record.rollouts[0].messages[1:] == [
            {"role": "assistant", "content": text}
        ]


def test_refused(subtests: pytest.Subtests) -> None:
    """A failed call, a streamed response, and an answer without a task are refused."""
    request, response = OPENAI
    refused = {
        "no answer": {"request": request, "response": {"content": []}},
        "stream": {"request": request, "response": 'data: {"choices": []}'},
        "task is not known": {"custom_id": "1", "response": {"body": response}},
    }
    for reason, record in refused.items():
        with subtests.test(reason=reason), pytest.raises(UnreadableError, match=reason):
            read(record)
