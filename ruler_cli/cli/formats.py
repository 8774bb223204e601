"""`ruler formats`: print the shapes that ruler reads, and those of ruler.toml."""

from __future__ import annotations

import typer

from ruler_cli.cli.command import running
from ruler_cli.cli.options import takes
from ruler_cli.cli.safe_text import one_line
from ruler_cli.cli.units import columns
from ruler_cli.formats.table import FORMATS
from ruler_cli.settings.extensions import extensions
from ruler_cli.types import shorten

_WIDTH = 60
"""Characters of the keys of a record that are printed."""


@takes()
def command(ctx: typer.Context) -> int:
    """List the formats that ruler reads, and those of ruler.toml.

    A format of your own is a table [formats.NAME] of ruler.toml with the paths of its parts. A path is dotted
    (a.b); a number picks an item of a list, and [] stands for each item (runs[].answer).

    Example: ruler formats

    Exit codes: 0 printed; 2 bad usage, or a mistake in ruler.toml.
    """
    with running(ctx) as options:
        rows = [["format", "record", "its keys"]]
        for name, row in options.rows.items():
            keys = f"`{'`, `'.join((*row.messages, *row.answers))}`"
            rows.append([name, "as in ruler.toml", shorten(keys, _WIDTH)])
        for name, point in extensions("ruler.formats").items():
            rows.append([name, f"of the package {point.dist.name}", ""])
        for form in FORMATS:
            keys = shorten(form.shown, _WIDTH)
            rows.append([form.family, form.record, keys])
        for line in columns(rows):
            typer.echo(one_line(line))
    return 0
