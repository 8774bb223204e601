"""What holds alike on the direct path and through litellm: one deadline, one request, no key told."""

from __future__ import annotations

import gc
import json
import socket
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from ruler_cli.judges.choose import choose
from ruler_cli.records import Fault, Reply, Request
from ruler_cli.settings import JudgeSettings
from tests.judges.raw_server import answer, serving

# litellm and its clients warn of their own affairs at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
KEY = "my-own-key-0123456789"
ASKED = Request("Grade.", "Nothing.", ("a",))
GOOD = answer(200, b'{"choices":[{"index":0,"message":{"role":"assistant","content":"fine"}}]}')
REFUSED = {"error": {"message": "'response_format' is not supported", "type": "invalid_request_error"}}
PATHS = [("openai/m", "http"), ("openai/m", "litellm"), ("anthropic/m", "litellm")]
each_path = pytest.mark.parametrize(("model", "via"), PATHS)
TIMEOUT = 0.6


@pytest.fixture(autouse=True, scope="module")
def no_leftovers() -> Iterator[None]:
    """What litellm leaves of a call that was cut short warns here, not in a test that comes later."""
    yield
    gc.collect()


async def ask(model: str, via: Any, base: str, within: float = 20.0) -> Reply | Fault:
    """One call; a test that would hang fails."""
    settings = JudgeSettings(model, via=via, api_base=base, api_key=KEY, timeout=within)
    async with choose(settings).judge as judge:
        with anyio.fail_after(60):
            return await judge.ask(ASKED)


def assert_late(fault: Reply | Fault, timeout: float = TIMEOUT) -> None:
    """The deadline ended the call, which may have been paid for."""
    assert isinstance(fault, Fault)
    assert fault.reason == f"the judge did not answer within {timeout:g} s"
    assert (fault.scope, fault.sent, fault.rate) == ("call", True, False)


@each_path
async def test_headers_drip(model: str, via: str) -> None:
    """A server that drips its headers is left at the deadline."""
    async with serving(GOOD, pause=0.05) as server:
        assert_late(await ask(model, via, server.base, TIMEOUT))


@each_path
async def test_body_drips(model: str, via: str) -> None:
    """A server that drips its body is left at the deadline."""
    head, end, body = GOOD.partition(b"\r\n\r\n")
    async with serving(body, pause=0.05, whole=head + end) as server:
        assert_late(await ask(model, via, server.base, TIMEOUT))


@each_path
async def test_connect_hangs(model: str, via: str) -> None:
    """A server that takes the connection and never greets is left at the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert_late(await ask(model, via, f"https://127.0.0.1:{silent.getsockname()[1]}/v1", TIMEOUT))


@pytest.mark.parametrize(("model", "via"), PATHS[:2])
async def test_one_deadline_for_all_steps(model: str, via: str) -> None:
    """Each step down of the answer format uses the time that is left, not time of its own."""
    refused = answer(400, json.dumps(REFUSED).encode())
    timeout = 2.5  # a busy machine takes a while between the first and the second
    async with serving(refused, wait=timeout * 0.6) as server:
        assert_late(await ask(model, via, server.base, timeout), timeout)
        assert len(server.requests) == 2  # the second was cut short


@each_path
@pytest.mark.parametrize(
    ("status", "kind", "scope", "rate"),
    [
        (500, "api_error", "call", False),
        (429, "rate_limit_error", "call", True),
        (529, "overloaded_error", "call", True),
        (401, "authentication_error", "run", False),
        (413, "request_too_large", "group", False),
        (402, "billing_error", "run", False),
    ],
)
async def test_one_request(model: str, via: str, status: int, kind: str, scope: str, rate: bool) -> None:
    """A failed call is one request, and means the same on both paths, whoever is behind litellm."""
    body = {"type": "error", "error": {"type": kind, "message": f"no, {KEY}"}}
    headers = "Retry-After: 7\r\n"
    async with serving(answer(status, json.dumps(body).encode(), headers)) as server:
        fault = await ask(model, via, server.base)
        assert len(server.requests) == 1
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.rate) == (scope, rate), fault.reason
    assert fault.retry_after == (7 if scope == "call" else None)
    assert fault.reason.startswith(f"the judge answered {status}: no, [key]")


@each_path
async def test_codes_arrive(model: str, via: str) -> None:
    """A provider's code decides where its status and message would not."""
    body = {"error": {"message": "no", "code": "insufficient_quota"}}
    async with serving(answer(429, json.dumps(body).encode())) as server:
        fault = await ask(model, via, server.base)
    assert isinstance(fault, Fault)
    assert fault.scope == "run"


@each_path
async def test_gateway_that_cannot_connect(model: str, via: str) -> None:
    """A gateway's word of a refused connection is an answer: the call was sent."""
    async with serving(answer(503, b'{"error":{"message":"upstream connection refused"}}')) as server:
        fault = await ask(model, via, server.base)
    assert isinstance(fault, Fault)
    assert fault.sent
    assert "answered 503" in fault.reason


@each_path
async def test_dropped(model: str, via: str) -> None:
    """A connection that breaks after the request may have been paid for."""
    async with serving(b"") as server:
        fault = await ask(model, via, server.base)
        assert len(server.requests) == 1
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.sent) == ("call", True), fault.reason


@each_path
async def test_refused_connection(model: str, via: str) -> None:
    """A connection that is refused is a call that was not sent."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    fault = await ask(model, via, f"http://127.0.0.1:{port}/v1")
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.sent) == ("call", False)
    assert "cannot be reached" in fault.reason


@each_path
async def test_key_not_in_repr(model: str, via: Any) -> None:
    """The key is not in the judge's own text."""
    judge = choose(JudgeSettings(model, via=via, api_base="http://127.0.0.1:9", api_key=KEY)).judge
    assert KEY not in repr(judge)


async def test_error_that_comes_as_200() -> None:
    """An error in a good answer's clothes is read as the error it is."""
    body = b'{"error":{"message":"Rate limit exceeded","code":429},"user_id":"u"}'
    async with serving(answer(200, body, "Retry-After: 3\r\n")) as server:
        fault = await ask("openai/m", "http", server.base)
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.rate, fault.retry_after) == ("call", True, 3)


async def test_key_that_litellm_finds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that litellm takes out of the environment is cut out of what is told, too."""
    body = {"type": "error", "error": {"type": "authentication_error", "message": f"bad {KEY}"}}
    async with serving(answer(401, json.dumps(body).encode())) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.base.removesuffix("/v1"))
        async with choose(JudgeSettings("anthropic/m", via="litellm")).judge as judge:
            fault = await judge.ask(ASKED)
        assert len(server.requests) == 1
    assert isinstance(fault, Fault)
    assert KEY not in fault.reason
    assert "[key]" in fault.reason


@pytest.mark.parametrize("model", ["openai/m", "anthropic/m"])
async def test_time_that_litellm_limits(model: str) -> None:
    """A limit that the user gives litellm itself ends the call as a deadline does."""
    async with serving(GOOD, wait=20) as server:
        settings = JudgeSettings(
            model, via="litellm", api_base=server.base, api_key=KEY, params={"timeout": 0.3}, timeout=20
        )
        async with choose(settings).judge as judge:
            fault = await judge.ask(ASKED)
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.sent) == ("call", True)
    assert "in time" in fault.reason
