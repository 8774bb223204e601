"""Several judges in one run: a panel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import CapReached, RefusedError
from ruler_cli.judges.providers import stated_price
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.conftest import group
from tests.judge_server.asks import expected_score
from tests.runs import (
    Stage,
    Stub,
    answer,
    group_of,
)
from tests.values import few

GROUPS = [group(f"g{i:02}", 0.1, 0.5, i / 20, 0.9) for i in range(12)]
KEY = CallError("transport", "the key is wrong", "run", billed=False)
NAMES = ("one", "two")


def half(request: Request) -> Reply | CallError:
    """Half of every true score."""
    return answer(request, lambda text: expected_score(text) / 2)


def test_every_judge_every_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each judge scores each pass; a score is the mean over the judges, and theirs stand beside it."""
    row, two = Stub("one"), Stub("two", half)
    stage = Stage(tmp_path, monkeypatch, GROUPS, row, two)
    assert stage.run(*NAMES, passes=2).summary.complete
    every = [
        (f"g{i:02}", pass_index) for i in range(12) for pass_index in range(2)
    ]
    assert row.passes_asked == two.passes_asked == every
    for i, record in enumerate(stage.records()):
        assert record["ruler"]["judge"] == "one, two"
        for rollout, truth in zip(
            record["trajectories"], (0.1, 0.5, i / 20, 0.9), strict=True
        ):
            assert rollout["reward"] == pytest.approx(0.75 * truth)
            judges = {
                mine["judge"]: mine["score"]
                for mine in rollout["ruler"]["judges"]
            }
            assert judges == pytest.approx(
                {"one": truth, "two": truth / 2}, abs=1e-6
            )
            assert len(rollout["ruler"]["slots"]) == 4


def test_prices_are_summed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens of each judge cost its own price, in the summary and in each group."""
    entry, two = Stub("one", price=(1.0, 2.0)), Stub("two", price=(10.0, 30.0))
    stage = Stage(tmp_path, monkeypatch, GROUPS, entry, two)
    used = Usage(1000, 100, 0, 1)
    row = 2 * (
        stated_price((1.0, 2.0)).of(used) + stated_price((10.0, 30.0)).of(used)
    )
    summary = stage.run(*NAMES, passes=2).summary
    assert summary.cost_usd == pytest.approx(12 * row)
    assert summary.usage.calls == 48
    assert [part["cost_usd"] for part in stage.parts()] == [
        pytest.approx(row)
    ] * 12
    summary = stage.run(*NAMES, passes=2).summary
    assert summary.cost_usd == 0
    two.price = None
    assert stage.run(*NAMES, passes=2).summary.cost_usd is None


@pytest.mark.parametrize("cap", few(2, [0.0005, 0.1, 0.01]))
@pytest.mark.parametrize("passes", [1, 3])
def test_one_budget(
    cap: float, passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All judges draw on one budget: no run passes it, and all end once it is reached."""
    row, two = (
        Stub("one", price=(1.0, 2.0)),
        Stub("two", price=(3.0, 9.0), latency=7.0),
    )
    groups = [group(f"g{i:03}", 0.1, 0.9) for i in range(60)]
    stage = Stage(tmp_path, monkeypatch, groups, row, two)
    done = stage.run(*NAMES, passes=passes, max_cost=cap)
    summary = done.summary
    dearest = stated_price((3.0, 9.0)).of(Usage(1000, 100, 0, 1))
    assert summary.cost_usd is not None
    assert summary.cost_usd <= cap + dearest
    assert isinstance(done.stopped, CapReached)
    assert summary.scored + summary.failed.get("budget", 0) == 60
    assert summary.failed.keys() <= {"budget"}
    assert done.whole
    done = stage.run(*NAMES, passes=passes, max_cost=99.0)
    assert (done.stopped, stage.asked, done.summary.degraded) == (
        None,
        120 * passes,
        0,
    )


def test_one_judge_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that refuses the run ends it soon for all, and the replies of the others stay cached."""
    thrice: dict[str, Any] = {"passes": 3}
    rows = [
        {"passes": 1},
        thrice,
        thrice | {"adaptive": True},
        thrice | {"debias": True},
    ]
    for number, more in enumerate(rows):
        first = Stub("one", latency=3.0)
        down = lambda request: (  # noqa: E731
            KEY if group_of(request) >= "g05" else half(request)
        )
        second = Stub("two", down)
        stage = Stage(tmp_path, monkeypatch, GROUPS, first, second)
        ledger = f"{number}.sqlite"
        done = stage.run(*NAMES, concurrency=4, ledger=ledger, **more)
        assert isinstance(done.stopped, RefusedError)
        assert (done.stopped.exit_code, done.whole) == (3, False)
        asked = len(first.asked)
        second.say = half
        stage.forget()
        passes = more["passes"]
        done = stage.run(*NAMES, passes=passes, concurrency=4, ledger=ledger)
        assert done.summary.complete
        assert len(first.asked) == 12 * passes - asked
