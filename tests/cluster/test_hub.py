"""What workers share, in virtual time and without Ray: limits, money, claims and the ledger of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from ruler_cli.cluster.hub import Desk, Hub
from ruler_cli.cluster.messages import Parcel, Snapshot
from ruler_cli.cluster.shared import FarShelf, Line, SharedClaims, SharedLimits
from ruler_cli.errors import OutputError, RefusedError
from ruler_cli.judges.answer_form import Judge
from ruler_cli.ledger import Ledger, ReplyCache
from ruler_cli.pool.budget import Budget
from ruler_cli.pool.caller import Caller
from ruler_cli.pool.gate import Gate, Permit
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.level import Adaptive, Fixed
from ruler_cli.pool.limits import Window
from ruler_cli.records import Fault, Reply, Request, Usage
from ruler_cli.settings import JudgeSettings
from tests.virtual import ASKED, Gateway, World, flood, virtually

_WAY = 0.003
"""Seconds that a message takes."""
MODEL = JudgeSettings("openai/m")


@dataclass
class Band:
    """A hub and workers, in one loop, with messages that take their time."""

    gate: Gate
    tasks: TaskGroup
    ledger: Ledger | None = None
    halt: Halt = field(default_factory=Halt)
    lost: list[anyio.CancelScope] = field(default_factory=list)

    def __post_init__(self) -> None:
        shelf = ReplyCache(self.ledger, MODEL.model, MODEL.params) if self.ledger else None
        self.hub = Hub([self.gate], [shelf], self.halt, lambda *_: None, lambda: None)
        self.tasks.start_soon(self.hub.serve)

    def worker(self, judge: Judge, level: Fixed | None = None, *, limited: bool = True) -> Caller:
        """Another worker, its messages under way."""
        line, desk = Line(Halt()), self.hub.join()
        shared = SharedLimits(line, 0, limited)
        gate = Gate(level or Adaptive(4096), line.halt, shared=shared)
        line.gates = [gate]
        keeper = FarShelf(None, MODEL.model, MODEL.params, line, 0) if self.ledger else None
        claims = SharedClaims(line, 0, keeper, far=True) if keeper else None
        scope = anyio.CancelScope()
        self.lost.append(scope)
        self.tasks.start_soon(self._carry, line, desk, scope)
        return Caller(judge, gate, retries=2, timeout=60.0, cache=keeper, claims=claims)

    def lose(self, number: int) -> None:
        """A worker is gone, with all that it had."""
        self.lost[number].cancel()
        self.hub.lose(self.hub.desks[number])

    async def _carry(self, line: Line, desk: Desk, scope: anyio.CancelScope) -> None:
        with scope:
            async with anyio.create_task_group() as ways:
                ways.start_soon(self._there, line, desk)
                while True:
                    await desk.stir.wait()
                    desk.stir = anyio.Event()
                    news = desk.news()
                    await anyio.sleep(_WAY)
                    line.hear(news)

    async def _there(self, line: Line, desk: Desk) -> None:
        number = 0
        while True:
            parcel = Parcel(number, tuple(await line.gathered()), Snapshot(number))
            await anyio.sleep(_WAY)
            self.hub.take(desk, parcel)
            number += 1


def band(main: Callable[[Band], Any], gate: Callable[[Halt], Gate], ledger: Ledger | None = None) -> Any:
    """Run something with a band, in virtual time."""

    async def whole() -> Any:
        halt = Halt()
        async with anyio.create_task_group() as tasks:
            found = await main(Band(gate(halt), tasks, ledger, halt))
            tasks.cancel_scope.cancel()
        return found

    return virtually(whole)


def everything(**limits: Any) -> Callable[[Halt], Gate]:
    """A hub's gate with these limits."""
    return lambda halt: Gate(limits.pop("level", Fixed(1 << 30)), halt, **limits)


async def flooded(found: Band, judge: World, until: float, workers: int = 2) -> list[Caller]:
    """Several workers that ask as fast as they may."""
    callers = [found.worker(judge) for _ in range(workers)]
    async with anyio.create_task_group() as tasks:
        for caller in callers:
            tasks.start_soon(flood, caller, until)
    return callers


def test_requests_and_tokens_of_the_whole() -> None:
    """Workers together fill the limits per minute, and no sliding minute holds more."""
    for limits, tokens in (({"requests": Window(300)}, False), ({"tokens": Window(0.995 * 240_000)}, True)):
        judge = World(latency=2.0, spread=0.3)

        async def main(found: Band, judge: World = judge) -> list[Caller]:
            return await flooded(found, judge, 240.0)

        one, other = band(main, everything(**limits))
        most = 240_000 if tokens else 300
        assert 0.9 * most <= judge.fullest_minute(tokens=tokens) <= most
        assert abs(one.tally.asked - other.tally.asked) <= 0.05 * judge.asked


def test_concurrency_of_the_whole() -> None:
    """So many calls as were asked for are in flight in all workers together, and slots are filled at once."""
    judge = World(latency=1.0)

    async def main(found: Band) -> None:
        await flooded(found, judge, 120.0, workers=3)

    band(main, lambda halt: Gate(Fixed(10), halt))
    assert judge.most == 10
    assert judge.used(10.0, 110.0) >= 9.7


@pytest.mark.parametrize("limited", [False, True])
def test_refused_by_turns(limited: bool) -> None:
    """Single refusals hold no worker up for long; a limit of all is waited for by all workers."""

    async def main(found: Band, judge: World) -> float:
        callers = [found.worker(judge, Fixed(8), limited=limited) for _ in range(3)]
        async with anyio.create_task_group() as tasks:
            for caller in callers:
                tasks.start_soon(flood, caller, math.inf, ASKED, 400)
        return anyio.current_time()

    def seconds(judge: World) -> float:
        return float(band(lambda found: main(found, judge), lambda halt: Gate(Fixed(24), halt)))

    assert seconds(Gateway(0.2, spread=0.3)) <= 2.5 * seconds(World(0.2, spread=0.3))
    judge = Gateway(0.2, share=0.0, minute=300)
    assert seconds(judge) <= 4 * 60
    assert max(judge.over.values()) <= 24


def test_a_wait_of_all_is_lifted() -> None:
    """What one worker was told holds for the others until it sees that the refusal was single."""

    async def main(found: Band) -> list[float]:
        one, other = (found.worker(World(1.0), Fixed(4), limited=False) for _ in range(2))
        refused, later = [await one.gate.enter(number, ASKED) for number in range(2)]
        assert isinstance(refused, Permit)
        assert isinstance(later, Permit)
        one.gate.refused(refused, 60.0, rate=True)
        await anyio.sleep(0.1)
        found.tasks.start_soon(other.call, ASKED)
        await anyio.sleep(5.0)
        waits = [gate.status().waiting for gate in (one.gate, other.gate, found.gate)]
        assert all(54.0 < wait < 56.0 for wait in waits)
        assert other.tally.asked == 0
        one.gate.answered(later)
        await anyio.sleep(0.1)
        assert other.tally.asked == 1
        return [gate.status().waiting for gate in (one.gate, other.gate, found.gate)]

    assert band(main, everything()) == [0.0, 0.0, 0.0]


def test_money_of_the_whole() -> None:
    """Workers together never spend more than the cap, and end with it reached."""
    judge = World(latency=1.0, usage=Usage(1000, 200, 0, 1))

    async def main(found: Band) -> list[Any]:
        callers = [found.worker(judge) for _ in range(2)]
        ends: list[Any] = []

        async def one(caller: Caller) -> None:
            while not isinstance(answer := await caller.call(ASKED), Fault):
                pass
            ends.append(answer.kind)

        async with anyio.create_task_group() as tasks:
            for caller in callers * 4:
                tasks.start_soon(one, caller)
        return [ends, found.gate.budget.spent]

    budget = Budget(50.0)
    ends, spent = band(main, lambda halt: Gate(Fixed(8), halt, budget=budget, cost=lambda u: u.prompt / 1000))
    assert set(ends) == {"budget"}
    assert 40.0 <= spent <= 50.0
    assert judge.asked == spent


def test_what_a_lost_worker_held() -> None:
    """Slots and claims of a worker that is gone are given to the others; its calls may have been billed."""
    slow, quick = World(latency=10_000.0), World(latency=1.0)

    async def main(found: Band) -> float:
        gone, other = found.worker(slow), found.worker(quick)
        for _ in range(4):
            found.tasks.start_soon(gone.call, ASKED)
        await anyio.sleep(1.0)
        assert slow.in_flight == found.gate.in_flight == 4
        found.lose(0)
        with anyio.fail_after(10.0):
            for _ in range(3):
                assert isinstance(await other.call(ASKED), Reply)
        return found.gate.budget.unsure

    assert band(main, lambda halt: Gate(Fixed(4), halt, cost=lambda _: 2.0)) == 8.0


def test_by_turns() -> None:
    """A worker with a long line does not keep one with a short line waiting."""
    judge = World(latency=1.0)

    async def main(found: Band) -> float:
        greedy, modest = found.worker(judge, Fixed(50)), found.worker(judge)
        for _ in range(40):
            found.tasks.start_soon(greedy.call, ASKED)
        await anyio.sleep(3.5)
        began = anyio.current_time()
        await modest.call(ASKED)
        return anyio.current_time() - began

    assert band(main, lambda halt: Gate(Fixed(1), halt)) <= 3.0


def test_asked_once(tmp_path: Path) -> None:
    """The same request in two workers is asked once; the other has its answer from the ledger."""
    judge = _Named()

    async def main(found: Band) -> list[Any]:
        callers = [found.worker(judge, limited=False) for _ in range(3)]
        answers: list[Any] = []

        async def one(caller: Caller) -> None:
            answers.append(await caller.call(ASKED))

        async with anyio.create_task_group() as tasks:
            for caller in callers * 5:
                tasks.start_soon(one, caller)
        return answers

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        answers = band(main, everything(), ledger)
        assert sum(ledger.stats().rows.values()) == 1
    assert judge.asked == 1
    assert [answer.text for answer in answers] == ["yes"] * 15
    assert sum(answer.kept for answer in answers) == 14


def test_asked_again_once(tmp_path: Path) -> None:
    """What is to be asked again is so by one worker of a run, and not by each."""
    judge = _Named()

    async def main(found: Band) -> None:
        callers = [found.worker(judge, limited=False) for _ in range(2)]
        await callers[0].call(ASKED)
        assert judge.asked == 1
        for caller in callers * 2:
            await caller.call(ASKED, again=True)

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        band(main, everything(), ledger)
    assert judge.asked == 2


def test_a_claim_of_a_lost_worker(tmp_path: Path) -> None:
    """A request that a worker took with it is asked by the next one that waits for it."""

    async def main(found: Band) -> Any:
        gone, other = (found.worker(judge, limited=False) for judge in (World(latency=10_000.0), _Named()))
        found.tasks.start_soon(gone.call, ASKED)
        await anyio.sleep(1.0)
        answers: list[Any] = []

        async def wait() -> None:
            answers.append(await other.call(ASKED))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(1.0)
            assert not answers
            found.lose(0)
        return answers[0].text

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert band(main, everything(), ledger) == "yes"


def test_one_stops_all() -> None:
    """A worker that the judge refuses ends the run, and nobody waits any more."""
    refused = Fault("refused", "no such key", "run")
    bad = World(latency=1.0, fault=lambda *_: refused)

    async def main(found: Band) -> Any:
        first, other = found.worker(bad), found.worker(World(latency=1.0))
        kinds: list[Any] = []

        async def one(caller: Caller) -> None:
            answer = await caller.call(ASKED)
            kinds.append(answer.kind if isinstance(answer, Fault) else "reply")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, first)
            await anyio.sleep(0.5)
            for _ in range(2):  # of which one goes when the first comes back, and may finish
                tasks.start_soon(one, other)
            await anyio.sleep(0.7)
            # what a worker's own process does when it finds out
            found.halt.now(RefusedError(str(first.gate.halt.reason)))
        return kinds, str(found.halt.reason)

    kinds, reason = band(main, lambda halt: Gate(Fixed(1), halt))
    assert sorted(kinds) == ["interrupted", "interrupted", "reply"]
    assert "no such key" in reason


def test_a_wait_told_to_one() -> None:
    """A server's Retry-After holds for every worker."""
    limited = Fault("transport", "429", "call", retry_after=30.0, rate=True, billed=False)
    judge = World(latency=1.0, fault=lambda _, now, __: limited if now < 1.0 else None)
    calm = World(latency=1.0)

    async def main(found: Band) -> None:
        one, other = found.worker(judge), found.worker(calm)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.call, ASKED)
            await anyio.sleep(5.0)
            tasks.start_soon(other.call, ASKED)

    band(main, everything())
    assert calm.sent[0][0] >= 30.0


def test_a_ledger_that_is_full(tmp_path: Path) -> None:
    """An answer that the hub cannot keep ends the run of the worker that had it."""
    judge = _Named()

    class Full(Ledger):
        """No room."""

        async def store(self, *_: Any) -> None:
            raise OutputError("no room")

    async def main(found: Band) -> Any:
        caller = found.worker(judge, limited=False)
        await caller.call(ASKED)
        return caller.gate.halt.reason

    with Full(tmp_path / "ledger.sqlite") as ledger:
        assert str(band(main, everything(), ledger)) == "no room"


class _Named(World):
    """A judge whose replies can be kept."""

    async def ask(self, request: Request) -> Reply | Fault:
        await super().ask(request)
        return Reply("yes", Usage(1, 1, 0, 1), body=_BODY)


_BODY = (
    b'{"choices": [{"message": {"content": "yes"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
)
