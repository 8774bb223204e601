"""Scored files for selections: small builders, and readers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from ruler_cli.results.choice import Choice, Keep
from ruler_cli.results.conditions import parse_condition
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.record import GroupRecord
from ruler_cli.results.select import select
from ruler_cli.runs.file import score
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import (
    InputSettings,
    JudgeSettings,
    ScoreSettings,
)
from ruler_cli.types import Group, Problem
from tests.values import talk


def annotation(score: Any, label: Any = None, **more: Any) -> dict[str, Any]:
    """An annotation as `score` writes it; without a score it is that of a failed rollout."""
    if score is None:
        return {
            "status": "failed",
            "kind": "reply",
            "reason": "none",
            "independent_reward": label,
        }
    return {
        "status": "scored",
        "score": score,
        "judge": "m",
        "independent_reward": label,
        **more,
    }


def trajectory(score: Any, label: Any = None, **more: Any) -> dict[str, Any]:
    """A scored trajectory."""
    return {
        "messages": talk(f"{score} {label}"),
        "reward": score,
        "ruler": annotation(score, label),
        **more,
    }


def grouped(
    name: str, *scores: Any, labels: Sequence[Any] = (), **part: Any
) -> dict[str, Any]:
    """A scored group on a line; `part` is the group's part of its annotation."""
    both = zip(scores, labels or [None] * len(scores), strict=True)
    status = "scored" if any(s is not None for s in scores) else "failed"
    trajectories = [
        trajectory(s, y, id=f"{name}{i}") for i, (s, y) in enumerate(both)
    ]
    return {
        "group_id": name,
        "trajectories": trajectories,
        "ruler": {"status": status, **part},
    }


GROUPS = [
    grouped("a", 0.1, 0.9, 0.5, labels=(0, 1, 1), reliability=0.9),
    grouped("b", 0.5, 0.5, labels=(1, 0), reliability=0.2),
    grouped("c", None, None, labels=(1, 0)),
    grouped("d", 0.8, 0.2, None, labels=(0, 1, 1), reliability=0.5),
    grouped("e", 0.4, 0.7, labels=(1, 1), tied=True),
]
"""A live group with a reliability, a tie, a failed group, one against its labels, one annotated as tied."""


def lines(*groups: dict[str, Any]) -> list[dict[str, Any]]:
    """The same groups with a trajectory per line, each with the group's part."""
    return [
        {
            **t,
            "group_id": group["group_id"],
            "ruler": {**t["ruler"], "group": group["ruler"]},
        }
        for group in groups
        for t in group["trajectories"]
    ]


def dump(path: Path, records: Sequence[Any]) -> Path:
    """Write records as JSON lines, NaN included."""
    path.write_bytes(
        b"".join(json.dumps(record).encode() + b"\n" for record in records)
    )
    return path


def selected(
    source: Path,
    output: Path,
    *where: str,
    keep: Keep | None = None,
    **more: Any,
) -> Counter[str]:
    """Run a selection in which every line can be read."""
    problems: list[Problem] = []
    chosen = select(
        InputSettings(str(source), **more),
        str(output),
        open_input,
        Choice([*map(parse_condition, where)], keep),
        on_problem=problems.append,
    )
    assert not problems
    return chosen.counts


def scored_by(judge: str, source: Path, output: Path) -> Path:
    """Score a file to the end."""
    settings = ScoreSettings(
        InputSettings(str(source)), str(output), JudgeSettings(judge)
    )
    done = anyio.run(score, settings)
    assert done.summary.complete, done.summary
    return output


def read_groups(path: Path) -> list[tuple[Group, GroupRecord]]:
    """Read the groups of a scored file, with their annotations."""
    with ExitStack() as stack:
        file = ScoredFile(
            open_input(
                InputSettings(str(path)),
                stack,
                lambda problem: pytest.fail(problem.reason),
            )
        )
        return [(group, scored) for _, group, scored in file.groups()]


def annotated_groups(path: Path) -> list[GroupRecord]:
    """Read the annotations of the groups of a scored file."""
    return [row for _, row in read_groups(path)]
