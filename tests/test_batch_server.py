"""The batch server does as its cues say, so that a test of the client can trust it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.batch_server import BatchServer
from tests.batches.apis import APIS, api, every, request, requests, submit

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("name", APIS)


def _live(server: BatchServer, body: Any) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(f"{server.openai}/chat/completions", json.dumps(body).encode())
    with opener.open(asked, timeout=10) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


async def _rows(name: str, server: BatchServer, path: Path, model: str, count: int = 6) -> list[bytes]:
    async with api(name, server) as made:
        batch = await submit(made, requests(path / "r.jsonl", name, count, model))
        return await every(made.results(await made.retrieve(batch.id)))


async def test_same_answers_as_live(tmp_path: Path) -> None:
    """A batch is answered as a live judge answers, by either API."""
    model = "prose"
    with BatchServer() as server:
        lives = {f"{at:032x}": _live(server, request("openai", at, model)["body"]) for at in range(6)}
        for row in map(json.loads, await _rows("openai", server, tmp_path, model)):
            said = row["response"]["body"]["choices"][0]["message"]["content"]
            assert said == lives.pop(row["custom_id"])
        assert not lives
        for row in map(json.loads, await _rows("anthropic", server, tmp_path, model)):
            live = _live(server, request("openai", int(row["custom_id"], 16), model)["body"])
            assert row["result"]["message"]["content"] == [{"type": "text", "text": live}]


def test_process() -> None:
    """It serves as a process of its own, until its stdin closes."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.batch_server", "--conduct", '{"pace": "advance"}'],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).resolve().parents[1],
        check=True,
    )
    first, last = map(json.loads, done.stdout.splitlines())
    assert first["openai"] == first["anthropic"] + "/v1"
    assert last == {"created": 0, "billed": 0, "billed_again": 0}
