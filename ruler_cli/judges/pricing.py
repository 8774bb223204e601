"""Price and context of a judge, from litellm's price list, without importing litellm."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from ruler_cli.types import Usage

_LIST = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token of prompt, of prompt read from a cache, and of completion."""

    prompt: float
    completion: float
    cached: float

    def of(self, usage: Usage) -> float:
        """USD of some tokens; cached ones are part of the prompt and are billed once."""
        fresh = max(0, usage.prompt - usage.cached)
        return fresh * self.prompt + usage.cached * self.cached + usage.completion * self.completion

    @property
    def halved(self) -> Price:
        """Half of it, which is what OpenAI and Anthropic take in a batch; a cache is not counted on."""
        return Price(self.prompt / 2, self.completion / 2, self.prompt / 2)


@dataclass(frozen=True, slots=True)
class PricedModel:
    """Facts about a model, by its name; None is unknown.

    `context` and `max_output` are tokens; a model with `reasoning` bills more completion tokens
    than its answer shows. A listed model that is not said to reason does not.
    """

    price: Price | None = None
    context: int | None = None
    max_output: int | None = None
    reasoning: bool | None = None


def known(name: str) -> PricedModel:
    """Look a model up, with and without its provider."""
    entry = _entry(name)
    prompt, completion = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    price = None
    if isinstance(prompt, float | int) and isinstance(completion, float | int):
        cached = entry.get("cache_read_input_token_cost")
        price = Price(prompt, completion, cached if isinstance(cached, float | int) else prompt)
    context, output = entry.get("max_input_tokens"), entry.get("max_output_tokens")
    return PricedModel(
        price,
        context if isinstance(context, int) else None,
        output if isinstance(output, int) else None,
        entry.get("supports_reasoning") is True if entry else None,
    )


def stated(per_million: tuple[float, float]) -> Price:
    """A price as `--price IN,OUT` states it: USD per million tokens."""
    prompt, completion = (x / 1e6 for x in per_million)
    return Price(prompt, completion, prompt)


def in_batches(name: str) -> Price | None:
    """A model's price in a batch as the list has it; None where it says nothing of batches."""
    entry = _entry(name)
    prompt, completion = (entry.get(f"{what}_cost_per_token_batches") for what in ("input", "output"))
    if not (isinstance(prompt, float | int) and isinstance(completion, float | int)):
        return None
    return Price(prompt, completion, prompt)


def _entry(name: str) -> dict[str, Any]:
    table = _table()
    entry = table.get(name) or table.get(name.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        return {}
    try:
        table = orjson.loads((Path(found.origin).parent / _LIST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return table if isinstance(table, dict) else {}
