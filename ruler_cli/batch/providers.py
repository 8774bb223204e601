"""The batch APIs of OpenAI and Anthropic: a file of requests → a batch → its results.

OpenAI, and endpoints that speak its API: a file of requests, a batch of it, files of results. Anthropic:
one request holds all requests, and nothing of ours but their ids.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    WrapValidator,
)

from ruler_cli.answer import clean
from ruler_cli.batch.http import BY_FILE, UnclearError, UnknownBatchError, Wire, connections
from ruler_cli.batch.journal import BatchRecord
from ruler_cli.batch.request_lines import LIMITS, Limits, Target
from ruler_cli.config import JudgeSettings
from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.judges.providers import EMBEDDED, MissingKeyError
from ruler_cli.judges.resolve import check_address, endpoint_of, key_for

State = Literal["running", "ended", "failed"]
"""`ended`: results can be fetched, of canceled and expired batches too. `failed`: nothing was processed."""
_ENDED = ("ended", "completed", "expired", "cancelled", "canceled")
"""Words for an end; any other word but `failed` is of a batch that goes on."""
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Api:
    """A batch API behind an address, and how it differs from the other.

    `cursor` names the entry after which a page of a listing begins. With `files` requests are uploaded,
    results are files, and batches carry our tag. `opening`, `between` and `closing` make one file of
    requests.
    """

    name: Target
    owner: str
    path: str
    cursor: str
    files: bool
    opening: bytes = b""
    between: bytes = b"\n"
    closing: bytes = b"\n"


OPENAI = Api("openai", "OpenAI", "/batches", "after", files=True)
ANTHROPIC = Api(
    "anthropic", "Anthropic", "/v1/messages/batches", "after_id", False, b'{"requests":[', b",", b"]}"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A batch as its provider describes it.

    `label` is the provider's own word for its state. `tag` is ours, None where the provider keeps none;
    `file` is the uploaded file that it was made of, which identifies a batch where an endpoint drops the
    tag. `total`, `succeeded` and `failed` count requests, and may be 0 until the provider has counted.
    `created` is Unix time by the provider's clock. `reason` says why it failed. `files` hold its results.
    """

    id: str
    state: State
    label: str
    tag: str | None
    total: int
    succeeded: int
    failed: int
    created: float
    reason: str = ""
    file: str | None = None
    files: tuple[str, ...] = ()


def _or_none(value: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(value)
    except ValidationError:
        return None


_Lenient = WrapValidator(_or_none)
"""Of a field that a batch can do without: gateways have shapes of their own, and answers are paid for."""


class _File(BaseModel):
    id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]  # it stands in addresses


class _Page(BaseModel):
    data: list[dict[str, Any]]
    has_more: Annotated[bool, BeforeValidator(bool)] = False


class _Errors(BaseModel):
    data: list[dict[str, Any]] = []


class _Batch(_File):
    """A batch of either API."""

    created_at: Annotated[datetime, AfterValidator(lambda at: at if at.tzinfo else at.replace(tzinfo=UTC))]
    status: str = Field(validation_alias=AliasChoices("status", "processing_status"))
    metadata: Annotated[dict[str, Any] | None, _Lenient] = None
    input_file_id: Annotated[str | None, _Lenient] = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: Annotated[dict[str, Any] | None, _Lenient] = None
    errors: Annotated[_Errors | None, _Lenient] = None

    def count(self, *words: str) -> int:
        """Count the requests of which the provider says one of these words."""
        numbers = [(self.request_counts or {}).get(word) for word in words]
        return sum(number for number in numbers if isinstance(number, int) and number > 0)


M = TypeVar("M", bound=BaseModel)


@dataclass
class Provider:
    """A batch API that is asked by a wire.

    Every failure is a RulerError: RefusedError if the key, the account or the batch is refused for good,
    UnclearError only from `create`. What can be asked again without harm has been, before it fails.
    """

    api: Api
    wire: Wire
    limits: Limits

    async def upload(self, file: Path, tag: str) -> str:
        """Give the provider the requests; the id of its file, "" if there is no such step."""
        if not self.api.files:
            return ""

        @contextmanager
        def form() -> Iterator[aiohttp.Payload]:
            with file.open("rb") as source:
                fields = aiohttp.FormData({"purpose": "batch"})
                name = f"ruler-{tag}.jsonl"
                fields.add_field("file", source, filename=name, content_type="application/jsonl")
                yield fields()

        return self._read(_File, await self.wire.ask("POST", "/files", form)).id

    async def create(self, file: Path, uploaded: str, tag: str) -> Remote:
        """Have the requests processed, from here on paid for; never asked twice once it may have arrived.

        `uploaded` is what `upload` returned for `file`. UnclearError if nobody knows whether there is a
        batch now; after any other error there is none.
        """

        @contextmanager
        def body() -> Iterator[aiohttp.Payload]:
            if self.api.files:
                fields = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
                yield aiohttp.JsonPayload({"input_file_id": uploaded, **fields, "metadata": {"ruler": tag}})
                return
            with file.open("rb") as source:
                yield aiohttp.BufferedReaderPayload(source, content_type="application/json")

        answer = await self.wire.ask("POST", self.api.path, body, once=True)
        try:
            return self.remote(answer)
        except RulerError as error:
            raise UnclearError(error) from None

    async def retrieve(self, id: str) -> Remote:
        """A batch by its id; UnknownBatchError if there is none."""
        return await self._ask_of("GET", id)

    async def cancel(self, id: str) -> Remote:
        """Have no further requests processed; one that has ended, or is about to, is returned as it is."""
        try:
            return await self._ask_of("POST", id, "/cancel")
        except UnknownBatchError:
            raise
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith("cancel"):
                raise
            return remote

    async def listed(self, since: float) -> AsyncIterator[Remote]:
        """Batches created at `since` (Unix time) or later; all are listed if they are in no order of time."""
        last, ordered, passed, after = math.inf, True, set[str](), ""
        while True:
            page = self._read(_Page, await self.wire.ask("GET", f"{self.api.path}?limit={_PAGE}{after}"))
            for remote in map(self.remote, page.data):
                ordered, last = ordered and remote.created <= last, remote.created
                if remote.created >= since:
                    yield remote
            if not page.data or not page.has_more or (ordered and last < since):
                return
            after = f"&{self.api.cursor}={quote(remote.id, safe='')}"
            if remote.id in passed:
                raise RulerError(f"{self.wire.who}: a page of its listing comes again; check --api-base")
            passed.add(remote.id)

    async def results(self, remote: Remote) -> AsyncIterator[bytes]:
        """Lines of what was answered and of what was not, as they came, without line breaks.

        Lines may come twice, after a connection that broke; one of more than 32 MiB comes cut.
        """
        paths = [f"/files/{quote(file, safe='')}/content" for file in remote.files]
        for path in paths if self.api.files else [f"{self._path_of(remote.id)}/results"]:
            lost = f"{self.wire.who} holds no results of batch {remote.id}; submit what is missing again"
            async with aclosing(self.wire.lines(path, lost)) as lines:
                async for line in lines:
                    yield line

    def remote(self, value: Any) -> Remote:
        """Read a batch; RulerError if it is none."""
        batch, key = self._read(_Batch, value), self.wire.key
        label = batch.status.lower()
        succeeded = batch.count("completed", "succeeded")
        failed = batch.count("failed", "errored", "canceled", "expired")
        good, bad = batch.output_file_id, batch.error_file_id
        # now and then an end is told before the files are there; without them paid answers would be missed
        missed = (succeeded and not good) or ((failed or label == "completed") and not (good or bad))
        state: State = "running"
        if label in _ENDED and not (self.api.files and missed):
            state = "ended"
        elif label == "failed":  # in spite of which something may have been answered and paid for
            state = "ended" if good else "failed"
        tag = (batch.metadata or {}).get("ruler")
        return Remote(
            batch.id,
            state,
            clean(label, key),
            tag if isinstance(tag, str) else None,
            batch.count("total") or batch.count("processing") + succeeded + failed,
            succeeded,
            failed,
            batch.created_at.timestamp(),
            clean(_reason(batch.errors), key) if label == "failed" else "",
            batch.input_file_id,
            tuple(file for file in (good, bad) if file),
        )

    async def _ask_of(self, method: str, id: str, more: str = "") -> Remote:
        lost = f"{self.wire.who} knows no batch {id}: was it submitted with another key, or is it deleted?"
        return self.remote(await self.wire.ask(method, self._path_of(id) + more, lost=lost))

    def _path_of(self, id: str) -> str:
        return f"{self.api.path}/{quote(id, safe='')}"

    def _read(self, model: type[M], value: Any) -> M:
        """Read an answer; RulerError if it is none: a guess could hide a batch that is paid for."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise RulerError(f"{self.wire.who}: its answer is none ({why}); check --api-base") from None


def _reason(errors: _Errors | None) -> str:
    """Why a batch failed: the first of its errors, and how many more there are."""
    if errors is None or not errors.data:
        return "its provider does not say why"
    first, *more = errors.data
    said = str(first.get("message") or first.get("code") or "no message")
    line = f"line {first['line']}: " if isinstance(first.get("line"), int) else ""
    return f"{line}{said}" + (f" (and {len(more)} more)" if more else "")


class Providers:
    """The providers of one command, by a judge's settings or by a batch on record; an async context."""

    def __init__(self, key_env: str | None = None) -> None:
        """`key_env` names the variable of the key, instead of the one that a batch was submitted with."""
        self._key_env = key_env

    def of(self, judge: JudgeSettings) -> Provider:
        """Anthropic for `anthropic/…`, OpenAI for `openai/…` and for anything behind --api-base.

        UsageError if the judge has no batch API, or its key is missing.
        """
        family = judge.model.partition("/")[0]
        try:
            if family == "anthropic":
                api, base, key = ANTHROPIC, _anthropic(judge), key_for(judge, "ANTHROPIC_API_KEY")
                headers = {"anthropic-version": "2023-06-01"} | ({"x-api-key": key} if key else {})
            elif judge.model not in EMBEDDED and (family == "openai" or judge.api_base):
                there = endpoint_of(judge)
                api, base, key = OPENAI, there.base, there.key
                headers = {"Authorization": f"Bearer {key}"} if key else {}
            else:
                raise UsageError(f"judge {judge.model}: {_without_batches(judge.model)}")
        except MissingKeyError as error:  # a judge without a model is no way out here
            raise MissingKeyError(error.name, error.variable, trial=False) from None
        host = urlsplit(base).netloc
        who = f"{api.owner}'s batch API" if host == f"api.{api.name}.com" else f"the batch API at {host}"
        return Provider(api, Wire(self._session, who, base, headers, key, judge.timeout), LIMITS[api.name])

    def to(self, batch: BatchRecord) -> Provider:
        """The provider of a batch; RefusedError if it was submitted to another account.

        If its id is known, any key of that address will do: keys are renewed, and a key that may not see
        the batch is told so. To look for a batch with another key could overlook it.
        """
        key_env = self._key_env or batch.key_env
        found = self.of(JudgeSettings(batch.model, api_base=batch.base, api_key_env=key_env))
        known, mine = batch.account, found.wire.account
        if batch.remote is not None:
            known, mine = known.partition(".")[0], mine.partition(".")[0]
        if known != mine:
            raise RefusedError(
                f"batch {batch.tag}: was submitted with another key, or to another address, than those that "
                f"are set now; set them as they were, or give it up with `ruler batch cancel --forget "
                f"{batch.tag}`"
            )
        return found

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self._session = connections()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        await self._session.close()


def _anthropic(judge: JudgeSettings) -> str:
    """The address of Anthropic's API, without the path that some write behind it."""
    given = judge.api_base or os.environ.get("ANTHROPIC_BASE_URL")
    given = given or os.environ.get("ANTHROPIC_API_BASE") or "https://api.anthropic.com"
    check_address(given)
    return given.rstrip("/").removesuffix("/messages").removesuffix("/v1").rstrip("/")


def _without_batches(model: str) -> str:
    if bare := re.match(r"(claude-)|gpt-|o[134]", model):
        meant = f"{'anthropic' if bare[1] else 'openai'}/{model}"
        return f"batches go by the provider, which stands before the name; did you mean -m {meant}?"
    return (
        "only openai/… and anthropic/… are asked in batches, and endpoints with a batch API like OpenAI's, "
        f"with --api-base URL; for any other way to ask, {BY_FILE}"
    )
