"""INPUT → batches at a provider: what the ledger lacks, and no batch that is out has, each request once.

Every intent is on record before its step: the requests that go, then the file that holds them, then that
the batch is asked for, then its name. A crash between any two is settled by the next command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli.batches.doors import Doors
from ruler_cli.batches.intents import Lot, Seat, choose, fits
from ruler_cli.batches.journal import Batch, Journal, State
from ruler_cli.batches.provider import Provider, UnclearError
from ruler_cli.batches.settle import WINDOW, Doubt, settle_all
from ruler_cli.batches.spool import Spool
from ruler_cli.batches.tasks import meanwhile, unless_told
from ruler_cli.errors import RulerError, UsageError
from ruler_cli.hearing import judges_of
from ruler_cli.judges.choose import Target, batch_price, model_of, request_line
from ruler_cli.observer import Observer
from ruler_cli.pool.halt import Halt
from ruler_cli.records import Request
from ruler_cli.rendering import Rendered, render
from ruler_cli.settings import JudgeSettings, ScoreSettings


@dataclass(frozen=True, slots=True)
class Submitted:
    """What was submitted.

    `out` requests are lacking still and are in other open batches, `large` ones are larger than the
    provider takes.
    """

    rendered: Rendered
    batches: tuple[Batch, ...]
    out: int
    large: int
    doubts: tuple[Doubt, ...]

    @property
    def requests(self) -> int:
        """How many requests were submitted."""
        return sum(batch.requests for batch in self.batches)


async def submit(
    settings: ScoreSettings,
    doors: Doors,
    told: Callable[[Batch], None],
    observer: Observer | None = None,
    halt: Halt | None = None,
    *,
    window: float = WINDOW,
) -> Submitted:
    """Settle what was left, then submit all that the ledger lacks; `told` hears each batch as it is there.

    With `pool.max_cost` nothing is submitted where all of it could cost more: TooDear. RulerError where
    INPUT cannot be read, a provider refuses, or `halt` is told to stop; what was submitted until then is
    on record.
    """
    observer, halt = observer or Observer(), halt or Halt()
    if settings.ledger is None:
        raise UsageError("batches: answers are taken into the ledger; leave out --ledger none")
    seats = [await _seat(judge, doors) for judge in judges_of(settings)]
    most = settings.pool.max_cost
    for seat in seats:
        if most is not None and seat.model.price is None:
            raise UsageError(
                f"--max-cost: the price of {seat.judge.model} is not known; give it with --price IN,OUT, in "
                "USD per million prompt and completion tokens (a batch takes half of it)"
            )
    lines = [request_line(_target(seat.provider), seat.judge) for seat in seats]
    with Journal(settings.ledger) as journal:
        doubts = await unless_told(halt, lambda: settle_all(journal, doors, observer, window))
        with Spool(settings.ledger) as spool:
            newest, large = journal.newest(), 0

            def take(seat: int, key: bytes, request: Request) -> None:
                nonlocal large
                line = lines[seat](key, request)
                if fits(seats[seat].provider, len(line)):
                    spool.add(seat, key, line, request)
                else:
                    large += 1

            rendered = await render(settings, take, observer, halt)
            lots = await anyio.to_thread.run_sync(partial(choose, journal, spool, seats, newest, most))
            sending = _Sending(journal, spool, seats, halt, observer)
            batches = await sending.all(lots, told)
        out = sum(rendered.requests) - large - sum(lot.requests for lot in lots)
    return Submitted(rendered, tuple(batches), out, large, tuple(doubts))


async def _seat(judge: JudgeSettings, doors: Doors) -> Seat:
    model = replace(model_of(judge), price=batch_price(judge))
    return Seat(judge, await doors.of(judge), model)


def _target(provider: Provider) -> Target:
    return "openai" if provider.tagged else "anthropic"


class _Sending:
    """Takes each intent to its provider, step by step."""

    def __init__(
        self, journal: Journal, spool: Spool, seats: Sequence[Seat], halt: Halt, observer: Observer
    ) -> None:
        self._journal, self._spool, self._seats = journal, spool, seats
        self._halt, self._observer, self._said = halt, observer, False

    async def all(self, lots: Sequence[Lot], told: Callable[[Batch], None]) -> list[Batch]:
        """Submit one after the other; those that come behind a failure are given up."""
        done = []
        try:
            for lot in lots:
                if self._halt.reason is not None:
                    raise self._halt.reason
                batch = await self._one(lot, self._seats[lot.seat].provider)
                told(batch)
                done.append(batch)
        except RulerError as error:
            for batch in map(self._journal.one, (lot.id for lot in lots[len(done) :])):
                if batch.state in ("intended", "uploaded"):
                    self._journal.move(batch, "abandoned", reason=str(error))
            raise
        return done

    async def _one(self, lot: Lot, provider: Provider) -> Batch:
        batch = self._journal.one(lot.id)
        mine = partial(self._journal.holds, lot.id)
        write = partial(self._spool.write, lot.seat, lot.tag, mine, lot.first, lot.last)
        file = await anyio.to_thread.run_sync(write)
        uploaded = await unless_told(self._halt, lambda: provider.upload(file, lot.tag))
        batch = self._moved(batch, "uploaded", file=uploaded)
        batch = self._moved(batch, "creating", began=time.time())
        try:
            # not interrupted: whoever sees no answer does not know what is paid for
            remote = await meanwhile(
                self._beat, lambda: provider.create(file, uploaded, lot.tag, lot.requests)
            )
        except UnclearError as error:
            self._journal.move(batch, "creating", reason=str(error))
            raise UnclearError(
                f"{error}; batch {lot.tag} is on record as perhaps submitted, and the next `ruler batch` "
                "command looks for it"
            ) from None
        except RulerError as error:
            self._journal.move(batch, "failed", reason=str(error))
            raise
        file.unlink(missing_ok=True)
        return self._moved(batch, "submitted", remote=remote.id, label=remote.label)

    def _beat(self) -> None:
        self._spool.beat()
        if self._halt.reason is not None and not self._said:
            self._said = True
            self._observer.note(
                "stopping once the provider has answered, since the batch is paid for then; Ctrl-C stops at "
                "once, and the next `ruler batch` command looks for it"
            )

    def _moved(self, batch: Batch, state: State, **fields: Any) -> Batch:
        moved = self._journal.move(batch, state, **fields)
        if moved is not None:
            return moved
        now = self._journal.one(batch.id)
        if now.remote is not None and now.remote == fields.get("remote"):
            return now  # found at the provider by another process, before we had its answer
        raise RulerError(
            f"batch {batch.tag}: another process took it for left behind ({now.state}); run the same command "
            "again"
        )
