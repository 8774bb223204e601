"""Models that answer at /v1/responses only: known by name, or by the refusal of chat completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.chat_completions import first_format
from ruler_cli.judges.resolve import OPENAI, resolve
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Picture, Reply, Request, Usage
from tests.judges.raw_server import answer, serving
from tests.values import opened

pytestmark = pytest.mark.anyio
PICTURE = Picture("d", b"x", media="image/png", detail="low")
REQUEST = Request("Grade.", "see it", ("abcd",), pictures=((4, PICTURE),))
REFUSED = "This model is only supported in v1/responses and not in v1/chat/completions."
RESPONSE: dict[str, Any] = {
    "object": "response",
    "model": "o3-pro-1",
    "status": "completed",
    "error": None,
    "output": [
        {
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "hm"}],
        },
        {"type": "message", "content": [{"type": "output_text", "text": "fi"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "ne"}]},
    ],
    "usage": {
        "input_tokens": 9,
        "output_tokens": 5,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}


async def asked(
    changes: dict[str, Any], name: str = "openai/m", **params: Any
) -> tuple[Reply | CallError, list[dict[str, Any]]]:
    """Ask a server with Responses only; return the answer and the bodies of all requests."""

    def serve(body: bytes) -> bytes:
        if b'"messages"' in body:
            error = {"error": {"message": REFUSED}}
            return answer(404, json.dumps(error).encode())
        return answer(200, json.dumps(RESPONSE | changes).encode())

    async with serving(serve) as server:
        settings = JudgeSettings(name, server.base, params=params, timeout=9.0)
        async with opened(resolve(settings)) as judge:
            reply = await judge.ask(REQUEST)
        paths = [head.split(b" ")[1] for head in server.heads]
    assert paths == [b"/v1/chat/completions", b"/v1/responses"]
    return reply, list(map(json.loads, server.requests))


async def test_asked_there() -> None:
    """A model that chat completions refuse is asked by the Responses API, and its answer is read as any other."""
    reply, (chat, body) = await asked(
        {}, max_tokens=50, reasoning_effort="low", stream=True
    )
    assert isinstance(reply, Reply)
    assert (reply.text, reply.model, reply.thought) == (
        "fine",
        "o3-pro-1",
        True,
    )
    assert reply.usage == Usage(9, 5, 4, 1)
    assert not (reply.truncated or reply.refusal)
    system, user = body["input"]
    assert system == {
        "role": "system",
        "content": chat["messages"][0]["content"],
    }
    first, picture, last = user["content"]
    assert (first["type"], first["text"], last["text"]) == (
        "input_text",
        "see ",
        "it",
    )
    assert picture == {
        "type": "input_image",
        "image_url": PICTURE.url,
        "detail": "low",
    }
    assert body["text"]["format"]["type"] == "json_schema"
    assert (
        body["text"]["format"]["schema"]
        == chat["response_format"]["json_schema"]["schema"]
    )
    assert (body["max_output_tokens"], body["reasoning"], body["store"]) == (
        50,
        {"effort": "low"},
        False,
    )
    assert not {"messages", "max_tokens", "response_format", "stream"} & set(
        body
    )


async def test_ends() -> None:
    """A cut, a refusal and a failure of a response are those of a chat completion."""
    cut, _ = await asked(
        {"incomplete_details": {"reason": "max_output_tokens"}}
    )
    assert isinstance(cut, Reply)
    assert cut.truncated
    refused, _ = await asked(
        {
            "output": [
                {
                    "type": "message",
                    "content": [{"type": "refusal", "refusal": "no"}],
                }
            ]
        }
    )
    assert isinstance(refused, Reply)
    assert refused.refusal == "no"
    failed, _ = await asked(
        {
            "status": "failed",
            "error": {"code": "rate_limit_exceeded", "message": "slow"},
        }
    )
    assert isinstance(failed, CallError)
    assert failed.rate
    odd, _ = await asked({"output": [7]})
    assert isinstance(odd, CallError)
    assert odd.scope == "call"


async def test_known_names() -> None:
    """A model of the list is asked there from the first call on, and is refused in a batch."""
    for name in ("o3-pro", "gpt-5.4-pro"):
        settings = JudgeSettings(f"openai/{name}")
        assert first_format(settings, OPENAI).responses
        with pytest.raises(UsageError, match="at /v1/responses only"):
            request_line(settings)
    assert not first_format(JudgeSettings("openai/o3"), OPENAI).responses
