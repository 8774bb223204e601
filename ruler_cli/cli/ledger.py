"""`ruler ledger path|stats|clear|import`: the replies that are kept, so that none is paid for twice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli.messages import one_line, print_stderr, report_errors, safe, safe_value
from ruler_cli.cli.options import AsJson, LedgerPath, finite
from ruler_cli.cli.units import count, iso, size
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ruler_cli.batch.import_replies import ImportResult, RejectedRow
    from ruler_cli.ledger.reply_cache import LedgerStats, ModelRows, RowStatus

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_DAY = 86400.0
_STATUSES: dict[RowStatus, str] = {"answer": "answers", "refusal": "refusals", "truncated": "truncated"}
_STATUSES |= {"odd": "unreadable", "fault": "failed"}
_KINDS = {"too_long": "too long for the judge", "before": "known already", "transport": "not answered"}


@app.callback()
def _root() -> None:
    """The judge's replies that are kept, so that no request is paid for twice.

    Example: ruler ledger stats
    """


@app.command("path")
def path(ledger: LedgerPath = None) -> None:
    """Print where the ledger is, whether it is there yet or not.

    Example: du -h "$(ruler ledger path)"

    Exit codes: 0 printed; 2 bad usage.
    """
    with report_errors():
        typer.echo(os.fsencode(required_ledger_path(ledger)))  # byte for byte: a script reads it


@app.command("stats")
def stats(
    ledger: LedgerPath = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object, times as ISO 8601, an unknown cost as null.")
    ] = False,
) -> None:
    """Say what the ledger holds: replies, tokens, list price by model.

    Example: ruler ledger stats

    Exit codes: 0 said; 1 the ledger cannot be read; 2 bad usage, or no ledger of this program.
    """
    with report_errors():
        from ruler_cli.ledger.reply_cache import Ledger

        place = required_ledger_path(ledger)
        with Ledger(place, make=False) as kept:
            found = kept.stats()
        typer.echo(json.dumps(_as_json(place, found)) if as_json else "\n".join(_table(place, found)))


@app.command("clear")
def clear(
    ledger: LedgerPath = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            min=0.0,
            callback=finite,
            help="Only what came before so many days.  [default: all]",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, which happens on a terminal.")
    ] = False,
) -> None:
    """Remove replies; a request whose reply is gone is paid for again.

    Example: ruler ledger clear --older-than 90

    Exit codes: 0 removed; 1 not confirmed, or the ledger cannot be written; 2 bad usage.
    """
    with report_errors():
        from ruler_cli.ledger.reply_cache import Ledger, is_there

        place = required_ledger_path(ledger)
        which = "every reply" if older_than is None else f"every reply older than {older_than:g} days"
        if not is_there(place):
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


@app.command("import")
def import_(
    replies: Annotated[
        list[str],
        typer.Argument(
            metavar="REPLIES...",
            help="Files of replies, JSON lines, plain, .gz or .zst, or Parquet; a directory, a pattern; "
            "`-` is stdin.",
        ),
    ],
    ledger: LedgerPath = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--judge-model",
            "-m",
            metavar="NAME",
            help="What the ledger calls the judge; its price is looked up by that name.  "
            "[default: the model that each reply names]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take replies that a batch API or another engine wrote.

    They come in any order, as often as you like. Understood are the result files of OpenAI's and Anthropic's
    batch APIs, `vllm run-batch`, and rows of your own: a chat completion, or its text as `text`,
    `generated_text` or `output`, beside the `custom_id` of its request. An answer that is there stays.

    Example: ruler ledger import replies.jsonl

    Exit codes: 0 all of it is in the ledger; 1 some failed, are to be asked again or could not be read;
    2 bad usage, or no such file.
    """
    with report_errors():
        from ruler_cli.batch.import_replies import Importer, reply_files
        from ruler_cli.ledger.reply_cache import Ledger

        place, names = required_ledger_path(ledger), reply_files(replies)
        with Ledger(place) as kept, Importer(kept, model) as importer:
            for name in names:
                importer.import_file(name)
        found = importer.result
        _tell(found)
        if as_json:
            typer.echo(json.dumps(safe_value(_imported_json(place, found))))
        else:
            typer.echo("\n".join(_imported_table(place, found, len(names))))
        if not found.complete:
            raise typer.Exit(1)


def required_ledger_path(text: str | None) -> Path:
    """Return the path that `--ledger` names; UsageError for `none`."""
    from ruler_cli.ledger.database import ledger_path

    place = ledger_path(text)
    if place is None:
        raise UsageError("--ledger none: names no ledger; give its path, or leave the option out")
    return place


def _cost(tally: ModelRows) -> float | None:
    """USD at list price; None where it is not known."""
    from ruler_cli.judges.pricing import known

    price = known(tally.model).price
    return None if price is None else price.of(tally.usage)


def _as_json(place: Path, found: LedgerStats) -> dict[str, Any]:
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


def _table(place: Path, found: LedgerStats) -> Iterator[str]:
    yield f"ledger:  {safe(str(place))}"
    if not found.models:
        yield "it is empty"
        return
    yield f"size:    {size(found.size)}, {count(sum(found.rows.values()), 'row')}"
    yield f"from:    {iso(found.first)} to {iso(found.last)}"
    rows = [("model", *_STATUSES.values(), "prompt", "completion", "cost")]
    for tally in found.models:
        cost, used = _cost(tally), tally.usage
        counts = [*(tally.rows.get(status, 0) for status in _STATUSES), used.prompt, used.completion]
        rows.append((one_line(tally.model), *map(str, counts), "unknown" if cost is None else f"${cost:.2f}"))
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    yield ""
    for name, *cells in rows:
        yield "  ".join([name.ljust(first), *map(str.rjust, cells, others)])
    yield ""
    yield "prompt and completion are tokens; cost is at list price"


def _tell(found: ImportResult) -> None:
    """Name on stderr what could not be taken; rows in a row that are alike are one sentence."""
    if not found.rows and not found.rejected:
        print_stderr("ruler: there are no replies in what was read")
    for _, alike in groupby(enumerate(found.rejected), _alike):
        rows = [row for _, row in alike]
        more_of_them = f" (the next {count(len(rows) - 1, 'row')} alike)" if len(rows) > 1 else ""
        print_stderr(f"ruler: {rows[0].where} {rows[0].reason}{more_of_them}")
    if (more := found.unreadable + found.foreign - len(found.rejected)) > 0:
        print_stderr(f"ruler: … and {count(more, 'more row')} like that")
    for counts, what in ((found.failed, "failed for good"), (found.again, "to be asked again")):
        for label, number in counts.items():
            if sentence := found.messages.get(label):
                print_stderr(
                    f"ruler: {count(number, 'request')} {what} ({_KINDS.get(label, label)}): {sentence}"
                )


def _alike(at: tuple[int, RejectedRow]) -> tuple[str, int, str]:
    """The same for rows of one file that follow one another and have one reason."""
    place, row = at
    return row.where.removesuffix(str(row.number)), row.number - place, row.reason


def _imported_json(place: Path, found: ImportResult) -> dict[str, Any]:
    return {
        "ledger": str(place),
        "rows": found.rows,
        "new": found.new,
        "known": found.known,
        "failed_for_good": sum(found.failed.values()),
        "failed": dict(found.failed),
        "again": sum(found.again.values()),
        "again_by_reason": dict(found.again),
        "foreign": found.foreign,
        "unreadable": found.unreadable,
        "odd": [{"where": row.where, "line": row.number, "reason": row.reason} for row in found.rejected],
    }


def _imported_table(place: Path, found: ImportResult, files: int) -> Iterator[str]:
    rows = {
        "ledger:": safe(str(place)),
        "read:": f"{count(found.rows, 'row')} of {count(files, 'file')}",
        "new:": count(found.new, "answer"),
        "known:": f"{count(found.known, 'row')}, whose requests had an answer",
        "failed:": _listed(found.failed, "for good"),
        "again:": _listed(found.again, "to be asked again"),
        "foreign:": found.foreign and f"{count(found.foreign, 'row')} of other requests, left out",
        "unreadable:": found.unreadable and f"{count(found.unreadable, 'row')}, left out",
    }
    report_errors = {name: text for name, text in rows.items() if text}
    width = max(map(len, report_errors)) + 1
    return (f"{name:{width}}{text}" for name, text in report_errors.items())


def _listed(counts: Mapping[str, int], what: str) -> str:
    kinds = ", ".join(f"{safe(_KINDS.get(label, label))} {number}" for label, number in counts.items())
    return kinds and f"{count(sum(counts.values()), 'request')} {what}: {kinds}"
