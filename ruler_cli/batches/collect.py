"""Batches that have ended → the ledger: what was answered, what failed for good, what is free again.

Results go to the ledger before the batch is closed, and may go there again: a crash at any place costs
nothing but to fetch them once more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ruler_cli.batches.doors import Doors
from ruler_cli.batches.journal import Batch, Journal
from ruler_cli.batches.provider import Provider, Remote, UnknownBatchError, UnreachedError
from ruler_cli.batches.settle import WINDOW, Doubt, settle
from ruler_cli.batches.tasks import Pauses, unless_told
from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.importing import Fate, Imported, Importer, take_in_stream
from ruler_cli.ledger import Ledger
from ruler_cli.observer import Observer
from ruler_cli.pool.halt import Halt


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch that is closed, as it is on record; what its rows were, None where it had none."""

    batch: Batch
    imported: Imported | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A batch that is open: what its provider says of it, or why it does not, or why nobody knows."""

    batch: Batch
    remote: Remote | None = None
    trouble: RulerError | None = None
    doubt: Doubt | None = None

    @property
    def passes(self) -> bool:
        """Whether it is worth waiting for."""
        if self.stuck is not None:
            return not isinstance(self.stuck, RefusedError | UsageError)
        return self.doubt is None or bool(self.doubt.left or self.doubt.candidates)

    @property
    def stuck(self) -> RulerError | None:
        """What kept it from being asked about, or looked for."""
        return self.trouble or (self.doubt.trouble if self.doubt else None)


@dataclass(frozen=True, slots=True)
class Collected:
    """What came in, and what is still out."""

    taken: tuple[Taken, ...]
    open: tuple[Standing, ...]

    @property
    def left_out(self) -> int:
        """How many requests came back without an answer and are free to be submitted again."""
        return sum(each.batch.left_out or 0 for each in self.taken)

    @property
    def exit_code(self) -> int:
        """0 all is in, 1 not all, 2 a key or an address is missing, 3 a provider refuses."""
        troubles = [each.stuck for each in self.open]
        failed = any(each.batch.state == "failed" for each in self.taken)
        if failed or any(isinstance(each, RefusedError) for each in troubles):
            return 3
        if any(isinstance(each, UsageError) for each in troubles):
            return 2
        return 1 if self.open or self.left_out else 0


async def collect(
    place: Path,
    doors: Doors,
    told: Callable[[Taken], None],
    observer: Observer | None = None,
    halt: Halt | None = None,
    *,
    window: float = WINDOW,
    wait: float = 0.0,
    pauses: Pauses | None = None,
) -> Collected:
    """Take in every batch that has ended; `told` hears each as it is closed.

    With `wait`, the most seconds that this may take, look again until none is out. RulerError where the
    ledger cannot be used, or `halt` is told to stop; what was closed until then is on record.
    """
    observer, halt, pauses = observer or Observer(), halt or Halt(), pauses or Pauses()
    until = time.monotonic() + wait
    taken: list[Taken] = []
    reached: set[str] = set()

    def closed(one: Taken) -> None:
        taken.append(one)
        told(one)

    with Journal(place) as journal, Ledger(place) as ledger:
        while True:
            collecting = _Collecting(journal, ledger, doors, observer, closed)
            standings = await unless_told(halt, lambda: collecting.all(window))  # noqa: B023 - awaited here
            left = until - time.monotonic()
            reached |= {each.batch.way.account for each in standings if each.remote is not None}
            if left <= 0 or not any(_passes(each, reached) for each in standings):
                return Collected(tuple(taken), tuple(standings))
            await pauses.pause(halt, left)


def _passes(standing: Standing, reached: set[str]) -> bool:
    """Whether it is worth waiting for, also where a network that was there is gone for a while."""
    gone = isinstance(standing.trouble, UnreachedError) and standing.batch.way.account in reached
    return gone or standing.passes


class _Collecting:
    """One look at every batch that is out."""

    def __init__(
        self,
        journal: Journal,
        ledger: Ledger,
        doors: Doors,
        observer: Observer,
        closed: Callable[[Taken], None],
    ) -> None:
        self._journal, self._ledger, self._doors = journal, ledger, doors
        self._observer, self._closed = observer, closed

    async def all(self, window: float) -> list[Standing]:
        """Take in what has ended; what is still out."""
        doubts = await settle(self._journal, self._doors, self._observer, window=window)
        standings = [Standing(each.batch, doubt=each) for each in doubts]
        for batch in self._journal.batches("submitted"):
            try:
                standing = await self._one(batch)
            except UnknownBatchError as error:
                forget = f"or give it up with `ruler batch cancel --forget {batch.tag}`"
                standing = Standing(batch, trouble=RefusedError(f"{error}; {forget}"))
            except RulerError as error:
                standing = Standing(batch, trouble=error)
            if standing is not None:
                standings.append(standing)
        doubtful = {each.batch.id for each in standings}
        at_work = self._journal.batches("intended", "uploaded", "creating")
        return standings + [Standing(each) for each in at_work if each.id not in doubtful]

    async def _one(self, batch: Batch) -> Standing | None:
        """Take a batch in if it has ended; None where it is closed."""
        provider = await self._doors.to(batch)
        remote = await provider.retrieve(batch.remote or "")
        if remote.tag not in (None, batch.tag):
            raise UnknownBatchError(f"batch {batch.tag}: {provider.name}'s {remote.id} is another one now")
        if remote.state == "running":
            return Standing(batch, remote)
        if remote.state == "failed":
            self._close(
                batch, "failed", None, label=remote.label, reason=remote.reason, left_out=batch.requests
            )
            return None
        await self._take(batch, provider, remote)
        return None

    async def _take(self, batch: Batch, provider: Provider, remote: Remote) -> None:
        fates, keys = dict[bytes, Fate](), self._journal.keys(batch.id)
        if not self._journal.one(batch.id).open:  # by now another process has taken it in
            return
        for last in (False, True):  # a row that is cut off may be whole another time, and is paid for
            with Importer(self._ledger, batch.way.model, keys, fates.__setitem__) as importer:
                imported = await take_in_stream(provider.results(remote), importer)
            short = remote.succeeded - len(fates) - imported.foreign - imported.unreadable
            if short <= 0 and (last or not imported.unreadable):
                break
        counts = Counter(fates.values())
        canceled = "cancel" in remote.label or "cancel" in batch.label
        closed = self._close(
            batch,
            "canceled" if canceled else "collected",
            imported,
            label=remote.label,
            reason=next(
                (imported.said[why] for why in (*imported.again, *imported.failed) if why in imported.said),
                "",
            ),
            answered=counts["answer"],
            failed=counts["failed"],
            left_out=batch.requests - counts["answer"] - counts["failed"],
        )
        if closed and short > 0:
            self._observer.warn(
                f"batch {batch.tag}: {short} of the answers that the provider counts are not in its results; "
                "their requests are free to be submitted again"
            )
        for odd in imported.odd if closed else ():
            self._observer.warn(f"batch {batch.tag}: {odd.where} of its results {odd.reason}")

    def _close(self, batch: Batch, state: str, imported: Imported | None, **counts: object) -> bool:
        """Put it on record; whether it was this process that did."""
        moved = self._journal.move(batch, state, **counts)  # type: ignore[arg-type]  # one of its words
        if moved is not None:
            self._closed(Taken(moved, imported))
        return moved is not None
