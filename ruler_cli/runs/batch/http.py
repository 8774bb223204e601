"""HTTP client of a batch API: retries requests if that is safe, and sends the key to its own host only.

Request files are sent and results are read piece by piece, so memory does not grow with the batch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from pydantic import BaseModel, ValidationError

from ruler_cli.errors import RefusedError, RulerError, Sentence
from ruler_cli.judges.openai_http import proxy_of
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.pool.retries import delay
from ruler_cli.types import clean, without_key

Model = TypeVar("Model", bound=BaseModel)
OpenBody = Callable[[], AbstractContextManager[aiohttp.Payload]]
"""Open the request body, anew for each try."""
_MAX_BYTES = 32 << 20
"""Largest JSON answer, and largest line of results, in bytes."""
_CONNECT_TIMEOUT = 30.0
"""Seconds to make a connection."""
_READ_TIMEOUT = 60.0
"""Seconds to wait for an answer to a request without a body, or for the next piece of results."""
_MIN_UPLOAD_RATE = 50_000
"""Bytes per second: a larger body has a longer timeout."""
_TRIES = 6
_REDIRECTS, _MAX_REDIRECTS = (301, 302, 303, 307, 308), 3
_MAX_RETRY_AFTER = 300.0
"""Seconds that a server may ask to wait; the command ends if it asks for more."""
_RUN_LATER = "run again later"
_CHECK_ADDRESS = Sentence("check {api_base}")
FILE_ALTERNATIVE = "write the requests with `ruler render` and take the answers in with `ruler ledger import`"
"""Advice if there is no batch API."""
_UNCLEAR = frozenset({408, 409, 424, 425, 499})
"""Statuses that leave open if the request was handled."""


class UnclearError(RulerError):
    """Creation of a batch that may have succeeded: the batch may exist, and be billed."""

    def __init__(self, error: RulerError) -> None:
        super().__init__(error.sentence, "whether there is a batch now is not known")


class UnreachableError(RefusedError):
    """Failure to connect; temporary if an earlier connection succeeded."""


class UnknownBatchError(RefusedError):
    """Batch id that the provider does not know, or does not show to this key."""


@dataclass(eq=False)
class HttpError(Exception):
    """Failure of one try; does not leave this module.

    `error` is the error for the user if no further try follows. `retryable`: another try may succeed, after
    `retry_after` seconds if the server asked for them. `unclear`: the server may have handled the request.
    """

    error: RulerError
    retryable: bool = False
    unclear: bool = False
    retry_after: float = 0.0
    status: int = 0


_ERRORS = (HttpError, aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""Errors of one try; ValueError for an invalid host name."""


def open_session() -> aiohttp.ClientSession:
    """Open a session with a new connection for every request.

    A server may close an idle connection at any moment, which would leave open if a batch was created.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(force_close=True),
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_TIMEOUT, sock_read=_READ_TIMEOUT
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@dataclass(slots=True)
class ApiClient:
    """HTTP client of one endpoint; `headers` hold the key.

    `name` is the subject of error sentences. `timeout` is in seconds, for requests with a body.
    """

    session: aiohttp.ClientSession = field(repr=False)
    name: str
    base: str
    headers: Mapping[str, str] = field(repr=False)
    key: str | None = field(repr=False)
    timeout: float = 600.0
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def account(self) -> str:
        """Digest of the address, a dot, digest of address and key; neither can be read from it."""
        texts = (self.base, f"{self.base}\n{self.key or ''}")
        return ".".join(
            blake2b(text.encode(), digest_size=4, person=b"ruler account 1").hexdigest()
            for text in texts
        )

    async def request(
        self,
        method: str,
        path: str,
        model: type[Model],
        body: OpenBody | None = None,
        *,
        not_found: str = "",
        once: bool = False,
    ) -> Model:
        """Request a JSON object, with retries, and read it as a `model`.

        UnknownBatchError with the sentence `not_found`, if any, on a 404. A request that must be handled at
        most `once`, since it costs money, is retried only if it certainly was not handled; UnclearError if it
        may have been.
        """
        attempt = 0
        while True:
            try:
                return await self._request_once(method, path, model, body)
            except _ERRORS as error:
                await self._wait_before_retry(error, attempt, not_found, once=once)
            attempt += 1

    async def lines(self, paths: Sequence[str], not_found: str) -> AsyncIterator[bytes]:
        """Yield the lines of files, without line ends; a file comes again if its connection broke."""
        for path in paths:
            for attempt in range(_TRIES):
                try:
                    async with aclosing(self._lines_once(self.base + path)) as lines:
                        async for line in lines:
                            yield without_key(
                                line, self.key
                            )  # rows go to the ledger, and may repeat a key
                    break
                except _ERRORS as error:
                    await self._wait_before_retry(error, attempt, not_found)

    async def _lines_once(self, url: str) -> AsyncGenerator[bytes, None]:
        """Yield the lines at an address, or at the one that it redirects to."""
        for _ in range(_MAX_REDIRECTS):
            headers = (
                self.headers if _origin(url) == _origin(self.base) else {}
            )  # a key stays with its host
            async with self.session.get(
                url, headers=headers, proxy=proxy_of(url), allow_redirects=False
            ) as response:
                if response.status in _REDIRECTS:
                    url = urljoin(url, response.headers.get("Location", ""))
                    if urlsplit(url).scheme not in {
                        "https",
                        urlsplit(self.base).scheme,
                    }:
                        break
                    continue
                if response.status >= 300:
                    raise self._status_error(response, await _read_bounded(response))
                async for line in _split(response.content):
                    yield line
                return
        raise self._format_error("sends elsewhere again and again")

    async def _wait_before_retry(
        self, raised: Exception, attempt: int, not_found: str, *, once: bool = False
    ) -> None:
        """Wait before the next try; raise if there is none."""
        error = (
            raised if isinstance(raised, HttpError) else self._connection_error(raised)
        )
        if once and error.unclear:
            raise UnclearError(error.error) from None
        if error.status == 404 and not_found:
            raise UnknownBatchError(not_found) from None
        if not error.retryable or attempt + 1 == _TRIES:
            raise error.error from None
        if error.retry_after > _MAX_RETRY_AFTER:
            raise RulerError(
                f"{error.error}: it asks to wait for {error.retry_after:.0f} s"
            ) from None
        await self.pause(delay(attempt, error.retry_after, random.random()))

    async def _request_once(
        self, method: str, path: str, model: type[Model], body: OpenBody | None
    ) -> Model:
        """Make one try; HttpError for an answer that is none: a guess could hide a batch that is billed."""
        url = self.base + path
        with body() if body else nullcontext() as data:
            seconds = (
                self.timeout + (data.size or 0) / _MIN_UPLOAD_RATE
                if data
                else _READ_TIMEOUT
            )
            async with self.session.request(
                method, url, data=data, headers=self.headers, proxy=proxy_of(url), allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_TIMEOUT),
            ) as response:  # fmt: skip
                answer = without_key(await _read_bounded(response), self.key)
        if response.status >= 300:
            raise self._status_error(response, answer)
        try:
            value = orjson.loads(answer)
        except orjson.JSONDecodeError:
            large = len(answer) >= _MAX_BYTES
            raise self._format_error(
                "is larger than 32 MiB" if large else "is no JSON"
            ) from None
        if not isinstance(value, dict) or value.get("error"):
            raise self._format_error("is not what its API promises")
        return self._read(model, value)

    def read(self, model: type[Model], value: dict[str, Any]) -> Model:
        """Read an object inside an answer as a `model`; RulerError if it is none."""
        try:
            return self._read(model, value)
        except HttpError as error:
            raise error.error from None

    def _read(self, model: type[Model], value: dict[str, Any]) -> Model:
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise self._format_error(f"is none ({why})") from None

    def _status_error(self, response: aiohttp.ClientResponse, data: bytes) -> HttpError:
        status, (signs, message) = response.status, error_of(data)
        if status in (404, 405):
            message = clean(message or "not found", self.key)
            advice = Sentence(
                "check {api_base}; where no batches are offered, " + FILE_ALTERNATIVE
            )
            absent = RefusedError(f"{self.name} answered {status}: {message}", advice)
            return HttpError(absent, status=status)
        if status == 401 and not self.key:
            advice = Sentence("name the key's variable: {api_key_env:VAR}")
            return HttpError(
                RefusedError(
                    f"{self.name} answered 401, and no key was sent to it", advice
                )
            )
        error = classify(status, signs, message, response.headers, self.key, self.name)
        reason = error.reason
        unclear = status >= 500 or status in _UNCLEAR
        if error.kind != "transport":
            return HttpError(RefusedError(reason), unclear=unclear)
        retryable = error.scope == "call" and status != 409  # a conflict does not pass
        return HttpError(
            RulerError(reason, _RUN_LATER), retryable, unclear, error.retry_after or 0.0
        )

    def _format_error(self, problem: str) -> HttpError:
        """Return the error for an answer that no batch API gives, such as the page of a portal."""
        error = RulerError(f"its answer {problem}", _CHECK_ADDRESS, place=self.name)
        return HttpError(error, unclear=True)

    def _connection_error(self, error: Exception) -> HttpError:
        cause = (
            error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        )
        why = clean(str(cause) or type(cause).__name__, self.key)
        if isinstance(
            error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
        ):
            advice = Sentence("check the network and {api_base}, and run again")
            reason = f"{self.name} cannot be reached ({why})"
            return HttpError(UnreachableError(reason, advice), retryable=True)
        if isinstance(error, aiohttp.ClientHttpProxyError):
            reason = (
                f"the proxy to {self.name} refuses ({error.status}); check HTTPS_PROXY"
            )
            return HttpError(RefusedError(reason))
        if isinstance(error, aiohttp.InvalidURL | UnicodeError):
            problem = f"its address cannot be used ({why})"
            return HttpError(RefusedError(problem, _CHECK_ADDRESS, place=self.name))
        broke = f"the connection to {self.name} broke ({why})"
        reason = (
            f"{self.name} did not answer in time"
            if isinstance(error, TimeoutError)
            else broke
        )
        return HttpError(
            RulerError(f"{reason}; {_RUN_LATER}"), retryable=True, unclear=True
        )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an answer, cut if it is too large."""
    try:
        return await response.content.readexactly(_MAX_BYTES)
    except asyncio.IncompleteReadError as end:
        return end.partial


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream; one that is too long is cut, so that only that line is lost."""
    line_start = bytearray()
    async for piece in content.iter_any():
        first, *others = piece.split(b"\n")
        line_start += first[: max(0, _MAX_BYTES - len(line_start))]
        for other in others:
            if line := bytes(line_start).strip():
                yield line
            line_start = bytearray(other[:_MAX_BYTES])
    if line := bytes(line_start).strip():
        yield line
