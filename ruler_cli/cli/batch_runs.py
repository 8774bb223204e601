"""The commands of `ruler batch`: what they do, and what they print; each returns its exit code."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import anyio
import typer

from ruler_cli.batch.collect import Collected, Taken, cancel, collect, status
from ruler_cli.batch.journal import BatchRecord, there
from ruler_cli.batch.providers import Providers
from ruler_cli.batch.recover import BatchStanding
from ruler_cli.batch.submit import Submitted, TooDear, beside, submit
from ruler_cli.cli.messages import ledger_option, one_line, print_stderr, safe, score_command
from ruler_cli.cli.progress import Console
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.units import count, iso, rounded, size
from ruler_cli.config import ScoreSettings
from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.pool.engine import StopSignal
from ruler_cli.reading.location import Location

_HEAD = ["tag", "id", "model", "state", "requests", "done", "failed", "cost", "age"]


def run(main: Callable[[Providers, StopSignal], Awaitable[int]], key_env: str | None = None) -> NoReturn:
    """Run a command with its providers; a signal ends it where it is, but for what is paid for."""

    async def whole(halt: StopSignal) -> int:
        async def stop() -> None:
            await halt.event.wait()
            raise halt.reason or RulerError("stopped")

        async with Providers(key_env) as providers:
            return await beside(stop, lambda: main(providers, halt))

    raise typer.Exit(anyio.run(run_interruptible, whole))


async def submitting(
    settings: ScoreSettings, providers: Providers, halt: StopSignal, window: float, wait: float | None
) -> int:
    """Submit; with `wait`, in seconds, collect until nothing is out."""
    with closing(Console("log", Location(settings.input.source).shown)) as console:
        try:
            done = await submit(settings, providers, _print_submitted, console, halt, window)
        except TooDear as error:  # the same command would not go on
            print_stderr(f"ruler: {error}")
            return error.exit_code
        again = score_command(sys.argv[3:], settings.input.source)
        code, place = _say_submitted(done, again, waits=wait is not None), settings.ledger
        if wait is None or place is None or not (done.batches or done.out or done.doubts):
            return code
        collected = await collect(place, providers, _print_taken, console, window=window, wait=wait)
        _say_collected(collected, again)
        return collected.exit_code or code


async def collecting(place: Path, providers: Providers, window: float, wait: float) -> int:
    """Collect, for so many seconds at most."""
    if not there(place):
        print_stderr(f"ruler: nothing was submitted: there is no {place}")
        return 0
    console = Console("log", str(place))
    done = await collect(place, providers, _print_taken, console, window=window, wait=wait)
    _say_collected(done, f"ruler score INPUT OUTPUT --cached-only{ledger_option(sys.argv)}")
    return done.exit_code


async def listing(place: Path, providers: Providers, window: float, every: bool, as_json: bool) -> int:
    """Print the state of the batches."""
    found = await status(place, providers, Console("log", str(place)), every=every, window=window)
    if as_json:
        batches = [_as_json(each) for each in found]
        typer.echo(json.dumps({"version": 1, "ledger": safe(str(place)), "batches": batches}))
    else:
        typer.echo("\n".join(_table(found)))
    _say_troubles(found)
    if ended := sum(each.remote is not None and each.remote.state != "running" for each in found):
        print_stderr(f"ruler: {count(ended, 'batch')} ended; `{_collect()}` takes the answers in")
    return 3 if any(each.trouble for each in found) else 0


async def canceling(
    place: Path, providers: Providers, window: float, names: Sequence[str], forget: bool
) -> int:
    """Call batches off."""
    console = Console("log", str(place))
    found = await cancel(place, providers, names, console, forget=forget, window=window)
    for each in found:
        if each.batch.state == "abandoned":
            typer.echo(f"batch {_name(each.batch)} is given up; {count(each.batch.requests, 'request')} free")
        elif each.remote is not None:
            label = safe(each.remote.label)
            typer.echo(f"batch {_name(each.batch)}: {label}; `{_collect()}` takes in what is done")
    if not found:
        print_stderr("ruler: no batch is out")
    _say_troubles(found)
    if any(isinstance(each.trouble, RefusedError) and not each.doubt for each in found):
        return 3
    return 1 if any(each.trouble or each.doubt for each in found) else 0


def _collect() -> str:
    return f"ruler batch collect{ledger_option(sys.argv)}"


def _print_submitted(batch: BatchRecord) -> None:
    cost = "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}"
    inside = f"{count(batch.requests, 'request')}, {size(batch.bytes)}"
    typer.echo(f"batch {_name(batch)}: {safe(batch.model)}, {inside}, {cost}")


def _say_submitted(done: Submitted, again: str, *, waits: bool) -> int:
    rendered, then = done.rendered, "" if waits else f"; `{_collect()}` takes the answers in"
    failed = sum(rendered.failed.values()) - rendered.unaskable
    parts = (
        (rendered.answered, "group", "answered by the ledger"),
        (failed, "group", "failed before; --retry-failed asks again"),
        (rendered.unaskable, "group", "that cannot be asked about"),
        (rendered.unreadable, "line or trajectory", "not readable"),
        (done.large, "request", "larger than the provider takes; show fewer rollouts, with --group-size"),
        (done.out, "request", "in other batches that are out" + ("" if done.batches else then)),
    )
    for number, what, said in parts:
        if number:
            print_stderr(f"ruler: {count(number, what)} {said}")
    _say_troubles(done.doubts)
    if done.batches:
        submitted = f"{count(done.requests, 'request')} submitted in {count(len(done.batches), 'batch')}"
        print_stderr(f"ruler: {submitted}{then}")
    elif not (done.out or done.large):
        print_stderr(f"ruler: nothing is lacking; `{again}` writes the output")
    return 1 if rendered.unreadable or rendered.unaskable or done.large or done.doubts else 0


def _print_taken(taken: Taken) -> None:
    batch, imported = taken.batch, taken.imported
    parts: list[str] = [batch.state]
    if imported is not None:
        parts.append(f"{count(batch.answered or 0, 'request')} answered")
        counts = ((batch.failed, "failed for good"), (batch.left_out, "to be submitted again"))
        parts += [f"{number} {said}" for number, said in counts if number]
        odd = imported.foreign + imported.unreadable
        parts += [f"{count(odd, 'row')} that are not of it, or none"] if odd else []
    reason = f": {safe(batch.reason)}" if batch.reason else ""
    typer.echo(f"batch {_name(batch)}: {', '.join(parts)}{reason}")


def _say_collected(done: Collected, again: str) -> None:
    """Say what is still out, and what follows; `again` is the command that writes the output."""
    for each in done.open:
        if each.remote is not None:
            so_far = f"{each.remote.succeeded + each.remote.failed} of {each.batch.requests} done"
            ended = each.remote.state == "running" and each.remote.label == "completed"
            more = "; its results are not there yet, collect again later" if ended else ""
            print_stderr(f"ruler: batch {_name(each.batch)}: {each.remote.label}, {so_far}{more}")
        elif not (each.trouble or each.doubt):
            print_stderr(f"ruler: batch {_name(each.batch)}: is being submitted")
    _say_troubles(done.open)
    if done.left_out:
        left = count(done.left_out, "request")
        print_stderr(f"ruler: {left} to be submitted again, with the same `ruler batch submit`")
    if failed := sum(each.batch.failed or 0 for each in done.taken):
        lost = count(failed, "request")
        print_stderr(f"ruler: {lost} failed for good; `ruler batch submit --retry-failed` asks them again")
    if not done.open and not done.left_out and done.taken:
        print_stderr(f"ruler: everything is in; `{again}` writes the output, or says what follows")
    elif not done.open and not done.taken:
        print_stderr("ruler: no batch is out")


def _say_troubles(found: Sequence[BatchStanding]) -> None:
    for each in found:
        if each.doubt:
            print_stderr(
                f"ruler: batch {each.batch.tag} ({count(each.batch.requests, 'request')}) {each.doubt}"
            )
        elif each.trouble is not None:
            print_stderr(f"ruler: {each.trouble}")


def _table(found: Sequence[BatchStanding]) -> list[str]:
    """A line for each, under a head."""
    if not found:
        return ["no batch is out"]
    rows = [_HEAD]
    for each in found:
        batch, remote = each.batch, each.remote
        done, failed = (batch.answered, batch.failed) if remote is None else (remote.succeeded, remote.failed)
        cost = "unknown" if batch.usd is None else f"${rounded(batch.usd)}"
        numbers = ["" if number is None else str(number) for number in (batch.requests, done, failed)]
        texts = [batch.tag, batch.remote or "", batch.model, batch.state if remote is None else remote.label]
        minutes = max(0, int((time.time() - batch.created) // 60))
        age = f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
        rows.append([*map(one_line, texts), *numbers, cost, age])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [zip(row, widths, strict=True) for row in rows]
    return ["  ".join(cell.ljust(width) for cell, width in cells).rstrip() for cells in lines]


def _as_json(standing: BatchStanding) -> dict[str, Any]:
    """One batch for a program; what its provider does not say now is null."""
    batch, remote = standing.batch, standing.remote
    said = None if remote is None else {
        "state": remote.state, "label": safe(remote.label), "total": remote.total,
        "succeeded": remote.succeeded, "failed": remote.failed,
    }  # fmt: skip
    trouble = standing.doubt or (str(standing.trouble) if standing.trouble else None)
    return {
        "tag": batch.tag, "id": batch.remote, "provider": batch.provider, "model": safe(batch.model),
        "state": batch.state, "requests": batch.requests, "bytes": batch.bytes, "expected_usd": batch.usd,
        "created": iso(batch.created), "changed": iso(batch.changed), "answered": batch.answered,
        "failed": batch.failed, "left_out": batch.left_out, "reason": safe(batch.reason), "remote": said,
        "candidates": [safe(each.id) for each in standing.candidates],
        "trouble": None if trouble is None else safe(trouble),
    }  # fmt: skip


def _name(batch: BatchRecord) -> str:
    """Its tag, and its provider's name for it."""
    return one_line(f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag)
