"""Prices of calls: as litellm counts them for its list, and by the providers' pages where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.judges.litellm import _litellm
from ruler_cli.judges.providers import Price, listed_batch_price, model_info
from ruler_cli.judges.replies import usage_of
from ruler_cli.judges.resolve import model_of
from ruler_cli.settings.model_list import listed
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Usage

MODELS = """
openai/gpt-4o-mini openai/gpt-4.1 openai/o3 openai/gpt-5.4 openai/gpt-5.6 openai/gpt-6-luna
azure/gpt-4o azure/gpt-5.4 azure/gpt-5.6 azure/eu/gpt-5.4
anthropic/claude-sonnet-4-5 anthropic/claude-opus-4-5 anthropic/claude-haiku-5-5
gemini/gemini-2.5-pro gemini/gemini-2.5-flash gemini/gemini-3.1-pro-preview
vertex_ai/gemini-3.1-pro-preview vertex_ai/claude-sonnet-4-5 vertex_ai/claude-haiku-5-5
bedrock/anthropic.claude-sonnet-4-20250514-v1:0 bedrock/eu.anthropic.claude-sonnet-4-20250514-v1:0
bedrock/amazon.nova-lite-v1:0
xai/grok-4.20-0309-reasoning xai/grok-4.3 xai/grok-4.3-latest
deepseek/deepseek-chat minimax/MiniMax-M3
perplexity/openai/gpt-5.2 azure/gpt-luna-latest anthropic/claude-sonnet-latest bedrock/claude-opus-latest
"""
"""Models with prices above 100k, 128k, 200k, 272k and 512k tokens, of cache writes, and by service tier.

The rows of names that end in `latest` hold no price but the name of another row."""
LENGTHS = (1_000, 100_001, 199_999, 200_001, 300_000, 600_000)


def report(prompt: int, cached: int = 0, written: int = 0) -> Any:
    """Return a usage as litellm hands it on, with 300 of 1,000 tokens of the completion thought."""
    details = {"cached_tokens": cached, "cache_write_tokens": written}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": 1000,
        "total_tokens": prompt + 1000,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": 300},
    }


def litellm_cost(model: str, usage: Any, tier: str | None = None) -> float:
    """Return what litellm's own function counts for a call."""
    litellm = _litellm()
    read = litellm.Usage(**usage)
    costs = litellm.cost_per_token(model, usage_object=read, service_tier=tier)
    return float(sum(costs))


def price_of(model: str, tier: str | None = None) -> Price:
    """Return the listed price of a model."""
    price = model_info(model, tier or "").price
    assert price, model
    return price


def cost(model: str, usage: Any, tier: str | None = None) -> float:
    """Return what a reply with such a usage costs."""
    return price_of(model, tier).of(usage_of({"usage": usage}))


@pytest.mark.parametrize(
    ("tiers", "lengths"),
    [
        ((None,), (1_000, 300_000)),
        # litellm takes a twentieth of a second for each
        pytest.param(
            (None, "default", "flex", "priority"),
            LENGTHS,
            marks=pytest.mark.long,
        ),
    ],
)
def test_as_litellm(
    tiers: tuple[str | None, ...], lengths: tuple[int, ...]
) -> None:
    """A call costs what litellm counts: short and long, cached, written to a cache, in each service tier."""
    models = MODELS.split()
    assert len(models) >= 25
    for model in models:
        # a write costs DeepSeek's users as much as any token, and litellm nothing
        writes = not model.startswith("deepseek/")
        for tier in tiers:
            # a tier without prices costs as usual
            priced = (
                tier
                if f"input_cost_per_token_{tier}" in listed(model)
                else None
            )
            for prompt in lengths:
                part = prompt // 4
                usages = [
                    report(prompt, part, part * writes),
                    report(prompt),
                    report(prompt, cached=2 * part),
                ]
                for usage in usages[: len(tiers)]:
                    expected = litellm_cost(model, usage, priced)
                    case = model, tier, usage
                    assert cost(model, usage, tier) == pytest.approx(
                        expected
                    ), case


def test_page_not_litellm() -> None:
    """Our count is that of the provider's page also for usages where that of litellm is not."""
    # Anthropic's own form: fresh, cached and written tokens stand side by side; litellm drops the fresh ones
    usage = {
        "prompt_tokens": 1_000,
        "completion_tokens": 100,
        "cache_read_input_tokens": 9_000,
        "cache_creation_input_tokens": 2_000,
    }
    page = (1_000 * 3 + 9_000 * 0.3 + 2_000 * 3.75 + 100 * 15) / 1e6
    model = "anthropic/claude-sonnet-4-5"
    assert cost(model, usage) == pytest.approx(page)
    assert litellm_cost(model, usage) < 0.9 * page
    # xAI's own form at another address: thought stands beside the answer, at the price of the answer
    grok = report(1_000) | {"total_tokens": 1_000 + 1_000 + 300}
    page = (1_000 * 1.25 + 1_300 * 2.5) / 1e6
    assert cost("xai/grok-4.20-0309-reasoning", grok) == pytest.approx(page)
    # DeepSeek has no price of writes: a token that is not read from the cache costs its price
    usage = report(1_000, written=1_000)
    page = (1_000 * 0.28 + 1_000 * 0.42) / 1e6
    assert cost("deepseek/deepseek-chat", usage) == pytest.approx(page)
    assert litellm_cost("deepseek/deepseek-chat", usage) < page


def test_service_tier() -> None:
    """The tier of the parameters counts; a batch costs half at any length."""
    for params, usd in (
        ({}, 2.5),
        ({"service_tier": "FLEX"}, 1.25),
        ({"service_tier": "priority"}, 5.0),
        ({"service_tier": "fast"}, 5.0),
        ({"service_tier": "auto"}, 2.5),
        ({"service_tier": ["odd"]}, 2.5),
        ({"extra_body": {"service_tier": "flex"}}, 1.25),
    ):
        price = model_of(JudgeSettings("openai/gpt-5.4", params=params)).price
        assert price
        assert price.of(Usage(100_000)) * 10 == pytest.approx(usd), params
    for model, short, long in (
        ("openai/gpt-5.4", 1.25, 2.5),
        ("gemini/gemini-2.5-pro", 0.625, 1.25),  # the list has no long price
    ):
        batch = listed_batch_price(model)
        assert batch
        assert batch.of(Usage(100_000)) * 10 == pytest.approx(short)
        assert batch.of(Usage(1_000_000)) == pytest.approx(long)


def test_reports() -> None:
    """Tokens are read wherever providers name them; no report makes a negative cost."""
    for usage, read in (
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 5}},
            (9, 5, 0),
        ),
        (
            {
                "prompt_tokens": 9,
                "prompt_cache_hit_tokens": 5,
                "total_tokens": 12,
            },
            (9, 5, 0),
        ),
        # beside the prompt, since no details of it are told
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 4}, (13, 0, 4)),
        (
            {
                "prompt_tokens": 9,
                "prompt_tokens_details": {"cache_write_tokens": 4},
            },
            (9, 0, 4),
        ),
        # beside the prompt: more than it, or the total says so
        ({"prompt_tokens": 9, "cache_read_input_tokens": 90}, (99, 90, 0)),
        (
            {
                "prompt_tokens": 9,
                "cached_tokens": 5,
                "cache_creation_tokens": 5,
            },
            (19, 5, 5),
        ),
        (
            {"prompt_tokens": 9, "cached_tokens": 5, "total_tokens": 14},
            (14, 5, 0),
        ),
        ({"prompt_tokens": 9, "cached_tokens": -5}, (9, 0, 0)),
        (
            {"prompt_tokens": 9, "cached_tokens": True, "total_tokens": "x"},
            (9, 0, 0),
        ),
        ({"cached_tokens": 1 << 50}, (0, 0, 0)),
        ({"completion_tokens": 9, "total_tokens": 39}, (30, 0, 0)),
        ({"input_tokens": 30, "output_tokens": 9}, (30, 0, 0)),
    ):
        found = usage_of({"usage": usage})
        assert (found.prompt, found.cached, found.written) == read, usage
        assert Price(4.0, 2.0, 1.0, 5.0).of(found) >= 0
    for answer, thought, total, read_answer in (
        (10, 0, 0, 10),
        (100, 30, 0, 100),
        (100, 30, 1100, 100),
        (100, 30, 1130, 130),
        (10, 300, 0, 310),
    ):
        usage = {
            "prompt_tokens": 1000,
            "completion_tokens": answer,
            "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
        assert usage_of({"usage": usage}).completion == read_answer


def test_tiers_of_length() -> None:
    """A model whose list has tiers in a form of their own has no price: the usual one may be that of short prompts."""
    name = "opencode_go/grok-4.7"
    assert "tiered_pricing" in listed(name)
    assert model_info(name).price is None
