"""Groups as they stand in the page, in a temporary file until it is known which of them do."""

from __future__ import annotations

from contextlib import ExitStack
from heapq import heappop, heappush

from ruler_cli.report.rows import Leaf
from ruler_cli.scratch import Scratch


class Kept:
    """Leaves by the number of their group."""

    def __init__(self, stack: ExitStack) -> None:
        """Nothing yet; the temporary file goes with `stack`."""
        self._scratch = stack.enter_context(Scratch())
        self._at: dict[int, tuple[int, int, int, int]] = {}
        self._cut: set[int] = set()

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return self._scratch.size

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self._at

    def put(self, ordinal: int, leaf: Leaf) -> None:
        """Keep a group; OutputError where there is no room for it."""
        text = leaf.text or b""
        at = self._scratch.write(leaf.row + leaf.said + text)
        self._at[ordinal] = (at, len(leaf.row), len(leaf.said), len(text))
        if leaf.cut:
            self._cut.add(ordinal)

    def settle(self) -> None:
        """Nothing more comes: from now on it is read."""
        self._scratch.fileno()

    def row(self, ordinal: int) -> list[bytes]:
        """Its values, each as JSON, in the order of COLUMNS."""
        start, row, _, _ = self._at[ordinal]
        return self._read(row, start).split(b"\n")

    def said(self, ordinal: int) -> bytes:
        """Its explanations, as JSON."""
        start, row, said, _ = self._at[ordinal]
        return self._read(said, start + row)

    def text(self, ordinal: int) -> str:
        """The block of its text, empty without one."""
        start, row, said, text = self._at[ordinal]
        return self._read(text, start + row + said).decode("ascii")

    def text_size(self, ordinal: int) -> int:
        """Characters of that block."""
        return self._at[ordinal][3]

    def cut(self, ordinal: int) -> bool:
        """Whether the block does not hold all of its text."""
        return ordinal in self._cut

    def _read(self, size: int, at: int) -> bytes:
        return self._scratch.read(size, at)


class Room:
    """Which texts there is room for: the most telling ones, until the next does not fit.

    They may come in any order, and are counted no further once they are certain to be left out.
    """

    def __init__(self, size: int) -> None:
        """`size` in bytes for all of them."""
        self._left = size
        self._heap: list[tuple[int, int]] = []
        self._end: int | None = None

    def has(self, rank: int) -> bool:
        """Whether a text of this rank, 0 for the most telling, may still stand in the page."""
        return self._end is None or rank < self._end

    def take(self, rank: int, size: int) -> None:
        """Count a text that may; less telling ones make way for it."""
        heappush(self._heap, (-rank, size))
        self._left -= size
        while self._left < 0:
            least, freed = heappop(self._heap)
            self._left += freed
            self._end = -least
