"""The body of a reply → its text, refusal, probabilities and tokens.

It is a chat completion, or has the answers to typed questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson

from ruler_cli.types import (
    BOM,
    CallError,
    Reply,
    Secret,
    Usage,
    clean,
    secret_texts,
    words_of,
)

_THOUGHTS = ("reasoning_content", "reasoning", "thinking_blocks")
"""Fields of a message with thoughts beside the answer."""
_CUT_OFF = re.compile(
    r"length|max.{0,20}token|context|token.{0,9}limit|compaction|incomplete",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"filter|safety|sensitive|recitation|block_?list|prohibited|spii|refus|guardrail|moderat|censor|model_?armor",
    re.IGNORECASE,
)
"""Reasons to finish, in the words of any provider: an answer was cut off, or stopped for what it says."""
SHORTEST_KEY = 8
"""A shorter key is a placeholder for a server without keys: `x`, `none` and `1` are words of any answer."""
LARGEST = 1 << 20
"""Bytes of the largest reply; more is a broken judge, or one that means harm, and no ledger keeps it."""
TOO_LARGE = "the judge's answer is larger than 1 MiB"
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""Pairs of surrogates as JSON writes them, lone ones, and other escapes."""


_NAME = 300
"""Characters of a model's name."""


def parse_foreign(data: bytes) -> Any:
    """Parse JSON of a judge's; a lone surrogate becomes U+FFFD. JSONDecodeError as orjson raises it."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return orjson.loads(_ESCAPES.sub(_mended, data))


def _mended(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape["lone"] else escape[0]


def without_key(data: bytes, secret: Secret) -> bytes:
    """Remove secrets from foreign JSON, in escaped form too, except one so short that it may be any word."""
    for key in secret_texts(secret):
        if len(key) < SHORTEST_KEY:
            continue
        data = data.replace(key.encode(), b"[key]")
        if b"\\u00" in data or b"\\/" in data or '"' in key or "\\" in key:
            data = _escaped(key).sub(b"[key]", data)
    return data


@lru_cache(64)
def _escaped(key: str) -> re.Pattern[bytes]:
    """A pattern of a key in which JSON, or JSON text inside JSON text, may escape any character."""
    pattern = ""
    for character in key:
        plain = re.escape(character)
        code = f"{ord(character):04x}"
        pattern += rf"(?:\\{{0,8}}{plain}|\\{{1,8}}u(?i:{code}))"
    return re.compile(pattern.encode())


def reply_of(body: bytes) -> Reply | CallError:
    """Read a chat completion from the ledger.

    Never raises: a body that is not a chat completion gives a CallError that holds it.
    """
    body = body.removeprefix(BOM)
    value = None
    with suppress(orjson.JSONDecodeError):
        value = parse_foreign(body)
    return reply_in(value, body)


def reply_in(
    value: Any,
    body: bytes,
    key: Secret = None,
) -> Reply | CallError:
    """Read a parsed chat completion, or answers to typed questions, from a `body` without keys."""
    if decided := _decided(value):
        return replace(decided, body=body)
    try:
        choice = value["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        return CallError(
            "transport",
            "the endpoint's answer is neither a chat completion nor an answer to typed questions",
            "call",
            body=body,
        )
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    litellms = _object(message, "provider_specific_fields")
    refusal = message.get("refusal") or litellms.get("refusal")
    reason = str(choice.get("finish_reason"))
    if _FILTERED.search(reason):
        refusal = refusal or "its content filter stopped the answer"
    text = content if isinstance(content, str) else ""
    cut = _CUT_OFF.search(reason) is not None
    beside = "" if cut or text.strip() else _beside(message)
    usage = usage_of(value)
    return Reply(
        beside or text,
        usage,
        truncated=cut,
        beside=bool(beside),
        thought=_thought(message, usage),
        refusal=clean(str(refusal), key) if refusal else None,
        body=body,
        model=_model_in(value),
        likely=_likely(choice.get("logprobs")),
    )


def _decided(value: Any) -> Reply | None:
    """Read the answers of a decision model, which some gateways wrap; None if it is something else.

    A list has the names of the questions in its items; a name that stands there twice is no name.
    """
    if not isinstance(value, dict):
        return None
    for wrapper in ("result", "response"):
        value = _object(value, wrapper) or value
    answers = value.get("answers")
    if isinstance(answers, list):
        names = [_name_in(answer) for answer in answers]
        answers = {
            name if names.count(name) == 1 else "": answer
            for name, answer in zip(names, answers, strict=True)
        }
    if not isinstance(answers, dict):
        return None
    cost: Any = _object(value, "usage").get("cost")
    if type(cost) not in (int, float) or not 0 < cost < math.inf:
        cost = 0.0
    return Reply(
        "",
        replace(usage_of(value), usd=float(cost)),
        model=_model_in(value),
        answers=answers,
    )


def _name_in(answer: Any) -> str:
    return str(answer.get("name")) if isinstance(answer, dict) else ""


def _beside(message: Mapping[str, Any]) -> str:
    """Return the text of a message that has it only in its field for thoughts."""
    for name in _THOUGHTS:
        text = message.get(name)
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _likely(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """Return the likely first tokens of a choice; () without any.

    The one that was drawn comes first. Two tokens may be written alike.
    """
    likely: list[tuple[str, float]] = []
    with suppress(AttributeError, TypeError, LookupError):
        first = logprobs["content"][0]
        for entry in (first, *(first.get("top_logprobs") or ())):
            token, logprob = entry.get("token"), entry.get("logprob")
            if isinstance(token, str) and type(logprob) in (int, float):
                likely.append((token, float(logprob)))
    # the one that was drawn stands in most lists, too
    same = [pair for pair in likely[1:] if pair[0] == likely[0][0]]
    if same:
        _, stated = likely.pop(0)
        drawn = min(same, key=lambda pair: abs(pair[1] - stated))
        likely.remove(drawn)
        likely.insert(0, drawn)
    return tuple(likely)


def _object(
    value: Mapping[str, Any],
    name: str,
) -> Mapping[str, Any]:
    """Return a member that should be an object; {} for any other value."""
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _model_in(value: Mapping[str, Any]) -> str:
    """Return the name of the model in a body, as text for one line."""
    model = value.get("model")
    return clean(model[:_NAME]) if isinstance(model, str) else ""


def _thought(message: Mapping[str, Any], usage: Usage) -> bool:
    """Return whether a judge has thought before its answer, by the fields of its message and of its usage."""
    if usage.reasoning or any(message.get(name) for name in _THOUGHTS):
        return True
    return str(message.get("content")).lstrip().startswith("<think>")


_PROMPT = words_of("prompt_tokens input_tokens inputTokens")
_ANSWER = words_of("completion_tokens output_tokens")
_CACHED = words_of(
    "cached_tokens cache_read_input_tokens prompt_cache_hit_tokens"
)
_WRITTEN = words_of(
    "cache_creation_input_tokens cache_creation_tokens cache_write_tokens"
)
"""Names of tokens in a usage; those read from a cache and put there may stand in the details of its prompt."""


def usage_of(completion: Mapping[str, Any]) -> Usage:
    """Return the tokens of one call, as a chat completion tells them.

    Reasoning that stands beside the completion (Grok) is added to it, and cached and written tokens beside the prompt
    (Anthropic's own usage) to that: the total says so, or they are more than what they would be part of.
    """
    usage = _object(completion, "usage")
    details = _object(usage, "prompt_tokens_details")
    details = details or _object(usage, "input_tokens_details")
    reasoning = _object(usage, "completion_tokens_details")
    total = _count([usage], ["total_tokens"])
    answer = _count([usage], _ANSWER)
    prompt = _count([usage], _PROMPT) or max(0, total - answer)
    thought = _count([reasoning], ["reasoning_tokens"])
    cached = _count([usage, details], _CACHED)
    written = _count([usage, details], _WRITTEN)
    if thought > answer or total == prompt + answer + thought:
        answer += thought
    stored = cached + written
    beside = total == prompt + answer + stored if total else not details
    if stored > prompt or beside:
        prompt += stored
    return Usage(prompt, answer, cached, 1, written, reasoning=thought)


_MOST_TOKENS = 1 << 40
"""Tokens from which a number is an error of the endpoint and counts as 0."""


def _count(places: Iterable[Mapping[str, Any]], names: Iterable[str]) -> int:
    """Return the largest count of these names."""
    most = 0
    for place in places:
        for name in names:
            number = place.get(name)
            if type(number) is int and most < number < _MOST_TOKENS:
                most = number
    return most
