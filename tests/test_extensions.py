"""Packages of others: their formats and judges, by entry points."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.command import Done, run_here

_PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
_GAMES = (
    {
        "game": 1,
        "goal": "Reach the door.",
        "moves": ["go north", "open door"],
        "return": 0.25,
    },
    {"game": 1, "goal": "Reach the door.", "moves": ["wait"], "return": 0.75},
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package of docs/extend.md and unpack it, as an installer does."""
    source = tmp_path_factory.mktemp("ruler-maze")
    page = _PAGE.read_text("utf-8")
    files = re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", page, re.DOTALL)
    for name, text in files:
        (source / name).write_text(text)
    assert [name for name, _ in files] == ["pyproject.toml", "ruler_maze.py"]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = (source / "dist").iterdir()
    ZipFile(wheel).extractall(source / "site")
    return source / "site"


def run(
    site: Path,
    folder: Path,
    *args: str,
) -> Done:
    """Run ruler where the package is installed."""
    games = "".join(json.dumps(game) + "\n" for game in _GAMES)
    (folder / "games.jsonl").write_text(games)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        return run_here([*args], "", folder, {"RULER_LEDGER": "none"})


@pytest.mark.parametrize("chosen", [(), ("--format", "maze")])
def test_package(site: Path, tmp_path: Path, chosen: tuple[str, ...]) -> None:
    """A format and a judge of a package read, score and annotate as ruler's own do."""
    args = ("games.jsonl", "scored.jsonl", "-m", "maze-judge", *chosen)
    done = run(site, tmp_path, "score", *args)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "scored.jsonl").read_text().splitlines()
    scored = [json.loads(line) for line in lines]
    assert [line["return"] for line in scored] == [1.0, 0.0]
    assert [line["good"] for line in scored] == [True, False]
    originals = [line["ruler"]["independent_reward"] for line in scored]
    assert originals == [0.25, 0.75]
    assert scored[0]["moves"] == _GAMES[0]["moves"]
    assert scored[0]["ruler"]["group"]["judge"] == "maze-judge"


def test_listed(site: Path, tmp_path: Path) -> None:
    """`ruler formats` lists the formats of packages, and names the package."""
    listed = run(site, tmp_path, "formats").stdout
    assert "maze" in listed
    assert "of the package ruler-maze" in listed


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import not_there", "cannot be imported (ModuleNotFoundError"),
        ("ask = 1", "`ruler_broken:ask` is not an asynchronous function"),
    ],
)
def test_broken(
    site: Path,
    tmp_path: Path,
    code: str,
    problem: str,
) -> None:
    """A package that cannot be used ends the run before the first call, with its name."""
    broken = tmp_path / "site"
    broken.mkdir()
    (broken / "ruler_broken.py").write_text(code)
    info = broken / "ruler_broken-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: ruler-broken\nVersion: 1\n")
    points = "[ruler.judges]\nbroken = ruler_broken:ask\n"
    (info / "entry_points.txt").write_text(points)
    args = ("score", "games.jsonl", "scored.jsonl", "-m", "broken")
    done = run(broken, tmp_path, *args)
    sys.modules.pop("ruler_broken", None)
    assert done.returncode == 2
    assert problem in done.stderr
