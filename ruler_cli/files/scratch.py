"""Temporary files of a run, which have no name and end with it, and tables of keys that stay small."""

from __future__ import annotations

import os
import pickle
import sqlite3
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from hashlib import blake2b
from typing import Any, BinaryIO, cast

from ruler_cli.files.error_map import temporary


class Scratch(AbstractContextManager["Scratch"]):
    """An unnamed temporary file. Writing raises OutputError if the disk is full."""

    def __init__(self) -> None:
        with temporary():
            file = tempfile.TemporaryFile(buffering=1 << 16)  # noqa: SIM115 - see `close`
        self.file = cast(BinaryIO, file)
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = self.size
        with temporary():
            self.size += self.file.write(data)
        return offset

    def put(self, value: object) -> None:
        """Append a value, which `all` reads."""
        # pickle: the file has no name and only this process writes and reads it
        with temporary():
            pickle.dump(value, self.file, pickle.HIGHEST_PROTOCOL)

    def all(self) -> Iterator[Any]:
        """Yield every value that was put, in order; call it after the last `put`."""
        with temporary():
            self.file.seek(0)
        while True:
            try:
                with temporary():
                    value = pickle.load(self.file)  # noqa: S301 - our own file, see `put`
            except EOFError:
                return
            yield value

    def skip(self, to: int) -> None:
        """Leave a hole up to an offset, which takes no space on disk."""
        if to != self.size:
            with temporary():
                self.size = self.file.seek(to)

    def read(self, size: int, at: int) -> bytes:
        """Read `size` bytes from the offset `at`."""
        return os.pread(self.fileno(), size, at)

    def fileno(self) -> int:
        """Flush the file and return its descriptor."""
        with temporary():
            self.file.flush()
        return self.file.fileno()

    def close(self) -> None:
        """Close the file, which frees the disk."""
        # of bytes still buffered; a full disk was reported already
        with suppress(OSError):
            self.file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def temporary_database(*statements: str, cache: int) -> sqlite3.Connection:
    """Open a temporary SQLite database and run the statements; it keeps `cache` kilobytes in memory."""
    db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = OFF",
        f"PRAGMA cache_size = -{cache}",
        "BEGIN",
        *statements,
    ):
        db.execute(statement).fetchall()
    return db


class KeyTable:
    """Numbers keys in the order in which they come, by their digests.

    A key takes 16 bytes, where a dict takes 120. Two keys of one digest, of 64 bits, are told apart when the records
    of their groups are read again.
    """

    def __init__(self) -> None:
        self._digests = array("Q")
        self._slots = array("I", bytes(4 << 10))
        """One more than the number of a key; 0 is an empty slot."""

    def __len__(self) -> int:
        return len(self._digests)

    def number(self, key: bytes) -> int:
        """Return the number of a key by its digest; a new one gets the next."""
        short = int.from_bytes(key[:8])
        slot = self._slot(short)
        if self._slots[slot]:
            return self._slots[slot] - 1
        self._digests.append(short)
        self._slots[slot] = len(self._digests)
        if 2 * len(self._digests) > len(self._slots):
            self._grow()
        return len(self._digests) - 1

    def _slot(self, short: int) -> int:
        """Return the slot of a digest, or the empty one that it would take."""
        mask = len(self._slots) - 1
        slot = short & mask
        while (
            self._slots[slot] and self._digests[self._slots[slot] - 1] != short
        ):
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        self._slots = array("I", bytes(8 * len(self._slots)))
        for number, short in enumerate(self._digests, 1):
            self._slots[self._slot(short)] = number


def digest(key: str) -> bytes:
    """Return 16 bytes that stand for a group key."""
    return blake2b(
        key.encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()
