"""`ruler batch submit|status|collect|cancel`: a provider's batch API asks the judge, at half the price."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ruler_cli.cli.ledger import required_ledger_path
from ruler_cli.cli.messages import (
    ledger_option,
    one_line,
    print_stderr,
    report_errors,
    safe,
    same_command,
    score_command,
)
from ruler_cli.cli.options import (
    REQUEST_OPTIONS,
    ApiKeyEnv,
    AsJson,
    LedgerPath,
    ScoreOptions,
    Source,
    finite,
    with_options,
)
from ruler_cli.cli.progress import Console
from ruler_cli.cli.settings import score_settings
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.units import count, iso, rounded, size
from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.reading.location import Location

if TYPE_CHECKING:
    from ruler_cli.batch.collect import ClosedBatch, CollectResult
    from ruler_cli.batch.journal import BatchRecord
    from ruler_cli.batch.providers import Providers
    from ruler_cli.batch.recover import BatchStatus
    from ruler_cli.batch.submit import SubmitResult
    from ruler_cli.pool.engine import StopSignal

T = TypeVar("T")
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


def _seconds(variable: str, text: str) -> Any:
    return typer.Option(metavar="S", min=0.0, callback=finite, envvar=variable, help=text)


Settle = Annotated[
    float,
    _seconds("RULER_SETTLE", "Seconds in which a batch may still appear at its provider after a crash."),
]
Wait = Annotated[bool, typer.Option("--wait", envvar="RULER_WAIT", help="Collect until no batch is out.")]
Timeout = Annotated[float, _seconds("RULER_WAIT_TIMEOUT", "Seconds of --wait at most.")]
_SETTLE = 120.0
_LONGEST = 26 * 3600.0


@app.callback()
def _root() -> None:
    """Have a provider's batch API ask the judge: half the price, done within 24 hours.

    The ledger keeps what was submitted and takes the answers in: `ruler score --cached-only` writes the
    output then. After a crash at any point the next command recovers.

    \b
    Example:
      ruler batch submit rollouts.jsonl -m openai/o3 --wait
    """


@app.command("submit")
@with_options(
    *REQUEST_OPTIONS,
    "api_key_env max_cost price ledger retry_failed wait timeout settle",
    max_cost="Submit nothing if all of it could cost more, by the high estimate.",
)
def submit(
    source: Source,
    options: ScoreOptions,
    ledger: LedgerPath = None,
    wait: Wait = False,
    timeout: Timeout = _LONGEST,
    settle: Settle = _SETTLE,
) -> None:
    """Submit what `score` would ask and the ledger lacks.

    Requests that an open batch holds are left out. The options are those of `score`. Each judge has batches
    of its own, as many as its provider's limits make necessary. Requests may follow from answers: run the
    same command again once they are collected, until nothing is lacking.

    Example: ruler batch submit rollouts.jsonl -m openai/o3

    Exit codes: 0 submitted, or nothing is lacking; 1 something could not be read or asked, or is not
    known (with --wait as `collect`); 2 bad usage or unreadable input; 3 the provider refused; 4 it could
    cost more than --max-cost; 130 and 143 interrupted. The same command goes on.
    """
    with report_errors(resume=same_command(source)):
        from ruler_cli.batch import submit as submitting
        from ruler_cli.batch.collect import Batches
        from ruler_cli.ledger.database import ledger_path

        settings = replace(score_settings(options, source), ledger=ledger_path(ledger))
        source = settings.input.source
        again = score_command(sys.argv[3:], source)

        async def main(api: Providers, stop: StopSignal) -> int:
            with closing(Console("log", Location(source).shown)) as console:
                try:
                    result = await submitting.submit(settings, api, _print_submitted, console, stop, settle)
                except submitting.BatchCostError as error:  # without advice to repeat the same command
                    print_stderr(f"ruler: {error}")
                    return error.exit_code
                code, path = _say_submitted(result, again, wait=wait), settings.ledger
                if not wait or path is None or not (result.batches or result.out or result.uncertain):
                    return code
                done = await Batches(path, api, console, settle).collect(_print_closed, wait=timeout)
                _say_collected(done, again)
                return done.exit_code or code

        raise typer.Exit(_run(main))


@app.command("status")
def status(
    ledger: LedgerPath = None,
    api_key_env: ApiKeyEnv = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are closed, too.")] = False,
    as_json: AsJson = False,
    settle: Settle = _SETTLE,
) -> None:
    """List the batches that are out, and their state at the provider.

    Example: ruler batch status

    Exit codes: 0 listed; 2 bad usage; 3 a provider could not be asked about all of them.
    """
    with report_errors():
        from ruler_cli.batch.collect import Batches

        path = required_ledger_path(ledger)
        console = Console("log", str(path))
        batches = _run(
            lambda api, _: Batches(path, api, console, settle).status(include_closed=every),
            api_key_env,
        )
        if as_json:
            facts = {"version": 1, "ledger": safe(str(path)), "batches": list(map(_as_json, batches))}
            typer.echo(json.dumps(facts))
        else:
            typer.echo("\n".join(_table(batches)) if batches else "no batch is out")
        _say_errors(batches)
        if ended := sum(each.remote is not None and each.remote.state != "running" for each in batches):
            print_stderr(f"ruler: {count(ended, 'batch')} ended; `{_collect()}` takes the answers in")
        raise typer.Exit(3 if any(each.error for each in batches) else 0)


@app.command("collect")
def collect(
    ledger: LedgerPath = None,
    api_key_env: ApiKeyEnv = None,
    wait: Wait = False,
    timeout: Timeout = _LONGEST,
    settle: Settle = _SETTLE,
) -> None:
    """Take the answers of every batch that has ended into the ledger.

    What came back without an answer, expired or canceled or failed for now, is free: the next
    `ruler batch submit` takes it. What failed for good is on record as such.

    Example: ruler batch collect

    Exit codes: 0 everything is in; 1 some batches are still out, or some requests are to be submitted
    again; 2 bad usage; 3 the provider refused or failed a batch; 130 and 143 interrupted.
    """
    with report_errors(resume=same_command()):
        from ruler_cli.batch.collect import Batches

        path, seconds = required_ledger_path(ledger), timeout if wait else 0.0
        if not path.exists():
            print_stderr(f"ruler: nothing was submitted: there is no {path}")
            return
        console = Console("log", str(path))
        result = _run(
            lambda api, _: Batches(path, api, console, settle).collect(_print_closed, wait=seconds),
            api_key_env,
        )
        _say_collected(result, f"ruler score INPUT OUTPUT --cached-only{ledger_option(sys.argv)}")
        raise typer.Exit(result.exit_code)


@app.command("cancel")
def cancel(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG|ID]...", help="Batches as `status` names them.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every batch that is out.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Give them up without asking the provider; their requests are free at once."
        ),
    ] = False,
    ledger: LedgerPath = None,
    api_key_env: ApiKeyEnv = None,
    settle: Settle = _SETTLE,
) -> None:
    """Call batches off; what is done by then is paid for.

    `ruler batch collect` takes that in.

    Example: ruler batch cancel --all

    Exit codes: 0 called off; 1 some cannot be yet; 2 bad usage, or no such batch; 3 the provider refused.
    """
    with report_errors():
        from ruler_cli.batch.collect import Batches

        path = required_ledger_path(ledger)
        if bool(names) == every:
            raise UsageError("name the batches to call off, or give --all; `ruler batch status` lists them")
        console = Console("log", str(path))
        batches = _run(
            lambda api, _: Batches(path, api, console, settle).cancel(names or [], forget=forget),
            api_key_env,
        )
        raise typer.Exit(_say_canceled(batches))


def _run(main: Callable[[Providers, StopSignal], Awaitable[T]], key_env: str | None = None) -> T:
    """Run `main` with the providers; a signal cancels it, except for a creation in progress."""
    import anyio

    from ruler_cli.batch.providers import Providers
    from ruler_cli.pool.engine import run_beside

    async def with_providers(stop_signal: StopSignal) -> T:
        async def stop() -> None:
            await stop_signal.event.wait()
            raise stop_signal.reason or RulerError("stopped")

        async with Providers(key_env) as providers:
            return await run_beside(stop, lambda: main(providers, stop_signal))

    return anyio.run(run_interruptible, with_providers)


def _collect() -> str:
    return f"ruler batch collect{ledger_option(sys.argv)}"


def _print_submitted(batch: BatchRecord) -> None:
    cost = "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}"
    inside = f"{count(batch.requests, 'request')}, {size(batch.bytes)}"
    typer.echo(f"batch {_name(batch)}: {safe(batch.model)}, {inside}, {cost}")


def _say_submitted(result: SubmitResult, again: str, *, wait: bool) -> int:
    """Report a submission; return the exit code. `again` is the command that writes the output."""
    missing, then = result.missing, "" if wait else f"; `{_collect()}` takes the answers in"
    failed = sum(missing.failed.values()) - missing.unaskable
    parts = (
        (missing.answered, "group", "answered by the ledger"),
        (failed, "group", "failed before; --retry-failed asks again"),
        (missing.unaskable, "group", "that cannot be asked about"),
        (missing.unreadable, "line or trajectory", "not readable"),
        (result.large, "request", "larger than the provider takes; show fewer rollouts, with --group-size"),
        (result.out, "request", "in other batches that are out" + ("" if result.batches else then)),
    )
    for number, unit, text in parts:
        if number:
            print_stderr(f"ruler: {count(number, unit)} {text}")
    _say_errors(result.uncertain)
    if result.batches:
        batches = count(len(result.batches), "batch")
        print_stderr(f"ruler: {count(result.requests, 'request')} submitted in {batches}{then}")
    elif not (result.out or result.large):
        print_stderr(f"ruler: nothing is lacking; `{again}` writes the output")
    return 1 if missing.unreadable or missing.unaskable or result.large or result.uncertain else 0


def _print_closed(closed: ClosedBatch) -> None:
    batch, imported = closed.batch, closed.imported
    parts: list[str] = [batch.state]
    if imported is not None:
        parts.append(f"{count(batch.answered or 0, 'request')} answered")
        counts = ((batch.failed, "failed for good"), (batch.left_out, "to be submitted again"))
        parts += [f"{number} {text}" for number, text in counts if number]
        rejected = imported.foreign + imported.unreadable
        parts += [f"{count(rejected, 'row')} that are not of it, or none"] if rejected else []
    reason = f": {safe(batch.reason)}" if batch.reason else ""
    typer.echo(f"batch {_name(batch)}: {', '.join(parts)}{reason}")


def _say_collected(result: CollectResult, again: str) -> None:
    """Report open batches and the next step; `again` is the command that writes the output."""
    for each in result.open:
        if (remote := each.remote) is not None:
            progress = f"{remote.succeeded + remote.failed} of {each.batch.requests} done"
            ended = remote.state == "running" and remote.label == "completed"
            more = "; its results are not there yet, collect again later" if ended else ""
            print_stderr(f"ruler: batch {_name(each.batch)}: {remote.label}, {progress}{more}")
        elif not (each.error or each.uncertainty):
            print_stderr(f"ruler: batch {_name(each.batch)}: is being submitted")
    _say_errors(result.open)
    if result.left_out:
        requests = count(result.left_out, "request")
        print_stderr(f"ruler: {requests} to be submitted again, with the same `ruler batch submit`")
    if failed := sum(each.batch.failed or 0 for each in result.closed):
        requests = count(failed, "request")
        print_stderr(
            f"ruler: {requests} failed for good; `ruler batch submit --retry-failed` asks them again"
        )
    if not result.open and not result.left_out and result.closed:
        print_stderr(f"ruler: everything is in; `{again}` writes the output, or says what follows")
    elif not result.open and not result.closed:
        print_stderr("ruler: no batch is out")


def _say_canceled(batches: Sequence[BatchStatus]) -> int:
    """Report canceled batches and return the exit code."""
    if not batches:
        print_stderr("ruler: no batch is out")
    for each in batches:
        batch, remote = each.batch, each.remote
        if batch.state == "abandoned":
            typer.echo(f"batch {_name(batch)} is given up; {count(batch.requests, 'request')} free")
        elif remote is not None:
            typer.echo(f"batch {_name(batch)}: {safe(remote.label)}; `{_collect()}` takes in what is done")
    _say_errors(batches)
    if any(isinstance(each.error, RefusedError) and not each.uncertainty for each in batches):
        return 3
    return 1 if any(each.error or each.uncertainty for each in batches) else 0


def _say_errors(batches: Sequence[BatchStatus]) -> None:
    for each in batches:
        if each.uncertainty:
            print_stderr(
                f"ruler: batch {each.batch.tag} ({count(each.batch.requests, 'request')}) {each.uncertainty}"
            )
        elif each.error is not None:
            print_stderr(f"ruler: {each.error}")


def _table(batches: Sequence[BatchStatus]) -> list[str]:
    """Return a header and one line for each batch."""
    rows = [["tag", "id", "model", "state", "requests", "done", "failed", "cost", "age"]]
    for each in batches:
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


def _as_json(status: BatchStatus) -> dict[str, Any]:
    """Return the facts of one batch; null for those that the provider does not report now."""
    batch, remote = status.batch, status.remote
    reported = None if remote is None else {
        "state": remote.state, "label": safe(remote.label), "total": remote.total,
        "succeeded": remote.succeeded, "failed": remote.failed,
    }  # fmt: skip
    error = status.uncertainty or (str(status.error) if status.error else None)
    return {
        "tag": batch.tag, "id": batch.remote, "provider": batch.provider, "model": safe(batch.model),
        "state": batch.state, "requests": batch.requests, "bytes": batch.bytes, "expected_usd": batch.usd,
        "created": iso(batch.created), "changed": iso(batch.changed), "answered": batch.answered,
        "failed": batch.failed, "left_out": batch.left_out, "reason": safe(batch.reason), "remote": reported,
        "candidates": [safe(each.id) for each in status.candidates],
        "trouble": None if error is None else safe(error),
    }  # fmt: skip


def _name(batch: BatchRecord) -> str:
    """Return the tag of a batch, and its id at the provider."""
    return one_line(f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag)
