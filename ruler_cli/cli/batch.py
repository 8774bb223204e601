"""`ruler batch submit|status|collect|cancel`: a provider's batch API asks the judge, at half the price."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ruler_cli.cli.messages import report_errors, same_command
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
from ruler_cli.cli.settings import score_settings
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Settle = Annotated[
    float,
    typer.Option(
        metavar="S",
        min=0.0,
        callback=finite,
        envvar="RULER_SETTLE",
        help="Seconds in which a batch may still appear at its provider after a crash.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", envvar="RULER_WAIT", help="Collect until no batch is out.")]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="S",
        min=0.0,
        callback=finite,
        envvar="RULER_WAIT_TIMEOUT",
        help="Seconds of --wait at most.",
    ),
]
_SETTLE = 120.0
_LONGEST = 26 * 3600.0


@app.callback()
def _root() -> None:
    """Have a provider's batch API ask the judge: half the price, done within 24 hours.

    The ledger keeps what was submitted and takes the answers in: `ruler score --cached-only` writes the
    output then. A command that was killed at any point is made good by the next one.

    \b
    Example:
      ruler batch submit rollouts.jsonl -m openai/o3 --wait
    """


@app.command("submit")
@with_options(
    *REQUEST_OPTIONS,
    "api_key_env max_cost price ledger retry_failed wait timeout settle",
    max_cost="Submit nothing where all of it could cost more, by the high estimate.",
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
        from ruler_cli.cli.batch_runs import run, submitting
        from ruler_cli.ledger.database import ledger_path

        settings = score_settings(options, source)
        settings, most = replace(settings, ledger=ledger_path(ledger)), timeout if wait else None
        run(lambda providers, halt: submitting(settings, providers, halt, settle, most))


@app.command("status")
def status(
    ledger: LedgerPath = None,
    api_key_env: ApiKeyEnv = None,
    every: Annotated[bool, typer.Option("--all", help="Those that are closed, too.")] = False,
    as_json: AsJson = False,
    settle: Settle = _SETTLE,
) -> None:
    """List the batches that are out, each as its provider tells it now.

    Example: ruler batch status

    Exit codes: 0 listed; 2 bad usage; 3 a provider could not say of all of them.
    """
    with report_errors():
        from ruler_cli.cli.batch_runs import listing, run

        place = _place(ledger)
        run(lambda providers, _: listing(place, providers, settle, every, as_json), api_key_env)


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
        from ruler_cli.cli.batch_runs import collecting, run

        place, seconds = _place(ledger), timeout if wait else 0.0
        run(lambda providers, _: collecting(place, providers, settle, seconds), api_key_env)


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
        from ruler_cli.cli.batch_runs import canceling, run

        place = _place(ledger)
        if bool(names) == every:
            raise UsageError("name the batches to call off, or give --all; `ruler batch status` lists them")
        run(lambda providers, _: canceling(place, providers, settle, names or [], forget), api_key_env)


def _place(text: str | None) -> Path:
    from ruler_cli.ledger.database import ledger_path

    place = ledger_path(text)
    if place is None:
        raise UsageError("--ledger none: batches are on record in a ledger; give its path, or leave it out")
    return place
