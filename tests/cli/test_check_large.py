"""`ruler check` of a large input: the estimate from a sample is near the figures of all groups."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler, write
from tests.values import talk


def uneven(dice: random.Random, number: int) -> list[dict[str, Any]]:
    """Two to six rollouts of very different lengths, in records that hold other text too."""
    rollouts = []
    for k in range(dice.randint(2, 6)):
        words = int(dice.triangular(5, 900, 60))
        rollouts.append(
            {
                "messages": talk(f"{'so ' * words}{k}", f"Task {number}"),
                "reward": dice.random(),
                "logprobs": [0.125] * dice.randint(20, 60),
            }
        )
    return rollouts


def large(dice: random.Random, number: int) -> list[dict[str, Any]]:
    """Every other group is too large for a context of 8,192 tokens, and is shown in windows."""
    rollouts = []
    for k in range(dice.randint(10, 40) if number % 2 else 3):
        words = "word " * dice.randint(500, 900)
        rollouts.append({"messages": talk(f"{k} {words}")})
    return rollouts


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (uneven, "-m openai/o3 --passes 3 --group-size 2 --set adaptive=true"),
        (large, "-m openai/gpt-4 -m openai/gpt-4o --passes 2"),
    ],
)
@pytest.mark.parametrize("scattered", [False, True])
def test_close_estimate(
    make: Any,
    options: str,
    scattered: bool,
    ruler: Ruler,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Figures of a sample are near those of all groups, in any order of their records."""
    dice = random.Random(7)
    rows = []
    for number in range(300):
        for k, rollout in enumerate(make(dice, number)):
            rows.append((k * scattered, {"group_id": str(number), **rollout}))
    rows.sort(key=lambda row: row[0])
    write(tmp_path / "in.jsonl", [row for _, row in rows])
    results = []
    for small in (1 << 40, 0):
        monkeypatch.setattr("ruler_cli.runs.estimate.SMALL", small)
        words = ("check", "in.jsonl", "--json", "--ledger", "none")
        results.append(json.loads(ruler(*words, *options.split()).stdout))
    exact, guessed = results
    assert (exact["exact"], guessed["exact"]) == (True, False)
    assert guessed["laid_out"] < 200
    for name in ("groups", "rollouts", "rewards", "outcomes"):
        assert guessed[name] == exact[name]
    assert guessed["windows"] == pytest.approx(exact["windows"], rel=0.2)
    for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        figure = guessed[name]
        assert figure["low"] <= figure["expected"] <= figure["high"]
        near = pytest.approx(exact[name]["expected"], rel=0.05)
        assert figure["expected"] == near
