"""What is known of the batches of a ledger, and how one is called off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ruler_cli.batches.collect import Standing
from ruler_cli.batches.doors import Doors
from ruler_cli.batches.journal import Batch, Journal, there
from ruler_cli.batches.settle import WINDOW, settle
from ruler_cli.batches.spool import alive
from ruler_cli.errors import RulerError, UsageError
from ruler_cli.observer import Observer

_SHORTEST = 6
"""Signs of a tag that name a batch, where no other begins so."""


async def status(
    place: Path,
    doors: Doors,
    observer: Observer | None = None,
    *,
    every: bool = False,
    window: float = WINDOW,
) -> list[Standing]:
    """Every open batch as its provider tells it now, or `every` batch ever, the oldest first."""
    if not there(place):
        return []
    with Journal(place) as journal:
        doubts = {
            each.batch.id: each
            for each in await settle(journal, doors, observer or Observer(), window=window)
        }
        return [
            Standing(batch, doubt=doubts[batch.id]) if batch.id in doubts else await _seen(batch, doors)
            for batch in (journal.batches() if every else journal.open())
        ]


async def cancel(
    place: Path,
    doors: Doors,
    names: Sequence[str],
    observer: Observer | None = None,
    *,
    forget: bool = False,
    window: float = WINDOW,
) -> list[Standing]:
    """Call off the batches of these tags or of these names of the provider's, or every open one.

    What is done by then is paid for, and is collected like any other. With `forget` the provider is not
    asked: the batch is given up, whatever it comes to, and its requests are free. UsageError where a name
    is none of an open batch.
    """
    if not there(place):
        if names:
            raise UsageError(f"{names[0]}: there is no such batch, and no ledger {place}")
        return []
    with Journal(place) as journal:
        if not forget:
            doubts = await settle(journal, doors, observer or Observer(), window=window)
        chosen = _named(journal.open(), names) if names else journal.open()
        if forget:
            return [_forgotten(journal, batch) for batch in chosen]
        doubtful = {each.batch.id: each for each in doubts}
        done = []
        for batch in chosen:
            if batch.id in doubtful:
                done.append(Standing(batch, doubt=doubtful[batch.id]))
            else:
                done.append(await _canceled(journal, batch, doors))
        return done


async def _seen(batch: Batch, doors: Doors) -> Standing:
    if batch.state != "submitted" or batch.remote is None:
        return Standing(batch)
    try:
        return Standing(batch, await (await doors.to(batch)).retrieve(batch.remote))
    except RulerError as error:
        return Standing(batch, trouble=error)


async def _canceled(journal: Journal, batch: Batch, doors: Doors) -> Standing:
    if batch.state != "submitted" or batch.remote is None:
        return Standing(batch, trouble=_busy(batch))
    try:
        remote = await (await doors.to(batch)).cancel(batch.remote)
    except RulerError as error:
        return Standing(batch, trouble=error)
    # Anthropic says of a canceled batch that it has ended, like of any other
    label = remote.label if remote.state != "running" or "cancel" in remote.label else "canceling"
    return Standing(journal.move(batch, "submitted", label=label) or batch, remote)


def _forgotten(journal: Journal, batch: Batch) -> Standing:
    if batch.state != "submitted" and alive(journal.path, batch.owner):
        return Standing(batch, trouble=_busy(batch))
    return Standing(journal.move(batch, "abandoned", reason="given up by hand") or batch)


def _busy(batch: Batch) -> RulerError:
    return RulerError(f"batch {batch.tag}: is being submitted by another process; stop that one first")


def _named(batches: Sequence[Batch], names: Sequence[str]) -> list[Batch]:
    found: dict[int, Batch] = {}
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
