"""Prompt tokens of rollouts that were sampled as a tree, or tried again from a turn, against each shown whole.

    python -m benchmarks.branches [--quick]
    python -m benchmarks.branches INPUT     count once, and print JSON

The turns are those of tau-bench. A tree has three levels with two branches each: it branches halfway through the
turns that are left, or at each third of them. Or two rollouts are tried again three times each from turn 20.
tau-bench itself samples every rollout by itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from benchmarks.commands import printed
from benchmarks.promises import TAU_BENCH
from benchmarks.results import Result, alone
from benchmarks.tokens import counter, ours
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group
from tests.trees import (
    LEAVES,
    RETRIED,
    THIRDS,
    Turns,
    conversations,
    retries,
    tree,
)

_TASK = 2
"""Messages of a task: the system prompt and the user's first message."""
_LIMITS = {"tree": 0.6, "even tree": None, "retries": 0.6, "tau-bench": None}


def measure(_: Path, __: bool) -> Iterator[Result]:
    """Compare the tokens of both, over groups made of all rollouts of the file."""
    if not TAU_BENCH.exists():
        detail = f"skipped: {TAU_BENCH} is not there"
        yield Result(None, "prompt size of a tree", None, detail, "<=", 0.6)
        return
    for name, (shared, whole, unit) in printed(
        "benchmarks.branches", TAU_BENCH
    ).items():
        what = f"prompt size, {name}: shared messages once / in each rollout"
        detail = f"{shared:,} / {whole:,} {unit}"
        yield Result(None, what, shared / whole, detail, "<=", _LIMITS[name])


def _count(source: Path) -> None:
    """Print the tokens with and without shared messages, and their unit, of groups made of a dump."""
    unit, count = counter()
    counts = {}
    for name, groups in _groups(source).items():
        shared = sum(count(text) for group in groups for text in ours(group))
        with patch("ruler_cli.prompting.prompt._WORTH", 1.0):
            whole = sum(count(text) for group in groups for text in ours(group))
        counts[name] = (shared, whole, unit)
    print(json.dumps(counts))


def _groups(source: Path) -> dict[str, list[Group]]:
    """Make groups of all conversations of a dump that are long enough; and read it as it is."""
    rollouts = conversations(source)
    task = rollouts[0][:_TASK]
    turns = [each[_TASK:] for each in rollouts]
    long = [each for each in turns if len(each) > RETRIED]
    with ExitStack() as stack:
        given = open_input(
            InputSettings(str(source)), stack, lambda _: None
        ).groups
        independent = list(given)
    return {
        "tree": [tree(task, each) for each in _parts(turns)],
        "even tree": [tree(task, each, THIRDS) for each in _parts(turns)],
        "retries": [retries(task, each) for each in _parts(long)],
        "tau-bench": independent,
    }


def _parts(turns: list[Turns]) -> list[list[Turns]]:
    """Return LEAVES at a time; what is left over is left out."""
    return [
        turns[at : at + LEAVES]
        for at in range(0, len(turns) - LEAVES + 1, LEAVES)
    ]


if __name__ == "__main__":
    if sys.argv[1:] in ([], ["--quick"]):
        sys.exit(alone(measure))
    _count(Path(sys.argv[1]))
