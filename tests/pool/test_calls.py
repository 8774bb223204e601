"""Calls go in order and within their limits; retries are bounded, wait as asked, and an outage ends."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.errors import RefusedError
from ruler_cli.pool.cooldown import DISTINCT
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.limits import Budget, Window
from ruler_cli.pool.retries import Caller
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.virtual import (
    ASKED,
    OUTAGE,
    Plan,
    World,
    called,
    numbered,
    plan,
    together,
)

OK = Reply("ok", Usage(100, 10, 0, 1), body=b"{}")
BUSY = CallError(
    "transport", "busy", "call", retry_after=3.0, rate=True, billed=False
)
FULL = replace(BUSY, retry_after=None)
BROKEN = CallError("transport", "broken", "call")
GONE = CallError("transport", "gone", "call", sent=False, billed=False)


@pytest.mark.parametrize(
    ("judge", "retries", "ends", "tries"),
    [
        (plan(BUSY, BUSY, OK), 0, "ok", range(3, 4)),
        (plan(BROKEN), 2, "group: broken (tried 3 times)", range(3, 4)),
        (plan(*[FULL] * 20, OK), 2, "ok", range(21, 22)),
        (plan(FULL), 2, "group: ", range(20, 100)),
        (plan(BROKEN, seconds=60.0), 3, "group: broken", range(2, 5)),
        (plan(GONE), 9, "group: the run was stopped", range(1, 4)),
        (
            plan(replace(BUSY, retry_after=86400.0)),
            9,
            "group: the run was",
            range(1, 2),
        ),
        (plan(OK), 9, "ok", range(1, 2)),
    ],
)
def test_budgets(judge: Plan, retries: int, ends: str, tries: range) -> None:
    """Errors, limits and judges that were never reached have budgets of their own, which all end."""

    async def work(caller: Caller) -> Reply | CallError:
        return await caller.call(ASKED)

    answer = called(judge, work, retries=retries)
    if isinstance(answer, Reply):
        words = answer.text
    else:
        words = f"{answer.scope}: {answer.reason}"
    assert words.startswith(ends)
    assert len(judge.times) in tries
    if tries == range(3, 4) and ends == "ok":
        assert all(
            later - earlier >= 4.0 for earlier, later in pairwise(judge.times)
        )


def test_reached_before() -> None:
    """A judge that answered before may come back after it was gone."""

    async def twice(caller: Caller) -> Reply | CallError:
        await caller.call(ASKED)
        return await caller.call(ASKED)

    assert called(plan(OK, *[GONE] * 5, OK), twice, retries=9) == OK


def test_cooldown_is_shared() -> None:
    """The server's Retry-After holds for every call, and jitter only adds to it."""
    judge = plan(BUSY, OK)

    async def two(caller: Caller) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(1.5)
            tasks.start_soon(caller.call, ASKED)

    called(judge, two)
    assert judge.times[0] == 0
    assert all(at >= 4.0 for at in judge.times[1:])


def test_fatal() -> None:
    """A fatal error stops the run at once: no waiting call is sent."""
    judge = plan(CallError("refused", "no such key", "run", billed=False))

    async def work(caller: Caller) -> object:
        await together(caller, numbered(50))
        return caller.gate.stop_signal.reason

    reason = called(judge, work)
    assert isinstance(reason, RefusedError)
    assert str(reason) == "no such key"
    assert len(judge.times) == 4


def test_stop_while_waiting() -> None:
    """A call that waits to try again, or waits in the queue, ends with the stop signal."""

    async def work(caller: Caller) -> float:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(5)
            caller.gate.stop_signal.stop(RefusedError("stop"))
            caller.gate.schedule_check()
        return anyio.current_time()

    assert called(plan(replace(BUSY, retry_after=500.0)), work, limit=1) == 5


def test_limit_holds() -> None:
    """No more calls are in flight than allowed, and a call that waits to try again holds no permit."""
    judge = plan(OK)
    called(judge, lambda caller: together(caller, numbered(20)), limit=3)
    assert judge.most == 3

    judge = plan(BROKEN, *[OK] * 5, BROKEN)
    answers = called(
        judge, lambda caller: together(caller, numbered(4)), limit=1
    )
    # five calls of a second, and no long idle wait
    assert max(at for _, at in answers) < 6.5


def test_order() -> None:
    """First come, first served: a retried call goes before later ones, and a large one is not starved."""
    order: list[str] = []

    def failing(request: Request, *_: object) -> CallError | None:
        order.append(request.user[:1])
        return BROKEN if order == ["0"] else None

    judge = World(error=failing)
    called(judge, lambda caller: together(caller, numbered(5)), limit=1)
    assert order[:3] in (["0", "1", "0"], ["0", "0", "1"])
    assert [name for name in order if name != "0"] == ["1", "2", "3", "4"]

    order[:] = ["large"]
    sizes = (3800, 380_000, 3800, 3800)
    requests = [
        Request("", str(at) * size, ("a",)) for at, size in enumerate(sizes)
    ]
    called(
        judge,
        lambda caller: together(caller, requests),
        10,
        tokens=Window(10_000),
    )
    assert order == ["large", "0", "1", "2", "3"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_cancelled(seed: int, limit: int, limited: bool) -> None:
    """If calls are cancelled, in the queue or in flight, all others are answered; nothing stays reserved."""
    dice = random.Random(seed)
    stays = [dice.random() < 0.6 for _ in range(30)]
    answered: set[int] = set()

    async def work(caller: Caller) -> Gate:
        async def ask(number: int, scope: anyio.CancelScope) -> None:
            with scope:
                await caller.call(ASKED)
                answered.add(number)

        scopes = [anyio.CancelScope() for _ in stays]
        with anyio.fail_after(3600):
            async with anyio.create_task_group() as tasks:
                for number, scope in enumerate(scopes):
                    tasks.start_soon(ask, number, scope)
                    await anyio.sleep(dice.choice([0.0, 0.1]))
                for number in dice.sample(range(30), 30):
                    await anyio.sleep(dice.choice([0.0, 0.3]))
                    if not stays[number]:
                        scopes[number].cancel()
        return caller.gate

    gate = called(
        World(spread=0.7, seed=seed),
        work,
        limit,
        requests=Window(120 if limited else None),
        cost=lambda usage: usage.prompt / 100,
    )
    assert {number for number, stay in enumerate(stays) if stay} <= answered
    assert (gate.in_flight, gate.status().queued) == (0, 0)
    assert gate.budget.reserved == pytest.approx(0.0, abs=1e-9)
    assert gate.wants_more


@pytest.mark.parametrize(
    ("answer", "parts", "why", "seconds"),
    [
        (OK, {"requests": Window(1)}, "requests per minute", 60.0),
        (OK, {"tokens": Window(1000)}, "tokens per minute", 60.0),
        (OK, {"budget": Budget(10_000.0)}, "the cost cap", 0.0),
        (BUSY, {}, "the judge asked for it", 3.0),
        (replace(BROKEN, retry_after=9.0), {}, "the judge asked for it", 9.0),
    ],
)
def test_status(
    answer: Reply | CallError, parts: dict[str, Any], why: str, seconds: float
) -> None:
    """The status names what holds the next call, and for how long."""

    async def work(caller: Caller) -> None:
        gate = caller.gate
        assert gate.status().why == ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(0.1)
            tasks.start_soon(caller.call, ASKED)
            await anyio.sleep(1.0)
            status = gate.status()
            assert (status.why, status.queued) == (why, 1)
            assert status.waiting == pytest.approx(seconds, abs=1.2)
            tasks.cancel_scope.cancel()

    limit = 4 if answer == OK else 1
    judge = plan(answer, seconds=1.0 if limit == 1 else 5.0)
    called(judge, work, limit, cost=lambda usage: usage.prompt / 100, **parts)


def test_outage() -> None:
    """While a judge is down no group fails and few calls are sent; afterwards all go on."""
    down = 600.0
    judge = World(
        0.1, error=lambda _, now, __: BROKEN if 5 < now < down else None
    )
    answers = called(judge, lambda caller: together(caller, numbered(1000)))
    assert all(isinstance(answer, Reply) for answer, _ in answers)
    times = [at for at, _ in judge.sent]
    assert sum(6 < at < down for at in times) < 40
    assert max(times) < down + 60 + 200


@pytest.mark.parametrize(
    ("error", "longest"),
    [
        (BROKEN, 60.0),
        (FULL, 15.0),
        (replace(BUSY, retry_after=20.0), 20.0),
        (replace(BROKEN, reason="x" * 159 + "…"), 60.0),
    ],
)
def test_outage_without_end(error: CallError, longest: float) -> None:
    """A judge that only fails or meets its limits is asked seldom, alone, and ends the run with that reason."""
    judge = plan(replace(error, reason=error.reason.replace("…", "x" * 999)))

    async def work(caller: Caller) -> float:
        await together(caller, numbered(2 * DISTINCT))
        reason = str(caller.gate.stop_signal.reason)
        assert reason.startswith(
            "run again later: the judge has not answered a call for "
        )
        assert reason.endswith(f"; the last error: {error.reason}")
        return anyio.current_time()

    assert OUTAGE <= called(judge, work, limit=2 * DISTINCT) < 2 * OUTAGE
    pauses = [later - earlier for earlier, later in pairwise(judge.times)][
        2 * DISTINCT :
    ]
    # the last one ends with the patience
    assert min(pauses[:-1]) >= 2.0
    assert longest <= max(pauses) <= 1.5 * longest + 32


def test_unanswerable_at_the_end() -> None:
    """Calls that fail while others are answered fail by themselves, even if only such calls are left."""
    judge = World(
        error=lambda asked, *_: BROKEN if int(asked.user) >= 90 else None
    )

    async def work(caller: Caller) -> int:
        answers = await together(caller, numbered(100))
        assert caller.gate.stop_signal.reason is None
        return sum(isinstance(answer, Reply) for answer, _ in answers)

    assert called(judge, work, limit=100) == 90
