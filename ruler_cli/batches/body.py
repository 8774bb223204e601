"""What a request sends, made as it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Body:
    """What a request sends: its media type, its bytes in number, and the bytes, made anew for each try."""

    kind: str
    length: int
    pieces: Callable[[], Iterator[bytes]]


def as_json(value: Any) -> Body:
    """A JSON body."""
    data = orjson.dumps(value)
    return Body("application/json", len(data), lambda: iter([data]))


@dataclass(slots=True)
class Sending:
    """One body on its way: `whole` from when its last piece is handed over, nothing held back."""

    body: Body | None
    whole: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Its type and its length: a request cut off is then no request to anyone."""
        if self.body is None:
            return {}
        return {"Content-Type": self.body.kind, "Content-Length": str(self.body.length)}

    async def pieces(self, deadline: asyncio.Timeout, patience: float) -> AsyncIterator[bytes]:
        """Its bytes; the deadline moves on while they are taken, to `patience` seconds from then."""
        held: bytes | None = None
        for piece in self.body.pieces() if self.body else ():
            if held is not None:
                yield held
            held = piece
            if not deadline.expired():
                deadline.reschedule(asyncio.get_running_loop().time() + patience)
        self.whole = True
        if held is not None:
            yield held
