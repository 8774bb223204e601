"""What the commands share that read a scored file."""

from __future__ import annotations

from typing import Annotated

import typer

Scored = Annotated[
    str, typer.Argument(metavar="SCORED", help="What `ruler score` wrote, in any format; `-` is stdin.")
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        envvar="RULER_LABELS",
        help="Dotted path of the labels.  [default: the first original reward, else the outcome]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", envvar="RULER_JSON", help="Print one JSON object instead.")]
