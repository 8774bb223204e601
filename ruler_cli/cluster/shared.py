"""A worker's line to the hub: permits, claims and what is kept there, a few of them in each message."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from ruler_cli.cluster.messages import (
    Answer,
    Ask,
    Claim,
    Cool,
    Keep,
    Lift,
    News,
    Release,
    Settle,
    Stop,
    Told,
)
from ruler_cli.errors import RulerError
from ruler_cli.ledger import ReplyCache
from ruler_cli.pool.gate import INTERRUPTED, Gate
from ruler_cli.pool.halt import Halt
from ruler_cli.records import Fault, Reply, Request, Usage

GATHER = 0.002
"""Seconds in which what is told comes together: a message costs the hub as much as a reply costs a worker."""
REPEATED: ContextVar[bool] = ContextVar("repeated", default=False)
"""Whether what is judged was with a worker that ended: what this run has kept of it counts as asked now."""
BEAT = 0.5
"""Seconds after which a worker tells how it stands."""


class Line:
    """What a worker has to tell, and who waits for an answer."""

    def __init__(self, halt: Halt) -> None:
        """`halt` is the worker's own."""
        self.halt, self.gates = halt, list[Gate]()
        self.claiming = 0
        self._claimed = anyio.Event()
        self._told: list[Told] = []
        self._stir = anyio.Event()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._polls = 0

    def tell(self, *told: Told) -> None:
        """Send it along with the next message."""
        self._told += told
        self._stir.set()

    async def ask(self, make: Callable[[int], Told]) -> Answer:
        """Tell something that is answered, and wait; the hub lets nobody wait in a run that stops."""
        number = next(self._numbers)
        waiting = self._waiting[number] = _Waiting(anyio.Event())
        self.tell(make(number))
        await waiting.over.wait()
        return waiting.answer or Answer(number, INTERRUPTED)

    def shorter(self) -> None:
        """A claim was answered."""
        self._claimed.set()

    async def short(self) -> None:
        """Wait until few claims wait for their answers."""
        while self.claiming > max(2, sum(gate.level.limit for gate in self.gates) // 4):
            self._claimed = anyio.Event()
            await self._claimed.wait()

    async def gathered(self) -> list[Told]:
        """What is to be told, once there is something, another message has come, or it is time."""
        self._polls += 1
        mine = self._polls
        self._stir.set()  # who waited before sends what there is
        self._stir = anyio.Event()
        with anyio.move_on_after(BEAT):
            while not self._told and mine == self._polls:
                if self._stir.is_set():
                    self._stir = anyio.Event()
                await self._stir.wait()
        if self._told and mine == self._polls:
            await anyio.sleep(GATHER)
        told, self._told = self._told, []
        return told

    def hear(self, news: tuple[News, ...]) -> None:
        """What the hub says."""
        for each in news:
            match each:
                case Answer(number):
                    waiting = self._waiting.pop(number)
                    waiting.answer = each
                    waiting.over.set()
                case Cool(seat, seconds):
                    self.gates[seat].cool(seconds)
                    self.gates[seat].nudge()
                case Lift(seat):
                    self.gates[seat].lift()
                case Stop(reason):
                    self.stop(reason)

    def stop(self, reason: RulerError) -> None:
        """Nothing new goes; what only waited for its turn gets its answer."""
        self.halt.now(reason)
        for gate in self.gates:
            gate.nudge()


@dataclass(slots=True)
class _Waiting:
    over: anyio.Event
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class _Slip:
    """A call that the hub let go."""

    line: Line
    number: int

    def settle(self, usage: Usage | None, posts: int, billed: bool) -> None:
        self.line.tell(Settle(self.number, usage, posts, billed))

    def back(self) -> None:
        self.line.tell(Settle(self.number, went=False))


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The limits of the run, for one judge."""

    line: Line
    seat: int
    limited: bool

    async def enter(self, request: Request) -> _Slip | Fault:
        """Wait until the run may send one call more."""
        size, labels, room = request.size, len(request.labels), request.room
        answer = await self.line.ask(lambda number: Ask(number, self.seat, size, labels, room))
        return answer.given if isinstance(answer.given, Fault) else _Slip(self.line, answer.number)

    def cool(self, seconds: float) -> None:
        """Let nobody of the run go for so long."""
        self.line.tell(Cool(self.seat, seconds))

    def lift(self) -> None:
        """Let all go again: the wait was one call's own."""
        self.line.tell(Lift(self.seat))


@dataclass(frozen=True, slots=True)
class SharedClaims:
    """Who of the run asks what, for one judge; `keeper` is the worker's own way to the ledger."""

    line: Line
    seat: int
    keeper: ReplyCache
    far: bool

    async def claim(self, key: bytes, again: bool) -> Reply | Fault | None:
        """Wait until nobody else asks it: what was answered by then, or None, and it is ours to ask."""
        self.line.claiming += 1
        try:
            seat, far, repeated = self.seat, self.far, REPEATED.get()
            answer = await self.line.ask(lambda number: Claim(number, seat, key, again, far, repeated))
        finally:
            self.line.claiming -= 1
            self.line.shorter()
        given = answer.given
        if isinstance(given, RulerError):
            self.line.tell(Stop(given))
            self.line.stop(given)
            return INTERRUPTED
        if given is None and answer.look and not self.far:
            given = self.keeper.find(key)
            if given is not None:
                self.release(key)
        return given

    def release(self, key: bytes) -> None:
        """What came of it is kept, or it failed."""
        self.line.tell(Release(key))


@dataclass(frozen=True, slots=True)
class FarShelf(ReplyCache):
    """The ledger, for a worker that cannot open its file: the hub looks into it when a key is claimed."""

    line: Line
    seat: int

    async def keep(self, key: bytes, answer: Reply | Fault) -> None:
        """Store an answer; it is safe when this returns."""
        with anyio.CancelScope(shield=True):
            said = await self.line.ask(lambda number: Keep(number, self.seat, key, answer))
        if isinstance(said.given, RulerError):
            raise said.given
