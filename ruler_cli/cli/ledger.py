"""`ruler ledger path|stats|clear`: the judge's replies, kept so that none is paid for twice."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.help import SectionedCommand
from ruler_cli.cli.options import takes
from ruler_cli.cli.safe_text import print_facts, print_json, safe
from ruler_cli.cli.units import count, short
from ruler_cli.errors import UsageError
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options
from ruler_cli.types import iso

if TYPE_CHECKING:
    from pathlib import Path


_HELP = """Kept replies of judges, so that no request is paid for twice.

Example: ruler ledger stats
"""
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
_DAY = 86400.0


@app.command("path", cls=SectionedCommand)
@takes("ledger")
def path(
    ctx: typer.Context,
) -> int:
    """Print the path of the ledger, even if it does not exist yet.

    Example: du -h "$(ruler ledger path)"

    Exit codes: 0 printed; 2 bad usage.
    """
    with running(ctx) as options:
        # byte for byte: a script reads it
        typer.echo(os.fsencode(required_ledger_path(options)))
        return 0


@app.command("stats", cls=SectionedCommand)
@takes("ledger", "as_json")
def stats(
    ctx: typer.Context,
) -> int:
    """Show the number, tokens and price of the replies by model.

    Example: ruler ledger stats

    Exit codes: 0 shown; 1 the ledger cannot be read; 2 bad usage, or no ledger of this program.
    """
    with running(ctx) as options:
        from ruler_cli.judges.providers import model_info
        from ruler_cli.ledger.reply_cache import Ledger

        file = required_ledger_path(options)
        with Ledger(file, make=False) as opened:
            totals = opened.stats()
        models = []
        for model in totals.models:
            usage = model.usage
            price = model_info(model.model).price
            figures = {
                "model": model.model,
                "rows": dict(model.rows),
                "prompt_tokens": usage.prompt,
                "completion_tokens": usage.completion,
                "cached_tokens": usage.cached,
                "cost_usd": price and price.of(usage),
            }
            models.append(figures)
        facts = {
            "ledger": str(file),
            "bytes": totals.size,
            "first": iso(totals.first),
            "last": iso(totals.last),
            "rows": totals.rows,
        }
        if options.as_json:
            print_json({**facts, "models": models})
            return 0
        print_facts(facts | {str(m.pop("model")): m for m in models})
        if not models:
            typer.echo("it is empty")
        return 0


@app.command("clear", cls=SectionedCommand)
@takes("ledger", "older_than", "yes")
def clear(
    ctx: typer.Context,
) -> int:
    """Remove replies; a request whose reply is gone is paid for again.

    It asks first. If stdin is not a terminal, it removes nothing without --yes.

    Example: ruler ledger clear --older-than 90

    Exit codes: 0 removed; 1 not confirmed, or the ledger cannot be written; 2 bad usage, or no --yes and
    stdin is not a terminal.
    """
    with running(ctx) as options:
        from ruler_cli.ledger.database import is_there
        from ruler_cli.ledger.reply_cache import Ledger

        file, days = required_ledger_path(options), options.older_than
        older = None if days is None else days * _DAY
        if not is_there(file):
            typer.echo(f"removed nothing: there is no {safe(str(file))}")
            return 0
        with Ledger(file) as opened:
            if not options.yes:
                number, used = opened.measure(older)
                age = "" if days is None else f" older than {days:g} days"
                what = f"{count(number, 'reply')}{age} ({short(used)}B) from {file}"
                if sys.stdin is None or not sys.stdin.isatty():
                    raise UsageError(
                        f"would remove {what}",
                        "use --yes, since stdin is not a terminal to ask on",
                    )
                if not typer.confirm(f"Remove {safe(what)}?", err=True):
                    typer.echo("removed nothing")
                    return 1
            number = opened.clear(older)
            left = opened.stats().size
        typer.echo(
            f"removed {count(number, 'reply')} from {safe(str(file))}, now {short(left)}B"
        )
        return 0


def required_ledger_path(options: Options) -> Path:
    """Return the path of the ledger that `--ledger` names; UsageError if it names none."""
    file: Path | None = ledger_path(options.ledger_name)
    if file is None:
        problem, remedy = "this command needs a ledger", "give its path"
        raise UsageError(problem, remedy, place="--ledger none")
    return file
