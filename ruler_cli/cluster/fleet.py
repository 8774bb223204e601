"""The driver's side of a run on Ray: brings chunks to workers, and takes back what became of them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ruler_cli.cluster import reasons
from ruler_cli.cluster.chunk import Chunk, Judged
from ruler_cli.cluster.environment import needed
from ruler_cli.cluster.hub import Desk, Hub
from ruler_cli.cluster.packing import packed, unpacked
from ruler_cli.cluster.places import parts_of
from ruler_cli.cluster.session import Session
from ruler_cli.cluster.source import Flow, Sent
from ruler_cli.cluster.whole import Whole
from ruler_cli.cluster.worker import Brief, Worker, here, version
from ruler_cli.errors import RulerError, UsageError
from ruler_cli.formats.reader import Reader
from ruler_cli.hearing import judges_of
from ruler_cli.judges.choose import Chosen
from ruler_cli.judging import Outcome
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.observer import Observer
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.engine import Bounds, run
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.level import Fixed
from ruler_cli.pool.pool import limited
from ruler_cli.reading import Input
from ruler_cli.records import Group
from ruler_cli.settings import ScoreSettings

_STRIKES = 3
"""Workers that may end over a chunk, or one after another without a single one, before the run does."""
_UNLIMITED = 1 << 30
_WORKERS = 2
_SOON = 60.0
_PART = 3
"""What of the shared memory chunks may take: one part in so many; Ray Data reads ahead as well."""

Deliver = Callable[[Group, Outcome], Awaitable[None]]


@dataclass(slots=True)
class _Member:
    handle: Any
    desk: Desk
    chunks: int = 0


class Fleet:
    """Workers, the hub that they share, and the Ray that they live in."""

    def __init__(
        self,
        settings: ScoreSettings,
        chosen: list[Chosen],
        halt: Halt,
        ledger: Ledger | None,
        observer: Observer,
    ) -> None:
        """`observer` is told each reply where the settings ask for it."""
        if settings.input.source == "-":
            raise UsageError(
                "--engine ray: stdin cannot be read by other processes; give the input as a file, or leave "
                "out --engine"
            )
        self._settings, self._halt = settings, halt
        judges, limits = judges_of(settings), settings.pool
        named = (limits.concurrency, limits.rpm, limits.tpm, limits.max_cost)
        self._limited = any(limit is not None for limit in named)
        budget, level = Budget(limits.max_cost), Fixed(limits.concurrency or _UNLIMITED)
        gates = [
            limited(found, judge, limits, halt, level, budget)
            for judge, found in zip(judges, chosen, strict=True)
        ]
        shelves = [
            ReplyCache(ledger, judge.model, judge.params) if ledger and not found.embedded else None
            for judge, found in zip(judges, chosen, strict=True)
        ]
        self._hub = Hub(gates, shelves, halt, observer.replied, self._move)
        self._members, self._observer = list[_Member](), observer
        self._out, self._barren = 0, 0
        self._moved, self._alone = anyio.Event(), anyio.Lock()
        prices = [found.price for found in chosen]
        self.panel = Whole(self._hub, prices, halt, limited=self._limited, busy=lambda: self._out > 0)
        self._number = settings.ray_workers or _WORKERS
        self._session = Session(settings.ray_address, max(os.cpu_count() or 1, self._number))

    async def __aenter__(self) -> Self:
        """Start Ray, which takes seconds: the input is surveyed meanwhile."""
        self._session.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End every worker, and Ray where it was started here."""
        for member in self._members:
            self._session.ray.kill(member.handle)
        await self._session.end()

    async def judge_all(self, found: Input, deliver: Deliver, cut: Callable[[], None]) -> None:
        """Judge every group and deliver it, in order; `cut` is told where some are left out."""
        ray = await self._session.ready()
        if found.reader is None or found.survey is None:
            return
        home, brief = here(), self._brief(found.reader)
        with ExitStack() as stack:
            parts, node = await anyio.to_thread.run_sync(parts_of, self._settings, found, home, stack)
            flow = Flow(ray, parts, node)

            async def next_chunk() -> Sent | None:
                if self._halt.reason is not None:
                    return None
                try:
                    return await flow.pull()
                except RulerError as error:  # what is in flight is paid for and may finish
                    self._halt.now(error)
                except ray.exceptions.RayError as error:
                    self._halt.now(reasons.unreadable(error))
                return None

            async def bring(sent: Sent, judged: Judged) -> None:
                chunk = Chunk.unpacked(sent.body)
                for group, outcome in chunk.whole(judged):
                    await deliver(group, outcome)
                if len(judged) < sent.groups:
                    cut()

            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._hub.serve)
                    tasks.start_soon(self._wonder)
                    for _ in range(self._number):
                        tasks.start_soon(self._slot, ray, brief)
                    bounds = Bounds(size=min(Bounds().size * self._number, _held(ray, home)))
                    await run(next_chunk, self._judge, bring, lambda sent: sent.size, self._room, bounds)
                    tasks.cancel_scope.cancel()
            finally:
                await flow.close()

    def _brief(self, reader: Reader) -> bytes:
        from ray import cloudpickle

        settings = self._settings
        variables = needed(judges_of(settings))
        if settings.ledger is not None:  # a worker stands in another directory
            others = tuple(path.absolute() for path in settings.ledgers)
            settings = replace(settings, ledger=settings.ledger.absolute(), ledgers=others)
        brief = Brief(settings, reader, here(), self._limited, self._hub.began, variables, version())
        whole: bytes = cloudpickle.dumps(brief)  # type: ignore[no-untyped-call]  # ray's own
        return whole

    async def _slot(self, ray: Any, brief: bytes) -> None:
        """One worker, and another where it ends."""
        actor = ray.remote(Worker).options(
            num_cpus=1, max_concurrency=10_000, scheduling_strategy="SPREAD", max_restarts=0
        )
        while self._barren < _STRIKES:
            handle = actor.remote()
            try:
                said = await handle.begin.remote(brief)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError as error:
                self._barren += 1
                if self._barren >= _STRIKES:
                    self._halt.now(reasons.ended(error))
                continue
            if isinstance(said, RulerError):
                self._halt.now(said)
                self._move()
                return
            member = _Member(handle, self._hub.join())
            self._members.append(member)
            member.desk.room = True
            self._move()
            await self._attend(ray, member)
            if member in self._members:
                self._members.remove(member)
            self._hub.lose(member.desk)

    async def _attend(self, ray: Any, member: _Member) -> None:
        """Exchange messages with a worker as long as it lives."""
        desk, waiting = member.desk, 0

        async def poll(polls: TaskGroup, news: bytes) -> None:
            nonlocal waiting
            waiting += 1
            try:
                body = await member.handle.exchange.remote(news)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except ray.exceptions.RayError:
                polls.cancel_scope.cancel()
                return
            waiting -= 1
            if not waiting:
                desk.stir.set()
            self._hub.take(desk, unpacked(body))

        async with anyio.create_task_group() as polls:
            desk.stir.set()
            while True:
                await desk.stir.wait()
                desk.stir = anyio.Event()
                polls.start_soon(poll, polls, packed(desk.news()))

    async def _judge(self, sent: Sent) -> Judged:
        """Have a chunk judged; one over which a worker ended goes to another, alone."""
        self._out += 1
        try:
            for strikes in range(_STRIKES):
                async with self._alone if strikes else nullcontext():
                    judged = await self._handed(sent, strikes > 0)
                if judged is not None:
                    return judged
                if self._halt.reason is not None:
                    return []
            self._halt.now(reasons.deadly(Chunk.unpacked(sent.body), _STRIKES))
            return []
        finally:
            self._out -= 1

    async def _handed(self, sent: Sent, repeated: bool) -> Judged | None:
        """What a worker makes of a chunk; None where it ends over it."""
        ray = self._session.ray
        member = await self._free()
        if member is None:
            return []
        member.chunks += 1
        member.desk.room = False
        try:
            body = await member.handle.judge.remote(sent.block, sent.row, repeated)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError:
            if member in self._members:  # nobody is given anything there
                self._members.remove(member)
            return None
        finally:
            member.chunks -= 1
        judged, snapshot = unpacked(body)
        self._barren = 0
        member.desk.see(snapshot)
        return list(judged)

    async def _free(self) -> _Member | None:
        """The worker that has most room, as soon as there is any worker; None where the run stops."""
        while not self._members:
            if self._halt.reason is not None:
                return None
            await self._stirred()
        return min(self._members, key=lambda member: (not member.desk.room, member.chunks))

    async def _wonder(self) -> None:
        """Say so where no worker comes: a cluster may be full, and have room later."""
        await anyio.sleep(_SOON)
        if not self._members:
            self._observer.note(
                f"--engine ray: no worker has begun in {_SOON:.0f} s; each needs a free CPU of the cluster"
            )

    async def _room(self) -> None:
        """Wait until a worker wants more."""
        while self._halt.reason is None and not any(member.desk.room for member in self._members):
            await self._stirred()

    async def _stirred(self) -> None:
        if self._moved.is_set():
            self._moved = anyio.Event()
        await self._moved.wait()

    def _move(self) -> None:
        self._moved.set()


def _held(ray: Any, home: str) -> int:
    """Bytes of chunks that may wait in the shared memory of the driver's node for their turn."""
    mine = next(node["Resources"] for node in ray.nodes() if node["NodeID"] == home)
    return int(mine.get("object_store_memory", 0)) // _PART or Bounds().size
