"""The batch APIs of OpenAI and Anthropic by their own SDKs: a file of requests → a batch → its results.

OpenAI and compatible endpoints: a request file is uploaded, a batch is created from it, the results are
files. Anthropic: a single HTTP request holds all judge requests; it stores no tag of ours, only their ids.

The SDKs do not retry: requests are tried again here, and only if that is safe. Request files and results are
sent and received piece by piece, so memory does not grow with the batch.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import re
import shlex
import sys
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import anyio
from pydantic import TypeAdapter

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.judges.network import proxy_of, trusted
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.judges.replies import without_key
from ruler_cli.judges.resolve import (
    check_address,
    cut_address,
    endpoint_of,
    key_for,
)
from ruler_cli.pool.retries import RetryBudget
from ruler_cli.runs.batch.journal import BatchRecord
from ruler_cli.runs.batch.requests import FORMS, BatchForm, batch_target
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import CallError, clean

T = TypeVar("T")
State = Literal["running", "ended", "failed"]
MAX_LINE = 32 << 20
"""Longest line of results, in bytes."""
_ID = re.compile(r"[\x21-\x7e]{1,200}")
_ENDED = ("ended", "completed", "expired", "cancelled", "canceled")
"""Labels of an ended batch; with any other label but `failed` a batch is running."""
_PAGE = 100
_RETRIES = 5
_READ_TIMEOUT = 60.0
"""Seconds to wait for an answer, or for the next piece of results."""
_UPLOAD_TIMEOUT = 3600.0
"""Seconds for a request with a file, which may be of 256 MB."""
_MAX_RETRY_AFTER = 300.0
"""Seconds that a server may ask to wait; the command ends if it asks for more."""
_RUN_LATER = "run again later"
_FILE_ALTERNATIVE = "use `ruler batch export` and `ruler batch import`"
_UNCLEAR = (408, 409, 424, 425, 499)
"""Statuses that leave open if the request was handled, as those from 500 on do."""
_UNSENT = (
    "ConnectError",
    "ConnectTimeout",
    "InvalidURL",
    "ProxyError",
    "UnicodeEncodeError",
    "UnicodeError",
    "UnsupportedProtocol",
)
"""Errors of the HTTP library of an SDK after which the request certainly did not arrive."""
_HTTP_LIBRARIES = ("httpx", "httpx2")
"""HTTP libraries of the SDKs, by their version."""
_STREAMED = {"X-Stainless-Raw-Response": "stream"}
"""Header with which an SDK returns the response itself, before its body is read."""
_ANTHROPIC_PATH = "/v1/messages/batches"


class UnclearError(RulerError):
    """Failure of a request that may have been handled: a batch may exist, and be billed."""


class UnreachableError(RefusedError):
    """Failure to connect; temporary if an earlier connection succeeded."""


class _Failure(NamedTuple):
    """Failure of one try.

    `error` is the error for the user if no further try follows. `retry` is what the retry policy goes by;
    None if no try may follow. `unclear`: the server may have handled the request.
    """

    error: RulerError
    retry: CallError | None = None
    unclear: bool = False


class RemoteBatch(NamedTuple):
    """A batch as its provider describes it; `created` is Unix time by the provider's clock.

    `label` is the provider's name of the state. `ended`: results can be fetched, of canceled and expired
    batches too. `failed`: little or nothing was processed; what was may be billed. `tag` is ours, `file` the id
    of the uploaded request file; both are None if the API stores none. Counts of requests may be 0 until the
    provider has counted. `files` are ids of the results. `reason` is the first error of a failed batch.
    """

    id: str
    created: float
    label: str
    state: State
    total: int
    succeeded: int
    failed: int
    tag: object = None
    file: object = None
    files: Sequence[str] = ()
    reason: str = ""


class Provider:
    """A batch API at an address, in the form of OpenAI's.

    Every failure is a RulerError, after retries if they are safe: RefusedError if the key, the account or
    the batch is refused for good.
    """

    def __init__(self, base: str, key: str | None, form: BatchForm) -> None:
        """Make the SDK's client; UsageError if the SDK is not installed, or refuses the address."""
        self.base, self.key, self.form = base, key, form
        self.name = f"the batch API at {urlsplit(base).netloc}"
        self.pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        name = form.target
        try:
            self.sdk: Any = import_module(name)
        except ImportError:
            problem = f"batches need the package {name}, which is not installed"
            remedy = f"pip install 'ruler-cli[{name}]'"
            raise UsageError(problem, remedy, place=f"{name}/…") from None
        errors = (
            self.sdk.APIError,
            ConnectionError,
            TimeoutError,
            UnicodeError,
        )
        self._errors: tuple[type[Exception], ...] = errors
        for library in filter(None, map(sys.modules.get, _HTTP_LIBRARIES)):
            self._errors += (
                library.HTTPError,
                library.StreamError,
                library.InvalidURL,
            )
        try:
            self.client = self._open()
        except self._errors:
            problem = "is not an address that can be called"
            raise UsageError(problem, "check --api-base", place=base) from None

    def _open(self) -> Any:
        omit = self.sdk.Omit()
        headers = {
            "Authorization": f"Bearer {self.key}" if self.key else omit,
            # by default the SDK sends what further variables hold, to any address
            "OpenAI-Organization": omit,
            "OpenAI-Project": omit,
        }
        return self._client(self.sdk.AsyncOpenAI, headers, redirects=True)

    def _client(
        self, kind: Any, headers: dict[str, Any], *, redirects: bool
    ) -> Any:
        """Return a client with our key or none, without retries, with a new connection for every request.

        A server may close an idle connection at any moment, which would leave open if a batch was created.
        """
        http_client = self.sdk.DefaultAsyncHttpxClient(
            verify=trusted(self.base), follow_redirects=redirects
        )
        return kind(
            base_url=self.base,
            api_key=self.key or "none",
            max_retries=0,
            timeout=_READ_TIMEOUT,
            default_headers={"Connection": "close", **headers},
            http_client=http_client,
        )

    @property
    def _batches(self) -> Any:
        return self.client.batches

    @property
    def account(self) -> str:
        """Digest of the address, a dot, digest of address and key; neither can be read from it."""
        texts = (self.base, f"{self.base}\n{self.key or ''}")
        return ".".join(
            blake2b(
                text.encode(), digest_size=4, person=b"ruler account 1"
            ).hexdigest()
            for text in texts
        )

    async def upload(self, file: Path) -> str:
        """Upload a request file; return its id at the provider, "" if the API has no such step."""

        async def send() -> str:
            with file.open("rb") as source:
                upload = (file.name, source, "application/jsonl")
                stored = await self.client.files.create(
                    file=upload, purpose="batch", timeout=_UPLOAD_TIMEOUT
                )
            return _checked(stored.id)

        return await self._ask(send, seconds=_UPLOAD_TIMEOUT)

    async def create(self, file: Path, uploaded: str, tag: str) -> RemoteBatch:
        """Create a batch, which costs money; the call is not retried once it may have arrived.

        `uploaded` is the result of `upload` for `file`. UnclearError if the batch may exist; after any
        other error it does not.
        """

        send = partial(self._create, file, uploaded, tag)
        return await self._batch(send, once=True, seconds=_UPLOAD_TIMEOUT)

    async def _create(self, file: Path, uploaded: str, tag: str) -> Any:
        return await self._batches.create(
            input_file_id=uploaded,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"ruler": tag},
            timeout=_UPLOAD_TIMEOUT,
        )

    async def retrieve(self, id: str) -> RemoteBatch:
        """Fetch a batch by its id; RefusedError if there is none."""

        return await self._batch(
            partial(self._batches.retrieve, id), gone=_give_up(id)
        )

    async def cancel(self, id: str) -> RemoteBatch:
        """Cancel a batch; one that has ended, or is about to end, is returned as it is."""
        try:
            send = partial(self._batches.cancel, id)
            return await self._batch(send, gone=_give_up(id))
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith(
                "cancel"
            ):
                raise
            return remote

    async def _batch(
        self, send: Callable[[], Awaitable[Any]], **rules: Any
    ) -> RemoteBatch:
        """Make a request whose answer is a batch; the rest as for `_ask`."""

        async def read() -> RemoteBatch:
            return self._read(await send())

        return await self._ask(read, **rules)

    async def list_batches(self, since: float) -> list[RemoteBatch]:
        """Return batches created at `since` (Unix time) or later, roughly the newest first.

        A page's number of older ones in a row ends the listing.
        """

        async def send() -> list[RemoteBatch]:
            batches: dict[str, RemoteBatch] = {}
            older = 0
            async for answer in self._batches.list(limit=_PAGE):
                remote = self._read(answer)
                older = older + 1 if remote.created < since else 0
                # one that comes again: the endpoint ignores the position of a page
                if older == _PAGE or remote.id in batches:
                    break
                batches[remote.id] = remote
            return [
                batch for batch in batches.values() if batch.created >= since
            ]

        return await self._ask(send, seconds=None)

    async def results(
        self, remote: RemoteBatch, file: IO[bytes]
    ) -> Iterator[bytes]:
        """Download the results to a file; return their lines, answers and errors, without line breaks.

        A line is without the key, which it may repeat; one that is longer than 32 MiB comes in pieces.
        """

        async def send() -> None:
            file.seek(0)
            file.truncate()
            for download in self._downloads(remote):
                async with download as response:
                    async for piece in response.iter_bytes():
                        file.write(piece)
                file.write(b"\n")

        await self._ask(send, seconds=None, gone=_give_up(remote.id))
        file.seek(0)
        lines = map(bytes.strip, iter(partial(file.readline, MAX_LINE), b""))
        return (without_key(line, self.key) for line in lines if line)

    def _downloads(self, remote: RemoteBatch) -> Iterator[Any]:
        return map(
            self.client.files.with_streaming_response.content, remote.files
        )

    def _read(self, answer: Any) -> RemoteBatch:
        """Read the SDK's form of a batch; fields of any type, since gateways vary."""
        counts = answer.request_counts
        succeeded, failed = (
            _count(counts, "completed"),
            _count(counts, "failed"),
        )
        label = clean(answer.status.lower(), self.key)
        files = [
            file
            for file in (answer.output_file_id, answer.error_file_id)
            if file
        ]
        state = _state(label)
        # some endpoints report the end before the files exist; without them paid answers would be lost
        due = failed or label == "completed"
        answers_to_come = succeeded and not answer.output_file_id
        if state == "ended" and (answers_to_come or (due and not files)):
            state = "running"
        tag = (
            answer.metadata.get("ruler")
            if isinstance(answer.metadata, dict)
            else None
        )
        errors = getattr(answer.errors, "data", None)
        why = errors[0].message if errors else "its provider does not say why"
        return RemoteBatch(
            _checked(answer.id),
            _time(answer.created_at),
            label,
            state,
            _count(counts, "total") or succeeded + failed,
            succeeded,
            failed,
            tag,
            answer.input_file_id,
            files,
            clean(str(why), self.key),
        )

    async def _ask(
        self,
        send: Callable[[], Awaitable[T]],
        *,
        seconds: float | None = _READ_TIMEOUT,
        once: bool = False,
        gone: str = "",
    ) -> T:
        """Make requests and return their answer, with retries by the policy of all calls.

        A request that must be handled at most `once`, since it costs money, is retried only if it certainly
        was not handled; UnclearError if it may have been. `gone` is the remedy if the path is unknown.
        """
        budget = RetryBudget(_RETRIES, math.inf)
        while True:
            began = time.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    return await send()
            except self._errors as error:
                failure = self._failure(error, gone)
            except (AttributeError, TypeError, ValueError):
                # it could hide a batch that is billed
                problem = "its answer is not a batch API's"
                remedy = "check --api-base"
                raise UnclearError(problem, remedy, place=self.name) from None
            if once and failure.unclear:
                remedy = "if there is a batch now, the next `ruler batch` command finds it"
                raise UnclearError(failure.error.brief, remedy)
            retry = failure.retry
            if retry is None or (retry.retry_after or 0.0) > _MAX_RETRY_AFTER:
                raise failure.error
            spent = time.monotonic() - began
            wait = budget.wait(retry, spent, random.random())
            if wait is None:
                raise failure.error
            await self.pause(wait)

    def _failure(self, error: Any, gone: str) -> _Failure:
        """Classify an error of an SDK as one of a live call."""
        if isinstance(error, self.sdk.APIStatusError):
            return self._status_failure(error.status_code, error.response, gone)
        cause = error.__cause__ or error
        why = clean(str(cause) or type(cause).__name__, self.key)
        retry = CallError("transport", why, "call")
        if type(cause).__name__ in _UNSENT:
            problem = f"{self.name} cannot be reached: {why}"
            remedy = "check the network, the proxy and --api-base"
            return _Failure(UnreachableError(problem, remedy), retry)
        problem = f"the connection to {self.name} broke: {why}"
        if isinstance(error, TimeoutError | self.sdk.APITimeoutError):
            problem = f"{self.name} did not answer in time"
        return _Failure(RulerError(problem, _RUN_LATER), retry, unclear=True)

    def _status_failure(
        self, status: int, response: Any, gone: str
    ) -> _Failure:
        codes, message = error_of(response.content)
        if status in (404, 405):
            remedy = gone or f"check --api-base, or {_FILE_ALTERNATIVE}"
            absent = (
                f"{self.name} answered {status}: {clean(message, self.key)}"
            )
            return _Failure(RefusedError(absent, remedy))
        headers = response.headers
        error = classify(status, codes, message, headers, self.key, self.name)
        unclear = status >= 500 or status in _UNCLEAR
        if error.kind != "transport":
            return _Failure(RefusedError(error.reason), unclear=unclear)
        failed = RulerError(error.reason, _RUN_LATER)
        if error.scope != "call" or status == 409:  # a conflict stays one
            return _Failure(failed, unclear=unclear)
        # a batch is no call: the number of retries bounds refusals for a rate, too
        return _Failure(failed, replace(error, rate=False), unclear)


class AnthropicProvider(Provider):
    """The batch API of Anthropic.

    Two requests are made below the SDK's own methods: its `create` takes a list that is in memory as a whole,
    and its `results` sends the key to any address that a batch names for them.
    """

    def _open(self) -> Any:
        omit = self.sdk.Omit()
        headers = {
            "anthropic-version": "2023-06-01",
            "x-api-key": self.key or omit,
            "Authorization": omit,
        }
        # at another host the HTTP library leaves out the header Authorization, but not this one
        return self._client(self.sdk.AsyncAnthropic, headers, redirects=False)

    @property
    def _batches(self) -> Any:
        return self.client.messages.batches

    async def upload(self, file: Path) -> str:
        """Return "": the API has no such step."""
        return ""

    async def _create(self, file: Path, uploaded: str, tag: str) -> Any:
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(file.stat().st_size),  # noqa: ASYNC240 - of a local file
        }
        async with await anyio.open_file(file, "rb") as lines:
            return await self.client.post(
                _ANTHROPIC_PATH,
                cast_to=self.sdk.types.messages.MessageBatch,
                content=lines,
                options={"headers": headers, "timeout": _UPLOAD_TIMEOUT},
            )

    def _downloads(self, remote: RemoteBatch) -> Iterator[Any]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Any]:
            path = f"{_ANTHROPIC_PATH}/{quote(remote.id, safe='')}/results"
            options = {"headers": _STREAMED}
            response = await self.client.get(
                path, cast_to=object, options=options
            )
            try:
                yield response
            finally:
                await response.close()

        yield opened()

    def _read(self, answer: Any) -> RemoteBatch:
        counts = answer.request_counts
        succeeded = _count(counts, "succeeded")
        failed = _count(counts, "errored", "canceled", "expired")
        label = clean(answer.processing_status.lower(), self.key)
        return RemoteBatch(
            _checked(answer.id),
            _time(answer.created_at),
            label,
            _state(label),
            _count(counts, "processing") + succeeded + failed,
            succeeded,
            failed,
        )


def _checked(id: str) -> str:
    if not _ID.fullmatch(id):
        raise ValueError(id)
    return id


def _state(label: str) -> State:
    if label == "failed":
        return "failed"
    return "ended" if label in _ENDED else "running"


def _time(value: Any) -> float:
    return TypeAdapter(datetime).validate_python(value).timestamp()


def _count(counts: object, *words: str) -> int:
    """Count the requests in states of these names."""
    numbers = (getattr(counts, word, 0) for word in words)
    return sum(
        number for number in numbers if isinstance(number, int) and number > 0
    )


def _give_up(id: str) -> str:
    """Return the remedy for a batch that its provider does not know, or does not show to this key."""
    return f"to give it up: `ruler batch cancel --forget {shlex.quote(id)}`"


class Providers(AsyncExitStack):
    """The batch APIs that one command uses; closed with it.

    `key_env` is the name of the key's variable; it replaces the one that a batch was submitted with.
    """

    def __init__(self, key_env: str | None = None) -> None:
        """Open no connection yet."""
        super().__init__()
        self.key_env = key_env
        self._opened: dict[tuple[str, str, str | None], Provider] = {}

    def for_judge(self, judge: JudgeSettings) -> Provider:
        """Return Anthropic's API for `anthropic/…`, OpenAI's for `openai/…` and any judge with an endpoint.

        UsageError if the judge has no batch API, or its key or SDK is missing.
        """
        target = batch_target(judge)
        if target is None:
            remedy = (
                "use openai/… or anthropic/…, or an endpoint with a batch API like OpenAI's "
                f"(--api-base URL); for any other, {_FILE_ALTERNATIVE}"
            )
            raise UsageError(
                "has no batch API", remedy, place=f"judge {judge.model}"
            )
        if target == "anthropic":
            address = (
                judge.api_base
                or os.environ.get("ANTHROPIC_BASE_URL")
                or os.environ.get("ANTHROPIC_API_BASE")
                or "https://api.anthropic.com"
            )
            check_address(address)
            base = cut_address(address).removesuffix("/v1")
            proxy_of(
                base
            )  # one that cannot be used is refused before anything is read
            key = key_for(judge, "ANTHROPIC_API_KEY")
            kind: type[Provider] = AnthropicProvider
        else:
            endpoint = endpoint_of(judge)
            base, key = endpoint.base, endpoint.key
            kind = Provider
        provider = self._opened.get((target, base, key))
        if provider is None:
            provider = kind(base, key, FORMS[target])
            self.push_async_exit(provider.client)
            self._opened[target, base, key] = provider
        return provider

    def for_batch(self, batch: BatchRecord) -> Provider:
        """Return the API of a batch; RefusedError if the account has changed since its submission.

        If the batch has an id at the provider, any key for that address will do: keys are renewed, and the
        provider says if a key may not see the batch. Without an id, a listing with another key could miss it.
        """
        key_env = self.key_env or batch.key_env
        judge = JudgeSettings(
            batch.model, api_base=batch.base, api_key_env=key_env
        )
        provider = self.for_judge(judge)
        recorded, current = batch.account, provider.account
        if batch.remote is not None:
            recorded, current = (
                recorded.partition(".")[0],
                current.partition(".")[0],
            )
        if recorded != current:
            problem = "was submitted with another key or to another address"
            command = f"`ruler batch cancel --forget {batch.tag}`"
            remedy = f"set these as they were, or give it up with {command}"
            raise RefusedError(problem, remedy, place=f"batch {batch.tag}")
        return provider
