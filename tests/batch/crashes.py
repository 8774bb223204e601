"""A client that crashes at any step, and the requests that the provider bills until another one recovers."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.ledger.database import LedgerFile
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch import batches as module
from ruler_cli.runs.batch.batches import (
    Batches,
    BatchStatus,
    SubmitResult,
    UncertainBatch,
)
from ruler_cli.runs.batch.journal import BatchRecord, BatchState, Journal
from ruler_cli.runs.batch.providers import Provider, Providers
from ruler_cli.runs.batch.requests import find_missing
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Observer
from tests.batch.apis import KEY, at_once
from tests.conftest import group, write
from tests.judge_server import BatchServer

T = TypeVar("T")
CALLS = ("upload", "create", "retrieve", "cancel", "results", "list_batches")
WINDOW = 0.1
"""Seconds in which a lost batch may still appear if listings are not late."""


class Crash(BaseException):
    """The end of the client, as sudden as possible within one process."""


@dataclass(slots=True)
class Steps:
    """Count the steps of a client; at the `fatal` one it dies, and every later step fails."""

    fatal: int = -1
    passed: list[str] = field(default_factory=list)
    writes: str = "an intent"
    died: str = ""

    def reach(self, name: str) -> None:
        """Pass one more step."""
        if self.died:
            raise Crash(self.died)
        if len(self.passed) == self.fatal:
            self.died = name
            raise Crash(name)
        self.passed.append(name)


def mortal(provider: Any, steps: Steps) -> Any:
    """Wrap a provider so that each call has a step before and one after it."""

    def call(name: str) -> Callable[..., Awaitable[Any]]:
        whole = getattr(provider, name)

        async def called(*args: Any) -> Any:
            steps.reach(f"before {name}")
            result = await whole(*args)
            steps.reach(f"after {name}")
            return result

        return called

    for name in CALLS:
        setattr(provider, name, call(name))
    return provider


class Loopback(Providers):
    """The providers of a test's server."""

    def __init__(self, limits: dict[str, Any], steps: Steps | None) -> None:
        super().__init__()
        self.limits, self.steps = limits, steps
        self.ready = list[Provider]()

    def for_judge(self, judge: JudgeSettings) -> Provider:
        """Return the provider of a judge, without waits."""
        if judge.api_base is None:
            raise UsageError("a test asks nobody else")

        provider = super().for_judge(
            replace(judge, api_key=KEY, api_key_env=None)
        )
        if provider not in self.ready:
            self.ready.append(at_once(provider))
            for name, most in self.limits.items():
                setattr(provider, f"most_{name}", most)
            if self.steps is not None:
                mortal(provider, self.steps)
        return provider


@contextlib.contextmanager
def mortal_disk(steps: Steps) -> Iterator[None]:
    """Give each commit of the journal, and of replies, a step before and one after it."""
    transaction, move, keep_all = (
        LedgerFile.transaction,
        Journal.move,
        Ledger.keep_all,
    )

    @contextlib.contextmanager
    def slow_transaction(self: LedgerFile) -> Iterator[Any]:
        with transaction(self) as connection:
            yield connection
            name, steps.writes = steps.writes, Steps().writes
            steps.reach(f"before a commit: {name}")
        steps.reach(f"after a commit: {name}")

    def named_move(
        self: Journal, batch: BatchRecord, state: BatchState, **fields: Any
    ) -> BatchRecord:
        steps.writes = state
        return move(self, batch, state, **fields)

    def slow_store(self: Ledger, answers: Any) -> Any:
        steps.writes = "replies"
        return keep_all(self, answers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerFile, "transaction", slow_transaction)
        patch.setattr(Journal, "move", named_move)
        patch.setattr(Ledger, "keep_all", slow_store)
        yield


@dataclass
class Collected:
    """Batches that a collection closed, and those that are still open."""

    closed: list[BatchRecord]
    open: list[BatchStatus]

    @property
    def left_out(self) -> int:
        """Requests that are free to be submitted again."""
        return sum(batch.left_out or 0 for batch in self.closed)


class Listener(Observer):
    """Store notes and warnings."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, sentence: str) -> None:
        """Store a note."""
        self.notes.append(sentence)

    def warn(self, sentence: str) -> None:
        """Store a warning."""
        self.warnings.append(sentence)


class Client:
    """Submit and collect on one ledger, each call as a process of its own."""

    def __init__(
        self,
        folder: Path,
        server: BatchServer,
        name: str,
        groups: int = 5,
        model: str = "m",
        **limits: int,
    ) -> None:
        """Write the input; `limits` are the provider's: `requests` and `bytes` of a batch."""
        self.server, self.name, self.limits, self.window = (
            server,
            name,
            limits,
            WINDOW,
        )
        self.source = write(
            folder / "in.jsonl",
            [group(f"g{i}", 0.25, (i % 5) / 4) for i in range(groups)],
        )
        self.ledger_path, self.listener = folder / "ledger.sqlite", Listener()
        judge = JudgeSettings(
            f"{name}/{model}", api_base=getattr(server, name), api_key=KEY
        )
        self.settings = ScoreSettings(
            InputSettings(str(self.source)),
            str(folder / "out.jsonl"),
            judge,
            ledger=self.ledger_path,
        )

    def submit(
        self, steps: Steps | None = None, **changed: Any
    ) -> SubmitResult:
        """Submit as one process."""
        settings = replace(self.settings, **changed)

        async def main(batches: Batches) -> SubmitResult:
            return await batches.submit(settings, lambda batch: None)

        return self.run(main, steps)

    def collect(
        self, steps: Steps | None = None, wait: float = 0.0
    ) -> Collected:
        """Collect as one process."""
        closed: list[BatchRecord] = []

        async def main(batches: Batches) -> Collected:
            still_open = await batches.collect(closed.append, wait=wait)
            return Collected(closed, still_open)

        return self.run(main, steps)

    def until_complete(self, rounds: int = 8) -> int:
        """Submit and collect in turn until no request is missing; return the number of rounds."""
        for number in range(1, rounds + 1):
            submitted = None
            with contextlib.suppress(UncertainBatch):
                submitted = self.submit()
            collected = self.collect(wait=5.0)
            out = submitted is None or submitted.batches or submitted.out
            if not (out or collected.open):
                return number
        raise AssertionError(
            f"still lacking after {rounds} rounds: {submitted}, {collected}"
        )

    def status(self) -> list[BatchStatus]:
        """Return the open batches as their provider reports them."""
        return self.run(lambda batches: batches.status())

    def batches(self) -> list[BatchRecord]:
        """Return every batch on record."""
        with Journal(self.ledger_path) as journal:
            return journal.batches()

    def missing(self) -> int:
        """Count the requests that the ledger does not answer."""

        async def main() -> int:
            missing = await find_missing(
                self.settings, lambda *_: None, Observer()
            )
            return sum(missing.requests)

        return anyio.run(main)

    def run(
        self,
        main: Callable[[Batches], Awaitable[T]],
        steps: Steps | None = None,
    ) -> T:
        """Run `main` with the batches of the ledger, as one process."""

        async def with_batches() -> T:
            with Journal(self.ledger_path) as journal:
                async with Loopback(self.limits, steps) as providers:
                    batches = Batches(
                        journal, providers, self.listener, self.window
                    )
                    return await main(batches)

        with contextlib.ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(module, "_FIRST_PAUSE", 0.01)
            if steps is not None:
                stack.enter_context(mortal_disk(steps))
            return anyio.run(with_batches)
