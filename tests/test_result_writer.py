"""Each result is written once, whole and in order: at once to a pipe, with the whole batch to a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli.errors import OutputError
from ruler_cli.files.scratch import Scratch
from ruler_cli.runs.file import RunResult, score
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    InputSettings,
    JudgeSettings,
    OnFailure,
)
from ruler_cli.settings.models import ScoreSettings as Settings
from tests.conftest import ROOT, group, write
from tests.formats.test_every_format import EXAMPLES, LAYOUTS
from tests.runs import Stage, Stub, failing, group_of, noisy
from tests.values import FULL, needs_full_device

SAMPLES = Path(__file__).parent.parent / "samples"
EVERY = sorted(
    {p for p in SAMPLES.glob("*.jsonl") if ".scored" not in p.name}
    | {EXAMPLES[name] for name in LAYOUTS}
)
OF_THE_BATCH = re.compile(
    rb'"(?:tied|reliability|weight|passes_for_0.9)": ?[^,}]+,? ?|"judged_at": ?"[^"]+"|"latency_s": ?[0-9.]+'
)
"""The batch's fields of a group with a comma beside them, and fields that differ between any two runs."""


def simulated(
    source: Path,
    output: str | Path,
    passes: int = 2,
    on_failure: OnFailure = "null",
    **how: Any,
) -> RunResult:
    """Score a file with the simulated judge."""
    ask, combine = AskSettings(passes=passes), CombineSettings(**how)
    judge = JudgeSettings("simulated")
    failed = None if output != "-" else source.parent / "failed"
    run = Settings(
        InputSettings(str(source)),
        str(output),
        judge,
        ask,
        combine=combine,
        on_failure=on_failure,
        failed=failed,
    )
    return anyio.run(score, run)


@pytest.mark.parametrize("sample", EVERY, ids=[path.stem for path in EVERY])
def test_file_and_pipe_are_the_same(
    sample: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A file, written once the batch is complete, equals the pipe's bytes except for the batch's fields."""
    source = tmp_path / "in.jsonl"
    source.write_bytes(sample.read_bytes())
    done = simulated(source, tmp_path / "out.jsonl")
    output = capfdbinary.readouterr().out
    assert output == b""
    simulated(source, "-")
    piped = capfdbinary.readouterr().out
    filed = (tmp_path / "out.jsonl").read_bytes()
    assert OF_THE_BATCH.sub(b"", filed) == OF_THE_BATCH.sub(b"", piped)
    assert done.summary.written == len(filed.splitlines()) > 0
    simulated(source, source)
    assert OF_THE_BATCH.sub(b"", source.read_bytes()) == OF_THE_BATCH.sub(
        b"", filed
    )


def test_one_pass_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no score needs the batch no result waits on disk; if one does, all do."""
    held = []
    monkeypatch.setattr(
        Scratch, "put", lambda _, waiting: held.append(waiting[0].key)
    )
    stage = Stage(
        tmp_path,
        monkeypatch,
        [group(f"g{i}", 0.1, 0.9) for i in range(5)],
        Stub(),
    )
    stage.run(passes=1)
    assert held == []
    assert len(stage.records()) == 5
    stage.run(passes=1, debias=True)
    assert held == [f"g{i}" for i in range(5)]


def test_on_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `keep` a group that failed has its original rewards; with `drop` it is left out.

    It then stands unchanged in the failed file, once.
    """
    groups = [group(f"g{i}", 0.1, 0.9) for i in range(6)]
    judge = Stub(
        say=failing(lambda r: group_of(r) in ("g1", "g4") or r.pass_index == 2)
    )
    stage = Stage(tmp_path, monkeypatch, groups, judge)
    lines = (tmp_path / "in.jsonl").read_bytes().splitlines(keepends=True)
    stage.run(passes=3, on_failure="keep", output="kept.jsonl")
    assert [
        t["reward"] for t in stage.records("kept.jsonl")[1]["trajectories"]
    ] == [
        0.0,
        1.0,
    ]
    done = stage.run(passes=3, on_failure="drop", output="in.jsonl")
    assert done.summary.failed == {"transport": 2}
    assert [record["group_id"] for record in stage.records("in.jsonl")] == [
        "g0",
        "g2",
        "g3",
        "g5",
    ]
    assert (tmp_path / "in.jsonl.failed.jsonl").read_bytes() == lines[
        1
    ] + lines[4]


def test_deep_reward_waits(tmp_path: Path) -> None:
    """A reward that is nested deeper than Python's stack waits as any other, and stays in its place."""
    deep = b"[" * 900 + b"]" * 900
    lines = write(
        tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(2)]
    ).read_bytes()
    (tmp_path / "in.jsonl").write_bytes(
        lines.replace(b'"reward": 0.0', b'"reward": ' + deep)
    )
    assert simulated(
        tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    ).summary.complete
    assert (tmp_path / "out.jsonl").read_bytes().count(deep) >= 2


@needs_full_device
def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up while groups wait ends the run with a sentence, and nothing is paid twice."""
    text = "x" * 20_000
    groups = [{**group(f"g{i}", 0.1, 0.9), "note": text} for i in range(30)]
    stage = Stage(tmp_path, monkeypatch, groups, Stub(say=noisy))
    with monkeypatch.context() as patch:
        patch.setattr(
            "ruler_cli.files.scratch.tempfile.TemporaryFile",
            lambda buffering: FULL.open("w+b", buffering),
        )
        done = stage.run(passes=2)
    assert isinstance(done.stopped, OutputError)
    assert (
        "cannot write a temporary file: No space left on device; make room"
        in str(done.stopped)
    )
    assert not (tmp_path / "out.jsonl").exists()
    assert stage.run(passes=2).summary.complete
    assert stage.asked == 60


@pytest.mark.long
def test_memory_is_flat(tmp_path: Path) -> None:
    """Results that wait for the batch wait on disk: six times the groups take no more memory."""
    peaks = []
    for number in (80, 480):
        write(
            tmp_path / "in.jsonl",
            [
                {**group(f"g{i}", 0.2, 0.8), "note": "x" * 20_000}
                for i in range(number)
            ],
        )
        tracemalloc.start()
        simulated(tmp_path / "in.jsonl", tmp_path / "out.jsonl", debias=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (tmp_path / "out.jsonl").read_bytes().count(b"\n") == number
    assert peaks[1] - peaks[0] < 400 * 20_000 / 3


@pytest.mark.long
def test_reader_that_stops(tmp_path: Path) -> None:
    """A stopped run ends even if nobody reads the rest of a batch that has waited."""
    write(
        tmp_path / "in.jsonl",
        [
            {**group(f"g{i}", 0.1, 0.9), "note": "x" * 20_000}
            for i in range(100)
        ],
    )
    command = [
        sys.executable,
        "-m",
        "ruler_cli",
        "score",
        "-",
        "-",
        "-m",
        "offline",
        "--set",
        "debias=true",
    ]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin
    process.stdin.write((tmp_path / "in.jsonl").read_bytes())
    process.stdin.flush()
    time.sleep(2.0)
    process.terminate()
    try:
        assert process.wait(30) == 143
    finally:
        process.kill()
        process.communicate()
