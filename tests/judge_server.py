"""A judge over HTTP for tests and benchmarks: answers as asked, or misbehaves on cue or by chance.

    python -m tests.judge_server [--port 0] [--lifetime SECONDS] [--conduct JSON]

It binds 127.0.0.1, prints `{"port": N}` and ends when its stdin closes or its lifetime is over.
`POST …/chat/completions` is answered, and `POST …/v1/messages` in Anthropic's form; `GET /stats`,
`GET /requests`, `POST /reset` and `POST /configure` are for tests.
Its conduct (judging_server/conduct.py) sets latency, hidden limits and chaos.

The `model` field (after its last `/`) is the cue.  `KIND` misbehaves always, `once-KIND` on the
first request for a group of rollouts, `twice-KIND` on its first two; any other name answers well.

Labels      reordered duplicate-same duplicate missing extra integer position
Wrapping    fenced think prose decoy list
Text        escapes
Scores      ten percent fraction strings same mixed negative nan null-score bool-score
No answer   cutoff crowded empty null-content refusal filter not-json no-choices html
            huge raw-escapes
Refusals    keyed-refused schema-refused format-refused limit-refused limits-refused beside
            400 400-context 400-escapes 401 403 404 quota 500 502 529 429 429-bare 429-date
Connection  drop half drip hang slow
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from tests.judging_server.asks import expected_score
from tests.judging_server.conduct import Conduct
from tests.judging_server.connection import Connection
from tests.judging_server.cues import CUES
from tests.judging_server.judge import Judge

__all__ = ["CUES", "JudgeServer", "expected_score"]

_ROOT = Path(__file__).resolve().parents[1]


class JudgeServer:
    """The server in a process of its own: `with JudgeServer() as judge: … judge.base …`."""

    def __init__(
        self, latency: float = 0.0, lifetime: float = 600.0, **conduct: Any
    ) -> None:
        """`conduct` are fields of Conduct; a reset goes back to them."""
        conduct["latency"] = latency
        self.options = ["--lifetime", str(lifetime), "--conduct", json.dumps(conduct)]
        # Loopback is never reached through a proxy of the environment.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.root = self.base = ""

    def __enter__(self) -> JudgeServer:
        command = [sys.executable, "-m", "tests.judge_server", *self.options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe)
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.__exit__()
            raise RuntimeError(f"the judge server ended with {self.process.returncode}")
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


async def _serve(port: int, conduct: Conduct, lifetime: float) -> None:
    loop, over, judge = asyncio.get_running_loop(), asyncio.Event(), Judge(conduct)
    # A benchmark opens a thousand connections at once.
    server = await loop.create_server(
        lambda: Connection(judge), "127.0.0.1", port, backlog=4096
    )

    def watch_stdin() -> None:
        # os.read: sys.stdin has a lock, and a thread that holds it at exit is a fatal error.
        with contextlib.suppress(OSError):  # no stdin at all
            while os.read(0, 4096):
                pass
        with contextlib.suppress(RuntimeError):  # the lifetime is over, the loop closed
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=watch_stdin, daemon=True).start()
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(over.wait(), lifetime)
    server.close()


def _main() -> None:
    parser = argparse.ArgumentParser(description="A judge that misbehaves on cue.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--lifetime", type=float, default=600.0, help="seconds until it ends"
    )
    parser.add_argument(
        "--conduct", type=json.loads, default={}, help="fields of Conduct, as JSON"
    )
    options = parser.parse_args()
    # A thousand connections exceed the usual soft limit; macOS allows no more than 10240.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 10240)), hard))
    with contextlib.suppress(
        KeyboardInterrupt
    ):  # it reaches every process of a terminal
        asyncio.run(
            _serve(options.port, Conduct().with_(options.conduct), options.lifetime)
        )


if __name__ == "__main__":
    _main()
