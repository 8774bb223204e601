"""What judges share: how an answer is read, the sentence for a missing key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.judges.faults import clean
from ruler_cli.nearest import nearest
from ruler_cli.records import Fault, Reply, Usage

EMBEDDED = ("offline", "simulated")
"""Judges without a model."""

_THOUGHTS = ("reasoning_content", "reasoning", "thinking_blocks")
"""Fields of a message in which thoughts stand beside the answer."""
_SECRET = 8
"""Characters below which a key is a placeholder, as servers without keys are given one: `x`, `none` and `1`
stand in answers for what they are."""


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


def without_key(data: bytes, key: str | None) -> bytes:
    """Foreign bytes, from which the key is cut out; a word that is too short to be one may be any word."""
    return data.replace(key.encode(), b"[key]") if key and len(key) >= _SECRET else data


def reply_of(body: bytes, key: str | None = None) -> Reply | Fault:
    """Read a chat completion, from the wire or from the ledger; the key is cut out of what is kept.

    Never raises: whatever is no chat completion is a Fault that carries it.
    """
    body = without_key(body, key)
    try:
        value = orjson.loads(body)
        choice = value["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError):
        return Fault("transport", "the endpoint's answer is no chat completion", "call", body=body)
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
    )


def _thought(message: Mapping[str, Any], usage: Any) -> bool:
    """Whether a judge has thought before its answer, by what servers and providers tell of it."""
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


_MOST = 1 << 40
"""No call has so many tokens; a larger number is the endpoint's mistake."""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 0
