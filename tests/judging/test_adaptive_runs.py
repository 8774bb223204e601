"""Whole runs that spend passes where they help."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.settings.models import MaxFailures
from ruler_cli.types import CallError, Reply, Request
from tests.conftest import group
from tests.judge_server.asks import expected_score
from tests.runs import (
    Stage,
    Stub,
    answer,
    failing,
    group_of,
    order_of,
)
from tests.values import few

TIED, CLEAR, OPEN = (
    (0.5,) * 6,
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    (0.3, 0.4, 0.45, 0.55, 0.6, 0.7),
)


def groups(number: int) -> list[Any]:
    """Tied, clear and open groups in turn."""
    return [group(f"g{i:03}", *(TIED, CLEAR, OPEN)[i % 3]) for i in range(number)]


def drawing(deviation: float) -> Any:
    """A judge with noise of that deviation, the same for the same request."""

    def say(request: Request) -> Reply | CallError:
        dice = random.Random(
            f"{group_of(request)} {request.pass_index} {order_of(request)}"
        )
        return answer(
            request,
            lambda text: min(
                1.0, max(0.0, expected_score(text) + dice.gauss(0, deviation))
            ),
        )

    return say


@pytest.mark.parametrize(
    ("number", "passes"), few(3, [(3, 3), (1, 2), (64, 4), (150, 4)])
)
def test_average(
    number: int, passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adaptive run ends, asks at least 2 passes per group and K on average; a rerun sends no request."""
    judge = Stub(say=drawing(0.12))
    stage = Stage(tmp_path, monkeypatch, groups(number), judge)
    done = stage.run(passes=passes, adaptive=True)
    assert done.summary.complete
    spent = [
        sum(name == f"g{i:03}" for name, _ in judge.passes_asked) for i in range(number)
    ]
    assert min(spent) >= 2
    assert sum(spent) <= max(2, passes) * number
    assert [part["passes"] for part in stage.parts()] == spent
    if number >= 64 and passes == 4:
        assert max(spent) > 4
        assert sum(spent[0::3]) < sum(spent[2::3])  # ties are left alone
    first = stage.masked()
    stage.forget()
    stage.run(passes=passes, adaptive=True)
    assert (stage.asked, stage.masked()) == (0, first)


def test_order_of_replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency and concurrency do not change the requests."""
    judge = Stub(say=drawing(0.12))
    stage = Stage(tmp_path, monkeypatch, groups(100), judge)
    asked = []
    for concurrency, latency in ((None, 1.0), (1, 0.1), (7, 9.0), (200, 2.0)):
        judge.latency = latency
        stage.run(passes=4, adaptive=True, ledger=None, concurrency=concurrency)
        asked.append(judge.passes_asked)
        stage.forget()
    assert all(turns == asked[0] for turns in asked)


def test_more_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adaptive run uses the passes of an even one, and another way to combine them sends no request."""
    judge = Stub(say=drawing(0.12))
    stage = Stage(tmp_path, monkeypatch, groups(40), judge)
    stage.run(passes=2)
    stage.run(passes=4, adaptive=True)
    assert len(judge.passes_asked) == len(set(judge.passes_asked))
    stage.forget()
    stage.run(
        passes=4,
        adaptive=True,
        blend=0.5,
        order_by_outcome=True,
        debias=True,
        min_passes=2,
    )
    assert stage.asked == 0


def test_failed_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed groups, even a whole block of them, hold up no other group."""
    judge = Stub(
        say=failing(lambda request: group_of(request).startswith("g0"), drawing(0.12))
    )
    stage = Stage(tmp_path, monkeypatch, groups(120), judge)
    done = stage.run(passes=4, adaptive=True, max_failures=MaxFailures(100))
    assert done.stopped is None
    assert done.summary.failed == {"transport": 100}


@pytest.mark.parametrize("until", few(1, [260, 50, 1, 390]))
def test_interrupted(
    until: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped while a block waits ends, and the next writes an undisturbed run's output."""
    judge = Stub(say=drawing(0.12))
    stage = Stage(tmp_path, monkeypatch, groups(100), judge)
    done = stage.run(passes=4, adaptive=True, until=until, concurrency=8)
    assert done.stopped
    partial = tmp_path / "out.jsonl.partial"
    if partial.exists() and partial.stat().st_size:
        assert all(
            part["degraded"] is False for part in stage.parts("out.jsonl.partial")
        )
    stage.run(passes=4, adaptive=True)
    assert len(judge.passes_asked) == len(set(judge.passes_asked))
    resumed = stage.masked()
    stage.run(passes=4, adaptive=True, ledger=None)
    assert stage.masked() == resumed
