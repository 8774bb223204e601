"""The batches of a ledger: find those that a crash left, fetch their status, import their results, cancel them.

If a crash hid the provider's answer to a creation, the batch may exist: its requests stay reserved until that
is certain. OpenAI stores our tag. Anthropic stores none: there every batch of that time with as many requests
is a candidate, and the ids in its results decide once it has ended.

Results go to the ledger before the batch is closed, and importing them twice does no harm: after a crash at
any point they are fetched once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import NamedTuple

import anyio

from ruler_cli.errors import RefusedError, RulerError, Sentence, UsageError
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.http import UnknownBatchError, UnreachableError
from ruler_cli.runs.batch.import_replies import import_rows
from ruler_cli.runs.batch.journal import OPEN, BatchRecord, BatchState, Journal
from ruler_cli.runs.batch.providers import Provider, Providers, RemoteBatch
from ruler_cli.runs.batch.reply_rows import ReplyRow, read_row
from ruler_cli.types import Observer

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two polls while waiting for batches."""


class UncertainBatch(RulerError):  # noqa: N818 - it may be all right
    """It is unknown if a batch exists at its provider.

    Each of `candidates` may be it, and it may still appear within `seconds_left`.
    """

    def __init__(
        self,
        batch: BatchRecord,
        candidates: Sequence[RemoteBatch] = (),
        seconds_left: float = 0.0,
    ) -> None:
        self.candidates, self.seconds_left = candidates, seconds_left
        problem = "is not at the provider; the next `ruler batch submit` gives it up"
        if candidates:
            names = ", ".join(remote.id for remote in candidates[:3])
            problem = f"may be {names}; this is certain once that has ended"
        elif seconds_left:
            problem = f"may still appear at the provider within {seconds_left:.0f} s; run again then"
        super().__init__(problem, place=f"batch {batch.tag}")

    @property
    def may_appear(self) -> bool:
        """Tell if it is still looked for."""
        return bool(self.candidates or self.seconds_left)


class BatchStatus(NamedTuple):
    """A batch on record, the batch at its provider, and why that could not be fetched."""

    batch: BatchRecord
    remote: RemoteBatch | None = None
    error: RulerError | None = None


@dataclass
class Batches:
    """The batches of a ledger, for one command.

    `window` is the number of seconds after an interrupted creation in which a batch may still appear in the
    listings of its provider.
    """

    journal: Journal
    providers: Providers
    observer: Observer
    window: float
    _others: set[str | None] = field(default_factory=set)
    """Batches at providers that turned out not to be a candidate."""

    async def status(self, *states: BatchState) -> list[BatchStatus]:
        """Return the batches in these states, all batches without any, as their providers report them."""
        uncertain = await self._recover_if_idle()
        statuses = []
        for batch in self.journal.batches(*states):
            status = uncertain.get(batch.id) or BatchStatus(batch)
            if batch.state == "submitted" and batch.remote is not None:
                try:
                    provider = self.providers.for_batch(batch)
                    status = BatchStatus(batch, await provider.retrieve(batch.remote))
                except RulerError as error:
                    status = _failed(batch, error)
            statuses.append(status)
        return statuses

    async def collect(
        self,
        on_closed: Callable[[BatchRecord], None],
        *,
        wait: float = 0.0,
        pause: float = _FIRST_PAUSE,
    ) -> list[BatchStatus]:
        """Import the results of every batch that has ended; return the batches that are still open.

        `on_closed` gets each batch as it is closed. With `wait`, in seconds, poll until no batch is open or
        the time is over. After an error the batches closed until then are on record.
        """
        deadline, first = time.monotonic() + wait, True
        with Ledger(self.journal.path) as ledger:
            while True:
                still_open = list[BatchStatus]()
                for current in await self.status(*OPEN):
                    try:
                        closed = await self._close(ledger, current)
                    except RulerError as error:
                        still_open.append(_failed(current.batch, error))
                        continue
                    if closed is not None:
                        on_closed(closed)
                    elif self.journal.batch(current.batch.id).state in OPEN:
                        still_open.append(current)
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0 or not any(
                    _may_end(each, first=first) for each in still_open
                ):
                    return still_open
                first = False
                await anyio.sleep(min(pause, seconds_left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def cancel(
        self, names: Sequence[str], *, forget: bool = False
    ) -> list[BatchStatus]:
        """Cancel the open batches with these tags or provider's ids; all open batches without names.

        Requests processed by then are billed, and `collect` imports them. With `forget` the provider is not
        asked: the batch is given up, and its requests are free. UsageError if a name fits no open batch.
        """
        uncertain = {} if forget else await self._recover_if_idle()
        batches = self.journal.batches(*OPEN)
        if names:
            batches = [each for each in batches if {each.tag, each.remote} & {*names}]
        if len(batches) < len(names):
            remedy = "`ruler batch status` lists the open ones"
            raise UsageError("no such open batch", remedy, place=", ".join(names))
        return [
            self._forget(batch)
            if forget
            else uncertain.get(batch.id) or await self._cancel(batch)
            for batch in batches
        ]

    async def recover(self, *, give_up: bool = False) -> list[BatchStatus]:
        """Bring batches into a certain state; return the uncertain ones. The caller holds the lock.

        With `give_up`, a batch that has not appeared within the window is given up.
        """
        uncertain = []
        for batch in self.journal.batches("creating"):
            status = await self._search(batch)
            if status is None:
                continue
            error = status.error
            absent = isinstance(error, UncertainBatch) and not error.may_appear
            if not (give_up and absent):
                uncertain.append(status)
                continue
            why = "never appeared at the provider"
            if self.journal.move(status.batch, "abandoned", reason=why):
                self.observer.note(f"batch {batch.tag} {why}; its requests are free")
        return uncertain

    async def _recover_if_idle(self) -> dict[int, BatchStatus]:
        """Recover unless another command submits; return the uncertain batches by their row id."""
        if not self.journal.batches("creating"):
            return {}
        with self.journal.alone() as mine:
            uncertain = await self.recover() if mine else []
        return {each.batch.id: each for each in uncertain}

    async def _search(self, batch: BatchRecord) -> BatchStatus | None:
        """Look for a batch at its provider; None if it is now recorded as submitted."""
        # the time of the crash is unknown: count from the first search, or from now if the clock was set back
        if batch.changed == batch.created or batch.changed > time.time():
            batch = self.journal.move(batch, "creating") or batch
        # computed before the listing: the last listing must come after the end
        seconds_left = max(0.0, batch.changed + self.window - time.time())
        try:
            ours, candidates = await self._find(batch)
        except RulerError as error:
            return BatchStatus(batch, error=error)
        if ours is None:
            uncertain = UncertainBatch(batch, candidates, seconds_left)
            return BatchStatus(batch, error=uncertain)
        if self.journal.move(batch, "submitted", remote=ours.id, label=ours.label):
            self.observer.note(f"batch {batch.tag} was found: {ours.id}")
        return None

    async def _find(
        self, batch: BatchRecord
    ) -> tuple[RemoteBatch | None, list[RemoteBatch]]:
        """Return the batch with our tag, file or results; else the candidates, the oldest first."""
        provider = self.providers.for_batch(batch)
        others = self._others | {each.remote for each in self.journal.batches()}
        candidates: list[RemoteBatch] = []
        async for remote in provider.list_batches(batch.created - provider.skew):
            if remote.tag == batch.tag or (batch.file and remote.file == batch.file):
                return remote, []
            unknown = not (remote.tag or remote.file or remote.id in others)
            if unknown and remote.total in (0, batch.requests):
                candidates.insert(0, remote)
        keys = self.journal.keys(batch.id)
        for remote in [each for each in candidates if each.state == "ended"]:
            if await _has_results_of(provider, remote, keys):
                return remote, []
            candidates.remove(remote)
            self._others.add(remote.id)
        return None, candidates

    async def _close(self, ledger: Ledger, current: BatchStatus) -> BatchRecord | None:
        """Import the results of a batch and close it; None if it has not ended, or is closed already."""
        batch, remote = current.batch, current.remote
        if remote is None or remote.state == "running":
            return None
        if remote.state == "failed":
            return self.journal.move(
                batch,
                "failed",
                label=remote.label,
                reason=remote.reason,
                left_out=batch.requests,
            )
        provider, keys = self.providers.for_batch(batch), self.journal.keys(batch.id)
        if self.journal.batch(batch.id).state not in OPEN:
            return None  # its keys are gone
        for _ in range(2):  # a second time if rows are missing: answers are paid for
            with TemporaryFile() as file:
                results = enumerate(await provider.results(remote, file), 1)
                rows = ((f"line {number}", number, line) for number, line in results)
                imported = import_rows(ledger, rows, batch.model, keys)
            answered = len(imported.answered or ())
            failed = sum(imported.failed.values())
            others = len(imported.open) + imported.foreign + imported.unreadable
            missing = remote.succeeded - answered - others
            if missing <= 0 and not imported.unreadable:
                break
        canceled = "cancel" in remote.label or "cancel" in batch.label
        closed = self.journal.move(
            batch,
            "canceled" if canceled else "collected",
            label=remote.label,
            reason=str(next(iter(imported.messages.values()), "")),
            answered=answered,
            failed=failed,
            left_out=batch.requests - answered - failed,
        )
        sentences = [
            *imported.messages.values(),
            *(f"{row.where} of its results {row.reason}" for row in imported.rejected),
        ]
        if missing > 0:
            sentences.append(f"{missing} answers of its provider's count are missing")
        for sentence in sentences if closed else ():
            place = f"batch {batch.tag}: {{sentence}}"
            self.observer.warn(Sentence(place, sentence=sentence))
        return closed

    async def _cancel(self, batch: BatchRecord) -> BatchStatus:
        if batch.remote is None:
            problem = "is being submitted by another command; stop that first"
            error = RulerError(problem, place=f"batch {batch.tag}")
            return BatchStatus(batch, error=error)
        try:
            remote = await self.providers.for_batch(batch).cancel(batch.remote)
        except RulerError as error:
            return BatchStatus(batch, error=error)
        # Anthropic reports a canceled batch as ended, like any other
        label = remote.label if remote.state == "ended" else "canceling"
        moved = self.journal.move(batch, "submitted", label=label)
        return BatchStatus(moved or batch, remote)

    def _forget(self, batch: BatchRecord) -> BatchStatus:
        moved = self.journal.move(batch, "abandoned", reason="given up by hand")
        return BatchStatus(moved or batch)


def _failed(batch: BatchRecord, error: RulerError) -> BatchStatus:
    if isinstance(error, UnknownBatchError):
        error.set(remedy=f"to give it up: `ruler batch cancel --forget {batch.tag}`")
    return BatchStatus(batch, error=error)


def _may_end(status: BatchStatus, *, first: bool) -> bool:
    """Tell if a batch is worth waiting for; an outage after the `first` poll passes."""
    error = status.error
    if isinstance(error, UncertainBatch):
        return error.may_appear
    if isinstance(error, UnreachableError):
        return not first
    return not isinstance(error, RefusedError | UsageError)


async def _has_results_of(
    provider: Provider, remote: RemoteBatch, keys: set[bytes]
) -> bool:
    """Tell if most results of an ended batch have the keys of our requests."""
    ids = {key.hex() for key in keys}
    balance = 0
    with TemporaryFile() as file:
        for line in await provider.results(remote, file):
            row = read_row(line)
            ours = isinstance(row, ReplyRow) and row.custom_id in ids
            balance += 1 if ours else -1
    return balance > 0
