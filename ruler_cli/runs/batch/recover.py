"""Recovery of batches that a crash left unfinished: find them at the provider, or give them up.

If a crash hid the provider's answer to a creation, the batch may exist: its requests stay reserved until that
is certain. OpenAI stores our tag. Anthropic stores none: there every batch of that time with as many requests
is a candidate, and the ids in its results decide once it has ended.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import anyio
import orjson

from ruler_cli.errors import RulerError, Sentence
from ruler_cli.runs.batch.journal import BatchRecord, Journal
from ruler_cli.runs.batch.providers import Provider, Providers, RemoteBatch
from ruler_cli.types import Observer

_MAX_CREATION = 7200.0
"""Longest duration of a request that creates a batch, in seconds."""
_SKEW = 900.0
"""Seconds by which the provider's clock may differ from ours."""
_SKEW_TAGGED = 86400.0
"""The same if tags identify our batches, so that a longer listing does no harm."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Current status of a batch.

    `remote` is the batch at its provider, `error` why that could not be fetched. `uncertainty` is half a
    sentence if it is unknown whether the batch exists at the provider: each of `candidates` may be it, and
    it may still appear within `seconds_left`.
    """

    batch: BatchRecord
    remote: RemoteBatch | None = None
    error: RulerError | None = None
    uncertainty: str = ""
    candidates: tuple[RemoteBatch, ...] = ()
    seconds_left: float = 0.0


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovery of the batches of a journal.

    `window` is the number of seconds after an interrupted creation in which a batch may still appear in
    listings.
    """

    journal: Journal
    providers: Providers
    observer: Observer
    window: float

    async def unless_busy(self) -> dict[int, BatchStatus]:
        """Recover unless another command is at work; return the uncertain batches by their row id."""
        if not self.journal.batches("creating"):
            return {}
        with self.journal.alone() as mine:
            uncertain = await self.recover() if mine else []
        return {each.batch.id: each for each in uncertain}

    async def and_wait(self) -> list[BatchStatus]:
        """Recover, and wait as long as a batch may still appear; return those that remain uncertain.

        The caller holds the lock.
        """
        announced = set[str]()
        while True:
            uncertain = await self.recover(give_up=True)
            waiting = [
                each for each in uncertain if not each.candidates and each.error is None
            ]
            if not waiting:
                return uncertain
            for each in waiting:
                if each.batch.tag not in announced:
                    announced.add(each.batch.tag)
                    self.observer.note(
                        f"batch {each.batch.tag}: its creation was interrupted; waiting up to "
                        f"{each.seconds_left:.0f} s for it to appear at the provider, so that nothing is "
                        "paid for twice"
                    )
            await anyio.sleep(
                max(
                    0.01,
                    min(self.window / 12, max(each.seconds_left for each in waiting)),
                )
            )

    async def recover(self, *, give_up: bool = False) -> list[BatchStatus]:
        """Bring batches into a certain state; return the uncertain ones. The caller holds the lock.

        With `give_up`, a batch that has not appeared within the window is given up.
        """
        uncertain = []
        for batch in self.journal.batches("creating"):
            status = await self._search(batch)
            if status is None:
                continue
            if not give_up or status.seconds_left or status.candidates or status.error:
                uncertain.append(status)
            elif self.journal.move(
                status.batch, "abandoned", reason="it never appeared at the provider"
            ):
                self.observer.note(
                    f"batch {batch.tag} never appeared at the provider; its requests are free again"
                )
        return uncertain

    async def _search(self, batch: BatchRecord) -> BatchStatus | None:
        """Look for a batch at its provider; None if it is now recorded as submitted."""
        # the time of the crash is unknown: count from the first search, or from now if the clock was set back
        if batch.changed == batch.began or batch.changed > time.time():
            batch = self.journal.move(batch, "creating") or batch
        until = min(batch.changed, batch.began + _MAX_CREATION) + self.window
        # computed before the listing: the last listing must come after the end
        left = max(0.0, until - time.time())
        try:
            ours, candidates = await self._find(batch, until)
        except RulerError as error:
            why = Sentence("could not be looked for: {error}", error=error)
            return BatchStatus(batch, error=error, uncertainty=why, seconds_left=left)
        if ours is not None:
            if self.journal.move(batch, "submitted", remote=ours.id, label=ours.label):
                self.observer.note(
                    f"batch {batch.tag} was found at the provider: {ours.id}"
                )
            return None
        uncertainty = (
            "is not at the provider; the next `ruler batch submit` gives it up"
        )
        if candidates:
            names = ", ".join(each.id for each in candidates[:3])
            uncertainty = (
                f"is perhaps {names}: that is certain once the provider is done with it"
            )
        elif left:
            uncertainty = f"may still appear at the provider within {left:.0f} s"
        return BatchStatus(batch, None, None, uncertainty, tuple(candidates), left)

    async def _find(
        self, batch: BatchRecord, until: float
    ) -> tuple[RemoteBatch | None, list[RemoteBatch]]:
        """Return the batch with our tag, file or results; else the candidates, the oldest first."""
        provider, not_it = self.providers.for_batch(batch), batch.not_it.split()
        others = {each.remote for each in self.journal.batches()} | set(not_it)
        since = batch.began - (_SKEW_TAGGED if provider.api.files else _SKEW)
        candidates: list[RemoteBatch] = []
        async for remote in provider.list_batches(since):
            if remote.tag == batch.tag or (batch.file and remote.file == batch.file):
                return remote, []
            unknown = (
                remote.tag is None and remote.file is None and remote.id not in others
            )
            if (
                unknown
                and remote.total in (0, batch.requests)
                and remote.created <= until + _SKEW
            ):
                candidates.insert(0, remote)
        for remote in [each for each in candidates if each.state == "ended"]:
            if await _has_results_of(provider, remote, self.journal.keys(batch.id)):
                return remote, []
            not_it.append(remote.id)
            candidates.remove(remote)
            self.journal.move(batch, "creating", not_it=" ".join(not_it))
        return None, candidates


async def _has_results_of(
    provider: Provider, remote: RemoteBatch, keys: set[bytes]
) -> bool:
    """Tell if most results of an ended batch have the keys of our requests."""
    ours, others = set[bytes](), 0
    async for row in provider.results(remote):
        try:
            key = bytes.fromhex(orjson.loads(row)["custom_id"])
        except (ValueError, TypeError, KeyError):
            key = b""
        if key in keys:
            ours.add(key)
        else:
            others += 1
    return len(ours) > others
