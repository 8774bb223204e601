"""A judge → the lines of its request files: their form, their limits, the price of an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ruler_cli.config import JudgeSettings
from ruler_cli.errors import UsageError
from ruler_cli.judges.chat_completions import chat_body, first_format
from ruler_cli.judges.pricing import Price, listed_batch_price
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.judges.resolve import LOCAL, OPENAI, model_at_endpoint, model_of
from ruler_cli.types import Request

_AROUND = 64
"""Bytes of a batch, which may be one call, that are no line's own."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file or batch may hold; None: as much as there is."""

    requests: int | None = None
    bytes: int | None = None

    def allow(self, requests: int, size: int) -> bool:
        """Tell if a file may hold so many requests, of so many bytes."""
        number = self.requests is None or requests <= self.requests
        return number and (self.bytes is None or size + _AROUND <= self.bytes)


Target = Literal["openai", "anthropic", "vllm"]
Line = Callable[[bytes, Request], bytes]

LIMITS: dict[Target, Limits] = {
    "openai": Limits(50_000, 200_000_000),
    "anthropic": Limits(100_000, 256_000_000),
    "vllm": Limits(),
}
"""Megabytes are taken as 1,000,000 bytes, which is the less where a provider counts 1,048,576."""

_OWN_ENGINES = ("hosted_vllm", "vllm", "sglang")


def target_of(judge: JudgeSettings, target: Literal["auto"] | Target = "auto") -> Target:
    """Choose the form of the requests, by the judge's name if none is given; UsageError if it tells none."""
    if target != "auto":
        return target
    provider = judge.model.partition("/")[0]
    if provider in _OWN_ENGINES:
        return "vllm"
    if judge.api_base or provider == "openai":
        return "openai"
    if provider == "anthropic":
        return "anthropic"
    raise UsageError(
        f"judge {judge.model}: its provider's form of a batch is not known; give --target openai where it "
        "takes OpenAI's batch files, or --target vllm for an engine of your own"
    )


def batches_of(judge: JudgeSettings) -> Target | None:
    """Whose batch API a judge is asked by; None where there is none that we speak."""
    provider = judge.model.partition("/")[0]
    if judge.model in EMBEDDED or (provider not in ("openai", "anthropic") and not judge.api_base):
        return None
    return "anthropic" if provider == "anthropic" else "openai"


def request_line(target: Target, judge: JudgeSettings) -> Line:
    """Return a function that makes (key, request) a line of a request file; `custom_id` is the key in hex.

    It may import litellm, which takes seconds; each line then takes microseconds. UsageError where the
    judge's name or parameters cannot be sent so.
    """
    if target == "anthropic":
        from ruler_cli.judges.litellm import anthropic_params

        params = anthropic_params(judge)
        return lambda key, request: (
            b'{"custom_id":"%s","params":%s}\n' % (key.hex().encode(), params(request))
        )
    model = model_at_endpoint(judge)
    if target == "openai" and not judge.api_base and model == judge.model and "/" in model:
        from ruler_cli.judges.litellm import model_at_provider

        model = model_at_provider(model)  # a provider knows its model without its own name
    how = first_format(judge, judge.api_base or (OPENAI if target == "openai" else LOCAL))
    return lambda key, request: (
        b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}\n'
        % (key.hex().encode(), chat_body(model, judge.params, request, how))
    )


def batch_price(settings: JudgeSettings) -> Price | None:
    """Return a judge's price in a batch: as listed, else half of its usual one; None if it is not known."""
    price = model_of(settings).price
    if lists_batches(settings):
        return listed_batch_price(settings.model)
    return price.halved if price else None


def lists_batches(settings: JudgeSettings) -> bool:
    """Tell if a judge's price in a batch is one of the list: not that of the user, nor half of another."""
    return not (settings.price or settings.api_base) and listed_batch_price(settings.model) is not None
