"""Programs of users, as type checkers read them: those of the documents, and right and wrong ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ruler_cli import (
    JudgeSettings,
    ScoreSettings,
    score_groups,
)
from tests.conftest import ROOT, group

PROGRAMS = ROOT / "tests" / "typed.py"
PYRIGHT = os.environ.get("PYRIGHT") or shutil.which("pyright") or ""
CONFIG = {
    "typeCheckingMode": "standard",
    "enableTypeIgnoreComments": False,
    "pythonVersion": "3.11",
}


def programs(folder: Path) -> list[str]:
    """Write the programs of the pages on Python, and return their paths."""
    pages = "".join(
        [
            (ROOT / "docs" / name).read_text()
            for name in ("python.md", "extend.md")
        ]
    )
    found = re.findall(
        r"^```python\n(.*?)^```", pages, re.MULTILINE | re.DOTALL
    )
    paths = [folder / f"program_{number}.py" for number in range(len(found))]
    for path, text in zip(paths, found, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def test_page_with_mypy(tmp_path: Path) -> None:
    """mypy finds nothing in the programs of the pages, in its strict mode; `make types` reads the others."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        *programs(tmp_path),
    ]  # its API raises Python's recursion limit
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    not PYRIGHT,
    reason="pyright is not installed: pip install 'pyright[nodejs]'",
)
def test_pyright(tmp_path: Path) -> None:
    """pyright finds nothing in the programs of the pages, and each mistake that mypy is told to ignore."""
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(CONFIG))
    copied = shutil.copy(PROGRAMS, tmp_path)
    done = subprocess.run(
        [
            PYRIGHT,
            "--outputjson",
            "--pythonpath",
            sys.executable,
            copied,
            *programs(tmp_path),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {
        (Path(one["file"]).name, one["range"]["start"]["line"]) for one in found
    }
    ignored = [
        i
        for i, line in enumerate(PROGRAMS.read_text().splitlines())
        if "# type: ignore" in line
    ]
    assert lines == {(PROGRAMS.name, line) for line in ignored}, found


@pytest.mark.anyio
async def test_fields() -> None:
    """The fields of a result are those of its types, whether the group has scores or not."""
    settings = ScoreSettings(judge=JudgeSettings("offline"), ledger=None)
    async for judged in score_groups(
        [group("a", 0.1, 0.9), {"trajectories": [{"messages": []}]}], settings
    ):
        assert judged.failed is (judged.index == 1)
        assert len(judged.fields) == 28
        assert {len(one) for one in judged.trajectories} == {20}
