"""ShareGPT conversations, and other lists of turns that are not called `messages`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.values import read, reader, talk

TURNS = [{"from": "human", "value": "What is 2+2?"}, {"from": "gpt", "value": "4"}]


def test_names() -> None:
    """The list and its parts go by several names."""
    forms: list[Any] = [
        TURNS,
        talk("4"),
        [{"speaker": "user", "text": "What is 2+2?"}, {"speaker": "bot", "text": "4"}],
        [{"role": "Human", "value": "What is 2+2?"}, {"role": "ChatGPT", "value": "4"}],
        json.dumps(TURNS),
        [{"human": "What is 2+2?", "assistant": "4"}],
    ]
    for name in ("conversations", "conversation", "dialog", "dialogue", "turns", "items"):
        for turns in forms:
            assert read({name: turns})[0].rollouts[0].messages == talk("4")


@pytest.mark.parametrize("name", ["gpt", "chatgpt", "bing", "bard", "assistant", "model"])
def test_agents(name: str) -> None:
    """Whatever the agent is called, its turn is the agent's."""
    turns = [TURNS[0], {"from": name, "value": "4"}]
    assert read({"conversations": turns})[0].rollouts[0].messages == talk("4")


def test_calls_stay() -> None:
    """A turn keeps what stands in it besides, but for the weights of a training."""
    call = {"from": "gpt", "value": None, "tool_calls": [{"id": "1"}], "weight": 0, "loss": False}
    assert read({"conversations": [TURNS[0], call, TURNS[1]]})[0].rollouts[0].messages[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1"}],
    }


@pytest.mark.parametrize(
    "text",
    [
        "### Human: What is 2+2?### Assistant: 4",
        "\n\nHuman: What is 2+2?\n\nAssistant: 4",
        "USER: What is 2+2? ASSISTANT: 4",
    ],
)
def test_text(text: str) -> None:
    """A text that is a whole dialogue is a conversation."""
    assert read({"text": text})[0].rollouts[0].messages == talk("4")


@pytest.mark.parametrize(
    "record", [{"text": "Human: hello"}, {"items": [{"sku": 1}]}, {"turns": 3}, {"items": ["a"]}]
)
def test_other_shapes(record: Any) -> None:
    """Lists of anything else, and other texts, are no conversations."""
    with pytest.raises(UsageError):
        reader(record)


def test_answer_beside() -> None:
    """An answer that stands beside the turns is the last of them."""
    assert read({"conversations": TURNS[:1], "response": "4"})[0].rollouts[0].messages == talk("4")


def test_broken_turn() -> None:
    """A record whose turns are not all turns is unreadable, and says so."""
    good = {"conversations": TURNS}
    with pytest.raises(UnreadableError):
        read(good, {"conversations": [TURNS[0], "gpt: 4"]})
