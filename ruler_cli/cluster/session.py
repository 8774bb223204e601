"""Ray: started on this machine, or joined where it runs; quiet, and gone when the run is."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli.cluster.reach import MISSING, Reach, refuse_missing
from ruler_cli.errors import RulerError, UsageError

_LONGEST = 15.0
"""Seconds that its end may take; its processes end with this one in any case."""
_STORE = 512 << 20
"""Bytes of shared memory of a Ray that is started here: a few chunks wait in it."""


def require_ray() -> Any:
    """The ray package, with Ray Data; UsageError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a command that scores calls nobody's home
    os.environ.setdefault("RAY_DATA_LOGGING_CONFIG", str(Path(__file__).with_name("logging.yaml")))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.data
        warnings.filterwarnings("ignore", module=r"ray\.")  # stderr is the command's
    except ImportError:
        raise UsageError(MISSING) from None
    return ray


class Session:
    """Ray, from `start` to `end`."""

    def __init__(self, address: str | None, cpus: int) -> None:
        """`address` is a running cluster's; None starts one here, with so many CPUs to give away."""
        self._address = address or os.environ.get("RAY_ADDRESS") or None
        self._cpus = cpus
        self._begun, self._over = threading.Event(), threading.Event()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None
        self.ray: Any = None

    def begin(self) -> None:
        """Begin to start or join it; UsageError where that cannot be."""
        if self._address is not None and self._address.startswith("ray://"):
            raise UsageError(
                "--ray-address: ray:// leads to Ray Client; give host:port of the cluster and run there, "
                "or hand the command to it: ray job submit"
            )
        refuse_missing()
        # Ray ties the processes that it starts to the thread that starts them, so it has one of its own
        self._thread = threading.Thread(target=self._live, name="ruler-ray", daemon=True)
        self._thread.start()

    async def ready(self) -> Any:
        """Wait for it: the ray package; UsageError or RefusedError where it cannot be used."""
        await anyio.to_thread.run_sync(self._begun.wait, abandon_on_cancel=True)
        if isinstance(self._error, RulerError):
            raise self._error
        if self._error is not None:
            where = self._address or "this machine"
            why = str(self._error).strip().split("\n")[0].rstrip(".")[:200] or type(self._error).__name__
            way = "give the host:port of a running cluster" if self._address else "see Ray's own logs"
            raise UsageError(f"--engine ray: Ray at {where} cannot be used ({why}); {way}")
        return self.ray

    async def end(self) -> None:
        """Leave the cluster, or stop what was started; nothing of the run goes on."""
        if self._thread is not None:
            self._over.set()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._thread.join, _LONGEST)

    def _live(self) -> None:
        try:
            with quiet():
                ours = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
                reach = Reach(self._address) if self._address and ours else None  # while Ray is loaded
                ray = require_ray()
                if reach is not None:
                    reach.wait(self._over)
                if self._over.is_set():
                    return
                self.ray = ray
                if not ours:  # by whoever called us
                    return
                more = {} if self._address else {"num_cpus": self._cpus, "object_store_memory": _STORE}
                self.ray.init(
                    address=self._address or "local",
                    include_dashboard=None if self._address else False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=False,
                    **more,
                )
                _mute()
        except Exception as error:  # noqa: BLE001 - Ray raises anything; `start` tells it
            self._error = error
        finally:
            self._begun.set()
        self._over.wait()
        if self.ray is not None:
            with quiet():
                self.ray.shutdown()


def _mute() -> None:
    """Have Ray print nothing: it tells of a worker that ended on stdout, which may be a pipe of records."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def quiet() -> Iterator[None]:
    """Have Ray's own words kept to its log files."""
    for name in ("ray", "ray._private", "ray._common"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
