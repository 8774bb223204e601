r"""Messages → the lines that a judge reads.

One line per message: `role: <JSON string>`, `call name: <JSON arguments>`, `tool name: <JSON>`.
A line break inside content stays escaped inside its JSON string, so nothing in a rollout can
begin a line: no delimiter and no message can be forged. Characters that a reader might take for
a line break or that control a terminal (U+0085, U+2028, C1 controls, bidi overrides) are escaped too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ruler_cli.formats.chat import CALL_KEYS, RESULT_KINDS, TEXT_KEYS, other_text
from ruler_cli.types import readable_text

_SAFE_NAME = r"[A-Za-z0-9_.\-]{1,80}"
_INVISIBLE = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_DIGITS = bytes.maketrans(b"123456789E+-", b"000000000e00")
_LONG_RUN, _LONG_EXPONENT = b"0" * 16, b"0e000"
_BINARY = re.compile(r'"[A-Za-z0-9+/=_-]{400,}"')
"""A sound or a picture in the fields of a message: a text judge cannot read its bytes."""
_NOT_SPEAKERS = ("tool", "function", "")
"""Roles of messages that are not rendered as `role: text`."""
_CUT_NOTE = "[… {} characters left out by ruler …]"
_Call = tuple[str, str, Any]
"""Id, name and arguments of a tool call."""
_CALL_KINDS = ("tool_call", "tool-call", "toolCall", "toolUse")
_THOUGHTS = ("thinking", "reasoning", "think")
_NAMES = ("name", "toolName")
_CALL_IDS = ("id", "tool_use_id", "tool_call_id", "toolCallId", "toolUseId", "call_id")
_ARGUMENTS = ("arguments", "input", "args", "parameters")
_RETURNED = ("content", "output", "result", "tool_result")
_WRAPPERS = ("text", "content", "answer", "value")
"""Kinds of parts for calls and thoughts, and fields of calls and results, in several dialects."""


@dataclass(frozen=True, slots=True)
class Shortening:
    """Characters to show of each tool output and of each reasoning text; None shows all."""

    tool: int | None = None
    reasoning: int | None = None


WHOLE = Shortening()


def render(messages: Iterable[Any], shortening: Shortening = WHOLE) -> list[str]:
    """Render each message as one or more lines, joined; the list is as long as `messages`."""
    names: dict[str, str] = {}
    return [_message(m, names, shortening) for m in messages]


def render_tools(tools: Any) -> str:
    """Render tools as JSON, one per line, without the `{"type": "function"}` wrapper."""
    items = tools if isinstance(tools, list) else [tools]
    bare = (
        t["function"]
        if isinstance(t, dict) and isinstance(t.get("function"), dict)
        else t
        for t in items
    )
    return "\n".join(_json(t) for t in bare)


def _message(
    message: Mapping[str, Any], names: dict[str, str], shortening: Shortening
) -> str:
    """Render one message; `names` maps the ids of earlier calls to tool names, and is added to."""
    role, content = message.get("role"), message.get("content")
    # the common shapes first, without a search for rare fields: it takes a quarter less time
    if isinstance(content, str):
        if len(message) == 2 and isinstance(role, str) and role not in _NOT_SPEAKERS:
            return f"{_name(role)}: {quoted(content)}"
        if (
            role == "tool"
            and "tool_call_id" in message
            and len(message) == 3 + ("name" in message)
        ):
            called = names.get(str(message["tool_call_id"] or None))
            return _result_line(
                _text(message.get("name") or None) or called, content, shortening
            )
    elif (
        role == "assistant"
        and content is None
        and "content" in message
        and len(message) == 3
        and (calls := _calls(message))
    ):
        return "\n".join([_call_line(call, names) for call in calls])
    if role is None and isinstance(message.get("type"), str):
        role, message = _from_responses(message)
        content = message.get("content")
    role, out = str(role or "assistant"), []
    text, thought, calls, results = _split_content(content)
    stated = (
        message.get("reasoning_content")
        or message.get("reasoning")
        or message.get("thinking")
    )
    if thought := _text(stated) or thought:
        out.append(
            f"{_name(role)} thinking: {quoted(_without_middle(thought, shortening.reasoning))}"
        )
    if role in ("tool", "function"):
        name = message.get("name") or message.get("function")
        called = names.get(str(message.get("tool_call_id") or message.get("call_id")))
        calls = _calls(message)
        text = (
            text
            or "\n".join(map(_returned, results))
            or _other_text(message, alone=not calls)
        )
        if text or not calls:
            out.append(_result_line(_text(name) or called, text, shortening))
        return "\n".join([*out, *(_call_line(call, names) for call in calls)])
    for block in results:
        name = names.get(str(_first(block, _CALL_IDS[1:]))) or _text(
            block.get("toolName")
        )
        out.append(_result_line(name, _returned(block), shortening))
    calls += _calls(message)
    alone = not (calls or results or out)
    text = text or _text(message.get("refusal")) or _other_text(message, alone=alone)
    if text or alone:
        who = (
            f"{_name(role)} {_name(str(message['name']))}"
            if message.get("name")
            else _name(role)
        )
        out.append(f"{who}: {quoted(text)}")
    out += [_call_line(call, names) for call in calls]
    return "\n".join(out)


def _call_line(call: _Call, names: dict[str, str]) -> str:
    """Render a tool call, and note its name for the line of its result."""
    call_id, name, arguments = call
    names[call_id] = name
    return f"call {_name(name)}: {_json_or_quoted(arguments)}"


def _first(part: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first of these fields that is not None."""
    return next((part[name] for name in names if part.get(name) is not None), None)


def _returned(block: Mapping[str, Any]) -> str:
    """Return the text of a part that holds a tool's result."""
    return _split_content(_first(block, _RETURNED))[0]


def _split_content(
    content: Any,
) -> tuple[str, str, list[_Call], list[Mapping[str, Any]]]:
    """Split content into text, thought, and the tool calls and tool results among its parts."""
    if not isinstance(content, list):
        if isinstance(content, dict) and len(content) == 1:  # an object around a text
            content = next(
                (content[k] for k in _WRAPPERS if isinstance(content.get(k), str)),
                content,
            )
        text = (
            content
            if isinstance(content, str)
            else ""
            if content is None
            else _json(content)
        )
        return text, "", [], []
    texts, thoughts, calls, results = [], [], [], []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            texts.append(part)
        elif kind == "tool_use" or (kind in _CALL_KINDS and _first(part, _NAMES)):
            calls.append(
                (
                    str(_first(part, _CALL_IDS)),
                    str(_first(part, _NAMES)),
                    _first(part, _ARGUMENTS),
                )
            )
        elif kind in RESULT_KINDS:
            results.append(part)
        elif kind in _THOUGHTS:
            thoughts.append(_text(_first(part, (*_THOUGHTS, "text", "value"))))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind == "text" and isinstance(part.get("value"), str):
            texts.append(part["value"])
        elif isinstance(part, dict) and isinstance(part.get("refusal"), str):
            texts.append(part["refusal"])
        else:
            texts.append(_placeholder(kind, part))
    return "\n".join(texts), "\n".join(thoughts), calls, results


def _other_text(message: Mapping[str, Any], *, alone: bool) -> str:
    """Return the text of a message without content from another field, or all its fields as raw JSON.

    A message with text must never become an empty line. If it has other lines, and so is not `alone`, only
    fields of text count: the others describe the message.
    """
    fields = other_text(message)
    if not alone:
        fields = {key: value for key, value in fields.items() if key in TEXT_KEYS}
    if not fields:
        return ""
    for key in TEXT_KEYS:
        if isinstance(fields.get(key), str | list) and len(fields) == 1:
            return _split_content(fields[key])[0]
    return _BINARY.sub('"[data]"', _json(fields))


def _placeholder(kind: Any, part: Any) -> str:
    """Return the kind of a medium in brackets, since a text judge cannot read it; other parts as JSON."""
    for medium in ("image", "audio", "video", "file", "document"):
        if medium in str(kind) and not _is_text(part):
            return f"[{medium}]"
    return _json(part)


def _is_text(part: Any) -> bool:
    """Tell if a document, or an attached file, holds its text."""
    source = part.get("source") if isinstance(part, dict) else None
    if isinstance(source, dict) and source.get("type") == "text":
        return True
    return (
        isinstance(part, dict)
        and isinstance(part.get("content"), str)
        and "path" in part
    )


def _calls(message: Mapping[str, Any]) -> list[_Call]:
    """Return the tool calls of a message, in all dialects: nested, flat, as JSON text, the old single one."""
    out: list[_Call] = []
    listed = message.get("tool_calls") or next(
        (message[k] for k in CALL_KEYS if message.get(k)), None
    )
    if isinstance(listed, str):
        listed = _loads(listed)
    listed = listed if isinstance(listed, list) else [listed] if listed else []
    single = message.get("function_call")
    for call in [*listed, *([single] if single else [])]:
        call = _loads(call) if isinstance(call, str) else call  # noqa: PLW2901 - same call, parsed
        if not isinstance(call, dict):
            out.append(("", "unknown", call))
            continue
        function = call.get("function")
        if (
            isinstance(function, dict)
            and "id" in call
            and "arguments" in function
            and function.get("name")
        ):
            out.append((str(call["id"]), str(function["name"]), function["arguments"]))
            continue  # as in most dumps, without a search for other names
        inner = function if isinstance(function, dict) else call
        name = inner.get("name") or (
            function if isinstance(function, str) else call.get("toolName")
        )
        given = [
            holder[key]
            for key in _ARGUMENTS
            for holder in (inner, call)
            if key in holder
        ]
        arguments = given[0] if given else None if name else call
        out.append((str(_first(call, _CALL_IDS)), str(name or "unknown"), arguments))
    return out


def _result_line(name: str | None, text: str, shortening: Shortening) -> str:
    head = f"tool {_name(name)}" if name else "tool"
    cut = _without_middle(text, shortening.tool)
    return f"{head}: {quoted(cut) if cut != text else _json_or_quoted(text)}"


def _json_or_quoted(value: Any) -> str:
    """Return JSON text as compact JSON; other text, or JSON with numbers beyond a double, as a string."""
    if not isinstance(value, str):
        return _json(value)
    if value[:1] not in ("{", "[") or _may_be_inexact(value):
        return quoted(value)
    try:
        return _visible(orjson.dumps(orjson.loads(value)).decode())
    except (ValueError, TypeError):  # no JSON; nested too deeply
        return quoted(value)


def _may_be_inexact(text: str) -> bool:
    """Tell if JSON text may hold a number that a double rounds or overflows.

    Every digit becomes a 0 first, in C: then a search for runs of digits is nearly free.
    """
    try:
        runs = text.encode().translate(_DIGITS)
    except UnicodeEncodeError:
        return True
    return _LONG_RUN in runs or _LONG_EXPONENT in runs


def _name(name: str) -> str:
    """Return a role or tool name, quoted unless it is a plain word: it comes from the dump too."""
    plain = (
        name.isidentifier() and name.isascii() and len(name) <= 80
    )  # most names; half the time of a regex
    return (
        name
        if (plain or re.fullmatch(_SAFE_NAME, name)) and name != "call"
        else quoted(name)
    )


def quoted(text: str) -> str:
    """Return a text as a JSON string that neither ends a line nor controls a terminal."""
    try:
        return _visible(orjson.dumps(text).decode())
    except TypeError:  # lone surrogates
        return _visible(orjson.dumps(readable_text(text)).decode())


def _json(value: Any) -> str:
    try:
        text = orjson.dumps(value).decode()
        if "null" not in text:  # which orjson also writes for NaN and Infinity
            return _visible(text)
    except TypeError:  # huge integers, lone surrogates, deep nesting
        pass
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return '"(nested too deeply to be shown)"'
    return _visible(readable_text(text))


def _visible(text: str) -> str:
    if text.isascii() and "\x7f" not in text:
        return text
    return _INVISIBLE.sub(lambda c: f"\\u{ord(c[0]):04x}", text)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return _split_content(value)[0] if isinstance(value, list) else _json(value)


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


def _from_responses(item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the role and the message of an item of OpenAI's Responses; one with `content` is a message."""
    match item["type"]:
        case "function_call":
            call = {
                "id": item.get("call_id"),
                "name": item.get("name"),
                "arguments": item.get("arguments"),
            }
            return "assistant", {"tool_calls": [call]}
        case "function_call_output":
            return "tool", {
                "tool_call_id": item.get("call_id"),
                "content": item.get("output"),
            }
        case "reasoning":
            return "assistant", {
                "reasoning": item.get("summary") or item.get("content") or "(not shown)"
            }
    if "content" in item:
        return "assistant", item
    # a call of a server's own tool and its result in one item
    fields = {
        key: value
        for key, value in item.items()
        if value is not None and key not in ("id", "status")
    }
    return "assistant", {"content": fields}
