"""Runs that spend passes where they help."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.types import CallError, Reply, Request
from tests.conftest import group
from tests.judge_server.asks import expected_score
from tests.runs import (
    Stage,
    Stub,
    answer,
    group_of,
    order_of,
)

TIED, CLEAR, OPEN = (
    (0.5,) * 6,
    (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    (0.3, 0.4, 0.45, 0.55, 0.6, 0.7),
)


def groups(number: int) -> list[Any]:
    """Tied, clear and open groups in turn."""
    return [
        group(f"g{i:03}", *(TIED, CLEAR, OPEN)[i % 3]) for i in range(number)
    ]


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


@pytest.mark.parametrize("passes", [2, 3, 4, 6])
def test_passes(
    passes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each group gets two passes, open ones more up to the bound, and ties few; a rerun sends no request."""
    judge = Stub(say=drawing(0.12))
    stage = Stage(tmp_path, monkeypatch, groups(60), judge)
    done = stage.run(passes=passes, adaptive=True)
    assert done.summary.complete
    asked = Counter(name for name, _ in judge.passes_asked)
    spent = [asked[f"g{i:03}"] for i in range(60)]
    assert min(spent) == 2
    assert max(spent) == passes
    assert [part["passes"] for part in stage.parts()] == spent
    if passes > 2:
        assert sum(spent[0::3]) < sum(spent[2::3])
    first = stage.masked()
    stage.forget()
    stage.run(passes=passes, adaptive=True)
    assert (stage.asked, stage.masked()) == (0, first)


def test_order_of_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither latency and concurrency nor the other groups change the requests about a group."""
    judge = Stub(say=drawing(0.12))
    asked = []
    for number, concurrency, latency in (
        (60, None, 1.0),
        (60, 1, 0.1),
        (30, 7, 9.0),
    ):
        judge.latency = latency
        stage = Stage(tmp_path, monkeypatch, groups(number), judge)
        stage.run(passes=4, adaptive=True, ledger=None, concurrency=concurrency)
        asked.append({turn for turn in judge.passes_asked if turn[0] < "g030"})
        stage.forget()
    assert asked[0] == asked[1] == asked[2]
