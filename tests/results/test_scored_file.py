"""Counts of the annotations of a scored file."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.config import InputSettings
from ruler_cli.results.annotations import MOST_JUDGES
from ruler_cli.results.scored_file import ScoredFile
from tests.conftest import write
from tests.results.test_annotations import annotation, trajectory
from tests.values import talk


def seen(folder: Path, *records: dict[str, Any], **where: Any) -> Counter[str]:
    """The counts of a file of these records that are not 0, but for groups and rollouts."""
    path = write(folder / "in.jsonl", list(records))
    with ExitStack() as stack:
        file = ScoredFile(InputSettings(str(path), **where), stack, lambda one: pytest.fail(one.reason))
        assert [len(marked.rollouts) for _, marked in file.groups()] == [len(records)]
        assert (file.counts["groups"], file.counts["rollouts"]) == (1, len(records))
        return +Counter({name: n for name, n in file.counts.items() if name not in ("groups", "rollouts")})


def test_what_cannot_be_used(tmp_path: Path) -> None:
    """Rollouts without a usable annotation, score or label are counted; so are costs."""
    failed = {"status": "failed", "kind": "refused", "reason": "no", "independent_reward": 1}
    assert seen(
        tmp_path,
        trajectory(failed, reward=None),
        {"group_id": "g", "messages": talk("x"), "reward": 0.5},
        trajectory(annotation(0.5, independent_reward=None), reward=0.5),
        trajectory(annotation(0.5, independent_reward="maybe", group={"cost_usd": -1})),
        trajectory(annotation("0.5")),
        trajectory(annotation(0.9, judge_score=0.4)),
    ) == {"scored": 3, "moved": 1, "odd_costs": 1} | dict.fromkeys(
        ("failed", "unmarked", "odd_scores", "unlabelled", "odd_labels"), 1
    )


def test_labels_at_a_path(tmp_path: Path) -> None:
    """Labels at the user's path are counted if they are no numbers, and if they are the scores."""
    given: list[Any] = ["passed", False, None, [{}], 0.5]
    records = [trajectory(annotation(0.5), metadata={"ok": ok}) for ok in given]
    counts = {"scored": 5, "unlabelled": 1, "odd_labels": 1, "own_labels": 1}
    assert seen(tmp_path, *records, outcome="metadata.ok", outcome_option="--labels") == counts


def test_very_many_judges(tmp_path: Path) -> None:
    """Of very many judges the first few are read, the others are counted."""
    records = [trajectory(annotation(0.5, judges={f"{i}{j}": 0.5 for j in range(9)})) for i in range(2)]
    assert seen(tmp_path, *records) == {"scored": 2, "more_judges": 18 - MOST_JUDGES}
