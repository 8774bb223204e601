"""`ruler select` as scripts and people see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ruler_cli.types import words_of
from tests.conftest import ROOT, SHARED, Ruler, read
from tests.files.test_archive import packed
from tests.results.select_values import GROUPS, annotated_groups, dump

TABLE = SHARED / "formats" / "trl_completions_00040.parquet"
INPUT_LINE = "ruler: native groups, key `group_id`: 5 records, 5 groups of 2 to 3 rollouts, one per line"


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """A scored file."""
    return dump(tmp_path / "s.jsonl", GROUPS)


def test_two_lines(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """stderr has one line about the input and one about the selection; stdout is empty."""
    done = ruler("select", "s.jsonl", "out.jsonl", "--keep", 1, "--by", "score")
    assert (done.returncode, done.stdout) == (0, "")
    kept = "ruler: 4 of 5 groups, 4 of 12 rollouts kept; 1 group without a score left out"
    assert done.stderr.splitlines() == [INPUT_LINE, kept]
    assert [
        len(group["trajectories"]) for group in read(tmp_path / "out.jsonl")
    ] == [1] * 4


def test_pipeline(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """One selection can read another from a pipe, and together they equal one with both conditions."""
    first = ruler(
        *words_of("select - - --where live"), stdin=scored.read_text()
    )
    assert first.returncode == 0, first.stderr
    then = ruler(
        *words_of("select - - --where reliability=0.6.."),
        stdin=first.stdout,
    )
    assert (
        then.stdout
        == ruler(
            "select",
            scored,
            *words_of("- --where live --where reliability=0.6.."),
        ).stdout
    )
    assert then.stdout == scored.read_text().splitlines(keepends=True)[0]
    empty = ruler(
        *words_of("select - - --where live --where tied"),
        stdin=first.stdout,
    )
    assert (empty.returncode, empty.stdout) == (0, "")
    assert "0 of 2 groups, 0 of 6 rollouts kept" in empty.stderr
    last = ruler(*words_of("select - out.jsonl --where live"), stdin="")
    assert (last.returncode, (tmp_path / "out.jsonl").read_bytes()) == (0, b"")


def test_variables(ruler: Ruler, scored: Path) -> None:
    """A variable can say how records are read; it does not choose what is kept, as each command does."""
    reported = ruler(
        "select",
        "s.jsonl",
        "-",
        RULER_WHERE="live",
        RULER_KEEP="2",
        RULER_BY="variance",
    )
    assert "say what to keep" in reported.stderr
    env = {
        "RULER_LABELS": "reward",
        "RULER_FORMAT": "native",
    }
    kept = ruler(*words_of("select s.jsonl - --where disagreement=0.."), **env)
    assert kept.stdout.count("\n") == 3


USAGE = {
    "": "say what to keep, e.g. --where live",
    "--by score": "needs --keep M",
    "--keep 1 --by variance": "--keep 1: one score has no variance",
    "--keep 0 --by score": "--keep",
    "--where relaibility=0.7..": "the conditions are live, tied, ",
    "--where live --labels no.where": "--labels no.where",
    "--where live --format verl": "verl",
}


def test_bad_usage(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """Bad usage is one sentence with the way out, and nothing is written."""
    for args, message in USAGE.items():
        done = ruler("select", "s.jsonl", "out.jsonl", *args.split())
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_unreadable_lines(ruler: Ruler, tmp_path: Path) -> None:
    """Unreadable lines are named, the rest is written, and the exit code is 1."""
    bad = [b'{"bad": 1}', b"oops\x1b[31m", *(b"{}" for _ in range(22))]
    source = dump(tmp_path / "s.jsonl", GROUPS)
    source.write_bytes(source.read_bytes() + b"\n".join(bad) + b"\n")
    done = ruler(*words_of("select s.jsonl out.jsonl --where scored"))
    assert done.returncode == 1
    assert "ruler: s.jsonl: line 6 " in done.stderr
    assert "… and 4 more unreadable lines" in done.stderr
    assert done.stderr.splitlines()[-1].endswith(
        "10 of 12 rollouts kept; 24 lines not readable"
    )
    assert "\x1b" not in done.stderr
    assert len(read(tmp_path / "out.jsonl")) == 4


def test_in_place(ruler: Ruler, scored: Path, tmp_path: Path) -> None:
    """SCORED is never OUTPUT: what is left out would be lost."""
    before = scored.read_bytes()
    for how in (("--where", "live"), ("--as", "pairs")):
        done = ruler("select", "s.jsonl", "s.jsonl", *how)
        assert done.returncode == 2
        assert "s.jsonl: is INPUT; give another name" in done.stderr
    assert scored.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]


def test_document(ruler: Ruler, tmp_path: Path) -> None:
    """Groups of a JSON document are written as a list, each as it stands there."""
    groups = ",\n    ".join(json.dumps(group) for group in GROUPS)
    (tmp_path / "s.json").write_text(
        f'{{"n": 1.0, "trajectory_groups": [\n    {groups}\n], "z": null}}\n'
    )
    done = ruler(
        *words_of("select s.json out.json --where live --keep"),
        2,
        "--by",
        "score",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out.json").read_text())
    assert [[t["id"] for t in group["trajectories"]] for group in result] == [
        ["a1", "a2"],
        ["d0", "d1"],
    ]
    assert (
        ruler(*words_of("select s.json none.json --where score=2..")).returncode
        == 0
    )
    assert (tmp_path / "none.json").read_text() == "[]\n"


def test_table(ruler: Ruler, tmp_path: Path) -> None:
    """A table stays a table, with fewer rows, each unchanged."""
    if not TABLE.exists():
        pytest.skip(f"{TABLE.name} is not beside this checkout")
    options = ("-m", "simulated", "--ledger", "none", "--set", "single=score")
    assert ruler("score", TABLE, "s.parquet", *options).returncode == 0
    done = ruler(
        "select", "s.parquet", "out.parquet", "--keep", 1, "--by", "score"
    )
    assert done.returncode == 0, done.stderr
    before, after = (
        annotated_groups(tmp_path / "s.parquet"),
        annotated_groups(tmp_path / "out.parquet"),
    )
    best = [max(group.rollouts, key=lambda r: r.score or 0) for group in before]
    assert {len(group.rollouts) for group in after} == {1}
    kept = sorted(
        (r.score or 0, r.label or 0, r.explanation)
        for group in after
        for r in group.rollouts
    )
    assert kept == sorted(
        (r.score or 0, r.label or 0, r.explanation) for r in best
    )
    done = ruler(*words_of("select s.parquet none.parquet --where score=2.."))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "none.parquet").stat().st_size


def test_log(ruler: Ruler, tmp_path: Path) -> None:
    """Samples of a log are selected as JSON lines, for a log keeps all of its samples."""
    every = (ROOT / "samples/formats/inspect.jsonl").read_bytes().splitlines()
    (tmp_path / "s.eval").write_bytes(
        packed(0, {f"samples/{i}.json": one for i, one in enumerate(every)})
    )
    how = ("--where", "scored", "--force")
    done = ruler("select", "s.eval", "out.eval", *how)
    assert done.returncode == 2
    assert "OUTPUT a name that ends in .jsonl" in done.stderr


def test_pipe(ruler: Ruler, scored: Path) -> None:
    """stdin and stdout share the name `-` and are different streams: an unreadable line ends no pipeline."""
    done = ruler(
        *words_of("select - - --where live"),
        stdin="{bad\n" + scored.read_text(),
    )
    assert done.returncode == 1
    assert "line 1 is not JSON" in done.stderr
    assert (
        done.stdout == ruler(*words_of("select s.jsonl - --where live")).stdout
    )
