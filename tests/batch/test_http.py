"""The HTTP client of a batch API: retries, streams, and hosts that get the key."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import hypothesis.strategies as st
import pytest
from hypothesis import given

from ruler_cli.batch import http as module
from ruler_cli.batch.http import OpenBody, UnclearError, _split
from ruler_cli.errors import RefusedError, RulerError
from tests.batch.apis import every
from tests.batch.raw import KEY, Answer, Call, api_client, serving

pytestmark = pytest.mark.anyio


def _big(folder: Path, megabytes: int) -> OpenBody:
    """A file of zeros."""
    file = folder / "big"
    with file.open("wb") as out:
        out.truncate(megabytes << 20)

    @contextmanager
    def body() -> Iterator[aiohttp.Payload]:
        with file.open("rb") as source:
            yield aiohttp.BufferedReaderPayload(source)

    return body


def _empty() -> AbstractContextManager[aiohttp.Payload]:
    return nullcontext(aiohttp.JsonPayload({}))


async def test_cut_off_creation_is_unclear(tmp_path: Path) -> None:
    """A creation whose connection broke is not repeated: it may have been handled."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.reader.read(1 << 16)
        call.writer.transport.abort()

    async with serving(play, heads) as base, api_client(base) as client:
        with pytest.raises(UnclearError, match="broke"):
            await client.request("POST", "/batches", Answer, _big(tmp_path, 32), once=True)
    assert len(heads) == 1


async def test_slow_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body has the more time the larger it is; a server that stops reading is not waited for longer."""
    monkeypatch.setattr(module, "_MIN_UPLOAD_RATE", 1_000_000)
    heads: list[str] = []

    async def play(call: Call) -> None:
        for _ in range(256):
            await call.reader.readexactly(1 << 16)
            await asyncio.sleep(0.001)
        await asyncio.sleep(0 if len(heads) == 1 else 5)
        await call.answer(b'{"id": "1"}')

    async with serving(play, heads) as base, api_client(base, seconds=0.1) as client:
        assert await client.request("POST", "/batches", Answer, _big(tmp_path, 16), once=True)
        monkeypatch.setattr(module, "_MIN_UPLOAD_RATE", 1_000_000_000)
        with pytest.raises(UnclearError, match="did not answer in time"):
            await client.request("POST", "/batches", Answer, _big(tmp_path, 16), once=True)


async def test_upload_needs_no_memory(tmp_path: Path) -> None:
    """A body is never in memory as a whole, whatever its size."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        assert await call.body() == 64 << 20
        await call.answer(b'{"id": "1"}')

    async with serving(play, heads) as base, api_client(base) as client:
        gc.collect()
        tracemalloc.start()
        try:
            await client.request("POST", "/batches", Answer, _big(tmp_path, 64), once=True)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
    assert "content-length: 67108864\r\n" in heads[0].lower()


async def test_results_need_no_memory() -> None:
    """Results are read line by line, whatever their size."""
    line = b'{"custom_id": "%s"}' % (b"x" * 8000) + b"\n"

    async def play(call: Call) -> None:
        call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(line) * 4000))
        for _ in range(4000):
            call.writer.write(line)
            await call.writer.drain()

    count = 0
    async with serving(play, []) as base, api_client(base) as client:
        gc.collect()
        tracemalloc.start()
        try:
            async for each in client.lines(["/results"], "gone"):
                assert each == line.strip()
                count += 1
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
    assert count == 4000


class _Content:
    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [piece for piece in pieces if piece]

    async def iter_any(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece


@given(st.lists(st.binary(max_size=6) | st.just(b"\n") | st.just(b"\r\n")))
def test_lines_of_any_pieces(pieces: list[bytes]) -> None:
    """However a stream is cut into pieces, its lines are those of the whole."""
    content: Any = _Content(pieces)
    lines = [line for each in b"".join(pieces).split(b"\n") if (line := each.strip())]
    assert asyncio.run(every(_split(content))) == lines


async def test_long_line_comes_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long comes cut, and costs no other line."""
    monkeypatch.setattr(module, "_MAX_BYTES", 10)
    content: Any = _Content([b"one\n", b"x" * 8, b"x" * 8, b"x\ntwo", b"\n" + b"y" * 30])
    assert await every(_split(content)) == [b"one", b"x" * 10, b"two", b"y" * 10]


async def test_broken_stream_begins_again() -> None:
    """Results whose connection broke come from the beginning again: a line twice, none missing."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        call.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1\n2\n3")
        if len(heads) > 1:
            call.writer.write(b"3\n4\n")
        await call.writer.drain()

    async with serving(play, heads) as base, api_client(base) as client:
        assert await every(client.lines(["/results"], "gone")) == [b"1", b"2", b"1", b"2", b"33", b"4"]


async def test_key_stays_with_its_host() -> None:
    """Results that stand elsewhere are fetched there without the key, and with it on the same host."""
    here: list[str] = []
    there: list[str] = []

    async def elsewhere(call: Call) -> None:
        await call.answer(b"1\n2\n")

    async with serving(elsewhere, there) as other:

        async def play(call: Call) -> None:
            target = f"{other}/signed?x=1" if "/own" in call.head else "/own"
            await call.answer(b"", 302, f"Location: {target}\r\n")

        async with serving(play, here) as base, api_client(base) as client:
            for name in ("Authorization", "x-api-key"):
                client.headers = {name: KEY}
                assert await every(client.lines(["/results"], "gone")) == [b"1", b"2"]
    assert [KEY in head for head in here] == [True, True] * 2
    assert [KEY in head for head in there] == [False] * 2
    assert there[0].startswith("GET /signed?x=1 ")


async def test_redirects_end() -> None:
    """Results that are sent around are given up."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"", 302, "Location: /again\r\n")

    async with serving(play, heads) as base, api_client(base) as client:
        with pytest.raises(RulerError, match="check"):
            await every(client.lines(["/results"], "gone"))
    assert len(heads) == 3


async def test_no_key_was_sent() -> None:
    """Without a key the error says how to name one, since none goes to a foreign address unasked."""

    async def play(call: Call) -> None:
        await call.answer(b'{"error": {"message": "Incorrect API key provided."}}', 401)

    async with serving(play, []) as base, api_client(base, key=None) as client:
        with pytest.raises(RefusedError, match=r"no key was sent to it; .*--api-key-env VAR"):
            await client.request("GET", "/batches", Answer)


async def test_waits_as_told() -> None:
    """A Retry-After is honored; one that is too long ends the command with a sentence."""
    waits: list[float] = []
    asked = iter(("7", "3600"))

    async def play(call: Call) -> None:
        await call.answer(b'{"error": "slow"}', 429, f"Retry-After: {next(asked)}\r\n")

    async with serving(play, []) as base, api_client(base, waits) as client:
        with pytest.raises(RulerError, match="it asks to wait for 3600 s"):
            await client.request("GET", "/batches", Answer)
    assert len(waits) == 1
    assert waits[0] >= 7


async def test_statuses_that_tell_nothing() -> None:
    """A creation that a gateway gave up, or that met another like it, is unclear: it is made once."""
    heads: list[str] = []
    statuses = (408, 409, 425, 499, 500, 502, 503, 504, 529)

    async def play(call: Call) -> None:
        await call.body()
        await call.answer(b"{}", statuses[len(heads) - 1])

    async with serving(play, heads) as base, api_client(base) as client:
        for status in statuses:
            with pytest.raises(UnclearError, match=f"answered {status}"):
                await client.request("POST", "/batches", Answer, _empty, once=True)
    assert len(heads) == len(statuses)


async def test_drip_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that comes a byte at a time without end is not waited for, nor is silence among results."""
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
        for ask in (client.request("GET", "/batches", Answer), every(client.lines(["/results"], "gone"))):
            with pytest.raises(RulerError, match="did not answer in time"):
                await ask


async def test_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint beyond a proxy is asked through it."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"{}")

    async with serving(play, heads) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        async with api_client("http://batches.invalid/v1") as client:
            assert await client.request("GET", "/batches", Answer) == Answer()
    assert heads[0].startswith("GET http://batches.invalid/v1/batches HTTP/1.1\r\n")


async def test_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that refuses is reported as the proxy, and nothing was created."""
    heads: list[str] = []

    async def play(call: Call) -> None:
        await call.answer(b"", 407)

    async with serving(play, heads) as proxy:
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        async with api_client("https://batches.invalid/v1") as client:
            with pytest.raises(RefusedError, match=r"the proxy to .* refuses \(407\)"):
                await client.request("POST", "/batches", Answer, _empty, once=True)
    assert heads[0].startswith("CONNECT batches.invalid:443 ")
    assert KEY not in heads[0]


async def test_address_that_cannot_be_used() -> None:
    """An impossible host name is reported as such, not as a bug."""
    for base in ("http://a..b", "http://x y/v1"):
        async with api_client(base) as client:
            with pytest.raises(RulerError, match="check"):
                await client.request("GET", "/batches", Answer)
