"""Passes and panels on the command line: options, exit codes, sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler, group, read, write
from tests.judge_server import JudgeServer

GROUPS = [group(f"g{i}", 0.1, i / 10, 0.9) for i in range(8)]
PANEL = ("-m", "openai/good", "-m", "openai/reordered")


def rewards(path: Path) -> list[list[Any]]:
    """The rewards of the output, one per record."""
    return [
        [t["reward"] for t in record["trajectories"]]
        for record in read(path / "out.jsonl")
    ]


TRUE = [[0.1, i / 10, 0.9] for i in range(8)]


def test_panel(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A panel scores in passes and is named in the output; a second run sends no request."""
    write(tmp_path / "in.jsonl", GROUPS)
    run = (
        "score",
        "in.jsonl",
        "out.jsonl",
        *PANEL,
        *f"--api-base {server.base} --passes 2".split(),
    )
    done = ruler(*run, "--summary", "sum.json")
    assert done.returncode == 0, done.stderr
    assert server.stats()["requests"] == 4 * 8
    assert rewards(tmp_path) == [pytest.approx(row) for row in TRUE]
    assert (
        read(tmp_path / "out.jsonl")[0]["ruler"]["judge"]
        == "openai/good, openai/reordered"
    )
    figures = json.loads((tmp_path / "sum.json").read_text())["figures"]
    assert figures["judges"][0]["judges"] == ["openai/good", "openai/reordered"]
    for name in ("debias", "standardize", "order_by_outcome"):
        assert ruler(*run, "--set", f"{name}=true").returncode == 0
    assert server.stats()["requests"] == 4 * 8


def test_refused_groups(
    ruler: Ruler, server: JudgeServer, tmp_path: Path
) -> None:
    """The other judge scores the groups that one refuses: degraded in a panel, not if it is the stronger one."""
    write(tmp_path / "in.jsonl", GROUPS)
    for option, degraded in (("-m", 8), ("--escalate", 0)):
        run = (
            "score",
            "in.jsonl",
            "out.jsonl",
            "-m",
            "openai/refusal",
            option,
            "openai/good",
            "--api-base",
            server.base,
        )
        done = ruler(*run, "--summary", "sum.json")
        assert done.returncode == 0, done.stderr
        assert (
            json.loads((tmp_path / "sum.json").read_text())["degraded"]
            == degraded
        )
        assert rewards(tmp_path) == TRUE
        assert {r["ruler"]["judge"] for r in read(tmp_path / "out.jsonl")} == {
            "openai/good"
        }


def test_panel_cap(ruler: Ruler, server: JudgeServer, tmp_path: Path) -> None:
    """A panel has one cap with exit code 4, and a run with a higher cap pays for nothing twice."""
    write(tmp_path / "in.jsonl", [group(f"g{i}", 0.1, 0.9) for i in range(30)])
    cheap, dear = PANEL[1::2]
    (tmp_path / "ruler.toml").write_text(
        f"[judges.dear]\nmodel = '{dear}'\nprice = [20, 80]\n"
        f"[judges.cheap]\nmodel = '{cheap}'\nprice = [2, 8]\n"
    )
    run = ["score", "in.jsonl", "out.jsonl", "-m", "cheap", "-m", "dear"]
    run += ["--api-base", server.base, "--passes", "2", "--summary", "sum.json"]
    done = ruler(*run, "--max-cost", "0.2")
    assert done.returncode == 4, done.stderr
    summary = json.loads((tmp_path / "sum.json").read_text())
    assert 0.1 < summary["cost_usd"] <= 0.25
    assert "--max-cost 0.2 is reached" in done.stderr
    assert ruler(*run, "--max-cost", "99").returncode == 0
    assert server.stats()["requests"] == 120
    assert server.stats()["books"]["paid_again"] == 0


def test_pipe_with_passes(ruler: Ruler, server: JudgeServer) -> None:
    """Records flow from stdin to stdout as the batch goes on; with --set debias=true they come at its end."""
    text = "".join(json.dumps(g) + "\n" for g in GROUPS)
    run = (
        *f"score - - -m openai/good --api-base {server.base} --passes 3".split(),
    )
    for options in (
        (),
        (
            "--set",
            "debias=true",
        ),
    ):
        done = ruler(*run, *options, stdin=text)
        assert done.returncode == 0, done.stderr
        out = [json.loads(line) for line in done.stdout.splitlines()]
        assert [[t["reward"] for t in r["trajectories"]] for r in out] == TRUE
    assert server.stats()["requests"] == 24
