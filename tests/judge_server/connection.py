"""HTTP/1.1 as far as a judge needs it, and the failures that keep a reply from arriving."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import orjson

from tests.judge_server.batch_apis import BatchApis
from tests.judge_server.messages_api import chat_of, message_of
from tests.judge_server.replies import Reply, refuse

_HEADERS = re.compile(
    r"\r\n(anthropic-version|authorization|connection|content-(?:length|type)|transfer-encoding|x-api-key)"
    r":[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)


JUDGED = ("/chat/completions", "/systemone", "/decisions")
"""Ends of the paths that a judge answers at."""


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive: one request at a time, in order."""

    transport: asyncio.Transport

    def __init__(self, batches: BatchApis, opened: set[Connection]) -> None:
        self.judge, self.batches, self.opened = batches.judge, batches, opened
        self.buffer = bytearray()
        self.request_line = ""
        self.headers: dict[str, str] = {}
        self.busy = False
        self.judging: Reply | None = None
        self.timer: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the work for a caller that is gone."""
        self.opened.discard(self)
        if self.timer:
            self.timer.cancel()
        self.done(gone=True)

    def data_received(self, data: bytes) -> None:
        """Serve a request as soon as it is whole."""
        self.buffer += data
        if not self.busy:
            self.read_request()

    def read_request(self) -> None:
        """Serve the next request if it has arrived whole."""
        if not self.request_line:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].decode("latin-1")
            self.request_line = head.partition("\r\n")[0]
            self.headers = {
                name.lower(): value for name, value in _HEADERS.findall(head)
            }
            del self.buffer[: end + 4]
        length = int(self.headers.get("content-length", 0))
        if len(self.buffer) >= length:
            body = bytes(self.buffer[:length])
            del self.buffer[:length]
            self.serve(body)

    def serve(self, body: bytes) -> None:
        """Answer a request, now or after its delay."""
        method, target, _ = self.request_line.split(" ", 2)
        path, _, query = target.partition("?")
        self.request_line, self.busy = "", True
        if "transfer-encoding" in self.headers:
            self.headers["connection"] = (
                "close"  # where that body ends is unknown
            )
            reply = refuse(411, "A Content-Length is required.")
        elif method == "POST" and path.endswith(JUDGED):
            reply = self.judging = self.judge.chat(
                body, self.headers.get("authorization")
            )
        elif method == "POST" and path.endswith("/v1/messages"):
            params = orjson.loads(body)
            reply = self.judge.chat(
                orjson.dumps(chat_of(params)), self.headers.get("x-api-key")
            )
            if reply.status == 200 and reply.mime == "application/json":
                reply.body = orjson.dumps(
                    message_of(params, orjson.loads(reply.body))
                )
            self.judging = reply
        else:
            root = "http://{}:{}".format(
                *self.transport.get_extra_info("sockname")
            )
            route = f"{method} {path}"
            batched = self.batches.reply(route, query, body, self.headers, root)
            reply = batched or self.judge.other(route, body)
        deliver = DELIVERIES[reply.delivery]
        if reply.delay:
            loop = asyncio.get_running_loop()
            self.timer = loop.call_later(reply.delay, deliver, self, reply)
        else:
            deliver(self, reply)

    def done(self, gone: bool) -> None:
        """Tell the judge once that a request is over."""
        if self.judging is not None:
            self.judge.leave(self.judging, gone)
            self.judging = None

    def whole(self, reply: Reply) -> None:
        """Send all of it."""
        self.done(gone=False)
        self.busy = False
        self.transport.write(reply.wire(len(reply.body)))
        if self.headers.get("connection", "").lower() == "close":
            self.transport.close()
        elif self.buffer:
            self.read_request()

    def half(self, reply: Reply) -> None:
        """Send half of the body and hang up."""
        self.transport.write(
            reply.wire(len(reply.body))[: -len(reply.body) // 2]
        )
        self.transport.close()

    def drip(self, reply: Reply) -> None:
        """Send an endless body a byte at a time: a limit on silence is never reached."""
        self.transport.write(replace(reply, body=b"").wire(10**9))
        self.drip_byte()

    def drip_byte(self) -> None:
        """Send one more byte."""
        self.transport.write(b" ")
        self.timer = asyncio.get_running_loop().call_later(0.05, self.drip_byte)

    def flood(self, reply: Reply) -> None:
        """Send an endless body as fast as it is read."""
        self.transport.write(replace(reply, body=b"").wire(10**12))
        self.flood_on()

    def flood_on(self) -> None:
        """Send one more piece, unless much waits to be read."""
        if self.transport.get_write_buffer_size() < 1 << 20:
            self.transport.write(b" " * 65536)
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(0.0001, self.flood_on)

    def drop(self, reply: Reply) -> None:
        """Hang up without a word."""
        self.transport.close()

    def hang(self, reply: Reply) -> None:
        """Stay busy: leave everything else on this connection unread."""


DELIVERIES: dict[str, Callable[[Connection, Reply], None]] = {
    "whole": Connection.whole,
    "half": Connection.half,
    "drip": Connection.drip,
    "flood": Connection.flood,
    "drop": Connection.drop,
    "hang": Connection.hang,
}
