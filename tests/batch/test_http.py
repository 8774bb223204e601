"""The HTTP client of a batch API: retries, streams, and hosts that get the key."""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryFile

import aiohttp
import pytest

from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.runs.batch import providers as module
from ruler_cli.runs.batch.providers import Body, Provider, RemoteBatch, UnclearError
from tests.batch.raw import KEY, Answer, Call, api_client, serving

pytestmark = pytest.mark.anyio


def _big(folder: Path, megabytes: int) -> tuple[Path, Body]:
    """Return a file of zeros, and the body that is made of it."""
    file = folder / "big"
    with file.open("wb") as out:
        out.truncate(megabytes << 20)
    return file, aiohttp.BufferedReaderPayload


def _empty(_: object) -> aiohttp.Payload:
    return aiohttp.JsonPayload({})


def finished(files: int = 1) -> RemoteBatch:
    """A batch whose results are one file or two."""
    ids = dict(zip(("output_file_id", "error_file_id"), "12"[:files], strict=False))
    return RemoteBatch.model_validate(
        {"id": "b", "status": "completed", "created_at": 1, **ids}
    )


async def downloaded(client: Provider, files: int = 1) -> list[bytes]:
    """Download the results of a batch, and return their lines."""
    with TemporaryFile() as file:
        return [*await client.results(finished(files), file)]


async def test_broken_creation(tmp_path: Path) -> None:
    """A creation whose connection broke is not repeated, since it may have been handled."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.reader.read(1 << 16)
        call.writer.transport.abort()

    async with serving(play, heads) as base, api_client(base) as client:
        with pytest.raises(UnclearError, match="broke"):
            await client.request(
                "POST", "/batches", Answer, *_big(tmp_path, 32), once=True
            )
    assert len(heads) == 1


async def test_slow_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops reading ends an upload at its timeout, and not before."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        for _ in range(256):
            await call.reader.readexactly(1 << 16)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0 if len(heads) == 1 else 5)
        await call.answer(b'{"id": "1"}')

    body = _big(tmp_path, 16)
    async with serving(play, heads) as base, api_client(base) as client:
        assert await client.request("POST", "/batches", Answer, *body, once=True)
        monkeypatch.setattr(module, "_UPLOAD_TIMEOUT", 0.1)
        with pytest.raises(UnclearError, match="did not answer in time"):
            await client.request("POST", "/batches", Answer, *body, once=True)


async def test_upload_memory(tmp_path: Path) -> None:
    """A body of any size is never in memory as a whole."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        assert await call.body() == 64 << 20
        await call.answer(b'{"id": "1"}')

    async with serving(play, heads) as base, api_client(base) as client:
        gc.collect()
        tracemalloc.start()
        try:
            await client.request(
                "POST", "/batches", Answer, *_big(tmp_path, 64), once=True
            )
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
    assert "content-length: 67108864\r\n" in heads[0].lower()


async def test_results_memory() -> None:
    """Results of any size are read line by line."""
    line = b'{"custom_id": "%s"}' % (b"x" * 8000) + b"\n"

    async def play(call: Call) -> None:
        call.writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(line) * 4000)
        )
        for _ in range(4000):
            call.writer.write(line)
            await call.writer.drain()

    count = 0
    async with serving(play, []) as base, api_client(base) as client:
        gc.collect()
        tracemalloc.start()
        try:
            with TemporaryFile() as file:
                for each in await client.results(finished(), file):
                    assert each == line.strip()
                    count += 1
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
    assert count == 4000


async def test_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long comes in pieces, and no other line is lost."""
    monkeypatch.setattr(module, "_MAX_BYTES", 10)

    async def play(call: Call) -> None:
        await call.answer(b"one\n" + b"x" * 17 + b"\ntwo\r\n\n" + b"y" * 12)

    async with serving(play, []) as base, api_client(base) as client:
        lines = await downloaded(client, 2)
    whole = [b"one", b"x" * 10, b"x" * 7, b"two", b"y" * 10, b"y" * 2]
    assert lines == whole * 2


async def test_broken_stream() -> None:
    """Results whose connection broke are downloaded again from the beginning, and each line comes once."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1\n2\n3")
        if len(heads) != 2:
            call.writer.write(b"3\n4\n")
        await call.writer.drain()

    async with serving(play, heads) as base, api_client(base) as client:
        lines = await downloaded(client, 2)
    assert lines == [b"1", b"2", b"33", b"4"] * 2
    assert len(heads) == 3


async def test_key_stays_with_its_host() -> None:
    """Results at another host are fetched without the key, or not at all, and at the same host with it."""
    here: list[str] = []
    there: list[str] = []

    async def elsewhere(call: Call) -> None:
        await call.answer(b"1\n2\n")

    async with serving(elsewhere, there) as other:

        async def play(call: Call) -> None:
            target = f"{other}/signed?x=1" if "/own" in call.head else "/own"
            await call.answer(b"", 302, f"Location: {target}\r\n")

        async with serving(play, here) as base, api_client(base) as client:
            assert await downloaded(client) == [b"1", b"2"]
            client.headers = {"x-api-key": KEY}
            with pytest.raises(RulerError, match="redirects elsewhere"):
                await downloaded(client)
    assert [KEY in head for head in here] == [True, True, True]
    assert [KEY in head for head in there] == [False]
    assert there[0].startswith("GET /signed?x=1 ")


async def test_redirect_loop() -> None:
    """A loop of redirects ends with an error."""

    async def play(call: Call) -> None:
        await call.answer(b"", 302, "Location: /again\r\n")

    async with serving(play, []) as base, api_client(base) as client:
        with pytest.raises(RulerError, match="broke"):
            await downloaded(client)


async def test_no_key() -> None:
    """Without a key the error names the option for it, since none is sent to a foreign address by default."""

    async def play(call: Call) -> None:
        await call.answer(b'{"error": {"message": "Incorrect API key provided."}}', 401)

    async with serving(play, []) as base, api_client(base, key=None) as client:
        with pytest.raises(
            RefusedError, match=r"answered 401: .*; set the right key, .*--api-key-env"
        ):
            await client.request("GET", "/batches", Answer)


async def test_retry_after() -> None:
    """A Retry-After is honored; one that is too long ends the command."""
    waits: list[float] = []
    asked = iter(("7", "3600"))

    async def play(call: Call) -> None:
        await call.answer(b'{"error": "slow"}', 429, f"Retry-After: {next(asked)}\r\n")

    async with serving(play, []) as base, api_client(base, waits) as client:
        with pytest.raises(RulerError, match="answered 429: slow"):
            await client.request("GET", "/batches", Answer)
    assert len(waits) == 1
    assert waits[0] >= 7


async def test_unclear_statuses() -> None:
    """A creation that ends in a gateway's error or a conflict is unclear, and is not repeated."""
    heads: list[str] = []
    statuses = (408, 409, 425, 499, 500, 502, 503, 504, 529)

    async def play(call: Call) -> None:
        await call.body()
        await call.answer(b"{}", statuses[len(heads) - 1])

    async with serving(play, heads) as base, api_client(base) as client:
        for status in statuses:
            with pytest.raises(UnclearError, match=f"answered {status}"):
                await client.request(
                    "POST", "/batches", Answer, Path(os.devnull), _empty, once=True
                )
    assert len(heads) == len(statuses)


async def test_slow_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless answer of single bytes times out, and so does a silence within results."""
    monkeypatch.setattr(module, "_READ_TIMEOUT", 0.1)
    monkeypatch.setattr(module, "_TRIES", 2)

    async def play(call: Call) -> None:
        call.writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while "/batches" in call.head:
            call.writer.write(b" ")
            await call.writer.drain()
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)

    async with serving(play, []) as base, api_client(base) as client:
        asks: list[Coroutine[object, object, object]] = [
            client.request("GET", "/batches", Answer),
            downloaded(client),
        ]
        for ask in asks:
            with pytest.raises(RulerError, match="did not answer in time"):
                await ask


async def test_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint is reached through the proxy of the environment."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"{}")

    async with serving(play, heads) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        async with api_client("http://batches.invalid/v1") as client:
            assert await client.request("GET", "/batches", Answer) == Answer()
    assert heads[0].startswith("GET http://batches.invalid/v1/batches HTTP/1.1\r\n")


async def test_refusing_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names a proxy that refuses, and no batch was created."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"", 407)

    async with serving(play, heads) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        async with api_client("https://batches.invalid/v1") as client:
            with pytest.raises(RefusedError, match=r"cannot be reached: 407"):
                await client.request(
                    "POST", "/batches", Answer, Path(os.devnull), _empty, once=True
                )
    assert heads[0].startswith("CONNECT batches.invalid:443 ")
    assert KEY not in heads[0]


async def test_impossible_address() -> None:
    """An impossible host name is reported as such, not as a bug."""
    for base in ("http://a..b", "http://x y/v1"):
        async with api_client(base) as client:
            with pytest.raises(RulerError, match="check"):
                await client.request("GET", "/batches", Answer)
