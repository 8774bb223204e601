"""`ruler ledger import`: replies that came otherwise than by a run, into the ledger."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ruler_cli.cli import sharing
from ruler_cli.cli.ledger import place_of
from ruler_cli.cli.messages import safe, safe_value, say, told
from ruler_cli.cli.options import AsJson
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ruler_cli.importing import Imported, Importer, Unread

_DATABASE = b"SQLite format 3\0"
_KINDS = {"too_long": "too long for the judge", "before": "known already", "transport": "not answered"}


def command(
    replies: Annotated[
        list[str],
        typer.Argument(
            metavar="REPLIES...",
            help="Files of replies, JSON lines, plain, .gz or .zst, or Parquet; a directory, a pattern; "
            "`-` is stdin.",
        ),
    ],
    ledger: sharing.Ledger = None,
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
    with told():
        from ruler_cli.importing import Importer
        from ruler_cli.ledger import Ledger

        place, names = place_of(ledger), _names(replies)
        with Ledger(place) as kept, Importer(kept, model) as importer:
            for name in names:
                _take(name, importer)
        found = importer.result
        _tell(found)
        if as_json:
            import json

            typer.echo(json.dumps(safe_value(_as_json(place, found))))
        else:
            for line in _table(place, found, len(names)):
                typer.echo(line)
        if not found.whole:
            raise typer.Exit(1)


def _names(replies: Sequence[str]) -> list[str]:
    """Every file that is meant, in order; UsageError where one is not there, before any is read."""
    from ruler_cli.files.compression import readable
    from ruler_cli.files.location import Location

    if replies.count("-") > 1:
        raise UsageError("`-` is given twice; stdin can be read once")
    names: list[str] = []
    for given in replies:
        place = Location(given)
        if place.many:
            listing = place.listed()
            names += [listing.at(name).name for name in listing.names]
            continue
        if place.local:
            with place.open() as stream, readable(given):
                if stream.peek(16).startswith(_DATABASE):
                    raise UsageError(
                        f"{given}: is a database, no file of replies; a ledger is read beside another with "
                        f"`ruler score … --ledger PATH --ledger {shlex.quote(given)}`"
                    )
        names.append(given)
    return names


def _take(name: str, importer: Importer) -> None:
    from ruler_cli.files.compression import PARQUET_MAGIC, capped, decompressed, lines, readable
    from ruler_cli.files.location import Location
    from ruler_cli.files.open import open_container
    from ruler_cli.judges.rows import BIGGEST

    number, shown = 0, Location(name).shown
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(Location(name).open())
            with readable(shown):
                parquet = name != "-" and stream.peek(4).startswith(PARQUET_MAGIC)
            rows = (
                open_container(name, stack).records()
                if parquet
                else lines(shown, capped(decompressed(shown, stream), BIGGEST))
            )
            for line in rows:
                number = line.number
                if importer.add(line.raw, number, f"{shown} {line.where}"):
                    importer.flush()
    except UsageError as error:  # what was read of a file that is damaged stays, and the other files
        why = str(error).removeprefix(f"{shown}: ").partition(";")[0]
        end = f"cannot be read behind line {number}" if number else "cannot be read"
        way = "pipe what can be unpacked into `ruler ledger import -`"
        importer.refuse(number, f"{end}: {why}; {way}", shown)


def _tell(found: Imported) -> None:
    """Name on stderr what could not be taken; rows in a row that are alike are one sentence."""
    if not found.rows and not found.odd:
        say("ruler: there are no replies in what was read")
    for _, alike in groupby(enumerate(found.odd), _alike):
        rows = [row for _, row in alike]
        more_of_them = f" (the next {count(len(rows) - 1, 'row')} alike)" if len(rows) > 1 else ""
        say(f"ruler: {rows[0].where} {rows[0].reason}{more_of_them}")
    if (more := found.unreadable + found.foreign - len(found.odd)) > 0:
        say(f"ruler: … and {count(more, 'more row')} like that")
    for counts, what in ((found.failed, "failed for good"), (found.again, "to be asked again")):
        for label, number in counts.items():
            if sentence := found.said.get(label):
                say(f"ruler: {count(number, 'request')} {what} ({_KINDS.get(label, label)}): {sentence}")


def _alike(at: tuple[int, Unread]) -> tuple[str, int, str]:
    """The same for rows of one file that follow one another and have one reason."""
    place, row = at
    return row.where.removesuffix(str(row.number)), row.number - place, row.reason


def _as_json(place: Path, found: Imported) -> dict[str, Any]:
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
        "odd": [{"where": row.where, "line": row.number, "reason": row.reason} for row in found.odd],
    }


def _table(place: Path, found: Imported, files: int) -> list[str]:
    rows = [
        ("ledger", 1, safe(str(place))),
        ("read", 1, f"{count(found.rows, 'row')} of {count(files, 'file')}"),
        ("new", 1, count(found.new, "answer")),
        ("known", 1, f"{count(found.known, 'row')}, whose requests had an answer"),
        ("failed", len(found.failed), _listed(found.failed, "for good")),
        ("again", len(found.again), _listed(found.again, "to be asked again")),
        ("foreign", found.foreign, f"{count(found.foreign, 'row')} of other requests, left out"),
        ("unreadable", found.unreadable, f"{count(found.unreadable, 'row')}, left out"),
    ]
    width = max(len(name) for name, number, _ in rows if number) + 2
    return [f"{name + ':':{width}}{text}" for name, number, text in rows if number]


def _listed(counts: Mapping[str, int], what: str) -> str:
    kinds = ", ".join(f"{safe(_KINDS.get(label, label))} {number}" for label, number in counts.items())
    return f"{count(sum(counts.values()), 'request')} {what}: {kinds}"
