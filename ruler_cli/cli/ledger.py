"""`ruler ledger path|stats|clear`: the replies that are kept, so that none is paid for twice."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli import sharing
from ruler_cli.cli.messages import one_line, safe, told
from ruler_cli.cli.units import count, iso, size
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ruler_cli.ledger import Stats, Tally

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_DAY = 86400.0


@app.callback()
def _root() -> None:
    """The judge's replies that are kept, so that no request is paid for twice.

    Example: ruler ledger stats
    """


@app.command("path")
def path(ledger: sharing.Ledger = None) -> None:
    """Print where the ledger is, whether it is there yet or not.

    Example: du -h "$(ruler ledger path)"

    Exit codes: 0 printed; 2 bad usage.
    """
    with told():
        typer.echo(os.fsencode(place_of(ledger)))  # byte for byte: a script reads it


@app.command("stats")
def stats(
    ledger: sharing.Ledger = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, times as ISO 8601, an unknown cost as null.")
    ] = False,
) -> None:
    """Say what the ledger holds: replies, tokens, list price by model.

    Example: ruler ledger stats

    Exit codes: 0 said; 1 the ledger cannot be read; 2 bad usage, or no ledger of this program.
    """
    with told():
        from ruler_cli.ledger import Ledger, Stats

        place = place_of(ledger)
        if _there(place):
            with Ledger(place) as kept:
                found = kept.stats()
        else:
            found = Stats()
        if as_json:
            import json

            typer.echo(json.dumps(_as_json(place, found)))
            return
        for line in _table(place, found):
            typer.echo(line)


@app.command("clear")
def clear(
    ledger: sharing.Ledger = None,
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", min=0.0, help="Only what came before so many days.  [default: all]"),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, which happens on a terminal.")
    ] = False,
) -> None:
    """Remove replies; a request whose reply is gone is paid for again.

    Example: ruler ledger clear --older-than 90

    Exit codes: 0 removed; 1 not confirmed, or the ledger cannot be written; 2 bad usage.
    """
    with told():
        from ruler_cli.ledger import Ledger

        place = place_of(ledger)
        if older_than is not None and not math.isfinite(older_than):
            raise UsageError(f"--older-than {older_than}: give a number of days, e.g. 90")
        which = "every reply" if older_than is None else f"every reply older than {older_than:g} days"
        if not _there(place):
            typer.echo(f"removed nothing: there is no {safe(str(place))}")
            return
        ask = not yes and sys.stdin is not None and sys.stdin.isatty()
        if ask and not typer.confirm(f"Remove {which} from {safe(str(place))}?", err=True):
            typer.echo("removed nothing")
            raise typer.Exit(1)
        with Ledger(place) as kept:
            number = kept.clear(None if older_than is None else older_than * _DAY)
            left = kept.stats().size
        typer.echo(f"removed {count(number, 'row')} from {safe(str(place))}, now {size(left)}")


def place_of(text: str | None) -> Path:
    """Where the ledger is that `--ledger` names; UsageError where it names none."""
    from ruler_cli.files.database import located

    place = located(text)
    if place is None:
        raise UsageError("--ledger none: names no ledger; give its path, or leave the option out")
    return place


def _there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError as error:
        raise UsageError(f"{place}: cannot be read: {error.strerror}") from None


def _cost(tally: Tally) -> float | None:
    """USD at list price; None where it is not known."""
    from ruler_cli.judges.prices import known

    price = known(tally.model).price
    return None if price is None else price.of(tally.usage)


def _as_json(place: Path, found: Stats) -> dict[str, Any]:
    models = [
        {
            "model": tally.model,
            "rows": dict(tally.rows),
            "prompt_tokens": tally.usage.prompt,
            "completion_tokens": tally.usage.completion,
            "cached_tokens": tally.usage.cached,
            "cost_usd": _cost(tally),
        }
        for tally in found.models
    ]
    times = {"first": iso(found.first), "last": iso(found.last)}
    return {"ledger": str(place), "bytes": found.size, **times, "rows": found.rows, "models": models}


def _table(place: Path, found: Stats) -> list[str]:
    head = [f"ledger:  {safe(str(place))}"]
    if not found.models:
        return [*head, "it is empty"]
    head.append(f"size:    {size(found.size)}, {count(sum(found.rows.values()), 'row')}")
    head.append(f"from:    {iso(found.first)} to {iso(found.last)}")
    rows = [
        ["model", "answers", "refusals", "truncated", "unreadable", "failed", "prompt", "completion", "cost"]
    ]
    for tally in found.models:
        cost = _cost(tally)
        counts = [tally.rows.get(status, 0) for status in ("answer", "refusal", "truncated", "odd", "fault")]
        tokens = [tally.usage.prompt, tally.usage.completion]
        rows.append(
            [one_line(tally.model), *map(str, counts + tokens), "unknown" if cost is None else f"${cost:.2f}"]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in rows)
    ]
    return [*head, "", *lines, "", "prompt and completion are tokens; cost is at list price"]
