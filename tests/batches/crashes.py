"""A client that dies at any step, and what the provider has billed once others have made it good."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import pytest

from ruler_cli.batches.collect import Collected, collect
from ruler_cli.batches.doors import Doors
from ruler_cli.batches.journal import Batch, Journal, State
from ruler_cli.batches.provider import Provider, Remote
from ruler_cli.batches.settle import Doubt, settle
from ruler_cli.batches.submit import Submitted, submit
from ruler_cli.batches.tasks import Pauses
from ruler_cli.errors import UsageError
from ruler_cli.ledger import Ledger
from ruler_cli.observer import Observer
from ruler_cli.rendering import render
from ruler_cli.settings import InputSettings, JudgeSettings, ScoreSettings
from tests.batch_server import BatchServer
from tests.batches.apis import KEY, api
from tests.conftest import group, write

T = TypeVar("T")
WINDOW = 0.1
"""Seconds in which a lost batch may still appear, where listings are not late."""


class Crash(BaseException):
    """The end of the client, as sudden as in one process it can be."""


@dataclass(slots=True)
class Steps:
    """Counts the steps of a client; at the `fatal` one it dies, and can do nothing more."""

    fatal: int = -1
    passed: list[str] = field(default_factory=list)
    writes: str = "what is meant"
    died: str = ""

    def reach(self, name: str) -> None:
        """One more step."""
        if self.died:
            raise Crash(self.died)
        if len(self.passed) == self.fatal:
            self.died = name
            raise Crash(name)
        self.passed.append(name)


class Mortal:
    """A provider, each call to which has a moment before and one after it."""

    def __init__(self, provider: Provider, steps: Steps) -> None:
        self._inner, self._steps = provider, steps
        self.name, self.requests, self.bytes = provider.name, provider.requests, provider.bytes
        self.tagged, self.account = provider.tagged, provider.account

    async def _call(self, name: str, *args: Any) -> Any:
        self._steps.reach(f"before {name}")
        found = await getattr(self._inner, name)(*args)
        self._steps.reach(f"after {name}")
        return found

    async def upload(self, file: Path, tag: str) -> str:
        """Give the requests."""
        return str(await self._call("upload", file, tag))

    async def uploaded(self, tag: str) -> str | None:
        """Look for them."""
        found = await self._call("uploaded", tag)
        return None if found is None else str(found)

    async def create(self, file: Path, uploaded: str, tag: str, requests: int) -> Remote:
        """Create a batch."""
        return await self._call("create", file, uploaded, tag, requests)  # type: ignore[no-any-return]

    async def retrieve(self, id: str) -> Remote:
        """Ask for a batch."""
        return await self._call("retrieve", id)  # type: ignore[no-any-return]

    async def cancel(self, id: str) -> Remote:
        """Call it off."""
        return await self._call("cancel", id)  # type: ignore[no-any-return]

    async def listed(self, since: float) -> AsyncIterator[Remote]:
        """List batches."""
        self._steps.reach("before listed")
        async for remote in self._inner.listed(since):
            yield remote
        self._steps.reach("after listed")

    async def results(self, remote: Remote) -> AsyncIterator[bytes]:
        """Fetch results, with a moment after each row."""
        self._steps.reach("before results")
        async for row in self._inner.results(remote):
            yield row
            self._steps.reach("within results")
        self._steps.reach("after results")

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, tb)


@contextlib.contextmanager
def mortal_disk(steps: Steps) -> Iterator[None]:
    """Each commit of the journal, and of answers, has a moment before and one after it."""
    commit, move, keep_all = Journal._commit, Journal.move, Ledger.keep_all

    def slow_commit(self: Journal) -> None:
        what, steps.writes = steps.writes, Steps().writes
        steps.reach(f"before a commit: {what}")
        commit(self)
        steps.reach(f"after a commit: {what}")

    def named_move(self: Journal, batch: Batch, state: State, **fields: Any) -> Batch | None:
        steps.writes = state
        return move(self, batch, state, **fields)

    def slow_keep(self: Ledger, answers: Any) -> Any:
        steps.reach("before answers are kept")
        held = keep_all(self, answers)
        steps.reach("after answers are kept")
        return held

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "_commit", slow_commit)
        patch.setattr(Journal, "move", named_move)
        patch.setattr(Ledger, "keep_all", slow_keep)
        yield


class Listener(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, sentence: str) -> None:
        """Something to know."""
        self.notes.append(sentence)

    def warn(self, sentence: str) -> None:
        """Something wrong."""
        self.warnings.append(sentence)


class Client:
    """Submits and collects, as one process after another does, on one ledger."""

    def __init__(
        self, folder: Path, server: BatchServer, name: str, groups: int = 5, model: str = "m", **limits: int
    ) -> None:
        """`limits` are attributes of the provider: `requests` and `bytes` of a batch."""
        self.server, self.name, self.limits, self.window = server, name, limits, WINDOW
        self.source = write(folder / "in.jsonl", [group(f"g{i}", 0.25, (i % 5) / 4) for i in range(groups)])
        self.place, self.listener = folder / "ledger.sqlite", Listener()
        judge = JudgeSettings(f"{name}/{model}", api_base=getattr(server, name), api_key=KEY)
        self.settings = ScoreSettings(
            InputSettings(str(self.source)), str(folder / "out.jsonl"), judge, ledger=self.place
        )

    def submit(self, steps: Steps | None = None, **changed: Any) -> Submitted:
        """One process that submits."""
        settings = replace(self.settings, **changed)

        async def main() -> Submitted:
            async with self.doors(steps) as doors:
                return await submit(settings, doors, lambda batch: None, self.listener, window=self.window)

        return self._run(main, steps)

    def collect(self, steps: Steps | None = None, wait: float = 0.0) -> Collected:
        """One process that collects."""

        async def main() -> Collected:
            async with self.doors(steps) as doors:
                return await collect(
                    self.place, doors, lambda taken: None, self.listener, window=self.window, wait=wait,
                    pauses=Pauses(0.01, 0.05),
                )  # fmt: skip

        return self._run(main, steps)

    def until_all_is_in(self, rounds: int = 8) -> int:
        """Submit and collect in turn until nothing is lacking; how many rounds that took."""
        for number in range(1, rounds + 1):
            submitted = self.submit()
            collected = self.collect(wait=5.0)
            if not submitted.batches and not submitted.out and not submitted.doubts and not collected.open:
                return number
        raise AssertionError(f"still lacking after {rounds} rounds: {submitted}, {collected}")

    def settle(self, window: float, *, give_up: bool) -> list[Doubt]:
        """Settle, and what is in doubt then."""

        async def main() -> list[Doubt]:
            async with self.doors(None) as doors:
                with Journal(self.place) as journal:
                    return await settle(journal, doors, self.listener, window=window, give_up=give_up)

        return self._run(main, None)

    def batches(self) -> list[Batch]:
        """Every batch on record."""
        with Journal(self.place) as journal:
            return journal.batches()

    def lacking(self) -> int:
        """How many requests the ledger does not answer."""
        return sum(anyio.run(render, self.settings, lambda seat, key, request: None).requests)

    def doors(self, steps: Steps | None) -> Doors:
        """Ways to the server."""

        def make(judge: JudgeSettings) -> Provider:
            if judge.api_base is None:
                raise UsageError("a test asks nobody else")
            made = api(self.name, self.server)
            for limit, value in self.limits.items():
                setattr(made, limit, value)
            return made if steps is None else Mortal(made, steps)

        return Doors(make=make)

    def _run(self, main: Callable[[], Awaitable[T]], steps: Steps | None) -> T:
        with mortal_disk(steps) if steps is not None else contextlib.nullcontext():
            return anyio.run(main)
