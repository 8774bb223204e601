"""A completion that came as a stream of events (SSE) → one chat completion, as if it had come whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ruler_cli.judges.replies import parse_foreign
from ruler_cli.types import words_of

_STREAM = re.compile(rb"\s*(?:data|event|id|retry)?:")
"""Beginning of a stream, whatever its content type is; no JSON and no web page begins so."""
_DATA = re.compile(rb"^data: ?(.*)", re.MULTILINE)
_FAILED = re.compile(rb"^event: ?error", re.MULTILINE)
_TEXTS = words_of("content reasoning_content reasoning refusal arguments text")
"""Fields whose texts come in pieces."""


def is_stream(data: bytes) -> bool:
    """Return whether the body of a response is a stream of events."""
    return _STREAM.match(data) is not None


def chunks_of(data: bytes) -> Iterator[Any]:
    """Yield the chunks of a stream, and {} for its end; ValueError for what is not JSON."""
    for event in re.sub(rb"\r\n?", b"\n", data).split(b"\n\n"):
        text = b"\n".join(_DATA.findall(event)).strip()
        if text == b"[DONE]":
            yield {}
        elif text:
            chunk = parse_foreign(text)
            failed = _FAILED.search(event)
            yield {"error": chunk.get("error", chunk)} if failed else chunk


def joined(chunks: Iterable[Any]) -> Any:
    """Return the chat completion that chunks make, or the first error that one tells.

    None if they end without a reason to finish and without {}, or are something else.
    """
    whole: dict[str, Any] = {}
    ended = False
    with suppress(
        AttributeError, LookupError, RecursionError, TypeError, ValueError
    ):
        for chunk in chunks:
            if error := chunk.get("error"):
                return {"error": error}
            ended = ended or not chunk
            _add(whole, chunk)
        choice = whole["choices"][0]
        choice.setdefault("message", choice.pop("delta", {}))
        return whole if ended or choice.get("finish_reason") else None
    return None


def _add(
    into: dict[str, Any],
    pieces: Mapping[str, Any],
) -> None:
    """Add the pieces of a chunk, or of a part of it: texts and lists grow, all else is replaced."""
    for name, piece in pieces.items():
        before = into.get(name)
        if isinstance(piece, dict):
            _add(into.setdefault(name, {}), piece)
        elif isinstance(piece, list):
            into[name] = before if isinstance(before, list) else _parts(before)
            for item in piece:
                _add_item(into[name], item, name)
        elif isinstance(before, list):
            before += _parts(piece)
        elif before and piece and name in _TEXTS:
            into[name] += piece
        elif piece not in (None, ""):
            into[name] = piece


def _add_item(
    items: list[Any],
    item: Any,
    name: str,
) -> None:
    """Add to the item of the same index, if it has one: a choice, a tool call; some servers number no choice."""
    index = (
        item.get("index", 0 if name == "choices" else None) if item else None
    )
    for earlier in items:
        if index is not None and earlier.get("index", 0) == index:
            _add(earlier, item)
            return
    items.append(item)


def _parts(text: str | None) -> list[Any]:
    """Return a text as content in parts."""
    return [{"type": "text", "text": text}] if text else []
