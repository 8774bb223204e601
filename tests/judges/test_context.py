"""The judge's own numbers of its context."""

from __future__ import annotations

import pytest

from ruler_cli.judges import faults
from ruler_cli.judges.faults import context_of

FORMS = [
    (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least 8193 "
        "input tokens, which exceeds this limit even without any output tokens. (parameter=input_tokens)",
        (8192, 8193),
    ),
    (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a "
        "total of 8500 tokens: 7900 tokens from the input messages and 600 tokens for the completion.",
        (8192, 7900),
    ),
    ("maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens", (4096, 5000)),
    ("maximum context length of 10 tokens ... request has 12 input tokens", (10, 12)),
    (
        "maximum context length is 4096 tokens. However, you requested 5096 tokens (5000 in the messages, 96 "
        "in the completion)",
        (4096, 5000),
    ),
    ("maximum context length is 9 tokens. You requested about 12 tokens (11 of text input, 1 in", (9, 11)),
    (
        "You passed 51 input tokens and requested 1 output tokens. However, the context length is only 40",
        (40, 51),
    ),
    ("decoder prompt (length 5000) is longer than the maximum model length of 4096.", (4096, 5000)),
    ("The input (61709 tokens) is longer than the model's context length (40960 tokens).", (40960, 61709)),
    ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", (59862, 160062)),
    ("prompt is too long: 210000 tokens > 200000 maximum", (200000, 210000)),
    ("input length and `max_tokens` exceed context limit: 86888 + 119866 > 204648, dec", (204648, 86888)),
    ("The input token count (12) exceeds the maximum number of tokens allowed (10).", (10, 12)),
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try", (4096, 5000)),
    (
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        (131072, 140000),
    ),
    ("Prompt contains 40 tokens and 0 draft tokens, too large for model with 32 maximum context", (32, 40)),
    ("The prompt is too long: 40000, model maximum context length: 32768", (32768, 40000)),
    ("Current length is 9000 while limit is 8192", (8192, 9000)),
    (
        "No models have context window large enough for this call.\nModel=openai/x, Max Input Tokens=400, "
        "Got=444\nModel=openai/y, Max Input Tokens=300, Got=444",
        (400, 444),
    ),
    ("`inputs` must have less than 8192 tokens. Given: 9000", (8192, 9000)),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", (4096, 5000)),
    ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.", (30000, 342389)),
]


def test_context(subtests: pytest.Subtests) -> None:
    """The limit and the request's size are read from the message of each provider."""
    for message, found in FORMS:
        with subtests.test(message=message, found=found):
            assert context_of(message) == found


@pytest.mark.parametrize("index", range(len(faults._FORMS)))
def test_no_dead_form(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one form some message would be read otherwise."""
    monkeypatch.setattr(faults, "_FORMS", faults._FORMS[:index] + faults._FORMS[index + 1 :])
    assert [context_of(message) for message, _ in FORMS] != [found for _, found in FORMS]


def test_nothing_told() -> None:
    """A message without both numbers tells nothing."""
    assert context_of("too long") is None
    assert context_of("maximum context length is 4096 tokens") is None


def test_context_of_hostile_text() -> None:
    """A message that echoes a hostile request is looked at only so far, so that the look ends."""
    assert context_of("maximum context length is 1 " * 3000 + "9" * 40_000) is None
    assert context_of("x" * 10_000 + "prompt is too long: 2 tokens > 1") is None
