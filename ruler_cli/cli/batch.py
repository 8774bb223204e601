"""`ruler batch submit|status|collect|cancel`: a provider's batch API asks the judge, at half the price."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ruler_cli.cli.command import ledger_command, run_command, score_command
from ruler_cli.cli.help import SectionedCommand
from ruler_cli.cli.ledger import required_ledger_path
from ruler_cli.cli.messages import (
    command_words,
    one_line,
    print_note,
    safe,
)
from ruler_cli.cli.notes import print_file_note
from ruler_cli.cli.options import (
    Adaptive,
    AllBatches,
    ApiBase,
    ApiKeyEnv,
    AsJson,
    Config,
    Escalate,
    Fallback,
    Forget,
    Format,
    GroupBy,
    Grouping,
    GroupSize,
    JudgeModel,
    Limit,
    MaxCost,
    MaxRecord,
    Messages,
    OneLedger,
    Order,
    Outcome,
    Param,
    Passes,
    Price,
    Prompt,
    RetryFailed,
    Reward,
    Rubric,
    Seed,
    Settle,
    Single,
    Source,
    Wait,
    WaitTimeout,
)
from ruler_cli.cli.progress import Console
from ruler_cli.cli.render import not_rendered
from ruler_cli.cli.signals import run_interruptible
from ruler_cli.cli.units import columns, count, counts, iso, rounded, size
from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.pool.engine import StopSignal
    from ruler_cli.runs.batch.collect import ClosedBatch, CollectResult
    from ruler_cli.runs.batch.journal import BatchRecord
    from ruler_cli.runs.batch.providers import Providers
    from ruler_cli.runs.batch.recover import BatchStatus
    from ruler_cli.runs.batch.submit import SubmitResult

T = TypeVar("T")
_HELP = """Have a provider's batch API ask the judge, at half the price.

It is done within 24 hours. The ledger keeps what was submitted and takes the answers in: `ruler score
--cached-only` writes the output then. After a crash at any point the next command recovers.

\b
Example:
  ruler batch submit rollouts.jsonl -m openai/o3 --wait
"""
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)


@app.command("submit", cls=SectionedCommand)
def submit(
    ctx: typer.Context,
    source: Source,
    model: JudgeModel = None,
    api_base: ApiBase = None,
    passes: Passes = 1,
    rubric: Rubric = None,
    param: Param = None,
    fallback: Fallback = False,
    escalate: Escalate = None,
    adaptive: Adaptive = False,
    order: Order = "random",
    seed: Seed = 0,
    group_size: GroupSize = 32,
    single: Single = "flag",
    limit: Limit = None,
    format: Format = "auto",
    group_by: GroupBy = None,
    grouping: Grouping = "auto",
    messages: Messages = None,
    prompt: Prompt = None,
    reward: Reward = None,
    outcome: Outcome = None,
    max_record: MaxRecord = 512,
    api_key_env: ApiKeyEnv = None,
    max_cost: MaxCost = None,
    price: Price = None,
    ledger: OneLedger = None,
    retry_failed: RetryFailed = False,
    wait: Wait = False,
    wait_timeout: WaitTimeout = 93600,
    settle: Settle = 120,
    config: Config = None,
) -> int:
    """Submit what `score` would ask and the ledger lacks.

    Requests that an open batch holds are left out. The options are those of `score`. Each judge has batches
    of its own, as many as its provider's limits make necessary. Requests may follow from answers: run the
    same command again once they are collected, until nothing is lacking.

    Example: ruler batch submit rollouts.jsonl -m openai/o3

    Exit codes: 0 submitted, or nothing is lacking; 1 something could not be read or asked, or is not
    known (with --wait as `collect`); 2 bad usage or unreadable input; 3 the provider refused; 4 the cost
    could be more than --max-cost; 130 and 143 interrupted. Run it again to resume.
    """
    return run_command(ctx, _submit, source, resumes=True)


def _submit(options: Options, source: str) -> int:
    from ruler_cli.runs.batch import submit as submitting
    from ruler_cli.runs.batch.collect import Batches

    settings = replace(
        score_settings(options, source), ledger=ledger_path(options.ledger_name)
    )
    print_file_note(options, settings)
    source = settings.input.source
    again = score_command(options, source)

    async def main(api: Providers, console: Console, stop: StopSignal) -> int:
        try:
            result = await submitting.submit(
                settings, api, _print_submitted, console, stop, options.settle
            )
        except (
            submitting.BatchCostError
        ) as error:  # without advice to repeat the same command
            print_note(error)
            return error.exit_code
        code, path = _say_submitted(result, again, options), settings.ledger
        if (
            not options.wait
            or path is None
            or not (result.batches or result.out or result.uncertain)
        ):
            return code
        done = await Batches(path, api, console, options.settle).collect(
            _print_closed, wait=options.wait_timeout
        )
        _say_collected(done, again)
        return done.exit_code or code

    return _run(main, source=source)


@app.command("status", cls=SectionedCommand)
def status(
    ctx: typer.Context,
    ledger: OneLedger = None,
    api_key_env: ApiKeyEnv = None,
    all_batches: AllBatches = False,
    as_json: AsJson = False,
    settle: Settle = 120,
    config: Config = None,
) -> int:
    """List the batches that are out, and their state at the provider.

    Example: ruler batch status

    Exit codes: 0 listed; 2 bad usage; 3 a provider could not be asked about all of them.
    """
    return run_command(ctx, _status)


def _status(options: Options) -> int:
    from ruler_cli.runs.batch.collect import Batches

    path = required_ledger_path(options)
    batches = _run(
        lambda api, console, _: Batches(path, api, console, options.settle).status(
            include_closed=options.all_batches
        ),
        options,
    )
    if options.as_json:
        facts = {
            "version": 1,
            "ledger": safe(str(path)),
            "batches": list(map(_as_json, batches)),
        }
        typer.echo(json.dumps(facts))
    else:
        typer.echo("\n".join(_table(batches)) if batches else "no batch is out")
    _say_errors(batches)
    if ended := sum(
        each.remote is not None and each.remote.state != "running" for each in batches
    ):
        print_note(
            f"{count(ended, 'batch')} ended; `{ledger_command(options, 'batch collect')}` takes the answers in"
        )
    return 3 if any(each.error for each in batches) else 0


@app.command("collect", cls=SectionedCommand)
def collect(
    ctx: typer.Context,
    ledger: OneLedger = None,
    api_key_env: ApiKeyEnv = None,
    wait: Wait = False,
    wait_timeout: WaitTimeout = 93600,
    settle: Settle = 120,
    config: Config = None,
) -> int:
    """Take the answers of every batch that has ended into the ledger.

    What came back without an answer, expired or canceled or failed for now, is free: the next
    `ruler batch submit` takes it. What failed for good is on record as such.

    Example: ruler batch collect

    Exit codes: 0 everything is in; 1 some batches are still out, or some requests are to be submitted
    again; 2 bad usage; 3 the provider refused or failed a batch; 130 and 143 interrupted.
    """
    return run_command(ctx, _collect, resumes=True)


def _collect(options: Options) -> int:
    from ruler_cli.runs.batch.collect import Batches

    path, seconds = (
        required_ledger_path(options),
        options.wait_timeout if options.wait else 0.0,
    )
    if not path.exists():
        print_note(f"nothing was submitted: there is no {path}")
        return 0
    result = _run(
        lambda api, console, _: Batches(path, api, console, options.settle).collect(
            _print_closed, wait=seconds
        ),
        options,
    )
    _say_collected(
        result, f"{ledger_command(options, 'score', 'INPUT', 'OUTPUT')} --cached-only"
    )
    return result.exit_code


@app.command("cancel", cls=SectionedCommand)
def cancel(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TAG|ID]...", help="Batches as `status` names them."),
    ] = None,
    all_batches: AllBatches = False,
    forget: Forget = False,
    ledger: OneLedger = None,
    api_key_env: ApiKeyEnv = None,
    settle: Settle = 120,
    config: Config = None,
) -> int:
    """Call batches off; what is done by then is paid for.

    `ruler batch collect` takes that in.

    Example: ruler batch cancel --all

    Exit codes: 0 called off; 1 some cannot be yet; 2 bad usage, or no such batch; 3 the provider refused.
    """
    return run_command(ctx, _cancel, names)


def _cancel(options: Options, names: list[str] | None) -> int:
    from ruler_cli.runs.batch.collect import Batches

    path = required_ledger_path(options)
    if bool(names) == options.all_batches:
        raise UsageError(
            "name the batches to call off, or give --all; `ruler batch status` lists them"
        )
    batches = _run(
        lambda api, console, _: Batches(path, api, console, options.settle).cancel(
            names or [], forget=options.forget
        ),
        options,
    )
    return _say_canceled(batches, options)


def _run(
    main: Callable[[Providers, Console, StopSignal], Awaitable[T]],
    options: Options | None = None,
    source: str = "",
) -> T:
    """Run `main` with the providers; a signal cancels it, except for a creation in progress.

    `options` may name another key than the batches were submitted with. Only the command line does: a
    variable or the file names the key of a run, and a batch may be at another endpoint.
    """
    from ruler_cli.pool.engine import run_beside
    from ruler_cli.runs.batch.providers import Providers

    key_env = (
        options.api_key_env if options and options.rank("api_key_env") == 3 else None
    )

    async def with_providers(stop_signal: StopSignal) -> T:
        async def stop() -> None:
            await stop_signal.event.wait()
            raise stop_signal.reason or RulerError("stopped")

        with closing(Console("log", source)) as console:
            async with Providers(key_env) as providers:
                return await run_beside(
                    stop, lambda: main(providers, console, stop_signal)
                )

    return run_interruptible(with_providers)


def _print_submitted(batch: BatchRecord) -> None:
    cost = "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}"
    inside = f"{count(batch.requests, 'request')}, {size(batch.bytes)}"
    typer.echo(f"batch {_name(batch)}: {safe(batch.model)}, {inside}, {cost}")


def _say_submitted(result: SubmitResult, again: str, options: Options) -> int:
    """Report a submission; return the exit code. `again` is the command that writes the output."""
    missing, then = (
        result.missing,
        ""
        if options.wait
        else f"; `{ledger_command(options, 'batch collect')}` takes the answers in",
    )
    parts = (
        *not_rendered(missing),
        (
            result.large,
            "request",
            "larger than the provider takes; show fewer rollouts, with --group-size",
        ),
        (
            result.out,
            "request",
            "in other batches that are out" + ("" if result.batches else then),
        ),
    )
    print_note(*counts(parts))
    _say_errors(result.uncertain)
    if result.batches:
        batches = count(len(result.batches), "batch")
        print_note(f"{count(result.requests, 'request')} submitted in {batches}{then}")
    elif not (result.out or result.large):
        print_note(f"nothing is lacking; `{again}` writes the output")
    return (
        1
        if missing.unreadable or missing.unaskable or result.large or result.uncertain
        else 0
    )


def _print_closed(closed: ClosedBatch) -> None:
    batch, imported = closed.batch, closed.imported
    parts: list[str] = [batch.state]
    if imported is not None:
        parts.append(f"{count(batch.answered or 0, 'request')} answered")
        others = (
            (batch.failed, "failed for good"),
            (batch.left_out, "to be submitted again"),
        )
        parts += [f"{number} {text}" for number, text in others if number]
        rejected = imported.foreign + imported.unreadable
        parts += (
            [f"{count(rejected, 'row')} that are not of it, or none"]
            if rejected
            else []
        )
    reason = f": {safe(batch.reason)}" if batch.reason else ""
    typer.echo(f"batch {_name(batch)}: {', '.join(parts)}{reason}")


def _say_collected(result: CollectResult, again: str) -> None:
    """Report open batches and the next step; `again` is the command that writes the output."""
    for each in result.open:
        if (remote := each.remote) is not None:
            progress = (
                f"{remote.succeeded + remote.failed} of {each.batch.requests} done"
            )
            ended = remote.state == "running" and remote.label == "completed"
            more = (
                "; its results are not there yet, collect again later" if ended else ""
            )
            print_note(f"batch {_name(each.batch)}: {remote.label}, {progress}{more}")
        elif not (each.error or each.uncertainty):
            print_note(f"batch {_name(each.batch)}: is being submitted")
    _say_errors(result.open)
    failed = sum(each.batch.failed or 0 for each in result.closed)
    requests = (
        (
            result.left_out,
            "request",
            "to be submitted again, with the same `ruler batch submit`",
        ),
        (
            failed,
            "request",
            "failed for good; `ruler batch submit --retry-failed` asks them again",
        ),
    )
    print_note(*counts(requests))
    if not result.open and not result.left_out and result.closed:
        print_note(
            f"everything is in; `{again}` writes the output, or says what follows"
        )
    elif not result.open and not result.closed:
        print_note("no batch is out")


def _say_canceled(batches: Sequence[BatchStatus], options: Options) -> int:
    """Report canceled batches and return the exit code."""
    if not batches:
        print_note("no batch is out")
    for each in batches:
        batch, remote = each.batch, each.remote
        if batch.state == "abandoned":
            typer.echo(
                f"batch {_name(batch)} is given up; {count(batch.requests, 'request')} free"
            )
        elif remote is not None:
            collected = (
                f"`{ledger_command(options, 'batch collect')}` takes in what is done"
            )
            typer.echo(f"batch {_name(batch)}: {safe(remote.label)}; {collected}")
    _say_errors(batches)
    if any(
        isinstance(each.error, RefusedError) and not each.uncertainty
        for each in batches
    ):
        return 3
    return 1 if any(each.error or each.uncertainty for each in batches) else 0


def _say_errors(batches: Sequence[BatchStatus]) -> None:
    for each in batches:
        if each.uncertainty:
            batch = f"batch {each.batch.tag} ({count(each.batch.requests, 'request')})"
            print_note(f"{batch} {command_words(each.uncertainty)}")
        elif each.error is not None:
            print_note(each.error)


def _table(batches: Sequence[BatchStatus]) -> Iterator[str]:
    """Return a header and one line for each batch."""
    rows = [
        ["tag", "id", "model", "state", "requests", "done", "failed", "cost", "age"]
    ]
    for each in batches:
        batch, remote = each.batch, each.remote
        done, failed = (
            (batch.answered, batch.failed)
            if remote is None
            else (remote.succeeded, remote.failed)
        )
        cost = "unknown" if batch.usd is None else f"${rounded(batch.usd)}"
        numbers = [
            "" if number is None else str(number)
            for number in (batch.requests, done, failed)
        ]
        texts = [
            batch.tag,
            batch.remote or "",
            batch.model,
            batch.state if remote is None else remote.label,
        ]
        minutes = max(0, int((time.time() - batch.created) // 60))
        age = (
            f"{minutes // 60} h {minutes % 60:02} min"
            if minutes >= 60
            else f"{minutes} min"
        )
        rows.append([*map(one_line, texts), *numbers, cost, age])
    return columns(rows)


def _as_json(status: BatchStatus) -> dict[str, Any]:
    """Return the facts of one batch; null for those that the provider does not report now."""
    batch, remote = status.batch, status.remote
    reported = None if remote is None else {
        "state": remote.state, "label": safe(remote.label), "total": remote.total,
        "succeeded": remote.succeeded, "failed": remote.failed,
    }  # fmt: skip
    error = status.uncertainty or status.error
    trouble = None if error is None else safe(command_words(error))
    return {
        "tag": batch.tag, "id": batch.remote, "provider": batch.provider, "model": safe(batch.model),
        "state": batch.state, "requests": batch.requests, "bytes": batch.bytes, "expected_usd": batch.usd,
        "created": iso(batch.created), "changed": iso(batch.changed), "answered": batch.answered,
        "failed": batch.failed, "left_out": batch.left_out, "reason": safe(batch.reason), "remote": reported,
        "candidates": [safe(each.id) for each in status.candidates],
        "trouble": trouble,
    }  # fmt: skip


def _name(batch: BatchRecord) -> str:
    """Return the tag of a batch, and its id at the provider."""
    return one_line(f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag)
