"""`ruler score` on containers other than one file of JSON lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import InterruptedRun
from ruler_cli.pool.engine import StopSignal
from ruler_cli.runs.file import score
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Observer, Summary
from tests.conftest import Ruler, read, rollout, write

SCORE = ("-m", "offline", "--ledger", "none")
ROLLOUTS = [
    rollout(i / 10, f"{i}", group_id="ab"[i % 2], reward=i) for i in range(6)
]


def scored(records: list[Any]) -> list[int]:
    """The original rewards of records that have a score, in their order."""
    assert all(0 <= record["reward"] <= 1 for record in records)
    assert all(record["ruler"]["status"] == "scored" for record in records)
    return [record["ruler"]["independent_reward"] for record in records]


@pytest.mark.parametrize("name", ["in.json", "in.json.gz", "-"])
def test_list(ruler: Ruler, tmp_path: Path, name: str) -> None:
    """A list of scattered records is written as a list; bad records stand in the failed file, once."""
    items = [json.dumps(r, indent=2) for r in ROLLOUTS]
    text = "[\n" + ",\n".join(['{"bad":\n oops}', *items, "7"]) + "\n]\n"
    pack = gzip.compress if name.endswith(".gz") else bytes
    if name != "-":
        (tmp_path / name).write_bytes(pack(text.encode()))
    for _ in range(2):
        done = ruler(
            "score", name, "out.json", *SCORE, stdin=text if name == "-" else ""
        )
        assert done.returncode == 1, done.stderr
        assert "item 1 is not JSON" in done.stderr
        assert "item 8 is JSON but not an object" in done.stderr
        assert "6 records, 2 groups of 3 rollouts, scattered" in done.stderr
        out = (tmp_path / "out.json").read_text()
        assert out.startswith("[\n{\n  ")
        assert scored(json.loads(out)) == [0, 1, 2, 3, 4, 5]
        assert (
            tmp_path / "out.json.failed.jsonl"
        ).read_text() == '{"bad":  oops}\n7\n'


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Two groups over three files, and a file without any group."""
    root = tmp_path / "in"
    root.mkdir()
    for number, start in ((2, 0), (10, 2), (11, 4)):
        write(root / f"part-{number}.jsonl", ROLLOUTS[start : start + 2])
    (root / "metadata.json").write_text('{"group_id": 1}')
    return root


@pytest.mark.parametrize("source", ["in", "in/*.json*"])
def test_directory(
    ruler: Ruler, tmp_path: Path, shards: Path, source: str
) -> None:
    """Many files become one OUTPUT, in order; a problem names the file of a bad line."""
    with (shards / "part-2.jsonl").open("a") as file:
        file.write('{"torn')
    done = ruler("score", source, "out.jsonl", *SCORE)
    assert done.returncode == 1
    assert "2 groups of 3 rollouts, scattered" in done.stderr
    left_out = "metadata.json holds no record of this format: left out"
    assert done.stderr.count(left_out) == 1
    assert "part-2.jsonl line 3 is not JSON" in done.stderr
    assert scored(read(tmp_path / "out.jsonl")) == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "out.jsonl.failed.jsonl").read_text() == '{"torn\n'


REFUSED = {
    "in in/out.jsonl": "lies in INPUT",
    "in/*.jsonl in/part-2.jsonl": "lies in INPUT",
    "in out --set failed=in/bad.jsonl": "lies in INPUT",
    "in in": "is a directory",
    "file out.tar.gz": "name it out.jsonl",
}


def test_refused(ruler: Ruler, tmp_path: Path, shards: Path) -> None:
    """An OUTPUT that cannot be written is refused before anything is read, and no file is left behind."""
    (tmp_path / "file").write_text("{")
    before = sorted(tmp_path.rglob("*"))
    for args, message in REFUSED.items():
        done = ruler("score", *args.split(), *SCORE)
        assert (done.returncode, message in done.stderr) == (2, True), (
            done.stderr
        )
        assert sorted(tmp_path.rglob("*")) == before


class StopsEarly(Observer):
    """An observer that stops a run after a few records."""

    def __init__(self, stop_signal: StopSignal) -> None:
        self._stop_signal = stop_signal

    def advanced(self, summary: Summary) -> None:
        """Stop after three records."""
        if summary.written >= 3:
            self._stop_signal.stop(InterruptedRun(15))


@pytest.mark.anyio
@pytest.mark.parametrize("out", ["out.json", "in.json"])
async def test_interrupted_list(tmp_path: Path, out: str) -> None:
    """An interrupted run leaves a valid partial list, and the next run completes it."""
    rows = [{**r, "group_id": i // 2} for i, r in enumerate(ROLLOUTS)]
    (tmp_path / "in.json").write_text(json.dumps(rows, indent=1))
    settings = ScoreSettings(
        InputSettings(str(tmp_path / "in.json")),
        str(tmp_path / out),
        JudgeSettings("offline"),
    )
    stop_signal = StopSignal()
    done = await score(settings, StopsEarly(stop_signal), stop_signal)
    assert isinstance(done.stopped, InterruptedRun)
    part = json.loads((tmp_path / f"{out}.partial").read_text())
    assert scored(part) == list(range(len(part)))
    assert len(part) >= 4  # the third group may be done by then
    assert (await score(settings)).stopped is None
    whole = json.loads((tmp_path / out).read_text())
    assert scored(whole) == [0, 1, 2, 3, 4, 5]
    assert not (tmp_path / f"{out}.partial").exists()
