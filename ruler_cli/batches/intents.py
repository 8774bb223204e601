"""Which requests go in which batch: those that nobody has submitted, as many as a batch holds, at a price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ruler_cli.batches.doors import way_of
from ruler_cli.batches.journal import Journal, Writing
from ruler_cli.batches.provider import Provider
from ruler_cli.batches.spool import Pick, Spool
from ruler_cli.errors import RulerError
from ruler_cli.estimate import ALWAYS, Bill, Range
from ruler_cli.judges.prices import Model
from ruler_cli.scoring.sheet import BYTES_PER_TOKEN
from ruler_cli.settings import JudgeSettings

_AROUND = 64
"""Bytes of a batch's file or call that are no request's own."""


class TooDear(RulerError):  # noqa: N818 - nothing went wrong: it is as the user wants it
    """What would be submitted could cost more than the user allows; nothing was."""

    exit_code = 4

    def __init__(self, most: float, high: float, requests: int) -> None:
        """`most` is allowed and `high` the most that it is estimated to cost, both in USD."""
        super().__init__(
            f"--max-cost {most:g}: a batch cannot be stopped at a sum, and the {requests} requests that are "
            f"lacking could cost up to ${high:.2f} at batch price; nothing was submitted. Allow as much, or "
            "submit a part of INPUT"
        )


@dataclass(frozen=True, slots=True)
class Seat:
    """A judge, the provider that asks it, and what is known of it, its price being that in a batch."""

    judge: JudgeSettings
    provider: Provider
    model: Model


@dataclass(frozen=True, slots=True)
class Lot:
    """An intent on record, and the first and the last of its requests in the spool."""

    id: int
    tag: str
    seat: int
    first: Pick
    last: Pick
    requests: int


def choose(
    journal: Journal, spool: Spool, seats: Sequence[Seat], newest: int, most: float | None
) -> list[Lot]:
    """Put the intent on record to submit what is neither out nor answered after row `newest`.

    To find that out and to record it is one transaction: of two processes that do it at once, one has all.
    TooDear, and nothing recorded, where it could cost more than `most` USD.
    """
    lots: list[Lot] = []
    high = 0.0
    with journal.writing(newest) as writing:
        for number, seat in enumerate(seats):
            filling = _Filling(writing, spool.owner, number, seat)
            for pick in spool.picks(number):
                if not filling.fits(pick):
                    high += filling.close(lots)
                    filling = _Filling(writing, spool.owner, number, seat)
                filling.take(pick)
            high += filling.close(lots)
        if most is not None and high > most:
            raise TooDear(most, high, sum(lot.requests for lot in lots))
    return lots


def fits(provider: Provider, size: int) -> bool:
    """Whether requests of so many bytes fit a batch."""
    return size + _AROUND <= provider.bytes


class _Filling:
    """A batch that requests are put into."""

    def __init__(self, writing: Writing, owner: str, number: int, seat: Seat) -> None:
        self._writing, self._number, self._seat = writing, number, seat
        self._bill = Bill(seat.judge.model, seat.model, seat.judge.params)
        self._id, self._tag = writing.begin(way_of(seat.provider, seat.judge), owner)
        self._first: Pick | None = None
        self._last: Pick | None = None
        self._requests = self._bytes = 0

    def fits(self, pick: Pick) -> bool:
        """Whether the provider takes one more in the same batch."""
        provider = self._seat.provider
        return self._requests < provider.requests and fits(provider, self._bytes + pick.size)

    def take(self, pick: Pick) -> None:
        """Take a request if it is free."""
        if not self._writing.claim(self._id, pick.key):
            return
        self._requests, self._bytes = self._requests + 1, self._bytes + pick.size
        self._first, self._last = self._first or pick, pick
        tokens = pick.prompt / BYTES_PER_TOKEN
        self._bill.add(Range(tokens, tokens, tokens), pick.labels, ALWAYS)

    def close(self, lots: list[Lot]) -> float:
        """Record what it holds and what that is expected to cost; the most that it may cost, in USD."""
        if self._first is None or self._last is None:
            self._writing.drop(self._id)
            return 0.0
        cost = self._cost()
        expected = None if cost is None else cost.expected
        self._writing.measure(self._id, self._requests, self._bytes, expected)
        lots.append(Lot(self._id, self._tag, self._number, self._first, self._last, self._requests))
        return 0.0 if cost is None else cost.high

    def _cost(self) -> Range | None:
        """What it costs, each request asked once: whether it is to be asked again shows in another batch."""
        return self._bill.figures(self._seat.model.price, ALWAYS).cost_usd
