"""Where the records of a document stand, in a temporary file: memory does not grow with their number."""

from __future__ import annotations

import os
import tempfile
from array import array
from contextlib import ExitStack
from typing import BinaryIO, cast

_PAGE = 4096
"""Pairs that are held in memory before they are written, and read at once."""
_PAIR = 16
"""Bytes of a pair."""


class Spans:
    """Pairs of offsets, appended once and then read by their place, mostly in order."""

    def __init__(self, stack: ExitStack) -> None:
        """The file, if one is needed, lives as long as `stack`."""
        self._stack = stack
        self._file: BinaryIO | None = None
        self._new = array("Q")
        self._stored = 0
        self._page = (0, array("Q"))

    def __len__(self) -> int:
        """How many pairs there are."""
        return self._stored + len(self._new) // 2

    def append(self, start: int, end: int) -> None:
        """One more."""
        self._new.extend((start, end))
        if len(self._new) == 2 * _PAGE:
            if self._file is None:
                file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - the stack closes it
                self._file = cast(BinaryIO, self._stack.enter_context(file))
            self._file.write(self._new.tobytes())
            self._stored += _PAGE
            self._new = array("Q")

    def __getitem__(self, index: int) -> tuple[int, int]:
        """The pair at an index from 0."""
        if index >= self._stored:
            at = 2 * (index - self._stored)
            return self._new[at], self._new[at + 1]
        first, page = self._page
        if not first <= index < first + len(page) // 2:
            assert self._file is not None  # noqa: S101 - what is stored stands in the file
            first, page = index - index % _PAGE, array("Q")
            page.frombytes(os.pread(self._file.fileno(), _PAGE * _PAIR, first * _PAIR))
            self._page = (first, page)
        at = 2 * (index - first)
        return page[at], page[at + 1]
