"""The batch APIs of OpenAI and Anthropic: a file of requests → a batch → its results.

OpenAI and compatible endpoints: a request file is uploaded, a batch is created from it, the results are
files. Anthropic: a single HTTP request holds all judge requests; it stores no tag of ours, only their ids.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO, ClassVar, Generic, Literal, TypeVar
from urllib.parse import quote

import aiohttp
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
)

from ruler_cli.errors import RefusedError, RulerError, Sentence, UsageError
from ruler_cli.judges.resolve import (
    check_address,
    cut_address,
    endpoint_of,
    key_for,
)
from ruler_cli.runs.batch.http import (
    FILE_ALTERNATIVE,
    ApiClient,
    UnknownBatchError,
)
from ruler_cli.runs.batch.journal import BatchRecord
from ruler_cli.runs.batch.request_files import LIMITS, Limits, Target, batch_target
from ruler_cli.settings.models import JudgeSettings
from ruler_cli.types import clean

RemoteState = Literal["running", "ended", "failed"]
"""`ended`: results can be fetched, of canceled and expired batches too. `failed`: nothing was processed."""
_ENDED = ("ended", "completed", "expired", "cancelled", "canceled")
"""Labels of an ended batch; with any other label but `failed` a batch is running."""
_PAGE = 100


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
    request_counts: Any = None
    tag: Any = Field(None, validation_alias=AliasPath("metadata", "ruler"))
    file: Any = Field(None, validation_alias="input_file_id")
    errors: Any = Field(None, validation_alias=AliasPath("errors", "data"))

    @property
    def created(self) -> float:
        """Unix time of the creation."""
        at = self.created_at
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

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
    def state(self) -> RemoteState:
        """State of the batch; running with any label that is not known."""
        if self.label == "failed":
            # some requests may still have been answered, and billed
            return "ended" if self.output_file_id else "failed"
        # some endpoints report the end before the files exist; without them paid answers would be lost
        done = self.failed or self.label == "completed"
        answers_to_come = self.succeeded and not self.output_file_id
        if answers_to_come or (done and not self.files):
            return "running"
        return "ended" if self.label in _ENDED else "running"

    @property
    def reason(self) -> str:
        """Errors of a failed batch."""
        errors = self.errors if isinstance(self.errors, list) else []
        texts = [
            str(error.get("message") or error.get("code"))
            for error in errors
            if isinstance(error, dict)
        ]
        return clean("; ".join(texts)) or "its provider does not say why"

    def _count(self, *words: str) -> int:
        """Count the requests in states of these names."""
        counts = self.request_counts if isinstance(self.request_counts, dict) else {}
        numbers = (counts.get(word) for word in words)
        return sum(
            number for number in numbers if isinstance(number, int) and number > 0
        )


class MessageBatch(RemoteBatch):
    """A batch of Anthropic's API, whose results are no files."""

    @property
    def state(self) -> RemoteState:
        """State of the batch; it never fails as a whole."""
        return "ended" if self.label in _ENDED else "running"


B = TypeVar("B", bound=RemoteBatch)


class _Page(BaseModel, Generic[B]):
    data: list[B]
    has_more: Any = False


@dataclass
class Provider(ApiClient):
    """A batch API at an address.

    Every failure is a RulerError, after retries if they are safe: RefusedError if the key, the account or
    the batch is refused for good, UnclearError only from `create`.

    A class for each API has the differences: `cursor` is the query parameter for the next page of a listing.
    `opening`, `between` and `closing` join request lines to a request file. `skew` is the most that the
    provider's clock may differ from ours, in seconds; where batches store our tag a longer listing does no harm.
    """

    limits: Limits = LIMITS["openai"]
    target: ClassVar[Target]
    path: ClassVar[str]
    cursor: ClassVar[str]
    batch: ClassVar[type[RemoteBatch]]
    page: ClassVar[type[_Page[Any]]]
    skew: ClassVar[float] = 900.0
    opening: ClassVar[bytes] = b""
    between: ClassVar[bytes] = b"\n"
    closing: ClassVar[bytes] = b"\n"

    async def upload(self, file: Path) -> str:
        """Upload a request file; return its id at the provider, "" if the API has no such step."""
        return ""

    async def create(self, file: Path, uploaded: str, tag: str) -> RemoteBatch:
        """Create a batch, which costs money; the call is not retried once it may have arrived.

        `uploaded` is the result of `upload` for `file`. UnclearError if the batch may exist; after any
        other error it does not.
        """

        @contextmanager
        def body() -> Iterator[aiohttp.Payload]:
            with file.open("rb") as source:
                yield self._creation(source, uploaded, tag)

        return await self.request("POST", self.path, self.batch, body, once=True)

    async def retrieve(self, id: str) -> RemoteBatch:
        """Fetch a batch by its id; UnknownBatchError if there is none."""
        return await self._request_batch("GET", id)

    async def cancel(self, id: str) -> RemoteBatch:
        """Cancel a batch; one that has ended, or is about to end, is returned as it is."""
        try:
            return await self._request_batch("POST", id, "/cancel")
        except UnknownBatchError:
            raise
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith("cancel"):
                raise
            return remote

    async def list_batches(self, since: float) -> AsyncIterator[RemoteBatch]:
        """Yield batches created at `since` (Unix time) or later, roughly the newest first.

        A page without any ends the listing.
        """
        cursors, after = set[str](), ""
        while True:
            path = f"{self.path}?limit={_PAGE}{after}"
            page = await self.request("GET", path, self.page)
            recent = [remote for remote in page.data if remote.created >= since]
            for remote in recent:
                yield remote
            last = page.data[-1].id if recent and page.has_more else ""
            if not last or last in cursors:  # an endpoint may ignore the cursor
                return
            cursors.add(last)
            after = f"&{self.cursor}={quote(last, safe='')}"

    async def results(self, remote: RemoteBatch, file: IO[bytes]) -> Iterator[bytes]:
        """Download the results to a file; return their lines, answers and errors, without line breaks."""
        not_found = f"{self.name} has no results of batch {remote.id}"
        return await self.lines(self._result_paths(remote), file, not_found)

    def _creation(self, file: BinaryIO, uploaded: str, tag: str) -> aiohttp.Payload:
        """Return the body of the request that creates a batch."""
        return aiohttp.BufferedReaderPayload(file, content_type="application/json")

    def _result_paths(self, remote: RemoteBatch) -> list[str]:
        return [f"{self._path_of(remote.id)}/results"]

    def _path_of(self, id: str) -> str:
        return f"{self.path}/{quote(id, safe='')}"

    async def _request_batch(
        self, method: str, id: str, action: str = ""
    ) -> RemoteBatch:
        path = self._path_of(id) + action
        not_found = f"{self.name} shows no batch {id} to this key"
        return await self.request(method, path, self.batch, not_found=not_found)


class AnthropicApi(Provider):
    """Anthropic's Message Batches API."""

    target = "anthropic"
    path = "/v1/messages/batches"
    cursor = "after_id"
    batch, page = MessageBatch, _Page[MessageBatch]
    opening, between, closing = b'{"requests":[', b",", b"]}"


class OpenAIApi(Provider):
    """OpenAI's Batch API, which other endpoints have too: files in, files out."""

    target = "openai"
    path = "/batches"
    cursor = "after"
    batch, page = RemoteBatch, _Page[RemoteBatch]
    skew = 86400.0

    async def upload(self, file: Path) -> str:
        """Upload a request file; return its id at the provider."""

        @contextmanager
        def form() -> Iterator[aiohttp.Payload]:
            with file.open("rb") as source:
                fields = aiohttp.FormData({"purpose": "batch"})
                fields.add_field(
                    "file", source, filename=file.name, content_type="application/jsonl"
                )
                yield fields()

        return (await self.request("POST", "/files", _Stored, form)).id

    def _creation(self, file: BinaryIO, uploaded: str, tag: str) -> aiohttp.Payload:
        fields = {
            "input_file_id": uploaded,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"ruler": tag},
        }
        return aiohttp.JsonPayload(fields)

    def _result_paths(self, remote: RemoteBatch) -> list[str]:
        return [f"/files/{quote(file, safe='')}/content" for file in remote.files]


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
            remedy = Sentence(
                "use openai/… or anthropic/…, or an endpoint with a batch API like OpenAI's "
                f"({{api_base:URL}}); for any other, {FILE_ALTERNATIVE}"
            )
            raise UsageError("has no batch API", remedy, place=f"judge {judge.model}")
        headers: dict[str, str] = {}
        if target == "anthropic":
            base, key = _anthropic_address(judge), key_for(judge, "ANTHROPIC_API_KEY")
            headers = {"anthropic-version": "2023-06-01"}
            if key:
                headers["x-api-key"] = key
        else:
            endpoint = endpoint_of(judge)
            base, key = endpoint.base, endpoint.key
            if key:
                headers["Authorization"] = f"Bearer {key}"
        api = AnthropicApi if target == "anthropic" else OpenAIApi
        return api(self.session, base, headers, key, limits=LIMITS[target])

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


def _anthropic_address(judge: JudgeSettings) -> str:
    """Return the address of Anthropic's API, without a trailing path."""
    variables = map(os.environ.get, ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"))
    given = filter(None, (judge.api_base, *variables))
    address = next(given, "https://api.anthropic.com")
    check_address(address)
    return cut_address(address).removesuffix("/v1")
