"""A cached-only run writes the scores of cached replies and annotates the rest as failed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.ledger.reply_cache import key_of
from ruler_cli.types import UNANSWERED
from tests.conftest import Ruler, group, write
from tests.runs import Stage, Stub, noisy, shifting

GROUPS = [group(f"g{i}", 0.1, 0.3 + i / 100, 0.9) for i in range(20)]


@pytest.mark.parametrize(
    ("names", "more"),
    [
        (("one",), {}),
        (("one",), {"passes": 3}),
        (("one", "two"), {"passes": 2, "debias": True}),
        (("one",), {"passes": 4, "adaptive": True}),
        (("one",), {"passes": 2, "escalate": "two"}),
    ],
    ids=["one", "passes", "panel", "adaptive", "escalate"],
)
def test_whole_ledger(
    names: tuple[str, ...],
    more: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With every reply cached, the output is that of the run that asked for them, and no request is sent."""
    first = Stub("one", noisy, price=(2.0, 8.0))
    stage = Stage(
        tmp_path,
        monkeypatch,
        GROUPS,
        first,
        Stub("two", shifting, price=(2.0, 8.0)),
    )
    assert stage.run(*names, **more).summary.asked
    stage.run(*names, output="again.jsonl", **more)
    stage.forget()
    done = stage.run(*names, output="cached.jsonl", cached_only=True, **more)
    assert done.whole
    assert done.summary.complete
    assert (done.summary.asked, done.summary.unanswered, stage.asked) == (
        0,
        0,
        0,
    )
    assert (
        stage.masked("cached.jsonl")
        == stage.masked("again.jsonl")
        == stage.masked()
    )


def test_missing_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group without a reply fails with that reason, and leaves no row: it can be asked about later."""
    stage = Stage(tmp_path, monkeypatch, GROUPS[:8], Stub())
    stage.run()
    stage.forget()
    write(tmp_path / "in.jsonl", GROUPS[:12])
    done = stage.run(output="cached.jsonl", cached_only=True)
    assert done.whole
    assert (
        done.summary.scored,
        done.summary.failed,
        done.summary.failed_before,
    ) == (
        8,
        {"transport": 4},
        0,
    )
    assert (done.summary.unanswered, stage.asked) == (4, 0)
    last = stage.records("cached.jsonl")[-1]["trajectories"][0]
    assert (last["reward"], last["ruler"]["kind"]) == (None, "transport")
    assert last["ruler"]["reason"] == UNANSWERED.reason
    assert stage.run().summary.asked == 4


@pytest.mark.parametrize(
    "more",
    [
        {"passes": 2},
        {"passes": 6, "adaptive": True},
        {"passes": 2, "escalate": "two", "escalate_gap": 1.0},
    ],
    ids=["passes", "adaptive", "escalation"],
)
def test_one_missing(
    more: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing reply degrades its group, which could have other scores, and no other."""
    stage = Stage(
        tmp_path, monkeypatch, GROUPS, Stub(say=noisy), Stub("two", shifting)
    )
    stage.run("one", **more)
    scores = stage.rewards()
    lost = next(
        request for request in stage.judges["one"].asked if request.pass_index
    )
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as ledger, ledger:
        key = key_of("one", {}, lost)
        ledger.execute("DELETE FROM replies WHERE key = ?", [key])
    done = stage.run("one", cached_only=True, output="cached.jsonl", **more)
    assert (done.summary.unanswered, done.summary.degraded) == (1, 1)
    assert not done.summary.complete
    assert stage.rewards("cached.jsonl") != scores
    assert sum(part["degraded"] for part in stage.parts("cached.jsonl")) == 1
    stage.run("one", **more)
    assert not any(part.get("degraded") for part in stage.parts())


def test_command(ruler: Ruler, tmp_path: Path) -> None:
    """It needs no key and no litellm; missing replies make exit code 1 and a message with the way out."""
    write(tmp_path / "in.jsonl", GROUPS[:2])
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "anthropic/claude-sonnet-4-5",
        "--cached-only",
    )
    assert done.returncode == 1
    assert (
        "2 requests not in the ledger: send them with `ruler batch submit` or `ruler batch export`"
        in done.stderr
    )
    assert "needs a key" not in done.stderr
    assert "g0" not in done.stderr  # there may be a million, and one reason


def test_missing_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group with some of its passes cached has their scores, and is reported as degraded."""
    stage = Stage(tmp_path, monkeypatch, GROUPS, Stub(say=shifting))
    stage.run(passes=2)
    done = stage.run(passes=3, cached_only=True)
    assert (done.summary.degraded, done.summary.unanswered) == (20, 20)
    assert not done.summary.complete
    assert {
        rollout["ruler"]["passes"]
        for rollout in stage.records()[0]["trajectories"]
    } == {2}
    assert stage.run(
        passes=3, cached_only=True, min_passes=3
    ).summary.failed == {"transport": 20}
