"""Keys that stand where none belongs: how they are told from names, and text without them."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.settings.keys import (
    HIDDEN,
    hide_keys,
    looks_like_key,
    secret_texts,
    without_keys,
)
from ruler_cli.settings.models import JudgeSettings

KEYS = (
    "sk-abcd1234", "sk-proj-abc_DEF-123456789012345678", "sk-ant-api03-AbCd1234", "sk-or-v1-0123abcd",
    "gsk_abcdefgh1234", "xai-abcdef123456", "AIzaSyA1234567890abcdefghijk", "nvapi-abcdefg1", "pplx-abcdefgh",
    "hf_abcdefghij1234567890", "0123456789abcdef0123456789abcdef", "AKIAIOSFODNN7EXAMPLE",
    "ghp_0123456789abcdefghij", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
)  # fmt: skip
NAMES = (
    "OPENAI_API_KEY", "my_key", "_x", "sk_learn", "hf_dataset", "gpt-4o", "claude-3-5-sonnet-20241022",
    "skateboard", "rollouts-2026-11-23.jsonl", "Meta-Llama-3-1-8B-Instruct-GPTQ-INT4", "sk-learn", "fw_model",
)  # fmt: skip


def test_likeness() -> None:
    """Keys of the usual providers look like keys, and no name of a variable, model or file does."""
    assert [key for key in KEYS if not looks_like_key(key)] == []
    assert [name for name in NAMES if looks_like_key(name)] == []


def test_configured_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is printed has the value of a variable that holds a key, whatever its form."""
    monkeypatch.setenv("LAB_KEY", "any words of ours")
    monkeypatch.setenv("SHORT_TOKEN", "abc")
    monkeypatch.setenv("RULER_RUBRIC", "a rubric")
    text = "abc: any words of ours, a rubric"
    assert hide_keys(text) == f"abc: {HIDDEN}, a rubric"


def test_texts_of_parameters() -> None:
    """The words of an answer's form are no secret, whatever its names are."""
    form = {"a_key": ["explanation"], "X": "hunter2hunter2"}
    params = {"response_format": form, "tools": [form], "headers": form}
    assert secret_texts(params) == ["hunter2hunter2", "explanation"]


def test_model_on_disk() -> None:
    """A model's name may be a path that ends in a hash."""
    name = "/hub/snapshots/0123456789abcdef0123456789abcdef"
    assert JudgeSettings(name).model == name


@pytest.mark.parametrize("key", KEYS)
def test_settings(key: str) -> None:
    """Settings of a judge take no key for a name, and the error does not repeat it."""
    for model, variable in (
        (key, None),
        ("openai/sk-abcd1234", None),
        ("openai/o3", key),
    ):
        with pytest.raises(UsageError) as error:
            JudgeSettings(model, api_key_env=variable)
        assert key not in str(error.value)
        assert "sk-abcd1234" not in str(error.value)
        assert "export MY_KEY=…" in str(error.value)


def test_text() -> None:
    """Of a text long keys and all given secrets are left out, and nothing else."""
    text = "task sk-learn-2 has sk-proj-0123456789abcdef and hunter2"
    assert (
        without_keys(text, ["hunter2"])
        == f"task sk-learn-2 has {HIDDEN} and {HIDDEN}"
    )
