"""Anthropic's side: all requests in one, no tag, and results at an address that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.batches.anthropic import _body
from ruler_cli.batches.provider import Remote
from ruler_cli.batches.told import OddError
from ruler_cli.errors import RefusedError, RulerError
from tests.batch_server import BatchServer
from tests.batches.apis import KEY, TAG, api, every, requests, submit
from tests.batches.raw import Call, serving

pytestmark = pytest.mark.anyio


async def test_no_files(batch_server: BatchServer, tmp_path: Path) -> None:
    """There is no upload, and so nothing to find."""
    async with api("anthropic", batch_server) as made:
        assert await made.upload(requests(tmp_path / "r.jsonl", "anthropic", 1), TAG) == ""
        assert await made.uploaded(TAG) is None
    assert batch_server.steps == []


@pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_body(between: str, end: str, tmp_path: Path) -> None:
    """The body is one JSON object of all lines, and as long as it says, however the lines are ended."""
    file, lines = tmp_path / "r.jsonl", [{"custom_id": str(at), "params": {"x": "y" * 99}} for at in range(9)]
    file.write_bytes((between.join(map(json.dumps, lines)) + end).encode())
    body = _body(file)
    data = b"".join(body.pieces())
    assert json.loads(data) == {"requests": lines}
    assert len(data) == body.length
    assert b"".join(body.pieces()) == data  # once more, for another try


async def test_counts(batch_server: BatchServer, tmp_path: Path) -> None:
    """The total is the sum of the counts, from the start."""
    batch_server.conduct.pace = "advance"
    async with api("anthropic", batch_server) as made:
        file = requests(tmp_path / "r.jsonl", "anthropic", 6, "some-row-refused")
        first = await submit(made, file)
        assert (first.total, first.succeeded, first.failed) == (6, 0, 0)
        batch_server.advance(3)
        last = await made.retrieve(first.id)
        assert (last.total, last.succeeded, last.failed) == (6, 4, 2)


async def test_refused_requests(batch_server: BatchServer, tmp_path: Path) -> None:
    """Requests that are not valid are refused together, and there is no batch."""
    file = tmp_path / "r.jsonl"
    file.write_text(requests(file, "anthropic", 1).read_text() * 2)
    async with api("anthropic", batch_server) as made:
        with pytest.raises(RefusedError, match="requests: they are not valid"):
            await submit(made, file)
    assert batch_server.created == 0


async def test_results_at_another_host(batch_server: BatchServer, tmp_path: Path) -> None:
    """Results said to stand at another host are fetched from the own one: no key goes elsewhere."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"")

    async with serving(play, heads) as other:
        for host in (other, batch_server.root + "0", batch_server.root + "@evil.invalid"):
            batch_server.conduct.results_host = host
            async with api("anthropic", batch_server) as made:
                file = requests(tmp_path / "r.jsonl", "anthropic", 2)
                remote = await made.retrieve((await submit(made, file)).id)
                assert remote.files[0].startswith(f"{host}/")
                assert len(await every(made.results(remote))) == 2
    assert heads == []
    assert batch_server.keys == {KEY}


async def test_results_where_it_says(tmp_path: Path) -> None:
    """Results said to stand elsewhere on the own host are fetched from there."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"1\n")

    async with serving(play, heads) as base:
        server = BatchServer()
        server.anthropic = base
        remote = Remote("b", "ended", "ended", None, 1, 1, 0, 0.0, files=(f"{base}/kept/b?part=1",))
        async with api("anthropic", server) as made:
            assert await every(made.results(remote)) == [b"1"]
    assert heads[0].startswith("GET /kept/b?part=1 HTTP/1.1\r\n")


async def test_results_before_the_end(batch_server: BatchServer, tmp_path: Path) -> None:
    """Results that are not there yet, or no longer, are told as such."""
    batch_server.conduct.pace = "advance"
    async with api("anthropic", batch_server) as made:
        first = await submit(made, requests(tmp_path / "r.jsonl", "anthropic", 2))
        with pytest.raises(RulerError, match="holds no results of batch msgbatch_0001"):
            await every(made.results(first))


@pytest.mark.parametrize(
    "value", [{}, {"id": "x"}, {"id": "x", "processing_status": "ended"}, {"processing_status": "ended"}]
)
def test_no_batch(value: Any) -> None:
    """What has no id, no state or no time is no batch: nothing is guessed."""
    with pytest.raises(OddError):
        api("anthropic", BatchServer(), via="litellm").remote(value)
