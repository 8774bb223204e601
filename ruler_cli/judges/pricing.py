"""Prices, contexts and limits of models from litellm's price list, without importing litellm."""

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
    """USD per token: of the prompt, of the completion, and of the cached part of the prompt."""

    prompt: float
    completion: float
    cached: float

    def of(self, usage: Usage) -> float:
        """USD for tokens; cached ones are part of the prompt and are billed once."""
        fresh = max(0, usage.prompt - usage.cached)
        return (
            fresh * self.prompt
            + usage.cached * self.cached
            + usage.completion * self.completion
        )

    @property
    def halved(self) -> Price:
        """Half the price, as OpenAI and Anthropic bill a batch; cached tokens cost as much as others."""
        return Price(self.prompt / 2, self.completion / 2, self.prompt / 2)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Price and limits of a model; None is unknown.

    `context` and `max_output` are tokens. A model with `reasoning` bills more completion tokens than its
    answer shows; it is False for a listed model that the list does not mark.
    """

    price: Price | None = None
    context: int | None = None
    max_output: int | None = None
    reasoning: bool | None = None


def model_info(name: str) -> ModelInfo:
    """Look up a model, with and without its provider."""
    entry = _entry(name)
    context, output = entry.get("max_input_tokens"), entry.get("max_output_tokens")
    return ModelInfo(
        _price(entry, "", "cache_read_input_token_cost"),
        context if isinstance(context, int) else None,
        output if isinstance(output, int) else None,
        entry.get("supports_reasoning") is True if entry else None,
    )


def stated_price(per_million: tuple[float, float]) -> Price:
    """The price that a user states in USD per million tokens of prompt and completion."""
    prompt, completion = (x / 1e6 for x in per_million)
    return Price(prompt, completion, prompt)


def listed_batch_price(name: str) -> Price | None:
    """The price of a model in a batch, which is that of cached tokens too; None if the list has none."""
    return _price(_entry(name), "_batches")


def _price(entry: dict[str, Any], ending: str, cached: str = "") -> Price | None:
    """The price in an entry's fields with that ending; None if it has none."""
    prompt, completion = (
        entry.get(f"{kind}_cost_per_token{ending}") for kind in ("input", "output")
    )
    if not (isinstance(prompt, float | int) and isinstance(completion, float | int)):
        return None
    read = entry.get(cached)
    return Price(prompt, completion, read if isinstance(read, float | int) else prompt)


def _entry(name: str) -> dict[str, Any]:
    table = _table()
    entry = table.get(name) or table.get(name.partition("/")[2])
    return entry if isinstance(entry, dict) else {}


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        return {}
    try:
        table = orjson.loads((Path(package.origin).parent / _LIST).read_bytes())
    except (OSError, orjson.JSONDecodeError):  # then no price is known
        return {}
    return table if isinstance(table, dict) else {}
