"""`make demo` on a fresh machine against `pip install .`: seconds and megabytes.

    python -m benchmarks.install [--quick]

Each starts from a copy of the checkout without an environment, with an empty cache of pip. Both end with an
environment in which `ruler` runs; `make demo` also scores the samples. They take turns, and the quickest of
each counts: most of the time is a download, and what else the network does only adds to it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.commands import PYTHON, ROOT
from benchmarks.results import Result, alone

_DEMO = f"make demo PYTHON={shlex.quote(PYTHON)}"
_PIP = f"{shlex.quote(PYTHON)} -m venv .venv && .venv/bin/python -m pip install -qq ."
_UNTRACKED = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".hypothesis")
_MB = 10**6


def measure(folder: Path, quick: bool) -> Iterator[Result]:
    """Measure the time and the size of both."""
    demo, pip = _cost(folder, _DEMO), _cost(folder, _PIP)
    for _ in range(0 if quick else 1):
        demo, pip = min(demo, _cost(folder, _DEMO)), min(pip, _cost(folder, _PIP))
    detail = f"{demo[0]:.1f} / {pip[0]:.1f} s wall"
    yield Result(10, "make demo / pip install ., time", demo[0] / pip[0], detail, "<=", 1.3)
    detail = f"{demo[1] / _MB:.0f} / {pip[1] / _MB:.0f} MB in .venv"
    yield Result(10, "make demo / pip install ., size", demo[1] / pip[1], detail, "<=", 1.3)


def _cost(folder: Path, command: str) -> tuple[float, int]:
    """Return the seconds of a command in a fresh copy of the checkout, and the bytes of its environment."""
    checkout, cache = folder / "checkout", folder / "pip-cache"
    shutil.copytree(ROOT, checkout, ignore=_UNTRACKED)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PYTHON"))}
    environment = inherited | {"PIP_CACHE_DIR": str(cache)}
    try:
        began = time.perf_counter()
        subprocess.run(["sh", "-ec", command], cwd=checkout, env=environment, check=True, stdout=sys.stderr)
        seconds = time.perf_counter() - began
        files = (path.lstat() for path in (checkout / ".venv").rglob("*"))
        return seconds, sum(file.st_blocks * 512 for file in files)
    finally:
        shutil.rmtree(checkout)
        shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(alone(measure))
