"""What is written on Ray is what one process writes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import Score, many, summary, timeless
from tests.conftest import write
from tests.judge_server import JudgeServer


def _adjacent(folder: Path) -> str:
    lines = [{"group_id": g["group_id"], **t} for g in many(40) for t in g["trajectories"]]
    write(folder / "adjacent.jsonl", lines)
    return "adjacent.jsonl"


def _scattered(folder: Path) -> str:
    lines = [{"group_id": g["group_id"], **g["trajectories"][k]} for k in range(4) for g in many(40)]
    write(folder / "scattered.jsonl", lines)
    return "scattered.jsonl"


def _zipped(folder: Path) -> str:
    text = "".join(json.dumps(g) + "\n" for g in many(40))
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return "in.jsonl.gz"


CASES: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "adjacent, passes": (_adjacent, ("--passes", "3", "--debias")),
    "scattered, a panel": (_scattered, ("-m", "openai/fine", "-m", "openai/other")),
    "compressed, adaptive": (_zipped, ("--adaptive", "--passes", "3")),
}
_FIRST, *_OTHERS = CASES


@pytest.mark.parametrize("case", [_FIRST, *(pytest.param(case, marks=pytest.mark.long) for case in _OTHERS)])
def test_output_is_that_of_one_process(score: Score, server: JudgeServer, tmp_path: Path, case: str) -> None:
    """Whatever the input and the way it is judged, two workers write the bytes that one process writes."""
    make, options = CASES[case]
    source = make(tmp_path)
    here = score("one.jsonl", *options, ray=False, source=source)
    asked = server.stats()["requests"]
    server.reset()
    there = score("ray.jsonl", *options, source=source)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert timeless(tmp_path / "ray.jsonl") == timeless(tmp_path / "one.jsonl")
    assert summary(tmp_path / "ray.jsonl") == summary(tmp_path / "one.jsonl")
    assert server.stats()["requests"] == asked
    assert there.stderr.replace("ray", "one").splitlines()[0] == here.stderr.splitlines()[0]
