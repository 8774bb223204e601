"""The batches of a ledger: where each stands, its results taken into the ledger, one called off.

Results go to the ledger before the batch is closed, and may go there again: after a crash at any point
they are only fetched once more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from ruler_cli.batch.http import UnknownBatchError, UnreachedError
from ruler_cli.batch.import_replies import Fate, Imported, Importer, take_in_stream
from ruler_cli.batch.journal import OPEN, BatchRecord, Journal, State, there
from ruler_cli.batch.providers import Providers, Remote
from ruler_cli.batch.recover import WINDOW, BatchStanding, settle
from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.observer import Observer

_SHORTEST = 6
"""Characters of a tag that name a batch, if no other begins so."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two looks at batches that are waited for."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch that is closed, as it is on record; the count of its rows, None if it had none."""

    batch: BatchRecord
    imported: Imported | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Batches that were closed, and those that are still out."""

    taken: tuple[Taken, ...]
    open: tuple[BatchStanding, ...]

    @property
    def left_out(self) -> int:
        """How many requests came back without an answer and are free to be submitted again."""
        return sum(each.batch.left_out or 0 for each in self.taken)

    @property
    def exit_code(self) -> int:
        """0 all is in, 1 not all, 2 a key or an address is missing, 3 a provider refuses."""
        troubles = [each.trouble for each in self.open]
        failed = any(each.batch.state == "failed" for each in self.taken)
        if failed or any(isinstance(each, RefusedError) for each in troubles):
            return 3
        if any(isinstance(each, UsageError) for each in troubles):
            return 2
        return 1 if self.open or self.left_out else 0


async def status(
    place: Path, providers: Providers, observer: Observer, *, every: bool = False, window: float = WINDOW
) -> list[BatchStanding]:
    """Every open batch as its provider describes it now, or `every` batch ever, the oldest first."""
    if not there(place):
        return []
    with Journal(place) as journal:
        doubts = await settle(journal, providers, observer, window)
        batches = journal.batches() if every else journal.batches(*OPEN)
        return [doubts.get(each.id) or await _look(each, providers) for each in batches]


async def collect(
    place: Path,
    providers: Providers,
    done: Callable[[Taken], None],
    observer: Observer,
    *,
    window: float = WINDOW,
    wait: float = 0.0,
    pause: float = _FIRST_PAUSE,
) -> Collected:
    """Take in every batch that has ended; `done` is called with each as it is closed.

    With `wait`, in seconds, look again until none is out or the time is over. RulerError if the ledger
    cannot be used; batches closed until then are on record.
    """
    until = time.monotonic() + wait
    taken: list[Taken] = []
    reached: set[str] = set()
    with Journal(place) as journal, Ledger(place) as ledger:
        while True:
            doubts, standings = await settle(journal, providers, observer, window), list[BatchStanding]()
            for batch in journal.batches(*OPEN):
                standing = doubts.get(batch.id) or await _look(batch, providers)
                if standing.remote is not None and standing.remote.state != "running":
                    try:
                        closed = await _take(journal, ledger, providers, observer, batch, standing.remote)
                    except RulerError as error:
                        standing = BatchStanding(batch, trouble=_with_way_out(batch, error))
                    else:
                        if closed is not None:
                            taken.append(closed)
                            done(closed)
                        continue
                standings.append(standing)
            reached |= {each.batch.account for each in standings if each.remote is not None}
            left = until - time.monotonic()
            more = any(_passes(each, reached) for each in standings)
            if left > 0 and not more:  # a submission is on record once its requests are written
                with journal.alone() as idle:
                    more = not idle
            if left <= 0 or not more:
                return Collected(tuple(taken), tuple(standings))
            await anyio.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_PAUSE)


async def cancel(
    place: Path,
    providers: Providers,
    names: Sequence[str],
    observer: Observer,
    *,
    forget: bool = False,
    window: float = WINDOW,
) -> list[BatchStanding]:
    """Call off the batches of these tags or of these names of the provider's, or every open one.

    What is done by then is paid for, and is collected like any other. With `forget` the provider is not
    asked: the batch is given up, even if it ends well, and its requests are free. UsageError if a name
    is none of an open batch.
    """
    if not there(place):
        if names:
            raise UsageError(f"{names[0]}: there is no such batch, and no ledger {place}")
        return []
    with Journal(place) as journal:
        doubts = {} if forget else await settle(journal, providers, observer, window)
        chosen = _named(journal.batches(*OPEN), names)
        if not forget:
            return [doubts.get(batch.id) or await _canceled(journal, batch, providers) for batch in chosen]
        with journal.alone() as mine:
            return [
                BatchStanding(journal.move(batch, "abandoned", reason="given up by hand") or batch)
                if mine or batch.state == "submitted"
                else _busy(batch)
                for batch in chosen
            ]


async def _look(batch: BatchRecord, providers: Providers) -> BatchStanding:
    """A batch as its provider describes it; without a word of its own if it is not submitted, or closed."""
    if batch.state != "submitted" or batch.remote is None:
        return BatchStanding(batch)
    try:
        provider = providers.to(batch)
        remote = await provider.retrieve(batch.remote)
        if remote.tag not in (None, batch.tag):
            said = f"batch {batch.tag}: {provider.api.name}'s {remote.id} is another one now"
            raise UnknownBatchError(said)
    except RulerError as error:
        return BatchStanding(batch, trouble=_with_way_out(batch, error))
    return BatchStanding(batch, remote)


def _with_way_out(batch: BatchRecord, error: RulerError) -> RulerError:
    if not isinstance(error, UnknownBatchError):
        return error
    return RefusedError(f"{error}; or give it up with `ruler batch cancel --forget {batch.tag}`")


def _passes(standing: BatchStanding, reached: set[str]) -> bool:
    """Tell if a batch is worth waiting for, also if a network that was there is gone for a while."""
    if isinstance(standing.trouble, UnreachedError) and standing.batch.account in reached:
        return True
    if standing.trouble is not None:
        return not isinstance(standing.trouble, RefusedError | UsageError)
    return not standing.doubt or bool(standing.left or standing.candidates)


async def _take(
    journal: Journal,
    ledger: Ledger,
    providers: Providers,
    observer: Observer,
    batch: BatchRecord,
    remote: Remote,
) -> Taken | None:
    """Close a batch that is over, its results taken in; None if another process has closed it."""
    if remote.state == "failed":
        reason, left = remote.reason, batch.requests
        moved = journal.move(batch, "failed", label=remote.label, reason=reason, left_out=left)
        return Taken(moved) if moved else None
    provider, fates, keys = providers.to(batch), dict[bytes, Fate](), journal.keys(batch.id)
    if journal.one(batch.id).state not in OPEN:
        return None
    for last in (False, True):  # a row that is cut off may be whole another time, and is paid for
        with Importer(ledger, batch.model, keys, fates.__setitem__) as importer:
            imported = await take_in_stream(provider.results(remote), importer)
        short = remote.succeeded - len(fates) - imported.foreign - imported.unreadable
        if short <= 0 and (last or not imported.unreadable):
            break
    number = Counter(fates.values())
    said = [imported.said[why] for why in (*imported.again, *imported.failed) if why in imported.said]
    state: State = "canceled" if "cancel" in remote.label or "cancel" in batch.label else "collected"
    closed = journal.move(
        batch,
        state,
        label=remote.label,
        reason=said[0] if said else "",
        answered=number["answer"],
        failed=number["failed"],
        left_out=batch.requests - number["answer"] - number["failed"],
    )
    if closed is None:
        return None
    if short > 0:
        observer.warn(
            f"batch {batch.tag}: {short} of the answers that the provider counts are not in its results; "
            "their requests are free to be submitted again"
        )
    for odd in imported.odd:
        observer.warn(f"batch {batch.tag}: {odd.where} of its results {odd.reason}")
    return Taken(closed, imported)


async def _canceled(journal: Journal, batch: BatchRecord, providers: Providers) -> BatchStanding:
    if batch.state != "submitted" or batch.remote is None:
        return _busy(batch)
    try:
        remote = await providers.to(batch).cancel(batch.remote)
    except RulerError as error:
        return BatchStanding(batch, trouble=error)
    # Anthropic says of a canceled batch that it has ended, like of any other
    label = remote.label if remote.state != "running" or "cancel" in remote.label else "canceling"
    return BatchStanding(journal.move(batch, "submitted", label=label) or batch, remote)


def _busy(batch: BatchRecord) -> BatchStanding:
    said = f"batch {batch.tag}: is being submitted by another process; stop that one first"
    return BatchStanding(batch, trouble=RulerError(said))


def _named(batches: Sequence[BatchRecord], names: Sequence[str]) -> list[BatchRecord]:
    """The batches of these names, or all where there are none."""
    found: dict[int, BatchRecord] = {} if names else {each.id: each for each in batches}
    for name in names:
        fits = [
            each
            for each in batches
            if name in (each.tag, each.remote) or (len(name) >= _SHORTEST and each.tag.startswith(name))
        ]
        if len(fits) != 1:
            what = "names several batches; write more of it" if fits else "is no open batch"
            raise UsageError(f"{name}: {what}; `ruler batch status` lists them")
        found[fits[0].id] = fits[0]
    return list(found.values())
