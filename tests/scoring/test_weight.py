"""Rollouts in brief."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.records import Line, Record, Rollout
from ruler_cli.scoring.weight import Weight, weigh
from tests.values import talk


def weight(messages: list[Any], **fields: Any) -> Weight:
    """What a record of one rollout weighs."""
    rollout = Rollout(messages, **fields)
    return weigh(Record(Line(1, 0, json.dumps({"messages": messages}).encode()), (rollout,)), rollout)


def called(identity: str, arguments: str = "{}") -> list[Any]:
    """A question, a tool call and its result, and an answer."""
    function = {"name": "look", "arguments": arguments}
    return [
        {"role": "user", "content": "Which one is it? " * 20},
        {"role": "assistant", "content": None, "tool_calls": [{"id": identity, "function": function}]},
        {"role": "tool", "tool_call_id": identity, "content": "found " * 20},
        {"role": "assistant", "content": "It is the third."},
    ]


def test_ids_of_calls() -> None:
    """Rollouts that differ in the ids of their calls alone are the same."""
    assert weight(called("call_1"))[2:] == weight(called("call_2"))[2:]


@pytest.mark.parametrize(
    "other",
    [
        talk("five, no: six"),
        talk("four", "What is 3+3?"),
        [*talk("four"), {"role": "user", "content": "Sure?"}],
        [{"role": "system", "content": "Be brief."}, *talk("four")],
        talk([{"type": "text", "text": "four"}]),  # type: ignore[arg-type]  # content of parts
    ],
)
def test_different(other: list[Any]) -> None:
    """Rollouts that differ in a text's length or in their last text are told apart."""
    assert weight(talk("four")).body != weight(other).body


def test_opening() -> None:
    """Rollouts of one prompt have one opening, whatever they answer, and none of another prompt has it."""
    one, other = weight(talk("four")), weight(talk("five or so"))
    assert one.opening == other.opening != weight(talk("four", "What is 3+3?")).opening
    assert one.body != other.body


def test_sizes() -> None:
    """Opening and rest are all of the record, in the proportion of their texts."""
    found = weight(talk("a" * 3000, "q" * 1000))
    assert found.opening_size + found.size == len(json.dumps({"messages": talk("a" * 3000, "q" * 1000)}))
    assert 2.9 < found.size / found.opening_size < 3.1


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "function_call", "call_id": "1", "name": "look", "arguments": "x" * 300}],
        [{"role": "user", "content": 7}],
        [{"role": "assistant", "content": None, "tool_calls": ["x" * 900]}],
        [{"role": "assistant", "content": {"a": 10**30}}],
        [{"role": "assistant", "content": "\ud800"}],
    ],
)
def test_other_shapes(messages: list[Any]) -> None:
    """Where the texts do not stand in `content`, what differs is still told apart."""
    assert weight(messages) == weight(messages)
    assert weight(messages).body != weight([*messages, *messages]).body


def test_not_alone() -> None:
    """Of a record of several rollouts each has its own part."""
    short, long = Rollout(talk("a" * 100)), Rollout(talk("b" * 10_000))
    record = Record(Line(1, 0, b"x" * 50_000), (short, long))
    assert weigh(record, short).size < 200
    assert 10_000 <= weigh(record, long).size < 10_200
