"""A judge called directly and through litellm: one deadline, one request, one meaning, no key in messages."""

from __future__ import annotations

import gc
import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any, Literal, cast

import anyio
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ruler_cli.judges.provider_errors import read_response
from ruler_cli.judges.replies import LARGEST, TOO_LARGE, reply_of
from ruler_cli.judges.resolve import resolve
from ruler_cli.scoring.probability import word_share
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import (
    BOM,
    CallError,
    RateLimitRemaining,
    Reply,
    Request,
    Usage,
)
from tests.judge_server import JudgeServer
from tests.judges.raw_server import answer, serving
from tests.values import opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
KEY = "my-own-key-0123456789"
PROMPT = '<trajectory id="abcd">\nassistant: "truth=0.4"\n</trajectory>\ntrajectory_ids to score: ["abcd"]'
REQUEST = Request("Grade.", PROMPT, ("abcd",))
GOOD = answer(
    200,
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"fine"}}]}',
)
Route = Literal["http", "litellm"]
BOTH: tuple[Route, ...] = ("http", "litellm")
PATHS: tuple[tuple[str, Route], ...] = (
    ("openai/m", "http"),
    ("openai/m", "litellm"),
    ("anthropic/m", "litellm"),
)


@pytest.fixture(autouse=True, scope="module")
def no_leftovers() -> Iterator[None]:
    """Make leftovers of an aborted litellm call warn here, and not in a later test."""
    yield
    gc.collect()


async def ask(
    model: str,
    via: Route,
    base: str | None,
    request: Request = REQUEST,
    **settings: Any,
) -> Reply | CallError:
    """Make one call; a test that would hang fails."""
    settings = {"api_key": KEY, "timeout": 20.0, **settings}
    async with opened(
        resolve(JudgeSettings(model, base, via=via, **settings))
    ) as judge:
        with anyio.fail_after(60):
            return await judge.ask(request)


async def failed(*arguments: Any, **settings: Any) -> CallError:
    """Make one call that fails."""
    call_error = await ask(*arguments, **settings)
    assert isinstance(call_error, CallError)
    return call_error


async def answered(*arguments: Any, **settings: Any) -> Reply:
    """Make one call that is answered."""
    reply = await ask(*arguments, **settings)
    assert isinstance(reply, Reply)
    return reply


def read(message: Any, key: str | None = None, **choice: Any) -> Reply:
    """Read a reply with one choice."""
    body = {"choices": [{"message": message, **choice}]}
    reply = read_response(200, orjson.dumps(body), key=key)
    assert isinstance(reply, Reply)
    return reply


def error(status: int, message: str, headers: str = "", **more: Any) -> bytes:
    """Make an error response."""
    return answer(
        status,
        json.dumps({"error": {"message": message, **more}}).encode(),
        headers,
    )


async def test_reply(server: JudgeServer, subtests: pytest.Subtests) -> None:
    """An answer becomes its text and the tokens that the judge counted; no key of another host is sent."""
    for via in BOTH:
        with subtests.test(via=via):
            server.reset()
            reply = await answered(
                "openai/good", via, server.base, api_key=None
            )
            assert "0.4" in reply.text
            assert (reply.usage.calls, reply.http_requests) == (1, 1)
            assert min(reply.usage.prompt, reply.usage.completion) > 0
            assert server.stats()["keys"] == (
                [] if via == "http" else ["Bearer none"]
            )


LEFT = "x-ratelimit-remaining-requests: 499\r\nX-RateLimit-Remaining-Tokens: 40000\r\n"
CLAUDE = {
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "fine"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
LEFT_BY_CLAUDE = "anthropic-ratelimit-requests-remaining: 49\r\nanthropic-ratelimit-tokens-remaining: 39000\r\n"


async def test_what_limits_leave(subtests: pytest.Subtests) -> None:
    """A reply has what the rate limits leave, as its headers name it, on both routes."""
    body = GOOD.partition(b"\r\n\r\n")[2]
    cases = (
        (
            "openai/m",
            "http",
            answer(200, body, LEFT),
            RateLimitRemaining(499, 40_000),
        ),
        (
            "openai/m",
            "litellm",
            answer(200, body, LEFT),
            RateLimitRemaining(499, 40_000),
        ),
        (
            "anthropic/m",
            "litellm",
            answer(200, json.dumps(CLAUDE).encode(), LEFT_BY_CLAUDE),
            RateLimitRemaining(49, 39_000),
        ),
        ("openai/m", "http", GOOD, None),
        ("openai/m", "litellm", GOOD, None),
    )
    for model, via, response, left in cases:
        with subtests.test(model=model, via=via, left=left):
            async with serving(response) as server:
                reply = await answered(model, cast("Route", via), server.base)
            assert reply.left == left


async def test_deadline() -> None:
    """A server that drips its headers or its body, or never answers, is abandoned at the deadline."""
    call_errors: list[Reply | CallError] = []
    head, end, body = GOOD.partition(b"\r\n\r\n")

    async def late(model: str, via: Route, base: str) -> None:
        call_errors.append(await ask(model, via, base, timeout=0.6))

    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with (
            serving(GOOD, pause=0.05) as headers,
            serving(body, pause=0.05, whole=head + end) as texts,
            anyio.create_task_group() as group,
        ):
            for model, via in PATHS:
                for base in (
                    headers.base,
                    texts.base,
                    f"https://127.0.0.1:{silent.getsockname()[1]}/v1",
                ):
                    group.start_soon(late, model, via, base)
    assert (
        call_errors
        == [
            CallError(
                "transport", "the judge did not answer within 0.6 s", "call"
            )
        ]
        * 9
    )


async def test_deadline_of_all_steps(subtests: pytest.Subtests) -> None:
    """Each step down of the answer's form uses the remaining time, not a new timeout."""
    refused = error(
        400, "'response_format' is not supported", type="invalid_request_error"
    )
    for via in BOTH:
        with subtests.test(via=via):
            async with serving(
                GOOD
            ) as server:  # the first call imports litellm
                await ask("openai/m", via, server.base)
            async with serving(refused, wait=0.9) as server:
                call_error = await failed(
                    "openai/m", via, server.base, timeout=1.5
                )
                assert len(server.requests) == 2  # the second was cut short
            assert call_error.reason == "the judge did not answer within 1.5 s"


MEANINGS = [
    (500, {"type": "api_error"}, "call", False),
    (429, {"type": "rate_limit_error"}, "call", True),
    (529, {"type": "overloaded_error"}, "call", True),
    (401, {"type": "authentication_error"}, "run", False),
    (413, {"type": "request_too_large"}, "group", False),
    (402, {"type": "billing_error"}, "run", False),
    (429, {"code": "insufficient_quota"}, "run", False),
]


async def test_meanings(subtests: pytest.Subtests) -> None:
    """A failed call is one request, and has the same meaning on all paths, by its status and its code."""
    for status, signs, scope, rate in MEANINGS:
        for model, via in PATHS:
            with subtests.test(
                status=status, signs=signs, model=model, via=via
            ):
                async with serving(
                    error(status, f"no, {KEY}", "Retry-After: 7\r\n", **signs)
                ) as server:
                    call_error = await failed(model, via, server.base)
                    assert len(server.requests) == 1
                assert (call_error.scope, call_error.rate) == (scope, rate), (
                    call_error.reason
                )
                assert call_error.retry_after == (
                    7 if scope == "call" else None
                )
                assert call_error.reason.startswith(
                    f"the judge answered {status}: no, [key]"
                )


async def test_sent_or_not(subtests: pytest.Subtests) -> None:
    """A call that was sent may be billed, even if a gateway reports a refused connection."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = f"http://127.0.0.1:{gone.getsockname()[1]}/v1"
    for model, via in PATHS:
        with subtests.test(model=model, via=via):
            async with serving(
                error(503, "upstream connection refused")
            ) as server:
                call_error = await failed(model, via, server.base)
                assert (
                    call_error.sent,
                    "answered 503" in call_error.reason,
                ) == (
                    True,
                    True,
                )
            async with serving(b"") as server:
                call_error = await failed(model, via, server.base)
                assert (
                    call_error.scope,
                    call_error.sent,
                    len(server.requests),
                ) == (
                    "call",
                    True,
                    1,
                )
            call_error = await failed(model, via, closed)
            assert (call_error.scope, call_error.sent, call_error.billed) == (
                "call",
                False,
                False,
            )
            assert "cannot be reached" in call_error.reason
            assert KEY not in repr(
                resolve(
                    JudgeSettings(model, closed, via=via, api_key=KEY)
                ).judge
            )


async def test_address_without_a_path() -> None:
    """A call goes to the address that is given and to no other; where that is none, the error names /v1."""
    paths: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(
            status=status, text="<html><title>Hello</title></html>"
        )

    for status in (404, 405, 200):
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", serve)
        async with TestServer(app) as server:
            call_error = await failed(
                "mine", "http", f"http://127.0.0.1:{server.port}"
            )
        assert "/v1" in call_error.reason or status == 405
    assert set(paths) == {"/chat/completions"}


async def test_byte_order_mark() -> None:
    """A byte order mark before a reply is passed over, from the network and from the ledger."""
    body = GOOD.partition(b"\r\n\r\n")[2]
    async with serving(answer(200, BOM + body)) as server:
        for via in BOTH:
            reply = await answered("openai/m", via, server.base)
            assert reply.text == "fine"
            assert not reply.body.startswith(BOM)
    assert reply_of(BOM + body) == reply_of(body)


async def test_web_page() -> None:
    """A web page in place of a chat completion is named, and so is the address of a redirect."""
    async with serving(
        answer(200, b"<html><title>Welcome!</title></html>")
    ) as server:
        call_error = await failed("openai/m", "http", server.base)
    assert (
        "but a web page (Welcome!); is the endpoint's address right?"
        in call_error.reason
    )
    moved = "Location: https://h.example/v1/chat/completions\r\n"
    async with serving(answer(307, b"", moved)) as server:
        call_error = await failed("openai/m", "http", server.base)
    assert (
        "answered 307: https://h.example/v1; the endpoint redirects"
        in call_error.reason
    )


async def test_litellm_without_a_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that litellm finds itself is removed, and the user's timeout ends the call."""
    async with serving(GOOD, wait=20) as server:
        call_error = await failed(
            "openai/m", "litellm", server.base, params={"timeout": 0.3}
        )
    assert (
        call_error.scope,
        call_error.sent,
        "in time" in call_error.reason,
    ) == (
        "call",
        True,
        True,
    )
    async with serving(
        error(401, f"bad {KEY}", type="authentication_error")
    ) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv(
            "ANTHROPIC_API_BASE", server.base.removesuffix("/v1")
        )
        call_error = await failed("anthropic/m", "litellm", None, api_key=None)
    assert (KEY in call_error.reason, "[key]" in call_error.reason) == (
        False,
        True,
    )


async def test_large_reply() -> None:
    """A reply above 1 MiB, also one that is small on the wire, is no reply, and no ledger keeps it; 1 MiB is one."""
    for size, large in ((0, False), (1, True), (40 << 20, True)):
        frame = b'{"choices":[{"message":{"role":"assistant","content":"%s"}}]}'
        body = frame % (b"a" * (LARGEST - len(frame) + 2 + size))
        packed = answer(200, gzip.compress(body), "Content-Encoding: gzip\r\n")
        async with serving(packed) as server:
            reply = await ask("openai/m", "http", server.base)
            assert isinstance(reply, CallError if large else Reply)
            if isinstance(reply, CallError):
                assert (reply.reason, reply.scope, reply.body) == (
                    TOO_LARGE,
                    "call",
                    b"",
                )
            if size == 1:
                again = await failed("openai/m", "litellm", server.base)
                assert again.reason == TOO_LARGE


async def test_steps_down(
    server: JudgeServer, subtests: pytest.Subtests
) -> None:
    """A refused form or limit is replaced by another, but the user's never is."""
    for via in BOTH:
        with subtests.test(via=via):
            server.reset()
            reply = await answered("openai/format-refused", via, server.base)
            forms = server.stats()["by_format"]
            schemas = 2 if via == "http" else 1
            assert forms["json_schema"] == schemas
            assert (forms["json_object"], forms["none"]) == (1, 1)
            assert reply.http_requests == schemas + 2
            reply = await answered("openai/limit-refused", via, server.base)
            assert "max_completion_tokens" in server.requests()[-1]
            server.reset()
            stated = {"response_format": {"type": "json_object"}}
            assert isinstance(
                await ask(
                    "openai/format-refused", via, server.base, params=stated
                ),
                CallError,
            )
            assert server.stats()["requests"] == 1


async def test_odd_ends(server: JudgeServer, subtests: pytest.Subtests) -> None:
    """A refusal, a filter and a cut differ from an answer, and the limit of the answer is sent."""
    request = Request(
        REQUEST.system,
        REQUEST.user,
        REQUEST.labels,
        max_output_tokens=50,
        fitted=True,
    )
    for via in BOTH:
        with subtests.test(via=via):
            server.reset()
            replies = [
                await ask(f"openai/{cue}", via, server.base)
                for cue in ("refusal", "filter", "cutoff")
            ]
            ends = [
                (bool(r.refusal), r.truncated)
                for r in replies
                if isinstance(r, Reply)
            ]
            assert ends == [(True, False), (True, False), (False, True)]
            server.reset()
            for params in (
                {},
                {"max_tokens": 9},
                {"max_completion_tokens": 99},
            ):
                await ask(
                    "openai/good", via, server.base, request, params=params
                )
            sent = [
                {k: v for k, v in body.items() if k.startswith("max_")}
                for body in server.requests()
            ]
            assert sent == [
                {"max_tokens": 50},
                {"max_tokens": 9},
                {"max_completion_tokens": 50},
            ]


CUT_OFF = """
length max_tokens MAX_TOKENS FinishReason.MAX_TOKENS max_output_tokens model_length max_completion_tokens
model_context_window_exceeded context_length_exceeded token_limit max-tokens compaction incomplete
"""
FILTERED = """
content_filter sensitive safety SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII refusal content_filtered
guardrail_intervened IMAGE_SAFETY ContentFilter MODEL_ARMOR
"""


def test_finish_reasons() -> None:
    """A cut-off and a filter are known in the words of every provider; any other end says nothing."""
    for reason in (CUT_OFF + FILTERED).split():
        reply = read({"content": "hm"}, finish_reason=reason)
        filtered = reason in FILTERED.split()
        assert (reply.truncated, reply.refusal is not None) == (
            not filtered,
            filtered,
        )
    for end in (
        None,
        "stop",
        "STOP",
        "eos",
        "end_turn",
        "tool_calls",
        "",
        0,
        ["x"],
    ):
        reply = read({"content": "hm"}, finish_reason=end)
        assert reply == Reply("hm", Usage(calls=1))


def test_text_beside() -> None:
    """An answer that is empty is read from where thoughts stand, and is marked so."""
    readable: list[tuple[dict[str, Any], str]] = [
        ({"reasoning_content": "{2}"}, "{2}"),
        ({"reasoning": "{3}", "reasoning_content": None}, "{3}"),
    ]
    none: list[dict[str, Any]] = [
        {"reasoning": {"a": 1}, "reasoning_content": 5} | {"reasoning": ["x"]},
        {"thinking_blocks": [{"thinking": "{4}"}]},
    ]
    for content in (None, "", "\n\n"):
        for message, text in [
            *readable,
            *((unread, content or "") for unread in none),
        ]:
            reply = read({**message, "content": content})
            assert (reply.text, reply.beside) == (
                text,
                (message, text) in readable,
            )
    reply = read({"content": "a", "reasoning": "b"})
    assert (reply.text, reply.beside) == ("a", False)


def test_likely_words() -> None:
    """Tokens that are written alike all count; the one that was drawn comes first, and counts once."""

    def likely(drawn: tuple[str, float], *top: tuple[str, float]) -> Any:
        listed = [
            {"token": token, "logprob": share} for token, share in (drawn, *top)
        ]
        first = {**listed[0], "top_logprobs": listed[1:]}
        return read({"content": "Yes"}, logprobs={"content": [first]}).likely

    yes, again, no = ("Yes", -0.8), ("Yes", -1.4), ("No", -1.2)
    assert likely(yes, yes, no, again) == (yes, no, again)
    assert likely(again, yes, no, again) == (again, yes, no)
    assert likely(("So", -7.0), yes, no) == (("So", -7.0), yes, no)
    assert likely(("Yes", 0.0), yes, no) == (yes, no)
    assert likely(yes) == (yes,)
    twins = likely(yes, yes, no, again)
    assert word_share(twins).score == pytest.approx(0.6974, abs=1e-3)


def test_echoed_key() -> None:
    """A key is removed from an answer, but not a placeholder for a key, which may be any word."""
    reply = read(
        {"content": [{"text": 5}, {"text": "sk-key-echo"}]}, "sk-key-echo"
    )
    assert (reply.text, b"sk-key-echo" in reply.body) == ("[key]", False)
    key, sentence = (
        "a/key-of-9",
        '{"explanation": "it is \\na\\/key\\u002Dof-9"}',
    )
    for content in (
        sentence,
        json.dumps(json.loads(sentence)),
        sentence.replace("a", "\\u0061"),
    ):
        for body in (
            json.dumps({"choices": [{"message": {"content": content}}]}),
            content,
        ):
            answer = read_response(200, body.encode(), key=key)
            assert isinstance(answer, Reply | CallError)
            told = (
                answer.text
                if isinstance(answer, Reply)
                else (answer.body or b"").decode()
            )
            assert "[key]" in told
            assert "of-9" not in told
    long = b'{"a": "' + b"\\" * 300_000 + b'\\u0041"}'
    assert read_response(200, long, key=key)  # in no time
    text = '{"scores": [{"trajectory_id": "xjwx", "explanation": "none", "score": 0.1}]}'
    for key in ("x", "1", "none", "scores"):
        assert read({"content": text}, key).text == text
