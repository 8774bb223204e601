"""The judge's answer to every request, by content: SQLite files, one that is written and others to read.

Rows are only added, and the newest of a key counts, so no paid reply is overwritten. A row is committed before `store`
returns: it outlives a crash of the process (after a power cut the last few rows may be missing, never torn). Bodies are
stored as they came, so a better parser can read more from old ones.

Several processes may each write a ledger of their own, and the run that writes OUTPUT reads them all. Answers of the
others are not copied into the first: a later run is given the same ledgers. A lookup reads one file after another, some
6 microseconds each, up to the first reply.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    suppress,
)
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import anyio
import anyio.to_thread

from ruler_cli.errors import (
    OutputError,
    UsageError,
)
from ruler_cli.judges.replies import reply_of
from ruler_cli.ledger.database import (
    INSERT,
    INSERT_TEXT,
    LedgerFile,
    ReplyRecord,
    digest_of,
    file_errors,
    files_of,
    identity_of,
    open_to_read,
    open_to_write,
)
from ruler_cli.types import (
    NO_USAGE,
    CallError,
    Kind,
    Reply,
    Request,
    Usage,
    value,
)

RowStatus = Literal["answer", "truncated", "refusal", "odd", "fault"]
"""A reply (whole, cut off, declined), a body that is not a chat completion, a call that failed for good."""
_NEWEST = "SELECT status FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_FIND = "SELECT seconds, status, body FROM replies WHERE key = ? ORDER BY id DESC LIMIT 1"
_TIMES = "SELECT count(*) FROM replies WHERE key = ?"
_STATS = (
    "SELECT model, status, count(*), "
    "CAST(total(prompt) AS INTEGER), CAST(total(completion) AS INTEGER), CAST(total(cached) AS INTEGER) "
    "FROM replies GROUP BY 1, 2 ORDER BY 1, 2"
)
_SPAN = "SELECT min(at), max(at) FROM replies"
_MEASURE = "SELECT count(*), sum(length(body)) FROM replies WHERE at < ?"
_RANKS = {"odd": 0, "fault": 1}
"""Rank of each status that is not a reply: a higher one wins over a lower one."""
_REPLY = 2
"""Rank of a reply."""
_MOST_TEXTS, _LONGEST_TEXT = 1024, 1 << 20
"""The most texts that wait while another process writes; characters of one."""
_CORRECT = "correct --ledger, or leave it out"
_canonical = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, separators=(",", ":")
).encode


@value
class ModelRows:
    """Number of one model's rows by status, and the tokens of its replies."""

    model: str
    rows: Counter[RowStatus]
    usage: Usage


@value
class LedgerStats:
    """Rows of a ledger by model, the first and last Unix time, the bytes on disk."""

    rows: Mapping[RowStatus, int]
    models: Sequence[ModelRows]
    first: float | None
    last: float | None
    size: int


def key_of(
    model: str,
    params: Mapping[str, Any],
    request: Request,
) -> bytes:
    """Return the 16 bytes that identify a request; UsageError if a parameter is not a JSON value.

    API key and answer format are not part of it, an address only as `ReplyCache.key` adds it. Pictures are, by their
    original bytes and stated sizes.
    """
    try:
        canonical = _canonical(dict(params))
    except (TypeError, ValueError, RecursionError) as error:
        why = f"a judge parameter is not JSON ({error})"
        remedy = "leave it out, or keep no replies: --ledger none"
        raise UsageError(why, remedy, place="ledger") from None
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


class Ledger(AbstractContextManager["Ledger"]):
    """A ledger that is read and written, and others that are only read; open until `close`."""

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
        self._threads = anyio.CapacityLimiter(1)
        further = {os.path.realpath(place): place for place in others}
        if path is not None:
            further.pop(os.path.realpath(path), None)
        with ExitStack() as stack:
            read = list[LedgerFile]()
            # before the first is created: a mistyped name would be an empty ledger
            for place in further.values():
                problem = f"--ledger {place}: cannot be read as a ledger"
                with file_errors(problem, _CORRECT):
                    file = stack.enter_context(closing(open_to_read(place)))
                read.append(file)
            written = closing(open_to_write(path, make=make))
            self._written = stack.enter_context(written)
            self._files = [self._written, *read]
            stack.callback(self._write_texts)
            self.close = stack.pop_all().close

    def find(self, key: bytes) -> Reply | CallError | None:
        """Return the first file's reply, else the first failed call, with `cached` set; None without either.

        Of one file the newest row counts. A reply stands over a failed call of another process, since it
        is paid for.
        """
        failed: CallError | None = None
        for file in self._files:
            for seconds, status, body in file.run(_FIND, key):
                if status == "fault":
                    failed = failed or _failed_call(body)
                    continue
                answer = reply_of(body)
                if isinstance(answer, Reply):
                    return replace(answer, seconds=seconds or 0.0, cached=True)
        return failed and replace(failed, cached=True)

    def times(self, key: bytes) -> int:
        """Count the answers to a request in all files."""
        return sum(file.run(_TIMES, key)[0][0] for file in self._files)

    async def store(
        self,
        key: bytes,
        model: str,
        answer: Reply | CallError,
    ) -> None:
        """Store a reply, an unreadable body (CallError of scope "call") or a failed call (scope "group").

        The row is committed when this returns, else OutputError. Any other CallError is a ValueError: the
        next run has to ask again. It waits in a thread if another process is writing.
        """
        self._refuse_vanished()
        row = _row_of(key, model, answer)
        try:
            with self._written.lock:
                self._written.connection.execute(INSERT, row)
        except sqlite3.Error:
            # the reply is paid for, whatever stops the run
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(
                    self._written.run, INSERT, *row, limiter=self._threads
                )

    def keep_all(
        self, answers: Sequence[tuple[bytes, str, Reply | CallError]]
    ) -> int:
        """Store imported answers, (key, model, answer) each, all or none; return the number of new replies.

        A reply stands over a failed call, a failed call over an unreadable body; of two of a kind the first
        stays. So the order of such answers does not matter. Answers as for `store`, else ValueError; OutputError if
        they cannot be written.
        """
        self._refuse_vanished()
        rows = [_row_of(key, model, answer) for key, model, answer in answers]
        new = 0
        with self._written.transaction() as connection:
            for row in rows:
                newest = connection.execute(_NEWEST, row[:1]).fetchone()
                rank = _RANKS.get(row[4], _REPLY)
                if newest is None or rank > _RANKS.get(newest[0], _REPLY):
                    connection.execute(INSERT, row)
                    new += rank == _REPLY
        return new

    def add_text(
        self,
        digest: str,
        kind: str,
        text: str,
    ) -> None:
        """Write a text that makes scores into the first file, at the latest when that is closed."""
        if len(text) <= _LONGEST_TEXT:
            self._texts.append((digest, kind, text))
        self._write_texts()

    def _write_texts(self) -> None:
        """Write the texts that wait, unless another process is writing: nothing that is paid for waits with them."""
        if not self._texts:
            return
        connection = self._written.connection
        with suppress(sqlite3.Error), self._written.lock, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(INSERT_TEXT, self._texts)
            self._texts.clear()
        del self._texts[:-_MOST_TEXTS]

    def _refuse_vanished(self) -> None:
        """Raise OutputError if the file that is written was deleted or replaced."""
        written = self._written
        if identity_of(written.path) == written.identity:
            return
        # else another file would be taken for the owner of its log
        with written.lock, suppress(sqlite3.Error):
            written.connection.execute(
                "PRAGMA wal_checkpoint(TRUNCATE)"
            ).fetchall()
        problem = "the ledger was deleted or replaced during the run"
        remedy = "put it back before you run again, or the replies of this run are paid for again"
        raise OutputError(problem, remedy, place=str(written.path))

    def stats(self) -> LedgerStats:
        """Count the rows of the first file."""
        totals = Counter[RowStatus](dict.fromkeys(get_args(RowStatus), 0))
        models = dict[str, ModelRows]()
        for model, status, number, prompt, answer, cached in self._written.run(
            _STATS
        ):
            calls = 0 if status == "fault" else number
            before = models.get(model, ModelRows(model, Counter(), NO_USAGE))
            before.rows[status] += number
            totals[status] += number
            usage = before.usage + Usage(prompt, answer, cached, calls)
            models[model] = replace(before, usage=usage)
        [(first, last)] = self._written.run(_SPAN)
        files = files_of(Path(os.path.realpath(self._written.path)))
        size = sum(file.stat().st_size for file in files if file.exists())
        return LedgerStats(totals, [*models.values()], first, last, size)

    def measure(self, older_than: float | None = None) -> tuple[int, int]:
        """Return the number of rows that `clear` would remove, and the bytes of their answers."""
        number, used = self._written.run(_MEASURE, _before(older_than))[0]
        return number, used or 0

    def clear(self, older_than: float | None = None) -> int:
        """Remove all rows of the first file, or those older than `older_than` seconds, and shrink it.

        Return the number of removed rows. The texts go with all rows.
        """
        written = self._written
        with written.transaction() as connection:
            before = _before(older_than)
            gone = connection.execute(
                "DELETE FROM replies WHERE at < ?", (before,)
            )
            if older_than is None:
                connection.execute("DELETE FROM texts")
        written.run("VACUUM")
        written.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return gone.rowcount

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the files; OutputError if the one that is written was deleted or replaced meanwhile."""
        try:
            if kind is None:
                self._refuse_vanished()
        finally:
            self.close()


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
        """The name of the model in the rows, with the digest of a stand-in's address."""
        if not self.address:
            return self.model
        return f"{self.model} at {digest_of(self.address)}"

    def key(self, request: Request) -> bytes:
        """Return the key of a request, or of the same request to a stand-in. UsageError as for `key_of`."""
        key = key_of(self.model, self.params, request)
        if not self.address:
            return key
        whole = key + self.address.encode()
        digest = blake2b(whole, digest_size=16, person=b"ruler address 1")
        return digest.digest()

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
        assert self.ledger is not None  # noqa: S101 - keys alone keep nothing
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
    # a name from a command line may hold bytes that are not text
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
    with suppress(ValueError, LookupError, TypeError):
        fields = json.loads(body)
        kind = fields["kind"]
        reason = str(fields["reason"])
        if sizes := fields["context"]:
            limit, actual = map(int, sizes)
            sizes = limit, actual
        if kind in get_args(Kind):
            return CallError(kind, reason, "group", context=sizes)
    return None
