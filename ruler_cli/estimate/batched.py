"""What the same requests take in a provider's batches: USD, batches, hours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ruler_cli.estimate.outlay import PROMPT, Outlay, Range
from ruler_cli.judges.prices import Price
from ruler_cli.judges.targets import Limits, Target
from ruler_cli.records import Usage
from ruler_cli.scoring.request import BYTES_PER_TOKEN

HOURS = 24
"""Within so many hours OpenAI and Anthropic are done with a batch; what is not done by then expires."""
_WRITTEN = 1.08
"""Bytes of a prompt in a request file to its own, since quotes and line breaks are escaped: as measured on
the rollouts of tau-bench, where 1,874,287 become 2,020,220.
"""
_FRAME = 608
"""Bytes of a line of a request file without its prompt, most of them the schema of the answer: measured."""


@dataclass(frozen=True, slots=True)
class Batched:
    """One judge's requests in batches; `listed` tells that the price is one of a list and not half of one.

    `provider` is None where there is no batch API that we speak. Figures are None where they are unknown.
    """

    judge: str
    provider: Target | None
    limits: Limits
    cost_usd: Range | None
    batches: Range | None
    listed: bool


def batched(
    outlay: Outlay, provider: Target | None, limits: Limits, price: Price | None, *, listed: bool
) -> Batched:
    """What a judge's requests take in batches; the high values have corrective second requests, too."""
    if provider is None:
        return Batched(outlay.judge, None, limits, None, None, listed=False)
    prompt, answers, calls = outlay.prompt_tokens, outlay.completion_tokens, outlay.calls
    batches = Range(
        _batches(calls.low, prompt.low / PROMPT.low, limits),
        _batches(calls.expected, prompt.expected / PROMPT.expected, limits),
        _batches(calls.high, prompt.high / PROMPT.high, limits),
    )
    cost = None
    if price is not None:
        cost = Range(
            _cost(price, prompt.low, answers.low),
            _cost(price, prompt.expected, answers.expected),
            _cost(price, prompt.high, answers.high),
        )
    return Batched(outlay.judge, provider, limits, cost, batches, listed)


def _batches(requests: float, tokens: float, limits: Limits) -> int:
    """How many batches hold so many requests, whose prompts have so many tokens by their bytes."""
    size = tokens * BYTES_PER_TOKEN * _WRITTEN + requests * _FRAME
    by_number = requests / limits.requests if limits.requests else 0.0
    by_size = size / limits.bytes if limits.bytes else 0.0
    return math.ceil(max(by_number, by_size))


def _cost(price: Price, prompt: float, completion: float) -> float:
    return price.of(Usage(round(prompt), round(completion)))
