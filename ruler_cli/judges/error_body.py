"""The body of an error answer, in the spellings that providers and gateways have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_SIGNS = ("code", "type", "status", "error_type", "__type", "reason", "quotaId", "retryDelay")
"""Names whose short values tell what kind of error it is, at any depth."""
_SHORT, _DEEP, _MOST = 100, 6, 30
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]{0,500}>")
_ASIDE = re.compile(
    r"\s(?:LiteLLM: model group '|LiteLLM Retried: \d|(?:Received Model Group|Passed model)="
    r"|model=\S{1,200} \w{1,30}_fallbacks?=)"
)
"""Where a litellm proxy begins to tell of its own routing, behind what the provider said."""
_LONGEST = 2000


def error_of(data: bytes) -> tuple[str, str]:
    """(signs, message) of an error body: its codes in one line, and what it says."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return "", _page(data[: 4 * _LONGEST].decode("utf-8", "replace"))
    if isinstance(value, list) and value:  # Gemini's OpenAI endpoint
        value = value[0]
    if not isinstance(value, Mapping):
        return "", str(value)[:_LONGEST]
    signs = " ".join(list(_signs(value, _DEEP))[:_MOST])
    error = value.get("error") or value
    if not isinstance(error, Mapping):
        return signs, str(error)[:_LONGEST]
    said = error.get("message") or error.get("detail") or error.get("msg") or error
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None  # OpenRouter: the provider's word
    told = _ASIDE.split(_text(said)[:_LONGEST], maxsplit=1)[0].rstrip()
    return signs, (told + (f": {_text(raw)}" if raw else ""))[:_LONGEST]


def status_within(data: bytes) -> int | None:
    """The status that an error body has which came with a good one (200 where it names none).

    None where the body is no such error.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(value, Mapping) or not value.get("error") or value.get("choices"):
        return None
    error = value["error"]
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 200


def _signs(value: Any, deep: int) -> Iterator[str]:
    if isinstance(value, list):
        for one in value[:_MOST]:
            yield from _signs(one, deep)
    if not isinstance(value, Mapping) or not deep:
        return
    for name, one in value.items():
        if name in _SIGNS and isinstance(one, str | int) and len(str(one)) <= _SHORT:
            yield f"{name}: {one}" if name == "retryDelay" else str(one)
        elif name not in ("input", "message"):  # FastAPI gives the request back
            yield from _signs(one, deep - 1)


def _text(said: Any) -> str:
    """One text of what may be FastAPI's list of where and what."""
    if isinstance(said, list):
        parts = (f"{one.get('loc', '')}: {one.get('msg', '')}" for one in said if isinstance(one, Mapping))
        return "; ".join(parts) or str(said)
    return str(said)


def _page(text: str) -> str:
    """A page's title, or its words, or the text as it is."""
    title = _TITLE.search(text)
    return " ".join((title[1] if title else _TAG.sub(" ", text)).split())[:_LONGEST]
