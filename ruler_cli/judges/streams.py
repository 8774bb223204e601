"""A completion that came as a stream of events (SSE) → one chat completion, as if it had come whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruler_cli.types import parse_foreign

_STREAM = re.compile(rb"\s*(?:data|event|id|retry)?:")
"""Beginning of a stream, whatever its content type is; no JSON and no web page begins so."""
_DONE = b"[DONE]"


def is_stream(data: bytes) -> bool:
    """Tell if the body of a response is a stream of events."""
    return _STREAM.match(data) is not None


def joined(data: bytes) -> dict[str, Any] | None:
    """Return the chat completion that the events of a stream make, or the first error that one tells.

    None if the stream breaks before its end, or holds something else.
    """
    return joined_chunks(_chunks(data))


def joined_chunks(chunks: Iterable[Any]) -> dict[str, Any] | None:
    """Return what `joined` does of parsed chunks; {} marks the end of a stream."""
    try:
        return _whole(chunks)
    except (AttributeError, TypeError, LookupError, ValueError):
        return None


def _whole(chunks: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    whole: dict[str, Any] = {}
    choice: dict[str, Any] = {"index": 0, "message": {}}
    ended = False
    for chunk in chunks:
        if error := chunk.get("error"):
            return {"error": error}
        ended = ended or not chunk
        whole |= {name: item for name, item in chunk.items() if item is not None}
        for piece in chunk.get("choices") or ():
            if not piece.get("index"):
                _add_piece(choice, piece)
    if not (ended or choice.get("finish_reason")):
        return None
    message = choice["message"]
    if calls := message.get("tool_calls"):
        message["tool_calls"] = list(calls.values())
    return whole | {"object": "chat.completion", "choices": [choice]}


def _chunks(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a stream, and {} for its end; ValueError for what is no JSON."""
    for event in re.sub(rb"\r\n?", b"\n", data).split(b"\n\n"):
        lines = [line.partition(b":") for line in event.split(b"\n")]
        pieces = [text.removeprefix(b" ") for name, _, text in lines if name == b"data"]
        failed = any(
            name == b"event" and text.strip() == b"error" for name, _, text in lines
        )
        for value in _values(pieces):
            yield {"error": value.get("error") or value} if failed else value


def _values(pieces: list[bytes]) -> list[Any]:
    """Return the value of an event's lines; of each line if a server leaves out the blank lines between events."""
    try:
        return [_value(b"\n".join(pieces))] if any(pieces) else []
    except ValueError:
        return [_value(piece) for piece in pieces if piece]


def _value(piece: bytes) -> Any:
    return {} if piece.strip() == _DONE else parse_foreign(piece)


def _add_piece(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what a chunk has of the choice; a whole message replaces the pieces before it."""
    rest = dict(piece)
    message = rest.pop("message", None)
    delta = rest.pop("delta", None)
    if message:
        choice["message"] = {}
    _add(choice["message"], message or delta or {})
    if logprobs := rest.pop("logprobs", None):
        _add(choice.setdefault("logprobs", {}), logprobs)
    choice |= {name: item for name, item in rest.items() if item is not None}


def _add(into: dict[str, Any], pieces: Mapping[str, Any]) -> None:
    """Add pieces to the texts and lists of a message, or of the log probabilities."""
    for name, piece in pieces.items():
        before = into.get(name)
        if piece is None:
            into.setdefault(name, None)
        elif name == "tool_calls":
            calls = into[name] = before or {}
            for call in piece:
                _add_call(calls.setdefault(call.get("index", len(calls)), {}), call)
        elif before is None or name == "role":
            into[name] = piece
        elif isinstance(before, list) or isinstance(piece, list):
            into[name] = _parts(before) + _parts(piece)
        else:
            into[name] = before + piece


def _add_call(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece of a tool call: its arguments come in pieces, all else at once."""
    function = piece.get("function") or {}
    whole = call.get("function") or {}
    text = (whole.get("arguments") or "") + (function.get("arguments") or "")
    named = {name: item for name, item in function.items() if item}
    call |= {name: item for name, item in piece.items() if item}
    call["function"] = whole | named | {"arguments": text}


def _parts(content: Any) -> list[Any]:
    """Return content as a list of parts."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
