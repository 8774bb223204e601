"""First come, first served, and no reservation is lost if a call is cancelled."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.errors import RefusedError
from ruler_cli.pool.cooldown import DISTINCT
from ruler_cli.pool.engine import StopSignal
from ruler_cli.pool.gate import CAPPED, INTERRUPTED, Gate, Permit
from ruler_cli.pool.limits import Budget, ConcurrencyLimit, Window
from ruler_cli.types import CallError, JudgeWait, Request, Usage
from tests.virtual import ASKED, virtually

T = TypeVar("T")
USAGE = Usage(1000, 200, 0, 1)


def gated(
    work: Callable[[Gate], Awaitable[T]],
    limit: int = 2,
    cap: float | None = None,
    rpm: float | None = None,
    tpm: float | None = None,
) -> T:
    """Work with a gate in virtual time; a token costs a hundredth of a dollar."""

    async def main() -> T:
        gate = Gate(
            ConcurrencyLimit(limit),
            StopSignal(),
            requests=Window(rpm),
            tokens=Window(tpm),
            budget=Budget(cap),
            cost=lambda usage: (usage.prompt + usage.completion) / 100,
        )
        return await work(gate)

    return virtually(main)


async def entered(gate: Gate, ticket: int = 0, request: Request = ASKED) -> Permit:
    """Enter, with a permit."""
    permit = await gate.enter(ticket, request)
    assert isinstance(permit, Permit)
    return permit


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_cancelled_waiters(seed: int, limit: int, limited: bool) -> None:
    """If calls are cancelled, in the queue or in flight, the others go in order; nothing stays reserved."""

    async def work(gate: Gate) -> None:
        dice, went = random.Random(seed), list[int]()
        stays = [dice.random() < 0.6 for _ in range(30)]

        async def one(ticket: int, scope: anyio.CancelScope) -> None:
            with scope:
                permit = await entered(gate, ticket)
                went.append(ticket)
                try:
                    await anyio.sleep(dice.uniform(0.0, 2.0))
                finally:
                    gate.leave(permit, None)

        with anyio.fail_after(3600):
            async with anyio.create_task_group() as tasks:
                scopes = [anyio.CancelScope() for _ in stays]
                for ticket, scope in enumerate(scopes):
                    tasks.start_soon(one, ticket, scope)
                    await anyio.sleep(dice.choice([0.0, 0.1]))
                for ticket in dice.sample(range(30), 30):
                    await anyio.sleep(dice.choice([0.0, 0.3]))
                    if not stays[ticket]:
                        scopes[ticket].cancel()
        assert went == sorted(went)
        assert {ticket for ticket, stay in enumerate(stays) if stay} <= set(went)
        assert (gate.in_flight, gate.status().queued) == (0, 0)
        assert gate.budget.reserved == pytest.approx(0.0, abs=1e-9)
        assert gate.wants_more

    gated(work, limit, rpm=120 if limited else None)


def test_back_in_line() -> None:
    """A ticket that comes back goes before later ones that were there before it."""

    async def work(gate: Gate) -> list[int]:
        went: list[int] = []

        async def one(ticket: int) -> None:
            permit = await entered(gate, ticket)
            went.append(ticket)
            gate.leave(permit, USAGE)

        first = await entered(gate)
        async with anyio.create_task_group() as tasks:
            for ticket in (5, 6, 1, 7):
                tasks.start_soon(one, ticket)
                await anyio.lowlevel.checkpoint()
            gate.leave(first, USAGE)
        return went

    assert gated(work, limit=1) == [1, 5, 6, 7]


def test_large_request_is_not_starved() -> None:
    """Small requests behind a large one wait for it: they do not take its tokens."""

    async def work(gate: Gate) -> list[int]:
        went: list[int] = []

        async def one(ticket: int, size: int) -> None:
            permit = await entered(gate, ticket, Request("", "u" * size, ("a",)))
            went.append(ticket)
            gate.leave(permit, None)

        async with anyio.create_task_group() as tasks:
            for ticket, size in enumerate((3800, 380_000, 3800, 3800)):
                tasks.start_soon(one, ticket, size)
                await anyio.lowlevel.checkpoint()
        return went

    assert gated(work, limit=10, tpm=10_000) == [0, 1, 2, 3]


def test_first_call_goes_alone() -> None:
    """With a cap the first call goes alone, and never more at once than half the number of replies."""

    async def work(gate: Gate) -> None:
        flying: list[Permit] = []
        most: list[int] = []

        async def one(ticket: int) -> None:
            flying.append(await entered(gate, ticket))

        async with anyio.create_task_group() as tasks:
            for ticket in range(60):
                tasks.start_soon(one, ticket)
            for _ in range(60):
                await anyio.sleep(1)
                most.append(gate.in_flight)
                gate.leave(flying.pop(0), USAGE)
        assert most[:2] == [1, 1]
        assert all(n <= max(1, (seen + 1) / 2) for seen, n in enumerate(most))
        assert max(most) == 10

    gated(work, limit=10, cap=1e6)


def test_first_call_without_usage() -> None:
    """If the first call fails, the next one goes alone, and nothing gets stuck."""

    async def work(gate: Gate) -> int:
        most = 0
        for ticket in range(5):
            permit = await entered(gate, ticket)
            most = max(most, gate.in_flight)
            gate.leave(permit, None, billed=False)
        return most

    assert gated(work, limit=10, cap=1e6) == 1


def test_capped_once_nothing_is_in_flight() -> None:
    """A call that does not fit waits for those in flight, which may turn out cheaper; then it is capped."""

    async def work(gate: Gate) -> None:
        for _ in range(1000):
            gate.estimates.learn(ASKED, Usage(900, 100, 0, 1))  # 10 USD
        gate._replies = 1000
        gate.leave(await entered(gate), Usage(900, 100, 0, 1))
        flying = [await entered(gate, ticket) for ticket in (1, 2)]
        answers: list[Permit | CallError] = []

        async def one(ticket: int) -> None:
            answers.append(await gate.enter(ticket, ASKED))

        async with anyio.create_task_group() as tasks:
            for ticket in (3, 4, 5):
                tasks.start_soon(one, ticket)
            await anyio.sleep(10)
            assert answers == []
            gate.leave(flying[0], Usage(90, 10, 0, 1))
            await anyio.sleep(1)
            assert [type(answer) for answer in answers] == [Permit]
            gate.leave(flying[1], Usage(900, 100, 0, 1))
            await anyio.sleep(1)
            assert len(answers) == 1
            assert isinstance(answers[0], Permit)
            gate.leave(answers[0], Usage(900, 100, 0, 1))
        assert answers[1:] == [CAPPED, CAPPED]
        assert gate.budget.spent == pytest.approx(31.0)
        assert isinstance(await gate.enter(9, Request("", "", (), 10)), Permit)

    gated(work, limit=10, cap=32.5)


def test_stopped() -> None:
    """After a stop signal no call goes, and all calls that wait end at once."""

    async def work(gate: Gate) -> list[Permit | CallError]:
        answers: list[Permit | CallError] = []

        async def one(ticket: int) -> None:
            answers.append(await gate.enter(ticket, ASKED))

        await entered(gate)
        async with anyio.create_task_group() as tasks:
            for ticket in range(1, 6):
                tasks.start_soon(one, ticket)
            await anyio.sleep(1)
            gate.stop_signal.stop(RefusedError("stop"))
            gate.nudge()
        assert anyio.current_time() == 1.0
        return answers

    assert gated(work, limit=1) == [INTERRUPTED] * 5


def test_settling() -> None:
    """Usage replaces the estimate; an unbilled call costs nothing; one that may have been billed stays."""

    async def work(gate: Gate) -> None:
        for _ in range(1000):
            gate.estimates.learn(ASKED, Usage(700, 300, 0, 1))
        gate.leave(await entered(gate), Usage(700, 300, 0, 1))
        assert (gate.status().tokens_per_minute, gate.budget.spent) == (1000, 10.0)
        gate.leave(await entered(gate), None, billed=False)
        assert (
            gate.status().tokens_per_minute,
            gate.budget.spent,
            gate.budget.unsure,
        ) == (1000, 10.0, 0.0)
        gate.leave(await entered(gate), None)
        assert gate.status().tokens_per_minute == pytest.approx(2000, abs=2)
        assert (gate.budget.spent, gate.budget.reserved) == (10.0, 0.0)
        assert gate.budget.unsure == pytest.approx(7 + 1.5 * 3, abs=0.1)
        assert gate.status().requests_per_minute == 3

    gated(work)


def test_status() -> None:
    """The status has calls in flight and queued, amounts per minute, USD, and the reason of a wait."""

    async def work(gate: Gate) -> None:
        permit = await entered(gate)
        await entered(gate)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gate.enter, 7, ASKED)
            await anyio.sleep(1)
            now = gate.status()
            assert (now.in_flight, now.limit, now.queued, now.requests_per_minute) == (
                2,
                2,
                1,
                2,
            )
            assert (now.waiting, now.why) == (0.0, "")
            gate.refused(permit, 30.0, rate=False)
            assert (gate.status().waiting, gate.status().why) == (
                30.0,
                "the judge asked for it",
            )
            assert gate.status().waits == (
                JudgeWait("", "the judge asks all calls to wait", 30.0),
            )
            gate.leave(permit, USAGE)
            await anyio.sleep(29)
            assert gate.in_flight == 1
            assert gate.status().waiting == pytest.approx(1.0)
            assert gate.budget.spent == 12.0
            await anyio.sleep(2)
            assert (gate.in_flight, gate.status().queued, gate.status().why) == (
                2,
                0,
                "",
            )
            gate.answered(permit)
            assert gate.status().waits == ()
        for call in range(DISTINCT):
            gate.breaker.failed(anyio.current_time(), call, INTERRUPTED, 0.0)
        down = f"the judge is down: {INTERRUPTED.reason}"
        assert (gate.status().waiting, gate.status().why, gate.status().outage) == (
            1.0,
            down,
            down,
        )
        busy = CallError("transport", "busy", "call", rate=True)
        gate.breaker.failed(anyio.current_time(), DISTINCT, busy, 0.0, probe=True)
        assert (gate.status().waiting, gate.status().why) == (
            1.0,
            "rate limit of the judge: busy",
        )
        await anyio.sleep(100)
        now = gate.status()  # also while a call tests if the judge is back
        assert (now.waiting, now.why) == (0.0, "rate limit of the judge: busy")
        gate.breaker.replied()
        now = gate.status()
        assert (
            now.requests_per_minute,
            now.tokens_per_minute,
            now.why,
            now.outage,
        ) == (0, 0, "", "")

    gated(work)


@pytest.mark.parametrize(
    ("limits", "why", "seconds"),
    [
        ({"rpm": 1}, "requests per minute", 60.0),
        ({"tpm": 1000}, "tokens per minute", 60.0),
        ({"cap": 10_000.0}, "the cost cap", 0.0),
    ],
)
def test_reason_of_a_limit(limits: dict[str, float], why: str, seconds: float) -> None:
    """The status names the limit that holds the next call, if there is a next call."""

    async def work(gate: Gate) -> None:
        permit = await entered(gate)
        assert (gate.status().waiting, gate.status().why) == (0.0, "")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gate.enter, 7, ASKED)
            await anyio.sleep(0.001)
            assert gate.status().why == why
            assert gate.status().waiting == pytest.approx(seconds, abs=1.1)
            tasks.cancel_scope.cancel()
        assert gate.status().why == ""
        gate.leave(permit, USAGE)

    gated(work, **limits)  # type: ignore[arg-type]  # by name


def test_reason_of_retries() -> None:
    """If only calls that failed are left, the status says when the first is tried again."""

    async def work(gate: Gate) -> None:
        permit = await entered(gate)
        gate.retries += [anyio.current_time() + 9, anyio.current_time() + 5]
        assert (gate.status().why, gate.status().retrying) == ("", 2)
        gate.leave(permit, USAGE)
        now = gate.status()
        assert (now.waiting, now.why, now.retrying) == (
            5.0,
            "failed calls are tried again",
            2,
        )
        gate.breaker.failed(anyio.current_time(), 1, INTERRUPTED, 0.0)
        assert (
            gate.status().why == f"failed calls are tried again: {INTERRUPTED.reason}"
        )

    gated(work)


def test_shorter_cooldown() -> None:
    """A cooldown is not shortened by a later and shorter one."""

    async def work(gate: Gate) -> float:
        first, second = await entered(gate), await entered(gate)
        for permit, seconds in ((first, 30.0), (second, 1.0)):
            gate.refused(permit, seconds, rate=False)
            gate.leave(permit, None)
        await entered(gate)
        return anyio.current_time()

    assert gated(work) == 30.0


def test_probe() -> None:
    """While the judge is down one call goes at a time, above the limit too, and a reply lets all go."""

    async def work(gate: Gate) -> None:
        stuck = [await entered(gate, ticket) for ticket in (0, 1)]
        for call in range(DISTINCT):
            gate.breaker.failed(0.0, call, INTERRUPTED, 0.0)
        probe = await entered(gate, 2)
        assert probe.probe
        assert anyio.current_time() == 1.0
        async with anyio.create_task_group() as tasks:
            for ticket in (3, 4):
                tasks.start_soon(gate.enter, ticket, ASKED)
            await anyio.sleep(100)
            assert gate.in_flight == 3
            gate.breaker.replied()
            gate.leave(probe, USAGE)
            for permit in stuck:
                gate.leave(permit, USAGE)
            await anyio.sleep(0.1)
            assert gate.in_flight == 2

    gated(work)


def test_demand() -> None:
    """More work is taken while the queue is shorter than a quarter of the limit, and after a stop."""

    async def work(gate: Gate) -> None:
        async with anyio.create_task_group() as tasks:
            for ticket in range(16):
                await gate.wait_for_demand()
                tasks.start_soon(gate.enter, ticket, ASKED)
                await anyio.lowlevel.checkpoint()
            for ticket in range(16, 21):
                await gate.wait_for_demand()
                tasks.start_soon(gate.enter, ticket, ASKED)
                await anyio.lowlevel.checkpoint()
            assert not gate.wants_more
            with anyio.move_on_after(10) as scope:
                await gate.wait_for_demand()
            assert scope.cancelled_caught
            gate.stop_signal.stop(RefusedError("stop"))
            gate.nudge()
            await gate.wait_for_demand()

    gated(work, limit=16)
