"""Whether Ray answers at an address, asked by a process that can be ended.

Ray itself tries an address for minutes, in C++ that cannot be stopped, and tells of it on stderr.
"""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.util import find_spec
from threading import Event

from ruler_cli.errors import RefusedError, UsageError

MISSING = "--engine ray: ray is not installed; pip install 'ruler-cli[ray]'"

_PATIENCE = 20.0
"""Seconds in which a cluster must answer: it takes under one, where Python's start is not slow."""
_LOOK = 0.05
"""Seconds between two looks at the process that asks."""
_NOBODY = 3
"""Exit code where what is there does not answer as Ray does; whatever else goes wrong is left to Ray."""
_ASK = f"""
import signal, sys
address, sys.path[:] = sys.argv[1], sys.argv[2:]
if hasattr(signal, "alarm"):
    signal.alarm({2 * _PATIENCE:.0f})
from ray._private.services import canonicalize_bootstrap_address
from ray._raylet import GcsClient
from ray.exceptions import RpcError
where = canonicalize_bootstrap_address(address)
try:
    where and GcsClient(address=where).internal_kv_get(b"session_name", b"session", timeout={_PATIENCE:.0f})
except RpcError:
    sys.exit({_NOBODY})
"""
"""What that process runs; it ends by itself where nobody is left to end it."""


def refuse_missing() -> None:
    """UsageError where Ray is not installed; it is not loaded for that."""
    if find_spec("ray") is None:
        raise UsageError(MISSING)


class Reach:
    """A question to a cluster that is under way from the start."""

    def __init__(self, address: str) -> None:
        """`address` as Ray takes it: host:port, or `auto`."""
        self._address = address
        self._deadline = time.monotonic() + _PATIENCE
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a program that stands above
            [sys.executable, "-c", _ASK, address, *sys.path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the run's
        )

    def wait(self, over: Event) -> None:
        """Wait for the answer, or for `over`; RefusedError where none comes or it is not Ray's."""
        try:
            while (code := self._process.poll()) is None and time.monotonic() < self._deadline:
                if over.wait(_LOOK):
                    return
        finally:
            self._process.kill()
            self._process.wait()
        if code is None or code == _NOBODY:
            how = f"does not answer within {_PATIENCE:.0f} s" if code is None else "is not one of Ray's"
            raise RefusedError(
                f"--engine ray: what is at {self._address} {how}; `ray status` on a machine of the cluster "
                "tells the address (--ray-address or RAY_ADDRESS), or leave it out to start one here"
            )
