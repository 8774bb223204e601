"""A judge, and the reading of its answer: a chat completion, or an error in any provider's spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from ruler_cli.answer import reply_of
from ruler_cli.errors import UsageError
from ruler_cli.judges.provider_errors import Refusal
from ruler_cli.suggestions import nearest
from ruler_cli.types import CallError, Reply

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""

_SIGNS = ("code", "type", "status", "error_type", "__type", "reason", "quotaId", "retryDelay")
"""Names whose short values tell what kind of error it is, at any depth."""
_SHORT, _DEEP, _MOST = 100, 6, 30
_TITLE = re.compile(r"<title[^>]{0,200}>(.{1,200}?)</title", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]{0,500}>")
_ASIDE = re.compile(
    r"\s(?:LiteLLM: model group '|LiteLLM Retried: \d|(?:Received Model Group|Passed model)="
    r"|model=\S{1,200} \w{1,30}_fallbacks?=)"
)
"""Beginning of a litellm proxy's words on its own routing, behind the provider's message."""
_LONGEST = 2000


class MissingKeyError(UsageError):
    """A judge's key is not there: what to set, and the ways out."""

    def __init__(self, name: str, variable: str, *, trial: bool = True) -> None:
        """`trial`: the command can also do without a model."""
        ways = [f"set it (export {variable}=…)", "name another variable with --api-key-env VAR"]
        end = ", or try the pipeline without a model: -m offline"
        told = ", ".join(ways) + end if trial else ", or ".join(ways)
        super().__init__(f"judge {name} needs a key and {variable} is not set; {told}")
        self.name, self.variable = name, variable


def unknown_judge(name: str, known: Iterable[str] = ()) -> str:
    """The sentence for a name that no provider has: how to write it, or which of the known was meant."""
    meant = nearest(name, (*EMBEDDED, *known))
    hint = f"did you mean `{meant}`? Else write" if meant else "write"
    return (
        f"judge {name}: no provider is known by that name; {hint} it as provider/name, e.g. "
        "anthropic/…, or give --api-base for an endpoint of your own"
    )


def answer_of(
    status: int, data: bytes, headers: Mapping[str, str] | None = None, key: str | None = None
) -> Reply | CallError | Refusal:
    """Read an answer with its status: an error may come with a good one, and is one all the same."""
    if status < 300:
        reply = reply_of(data, key)
        within = status_within(data) if isinstance(reply, CallError) else None
        if within is None:
            return reply
        status = within
    return Refusal(status, *error_of(data), headers or {})


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
