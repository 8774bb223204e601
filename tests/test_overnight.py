"""A run that is left alone: what is taken away from under it, and what its judge does at night."""

from __future__ import annotations

import threading

import anyio

from ruler_cli.groups import Index
from ruler_cli.pool.caller import Caller
from ruler_cli.pool.gate import Gate
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.level import Adaptive
from ruler_cli.records import Fault, Line, Reply, Request
from tests.virtual import World, virtually


def test_index_closed_while_read() -> None:
    """An index that is closed under the thread that fills it ends that thread, not the process."""
    for _ in range(20):
        index, ended, begun = Index(), [], threading.Event()

        def fill(
            index: Index = index, ended: list[Exception] = ended, begun: threading.Event = begun
        ) -> None:
            try:
                for number in range(10**6):
                    index.add(Line(number, 0, b""), str(number), 1)
                    if number == 4_000:
                        begun.set()
            except Exception as error:  # noqa: BLE001 - whatever ends the thread
                ended.append(error)

        thread = threading.Thread(target=fill, args=(index, ended, begun))
        thread.start()
        assert begun.wait(10)
        index.close()
        thread.join(10)
        assert len(ended) == 1


def test_some_never_answered() -> None:
    """Requests that the judge can never answer do not keep it from being asked the others."""
    broken = Fault("transport", "the judge answered 500", "call", billed=False)
    judge = World(fault=lambda request, *_: broken if int(request.user) % 10 == 0 else None)

    async def main() -> int:
        caller, replies = Caller(judge, Gate(Adaptive(), Halt()), retries=6, timeout=600.0), []

        async def one(number: int) -> None:
            if isinstance(await caller.call(Request("s", str(number), ("a",))), Reply):
                replies.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(3000):
                tasks.start_soon(one, number)
        return len(replies)

    assert virtually(main) == 2700
