"""`report` shows what made the scores, from OUTPUT and a ledger, and in what two files differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ruler_cli import __version__
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer

STRICT = "Be strict.\nTools must be used well."
GROUPS = [group(f"g{i}", 0.1, 0.9) for i in range(4)]
HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202e<img src=x onerror=alert(1)>"
Score = Callable[..., None]


@pytest.fixture
def score(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> Score:
    """Scores groups into NAME.jsonl with the judge server; replies and texts are kept in l.sqlite."""

    def run(
        name: str,
        *options: str,
        judge: str = "openai/good",
        groups: Any = GROUPS,
    ) -> None:
        write(tmp_path / "in.jsonl", groups)
        way = (
            "-m",
            judge,
            *f"--api-base {server.base} --ledger l.sqlite".split(),
        )
        done = ruler("score", "in.jsonl", f"{name}.jsonl", *way, *options)
        assert done.returncode == 0, done.stderr

    return run


def test_one_file(ruler: Ruler, score: Score, tmp_path: Path) -> None:
    """The report has the served model, the rubric with its text and the parameters; `--json` the version, too."""
    score("a", "--rubric", STRICT, "-p", "temperature=0.2")
    page = ruler("report", "a.jsonl", "--ledger", "l.sqlite").stdout
    (digest,) = {one["ruler"]["rubric"] for one in read(tmp_path / "a.jsonl")}
    assert "rubric      Be strict. Tools must be used well.\n" in page
    assert "parameters  openai/good: temperature=0.2\n" in page
    assert "served as   good\n" in page
    figures = json.loads(
        ruler("report", "a.jsonl", "--json", RULER_LEDGER="l.sqlite").stdout
    )["figures"]
    made = figures["made_by"]
    assert made["rubrics"] == [{"digest": digest, "groups": 4, "text": STRICT}]
    assert json.loads(made["params"][0]["text"])[0]["params"] == {
        "temperature": 0.2
    }
    assert (made["served"], made["versions"]) == ({"good": 4}, {__version__: 4})


def test_without_a_ledger(ruler: Ruler, score: Score, tmp_path: Path) -> None:
    """Without a ledger, or with one that cannot be read, a rubric is shown by its digest; the built-in one is known."""
    score("a", "--rubric", STRICT, "-p", "seed=7")
    score("b")
    (tmp_path / "torn.sqlite").write_bytes(b"SQLite format 3\x00torn")
    for ledger in ("none", "no.sqlite", "torn.sqlite"):
        page = ruler("report", "a.jsonl", "--ledger", ledger)
        assert (page.returncode, "Be strict" in page.stdout) == (0, False), (
            ledger
        )
        assert page.stdout.count(" (text not found)\n") == 1
        assert not (tmp_path / "no.sqlite").exists()
    built_in = ruler("report", "b.jsonl", "--ledger", "none").stdout
    assert "rubric     built-in\n" in built_in


def test_own_rubrics(ruler: Ruler, score: Score) -> None:
    """Groups with a rubric of their own are counted, without digest or text."""
    own = [{**one, "rubric": f"By rule {one}."} for one in GROUPS[:2]]
    score("a", groups=[*own, *GROUPS[2:]])
    page = ruler("report", "a.jsonl", "--ledger", "l.sqlite").stdout
    assert "rubric     built-in; 2 groups have their own\n" in page
    score("b", "--rubric", STRICT, groups=[own[0], *GROUPS[1:]])
    page = ruler("report", "b.jsonl", "--ledger", "none").stdout
    assert re.search("rubric +[0-9a-f]{16} .*; 1 group has its own\n", page)


def test_two_files_alike(ruler: Ruler, score: Score) -> None:
    """Two files that were made alike open without a sentence on differences."""
    score("a")
    score("b")
    assert "differ in" not in ruler("compare", "a.jsonl", "b.jsonl").stdout


def test_two_files_that_differ(
    ruler: Ruler, score: Score, tmp_path: Path
) -> None:
    """Two files open with the ways in which they were made differently, with both texts."""
    score("a", "--rubric", STRICT, "-p", "temperature=0.2")
    score("b", "--passes", "2")
    run = ("compare", "a.jsonl", "b.jsonl", "--ledger", "l.sqlite")
    page = ruler(*run, COLUMNS="200").stdout
    assert (
        page.splitlines()[1] == "A and B differ in rubric, parameters, passes"
    )
    (line,) = (line for line in page.splitlines() if line.startswith("rubric "))
    assert "Be strict. Tools must be used well." in line
    assert line.endswith(" built-in")
    (line,) = (
        line for line in page.splitlines() if line.startswith("parameters ")
    )
    assert line.count("temperature=0.2") == 1
    result = json.loads(ruler(*run, "--json").stdout)
    unlike = [name for name, differs in result["differs"].items() if differs]
    assert unlike == ["rubric", "parameters", "passes"]
    texts = [
        file["figures"]["made_by"]["rubrics"][0]["text"]
        for file in result["files"]
    ]
    assert texts[0] == STRICT != texts[1]


def test_another_judge(ruler: Ruler, score: Score, server: JudgeServer) -> None:
    """Parameters of two judges are not compared."""
    score("a", "-p", "seed=7")
    other = [{**GROUPS[0], "rubric": "Only colour counts."}, *GROUPS[1:]]
    score("b", "-p", "seed=7", judge="openai/slow", groups=other)
    page = ruler("compare", "a.jsonl", "b.jsonl", "--ledger", "l.sqlite").stdout
    assert "\nA and B differ in judge, served model, rubric\n" in page


def test_hostile_records(ruler: Ruler, score: Score, tmp_path: Path) -> None:
    """A record of hostile text reaches no terminal raw and no page as HTML, and crashes nothing."""
    score("a", "--rubric", f"Strict {HOSTILE}")
    score("b")
    page = ruler("report", "a.jsonl", "--ledger", "l.sqlite", "-o", "a.html")
    assert page.returncode == 0, page.stderr
    assert "<img src=x" not in (tmp_path / "a.html").read_text()
    screen = ruler("report", "a.jsonl", "--ledger", "l.sqlite").stdout
    assert ("<img src=x" in screen, "\x1b" in screen, "\u202e" in screen) == (
        True,
        False,
        False,
    )
    records = read(tmp_path / "b.jsonl")
    odd = [
        HOSTILE,
        {"x": [1]},
        [HOSTILE, 7, None, ""],
        "0" * 16,
        "G" * 16,
        None,
        "a" * 1_000_000,
    ]
    values = iter(odd * 2)
    for record in records:
        record["ruler"] |= {
            name: next(values) for name in ("rubric", "params", "version")
        }
        record["ruler"]["served"] = [HOSTILE, 7, None, ""]
    write(tmp_path / "b.jsonl", records)
    for words in (
        ("report", "b.jsonl"),
        ("compare", "a.jsonl", "b.jsonl"),
    ):
        for more in ((), ("--json",), ("-o", "b.html")):
            done = ruler(*words, *more)
            assert (done.returncode, "Traceback" in done.stderr) == (0, False)
            assert not {"\x1b", "\u202e"} & {*done.stdout}
            assert len(done.stdout) < 100_000
    assert "<img src=x" not in (tmp_path / "b.html").read_text()
