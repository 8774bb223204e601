"""A worker: the judges of a run, asked for the groups that the driver brings."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from ruler_cli import __version__
from ruler_cli.cluster.chunk import Chunk, Judged, bare
from ruler_cli.cluster.messages import Heard, News, Parcel, Room, Snapshot, Stop
from ruler_cli.cluster.packing import packed as pack
from ruler_cli.cluster.packing import unpacked
from ruler_cli.cluster.shared import REPEATED, FarShelf, Line, SharedClaims, SharedLimits
from ruler_cli.cluster.source import body_of
from ruler_cli.errors import RulerError, UnreadableError, UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.hearing import Hearing, Item, judges_of
from ruler_cli.holding import slim
from ruler_cli.judges.choose import Chosen, choose
from ruler_cli.judging import Outcome
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.caller import Caller
from ruler_cli.pool.engine import together
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.panel import Panel
from ruler_cli.pool.pool import part_of_a_pool
from ruler_cli.settings import JudgeSettings, ScoreSettings


@dataclass(frozen=True, slots=True)
class Brief:
    """What a worker is told at its start.

    `home` is the driver's node: a worker there opens the ledger itself. `environment` are the variables
    that its judges need, keys among them. `version` is the driver's, of ruler and Python.
    """

    settings: ScoreSettings
    reader: Reader
    home: str
    limited: bool
    began: float
    environment: Mapping[str, str] = field(repr=False)
    version: str


def version() -> str:
    """What both ends must have alike, since they exchange values of their own."""
    return f"ruler {__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"


def here() -> str:
    """The node of this process, as Ray calls it."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


class Worker:
    """Judges chunks, many at once; what it is, Ray makes an actor of."""

    async def begin(self, packed: bytes) -> str | RulerError:
        """Open the judges: this worker's process, or why it cannot be used."""
        brief: Brief = pickle.loads(packed)  # noqa: S301 - from the driver of this run
        if brief.version != version():
            return UsageError(
                f"--engine ray: a worker has {version()}, this machine {brief.version}; "
                "install the same everywhere"
            )
        for name, value in brief.environment.items():
            os.environ.setdefault(name, value)
        try:
            await self._open(brief)
        except RulerError as error:
            return error
        return str(os.getpid())

    async def _open(self, brief: Brief) -> None:
        settings = brief.settings
        judges = judges_of(settings)
        chosen = [choose(judge) for judge in judges]
        self._opened, self._sent, self._seen = AsyncExitStack(), 0, 0
        for found in chosen:
            await self._opened.enter_async_context(found.judge)
        kept = settings.ledger if not all(found.embedded for found in chosen) else None
        near = kept is not None and here() == brief.home
        ledger = (
            self._opened.enter_context(Ledger(kept, settings.ledgers)) if kept is not None and near else None
        )
        self._line, budget = Line(Halt()), Budget()
        callers = [
            self._caller(brief, seat, judge, found, budget, ledger)
            for seat, (judge, found) in enumerate(zip(judges, chosen, strict=True))
        ]
        self._line.gates = [caller.gate for caller in callers]
        self._panel = Panel(callers, [found.price for found in chosen], self._line.halt)
        self._reader = brief.reader
        self._together = settings.adaptive or settings.escalate is not None
        self._hearing = Hearing(settings, chosen, callers, self._heard if settings.debug else None)
        self._brought = anyio.Event()
        self._beside = [
            asyncio.create_task(self._report(self._line.halt)),
            asyncio.create_task(self._rooms()),
        ]

    async def _report(self, halt: Halt) -> None:
        """Tell the run that it is to stop, where this worker found that out."""
        await halt.told.wait()
        if halt.reason is not None:
            self._line.tell(Stop(halt.reason))

    def _caller(
        self,
        brief: Brief,
        seat: int,
        judge: JudgeSettings,
        found: Chosen,
        budget: Budget,
        ledger: Ledger | None,
    ) -> Caller:
        settings, keeper = brief.settings, None
        if settings.ledger is not None and not found.embedded:
            keeper = self._keeper(ledger, seat, judge, brief.began)
        claims = SharedClaims(self._line, seat, keeper, far=ledger is None) if keeper is not None else None
        shared = SharedLimits(self._line, seat, brief.limited)
        return part_of_a_pool(found, judge, settings.pool, self._line.halt, budget, keeper, shared, claims)

    def _keeper(self, ledger: Ledger | None, seat: int, judge: JudgeSettings, began: float) -> ReplyCache:
        if ledger is None:
            return FarShelf(None, judge.model, judge.params, self._line, seat)
        return ReplyCache(ledger, judge.model, judge.params)

    async def judge(self, block: Any, row: int, repeated: bool) -> bytes:
        """Judge a chunk: its groups, bare, with what became of them; nothing where the run stops for it.

        `repeated`: a worker ended over it.
        """
        REPEATED.set(repeated)
        judged: Judged = []
        try:
            groups = list(Chunk.unpacked(body_of(block, row)).read(self._reader))
        except UnreadableError as error:
            reason = UsageError(f"the input changed while it was read ({error}); run again when it is whole")
            self._line.tell(Stop(reason))
            return pack((judged, self._snapshot()))
        items = [self._hearing.place(group) for group in groups]
        if self._together:
            self._hearing.end()
        outcomes: list[Outcome | None] = [None] * len(items)

        async def one(at: int, item: Item) -> None:
            outcomes[at] = await self._hearing.judge(item)

        self._brought.set()
        await together([partial(one, at, item) for at, item in enumerate(items)])
        judged = [
            (bare(slim(group)), outcome) for group, outcome in zip(groups, outcomes, strict=True) if outcome
        ]
        return pack((judged, self._snapshot()))

    async def _rooms(self) -> None:
        """Tell, after each chunk, once more should be brought: when its groups have their places."""
        while True:
            await self._brought.wait()
            self._brought = anyio.Event()
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            await self._line.short()
            await self._panel.room()
            self._line.tell(Room())

    async def exchange(self, packed: bytes) -> bytes:
        """Hear what is new, and tell what there is to tell, once there is something."""
        news: tuple[News, ...] = unpacked(packed)
        self._line.hear(news)
        told = await self._line.gathered()
        parcel = Parcel(self._sent, tuple(told), self._snapshot())
        self._sent += 1
        return pack(parcel)

    def _snapshot(self) -> Snapshot:
        self._seen += 1
        budget = self._panel.budget
        callers = [caller for caller in self._panel.callers if isinstance(caller, Caller)]
        status, tallies = tuple(c.gate.status() for c in callers), tuple(c.tally for c in callers)
        return Snapshot(self._seen, status, tallies, budget.spent, budget.unsure)

    def _heard(self, group: str, text: str) -> None:
        self._line.tell(Heard(group, text))
