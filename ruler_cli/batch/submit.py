"""INPUT → batches at a provider: what the ledger lacks, and no batch that is out has, each request once.

A batch is on record, with its requests and the file that holds them, before it is asked for; then so is its
name. The next command recovers from a crash between the two.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio

from ruler_cli.batch.http import UnclearError
from ruler_cli.batch.journal import BatchRecord, Journal
from ruler_cli.batch.providers import Provider, Providers
from ruler_cli.batch.recover import WINDOW, BatchStanding, settle_and_wait
from ruler_cli.batch.missing_requests import Rendered, render
from ruler_cli.batch.request_lines import Line, batch_price, request_line
from ruler_cli.config import JudgeSettings, ScoreSettings
from ruler_cli.errors import OutputError, RulerError, UsageError
from ruler_cli.estimate import ALWAYS, Bill, Range
from ruler_cli.judges.pricing import PricedModel
from ruler_cli.judges.resolve import model_of
from ruler_cli.judging.group_run import judges_of
from ruler_cli.observer import Observer
from ruler_cli.pool.engine import StopSignal, first_of
from ruler_cli.prompting.layout import BYTES_PER_TOKEN
from ruler_cli.types import Request

T = TypeVar("T")
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
    batches: tuple[BatchRecord, ...]
    out: int
    large: int
    doubts: tuple[BatchStanding, ...]

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
    model: PricedModel


async def submit(
    settings: ScoreSettings,
    providers: Providers,
    done: Callable[[BatchRecord], None],
    observer: Observer,
    halt: StopSignal,
    window: float = WINDOW,
) -> Submitted:
    """Recover from crashes, then submit all that the ledger lacks; `done` is called with each batch.

    With `pool.max_cost` nothing is submitted if all of it could cost more: TooDear. RulerError if INPUT
    cannot be read, or a provider refuses; batches submitted until then are on record. It can be canceled at
    any time: a batch that is being created then is waited for, which is told once `halt` is.
    """
    if settings.ledger is None:
        raise UsageError("batches: answers are taken into the ledger; leave out --ledger none")
    judges = [_judge(judge, providers, settings.pool.max_cost) for judge in judges_of(settings)]
    waits = False
    with Journal(settings.ledger) as journal:
        while True:
            with journal.alone() as mine:
                if mine:
                    doubts = await settle_and_wait(journal, providers, observer, window)
                    packer = _Packer(journal, judges)
                    rendered, batches = await packer.all(settings, observer), list[BatchRecord]()
                    for draft in packer.drafts:
                        batches.append(await _send(journal, draft, observer, halt))
                        done(batches[-1])
                    out = sum(rendered.requests) - packer.large - sum(each.requests for each in batches)
                    return Submitted(rendered, tuple(batches), out, packer.large, tuple(doubts))
            if not waits:
                waits = True
                observer.note("another command submits to this ledger; waiting for its end")
            await anyio.sleep(_TURN)


def _judge(settings: JudgeSettings, providers: Providers, max_cost: float | None) -> _Judge:
    """A judge, ready to be asked in batches; UsageError if it cannot be, or its cost not be capped."""
    provider, price = providers.of(settings), batch_price(settings)
    if max_cost is not None and price is None:
        raise UsageError(
            f"--max-cost: the price of {settings.model} is not known; give it with --price IN,OUT, in "
            "USD per million prompt and completion tokens (a batch takes half of it)"
        )
    model = replace(model_of(settings), price=price)
    return _Judge(settings, provider, request_line(provider.api.name, settings), model)


class _Draft:
    """A batch that is being put together: its requests, in a file, and what they may cost."""

    def __init__(self, judge: _Judge, journal: Journal) -> None:
        self.judge, self.tag = judge, f"{int(time.time()):08x}-{secrets.token_hex(6)}"
        self.file = journal.folder / f"ruler-{self.tag}.jsonl"
        self.requests = self.bytes = 0
        self._bill = Bill(judge.settings.model, judge.model, judge.settings.params)

    def fits(self, size: int) -> bool:
        """Tell if the provider takes so many bytes more in the same batch."""
        return self.judge.provider.limits.allow(self.requests + 1, self.bytes + size)

    def add(self, line: bytes, request: Request) -> None:
        """Add a request."""
        api = self.judge.provider.api
        self.write((api.between if self.requests else api.opening) + line.removesuffix(b"\n"))
        self.requests, self.bytes = self.requests + 1, self.bytes + len(line)
        prompt = sum(len(text.encode("utf-8", "replace")) for text in (request.system, request.user))
        tokens = prompt / BYTES_PER_TOKEN
        self._bill.add(Range(tokens, tokens, tokens), len(request.labels), ALWAYS)

    def write(self, data: bytes) -> None:
        """Write on in the file; OutputError if there is no room."""
        try:
            with self.file.open("ab") as out:
                out.write(data)
        except OSError as error:
            raise OutputError(
                f"{self.file.parent}: the requests cannot be written there: {error.strerror}; make room, "
                "or give a ledger elsewhere with --ledger PATH"
            ) from None

    def cost(self) -> Range | None:
        """USD, each request asked once: if it is to be asked again, that will be in another batch."""
        return self._bill.figures(self.judge.model.price, ALWAYS).cost_usd


class _Packer:
    """Puts requests into batches as they come: set aside in the journal, and in the batch's file."""

    def __init__(self, journal: Journal, judges: list[_Judge]) -> None:
        self.drafts: list[_Draft] = []
        self.large = 0
        self._journal, self._judges, self._newest = journal, judges, journal.newest()
        self._filling: dict[int, _Draft] = {}

    async def all(self, settings: ScoreSettings, observer: Observer) -> Rendered:
        """Render INPUT into drafts; TooDear if all of them could cost more than the user allows."""
        rendered = await render(settings, self._take, observer)
        for draft in self.drafts:
            draft.write(draft.judge.provider.api.closing)
        costs, most = [draft.cost() for draft in self.drafts], settings.pool.max_cost
        high = sum(cost.high for cost in costs if cost)
        if most is not None and high > most:
            raise TooDear(most, high, sum(draft.requests for draft in self.drafts))
        return rendered

    def _take(self, number: int, key: bytes, request: Request) -> None:
        judge = self._judges[number]
        line = judge.line(key, request)
        if not judge.provider.limits.allow(1, len(line)):
            self.large += 1
        elif self._journal.free(key, self._newest):
            draft = self._filling.get(number)
            if draft is None or not draft.fits(len(line)):
                draft = self._filling[number] = _Draft(judge, self._journal)
                self.drafts.append(draft)
            draft.add(line, request)
            self._journal.claim(draft.tag, key)


async def _send(journal: Journal, draft: _Draft, observer: Observer, halt: StopSignal) -> BatchRecord:
    """Take one batch to its provider, on record before it is asked for."""
    judge, provider, cost = draft.judge.settings, draft.judge.provider, draft.cost()
    uploaded = await provider.upload(draft.file, draft.tag)
    batch = journal.begin(
        draft.tag,
        provider=provider.api.name,
        model=judge.model,
        base=judge.api_base,
        key_env=judge.api_key_env,
        account=provider.wire.account,
        requests=draft.requests,
        bytes=draft.bytes,
        usd=cost.expected if cost else None,
        file=uploaded,
    )

    async def say_why_it_goes_on() -> None:
        await halt.event.wait()
        observer.note(
            "stopping once the provider has answered, since the batch is paid for then; Ctrl-C "
            "stops at once, and the next `ruler batch` command looks for it"
        )

    try:
        with anyio.CancelScope(shield=True):  # without its answer nobody knows what is paid for
            remote = await beside(
                say_why_it_goes_on, lambda: provider.create(draft.file, uploaded, draft.tag)
            )
    except UnclearError as error:
        journal.move(batch, "creating", reason=str(error))
        raise RulerError(
            f"{error}; batch {batch.tag} is on record as perhaps submitted, and the next `ruler batch` "
            "command looks for it"
        ) from None
    except RulerError as error:
        journal.move(batch, "failed", reason=str(error))
        raise
    draft.file.unlink(missing_ok=True)
    created = journal.move(batch, "submitted", remote=remote.id, label=remote.label)
    if created is None:
        raise RulerError(
            f"batch {batch.tag}: was given up by another command while it was created; it is {remote.id} at "
            "its provider, which bills it: call it off there"
        )
    return created


async def beside(companion: Callable[[], Coroutine[Any, Any, None]], work: Callable[[], Awaitable[T]]) -> T:
    """Do the work, beside a companion that ends with it, or ends it by raising."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(companion)
            done = await work()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_of(group) from None
    return done
