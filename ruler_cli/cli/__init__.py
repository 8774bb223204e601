"""The command `ruler`: a module for each command, which parses options, makes one call and reports."""

from __future__ import annotations

import os
import sys

import typer

from ruler_cli import __version__
from ruler_cli.cli import agree, batch, check, ledger, prompt, render, report, score, select
from ruler_cli.cli.messages import report_usage_error

# plain help needs no terminal library, starts in half the time, and reads the same in a README
app = typer.Typer(
    name="ruler",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("score")(score.command)
app.command("check")(check.command)
app.command("prompt")(prompt.command)
app.command("render")(render.command)
app.command("agree")(agree.command)
app.command("report")(report.command)
app.command("select")(select.command)
app.add_typer(ledger.app, name="ledger")
app.add_typer(batch.app, name="batch")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ruler {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Score groups of agent rollouts with an LLM judge, side by side, from 0 to 1.

    \b
    Example:
      ruler check rollouts.jsonl                estimates calls and cost; nothing is sent
      ruler score rollouts.jsonl scored.jsonl   a judge scores each group
      ruler report scored.jsonl                 shows the scores, on a terminal or as a page
    """


def main() -> None:
    """Run the command line and exit."""
    if "_RULER_COMPLETE" in os.environ:  # typer would load rich, which takes longer than all the rest
        sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # None: the module cannot be imported
    try:
        code = app(prog_name="ruler", standalone_mode=False)
    except KeyboardInterrupt:  # before a run has set its handlers of signals
        code = 130
    except Exception as error:
        code = report_usage_error(error)
        if code is None:
            raise
    sys.exit(code)
