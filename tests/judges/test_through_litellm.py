"""litellm's own path: its mock_response, and the same misbehaving server."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.judges.body import Answering
from ruler_cli.judges.choose import choose
from ruler_cli.judges.through_litellm import LitellmJudge
from ruler_cli.records import Fault, Reply, Request
from ruler_cli.settings import JudgeSettings
from tests.judge_server import JudgeServer

# litellm and its clients warn of their own affairs at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
ASKED = Request(
    "Grade.",
    '<trajectory id="abcd">\nassistant: "truth=0.4"\n</trajectory>\ntrajectory_ids to score: ["abcd"]',
    ("abcd",),
)  # fmt: skip


async def ask(request: Request = ASKED, model: str = "openai/good", **settings: Any) -> Reply | Fault:
    """One call through litellm."""
    chosen = choose(JudgeSettings(model, via="litellm", **settings))
    async with chosen.judge as judge:
        return await judge.ask(request)


async def test_mock_response() -> None:
    """A completion of any provider becomes a reply with its usage."""
    reply = await ask(model="anthropic/claude-sonnet-4-5", params={"mock_response": '{"scores": []}'})
    assert isinstance(reply, Reply)
    assert reply.text == '{"scores": []}'
    assert reply.usage.calls == 1
    assert reply.usage.prompt > 0


async def test_mock_failure() -> None:
    """litellm's exceptions become faults by what they carry."""
    fault = await ask(model="anthropic/claude-sonnet-4-5", params={"mock_response": "litellm.RateLimitError"})
    assert isinstance(fault, Fault)
    assert fault.scope == "call"


async def test_same_server(server: JudgeServer) -> None:
    """Through litellm the same judge gives the same score; no key goes to a host it is not for."""
    reply = await ask(api_base=server.base)
    assert isinstance(reply, Reply)
    assert json.loads(reply.text)["scores"][0]["score"] == 0.4
    assert server.stats()["keys"] == ["Bearer none"]
    assert server.stats()["by_format"]["json_schema"] == 1


def test_key_for_a_stated_host() -> None:
    """With an endpoint and no key named for it, litellm is kept from taking one out of a variable."""
    judge = LitellmJudge("n", "anthropic/x", "http://h", None, 1.0, {}, Answering())
    assert judge._arguments(ASKED, Answering())["api_key"] == "none"


@pytest.mark.parametrize(
    ("cue", "scope"),
    [
        ("401", "run"), ("404", "run"), ("quota", "run"), ("400", "group"), ("429", "call"),
        ("500", "call"), ("529", "call"), ("drop", "call"), ("hang", "call"), ("drip", "call"),
    ],
)  # fmt: skip
async def test_faults(cue: str, scope: str, server: JudgeServer) -> None:
    """Each failure of the outside world is a fault of the same scope as on the direct path."""
    fault = await ask(model=f"openai/{cue}", api_base=server.base, timeout=1.0)
    assert isinstance(fault, Fault)
    assert fault.scope == scope, fault.reason
    assert server.stats()["requests"] == 1  # litellm's own retries are off


async def test_deadline_holds_while_bytes_drip(server: JudgeServer) -> None:
    """The deadline is the wall clock's, which litellm's own timeout is not."""
    with anyio.fail_after(20):
        fault = await ask(model="openai/drip", api_base=server.base, timeout=0.5)
    assert isinstance(fault, Fault)
    assert "within 0.5 s" in fault.reason


async def test_answer_form_steps_down(server: JudgeServer) -> None:
    """Where each schema is refused plain JSON is asked for, and then plain text."""
    reply = await ask(model="openai/format-refused", api_base=server.base)
    assert isinstance(reply, Reply)
    assert server.stats()["by_format"] == {"json_schema": 2, "json_object": 1, "none": 1}


async def test_refusal_and_cut_off(server: JudgeServer) -> None:
    """A refusal, a filter and a cut are told apart from an answer."""
    for cue in ("refusal", "filter"):
        reply = await ask(model=f"openai/{cue}", api_base=server.base)
        assert isinstance(reply, Reply)
        assert reply.refusal
    reply = await ask(model="openai/cutoff", api_base=server.base)
    assert isinstance(reply, Reply)
    assert reply.truncated


async def test_room(server: JudgeServer) -> None:
    """Room for the answer is passed on."""
    await ask(Request(ASKED.system, ASKED.user, ASKED.labels, room=77, fitted=True), api_base=server.base)
    assert server.requests()[0]["max_tokens"] == 77


async def test_a_limit_by_another_name(server: JudgeServer) -> None:
    """A refused limit is sent again by the name that the refusal gives."""
    reply = await ask(model="openai/limit-refused", api_base=server.base)
    assert isinstance(reply, Reply)
    assert "max_completion_tokens" in server.requests()[-1]


async def test_unreachable() -> None:
    """A judge that is not there is a call that was not sent."""
    fault = await ask(api_base="http://127.0.0.1:9/v1")
    assert isinstance(fault, Fault)
    assert not fault.sent


@pytest.mark.parametrize(
    ("name", "meant"),
    [("offlin", "`offline`"), ("opnai/o3", "`openai/o3`"), ("gpt4o", "`gpt-4o`")],
)
async def test_unknown_provider(name: str, meant: str) -> None:
    """A name without a provider is told before a call, with what may be meant."""
    with pytest.raises(UsageError, match=rf"did you mean {meant}.*provider/name"):
        await ask(model=name)


async def test_unlike_any() -> None:
    """Nothing is proposed where no provider is near."""
    with pytest.raises(UsageError, match="known by that name; write it as provider/name"):
        await ask(model="qqqqqqqq/x")


async def test_missing_key() -> None:
    """A provider's missing key is told with its variable."""
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        await ask(model="anthropic/claude-sonnet-4-5")
