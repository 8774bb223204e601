"""A judge's name → the way it is reached, its price and its context."""

from __future__ import annotations

from dataclasses import replace

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


def test_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other name goes through litellm, and any name on request."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert isinstance(choose(JudgeSettings("anthropic/claude-x")).judge, LitellmJudge)
    assert isinstance(choose(JudgeSettings("openai/o3", via="litellm")).judge, LitellmJudge)


WAY_TO_A_STATED_ENDPOINT = [
    ("azure/deployment", {}, False),
    ("anthropic/claude-x", {}, False),
    ("gemini/gemini-x", {}, False),
    ("bedrock/anthropic.claude-x", {}, False),
    ("groq/llama-x", {}, False),
    ("deployment", {"custom_llm_provider": "azure"}, False),
    ("meta-llama/Llama-3", {}, True),
    ("deepseek-ai/DeepSeek-V3", {}, True),
    ("ollama_chat/llama3.3", {}, True),
    ("litellm_proxy/judge", {}, True),
    ("sglang/m", {}, True),
    ("vllm/m", {}, True),
    ("lm_studio/m", {}, True),
    ("anthropic", {}, True),
]


def test_way_to_a_stated_endpoint(subtests: pytest.Subtests) -> None:
    """A first word that litellm has as a provider keeps its protocol; any other is the model's own name."""
    for name, params, direct in WAY_TO_A_STATED_ENDPOINT:
        with subtests.test(name=name, params=params, direct=direct):
            settings = JudgeSettings(name, api_base="http://127.0.0.1:9", api_key="k" * 9, params=params)
            assert isinstance(choose(settings).judge, HttpJudge if direct else LitellmJudge)
            assert isinstance(choose(replace(settings, via="http")).judge, HttpJudge)


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
