"""The lines of a request file, in the form of each target."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.resolve import resolve
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Request
from tests.judges.raw_server import answer, serving
from tests.sdk_types import assert_typed
from tests.values import NASTY, opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
KEY = bytes(range(16))
REQUEST = Request("S", "U", ())
MESSAGE = orjson.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "{}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
)


def row(model: str, request: Request = REQUEST, **settings: Any) -> Any:
    """Parse a line."""
    line = request_line(JudgeSettings(model, **settings))(KEY, request)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    result = orjson.loads(line)
    assert result["custom_id"] == KEY.hex()
    return result


ANTHROPIC: list[tuple[str, dict[str, Any], int | None]] = [
    ("anthropic/claude-sonnet-4-5", {}, None),
    ("anthropic/claude-3-5-haiku-20241022", {"temperature": 0.2}, 900),
    ("anthropic/claude-sonnet-4-5", {"reasoning_effort": "low"}, None),
    ("anthropic/claude-sonnet-4-5", {"max_tokens": 700, "top_p": 0.9}, None),
    (
        "anthropic/claude-sonnet-4-5",
        {"stop": ["100 %", "%(user)s", "%%"]},
        None,
    ),
    (
        "anthropic/claude-3-7-sonnet-20250219",
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        None,
    ),
    (
        "anthropic/claude-sonnet-4-5",
        {"response_format": {"type": "json_object"}},
        None,
    ),
]


@pytest.mark.parametrize(("model", "params", "max_tokens"), ANTHROPIC)
async def test_anthropic_params(
    model: str, params: dict[str, Any], max_tokens: int | None
) -> None:
    """The params are litellm's, except for the answer format, which needs no header here."""
    for text in NASTY[: 1 if params else 4]:
        sendable = text.encode("utf-8", "replace").decode()
        request = Request(
            f"S{sendable}",
            f"{sendable} the place of the request's user text\n ",
            (),
            max_tokens,
            fitted=True,
        )
        async with serving(answer(200, MESSAGE)) as server:
            there = server.base.removesuffix("/v1")
            settings = JudgeSettings(
                model, there, api_key="x" * 20, via="litellm", params=params
            )
            async with opened(resolve(settings)) as judge:
                await judge.ask(request)
            live = orjson.loads(server.requests[0])
        result = row(model, request, params=params)["params"]
        if "output_format" in live:
            form = live.pop("output_format")
            live["output_config"] = {
                **live.get("output_config", {}),
                "format": form,
            }
        assert result == live


OPENAI: list[tuple[str, dict[str, Any], int | None]] = [
    ("openai/o3", {}, None),
    ("openai/o3", {"reasoning_effort": "low", "seed": 1}, 900),
    (
        "openai/gpt-4.1",
        {"max_tokens": 700, "temperature": 0.2, "top_p": 0.9},
        1400,
    ),
    (
        "openai/gpt-4.1",
        {"response_format": {"type": "json_object"}},
        None,
    ),
    (
        "hosted_vllm/Qwen/Qwen3-8B",
        {"temperature": 0, "max_tokens": 700},
        1400,
    ),
]


def test_sdk_types(subtests: pytest.Subtests) -> None:
    """A row has only fields and values that the types of the provider's own SDK know."""
    for model, params, max_tokens in [*OPENAI, *ANTHROPIC]:
        with subtests.test(model=model, params=params, max_tokens=max_tokens):
            for text in NASTY[:3]:
                asked = Request(
                    f"S{text}", f"{text} U", ("mk", "qz"), max_tokens
                )
                assert_typed(row(model, asked, params=params))


@pytest.mark.parametrize(
    ("model", "params", "message"),
    [
        ("anthropic/claude-opus-4-7", {"temperature": 0.2}, "temperature"),
        ("anthropic/claude-opus-4-6", {"speed": "fast"}, "anthropic-beta"),
    ],
)
def test_refused_params(
    model: str, params: dict[str, Any], message: str
) -> None:
    """Parameters that litellm refuses, or that need a header, are reported before anything is written."""
    with pytest.raises(UsageError, match=message):
        request_line(JudgeSettings(model, params=params))
    with pytest.raises(
        UsageError, match="its name or parameters cannot be sent"
    ):
        request_line(JudgeSettings("openai/\udcff"))


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row contains a key of the environment."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "sk-secret-secret")
    for model in ("openai/o3", "anthropic/claude-sonnet-4-5"):
        judge = JudgeSettings(model, api_key="sk-secret-secret")
        assert b"secret" not in request_line(judge)(KEY, REQUEST)
