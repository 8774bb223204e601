"""Whole runs that spend passes where they help and escalate groups that stay open."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import CapReached
from ruler_cli.judges.providers import stated_price
from ruler_cli.settings.models import MaxFailures
from ruler_cli.types import CallError, Reply, Request, Usage
from tests.conftest import group
from tests.judge_server.asks import expected_score
from tests.runs import (
    BROKEN,
    Stage,
    Stub,
    answer,
    failing,
    group_of,
    order_of,
    refusing,
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


STRONG: dict[str, Any] = {"passes": 2, "escalate": "strong"}


def test_escalated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stronger judge gets only groups that are open and not tied, and there only its scores count."""
    weak, strong = Stub("weak", drawing(0.12)), Stub("strong")
    stage = Stage(tmp_path, monkeypatch, groups(90), weak, strong)
    done = stage.run("weak", **STRONG)
    asked = {name for name, _ in strong.passes_asked}
    assert strong.passes_asked == sorted(
        (name, pass_index) for name in asked for pass_index in (0, 1)
    )
    assert 0 < len(asked) < 60
    assert done.summary.escalated == len(asked)
    assert (
        sum(int(name[1:]) % 3 == 0 for name in asked) < len(asked) / 4
    )  # ties look open now and then
    for i, record in enumerate(stage.records()):
        rollouts, part = record["trajectories"], record["ruler"]
        if f"g{i:03}" in asked:
            assert (part["escalated"], part["judge"], part["passes"]) == (
                True,
                "strong",
                2,
            )
            assert [t["reward"] for t in rollouts] == list((TIED, CLEAR, OPEN)[i % 3])
            assert all(
                {own["judge"] for own in t["ruler"]["judges"]} == {"weak", "strong"}
                for t in rollouts
            )
        else:
            assert (part["escalated"], part["judge"]) == (False, "weak")
            assert all(
                {own["judge"] for own in t["ruler"]["judges"]} == {"weak"}
                for t in rollouts
            )
    first = stage.masked()
    stage.forget()
    stage.run("weak", **STRONG)
    assert (stage.asked, stage.masked()) == (0, first)


@pytest.mark.parametrize("scope", ["group", "refused"])
def test_failing_stronger_judge(
    scope: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the stronger judge fails, the other scores stay and the group is degraded."""
    weak, strong = (
        Stub("weak", drawing(0.12)),
        Stub("strong", refusing if scope == "refused" else lambda _: BROKEN),
    )
    stage = Stage(tmp_path, monkeypatch, groups(60), weak, strong)
    done = stage.run("weak", **STRONG)
    asked = {name for name, _ in strong.passes_asked}
    assert done.summary.complete
    assert done.summary.degraded == len(asked) > 0
    result, parts = stage.rewards(), stage.parts()
    stage.run("weak", passes=2)
    assert stage.rewards() == result
    assert {part["judge"] for part in parts} == {"weak"}
    assert [part["key"] for part in parts if part.get("degraded")] == sorted(asked)


@pytest.mark.parametrize("cap", few(1, [0.2, 0.05, 0.5]))
def test_escalation_within_the_cap(
    cap: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stronger judge is asked as far as the cap allows; every other group keeps its scores."""
    weak = Stub("weak", drawing(0.12), price=(0.0, 0.0))
    strong = Stub("strong", price=(20.0, 50.0))
    stage = Stage(tmp_path, monkeypatch, groups(90), weak, strong)
    done = stage.run("weak", max_cost=cap, **STRONG)
    dearest = stated_price((20.0, 50.0)).of(Usage(1000, 100, 0, 1))
    assert done.summary.cost_usd is not None
    assert done.summary.cost_usd <= cap + dearest
    assert isinstance(done.stopped, CapReached)
    assert done.summary.cut > 0
    assert done.whole
    assert all(reward is not None for row in stage.rewards() for reward in row)
    done = stage.run("weak", max_cost=99.0, **STRONG)
    assert (done.stopped, done.summary.degraded) == (None, 0)
    assert len(strong.passes_asked) == len(set(strong.passes_asked))
