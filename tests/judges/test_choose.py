"""A judge's name → the way it is reached, its price and its context."""

from __future__ import annotations

import pytest

from ruler_cli.judges.choose import choose, model_of
from ruler_cli.judges.http import HttpJudge
from ruler_cli.judges.prices import Price
from ruler_cli.judges.through_litellm import LitellmJudge
from ruler_cli.records import Usage
from ruler_cli.settings import JudgeSettings


@pytest.mark.parametrize(
    ("name", "base", "model"),
    [
        ("openai/o3", None, "o3"),
        ("openai/o3", "http://h/v1/", "o3"),
        ("hosted_vllm/Qwen/Qwen3-32B", "http://h/v1", "Qwen/Qwen3-32B"),
        ("ollama/llama3.3", "http://h/v1", "llama3.3"),
        ("Qwen/Qwen3-32B", "http://h/v1", "Qwen/Qwen3-32B"),
        ("plain", "http://h/v1", "plain"),
    ],
)
def test_direct(name: str, base: str | None, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's names and anything with an endpoint go straight, under the name the endpoint knows."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    judge = choose(JudgeSettings(name, api_base=base)).judge
    assert isinstance(judge, HttpJudge)
    assert judge.model == model
    assert judge.base == ("http://h/v1" if base else "https://api.openai.com/v1")
    assert judge.key == (None if base else "sk-x")


def test_litellm() -> None:
    """Every other name goes through litellm, and any name on request."""
    assert isinstance(choose(JudgeSettings("anthropic/claude-x")).judge, LitellmJudge)
    assert isinstance(choose(JudgeSettings("openai/o3", via="litellm")).judge, LitellmJudge)


def test_price_and_context() -> None:
    """Price and context come from litellm's list, are unknown behind an endpoint, or are stated."""
    known = model_of(JudgeSettings("openai/o3"))
    assert known.price is not None
    assert known.price.prompt > 0
    assert known.context == 200_000
    assert model_of(JudgeSettings("openai/o3", api_base="http://h/v1")).price is None
    assert model_of(JudgeSettings("no/such-model")).price is None
    assert model_of(JudgeSettings("openai/o3", price=(1.0, 2.0))).price == Price(1e-6, 2e-6, 1e-6)
    assert model_of(JudgeSettings("offline")).price == Price(0.0, 0.0, 0.0)


def test_cached_once() -> None:
    """Cached prompt tokens are part of the prompt and are billed once."""
    assert Price(2.0, 3.0, 0.5).of(Usage(prompt=10, completion=1, cached=4)) == 6 * 2.0 + 4 * 0.5 + 3.0
