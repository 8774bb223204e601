"""Anthropic's Message Batches API: one request holds all requests, and nothing of ours but their ids."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruler_cli.batches.body import Body
from ruler_cli.batches.provider import Remote, Row
from ruler_cli.batches.served import Served
from ruler_cli.batches.told import OddError, count, id_of, mapping, time_of, word

VERSION = "2023-06-01"
"""The version of the API that is spoken, as its header names it."""
_PIECE = 1 << 18
"""Bytes that are sent at once, at least."""
_HEAD, _BETWEEN, _TAIL = b'{"requests":[', b",", b"]}"


@dataclass(slots=True)
class Anthropic(Served):
    """Batches behind `{base}/v1/messages/batches`."""

    path = "/v1/messages/batches"
    cursor = "after_id"
    name: str = "anthropic"
    requests: int = 100_000
    bytes: int = 256_000_000
    tagged: bool = False

    async def upload(self, file: Path, tag: str) -> str:
        """Nothing: the requests travel with the batch."""
        return ""

    async def uploaded(self, tag: str) -> str | None:
        """None: there are no files."""
        return None

    async def create(self, file: Path, uploaded: str, tag: str, requests: int) -> Remote:
        """Make a batch of the lines of the file."""
        return await self.begin(_body(file))

    async def results(self, remote: Remote) -> AsyncIterator[Row]:
        """The rows of a batch that has ended, answered or not, in any order."""
        path = f"{self.place(remote.id)}/results"
        named = next(iter(remote.files), "")
        # a gateway passes on its provider's address: the key stays with the host that it was given for
        if named.startswith(f"{self.wire.base}/") and not urlsplit(named).fragment:
            path = named.removeprefix(self.wire.base)
        lost = (
            f"{self.wire.who} holds no results of batch {remote.id}: they are kept for 29 days; "
            "submit what is missing again"
        )
        async with contextlib.aclosing(self.wire.lines(path, lost)) as lines:
            async for line in lines:
                yield line

    def remote(self, value: Mapping[str, Any]) -> Remote:
        """Read a batch object."""
        label = word(value.get("processing_status"), self.wire.key)
        if not label:
            raise OddError(f"{self.wire.who}: its answer is no batch; check --api-base")
        counts = mapping(value.get("request_counts"))
        each = {
            name: count(counts, name)
            for name in ("processing", "succeeded", "errored", "canceled", "expired")
        }
        url = value.get("results_url")
        return Remote(
            id_of(value, self.wire.who),
            "ended" if label == "ended" else "running",
            label,
            None,
            sum(each.values()),
            each["succeeded"],
            each["errored"] + each["canceled"] + each["expired"],
            time_of(value.get("created_at"), self.wire.who),
            files=(url,) if isinstance(url, str) and url else (),
        )


def _body(file: Path) -> Body:
    """The lines of a file as one JSON object, made as it is sent."""
    with file.open("rb") as source:
        sizes = [len(line) for line in _lines(source)]
    length = len(_HEAD) + sum(sizes) + len(_BETWEEN) * max(0, len(sizes) - 1) + len(_TAIL)

    def pieces() -> Iterator[Row]:
        held = bytearray(_HEAD)
        with file.open("rb") as source:
            for at, line in enumerate(_lines(source)):
                held += (_BETWEEN if at else b"") + line
                if len(held) >= _PIECE:
                    yield bytes(held)
                    held.clear()
        yield bytes(held + _TAIL)

    return Body("application/json", length, pieces)


def _lines(source: Any) -> Iterator[Row]:
    """Lines without their ends, and without empty ones."""
    return (stripped for line in source if (stripped := line.strip()))
