"""Try ruler in the frameworks that its documents have recipes for.

    python -m tests.frameworks [NAME …]     all, or those of these names in frameworks.toml

Each framework has an environment under build/frameworks, which is made once; remove the folder to have the
newest versions.  A framework that cannot be installed is skipped, with the reason.  Exit code 1 if a test
fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / "build" / "frameworks"
TABLE = Path(__file__).with_name("frameworks.toml")
NEEDED = ("hypothesis", "pytest>=9.0")
"""Needs of the tests themselves, beside those of ruler."""
_TORCH = re.compile(r"torch\b")
_CPU = re.compile(r"\b[0-9.]+\+cpu\b")
_COUNTS = re.compile(r"\d+ (?:passed|failed|skipped|errors?)")


def main(names: Sequence[str]) -> int:
    """Try frameworks, print a line for each, and return the exit code."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    if unknown := [name for name in names if name not in table]:
        print(
            f"frameworks: {unknown[0]} is none of {', '.join(table)}",
            file=sys.stderr,
        )
        return 2
    results = {name: attempt(name, table[name]) for name in names or table}
    print()
    for name, (result, _) in results.items():
        print(f"{name:17} {result}")
    return 1 if any(failed for _, failed in results.values()) else 0


def attempt(name: str, row: dict[str, Any]) -> tuple[str, bool]:
    """Install a framework and run its tests; return the result in words, and if a test failed."""
    source = os.environ.get(row["source"], "") if "source" in row else ""
    if "source" in row and not source:
        return (
            f"skipped: no package index has it; {row['source']}=DIR names a checkout",
            False,
        )
    began = time.monotonic()
    python, error = environment(name, row["packages"])
    if error:
        return f"skipped: {error}", False
    path = os.pathsep.join(filter(None, (str(ROOT), source)))
    command = [
        python,
        "-m",
        "pytest",
        *row["tests"],
        "-m",
        "",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
    ]
    # The warnings of a framework are its own; with `error` of pyproject.toml each would be a failure.
    command += ["-o", "filterwarnings=ignore"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    counts = (
        ", ".join(_COUNTS.findall(done.stdout.rstrip().rpartition("\n")[2]))
        or "no test ran"
    )
    seconds = time.monotonic() - began
    return (
        f"{version(python, row['shows']) or source}: {counts} in {seconds:.0f} s",
        done.returncode != 0,
    )


def environment(name: str, packages: Sequence[str]) -> tuple[str, str]:
    """Return the interpreter of an environment with these packages, or why there is none."""
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "packages"
    wanted = "\n".join([f"{sys.version_info[:2]}", *packages])
    if stamp.is_file() and stamp.read_text() == wanted:
        return str(python), ""
    print(f"Installing {name} into {folder.relative_to(ROOT)} ...", flush=True)
    venv.create(folder, clear=True, with_pip=True)
    named = [
        cpu_build(python) or each if _TORCH.match(each) else each
        for each in packages
    ]
    done = pip(python, "install", "-q", "-e", str(ROOT), *NEEDED, *named)
    if done.returncode:
        reasons = [
            line
            for line in done.stderr.splitlines()
            if line.startswith("ERROR: ")
        ]
        return "", (reasons or ["ERROR: pip failed"])[-1].removeprefix(
            "ERROR: "
        )
    stamp.write_text(wanted)
    return str(python), ""


def cpu_build(python: Path) -> str:
    """Return the newest torch without CUDA that the index has, as pip names it; empty if there is none."""
    found = _CPU.search(pip(python, "index", "versions", "torch").stdout)
    return f"torch=={found[0]}" if found else ""


def pip(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pip of an environment."""
    command = [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def version(python: str, distribution: str) -> str:
    """Return name and version of what is installed; empty if it is not."""
    program = f"from importlib.metadata import version; print({distribution!r}, version({distribution!r}))"
    done = subprocess.run(
        [python, "-c", program], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
