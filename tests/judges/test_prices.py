"""What the price list tells of a model."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.judges import prices
from ruler_cli.judges.prices import Model, Price, known, stated
from ruler_cli.records import Usage

ENTRY = {
    "input_cost_per_token": 2e-6,
    "output_cost_per_token": 8e-6,
    "cache_read_input_token_cost": 5e-7,
    "max_input_tokens": 200_000,
    "max_output_tokens": 100_000,
    "supports_reasoning": True,
}


@pytest.mark.parametrize(
    ("entry", "model"),
    [
        (ENTRY, Model(Price(2e-6, 8e-6, 5e-7), 200_000, 100_000, reasoning=True)),
        (
            {"input_cost_per_token": 1e-6, "output_cost_per_token": 0},
            Model(Price(1e-6, 0, 1e-6), None, None, False),
        ),
        ({"input_cost_per_token": 1e-6}, Model(reasoning=False)),
        (
            {"max_input_tokens": "many", "max_output_tokens": "more", "supports_reasoning": "yes"},
            Model(reasoning=False),
        ),
        ({"supports_reasoning": False}, Model(reasoning=False)),
        ({}, Model()),
    ],
)
def test_entry(entry: dict[str, Any], model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an entry tells is known, and what it does not tell in its proper form is unknown."""
    monkeypatch.setattr(prices, "_table", lambda: {"m": entry})
    assert known("m") == model
    assert known("provider/m") == model
    assert known("other") == Model()


def test_list() -> None:
    """The list that comes with litellm tells of the default judge, without an import of litellm."""
    model = known("openai/o3")
    assert model.price is not None
    assert model.reasoning
    assert model.max_output
    assert known("openai/gpt-4o-mini").reasoning is False
    assert known("openai/nothing-of-that-name").reasoning is None


def test_cached_tokens_are_billed_once() -> None:
    """Cached tokens are a part of the prompt, at their own price."""
    assert Price(4.0, 2.0, 1.0).of(Usage(prompt=10, completion=3, cached=6)) == 4 * 4 + 6 * 1 + 3 * 2
    assert Price(4.0, 2.0, 1.0).of(Usage(prompt=1, cached=6)) == 6


def test_stated() -> None:
    """A stated price is per million tokens, cached ones as any."""
    assert stated((2.0, 8.0)) == Price(2e-6, 8e-6, 2e-6)
