"""Retries are bounded, wait outside their slot, and never before the server's word."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.pool.caller import Caller, delay
from ruler_cli.records import Fault, Reply, Request

pytestmark = pytest.mark.anyio
ASKED = Request("s", "u", ("a",))
BUSY = Fault("transport", "busy", "call", retry_after=3.0)


class Script:
    """A judge that answers from a list."""

    name = "script"

    def __init__(self, *answers: Reply | Fault) -> None:
        self.answers = list(answers)
        self.asked = self.at_once = self.most = 0

    async def ask(self, request: Request) -> Reply | Fault:
        """The next answer."""
        self.asked += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        return self.answers.pop(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


async def test_retry_then_reply() -> None:
    """A passing fault is tried again after at least the server's word."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    judge = Script(BUSY, BUSY, Reply("ok"))
    answer = await Caller(judge, 1, 2, sleep).call(ASKED)
    assert isinstance(answer, Reply)
    assert len(slept) == 2
    assert all(s >= 3.0 for s in slept)


async def test_bounded() -> None:
    """A fault that stays ends in a fault of the group, with the number of tries."""

    async def sleep(_: float) -> None: ...

    judge = Script(BUSY, BUSY, BUSY)
    answer = await Caller(judge, 1, 2, sleep).call(ASKED)
    assert isinstance(answer, Fault)
    assert (answer.scope, judge.asked) == ("group", 3)
    assert "tried 3 times" in answer.reason


async def test_patience() -> None:
    """A server that asks to wait for hours is not waited for; the fault says for how long it asked."""
    judge = Script(Fault("transport", "busy", "call", retry_after=86400.0))
    answer = await Caller(judge, 1, 5).call(ASKED)
    assert isinstance(answer, Fault)
    assert "86400 s" in answer.reason
    assert judge.asked == 1


async def test_never_reached() -> None:
    """A judge that was never reached ends the run; one that answered once does not."""
    gone = Fault("transport", "gone", "call", sent=False)
    answer = await Caller(Script(gone), 1, 0).call(ASKED)
    assert isinstance(answer, Fault)
    assert answer.scope == "run"
    caller = Caller(Script(Reply("ok"), gone), 1, 0)
    await caller.call(ASKED)
    answer = await caller.call(ASKED)
    assert isinstance(answer, Fault)
    assert answer.scope == "group"


async def test_slots() -> None:
    """No more calls are in flight than asked for, and a waiting call holds no slot."""
    judge = Script(*[Reply("ok")] * 20)
    caller = Caller(judge, 3, 0)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(caller.call, ASKED)
    assert judge.most == 3

    waiting = anyio.Event()

    async def sleep(_: float) -> None:
        waiting.set()
        await anyio.sleep_forever()

    caller = Caller(Script(BUSY, Reply("ok")), 1, 5, sleep)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.call, ASKED)
        await waiting.wait()
        with anyio.fail_after(5):
            assert await caller.call(ASKED) == Reply("ok")
        tasks.cancel_scope.cancel()


@given(st.integers(0, 40), st.floats(0, 1e4), st.floats(0, 0.999))
def test_delay(retry: int, floor: float, jitter: float) -> None:
    """The delay is never below the server's word and at most 30 seconds above it."""
    assert floor <= delay(retry, floor, jitter) <= floor + 30.0
