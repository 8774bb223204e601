"""`ruler report` as scripts and people see it: the page of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scored import hostile, scored
from tests.conftest import ROOT, Ruler, write
from tests.formats.test_every_format import EXAMPLES, each_layout
from tests.on_terminal import RAW, on_terminal, widest
from tests.screen import same_screen
from tests.values import FULL, few

SAMPLES = sorted((ROOT / "samples").glob("*.scored.jsonl"))


def run_of(groups: int = 30) -> list[dict[str, Any]]:
    """Groups of two with labels, one in six ordered against them, the first failed, the second tied."""
    own: dict[str, Any] = {
        "judge": "m",
        "passes": 2,
        "reliability": 0.8,
        "cost_usd": 0.5,
        "latency_s": 2.0,
    }
    own |= {
        "judged_at": "2026-11-21T02:14:05Z",
        "usage": {"calls": 2, "prompt_tokens": 1500},
    }
    out = [
        scored("lost", None, None, **own),
        scored("same", 0.5, 0.5, labels=(0, 1), tied=True, **own),
    ]
    out += [
        scored(f"g{g}", 0.3, 0.7, labels=(0, 1) if g % 6 else (1, 0), **own)
        for g in range(groups)
    ]
    return out


def test_page(ruler: Ruler, tmp_path: Path) -> None:
    """The page has file, judge, time, counts, failures, cost, agreement and groups."""
    write(tmp_path / "s.jsonl", run_of())
    done = ruler("report", "s.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert widest(done.stdout) <= 80
    same_screen("report", done.stdout)


def test_missing_figures(ruler: Ruler, tmp_path: Path) -> None:
    """Without labels, cost, times and reliability the page has no line and no plot of them."""
    write(tmp_path / "s.jsonl", [scored(f"g{i}", 0.2, 0.4) for i in range(10)])
    done = ruler("report", "s.jsonl")
    assert done.returncode == 0
    names = (
        "cost",
        "a group",
        "reward",
        "agreement",
        "position",
        "length",
        "reliability",
        "against rewards",
        "$",
    )
    for word in names:
        assert word not in done.stdout, word


def test_few_groups(ruler: Ruler, tmp_path: Path) -> None:
    """Under ten groups every group is listed."""
    groups = [scored("same", 0.5, 0.5), scored("lost", None, None)]
    write(
        tmp_path / "s.jsonl",
        groups + [scored(f"g{i}", 0.2, 0.4) for i in range(7)],
    )
    same_screen("report_few", ruler("report", "s.jsonl").stdout)


def test_json(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` prints the same as one object with stable keys."""
    write(tmp_path / "s.jsonl", run_of())
    report = json.loads(ruler("report", "s.jsonl", "--json").stdout)
    assert list(report) == [
        "version", "source", "found", "figures", "worst", "problems", "first_problems", "groups",
    ]  # fmt: skip
    assert [one["ordinal"] for one in report["groups"]] == [*range(1, 33)]
    for listed in report["worst"]:
        group = {"ordinal": listed["ordinal"], **listed["group"]}
        assert report["groups"][listed["ordinal"] - 1] == group
    assert report["figures"]["groups"] == {
        "all": 32, "scored": 31, "failed": 1, "unmarked": 0, "tied": 1, "live": 30, "alone": 0,
            "one_score": 0, "explained": 31,
            "same_explanations": 1,
    }  # fmt: skip
    assert [t["group"]["key"] for t in report["worst"]] == [
        "lost",
        "g0",
        "g6",
        "g12",
        "g18",
        "g24",
        "same",
    ]


def test_scores_beside_reasons(ruler: Ruler, tmp_path: Path) -> None:
    """Below any reason to look at a group its key, scores and rewards are in sight, on a narrow terminal too."""
    group = scored("kettle-17", 0.5, 0.4, labels=(0, 1))
    group["ruler"] |= {"tied": True, "reliability": 0.1}
    write(tmp_path / "s.jsonl", [group])
    for columns in (40, 60, 80):
        page = ruler("report", "s.jsonl", COLUMNS=str(columns)).stdout
        assert widest(page) <= columns
        listed = page[page.index("groups, the worst first") :].split()
        assert {"kettle-17", ".50", ".40", "0", "1", "rewards;"} <= {*listed}


def test_explanations_of_a_panel(ruler: Ruler, tmp_path: Path) -> None:
    """A group shows what each judge of a panel says of a rollout, with its score."""
    group = scored("both", 0.4, 0.6)
    own = group["trajectories"][0]["ruler"]
    own |= {"explanation": "late", "judges": [
        {"judge": "one", "score": 0.3, "explanation": "late"},
        {"judge": "two", "score": 0.5, "explanation": "wrong\x1b[31m seat"},
        {"judge": "three", "score": 0.5},
    ]}  # fmt: skip
    write(tmp_path / "s.jsonl", [group])
    page = ruler("report", "s.jsonl", "--group", "both").stdout
    for line in ("one    0.30: late", "two    0.50: wrong\\x1b[31m seat"):
        assert f"{line}\n" in page
    assert "judge  late" not in page
    own["explanation"] = "late, and 0 by a veto"
    write(tmp_path / "s.jsonl", [group])
    page = ruler("report", "s.jsonl", "--group", "both").stdout
    assert "judge  late, and 0 by a veto\n" in page


@pytest.mark.parametrize("columns", few(1, [10, 37, 120]))
def test_hostile_content(columns: int, ruler: Ruler, tmp_path: Path) -> None:
    """With any key, reason or judge, no line is wider than the page, and nothing raw is shown."""
    groups = hostile()
    write(tmp_path / "s.jsonl", groups)
    done = ruler("report", "s.jsonl", COLUMNS=str(columns))
    assert (done.returncode, done.stderr) == (0, "")
    assert RAW.findall(done.stdout) == []
    assert widest(done.stdout) <= columns


def test_hostile_json(ruler: Ruler, tmp_path: Path) -> None:
    """The JSON sends no escape code to a terminal either, and holds the exact keys."""
    keys = ["\x1b[31m\u202e\x85", "[/red]", "\u2028日本語"]
    write(
        tmp_path / "s.jsonl",
        [scored(key, 0.9, 0.1, labels=(0, 1)) for key in keys],
    )
    done = ruler("report", "s.jsonl", "--json")
    assert RAW.findall(done.stdout) == []
    assert [t["group"]["key"] for t in json.loads(done.stdout)["worst"]] == keys
    assert [one["key"] for one in json.loads(done.stdout)["groups"]] == keys
    write(tmp_path / "h.jsonl", hostile())
    done = ruler("report", "h.jsonl", "--json")
    assert RAW.findall(done.stdout) == []
    assert json.loads(done.stdout)["figures"]["groups"]["all"] == len(hostile())


def test_markup(ruler: Ruler, tmp_path: Path) -> None:
    """Text that looks like markup or an emoji's name is shown unchanged."""
    write(
        tmp_path / "s.jsonl",
        [
            scored(k, 0.9, 0.1, labels=(0, 1))
            for k in ("[bold]", "[/red]", ":smile:")
        ],
    )
    done = ruler("report", "s.jsonl").stdout
    assert all(f"  {key} " in done for key in ("[bold]", "[/red]", ":smile:"))


def test_terminal(tmp_path: Path) -> None:
    """A terminal gets colours and its own width; with NO_COLOR it gets no escape code."""
    write(tmp_path / "s.jsonl", run_of())
    code, output = on_terminal(tmp_path, "report", "s.jsonl", columns=100)
    assert (code, "\x1b[33" in output) == (0, True)
    code, output = on_terminal(
        tmp_path, "report", "s.jsonl", columns=100, NO_COLOR="1"
    )
    assert (code, "\x1b" in output) == (0, False)
    assert 80 < widest(output) <= 100
    code, output = on_terminal(tmp_path, "report", "s.jsonl", TERM="dumb")
    assert (code, "\x1b" in output) == (0, False)


def test_colour(ruler: Ruler, tmp_path: Path) -> None:
    """A pipe gets no escape code unless FORCE_COLOR is set; NO_COLOR takes precedence over it."""
    write(tmp_path / "s.jsonl", run_of())
    assert "\x1b" not in ruler("report", "s.jsonl").stdout
    assert (
        "\x1b[33"
        in ruler("report", "s.jsonl", FORCE_COLOR="1", TERM="xterm").stdout
    )
    assert (
        "\x1b"
        not in ruler(
            "report", "s.jsonl", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm"
        ).stdout
    )


def test_ascii(process: Ruler, tmp_path: Path) -> None:
    """On a stdout of ASCII only, other characters are question marks."""
    env = {"PYTHONIOENCODING": "ascii"}
    write(
        tmp_path / "s.jsonl",
        [scored("日本", 0.9, 0.1, labels=(0, 1)), *run_of()],
    )
    done = process("report", "s.jsonl", **env)
    assert (done.returncode, done.stderr, done.stdout.isascii()) == (
        0,
        "",
        True,
    )
    assert widest(done.stdout) <= 80
    shown = process("report", "s.jsonl", "--group", "日本", **env)
    assert (shown.returncode, shown.stdout.isascii()) == (0, True)


@each_layout
def test_every_layout(name: str, ruler: Ruler) -> None:
    """A dump of each layout is refused before it is scored, and shown after."""
    path = EXAMPLES[name]
    refused = ruler("report", path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "score it first" in refused.stderr
    assert ruler("score", path, "s.jsonl", "-m", "offline").returncode == 0
    done = ruler("report", "s.jsonl")
    assert (done.returncode, done.stderr, widest(done.stdout) <= 80) == (
        0,
        "",
        True,
    )


def test_stdin(ruler: Ruler, tmp_path: Path) -> None:
    """A pipe is read like a file; no command is suggested that cannot be repeated."""
    path = write(tmp_path / "s.jsonl", run_of())
    piped = ruler("report", "-", stdin=path.read_text())
    assert piped.returncode == 0
    assert "31 of 32 scored" in piped.stdout
    assert "--group" not in piped.stdout
    one, other = (json.loads(ruler("report", *a, "--json", **k).stdout) for a, k in (
        (("-",), {"stdin": path.read_text()}), (("s.jsonl",), {})
    ))  # fmt: skip
    assert one["figures"] == other["figures"]


def test_problems(ruler: Ruler, tmp_path: Path) -> None:
    """An unreadable line is named with its address, the rest is shown, and the exit code is 1."""
    path = write(tmp_path / "s.jsonl", run_of())
    path.write_text(path.read_text() + "{broken\x1b\n")
    done = ruler("report", "s.jsonl")
    assert done.returncode == 1
    assert "s.jsonl: line 33 " in done.stderr
    assert "31 of 32 scored" in done.stdout
    quiet = ruler("report", "s.jsonl", "--json")
    report = json.loads(quiet.stdout)
    assert (quiet.returncode, quiet.stderr, report["problems"]) == (
        1,
        done.stderr,
        1,
    )
    assert "line 33 " in report["first_problems"][0]
    piped = ruler("report", "-", "--group", "g0", stdin=path.read_text())
    assert (piped.returncode, "line 33 " in piped.stderr) == (1, True)
    assert "group g0" in piped.stdout


def test_partly_scored(ruler: Ruler, tmp_path: Path) -> None:
    """Groups without an annotation are counted as such, and never as failed."""
    fresh = [
        {
            "group_id": "new",
            "trajectories": scored("x", 0.1, 0.2)["trajectories"],
        }
    ]
    for trajectory in fresh[0]["trajectories"]:
        del trajectory["ruler"]
    write(tmp_path / "s.jsonl", [scored("a", 0.2, 0.4), *fresh])
    done = ruler("report", "s.jsonl")
    assert done.returncode == 0
    assert "1 of 2 scored (none tied), 1 not judged" in done.stdout
    page = ruler("report", "s.jsonl", "--group", "new").stdout
    assert "status unmarked" in page
    assert "unlike rollout" not in page


def test_all_failed(ruler: Ruler, tmp_path: Path) -> None:
    """A run in which every group failed has no plot, but lists every reason and the failed groups."""
    write(tmp_path / "s.jsonl", [scored(f"f{i}", None, None) for i in range(9)])
    done = ruler("report", "s.jsonl")
    assert done.returncode == 0
    assert "0 of 9 scored" in done.stdout
    assert "9 x the reply was cut short" in done.stdout
    assert "by score" not in done.stdout
    assert "select" not in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("none.jsonl",), "none.jsonl"),
        (("empty.jsonl",), "holds no records"),
        (("s.jsonl", "--max-groups", "3"), "-o"),
        (("s.jsonl", "-o", "x.html", "--group", "a"), "--group"),
        (("s.jsonl", "-o", "x.html", "--json"), "--json"),
        (("s.jsonl", "-o", "x.txt"), "x.txt"),
        (("s.jsonl", "--group", "c"), "there is no group `c`"),
    ],
)
def test_bad_usage(
    args: tuple[str, ...], message: str, ruler: Ruler, tmp_path: Path
) -> None:
    """Bad usage is one sentence and exit code 2; nothing is written."""
    write(tmp_path / "s.jsonl", [scored("a", 0.2, 0.4)])
    (tmp_path / "empty.jsonl").write_text("")
    before = sorted(tmp_path.iterdir())
    done = ruler("report", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_html(ruler: Ruler, tmp_path: Path) -> None:
    """-o writes the page for a browser, prints nothing, and names omitted parts on stderr."""
    write(tmp_path / "s.jsonl", run_of())
    done = ruler("report", "s.jsonl", "-o", "r.html", "--max-groups", 4)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert "ruler: 4 of 32 groups, " in done.stderr
    assert "The table has 4 of 32 groups" in done.stderr


def test_closed_pipe(tmp_path: Path) -> None:
    """A reader may close the pipe early without an error."""
    write(tmp_path / "s.jsonl", [scored("a", *[0.5] * 500)])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for args in ("--group a", "--json"):
        line = f"'{sys.executable}' -m ruler_cli report s.jsonl {args} | head -1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60,
            check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("to", "code", "message"),
    few(
        1, [(">/dev/full", 1, "No space left"), (">&-", 2, "stdout is closed")]
    ),
)
def test_no_stdout(to: str, code: int, message: str, tmp_path: Path) -> None:
    """Without a usable stdout every option ends in one sentence."""
    if str(FULL) in to and not FULL.exists():
        pytest.skip("this system has no device that is full")
    write(tmp_path / "s.jsonl", run_of())
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop(
        "PYTHONUNBUFFERED", None
    )  # it would leave no output to flush at the end
    for args in ("", "--group same --json"):
        line = (
            f"exec '{sys.executable}' -m ruler_cli report s.jsonl {args} {to}"
        )
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60,
            check=False,
        )  # fmt: skip
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), (
            args
        )
        assert message in done.stderr


def test_counts_beyond_64_bits(ruler: Ruler, tmp_path: Path) -> None:
    """A count beyond 64 bits is rounded, in JSON as in the page."""
    write(
        tmp_path / "s.jsonl",
        [scored("a", 0.2, 0.8, usage={"calls": 1, "prompt_tokens": 10**30})],
    )
    done = ruler("report", "s.jsonl", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["figures"]["usage"]["prompt_tokens"] == 1e30


@pytest.mark.parametrize("more", [(), ("-o", "page.html"), ("--json",)])
def test_unusable_labels(
    ruler: Ruler, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Labels that no rollout has are bad usage."""
    write(tmp_path / "s.jsonl", run_of())
    done = ruler("report", "s.jsonl", "--labels", "ruler", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "--labels ruler: no rollout of s.jsonl has a usable label"
        in done.stderr
    )
    assert not (tmp_path / "page.html").exists()


def test_labels_from_scores(ruler: Ruler, tmp_path: Path) -> None:
    """The command warns of labels that are the scores, on a terminal and beside a page."""
    write(tmp_path / "s.jsonl", run_of())
    for more in ((), ("-o", "page.html")):
        done = ruler("report", "s.jsonl", "--labels", "ruler.score", *more)
        assert done.returncode == 0
        assert "every label of s.jsonl equals its score" in done.stderr
    assert ruler("report", "s.jsonl").stderr == ""
