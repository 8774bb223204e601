"""Reading in a thread of its own."""

from __future__ import annotations

import gc
import itertools
import threading
import time

import anyio

from ruler_cli.pool.engine import threaded


def readers() -> int:
    """Threads that read an input now."""
    return sum(thread.name == "ruler-input" for thread in threading.enumerate())


def test_a_stopped_run_lets_its_thread_go() -> None:
    """The thread ends once nobody can ask it any more, also before the end of what it reads."""
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
