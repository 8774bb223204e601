"""HTTP client of a batch API: retries requests if that is safe, and sends the key to its own host only.

Request files are sent and results are received piece by piece, so memory does not grow with the batch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import IO, TypeVar
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel, ValidationError

from ruler_cli.errors import RefusedError, RulerError, Sentence
from ruler_cli.judges.openai_http import proxy_of
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.pool.retries import delay
from ruler_cli.types import clean, without_key

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
OpenBody = Callable[[], AbstractContextManager[aiohttp.Payload]]
"""Open the request body, anew for each try."""
_MAX_BYTES = 32 << 20
"""Largest JSON answer, and largest line of results, in bytes."""
_CONNECT_TIMEOUT = 30.0
"""Seconds to make a connection."""
_READ_TIMEOUT = 60.0
"""Seconds to wait for an answer to a request without a body, or for the next piece of results."""
_UPLOAD_TIMEOUT = 3600.0
"""Seconds for a request with a body, which may be 256 MB."""
_TRIES = 6
_MAX_RETRY_AFTER = 300.0
"""Seconds that a server may ask to wait; the command ends if it asks for more."""
_RUN_LATER = "run again later"
_LOOK_LATER = "if there is a batch now, the next `ruler batch` command finds it"
_CHECK_ADDRESS = Sentence("check {api_base}")
FILE_ALTERNATIVE = "use `ruler render` and `ruler ledger import`"
"""Advice if there is no batch API."""
_UNCLEAR = frozenset({408, 409, 424, 425, 499})
"""Statuses that leave open if the request was handled."""
_UNSENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
    UnicodeError,
)
"""Errors after which the request certainly did not arrive; UnicodeError is of an invalid host name."""


class UnclearError(RulerError):
    """Creation of a batch that may have succeeded: the batch may exist, and be billed."""


class UnreachableError(RefusedError):
    """Failure to connect; temporary if an earlier connection succeeded."""


class UnknownBatchError(RefusedError):
    """Batch that the provider does not know, or does not show to this key."""


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


@dataclass
class ApiClient:
    """HTTP client of one endpoint; `headers` hold the key."""

    session: aiohttp.ClientSession = field(repr=False)
    base: str
    headers: Mapping[str, str] = field(repr=False)
    key: str | None = field(repr=False)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def name(self) -> str:
        """Subject of error sentences."""
        return f"the batch API at {urlsplit(self.base).netloc}"

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
        attempt = partial(self._request_once, method, path, model, body)
        return await self._with_retries(attempt, not_found, once=once)

    async def lines(
        self, paths: Sequence[str], file: IO[bytes], not_found: str
    ) -> Iterator[bytes]:
        """Download files to one; return their lines, without the key, which they may repeat.

        A line that is longer than 32 MiB comes in pieces.
        """
        for path in paths:
            attempt = partial(self._download_once, path, file, file.tell())
            await self._with_retries(attempt, not_found)
        file.seek(0)
        lines = map(bytes.strip, iter(partial(file.readline, _MAX_BYTES), b""))
        return (without_key(line, self.key) for line in lines if line)

    def _format_error(self) -> HttpError:
        """Return the error for an answer that no batch API gives, such as the page of a portal."""
        problem = "its answer is not a batch API's"
        error = RulerError(problem, _CHECK_ADDRESS, place=self.name)
        return HttpError(error, unclear=True)

    async def _with_retries(
        self,
        attempt: Callable[[], Awaitable[T]],
        not_found: str,
        *,
        once: bool = False,
    ) -> T:
        failures = 0
        while True:
            try:
                return await attempt()
            except HttpError as error:
                failure = error
            except (
                aiohttp.ClientError,
                ConnectionError,
                TimeoutError,
                UnicodeError,
            ) as error:
                failure = self._connection_error(error)
            if once and failure.unclear:
                raise UnclearError(failure.error.brief, _LOOK_LATER)
            if failure.status == 404 and not_found:
                raise UnknownBatchError(not_found)
            failures += 1
            too_late = failure.retry_after > _MAX_RETRY_AFTER
            if not failure.retryable or too_late or failures == _TRIES:
                raise failure.error
            await self.pause(delay(failures - 1, failure.retry_after, random.random()))

    async def _request_once(
        self, method: str, path: str, model: type[Model], body: OpenBody | None
    ) -> Model:
        """Make one try; HttpError for an answer that is none: a guess could hide a batch that is billed."""
        url = self.base + path
        with body() if body else nullcontext() as data:
            seconds = _UPLOAD_TIMEOUT if data else _READ_TIMEOUT
            async with self.session.request(
                method,
                url,
                data=data,
                headers=self.headers,
                proxy=proxy_of(url),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=seconds, sock_connect=_CONNECT_TIMEOUT
                ),
            ) as response:
                answer = without_key(await _read_bounded(response), self.key)
        if response.status >= 300:
            raise self._status_error(response, answer)
        try:
            return model.model_validate_json(answer)
        except ValidationError:
            raise self._format_error() from None

    async def _download_once(self, path: str, file: IO[bytes], start: int) -> None:
        """Write a file of the endpoint, or the one that it redirects to, to `file` from `start` on."""
        file.seek(start)
        file.truncate()
        url = self.base + path
        # at another host aiohttp leaves out the header Authorization, but no other one
        follow = not self.key or "Authorization" in self.headers
        async with self.session.get(
            url, headers=self.headers, proxy=proxy_of(url), allow_redirects=follow
        ) as response:
            if response.status >= 300:
                raise self._status_error(response, await _read_bounded(response))
            async for piece in response.content.iter_any():
                file.write(piece)
            file.write(b"\n")

    def _status_error(self, response: aiohttp.ClientResponse, data: bytes) -> HttpError:
        status, (codes, message) = response.status, error_of(data)
        error = classify(status, codes, message, response.headers, self.key, self.name)
        if status in (404, 405):
            remedy = Sentence("check {api_base}, or " + FILE_ALTERNATIVE)
            absent = f"{self.name} answered {status}: {clean(message, self.key)}"
            return HttpError(RefusedError(absent, remedy), status=status)
        unclear = status >= 500 or status in _UNCLEAR
        if error.kind != "transport":
            return HttpError(RefusedError(error.reason), unclear=unclear)
        return HttpError(
            RulerError(error.reason, _RUN_LATER),
            retryable=error.scope == "call" and status != 409,  # a conflict stays one
            unclear=unclear,
            retry_after=error.retry_after or 0.0,
        )

    def _connection_error(self, error: Exception) -> HttpError:
        cause = getattr(error, "os_error", error)
        why = clean(str(cause) or type(cause).__name__, self.key)
        if isinstance(error, _UNSENT):
            remedy = Sentence("check the network, the proxy and {api_base}")
            refused = UnreachableError(f"{self.name} cannot be reached: {why}", remedy)
            return HttpError(refused, retryable=True)
        problem = f"the connection to {self.name} broke: {why}"
        if isinstance(error, TimeoutError):
            problem = f"{self.name} did not answer in time"
        return HttpError(RulerError(problem, _RUN_LATER), retryable=True, unclear=True)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an answer, cut if it is too large."""
    try:
        return await response.content.readexactly(_MAX_BYTES)
    except asyncio.IncompleteReadError as end:
        return end.partial
