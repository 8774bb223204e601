"""`make demo` on a fresh machine against `pip install .`: seconds and megabytes.

    python -m benchmarks.install [--quick]

Each starts from a copy of the checkout without an environment, with an empty cache of pip. Both end with an
environment in which `ruler` runs; `make demo` also scores the samples. They take turns, and the cheaper run
of each counts. The limits are on CPU seconds and on the size, which other programs and the network leave
alone; the ratio by the wall clock is shown beside them.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.commands import PYTHON, ROOT
from benchmarks.results import Result, alone

_DEMO = f"make demo PYTHON={shlex.quote(PYTHON)}"
_PIP = f"{shlex.quote(PYTHON)} -m venv .venv && .venv/bin/python -m pip install -qq ."
_UNTRACKED = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "__pycache__", ".hypothesis"
)
_MB = 10**6


class _Cost(NamedTuple):
    """Seconds of CPU and by the wall clock, and bytes of the environment."""

    cpu: float
    wall: float
    size: int


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Measure the time and the size of both."""
    demo, pip = _cost(folder, _DEMO), _cost(folder, _PIP)
    for _ in range(0 if quick else 1):
        demo, pip = (
            min(demo, _cost(folder, _DEMO)),
            min(pip, _cost(folder, _PIP)),
        )
    what = "make demo / pip install ."
    yield Result(
        10,
        f"{what}, CPU",
        demo.cpu / pip.cpu,
        f"{demo.cpu:.1f} / {pip.cpu:.1f} s",
        "<=",
        1.3,
    )
    detail = f"{demo.size / _MB:.0f} / {pip.size / _MB:.0f} MB in .venv"
    yield Result(10, f"{what}, size", demo.size / pip.size, detail, "<=", 1.3)
    yield Result(
        10,
        f"{what}, wall",
        demo.wall / pip.wall,
        f"{demo.wall:.1f} / {pip.wall:.1f} s",
    )


def _cost(folder: Path, command: str) -> _Cost:
    """Return the cost of a command in a fresh copy of the checkout."""
    checkout, cache = folder / "checkout", folder / "pip-cache"
    shutil.copytree(ROOT, checkout, ignore=_UNTRACKED)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "PYTHON"))
    }
    environment = inherited | {"PIP_CACHE_DIR": str(cache)}
    try:
        began, spent = time.perf_counter(), _cpu_of_children()
        subprocess.run(
            ["sh", "-ec", command],
            cwd=checkout,
            env=environment,
            check=True,
            stdout=sys.stderr,
        )
        cpu, wall = _cpu_of_children() - spent, time.perf_counter() - began
        files = (path.lstat() for path in (checkout / ".venv").rglob("*"))
        return _Cost(cpu, wall, sum(file.st_blocks * 512 for file in files))
    finally:
        shutil.rmtree(checkout)
        shutil.rmtree(cache, ignore_errors=True)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(alone(measure))
