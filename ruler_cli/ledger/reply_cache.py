"""The judge's answer to every request, by content: SQLite files, one that is written and others to read.

Rows are only added, and the newest of a key counts, so no paid reply is overwritten.
A row is committed before `store` or `keep` returns: it outlives a crash of the process (after a power cut
the last few rows may be missing, never torn). Bodies are stored as they came, so a better parser gets more
out of old ones.

Sixteen processes may each write a ledger of their own, and the run that writes OUTPUT reads them all.
Answers of the others are not copied into the first: a later run is given the same ledgers. A lookup reads
one file after another, some 6 microseconds each, up to the first reply.
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
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import anyio.to_thread

from ruler_cli.errors import (
    OutputError,
    RulerError,
    Sentence,
    UsageError,
    system_errors,
)
from ruler_cli.ledger.database import (
    WAIT,
    TextWriter,
    append_rows,
    busy,
    file_errors,
    files_of,
    identity_of,
    open_files,
    open_ledger,
    open_to_read,
    remedy,
    rows_since,
)
from ruler_cli.settings.suggestions import other_file
from ruler_cli.types import CallError, Kind, Reply, Request, Usage, reply_of

RowStatus = Literal["answer", "truncated", "refusal", "odd", "fault"]
"""A reply (whole, cut off, declined), a body that is no chat completion, a call that failed for good."""
_Row = tuple[Any, ...]
"""Key, Unix time, seconds, model, status, prompt, completion and cached tokens, body."""

_INSERT = (
    "INSERT INTO replies (key, at, seconds, model, status, prompt, completion, cached, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NEWEST = "SELECT status FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_FIND = (
    "SELECT seconds, status, body FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
)
_STATS = (
    "SELECT model, status, count(*), sum(prompt), sum(completion), sum(cached), min(at), max(at) "
    "FROM replies GROUP BY model, status ORDER BY model, status"
)
_MEASURE = "SELECT count(*), sum(length(body)) FROM replies WHERE at < ?"
_RANKS: dict[RowStatus | None, int] = {None: 0, "odd": 1, "fault": 2}
"""Rank of each status that is no reply's: a higher one stands over a lower one."""
_REPLY = 3
"""Rank of a reply."""
_ANOTHER = Sentence(
    "give another file with {ledger:PATH}; a run can keep no replies: {ledger:none}"
)
_CORRECT = Sentence("correct the {ledger}, or leave it out")
_CREATED = "of several ledgers only the first is created"
_canonical = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class ModelRows:
    """Number of one model's rows by status, and the tokens of its replies."""

    model: str
    rows: Mapping[RowStatus, int]
    usage: Usage


@dataclass(frozen=True, slots=True)
class LedgerStats:
    """Rows of a ledger by model, the first and last Unix time, the bytes on disk."""

    models: tuple[ModelRows, ...] = ()
    first: float | None = None
    last: float | None = None
    size: int = 0

    @property
    def rows(self) -> dict[RowStatus, int]:
        """The number of rows of each status."""
        return {
            status: sum(one.rows.get(status, 0) for one in self.models)
            for status in get_args(RowStatus)
        }


def key_of(model: str, params: Mapping[str, Any], request: Request) -> bytes:
    """Return the 16 bytes that identify a request; UsageError if a parameter is no JSON value.

    Endpoint, API key and answer format are no part of it.
    """
    try:
        canonical = _canonical(dict(params))
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a judge parameter is not JSON ({error})"
        way_out = Sentence("leave it out, or keep no replies: {ledger:none}")
        raise UsageError(why, way_out, place="ledger") from None
    bounds = f"{request.max_output_tokens} {request.pass_index}"
    digest = blake2b(digest_size=16, person=b"ruler request 1")
    for part in (model, canonical, request.system, request.user, bounds):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<Q", len(raw)))
        digest.update(raw)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class _File:
    """A ledger's file: `quick` never waits for other processes, `patient` does.

    Both are the same connection if the file is only read. `identity` is what tells it from another file that
    takes its place, `last` the id of its last row when it was opened, at the Unix time `opened`.
    """

    path: Path
    quick: sqlite3.Connection
    patient: sqlite3.Connection
    identity: tuple[int, int] | None = None
    last: int = 0
    opened: float = 0.0

    @property
    def in_place(self) -> bool:
        """Tell if its path still leads to it."""
        return identity_of(self.path) == self.identity


class Ledger(AbstractContextManager["Ledger"]):
    """A ledger that is read and written, and others that are only read; open until `close`.

    Only `keep` may be called from several threads.
    """

    def __init__(
        self, path: Path | None, others: Sequence[Path] = (), *, make: bool = True
    ) -> None:
        """Open them. If the first is missing, it is created, or left out without `make`.

        A file named twice is opened once. UsageError if another one is missing, or one cannot be used.
        """
        self._lock = threading.Lock()
        self._threads: anyio.CapacityLimiter | None = None
        self._files = list[_File]()
        self._first: _File | None = None
        self.texts: TextWriter | None = None
        if others:
            open_files()
        # before the first is created: a mistyped name would be an empty ledger
        for other in others:
            problem = Sentence("{ledger:{other}}: cannot be read", other=other)
            with file_errors(problem, _CORRECT):
                absent = not other.exists()
            if absent:
                advice = other_file(str(other), "check the path")
                missing = f"no such file, and {_CREATED}"
                raise UsageError(missing, advice, option="ledger", value=other)
        with ExitStack() as stack:
            if path is not None and (make or is_there(path)):
                first = self._first = _open_to_write(path, stack)
                self._files.append(first)
                texts = closing(TextWriter(first.quick, first.patient))
                self.texts = stack.enter_context(texts)
            known = set() if path is None else {os.path.realpath(path)}
            for other in others:
                real = os.path.realpath(other)
                if real in known:
                    continue
                known.add(real)
                with file_errors(f"{other}: cannot be read as a ledger", _CORRECT):
                    only = open_to_read(other)
                if only is not None:
                    stack.callback(only.close)
                    self._files.append(_File(other, only, only))
            self._open = stack.pop_all()
            self.close = self._open.close

    def find(self, key: bytes) -> Reply | CallError | None:
        """Return the first file's reply, else the first failed call, with `cached` set; None without either.

        Of one file the newest row counts. A reply stands over a failed call of another process, since it
        is paid for.
        """
        failed: CallError | None = None
        for file in self._files:
            for seconds, status, body in self._read(_FIND, key, file=file):
                answer = _failed_call(body) if status == "fault" else reply_of(body)
                if isinstance(answer, Reply):
                    return replace(answer, seconds=seconds or 0.0, cached=True)
                if answer is not None and status == "fault" and failed is None:
                    failed = replace(answer, cached=True)
        return failed

    async def store(
        self, key: bytes, model: str, answer: Reply | CallError, seconds: float = 0.0
    ) -> None:
        """Store an answer as `keep` does, in a thread only if another process is writing."""
        row = _row_of(key, model, answer, seconds)
        if not self._own.in_place:
            await self._in_thread(self._move, row)
        if not self._insert(self._own.quick, row):
            await self._in_thread(self.keep, key, model, answer, seconds)

    def keep(
        self, key: bytes, model: str, answer: Reply | CallError, seconds: float = 0.0
    ) -> None:
        """Store a reply, an unreadable body (CallError of scope "call") or a failed call (scope "group").

        `seconds` is the time of the call. The row is committed when this returns, else OutputError. Any
        other CallError is a ValueError: the next run has to ask again.
        """
        row = _row_of(key, model, answer, seconds)
        with self._lock:
            if not self._insert(self._own.patient, row):
                why = f"another process has been writing it for {WAIT:.0f} s"
                raise self._error("written", why)

    def keep_all(
        self, answers: Sequence[tuple[bytes, str, Reply | CallError | None]]
    ) -> list[RowStatus | None]:
        """Store imported answers, (key, model, answer) each, all or none. Return each key's earlier status.

        A reply stands over a failed call, a failed call over an unreadable body; of two of a kind the first
        stays. So the order of such answers does not matter. A key without an answer is only looked
        up; its status is None if there is no row. Answers as for `keep`, else ValueError; OutputError if
        they cannot be written.
        """
        if not self._own.in_place:
            self._move()
        rows = [
            (key, answer and _row_of(key, model, answer, 0.0))
            for key, model, answer in answers
        ]
        patient = self._own.patient
        earlier = list[RowStatus | None]()
        with self._lock, self._output_errors("written"), patient:
            patient.execute("BEGIN IMMEDIATE")
            for key, row in rows:
                newest = patient.execute(_NEWEST, (key,)).fetchone()
                earlier.append(newest[0] if newest else None)
                if row and _RANKS.get(row[4], _REPLY) > _RANKS.get(earlier[-1], _REPLY):
                    patient.execute(_INSERT, row)
        return earlier

    def _move(self, *more: _Row) -> None:
        """Bring the replies of this run, and `more`, into another file, and raise OutputError.

        The file that was deleted stays readable while it is open. Its place is taken if that is free or holds
        a ledger, else a file beside it. What is stored afterwards goes there too.
        """
        with self._lock:
            old = self._own
            if old.in_place:  # another thread has moved them
                return
            with self._output_errors("read"):
                rows = [*rows_since(old.patient, old.last, old.opened), *more]
            with suppress(
                sqlite3.Error
            ):  # else another file would be taken for the owner of its log
                old.patient.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            lost = f"{old.path}: the ledger was deleted or replaced during the run"
            beside = old.path.with_name(f"{old.path.name}.saved")
            for path in (old.path, beside):
                with suppress(RulerError):
                    append_rows(path, rows)
                    self._first = self._files[0] = _open_to_write(path, self._open)
                    break
            else:
                none = f"{lost}, and no file can be created in its place"
                raise OutputError(none, _ANOTHER)
            if rows:
                # the same command would name another program's file
                resumable = path == old.path
                others = (
                    ""
                    if resumable
                    else Sentence("go on with {ledger:{path}}", path=path)
                )
                error = OutputError(f"{lost}; what this run kept is in {path}", others)
                error.resumable = resumable
                raise error

    def stats(self) -> LedgerStats:
        """Count the rows of the first file."""
        if self._first is None:
            return LedgerStats()
        rows = self._read(_STATS)
        models: dict[str, ModelRows] = {}
        for model, status, number, prompt, completion, cached, _, _ in rows:
            calls = 0 if status == "fault" else number
            more = Usage(prompt or 0, completion or 0, cached or 0, calls)
            old = models.get(model, ModelRows(model, {}, Usage()))
            counts = {**old.rows, status: number}
            models[model] = ModelRows(model, counts, old.usage + more)
        files = files_of(Path(os.path.realpath(self._own.path)))
        return LedgerStats(
            tuple(models.values()),
            min((row[-2] for row in rows), default=None),
            max((row[-1] for row in rows), default=None),
            sum(file.stat().st_size for file in files if file.exists()),
        )

    def measure(self, older_than: float | None = None) -> tuple[int, int]:
        """Return the number of rows that `clear` would remove, and the bytes of their answers."""
        number, used = self._read(_MEASURE, _before(older_than))[0]
        return number, used or 0

    def clear(self, older_than: float | None = None) -> int:
        """Remove all rows of the first file, or those older than `older_than` seconds, and shrink it.

        Return the number of removed rows. The texts go with all rows.
        """
        before = _before(older_than)
        patient = self._own.patient
        with self._lock, self._output_errors("cleared"):
            number = patient.execute(
                "DELETE FROM replies WHERE at < ?", (before,)
            ).rowcount
            if older_than is None:
                patient.execute("DROP TABLE IF EXISTS texts")
            patient.execute("VACUUM")
            patient.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return number

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the files; OutputError if the one that is written was deleted or replaced meanwhile."""
        try:
            if kind is None and self._first is not None and not self._first.in_place:
                self._move()
        finally:
            self.close()

    @property
    def _own(self) -> _File:
        if self._first is None:
            raise ValueError("there is no ledger to write")
        return self._first

    def _read(
        self, query: str, *values: bytes | float, file: _File | None = None
    ) -> list[Any]:
        file = file or self._own
        try:
            return file.quick.execute(query, values).fetchall()
        except sqlite3.Error as error:
            if not busy(error):
                raise self._error("read", error, file) from None
        with self._lock, self._output_errors("read", file):
            # readers wait for one thing: the recovery after a process was killed
            return file.patient.execute(query, values).fetchall()

    async def _in_thread(self, work: Callable[..., None], *args: object) -> None:
        self._threads = self._threads or anyio.CapacityLimiter(1)
        with anyio.CancelScope(
            shield=True
        ):  # the reply is paid for, whatever stops the run
            await anyio.to_thread.run_sync(work, *args, limiter=self._threads)

    def _insert(self, connection: sqlite3.Connection, row: _Row) -> bool:
        """Add a row. Return False if another process is writing."""
        try:
            connection.execute(_INSERT, row)
        except sqlite3.Error as error:
            if busy(error):
                return False
            raise self._error("written", error) from None
        return True

    @contextmanager
    def _output_errors(self, verb: str, file: _File | None = None) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(verb, error, file) from None

    def _error(self, verb: str, why: object, file: _File | None = None) -> OutputError:
        path = (file or self._own).path
        problem = f"the ledger cannot be {verb}: {why}"
        return OutputError(problem, remedy(why, _ANOTHER, room=True), place=str(path))


def _open_to_write(path: Path, stack: ExitStack) -> _File:
    """Open a ledger, which is created if it is missing; `stack` closes it. UsageError if it is unusable."""
    with file_errors(f"{path}: cannot be used as a ledger", _ANOTHER):
        # one waits for other processes, in a thread; the other never does, in the event loop
        patient, quick = (
            stack.enter_context(closing(open_ledger(path))) for _ in range(2)
        )
        quick.execute("PRAGMA busy_timeout = 0")
        patient.execute(
            "PRAGMA cache_size = -32768"
        )  # for many at once: the index of a million
        for connection in (
            patient,
            quick,
        ):  # opens all files: what is deleted later can still be read
            last = (
                connection.execute("SELECT max(id) FROM replies").fetchall()[0][0] or 0
            )
    return _File(path, quick, patient, identity_of(path), last, time.time())


@dataclass(frozen=True, slots=True)
class ReplyCache:
    """One judge's part of a ledger. `model` and `params`, as the user gave them, are part of every key.

    Without a ledger there are keys, and no answers.
    """

    ledger: Ledger | None
    model: str
    params: Mapping[str, Any]

    def key(self, request: Request) -> bytes:
        """Return the key of a request. UsageError as for `key_of`."""
        return key_of(self.model, self.params, request)

    def find(self, key: bytes) -> Reply | CallError | None:
        """Return an earlier answer, with `cached` set; None if there is none."""
        return None if self.ledger is None else self.ledger.find(key)

    async def keep(self, key: bytes, answer: Reply | CallError) -> None:
        """Store an answer; it is committed when this returns. OutputError if it cannot be written."""
        if self.ledger is None:
            raise ValueError("there is no ledger to write")
        await self.ledger.store(
            key,
            self.model,
            answer,
            answer.seconds if isinstance(answer, Reply) else 0.0,
        )


def _before(older_than: float | None) -> float:
    """Return the Unix time of rows older than so many seconds; inf for None, which is all of them."""
    return math.inf if older_than is None else time.time() - older_than


def _row_of(key: bytes, model: str, answer: Reply | CallError, seconds: float) -> _Row:
    """Return the row of an answer that came now; ValueError if the request has to be asked again."""
    # a name from a command line may hold bytes that are no text
    name = model.encode("utf-8", "backslashreplace").decode()
    status: RowStatus
    counts: tuple[int | None, ...] = (None, None, None)
    body = answer.body
    if isinstance(answer, Reply):
        if not body:
            raise ValueError(
                "a reply of an embedded judge has no body and is not stored"
            )
        whole: RowStatus = "truncated" if answer.truncated else "answer"
        status = "refusal" if answer.refusal else whole
        used = answer.usage
        counts = (used.prompt, used.completion, used.cached)
    elif answer.scope == "call" and body:
        status = "odd"
    else:
        passing = answer.kind in ("budget", "interrupted")
        if answer.scope != "group" or not answer.sent or passing:
            raise ValueError(f"not a call that failed for good: {answer}")
        status = "fault"
        fields = {"kind": answer.kind, "reason": answer.reason}
        body = json.dumps({**fields, "context": answer.context}).encode()
    return (key, time.time(), seconds, name, status, *counts, body)


def _failed_call(body: bytes) -> CallError | None:
    """Parse the body of a "fault" row; None if it cannot be read."""
    try:
        fields = json.loads(body)
        kind = fields["kind"]
        reason = fields["reason"]
        context = fields["context"]
        sizes = None if context is None else (int(context[0]), int(context[1]))
    except (ValueError, LookupError, TypeError):
        return None
    return (
        CallError(kind, str(reason), "group", context=sizes)
        if kind in get_args(Kind)
        else None
    )


def is_there(path: Path) -> bool:
    """Tell if a file exists and is not empty; UsageError if its directory cannot be read."""
    with system_errors("read", UsageError, place=str(path)):
        return path.exists() and not (path.is_file() and not path.stat().st_size)
