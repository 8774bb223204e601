"""Models that answer at /v1/responses only are asked through litellm, which speaks that API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.http_client import HttpJudge
from ruler_cli.judges.litellm import LitellmJudge
from ruler_cli.judges.resolve import resolve
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Picture, Reply, Request, Usage
from tests.judges.raw_server import answer, serving
from tests.values import opened

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
PICTURE = Picture("d", b"x", media="image/png", detail="low")
REQUEST = Request("Grade.", "see it", ("abcd",), pictures=((4, PICTURE),))
REFUSED = "This model is only supported in v1/responses and not in v1/chat/completions."
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "o3-pro-1",
    "status": "completed",
    "error": None,
    "output": [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "fine", "annotations": []}
            ],
        }
    ],
    "usage": {
        "input_tokens": 9,
        "output_tokens": 5,
        "total_tokens": 14,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}


async def test_asked_through_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request says the same as by chat, nothing is stored, and the answer is read as any other."""
    params = {"max_tokens": 50, "reasoning_effort": "low"}
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    async with serving(answer(200, json.dumps(RESPONSE).encode())) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base)
        for name in ("o3-pro", "responses/mine"):
            settings = JudgeSettings(f"openai/{name}", params=params)
            async with opened(resolve(settings)) as judge:
                reply = await judge.ask(REQUEST)
            assert isinstance(reply, Reply)
            assert (reply.text, reply.thought) == ("fine", True)
            assert reply.usage == Usage(9, 5, 4, 1)
        paths = [head.split(b" ")[1] for head in server.heads]
    assert paths == [b"/v1/responses"] * 2
    body = json.loads(server.requests[0])
    assert body["text"]["format"]["type"] == "json_schema"
    stated = (body["max_output_tokens"], body["reasoning"], body["store"])
    assert stated == (50, {"effort": "low"}, False)
    _, user = body["input"]
    first, picture, last = user["content"]
    assert (first["text"], last["text"]) == ("see ", "it")
    assert (picture["image_url"], picture["detail"]) == (PICTURE.url, "low")


async def test_refused() -> None:
    """A model that chat completions refuse ends the run with the name to use."""
    error = {"error": {"message": REFUSED}}
    async with serving(answer(404, json.dumps(error).encode())) as server:
        async with opened(resolve(JudgeSettings("m", server.base))) as judge:
            answered = await judge.ask(REQUEST)
        assert len(server.requests) == 1
    assert isinstance(answered, CallError)
    assert answered.scope == "run"
    assert "openai/responses/NAME" in answered.reason


def test_known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of the list are known by their names at OpenAI's own address, and are refused in a batch."""
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    for name in ("openai/o3-pro", "openai/gpt-5.4-pro", "openai/responses/m"):
        assert isinstance(resolve(JudgeSettings(name)).judge, LitellmJudge)
        with pytest.raises(UsageError, match="at /v1/responses only"):
            request_line(JudgeSettings(name))
    for there in (None, "http://127.0.0.1:9/v1"):
        settings = JudgeSettings("openai/o3", there)
        assert isinstance(resolve(settings).judge, HttpJudge)
    mine = JudgeSettings("openai/o3-pro", "http://127.0.0.1:9/v1")
    assert isinstance(resolve(mine).judge, HttpJudge)
