"""Groups with known truth for `benchmarks.small_judges`: code that tests have run, and the traces of `samples/`.

    python -m benchmarks.labelled FOLDER      writes code.jsonl (16 groups of 4) and traces.jsonl

The tasks of code, with answers and checks, stand in `labelled.toml`; the checks decide which answers are right. The
label of a trace is the reward in its sample.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

_TASKS = Path(__file__).with_suffix(".toml")
_SAMPLES = Path(__file__).resolve().parents[1] / "samples"


def _passes(answer: str, checks: list[str]) -> bool:
    """Run the checks on an answer, in a namespace of its own; an answer that raises fails."""
    names: dict[str, Any] = {}
    exec(answer, names)
    with suppress(IndexError, TypeError):
        return all(eval(check, names) for check in checks)
    return False


def code() -> Iterator[dict[str, Any]]:
    """Yield a group for each task of code; a rollout's reward is 1 if it passes the checks."""
    for task in tomllib.loads(_TASKS.read_text())["tasks"]:
        prompt = {"role": "user", "content": task["text"]}
        rollouts = []
        for answer in task["answers"]:
            said = {"role": "assistant", "content": f"```python\n{answer}\n```"}
            right = int(_passes(answer, task["checks"]))
            rollouts.append({"messages": [prompt, said], "reward": right})
        name = re.findall(r"`(\w+)", task["text"])[0]
        yield {"group_id": name, "trajectories": rollouts}


def _records(name: str) -> Iterator[dict[str, Any]]:
    for line in (_SAMPLES / name).read_text().splitlines():
        yield json.loads(line)


def traces() -> Iterator[dict[str, Any]]:
    """Yield the groups of tool-calling traces in `samples/` whose rollouts have rewards."""
    groups: dict[str, list[Any]] = {}
    for group in _records("groups.jsonl"):
        groups[group["group_id"]] = [
            {key: rollout[key] for key in ("messages", "reward")}
            for rollout in group["trajectories"]
            if rollout.get("reward") is not None
        ]
    for record in _records("trajectories.jsonl"):
        rollout = {key: record[key] for key in ("messages", "reward")}
        groups.setdefault(record["group_id"], []).append(rollout)
    for record in _records("tau_bench.jsonl"):
        rollout = {"messages": record["traj"], "reward": record["reward"]}
        groups.setdefault(f"tau-{record['task_id']}", []).append(rollout)
    for index, group in enumerate(_records("art_groups.jsonl")):
        groups[f"art-{index}"] = [
            {
                "messages": rollout["messages_and_choices"],
                "reward": rollout["reward"],
            }
            for rollout in group["trajectories"]
        ]
    for name, rollouts in groups.items():
        yield {"group_id": name, "trajectories": rollouts}


def _main() -> None:
    folder = Path(sys.argv[1])
    for name, groups in (("code", code()), ("traces", traces())):
        lines = (json.dumps(group) + "\n" for group in groups)
        (folder / f"{name}.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    _main()
