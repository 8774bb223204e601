"""The batches of a ledger: fetch their status, import their results, cancel them.

Results go to the ledger before the batch is closed, and importing them twice does no harm: after a crash at
any point they are fetched once more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.ledger.reply_cache import Ledger, is_there
from ruler_cli.runs.batch.http import UnknownBatchError, UnreachableError
from ruler_cli.runs.batch.import_replies import Importer, ImportResult, RequestStatus
from ruler_cli.runs.batch.journal import OPEN, BatchRecord, BatchState, Journal
from ruler_cli.runs.batch.providers import Providers, RemoteBatch
from ruler_cli.runs.batch.recover import BatchStatus, Recovery
from ruler_cli.types import Observer

_MIN_TAG_PREFIX = 6
"""Characters of a tag that identify a batch, if no other tag begins with them."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two polls while waiting for batches."""


@dataclass(frozen=True, slots=True)
class ClosedBatch:
    """A batch that was closed, and the result of the import; None if there were no results."""

    batch: BatchRecord
    imported: ImportResult | None = None


@dataclass(frozen=True, slots=True)
class CollectResult:
    """Batches that `collect` closed, and those that are still open."""

    closed: tuple[ClosedBatch, ...]
    open: tuple[BatchStatus, ...]

    @property
    def left_out(self) -> int:
        """Number of requests that came back without an answer and are free to be submitted again."""
        return sum(each.batch.left_out or 0 for each in self.closed)

    @property
    def exit_code(self) -> int:
        """0 all batches collected, 1 not all, 2 a key or an address is missing, 3 a provider refuses."""
        errors = [each.error for each in self.open]
        failed = any(each.batch.state == "failed" for each in self.closed)
        if failed or any(isinstance(each, RefusedError) for each in errors):
            return 3
        if any(isinstance(each, UsageError) for each in errors):
            return 2
        return 1 if self.open or self.left_out else 0


class Batches:
    """The batches of a ledger, for one command.

    A ledger that does not exist has none, and only `collect` creates it. RulerError if it cannot be used.
    """

    def __init__(
        self, ledger: Path, providers: Providers, observer: Observer, window: float
    ) -> None:
        """`window` is in seconds, see `Recovery`."""
        self._path, self._providers, self._observer, self._window = (
            ledger,
            providers,
            observer,
            window,
        )

    async def status(self, *, include_closed: bool = False) -> list[BatchStatus]:
        """Return the status of open batches, or of all batches, the oldest first."""
        if not is_there(self._path):
            return []
        with Journal(self._path) as journal:
            return [
                each
                async for each in self._fetch(
                    journal, *(() if include_closed else OPEN)
                )
            ]

    async def collect(
        self,
        on_closed: Callable[[ClosedBatch], None],
        *,
        wait: float = 0.0,
        pause: float = _FIRST_PAUSE,
    ) -> CollectResult:
        """Import the results of every batch that has ended; `on_closed` gets each batch as it is closed.

        With `wait`, in seconds, poll until no batch is open or the time is over. After an error the batches
        closed until then are on record.
        """
        deadline = time.monotonic() + wait
        closed = list[ClosedBatch]()
        reached = set[str]()  # accounts whose provider has answered
        with Journal(self._path) as journal, Ledger(self._path) as ledger:
            while True:
                remaining: list[BatchStatus] = []
                async for current in self._fetch(journal, *OPEN):
                    batch, remote = current.batch, current.remote
                    if remote is None or remote.state == "running":
                        remaining.append(current)
                        continue
                    try:
                        ended = await self._close(journal, ledger, batch, remote)
                    except RulerError as error:
                        remaining.append(
                            BatchStatus(batch, error=_with_advice(batch, error))
                        )
                        continue
                    if ended is not None:
                        closed.append(ended)
                        on_closed(ended)
                reached |= {
                    each.batch.account for each in remaining if each.remote is not None
                }
                seconds_left = deadline - time.monotonic()
                more = any(_may_end(each, reached) for each in remaining)
                if (
                    seconds_left > 0 and not more
                ):  # another command may be about to record a batch
                    with journal.alone() as idle:
                        more = not idle
                if seconds_left <= 0 or not more:
                    return CollectResult(tuple(closed), tuple(remaining))
                await anyio.sleep(min(pause, seconds_left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def cancel(
        self, names: Sequence[str], *, forget: bool = False
    ) -> list[BatchStatus]:
        """Cancel the open batches with these tags or provider's ids; all open batches without names.

        Requests processed by then are billed, and `collect` imports them. With `forget` the provider is not
        asked: the batch is given up, and its requests are free. UsageError if a name fits no open batch.
        """
        if not is_there(self._path):
            if names:
                raise UsageError(
                    f"{names[0]}: there is no such batch, and no ledger {self._path}"
                )
            return []
        with Journal(self._path) as journal:
            uncertain = {} if forget else await self._recover(journal)
            chosen = _select(journal.batches(*OPEN), names)
            if not forget:
                return [
                    uncertain.get(batch.id) or await self._cancel(journal, batch)
                    for batch in chosen
                ]
            with journal.alone() as mine:
                return [
                    BatchStatus(
                        journal.move(batch, "abandoned", reason="given up by hand")
                        or batch
                    )
                    if mine or batch.state == "submitted"
                    else _busy(batch)
                    for batch in chosen
                ]

    async def _recover(self, journal: Journal) -> dict[int, BatchStatus]:
        return await Recovery(
            journal, self._providers, self._observer, self._window
        ).unless_busy()

    async def _fetch(
        self, journal: Journal, *states: BatchState
    ) -> AsyncIterator[BatchStatus]:
        """Yield the status of each batch; of a submitted one as the provider reports it."""
        uncertain = await self._recover(journal)
        for batch in journal.batches(*states):
            status = uncertain.get(batch.id) or BatchStatus(batch)
            if batch.state == "submitted" and batch.remote is not None:
                try:
                    provider = self._providers.for_batch(batch)
                    remote = await provider.retrieve(batch.remote)
                    if remote.tag not in (None, batch.tag):
                        reason = f"batch {batch.tag}: {provider.api.name}'s {remote.id} is another one now"
                        raise UnknownBatchError(reason)
                    status = BatchStatus(batch, remote)
                except RulerError as error:
                    status = BatchStatus(batch, error=_with_advice(batch, error))
            yield status

    async def _close(
        self, journal: Journal, ledger: Ledger, batch: BatchRecord, remote: RemoteBatch
    ) -> ClosedBatch | None:
        """Import the results of an ended batch and close it; None if another process has closed it."""
        if remote.state == "failed":
            moved = journal.move(
                batch,
                "failed",
                label=remote.label,
                reason=remote.reason,
                left_out=batch.requests,
            )
            return ClosedBatch(moved) if moved else None
        provider, keys = self._providers.for_batch(batch), journal.keys(batch.id)
        statuses = dict[bytes, RequestStatus]()
        if journal.batch(batch.id).state not in OPEN:
            return None
        for last in (
            False,
            True,
        ):  # fetch a second time if rows were cut off: their answers are paid for
            with Importer(ledger, batch.model, keys, statuses.__setitem__) as importer:
                await importer.import_stream(provider.results(remote))
            imported = importer.result
            missing = (
                remote.succeeded
                - len(statuses)
                - imported.foreign
                - imported.unreadable
            )
            if missing <= 0 and (last or not imported.unreadable):
                break
        counts, messages = Counter(statuses.values()), imported.messages
        reasons = [
            messages[label]
            for label in (*imported.again, *imported.failed)
            if label in messages
        ]
        closed = journal.move(
            batch,
            "canceled"
            if "cancel" in remote.label or "cancel" in batch.label
            else "collected",
            label=remote.label,
            reason=reasons[0] if reasons else "",
            answered=counts["answer"],
            failed=counts["failed"],
            left_out=batch.requests - counts["answer"] - counts["failed"],
        )
        if closed is None:
            return None
        if missing > 0:
            self._observer.warn(
                f"batch {batch.tag}: {missing} of the answers that the provider counts are not in its "
                "results; their requests are free to be submitted again"
            )
        for row in imported.rejected:
            self._observer.warn(
                f"batch {batch.tag}: {row.where} of its results {row.reason}"
            )
        return ClosedBatch(closed, imported)

    async def _cancel(self, journal: Journal, batch: BatchRecord) -> BatchStatus:
        if batch.state != "submitted" or batch.remote is None:
            return _busy(batch)
        try:
            remote = await self._providers.for_batch(batch).cancel(batch.remote)
        except RulerError as error:
            return BatchStatus(batch, error=error)
        # Anthropic reports a canceled batch as ended, like any other
        label = (
            remote.label
            if remote.state != "running" or "cancel" in remote.label
            else "canceling"
        )
        return BatchStatus(
            journal.move(batch, "submitted", label=label) or batch, remote
        )


def _with_advice(batch: BatchRecord, error: RulerError) -> RulerError:
    if not isinstance(error, UnknownBatchError):
        return error
    return RefusedError(
        error.sentence, f"or give it up with `ruler batch cancel --forget {batch.tag}`"
    )


def _may_end(current: BatchStatus, reached: set[str]) -> bool:
    """Tell if a batch is worth waiting for, also if an account that was `reached` before is offline."""
    if isinstance(current.error, UnreachableError) and current.batch.account in reached:
        return True
    if current.error is not None:
        return not isinstance(current.error, RefusedError | UsageError)
    return not current.uncertainty or bool(current.seconds_left or current.candidates)


def _busy(batch: BatchRecord) -> BatchStatus:
    reason = (
        f"batch {batch.tag}: is being submitted by another process; stop that one first"
    )
    return BatchStatus(batch, error=RulerError(reason))


def _select(batches: Sequence[BatchRecord], names: Sequence[str]) -> list[BatchRecord]:
    """Return the batches with these tags or ids, all batches without names."""
    if not names:
        return list(batches)
    selected: dict[int, BatchRecord] = {}
    for name in names:
        matches = [
            each
            for each in batches
            if name in (each.tag, each.remote)
            or (len(name) >= _MIN_TAG_PREFIX and each.tag.startswith(name))
        ]
        if len(matches) != 1:
            problem = (
                "names several batches; write more of it"
                if matches
                else "is no open batch"
            )
            raise UsageError(f"{name}: {problem}; `ruler batch status` lists them")
        selected[matches[0].id] = matches[0]
    return list(selected.values())
