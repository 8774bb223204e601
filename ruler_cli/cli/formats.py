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
        forms = [form for form in FORMATS if name in ("", form.family)]
        mine: dict[str, RecordPaths] = {}
        for key, row in options.rows.items():
            if name in ("", key):
                mine[key] = row
        others = {}
        for key, point in extensions("ruler.formats").items():
            if name in ("", key):
                others[key] = f"of the package {point.dist.name}"
        if not (forms or mine or others):
            families = [form.family for form in FORMATS]
            match = nearest(name, (*options.rows, *families))
            advice = question(match) or "; `ruler formats` lists all"
            problem = f"no such format: {name}{advice}"
            raise UsageError(problem)
        if not name:
            rows = [["format", "a record is", "its keys"]]
            for key, row in mine.items():
                paths = "`, `".join((*row.messages, *row.answers))
                keys = shorten(f"`{paths}`", _WIDTH)
                rows.append([key, "as in ruler.toml", keys])
            for key, package in others.items():
                rows.append([key, package, ""])
            for form in forms:
                keys = shorten(form.shown, _WIDTH)
                rows.append([form.family, form.record, keys])
            lines = [*columns(rows)]
        else:
            lines = []
            for number, form in enumerate(forms, 1):
                key = f"{name}-{number}" if number > 1 else name
                lines += row_lines(key, form)
            for key, row in mine.items():
                lines += row_lines(key, row)
            for key, package in others.items():
                lines.append(f"# {key}: a reader {package}")
        for line in lines:
            typer.echo(one_line(line))
    return 0


def row_lines(name: str, row: RecordPaths) -> Iterator[str]:
    """Yield the lines of a table `[formats.NAME]`: what a row says beyond the defaults."""
    if isinstance(row, Format) and row.read:
        yield f"# {row.name}: ruler's own code reads it"
        return
    key = (
        name
        if name.replace("-", "").replace("_", "").isalnum()
        else json.dumps(name)
    )
    yield f"[formats.{key}]"
    for field in fields(RecordPaths):
        value: Any = getattr(row, field.name)
        if value not in (field.default, ()):
            single = isinstance(value, tuple) and len(value) == 1
            yield f"{field.name} = {json.dumps(value[0] if single else value)}"
    yield ""
