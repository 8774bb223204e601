"""The judge's answer to every request, by content: SQLite files, one that is written and others to read.

Rows are only ever added and the newest of a key holds, so nothing that was paid for is overwritten.
A row is committed before `store` or `keep` returns: it outlives the process, however that ends (after
a power cut the last few rows may be missing, never torn). Bodies are stored as they came, so a better
reader gets more out of old ones.

Sixteen processes may each write a ledger of their own, and the run that writes OUTPUT reads them all.
Answers of the others are not copied into the first: a later run is given the same ledgers. A lookup asks
one file after another, some 6 microseconds each, until a reply is found.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import anyio.to_thread

from ruler_cli.answer import reply_of
from ruler_cli.errors import OutputError, UsageError
from ruler_cli.ledger.database import WAIT, busy, files_of, look_up, open_files, opened, refusing
from ruler_cli.types import CallError, Kind, Reply, Request, Usage

Status = Literal["answer", "truncated", "refusal", "odd", "fault"]
"""A reply (whole, cut off, declined), a body that is no chat completion, the mark of a call given up."""
_Row = tuple[bytes, float, float, str, Status, int | None, int | None, int | None, bytes]
"""Key, Unix time, seconds, model, status, prompt, completion and cached tokens, body."""

_INSERT = (
    "INSERT INTO replies (key, at, seconds, model, status, prompt, completion, cached, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NEWEST = "SELECT status FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_FIND = "SELECT seconds, status, body FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_STATS = (
    "SELECT model, status, count(*), sum(prompt), sum(completion), sum(cached), min(at), max(at) "
    "FROM replies GROUP BY model, status ORDER BY model, status"
)
_RANKS: dict[Status | None, int] = {None: 0, "odd": 1, "fault": 2}
"""How much a status says; that of a reply says most."""
_REPLY = 3
_MANY = 64
"""Ledgers beyond which more files may be open than shells allow: three for each."""
_SETTLE = 16 << 20
"""Bytes of write-ahead log after which they are moved into the file, in a thread."""
_ROW = 16 << 10
"""Bytes of it that a row takes beside its body: the pages of table and index."""
_ANOTHER = "give another file with --ledger PATH, or keep no replies: --ledger none"
_CORRECT = "correct the --ledger, or leave it out"
_MADE = "of several ledgers only the first is made where it is not there"
_canonical = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class ModelRows:
    """One model's rows, by status, and the tokens of its replies."""

    model: str
    rows: Mapping[Status, int]
    usage: Usage


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """What a ledger holds: by model, the first and last Unix time, the bytes on disk."""

    models: tuple[ModelRows, ...] = ()
    first: float | None = None
    last: float | None = None
    size: int = 0

    @property
    def rows(self) -> dict[Status, int]:
        """How many rows there are of each status."""
        return {status: sum(one.rows.get(status, 0) for one in self.models) for status in get_args(Status)}


def key_of(model: str, params: Mapping[str, Any], request: Request) -> bytes:
    """16 bytes that stand for what the judge is asked; UsageError where a parameter is no JSON value.

    Endpoint, key and answer format are not part of it: the same question elsewhere is the same.
    """
    try:
        asked = _canonical(dict(params))
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a parameter of the judge call is no JSON value ({error})"
        raise UsageError(f"ledger: {why}; leave it out, or keep no replies: --ledger none") from None
    digest = blake2b(digest_size=16, person=b"ruler request 1")
    for part in (
        model,
        asked,
        request.system,
        request.user,
        f"{request.max_output_tokens} {request.pass_index}",
    ):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<Q", len(raw)))
        digest.update(raw)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class _File:
    """A ledger's file: `quick` never waits for other processes, `patient` does. One that is read has one."""

    path: Path
    quick: sqlite3.Connection
    patient: sqlite3.Connection


class Ledger(AbstractContextManager["Ledger"]):
    """A ledger that is read and written, and others that are only read; open until `close`.

    One thread at a time uses it, but for `keep`.
    """

    def __init__(self, path: Path | None, others: Sequence[Path] = (), *, make: bool = True) -> None:
        """Open them; the first is made where it is not there, or passed over where `make` is off.

        UsageError where another one is not there, or one cannot be used. One named twice is read once.
        """
        self._lock = threading.Lock()
        self._threads: anyio.CapacityLimiter | None = None
        self._unsettled = 0
        self._files = list[_File]()
        self._first: _File | None = None
        if len(others) > _MANY:
            open_files()
        for other in others:  # before the first is made: a mistyped name would be an empty ledger
            with refusing(f"--ledger {other}: cannot be read", _CORRECT):
                absent = not other.exists()
            if absent:
                raise UsageError(f"--ledger {other}: no such file; {_MADE}")
        with ExitStack() as stack:
            if path is not None and (make or is_there(path)):
                with refusing(f"{path}: cannot be used as a ledger", _ANOTHER):
                    # one waits for other processes, in a thread; the other never does, in the event loop
                    patient, quick = (stack.enter_context(closing(opened(path))) for _ in range(2))
                    quick.execute("PRAGMA busy_timeout = 0")
                    patient.execute("PRAGMA cache_size = -32768")  # for many at once: the index of a million
                self._first = _File(path, quick, patient)
                self._files.append(self._first)
            known = {os.path.realpath(path)} if path is not None else set()
            for other in others:
                if (real := os.path.realpath(other)) not in known:
                    known.add(real)
                    with refusing(f"{other}: cannot be read as a ledger", _CORRECT):
                        found = look_up(other)
                    if found is not None:
                        self._files.append(_File(other, stack.enter_context(closing(found)), found))
            self.close = stack.pop_all().close

    def find(self, key: bytes) -> Reply | CallError | None:
        """The answer of the first file that has a reply, else the first mark of a failed call, marked `kept`.

        Of one file the newest counts. A reply was paid for, so none is asked for again because another
        process failed at the same. None where nothing can be read as either: it is to be asked.
        """
        mark: CallError | None = None
        for file in self._files:
            for seconds, status, body in self._read(_FIND, key, file=file):
                answer = _mark_of(body) if status == "fault" else reply_of(body)
                if isinstance(answer, Reply):
                    return replace(answer, seconds=seconds or 0.0, cached=True)
                if answer is not None and status == "fault" and mark is None:
                    mark = replace(answer, cached=True)
        return mark

    async def store(self, key: bytes, model: str, answer: Reply | CallError, seconds: float = 0.0) -> None:
        """Keep an answer, as `keep` does; in a thread only where another process is writing."""
        row = _row_of(key, model, answer, seconds)
        if not self._put(self._own.quick, row):
            await self._aside(self.keep, key, model, answer, seconds)
            return
        self._unsettled += len(row[-1]) + _ROW
        if self._unsettled >= _SETTLE:
            self._unsettled = 0
            await self._aside(self._settle)

    def keep(self, key: bytes, model: str, answer: Reply | CallError, seconds: float = 0.0) -> None:
        """Keep a reply, a body that is none (a CallError of scope "call"), or a mark (of scope "group").

        `seconds` is how long the call took. It is on record when this returns, else OutputError. Any
        other CallError is a ValueError: the next run is to ask again.
        """
        with self._lock:
            if not self._put(self._own.patient, _row_of(key, model, answer, seconds)):
                raise self._stuck("written", f"another process has been writing it for {WAIT:.0f} s")

    def keep_all(self, answers: Sequence[tuple[bytes, str, Reply | CallError | None]]) -> list[Status | None]:
        """Keep what came otherwise than by calls, (key, model, answer) each, all of it or nothing.

        A reply stands over a mark, a mark over a body that is none; of two of a kind the first stays. So
        it does not matter in which order such answers come. The status that each request had before its
        answer, None where it had none; without an answer it is only looked up. Answers as for `keep`: else
        ValueError; OutputError where they cannot be written.
        """
        rows = [(key, answer and _row_of(key, model, answer, 0.0)) for key, model, answer in answers]
        patient, held = self._own.patient, list[Status | None]()
        with self._lock, self._sentence("written"):
            patient.execute("BEGIN IMMEDIATE")
            try:
                for key, row in rows:
                    found = patient.execute(_NEWEST, (key,)).fetchone()
                    held.append(found[0] if found else None)
                    if row and _RANKS.get(row[4], _REPLY) > _RANKS.get(held[-1], _REPLY):
                        patient.execute(_INSERT, row)
                patient.execute("COMMIT")
            except BaseException:
                if patient.in_transaction:  # SQLite itself gives up where a disk is full
                    patient.execute("ROLLBACK")
                raise
        return held

    def stats(self) -> LedgerStats:
        """Count what the first file holds."""
        if self._first is None:
            return LedgerStats()
        found = self._read(_STATS)
        models: dict[str, ModelRows] = {}
        for model, status, number, prompt, completion, cached, _, _ in found:
            more = Usage(prompt or 0, completion or 0, cached or 0, 0 if status == "fault" else number)
            old = models.get(model, ModelRows(model, {}, Usage()))
            models[model] = ModelRows(model, {**old.rows, status: number}, old.usage + more)
        files = files_of(Path(os.path.realpath(self._own.path)))
        return LedgerStats(
            tuple(models.values()),
            min((row[-2] for row in found), default=None),
            max((row[-1] for row in found), default=None),
            sum(file.stat().st_size for file in files if file.exists()),
        )

    def clear(self, older_than: float | None = None) -> int:
        """Remove every row of the first file, or those older than so many seconds, and give the room back."""
        before = math.inf if older_than is None else time.time() - older_than
        patient = self._own.patient
        with self._lock, self._sentence("cleared"):
            number = patient.execute("DELETE FROM replies WHERE at < ?", (before,)).rowcount
            patient.execute("VACUUM")
            patient.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return number

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    @property
    def _own(self) -> _File:
        if self._first is None:
            raise ValueError("there is no ledger to write")
        return self._first

    def _read(self, query: str, *values: bytes, file: _File | None = None) -> list[Any]:
        file = file or self._own
        try:
            return file.quick.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if not busy(error):
                raise self._stuck("read", error, file) from None
        with self._lock, self._sentence("read", file):
            # readers wait for one thing: the mending after a process was killed
            return file.patient.execute(query, values).fetchall()

    async def _aside(self, work: Callable[..., None], *args: object) -> None:
        self._threads = self._threads or anyio.CapacityLimiter(1)
        with anyio.CancelScope(shield=True):  # the reply is paid for, whatever stops the run
            await anyio.to_thread.run_sync(work, *args, limiter=self._threads)

    def _put(self, connection: sqlite3.Connection, row: _Row) -> bool:
        """Add a row; False where another process is writing."""
        try:
            connection.execute(_INSERT, row)
        except sqlite3.Error as error:
            if busy(error):
                return False
            raise self._stuck("written", error) from None
        return True

    def _settle(self) -> None:
        """Move the write-ahead log into the file; others wait only for what came meanwhile."""
        with self._lock:
            try:
                for how in ("PASSIVE", "RESTART"):
                    self._own.patient.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
            except sqlite3.Error as error:
                if not busy(error):
                    raise self._stuck("written", error) from None

    @contextmanager
    def _sentence(self, verb: str, file: _File | None = None) -> Iterator[None]:
        """Turn an error of SQLite into one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._stuck(verb, error, file) from None

    def _stuck(self, verb: str, why: object, file: _File | None = None) -> OutputError:
        path = (file or self._own).path
        return OutputError(f"{path}: the ledger cannot be {verb}: {why}; make room there, or {_ANOTHER}")


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """One judge's part of a ledger: `model` and `params` as the user gave them, part of every key.

    Without a ledger there are keys, and no answers.
    """

    ledger: Ledger | None
    model: str
    params: Mapping[str, Any]

    def key(self, request: Request) -> bytes:
        """What tells this request from every other."""
        return key_of(self.model, self.params, request)

    def find(self, key: bytes) -> Reply | CallError | None:
        """What was answered before, marked as such."""
        return None if self.ledger is None else self.ledger.find(key)

    async def keep(self, key: bytes, answer: Reply | CallError) -> None:
        """Store an answer; it is safe when this returns."""
        if self.ledger is None:
            raise ValueError("there is no ledger to write")
        await self.ledger.store(key, self.model, answer, answer.seconds if isinstance(answer, Reply) else 0.0)


def _row_of(key: bytes, model: str, answer: Reply | CallError, seconds: float) -> _Row:
    """The row of an answer that came now; ValueError where it is to be asked again and not kept."""
    # a name that comes from a command line may hold what is no text
    name = model.encode("utf-8", "backslashreplace").decode()
    if isinstance(answer, Reply):
        if not answer.body:
            raise ValueError("a reply without a body was made here and is not kept")
        status: Status = "refusal" if answer.refusal else "truncated" if answer.truncated else "answer"
        used = answer.usage
        counts = (used.prompt, used.completion, used.cached)
        return key, time.time(), seconds, name, status, *counts, answer.body
    if answer.scope == "call" and answer.body:
        return key, time.time(), seconds, name, "odd", None, None, None, answer.body
    if answer.scope != "group" or not answer.sent or answer.kind in ("budget", "interrupted"):
        raise ValueError(f"not a call that failed for good: {answer}")
    mark = {"kind": answer.kind, "reason": answer.reason, "context": answer.context}
    return key, time.time(), seconds, name, "fault", None, None, None, json.dumps(mark).encode()


def _mark_of(body: bytes) -> CallError | None:
    """The mark that a row holds; None where it cannot be read."""
    try:
        mark = json.loads(body)
        kind, reason, context = mark["kind"], mark["reason"], mark["context"]
        sizes = None if context is None else (int(context[0]), int(context[1]))
    except (ValueError, LookupError, TypeError):
        return None
    return CallError(kind, str(reason), "group", context=sizes) if kind in get_args(Kind) else None


def is_there(path: Path) -> bool:
    """Tell if a file is there, and not empty; UsageError where that cannot be said."""
    try:
        return path.exists() and not (path.is_file() and not path.stat().st_size)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
