"""The file of --summary tells which run it is of, and how that ended, whatever the end."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

import ruler_cli.runs.file
from ruler_cli import __version__
from ruler_cli.cli.run_record import RunRecord
from ruler_cli.files.output import LocalFile
from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer

KEY = "sk-proj-Zz19Aa28Bb37Cc46Dd55"
YESTERDAY = '{\n  "version": 1,\n  "scored": 7\n}\n'
OFFLINE = "score in.jsonl out.jsonl -m offline --summary sum.json"


def summary_of(path: Path) -> Any:
    """Read a summary."""
    return json.loads(path.read_text())


def test_attributed(ruler: Ruler, tmp_path: Path, server: JudgeServer) -> None:
    """The summary has INPUT, OUTPUT, each setting with its source, the judge and both times; no key."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    (tmp_path / "ruler.toml").write_text("[score]\npasses = 2\n")
    judge = (
        *f"-m openai/good --api-base {server.base} -p".split(),
        f"header={KEY}",
    )
    run = ("score", "in.jsonl", "out.jsonl", *judge, "--rubric", f"use {KEY}")
    done = ruler(*run, "--summary", "sum.json", RULER_SEED="7")
    summary = summary_of(tmp_path / "sum.json")
    assert (done.returncode, summary["exit_code"], summary["version"]) == (
        0,
        0,
        4,
    )
    assert (summary["input"], summary["output"]) == ("in.jsonl", "out.jsonl")
    assert summary["output_state"] == "written"
    assert summary["started_at"] <= summary["ended_at"]
    assert summary["ruler"] == __version__
    settings = summary["settings"]
    assert settings["seed"] == {"value": 7, "from": "RULER_SEED"}
    assert settings["passes"] == {"value": 2, "from": "ruler.toml [score]"}
    assert settings["model"] == {
        "value": ["openai/good"],
        "from": "command line",
    }
    assert [judge["model"] for judge in summary["judges"]] == ["openai/good"]
    assert KEY not in json.dumps(summary)
    part = read(tmp_path / "out.jsonl")[0]["ruler"]
    assert summary["rubric_texts"] == {part["rubric"]: "use [key]"}
    assert (
        json.loads(summary["params_texts"][part["params"]])[0]["model"]
        == "openai/good"
    )
    assert summary["served"] == dict.fromkeys(part["served"], 1)
    assert "retries" not in settings


ENDS = {
    OFFLINE: 0,
    OFFLINE.replace("in.jsonl", "odd.jsonl"): 1,
    OFFLINE.replace("in.jsonl", "no.jsonl"): 2,
    OFFLINE.replace("out.jsonl", "no/out.jsonl"): 2,
    f"{OFFLINE} --rubric @no.txt": 2,
    f"{OFFLINE} --ledger none --ledger x": 2,
    OFFLINE.replace("offline", "openai/o3"): 2,
    OFFLINE.replace("offline", "openai/401 --api-base URL"): 3,
    OFFLINE.replace(
        "offline", "openai/good --api-base URL --price 2,8 --max-cost 0.0001"
    ): 4,
    # a wrong value, and a mistake in ruler.toml
    f"{OFFLINE} --passes many": 2,
    f"{OFFLINE} --config bad.toml": 2,
}


@pytest.mark.parametrize("line", ENDS)
def test_every_end(
    line: str, ruler: Ruler, tmp_path: Path, server: JudgeServer
) -> None:
    """At every end the summary of yesterday is replaced by one with the exit code, and with the reason."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    write(tmp_path / "odd.jsonl", [group("a", 0.1, 0.9), {"trajectories": 3}])
    (tmp_path / "bad.toml").write_text("[score]\npasses = 0\n")
    (tmp_path / "sum.json").write_text(YESTERDAY)
    done = ruler(*line.replace("URL", server.base).split())
    summary = summary_of(tmp_path / "sum.json")
    assert done.returncode == summary["exit_code"] == ENDS[line]
    assert summary["ended_at"]
    if done.returncode > 1:
        assert f"ruler: {summary['stopped']}\n" in done.stderr
    if done.returncode == 2:
        assert (summary["output_state"], summary["scored"]) == ("kept", 0)


@pytest.mark.parametrize("judge", ["offline", "openai/o3"])
def test_named_by_a_file(judge: str, ruler: Ruler, tmp_path: Path) -> None:
    """The file of settings names a summary as the command line does, also of a run that is refused."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    (tmp_path / "ruler.toml").write_text("[score]\nsummary = 'sum.json'\n")
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", judge)
    summary = summary_of(tmp_path / "sum.json")
    assert summary["exit_code"] == done.returncode


def test_end_by_a_bug(
    ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is an end, too."""

    async def broken(*_: object) -> NoReturn:
        raise ValueError(f"it broke on {KEY}")

    monkeypatch.setattr(ruler_cli.runs.file, "score", broken)
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    done = ruler(*OFFLINE.split(), "--rubric", KEY)
    summary = summary_of(tmp_path / "sum.json")
    assert done.returncode == summary["exit_code"] == 1
    assert summary["stopped"] == "ValueError: it broke on [key]"


@pytest.mark.parametrize(
    ("source", "output", "more"),
    [
        ("sum.json.partial", "out.jsonl", ""),
        ("in.jsonl", "sum.json.partial", ""),
        ("in.jsonl", "out.jsonl", "--set failed=sum.json.partial"),
        ("in.jsonl", "sum.json", ""),
        ("in.jsonl", "out.jsonl", "--ledger sum.json"),
    ],
)
def test_no_file_of_the_run(
    ruler: Ruler, tmp_path: Path, source: str, output: str, more: str
) -> None:
    """The summary, and the file that it is written in until it is whole, are no other file of the run."""
    for name in ("in.jsonl", "sum.json", "sum.json.partial"):
        before = write(tmp_path / name, [group("a", 0.1, 0.9)]).read_bytes()
    done = ruler(
        "score",
        source,
        output,
        "-m",
        "offline",
        "--summary",
        "sum.json",
        *more.split(),
    )
    assert (done.returncode, "sum.json" in done.stderr) == (2, True)
    for name in ("in.jsonl", "sum.json", "sum.json.partial"):
        assert (tmp_path / name).read_bytes() == before


def test_streams(ruler: Ruler, tmp_path: Path) -> None:
    """Stdout and a pipe get one document, at the end."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    for name in ("-", "/dev/stdout"):
        done = ruler(*OFFLINE.replace("sum.json", name).split())
        assert json.loads(done.stdout)["exit_code"] == 0, name
    os.mkfifo(tmp_path / "pipe")
    taken = list[str]()
    reader = threading.Thread(
        target=lambda: taken.append((tmp_path / "pipe").read_text())
    )
    reader.start()
    assert ruler(*OFFLINE.replace("sum.json", "pipe").split()).returncode == 0
    reader.join(30)
    assert json.loads(taken[0])["exit_code"] == 0


def test_link(ruler: Ruler, tmp_path: Path) -> None:
    """A link in the place of the summary leads to a summary, or the run is refused and its target unchanged."""
    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    target = tmp_path / "target"
    (tmp_path / "sum.json").symlink_to("target")
    for content, code in (("mine", 2), (YESTERDAY, 0)):
        target.write_text(content)
        done = ruler(*OFFLINE.split())
        assert done.returncode == code, done.stderr
        assert (target.read_text() == "mine") == (code == 2)


def test_cannot_be_written(
    ruler: Ruler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A summary that cannot be written stops a run at its beginning, and is an error at its end."""

    def refuse(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    write(tmp_path / "in.jsonl", [group("a", 0.1, 0.9)])
    monkeypatch.setattr(os, "fsync", refuse)
    done = ruler(*OFFLINE.split())
    assert (done.returncode, (tmp_path / "out.jsonl").exists()) == (2, False)
    sentence = "ruler: --summary sum.json: cannot be written: No space left on device; make room"
    assert done.stderr.splitlines() == [sentence]
    monkeypatch.setattr(RunRecord, "begin", lambda *_: None)
    run = OFFLINE.replace("out.jsonl", "-")
    done = ruler(*run.split())
    assert (done.returncode, "ruler" in done.stdout) == (1, True)
    assert sentence in done.stderr.splitlines()


def test_other_run(ruler: Ruler, tmp_path: Path) -> None:
    """A run that is refused since another one writes OUTPUT leaves the summary of that one."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    with LocalFile(str(tmp_path / "out.jsonl")) as other:
        assert ruler(*OFFLINE.split()).returncode == 2
        assert not (tmp_path / "sum.json").exists()
        other.discard()
