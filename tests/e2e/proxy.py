"""A real litellm proxy on loopback, in an environment of its own: it asks for an older rich than ruler does.

    python -m venv build/proxy && build/proxy/bin/pip install 'litellm[proxy]'

`LITELLM_PYTHON` names another interpreter that has it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).resolve().parents[2]
_NEEDED = ("litellm", "fastapi", "uvicorn", "apscheduler", "backoff")
_LONGEST = 120.0
"""Seconds that a start may take on a machine that runs other programs; alone it takes about eight."""
MASTER_KEY = "sk-loopback-master-key-0123456789"

# It ends with its stdin, so that it never outlives its tests, however these end.
_RUN = """
import os, sys, threading

def watch():
    while os.read(0, 4096):
        pass
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
from litellm import run_server
run_server()
"""


@cache
def interpreter() -> str | None:
    """The Python that can run a litellm proxy, if there is one."""
    named = os.environ.get("LITELLM_PYTHON")
    result = (
        (named,)
        if named
        else (str(_ROOT / "build" / "proxy" / "bin" / "python"), sys.executable)
    )
    return next((each for each in result if _has_proxy(each)), None)


def _has_proxy(python: str) -> bool:
    look = f"from importlib.util import find_spec; assert all(map(find_spec, {_NEEDED}))"
    try:
        return (
            subprocess.run(
                [python, "-c", look], capture_output=True, check=False
            ).returncode
            == 0
        )
    except OSError:
        return False


def deployment(
    name: str, model: str, base: str, **params: Any
) -> dict[str, Any]:
    """An entry of `model_list`: the proxy's name of a model, and its address."""
    return {
        "model_name": name,
        "litellm_params": {
            "model": f"openai/{model}",
            "api_base": base,
            "api_key": "the-backends-own-key",
            **params,
        },
    }


class Proxy:
    """The proxy in a process of its own: `with Proxy(folder, models) as proxy: … proxy.root …`."""

    def __init__(
        self,
        folder: Path,
        models: Sequence[Mapping[str, Any]],
        router: Mapping[str, Any] | None = None,
    ) -> None:
        """`folder` takes its configuration and its log; `router` are settings of its router."""
        self._folder = folder
        self._config = folder / "proxy.json"  # JSON is YAML
        self._config.write_text(
            json.dumps(
                {
                    "model_list": models,
                    "router_settings": router or {},
                    "general_settings": {"master_key": MASTER_KEY},
                }
            )
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.root = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers; at the same address every time."""
        python = interpreter()
        assert python
        options = [
            "--config",
            str(self._config),
            "--host",
            "127.0.0.1",
            "--port",
            str(self._port),
        ]
        # Nothing of this environment: no key, no proxy, no setting of its own.
        env = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(self._folder),
            "NO_PROXY": "*",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
            "DISABLE_ADMIN_UI": "True",
            "NO_DOCS": "True",
        }
        with (self._folder / "proxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                [python, "-c", _RUN, *options, "--telemetry", "False"],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=env,
            )
        self._wait(self._process)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        if self._process is not None:
            assert self._process.stdin
            self._process.send_signal(signal.SIGKILL)
            self._process.stdin.close()
            self._process.wait()
            self._process = None

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        # Loopback is never reached through a proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end and process.poll() is None:
            try:
                with opener.open(f"{self.root}/health/liveliness", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        self.kill()
        output = (self._folder / "proxy.log").read_text(errors="replace")[
            -2000:
        ]
        raise RuntimeError(f"the litellm proxy did not start:\n{output}")
