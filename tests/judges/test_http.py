"""The direct path, one call at a time."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ruler_cli.judges.answer_form import reply_of, usage_of
from ruler_cli.judges.body import Answering, answering
from ruler_cli.judges.http import HttpJudge
from ruler_cli.records import Fault, Reply, Request, Usage
from ruler_cli.settings import JudgeSettings
from tests.judge_server import JudgeServer

pytestmark = pytest.mark.anyio
ASKED = Request(
    "Grade.",
    '<trajectory id="abcd">\nassistant: "truth=0.4"\n</trajectory>\ntrajectory_ids to score: ["abcd"]',
    ("abcd",), room=50, fitted=True,
)  # fmt: skip


async def ask(server: JudgeServer, cue: str, **params: Any) -> Reply | Fault:
    """One call."""
    how = answering(JudgeSettings(cue, server.base, params=params), server.base)
    async with HttpJudge("n", cue, server.base, "sk-secret-key-1", 5.0, params, how) as judge:
        return await judge.ask(ASKED)


async def test_reply(server: JudgeServer) -> None:
    """An answer becomes its text and the tokens that the judge counted."""
    reply = await ask(server, "good")
    assert isinstance(reply, Reply)
    assert reply.usage.calls == 1
    assert reply.usage.prompt > 0
    assert reply.usage.completion > 0


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
async def test_room(name: str, server: JudgeServer) -> None:
    """Room for the answer goes by the name that the user's own parameter has, and never passes its number."""
    await ask(server, "good", **{name: 99})
    await ask(server, "good", **{name: 9})
    assert [request[name] for request in server.requests()] == [50, 9]


async def test_own_format(server: JudgeServer) -> None:
    """A response_format that the user gives is sent as it is and never changed."""
    fault = await ask(server, "format-refused", response_format={"type": "json_object"})
    assert isinstance(fault, Fault)
    assert server.stats()["requests"] == 1


async def test_cached_tokens() -> None:
    """Cached prompt tokens are read from the usage details; nonsense counts as nothing."""
    value = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    assert usage_of(value) == Usage(10, 2, 4, 1)
    assert usage_of({"prompt_tokens": -3, "completion_tokens": True}) == Usage(0, 0, 0, 1)
    assert usage_of(None) == Usage(0, 0, 0, 1)


def test_odd_replies() -> None:
    """Odd parts and odd counts are read without a crash, and an echoed key is taken out."""
    text = b'{"choices":[{"message":{"content":[{"text":5},{"text":"sk-key-echo"}]}}],'
    usage = b'"usage":{"prompt_tokens":%d}}' % 2**63
    reply = reply_of(text + usage, "sk-key-echo")
    assert isinstance(reply, Reply)
    assert (reply.text, reply.usage.prompt) == ("[key]", 0)
    assert b"sk-key-echo" not in reply.body


def test_read_again() -> None:
    """What is kept of an answer reads as the answer; no chat completion is a fault that carries it."""
    body = b'{"choices":[{"message":{"content":"hm","refusal":"no"},"finish_reason":"length"}]}'
    reply = reply_of(body)
    assert reply == Reply("hm", Usage(calls=1), truncated=True, refusal="no")
    assert isinstance(reply, Reply)
    assert reply_of(reply.body) == reply
    fault = reply_of(b"<html>")
    assert isinstance(fault, Fault)
    assert (fault.scope, fault.body) == ("call", b"<html>")


async def test_not_open() -> None:
    """A judge that was not opened is a mistake of the caller."""
    with pytest.raises(RuntimeError):
        await HttpJudge("n", "m", "http://127.0.0.1:9/v1", None, 1.0, {}, Answering()).ask(ASKED)


def test_key_not_in_repr() -> None:
    """The key is not in the judge's own text."""
    assert "sk-secret" not in repr(HttpJudge("n", "m", "http://x/v1", "sk-secret", 1.0, {}, Answering()))


@pytest.mark.parametrize("key", ["x", "1", "none", "scores"])
def test_placeholder_key(key: str) -> None:
    """What stands for a key at a server that wants none is left where an answer spells it."""
    said = '{"scores": [{"trajectory_id": "xjwx", "explanation": "none", "score": 0.1}]}'
    body = orjson.dumps({"choices": [{"message": {"content": said}}]})
    reply = reply_of(body, key)
    assert isinstance(reply, Reply)
    assert reply.text == said
