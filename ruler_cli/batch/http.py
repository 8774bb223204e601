"""Requests to a batch API: repeated where that is safe, and the key sent to its own host only.

A file goes out and results come in piece by piece, so a batch of any size needs no memory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson

from ruler_cli.answer import clean, without_key
from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.judges.openai_http import proxy_of
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.pool.retries import delay

Body = Callable[[], AbstractContextManager[aiohttp.Payload]]
"""Opens what is sent, anew for each try."""
_LARGEST = 32 << 20
"""Bytes of a JSON answer, and of one line of results, that are read."""
_CONNECT = 30.0
"""Seconds to make a connection."""
_PATIENCE = 60.0
"""Seconds that an answer to a question may take, or the next piece of results."""
_SLOWEST = 50_000
"""Bytes of a body for which a second more is given."""
_TRIES = 6
_REDIRECTS, _HOPS = (301, 302, 303, 307, 308), 3
_LONGEST_WAIT = 300.0
"""Seconds that a server may ask to wait; if it asks for more, the command ends."""
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""Errors of a request; ValueError if the host is no possible name."""
_LATER = "run the same command again later"
BY_FILE = "write the requests with `ruler render` and take the answers in with `ruler ledger import`"
"""The way out where there is no batch API."""
_UNCLEAR = frozenset({408, 409, 424, 425, 499})
"""Refusals that do not tell whether the request was handled."""


class UnclearError(RulerError):
    """A batch was asked for, and no answer tells whether it exists now: it may be, and be paid for."""

    def __init__(self, error: RulerError) -> None:
        """`error` is why nobody knows."""
        super().__init__(f"{error}; whether there is a batch now is not known")


class UnreachedError(RefusedError):
    """No connection could be made: if one was made before, this may pass."""


class UnknownBatchError(RefusedError):
    """The provider knows no batch of this id, or none that this key may see."""


@dataclass(eq=False)
class Trouble(Exception):  # noqa: N818 - it never leaves this module
    """One request that failed with `error`.

    `passing`: another try may help, after `wait` seconds where the server named them. `done`: the request
    may have been handled all the same.
    """

    error: RulerError
    passing: bool = False
    done: bool = False
    wait: float = 0.0
    status: int = 0


def connections() -> aiohttp.ClientSession:
    """A session in which every request has a connection of its own.

    A server may close a kept connection at any moment, and then nobody can tell whether a batch was created.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_PATIENCE),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@dataclass(slots=True)
class Wire:
    """The requests to one endpoint; `headers` hold the key.

    `who` is the subject of error sentences, `timeout` the seconds that the answer to a body may take.
    """

    session: aiohttp.ClientSession = field(repr=False)
    who: str
    base: str
    headers: Mapping[str, str] = field(repr=False)
    key: str | None = field(repr=False)
    timeout: float = 600.0
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def account(self) -> str:
        """A digest of the address, a dot, a digest of address and key; they betray neither."""
        known = (self.base, f"{self.base}\n{self.key or ''}")
        return ".".join(
            blake2b(each.encode(), digest_size=4, person=b"ruler account 1").hexdigest() for each in known
        )

    async def ask(
        self, method: str, path: str, body: Body | None = None, *, lost: str = "", once: bool = False
    ) -> dict[str, Any]:
        """Make a request for a JSON object, again where that may help.

        UnknownBatchError with the sentence `lost`, if any, on a 404. A request that costs money, and is to be
        handled `once`, is made again only if it certainly was not; UnclearError if it may have been.
        """
        for attempt in range(_TRIES):
            try:
                return await self._ask(method, path, body)
            except (Trouble, *_BROKEN) as error:
                trouble = error if isinstance(error, Trouble) else self._broken(error)
            if once and trouble.done:
                raise UnclearError(trouble.error)
            await self._rest(trouble, attempt, lost)
        raise AssertionError("the last try raises")

    async def lines(self, path: str, lost: str) -> AsyncGenerator[bytes, None]:
        """Lines of a file, without their ends; from the beginning again if the connection broke."""
        for attempt in range(_TRIES):
            try:
                async with aclosing(self._lines(self.base + path)) as found:
                    async for line in found:
                        yield without_key(line, self.key)  # rows are kept, and may say whatever was sent
                return
            except (Trouble, *_BROKEN) as error:
                trouble = error if isinstance(error, Trouble) else self._broken(error)
            await self._rest(trouble, attempt, lost)

    async def _lines(self, url: str) -> AsyncGenerator[bytes, None]:
        """Make one request for lines, which may lead to a few others."""
        for _ in range(_HOPS):
            headers = self.headers if _origin(url) == _origin(self.base) else {}  # a key stays with its host
            async with self.session.get(
                url, headers=headers, proxy=proxy_of(url), allow_redirects=False
            ) as response:
                if response.status in _REDIRECTS:
                    url = urljoin(url, response.headers.get("Location", ""))
                    if urlsplit(url).scheme not in {"https", urlsplit(self.base).scheme}:
                        break
                    continue
                if response.status >= 300:
                    raise self._refused(response, await _bounded(response))
                async for line in _split(response.content):
                    yield line
                return
        raise self._unreadable("sends elsewhere again and again")

    async def _rest(self, trouble: Trouble, attempt: int, lost: str) -> None:
        """Wait before the next try; raise if there is none."""
        if trouble.status == 404 and lost:
            raise UnknownBatchError(lost)
        if not trouble.passing or attempt + 1 == _TRIES:
            raise trouble.error
        if trouble.wait > _LONGEST_WAIT:
            raise RulerError(f"{trouble.error}: it asks to wait for {trouble.wait:.0f} s")
        await self.pause(delay(attempt, trouble.wait, random.random()))

    async def _ask(self, method: str, path: str, body: Body | None) -> dict[str, Any]:
        """Make one request."""
        url = self.base + path
        with body() if body else nullcontext() as data:
            seconds = self.timeout + (data.size or 0) / _SLOWEST if data else _PATIENCE
            async with self.session.request(
                method, url, data=data, headers=self.headers, proxy=proxy_of(url),
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT), allow_redirects=False,
            ) as response:  # fmt: skip
                answer = await _bounded(response)
        if response.status >= 300:
            raise self._refused(response, answer)
        try:
            value = orjson.loads(answer)
        except orjson.JSONDecodeError:
            large = len(answer) >= _LARGEST
            raise self._unreadable("is larger than 32 MiB" if large else "is no JSON") from None
        if not isinstance(value, dict) or value.get("error"):
            raise self._unreadable("is not what its API promises")
        return value

    def _refused(self, response: aiohttp.ClientResponse, data: bytes) -> Trouble:
        """The trouble of an error answer."""
        status, (signs, message) = response.status, error_of(data)
        if status in (404, 405):
            said = clean(message or "not found", self.key)
            reason = f"{self.who} answered {status}: {said}; check --api-base; where no batches are offered, "
            return Trouble(RefusedError(reason + BY_FILE), status=status)
        if status == 401 and not self.key:
            way = "no key was sent to it; name the key's variable: --api-key-env VAR"
            return Trouble(RefusedError(f"{self.who} answered 401, and {way}"))
        fault = classify(status, signs, message, response.headers, self.key)
        said = self.who + fault.reason.removeprefix("the judge")
        done = status >= 500 or status in _UNCLEAR
        if fault.kind != "transport":
            return Trouble(RefusedError(said), done=done)
        passing = fault.scope == "call" and status != 409  # a conflict does not pass
        return Trouble(RulerError(f"{said}; {_LATER}"), passing, done, fault.retry_after or 0.0)

    def _unreadable(self, why: str) -> Trouble:
        """The trouble of an answer that is no answer of a batch API, such as a portal's page."""
        return Trouble(RulerError(f"{self.who}: its answer {why}; check --api-base"), done=True)

    def _broken(self, error: Exception) -> Trouble:
        """The trouble of a connection."""
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        why = clean(str(cause) or type(cause).__name__, self.key)
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            way = "check the network and --api-base, and run the same command again"
            return Trouble(UnreachedError(f"{self.who} cannot be reached ({why}); {way}"), passing=True)
        if isinstance(error, aiohttp.ClientHttpProxyError):
            reason = f"the proxy to {self.who} refuses ({error.status}); check HTTPS_PROXY"
            return Trouble(RefusedError(reason))
        if isinstance(error, aiohttp.InvalidURL | UnicodeError):
            return Trouble(RefusedError(f"{self.who}: its address cannot be used ({why}); check --api-base"))
        said = f"the connection to {self.who} broke ({why})"
        if isinstance(error, TimeoutError):
            said = f"{self.who} did not answer in time"
        return Trouble(RulerError(f"{said}; {_LATER}"), passing=True, done=True)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer, cut where it is too large."""
    try:
        return await response.content.readexactly(_LARGEST)
    except asyncio.IncompleteReadError as whole:
        return whole.partial


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream; one that is too long is cut, so that it is no JSON and costs no other line."""
    held = bytearray()
    async for piece in content.iter_any():
        first, *others = piece.split(b"\n")
        held += first[: max(0, _LARGEST - len(held))]
        for other in others:
            if line := bytes(held).strip():
                yield line
            held = bytearray(other[:_LARGEST])
    if line := bytes(held).strip():
        yield line
