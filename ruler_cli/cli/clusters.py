"""Options of `ruler score` that say on which machines groups are judged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from ruler_cli.errors import RefusedError, UsageError

_PATIENCE = 10.0
"""Seconds in which a cluster's address must answer."""

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


def refuse_what_leads_nowhere(engine: str, address: str | None, words: Sequence[str]) -> None:
    """UsageError for options of Ray without Ray or its package, RefusedError where nobody is there.

    Ray itself tries an address where nobody listens for ten minutes and more, and cannot be stopped there.
    """
    if engine != "ray":
        lone = next((word.partition("=")[0] for word in words if word.startswith("--ray-")), None)
        if lone is not None:
            raise UsageError(f"{lone}: is for workers of Ray; give --engine ray too, or leave it out")
        return
    from ruler_cli.cluster.reach import refuse_missing

    refuse_missing()
    option = "--ray-address" if address else "RAY_ADDRESS"
    address = address or os.environ.get("RAY_ADDRESS") or ""
    host, _, port = address.rpartition(":")
    known = not host or not port.isdecimal() or not 0 < int(port) < 65536  # `auto`, and forms of Ray's
    if known or host.startswith("ray://"):  # of Ray Client: refused whether somebody is there or not
        return
    import socket

    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except OSError as error:
        raise RefusedError(
            f"{option} {address}: nobody answers there ({error.strerror or error}); `ray status` on a "
            "machine of the cluster tells the address, or leave it out to start one here"
        ) from None
