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

import itertools
import json
import math
import os
import sqlite3
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import field, replace
from functools import partial
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import anyio.to_thread

from ruler_cli.errors import (
    OutputError,
    UsageError,
    system_errors,
)
from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.database import (
    COLUMNS,
    INSERT,
    INSERT_TEXT,
    TEXTS,
    WAIT,
    ReplyRecord,
    busy,
    digest_of,
    empty_ledger,
    file_errors,
    files_of,
    identity_of,
    open_files,
    open_ledger,
    open_to_read,
    sqlite_errors,
)
from ruler_cli.settings.suggestions import other_file
from ruler_cli.types import CallError, Kind, Reply, Request, Usage, value

RowStatus = Literal["answer", "truncated", "refusal", "odd", "fault"]
"""A reply (whole, cut off, declined), a body that is no chat completion, a call that failed for good."""
# another program may have written values of other types
_STATUS = "CAST(ifnull(status, '') AS TEXT)"
_NEWEST = (
    f"SELECT {_STATUS} FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"  # noqa: S608 - names of ours
)
_FIND = (
    f"SELECT CAST(seconds AS REAL), {_STATUS}, CAST(ifnull(body, '') AS BLOB) FROM replies "  # noqa: S608 - the same
    "WHERE key = ? ORDER BY id DESC LIMIT 1"
)
_TIMES = "SELECT count(*) FROM replies WHERE key = ?"
_STATS = (
    f"SELECT CAST(ifnull(model, '') AS TEXT), {_STATUS}, min(CAST(ifnull(at, 0) AS REAL)), "  # noqa: S608 - the same
    "max(CAST(ifnull(at, 0) AS REAL)), count(*), "
    "CAST(total(prompt) AS INTEGER), CAST(total(completion) AS INTEGER), CAST(total(cached) AS INTEGER) "
    "FROM replies GROUP BY 1, 2, (CAST(ifnull(prompt, 0) AS INTEGER) - 1) / 1000 ORDER BY 1, 2"
)
_MEASURE = "SELECT count(*), sum(length(body)) FROM replies WHERE at < ?"
_ASSIGNED = COLUMNS.replace("key", "moved(key)").replace("model", "?")
_MOVE = (
    f"INSERT INTO replies ({COLUMNS}) SELECT {_ASSIGNED} FROM replies "  # noqa: S608 - names of ours
    "WHERE model = ? AND typeof(key) = 'blob' AND moved(key) NOT IN (SELECT key FROM replies) ORDER BY id"
)
_MOVED = "DELETE FROM replies WHERE model = ? AND (seconds > 0 OR status IN ('fault', 'odd'))"
_RANKS: dict[RowStatus | None, int] = {None: 0, "odd": 1, "fault": 2}
"""Rank of each status that is no reply's: a higher one stands over a lower one."""
_REPLY = 3
"""Rank of a reply."""
_PAUSE = 0.005
"""Seconds between two looks whether another process still writes."""
_TEXTS_TOGETHER, _MOST_TEXTS, _LONGEST_TEXT = 32, 1024, 1 << 20
"""Texts that are written together; the most that wait while another process writes; characters of one."""
_ANOTHER = "give another file with --ledger PATH; a run can keep no replies: --ledger none"
_CORRECT = "correct the --ledger, or leave it out"
NO_ADDRESS = (
    "it was kept without the address of its judge, which may be the provider's; if it is that of "
    "this run, `ruler ledger assign -m NAME --api-base URL` assigns it"
)
OTHER_LAYOUT = "its prompt lost the order of the results of parallel calls"
"""Reasons for which a reply that an earlier version kept no longer answers."""
_canonical = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":")
).encode


@value
class ModelRows:
    """Number of one model's rows by status, and the tokens of its replies.

    `usages` are those of prompts of as many thousand tokens, since prices change with their length.
    """

    model: str
    rows: Mapping[RowStatus, int]
    usage: Usage
    usages: tuple[Usage, ...]


@value
class LedgerStats:
    """Rows of a ledger by model, the first and last Unix time, the bytes on disk."""

    models: tuple[ModelRows, ...]
    first: float | None
    last: float | None
    size: int

    @property
    def rows(self) -> dict[RowStatus, int]:
        """The number of rows of each status."""
        return {
            status: sum(model.rows.get(status, 0) for model in self.models)
            for status in get_args(RowStatus)
        }


def key_of(
    model: str,
    params: Mapping[str, Any],
    request: Request,
) -> bytes:
    """Return the 16 bytes that identify a request; UsageError if a parameter is not a JSON value.

    API key and answer format are no part of it, an address only as `at_address` adds it. Pictures are, by their
    original bytes and stated sizes.
    """
    try:
        canonical = _canonical(dict(params))
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a judge parameter is not JSON ({error})"
        way_out = "leave it out, or keep no replies: --ledger none"
        raise UsageError(why, way_out, place="ledger") from None
    bounds = f"{request.max_output_tokens} {request.pass_index}"
    digest = blake2b(digest_size=16, person=b"ruler request 1")
    pictures = [
        f"{place} {picture.digest}" for place, picture in request.pictures
    ]
    questions = [request.asked] if request.questions else []
    texts = (
        model,
        canonical,
        request.system,
        request.user,
        bounds,
    )
    for part in (*texts, *pictures, *questions):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(struct.pack("<Q", len(raw)))
        digest.update(raw)
    return digest.digest()


def at_address(key: bytes, address: str) -> bytes:
    """Return the key of the same request to a stand-in at an address; the key itself without one.

    It is made of the key alone, so that replies of an earlier version can be assigned to an address.
    """
    if not address:
        return key
    whole = key + address.encode()
    return blake2b(whole, digest_size=16, person=b"ruler address 1").digest()


def name_at(model: str, address: str) -> str:
    """Return the name under which a ledger keeps a model's replies: with the digest of a stand-in's address."""
    return f"{model} at {digest_of(address)}" if address else model


@value
class _File:
    """A ledger's file. `identity` is what tells it from another file that takes its place."""

    path: Path
    connection: sqlite3.Connection
    identity: tuple[int, int] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a statement or a transaction runs."""

    def errors(self, verb: str) -> AbstractContextManager[None]:
        """Turn an error of SQLite into an OutputError."""
        return sqlite_errors(self.path, verb, _ANOTHER)

    def at_once(
        self,
        verb: str,
        query: str,
        values: Sequence[Any],
    ) -> list[Any] | None:
        """Run a statement and return its rows; None if another process is writing."""
        with self.errors(verb), self.lock:
            try:
                return self.connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                if not busy(error):
                    raise
        return None

    def run(self, verb: str, query: str, *values: object) -> list[Any]:
        """Run a statement as soon as no other process is writing, and return its rows."""
        until = time.monotonic() + WAIT
        while time.monotonic() < until:
            rows = self.at_once(verb, query, values)
            if rows is not None:
                return rows
            time.sleep(_PAUSE)
        with self.errors(verb), self.lock:
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self, verb: str) -> Iterator[sqlite3.Connection]:
        """Begin a transaction as soon as no other process is writing; it holds, or none of it."""
        with self.errors(verb), self.lock, self.connection:
            self.run(verb, "BEGIN IMMEDIATE")
            yield self.connection


class Ledger(AbstractContextManager["Ledger"]):
    """A ledger that is read and written, and others that are only read; open until `close`.

    Only `keep` may be called from several threads.
    """

    def __init__(
        self,
        path: Path | None,
        others: Sequence[Path] = (),
        *,
        make: bool = True,
    ) -> None:
        """Open them. If the first is missing, it is created, or left out without `make`.

        A file named twice is opened once. UsageError if another one is missing, or one cannot be used.
        """
        self._texts = list[tuple[str, str, str]]()
        self._threads: anyio.CapacityLimiter | None = None
        if others:
            open_files()
        # before the first is created: a mistyped name would be an empty ledger
        for further in others:
            problem = f"--ledger {further}: cannot be read"
            with file_errors(problem, _CORRECT):
                absent = not further.exists()
            if absent:
                raise UsageError(
                    "no such file, and of several ledgers only the first is created",
                    other_file(str(further), "check the path"),
                    place=f"--ledger {further}",
                )
        with ExitStack() as stack:
            if path is not None and (make or is_there(path)):
                self._own = _open_to_write(path, stack)
            else:
                none = stack.enter_context(closing(empty_ledger()))
                nowhere = Path(os.devnull)
                self._own = _File(nowhere, none, identity_of(nowhere))
            self._files = [self._own]
            stack.callback(self._write_texts)
            files = {os.path.realpath(further): further for further in others}
            if path is not None:
                files.pop(os.path.realpath(path), None)
            for further in files.values():
                with file_errors(
                    f"{further}: cannot be read as a ledger", _CORRECT
                ):
                    only = open_to_read(further)
                stack.callback(only.close)
                self._files.append(_File(further, only))
            self.close = stack.pop_all().close

    def find(self, key: bytes) -> Reply | CallError | None:
        """Return the first file's reply, else the first failed call, with `cached` set; None without either.

        Of one file the newest row counts. A reply stands over a failed call of another process, since it
        is paid for.
        """
        failed: CallError | None = None
        for file in self._files:
            for seconds, status, body in file.run("read", _FIND, key):
                answer = (
                    _failed_call(body) if status == "fault" else reply_of(body)
                )
                if isinstance(answer, Reply):
                    return replace(answer, seconds=seconds or 0.0, cached=True)
                if answer is not None and status == "fault" and failed is None:
                    failed = replace(answer, cached=True)
        return failed

    def times(self, key: bytes) -> int:
        """Count the answers to a request in all files."""
        return sum(file.run("read", _TIMES, key)[0][0] for file in self._files)

    async def store(
        self,
        key: bytes,
        model: str,
        answer: Reply | CallError,
    ) -> None:
        """Store an answer as `keep` does, in a thread only if another process is writing."""
        row = _row_of(key, model, answer)
        self._refuse_vanished()
        if self._own.at_once("written", INSERT, row) is None:
            await self._in_thread(self.keep, key, model, answer)

    def keep(
        self,
        key: bytes,
        model: str,
        answer: Reply | CallError,
    ) -> None:
        """Store a reply, an unreadable body (CallError of scope "call") or a failed call (scope "group").

        The row is committed when this returns, else OutputError. Any other CallError is a ValueError: the
        next run has to ask again.
        """
        self._own.run("written", INSERT, *_row_of(key, model, answer))

    def keep_all(
        self, answers: Sequence[tuple[bytes, str, Reply | CallError | None]]
    ) -> list[RowStatus | None]:
        """Store imported answers, (key, model, answer) each, all or none. Return each key's earlier status.

        A reply stands over a failed call, a failed call over an unreadable body; of two of a kind the first
        stays. So the order of such answers does not matter. A key without an answer is only looked
        up; its status is None if there is no row. Answers as for `keep`, else ValueError; OutputError if
        they cannot be written.
        """
        self._refuse_vanished()
        rows = [
            (key, answer and _row_of(key, model, answer))
            for key, model, answer in answers
        ]
        earlier = list[RowStatus | None]()
        with self._own.transaction("written") as connection:
            for key, row in rows:
                newest = connection.execute(_NEWEST, (key,)).fetchone()
                earlier.append(newest[0] if newest else None)
                if row and _RANKS.get(row[4], _REPLY) > _RANKS.get(
                    earlier[-1], _REPLY
                ):
                    connection.execute(INSERT, row)
        return earlier

    def add_text(
        self,
        digest: str,
        kind: str,
        text: str,
    ) -> None:
        """Write a text that makes scores into the first file, at the latest when that is closed."""
        if len(text) <= _LONGEST_TEXT:
            self._texts.append((digest, kind, text))
        if len(self._texts) >= _TEXTS_TOGETHER:
            self._write_texts()

    def _write_texts(self) -> None:
        """Write the texts that wait, unless another process is writing: nothing that is paid for waits with them."""
        rows = self._texts
        if not rows:
            return
        self._texts = []
        connection = self._own.connection
        with suppress(sqlite3.Error), self._own.lock, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(TEXTS)
            connection.executemany(INSERT_TEXT, rows)
            return
        self._texts = rows[-_MOST_TEXTS:]

    def _refuse_vanished(self) -> None:
        """Raise OutputError if the file that is written was deleted or replaced."""
        written = self._own
        if identity_of(written.path) == written.identity:
            return
        # else another file would be taken for the owner of its log
        with written.lock, suppress(sqlite3.Error):
            written.connection.execute(
                "PRAGMA wal_checkpoint(TRUNCATE)"
            ).fetchall()
        problem = "the ledger was deleted or replaced during the run"
        remedy = "put it back before you run again, or what this run kept is paid for again"
        raise OutputError(problem, remedy, place=str(written.path))

    def stats(self) -> LedgerStats:
        """Count the rows of the first file."""
        models = []
        rows = self._own.run("read", _STATS)
        for model, model_rows in itertools.groupby(rows, itemgetter(0)):
            counts = Counter[RowStatus]()
            usages = []
            for (
                _,
                status,
                _,
                _,
                number,
                prompt,
                completion,
                cached,
            ) in model_rows:
                counts[status] += number
                calls = 0 if status == "fault" else number
                usages.append(Usage(prompt, completion, cached, calls))
            models.append(
                ModelRows(model, counts, sum(usages, Usage()), tuple(usages))
            )
        files = files_of(Path(os.path.realpath(self._own.path)))
        return LedgerStats(
            tuple(models),
            min((row[2] for row in rows), default=None),
            max((row[3] for row in rows), default=None),
            sum(file.stat().st_size for file in files if file.exists()),
        )

    def measure(self, older_than: float | None = None) -> tuple[int, int]:
        """Return the number of rows that `clear` would remove, and the bytes of their answers."""
        number, used = self._own.run("read", _MEASURE, _before(older_than))[0]
        return number, used or 0

    def clear(self, older_than: float | None = None) -> int:
        """Remove all rows of the first file, or those older than `older_than` seconds, and shrink it.

        Return the number of removed rows. The texts go with all rows.
        """
        written = self._own
        with written.transaction("cleared") as connection:
            before = _before(older_than)
            gone = connection.execute(
                "DELETE FROM replies WHERE at < ?", (before,)
            )
            if older_than is None:
                connection.execute("DROP TABLE IF EXISTS texts")
        written.run("cleared", "VACUUM")
        written.run("cleared", "PRAGMA wal_checkpoint(TRUNCATE)")
        return gone.rowcount

    def assign(
        self,
        model: str,
        address: str,
    ) -> int:
        """Have a model's replies answer at an address alone; return their number.

        Some that were imported answer for the model, too: their keys may be of an address already.
        """
        move = partial(at_address, address=address)
        self._own.connection.create_function(
            "moved",
            1,
            move,
            deterministic=True,
        )
        with self._own.transaction("written") as connection:
            moved = connection.execute(_MOVE, (name_at(model, address), model))
            connection.execute(_MOVED, (model,))
        return moved.rowcount

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the files; OutputError if the one that is written was deleted or replaced meanwhile."""
        try:
            if kind is None:
                self._refuse_vanished()
        finally:
            self.close()

    async def _in_thread(
        self, work: Callable[..., None], *args: object
    ) -> None:
        self._threads = self._threads or anyio.CapacityLimiter(1)
        # the reply is paid for, whatever stops the run
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(work, *args, limiter=self._threads)


def _open_to_write(path: Path, stack: ExitStack) -> _File:
    """Open a ledger, which is created if it is missing; `stack` closes it. UsageError if it is unusable."""
    with file_errors(f"{path}: cannot be used as a ledger", _ANOTHER):
        connection = stack.enter_context(closing(open_ledger(path)))
        # the event loop must not wait; for many at once: the index of a million
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA cache_size = -32768")
    return _File(path, connection, identity_of(path))


@value
class ReplyCache:
    """One judge's part of a ledger. `model` and `params`, as the user gave them, are part of every key.

    `address` is that of a stand-in for the model, whose replies never answer for the real one; else empty. Without
    a ledger there are keys, and no answers.
    """

    ledger: Ledger | None
    model: str
    params: Mapping[str, Any]
    address: str = ""

    @property
    def name(self) -> str:
        """The name of the model in the rows."""
        return name_at(self.model, self.address)

    def key(self, request: Request) -> bytes:
        """Return the key of a request. UsageError as for `key_of`."""
        return at_address(
            key_of(self.model, self.params, request), self.address
        )

    def earlier(self, request: Request) -> str:
        """Return why a reply that an earlier version kept of a request no longer answers; empty without one."""
        if self.ledger is None:
            return ""
        plain = replace(self, address="")
        before = replace(
            request, user=request.earlier() if request.earlier else ""
        )
        sources = [
            (self.address, plain, request, NO_ADDRESS),
            (before.user, self, before, OTHER_LAYOUT),
            (before.user and self.address, plain, before, OTHER_LAYOUT),
        ]
        for there, cache, asked, why in sources:
            if there and isinstance(self.find(cache.key(asked)), Reply):
                return why
        return ""

    def find(self, key: bytes) -> Reply | CallError | None:
        """Return an earlier answer, with `cached` set; None if there is none."""
        return None if self.ledger is None else self.ledger.find(key)

    def times(self, key: bytes) -> int:
        """Count the earlier answers."""
        return 0 if self.ledger is None else self.ledger.times(key)

    async def keep(
        self,
        key: bytes,
        answer: Reply | CallError,
    ) -> None:
        """Store an answer; it is committed when this returns. OutputError if it cannot be written."""
        if self.ledger is None:
            raise ValueError("there is no ledger to write")
        await self.ledger.store(key, self.name, answer)


def _before(older_than: float | None) -> float:
    """Return the Unix time of rows older than so many seconds; inf for None, which is all of them."""
    return math.inf if older_than is None else time.time() - older_than


def _row_of(
    key: bytes,
    model: str,
    answer: Reply | CallError,
) -> ReplyRecord:
    """Return the row of an answer that came now; ValueError if the request has to be asked again."""
    # a name from a command line may hold bytes that are no text
    name = model.encode("utf-8", "backslashreplace").decode()
    status: RowStatus
    counts: tuple[int | None, ...] = (None, None, None)
    seconds = 0.0
    body = answer.body
    if isinstance(answer, Reply):
        if not body:
            raise ValueError(
                "a reply of an embedded judge has no body and is not stored"
            )
        status = "truncated" if answer.truncated else "answer"
        if answer.refusal:
            status = "refusal"
        used = answer.usage
        counts = (used.prompt, used.completion, used.cached)
        seconds = answer.seconds
    elif answer.scope == "call" and body:
        status = "odd"
    else:
        passing = answer.kind in ("budget", "interrupted")
        if answer.scope != "group" or not answer.sent or passing:
            raise ValueError(f"not a call that failed for good: {answer}")
        status = "fault"
        fields = {"kind": answer.kind, "reason": answer.reason}
        body = json.dumps({**fields, "context": answer.context}).encode()
    return (
        key,
        time.time(),
        seconds,
        name,
        status,
        *counts,
        body,
    )


def _failed_call(body: bytes) -> CallError | None:
    """Parse the body of a "fault" row; None if it cannot be read."""
    try:
        fields = json.loads(body)
        kind = fields["kind"]
        reason = str(fields["reason"])
        context = fields["context"]
        sizes = context and (int(context[0]), int(context[1]))
    except (ValueError, LookupError, TypeError):
        return None
    is_kind = kind in get_args(Kind)
    return CallError(kind, reason, "group", context=sizes) if is_kind else None


def is_there(path: Path) -> bool:
    """Return whether a file exists and is not empty; UsageError if its directory cannot be read."""
    with system_errors("read", UsageError, place=str(path)):
        return path.exists() and not (
            path.is_file() and not path.stat().st_size
        )
