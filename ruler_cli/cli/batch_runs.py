"""What the commands of `ruler batch` do, and what they say of it; each comes to an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from ruler_cli.batches.collect import Collected, Standing, Taken, collect
from ruler_cli.batches.doors import Doors
from ruler_cli.batches.intents import TooDear
from ruler_cli.batches.journal import Batch, there
from ruler_cli.batches.manage import cancel, status
from ruler_cli.batches.submit import Submitted, submit
from ruler_cli.batches.tasks import unless_told
from ruler_cli.cli.batch_page import as_json as shown
from ruler_cli.cli.batch_page import name, table
from ruler_cli.cli.messages import on_ledger, safe, say, scoring
from ruler_cli.cli.progress import Console
from ruler_cli.cli.units import count, rounded, size
from ruler_cli.errors import RefusedError
from ruler_cli.pool.halt import Halt
from ruler_cli.settings import ScoreSettings


async def submitting(
    settings: ScoreSettings, console: Console, halt: Halt, *, window: float, wait: float | None
) -> int:
    """Submit; with `wait`, in seconds, collect until nothing is out."""
    async with Doors() as doors:
        try:
            done = await submit(settings, doors, _tell_submitted, console, halt, window=window)
        except TooDear as error:  # the same command would not go on
            say(f"ruler: {error}")
            return error.exit_code
        again = scoring(sys.argv[3:], settings.input.source)
        code = _say_submitted(done, again, waits=wait is not None)
        if wait is None or settings.ledger is None or not (done.batches or done.out or done.doubts):
            return code
        collected = await collect(
            settings.ledger, doors, _tell_taken, console, halt, window=window, wait=wait
        )
        _say_collected(collected, again)
        return collected.exit_code or code


async def collecting(place: Path, key_env: str | None, window: float, halt: Halt, *, wait: float) -> int:
    """Collect, for so many seconds at most."""
    if not there(place):
        say(f"ruler: nothing was submitted: there is no {place}")
        return 0
    console = Console("log", str(place))
    async with Doors(key_env) as doors:
        done = await collect(place, doors, _tell_taken, console, halt, window=window, wait=wait)
    _say_collected(done, f"ruler score INPUT OUTPUT --cached-only{on_ledger(sys.argv)}")
    return done.exit_code


async def listing(
    place: Path, key_env: str | None, window: float, halt: Halt, *, every: bool, as_json: bool
) -> int:
    """Print what is known of the batches."""
    async with Doors(key_env) as doors:
        console = Console("log", str(place))
        found = await unless_told(halt, lambda: status(place, doors, console, every=every, window=window))
    if as_json:
        typer.echo(
            json.dumps({"version": 1, "ledger": safe(str(place)), "batches": [shown(each) for each in found]})
        )
    else:
        for line in table(found):
            typer.echo(line)
    _say_troubles(found)
    if ended := sum(each.remote is not None and each.remote.state != "running" for each in found):
        say(f"ruler: {count(ended, 'batch')} ended; `{_collect()}` takes the answers in")
    return 3 if any(each.trouble or (each.doubt and each.doubt.trouble) for each in found) else 0


async def canceling(
    place: Path, key_env: str | None, window: float, names: Sequence[str], halt: Halt, *, forget: bool
) -> int:
    """Call batches off."""
    async with Doors(key_env) as doors:
        console = Console("log", str(place))
        found = await unless_told(
            halt, lambda: cancel(place, doors, names, console, forget=forget, window=window)
        )
    for each in found:
        if each.batch.state == "abandoned":
            typer.echo(f"batch {name(each.batch)} is given up; {count(each.batch.requests, 'request')} free")
        elif each.remote is not None:
            label = safe(each.remote.label)
            typer.echo(f"batch {name(each.batch)}: {label}; `{_collect()}` takes in what is done")
    if not found:
        say("ruler: no batch is out")
    _say_troubles(found)
    if any(isinstance(each.trouble, RefusedError) for each in found):
        return 3
    return 1 if any(each.trouble or each.doubt for each in found) else 0


def _tell_submitted(batch: Batch) -> None:
    cost = "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}"
    what = f"{count(batch.requests, 'request')}, {size(batch.bytes)}"
    typer.echo(f"batch {name(batch)}: {safe(batch.way.model)}, {what}, {cost}")


def _collect() -> str:
    return f"ruler batch collect{on_ledger(sys.argv)}"


def _say_submitted(done: Submitted, again: str, *, waits: bool) -> int:
    rendered = done.rendered
    parts = (
        (rendered.answered, "group", "answered by the ledger"),
        (
            sum(rendered.failed.values()) - rendered.unaskable,
            "group",
            "failed before; --retry-failed asks again",
        ),
        (rendered.unaskable, "group", "that cannot be asked about"),
        (rendered.unreadable, "line or trajectory", "not readable"),
        (done.large, "request", "larger than the provider takes; show fewer rollouts, with --group-size"),
        (
            done.out,
            "request",
            "in other batches that are out"
            + ("" if waits or done.batches else f"; `{_collect()}` takes the answers in"),
        ),
    )
    for number, what, said in parts:
        if number:
            say(f"ruler: {count(number, what)} {said}")
    for doubt in done.doubts:
        say(f"ruler: batch {doubt.batch.tag} ({count(doubt.batch.requests, 'request')}) {doubt.told}")
    if done.batches:
        what = f"{count(done.requests, 'request')} submitted in {count(len(done.batches), 'batch')}"
        say(f"ruler: {what}" + ("" if waits else f"; `{_collect()}` takes the answers in"))
    elif not (done.out or done.large):
        say(f"ruler: nothing is lacking; `{again}` writes the output")
    return 1 if rendered.unreadable or rendered.unaskable or done.large or done.doubts else 0


def _tell_taken(taken: Taken) -> None:
    batch, imported = taken.batch, taken.imported
    parts: list[str] = [batch.state]
    if imported is not None:
        parts.append(f"{count(batch.answered or 0, 'request')} answered")
        counts = ((batch.failed, "failed for good"), (batch.left_out, "to be submitted again"))
        parts += [f"{number} {said}" for number, said in counts if number]
        odd = imported.foreign + imported.unreadable
        parts += [f"{count(odd, 'row')} that are not of it, or none"] if odd else []
    reason = f": {safe(batch.reason)}" if batch.reason else ""
    typer.echo(f"batch {name(batch)}: {', '.join(parts)}{reason}")


def _say_collected(done: Collected, again: str) -> None:
    """Say what is still out, and what follows; `again` is the command that writes the output."""
    for each in done.open:
        if each.remote is not None:
            so_far = f"{each.remote.succeeded + each.remote.failed} of {each.batch.requests} done"
            say(f"ruler: batch {name(each.batch)}: {each.remote.label}, {so_far}")
        elif not (each.trouble or each.doubt):
            say(f"ruler: batch {name(each.batch)}: is being submitted")
    _say_troubles(done.open)
    if done.left_out:
        left = count(done.left_out, "request")
        say(f"ruler: {left} to be submitted again, with the same `ruler batch submit`")
    if failed := sum(each.batch.failed or 0 for each in done.taken):
        lost = count(failed, "request")
        say(f"ruler: {lost} failed for good; `ruler batch submit --retry-failed` asks them again")
    if not done.open and not done.left_out and done.taken:
        say(f"ruler: everything is in; `{again}` writes the output, or says what follows")
    elif not done.open and not done.taken:
        say("ruler: no batch is out")


def _say_troubles(found: Sequence[Standing]) -> None:
    for each in found:
        if each.trouble is not None:
            say(f"ruler: {each.trouble}")
        elif each.doubt is not None:
            say(f"ruler: batch {each.batch.tag} ({count(each.batch.requests, 'request')}) {each.doubt.told}")
