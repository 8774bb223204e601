"""What a crash left half done: found again at the provider, or given up once it is certain not to be there.

Of a batch that was being created nobody may have seen the provider's answer, so its requests stay out
until it is known. OpenAI keeps our tag. Anthropic keeps nothing of ours: there every batch of that time
with as many requests may be it, and is looked into when it has ended; the requests' ids decide.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import orjson

from ruler_cli.batches.doors import Doors
from ruler_cli.batches.journal import Batch, Journal
from ruler_cli.batches.provider import Provider, Remote
from ruler_cli.batches.spool import alive, last_sign, sweep
from ruler_cli.errors import RulerError
from ruler_cli.observer import Observer

WINDOW = 120.0
"""Seconds after the last sign of life of whoever created a batch in which it may still appear in listings."""
_SKEW = 900.0
"""Seconds by which the provider's clock may differ from ours."""
_ASTRAY = 86400.0
"""The same where it does no harm to look at more batches, since ours are known by their tags: a whole day is
more than a wrong time zone makes."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A batch of which nobody knows whether it exists.

    It was looked for when it could still appear for `left` seconds. Each of `candidates` may be it.
    `trouble` says why it could not be looked for.
    """

    batch: Batch
    left: float
    candidates: tuple[Remote, ...] = ()
    trouble: RulerError | None = None

    @property
    def told(self) -> str:
        """What is known of it, as half a sentence."""
        if self.trouble is not None:
            return f"could not be looked for: {self.trouble}"
        if self.candidates:
            names = ", ".join(each.id for each in self.candidates[:3])
            return f"is perhaps {names}: that is told when the provider is done with it"
        if self.left:
            return f"may still appear at the provider within {self.left:.0f} s"
        return "is not at the provider; the next `ruler batch submit` gives it up"


async def settle(
    journal: Journal,
    doors: Doors,
    observer: Observer,
    *,
    window: float = WINDOW,
    give_up: bool = False,
    dead: dict[int, float] | None = None,
) -> list[Doubt]:
    """Bring every batch that nobody is at work on into a state that is certain; those that resist.

    What was not yet asked for is given up: nothing was paid. With `give_up` so is what was asked for and
    has not appeared within `window` seconds. `dead` remembers from look to look since when, by a clock that
    is never set, nobody has been at work on a batch.
    """
    doubts = []
    dead = {} if dead is None else dead
    for batch in journal.batches("intended", "uploaded", "creating"):
        if alive(journal.path, batch.owner):
            continue
        if batch.state != "creating":
            journal.move(batch, "abandoned", reason="its submission ended before the batch was created")
            continue
        most = dead.setdefault(batch.id, time.monotonic()) + window - time.monotonic()
        doubt = await _search(journal, doors, observer, batch, window, most)
        if doubt is None:
            continue
        if give_up and not (doubt.left or doubt.candidates or doubt.trouble):
            if journal.move(batch, "abandoned", reason="it never appeared at the provider"):
                observer.note(
                    f"batch {batch.tag} never appeared at the provider; its requests are free again"
                )
            continue
        doubts.append(doubt)
    sweep(journal.path, {doubt.batch.owner for doubt in doubts})
    return doubts


async def settle_all(journal: Journal, doors: Doors, observer: Observer, window: float) -> list[Doubt]:
    """Settle, and wait as long as anything may still appear; those that remain are not to be had now."""
    told: set[str] = set()
    dead: dict[int, float] = {}
    while True:
        doubts = await settle(journal, doors, observer, window=window, give_up=True, dead=dead)
        waiting = [each for each in doubts if not each.candidates and each.trouble is None]
        if not waiting:
            return doubts
        longest = max(each.left for each in waiting)
        for each in waiting:
            if each.batch.tag not in told:
                told.add(each.batch.tag)
                observer.note(
                    f"batch {each.batch.tag}: its creation was interrupted; waiting up to {each.left:.0f} s "
                    "for it to appear at the provider, so that nothing is paid for twice"
                )
        await anyio.sleep(min(max(longest, 0.01), max(0.01, window / 12)))


async def _search(
    journal: Journal, doors: Doors, observer: Observer, batch: Batch, window: float, most: float
) -> Doubt | None:
    """Look for a batch at its provider; None where it was found and is on record as submitted.

    It may still appear for `most` seconds, whatever the clock says that was set back meanwhile.
    """
    until = max(batch.began or batch.changed, last_sign(journal.path, batch.owner)) + window
    left = max(
        0.0, min(until - time.time(), most)
    )  # by the clock before the listing, which must come after the end
    try:
        provider = await doors.to(batch)
        ours, candidates = await _look(provider, journal, batch, until)
        for each in candidates:
            if ours is not None:
                break
            if each.state != "ended":
                continue
            if await _is_it(provider, each, journal.keys(batch.id)):
                ours = each
            else:
                found = journal.move(batch, "creating", not_it=batch.not_it | {each.id})
                if found is None:  # somebody else has settled it
                    return None
                batch = found
    except RulerError as error:
        return Doubt(batch, left, trouble=error)
    if ours is None:
        return Doubt(batch, left, tuple(each for each in candidates if each.id not in batch.not_it))
    if journal.move(batch, "submitted", remote=ours.id, label=ours.label):
        observer.note(f"batch {batch.tag} was found at the provider: {ours.id}")
    return None


async def _look(
    provider: Provider, journal: Journal, batch: Batch, until: float
) -> tuple[Remote | None, list[Remote]]:
    """The batch that carries our tag or is made of our file; else those that may be it, the oldest first."""
    began = batch.began or batch.changed
    taken = journal.remotes() | batch.not_it
    candidates: list[Remote] = []
    async for remote in provider.listed(began - (_ASTRAY if provider.tagged else _SKEW)):
        if remote.tag == batch.tag or (batch.file and remote.file == batch.file):
            return remote, []
        bare = remote.tag is None and remote.file is None and remote.id not in taken
        if bare and remote.total in (0, batch.requests) and remote.created <= until + _SKEW:
            candidates.append(remote)
    return None, candidates[::-1]


async def _is_it(provider: Provider, remote: Remote, keys: set[bytes]) -> bool:
    """Whether the results of a batch that has ended are those of our requests, but for odd ones."""
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


def named(doubts: Sequence[Doubt]) -> list[str]:
    """A sentence for each."""
    return [f"batch {each.batch.tag} ({each.batch.requests} requests) {each.told}" for each in doubts]
