"""Rows of reply files: the id of the request, and the reply or an error, from any engine."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError
from ruler_cli.judges.provider_errors import (
    classify,
    error_of,
    read_response,
    refuses_format,
)
from ruler_cli.judges.replies import reply_of
from ruler_cli.judges.resolve import resolve
from ruler_cli.runs.batch.replies import ReplyRow, read_row
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.judges.answers import ANSWERS
from tests.judges.raw_server import answer as answered
from tests.judges.raw_server import serving
from tests.values import opened, texts, values

ID = "0123456789abcdef" * 2
LONG = "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."


def completion(text: str = "fine", **more: Any) -> dict[str, Any]:
    """A chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "gpt-4o-2024-08-06",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
        **more,
    }


def message(
    *blocks: dict[str, Any], stop: str = "end_turn", **usage: int
) -> dict[str, Any]:
    """An answer of Anthropic's Messages API."""
    counts = {"input_tokens": 5, "output_tokens": 4, **usage}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": list(blocks), "stop_reason": stop, "stop_sequence": None, "usage": counts,
    }  # fmt: skip


def openai(
    status: int = 200, body: Any = None, error: Any = None
) -> dict[str, Any]:
    """A row of an output or an error file of OpenAI's batch API, but for its custom_id."""
    return {
        "id": "batch_req_1",
        "response": {"status_code": status, "request_id": "r", "body": body},
        "error": error,
    }


def result(kind: str, **more: Any) -> dict[str, Any]:
    """A row of Anthropic's batch results, but for its custom_id."""
    return {"result": {"type": kind, **more}}


def row_of(**fields: Any) -> ReplyRow:
    """Read the row."""
    row = read_row(json.dumps({"custom_id": ID, **fields}).encode())
    assert row.custom_id == ID
    return row


def reply_from(**fields: Any) -> Reply:
    """Return the reply in a row."""
    reply = row_of(**fields).answer
    assert isinstance(reply, Reply), reply
    assert reply_of(reply.body) == reply  # the ledger returns the same reply
    return reply


def error_from(**fields: Any) -> tuple[CallError, str]:
    """Return the error in a row, and its label."""
    row = row_of(**fields)
    assert isinstance(row.answer, CallError), row
    return row.answer, row.label


# replies


@pytest.mark.parametrize(
    "fields",
    [
        openai(200, completion()),
        {"response": {"request_id": "r", "body": completion()}},
        {
            "response": {
                "status_code": "200",
                "body": json.dumps(completion()),
            },
            "error": {},
        },
        {"response": completion()},
        {
            **completion(),
            "error": None,
            "messages": [{"role": "user", "content": "a column of the input"}],
        },
    ],
)
def test_completions(fields: dict[str, Any]) -> None:
    """A chat completion in any place of a row is read as in a live call, with the model that it names."""
    expected = reply_of(json.dumps(completion()).encode())
    assert reply_from(**fields) == expected
    assert reply_from(**fields).model == "gpt-4o-2024-08-06"
    assert b"a column" not in reply_from(**fields).body


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"text": "hi", "score": float("nan")}, Reply("hi", Usage(calls=1))),
        ({"output": "hi", "finish_reason": "length"}, Reply("hi", Usage(calls=1), truncated=True)),
        (  # with a column of the input that is called `text`
            {"text": "Grade.", "generated_text": "hi", "params": "S()",
             "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
            Reply("hi", Usage(7, 3, 0, 1)),
        ),
        ({"output": "", "usage": {"prompt_tokens": 7, "completion_tokens": 1}}, Reply("", Usage(7, 1, 0, 1))),
        ({"text": "hi", "usage": {"prompt_tokens": True, "completion_tokens": -4}, "stop_reason": 128009},
         Reply("hi", Usage(calls=1))),
    ],
)  # fmt: skip
def test_own_engine(fields: dict[str, Any], expected: Reply) -> None:
    """A row of the user's own engine is a reply with the tokens and the finish reason that it states."""
    assert reply_from(**fields) == expected


MESSAGES = {
    "text": message({"type": "text", "text": '{"scores": []}'}),
    "texts": message(
        {"type": "text", "text": "a "}, {"type": "text", "text": "b"}
    ),
    "thought": message(
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "said"},
    ),
    "tool": message(
        {"type": "text", "text": "Here:"},
        {
            "type": "tool_use",
            "id": "t",
            "name": "json_tool_call",
            "input": {"scores": [], "é": 1},
        },
        stop="tool_use",
    ),
    "cut": message({"type": "text", "text": "half"}, stop="max_tokens"),
    "refused": message(stop="refusal"),
    "cached": message(
        {"type": "text", "text": "x"},
        cache_read_input_tokens=70,
        cache_creation_input_tokens=600,
    ),
}


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore")  # warnings of litellm itself
@pytest.mark.parametrize("name", MESSAGES)
async def test_messages_as_live(name: str) -> None:
    """A message of Anthropic's results gives the same reply as a live call through litellm, but for escapes."""
    sent = MESSAGES[name]
    row = row_of(**result("succeeded", message=sent))
    assert isinstance(row.answer, Reply)
    assert row.answer.model == "claude-sonnet-4-5"
    body = json.dumps(sent).encode()
    async with serving(answered(200, body)) as server:
        # a model older than schemas: litellm requests JSON through a tool
        model = (
            "anthropic/claude-3-haiku-20240307"
            if name == "tool"
            else "anthropic/claude-sonnet-4-5"
        )
        base = server.base.removesuffix("/v1")
        chosen = resolve(JudgeSettings(model, via="litellm", api_base=base))
        async with opened(chosen) as judge:
            live = await judge.ask(
                Request("Grade.", "truth=0.4", ("a",), max_output_tokens=100)
            )
    assert isinstance(live, Reply), live
    if name == "tool":  # whether litellm escapes é depends on its version
        live = replace(live, text=json.dumps(json.loads(live.text)))
    assert row.answer == live


# failures


def test_errors_as_live() -> None:
    """An error in a row is lasting if it is lasting in a live call, and has the same reason."""
    for sent in ANSWERS:
        try:
            body = json.loads(sent.body)
        except ValueError:
            body = sent.body.decode()
        if sent.status < 400 and not isinstance(body, dict):
            continue
        error, label = error_from(**openai(sent.status, body))
        expected = classify(sent.status, *error_of(sent.body))
        of_form = expected.kind != "too_long" and refuses_format(
            sent.status, error_of(sent.body)[1]
        )
        if expected.scope == "group" and not of_form:
            assert (error, label) == (expected, ""), sent
        else:
            assert error.scope != "group", sent
            assert label, sent


ASKED_AGAIN: list[tuple[dict[str, Any], str]] = [
        ({"response": None, "error": {"code": "batch_expired", "message": "not executed"}}, "expired"),
        ({"response": None, "error": {"code": "batch_cancelled", "message": "canceled"}}, "canceled"),
        ({"response": None, "error": {"code": "surprise", "message": "oh"}}, "engine error"),
        ({"error": "something broke"}, "engine error"),
        (openai(400, None, "EngineDeadError: the engine is gone"), "engine error"),
        (openai(429, {"error": {"message": "Rate limit reached", "code": "rate_limit"}}), "rate limit"),
        (openai(503, {"error": {"message": "down"}}), "status 503"),
        (openai(500, None, None), "no answer"),
        ({"response": {"status_code": 500, "body": None}, "error": {"code": 502}}, "status 500"),
        (openai(401, {"error": {"message": "Incorrect API key"}}), "status 401"),
        (openai(200, {"error": {"message": "worker is gone", "code": 503}}), "status 503"),
        (openai(400, {"error": {"message": "no response_format here"}}), "the form of the answer was refused"),
        (result("expired"), "expired"),
        (result("canceled"), "canceled"),
        (result("errored", error={"error": {"type": "overloaded_error", "message": "x"}}), "rate limit"),
        (result("errored", error={"type": "api_error", "message": "Internal"}), "engine error"),
        (result("errored", error={"type": "new_error", "message": "?"}), "engine error"),
    ]  # fmt: skip


def test_temporary_errors(subtests: pytest.Subtests) -> None:
    """A temporary error is not lasting, and its label is the reason in a few words."""
    for fields, label in ASKED_AGAIN:
        with subtests.test(fields=fields, label=label):
            error, given = error_from(**fields)
            assert (error.scope != "group", error.body, given) == (
                True,
                b"",
                label,
            )
            assert error.reason


TOO_LONG: list[dict[str, Any]] = [
    openai(
        400, {"error": {"message": LONG, "code": "context_length_exceeded"}}
    ),
    openai(
        400,
        None,
        {"error": {"message": LONG, "type": "BadRequestError", "code": 400}},
    ),
    openai(400, None, {"object": "error", "message": LONG, "code": 400}),
    openai(400, None, LONG),
    {"error": f"ValueError: {LONG}"},
    {
        "response": None,
        "error": {"code": "context_length_exceeded", "message": LONG},
    },
]


def test_too_long() -> None:
    """A request that is too long failed for good, with both sizes, so that its group is rendered again."""
    for fields in TOO_LONG:
        error, _ = error_from(**fields)
        assert (error.kind, error.scope, error.context) == (
            "too_long",
            "group",
            (128000, 150000),
        )


# rows without a reply


def test_malformed_body() -> None:
    """A body that is no chat completion is an error with the body, as in a live call."""
    odd: list[Any] = [
        {"choices": []},
        {"a": 1},
        [1],
        "<html>busy</html>",
        {"choices": [{}]},
    ]
    for body in odd:
        error, label = error_from(**openai(200, body))
        live = read_response(200, error.body)
        assert (error, error.scope, label) == (
            live,
            "call",
            "no chat completion",
        )
        assert error.body == getattr(live, "body", None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"custom_id": "0123", "respo', "is cut off, or not JSON"),
        (b'{"custom_id": "a", "text": "\xff"}', "is cut off, or not JSON"),
        (b"[1, 2]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b"7", "is not a JSON object"),
        (b"{}", "has no custom_id"),
        (b'{"custom_id": 7, "text": "x"}', "has no custom_id"),
        (b'{"custom_id": "a"}', "holds no reply of a known form"),
        (
            b'{"custom_id": "a", "generated_text": null}',
            "holds no reply of a known form",
        ),
        (
            b'{"custom_id": "a", "text": ["x"]}',
            "holds no reply of a known form",
        ),
        (
            b'{"custom_id": "a", "result": {"type": "renewed"}}',
            "holds no reply of a known form",
        ),
        (
            b'{"custom_id": "a", "method": "POST", "url": "/v1", "body": {}}',
            "holds no reply of a known form",
        ),
        (
            b'{"custom_id": "a", "choices": ' + b"[" * 300 + b"]" * 300 + b"}",
            "holds no reply of a known form",
        ),
        (
            b'{"custom_id": "a", "text": ' + b"[" * 100_000,
            "is cut off, or not JSON",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_malformed_line(line: bytes, reason: str) -> None:
    """A line that is no row of a reply file is reported with the reason."""
    with pytest.raises(UnreadableError, match=f"^{reason}"):
        read_row(line)


def test_hostile_sentences() -> None:
    """No key and no control character of a row reaches a sentence or a model's name."""
    bad = "\x1b[31m\n sk-0123456789abcdef"
    error, label = error_from(**openai(400, {"error": {"message": bad}}))
    engine, _ = error_from(error=bad)
    model = reply_from(response=completion(model=bad)).model
    for text in (error.reason, label, engine.reason, model):
        assert "\x1b" not in text
        assert "\n" not in text
        assert "sk-0123" not in text


_NAMES = (
    "custom_id response error result body choices text generated_text usage status_code type message "
    "content code finish_reason stop_reason model"
)
FIELDS = _NAMES.split()
WORDS = (
    "succeeded",
    "errored",
    "expired",
    "message",
    "text",
    "tool_use",
    "abort",
    "batch_expired",
    ID,
)
nested = st.recursive(
    values | st.sampled_from(WORDS) | st.sampled_from([200, 400, 429, "200"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(
    fields=st.dictionaries(st.sampled_from(FIELDS) | texts, nested, max_size=6),
    cut=st.integers(0, 40),
)
def test_never_raises(fields: dict[str, Any], cut: int) -> None:
    """Any line is a row or a reason, and a lasting error can be stored in a ledger."""
    line = json.dumps({"custom_id": ID, **fields}).encode()
    for one in (line, line[: len(line) - cut], line[cut:]):
        with suppress(UnreadableError):
            row = read_row(one)
            if isinstance(row.answer, Reply):
                continue
            assert row.label or row.answer.scope == "group"
            assert row.answer.sent
