"""A loopback server that sends exactly the bytes it is given, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class RawServer:
    """The server's port, and the bodies and heads of the requests that it has read."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)

    @property
    def base(self) -> str:
        """Its address as an endpoint."""
        return f"http://127.0.0.1:{self.port}/v1"


def answer(status: int, body: bytes, headers: str = "") -> bytes:
    """Make a whole HTTP/1.1 response."""
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return (head + headers + "\r\n").encode() + body


@contextlib.asynccontextmanager
async def serving(
    data: bytes | Callable[[bytes], bytes],
    *,
    pause: float = 0.0,
    tls: ssl.SSLContext | None = None,
    whole: bytes = b"",
    wait: float = 0.0,
) -> AsyncIterator[RawServer]:
    """Answer each request after `wait` seconds with `whole`, then `data`; hang up if both are empty.

    With a `pause`, `data` is sent a byte at a time. A function makes it of the request's body.
    """
    server, tasks = RawServer(), set[asyncio.Task[None]]()

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                server.heads.append(head)
                server.requests.append(
                    await reader.readexactly(int(length[1]) if length else 0)
                )
                await asyncio.sleep(wait)
                sent = data(server.requests[-1]) if callable(data) else data
                if not whole + sent:
                    return
                writer.write(whole)
                for part in (
                    [sent]
                    if not pause
                    else [sent[i : i + 1] for i in range(len(sent))]
                ):
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(pause)
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            asyncio.LimitOverrunError,
        ):
            pass
        finally:
            writer.close()

    def connected(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
