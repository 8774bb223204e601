"""`ruler batch`: a provider's batch API asks the judge, at half the price; or another engine, by files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ruler_cli.cli.batch_files import NOT_ASKED, export, import_
from ruler_cli.cli.command import (
    ledger_command,
    print_file_note,
    running,
    score_command,
)
from ruler_cli.cli.help import SectionedCommand
from ruler_cli.cli.ledger import required_ledger_path
from ruler_cli.cli.messages import print_note
from ruler_cli.cli.options import RUN_OPTIONS, RUN_SETTINGS, Source, takes
from ruler_cli.cli.progress import Console
from ruler_cli.cli.safe_text import one_line, print_json
from ruler_cli.cli.signals import run_cancellable
from ruler_cli.cli.units import lines, print_figures, rounded, size
from ruler_cli.errors import UsageError
from ruler_cli.settings.load import score_settings
from ruler_cli.settings.options import COMMAND_LINE, Options
from ruler_cli.types import iso, words_of

if TYPE_CHECKING:
    from ruler_cli.runs.batch.batches import Batches, BatchStatus
    from ruler_cli.runs.batch.journal import BatchRecord
    from ruler_cli.runs.batch.providers import RemoteBatch

T = TypeVar("T")
_SUBMITTED = """
already in open batches: {0.out:request}
submitted: {0.requests:request}
"""
_BATCH = """
{0.requests:request} ({size})
{0.answered:request} answered
{1.succeeded:request} answered
{0.failed:request} failed
{1.failed:request} failed
{0.left_out:request} to be submitted again
"""
"""Figures of a batch on record, and of the batch at its provider."""
_RECORDED = words_of(
    "tag provider model state requests bytes answered failed left_out reason"
)
_REPORTED = words_of("state label total succeeded failed")
"""Facts of a batch on record, and of the batch at its provider."""
_HELP = """Have a provider's batch API ask the judge, at half the price.

It takes up to 24 hours. The ledger keeps the submitted batches and takes in the answers; `ruler score
--cached-only` then writes the output. After a crash at any point the next command recovers. Engines without
a batch API answer a file: `export` writes the requests, `import` takes in the replies.

\b
Example:
  ruler batch submit rollouts.jsonl -m openai/o3 --wait
"""
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
app.command("export", cls=SectionedCommand)(export)
app.command("import", cls=SectionedCommand)(import_)


@app.command("submit", cls=SectionedCommand)
@takes(
    "wait",
    "wait_timeout",
    *RUN_OPTIONS,
    "api_key_env",
    "max_cost",
    "price",
    "ledger",
    "retry_failed",
    settings=(*RUN_SETTINGS, "settle"),
)
def submit(
    ctx: typer.Context,
    source: Source,
) -> int:
    """Submit the requests of `score` that the ledger does not answer.

    Requests in open batches are left out. The options are those of `score`. Each judge has its own batches,
    as many as its provider's limits require. Answers can lead to further requests: run the same command
    again after each collection until nothing is missing.

    Example: ruler batch submit rollouts.jsonl -m openai/o3

    Exit codes: 0 submitted, or nothing is missing; 1 something could not be read, asked or found (with
    --wait as `collect`); 2 bad usage or unreadable input; 3 the provider refused; 4 the cost could exceed
    --max-cost; 130 and 143 interrupted. Run it again to resume.
    """
    with running(ctx, source, resumes=True) as options:
        settings = score_settings(options, source)
        print_file_note(options, settings)
        source = settings.input.source
        again = score_command(options, source)

        async def main(batches: Batches) -> int:
            result = await batches.submit(settings, _print_batch)
            missing = result.missing
            print_figures(NOT_ASKED, missing)
            print_figures(_SUBMITTED, result)
            code = int(bool(missing.unreadable or missing.unaskable))
            still_open = result.batches or result.out
            if options.wait and still_open:
                return await _collect(batches, options, again) or code
            if still_open:
                print_note(f"next: {ledger_command(options, 'batch collect')}")
            else:
                print_note(f"no request is missing; next: {again}")
            return code

        return _run(main, options, source)


@app.command("status", cls=SectionedCommand)
@takes("all_batches", "ledger", "api_key_env", "as_json", settings=("settle",))
def status(
    ctx: typer.Context,
) -> int:
    """List the open batches, and their state at the provider.

    Example: ruler batch status

    Exit codes: 0 listed; 2 bad usage; 3 a provider could not be asked about all of them.
    """
    with running(ctx) as options:
        from ruler_cli.runs.batch.batches import UncertainBatch

        closed = options.all_batches
        batches = _run(lambda batches: batches.status(closed=closed), options)
        if options.as_json:
            ledger = str(required_ledger_path(options))
            facts = [_facts(status) for status in batches]
            print_json({"version": 1, "ledger": ledger, "batches": facts})
        else:
            _print_all(batches)
        code = 0
        ended = False
        for status in batches:
            remote = status.remote
            ended |= remote is not None and remote.state != "running"
            if not isinstance(status.error, UncertainBatch | None):
                code = 3
        if ended:
            print_note(f"next: {ledger_command(options, 'batch collect')}")
        return code


@app.command("collect", cls=SectionedCommand)
@takes("wait", "wait_timeout", "ledger", "api_key_env", settings=("settle",))
def collect(
    ctx: typer.Context,
) -> int:
    """Take the answers of ended batches into the ledger.

    Requests without an answer (expired, canceled, failed for now) are released: the next `ruler batch submit`
    submits them again. Requests that failed for good are recorded as such.

    Example: ruler batch collect

    Exit codes: 0 no batch is open; 1 some are still open, or some requests are to be submitted again; 2 bad
    usage; 3 the provider refused or failed a batch; 130 and 143 interrupted.
    """
    with running(ctx, resumes=True) as options:
        again = f"{ledger_command(options, 'score', 'INPUT', 'OUTPUT')} --cached-only"
        again += ", with the options of `ruler batch submit`"
        return _run(lambda batches: _collect(batches, options, again), options)


async def _collect(batches: Batches, options: Options, again: str) -> int:
    """Collect, and report the next step; `again` is the command that writes the output."""
    closed: list[BatchRecord] = []

    def on_closed(batch: BatchRecord) -> None:
        closed.append(batch)
        _print_batch(batch)

    wait = options.wait_timeout if options.wait else 0.0
    still_open = await batches.collect(on_closed, wait=wait)
    code = _print_all(still_open)
    if any(batch.left_out for batch in closed):
        print_note("next: run the same `ruler batch submit` for the rest")
        code = max(code, 1)
    elif not still_open:
        print_note(f"next: {again}")
    if any(batch.state == "failed" for batch in closed):
        return 3
    return max(code, int(bool(still_open)))


@app.command("cancel", cls=SectionedCommand)
@takes("all_batches", "forget", "ledger", "api_key_env", settings=("settle",))
def cancel(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TAG|ID]...", help="Batches as `status` names them."
        ),
    ] = None,
) -> int:
    """Cancel batches; requests that are done by then are paid for.

    `ruler batch collect` takes in their answers.

    Example: ruler batch cancel --all

    Exit codes: 0 canceled; 1 some cannot be canceled yet; 2 bad usage, or no such batch; 3 the provider refused.
    """
    with running(ctx, names) as options:
        if bool(names) == options.all_batches:
            raise UsageError("name the batches to cancel, or use --all")
        forget = options.forget
        batches = _run(
            lambda batches: batches.cancel(names or [], forget=forget), options
        )
        if any(status.remote for status in batches):
            print_note(f"next: {ledger_command(options, 'batch collect')}")
        return _print_all(batches)


def _run(
    main: Callable[[Batches], Awaitable[T]], options: Options, source: str = ""
) -> T:
    """Run `main` with the batches of a ledger; a signal cancels it, except for a creation in progress.

    Without a `source` a ledger that is missing is not created. Only the command line may name another key
    than the batches were submitted with: a variable or the file names the key of a run, and a batch may be at
    another endpoint.
    """
    from ruler_cli.runs.batch.batches import Batches
    from ruler_cli.runs.batch.journal import Journal
    from ruler_cli.runs.batch.providers import Providers

    other_key = not source and options.rank("api_key_env") == COMMAND_LINE
    key_env = options.api_key_env if other_key else None
    path, make = required_ledger_path(options), bool(source)
    with (
        closing(Console("log", source)) as console,
        Journal(path, make=make) as journal,
    ):

        async def with_batches() -> T:
            async with Providers(key_env) as providers:
                return await main(
                    Batches(journal, providers, console, options.settle)
                )

        return run_cancellable(with_batches)


def _print_all(batches: Sequence[BatchStatus]) -> int:
    """Print a line for each batch, and errors on stderr; return the exit code."""
    code = 0
    if not batches:
        print_note("no batch is open")
    for status in batches:
        _print_batch(status.batch, status.remote)
        if status.error:
            print_note(status.error)
            code = max(code, status.error.exit_code)
    return code


def _print_batch(batch: BatchRecord, remote: RemoteBatch | None = None) -> None:
    """Print a batch on record, and what its provider reports now."""
    figures = {"size": size(batch.bytes)}
    parts = [
        remote.label if remote else batch.state,
        batch.model,
        *lines(_BATCH, figures, batch, remote),
        "cost unknown" if batch.usd is None else f"about ${rounded(batch.usd)}",
        iso(batch.created) or "",
    ]
    name = f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag
    reason = f": {batch.reason}" if batch.state == "failed" else ""
    typer.echo(one_line(f"batch {name}: {', '.join(parts)}{reason}"))


def _facts(status: BatchStatus) -> dict[str, Any]:
    """Return the facts of one batch, as `--json` prints them; null if the provider does not report them."""
    batch = status.batch
    error = status.error
    remote = status.remote
    recorded = _named(batch, _RECORDED)
    return recorded | {
        "id": batch.remote,
        "expected_usd": batch.usd,
        "created": iso(batch.created),
        "changed": iso(batch.changed),
        "remote": remote and _named(remote, _REPORTED),
        "candidates": getattr(error, "candidates", ()),
        "trouble": error and str(error),
    }


def _named(record: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of these names."""
    return {name: getattr(record, name) for name in names}
