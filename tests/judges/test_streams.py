"""Answers in pieces: litellm joins them, where an endpoint has no others."""

from __future__ import annotations

import json
import socket
from typing import Any

import orjson
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.provider_errors import classify
from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Reply, Request
from tests.judges.raw_server import answer, serving
from tests.values import opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
TEXT = (
    '{"scores": [{"trajectory_id": "abcd", "explanation": "é", "score": 0.85}]}'
)
USAGE = {"prompt_tokens": 9, "completion_tokens": 2}
REQUEST = Request("Grade.", "?", ("abcd",))


def chunk(
    delta: dict[str, Any], finish: str | None = None, **more: Any
) -> bytes:
    """Make the JSON of one chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return orjson.dumps({"id": "x", "model": "m-1", "choices": [choice]})


PIECES = [
    chunk({"role": "assistant", "content": ""}),
    *(chunk({"content": TEXT[at : at + 5]}) for at in range(0, len(TEXT), 5)),
    chunk({}, "stop"),
    orjson.dumps({"choices": [], "usage": USAGE}),
]


def stream(pieces: list[bytes]) -> bytes:
    """Make a stream of events."""
    return b"".join(b"data: %s\n\n" % piece for piece in pieces)


def sent_as(pieces: list[bytes]) -> bytes:
    """Make the response of an endpoint that streams."""
    events = stream([*pieces, b"[DONE]"])
    return answer(200, events, "X: text/event-stream\r\n")


REFUSALS = (
    "This model only support stream mode, please enable the stream parameter to access the model.",
    "parameter.enable_thinking must be set to false for non-streaming calls",
    "Stream must be set to true",
    "Non-streaming requests are not supported by this deployment.",
    "stream=true is required",
)


async def test_asked_for() -> None:
    """An endpoint that answers as a stream only is asked for one by a parameter, which its refusal names."""
    for refusal in REFUSALS:
        error = classify(400, "", refusal)
        assert (error.scope, error.kind) == ("group", "refused"), refusal
        assert "-p stream=true" in error.reason
    params = {"stream": True}
    with pytest.raises(UsageError, match="provider/model"):
        resolve(JudgeSettings("mine", "http://localhost/v1", params=params))
    async with serving(sent_as(PIECES)) as server:
        settings = JudgeSettings("openai/m", server.base, params=params)
        async with opened(resolve(settings)) as judge:
            reply = await judge.ask(REQUEST)
        (sent,) = server.requests
    assert isinstance(reply, Reply), reply
    assert (reply.text, reply.usage.prompt) == (TEXT, 9)
    body = json.loads(sent)
    assert body["stream"]
    assert body["stream_options"] == {"include_usage": True}


async def test_half_a_stream() -> None:
    """A stream that breaks before its end has no scores, and an error in its middle is that error."""
    gone = orjson.dumps({"error": {"code": 502, "message": "gone"}})
    for pieces in (PIECES[:4], [*PIECES[:3], gone], []):
        async with serving(sent_as(pieces)) as server:
            settings = JudgeSettings(
                "openai/m", server.base, params={"stream": True}
            )
            async with opened(resolve(settings)) as judge:
                reply = await judge.ask(REQUEST)
        assert isinstance(reply, CallError) or "0.85" not in reply.text, reply


async def test_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer in pieces is had from its endpoint alone: litellm fetches no tokenizer to count it."""
    hosts: list[Any] = []

    def closed(host: Any, *_: Any, **__: Any) -> None:
        hosts.append(host)
        raise OSError("there is no network")

    monkeypatch.setattr(socket, "getaddrinfo", closed)
    # a name for which it has a tokenizer
    async with serving(sent_as(PIECES)) as server:
        settings = JudgeSettings(
            "openai/llama-3",
            server.base,
            params={"stream": True},
        )
        async with opened(resolve(settings)) as judge:
            assert isinstance(await judge.ask(REQUEST), Reply)
    assert hosts == []
