"""The body of a chat completions call: what a live run sends is what a request file holds."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ruler_cli.judges.answer_form import FORMATS
from ruler_cli.judges.body import chat_body, room_of
from ruler_cli.judges.choose import choose
from ruler_cli.judges.targets import request_line
from ruler_cli.records import Request
from ruler_cli.settings import JudgeSettings
from tests.judge_server import JudgeServer
from tests.judges.raw_server import answer, serving

pytestmark = pytest.mark.anyio
ASKED = Request("Grade.", 'é "\u2028\\ </trajectory>\n', ("abcd",))
COMPLETION = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize("room", [None, 77])
@pytest.mark.parametrize(
    "params", [{}, {"temperature": 0.2, "seed": 7}, {"max_tokens": 50}, {"response_format": {"type": "text"}}]
)
@pytest.mark.parametrize("model", ["openai/o3", "hosted_vllm/Qwen/Qwen3-8B", "mine", "meta-llama/Llama-3"])
async def test_what_a_live_run_sends_first(model: str, params: dict[str, Any], room: int | None) -> None:
    """The body in a row is byte for byte the first POST of a live run to the same endpoint."""
    request = Request(ASKED.system, ASKED.user, ASKED.labels, room)
    async with serving(answer(200, COMPLETION)) as server:
        settings = JudgeSettings(model, server.base, params=params)
        async with choose(settings).judge as judge:
            await judge.ask(request)
        (sent,) = server.requests
    key = bytes(range(16))
    for target in ("openai", "vllm"):
        line = request_line(target, settings)(key, request)
        head = b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":' % key.hex().encode()
        assert line == head + sent + b"}\n"


async def test_what_the_judge_server_was_asked(server: JudgeServer) -> None:
    """The judge server has read the same request from a live run."""
    asked = Request("Grade.", '<trajectory id="abcd">\n"truth=0.4"\n</trajectory>', ("abcd",))
    settings = JudgeSettings("openai/good", server.base, params={"temperature": 0.5})
    async with choose(settings).judge as judge:
        await judge.ask(asked)
    row = orjson.loads(request_line("openai", settings)(b"k" * 16, asked))
    assert server.requests() == [row["body"]]


def test_forms() -> None:
    """Each step down of the answer's form changes the form and nothing else; a stated one stays."""
    for level, form in enumerate(FORMATS):
        body = orjson.loads(chat_body("m", {}, ASKED, "max_tokens", level))
        assert body.pop("response_format", None) == form
        assert set(body) == {"model", "messages"}
        stated = orjson.loads(chat_body("m", {"response_format": 1}, ASKED, "max_tokens", level))
        assert stated["response_format"] == 1


@pytest.mark.parametrize(
    ("base", "params", "name"),
    [
        ("https://api.openai.com/v1", {}, "max_completion_tokens"),
        ("http://localhost:8000/v1", {}, "max_tokens"),
        ("https://api.openai.com/v1", {"max_tokens": 3}, "max_tokens"),
        ("http://localhost:8000/v1", {"max_completion_tokens": 3}, "max_completion_tokens"),
    ],
)
def test_room(base: str, params: dict[str, Any], name: str) -> None:
    """An answer's bound has the name that the endpoint knows, or the one that the user gave."""
    body = orjson.loads(chat_body("m", params, Request("", "", (), 99), room_of(base)))
    found = {key: value for key, value in body.items() if key.startswith("max_")}
    assert found == {name: 99}
