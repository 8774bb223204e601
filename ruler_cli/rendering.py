"""INPUT and ledger → every request that the ledger lacks: what anybody may answer, by file or by batch."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import anyio

from ruler_cli.blocks import SIZE
from ruler_cli.errors import OutputError
from ruler_cli.hearing import Hearing, Item, judges_of
from ruler_cli.judges.choose import cached_only
from ruler_cli.judging import Outcome
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.observer import Observer
from ruler_cli.pool.cached_only import CachedOnly
from ruler_cli.pool.engine import Bounds, first_of, run
from ruler_cli.pool.feed import threaded
from ruler_cli.pool.halt import Halt
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Failure, Problem, Request
from ruler_cli.settings import ScoreSettings

Take = Callable[[int, bytes, Request], None]
"""Told the judge's number in `judges_of`, the key and the text of a request."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What was lacking.

    `groups` of the input: `answered` ones need nothing, of `failed` ones (by kind) nothing can be asked,
    or kept answers led to a failure; all others lack what `requests` counts, by judge in the order of
    `judges_of`. `characters` are those of the prompts, by judge. `unreadable` counts records.
    """

    groups: int
    answered: int
    failed: dict[str, int]
    unreadable: int
    requests: tuple[int, ...]
    characters: tuple[int, ...]

    @property
    def unaskable(self) -> int:
        """Groups that no judge can be asked about: nothing to judge, or too long."""
        return sum(self.failed.get(kind, 0) for kind in ("input", "too_long"))


async def render(
    settings: ScoreSettings, take: Take, observer: Observer | None = None, halt: Halt | None = None
) -> Rendered:
    """Tell `take` each request that the ledger lacks, once, in the order of INPUT; nobody is asked.

    `take` is called from the event loop; what it raises ends the rendering. A ledger that is not there is
    empty and is not made. RulerError where INPUT or the ledger cannot be read, or where `halt` is told to
    stop: what was told until then is the beginning of all of it.
    """
    observer, halt = observer or Observer(), halt or Halt()
    with ExitStack() as stack:
        rendering = _Rendering(settings, take, observer, halt, stack)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop, halt, tasks.cancel_scope)
                await rendering.all(stack)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None
    if halt.reason is not None:
        raise halt.reason
    return rendering.finish()


async def _stop(halt: Halt, scope: anyio.CancelScope) -> None:
    """At once, also where a pipe is silent: nothing is in flight that was paid for."""
    await halt.told.wait()
    scope.cancel()


class _Rendering:
    """One rendering: each group is judged by nobody, and what it lacks is told in its turn."""

    def __init__(
        self, settings: ScoreSettings, take: Take, observer: Observer, halt: Halt, stack: ExitStack
    ) -> None:
        self._settings, self._take, self._observer, self._halt = settings, take, observer, halt
        judges = judges_of(settings)
        chosen = [cached_only(judge) for judge in judges]
        ledger = _ledgers(settings, stack)
        self._seen = stack.enter_context(_Seen())
        callers = [
            CachedOnly(ReplyCache(ledger, judge.model, judge.params), halt, partial(self._wanted, seat))
            for seat, judge in enumerate(judges)
        ]
        self._hearing = Hearing(settings, chosen, callers)
        self._together = bool(settings.adaptive or settings.escalate)
        self._line: deque[_Lacking] = deque()
        self._gone = anyio.Event()
        self._groups = self._answered = self._unreadable = 0
        self._failed: dict[str, int] = {}
        self._requests, self._characters = [0] * len(judges), [0] * len(judges)

    async def all(self, stack: ExitStack) -> None:
        """Read and lay out every group."""
        settings = self._settings.input
        # in a thread, because a pipe may be silent for long and the survey of a file be long
        opened = threaded(open_input(settings, stack, self._problem) for _ in range(1))
        found = cast(Input, await opened())
        self._observer.note(found.found())
        for sentence in found.notes:
            self._observer.note(sentence)
        for sentence in found.survey.warnings() if found.survey else ():
            self._observer.warn(sentence)
        pull = found.pull()

        async def next_item() -> _Lacking | None:
            group = await pull() if self._halt.reason is None else None
            if group is None:
                self._hearing.end()
                return None
            lacking = _Lacking(self._hearing.place(group))
            self._line.append(lacking)
            return lacking

        # those that decide together wait for each other; more than one such block at a time is of no use
        await run(next_item, self._judge, self._deliver, _size, self._room, Bounds(size=SIZE))
        for sentence in () if found.survey else found.openings.sentences():
            self._observer.warn(sentence)

    def finish(self) -> Rendered:
        """What it came to."""
        requests, characters = tuple(self._requests), tuple(self._characters)
        return Rendered(self._groups, self._answered, self._failed, self._unreadable, requests, characters)

    def _problem(self, problem: Problem) -> None:
        self._unreadable += 1
        self._observer.problem(problem)

    async def _judge(self, lacking: _Lacking) -> Outcome:
        _OF.set(lacking)  # of this task and those that it starts
        return await self._hearing.judge(lacking.item)

    async def _room(self) -> None:
        while self._line and not self._together:
            self._gone = anyio.Event()
            await self._gone.wait()

    def _wanted(self, seat: int, key: bytes, request: Request) -> None:
        """Pass a request on where its group is the first of those that wait, else have it wait."""
        lacking = _OF.get()
        lacking.number += 1
        if lacking is self._line[0]:
            self._tell(seat, key, request)
        else:
            lacking.waiting.append((seat, key, request))

    def _tell(self, seat: int, key: bytes, request: Request) -> None:
        if not self._seen.add(seat, key):
            return
        self._requests[seat] += 1
        self._characters[seat] += request.size
        self._take(seat, key, request)

    async def _deliver(self, lacking: _Lacking, outcome: Outcome) -> None:
        if self._halt.reason is None:
            self._count(lacking, outcome)
        self._line.popleft()
        self._gone.set()
        if self._line:
            for each in self._line[0].waiting:
                self._tell(*each)
            self._line[0].waiting.clear()

    def _count(self, lacking: _Lacking, outcome: Outcome) -> None:
        self._groups += 1
        if lacking.number:
            return
        judged = outcome.judged
        failure: Failure | None = judged.misses[0].failure if judged.misses else None
        if judged.ballots or failure is None:
            self._answered += 1
            return
        self._failed[failure.kind] = self._failed.get(failure.kind, 0) + 1
        self._observer.failed(lacking.item.group.key, failure.kind, failure.reason)


@dataclass(slots=True)
class _Lacking:
    """A group on its way, and what it lacks while others before it are not done."""

    item: Item
    number: int = 0
    waiting: list[tuple[int, bytes, Request]] = field(default_factory=list)


_OF: ContextVar[_Lacking] = ContextVar("_OF")


def _size(lacking: _Lacking) -> int:
    return lacking.item.group.size


def _ledgers(settings: ScoreSettings, stack: ExitStack) -> Ledger | None:
    """What is answered already; a ledger that is not there is not made."""
    if settings.ledger is None:
        return None
    return stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))


class _Seen:
    """Keys that were told, in a temporary file that SQLite keeps and deletes: memory stays flat."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA cache_size = -8000")
        self._db.execute("BEGIN")
        self._db.execute("CREATE TABLE seen (key BLOB PRIMARY KEY) WITHOUT ROWID")

    def add(self, seat: int, key: bytes) -> bool:
        """Note a key; whether it is new."""
        with _room():
            found = self._db.execute("INSERT OR IGNORE INTO seen VALUES (?)", (b"%d " % seat + key,))
        return found.rowcount == 1

    def __enter__(self) -> _Seen:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE):
            raise
        raise OutputError(
            "no room on disk for what waits there; make room, or name another directory with TMPDIR"
        ) from None


__all__ = ["Rendered", "Take", "render"]
