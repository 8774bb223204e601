"""The simulated judge: its truth is known, its errors have the stated sizes, its answers repeat."""

from __future__ import annotations

import asyncio
from statistics import fmean, pstdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulated import (
    Simulated,
    SimulatedModel,
    score,
)
from ruler_cli.errors import UsageError
from ruler_cli.scoring.parse_reply import parse
from ruler_cli.types import CallError, Judge, Request, Usage

_LETTERS = "bcdfghjklm"
_EXACT = SimulatedModel(persistent=0, slot=0, noise=0, level=0)
_LABELS = tuple(
    f"{a}{b}{c}{d}"
    for a in "bc"
    for b in _LETTERS
    for c in _LETTERS
    for d in _LETTERS
)


def _request(rollouts: list[str], system: str = "system") -> Request:
    labels = _LABELS[: len(rollouts)]
    parts = [
        f'<trajectory id="{k}">\n{b}\n</trajectory>'
        for k, b in zip(labels, rollouts, strict=True)
    ]
    return Request(system, "\n".join(parts), labels)


def _spread(model: SimulatedModel, passes: int = 400) -> list[list[float]]:
    """Return scores of eight rollouts with truth .5, pass by pass; only the request's wording differs."""
    rollouts = [f'assistant: "truth=0.5 {i}"' for i in range(8)]
    return [
        list(score(model, _request(rollouts, f"pass {n}")).values())
        for n in range(passes)
    ]


@settings(deadline=None)
@given(
    st.text(), st.lists(st.text(alphabet="ab \nt=", max_size=20), max_size=6)
)
def test_any_request(system: str, rollouts: list[str]) -> None:
    """Every label has a score in [0, 1] on the grid of .05, the same each time."""
    request = _request(rollouts, system)
    scores = score(SimulatedModel(), request)
    assert tuple(scores) == request.labels
    assert all(
        0 <= s <= 1 and round(s * 20, 9).is_integer() for s in scores.values()
    )
    assert score(SimulatedModel(), request) == scores


def test_reply() -> None:
    """Its reply is one call without tokens that the reply parser accepts, and says it is simulated."""
    judge: Judge = Simulated(_EXACT)
    request = _request(["truth=0.35", "truth=0.9"])

    async def once() -> Any:
        async with judge:
            return await judge.ask(request)

    reply = asyncio.run(once())
    assert not isinstance(reply, CallError)
    assert reply.usage == Usage(calls=1)
    parsed = parse(reply.text, request.labels)
    assert [s for (s,), _ in parsed.entries.values()] == [0.35, 0.9]
    assert all(
        explanation.startswith("Simulated")
        for _, explanation in parsed.entries.values()
    )


@settings(deadline=None)
@given(st.permutations([0.1, 0.35, 0.5, 0.8]), st.integers(0, 5))
def test_no_errors(truths: list[float], seed: int) -> None:
    """With every deviation at 0 the score is the truth, for any order, labels and seed."""
    model = SimulatedModel.of(
        {"persistent": 0, "slot": 0, "noise": 0, "level": 0, "seed": seed}
    )
    scores = score(model, _request([f"truth={t}" for t in truths]))
    assert list(scores.values()) == truths


def test_errors_over_passes() -> None:
    """Over passes a persistent error is constant; noise and level change, level alike for all."""
    quiet = {"persistent": 0, "slot": 0, "noise": 0, "level": 0}
    stays = _spread(SimulatedModel.of({**quiet, "persistent": 0.2}), 5)
    assert all(row == stays[0] for row in stays)
    assert len(set(stays[0])) > 1
    level = _spread(SimulatedModel.of({**quiet, "level": 0.2}))
    assert all(len(set(row)) == 1 for row in level)
    assert pstdev([row[0] for row in level]) == pytest.approx(0.2, abs=0.04)
    noise = _spread(SimulatedModel.of({**quiet, "noise": 0.1}))
    assert abs(fmean(value for row in noise for value in row) - 0.5) < 0.02
    assert pstdev([row[0] for row in noise]) == pytest.approx(
        pstdev([row[5] for row in noise]), rel=0.2
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"temperature": 1}, "level, seed"),
    (
        {"noise": "much"},
        "noise='much': it takes .*, the others are from 0 to 1",
    ),
    ({"noise": float("nan")}, "noise=nan"),
    ({"level": True}, "level=True"),
    ({"seed": 0.5}, "seed=0.5"),
]


def test_parameters() -> None:
    """Parameters set the fields of their names; the error for a wrong one states the right form."""
    for params, explanation in WRONG:
        with pytest.raises(UsageError, match=explanation):
            SimulatedModel.of(params)
    assert SimulatedModel.of({"noise": 0.2, "seed": 3}) == SimulatedModel(
        noise=0.2, seed=3
    )
