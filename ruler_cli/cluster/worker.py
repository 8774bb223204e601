"""Work on a node of Ray: a shard is scored, and replies come back as rows of a ledger."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ruler_cli import __version__
from ruler_cli.errors import CapReached, RulerError, UsageError
from ruler_cli.ledger import Ledger
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.pool.halt import Halt
from ruler_cli.score import score
from ruler_cli.settings import PoolSettings, ScoreSettings
from ruler_cli.shard import Shard

VERSION = f"ruler {__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"
"""The same at both ends, which exchange values of their own."""
_ROWS = 2_000
"""Rows of a ledger that go between two nodes at once."""
_PATIENCE = 60.0
"""Seconds that another process's write to the ledger is waited for."""
_COLUMNS = "key, at, seconds, model, status, prompt, completion, cached, body"

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """Orders to all workers: how a shard is scored, the driver's node and version, the judges' keys.

    `files` are copies, as parts in Ray's store, for nodes without these files; `size` is INPUT's. `known`:
    copies of the ledgers that exist are among them.
    """

    settings: ScoreSettings
    home: str
    version: str
    size: int
    environment: Mapping[str, str] = field(repr=False)
    files: Mapping[str, list[Any]] = field(default_factory=dict)
    known: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """State of a shard: counts so far, rows of a ledger elsewhere, the reason why it was stopped.

    `lacks`: what is not on this node.
    """

    summary: Summary = field(default_factory=Summary)
    status: Status = field(default_factory=Status)
    rows: Sequence[Row] = ()
    stopped: RulerError | None = None
    lacks: Literal["", "input", "ledgers"] = ""


class Worker(Observer):
    """Scores shards, one at a time; Ray makes an actor of it."""

    def __init__(self) -> None:
        """It knows nothing before the first shard."""
        self._report, self._after = Report(), 0
        self._own: Path | None = None
        self._halt: Halt | None = None

    async def score(self, job: Job, shard: Shard | None, limits: PoolSettings) -> Report:
        """Score a shard (None: all of INPUT) within these limits."""
        if job.version != VERSION:
            why = f"a worker has {VERSION}, this machine {job.version}; install the same everywhere"
            return Report(stopped=UsageError(f"--engine ray: {why}"))
        for name, value in job.environment.items():
            os.environ.setdefault(name, value)
        self._report, self._after, self._halt = Report(), 0, Halt()
        with tempfile.TemporaryDirectory(prefix="ruler-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            self._own = None if node() == job.home else folder / "ledger.sqlite"
            if self._own is not None and not job.known:  # a node that joined late would pay again
                return Report(lacks="ledgers")
            settings = await self._here(job, folder)
            if settings is None:
                return Report(lacks="input")
            stopped: RulerError | None
            try:
                given = replace(settings, input=replace(settings.input, shard=shard), pool=limits)
                done = await score(given, self, self._halt)
            except RulerError as error:
                stopped = error
            else:
                self._report = Report(done.summary)
                stopped = None if isinstance(done.stopped, CapReached) else done.stopped
            return replace(self._report, rows=self._rows(-1), stopped=stopped)

    async def news(self, after: int) -> Report:
        """Return how the shard stands, and rows of this worker's own ledger behind the one of that id."""
        self._after = after
        return replace(self._report, rows=self._rows(_ROWS))

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        if self._halt is not None:
            self._halt.now(RulerError("stopped by the command"))

    def tick(self, summary: Summary, status: Status) -> None:
        """Keep counts and status for `news`."""
        self._report = Report(summary, status)

    async def _here(self, job: Job, folder: Path) -> ScoreSettings | None:
        """Return a shard's settings with the files of this node; None if INPUT is not among them."""
        output, source = folder / "out.jsonl", job.settings.input.source
        output.symlink_to(os.devnull)
        settings = replace(job.settings, output=str(output), failed=None)
        if size_of(source) != job.size:
            copy = await _fetched(job, source, folder)
            if copy is None:
                return None
            settings = replace(settings, input=replace(settings.input, source=str(copy)))
        if self._own is None:
            return settings
        Ledger(self._own).close()
        known = [await _fetched(job, str(path), folder) for path in ledgers(settings)]
        return replace(settings, ledger=self._own, ledgers=tuple(path for path in known if path is not None))

    def _rows(self, most: int) -> list[Row]:
        if self._own is None or not self._own.exists():
            return []
        with closing(sqlite3.connect(self._own)) as ledger:
            query = f"SELECT id, {_COLUMNS} FROM replies WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608
            return ledger.execute(query, (self._after, most)).fetchall()


def ledgers(settings: ScoreSettings) -> list[Path]:
    """Return the ledgers of a run, the one that is written first."""
    return [path for path in (settings.ledger, *settings.ledgers) if path is not None]


def copy_ledger(path: Path, models: Sequence[str], copy: Path) -> None:
    """Copy the rows of a ledger that are of these models."""
    Ledger(copy).close()
    with closing(sqlite3.connect(copy)) as ledger, ledger:
        ledger.execute("ATTACH ? AS whole", (str(path),))
        marks = ", ".join("?" * len(models))
        ledger.execute(
            f"INSERT INTO replies ({_COLUMNS}) SELECT {_COLUMNS} FROM whole.replies "  # noqa: S608
            f"WHERE model IN ({marks}) ORDER BY id",
            models,
        )


def keep_rows(path: Path, rows: Sequence[Row]) -> None:
    """Keep rows of a worker's ledger in the user's."""
    values = ", ".join("?" * (len(rows[0]) - 1))
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as ledger, ledger:
        query = f"INSERT INTO replies ({_COLUMNS}) VALUES ({values})"  # noqa: S608
        ledger.executemany(query, [row[1:] for row in rows])


async def _fetched(job: Job, path: str, folder: Path) -> Path | None:
    """Return this node's copy of a file; None if none was sent."""
    if path not in job.files:
        return None
    at = list(job.files).index(path)
    copy = folder.joinpath(f"{at}-{path.rpartition('/')[2]}")
    with copy.open("wb") as file:
        for part in job.files[path]:
            file.write(await part)
    return copy


def size_of(source: str) -> int:
    """Return the bytes of a file, -1 for a directory, 0 for what is not on this machine."""
    path = Path(source)
    return path.stat().st_size if path.is_file() else -int(path.is_dir())


def node() -> str:
    """Return the node of this process, as Ray calls it."""
    import ray

    return str(ray.get_runtime_context().get_node_id())
