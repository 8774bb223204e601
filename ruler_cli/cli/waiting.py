"""A bar on a terminal for who waits longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_MOMENT = 1.0
"""Seconds before anything is shown."""


@contextmanager
def waiting() -> Iterator[Callable[[], object]]:
    """Call what this gives for each group that is looked at; the bar is gone at the end."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(unit="group", file=sys.stderr, dynamic_ncols=True, leave=False, delay=_MOMENT) as bar:

        def one() -> None:
            with suppress(OSError):  # a terminal that is gone must not end the command
                bar.update()

        yield one
