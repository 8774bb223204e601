"""Requests to a batch API: what may be asked again is, what may have been paid for is not.

A file goes out and results come in piece by piece, so a batch of any size needs no memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson

from ruler_cli.batches.body import Body, Sending
from ruler_cli.batches.provider import UnclearError, UnknownBatchError
from ruler_cli.batches.trouble import Trouble, answered, broken, unreadable
from ruler_cli.errors import RulerError
from ruler_cli.judges.answer_form import without_key
from ruler_cli.judges.http import proxy_of
from ruler_cli.pool.retries import delay

_LARGEST = 32 << 20
"""Bytes of a JSON answer, and of one line of results, that are read."""
_ENDLESS = 1 << 30
"""Bytes of one line after which it is taken to have no end."""
_CONNECT = 30.0
"""Seconds to make a connection."""
_PATIENCE = 60.0
"""Seconds that an answer to a question may take, or the next piece of a long one."""
_TRIES = 6
"""How often one request is made that may be made again."""
_LONGEST_WAIT = 300.0
"""Seconds that a server may ask to wait; who is asked for more comes back by hand."""
_HOPS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""What a request may raise; ValueError of a host that no name can be."""


@dataclass(slots=True)
class Wire:
    """The way to one endpoint, open inside its own async context; `headers` hold the key.

    `who` is the subject of its sentences, `timeout` the seconds that the answer to a body may take.
    """

    who: str
    base: str
    headers: Mapping[str, str] = field(repr=False)
    key: str | None = field(repr=False)
    timeout: float = 600.0
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _session: aiohttp.ClientSession | None = None

    @property
    def account(self) -> str:
        """Address, and address and key, in eight signs each, from which neither can be told."""
        known = (self.base, f"{self.base}\n{self.key or ''}")
        return ".".join(
            blake2b(each.encode(), digest_size=4, person=b"ruler account 1").hexdigest() for each in known
        )

    async def get(self, path: str, lost: str = "", **query: str | int) -> dict[str, Any]:
        """A JSON object; UnknownBatchError with the sentence `lost`, if any, where there is nothing."""

        async def once() -> dict[str, Any] | Trouble:
            return await self._ask("GET", path, None, _PATIENCE, query)

        return await self._again(once, lost)

    async def post(
        self,
        path: str,
        body: Body | None = None,
        lost: str = "",
        found: Callable[[], Awaitable[dict[str, Any] | None]] | None = None,
    ) -> dict[str, Any]:
        """What does no harm when it is done twice; `found` looks whether it is done, before another try."""
        first = True

        async def once() -> dict[str, Any] | Trouble:
            nonlocal first
            there = None if first or found is None else await found()
            first = False
            return there or await self._ask("POST", path, body, self.timeout if body else _PATIENCE)

        return await self._again(once, lost)

    async def create(self, path: str, body: Body) -> dict[str, Any]:
        """What must not be done twice: asked again only where it was certainly not done.

        UnclearError where it may have been.
        """

        async def once() -> dict[str, Any] | Trouble:
            answer = await self._ask("POST", path, body, self.timeout)
            if isinstance(answer, Trouble) and answer.done:
                raise UnclearError(f"{answer.error}; whether there is a batch now is not known")
            return answer

        return await self._again(once)

    async def lines(self, path: str, lost: str) -> AsyncGenerator[bytes, None]:
        """Lines of a file, without their ends; from the beginning again where the connection broke."""
        for attempt in range(_TRIES):
            trouble: Trouble | None = None
            try:
                async with contextlib.aclosing(self._lines(path, lost)) as lines:
                    async for line in lines:
                        yield line
                return
            except _Failed as failed:
                trouble = failed.trouble
            except _BROKEN as error:
                trouble = broken(self.who, error, self.key, whole=True)
            await self._rest(trouble, attempt)

    async def _again(
        self, once: Callable[[], Awaitable[dict[str, Any] | Trouble]], lost: str = ""
    ) -> dict[str, Any]:
        for attempt in range(_TRIES):
            answer = await once()
            if not isinstance(answer, Trouble):
                return answer
            if answer.status == 404 and lost:
                raise UnknownBatchError(lost)
            await self._rest(answer, attempt)
        raise AssertionError("the last try raises")

    async def _rest(self, trouble: Trouble, attempt: int) -> None:
        """Wait before the next try; raise where there is none."""
        if not trouble.passing or attempt + 1 == _TRIES:
            raise trouble.error
        if (trouble.wait or 0.0) > _LONGEST_WAIT:
            raise RulerError(f"{trouble.error}: it asks to wait for {trouble.wait:.0f} s")
        await self.pause(delay(attempt, trouble.wait, random.random()))

    async def _ask(
        self,
        method: str,
        path: str,
        body: Body | None,
        patience: float,
        query: Mapping[str, str | int] | None = None,
    ) -> dict[str, Any] | Trouble:
        """One request: a JSON object, or what went wrong."""
        sending = Sending(body)
        try:
            async with asyncio.timeout(patience) as deadline:
                headers = {**self.headers, **sending.headers}
                async with self._open.request(
                    method,
                    self.base + path,
                    params=query,
                    data=sending.pieces(deadline, patience) if body else None,
                    headers=headers,
                    allow_redirects=False,
                ) as response:
                    data = await _bounded(response)
        except _BROKEN as error:
            return broken(self.who, error, self.key, sending.whole)
        if data is None:
            return unreadable(self.who, "is larger than 32 MiB", sending.whole)
        if response.status >= 300:
            return answered(self.who, response.status, response.headers, data, self.key, sending.whole)
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            return unreadable(self.who, "is no JSON", sending.whole)
        if not isinstance(value, dict) or value.get("error"):
            return unreadable(self.who, "is not what its API promises", sending.whole)
        return value

    async def _lines(self, path: str, lost: str) -> AsyncGenerator[bytes, None]:
        url = self.base + path
        for _ in range(_HOPS):
            own = _origin(url) == _origin(self.base)
            headers = self.headers if own else {}  # a key stays with its host
            proxy = None if own else proxy_of(url)
            async with self._open.get(url, headers=headers, proxy=proxy, allow_redirects=False) as response:
                if response.status in _REDIRECTS:
                    url = urljoin(url, response.headers.get("Location", ""))
                    if urlsplit(url).scheme not in {"https", urlsplit(self.base).scheme}:
                        break
                    continue
                if response.status == 404:
                    raise UnknownBatchError(lost)
                if response.status >= 300:
                    data = await _bounded(response) or b""
                    told = answered(self.who, response.status, response.headers, data, self.key, True)
                    raise _Failed(told)
                async for line in _split(response.content):
                    yield without_key(line, self.key)  # rows are kept, and may say whatever was sent
                return
        raise _Failed(unreadable(self.who, "sends elsewhere again and again"))

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("the provider is not open")
        return self._session

    async def __aenter__(self) -> Self:
        """Open the session; every request has a connection of its own.

        One that was kept open may be closed by the server just then, and nobody could tell whether a
        batch was created.
        """
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=self.timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_of(self.base),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()


class _Failed(Exception):  # noqa: N818 - it never leaves this module
    """Carries a trouble out of a stream."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(str(trouble.error))
        self.trouble = trouble


async def _bounded(response: aiohttp.ClientResponse) -> bytes | None:
    """The body of an answer; None where it is too large."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > _LARGEST:
            return None
    return bytes(data)


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream; a longer one than fits is cut, so that it is no JSON and is seen to be none."""
    held, length = bytearray(), 0
    while True:
        async with asyncio.timeout(_PATIENCE):
            piece = await content.readany()
        if not piece:
            break
        first, *others = piece.split(b"\n")
        held += first[: max(0, _LARGEST - len(held))]
        length += len(first)
        if length > _ENDLESS:
            raise aiohttp.ClientPayloadError("a line without end")
        for other in others:
            if line := bytes(held).strip():
                yield line
            held, length = bytearray(other[:_LARGEST]), len(other)
    if line := bytes(held).strip():
        yield line


def _origin(url: str) -> tuple[str, str | None, int | None]:
    """Whom a request goes to: scheme, host and port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
