"""Keys that stand where none belongs: how they are told from names, and text without them."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.settings.keys import (
    HIDDEN,
    is_variable_name,
    looks_like_key,
    secret_texts,
    secrets_among,
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


def test_variable_name() -> None:
    """A variable's name has letters, digits and `_`, and is no key of the same characters."""
    assert all(map(is_variable_name, ("OPENAI_API_KEY", "_x", "a1")))
    for text in (*KEYS, "", "1a", "MY-KEY", "$KEY", "${KEY}", "a b", "a=b"):
        assert not is_variable_name(text), text


def test_secrets_of_a_command_line() -> None:
    """A secret is what looks like a key, and the value of an option, parameter or address that holds one."""
    lines = {
        "--api-key abcd": ["abcd"],
        "--token=abcd -p api_key=efgh": ["abcd", "efgh"],
        "--api-key-env not-a-name": ["not-a-name"],
        "--api-key-env MY_KEY -m gpt-4o --max-tokens 300 -p max_tokens=300": [],
        "--rubric use_sk-abcd1234": [],
        "--rubric 'sk-abcd1234'": ["sk-abcd1234"],
        "--api-base https://me:pass@h/v1?key=zzzz&v=1": ["pass", "zzzz"],
        "--group sk-abcd1234": [],
        """-p extra_headers={"X-Own":"abcdefgh","Accept":"any"}""": ["abcdefgh"],
        """-p extra_body={"accessToken":"abcd","kind":"efghijkl"}""": ["abcd"],
        "-p x=Endpoint=sb://h/;SharedAccessKey=abcd1234efgh=": ["abcd1234efgh="],
        "--rubric Basic arithmetic, Bearer something; primary=identifier1": [],
        "-m /hub/snapshots/0123456789abcdef0123456789abcdef": [],
        "-p 0123456789abcdef0123456789abcdef": ["0123456789abcdef0123456789abcdef"],
        "score 0123456789abcdef0123456789abcdef": [],
    }
    for line, secrets in lines.items():
        assert sorted(
            secrets_among(line.split(), ("--group", "--key"), "--api-key-env")
        ) == sorted(secrets), line


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
        without_keys(text, ["hunter2"]) == f"task sk-learn-2 has {HIDDEN} and {HIDDEN}"
    )
