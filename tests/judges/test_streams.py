"""Answers in pieces: joined as if they had come whole, asked for where an endpoint has no other, never half."""

from __future__ import annotations

import json
import math
import socket
from typing import Any, Literal

import orjson
import pytest

from ruler_cli.judges.provider_errors import (
    ErrorResponse,
    classify,
    read_response,
)
from ruler_cli.judges.replies import reply_of
from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Reply, Request, Usage
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


def stream(pieces: list[bytes], end: str = "\n", done: bool = True) -> bytes:
    """Make a stream of events with these line ends."""
    events = [b"data: " + piece for piece in [*pieces, *[b"[DONE]"] * done]]
    return (f"{end}{end}".encode()).join(events) + f"{end}{end}".encode()


def test_joined() -> None:
    """A stream is the reply that its pieces make, whatever its line ends, comments and lines of data are."""
    split = [
        piece.replace(b',"choices"', b',\ndata: "choices"') for piece in PIECES
    ]
    unnumbered = [piece.replace(b'"index":0,', b"") for piece in PIECES]
    whole = {"message": {"content": TEXT}, "finish_reason": "stop"}
    event = orjson.dumps({"model": "m-1", "choices": [whole], "usage": USAGE})
    for data in (
        stream(PIECES),
        stream(PIECES, "\r\n"),
        stream(PIECES, "\r"),
        stream(PIECES, done=False).rstrip(),
        stream(split),
        stream(unnumbered),
        stream([event]),
        b": OPENROUTER PROCESSING\n\nevent: message\nid: 7\n" + stream(PIECES),
        b"\xef\xbb\xbf\n" + stream(PIECES).replace(b"data: ", b"data:"),
    ):
        reply = read_response(200, data)
        assert isinstance(reply, Reply), data
        assert (reply.text, reply.usage, reply.model) == (
            TEXT,
            Usage(9, 2, 0, 1),
            "m-1",
        )
        assert not reply.truncated
        assert reply_of(reply.body) == reply


def test_parts_of_a_stream() -> None:
    """Thoughts, tool calls and probabilities come in pieces, too."""
    listed = [{"token": "Yes", "logprob": math.log(0.7), "top_logprobs": []}]
    call = {
        "index": 0,
        "id": "c",
        "function": {"name": "json", "arguments": '{"a"'},
    }
    rest = {
        "index": 0,
        "id": None,
        "function": {"name": "", "arguments": ": 1}"},
    }
    other = {
        "index": 1,
        "id": "d",
        "function": {"name": "n", "arguments": "{}"},
    }
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reply = read_response(
        200,
        stream(
            [
                chunk({"reasoning_content": "I ", "content": [thought]}),
                chunk({"reasoning_content": "think", "tool_calls": [call]}),
                chunk(
                    {"content": "Yes", "tool_calls": [rest, other]},
                    logprobs={"content": listed},
                ),
                chunk({"content": "."}, "length", logprobs={"content": listed}),
            ]
        ),
    )
    assert isinstance(reply, Reply)
    assert (reply.text, reply.truncated, reply.thought) == ("Yes.", True, True)
    assert reply.likely == (("Yes", math.log(0.7)),)
    choice = json.loads(reply.body)["choices"][0]
    message = choice["message"]
    assert message["reasoning_content"] == "I think"
    functions = [each["function"] for each in message["tool_calls"]]
    assert functions == [
        {"name": "json", "arguments": '{"a": 1}'},
        other["function"],
    ]
    assert len(choice["logprobs"]["content"]) == 2


def test_half_a_stream() -> None:
    """A stream that breaks before its end is no reply, and an error in its middle is that error."""
    for data in (
        stream(PIECES[:-2], done=False),
        stream(PIECES[:-2], done=False)[:-40],
        stream([*PIECES[:3], b"{not json", *PIECES[3:]]),
        stream([b"[]"]),
        stream([]),
        b"data: "
        + b'{"a":' * 900
        + b"1"
        + b"}" * 900
        + b"\n\n"
        + stream(PIECES[:1], done=False),
        b'data: {"choices": [7]}\n\n',
        b": nothing\n\n",
    ):
        error = read_response(200, data)
        assert isinstance(error, CallError), data
        assert (error.kind, error.scope, error.body) == (
            "transport",
            "call",
            b"",
        )
        assert "broke before its end" in error.reason
    gone = {"code": 502, "message": "gone"}
    stopped = orjson.dumps(
        {"error": gone, "choices": [{"delta": {}, "finish_reason": "error"}]}
    )
    plain = b'event: error\ndata: {"code": 502, "message": "gone"}\n\n'
    for data in (
        stream([*PIECES[:3], orjson.dumps({"error": gone})]),
        stream([*PIECES[:3], stopped]),
        stream([*PIECES[:3], chunk({}, "error", error=gone)]),
        stream(PIECES[:3], done=False) + plain,
    ):
        response = read_response(200, data)
        assert isinstance(response, ErrorResponse), data
        assert (response.status, response.message) == (502, "gone")
    dashscope = b'id:1\nevent:error\n:HTTP_STATUS/400\ndata:{"code":"Bad","message":"no"}\n\n'
    unknown = read_response(401, b"id: 7 is unknown")
    assert unknown == ErrorResponse(401, "", "id: 7 is unknown", {})
    assert read_response(400, dashscope) == ErrorResponse(400, "Bad", "no", {})


BOTH: tuple[Literal["http", "litellm"], ...] = ("http", "litellm")
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
        assert error.reason.endswith("-p stream=true")
    good = answer(200, stream(PIECES), "X: text/event-stream\r\n")
    for via in BOTH:
        async with serving(good) as server:
            settings = JudgeSettings(
                "openai/m", server.base, via=via, params={"stream": True}
            )
            async with opened(resolve(settings)) as judge:
                reply = await judge.ask(REQUEST)
            (sent,) = server.requests
        assert isinstance(reply, Reply), reply
        assert (reply.text, reply.usage.prompt) == (TEXT, 9)
        body = json.loads(sent)
        assert body["stream"]
        assert body["stream_options"] == {"include_usage": True}


async def test_no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer in pieces is had from its endpoint alone: litellm fetches no tokenizer to count it."""
    hosts: list[Any] = []

    def closed(host: Any, *_: Any, **__: Any) -> None:
        hosts.append(host)
        raise OSError("there is no network")

    monkeypatch.setattr(socket, "getaddrinfo", closed)
    # a name for which it has a tokenizer
    async with serving(
        answer(200, stream(PIECES), "X: text/event-stream\r\n")
    ) as server:
        settings = JudgeSettings(
            "openai/llama-3",
            server.base,
            via="litellm",
            params={"stream": True},
        )
        async with opened(resolve(settings)) as judge:
            assert isinstance(await judge.ask(REQUEST), Reply)
    assert hosts == []
