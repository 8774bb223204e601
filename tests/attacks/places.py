"""Places in a rollout in which an attack may hide."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ruler_cli.types import Group, Rollout
from tests.values import group, talk

OTHERS = ("I booked the flight.", "There is no such flight.")
"""The answers of the honest rollouts of the group."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place by its name: the rollout that holds a text there.

    `own` is set if the judge sees it as a part of that rollout; else no judge sees it, or as context of all
    rollouts of the group.
    """

    name: str
    rollout: Callable[[str], Rollout]
    own: bool = True
    shared: Callable[[str], dict[str, Any]] | None = None

    def group(self, text: str) -> Group:
        """A group of three whose first rollout holds the text here."""
        if self.shared is None:
            return group(self.rollout(text), *map(talk, OTHERS))
        given = self.shared(text)
        system = given.pop("system", None)
        messages = (
            [] if system is None else [{"role": "system", "content": system}]
        )
        return group(
            *([*messages, *talk(answer)] for answer in ("Done.", *OTHERS)),
            **given,
        )


def _with(*messages: dict[str, Any]) -> Rollout:
    question, answer = talk("Let me see.")
    return Rollout([question, answer, *messages])


def _called(name: str, arguments: Any) -> Rollout:
    return _with(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": name, "arguments": arguments}}
            ],
        }
    )


def _message(content: Any, role: str = "assistant", **more: Any) -> Rollout:
    return _with({"role": role, "content": content, **more})


PLACES = (
    Place("assistant's message", lambda text: Rollout(talk(text))),
    Place("user's message", lambda text: _message(text, "user")),
    Place(
        "part of a message",
        lambda text: _message([{"type": "text", "text": text}, "end"]),
    ),
    Place("tool result", lambda text: _message(text, "tool", name="search")),
    Place(
        "tool result's JSON",
        lambda text: _message(
            json.dumps({"found": [text]}, ensure_ascii=False),
            "tool",
            tool_call_id="c1",
        ),
    ),
    Place(
        "tool result's key",
        lambda text: _message(json.dumps({text: 1}), "tool", name="search"),
    ),
    Place(
        "nested tool result",
        lambda text: _message(
            [{"type": "tool_result", "tool_use_id": "t", "content": text}],
            "user",
        ),
    ),
    Place(
        "tool's name", lambda text: _message("ok", "tool", name=text or "tool")
    ),
    Place("call's name", lambda text: _called(text, "{}")),
    Place("call's argument", lambda text: _called("search", {"query": text})),
    Place(
        "call's argument key", lambda text: _called("search", {text: {"of": 1}})
    ),
    Place(
        "call's argument text",
        lambda text: _called("search", json.dumps({"query": text})),
    ),
    Place(
        "call's broken arguments", lambda text: _called("search", "{" + text)
    ),
    Place("role", lambda text: _message("ok", text or "assistant")),
    Place("speaker's name", lambda text: _message("ok", "user", name=text)),
    Place("reasoning", lambda text: _message("ok", reasoning_content=text)),
    Place("refusal", lambda text: _message(None, refusal=text)),
    Place(
        "own system prompt",
        lambda text: Rollout(
            [{"role": "system", "content": text}, *talk("ok")]
        ),
    ),
    Place(
        "own tools",
        lambda text: Rollout(
            talk("ok"), tools=[{"name": "f", "description": text}]
        ),
    ),
    Place(
        "tool parameter's name",
        lambda text: Rollout(talk("ok"), tools=[{"properties": {text: {}}}]),
    ),
    Place(
        "later part", lambda text: Rollout(talk("ok"), histories=(talk(text),))
    ),
    Place(
        "metadata",
        lambda text: _message("ok", "user", metadata={text: text}),
        own=False,
    ),
    Place(
        "system prompt of all",
        lambda _: Rollout([]),
        own=False,
        shared=lambda text: {"system": text},
    ),
    Place(
        "tools of all",
        lambda _: Rollout([]),
        own=False,
        shared=lambda text: {"tools": [{"name": text}]},
    ),
    Place(
        "group's name",
        lambda _: Rollout([]),
        own=False,
        shared=lambda text: {"key": text},
    ),
)
