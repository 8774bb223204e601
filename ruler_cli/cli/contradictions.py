"""Refuse options that contradict one another or the files that they name, before anything is read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from ruler_cli.config import ScoreSettings
from ruler_cli.errors import RefusedError, UsageError
from ruler_cli.reading.location import Location

_PATIENCE = 10.0
"""Seconds in which a Ray cluster must answer at its address."""


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if options of one run contradict one another."""
    from ruler_cli.judging.adaptive import FIRST

    ask, combine = settings.ask, settings.combine
    averaged = settings.panel and not settings.fallback
    if combine.standardize and not averaged:
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if combine.debias and ask.order == "input":
        raise UsageError(
            "--debias: in input order a position says what the rollout is; leave out --order input"
        )
    if ask.passes < 2 and settings.adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if ask.passes < 2 and settings.escalate and not averaged:
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")
    few = f"--min-passes {combine.min_passes}"
    if combine.min_passes > ask.passes:
        raise UsageError(f"{few}: is more than --passes {ask.passes}, so no group could be scored")
    if combine.min_passes > FIRST and settings.adaptive:
        raise UsageError(f"{few}: with --adaptive most groups get {FIRST} passes; give {FIRST} or less")
    if combine.min_passes > FIRST and settings.escalate:
        raise UsageError(
            f"{few}: the judge of --escalate gives {FIRST} passes, so its scores would never count; give "
            f"{FIRST} or less"
        )
    needing_all = (
        ("--adaptive", settings.adaptive, f"give --passes {FIRST} here, and --adaptive", ""),
        ("--escalate", settings.escalate, "leave it out here, and give it", ""),
        ("--debias", combine.debias, "leave it out here, and give it", ": it costs no call"),
        ("--standardize", combine.standardize, "leave it out here, and give it", ": it costs no call"),
    )
    for option, given, instead, cost in needing_all:
        if given and settings.input.shard is not None:
            raise UsageError(
                f"{option}: needs the replies to all groups, and a shard has some; {instead} to the last "
                f"run, over the whole file with the --ledger of every shard{cost}"
            )


def refuse_swapped(source: str, output: str) -> None:
    """Raise UsageError if INPUT does not exist and OUTPUT does, unless INPUT resembles another name."""
    if not Location(source).local or not Path(output).is_file() or Location(source).many:
        return
    from ruler_cli.suggestions import suggest_file

    if not Path(source).exists() and suggest_file(source) in (None, output):
        raise UsageError(
            f"{source}: no such file, but OUTPUT {output} is one; INPUT comes first: are they swapped?"
        )


def refuse_summary(path: Path, settings: ScoreSettings) -> None:
    """Raise UsageError if the file of `--summary` cannot be written, before the run and not after it."""
    output = settings.output
    others = (settings.input.source, output, output.rstrip("/") + ".failed.jsonl", settings.failed)
    if Location.of(path).remote:
        raise UsageError("--summary: is an address; give a file of this machine")
    files = [other for other in others if other and not Location(str(other)).remote]
    if str(path) != "-" and any(path.resolve() == Path(other).resolve() for other in files):
        raise UsageError(f"--summary {path}: is another file of this run; give it a name of its own")
    if str(path) == "-" and output == "-":
        raise UsageError("--summary -: stdout holds the records already; give it a file")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--summary {path}: is a directory, or its directory does not exist")


def refuse_engine(settings: ScoreSettings, engine: str, address: str | None) -> None:
    """Refuse a run that Ray cannot do, and options of Ray without `--engine ray`.

    UsageError, or RefusedError if no Ray answers at the address.
    """
    if engine != "ray":
        for word in sys.argv[1:]:
            if word.startswith("--ray-"):
                option = word.partition("=")[0]
                raise UsageError(f"{option}: is for workers of Ray; give --engine ray too, or leave it out")
        return
    if settings.input.shard is not None:
        raise UsageError(
            "--shard: workers of Ray share the whole input already; leave it out, or --engine ray"
        )
    source = settings.input.source
    if source == "-" or source.startswith(("/dev/", "/proc/")) or Path(source).is_fifo():
        raise UsageError(
            "--engine ray: stdin cannot be read by other processes; give the input as a file, or leave out "
            "--engine"
        )
    if find_spec("ray") is None:
        raise UsageError("--engine ray: ray is not installed; pip install 'ruler-cli[ray]'")
    option = "--ray-address" if address else "RAY_ADDRESS"
    address = address or os.environ.get("RAY_ADDRESS") or ""
    if address.startswith("ray://"):
        raise UsageError(
            f"{option}: ray:// leads to Ray Client; give host:port of the cluster and run there, or hand the "
            "command to it: ray job submit"
        )
    _refuse_unreachable(option, address)


def _refuse_unreachable(option: str, address: str) -> None:
    """Raise RefusedError if no Ray answers at an address.

    Ray itself tries for minutes, in C++ code that cannot be stopped: so another process asks, with a timeout.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:  # `auto` and the like are Ray's
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        health_check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
        subprocess.run(health_check, capture_output=True, check=True, timeout=2 * _PATIENCE)  # noqa: S603 - Ray's own
    except (OSError, subprocess.SubprocessError):
        raise RefusedError(
            f"{option} {address}: no Ray answers there; `ray status` on a machine of the cluster tells the "
            "address, or leave it out to start one here"
        ) from None
