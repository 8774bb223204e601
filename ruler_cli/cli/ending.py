"""SIGTERM and SIGHUP for commands that write files: they end as Ctrl-C does, and leave nothing half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def in_order() -> Iterator[None]:
    """A first signal unwinds the command, so that temporary files go; a second one ends it at once.

    The exit code is 128 and the signal's number. What the shell told us to ignore stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can signals be heard
        yield
        return
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)
