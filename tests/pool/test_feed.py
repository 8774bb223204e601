"""Reading in a thread of its own."""

from __future__ import annotations

import gc
import itertools
import threading
import time

import anyio

from ruler_cli.pool.engine import threaded


def readers() -> int:
    """Threads that read an input at the moment."""
    return sum(thread.name == "ruler-input" for thread in threading.enumerate())


def test_thread_of_a_stopped_run_ends() -> None:
    """The thread ends once the run has stopped, even before the end of its input."""
    before = readers()

    async def stop_early() -> list[int | None]:
        pull = threaded(itertools.count())
        return [await pull(), await pull()]

    assert anyio.run(stop_early) == [0, 1]
    gc.collect()
    for _ in range(500):
        if readers() <= before:
            break
        time.sleep(0.01)
    assert readers() <= before
