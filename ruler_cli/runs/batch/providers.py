"""The batch APIs of OpenAI and Anthropic: a file of requests → a batch → its results.

OpenAI and compatible endpoints: a request file is uploaded, a batch is created from it, the results are
files. Anthropic: a single HTTP request holds all judge requests; it stores no tag of ours, only their ids.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urlsplit

import aiohttp
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from ruler_cli.errors import RefusedError, RulerError, Sentence, UsageError
from ruler_cli.judges.providers import MissingKeyError
from ruler_cli.judges.resolve import check_address, endpoint_of, key_for
from ruler_cli.runs.batch.http import (
    FILE_ALTERNATIVE,
    ApiClient,
    UnknownBatchError,
    open_session,
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


@dataclass(frozen=True, slots=True)
class BatchApi:
    """Differences between the two batch APIs.

    `cursor` is the query parameter for the next page of a listing. With `files`, requests are uploaded,
    results are files, and batches store our tag. `opening`, `between` and `closing` join request lines to
    one request body.
    """

    name: Target
    owner: str
    path: str
    cursor: str
    files: bool
    opening: bytes = b""
    between: bytes = b"\n"
    closing: bytes = b"\n"


OPENAI = BatchApi("openai", "OpenAI", "/batches", "after", files=True)
ANTHROPIC = BatchApi(
    "anthropic",
    "Anthropic",
    "/v1/messages/batches",
    "after_id",
    False,
    b'{"requests":[',
    b",",
    b"]}",
)


class _FileResponse(BaseModel):
    id: str = Field(pattern=r"^[\x21-\x7e]{1,200}$")  # part of URLs


class RemoteBatch(_FileResponse):
    """A batch as either API describes it; the times are by the provider's clock.

    `label` is the provider's name of the state. `tag` is ours, None if the provider stores none. `file` is
    the id of the uploaded request file; it identifies a batch if an endpoint drops the tag. Counts of
    requests may be 0 until the provider has counted.
    """

    created_at: datetime
    label: Annotated[str, AfterValidator(lambda text: clean(text.lower()))] = Field(
        validation_alias=AliasChoices("status", "processing_status")
    )
    tag: str | None = Field(None, validation_alias=AliasPath("metadata", "ruler"))
    file: str | None = Field(None, validation_alias="input_file_id")
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: dict[str, Any] | None = None
    errors: list[dict[str, Any]] | None = Field(
        None, validation_alias=AliasPath("errors", "data")
    )

    @field_validator("tag", "file", "request_counts", "errors", mode="wrap")
    @classmethod
    def _or_none(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        try:
            return validate(value)
        except ValidationError:  # gateways vary
            return None

    _with_files: bool = PrivateAttr(True)

    def of(self, api: BatchApi) -> Self:
        """Note the API that it comes from, whose results are files or not."""
        self._with_files = api.files
        return self

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
        return (
            self._count("total")
            or self._count("processing") + self.succeeded + self.failed
        )

    @property
    def files(self) -> list[str]:
        """Ids of the result files, answers first."""
        return [file for file in (self.output_file_id, self.error_file_id) if file]

    @property
    def state(self) -> RemoteState:
        """State of the batch; running with any label that is not known."""
        if (
            self.label == "failed"
        ):  # some requests may still have been answered, and billed
            return "ended" if self.output_file_id else "failed"
        # some endpoints report the end before the files exist; without them paid answers would be lost
        done = self.label == "completed"
        to_come = (self.succeeded and not self.output_file_id) or (
            (self.failed or done) and not self.files
        )
        return (
            "ended"
            if self.label in _ENDED and not (self._with_files and to_come)
            else "running"
        )

    @property
    def reason(self) -> str:
        """First error of a failed batch, and the number of the others."""
        if self.label != "failed":
            return ""
        if not self.errors:
            return "its provider does not say why"
        first, *more = self.errors
        message = str(first.get("message") or first.get("code") or "no message")
        line = f"line {first['line']}: " if isinstance(first.get("line"), int) else ""
        return clean(f"{line}{message}" + (f" (and {len(more)} more)" if more else ""))

    def _count(self, *words: str) -> int:
        """Count the requests in states of these names."""
        numbers = [(self.request_counts or {}).get(word) for word in words]
        return sum(
            number for number in numbers if isinstance(number, int) and number > 0
        )


class _ListResponse(BaseModel):
    data: list[dict[str, Any]]
    has_more: Any = False


@dataclass
class Provider:
    """A batch API at an address.

    Every failure is a RulerError, after retries if they are safe: RefusedError if the key, the account or
    the batch is refused for good, UnclearError only from `create`.
    """

    api: BatchApi
    client: ApiClient
    limits: Limits

    async def upload(self, file: Path) -> str:
        """Upload a request file; return its id at the provider, "" if the API has no such step."""
        if not self.api.files:
            return ""

        @contextmanager
        def form() -> Iterator[aiohttp.Payload]:
            with file.open("rb") as source:
                fields = aiohttp.FormData({"purpose": "batch"})
                fields.add_field(
                    "file", source, filename=file.name, content_type="application/jsonl"
                )
                yield fields()

        return (await self.client.request("POST", "/files", _FileResponse, form)).id

    async def create(self, file: Path, uploaded: str, tag: str) -> RemoteBatch:
        """Create a batch, which costs money; the call is not retried once it may have arrived.

        `uploaded` is the result of `upload` for `file`. UnclearError if the batch may exist; after any
        other error it does not.
        """

        @contextmanager
        def body() -> Iterator[aiohttp.Payload]:
            if self.api.files:
                fields = {
                    "endpoint": "/v1/chat/completions",
                    "completion_window": "24h",
                }
                yield aiohttp.JsonPayload(
                    {"input_file_id": uploaded, **fields, "metadata": {"ruler": tag}}
                )
                return
            with file.open("rb") as source:
                yield aiohttp.BufferedReaderPayload(
                    source, content_type="application/json"
                )

        made = await self.client.request(
            "POST", self.api.path, RemoteBatch, body, once=True
        )
        return made.of(self.api)

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
        """Yield batches created at `since` (Unix time) or later, the newest first if the API sorts them."""
        last, ordered, cursors, after = math.inf, True, set[str](), ""
        while True:
            path = f"{self.api.path}?limit={_PAGE}{after}"
            page = await self.client.request("GET", path, _ListResponse)
            for each in page.data:
                # one by one: a malformed batch may stand behind the one that is looked for
                remote = self.client.read(RemoteBatch, each).of(self.api)
                ordered, last = ordered and remote.created <= last, remote.created
                if remote.created >= since:
                    yield remote
            if not page.data or not page.has_more or (ordered and last < since):
                return
            after = f"&{self.api.cursor}={quote(remote.id, safe='')}"
            if remote.id in cursors:
                remedy = Sentence("check {api_base}")
                raise RulerError(
                    "a page of its listing comes again", remedy, place=self.client.name
                )
            cursors.add(remote.id)

    def results(self, remote: RemoteBatch) -> AsyncIterator[bytes]:
        """Yield the lines of the results, answers and errors, without line breaks.

        Lines may come twice after a broken connection; a line of more than 32 MiB is cut.
        """
        files = [f"/files/{quote(file, safe='')}/content" for file in remote.files]
        paths = files if self.api.files else [f"{self._path_of(remote.id)}/results"]
        not_found = f"{self.client.name} holds no results of batch {remote.id}; submit what is missing again"
        return self.client.lines(paths, not_found)

    async def _request_batch(
        self, method: str, id: str, action: str = ""
    ) -> RemoteBatch:
        name = self.client.name
        not_found = f"{name} knows no batch {id}: was it submitted with another key, or is it deleted?"
        path = self._path_of(id) + action
        return (
            await self.client.request(method, path, RemoteBatch, not_found=not_found)
        ).of(self.api)

    def _path_of(self, id: str) -> str:
        return f"{self.api.path}/{quote(id, safe='')}"


class Providers:
    """The batch APIs that one command uses; an async context."""

    def __init__(self, key_env: str | None = None) -> None:
        """Take the name of the key's variable, which replaces the one that a batch was submitted with."""
        self._key_env = key_env

    def for_judge(self, judge: JudgeSettings) -> Provider:
        """Return Anthropic's API for `anthropic/…`, OpenAI's for `openai/…` and any judge with an endpoint.

        UsageError if the judge has no batch API, or its key is missing.
        """
        api = {"openai": OPENAI, "anthropic": ANTHROPIC, None: None}[
            batch_target(judge)
        ]
        if api is None:
            raise UsageError(_no_batch_api(judge.model), place=f"judge {judge.model}")
        try:
            if api is ANTHROPIC:
                base, key = (
                    _anthropic_address(judge),
                    key_for(judge, "ANTHROPIC_API_KEY"),
                )
                headers = {"anthropic-version": "2023-06-01"} | (
                    {"x-api-key": key} if key else {}
                )
            else:
                endpoint = endpoint_of(judge)
                base, key = endpoint.base, endpoint.key
                headers = {"Authorization": f"Bearer {key}"} if key else {}
        except (
            MissingKeyError
        ) as error:  # an embedded judge has no batch API: do not suggest it
            raise MissingKeyError(error.name, error.variable, trial=False) from None
        host = urlsplit(base).netloc
        name = (
            f"{api.owner}'s batch API"
            if host == f"api.{api.name}.com"
            else f"the batch API at {host}"
        )
        client = ApiClient(self._session, name, base, headers, key, judge.timeout)
        return Provider(api, client, LIMITS[api.name])

    def for_batch(self, batch: BatchRecord) -> Provider:
        """Return the API of a batch; RefusedError if the account has changed since its submission.

        If the batch has an id at the provider, any key for that address will do: keys are renewed, and the
        provider says if a key may not see the batch. Without an id, a listing with another key could miss it.
        """
        key_env = self._key_env or batch.key_env
        provider = self.for_judge(
            JudgeSettings(batch.model, api_base=batch.base, api_key_env=key_env)
        )
        recorded, current = batch.account, provider.client.account
        if batch.remote is not None:
            recorded, current = recorded.partition(".")[0], current.partition(".")[0]
        if recorded != current:
            raise RefusedError(
                f"batch {batch.tag}: was submitted with another key, or to another address, than those that "
                f"are set now; set them as they were, or give it up with `ruler batch cancel --forget "
                f"{batch.tag}`"
            )
        return provider

    async def __aenter__(self) -> Self:
        self._session = open_session()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()


def _anthropic_address(judge: JudgeSettings) -> str:
    """Return the address of Anthropic's API, without a trailing path."""
    address = judge.api_base or os.environ.get("ANTHROPIC_BASE_URL")
    address = (
        address or os.environ.get("ANTHROPIC_API_BASE") or "https://api.anthropic.com"
    )
    check_address(address)
    return address.rstrip("/").removesuffix("/messages").removesuffix("/v1").rstrip("/")


def _no_batch_api(model: str) -> str:
    if bare := re.match(r"(claude-)|gpt-|o[134]", model):
        suggestion = f"{'anthropic' if bare[1] else 'openai'}/{model}"
        by_provider = "batches go by the provider, which stands before the name; did you mean {model:{name}}?"
        return Sentence(by_provider, name=suggestion)
    return Sentence(
        "only openai/… and anthropic/… are asked in batches, and endpoints with a batch API like OpenAI's, "
        "with {api_base:URL}; for any other way to ask, {file}",
        file=FILE_ALTERNATIVE,
    )
