"""What the workers of a run share: its limits, who asks what, the ledger for those who cannot reach it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from ruler_cli.cluster.messages import (
    Answer,
    Ask,
    Claim,
    Cool,
    Heard,
    Keep,
    Lift,
    News,
    Outline,
    Parcel,
    Release,
    Room,
    Settle,
    Snapshot,
    Stop,
    Told,
)
from ruler_cli.errors import RulerError
from ruler_cli.ledger import ReplyCache
from ruler_cli.pool.gate import INTERRUPTED, Gate, Permit
from ruler_cli.pool.halt import Halt
from ruler_cli.records import Fault


class Desk:
    """One worker as the hub knows it: what it holds, what it is to be told, how it last stood."""

    def __init__(self) -> None:
        """It holds nothing yet."""
        self.room, self.gone = False, False
        self.snapshot = Snapshot()
        self.stir = anyio.Event()
        self.permits: dict[int, tuple[Gate, Permit]] = {}
        self.claims: set[bytes] = set()
        self.ticket = 0
        self._news: list[News] = []
        self._next = 0
        self._early: dict[int, Parcel] = {}

    def tell(self, *news: News) -> None:
        """Send it with the next message."""
        self._news += news
        self.stir.set()

    def news(self) -> tuple[News, ...]:
        """What is to be told; only once."""
        news, self._news = tuple(self._news), []
        return news

    def see(self, snapshot: Snapshot) -> None:
        """How it stood; what is older than what is known is passed over."""
        if snapshot.number > self.snapshot.number and not self.gone:
            self.snapshot = snapshot

    def arrived(self, parcel: Parcel) -> list[Told]:
        """What can be taken in now, in the order in which it was sent."""
        self._early[parcel.number] = parcel
        told: list[Told] = []
        while (found := self._early.pop(self._next, None)) is not None:
            self._next += 1
            told += found.told
        return told


@dataclass(slots=True)
class _Claimed:
    owner: Desk
    waiting: deque[tuple[Desk, Claim]] = field(default_factory=deque)


class Hub:
    """Serves desks: first come, first served, and by turns where several wait."""

    def __init__(
        self,
        gates: Sequence[Gate],
        shelves: Sequence[ReplyCache | None],
        halt: Halt,
        heard: Callable[[str, str], None],
        moved: Callable[[], None],
    ) -> None:
        """`gates` and `shelves` by seat; `heard` is told replies, `moved` that a worker has room."""
        self.gates, self.desks = gates, list[Desk]()
        self._shelves, self._halt, self._heard, self._moved = shelves, halt, heard, moved
        self._claims: dict[bytes, _Claimed] = {}
        self._again: set[bytes] = set()
        self._served, self.began = 0, time.time()
        self._tasks: TaskGroup

    async def serve(self) -> None:
        """Answer until cancelled; a run that stops lets nobody wait."""
        async with anyio.create_task_group() as self._tasks:
            await self._halt.told.wait()
            self.stop()
            await anyio.sleep_forever()

    def stop(self) -> None:
        """Tell everybody, and give those who wait for another's answer theirs."""
        for gate in self.gates:
            gate.nudge()
        for desk in self.desks:
            desk.tell(Stop(RulerError(str(self._halt.reason))))
        for claimed in self._claims.values():
            while claimed.waiting:
                desk, claim = claimed.waiting.popleft()
                desk.tell(Answer(claim.number, INTERRUPTED))

    def join(self) -> Desk:
        """A new worker."""
        desk = Desk()
        self.desks.append(desk)
        if self._halt.reason is not None:
            desk.tell(Stop(RulerError(str(self._halt.reason))))
        return desk

    def lose(self, desk: Desk) -> None:
        """A worker is gone: what it held goes back; its calls may have been billed."""
        desk.gone, desk.room = True, False
        status = tuple(replace(each, in_flight=0, limit=0, queued=0) for each in desk.snapshot.status)
        desk.snapshot = replace(desk.snapshot, status=status)
        for gate, permit in desk.permits.values():
            gate.leave(permit, None)
        desk.permits.clear()
        for key in list(desk.claims):
            self._release(desk, key)
        desk.stir.set()

    def take(self, desk: Desk, parcel: Parcel) -> None:
        """What a worker tells."""
        if desk.gone:
            return
        desk.see(parcel.snapshot)
        for each in desk.arrived(parcel):
            self._one(desk, each)

    def _one(self, desk: Desk, told: Told) -> None:
        match told:
            case Ask():
                self._tasks.start_soon(self._permit, desk, told)
            case Settle():
                self._settle(desk, told)
            case Claim():
                self._claim(desk, told)
            case Release(key):
                self._release(desk, key)
            case Keep():
                self._tasks.start_soon(self._keep, desk, told)
            case Cool(seat, seconds):
                self.gates[seat].cool(seconds)
                self._others(desk, told)
            case Lift(seat):
                self.gates[seat].lift()
                self._others(desk, told)
            case Stop(reason):
                self._halt.now(reason)
            case Heard(group, text):
                self._heard(group, text)
            case Room():
                desk.room = True
                self._moved()

    def _others(self, desk: Desk, told: News) -> None:
        for other in self.desks:
            if other is not desk and not other.gone:
                other.tell(told)

    async def _permit(self, desk: Desk, ask: Ask) -> None:
        gate = self.gates[ask.seat]
        outline = Outline("", "", ("",) * ask.labels, ask.room, characters=ask.characters)
        # by turns: the first that each worker waits for comes before the second of any
        desk.ticket = ticket = max(desk.ticket, self._served) + 1
        permit = await gate.enter(ticket, outline)
        if isinstance(permit, Fault):
            desk.tell(Answer(ask.number, permit))
            return
        self._served = max(self._served, ticket)
        if desk.gone:
            gate.leave(permit, None, billed=False)
            return
        desk.permits[ask.number] = gate, permit
        desk.tell(Answer(ask.number))

    def _settle(self, desk: Desk, settle: Settle) -> None:
        gate, permit = desk.permits.pop(settle.number)
        if not settle.went:
            gate.requests.settle(anyio.current_time(), permit.sent, -1)
            gate.leave(permit, None, billed=False)
            return
        gate.leave(permit, settle.usage, settle.posts, billed=settle.billed)

    def _claim(self, desk: Desk, claim: Claim) -> None:
        if self._halt.reason is not None:
            desk.tell(Answer(claim.number, INTERRUPTED))
            return
        claimed = self._claims.get(claim.key)
        if claimed is not None:
            claimed.waiting.append((desk, claim))
        elif self._given(desk, claim):
            self._claims[claim.key] = _Claimed(desk)

    def _given(self, desk: Desk, claim: Claim) -> bool:
        """Whether it is this worker's to ask: unless it was answered; `again` is once in a run."""
        look = not claim.again or claim.key in self._again
        if claim.again:
            self._again.add(claim.key)
        shelf = self._shelves[claim.seat]
        given = None
        if look and claim.look and shelf is not None:
            try:
                given = shelf.find(claim.key)
            except RulerError as error:  # what is in flight is paid for and may finish
                self._halt.now(error)
                given = INTERRUPTED
        desk.tell(Answer(claim.number, given, look))
        if given is None:
            desk.claims.add(claim.key)
        return given is None

    def _release(self, desk: Desk, key: bytes) -> None:
        desk.claims.discard(key)
        claimed = self._claims.pop(key, None)
        while claimed is not None and claimed.waiting:
            other, claim = claimed.waiting.popleft()
            if not other.gone and self._given(other, claim):
                self._claims[key] = _Claimed(other, claimed.waiting)
                return

    async def _keep(self, desk: Desk, keep: Keep) -> None:
        shelf, error = self._shelves[keep.seat], None
        if shelf is not None:
            try:
                await shelf.keep(keep.key, keep.answer)
            except RulerError as reason:
                error = reason
        desk.tell(Answer(keep.number, error))
