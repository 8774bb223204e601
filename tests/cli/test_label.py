"""`ruler label`: the page on which people compare rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.scored import hostile, scored
from tests.conftest import Ruler, write
from tests.on_terminal import RAW


def groups(number: int = 8) -> list[dict[str, Any]]:
    """Groups of three rollouts."""
    return [scored(f"g{i}", 0.1, 0.4, 0.9) for i in range(number)]


def test_page(ruler: Ruler, tmp_path: Path) -> None:
    """The command says how many pairs of how many are in the page, how they were drawn, and what comes next."""
    write(tmp_path / "s.jsonl", groups())
    done = ruler("label", "s.jsonl", "--pairs", "9", "-o", "label.html")
    assert (done.returncode, done.stdout) == (0, "")
    written, ways, after = done.stderr.splitlines()
    assert written.startswith("ruler: 9 of 24 pairs to compare, 0.")
    assert written.endswith(" MB written to label.html")
    assert ways == "ruler: 9 drawn at random"
    assert after.endswith("`ruler agree SCORED --people labels.jsonl`")
    assert (tmp_path / "label.html").read_text().startswith("<!doctype html>")


def test_all(ruler: Ruler, tmp_path: Path) -> None:
    """If more pairs are asked for than there are, all are in the page."""
    write(tmp_path / "s.jsonl", groups(2))
    done = ruler("label", "s.jsonl", "--pairs", "50", "-o", "label.html")
    assert done.returncode == 0
    assert "6 of 6 pairs to compare" in done.stderr


def test_streams(ruler: Ruler, tmp_path: Path) -> None:
    """The scored file may come from stdin, and the page go to stdout."""
    path = write(tmp_path / "s.jsonl", groups())
    done = ruler(
        "label", "-", "--pairs", "9", "-o", "-", stdin=path.read_text()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!doctype html>")
    assert "written to stdout" in done.stderr


def test_other_mistakes(ruler: Ruler, tmp_path: Path) -> None:
    """No name of a page, no pair at all, and a number that no page has are refused with the way out."""
    done = ruler("label", "nowhere.jsonl")
    assert done.returncode == 2
    assert done.stderr == "ruler: the page has no name; use -o label.html\n"
    for number in ("0", "10001"):
        done = ruler("label", "s.jsonl", "-o", "l.html", "--pairs", number)
        assert done.returncode == 2
        assert done.stderr.startswith(f"ruler: --pairs: {number!r} is not 1")
    write(tmp_path / "s.jsonl", [scored("a", 0.5), scored("b", None, None)])
    done = ruler("label", "s.jsonl", "--pairs", "5", "-o", "l.html")
    assert done.returncode == 2
    assert (
        "no group has two rollouts that differ and have a score" in done.stderr
    )
    assert not (tmp_path / "l.html").exists()


def test_hostile(ruler: Ruler, tmp_path: Path) -> None:
    """Any text may stand in any place of the scored file: a page is made, and nothing raw reaches the terminal."""
    write(tmp_path / "s.jsonl", hostile())
    done = ruler("label", "s.jsonl", "--pairs", "500", "-o", "l.html")
    assert done.returncode == 0, done.stderr
    assert RAW.findall(done.stderr) == []
