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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import orjson

from ruler_cli.formats.binary import has_binary, mark_of, without_binary
from ruler_cli.formats.chat import (
    AGENT_ROLES,
    LABELS,
    RESULT_KINDS,
    THOUGHT_KEYS,
    USER_ROLES,
    calls_of,
    is_returned,
    normalize_part,
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
    items,
    lookup,
    words,
)
from ruler_cli.formats.pictures import (
    MARKDOWN,
    REFERENCES,
    mark_media,
    mark_pictures,
    medium_of,
)
from ruler_cli.prompting.parallel import Event, Pairing, Results, pair_results
from ruler_cli.prompting.turn_fields import fields_told, is_shown_beside
from ruler_cli.types import Picture, readable_text

MARK = re.compile(
    r"^\(((?:picture|audio|video|file) [0-9]+) ([0-9a-f]{32})\)$", re.MULTILINE
)
"""The mark of a picture or of another medium: its kind and number, and its digest."""

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
_CALL_KINDS = words("tool_call tool-call toolCall toolUse")
_TEXT_KEYS = words("content text value parts message body output result")
"""Fields that hold the text of a message, best first."""
_PLAIN = frozenset(words("id type function"))
_FUNCTION = frozenset(words("name arguments"))
_THOUGHTS = words("thinking reasoning think")
_THOUGHT_TEXTS = words("text value summary content")
_REDACTED = words("redacted_thinking reasoning.encrypted")
_NAMES = words("name toolName tool_name")
_CALL_IDS = words("id tool_use_id tool_call_id toolCallId toolUseId call_id")
_TOOL_NAMES = words("toolName tool_name tool function_name api_name")
_ARGUMENTS = words(
    "arguments input args parameters tool_input params inputParameters tool_kwargs"
)
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
_NO_NUMBERS = repeat(("", False))


class _Call(NamedTuple):
    """A tool call, the result that stands inside it, and the objects that it was read from."""

    id: str
    name: str
    arguments: Any
    result: Any = None
    parts: tuple[JsonObject, ...] = ()


@dataclass(slots=True)
class Seen:
    """All pictures of conversations by their digests, fields that are not shown, and pairings of calls and results.

    Without `pair` results are paired with no calls, as in an earlier version.
    """

    pictures: dict[str, Picture] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    pairings: list[Pairing] = field(default_factory=list)
    pair: bool = True


@dataclass(slots=True)
class _Progress:
    """The state of a rendering, with tool names by the ids of earlier calls.

    `number` counts the pictures of this conversation; `marks` are those of the message that is rendered, the `at`th.
    `events` are its calls and results; `calls` and `results` number these. `refers`: texts may hold references to
    media.
    """

    shortening: Shortening
    seen: Seen
    calls: Iterator[tuple[str, bool]] = _NO_NUMBERS
    results: Results = field(default_factory=dict)
    refers: bool = False
    names: dict[str, str] = field(default_factory=dict)
    number: int = 0
    marks: list[str] = field(default_factory=list)
    at: int = 0
    events: list[Event] = field(default_factory=list)

    def mark(self, picture: Picture) -> str:
        """Number a picture or another medium, and return what stands for it in the text of its message."""
        self.number += 1
        self.seen.pictures[picture.digest] = picture
        self.marks.append(f"({picture.kind} {self.number} {picture.digest})")
        return f"[{picture.kind} {self.number}]"

    def call(self, call_id: str, name: str) -> tuple[str, bool]:
        """Note a call, and return its number, behind a space, and whether its result is missing."""
        if call_id != "None":
            self.names.pop("None", None)
        self.names[call_id] = name
        self.events.append((self.at, call_id, name))
        return next(self.calls)

    def result(self, call_id: str, *parts: str) -> tuple[str, str | None]:
        """Note a result, and return the number of its call, behind a space, and the name of its tool.

        If its message names no call, its `parts` may.
        """
        for one in parts if parts and call_id == "None" else (call_id,):
            self.events.append((self.at, one, None))
        return self.results.get((self.at, call_id)) or ("", self.names.get(call_id))

    def number_of(self, call_id: str) -> int:
        """Return the number of a result in the message that is rendered; 0 without one."""
        return int(self.results.get((self.at, call_id), ("", None))[0] or 0)

    def lines(self, messages: Sequence[Any], order: Iterable[int]) -> list[str]:
        """Render messages in an order, each with the marks of its pictures behind it."""
        out = []
        marks = self.marks
        for at in order:
            self.at = at
            text = _message(messages[at], self)
            if self.refers:
                text = mark_media(text, self.mark)
            if marks:
                text = "\n".join((text, *marks))
                marks.clear()
            out.append(text)
        return out


def render(
    messages: Sequence[Any], shortening: Shortening = WHOLE, seen: Seen | None = None
) -> list[str]:
    """Render each message as one or more lines, joined; the list is as long as `messages`.

    `seen` gets what the lines do not say.
    """
    seen = seen or Seen()
    order: Sequence[int] = range(len(messages))
    progress = _Progress(shortening, seen)
    lines = progress.lines(messages, order)
    text = "\n".join(lines)
    paired = seen.pair and pair_results(progress.events, messages, lines)
    again = _Progress(shortening, Seen(seen.pictures))
    again.refers = any(map(text.__contains__, REFERENCES))
    if paired:
        seen.pairings.append(paired)
        order, calls, again.results = paired
        again.calls = iter(calls)
    if paired or again.refers:
        lines = again.lines(messages, order)
    return [*map(without_binary, lines)] if has_binary(text) else lines


def render_tools(tools: Any) -> str:
    """Render tools as JSON, one per line, without the `{"type": "function"}` wrapper."""
    listed = tools if is_list(tools) else [tools]
    bare = (
        one["function"] if is_object(lookup(one, "function")) else one for one in listed
    )
    return "\n".join(map(_json, bare))


def _message(message: JsonObject, progress: _Progress) -> str:
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
            number, called = progress.result(str(message["tool_call_id"] or None))
            name = _text(message.get("name") or None, progress) or called
            return _result_line(number, name, content, progress.shortening)
    elif (
        role == "assistant"
        and content is None
        and "content" in message
        and len(message) == 3
        and (calls := _calls(message))
    ):
        return "\n".join(_call_lines(calls, progress))
    if role is None and isinstance(message.get("type"), str):
        role, message = _from_responses(message)
    return "\n".join(_lines(str(role or "assistant"), message, progress))


def _plain(role: str, message: JsonObject) -> JsonObject:
    """Return a message of LlamaIndex' or LangChain's, or one of speech, as others write it."""
    more = message.get("additional_kwargs")
    if more and is_object(more):
        stated = {name: value for name, value in message.items() if value is not None}
        message = {**more, **stated}
    held = first(name for name in ("blocks", "parts") if is_list(message.get(name)))
    if held and not message.get("content"):
        message = {**message, "content": message[held], held: None}
    audio = message.get("audio")
    beside: list[JsonObject] = []
    if is_object(audio) and {"id", "data"} & audio.keys():  # OpenAI's, of speech
        beside.append({"type": "audio", **audio})
    for name in ("attachments", "files"):
        for file in items(message.get(name)):
            told = file if is_object(file) else {"file_id": file}
            beside.append({"type": "file", "file": told})
    if beside:
        content = message.get("content")
        parts = content if is_list(content) else [content or ""]
        rest = dict.fromkeys(("audio", "attachments", "files"))
        return {**message, **rest, "content": [*filter(None, parts), *beside]}
    if role in _NOT_SPEAKERS and message.get("status") == "error":
        return {"is_error": True, **message}
    return message


def _lines(role: str, message: JsonObject, progress: _Progress) -> list[str]:
    """Return the lines of a message of any shape: thought, results, text, calls, other fields."""
    lines = []
    shortening = progress.shortening
    message = _plain(role, message)
    content = message.get("content")
    text, thought, calls, results = _split_content(content, progress)
    thought = _text(first_of(message, THOUGHT_KEYS), progress) or thought
    if thought:
        shown = _without_middle(thought, shortening.reasoning)
        lines.append(f"{_name(role)} thinking: {quoted(shown)}")
    made = {call.id for call in calls}
    calls += [call for call in _calls(message) if call.id not in made - {"None"}]
    returned = role in _NOT_SPEAKERS
    call_id = message.get("tool_call_id") or message.get("call_id")
    answered = [*map(_result_id, results)]
    if returned and not (call_id is None and any(map(progress.number_of, answered))):
        alone = not calls
        parts = [_first(one, _RETURNED) for one in results]
        text = text or "\n".join(_split_content(one, progress)[0] for one in parts)
    else:
        if made.intersection(answered) - {"None"}:  # the result is in the same message
            lines += _call_lines(calls, progress)
            calls = []
        lines += _result_lines(results, progress)
        alone = not (calls or results or thought or made)
        text = text or _text(message.get("refusal"), progress)
    fields = _fields_beside(message, progress)
    if not text:
        text, named = _other_text(message, progress, alone=alone)
        fields = {key: fields[key] for key in fields if key not in named}
    if text or (alone and not fields):
        speaker = message.get("name")
        if returned:  # the result of a call
            number, called = progress.result(str(call_id), *answered)
            stated = _text(speaker or message.get("function"), progress)
            lines.append(_result_line(number, stated or called, text, shortening))
        else:
            who = f"{_name(role)} {_name(str(speaker))}" if speaker else _name(role)
            if MARKDOWN in text and role in AGENT_ROLES:
                text = mark_pictures(text, progress.mark)
            lines.append(f"{who}: {quoted(text)}")
    lines += _call_lines(calls, progress)
    if fields:
        lines += _field_lines(role, fields, progress, "\n".join(lines))
    return lines


def _result_lines(results: list[JsonObject], progress: _Progress) -> Iterator[str]:
    """Yield the lines of results among the parts of a message, in the order of their calls."""
    ids = [*map(_result_id, results)]
    if all(map(progress.number_of, ids)):
        results = sorted(
            results, key=lambda block: progress.number_of(_result_id(block))
        )
    for block in results:
        number, called = progress.result(_result_id(block))
        name = called or _text(block.get("toolName"), progress)
        content = _first(block, _RETURNED)
        text = _split_content(content, progress)[0]
        line = _result_line(number, name, text, progress.shortening)
        yield line
        yield from _beside("tool", block, (content, name), progress, line)


def _result_id(block: JsonObject) -> str:
    return str(_first(block, (*_CALL_IDS[1:], "id")))


def _beside(
    role: str, part: JsonObject, used: Sequence[Any], progress: _Progress, line: str
) -> Iterator[str]:
    """Yield lines of the fields of a part or a call that are neither metadata nor `used`, its values in the line."""
    rest = {
        key: value
        for key, value in part.items()
        if key not in LABELS and not any(value is one for one in used)
    }
    if rest:
        fields = _fields_beside(rest, progress, LABELS)
        yield from _field_lines(role, fields, progress, line)


def _fields_beside(
    message: JsonObject, progress: _Progress, known: frozenset[str] | None = None
) -> dict[str, tuple[Any, list[Any]]]:
    """Return the fields that are shown beside the content of a message or a part, and note those that are not."""
    fields = fields_told(message, known)
    hidden = [key for key in fields if not is_shown_beside(message, key)]
    progress.seen.hidden += [f"{key} {fields.pop(key)[1]}" for key in hidden]
    return fields


def _field_lines(
    role: str,
    fields: Mapping[str, tuple[Any, list[Any]]],
    progress: _Progress,
    said: str,
) -> Iterator[str]:
    """Yield a line for each field beside a content that says what no line says yet."""
    for key, (value, inside) in fields.items():
        if not all(_is_said(one, said) for one in inside):
            text = _BINARY.sub(_marked, json_or_quoted(value))
            cut = _without_middle(text, progress.shortening.tool)
            head = f"{_name(role)} {_name(key)}" if role else _name(key)
            yield f"{head}: {quoted(cut) if cut != text else text}"


def _is_said(one: Any, said: str) -> bool:
    if is_text(one):
        return quoted(one)[1:-1] in said
    number = rf"(?<![\w.]){re.escape(_json(one))}(?![\w.])"
    return one is not True and re.search(number, said) is not None


def _marked(match: re.Match[str]) -> str:
    return quoted(mark_of(match[0][1:-1]))


def _call_lines(calls: Iterable[_Call], progress: _Progress) -> Iterator[str]:
    """Yield the lines of tool calls and of results inside them, and note their names for those outside."""
    for call in calls:
        name = _name(call.name)
        number, missing = "", False
        if call.result is None:
            number, missing = progress.call(call.id, call.name)
        else:
            progress.names[call.id] = call.name
        line = f"call{number} {name}: {json_or_quoted(call.arguments)}"
        yield line
        used = (call.name, call.arguments, call.result)
        for part in call.parts:
            yield from _beside("assistant", part, used, progress, line)
        if missing:
            yield f"tool{number} {name}: (no result)"
        if call.result is not None:
            text = _split_content(call.result, progress)[0]
            yield _result_line("", call.name, text, progress.shortening)


def _first(part: JsonObject, names: Names) -> Any:
    """Return the first of these fields that is not None, faster than by paths."""
    for name in names:
        if (value := part.get(name)) is not None:
            return value
    return None


def _split_content(
    content: Any,
    progress: _Progress,
) -> tuple[str, str, list[_Call], list[JsonObject]]:
    """Split content into text, thought, and the tool calls and tool results among its parts."""
    if is_object(content) and len(content) == 1:  # an object around a text
        texts = (content[k] for k in _WRAPPERS if is_text(content.get(k)))
        content = next(texts, content)
    if is_object(content) and medium_of(content):
        content = [content]
    if not is_list(content):
        return _text(content, progress), "", [], []
    shown = []
    thoughts = []
    calls = []
    results = []
    for one in content:
        part = _typed(one)
        kind = part.get("type") if is_object(part) else None
        if kind == "tool_use" or (kind in _CALL_KINDS and _first(part, _NAMES)):
            calls.append(_call(part))
        elif kind in RESULT_KINDS:
            results.append(part)
        elif kind in _THOUGHTS:
            thought = _first(part, (*_THOUGHTS, *_THOUGHT_TEXTS))
            thoughts.append(_text(thought, progress))
        elif kind in _REDACTED:
            thoughts.append("(not shown)")
        else:
            shown.append(part if is_text(part) else _part_text(kind, part, progress))
    return "\n".join(shown), "\n".join(thoughts), calls, results


def _typed(part: Any) -> Any:
    """Return a part of Gemini's, Bedrock's, LlamaIndex' or goose's as others write it; another one as it is."""
    if not is_object(part) or "text" in part:
        return part
    kind = part.get("type")
    if kind == "toolRequest" and is_object(call := lookup(part, "toolCall.value")):
        return {"type": "tool_use", "id": part.get("id"), **call}  # goose
    if kind == "toolResponse":
        inner = part.get("toolResult")
        content = lookup(inner, "value") or inner
        return {"type": "tool_result", "id": part.get("id"), "content": content}
    if kind is not None:
        return part
    if block := part.get("block_type"):
        return {"type": block, **part}
    return normalize_part(part)


def _part_text(kind: Any, part: Any, progress: _Progress) -> str:
    """Return the text of a part, the mark of a picture or another medium, or the part as JSON."""
    if is_object(part):
        keys = words("text value refusal" if kind == "text" else "text refusal")
        said = first(filter(is_text, map(part.get, keys)))
        if is_text(said):
            return "\n".join((said, *_beside("", part, (said,), progress, said)))
        # a document, or an attached file, may hold its text
        typed = lookup(part, "source.type") == "text"
        if typed or ("path" in part and is_text(part.get("content"))):
            return _json(part)
        if medium := medium_of(part):
            spoken = _text(part.get("transcript"), progress)
            return "\n".join(filter(None, (progress.mark(medium), spoken)))
    return _json(part)


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
        return _Call("", "unknown", call)
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
    name = str(name or "unknown")
    plain = _PLAIN.issuperset(call) and _FUNCTION.issuperset(inner)
    parts = () if plain else (call,) if inner is call else (call, inner)
    return _Call(str(_first(call, _CALL_IDS)), name, arguments, result, parts)


def _result_line(
    number: str, name: str | None, text: str, shortening: Shortening
) -> str:
    head = f"tool{number} {_name(name)}" if name else "tool"
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
    return text[:head] + _CUT_NOTE.format(cut) + text[head + cut :]


def _from_responses(item: JsonObject) -> tuple[str, JsonObject]:
    """Return the role and the message of an item of OpenAI's Responses; one with `content` is a message."""
    kind = item["type"]
    called = item.get("call_id")
    rest = {
        key: value
        for key, value in item.items()
        if value is not None and key not in ("id", "status")
    }
    if is_returned(kind):
        role = "tool" if kind.endswith("_output") else "user"
        content = rest.pop("output", None if role == "tool" else rest)
        return role, {**rest, "tool_call_id": called, "content": content}
    if kind == "reasoning":
        summary, content = item.get("summary"), item.get("content")
        both = [*summary, *content] if is_list(summary) and is_list(content) else None
        return "assistant", {"reasoning": both or summary or content or "(not shown)"}
    if "content" in item:
        return "assistant", item
    if kind == "function_call" or (called is not None and kind.endswith("_call")):
        inside = {key: rest[key] for key in rest if key not in ("type", "call_id")}
        call = inside if "name" in rest else {"name": kind, "arguments": inside}
        return "assistant", {"tool_calls": [{**call, "id": called}]}
    # a call of a server's own tool and its result in one item
    return "assistant", {"content": rest}
