"""The unmet needs of a judge behind litellm are reported first; no judge that could work is refused."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges import providers
from ruler_cli.judges.chat_completions import AnswerFormat
from ruler_cli.judges.litellm import LitellmJudge, _litellm
from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Request
from tests.conftest import Ruler, group, write

# litellm and its clients warn at import and at exit
pytestmark = pytest.mark.filterwarnings("ignore")
REQUEST = Request("Grade.", "Nothing.", ("a",))
LISTED = ("anthropic", "azure", "gemini")
NAMED = """
gemini/m: GEMINI_API_KEY
azure/m: AZURE_API_KEY
replicate/a/b: REPLICATE_API_KEY
anthropic/m: ANTHROPIC_API_KEY
mistral/m: MISTRAL_API_KEY
cohere/m: COHERE_API_KEY
groq/m: GROQ_API_KEY
openrouter/a/b: OPENROUTER_API_KEY
hosted_vllm/m: --api-base URL
claude-sonnet-4-5: ANTHROPIC_API_KEY
huggingface/a/b: HUGGINGFACE_API_KEY
xai/m: XAI_API_KEY
moonshot/m: MOONSHOT_API_KEY
vllm/m: --api-base URL
lm_studio/m: LM_STUDIO_API_BASE
"""


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove every variable that a provider reads, and every login, metadata service and network."""
    for name in [*os.environ]:
        if name.endswith(("KEY", "TOKEN", "SECRET", "_API_BASE")):
            monkeypatch.delenv(name)
    for name in (
        "AWS_PROFILE",
        "AWS_ROLE_ARN",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_PROJECT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def closed(*_: Any, **__: Any) -> None:
        raise OSError("there is no network")

    monkeypatch.setattr(socket, "getaddrinfo", closed)
    monkeypatch.setattr(socket.socket, "connect", closed)


def judge(model: str, **settings: Any) -> LitellmJudge:
    """Resolve the judge of a model name."""
    judge = resolve(JudgeSettings(model, via="litellm", **settings)).judge
    assert isinstance(judge, LitellmJudge)
    return judge


def test_names() -> None:
    """The names of litellm's providers are known without its import, and those that are listed are among them."""
    names = {
        str(getattr(provider, "value", provider))
        for provider in _litellm().provider_list
    }
    assert providers.providers() == names >= {*LISTED}


def test_unmet_needs() -> None:
    """Without credentials, every listed provider is refused in one sentence; no call is made."""
    for provider in LISTED:
        base = "http://127.0.0.1:9" if provider == "azure" else None
        with pytest.raises(
            UsageError, match=f"^judge {provider}/m needs"
        ) as raised:
            judge(f"{provider}/m", api_base=base)
        message = str(raised.value)
        assert "\n" not in message
        assert message.endswith(
            "or try the pipeline without a model: -m offline"
        )


OTHERS = [
    ("perplexity/m", "PERPLEXITY_API_KEY"),
    ("replicate/a/b", "REPLICATE_API_TOKEN"),
    ("novita/m", "NOVITA_API_KEY"),
    ("snowflake/m", "SNOWFLAKE_JWT"),
    ("lambda_ai/m", "LAMBDA_API_KEY"),
    ("nano-gpt/m", "NANOGPT_API_KEY"),
    ("friendliai/m", "FRIENDLI_TOKEN"),
]


def test_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a provider that is not listed, a key that litellm names is refused if it is missing, and no other."""
    for model, _ in OTHERS:
        if model in ("novita/m", "replicate/a/b", "perplexity/m"):
            with pytest.raises(UsageError, match="API_KEY is not set"):
                judge(model)
    for model, variable in OTHERS:
        monkeypatch.setenv(variable, "given")
        assert judge(model).model == model


@pytest.mark.anyio
async def test_found_key_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that litellm finds by itself is known, so that no message contains it."""
    for model, variable in OTHERS:
        monkeypatch.setenv(variable, f"secret-of-{variable}")
        async with judge(model) as asked:
            assert f"secret-of-{variable}" in (asked.secret or ())


def test_missing_credentials() -> None:
    """Missing credentials are named as the user sets them."""
    for model, says in re.findall("(.+): (.+)", NAMED):
        with pytest.raises(UsageError) as raised:
            resolve(JudgeSettings(model))
        assert says in str(raised.value)


RUNS = (
    ["-m", "gemini/m"],
    ["-m", "ollama/m", "-m", "gemini/m"],
    ["-m", "ollama/m", "--escalate", "gemini/m", "--passes", "2"],
)


def test_command(ruler: Ruler, tmp_path: Path) -> None:
    """A run ends with exit code 2 before it reads anything, if any of its judges lacks something."""
    (tmp_path / "in.jsonl").write_text("this is not JSON\n")
    for judges in RUNS:
        done = ruler("score", "in.jsonl", "out.jsonl", *judges)
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(
            "ruler: judge gemini/m needs a key and GEMINI_API_KEY is not set"
        )
        assert done.stderr.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_run_without_calls(ruler: Ruler, tmp_path: Path) -> None:
    """Without calls, no credentials are needed."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    for command in ("check", "prompt"):
        assert ruler(command, "in.jsonl", "-m", "vertex_ai/m").returncode == 0


ELSEWHERE: list[tuple[str, dict[str, Any]]] = [
    ("mistral/m", {"api_key": "k"}),
    ("mistral/m", {"api_base": "http://127.0.0.1:9"}),
    ("azure/m", {"api_key": "k", "api_base": "http://127.0.0.1:9"}),
    (
        "azure/m",
        {"params": {"azure_ad_token": "t"}, "api_base": "http://127.0.0.1:9"},
    ),
    (
        "bedrock/m",
        {"params": {"aws_access_key_id": "k", "aws_secret_access_key": "s"}},
    ),
    ("bedrock/m", {"params": {"aws_profile_name": "p"}}),
    ("bedrock/m", {"api_base": "http://127.0.0.1:9"}),
    (
        "watsonx/deployment/m",
        {"api_key": "k", "api_base": "http://127.0.0.1:9"},
    ),
    (
        "huggingface/a/b",
        {"params": {"extra_headers": {"Authorization": "Bearer t"}}},
    ),
]


def test_given_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key counts if it is named, is a parameter, or is set in litellm itself."""
    for model, settings in ELSEWHERE:
        assert judge(model, **settings).model == model
    monkeypatch.setattr(_litellm(), "api_key", "k")
    assert judge("mistral/m").model == "mistral/m"


REPORTED_AT_A_CALL = """
gemini/m azure/m vertex_ai/gemini-2.5-pro vertex_ai/m databricks/m
bedrock/anthropic.claude-3-haiku-20240307-v1:0 sagemaker_chat/m cloudflare/m anthropic/m anthropic_text/m
watsonx/m watsonx_text/m snowflake/m oci/m openai/m fireworks_ai/m gigachat/m github_copilot/m chatgpt/m
bytez/m maritalk/m predibase/m heroku/m sap/m deepgram/m vllm/m gdc/m custom/m xinference/m a2a/m oobabooga/m
amazon_nova/m azure_ai/m
"""


@pytest.mark.anyio
async def test_missing_at_a_call(subtests: pytest.Subtests) -> None:
    """Credentials that a call lacks end the run at once: no retry, no cost, no traceback in the message."""
    calls = [(model, None) for model in REPORTED_AT_A_CALL.split()]
    for model, base in (*calls, ("azure/m", "http://127.0.0.1:9")):
        with subtests.test(model=model, base=base):
            called = LitellmJudge(model, 30.0, {}, AnswerFormat(), base=base)
            async with called:
                called._finds = True
                call_error = await called.ask(REQUEST)
            assert isinstance(call_error, CallError)
            assert (
                call_error.kind,
                call_error.scope,
                call_error.sent,
                call_error.billed,
            ) == (
                "refused",
                "run",
                False,
                False,
            ), call_error
            assert "Traceback" not in call_error.reason
            assert "\n" not in call_error.reason


def test_foreign_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of a variable goes to the provider's own address, or to one that only the user can know."""
    for model, variable, keeps in [
        ("groq/m", "GROQ_API_KEY", False),
        ("novita/m", "NOVITA_API_KEY", False),
        ("bedrock/m", "AWS_BEARER_TOKEN_BEDROCK", False),
        ("azure/m", "AZURE_API_KEY", True),
        ("databricks/m", "DATABRICKS_API_KEY", True),
    ]:
        monkeypatch.setenv(variable, "given")
        resolved = judge(model, api_base="http://127.0.0.1:9")
        resolved._finds = providers.finds_key(model.partition("/")[0])
        key = resolved.arguments(REQUEST, AnswerFormat()).get("api_key")
        assert key == (None if keeps else "none"), model
