"""The batch APIs of OpenAI and Anthropic: a file of requests → a batch → its results.

OpenAI, and endpoints that speak its API: a file of requests, a batch of it, files of results. Anthropic:
one request holds all requests, and nothing of ours but their ids.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    StringConstraints,
    ValidationError,
    WrapValidator,
)

from ruler_cli.batches.wire import Body, UnknownBatchError, Wire, as_json, unclear
from ruler_cli.errors import RulerError
from ruler_cli.judges.choose import LIMITS, Target
from ruler_cli.judges.faults import clean

State = Literal["running", "ended", "failed"]
"""`ended`: results can be fetched, of canceled and expired batches too. `failed`: nothing was processed."""
_STATES: dict[str, State] = {
    "failed": "failed",
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
    "canceled": "ended",
}
"""OpenAI's words for an end; any other word is of a batch that goes on."""
_PIECE = 1 << 18
"""Bytes that are read and sent at once."""
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Remote:
    """A batch as its provider describes it.

    `label` is the provider's own word for its state. `tag` is ours, None where the provider keeps none;
    `file` is the uploaded file that it was made of, which identifies a batch where an endpoint drops the
    tag. `total`, `succeeded` and `failed` count requests, and may be 0 until the provider has counted.
    `created` is Unix time by the provider's clock. `reason` says why it failed. `files` are the places of
    its results, in the provider's own words.
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


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _in_utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


_Count = Annotated[int, BeforeValidator(_count)]


class _File(BaseModel):
    id: Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]  # it stands in addresses


class _Batch(_File):
    created_at: Annotated[datetime, AfterValidator(_in_utc)]


class _Page(BaseModel):
    data: list[dict[str, Any]]
    has_more: Annotated[bool, BeforeValidator(bool)] = False


class _OpenAICounts(BaseModel):
    total: _Count = 0
    completed: _Count = 0
    failed: _Count = 0


class _OpenAIError(BaseModel):
    code: Annotated[str | None, BeforeValidator(_text)] = None
    message: Annotated[str | None, BeforeValidator(_text)] = None
    line: Annotated[int | None, _Lenient] = None


class _OpenAIErrors(BaseModel):
    data: list[Annotated[_OpenAIError | None, _Lenient]] | None = None


class _OpenAIBatch(_Batch):
    status: str
    metadata: Annotated[dict[str, Any] | None, _Lenient] = None
    input_file_id: Annotated[str | None, _Lenient] = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    request_counts: Annotated[_OpenAICounts | None, _Lenient] = None
    errors: Annotated[_OpenAIErrors | None, _Lenient] = None


class _AnthropicCounts(BaseModel):
    processing: _Count = 0
    succeeded: _Count = 0
    errored: _Count = 0
    canceled: _Count = 0
    expired: _Count = 0


class _AnthropicBatch(_Batch):
    processing_status: str
    request_counts: Annotated[_AnthropicCounts | None, _Lenient] = None
    results_url: str | None = None


M = TypeVar("M", bound=BaseModel)


class Provider(ABC):
    """A batch API behind `{base}{path}`; `cursor` names the entry after which a page of a listing begins.

    Every failure is a RulerError: RefusedError if the key, the account or the batch is refused for good,
    UnclearError only from `create`. What can be asked again without harm has been, before it fails.
    `tagged`: batches carry our tag.
    """

    name: ClassVar[Target]
    path: ClassVar[str]
    cursor: ClassVar[str]
    tagged: ClassVar[bool]

    def __init__(self, wire: Wire) -> None:
        """Ask by this wire."""
        self.wire, self.limits = wire, LIMITS[self.name]

    async def upload(self, file: Path, tag: str) -> str:
        """Give the provider the requests; the id of its file, "" if there is no such step."""
        return ""

    async def create(self, file: Path, uploaded: str, tag: str) -> Remote:
        """Have the requests processed, from here on paid for; never asked twice once it may have arrived.

        `uploaded` is what `upload` returned for `file`. UnclearError if nobody knows whether there is a
        batch now; after any other error there is none.
        """
        answer = await self.wire.ask("POST", self.path, self.body(file, uploaded, tag), once=True)
        try:
            return self.remote(answer)
        except RulerError as error:
            raise unclear(error) from None

    async def retrieve(self, id: str) -> Remote:
        """A batch by its id; UnknownBatchError if there is none."""
        return self.remote(await self.wire.ask("GET", self._place(id), lost=self._lost(id)))

    async def cancel(self, id: str) -> Remote:
        """Have no further requests processed; one that has ended, or is about to, is returned as it is."""
        try:
            return self.remote(await self.wire.ask("POST", f"{self._place(id)}/cancel", lost=self._lost(id)))
        except UnknownBatchError:
            raise
        except RulerError:
            remote = await self.retrieve(id)
            if remote.state == "running" and not remote.label.startswith("cancel"):
                raise
            return remote

    async def listed(self, since: float) -> AsyncIterator[Remote]:
        """Batches created at `since` (Unix time) or later; all are listed if they are in no order of time."""
        last, ordered, passed, query = math.inf, True, set[str](), {"limit": str(_PAGE)}
        while True:
            page = self.read(_Page, await self.wire.ask("GET", self.path, query=query))
            for remote in map(self.remote, page.data):
                ordered, last = ordered and remote.created <= last, remote.created
                if remote.created >= since:
                    yield remote
            if not page.data or not page.has_more or (ordered and last < since):
                return
            query[self.cursor] = remote.id
            if remote.id in passed:
                raise RulerError(f"{self.wire.who}: a page of its listing comes again; check --api-base")
            passed.add(remote.id)

    async def results(self, remote: Remote) -> AsyncIterator[bytes]:
        """Lines of what was answered and of what was not, as they came, without line breaks.

        Lines may come twice, after a connection that broke; one of more than 32 MiB comes cut.
        """
        for path, lost in await self.places(remote):
            async with contextlib.aclosing(self.wire.lines(path, lost)) as lines:
                async for line in lines:
                    yield line

    @abstractmethod
    def body(self, file: Path, uploaded: str, tag: str) -> Body:
        """The body of the request that creates a batch."""

    @abstractmethod
    def remote(self, value: Any) -> Remote:
        """Read a batch; RulerError if it is none."""

    @abstractmethod
    async def places(self, remote: Remote) -> list[tuple[str, str]]:
        """Paths of the results, each with a sentence for when there is nothing."""

    def read(self, model: type[M], value: Any) -> M:
        """Read an answer; RulerError if it is none: a guess could hide a batch that is paid for."""
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise RulerError(f"{self.wire.who}: its answer is none ({why}); check --api-base") from None

    def _place(self, id: str) -> str:
        return f"{self.path}/{quote(id, safe='')}"

    def _lost(self, id: str) -> str:
        return f"{self.wire.who} knows no batch {id}: was it submitted with another key, or is it deleted?"


class OpenAI(Provider):
    """Batches behind `{base}/files` and `{base}/batches`."""

    name, path, cursor, tagged = "openai", "/batches", "after", True

    async def upload(self, file: Path, tag: str) -> str:
        """Send the file."""
        form = _form(file, f"ruler-{tag}.jsonl")
        return self.read(_File, await self.wire.ask("POST", "/files", form)).id

    def body(self, file: Path, uploaded: str, tag: str) -> Body:
        """A batch of the uploaded file."""
        fields = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return as_json({"input_file_id": uploaded, **fields, "metadata": {"ruler": tag}})

    async def places(self, remote: Remote) -> list[tuple[str, str]]:
        """The output file, then the error file; each may be missing."""
        there = remote if remote.files else await self.retrieve(remote.id)
        # of what is completed there is an answer or an error, whether it has been counted yet or not
        if not there.files and (there.succeeded + there.failed or there.label == "completed"):
            raise RulerError(
                f"{self.wire.who}: batch {remote.id} has results, but their files are not there yet; "
                "run the same command again later"
            )
        lost = f"{self.wire.who} holds the results of batch {remote.id} no longer"
        return [
            (f"/files/{quote(file, safe='')}/content", f"{lost} (file {file}); submit what is missing again")
            for file in there.files
        ]

    def remote(self, value: Any) -> Remote:
        """Read a batch."""
        batch = self.read(_OpenAIBatch, value)
        label, counts = batch.status.lower(), batch.request_counts or _OpenAICounts()
        good, bad = batch.output_file_id, batch.error_file_id
        state = _STATES.get(label, "running")
        if state == "failed" and good:  # in spite of the error something was answered and paid for
            state = "ended"
        # now and then an end is told before the files are there; without them paid answers would be missed
        if state == "ended" and ((counts.completed and not good) or (counts.failed and not (good or bad))):
            state = "running"
        tag = (batch.metadata or {}).get("ruler")
        return Remote(
            batch.id,
            state,
            clean(label, self.wire.key),
            tag if isinstance(tag, str) else None,
            counts.total,
            counts.completed,
            counts.failed,
            batch.created_at.timestamp(),
            self._reason(batch.errors) if label == "failed" else "",
            batch.input_file_id,
            tuple(each for each in (good, bad) if each),
        )

    def _reason(self, errors: _OpenAIErrors | None) -> str:
        """Why a batch failed: the first of its errors, and how many more there are."""
        listed = [error for error in (errors.data or () if errors else ()) if error is not None]
        if not listed:
            return "its provider does not say why"
        first, *more = listed
        said = clean(first.message or first.code or "no message", self.wire.key)
        line = "" if first.line is None else f"line {first.line}: "
        return f"{line}{said}" + (f" (and {len(more)} more)" if more else "")


class Anthropic(Provider):
    """Batches behind `{base}/v1/messages/batches`."""

    name, path, cursor, tagged = "anthropic", "/v1/messages/batches", "after_id", False

    def body(self, file: Path, uploaded: str, tag: str) -> Body:
        """The lines of the file as one JSON object."""
        # {"requests":[…]}: each line's end becomes a comma, the last one's nothing
        length = file.stat().st_size - 1 + len(b'{"requests":[]}')

        def pieces() -> Iterator[bytes]:
            yield b'{"requests":['
            left = file.stat().st_size - 1
            for piece in _pieces(file):
                yield piece[:left].replace(b"\n", b",")
                left -= len(piece)
            yield b"]}"

        return Body("application/json", length, pieces)

    async def places(self, remote: Remote) -> list[tuple[str, str]]:
        """The rows of a batch that has ended, answered or not, in any order."""
        path = f"{self._place(remote.id)}/results"
        named = next(iter(remote.files), "")
        # a gateway passes on its provider's address: the key stays with the host that it was given for
        if named.startswith(f"{self.wire.base}/") and not urlsplit(named).fragment:
            path = named.removeprefix(self.wire.base)
        kept = "they are kept for 29 days; submit what is missing again"
        return [(path, f"{self.wire.who} holds no results of batch {remote.id}: {kept}")]

    def remote(self, value: Any) -> Remote:
        """Read a batch."""
        batch = self.read(_AnthropicBatch, value)
        label = clean(batch.processing_status, self.wire.key)
        counts = batch.request_counts or _AnthropicCounts()
        failed = counts.errored + counts.canceled + counts.expired
        return Remote(
            batch.id,
            "ended" if label == "ended" else "running",
            label,
            None,
            counts.processing + counts.succeeded + failed,
            counts.succeeded,
            failed,
            batch.created_at.timestamp(),
            files=(batch.results_url,) if batch.results_url else (),
        )


def _form(file: Path, name: str) -> Body:
    """A multipart form with the file, which is read as it is sent."""
    boundary = secrets.token_hex(16)
    field = f'--{boundary}\r\nContent-Disposition: form-data; name="'
    head = (
        f'{field}purpose"\r\n\r\nbatch\r\n'
        f'{field}file"; filename="{name}"\r\nContent-Type: application/jsonl\r\n\r\n'
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()

    def pieces() -> Iterator[bytes]:
        yield head
        yield from _pieces(file)
        yield tail

    length = len(head) + file.stat().st_size + len(tail)
    return Body(f"multipart/form-data; boundary={boundary}", length, pieces)


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
