"""`ruler formats [NAME]`: print the shapes that ruler reads, and those of ruler.toml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import takes
from ruler_cli.cli.safe_text import one_line
from ruler_cli.cli.units import columns
from ruler_cli.errors import UsageError
from ruler_cli.formats.format import Format
from ruler_cli.formats.table import FORMATS
from ruler_cli.settings.extensions import extensions
from ruler_cli.settings.models import RecordPaths
from ruler_cli.settings.suggestions import nearest, question
from ruler_cli.types import shorten

_WIDTH = 60
"""Characters of the keys of a record that are printed."""


@takes()
def command(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="A format, whose rows are printed as ruler.toml has them.",
        ),
    ] = "",
) -> int:
    """List the formats that ruler reads, and those of ruler.toml.

    A format of your own is a table [formats.NAME] of ruler.toml with the paths of its parts. A path is dotted
    (a.b); a number picks an item of a list, and [] stands for each item (runs[].answer).

    \b
    Example:
      ruler formats
      ruler formats verl

    Exit codes: 0 printed; 2 no such format, or a mistake in ruler.toml.
    """
    with running(ctx) as options:
        rows = []
        shown = list[str]()
        for key, row in options.rows.items():
            keys = f"`{'`, `'.join((*row.messages, *row.answers))}`"
            rows.append([key, "as in ruler.toml", shorten(keys, _WIDTH)])
            if key == name:
                shown += row_lines(key, row)
        for key, point in extensions("ruler.formats").items():
            package = f"of the package {point.dist.name}"
            rows.append([key, package, ""])
            if key == name:
                shown.append(f"# {key}: a reader {package}")
        number = 0
        for form in FORMATS:
            rows.append([form.family, form.record, shorten(form.shown, _WIDTH)])
            if form.family == name:
                number += 1
                key = name if number == 1 else f"{name}-{number}"
                shown += row_lines(key, form)
        if name and not shown:
            match = nearest(name, [row[0] for row in rows])
            advice = question(match) or "; `ruler formats` lists all"
            raise UsageError(f"no such format: {name}{advice}")
        if not name:
            shown = [*columns([["format", "a record is", "its keys"], *rows])]
        for line in shown:
            typer.echo(one_line(line))
    return 0


def row_lines(name: str, row: RecordPaths) -> Iterator[str]:
    """Yield the lines of a table `[formats.NAME]`: what a row says beyond the defaults."""
    if isinstance(row, Format) and row.read:
        yield f"# {row.name}: ruler's own code reads it"
        return
    bare = name.replace("-", "").replace("_", "").isalnum()
    yield f"[formats.{name if bare else json.dumps(name)}]"
    for field in fields(RecordPaths):
        value: Any = getattr(row, field.name)
        if value not in (field.default, ()):
            single = isinstance(value, tuple) and len(value) == 1
            yield f"{field.name} = {json.dumps(value[0] if single else value)}"
    yield ""
