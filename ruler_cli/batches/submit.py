"""INPUT → batches at a provider: what the ledger lacks, and no batch that is out has, each request once.

Every intent is on record before its step: the requests, then the file that holds them, then that the batch
is asked for, then its name. The next command recovers from a crash between any two.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import anyio

from ruler_cli.batches.apis import Provider
from ruler_cli.batches.journal import Batch, Journal, State
from ruler_cli.batches.providers import Providers
from ruler_cli.batches.recover import WINDOW, Standing, settle_and_wait
from ruler_cli.batches.wire import UnclearError
from ruler_cli.errors import OutputError, RulerError, UsageError
from ruler_cli.estimate import ALWAYS, Bill, Range
from ruler_cli.judges.choose import Line, batch_price, model_of, request_line
from ruler_cli.judges.prices import Model
from ruler_cli.judging import judges_of
from ruler_cli.observer import Observer
from ruler_cli.pool.engine import first_of
from ruler_cli.pool.halt import Halt
from ruler_cli.records import Request
from ruler_cli.rendering import Rendered, render
from ruler_cli.scoring.sheet import BYTES_PER_TOKEN
from ruler_cli.settings import JudgeSettings, ScoreSettings

T = TypeVar("T")
_ROWS, _BYTES = 1000, 8 << 20
"""Requests, or bytes of them, that are claimed in one transaction."""
_AROUND = 64
"""Bytes of a batch's file or call that are no request's own."""
_BEAT = 1.0
"""Seconds between two signs of life."""
_TURN = 0.5
"""Seconds between two looks at whether another command has ended."""


class TooDear(RulerError):  # noqa: N818 - nothing went wrong: it is as the user wants it
    """A submission that could cost more than the user allows; nothing was submitted."""

    exit_code = 4

    def __init__(self, most: float, high: float, requests: int) -> None:
        """`most` is allowed and `high` the most that it is estimated to cost, both in USD."""
        super().__init__(
            f"--max-cost {most:g}: a batch cannot be stopped at a sum, and the {requests} requests that are "
            f"lacking could cost up to ${high:.2f} at batch price; nothing was submitted. Allow as much, or "
            "submit a part of INPUT"
        )


@dataclass(frozen=True, slots=True)
class Submitted:
    """The result of a submission.

    `out` requests are lacking still and are in other open batches, `large` ones are larger than the
    provider takes.
    """

    rendered: Rendered
    batches: tuple[Batch, ...]
    out: int
    large: int
    doubts: tuple[Standing, ...]

    @property
    def requests(self) -> int:
        """How many requests were submitted."""
        return sum(batch.requests for batch in self.batches)


@dataclass(frozen=True, slots=True)
class _Judge:
    """A judge, its provider, the form of its requests, and its price in a batch."""

    settings: JudgeSettings
    provider: Provider
    line: Line
    model: Model

    @classmethod
    def of(cls, settings: JudgeSettings, providers: Providers, max_cost: float | None) -> _Judge:
        """A judge, ready to be asked in batches; UsageError if it cannot be, or its cost not be capped."""
        provider, model = providers.of(settings), replace(model_of(settings), price=batch_price(settings))
        if max_cost is not None and model.price is None:
            raise UsageError(
                f"--max-cost: the price of {settings.model} is not known; give it with --price IN,OUT, in "
                "USD per million prompt and completion tokens (a batch takes half of it)"
            )
        return cls(settings, provider, request_line(provider.name, settings), model)


async def submit(
    settings: ScoreSettings,
    providers: Providers,
    done: Callable[[Batch], None],
    observer: Observer,
    halt: Halt,
    window: float = WINDOW,
) -> Submitted:
    """Recover from crashes, then submit all that the ledger lacks; `done` is called with each batch.

    With `pool.max_cost` nothing is submitted if all of it could cost more: TooDear. RulerError if INPUT
    cannot be read, a provider refuses, or `halt` is told to stop; batches submitted until then are on
    record.
    """
    if settings.ledger is None:
        raise UsageError("batches: answers are taken into the ledger; leave out --ledger none")
    judges = [_Judge.of(judge, providers, settings.pool.max_cost) for judge in judges_of(settings)]
    waits = False
    with Journal(settings.ledger) as journal:
        while True:
            with journal.alone() as mine:
                if mine:
                    doubts = await unless_told(
                        halt, lambda: settle_and_wait(journal, providers, observer, window)
                    )
                    packer = _Packer(journal, judges)
                    rendered = await packer.all(settings, observer, halt)
                    batches = await _send_all(journal, packer.drafts, done, observer, halt)
                    out = sum(rendered.requests) - packer.large - sum(each.requests for each in batches)
                    return Submitted(rendered, tuple(batches), out, packer.large, tuple(doubts))
            if not waits:
                waits = True
                observer.note("another command submits to this ledger; waiting for its end")
            await unless_told(halt, lambda: anyio.sleep(_TURN))


async def unless_told(halt: Halt, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; if `halt` is told to stop before it is done, leave off and raise the reason."""

    async def stop() -> None:
        await halt.told.wait()
        raise halt.reason or RulerError("stopped")

    return await _beside(stop, work)


async def _beside(companion: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[T]]) -> T:
    """Do the work, beside a companion that ends with it, or ends it by raising."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(companion)
            done = await work()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done


class _Draft:
    """A batch that is being put together: its requests, in a file, and what they may cost."""

    def __init__(self, batch: Batch, judge: _Judge, file: Path) -> None:
        self.batch, self.judge, self.file = batch, judge, file
        self.requests = self.bytes = 0
        self._out: BinaryIO = file.open("wb")
        self._bill = Bill(judge.settings.model, judge.model, judge.settings.params)

    def fits(self, size: int) -> bool:
        """Tell if the provider takes so many bytes more in the same batch."""
        limits = self.judge.provider.limits
        return self.requests < (limits.requests or self.requests + 1) and _fits(self.judge, self.bytes + size)

    def add(self, line: bytes, request: Request) -> None:
        """Add a request."""
        self.requests, self.bytes = self.requests + 1, self.bytes + len(line)
        self._out.write(line)
        prompt = sum(len(text.encode("utf-8", "replace")) for text in (request.system, request.user))
        tokens = prompt / BYTES_PER_TOKEN
        self._bill.add(Range(tokens, tokens, tokens), len(request.labels), ALWAYS)

    def close(self) -> None:
        """Write the rest of the file."""
        self._out.close()

    def cost(self) -> Range | None:
        """USD, each request asked once: if it is to be asked again, that will be in another batch."""
        return self._bill.figures(self.judge.model.price, ALWAYS).cost_usd


class _Packer:
    """Puts requests into batches as they come: claimed in the journal, and in the batch's file."""

    def __init__(self, journal: Journal, judges: list[_Judge]) -> None:
        self.drafts: list[_Draft] = []
        self.large = 0
        self._journal, self._judges, self._newest = journal, judges, journal.newest()
        self._filling: dict[int, _Draft] = {}
        self._waiting: list[tuple[int, bytes, bytes, Request]] = []
        self._bytes = 0

    async def all(self, settings: ScoreSettings, observer: Observer, halt: Halt) -> Rendered:
        """Render INPUT into batches on record; nothing stays on record if that fails."""
        try:
            rendered = await render(settings, self._take, observer, halt)
            self._flush()
            self._finish(settings.pool.max_cost)
        except BaseException:
            for draft in self.drafts:
                with suppress(OSError):  # a full disk was told of
                    draft.close()
            self._journal.forget([draft.batch.id for draft in self.drafts])
            raise
        return rendered

    def _take(self, number: int, key: bytes, request: Request) -> None:
        line = self._judges[number].line(key, request)
        if not _fits(self._judges[number], len(line)):
            self.large += 1
            return
        self._waiting.append((number, key, line, request))
        self._bytes += len(line)
        if len(self._waiting) >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def _flush(self) -> None:
        """Claim what is free, together, and write it down."""
        with self._room(), self._journal.writing():
            for number, key, line, request in self._waiting:
                if self._journal.free(key, self._newest):
                    draft = self._draft(number, len(line))
                    self._journal.claim(draft.batch.id, key)
                    draft.add(line, request)
        self._waiting, self._bytes = [], 0

    def _draft(self, number: int, size: int) -> _Draft:
        """The batch for a request of this size."""
        filling = self._filling.get(number)
        if filling is not None and filling.fits(size):
            return filling
        if filling is not None:
            filling.close()
        judge = self._judges[number]
        settings, provider = judge.settings, judge.provider
        batch = self._journal.begin(
            provider.name, settings.model, settings.api_base, settings.api_key_env, provider.wire.account
        )
        draft = _Draft(batch, judge, self._journal.folder / f"ruler-{batch.tag}.jsonl")
        self.drafts.append(draft)
        self._filling[number] = draft
        return draft

    def _finish(self, most: float | None) -> None:
        """Record sizes and costs; TooDear if all could cost more than `most` USD."""
        high = 0.0
        with self._room(), self._journal.writing():
            for draft in self.drafts:
                draft.close()
                cost = draft.cost()
                high += cost.high if cost else 0.0
                usd = cost.expected if cost else None
                self._journal.measure(draft.batch.id, draft.requests, draft.bytes, usd)
        if most is not None and high > most:
            raise TooDear(most, high, sum(draft.requests for draft in self.drafts))

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self._journal.folder}: the requests cannot be written there: {error.strerror}; make room, "
                "or give a ledger elsewhere with --ledger PATH"
            ) from None


async def _send_all(
    journal: Journal, drafts: list[_Draft], done: Callable[[Batch], None], observer: Observer, halt: Halt
) -> list[Batch]:
    """Submit one batch after the other; those behind a failure are given up."""
    batches: list[Batch] = []
    try:
        for draft in drafts:
            if halt.reason is not None:
                raise halt.reason
            batches.append(await _send(journal, draft, observer, halt))
            done(batches[-1])
    except RulerError as error:
        for draft in drafts[len(batches) :]:
            batch = journal.one(draft.batch.id)
            if batch.state in ("intended", "uploaded"):
                journal.move(batch, "abandoned", reason=str(error))
        raise
    return batches


async def _send(journal: Journal, draft: _Draft, observer: Observer, halt: Halt) -> Batch:
    """Take one batch to its provider, each step on record before it is taken."""
    provider, file, tag = draft.judge.provider, draft.file, draft.batch.tag

    def moved(batch: Batch, state: State, **changed: Any) -> Batch:
        found = journal.move(batch, state, **changed)
        if found is None:
            raise RulerError(f"batch {tag}: another process changed it; run the same command again")
        return found

    async def show_life() -> None:
        noted = False
        while True:
            await anyio.sleep(_BEAT)
            with suppress(OutputError):  # without it the batch is only looked for sooner
                journal.move(batch, "creating")
            if halt.reason is not None and not noted:
                noted = True
                observer.note(
                    "stopping once the provider has answered, since the batch is paid for then; Ctrl-C "
                    "stops at once, and the next `ruler batch` command looks for it"
                )

    uploaded = await unless_told(halt, lambda: provider.upload(file, tag))
    batch = moved(draft.batch, "uploaded", file=uploaded)
    batch = moved(batch, "creating", began=time.time())
    try:
        # not interrupted: without the answer nobody knows what is paid for
        remote = await _beside(show_life, lambda: provider.create(file, uploaded, tag))
    except UnclearError as error:
        journal.move(batch, "creating", reason=str(error))
        raise UnclearError(
            f"{error}; batch {tag} is on record as perhaps submitted, and the next `ruler batch` "
            "command looks for it"
        ) from None
    except RulerError as error:
        journal.move(batch, "failed", reason=str(error))
        raise
    file.unlink(missing_ok=True)
    return moved(batch, "submitted", remote=remote.id, label=remote.label)


def _fits(judge: _Judge, size: int) -> bool:
    """Tell if requests of so many bytes fit a batch."""
    limits = judge.provider.limits
    return limits.bytes is None or size + _AROUND <= limits.bytes
