"""OpenAI's Batch API, and endpoints that speak it: a file of requests, a batch of it, files of results."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ruler_cli.batches.body import Body, as_json
from ruler_cli.batches.provider import Remote, Row, State
from ruler_cli.batches.served import Served
from ruler_cli.batches.told import OddError, count, id_of, mapping, time_of, word
from ruler_cli.errors import RulerError

_STATES: dict[str, State] = {
    "failed": "failed",
    "completed": "ended",
    "expired": "ended",
    "cancelled": "ended",
    "canceled": "ended",
}
"""What is over; any other word is of a batch that goes on."""
_TAG = "ruler"
_PIECE = 1 << 18
"""Bytes that are read and sent at once."""


@dataclass(slots=True)
class OpenAI(Served):
    """Batches behind `{base}/files` and `{base}/batches`."""

    path = "/batches"
    cursor = "after"
    name: str = "openai"
    requests: int = 50_000
    bytes: int = 200_000_000
    tagged: bool = True

    async def upload(self, file: Path, tag: str) -> str:
        """Send the file; one that arrived while its answer did not is found, not sent again."""
        size = _size(file)

        async def found() -> dict[str, Any] | None:
            id = await self._find(tag, size)
            return None if id is None else {"id": id}

        there = await self.wire.post("/files", _form(file, _name(tag)), found=found)
        held = there.get("bytes")
        if isinstance(held, int) and held != size:
            raise RulerError(f"{self.wire.who}: {held} of {size} bytes arrived; run the same command again")
        return id_of(there, self.wire.who)

    async def uploaded(self, tag: str) -> str | None:
        """The newest file of that name that is fit to be used."""
        return await self._find(tag, None)

    async def _find(self, tag: str, size: int | None) -> str | None:
        async for page in self.pages("/files", purpose="batch", order="desc"):
            for file in page:
                fits = file.get("filename") == _name(tag) and file.get("status") != "error"
                if fits and size in (None, file.get("bytes")):
                    return id_of(file, self.wire.who)
        return None

    async def create(self, file: Path, uploaded: str, tag: str, requests: int) -> Remote:
        """Make a batch of the uploaded file."""
        return await self.begin(
            as_json(
                {
                    "input_file_id": uploaded,
                    "endpoint": "/v1/chat/completions",
                    "completion_window": "24h",
                    "metadata": {_TAG: tag},
                }
            ),
        )

    async def results(self, remote: Remote) -> AsyncIterator[Row]:
        """The output file, then the error file; each may be missing."""
        there = remote if remote.files else await self.retrieve(remote.id)
        # of what is completed there is an answer or an error, whether it has been counted yet or not
        if not there.files and (there.succeeded + there.failed or there.label == "completed"):
            raise RulerError(
                f"{self.wire.who}: batch {remote.id} has results, but their files are not there yet; "
                "run the same command again later"
            )
        for file in there.files:
            path = f"/files/{quote(file, safe='')}/content"
            lost = (
                f"{self.wire.who} holds the results of batch {remote.id} no longer (file {file}); "
                "submit what is missing again"
            )
            async with contextlib.aclosing(self.wire.lines(path, lost)) as lines:
                async for line in lines:
                    yield line

    def remote(self, value: Mapping[str, Any]) -> Remote:
        """Read a batch object."""
        key, counts = self.wire.key, mapping(value.get("request_counts"))
        label = word(value.get("status"), key).lower()
        if not label:
            raise OddError(f"{self.wire.who}: its answer is no batch; check --api-base")
        good, bad = value.get("output_file_id"), value.get("error_file_id")
        succeeded, failed = count(counts, "completed"), count(counts, "failed")
        state = _STATES.get(label, "running")
        if state == "failed" and good:  # whatever went wrong, something was answered and paid for
            state = "ended"
        # now and then an end is told before the files are there; without them paid answers would be missed
        if state == "ended" and ((succeeded and not good) or (failed and not good and not bad)):
            state = "running"
        tag, file = mapping(value.get("metadata")).get(_TAG), value.get("input_file_id")
        return Remote(
            id_of(value, self.wire.who),
            state,
            label,
            tag if isinstance(tag, str) else None,
            count(counts, "total"),
            succeeded,
            failed,
            time_of(value.get("created_at"), self.wire.who),
            _reason(value, key) if label == "failed" else "",
            file if isinstance(file, str) else None,
            tuple(each for each in (good, bad) if isinstance(each, str) and each),
        )


def _name(tag: str) -> str:
    """The name of a file, by which it is found again."""
    return f"ruler-{tag}.jsonl"


def _size(file: Path) -> int:
    return file.stat().st_size


def _form(file: Path, name: str) -> Body:
    """A multipart form with the file, which is read as it is sent."""
    boundary = secrets.token_hex(16)
    field = f'--{boundary}\r\nContent-Disposition: form-data; name="'
    head = (
        f'{field}purpose"\r\n\r\nbatch\r\n'
        f'{field}file"; filename="{name}"\r\nContent-Type: application/jsonl\r\n\r\n'
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()

    def pieces() -> Iterator[Row]:
        yield head
        with file.open("rb") as source:
            while piece := source.read(_PIECE):
                yield piece
        yield tail

    length = len(head) + _size(file) + len(tail)
    return Body(f"multipart/form-data; boundary={boundary}", length, pieces)


def _reason(value: Mapping[str, Any], key: str | None) -> str:
    """Why a batch failed: the first of its errors, and how many more there are."""
    listed = mapping(value.get("errors")).get("data")
    errors = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    if not errors:
        return "its provider does not say why"
    first = errors[0]
    said = word(first.get("message"), key) or word(first.get("code"), key) or "no message"
    line = f"line {first['line']}: " if isinstance(first.get("line"), int) else ""
    return f"{line}{said}" + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else "")
