"""The judge's context and a request's size, as the judge's own message states them."""

from __future__ import annotations

import re

_LOOKED_AT = 4000
_N = r"{0,200}?\b"
_LIMIT, _ACTUAL = r"(?P<limit>\d{1,9})", r"(?P<actual>\d{1,9})"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.DOTALL)
    for form in (
        # SGLang, of prompt and answer together
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} tokens from the input",
        # OpenAI, OpenRouter, DeepSeek, vLLM: the messages alone where they are told apart
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} (?:in the messages|of text input)",
        rf"maximum context length (?:is|of) {_LIMIT}\b.{_N}{_ACTUAL} (?:input )?tokens",
        rf"passed {_ACTUAL} input tokens.{_N}context length is only {_LIMIT}",
        rf"prompt \(length {_ACTUAL}\) is longer than the maximum model length of {_LIMIT}",
        # SGLang
        rf"input \({_ACTUAL} tokens\) is longer than the model's context length \({_LIMIT}",
        rf"input length \({_ACTUAL} tokens\) exceeds the maximum allowed length \({_LIMIT}",
        # Anthropic
        rf"prompt is too long: {_ACTUAL} tokens > {_LIMIT}",
        rf"exceed context limit: {_ACTUAL} \+ \d{{1,9}} > {_LIMIT}",
        # Gemini
        rf"input token count \({_ACTUAL}\) exceeds the maximum number of tokens allowed \({_LIMIT}",
        # llama.cpp
        rf"request \({_ACTUAL} tokens\) exceeds the available context size \({_LIMIT}",
        # xAI
        rf"maximum prompt length is {_LIMIT}\b.{_N}{_ACTUAL} tokens",
        # Mistral
        rf"prompt contains {_ACTUAL} tokens.{_N}model with {_LIMIT} maximum context",
        # Fireworks
        rf"prompt is too long: {_ACTUAL}, model maximum context length: {_LIMIT}",
        # Cerebras
        rf"current length is {_ACTUAL} while limit is {_LIMIT}",
        # a litellm proxy's own check, before it asks anyone
        rf"Max Input Tokens={_LIMIT}, Got={_ACTUAL}",
        # TGI, Together
        rf"must (?:be <=|have less than) {_LIMIT}\b.{_N}given: {_ACTUAL}\b",
        # OpenAI and Groq, of a tier's tokens per minute
        rf"request too large.{_N}limit {_LIMIT}, requested {_ACTUAL}",
    )
)


def context_of(text: str) -> tuple[int, int] | None:
    """(limit, actual) tokens as the judge's own message states them."""
    for form in _FORMS:
        found = form.search(text[:_LOOKED_AT])
        if found:
            return int(found["limit"]), int(found["actual"])
    return None
