"""The batch APIs of OpenAI and Anthropic: a file of requests → a batch → its results.

OpenAI and compatible endpoints: a request file is uploaded, a batch is created from it, the results are
files. Anthropic: a single HTTP request holds all judge requests; it stores no tag of ours, only their ids.

Requests are retried if that is safe, and the key goes to its own host only. Files are sent and received piece
by piece, so memory does not grow with the batch.
"""

from __future__ import annotations

import asyncio
import os
import random
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    ValidationError,
)

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.judges.network import proxy_of, trusted
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.judges.replies import without_key
from ruler_cli.judges.resolve import check_address, cut_address, endpoint_of, key_for
from ruler_cli.pool.retries import delay
from ruler_cli.runs.batch.journal import BatchRecord
from ruler_cli.runs.batch.requests import FORMS, BatchForm, batch_target
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import clean

Model = TypeVar("Model", bound=BaseModel)
Body = Callable[[IO[bytes]], aiohttp.Payload]
"""Make the body of a request from a file, which is opened anew for each try."""
_ENDED = ("ended", "completed", "expired", "cancelled", "canceled")
"""Labels of an ended batch; with any other label but `failed` a batch is running."""
_NOTHING = Path(os.devnull)
_PAGE = 100
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
_FILE_ALTERNATIVE = "use `ruler render` and `ruler ledger import`"
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
    """Failure of a request that may have been handled: a batch may exist, and be billed."""


class UnreachableError(RefusedError):
    """Failure to connect; temporary if an earlier connection succeeded."""


class _Failure(NamedTuple):
    """Failure of one try.

    `error` is the error for the user if no further try follows. `retryable`: another try may succeed, after
    `retry_after` seconds if the server asked for them. `unclear`: the server may have handled the request.
    """

    error: RulerError
    retryable: bool = False
    unclear: bool = False
    retry_after: float = 0.0


class _Stored(BaseModel):
    id: str = Field(pattern=r"^[\x21-\x7e]{1,200}$")


class RemoteBatch(_Stored):
    """A batch as its API describes it; the time is by the provider's clock.

    `label` is the provider's name of the state. `tag` is ours, `file` the id of the uploaded request file;
    both are None if the API stores none. Counts of requests may be 0 until the provider has counted.
    """

    created_at: datetime
    label: Annotated[str, AfterValidator(lambda text: clean(text.lower()))] = Field(
        validation_alias=AliasChoices("status", "processing_status")
    )
    output_file_id: str | None = None
    error_file_id: str | None = None
    # of any type: gateways vary
    processing_status: Any = None
    request_counts: Any = None
    tag: Any = Field(None, validation_alias=AliasPath("metadata", "ruler"))
    file: Any = Field(None, validation_alias="input_file_id")
    error: Any = Field(None, validation_alias=AliasPath("errors", "data", 0, "message"))

    @property
    def created(self) -> float:
        """Unix time of the creation."""
        return self.created_at.timestamp()

    @property
    def succeeded(self) -> int:
        """Number of answered requests."""
        return self._count("completed", "succeeded")

    @property
    def failed(self) -> int:
        """Number of requests without an answer, once the batch is done with them."""
        return self._count("failed", "errored", "canceled", "expired")

    @property
    def total(self) -> int:
        """Number of all requests."""
        done = self.succeeded + self.failed
        return self._count("total") or self._count("processing") + done

    @property
    def files(self) -> list[str]:
        """Ids of the result files, answers first."""
        return [file for file in (self.output_file_id, self.error_file_id) if file]

    @property
    def state(self) -> Literal["running", "ended", "failed"]:
        """State of the batch; running with any label that is not known.

        `ended`: results can be fetched, of canceled and expired batches too. `failed`: little or nothing was
        processed; what was may be billed.
        """
        if self.label == "failed":
            return "failed"
        if self.processing_status is None:
            # some endpoints report the end before the files exist; without them paid answers would be lost
            done = self.failed or self.label == "completed"
            answers_to_come = self.succeeded and not self.output_file_id
            if answers_to_come or (done and not self.files):
                return "running"
        return "ended" if self.label in _ENDED else "running"

    @property
    def reason(self) -> str:
        """First error of a failed batch."""
        return clean(str(self.error or "its provider does not say why"))

    def _count(self, *words: str) -> int:
        """Count the requests in states of these names."""
        counts = self.request_counts if isinstance(self.request_counts, dict) else {}
        numbers = map(counts.get, words)
        return sum(n for n in numbers if isinstance(n, int) and n > 0)


class _Page(BaseModel):
    data: list[RemoteBatch]
    has_more: Any = False


def open_session() -> aiohttp.ClientSession:
    """Open a session with a new connection for every request.

    A server may close an idle connection at any moment, which would leave open if a batch was created.
    """
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))


@dataclass
class Provider:
    """A batch API at an address; `headers` hold the key.

    Every failure is a RulerError, after retries if they are safe: RefusedError if the key, the account or
    the batch is refused for good.
    """

    session: aiohttp.ClientSession = field(repr=False)
    base: str
    headers: Mapping[str, str] = field(repr=False)
    key: str | None = field(repr=False)
    form: BatchForm
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

    async def upload(self, file: Path) -> str:
        """Upload a request file; return its id at the provider, "" if the API has no such step."""
        if not self.form.files:
            return ""

        def body(source: IO[bytes]) -> aiohttp.Payload:
            fields = aiohttp.FormData({"purpose": "batch"})
            fields.add_field(
                "file", source, filename=file.name, content_type="application/jsonl"
            )
            return fields()

        return (await self.request("POST", "/files", _Stored, file, body)).id

    async def create(self, file: Path, uploaded: str, tag: str) -> RemoteBatch:
        """Create a batch, which costs money; the call is not retried once it may have arrived.

        `uploaded` is the result of `upload` for `file`. UnclearError if the batch may exist; after any
        other error it does not.
        """

        def body(source: IO[bytes]) -> aiohttp.Payload:
            if not self.form.files:
                kind = "application/json"
                return aiohttp.BufferedReaderPayload(source, content_type=kind)
            return aiohttp.JsonPayload(
                {
                    "input_file_id": uploaded,
                    "endpoint": "/v1/chat/completions",
                    "completion_window": "24h",
                    "metadata": {"ruler": tag},
                }
            )

        path = self.form.path
        return await self.request("POST", path, RemoteBatch, file, body, once=True)

    async def retrieve(self, id: str) -> RemoteBatch:
        """Fetch a batch by its id; RefusedError if there is none."""
        return await self._request_batch("GET", id)

    async def cancel(self, id: str) -> RemoteBatch:
        """Cancel a batch; one that has ended, or is about to end, is returned as it is."""
        try:
            return await self._request_batch("POST", id, "/cancel")
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith("cancel"):
                raise
            return remote

    async def list_batches(self, since: float) -> AsyncIterator[RemoteBatch]:
        """Yield batches created at `since` (Unix time) or later, roughly the newest first.

        A page without any ends the listing.
        """
        after = ""
        while True:
            path = f"{self.form.path}?limit={_PAGE}{after}"
            page = await self.request("GET", path, _Page)
            recent = [remote for remote in page.data if remote.created >= since]
            for remote in recent:
                yield remote
            if not recent or not page.has_more:
                return
            last = quote(page.data[-1].id, safe="")
            before, after = after, f"&{self.form.cursor}={last}"
            if after == before:  # the endpoint ignores the cursor
                return

    async def results(self, remote: RemoteBatch, file: IO[bytes]) -> Iterator[bytes]:
        """Download the results to a file; return their lines, answers and errors, without line breaks.

        A line is without the key, which it may repeat; one that is longer than 32 MiB comes in pieces.
        """
        paths = [f"{self._path_of(remote.id)}/results"]
        if self.form.files:
            paths = [f"/files/{quote(file, safe='')}/content" for file in remote.files]
        for path in paths:
            await self._call("GET", path, into=file, gone=_give_up(remote.id))
        file.seek(0)
        lines = map(bytes.strip, iter(partial(file.readline, _MAX_BYTES), b""))
        return (without_key(line, self.key) for line in lines if line)

    async def request(
        self,
        method: str,
        path: str,
        model: type[Model],
        *body: Any,
        **rules: Any,
    ) -> Model:
        """Request a JSON object, and read it as a `model`; the rest as for `_call`.

        UnclearError for any other answer: it could hide a batch that is billed.
        """
        answer = await self._call(method, path, *body, **rules)
        try:
            return model.model_validate_json(without_key(answer, self.key))
        except ValidationError:
            problem = "its answer is not a batch API's"
            remedy = "check --api-base"
            raise UnclearError(problem, remedy, place=self.name) from None

    async def _call(
        self,
        method: str,
        path: str,
        file: Path = _NOTHING,
        body: Body | None = None,
        *,
        into: IO[bytes] | None = None,
        once: bool = False,
        gone: str = "",
    ) -> bytes:
        """Make a request, with retries, and return the answer.

        A request that must be handled at most `once`, since it costs money, is retried only if it certainly
        was not handled; UnclearError if it may have been. An answer that is written `into` a file may take
        any time, and be redirected. `gone` is the remedy if the path is unknown.
        """
        url, failures = self.base + path, 0
        start = into.tell() if into else 0
        # at another host aiohttp leaves out the header Authorization, but no other one
        follow = into is not None and (not self.key or "Authorization" in self.headers)
        while True:
            try:
                with file.open("rb") as source:
                    seconds = _UPLOAD_TIMEOUT if body else _READ_TIMEOUT
                    async with self.session.request(
                        method,
                        url,
                        data=body and body(source),
                        headers=self.headers,
                        proxy=proxy_of(url),
                        ssl=trusted(url),
                        allow_redirects=follow,
                        timeout=aiohttp.ClientTimeout(
                            total=None if into else seconds,
                            sock_connect=_CONNECT_TIMEOUT,
                            sock_read=seconds,
                        ),
                    ) as response:
                        if response.status >= 300:
                            answer = await _read_bounded(response)
                            failure = self._status_error(response, answer, gone)
                        elif into is None:
                            return await _read_bounded(response)
                        else:
                            # each try writes the whole again
                            into.seek(start)
                            into.truncate()
                            async for piece in response.content.iter_any():
                                into.write(piece)
                            into.write(b"\n")
                            return b""
            except (
                aiohttp.ClientError,
                ConnectionError,
                TimeoutError,
                UnicodeError,
            ) as error:
                failure = self._connection_error(error)
            if once and failure.unclear:
                remedy = (
                    "if there is a batch now, the next `ruler batch` command finds it"
                )
                raise UnclearError(failure.error.brief, remedy)
            failures += 1
            too_late = failure.retry_after > _MAX_RETRY_AFTER
            if not failure.retryable or too_late or failures == _TRIES:
                raise failure.error
            await self.pause(delay(failures - 1, failure.retry_after, random.random()))

    def _status_error(
        self, response: aiohttp.ClientResponse, data: bytes, gone: str
    ) -> _Failure:
        status, (codes, message) = response.status, error_of(data)
        error = classify(status, codes, message, response.headers, self.key, self.name)
        if status in (404, 405):
            remedy = gone or f"check --api-base, or {_FILE_ALTERNATIVE}"
            absent = f"{self.name} answered {status}: {clean(message, self.key)}"
            return _Failure(RefusedError(absent, remedy))
        unclear = status >= 500 or status in _UNCLEAR
        if error.kind != "transport":
            return _Failure(RefusedError(error.reason), unclear=unclear)
        return _Failure(
            RulerError(error.reason, _RUN_LATER),
            retryable=error.scope == "call" and status != 409,  # a conflict stays one
            unclear=unclear,
            retry_after=error.retry_after or 0.0,
        )

    def _connection_error(self, error: Exception) -> _Failure:
        cause = getattr(error, "os_error", error)
        why = clean(str(cause) or type(cause).__name__, self.key)
        if isinstance(error, _UNSENT):
            remedy = "check the network, the proxy and --api-base"
            refused = UnreachableError(f"{self.name} cannot be reached: {why}", remedy)
            return _Failure(refused, retryable=True)
        problem = f"the connection to {self.name} broke: {why}"
        if isinstance(error, TimeoutError):
            problem = f"{self.name} did not answer in time"
        return _Failure(RulerError(problem, _RUN_LATER), retryable=True, unclear=True)

    def _path_of(self, id: str) -> str:
        return f"{self.form.path}/{quote(id, safe='')}"

    async def _request_batch(
        self, method: str, id: str, action: str = ""
    ) -> RemoteBatch:
        path = self._path_of(id) + action
        return await self.request(method, path, RemoteBatch, gone=_give_up(id))


def _give_up(id: str) -> str:
    """Return the remedy for a batch that its provider does not know, or does not show to this key."""
    return f"to give it up: `ruler batch cancel --forget {shlex.quote(id)}`"


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the body of an answer, cut if it is too large."""
    try:
        return await response.content.readexactly(_MAX_BYTES)
    except asyncio.IncompleteReadError as end:
        return end.partial


@dataclass(frozen=True)
class Providers:
    """The batch APIs that one command uses.

    `key_env` is the name of the key's variable; it replaces the one that a batch was submitted with.
    """

    session: aiohttp.ClientSession
    key_env: str | None = None

    def for_judge(self, judge: JudgeSettings) -> Provider:
        """Return Anthropic's API for `anthropic/…`, OpenAI's for `openai/…` and any judge with an endpoint.

        UsageError if the judge has no batch API, or its key is missing.
        """
        target = batch_target(judge)
        if target is None:
            remedy = (
                "use openai/… or anthropic/…, or an endpoint with a batch API like OpenAI's "
                f"(--api-base URL); for any other, {_FILE_ALTERNATIVE}"
            )
            raise UsageError("has no batch API", remedy, place=f"judge {judge.model}")
        headers: dict[str, str] = {}
        if target == "anthropic":
            address = (
                judge.api_base
                or os.environ.get("ANTHROPIC_BASE_URL")
                or os.environ.get("ANTHROPIC_API_BASE")
                or "https://api.anthropic.com"
            )
            check_address(address)
            base = cut_address(address).removesuffix("/v1")
            key = key_for(judge, "ANTHROPIC_API_KEY")
            headers["anthropic-version"] = "2023-06-01"
            if key:
                headers["x-api-key"] = key
        else:
            endpoint = endpoint_of(judge)
            base, key = endpoint.base, endpoint.key
            if key:
                headers["Authorization"] = f"Bearer {key}"
        return Provider(self.session, base, headers, key, FORMS[target])

    def for_batch(self, batch: BatchRecord) -> Provider:
        """Return the API of a batch; RefusedError if the account has changed since its submission.

        If the batch has an id at the provider, any key for that address will do: keys are renewed, and the
        provider says if a key may not see the batch. Without an id, a listing with another key could miss it.
        """
        key_env = self.key_env or batch.key_env
        provider = self.for_judge(
            JudgeSettings(batch.model, api_base=batch.base, api_key_env=key_env)
        )
        recorded, current = batch.account, provider.account
        if batch.remote is not None:
            recorded, current = recorded.partition(".")[0], current.partition(".")[0]
        if recorded != current:
            raise RefusedError(
                "was submitted with another key or to another address",
                f"set these as they were, or give it up with `ruler batch cancel --forget {batch.tag}`",
                place=f"batch {batch.tag}",
            )
        return provider
