"""Scored files for the browser to look at, and their reports, made by the command itself."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import orjson

from tests.command import run_apart

FAILURES = (
    ("transport", "the judge did not answer: HTTP 503, tried 7 times"),
    ("reply", "the reply has no score for b"),
    ("refused", "the judge refused: I cannot help with that"),
)
_WORDS = (
    "search",
    "book",
    "cancel",
    "refund",
    "order",
    "parcel",
    "kettle",
    "window",
    "policy",
    "gate",
)


def ruler(*args: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command. It must not fail, but groups may."""
    done = run_apart(
        [str(arg) for arg in args],
        "",
        folder,
        {"XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def plain(
    key: str, *scores: float, output: str = "well done"
) -> dict[str, Any]:
    """A scored group of few words: no label, one pass."""
    return {
        "group_id": key,
        "trajectories": [
            _plain(f"answer {i}", score, output)
            for i, score in enumerate(scores)
        ],
        "ruler": {"status": "scored", "judge": "offline", "passes": 1},
    }


def _plain(answer: str, score: float, output: str) -> dict[str, Any]:
    turns = [
        {"role": "user", "content": "Book a seat."},
        {"role": "assistant", "content": answer},
    ]
    return {
        "messages": turns,
        "reward": score,
        "ruler": {"status": "scored", "score": score, "explanation": output},
    }


def groups(number: int, size: int = 4, seed: int = 6) -> list[dict[str, Any]]:
    """Groups of rollouts that share a prompt and diverge later, with a known truth and a reward."""
    dice = random.Random(seed)

    def words(many: int) -> str:
        return " ".join(dice.choice(_WORDS) for _ in range(many))

    def rollout(prompt: list[dict[str, Any]]) -> dict[str, Any]:
        truth = min(1.0, max(0.0, dice.gauss(0.5, 0.25)))
        messages = [*prompt, {"role": "assistant", "content": "Let me look."}]
        for turn in range(dice.randrange(4)):
            call = {
                "id": f"c{turn}",
                "function": {"name": "get_order", "arguments": '{"id": 7}'},
            }
            messages.append(
                {"role": "assistant", "content": None, "tool_calls": [call]}
            )
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": f"c{turn}",
                    "content": words(9),
                }
            )
        messages.append(
            {
                "role": "assistant",
                "content": f"Done: truth={truth:.2f}\n{words(4)}",
            }
        )
        return {"messages": messages, "reward": float(dice.random() < truth)}

    result = []
    for i in range(number):
        prompt = [{"role": "user", "content": f"Task {i}: {words(8)}"}]
        result.append(
            {
                "group_id": f"task-{i}",
                "trajectories": [rollout(prompt) for _ in range(size)],
            }
        )
    return result


def run_of(folder: Path, number: int, size: int = 4) -> Path:
    """A scored file of that many groups, two passes each.

    Every tenth failed, one has one rollout, in one two rollouts are alike, one is suspect; some have no
    cost, or no exact time.
    """
    records = groups(number, size)
    del records[10]["trajectories"][1:]
    records[12]["trajectories"][2] = records[12]["trajectories"][0]
    source, scored = folder / "run.jsonl", folder / "scored.jsonl"
    write(source, records)
    ruler(
        "score",
        source,
        scored,
        "-m",
        "simulated",
        "--passes",
        "2",
        folder=folder,
    )
    done = [orjson.loads(line) for line in scored.read_bytes().splitlines()]
    dice = random.Random(number)
    for i, record in enumerate(done):
        _spend(record["ruler"], i, dice)
        for j, trajectory in enumerate(record["trajectories"]):
            trajectory["ruler"]["explanation"] = (
                f"Of {i}.{j}: {dice.choice(_WORDS)}, {dice.choice(_WORDS)}"
            )
        if i % 10 == 5:
            fail(record, *FAILURES[i // 10 % len(FAILURES)])
    done[2]["trajectories"][1]["ruler"]["suspect"] = True
    return write(scored, done)


def _spend(annotation: dict[str, Any], i: int, dice: random.Random) -> None:
    """Tokens, cost and time of a group, as if a judge had been paid."""
    prompt, completion = dice.randrange(500, 5_000), dice.randrange(50, 500)
    annotation["judged_at"] = (
        f"2026-11-21T{2 + i // 60 % 20:02}:{i % 60:02}:05Z"
    )
    annotation["latency_s"] = dice.randrange(100, 90_000) / 1_000
    annotation["usage"] |= {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
    }
    if i % 7 == 3:
        del annotation["cost_usd"]
    else:
        annotation["cost_usd"] = (prompt + 4 * completion) / 1e6


def fail(record: dict[str, Any], kind: str, reason: str) -> None:
    """Turn a scored record into one that `score` writes for a failed group."""
    record["ruler"] |= {"status": "failed", "kind": kind, "reason": reason}
    for name in ("passes", "tied", "reliability", "weight", "passes_for_0.9"):
        record["ruler"].pop(name, None)
    for trajectory in record["trajectories"]:
        first = trajectory["ruler"]["independent_reward"]
        lost = {
            "status": "failed",
            "kind": kind,
            "reason": reason,
            "judge": "simulated",
        }
        trajectory |= {
            "reward": None,
            "ruler": lost | {"independent_reward": first},
        }


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    """Records as JSON lines."""
    path.write_bytes(
        b"".join(orjson.dumps(record) + b"\n" for record in records)
    )
    return path


def report_of(scored: Path, folder: Path, *args: str) -> Path:
    """The HTML report of a scored file."""
    report = folder / f"{scored.stem}.html"
    ruler("report", scored, "-o", report, *args, folder=folder)
    return report
