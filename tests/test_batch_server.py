"""The batch server does as its cues say, so that a test of the client can trust it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.batches.wire import UnclearError
from tests.batch_server import KINDS, BatchServer
from tests.batches.apis import APIS, TAG, api, every, request, requests, submit

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("name", APIS)


def _live(server: BatchServer, body: Any) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(f"{server.openai}/chat/completions", json.dumps(body).encode())
    with opener.open(asked, timeout=10) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


async def _rows(name: str, server: BatchServer, path: Path, model: str, count: int = 6) -> list[bytes]:
    async with api(name, server) as made:
        return await every(made.results(await submit(made, requests(path / "r.jsonl", name, count, model))))


@pytest.mark.parametrize("model", ["m", "prose", "not-json"])
async def test_same_answers_as_live(model: str, tmp_path: Path) -> None:
    """A batch is answered as a live judge answers, by either API."""
    with BatchServer() as server:
        lives = {f"{at:032x}": _live(server, request("openai", at, model)["body"]) for at in range(6)}
        for row in map(json.loads, await _rows("openai", server, tmp_path, model)):
            said = row["response"]["body"]["choices"][0]["message"]["content"]
            assert said == lives.pop(row["custom_id"])
        assert not lives
        for row in map(json.loads, await _rows("anthropic", server, tmp_path, model)):
            live = _live(server, request("openai", int(row["custom_id"], 16), model)["body"])
            assert row["result"]["message"]["content"] == [{"type": "text", "text": live}]


@both
@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_row(name: str, kind: str, tmp_path: Path) -> None:
    """Rows misbehave by the model's name: all of them, some of them, or once."""
    good = {"malformed", "missing", "duplicate", "foreign"}
    with BatchServer() as server:
        plain = {row.partition(b'"custom_id"')[2][:40] for row in await _rows(name, server, tmp_path, "m")}
        assert len(plain) == 6
        server.store.billed.clear()
        server.store.seen.clear()
        first = await _rows(name, server, tmp_path, f"some-row-{kind}")
        second = await _rows(name, server, tmp_path, f"some-row-{kind}")
        assert len(second) == 6
        assert all(json.loads(row) for row in second)
        assert len(first) == {"missing": 4, "duplicate": 8, "foreign": 8}.get(kind, 6)
        assert server.billed == 6 + (6 if kind in good else 4)


@both
async def test_order_is_not_kept(name: str, tmp_path: Path) -> None:
    """Rows do not come in the order of the requests."""
    with BatchServer() as server:
        ids = [json.loads(row)["custom_id"] for row in await _rows(name, server, tmp_path, "m")]
    assert ids != sorted(ids)


@both
async def test_hooks(name: str, tmp_path: Path) -> None:
    """A request may be lost before its step, or its answer after it; the hooks tell which."""
    seen: list[tuple[str, str, int]] = []
    with BatchServer() as server:
        server.before = lambda step: seen.append(("before", step, server.created))
        server.after = lambda step: seen.append(("after", step, server.created))
        async with api(name, server) as made:
            await submit(made, requests(tmp_path / "r.jsonl", name, 2))
            assert seen[-2:] == [("before", "create", 0), ("after", "create", 1)]
            server.before = lambda step: False
            with pytest.raises(UnclearError):
                await made.create(tmp_path / "r.jsonl", "file-0001", TAG)
            assert server.created == 1


@both
async def test_billed_again(name: str, tmp_path: Path) -> None:
    """A request in two batches is billed twice, and counted as such."""
    with BatchServer() as server:
        for _ in range(2):
            await _rows(name, server, tmp_path, "m", 3)
        assert (server.created, server.billed, server.billed_again) == (2, 6, 3)


async def test_only_key() -> None:
    """A key of one's own may be asked for; what is no step is not served."""
    with BatchServer(key="sk-mine") as server:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for path, status in (("batches", 401), ("nothing", 404)):
            with pytest.raises(urllib.error.HTTPError) as told:
                opener.open(f"{server.openai}/{path}", timeout=10)
            told.value.close()
            assert told.value.code == status
        server.fault("list", "drop")
        with pytest.raises((RemoteDisconnected, ConnectionError)):
            opener.open(f"{server.openai}/batches", timeout=10)
    with pytest.raises(ValueError, match="no such fault"):
        server.fault("list", "dorp")


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
