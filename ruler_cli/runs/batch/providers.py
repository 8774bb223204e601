"""The batch APIs of OpenAI and Anthropic by their own SDKs: lines of requests → a batch → its results.

OpenAI and compatible endpoints: a request file is uploaded, a batch is created from it, the results are
files. Anthropic: a single HTTP request holds all judge requests; it stores no tag of ours, only their ids.

The SDKs retry what is safe to repeat; a creation is never repeated.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from hashlib import blake2b
from importlib import import_module
from operator import attrgetter
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import orjson

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.judges.provider_errors import classify, error_of
from ruler_cli.judges.replies import without_key
from ruler_cli.judges.resolve import (
    check_address,
    cut_address,
    endpoint_of,
    key_for,
)
from ruler_cli.runs.batch.journal import BatchRecord
from ruler_cli.runs.batch.requests import Target, target_of
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import clean, words_of

T = TypeVar("T")
State = Literal["running", "ended", "failed"]
_ID = re.compile(r"[\x21-\x7e]{1,200}")
_ENDED = words_of("ended completed expired cancelled canceled")
"""A provider's labels of a batch that has ended. `failed` is another end; with any other label it is running."""
_PAGE = 100
_RETRIES = 5
_READ_TIMEOUT = 60.0
"""Seconds to wait for an answer, or for the next piece of results."""
_DEADLINE = 3600.0
"""Seconds for all of a request, which may have a file of 200 MB."""
_RUN_LATER = "run again later"
_RECOVERED = "if there is a batch now, the next `ruler batch` command finds it"
_ABSENT = (
    "check --api-base and the key; use `ruler batch export` for an endpoint without a batch API, "
    "and give up a batch that is gone with `ruler batch cancel --forget NAME`"
)
_UNSENT = words_of(
    "ConnectError ConnectTimeout InvalidURL ProxyError UnsupportedProtocol"
)
"""Errors of the HTTP library of an SDK after which the request certainly did not arrive."""
_NEW_CONNECTION = {"Connection": "close"}
"""A server may close an idle connection at any moment, which would leave open if a batch was created."""


class UnclearError(RulerError):
    """Failure of a request that may have been handled: a batch may exist, and be billed."""


class UnreachableError(RefusedError):
    """Failure to connect; temporary if an earlier connection succeeded."""


class RemoteBatch(NamedTuple):
    """A batch as its provider describes it; `created` is Unix time by the provider's clock.

    `label` is the provider's name of the state. `ended`: results can be fetched, of canceled and expired
    batches too. `failed`: little or nothing was processed; what was may be billed. `files` are ids of the results.
    Counts of requests may be 0 until the provider has counted. `file` is the id of the uploaded request file; None if
    the API has none. `reason` is the first error of a failed batch.
    """

    id: str
    created: float
    label: str
    state: State
    total: int
    succeeded: int
    failed: int
    files: Sequence[str]
    file: object = None
    reason: str = ""


class Provider:
    """A batch API at an address, in the form of OpenAI's.

    Every failure is a RulerError, after the SDK's retries: RefusedError if the key, the account or
    the batch is refused for good, UnclearError if the request may have been handled.
    """

    target: Target = "openai"
    most_requests, most_bytes = 50_000, 200_000_000
    """Limits of a batch. A megabyte is 1,000,000 bytes, even if a provider may count 1,048,576."""
    skew = 86400.0
    """Seconds by which the provider's clock may differ; where batches name their file a longer listing does no harm."""
    client_class = "AsyncOpenAI"
    resource = "batches"
    redirects = True

    def __init__(self, base: str, key: str | None) -> None:
        """Make the SDK's client; UsageError if the SDK is not installed, or refuses the address."""
        self.base = base
        self.key = key
        self.name = f"the batch API at {urlsplit(base).netloc}"
        name = self.target
        try:
            self.sdk: Any = import_module(name)
        except ImportError:
            raise UsageError(
                f"batches need the package {name}, which is not installed",
                f"pip install 'ruler-cli[{name}]'",
                place=f"{name}/…",
            ) from None
        client = getattr(self.sdk, self.client_class)
        try:
            self.client: Any = client(
                base_url=base,
                api_key=key or "none",
                timeout=_READ_TIMEOUT,
                http_client=self.sdk.DefaultAsyncHttpxClient(
                    # with the authority that SSL_CERT_FILE names
                    verify=ssl.create_default_context(),
                    follow_redirects=self.redirects,
                ),
            )
        except Exception:  # noqa: BLE001 - of the SDK's HTTP library
            raise UsageError(
                "is not an address that can be called",
                "check --api-base",
                place=base,
            ) from None
        # it would add the headers of a variable, and make no request without a key
        self.client._custom_headers = self._headers(self.sdk.Omit())
        self.client._validate_headers = lambda *_: None
        self._batches = attrgetter(self.resource)(self.client)

    def _headers(self, omit: Any) -> dict[str, Any]:
        """Return our key or none, and leave out what the SDK would send to any address: other variables' values."""
        return {
            "Authorization": f"Bearer {self.key}" if self.key else omit,
            "OpenAI-Organization": omit,
            "OpenAI-Project": omit,
            **_NEW_CONNECTION,
        }

    @property
    def account(self) -> str:
        """Digest of address and key; neither can be read from it."""
        text = f"{self.base}\n{self.key or ''}"
        return blake2b(text.encode(), digest_size=4).hexdigest()

    async def upload(self, tag: str, lines: BinaryIO) -> str:
        """Upload the lines of requests; return the file's id at the provider, "" if the API has no such step."""
        # writes what is buffered; the HTTP library rewinds it before each try
        lines.seek(0)
        return await self._ask(
            _id_of,
            self.client.files.create,
            file=(f"ruler-{tag}.jsonl", lines, "application/jsonl"),
            purpose="batch",
            timeout=_DEADLINE,
        )

    async def create(
        self, tag: str, lines: BinaryIO, uploaded: str
    ) -> RemoteBatch:
        """Create a batch, which costs money; the call is not retried.

        `uploaded` is the result of `upload` for these lines. UnclearError if the batch may exist; after any
        other error it does not.
        """
        return await self._ask(
            self._read,
            self._batches.create,
            **self._content(tag, lines, uploaded),
            timeout=_DEADLINE,
            retries=0,
        )

    def _content(
        self, tag: str, lines: BinaryIO, uploaded: str
    ) -> dict[str, Any]:
        """Return the arguments of the SDK's call that creates a batch."""
        return {
            "input_file_id": uploaded,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"ruler": tag},
        }

    async def retrieve(self, id: str) -> RemoteBatch:
        """Fetch a batch by its id; RefusedError if there is none."""
        return await self._ask(self._read, self._batches.retrieve, id)

    async def cancel(self, id: str) -> RemoteBatch:
        """Cancel a batch; one that has ended, or is about to end, is returned as it is."""
        try:
            return await self._ask(self._read, self._batches.cancel, id)
        except RulerError:
            remote = await self.retrieve(id)
            canceling = remote.label.startswith("cancel")
            if remote.state == "running" and not canceling:
                raise
            return remote

    async def list_batches(self, since: float) -> list[RemoteBatch]:
        """Return batches created at `since` (Unix time) or later, roughly the newest first.

        A page's number of older ones in a row ends the listing.
        """
        return await self._ask(list, self._list, since)

    async def _list(self, since: float) -> list[RemoteBatch]:
        batches = dict[str, RemoteBatch]()
        older = 0
        async for answer in self._batches.list(limit=_PAGE):
            remote = self._read(answer)
            older = older + 1 if remote.created < since else 0
            # one that comes again: the endpoint ignores the position of a page
            if older == _PAGE or remote.id in batches:
                break
            batches[remote.id] = remote
        return [batch for batch in batches.values() if batch.created >= since]

    async def results(self, remote: RemoteBatch) -> Iterator[bytes]:
        """Download the results; return their lines, answers and errors, without the key, which they may repeat."""
        data = await self._ask(bytes, self._download, remote.files)
        lines = map(bytes.strip, data.split(b"\n"))
        return (without_key(line, self.key) for line in lines if line)

    async def _download(self, files: Sequence[str]) -> bytes:
        answers = [await self.client.files.content(id) for id in files]
        return b"\n".join(answer.content for answer in answers)

    def _read(self, answer: Any) -> RemoteBatch:
        """Read the SDK's form of a batch; fields of any type, since gateways vary."""
        counts = answer.request_counts
        succeeded = _count(counts, "completed")
        failed = _count(counts, "failed")
        label, state = self._state(answer.status)
        files = [answer.output_file_id, answer.error_file_id]
        # some endpoints report the end before the files exist; without them paid answers would be lost
        due = files[:1] if succeeded else files
        processed = succeeded or failed or label == "completed"
        if state == "ended" and processed and not any(due):
            state = "running"
        reason = ""
        if state == "failed":
            errors = getattr(answer.errors, "data", None)
            why = errors[0].message if errors else "no reason is given"
            reason = clean(str(why), self.key)
        return RemoteBatch(
            _id_of(answer),
            float(answer.created_at),
            label,
            state,
            _count(counts, "total") or succeeded + failed,
            succeeded,
            failed,
            [*filter(None, files)],
            answer.input_file_id,
            reason,
        )

    def _state(self, label: Any) -> tuple[str, State]:
        """Return a provider's label of a state, safe to print, and the state."""
        label = clean(label.lower(), self.key)
        if label == "failed":
            return label, "failed"
        return label, "ended" if label in _ENDED else "running"

    async def _ask(
        self,
        read: Callable[[Any], T],
        call: Callable[..., Awaitable[Any]],
        *values: Any,
        retries: int = _RETRIES,
        **options: Any,
    ) -> T:
        """Call the SDK and read its answer."""
        self.client.max_retries = retries
        try:
            async with asyncio.timeout(_DEADLINE):
                return read(await call(*values, **options))
        except (self.sdk.APIError, TimeoutError) as caught:
            error = self._error_of(
                caught, _RUN_LATER if retries else _RECOVERED
            )
        except (AttributeError, TypeError, ValueError):
            # it could hide a batch that is billed
            error = UnclearError(
                "its answer is not that of a batch API",
                "check --api-base",
                place=self.name,
            )
        raise error from None

    def _error_of(self, caught: Any, remedy: str) -> RulerError:
        """Word an error of the SDK as that of a live call is; `remedy` if the request may have been handled."""
        if not isinstance(caught, self.sdk.APIStatusError):
            cause = caught.__cause__ or caught
            why = clean(str(cause) or type(cause).__name__, self.key)
            if type(cause).__name__ in _UNSENT:
                return UnreachableError(
                    f"{self.name} cannot be reached: {why}",
                    "check the network, the proxy and --api-base",
                )
            problem = f"the connection to {self.name} broke: {why}"
            return UnclearError(problem, remedy)
        status = caught.status_code
        codes, message = error_of(caught.response.content)
        if status in (404, 405):
            why = clean(message, self.key)
            problem = f"{self.name} answered {status}: {why}"
            return RefusedError(problem, _ABSENT)
        headers = caught.response.headers
        failed = classify(status, codes, message, headers, self.key, self.name)
        if status < 500 and failed.kind != "transport":
            return RefusedError(failed.reason)
        if status < 500 and failed.rate:
            return RulerError(failed.reason, _RUN_LATER)
        return UnclearError(failed.reason, remedy)


class AnthropicProvider(Provider):
    """The batch API of Anthropic, whose request is held in memory as a whole."""

    target = "anthropic"
    most_requests, most_bytes = 100_000, 64_000_000
    skew = 900.0
    client_class = "AsyncAnthropic"
    resource = "messages.batches"
    # at another host the HTTP library leaves out the header Authorization, but not that of this key
    redirects = False

    def _headers(self, omit: Any) -> dict[str, Any]:
        return {
            "anthropic-version": "2023-06-01",
            "x-api-key": self.key or omit,
            "Authorization": omit,
            **_NEW_CONNECTION,
        }

    async def upload(self, tag: str, lines: BinaryIO) -> str:
        """Return "": the API has no such step."""
        return ""

    def _content(
        self, tag: str, lines: BinaryIO, uploaded: str
    ) -> dict[str, Any]:
        lines.seek(0)
        return {"requests": [orjson.loads(line) for line in lines]}

    async def _download(self, files: Sequence[str]) -> bytes:
        (id,) = files
        # the SDK's own method sends the key to any address that a batch names for its results
        path = f"/v1/messages/batches/{quote(id, safe='')}/results"
        content: bytes = await self.client.get(path, cast_to=bytes)
        return content

    def _read(self, answer: Any) -> RemoteBatch:
        counts = answer.request_counts
        succeeded = _count(counts, "succeeded")
        failed = _count(counts, "errored", "canceled", "expired")
        label, state = self._state(answer.processing_status)
        id = _id_of(answer)
        return RemoteBatch(
            id,
            answer.created_at.timestamp(),
            label,
            state,
            _count(counts, "processing") + succeeded + failed,
            succeeded,
            failed,
            [id],
        )


def _id_of(answer: Any) -> str:
    """Return the id of a file or a batch; ValueError or TypeError if it cannot be one."""
    id: str = answer.id
    if not _ID.fullmatch(id):
        raise ValueError(id)
    return id


def _count(counts: object, *words: str) -> int:
    """Count the requests in states of these names; a gateway may leave any out."""
    return sum(int(getattr(counts, word, None) or 0) for word in words)


class Providers(AsyncExitStack):
    """The batch APIs that one command uses; closed with it.

    `key_env` is the name of the key's variable; it replaces the one that a batch was submitted with.
    """

    def __init__(self, key_env: str | None = None) -> None:
        """Open no connection yet."""
        super().__init__()
        self.key_env = key_env
        self._opened: dict[tuple[Target, str, str | None], Provider] = {}

    def for_judge(self, judge: JudgeSettings) -> Provider:
        """Return Anthropic's API for `anthropic/…`, OpenAI's for `openai/…` and any judge with an endpoint.

        UsageError if the judge has no batch API, or its key or SDK is missing.
        """
        target = target_of(judge)
        kind: type[Provider] = Provider
        if target == "anthropic":
            kind = AnthropicProvider
            address = (
                judge.api_base
                or os.environ.get("ANTHROPIC_BASE_URL")
                or os.environ.get("ANTHROPIC_API_BASE")
                or "https://api.anthropic.com"
            )
            check_address(address)
            base = cut_address(address).removesuffix("/v1")
            key = key_for(judge, "ANTHROPIC_API_KEY")
        else:
            endpoint = endpoint_of(judge)
            base = endpoint.base
            key = endpoint.key
        account = target, base, key
        if account not in self._opened:
            provider = kind(base, key)
            self.push_async_exit(provider.client)
            self._opened[account] = provider
        return self._opened[account]

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
        if batch.remote is None and batch.account != provider.account:
            raise RefusedError(
                "was submitted with another key or to another address",
                f"set these as they were, or give it up with `ruler batch cancel --forget {batch.tag}`",
                place=f"batch {batch.tag}",
            )
        return provider
