r"""Messages → the lines that a judge reads.

One line per message: `role: <JSON string>`, `call name: <JSON arguments>`, `tool name: <JSON>`.
A line break inside content stays escaped inside its JSON string, so nothing in a rollout can
begin a line: no delimiter and no message can be forged. Characters that a reader might take for
a line break or that control a terminal (U+0085, U+2028, C1 controls, bidi overrides) are escaped too.

A picture is `[picture N]` in the text of its message, whose line a mark follows: `(picture N DIGEST)`. Marks are lines,
so no rollout can write one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from ruler_cli.messages.binary import has_binary, without_binary
from ruler_cli.messages.form import (
    Message,
    SideField,
    Text,
    ToolCall,
    ToolResult,
)
from ruler_cli.messages.json_text import json_or_quoted, json_text, quoted
from ruler_cli.messages.pictures import REFERENCES, mark_media
from ruler_cli.messages.side_fields import repeats
from ruler_cli.prompting.parallel import Event, Results, pair_results
from ruler_cli.types import Picture, value

MARK = re.compile(
    r"^\(((?:picture|audio|video|file) [0-9]+) ([0-9a-f]{32})\)$", re.MULTILINE
)
"""The mark of a picture or of another medium: its kind and number, and its digest."""

_PLAIN_NAMES = ("assistant", "user", "system", "tool")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,80}")
_CUT_NOTE = "[… {} characters left out by ruler …]"
_NO_NUMBERS = repeat(("", False))


@value
class Shortening:
    """Characters to show of each tool output and of each reasoning text; None shows all."""

    tool: int | None = None
    reasoning: int | None = None


WHOLE = Shortening()


@dataclass(slots=True)
class Seen:
    """All pictures of conversations by their digests, and fields that are not shown.

    `numbered`: calls that were made at once have numbers.
    """

    pictures: dict[str, Picture] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    numbered: bool = False


def render(
    messages: Sequence[Message],
    shortening: Shortening = WHOLE,
    seen: Seen | None = None,
) -> list[str]:
    """Render each message as one or more lines, joined; the list is as long as `messages`.

    `seen` gets what the lines do not say.
    """
    seen = seen or Seen()
    for message in messages:
        for side_field in message.hidden:
            seen.hidden.append(f"{side_field.name} {[*side_field.values]}")
    renderer = _Renderer(shortening, seen.pictures)
    lines = [renderer.message(*numbered) for numbered in enumerate(messages)]
    pairing = pair_results(renderer.events, messages, lines)
    if pairing:
        # once more, with the numbers of calls that were made at once
        order, calls, results = pairing
        seen.numbered |= any(number for number, _ in calls)
        renderer = _Renderer(
            shortening,
            seen.pictures,
            iter(calls),
            results,
        )
        lines = [renderer.message(at, messages[at]) for at in order]
    if has_binary("\n".join(lines)):
        return [*map(without_binary, lines)]
    return lines


def render_tools(tools: Any) -> str:
    """Render tools as JSON, one per line, without the `{"type": "function"}` wrapper."""
    lines = []
    for tool in tools if isinstance(tools, list) else [tools]:
        inner = tool.get("function") if isinstance(tool, dict) else None
        shown = inner if isinstance(inner, dict) else tool
        lines.append(json_text(shown))
    return "\n".join(lines)


@dataclass(slots=True)
class _Renderer:
    """The rendering of one conversation, with tool names by the ids of earlier calls.

    `number` counts the pictures; `marks` are those of the message that is rendered, the `at`th. `events` are calls and
    results as they come; `calls` and `results` number these.
    """

    shortening: Shortening
    pictures: dict[str, Picture]
    calls: Iterator[tuple[str, bool]] = _NO_NUMBERS
    results: Results = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    number: int = 0
    marks: list[str] = field(default_factory=list)
    at: int = 0
    events: list[Event] = field(default_factory=list)

    def message(
        self,
        at: int,
        message: Message,
    ) -> str:
        """Render the message number `at`, with the marks of its pictures behind it."""
        self.at = at
        rendered = self._lines(message)
        if any(map(rendered.__contains__, REFERENCES)):
            rendered = mark_media(rendered, self._mark)
        if self.marks:
            rendered = "\n".join((rendered, *self.marks))
            self.marks.clear()
        return rendered

    def _lines(self, message: Message) -> str:
        text = message.text
        calls = message.calls
        rare = message.thought or message.results or message.fields
        if rare or not isinstance(text, str) or (calls and message.is_result):
            return "\n".join(self._all_lines(message))
        if message.is_result:
            number, called = self._result(message.call_id)
            return self._result_line(number, message.name or called, text)
        if not calls:
            return _spoken(message, text)
        lines = [_spoken(message, text)] if text else []
        lines += self._call_lines(calls)
        return "\n".join(lines)

    def _all_lines(self, message: Message) -> list[str]:
        """Return the lines of a message: thought, results, text, calls, other fields."""
        lines = []
        calls = message.calls
        results = message.results
        text = self._shown(message.text)
        thought = self._shown(message.thought)
        if thought:
            shown = _without_middle(thought, self.shortening.reasoning)
            lines.append(f"{_name(message.role)} thinking: {quoted(shown)}")
        ids = [result.id for result in results]
        apart = not message.call_id and any(map(self._number_of, ids))
        if message.is_result and not apart:
            if not text:
                texts = [self._shown(result.text) for result in results]
                text = "\n".join(texts)
            is_silent = not calls
        else:
            is_silent = not (calls or results or thought)
            made = {call.id for call in calls if call.id}
            if not made.isdisjoint(ids):  # a result is in the same message
                lines += self._call_lines(calls)
                calls = ()
            lines += self._result_lines(results)
        if text or (is_silent and not message.fields):
            if message.is_result:
                number, called = self._result(message.call_id, *ids)
                name = message.name or called
                lines.append(self._result_line(number, name, text))
            else:
                lines.append(_spoken(message, text))
        lines += self._call_lines(calls)
        line = "\n".join(lines)
        lines += self._field_lines(message.role, message.fields, line)
        return lines

    def _call_lines(self, calls: Iterable[ToolCall]) -> Iterator[str]:
        """Yield the lines of tool calls and of results inside them, and note their names for those outside."""
        for call in calls:
            name = _name(call.name)
            number = ""
            missing = False
            if call.result is None:
                number, missing = self._called(call)
            else:
                self.names[call.id] = call.name
            line = f"call{number} {name}: {json_or_quoted(call.arguments)}"
            yield line
            if call.fields:
                yield from self._field_lines("assistant", call.fields, line)
            if missing:
                yield f"tool{number} {name}: (no result)"
            if call.result is not None:
                yield self._result_line("", call.name, self._shown(call.result))

    def _result_lines(self, results: Sequence[ToolResult]) -> Iterator[str]:
        """Yield the lines of results among the parts of a message, in the order of their calls."""
        numbers = {result.id: self._number_of(result.id) for result in results}
        if all(numbers.values()):
            results = sorted(results, key=lambda result: numbers[result.id])
        for result in results:
            number, called = self._result(result.id)
            text = self._shown(result.text)
            line = self._result_line(number, called or result.name, text)
            yield line
            yield from self._field_lines("tool", result.fields, line)

    def _result_line(
        self,
        number: str,
        name: str | None,
        text: str,
    ) -> str:
        head = f"tool{number} {_name(name)}" if name else "tool"
        most = self.shortening.tool
        if most is None or len(text) <= most:
            return f"{head}: {json_or_quoted(text)}"
        return f"{head}: {quoted(_without_middle(text, most))}"

    def _field_lines(
        self,
        role: str,
        fields: Iterable[SideField],
        line: str,
    ) -> Iterator[str]:
        """Yield a line for each field with a value that the lines before it lack."""
        for side_field in fields:
            if not repeats(side_field, line):
                yield f"{_name(role)} {self._field(side_field)}"

    def _field(self, side_field: SideField) -> str:
        text = side_field.text
        most = self.shortening.tool
        if most is not None and len(text) > most:
            text = quoted(_without_middle(text, most))
        return f"{_name(side_field.name)}: {text}"

    def _shown(self, text: Text) -> str:
        """Return a text with a mark for each medium, and a line for each field of a part."""
        if isinstance(text, str):
            return text
        pieces = []
        for piece in text:
            if isinstance(piece, Picture):
                pieces.append(self._mark(piece))
            elif isinstance(piece, SideField):
                pieces.append(f"\n{self._field(piece)}")
            else:
                pieces.append(piece)
        return "".join(pieces)

    def _mark(self, picture: Picture) -> str:
        """Number a picture or another medium, and return what stands for it in the text of its message."""
        self.number += 1
        self.pictures[picture.digest] = picture
        self.marks.append(f"({picture.kind} {self.number} {picture.digest})")
        return f"[{picture.kind} {self.number}]"

    def _called(self, call: ToolCall) -> tuple[str, bool]:
        """Note a call, and return its number, behind a space, and whether its result is missing."""
        if call.id:
            self.names.pop("", None)
        self.names[call.id] = call.name
        self.events.append((self.at, call.id, call.name))
        return next(self.calls)

    def _result(
        self,
        call_id: str,
        *of_parts: str,
    ) -> tuple[str, str | None]:
        """Note a result, and return the number of its call, behind a space, and the name of its tool.

        If its message names no call, its parts may.
        """
        ids = of_parts if of_parts and not call_id else (call_id,)
        self.events += [(self.at, noted, None) for noted in ids]
        called = "", self.names.get(call_id)
        return self.results.get((self.at, call_id)) or called

    def _number_of(self, call_id: str) -> int:
        """Return the number of a result in the message that is rendered; 0 without one."""
        number, _ = self.results.get((self.at, call_id), ("", None))
        return int(number or 0)


def _spoken(
    message: Message,
    text: str,
) -> str:
    """Return the line of what somebody says."""
    speaker = _name(message.role)
    if message.name:
        speaker = f"{speaker} {_name(message.name)}"
    return f"{speaker}: {quoted(text)}"


def _name(name: str) -> str:
    """Return a role or tool name, quoted unless it is a plain word: it comes from the dump too."""
    if name in _PLAIN_NAMES:
        return name
    plain = name != "call" and _SAFE_NAME.fullmatch(name)
    return name if plain else quoted(name)


def _without_middle(
    text: str,
    size: int | None,
) -> str:
    """Cut a text longer than `size` in its middle, with a note of the number of characters left out."""
    if size is None or len(text) <= size:
        return text
    head = (size + 1) // 2
    cut = len(text) - size
    return text[:head] + _CUT_NOTE.format(cut) + text[head + cut :]
