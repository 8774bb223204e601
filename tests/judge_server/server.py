"""The server, in a process of its own or in a thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.judge_server.batch_apis import BatchApis
from tests.judge_server.conduct import Conduct
from tests.judge_server.connection import Connection
from tests.judge_server.judge import Judge

_ROOT = Path(__file__).resolve().parents[2]


class JudgeServer:
    """The server in a process of its own: `with JudgeServer() as judge: … judge.base …`."""

    def __init__(
        self, latency: float = 0.0, lifetime: float = 600.0, **conduct: Any
    ) -> None:
        """`conduct` are fields of Conduct; a reset goes back to them."""
        conduct["latency"] = latency
        self.options = [
            "--lifetime",
            str(lifetime),
            "--conduct",
            json.dumps(conduct),
        ]
        # Loopback is never reached through a proxy of the environment.
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )
        self.root = self.base = ""

    def __enter__(self) -> JudgeServer:
        command = [sys.executable, "-m", "tests.judge_server", *self.options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, cwd=_ROOT, stdin=pipe, stdout=pipe
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.__exit__()
            raise RuntimeError(
                f"the judge server ended with {self.process.returncode}"
            )
        self.root = f"http://127.0.0.1:{json.loads(line)['port']}"
        self.base = f"{self.root}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stats(self) -> Any:
        """Return the counters since the last reset."""
        return self._call("GET", "/stats")

    def requests(self) -> Any:
        """Return the last 200 request bodies, oldest first."""
        return self._call("GET", "/requests")

    def reset(self) -> None:
        """Forget every request, and behave as at the start."""
        self._call("POST", "/reset")

    def configure(self, **conduct: Any) -> None:
        """Change fields of its Conduct from now on."""
        self._call("POST", "/configure", conduct)

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.root + path, body, method=method)
        with self.opener.open(request, timeout=10) as reply:
            return json.load(reply)


class BatchServer(BatchApis):
    """The server in a thread: `with BatchServer() as server: … server.openai …`.

    `openai` and `anthropic` are what `--api-base` takes. `judge` are fields of Conduct, `conduct` those of
    the batches. An exception within a step is raised at the end.
    """

    def __init__(
        self, judge: dict[str, Any] | None = None, **conduct: Any
    ) -> None:
        super().__init__(Judge(Conduct().with_(judge or {})), **conduct)
        self.openai = self.anthropic = ""

    def __enter__(self) -> BatchServer:
        self._loop, ready = asyncio.new_event_loop(), threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), daemon=True
        )
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the batch server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        if self.mistakes:
            raise self.mistakes[0]

    def _run(self, ready: threading.Event) -> None:
        async def main() -> None:
            async with serving(self) as port:
                self.anthropic = f"http://127.0.0.1:{port}"
                self.openai = f"{self.anthropic}/v1"
                ready.set()
                await self._over.wait()

        with contextlib.closing(self._loop):
            self._loop.run_until_complete(main())


@contextlib.asynccontextmanager
async def serving(batches: BatchApis, port: int = 0) -> AsyncIterator[int]:
    """Serve on a loopback port, which is yielded; connections that are open at the end are cut."""
    opened = set[Connection]()
    # A benchmark opens a thousand connections at once.
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(batches, opened), "127.0.0.1", port, backlog=4096
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in opened:
            connection.transport.abort()
        await asyncio.sleep(0)  # they learn of it


async def serve_command(batches: BatchApis, port: int, lifetime: float) -> None:
    """Serve until stdin closes or the lifetime is over; print the port."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def watch_stdin() -> None:
        # os.read: sys.stdin has a lock, and a thread that holds it at exit is a fatal error.
        with contextlib.suppress(OSError):  # no stdin at all
            while os.read(0, 4096):
                pass
        with contextlib.suppress(
            RuntimeError
        ):  # the lifetime is over, the loop closed
            loop.call_soon_threadsafe(over.set)

    async with serving(batches, port) as bound:
        threading.Thread(target=watch_stdin, daemon=True).start()
        print(json.dumps({"port": bound}), flush=True)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), lifetime)
