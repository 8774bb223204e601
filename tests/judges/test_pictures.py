"""Pictures in a call: in the form of each provider, on both routes and in a batch, and never opened by us."""

from __future__ import annotations

import base64
import gc
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from ruler_cli.judges.resolve import resolve
from ruler_cli.ledger.reply_cache import key_of
from ruler_cli.messages.pictures import read_picture
from ruler_cli.prompting.pictures import picture_tokens
from ruler_cli.runs.batch.requests import request_line
from ruler_cli.settings.models import JudgeSettings, Via
from ruler_cli.types import CallError, Reply, Request
from tests.judges.raw_server import answer, serving
from tests.judges.test_provider_protocols import (
    CANDIDATES,
    CHAT,
    CONVERSE,
    MESSAGE,
)
from tests.picture_judge import address, png
from tests.values import opened

# litellm and its clients warn at import and at exit
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
KEY = "my-own-key-0123456789"
DATA = png(0.5), png(0.2)
RED, BLUE = (
    read_picture(address(DATA[0]), "low"),
    read_picture(address(DATA[1])),
)
FIRST, SECOND = "a\n(picture 1)", "\nb\n(picture 1)"
PLACED = (len(FIRST), RED), (len(FIRST + SECOND), BLUE)
REQUEST = Request("Grade.", FIRST + SECOND + "\nc", ("a",), pictures=PLACED)
TEXTS = [FIRST, SECOND, "\nc"]
WEB = "http://127.0.0.1:9/x.png"


@pytest.fixture(autouse=True, scope="module")
def no_leftovers() -> Iterator[None]:
    """Make leftovers of a litellm call warn here, and not in a later test."""
    yield
    gc.collect()


async def sent(
    model: str, response: dict[str, Any], base: str = "", **settings: Any
) -> dict[str, Any]:
    """Make one call; return the body of its request."""
    async with serving(answer(200, json.dumps(response).encode())) as server:
        chosen = JudgeSettings(
            model,
            f"http://127.0.0.1:{server.port}{base}",
            api_key=KEY,
            timeout=30,
            **settings,
        )
        async with opened(resolve(chosen)) as judge:
            reply = await judge.ask(REQUEST)
    assert isinstance(reply, Reply), reply
    body: dict[str, Any] = json.loads(server.requests[0])
    return body


def of_openai(part: dict[str, Any]) -> Any:
    """Return the text of a part, or the bytes of its picture with the stated size."""
    if part["type"] == "text":
        return part["text"]
    image = part["image_url"]
    data = base64.b64decode(image["url"].removeprefix("data:image/png;base64,"))
    return data, image.get("detail")


def of_anthropic(part: dict[str, Any]) -> Any:
    """Return the text of a part, or the bytes of its picture."""
    if part["type"] == "text":
        return part["text"]
    source = part["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/png")
    return base64.b64decode(source["data"])


async def test_openai(subtests: pytest.Subtests) -> None:
    """By OpenAI's protocol a picture stands in its place, with its stated size, on both routes."""
    for model, via in (
        ("openai/m", "http"),
        ("openai/m", "litellm"),
        ("azure/m", "litellm"),
    ):
        with subtests.test(model=model, via=via):
            params = {"api_version": "2024-10-21"} if model == "azure/m" else {}
            base = "/v1" if via == "http" else ""
            body = await sent(model, CHAT, base, via=via, params=params)
            assert [*map(of_openai, body["messages"][1]["content"])] == [
                TEXTS[0],
                (DATA[0], "low"),
                TEXTS[1],
                (DATA[1], None),
                TEXTS[2],
            ]


BETWEEN = [TEXTS[0], DATA[0], TEXTS[1], DATA[1], TEXTS[2]]


def of_bedrock(part: dict[str, Any]) -> Any:
    """Return the text of a part, or the bytes of its picture."""
    if "text" in part:
        return part["text"]
    return base64.b64decode(part["image"]["source"]["bytes"])


def of_gemini(part: dict[str, Any]) -> Any:
    """Return the text of a part, or the bytes of its picture."""
    if "text" in part:
        return part["text"]
    return base64.b64decode(part["inline_data"]["data"])


async def test_other_protocols() -> None:
    """Anthropic, Bedrock and Gemini get their own parts, and a row of a batch has those of a call."""
    body = await sent("anthropic/claude-x", MESSAGE)
    (message,) = body["messages"]
    assert [*map(of_anthropic, message["content"])] == BETWEEN
    line = request_line(JudgeSettings("anthropic/claude-x"))(b"k", REQUEST)
    assert orjson.loads(line)["params"]["messages"] == body["messages"]
    body = await sent(
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0", CONVERSE
    )
    (message,) = body["messages"]
    assert [*map(of_bedrock, message["content"])] == BETWEEN
    body = await sent("gemini/gemini-x", CANDIDATES, "/v1beta")
    parts = [*map(of_gemini, body["contents"][0]["parts"])]
    start = parts.index(TEXTS[0])
    assert parts[start : start + 5] == BETWEEN


async def test_address() -> None:
    """An address on the web is handed to a judge that is asked directly, and litellm, which may open it, has none."""
    picture = read_picture(WEB)
    request = Request("Grade.", "a", ("a",), pictures=((1, picture),))
    async with serving(answer(200, json.dumps(CHAT).encode())) as server:
        ways: tuple[tuple[str, Via], ...] = (
            ("openai/m", "http"),
            ("anthropic/m", "auto"),
        )
        for model, via in ways:
            chosen = JudgeSettings(
                model, server.base, api_key=KEY, via=via, timeout=9
            )
            async with opened(resolve(chosen)) as judge:
                reply = await judge.ask(request)
            if via == "auto":
                assert isinstance(reply, CallError)
                assert (reply.kind, reply.scope, reply.sent) == (
                    "input",
                    "group",
                    False,
                )
    (body,) = server.requests
    assert (
        json.loads(body)["messages"][1]["content"][1]["image_url"]["url"] == WEB
    )


def test_key(subtests: pytest.Subtests) -> None:
    """The key of a request depends on the original bytes, the stated size and the place of each picture only."""
    text = Request("Grade.", REQUEST.user, ("a",))
    keys = {key_of("m", {}, REQUEST), key_of("m", {}, text)}
    others = (
        ((PLACED[0][0], BLUE), PLACED[1]),
        ((PLACED[0][0], read_picture(address(DATA[0]))), PLACED[1]),
        ((PLACED[0][0] - 1, RED), PLACED[1]),
        PLACED[:1],
    )
    for placed in others:
        keys.add(
            key_of(
                "m",
                {},
                Request("Grade.", REQUEST.user, ("a",), pictures=placed),
            )
        )
    assert len(keys) == 2 + len(others)
    again = read_picture(
        "data:image/PNG;base64," + base64.encodebytes(DATA[1]).decode()
    )
    same = Request(
        "Grade.",
        REQUEST.user,
        ("a",),
        pictures=(PLACED[0], (PLACED[1][0], again)),
    )
    assert key_of("m", {}, same) == key_of("m", {}, REQUEST)


def test_tokens() -> None:
    """The tokens of a picture at OpenAI are those that litellm counts, where that does not make it larger."""
    from litellm.litellm_core_utils.token_counter import calculate_img_tokens

    for size in (
        (512, 512),
        (768, 700),
        (1024, 1024),
        (2048, 4096),
        (4000, 3000),
    ):
        url = address(png(0.5, *size))
        counted = picture_tokens(read_picture(url), "openai/gpt-4o")
        assert counted == calculate_img_tokens(url, "high"), size
