"""Judge settings → the judge, its price and its context."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.http_client import HttpJudge
from ruler_cli.judges.litellm import LitellmJudge
from ruler_cli.judges.providers import Price, model_info
from ruler_cli.judges.resolve import environment, model_of, resolve
from ruler_cli.settings.models import JudgeSettings

NAMES = [
    ("openai/o3", None, "o3"),
    ("openai/o3", "http://h/v1/", "o3"),
    ("hosted_vllm/Qwen/Qwen3-32B", "http://h/v1", "Qwen/Qwen3-32B"),
    ("ollama/llama3.3", "http://h/v1", "llama3.3"),
    ("Qwen/Qwen3-32B", "http://h/v1", "Qwen/Qwen3-32B"),
    ("plain", "http://h/v1", "plain"),
]


def test_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's names and anything with an endpoint are called directly, under the endpoint's name."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    for name, base, model in NAMES:
        judge = resolve(JudgeSettings(name, api_base=base)).judge
        assert isinstance(judge, HttpJudge), name
        assert judge.model == model
        assert judge.base == (
            "http://h/v1" if base else "https://api.openai.com/v1"
        )
        assert judge.secret == ("" if base else "sk-x",)
    assert isinstance(
        resolve(JudgeSettings("openai/o3", via="litellm")).judge, LitellmJudge
    )


ADDRESSES = {
    "http://h/v1": "http://h/v1",
    " http://h/v1/ ": "http://h/v1",
    "http://h/v1/chat/completions": "http://h/v1",
    "http://h/v1/chat/completions/": "http://h/v1",
    "http://h/v1/completions": "http://h/v1",
    "http://h/v1/responses": "http://h/v1",
    "http://h/v1/models": "http://h/v1",
    "https://h.example/api/v1/chat/completions": "https://h.example/api/v1",
    "https://h.example/models": "https://h.example/models",
    "http://h:11434/api/chat": "http://h:11434/v1",
    "http://h:11434/api/generate": "http://h:11434/v1",
    "http://h:11434/api": "http://h:11434/v1",
    "http://h:11434": "http://h:11434",
    "https://openrouter.ai/api/v1": "https://openrouter.ai/api/v1",
    "https://api.groq.com/openai/v1/chat/completions": "https://api.groq.com/openai/v1",
}


def test_address() -> None:
    """An address that names a call is cut to its endpoint; Ollama's own is another."""
    for typed, cut in ADDRESSES.items():
        settings = JudgeSettings("mine", api_base=typed)
        judge = resolve(settings).judge
        assert isinstance(judge, HttpJudge)
        assert judge.base == cut, typed


BAD_ADDRESSES = (
    "localhost:8000",
    "http://",
    "http://h:0/v1",
    "http://me:secret@h/v1",
    "http://h/v1?key=secret",
    "https://x.azure.com/openai/deployments/m?api-version=1",
)


def test_bad_address() -> None:
    """An address that cannot be called, or holds more than an address, is refused; it is not shown."""
    for typed in BAD_ADDRESSES:
        with pytest.raises(UsageError, match="is not an http") as error:
            resolve(JudgeSettings("mine", api_base=typed))
        assert error.value.place == "--api-base"
        assert "secret" not in str(error.value)


def test_key_with_a_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key with a blank in it is refused, and not shown."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abc def")
    with pytest.raises(UsageError, match="characters that no key has") as error:
        resolve(JudgeSettings("openai/o3"))
    assert "sk-abc" not in str(error.value)


ROUTES = [
    ("azure/deployment", False),
    ("anthropic/claude-x", False),
    ("bedrock/anthropic.claude-x", False),
    ("groq/llama-x", False),
    ("meta-llama/Llama-3", True),
    ("ollama_chat/llama3.3", True),
    ("litellm_proxy/judge", True),
    ("sglang/m", True),
    ("lm_studio/m", True),
    ("anthropic", True),
]


def test_route_to_an_endpoint() -> None:
    """A first word that litellm has as a provider keeps its protocol; any other is part of the name."""
    for name, direct in ROUTES:
        settings = JudgeSettings(
            name, api_base="http://127.0.0.1:9", api_key="k" * 9
        )
        assert isinstance(
            resolve(settings).judge, HttpJudge if direct else LitellmJudge
        ), name
        assert isinstance(
            resolve(replace(settings, via="http")).judge, HttpJudge
        ), name


def test_price_and_context() -> None:
    """Price and context come from litellm's list, are unknown for an endpoint, or are given."""
    result = model_of(JudgeSettings("openai/o3"))
    assert result.price is not None
    assert result.price.prompt > 0
    assert (result.context, result.reasoning) == (200_000, True)
    assert model_info("openai/gpt-4o-mini").reasoning is False
    assert model_info("openai/nothing-of-that-name").reasoning is None
    assert (
        model_of(JudgeSettings("openai/o3", api_base="http://h/v1")).price
        is None
    )
    assert model_of(JudgeSettings("no/such-model")).price is None
    assert model_of(
        JudgeSettings("openai/o3", price=(1.0, 2.0))
    ).price == Price(1e-6, 2e-6, 1e-6)
    assert model_of(JudgeSettings("offline")).price == Price(0.0, 0.0, 0.0)


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine gets the variables of the judge's provider, and none for a path."""
    for name in ("UPSTAGE_API_KEY", "TOGETHERAI_API_KEY", "MINE", "OTHER_KEY"):
        monkeypatch.setenv(name, "k")
    for model, names in (
        ("/models/qwen", set()),
        ("_x/y", set()),
        ("upstage/solar-decide", {"UPSTAGE_API_KEY"}),
        ("together_ai/m", {"TOGETHERAI_API_KEY"}),
    ):
        judge = JudgeSettings(model, api_base="http://h", api_key_env="MINE")
        assert environment([judge]).keys() == names | {"MINE"}
