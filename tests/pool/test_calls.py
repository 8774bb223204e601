"""Retries are bounded, hold no permit while they wait, obey Retry-After, and pay for nothing twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Self, TypeVar

import anyio
import anyio.lowlevel
import pytest

from ruler_cli.errors import RefusedError
from ruler_cli.pool.cooldown import DISTINCT, OUTAGE, Breaker
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import INTERRUPTED, Gate
from ruler_cli.pool.limits import ConcurrencyLimit
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.virtual import virtually

T = TypeVar("T")
ASKED = Request("s", "u", ("a",))
OK = Reply("ok", Usage(100, 10, 0, 1), body=b"{}")
BUSY = CallError("transport", "busy", "call", retry_after=3.0, rate=True, billed=False)
BROKEN = CallError("transport", "broken", "call")
GONE = CallError("transport", "gone", "call", sent=False, billed=False)


class Script:
    """A judge that takes a second for each answer of a list, the last one for ever."""

    name = "script"

    def __init__(self, *answers: Reply | CallError, seconds: float = 1.0) -> None:
        self.answers, self.seconds = list(answers), seconds
        self.times: list[float] = []
        self.at_once = self.most = 0

    async def ask(self, request: Request) -> Reply | CallError:
        """The next answer."""
        self.times.append(anyio.current_time())
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await anyio.sleep(self.seconds)
        self.at_once -= 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


def called(
    judge: Script,
    work: Callable[[Caller], Awaitable[T]],
    limit: int = 4,
    retries: int = 2,
) -> T:
    """Run the work with a caller of this judge, in virtual time."""

    async def main() -> T:
        caller = Caller(
            judge,
            Gate(ConcurrencyLimit(limit), StopSignal()),
            retries=retries,
            timeout=60.0,
        )
        return await work(caller)

    return virtually(main)


def asked(judge: Script, retries: int = 2) -> Reply | CallError:
    """One call."""
    return called(judge, lambda caller: caller.call(ASKED), retries=retries)


def test_retry_then_reply() -> None:
    """After a limit the call waits at least as long as the server asks, and then gets its reply."""
    judge = Script(BUSY, BUSY, OK)
    assert asked(judge) == OK
    assert all(
        later - earlier >= 4.0
        for earlier, later in zip(judge.times, judge.times[1:], strict=False)
    )


def test_bounded() -> None:
    """A persistent error becomes an error of the group, with the number of tries."""
    judge = Script(BROKEN)
    answer = asked(judge)
    assert isinstance(answer, CallError)
    assert (answer.scope, len(judge.times)) == ("group", 3)
    assert "tried 3 times" in answer.reason


def test_waits_are_no_retries() -> None:
    """Waits at a limit have another, generous budget, which ends as well."""
    assert asked(Script(*[replace(BUSY, retry_after=None)] * 20, OK)) == OK
    judge = Script(replace(BUSY, retry_after=None))
    answer = asked(judge)
    assert isinstance(answer, CallError)
    assert answer.scope == "group"
    assert 20 < len(judge.times) < 100


def test_deadline_over_all() -> None:
    """Tries that each take their whole time end at the deadline over all of them."""
    judge = Script(BROKEN, seconds=60.0)
    asked(judge, retries=3)
    assert len(judge.times) <= 4


def test_cooldown_is_shared() -> None:
    """The server's Retry-After holds for every call, and jitter only adds to it."""
    judge = Script(BUSY, OK)

    async def two(caller: Caller) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(1.5)
            tasks.start_soon(caller.call, ASKED)

    called(judge, two)
    assert judge.times[0] == 0
    assert all(at >= 4.0 for at in judge.times[1:])


def test_hours() -> None:
    """A server that asks to wait for a day ends the run with its number."""
    judge = Script(replace(BUSY, retry_after=86400.0))

    async def work(caller: Caller) -> str:
        assert await caller.call(ASKED) == INTERRUPTED
        return str(caller.gate.stop_signal.reason)

    assert "86400 s" in called(judge, work)
    assert len(judge.times) == 1


def test_never_reached() -> None:
    """A judge that was never reached ends the run in seconds; one that answered before may come back."""

    async def work(caller: Caller) -> tuple[Reply | CallError, float]:
        return await caller.call(ASKED), anyio.current_time()

    answer, seconds = called(Script(GONE), work, retries=9)
    assert answer == INTERRUPTED
    assert seconds < 30

    async def twice(caller: Caller) -> Reply | CallError:
        await caller.call(ASKED)
        return await caller.call(ASKED)

    assert called(Script(OK, *[GONE] * 5, OK), twice, retries=9) == OK


def test_fatal() -> None:
    """A fatal error stops the run at once: no waiting call is sent."""
    fatal = CallError("refused", "no such key", "run", billed=False)
    judge = Script(fatal)

    async def work(caller: Caller) -> RefusedError:
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(caller.call, ASKED)
        assert isinstance(caller.gate.stop_signal.reason, RefusedError)
        return caller.gate.stop_signal.reason

    assert str(called(judge, work)) == "no such key"
    assert len(judge.times) == 4


def test_limit_holds() -> None:
    """No more calls are in flight than allowed, and a call that waits to try again holds no permit."""
    judge = Script(OK)

    async def many(caller: Caller) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(caller.call, ASKED)

    called(judge, many, limit=3)
    assert judge.most == 3

    judge = Script(BROKEN, *[OK] * 5, BROKEN)

    async def one_waits(caller: Caller) -> float:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(0.5)
            for _ in range(3):
                tasks.start_soon(caller.call, ASKED)
        return anyio.current_time()

    assert (
        called(judge, one_waits, limit=1) < 6.5
    )  # five calls of a second, and no idle wait of long


def test_order() -> None:
    """First come, first served: a retried call goes before the calls after it."""
    order: list[str] = []

    class Named(Script):
        async def ask(self, request: Request) -> Reply | CallError:
            order.append(request.user)
            await anyio.sleep(1.0)
            return BROKEN if order == ["0"] else OK

    async def work(caller: Caller) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(caller.call, Request("s", str(number), ("a",)))
                await anyio.lowlevel.checkpoint()

    called(Named(OK), work, limit=1)
    assert order[:3] in (["0", "1", "0"], ["0", "0", "1"])
    assert [n for n in order if n != "0"] == ["1", "2", "3", "4"]


def test_outage() -> None:
    """While a judge is down no group fails and few calls are sent; afterwards all go on."""
    down = 600.0

    class Down(Script):
        async def ask(self, request: Request) -> Reply | CallError:
            self.times.append(anyio.current_time())
            await anyio.sleep(0.1)
            return BROKEN if 5 < anyio.current_time() < down else OK

    judge = Down(OK)

    async def work(caller: Caller) -> list[Reply | CallError]:
        answers: list[Reply | CallError] = []

        async def one(number: int) -> None:
            answers.append(await caller.call(Request("s", str(number), ("a",))))

        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                tasks.start_soon(one, number)
        return answers

    assert called(judge, work) == [OK] * 1000
    assert sum(6 < at < down for at in judge.times) < 40
    assert max(judge.times) < down + 60 + 200


@pytest.mark.parametrize(
    "error", [BROKEN, replace(BUSY, retry_after=None), replace(BUSY, retry_after=20.0)]
)
def test_outage_without_end(error: CallError) -> None:
    """A judge that only fails or meets its limits ends the run in bounded time, with that reason."""

    async def work(caller: Caller) -> float:
        async with anyio.create_task_group() as tasks:
            for number in range(2 * DISTINCT):
                tasks.start_soon(caller.call, Request("s", str(number), ("a",)))
        reason = str(caller.gate.stop_signal.reason)
        assert reason.startswith("run again later: the judge has answered no call for ")
        assert reason.endswith(f"; the last time: {error.reason}")
        return anyio.current_time()

    assert OUTAGE <= called(Script(error), work, limit=2 * DISTINCT) < 2 * OUTAGE


def test_outage_of_an_open_scorer() -> None:
    """If outages stop nothing, calls fail with the cause once patience ends, and later ones wait anew."""
    back, kept = 4000.0, list[Reply | CallError]()

    class Down(Script):
        async def ask(self, request: Request) -> Reply | CallError:
            self.times.append(anyio.current_time())
            await anyio.sleep(0.1)
            return BROKEN if 5 < anyio.current_time() < back else OK

    judge = Down(OK)

    async def keep(answer: Reply | CallError) -> None:
        kept.append(answer)

    async def main() -> None:
        stop, breaker = (
            StopSignal(outages=False),
            Breaker(0.0, 600.0, "one", "http://one/v1"),
        )
        caller = Caller(
            judge,
            Gate(ConcurrencyLimit(4), stop, breaker=breaker),
            retries=2,
            timeout=60.0,
        )

        async def burst() -> list[tuple[Reply | CallError, float]]:
            ended: list[tuple[Reply | CallError, float]] = []

            async def one(number: int) -> None:
                answer = await caller.call(Request("s", str(number), ("a",)), keep)
                ended.append((answer, anyio.current_time()))

            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(one, number)
            return ended

        assert [answer for answer, _ in await burst()] == [OK] * 20
        await anyio.sleep(10)
        first = await burst()
        assert all(610 < at < 10 + 600 + 130 for _, at in first)
        for answer, _ in first:
            assert isinstance(answer, CallError)
            assert (answer.kind, answer.scope) == ("transport", "group")
            assert answer.reason.endswith(
                "minutes; the last time: broken (one at http://one/v1)"
            )
        began = anyio.current_time()
        assert all(
            isinstance(answer, CallError) and at > began + 400
            for answer, at in await burst()
        )
        await anyio.sleep(back - anyio.current_time() - 30)
        assert [answer for answer, _ in await burst()] == [OK] * 20
        assert stop.reason is None

    virtually(main)
    assert (
        kept == [OK] * 40
    )  # a call that an outage ends is asked again by the next run
    assert len(judge.times) < 140


def test_unanswerable_at_the_end() -> None:
    """Calls that fail while others are answered fail by themselves, even if only such calls are left."""

    class Poisoned(Script):
        async def ask(self, request: Request) -> Reply | CallError:
            await anyio.sleep(1.0)
            return BROKEN if int(request.user) >= 90 else OK

    async def work(caller: Caller) -> list[str]:
        ends: list[str] = []

        async def one(number: int) -> None:
            ends.append(
                (
                    await caller.call(Request("s", str(number), ("a",)))
                ).__class__.__name__
            )

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(one, number)
        assert caller.gate.stop_signal.reason is None
        return ends

    ends = called(Poisoned(OK), work, limit=100)
    assert (ends.count("Reply"), ends.count("CallError")) == (90, 10)


def test_stop_while_waiting() -> None:
    """A call that waits to try again, or waits in the queue, ends with the stop signal."""
    judge = Script(replace(BUSY, retry_after=500.0))

    async def work(caller: Caller) -> float:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(5)
            caller.gate.stop_signal.stop(RefusedError("stop"))
            caller.gate.nudge()
        return anyio.current_time()

    assert called(judge, work, limit=1) == 5
