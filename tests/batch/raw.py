"""A server on loopback that plays a test's script, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel

from ruler_cli.runs.batch.providers import Provider, open_session
from ruler_cli.runs.batch.requests import FORMS

KEY = "sk-0123456789abcdef"


class Answer(BaseModel):
    """Any JSON object."""


@dataclass
class Call:
    """One request: its head as received, and the streams of its connection."""

    head: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def body(self) -> int:
        """Read the announced body and return its size."""
        result = re.search(r"content-length: (\d+)", self.head, re.IGNORECASE)
        left = length = int(result[1]) if result else 0
        while left:
            left -= len(piece := await self.reader.read(min(left, 1 << 16)))
            if not piece:
                break
        return length - left

    async def answer(self, body: bytes, status: int = 200, more: str = "") -> None:
        """Send a whole answer."""
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{more}"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await self.writer.drain()


Play = Callable[[Call], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(play: Play, heads: list[str]) -> AsyncIterator[str]:
    """The address of a server that plays for each connection and records the heads of all requests."""

    tasks: set[asyncio.Task[None]] = set()

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heads.append(head)
            await play(Call(head, reader, writer))
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(answer(reader, writer)))

    listener = socket.socket()
    listener.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16
    )  # a sender has to wait
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(meet, sock=listener)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


@contextlib.asynccontextmanager
async def api_client(
    base: str,
    waits: list[float] | None = None,
    key: str | None = KEY,
) -> AsyncIterator[Provider]:
    """An API client that records its waits instead of waiting."""
    noted = [] if waits is None else waits

    async def pause(seconds: float) -> None:
        noted.append(seconds)

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with open_session() as session:
        yield Provider(session, base, headers, key, FORMS["openai"], pause)
