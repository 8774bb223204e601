"""A judge's name → its batch API, with the address and the key of its live calls."""

from __future__ import annotations

import pytest

from ruler_cli.batches.anthropic import Anthropic
from ruler_cli.batches.choose import provider
from ruler_cli.batches.openai import OpenAI
from ruler_cli.errors import UsageError
from ruler_cli.settings import JudgeSettings


def test_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's models are asked at OpenAI, or where its variable says, with its key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x\n")
    made = provider(JudgeSettings("openai/o3"))
    assert isinstance(made, OpenAI)
    assert (made.wire.base, made.wire.headers) == (
        "https://api.openai.com/v1",
        {"Authorization": "Bearer sk-x"},
    )
    assert made.wire.who == "OpenAI's batch API"
    assert (made.requests, made.bytes, made.tagged) == (50_000, 200_000_000, True)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1/")
    made = provider(JudgeSettings("openai/o3"))
    assert isinstance(made, OpenAI)
    assert (made.wire.base, made.wire.key) == ("http://h/v1", "sk-x")


@pytest.mark.parametrize("name", ["openai/o3", "hosted_vllm/q", "plain", "gemini/x"])
def test_endpoint_of_ones_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any name with an endpoint is asked there, with a key only where one is named for it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("MINE", "sk-y")
    for variable, key in ((None, None), ("MINE", "sk-y")):
        made = provider(JudgeSettings(name, api_base="http://h:1/v1", api_key_env=variable))
        assert isinstance(made, OpenAI)
        assert (made.wire.key, made.wire.who) == (key, "the batch API at h:1")
        assert ("Authorization" in made.wire.headers) == bool(key)


@pytest.mark.parametrize(
    "base", ["http://h", "http://h/", "http://h/v1", "http://h/v1/", "http://h/v1/messages"]
)
def test_anthropic(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's models are asked at Anthropic, or where its variables or the option say."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    made = provider(JudgeSettings("anthropic/claude"))
    assert isinstance(made, Anthropic)
    assert (made.wire.base, made.wire.who) == ("https://api.anthropic.com", "Anthropic's batch API")
    assert made.wire.headers == {"anthropic-version": "2023-06-01", "x-api-key": "sk-ant"}
    assert (made.requests, made.bytes, made.tagged) == (100_000, 256_000_000, False)
    made = provider(JudgeSettings("anthropic/claude", api_base=base))
    assert isinstance(made, Anthropic)
    assert (made.wire.base, made.wire.key) == ("http://h", None)
    for variable in ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(variable, base)
        made = provider(JudgeSettings("anthropic/claude"))
        assert isinstance(made, Anthropic)
        assert (made.wire.base, made.wire.key) == ("http://h", "sk-ant")
        monkeypatch.delenv(variable)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("gemini/x", None),
        ("hosted_vllm/q", None),
        ("plain", None),
        ("offline", None),
        ("offline", "http://h"),
    ],
)
def test_none(name: str, base: str | None) -> None:
    """A judge without a batch API is told with the way that every engine can go."""
    with pytest.raises(UsageError, match=r"`ruler render` .*`ruler ledger import`"):
        provider(JudgeSettings(name, api_base=base))


@pytest.mark.parametrize("meant", ["openai/o3", "openai/gpt-4o", "anthropic/claude-x"])
def test_bare_name(meant: str) -> None:
    """A name that litellm knows without its provider is told with it."""
    with pytest.raises(UsageError, match=f"did you mean -m {meant}"):
        provider(JudgeSettings(meant.partition("/")[2]))


@pytest.mark.parametrize("name", ["openai/o3", "anthropic/claude"])
def test_missing_key(name: str) -> None:
    """A missing key is told before anything is sent, with its variable's name."""
    with pytest.raises(UsageError, match=f"{name.partition('/')[0].upper()}_API_KEY is not set"):
        provider(JudgeSettings(name))


@pytest.mark.parametrize("name", ["openai/o3", "anthropic/claude"])
@pytest.mark.parametrize("base", ["ftp://h", "h:80/v1", "http://me:secret@h/v1"])
def test_bad_address(name: str, base: str) -> None:
    """An address that cannot be used is told without showing it: it may hold a password."""
    with pytest.raises(UsageError, match="--api-base") as told:
        provider(JudgeSettings(name, api_base=base))
    assert "secret" not in str(told.value)
