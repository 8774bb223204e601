"""`ruler score` against the judge server: its command line, and what it wrote."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson

from benchmarks.child import PYTHON, Child, End

FOREVER = 3600.0
"""Seconds that a judge server of a benchmark lives at most."""


def command(source: Path, output: Path, base: str, **options: object) -> list[str]:
    """The command line; an option's underscores are dashes, `c` and `m` are the short ones.

    True is a flag without a value, a tuple the same option several times.
    """
    line = [PYTHON, "-m", "ruler_cli", "score", str(source), str(output)]
    given: dict[str, object] = {
        "-m": "openai/good",
        "--api-base": base,
        "--progress": "none",
        "--ledger": "none",
    }
    for name, value in options.items():
        given["-" * (1 + (len(name) > 1)) + name.replace("_", "-")] = value
    for flag, value in given.items():
        for each in value if isinstance(value, tuple) else (value,):
            line += [flag] if each is True else [flag, str(each)]
    return line


def ended(line: list[str], *codes: int) -> End:
    """Run a command to its end; SystemExit with its last words unless it ends with such a code."""
    child = Child(line)
    end = child.end()
    if end.code not in (codes or (0,)):
        raise SystemExit(f"{child.command} ended with {end.code}:\n{end.said}")
    return end


def statuses(output: Path) -> dict[str, int]:
    """How many rollouts of an output have each status."""
    counts: dict[str, int] = {}
    with output.open("rb") as file:
        for line in file:
            for rollout in orjson.loads(line)["trajectories"]:
                status = rollout["ruler"]["status"]
                counts[status] = counts.get(status, 0) + 1
    return counts


def digest(output: Path) -> str:
    """A hash of an output without what is time: when two are equal, so are the outputs."""
    total = hashlib.sha256()
    with output.open("rb") as file:
        for line in file:
            total.update(orjson.dumps(_timeless(orjson.loads(line))) + b"\n")
    return total.hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in ("judged_at", "latency_s", "cached")}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
