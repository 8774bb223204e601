"""Batches that a crash left half done: found again at the provider, or given up once they cannot be there.

If a batch was being created, nobody may have seen the provider's answer, so its requests stay out until it
is known. OpenAI keeps our tag. Anthropic keeps nothing of ours: there every batch of that time with as many
requests may be it, and is looked into when it has ended; the requests' ids decide.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import anyio
import orjson

from ruler_cli.batch.journal import BatchRecord, Journal
from ruler_cli.batch.providers import Provider, Providers, Remote
from ruler_cli.errors import RulerError
from ruler_cli.observer import Observer

WINDOW = 120.0
"""Seconds in which a batch whose creation was interrupted may still appear in listings."""
_CREATION = 7200.0
"""Seconds that the request to create a batch may take at most."""
_SKEW = 900.0
"""Seconds by which the provider's clock may differ from ours."""
_SKEW_TAGGED = 86400.0
"""The same if our batches are known by their tags, so that it does no harm to look at more of them."""


@dataclass(frozen=True, slots=True)
class BatchStanding:
    """A batch, and what is known of it now.

    `remote` is what its provider says of it, `trouble` why that could not be asked. With `doubt`, half a
    sentence, nobody knows if the batch exists: each of `candidates` may be it, and it may still appear
    for `left` seconds.
    """

    batch: BatchRecord
    remote: Remote | None = None
    trouble: RulerError | None = None
    doubt: str = ""
    candidates: tuple[Remote, ...] = ()
    left: float = 0.0


async def settle(
    journal: Journal, providers: Providers, observer: Observer, window: float = WINDOW
) -> dict[int, BatchStanding]:
    """Recover what was left behind, unless another command is at work; batches in doubt, by their number."""
    if not journal.batches("intended", "uploaded", "creating"):
        return {}
    with journal.alone() as mine:
        doubts = await recover(journal, providers, observer, window) if mine else []
    return {each.batch.id: each for each in doubts}


async def settle_and_wait(
    journal: Journal, providers: Providers, observer: Observer, window: float
) -> list[BatchStanding]:
    """Recover, and wait as long as a batch may still appear; those that remain in doubt cannot be had now."""
    noted = set[str]()
    while True:
        doubts = await recover(journal, providers, observer, window, give_up=True)
        waiting = [each for each in doubts if not each.candidates and each.trouble is None]
        if not waiting:
            return doubts
        for each in waiting:
            if each.batch.tag not in noted:
                noted.add(each.batch.tag)
                observer.note(
                    f"batch {each.batch.tag}: its creation was interrupted; waiting up to {each.left:.0f} s "
                    "for it to appear at the provider, so that nothing is paid for twice"
                )
        await anyio.sleep(max(0.01, min(window / 12, max(each.left for each in waiting))))


async def recover(
    journal: Journal, providers: Providers, observer: Observer, window: float, *, give_up: bool = False
) -> list[BatchStanding]:
    """Bring every batch into a state that is certain; those that are in doubt. The caller holds the lock.

    A batch that was not asked for yet is given up: nothing was paid. With `give_up` so is one that was
    asked for and has not appeared within `window` seconds.
    """
    for batch in journal.batches("intended", "uploaded"):
        journal.move(batch, "abandoned", reason="its submission ended before the batch was created")
    doubts = []
    for batch in journal.batches("creating"):
        found = await _search(journal, providers, observer, batch, window)
        if found is None:
            continue
        if not give_up or found.left or found.candidates or found.trouble:
            doubts.append(found)
        elif journal.move(found.batch, "abandoned", reason="it never appeared at the provider"):
            observer.note(f"batch {batch.tag} never appeared at the provider; its requests are free again")
    return doubts


async def _search(
    journal: Journal, providers: Providers, observer: Observer, batch: BatchRecord, window: float
) -> BatchStanding | None:
    """Look for a batch at its provider; None if it was found and is on record as submitted."""
    # when its creator ended nobody knows: the time counts from the first look, or from a clock set back
    if batch.changed == batch.began or batch.changed > time.time():
        batch = journal.move(batch, "creating") or batch
    until = min(batch.changed, (batch.began or batch.changed) + _CREATION) + window
    # by the clock before the listing: the last listing must come after the end
    left = max(0.0, until - time.time())
    try:
        ours, candidates = await _look(providers.to(batch), journal, batch, until)
    except RulerError as error:
        return BatchStanding(batch, None, error, f"could not be looked for: {error}", left=left)
    if ours is not None:
        if journal.move(batch, "submitted", remote=ours.id, label=ours.label):
            observer.note(f"batch {batch.tag} was found at the provider: {ours.id}")
        return None
    doubt = "is not at the provider; the next `ruler batch submit` gives it up"
    if candidates:
        names = ", ".join(each.id for each in candidates[:3])
        doubt = f"is perhaps {names}: that is told when the provider is done with it"
    elif left:
        doubt = f"may still appear at the provider within {left:.0f} s"
    return BatchStanding(batch, None, None, doubt, tuple(candidates), left)


async def _look(
    provider: Provider, journal: Journal, batch: BatchRecord, until: float
) -> tuple[Remote | None, list[Remote]]:
    """The batch that is ours by its tag, file or results; else those that may be it, the oldest first."""
    began, not_it = batch.began or batch.changed, batch.not_it.split()
    others = {each.remote for each in journal.batches()} | set(not_it)
    candidates: list[Remote] = []
    async for remote in provider.listed(began - (_SKEW_TAGGED if provider.api.files else _SKEW)):
        if remote.tag == batch.tag or (batch.file and remote.file == batch.file):
            return remote, []
        bare = remote.tag is None and remote.file is None and remote.id not in others
        if bare and remote.total in (0, batch.requests) and remote.created <= until + _SKEW:
            candidates.insert(0, remote)
    for remote in [each for each in candidates if each.state == "ended"]:
        if await _is_it(provider, remote, journal.keys(batch.id)):
            return remote, []
        not_it.append(remote.id)
        candidates.remove(remote)
        journal.move(batch, "creating", not_it=" ".join(not_it))
    return None, candidates


async def _is_it(provider: Provider, remote: Remote, keys: set[bytes]) -> bool:
    """Tell if the results of a batch that has ended are those of our requests, but for odd ones."""
    ours: set[bytes] = set()
    others = 0
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
