"""Options of `ruler score` that say on which machines groups are judged."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from ruler_cli.config import ScoreSettings
from ruler_cli.errors import RefusedError, UsageError

WORKERS = 2
"""Workers of Ray where no number is given."""
_PATIENCE = 10.0
"""Seconds in which somebody must answer at a cluster's address."""

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


def refuse(settings: ScoreSettings, engine: str, address: str | None, words: Sequence[str]) -> None:
    """UsageError for what Ray cannot do, and for options of Ray without Ray or its package."""
    if engine != "ray":
        for word in words:
            if word.startswith("--ray-"):
                option = word.partition("=")[0]
                raise UsageError(f"{option}: is for workers of Ray; give --engine ray too, or leave it out")
        return
    if settings.input.shard is not None:
        way = "leave it out, or --engine ray"
        raise UsageError(f"--shard: workers of Ray share the whole input already; {way}")
    source = settings.input.source
    if source == "-" or source.startswith(("/dev/", "/proc/")) or Path(source).is_fifo():
        way = "give the input as a file, or leave out --engine"
        raise UsageError(f"--engine ray: stdin cannot be read by other processes; {way}")
    if find_spec("ray") is None:
        raise UsageError("--engine ray: ray is not installed; pip install 'ruler-cli[ray]'")
    option = "--ray-address" if address else "RAY_ADDRESS"
    address = address or os.environ.get("RAY_ADDRESS") or ""
    if address.startswith("ray://"):
        way = "give host:port of the cluster and run there, or hand the command to it: ray job submit"
        raise UsageError(f"{option}: ray:// leads to Ray Client; {way}")
    _refuse_unreachable(option, address)


def _refuse_unreachable(option: str, address: str) -> None:
    """RefusedError if no Ray answers there.

    Ray itself tries an address for minutes, in C++ that cannot be stopped: a process asks that can be ended.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:  # `auto`, and forms of Ray's
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        ask = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        subprocess.run(ask, capture_output=True, check=True, timeout=2 * _PATIENCE)  # noqa: S603 - Ray's own
    except (OSError, subprocess.SubprocessError):
        way = "`ray status` on a machine of the cluster tells the address, or leave it out to start one here"
        raise RefusedError(f"{option} {address}: no Ray answers there; {way}") from None
