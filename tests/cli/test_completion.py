"""Completion in bash, zsh and fish: commands, options, values, files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

HEAVY = ("aiohttp", "anyio", "litellm", "rich", "sqlite3", "tqdm")
_LONGEST = 60
"""Seconds after which a shell without an answer fails the test."""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A directory with two files, and beside it a home and the command `ruler`."""
    for name in ("work", "work/folder", "bin", "home"):
        (tmp_path / name).mkdir()
    for name in ("rollouts.jsonl", "strict.txt"):
        (tmp_path / "work" / name).touch()
    command = tmp_path / "bin" / "ruler"
    command.write_text(
        f"#!{sys.executable}\nfrom ruler_cli.cli import main\n\nmain()\n"
    )
    command.chmod(0o755)
    return tmp_path


def environment(workdir: Path) -> dict[str, str]:
    """An environment in which `ruler` is this checkout, without settings of any shell."""
    return {
        "PATH": f"{workdir / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(workdir / "home"),
        "XDG_CONFIG_HOME": str(workdir / "home"),
        "XDG_DATA_HOME": str(workdir / "home"),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }


def test_light_imports(workdir: Path) -> None:
    """Completion imports no slow package, since the shell waits for it."""
    code = (
        "import atexit, sys\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('heavy:', [name for name in heavy if sys.modules.get(name)]))\n"
        "sys.argv = ['ruler']\n"
        "from ruler_cli.cli import main\n"
        "main()\n"
    )
    request = {
        "_RULER_COMPLETE": "complete_zsh",
        "_TYPER_COMPLETE_ARGS": "ruler score a b --grouping ",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(workdir) | request,
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=True,
    )
    assert "scattered" in done.stdout, done.stderr
    assert done.stdout.endswith("heavy: []\n")
