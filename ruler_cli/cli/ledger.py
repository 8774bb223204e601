"""`ruler ledger path|stats|clear|import`: the judge's replies, stored so that none is paid for twice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli.command import run_command
from ruler_cli.cli.help import SectionedCommand
from ruler_cli.cli.messages import one_line, print_note, safe, safe_value
from ruler_cli.cli.options import AsJson, Config, JudgeModel, OlderThan, OneLedger, Yes
from ruler_cli.cli.units import columns, count, iso, size
from ruler_cli.errors import UsageError
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from ruler_cli.ledger.reply_cache import LedgerStats, ModelRows, RowStatus
    from ruler_cli.runs.batch.import_replies import ImportResult, RejectedRow

_HELP = """Stored replies of judges, so that no request is paid for twice.

Example: ruler ledger stats
"""
app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=_HELP)
_DAY = 86400.0
_STATUSES: dict[RowStatus, str] = {
    "answer": "answers",
    "refusal": "refusals",
    "truncated": "truncated",
}
_STATUSES |= {"odd": "unreadable", "fault": "failed"}
_KINDS = {
    "too_long": "too long for the judge",
    "before": "known already",
    "transport": "not answered",
}


@app.command("path", cls=SectionedCommand)
def path(
    ctx: typer.Context,
    ledger: OneLedger = None,
    config: Config = None,
) -> int:
    """Print the path of the ledger, even if it does not exist yet.

    Example: du -h "$(ruler ledger path)"

    Exit codes: 0 printed; 2 bad usage.
    """
    return run_command(ctx, _path)


def _path(options: Options) -> int:
    typer.echo(
        os.fsencode(required_ledger_path(options))
    )  # byte for byte: a script reads it
    return 0


@app.command("stats", cls=SectionedCommand)
def stats(
    ctx: typer.Context,
    ledger: OneLedger = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Show the number, tokens and price of the replies by model.

    Example: ruler ledger stats

    Exit codes: 0 shown; 1 the ledger cannot be read; 2 bad usage, or no ledger of this program.
    """
    return run_command(ctx, _stats)


def _stats(options: Options) -> int:
    from ruler_cli.ledger.reply_cache import Ledger

    file = required_ledger_path(options)
    with Ledger(file, make=False) as opened:
        totals = opened.stats()
    stats_json = options.as_json
    typer.echo(
        json.dumps(_as_json(file, totals))
        if stats_json
        else "\n".join(_table(file, totals))
    )
    return 0


@app.command("clear", cls=SectionedCommand)
def clear(
    ctx: typer.Context,
    ledger: OneLedger = None,
    older_than: OlderThan = None,
    yes: Yes = False,
    config: Config = None,
) -> int:
    """Remove replies; a request whose reply is gone is paid for again.

    It asks first. If stdin is no terminal, it removes nothing without --yes.

    Example: ruler ledger clear --older-than 90

    Exit codes: 0 removed; 1 not confirmed, or the ledger cannot be written; 2 bad usage, or no --yes where
    stdin is no terminal.
    """
    return run_command(ctx, _clear)


def _clear(options: Options) -> int:
    from ruler_cli.ledger.reply_cache import Ledger, is_there

    file, days = required_ledger_path(options), options.older_than
    which = "every reply" if days is None else f"every reply older than {days:g} days"
    older = None if days is None else days * _DAY
    if not is_there(file):
        typer.echo(f"removed nothing: there is no {safe(str(file))}")
        return 0
    with Ledger(file) as opened:
        if not options.yes:
            number, used = opened.measure(older)
            rows = f"{count(number, 'row')}, {size(used)}"
            if sys.stdin is None or not sys.stdin.isatty():
                raise UsageError(
                    f"ledger clear: would remove {which} from {file} ({rows}), and stdin is no terminal "
                    "to ask on; give --yes to remove them"
                )
            if not typer.confirm(
                f"Remove {which} from {safe(str(file))} ({rows})?", err=True
            ):
                typer.echo("removed nothing")
                return 1
        number = opened.clear(older)
        remaining = opened.stats().size
    typer.echo(
        f"removed {count(number, 'row')} from {safe(str(file))}, now {size(remaining)}"
    )
    return 0


@app.command("import", cls=SectionedCommand)
def import_(
    ctx: typer.Context,
    replies: Annotated[
        list[str],
        typer.Argument(
            metavar="REPLIES...",
            help="Files of replies, JSON lines, plain, .gz or .zst, or Parquet; a directory, a pattern; "
            "`-` is stdin.",
        ),
    ],
    ledger: OneLedger = None,
    model: JudgeModel = None,
    as_json: AsJson = False,
    config: Config = None,
) -> int:
    """Take replies that a batch API or another engine wrote.

    They come in any order, as often as you like. Understood are the result files of OpenAI's and Anthropic's
    batch APIs, `vllm run-batch`, and rows of your own: a chat completion, or its text as `text`,
    `generated_text` or `output`, beside the `custom_id` of its request. An answer that is there stays.

    Example: ruler ledger import replies.jsonl

    Exit codes: 0 all of it is in the ledger; 1 some failed, are to be asked again or could not be read;
    2 bad usage, or no such file.
    """
    return run_command(ctx, _import, replies)


def _import(options: Options, replies: list[str]) -> int:
    from ruler_cli.ledger.reply_cache import Ledger
    from ruler_cli.runs.batch.import_replies import Importer, reply_files

    file, names = required_ledger_path(options), reply_files(replies)
    with Ledger(file) as opened, Importer(opened, _model(options)) as importer:
        for name in names:
            importer.import_file(name)
    imported = importer.result
    _name_problems(imported)
    if options.as_json:
        typer.echo(json.dumps(safe_value(_imported_json(file, imported))))
    else:
        typer.echo("\n".join(_imported_table(file, imported, len(names))))
    return 0 if imported.complete else 1


def _model(options: Options) -> str | None:
    """Return the model of the judge that answered, also of one with a name in the file."""
    name = next(iter(options.model), None)
    table = options.file.judges.get(name) if options.file and name else None
    return name if table is None else str(table["model"])


def required_ledger_path(options: Options) -> Path:
    """Return the path of the ledger that `--ledger` names; UsageError if it names none."""
    file: Path | None = ledger_path(options.ledger_name)
    if file is None:
        remedy = "give its path, or leave the option out"
        raise UsageError(
            "replies and batches stand in a ledger",
            remedy,
            option="ledger",
            value="none",
        )
    return file


def _cost(model: ModelRows) -> float | None:
    """Return USD at list price; None if it is not known."""
    from ruler_cli.judges.pricing import model_info

    price = model_info(model.model).price
    return None if price is None else price.of(model.usage)


def _as_json(file: Path, totals: LedgerStats) -> dict[str, Any]:
    models = [
        {
            "model": model.model,
            "rows": dict(model.rows),
            "prompt_tokens": model.usage.prompt,
            "completion_tokens": model.usage.completion,
            "cached_tokens": model.usage.cached,
            "cost_usd": _cost(model),
        }
        for model in totals.models
    ]
    times = {"first": iso(totals.first), "last": iso(totals.last)}
    return {
        "ledger": str(file),
        "bytes": totals.size,
        **times,
        "rows": totals.rows,
        "models": models,
    }


def _table(file: Path, totals: LedgerStats) -> Iterator[str]:
    yield f"ledger:  {safe(str(file))}"
    if not totals.models:
        yield "it is empty"
        return
    yield f"size:    {size(totals.size)}, {count(sum(totals.rows.values()), 'row')}"
    yield f"from:    {iso(totals.first)} to {iso(totals.last)}"
    rows = [("model", *_STATUSES.values(), "prompt", "completion", "cost")]
    for model in totals.models:
        cost, used = _cost(model), model.usage
        numbers = [
            *(model.rows.get(status, 0) for status in _STATUSES),
            used.prompt,
            used.completion,
        ]
        rows.append(
            (
                one_line(model.model),
                *map(str, numbers),
                "unknown" if cost is None else f"${cost:.2f}",
            )
        )
    yield from ("", *columns(rows, str.rjust))
    yield ""
    yield "prompt and completion are tokens; cost is at list price"


def _name_problems(imported: ImportResult) -> None:
    """Name rows without a reply on stderr; adjacent rows with one reason become one sentence."""
    if not imported.rows and not imported.rejected:
        print_note("there are no replies in the input")
    for _, alike in groupby(enumerate(imported.rejected), _alike):
        rows = [row for _, row in alike]
        more_of_them = (
            f" (the next {count(len(rows) - 1, 'row')} alike)" if len(rows) > 1 else ""
        )
        print_note(f"{rows[0].where} {rows[0].reason}{more_of_them}")
    if (more := imported.unreadable + imported.foreign - len(imported.rejected)) > 0:
        print_note(f"… and {count(more, 'more row')} like that")
    for counts, what in (
        (imported.failed, "failed for good"),
        (imported.again, "to be asked again"),
    ):
        for label, number in counts.items():
            if sentence := imported.messages.get(label):
                requests, kind = count(number, "request"), _KINDS.get(label, label)
                print_note(f"{requests} {what} ({kind}): {sentence}")


def _alike(item: tuple[int, RejectedRow]) -> tuple[str, int, str]:
    """Return a key that adjacent rows of one file with one reason have in common."""
    index, row = item
    return row.where.removesuffix(str(row.number)), row.number - index, row.reason


def _imported_json(file: Path, imported: ImportResult) -> dict[str, Any]:
    return {
        "ledger": str(file),
        "rows": imported.rows,
        "new": imported.new,
        "known": imported.known,
        "failed_for_good": sum(imported.failed.values()),
        "failed": dict(imported.failed),
        "again": sum(imported.again.values()),
        "again_by_reason": dict(imported.again),
        "foreign": imported.foreign,
        "unreadable": imported.unreadable,
        "odd": [
            {"where": row.where, "line": row.number, "reason": row.reason}
            for row in imported.rejected
        ],
    }


def _imported_table(file: Path, imported: ImportResult, files: int) -> Iterator[str]:
    rows = {
        "ledger:": safe(str(file)),
        "read:": f"{count(imported.rows, 'row')} of {count(files, 'file')}",
        "new:": count(imported.new, "answer"),
        "known:": f"{count(imported.known, 'row')}, whose requests had an answer",
        "failed:": _listed(imported.failed, "for good"),
        "again:": _listed(imported.again, "to be asked again"),
        "foreign:": imported.foreign
        and f"{count(imported.foreign, 'row')} of other requests, left out",
        "unreadable:": imported.unreadable
        and f"{count(imported.unreadable, 'row')}, left out",
    }
    table = {name: text for name, text in rows.items() if text}
    width = max(map(len, table)) + 1
    return (f"{name:{width}}{text}" for name, text in table.items())


def _listed(counts: Mapping[str, int], what: str) -> str:
    kinds = ", ".join(
        f"{safe(_KINDS.get(label, label))} {number}" for label, number in counts.items()
    )
    return kinds and f"{count(sum(counts.values()), 'request')} {what}: {kinds}"
