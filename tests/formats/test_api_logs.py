"""Logs of calls of a model's API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.values import read, render

QUESTION = {"role": "user", "content": "How many bees?"}
TOOL = {"name": "count", "description": "Count.", "parameters": {}}
LINES = [
    'user: "How many bees?"',
    'assistant: "Seven."\ncall count: {"of":"bees"}',
]
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
    ((rollout,),) = [record_read.rollouts for record_read in read(record)]
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
