"""Requests to providers with their own protocols, with and without --api-base."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from ruler_cli.judges.resolve import resolve
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import Reply, Request, Usage
from tests.judges.raw_server import answer, serving
from tests.values import opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
KEY = "my-own-key-0123456789"
REQUEST = Request("Grade.", "Nothing.", ("a",))
CHAT = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "ok"},
        }
    ],
    "service_tier": "on_demand",  # litellm requires it of Groq, which always sends it
}
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "ok"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
CANDIDATES = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "ok"}]},
            "finishReason": "STOP",
        }
    ],
    "usageMetadata": {
        "promptTokenCount": 1,
        "candidatesTokenCount": 1,
        "totalTokenCount": 2,
    },
}
CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}}, "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wire:
    """The request of a provider: `base` follows the host, `variable` is the other source of the address."""

    model: str
    base: str
    variable: str
    path: str
    header: str
    response: dict[str, Any]
    params: tuple[tuple[str, str], ...] = ()


WIRES = [
    Wire(
        "azure/my-judge", "", "AZURE_API_BASE",
        "/openai/deployments/my-judge/chat/completions?api-version=2024-10-21", f"api-key: {KEY}", CHAT,
        (("api_version", "2024-10-21"),),
    ),
    Wire("anthropic/claude-x", "", "ANTHROPIC_API_BASE", "/v1/messages", f"x-api-key: {KEY}", MESSAGE),
    Wire(
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0", "", "AWS_BEDROCK_RUNTIME_ENDPOINT",
        "/model/anthropic.claude-3-haiku-20240307-v1:0/converse", f"authorization: Bearer {KEY}", CONVERSE,
    ),
    Wire("groq/m", "/openai/v1", "GROQ_API_BASE", "/openai/v1/chat/completions",
         f"authorization: Bearer {KEY}", CHAT),
    Wire("deepseek/m", "/v1", "DEEPSEEK_API_BASE", "/v1/chat/completions",
         f"authorization: Bearer {KEY}", CHAT),
]  # fmt: skip
"""No variable sets Gemini's address; it has its own test."""
each_wire = pytest.mark.parametrize(
    "wire", WIRES, ids=[wire.model.partition("/")[0] for wire in WIRES]
)


@pytest.fixture(autouse=True, scope="module")
def no_leftovers() -> Iterator[None]:
    """Make leftovers of a litellm call warn here, and not in a later test."""
    yield
    gc.collect()


def read(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the path with its query, and the headers by their names in lower case."""
    first, *rest = head.decode().rstrip("\r\n").split("\r\n")
    headers = {
        name.lower(): value
        for name, _, value in (line.partition(": ") for line in rest)
    }
    return first.split(" ")[1].replace("%3A", ":"), headers


async def sent(
    settings: JudgeSettings, response: dict[str, Any], server: Any
) -> tuple[str, dict[str, str]]:
    """Make one call; return the path and the headers of its request."""
    async with opened(resolve(settings)) as judge:
        reply = await judge.ask(REQUEST)
    assert isinstance(reply, Reply), reply
    assert reply.text == "ok"
    (head,) = server.heads
    return read(head)


@each_wire
@pytest.mark.parametrize("named", [True, False], ids=["api-base", "variable"])
async def test_protocol(
    wire: Wire, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider gets its own protocol at its path, with its header, from any source of its address."""
    async with serving(
        answer(200, json.dumps(wire.response).encode())
    ) as server:
        base = f"http://127.0.0.1:{server.port}{wire.base}"
        if not named:
            monkeypatch.setenv(wire.variable, base)
        settings = JudgeSettings(
            wire.model,
            base if named else None,
            api_key=KEY,
            params=dict(wire.params),
            timeout=30,
        )
        path, headers = await sent(settings, wire.response, server)
    name, _, value = wire.header.partition(": ")
    assert path == wire.path
    assert headers[name] == value
    assert sum(KEY in value for value in headers.values()) == 1


async def test_gemini() -> None:
    """Gemini is called by `:generateContent`, with its key in a header or the query."""
    async with serving(answer(200, json.dumps(CANDIDATES).encode())) as server:
        base = f"http://127.0.0.1:{server.port}/v1beta"
        path, headers = await sent(
            JudgeSettings("gemini/gemini-x", base, api_key=KEY, timeout=30),
            CANDIDATES,
            server,
        )
    assert ":generateContent" in path
    assert headers.get("x-goog-api-key") == KEY or f"key={KEY}" in path


async def test_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider's own key from its variable is not sent to an address for which the user names no key."""
    for name in (
        "ANTHROPIC_API_KEY",
        "GROQ_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
        "DEEPSEEK_API_KEY",
    ):
        monkeypatch.setenv(name, KEY)
    for wire in WIRES[1:]:
        async with serving(
            answer(200, json.dumps(wire.response).encode())
        ) as server:
            base = f"http://127.0.0.1:{server.port}{wire.base}"
            await sent(
                JudgeSettings(wire.model, base, timeout=30),
                wire.response,
                server,
            )
            assert KEY.encode() not in server.heads[0]


async def test_azure_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Azure has only the user's address: the key of its variable is sent there."""
    monkeypatch.setenv("AZURE_API_KEY", KEY)
    wire = WIRES[0]
    async with serving(
        answer(200, json.dumps(wire.response).encode())
    ) as server:
        base = f"http://127.0.0.1:{server.port}"
        params = {"api_version": "2024-10-21"}
        path, headers = await sent(
            JudgeSettings(wire.model, base, params=params, timeout=30),
            CHAT,
            server,
        )
    assert path == wire.path
    assert headers["api-key"] == KEY


@pytest.mark.parametrize(
    "model",
    ["xinference/m", "lm_studio/m", "litellm_proxy/m", "custom_openai/m"],
)
async def test_self_hosted(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-hosted servers get no key that was not named, not even OpenAI's."""
    for name in ("OPENAI_API_KEY", "LM_STUDIO_API_KEY"):
        monkeypatch.setenv(name, KEY)
    async with serving(answer(200, json.dumps(CHAT).encode())) as server:
        await sent(
            JudgeSettings(model, server.base, via="litellm", timeout=30),
            CHAT,
            server,
        )
        assert KEY.encode() not in server.heads[0]


async def test_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's key pair signs a call to a named address, and is not sent there."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    wire = WIRES[2]
    async with serving(
        answer(200, json.dumps(wire.response).encode())
    ) as server:
        base = f"http://127.0.0.1:{server.port}"
        path, headers = await sent(
            JudgeSettings(wire.model, base, timeout=30), wire.response, server
        )
    assert path == wire.path
    assert headers["authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/"
    )
    assert KEY not in str(headers)


LONG = "x" * 4000
MARKED = Request(
    "Grade.", f"<context>\n{LONG}\n</context>\nrest", ("a",), shared=4021
)
WRITTEN = MESSAGE | {
    "usage": {
        "input_tokens": 10,
        "cache_creation_input_tokens": 1200,
        "cache_read_input_tokens": 300,
        "output_tokens": 5,
    }
}


async def test_marked_for_the_cache() -> None:
    """Anthropic is told where the part ends that comes again, if it is long enough; other providers are not.

    The texts are the same with and without the mark, and tokens that are written to the cache are counted.
    """
    requests = {
        MARKED.shared: MARKED,
        0: replace(MARKED, shared=0),
        2000: replace(MARKED, shared=2000),
    }
    for shared, request in requests.items():
        async with serving(answer(200, json.dumps(WRITTEN).encode())) as server:
            base = f"http://127.0.0.1:{server.port}"
            settings = JudgeSettings(
                "anthropic/m", base, api_key=KEY, timeout=30
            )
            async with opened(resolve(settings)) as judge:
                reply = await judge.ask(request)
        assert isinstance(reply, Reply)
        assert reply.usage == Usage(1510, 5, 300, 1, 1200)
        body = json.loads(server.requests[0])
        (message,) = body["messages"]
        texts = [part["text"] for part in message["content"]]
        marks = [part.get("cache_control") for part in message["content"]]
        assert "".join(texts) == MARKED.user
        assert marks == (
            [{"type": "ephemeral"}, None] if shared == MARKED.shared else [None]
        )
        assert "cache_control" not in json.dumps(body["system"])
        if shared == MARKED.shared:
            assert texts[1] == "\nrest"
    async with serving(answer(200, json.dumps(CANDIDATES).encode())) as server:
        base = f"http://127.0.0.1:{server.port}/v1beta"
        settings = JudgeSettings(
            "gemini/gemini-x", base, api_key=KEY, timeout=30
        )
        async with opened(resolve(settings)) as judge:
            await judge.ask(MARKED)
    assert b"cache" not in server.requests[0]
