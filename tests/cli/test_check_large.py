"""`ruler check` of a large input: the estimate from a sample is near the figures of all groups."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Ruler
from tests.values import talk

Made = list[dict[str, Any]]
Both = Callable[..., tuple[dict[str, Any], dict[str, Any]]]


def dump(
    path: Path,
    groups: int,
    make: Callable[[random.Random, int], Made],
    lie: str = "adjacent",
) -> Path:
    """A file of groups: one per line, or their rollouts adjacent, or scattered."""
    dice = random.Random(7)
    made = [make(dice, i) for i in range(groups)]
    if lie == "line":
        rows: Made = [
            {"group_id": f"g{i}", "trajectories": each}
            for i, each in enumerate(made)
        ]
    else:
        pairs = [
            (k, i, rollout)
            for i, each in enumerate(made)
            for k, rollout in enumerate(each)
        ]
        order = (
            sorted(pairs, key=lambda pair: pair[:2])
            if lie == "scattered"
            else pairs
        )
        rows = [{"group_id": f"g{i}", **rollout} for _, i, rollout in order]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def uneven(dice: random.Random, number: int) -> Made:
    """Two to six rollouts of very different lengths, in records that hold other text too."""
    asked = f"Task {number}: " + "why " * dice.randint(1, 60)
    return [
        {
            "messages": talk(
                "so " * int(dice.triangular(5, 900, 60)) + f"{k}", asked
            ),
            "reward": dice.random(),
            "logprobs": [0.125] * dice.randint(20, 60),
        }
        for k in range(dice.randint(2, 6))
    ]


def repeated(dice: random.Random, number: int) -> Made:
    """Three rollouts; in every fifth group two are equal and in every tenth all; ids of calls differ."""

    def one(text: str) -> dict[str, Any]:
        identity = f"call_{dice.getrandbits(64):016x}"
        call = {"id": identity, "function": {"name": "look", "arguments": "{}"}}
        asked, answer = talk(text, f"Task {number}?")
        middle: list[Any] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": identity,
                "content": "found it " * 9,
            },
        ]
        return {"messages": [asked, *middle, answer]}

    return [
        one(f"It is {letter * 3}." * 9)
        for letter in {0: "aaa", 5: "aab"}.get(number % 10, "abc")
    ]


def large(dice: random.Random, number: int) -> Made:
    """Every other group is too large for a context of 8,192 tokens, and is shown in windows."""
    sizes = dice.randint(10, 40) if number % 2 else 3
    return [
        {"messages": talk(f"{k} " + "word " * dice.randint(500, 900))}
        for k in range(sizes)
    ]


def long(dice: random.Random, number: int) -> Made:
    """Every third group holds rollouts of which no two fit a context of 8,192 tokens."""
    words = 9_000 if number % 3 == 0 else 100
    return [{"messages": talk(f"{k} " + "word " * words)} for k in range(2)]


@pytest.fixture
def both(ruler: Ruler, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Return the output of `check` for a file, with all groups rendered and with a sample."""

    def check(path: Path, *args: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        result = []
        for small in (1 << 40, 0):
            monkeypatch.setattr("ruler_cli.runs.estimate.SMALL", small)
            result.append(
                json.loads(ruler("check", path, "--json", *args).stdout)
            )
        return result[0], result[1]

    return check


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (
            uneven,
            [
                "-m",
                "openai/o3",
                "--passes",
                "3",
                "--group-size",
                "2",
                "--set",
                "adaptive=true",
            ],
        ),
        (repeated, ["-m", "openai/o3", "--passes", "2"]),
        (large, ["-m", "openai/gpt-4", "--passes", "2"]),
        (
            long,
            [
                "-m",
                "openai/gpt-4",
                "-m",
                "openai/gpt-3.5-turbo-0301",
                "--price",
                "1,2",
                "--price",
                "1,2",
            ],
        ),
    ],
)
def test_close_estimate(
    make: Callable[[random.Random, int], Made],
    args: list[str],
    both: Both,
    tmp_path: Path,
) -> None:
    """Figures are near those of all groups, and so is the cap that is named."""
    exact, guessed = both(
        dump(tmp_path / "in.jsonl", 300, make), *args, "--ledger", "none"
    )
    assert exact["exact"]
    assert not guessed["exact"]
    assert guessed["laid_out"] < 200
    for name in ("groups", "rollouts", "rewards", "outcomes"):
        assert guessed[name] == exact[name]
    for name in ("identical_rollouts", "tied_groups", "windows"):
        assert guessed[name] == pytest.approx(exact[name], rel=0.2)
    mine, whole = guessed, exact
    for name in ("calls", "prompt_tokens", "completion_tokens", "cost_usd"):
        assert mine[name]["low"] <= mine[name]["expected"] <= mine[name]["high"]
        assert mine[name]["expected"] == pytest.approx(
            whole[name]["expected"], rel=0.05
        )


def test_few_groups(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last group of a sample counts for as many groups as are left, in tokens too."""
    monkeypatch.setattr("ruler_cli.runs.estimate._SAMPLED", 2)
    same = [{"messages": talk(f"{k} " + "so " * 900)} for k in range(3)]
    path = dump(tmp_path / "in.jsonl", 3, lambda *_: same)
    exact, guessed = (
        facts["prompt_tokens"]["expected"]
        for facts in both(path, "-m", "openai/o3", "--ledger", "none")
    )
    assert guessed == pytest.approx(exact, rel=0.01)


def test_any_grouping(both: Both, tmp_path: Path) -> None:
    """The sample covers the groups in any order of their records, and in a file that is not seekable."""
    scattered = dump(tmp_path / "in.jsonl", 200, uneven, "scattered")
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(
        gzip.compress(dump(tmp_path / "a.jsonl", 200, uneven).read_bytes())
    )
    lines = dump(tmp_path / "lines.jsonl", 200, uneven, "line")
    result = [
        both(path, "-m", "openai/o3", "--ledger", "none")
        for path in (scattered, packed, lines)
    ]
    assert result[0][1]["cost_usd"] == result[1][1]["cost_usd"]
    for exact, guessed in result:
        assert guessed["calls"] == exact["calls"]
