"""Several ledgers as one: answers are looked up in all of them and kept in the first.

So what sixteen processes asked for, each with a ledger of its own, is known to the run that writes
OUTPUT. Answers of the others are not copied into the first: they stay where they are, a run that only
reads writes nothing, and a dump's replies are not stored twice. A later run is given the same ledgers.

A lookup asks one after another, some 6 microseconds each, until a reply is found.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ruler_cli.errors import UsageError
from ruler_cli.files.database import look_up
from ruler_cli.ledger import SCHEMA, Kept, Ledger
from ruler_cli.pool.pool import connections
from ruler_cli.records import Fault, Reply

_MANY = 64
"""Ledgers beyond which more files may be open than shells allow: three for each."""
_WAY_OUT = "correct the --ledger, or leave it out"


class Ledgers:
    """The first ledger, written and read, and others that are read; open until `close`.

    As with `Ledger` all is done by one thread at a time.
    """

    def __init__(self, path: Path | None, others: Sequence[Path] = (), *, make: bool = True) -> None:
        """Open them; the first is made where it is not there, or passed over where `make` is off.

        UsageError where another one is not there, or one cannot be used. One named twice is read once.
        """
        self._stack = ExitStack()
        self._first: Ledger | None = None
        self._all: list[Ledger] = []
        if len(others) > _MANY:
            connections()
        with self._stack:
            for other in others:  # before the first is made
                _refuse_absent(other)
            if path is not None and (make or _there(path)):
                self._first = self._stack.enter_context(Ledger(path))
                self._all.append(self._first)
            known = {os.path.realpath(path)} if path is not None else set()
            for other in others:
                if (real := os.path.realpath(other)) not in known:
                    known.add(real)
                    self._all += self._read_only(other)
            self._stack = self._stack.pop_all()

    def find(self, key: bytes) -> Kept | None:
        """The answer of the first ledger that has a reply, else the first mark of a failed call.

        Of one ledger the newest counts. A reply was paid for, so none is asked for again because
        another process failed at the same.
        """
        mark: Kept | None = None
        for ledger in self._all:
            kept = ledger.find(key)
            if kept is not None and isinstance(kept.answer, Reply):
                return kept
            mark = mark or kept
        return mark

    async def store(self, key: bytes, model: str, answer: Reply | Fault, seconds: float) -> None:
        """Keep an answer in the first ledger; see `Ledger.store`."""
        if self._first is None:
            raise ValueError("there is no ledger to write")
        await self._first.store(key, model, answer, seconds)

    def close(self) -> None:
        """Close all of them."""
        self._stack.close()

    def __enter__(self) -> Self:
        """The ledgers, open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close them."""
        self.close()

    def _read_only(self, path: Path) -> list[Ledger]:
        """One more to look things up in; nothing where it is empty."""
        try:
            found = look_up(path, SCHEMA)
        except UsageError as error:
            raise UsageError(f"{error}; {_WAY_OUT}") from None
        except (OSError, ValueError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{path}: cannot be read as a ledger: {why}; {_WAY_OUT}") from None
        return [] if found is None else [self._stack.enter_context(_Shared(path, found))]


class _Shared(Ledger):
    """A ledger that others write, or wrote, and this process reads."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._quick = self._patient = connection


def _there(path: Path) -> bool:
    try:
        return path.exists() and not (path.is_file() and not path.stat().st_size)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_absent(path: Path) -> None:
    """A mistyped name would be an empty ledger, and every reply be paid for again."""
    try:
        path.stat()
    except FileNotFoundError:
        raise UsageError(
            f"--ledger {path}: no such file; of several ledgers only the first is made where it is not there"
        ) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--ledger {path}: cannot be read: {why}; {_WAY_OUT}") from None
