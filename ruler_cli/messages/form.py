"""The normal form of a message: the same few values, whatever dialect its record was written in."""

from __future__ import annotations

from typing import Any, NamedTuple

from ruler_cli.types import Picture


class SideField(NamedTuple):
    """A field beside the content of a message, a call, a result or a part.

    `text` is its value as text, and `values` are the texts and numbers in it.
    """

    name: str
    text: str
    values: tuple[Any, ...]


Text = str | tuple[str | Picture | SideField, ...]
"""A text; with media, or fields of its parts, its pieces."""


class ToolCall(NamedTuple):
    """A call of a tool; `result` is one that stands inside it. An `id` that is missing is empty."""

    id: str
    name: str
    arguments: Any
    result: Text | None = None
    fields: tuple[SideField, ...] = ()


class ToolResult(NamedTuple):
    """A result among the parts of a message: the id of its call, and the name of the tool if it states one."""

    id: str
    name: str
    text: Text
    fields: tuple[SideField, ...] = ()


class Message(NamedTuple):
    """A message of a conversation.

    `is_result`: all of it is what a tool returned; then `call_id` is that of the call, and `name` the tool's. Else
    `name` is the speaker's. `by_agent`: the agent speaks or calls, also in an item without a role. `hidden` are fields
    that no judge is shown.
    """

    role: str
    text: Text = ""
    calls: tuple[ToolCall, ...] = ()
    is_result: bool = False
    call_id: str = ""
    name: str = ""
    by_agent: bool = False
    thought: Text = ""
    results: tuple[ToolResult, ...] = ()
    fields: tuple[SideField, ...] = ()
    hidden: tuple[SideField, ...] = ()

    @property
    def is_own(self) -> bool:
        """Return whether the agent speaks or calls, and no tool."""
        return self.by_agent and not (self.is_result or self.results)


Conversation = tuple[Message, ...]
