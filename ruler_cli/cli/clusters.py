"""Options of `ruler score` that say on which machines groups are judged."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Engine = Annotated[
    Literal["here", "ray"],
    typer.Option(
        envvar="RULER_ENGINE", help="Judge in this process, or in workers of Ray; OUTPUT is the same."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="RULER_RAY_ADDRESS",
        help="A running Ray cluster of which this machine is a part.  [default: one is started here]",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, envvar="RULER_RAY_WORKERS", help="Workers of Ray.  [default: 2]"),
]
