"""Chat messages as records hold them → their normal form.

OpenAI's plain messages, which are nearly all, take a short way. Any other goes through `as_usual`, which brings a
message of another dialect to the members that most have, and through its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    first_of,
    first_stated,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    words,
)
from ruler_cli.messages.content import calls_of, other_text
from ruler_cli.messages.form import (
    Conversation,
    Message,
    SideField,
    Text,
    ToolCall,
    ToolResult,
)
from ruler_cli.messages.json_text import json_text
from ruler_cli.messages.names import (
    AGENT_ROLES,
    KIND_KEYS,
    KNOWN,
    LABELS,
    RESULT_ROLES,
    THOUGHT_KEYS,
    USER_ROLES,
    kind_of,
)
from ruler_cli.messages.parts import (
    ARGUMENTS,
    HOLDERS,
    IDS,
    NAMES,
    RESULTS,
    RETURNED,
    as_usual,
    flat_call,
    normalize_part,
    thought_of,
)
from ruler_cli.messages.pictures import MARKDOWN, markdown_pieces, medium_of
from ruler_cli.messages.side_fields import is_shown_beside, repeats, side_fields

_TEXT_KEYS = words("content text value parts message body output result")
"""Fields that hold the text of a message, best first."""
_USUAL = frozenset(words("role content tool_calls tool_call_id"))
_CALL = frozenset(words("id type function"))
_FUNCTION = frozenset(words("name arguments"))
_WRAPPERS = words("text content answer value")
"""Members around a text, in several dialects."""
_AGENTS = frozenset(AGENT_ROLES)
_NO_ARGUMENTS = LABELS.union(RESULTS)


class _Content(NamedTuple):
    """The text, the thought, the calls and the results of a message's content."""

    text: Text
    thought: Text = ""
    calls: Sequence[ToolCall] = ()
    results: Sequence[ToolResult] = ()


def read_messages(messages: Iterable[JsonObject]) -> Conversation:
    """Read the messages of a conversation; one in which tools answered between its parts is several."""
    conversation = []
    for message in messages:
        read = read_message(message)
        content = items(message.get("content"))
        inside = [call for call in read.calls if call.result is not None]
        if content and read.calls and (read.results or inside):
            for _, parts in groupby(content, _has_result):
                turn = {**message, "content": [*parts]}
                conversation.append(read_message(turn))
                message = {"role": message.get("role")}  # noqa: PLW2901
        else:
            conversation.append(read)
    return tuple(conversation)


def _has_result(part: Any) -> bool:
    """Return whether a part is a result, or a call with its result."""
    kind = kind_of(normalize_part(part)) if is_object(part) else ""
    is_answered = kind == "call" and first_stated(part, RESULTS) is not None
    return kind == "tool" or is_answered


def read_message(message: JsonObject) -> Message:
    """Read one message."""
    role = message.get("role")
    content = message.get("content")
    text = "" if content is None else content
    # the usual shape first, without a search for rare fields
    if (
        type(role) is str
        and role
        and type(text) is str
        and MARKDOWN not in text
        and _USUAL.issuperset(message)
    ):
        listed = message.get("tool_calls")
        calls = _usual_calls(listed) if listed else ()
        is_result = role in RESULT_ROLES
        if bool(calls) == bool(listed) and not (calls and is_result):
            call_id = _identity(message.get("tool_call_id"))
            by_agent = role in _AGENTS
            return Message(
                role,
                text,
                calls,
                is_result,
                call_id,
                "",
                by_agent,
            )
    return _MessageReader().read(message)


def has_content(message: JsonObject) -> bool:
    """Return whether a message holds anything to show a judge."""
    read = read_message(message)
    text = read.text.strip() if is_text(read.text) else read.text
    return any((text, read.calls, read.thought, read.results, read.fields))


def _usual_calls(listed: Any) -> tuple[ToolCall, ...]:
    """Read calls as OpenAI writes them; () if one is written in another way."""
    calls = []
    for call in items(listed):
        if not is_object(call) or call.keys() != _CALL:
            return ()
        function = call["function"]
        if not is_object(function) or function.keys() != _FUNCTION:
            return ()
        name = function["name"]
        if not name or not is_text(name):
            return ()
        call_id = _identity(call["id"])
        calls.append(ToolCall(call_id, name, function["arguments"]))
    return tuple(calls)


def _identity(value: Any) -> str:
    """Return the id of a call as a text, empty if it is missing."""
    return "" if value is None or value == "None" else str(value)


def _as_text(value: Any) -> str:
    return value if is_text(value) else json_text(value)


def _without_nulls(value: Any, levels: int = 50) -> Any:
    if is_list(value) and levels:
        return [_without_nulls(inner, levels - 1) for inner in value]
    if not is_object(value) or not levels:
        return value
    stated = {}
    for key, inner in value.items():
        if inner is not None:
            stated[key] = _without_nulls(inner, levels - 1)
    return stated


def joined(texts: Sequence[Text]) -> Text:
    """Join texts by line breaks."""
    if all(map(is_text, texts)):
        return "\n".join(map(str, texts))
    pieces: list[Any] = []
    for text in texts:
        pieces += ["\n", *([text] if is_text(text) else text)]
    return tuple(pieces[1:])


class _MessageReader:
    """Reads a message of any dialect.

    `hidden` are its fields that no judge is shown. `filled`: it has nulls in place of the fields of other messages, and
    its arguments in place of those of other tools, as Arrow writes them.
    """

    def __init__(self) -> None:
        self.hidden = list[SideField]()
        self.filled = False

    def read(self, message: JsonObject) -> Message:
        """Read the message."""
        self.filled = None in {**message, "content": 0}.values()
        message = as_usual(message)
        stated = message.get("role")
        role = str(stated or "assistant")
        by_agent = stated in AGENT_ROLES
        is_result = role in RESULT_ROLES
        content = self._content(message.get("content"))
        text = content.text
        results = content.results
        thought = self._text(first_of(message, THOUGHT_KEYS))
        thought = thought or content.thought
        calls = []
        for value in calls_of(message):
            calls.append(self._call(json_value(value, text=True)))
        listed = {call.id for call in calls if call.id}
        # parts of a streamed reply are without arguments
        calls += [call for call in content.calls if call.id not in listed]
        if not text and not is_result:
            text = self._text(message.get("refusal"))
        fields = self._fields(message)
        returned = is_result and any(result.text for result in results)
        if not text and not returned:
            beside = calls or (not is_result and (results or thought))
            text, named = self._other_text(message, alone=not beside)
            fields = [field for field in fields if field.name not in named]
        name = message.get("name") or ""
        call_id = message.get("tool_call_id") or message.get("call_id")
        if is_result:
            # its call has the arguments
            besides = ARGUMENTS if call_id else ()
            fields = [field for field in fields if field.name not in besides]
            for result in results:
                fields += result.fields
            name = _as_text(name or message.get("function") or "")
        elif by_agent and text:
            text = markdown_pieces(text)
        return Message(
            role,
            text,
            tuple(calls),
            is_result,
            _identity(call_id),
            str(name),
            by_agent,
            thought,
            tuple(results),
            tuple(fields),
            tuple(self.hidden),
        )

    def _fields(
        self,
        holder: JsonObject,
        besides: frozenset[str] = KNOWN,
    ) -> list[SideField]:
        """Return the fields that are shown beside the content of a message or a part, and note those that are not."""
        shown = list[SideField]()
        for side_field in side_fields(holder, besides):
            visible = is_shown_beside(holder, side_field.name)
            fields = shown if visible else self.hidden
            fields.append(side_field)
        return shown

    def _beside(
        self,
        part: JsonObject,
        *used: Any,
    ) -> tuple[SideField, ...]:
        """Return the fields of a part or a call that are neither metadata nor `used`, values that are shown anyway."""
        used_values = [*map(id, used)]
        rest = {}
        for key, value in part.items():
            if key not in LABELS and id(value) not in used_values:
                rest[key] = value
        return tuple(self._fields(rest, LABELS))

    def _text(self, value: Any) -> Text:
        if value is None or is_text(value):
            return value or ""
        return self._content(value).text if is_list(value) else json_text(value)

    def _content(self, content: Any) -> _Content:
        """Split a content into its text, its thought, and the calls and results among its parts."""
        if is_object(content):
            inner = None
            if len(content) == 1:  # an object around a text
                inner = first(filter(is_text, map(content.get, _WRAPPERS)))
            is_part = content.get("type") == "text" or medium_of(content)
            if inner is not None:
                content = inner
            elif is_part:
                content = [content]
        if not is_list(content):
            return _Content(self._text(content))
        texts: list[Text] = []
        thoughts: list[Text] = []
        calls = []
        results = []
        for item in content:
            part = normalize_part(item)
            kind = kind_of(part) if is_object(part) else ""
            if kind == "call":
                calls.append(self._call(part))
            elif kind == "tool":
                results.append(self._result(part))
            elif kind == "thought":
                thought = thought_of(part)
                if thought in (None, []):
                    thought = "(not shown)"
                thoughts.append(self._text(thought))
            else:
                texts.append(part if is_text(part) else self._part_text(part))
        return _Content(
            joined(texts),
            joined(thoughts),
            calls,
            results,
        )

    def _part_text(self, part: Any) -> Text:
        """Return the text of a part, a picture or another medium, or the part as JSON."""
        if not is_object(part):
            return json_text(part)
        is_text_part = part.get("type") == "text"
        keys = words("text value refusal" if is_text_part else "text refusal")
        text = first(filter(is_text, map(part.get, keys)))
        if text is not None:
            further = []
            for side_field in self._beside(part, text):
                if not repeats(side_field, text):
                    further.append(side_field)
            return (text, *further) if further else text
        # a document, or an attached file, may hold its text
        is_document = lookup(part, "source.type") == "text"
        is_file = "path" in part and is_text(part.get("content"))
        medium = None if is_document or is_file else medium_of(part)
        if medium is None:
            return json_text(part)
        spoken = self._text(part.get("transcript"))
        return joined([(medium,), spoken]) if spoken else (medium,)

    def _other_text(
        self,
        message: JsonObject,
        *,
        alone: bool,
    ) -> tuple[Text, Iterable[str]]:
        """Return the text of a message without content from other fields, and their names; of several their JSON.

        A message with text must never become an empty line. If it has other lines, and so is not `alone`, only
        fields of text count; so do they if there is one, and the message is not a user's.
        """
        fields = other_text(message)
        named = {key: fields[key] for key in fields if key in _TEXT_KEYS}
        by_user = message.get("role") in USER_ROLES
        if not alone or (named and not by_user):
            fields = named
        if not fields:
            return "", fields
        value = first(named.values())
        if len(fields) == 1 and isinstance(value, str | list):
            return self._content(value).text, fields
        return json_text(fields), fields

    def _call(self, call: Any) -> ToolCall:
        """Read a call of any dialect; one that is not an object is shown as it is."""
        if not is_object(call):
            return ToolCall("", "unknown", call)
        members = flat_call(call)
        name = first(filter(is_text, map(members.get, NAMES)))
        arguments = first_at(members, *ARGUMENTS)
        result = first_stated(call, RESULTS)
        if not name:
            name = "unknown"
            rest = call
            if kind_of(call) == "call":
                # a call of a server's own tool
                name = first_stated(call, KIND_KEYS)
                rest = {}
                for key, value in call.items():
                    if key not in _NO_ARGUMENTS and value is not None:
                        rest[key] = value
            arguments = rest if arguments is None else arguments
        if self.filled:
            arguments = _without_nulls(arguments)
        holders = filter(is_object, map(call.get, HOLDERS))
        fields = self._beside(
            members,
            name,
            arguments,
            result,
            *holders,
        )
        call_id = _identity(first_stated(members, IDS))
        text = None if result is None else self._content(result).text
        return ToolCall(
            call_id,
            name,
            arguments,
            text,
            fields,
        )

    def _result(self, block: JsonObject) -> ToolResult:
        """Read a result among the parts of a message; it may repeat the arguments of its call."""
        if block.get("status") == "error":
            block = {"is_error": True, **block}
        if block.get("outcome") == "success":  # pydantic-ai says it of most
            block = {**block, "outcome": None}
        origin = block.get("origin")
        if is_object(origin):  # Haystack's call
            block = {**origin, **block, "origin": None}
        content = first_at(block, *RETURNED)
        call_id = _identity(first_stated(block, IDS))
        name = _as_text(first_stated(block, NAMES) or "")
        text = self._content(content).text
        repeated = map(block.get, (*NAMES, *ARGUMENTS, "toolResult"))
        fields = self._beside(block, content, *repeated)
        return ToolResult(
            call_id,
            name,
            text,
            fields,
        )
