r"""Messages → the lines that a judge reads.

One line per message: `role: <JSON string>`, `call name: <JSON arguments>`, `tool name: <JSON>`.
A line break inside content stays escaped inside its JSON string, so nothing in a rollout can
begin a line: no delimiter and no message can be forged. Characters that a reader might take for
a line break or that control a terminal (U+0085, U+2028, C1 controls, bidi overrides) are escaped too.

A picture is `[picture N]` in the text of its message, whose line a mark follows: `(picture N DIGEST)`. Marks are lines,
so no rollout can write one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from ruler_cli.formats.chat import (
    AGENT_ROLES,
    RESULT_KINDS,
    THOUGHT_KEYS,
    USER_ROLES,
    calls_of,
    other_text,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Names,
    first,
    first_of,
    is_list,
    is_object,
    is_text,
    lookup,
    words,
)
from ruler_cli.formats.pictures import (
    MARKDOWN,
    is_picture_kind,
    mark_pictures,
    picture_of,
)
from ruler_cli.prompting.turn_fields import fields_beside
from ruler_cli.types import Picture, readable_text

MARK = re.compile(r"^\(picture ([0-9]+) ([0-9a-f]{32})\)$", re.MULTILINE)
"""The mark of a picture: its number and its digest."""

_LONGEST_NAME = 80
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.\-]+")
_INVISIBLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_DIGITS = bytes.maketrans(b"123456789E+-", b"000000000e00")
_LONG_RUN = b"0" * 16
_LONG_EXPONENT = b"0e000"
_BINARY = re.compile(r'"[A-Za-z0-9+/=_-]{400,}"')
"""A sound or a picture in the fields of a message: a text judge cannot read its bytes."""
_NOT_SPEAKERS = ("tool", "function", "")
"""Roles of messages that are not rendered as `role: text`."""
_CUT_NOTE = "[… {} characters left out by ruler …]"
_Call = tuple[str, str, Any, Any]
"""Id, name and arguments of a tool call, and the result that stands inside it."""
_CALL_KINDS = words("tool_call tool-call toolCall toolUse")
_TEXT_KEYS = words("content text value parts message body output result")
"""Fields that hold the text of a message, best first."""
_MEDIA = words("image audio video file document")
"""Parts that a text judge cannot read: their kinds hold one of these words."""
_THOUGHTS = words("thinking reasoning think")
_NAMES = ("name", "toolName")
_CALL_IDS = words("id tool_use_id tool_call_id toolCallId toolUseId call_id")
_TOOL_NAMES = words("toolName tool_name tool function_name api_name")
_ARGUMENTS = words("arguments input args parameters tool_input params inputParameters")
_RESULTS = words("result output response observation")
_RETURNED = words("content output result tool_result")
_WRAPPERS = words("text content answer value")
"""Kinds of parts for calls and thoughts, and fields of calls and results, in several dialects."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """Characters to show of each tool output and of each reasoning text; None shows all."""

    tool: int | None = None
    reasoning: int | None = None


WHOLE = Shortening()


@dataclass(slots=True)
class _Progress:
    """The state of a rendering: tool names by the ids of earlier calls, and all pictures by their digests.

    `number` counts the pictures of this conversation; `marks` are those of the message that is rendered.
    """

    shortening: Shortening
    pictures: dict[str, Picture]
    names: dict[str, str] = field(default_factory=dict)
    number: int = 0
    marks: list[str] = field(default_factory=list)

    def mark(self, picture: Picture) -> str:
        """Number a picture, and return what stands for it in the text of its message."""
        self.number += 1
        self.pictures[picture.digest] = picture
        self.marks.append(f"(picture {self.number} {picture.digest})")
        return f"[picture {self.number}]"


def render(
    messages: Iterable[Any],
    shortening: Shortening = WHOLE,
    pictures: dict[str, Picture] | None = None,
) -> list[str]:
    """Render each message as one or more lines, joined; the list is as long as `messages`.

    `pictures` gets the pictures that the marks name.
    """
    progress = _Progress(shortening, {} if pictures is None else pictures)
    return [_message(m, progress) for m in messages]


def render_tools(tools: Any) -> str:
    """Render tools as JSON, one per line, without the `{"type": "function"}` wrapper."""
    listed = tools if is_list(tools) else [tools]
    bare = (
        one["function"] if is_object(lookup(one, "function")) else one for one in listed
    )
    return "\n".join(map(_json, bare))


def _message(message: JsonObject, progress: _Progress) -> str:
    """Render one message, with the marks of its pictures behind it."""
    role = message.get("role")
    content = message.get("content")
    # the common shapes first, without a search for rare fields: it takes a quarter less time
    if isinstance(content, str) and MARKDOWN not in content:
        if len(message) == 2 and isinstance(role, str) and role not in _NOT_SPEAKERS:
            return f"{_name(role)}: {quoted(content)}"
        if (
            role == "tool"
            and "tool_call_id" in message
            and len(message) == 3 + ("name" in message)
        ):
            called = progress.names.get(str(message["tool_call_id"] or None))
            name = _text(message.get("name") or None, progress) or called
            return _result_line(name, content, progress.shortening)
    elif (
        role == "assistant"
        and content is None
        and "content" in message
        and len(message) == 3
        and (calls := _calls(message))
    ):
        return "\n".join(
            [line for call in calls for line in _call_lines(call, progress)]
        )
    if role is None and isinstance(message.get("type"), str):
        role, message = _from_responses(message)
    lines = _lines(str(role or "assistant"), message, progress)
    if progress.marks:
        lines += progress.marks
        progress.marks.clear()
    return "\n".join(lines)


def _lines(role: str, message: JsonObject, progress: _Progress) -> list[str]:
    """Return the lines of a message of any shape: thought, results, text, calls, other fields."""
    lines = []
    names, shortening = progress.names, progress.shortening
    content = message.get("content")
    text, thought, calls, results = _split_content(content, progress)
    thought = _text(first_of(message, THOUGHT_KEYS), progress) or thought
    if thought:
        shown = _without_middle(thought, shortening.reasoning)
        lines.append(f"{_name(role)} thinking: {quoted(shown)}")
    returned = role in _NOT_SPEAKERS
    if returned:
        calls = _calls(message)
        alone = not calls
        text = text or "\n".join(_returned(one, progress) for one in results)
    else:
        for block in results:
            called = names.get(str(_first(block, _CALL_IDS[1:])))
            name = called or _text(block.get("toolName"), progress)
            returned_text = _returned(block, progress)
            lines.append(_result_line(name, returned_text, shortening))
        calls += _calls(message)
        alone = not (calls or results or thought)
        text = text or _text(message.get("refusal"), progress)
    fields = fields_beside(message)
    if not text:
        text, named = _other_text(message, progress, alone=alone)
        fields = {key: texts for key, texts in fields.items() if key not in named}
    if text or (alone and not fields):
        speaker = message.get("name")
        if returned:  # the result of a call
            call_id = message.get("tool_call_id") or message.get("call_id")
            stated = _text(speaker or message.get("function"), progress)
            called = names.get(str(call_id))
            lines.append(_result_line(stated or called, text, shortening))
        else:
            who = f"{_name(role)} {_name(str(speaker))}" if speaker else _name(role)
            if MARKDOWN in text and role in AGENT_ROLES:
                text = mark_pictures(text, progress.mark)
            lines.append(f"{who}: {quoted(text)}")
    for call in calls:
        lines += _call_lines(call, progress)
    if fields:
        said = "\n".join(lines)
        values = other_text(message)
        for key, texts in fields.items():
            if any(quoted(one)[1:-1] not in said for one in texts):
                lines.append(_field_line(role, key, values[key], shortening))
    return lines


def _field_line(role: str, key: str, value: Any, shortening: Shortening) -> str:
    """Render a field beside the content of a message."""
    text = _BINARY.sub('"[data]"', json_or_quoted(value))
    cut = _without_middle(text, shortening.tool)
    return f"{_name(role)} {_name(key)}: {quoted(cut) if cut != text else text}"


def _call_lines(call: _Call, progress: _Progress) -> Iterator[str]:
    """Yield the line of a tool call and of a result inside it, and note its name for one outside."""
    call_id, name, arguments, result = call
    progress.names[call_id] = name
    yield f"call {_name(name)}: {json_or_quoted(arguments)}"
    if result is not None:
        text = _split_content(result, progress)[0]
        yield _result_line(name, text, progress.shortening)


def _first(part: JsonObject, names: Names) -> Any:
    """Return the first of these fields that is not None, faster than by paths."""
    for name in names:
        if (value := part.get(name)) is not None:
            return value
    return None


def _returned(block: JsonObject, progress: _Progress) -> str:
    """Return the text of a part that holds a tool's result."""
    return _split_content(_first(block, _RETURNED), progress)[0]


def _split_content(
    content: Any,
    progress: _Progress,
) -> tuple[str, str, list[_Call], list[JsonObject]]:
    """Split content into text, thought, and the tool calls and tool results among its parts."""
    if is_object(content) and len(content) == 1:  # an object around a text
        texts = (content[k] for k in _WRAPPERS if is_text(content.get(k)))
        content = next(texts, content)
    if is_object(content) and is_picture_kind(content):
        content = [content]
    if not is_list(content):
        return _text(content, progress), "", [], []
    shown = []
    thoughts = []
    calls = []
    results = []
    for part in content:
        kind = part.get("type") if is_object(part) else None
        if kind == "tool_use" or (kind in _CALL_KINDS and _first(part, _NAMES)):
            name = str(_first(part, _NAMES))
            arguments = _first(part, _ARGUMENTS)
            calls.append((str(_first(part, _CALL_IDS)), name, arguments, None))
        elif kind in RESULT_KINDS:
            results.append(part)
        elif kind in _THOUGHTS:
            thought = _first(part, (*_THOUGHTS, "text", "value"))
            thoughts.append(_text(thought, progress))
        else:
            shown.append(part if is_text(part) else _part_text(kind, part, progress))
    return "\n".join(shown), "\n".join(thoughts), calls, results


def _part_text(kind: Any, part: Any, progress: _Progress) -> str:
    """Return the text of a part, the mark of a picture, another medium in brackets, or the part as JSON."""
    if is_object(part):
        keys = words("text value refusal" if kind == "text" else "text refusal")
        said = first(filter(is_text, map(part.get, keys)))
        if is_text(said):
            return said
        # a document, or an attached file, may hold its text
        typed = lookup(part, "source.type") == "text"
        if typed or ("path" in part and is_text(part.get("content"))):
            return _json(part)
    if picture := picture_of(part):
        return progress.mark(picture)
    medium = first(medium for medium in _MEDIA if medium in str(kind))
    return f"[{medium}]" if medium else _json(part)


def _other_text(
    message: JsonObject, progress: _Progress, *, alone: bool
) -> tuple[str, Iterable[str]]:
    """Return the text of a message without content from other fields, and their names; of several their JSON.

    A message with text must never become an empty line. If it has other lines, and so is not `alone`, only
    fields of text count; so do they if there is one, and the message is no user's.
    """
    fields = other_text(message)
    named = {key: value for key, value in fields.items() if key in _TEXT_KEYS}
    if not alone or (named and message.get("role") not in USER_ROLES):
        fields = named
    if len(fields) == 1 and named:
        (value,) = fields.values()
        if isinstance(value, str | list):
            return _split_content(value, progress)[0], fields
    text = _BINARY.sub('"[data]"', _json(fields)) if fields else ""
    return text, fields


def _calls(message: JsonObject) -> list[_Call]:
    """Return the tool calls of a message, in all dialects: nested, flat, as JSON text, the old single one."""
    calls = calls_of(message)
    return [_call(_loads(one) if is_text(one) else one) for one in calls]


def _call(call: Any) -> _Call:
    """Return a tool call of any dialect; one that is no object is shown as it is."""
    if not is_object(call):
        return "", "unknown", call, None
    function = call.get("function")
    if is_text(function) and function[:1] == "{":
        function = _loads(function)
    inner = function if is_object(function) else call
    name = inner.get("name") or (
        function if is_text(function) else _first(call, _TOOL_NAMES)
    )
    if "arguments" in inner:  # fast
        arguments = inner["arguments"]
    else:
        both = ((holder, key) for key in _ARGUMENTS for holder in (inner, call))
        given = (holder[key] for holder, key in both if key in holder)
        arguments = next(given, None if name else call)
    result = _first(call, _RESULTS)
    return str(_first(call, _CALL_IDS)), str(name or "unknown"), arguments, result


def _result_line(name: str | None, text: str, shortening: Shortening) -> str:
    head = f"tool {_name(name)}" if name else "tool"
    cut = _without_middle(text, shortening.tool)
    return f"{head}: {quoted(cut) if cut != text else json_or_quoted(text)}"


def sorted_json(value: Any) -> str:
    """Return a value as JSON, its keys sorted; text is quoted."""
    if is_text(value):
        return json_or_quoted(value)
    return _json(value, orjson.OPT_SORT_KEYS)


def json_or_quoted(value: Any) -> str:
    """Return JSON text as compact JSON; other text, or JSON with numbers beyond a double, as a string.

    To find such numbers every digit becomes a 0, in C: then a search for runs of digits is nearly free.
    """
    if not is_text(value):
        return _json(value)
    if value[:1] in ("{", "["):
        try:
            data = value.encode()
            runs = data.translate(_DIGITS)
            if _LONG_RUN not in runs and _LONG_EXPONENT not in runs:
                return _visible(orjson.dumps(orjson.loads(data)).decode())
        except (
            ValueError,
            TypeError,
        ):  # no JSON, a lone surrogate, or nested too deeply
            pass
    return quoted(value)


def _name(name: str) -> str:
    """Return a role or tool name, quoted unless it is a plain word: it comes from the dump too."""
    if len(name) <= _LONGEST_NAME:
        return _short_name(name)
    return quoted(name)


@lru_cache(4096)
def _short_name(name: str) -> str:
    if _SAFE_NAME.fullmatch(name) and name != "call":
        return name
    return quoted(name)


def quoted(text: str) -> str:
    """Return a text as a JSON string that neither ends a line nor controls a terminal."""
    try:
        return _visible(orjson.dumps(text).decode())
    except TypeError:  # lone surrogates
        return _visible(orjson.dumps(readable_text(text)).decode())


def _json(value: Any, option: int = 0) -> str:
    try:
        text = orjson.dumps(value, option=option).decode()
        if "null" not in text:  # which orjson also writes for NaN and Infinity
            return _visible(text)
    except TypeError:  # huge integers, lone surrogates, deep nesting
        pass
    try:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), sort_keys=option > 0
        )
    except RecursionError:
        return '"(nested too deeply to be shown)"'
    return _visible(readable_text(text))


def _visible(text: str) -> str:
    # nearly every text is left as it is by one of the two tests, which are in C
    if "\x7f" not in text if text.isascii() else text.isprintable():
        return text
    return _INVISIBLE.sub(lambda c: f"\\u{ord(c[0]):04x}", text)


def _text(value: Any, progress: _Progress) -> str:
    if value is None or is_text(value):
        return value or ""
    if is_list(value):
        return _split_content(value, progress)[0]
    return _json(value)


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _without_middle(text: str, size: int | None) -> str:
    """Cut a text longer than `size` in its middle, with a note of the number of characters left out."""
    if size is None or len(text) <= size:
        return text
    head = (size + 1) // 2
    cut = len(text) - size
    return text[:head] + _CUT_NOTE.format(cut) + text[len(text) - (size - head) :]


def _from_responses(item: JsonObject) -> tuple[str, JsonObject]:
    """Return the role and the message of an item of OpenAI's Responses; one with `content` is a message."""
    kind = item["type"]
    called = item.get("call_id")
    if kind == "function_call":
        return "assistant", {"tool_calls": [{**item, "id": called}]}
    if kind in ("function_call_output", "computer_call_output"):
        return "tool", {"tool_call_id": called, "content": item.get("output")}
    if kind == "reasoning":
        thought = item.get("summary") or item.get("content") or "(not shown)"
        return "assistant", {"reasoning": thought}
    if "content" in item:
        return "assistant", item
    # a call of a server's own tool and its result in one item
    fields = {
        key: value
        for key, value in item.items()
        if value is not None and key not in ("id", "status")
    }
    return "assistant", {"content": fields}
