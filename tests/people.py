"""People who compare the rollouts of the simulated judge, whose texts hold their truth.

python -m tests.people        write samples/labels/people.jsonl anew
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.simulated import truth
from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.command import run_here
from tests.conftest import ROOT

SAMPLE = ROOT / "samples" / "labels" / "people.jsonl"
_EQUAL = 0.02
"""Truths that differ by less look equal to a person."""
_UNSURE = 0.03


def rollouts(scored: Path) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Yield the name of each group, and the id and the truth of its rollouts."""
    with ExitStack() as stack:
        file = ScoredFile(
            open_input(InputSettings(source=str(scored)), stack, print)
        )
        for _, group, annotated in file.groups():
            truths = [truth(json.dumps(one.messages)) for one in group.rollouts]
            ids = rollout_ids(group, annotated)
            yield group_name(group.key), list(zip(ids, truths, strict=True))


def comparisons(
    scored: Path,
    number: int,
    people: Mapping[str, float],
    *,
    seed: int = 0,
    drawn: str = "random",
) -> list[dict[str, Any]]:
    """Draw pairs of rollouts, and return what people say of them; each person has a noise on the truth."""
    dice = random.Random(seed)
    pairs = [
        (name, *pair)
        for name, group in rollouts(scored)
        for pair in combinations(group, 2)
        if pair[0][0] != pair[1][0]
    ]
    lines = []
    for name, *pair in dice.sample(pairs, number):
        for by, noise in people.items():
            (left, better), (right, worse) = dice.sample(pair, 2)
            apart = better - worse + dice.gauss(0, noise)
            choice = "left" if apart > 0 else "right"
            if abs(apart) < _EQUAL:
                choice = "equal"
            if dice.random() < _UNSURE:
                choice = "unsure"
            line = {
                "group": name,
                "left": left,
                "right": right,
                "choice": choice,
            }
            lines.append(line | _rest(by, drawn, number / len(pairs)))
    return lines


def _rest(by: str, drawn: str, chance: float) -> dict[str, Any]:
    more = {"chance": round(chance, 6)} if drawn == "random" else {}
    return {
        "note": "",
        "by": by,
        "drawn": drawn,
        **more,
        "at": "2026-11-21T02:14:05Z",
    }


def sample(folder: Path) -> str:
    """Return the text of the sample: two people on 80 pairs of samples/simulated.jsonl."""
    scored = folder / "scored.jsonl"
    source = ROOT / "samples" / "simulated.jsonl"
    command = ["score", str(source), str(scored), "-m", "simulated"]
    done = run_here(command, "", folder, {})
    assert done.returncode == 0, done.stderr
    lines = comparisons(scored, 80, {"ana": 0.03, "bo": 0.08})
    return "".join(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        SAMPLE.write_text(sample(Path(name)), encoding="utf-8")
