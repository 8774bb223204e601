"""A reverse proxy on loopback that records requests and answers of a judge, and changes neither."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from ruler_cli.prompting import templates

_AGAIN = (
    templates.corrected("\0").partition("\0")[0],
    templates.SHORTER,
)
"""The beginnings of the notes in corrective requests."""
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Seen:
    """One request and its answer; an answer that never came has status 0."""

    request: bytes
    status: int
    answer: bytes
    seconds: float

    @property
    def body(self) -> Any:
        """The request as JSON."""
        return json.loads(self.request)

    @property
    def corrective(self) -> bool:
        """Return whether the request follows an answer that could not be used."""
        return any(
            note in self.body["messages"][-1]["content"] for note in _AGAIN
        )

    @property
    def cut_off(self) -> bool:
        """Return whether the answer ended at a limit."""
        return (
            self.status == 200
            and json.loads(self.answer)["choices"][0]["finish_reason"]
            == "length"
        )

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens, as the server reported them."""
        usage = json.loads(self.answer)["usage"] if self.status == 200 else {}
        return usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)


class Recorder:
    """The proxy in threads of this process: `with Recorder(llama.root) as judge: … judge.seen …`."""

    def __init__(self, root: str) -> None:
        """`root` is the address of the server behind it."""
        self.behind = urlsplit(root).netloc
        self.seen: list[Seen] = []
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), _handler(self.behind, self.seen.append)
        )
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        self.base = f"{self.root}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def answered(self) -> list[Seen]:
        """The requests that were answered with a completion."""
        return [seen for seen in self.seen if seen.status == 200]

    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of all answers."""
        each = [seen.tokens for seen in self.answered]
        return sum(prompt for prompt, _ in each), sum(
            completion for _, completion in each
        )


def _handler(
    behind: str, keep: Callable[[Seen], None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            began = time.monotonic()
            request = self.rfile.read(
                int(self.headers.get("Content-Length", 0))
            )
            status, headers, answer = self._forward(request)
            keep(Seen(request, status, answer, time.monotonic() - began))
            with suppress(ConnectionError):  # who asked may be gone by now
                self.send_response(status or 502)
                for name, value in headers:
                    if name.lower() not in _HOP:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def _forward(
            self, request: bytes
        ) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(behind, timeout=3600)
            sent = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in _HOP
            }
            try:
                connection.request("POST", self.path, request, sent)
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (OSError, http.client.HTTPException):
                return 0, [], b""
            finally:
                connection.close()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: stderr is often under test."""

    return Handler
