"""Rollouts that a small model reads in seconds, and the laws that hold for any answer of a judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import Done
from tests.conftest import SHARED, read
from tests.e2e.recorder import Seen

CONTEXT = 4096
"""Tokens of a slot: more than a request of these tests and its answer take."""
NARROW = 1280
"""Tokens of a slot, too few for a group of four short rollouts and enough for two of them."""
SAMPLES = Path(__file__).resolve().parents[2] / "samples"
TAU_BENCH = SHARED / "data" / "tau_bench_gpt4o_airline.jsonl"
KINDS = {
    "reply",
    "transport",
    "refused",
    "too_long",
    "input",
    "budget",
    "interrupted",
}


@dataclass(frozen=True)
class Run:
    """A run of `ruler score`: its exit code, output and summary, and its requests and answers."""

    done: Done
    out: Path
    summary: dict[str, Any]
    seen: Sequence[Seen]

    @property
    def code(self) -> int:
        """The exit code."""
        return self.done.returncode


def real(folder: Path) -> Path:
    """The beginnings of a real agent's rollouts; a sample if there are none."""
    if not TAU_BENCH.exists():
        return SAMPLES / "groups.jsonl"
    taken: dict[int, int] = {}
    lines: list[str] = []
    for line in TAU_BENCH.read_text().splitlines():
        record = json.loads(line)
        task = record["task_id"]
        if taken.get(task, 0) == 2 or (task not in taken and len(taken) == 2):
            continue
        taken[task] = taken.get(task, 0) + 1
        record["traj"] = record["traj"][:6]
        for message in record["traj"]:
            # the rules for the agent are longer than all of its messages
            message["content"] = (message["content"] or "")[:800] or None
        lines.append(json.dumps(record) + "\n")
    path = folder / "airline.jsonl"
    path.write_text("".join(lines))
    return path


def orders(folder: Path, groups: int) -> Path:
    """So many small groups of two rollouts: samples/one.jsonl with other numbers of orders."""
    record = (SAMPLES / "one.jsonl").read_text()
    path = folder / "orders.jsonl"
    path.write_text(
        "".join(record.replace("17", str(17 + i)) for i in range(groups))
    )
    return path


def rollouts(path: Path) -> list[dict[str, Any]]:
    """Every annotated rollout of an output, in order."""
    return [
        rollout
        for record in read(path)
        for rollout in record.get("trajectories", [record])
    ]


def groups(path: Path) -> dict[str, dict[str, Any]]:
    """The group's part of each group of an output."""
    result = {}
    for record in read(path):
        annotation = record["ruler"]
        part = (
            annotation
            if "trajectories" in record
            else annotation.get("group", annotation)
        )
        result[str(record.get("group_id", record.get("task_id")))] = part
    return result


def holds(run: Run, source: Path) -> None:
    """Hold a finished run to the laws of every run."""
    assert run.code in {0, 1}, run.done.stderr
    assert "Traceback" not in run.done.stderr
    marked(run.out, source)
    summary = run.summary
    assert (
        summary["scored"] + sum(summary["failed"].values())
        == summary["groups"]
        == len(groups(run.out))
    )
    assert (run.code == 0) == (not summary["failed"])
    once(run.seen)
    usage(run)


def marked(out: Path, source: Path) -> None:
    """Each rollout has a score from 0 to 1 or an error with its reason, and all else is unchanged."""
    before, after = rollouts(source), rollouts(out)
    assert len(before) == len(after)
    for was, now in zip(before, after, strict=True):
        annotation = now["ruler"]
        if annotation["status"] == "scored":
            assert isinstance(now["reward"], int | float)
            assert 0 <= now["reward"] <= 1
            assert annotation["score"] == now["reward"]
        else:
            assert annotation["status"] == "failed"
            assert annotation["kind"] in KINDS
            assert annotation["reason"]
            assert now["reward"] is None
        assert annotation.get("independent_reward") == was.get("reward")
        ours = {"reward", "ruler", "metrics", "logs"}
        assert {k: v for k, v in now.items() if k not in ours} == {
            k: v for k, v in was.items() if k not in ours
        }


def once(seen: Sequence[Seen]) -> None:
    """No answered request is sent again."""
    answered = [call.request for call in seen if call.status == 200]
    assert len(set(answered)) == len(answered)


def usage(run: Run) -> None:
    """Tokens and calls add up: over the groups, in the summary, and at the server."""
    reported = run.summary["usage"]
    answered = [call for call in run.seen if call.status == 200]
    prompt = sum(call.tokens[0] for call in answered)
    completion = sum(call.tokens[1] for call in answered)
    assert (reported["calls"], reported["prompt"], reported["completion"]) == (
        len(answered),
        prompt,
        completion,
    )
    parts = [
        part["usage"] for part in groups(run.out).values() if "usage" in part
    ]
    if len(parts) == run.summary["groups"] and not run.summary["kept"]:
        names = ("calls", "prompt_tokens", "completion_tokens")
        assert tuple(sum(part[name] for part in parts) for name in names) == (
            len(answered),
            prompt,
            completion,
        )


def as_scored(path: Path) -> str:
    """An output without its times."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            timely = {"judged_at", "latency_s", "cached"}
            return {
                key: bare(inner)
                for key, inner in value.items()
                if key not in timely
            }
        return (
            [bare(inner) for inner in value]
            if isinstance(value, list)
            else value
        )

    return json.dumps([bare(record) for record in read(path)], indent=1)
