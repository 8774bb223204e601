"""The answer of a judge: the form that the prompt asks for, and the chat completion that holds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from ruler_cli.types import CallError, Reply, Usage

FORM = """\
Answer with one JSON object and nothing else: \
{"scores": [{"trajectory_id": "...", "explanation": "...", "score": 0.0}]}. Give exactly one entry \
for every id in the last line of the request, copy the id as it stands there, write the \
explanation (one or two sentences) before the score, and give the score as a plain number from 0 \
to 1.\
"""

_KEYED = """\
Answer with one JSON object and nothing else: \
{"scores": {"ID": {"explanation": "...", "score": "..."}}}. Give "scores" exactly one member for \
every id in the last line of the request, in their order, with the id as its key as it stands \
there, write the explanation (one or two sentences) before the score, and give the score as a \
number from 0 to 1 with up to two decimals, in quotes.\
"""
CHARACTERS_PER_TOKEN = 3.8
"""Ratio by which tokens are estimated where nobody counts them."""
EXPLANATION = 300
"""Characters of an explanation, if the form can bound them: one or two sentences."""

_LIST: dict[str, Any] = {
    "type": "object",
    "properties": {
        "scores": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "trajectory_id": {"type": "string"},
                    "explanation": {"type": "string"},
                    "score": {"type": "number"},
                },
                "required": ["trajectory_id", "explanation", "score"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["scores"],
    "additionalProperties": False,
}
"""Schema of an answer with a list: the same for every group, so that providers compile it once."""


def list_schema(size: int = 0) -> dict[str, Any]:
    """The schema of an answer with a list of entries, `size` of them if that is not 0."""
    if not size:
        return _LIST
    scores = {**_LIST["properties"]["scores"], "minItems": size, "maxItems": size}
    return {**_LIST, "properties": {"scores": scores}}


@lru_cache(4)
def keyed(system: str) -> str:
    """The system message for an object with the ids as keys, made of the one for a list."""
    return system.removesuffix(FORM) + _KEYED if system.endswith(FORM) else system


_THOUGHTS = ("reasoning_content", "reasoning", "thinking_blocks")
"""Fields of a message with thoughts beside the answer."""
BOM = b"\xef\xbb\xbf"
"""Byte order mark, with which some servers begin a response."""
SHORTEST_KEY = 8
"""A shorter key is a placeholder for a server without keys: `x`, `none` and `1` are words of any answer."""
_LOGIN = re.compile(r"(?<=://)[^/@\s]{1,200}@")
_OBJECT = re.compile(r"\s?(?:ssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_KEY = re.compile(r"\b(?:sk|pk|gsk|xai|AIza)[-_]?[A-Za-z0-9_\-*.]{8,}|\bBearer\s+\S+")
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""Pairs of surrogates as JSON writes them, lone ones, and other escapes."""
_SENTENCE = 300
"""Characters of foreign text in a sentence."""


def readable_text(text: str) -> str:
    """Return text that can be encoded as UTF-8: a lone surrogate becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def parse_foreign(data: bytes) -> Any:
    """Parse JSON of a judge's; a lone surrogate becomes U+FFFD. JSONDecodeError as orjson raises it."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if b"\\ud" not in data and b"\\uD" not in data:
            raise
        return orjson.loads(_ESCAPES.sub(lambda escape: b"\\ufffd" if escape["lone"] else escape[0], data))


def without_key(data: bytes, key: str | None) -> bytes:
    """Foreign JSON with the key removed, also with escapes; unless it is so short that it may be any word."""
    if not key or len(key) < SHORTEST_KEY:
        return data
    data = data.replace(key.encode(), b"[key]")
    if b"\\u00" in data or b"\\/" in data:
        return _escaped(key).sub(b"[key]", data)
    return data


@lru_cache(16)
def _escaped(key: str) -> re.Pattern[bytes]:
    """A pattern of a key in which JSON, or JSON text inside JSON text, may escape any character."""
    each = ((re.escape(one), ord(one)) for one in key)
    return re.compile(
        "".join(rf"(?:\\{{0,8}}{one}|\\{{1,8}}u(?i:{number:04x}))" for one, number in each).encode()
    )


def reply_of(body: bytes, key: str | None = None) -> Reply | CallError:
    """Read a chat completion, from the network or from the ledger; the key is removed from the result.

    Never raises: a body that is no chat completion gives a CallError that holds it.
    """
    body = without_key(body, key).removeprefix(BOM)
    try:
        value = parse_foreign(body)
        choice = value["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError):
        return CallError("transport", "the endpoint's answer is no chat completion", "call", body=body)
    if isinstance(content, list):
        texts = (p.get("text") for p in content if isinstance(p, Mapping))
        content = "".join(text for text in texts if isinstance(text, str))
    more = message.get("provider_specific_fields")
    refusal = message.get("refusal") or (more.get("refusal") if isinstance(more, Mapping) else None)
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        refusal = refusal or "its content filter stopped the answer"
    return Reply(
        content if isinstance(content, str) else "",
        usage_of(value.get("usage")),
        truncated=reason == "length",
        thought=_thought(message, value.get("usage")),
        refusal=clean(str(refusal), key) if refusal else None,
        body=body,
        model=_model_name(value.get("model")),
    )


@lru_cache(16)
def _served(name: str) -> str:
    return clean(name[:_SENTENCE])


def _model_name(value: Any) -> str:
    return _served(value) if isinstance(value, str) else ""


def _thought(message: Mapping[str, Any], usage: Any) -> bool:
    """Tell if a judge has thought before its answer, by the fields of its message and of its usage."""
    content = message.get("content")
    if any(message.get(name) for name in _THOUGHTS):
        return True
    if isinstance(content, str) and content.lstrip().startswith("<think>"):
        return True
    details = usage.get("completion_tokens_details") if isinstance(usage, Mapping) else None
    return isinstance(details, Mapping) and _count(details.get("reasoning_tokens")) > 0


def usage_of(value: Any) -> Usage:
    """The tokens of one call, from the `usage` object of the OpenAI protocol."""
    usage = value if isinstance(value, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(
        _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached), 1
    )


_UNCOUNTED = 1 << 40
"""Tokens from which a number is an error of the endpoint and counts as 0."""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _UNCOUNTED else 0


def clean(text: str, key: str | None = None) -> str:
    """Foreign text for one line of a terminal, log or report: short, without keys and control characters."""
    text = readable_text(text.replace(key, "[key]") if key else text)
    text = _LOGIN.sub("[key]@", _OBJECT.sub("", _CONTROL.sub(" ", text)))
    text = _KEY.sub("[key]", text).strip()
    return text if len(text) <= _SENTENCE else text[:_SENTENCE] + "…"
