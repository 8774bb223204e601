"""Details of single formats: examples with some members changed, row by row of `tests/data`."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.conftest import ROOT
from tests.conftest import read as read_file
from tests.formats.changes import sample
from tests.values import line, read, reader

DATA = ROOT / "tests/data"
GONE = "<gone>"
"""The value of a member to remove."""


def put(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a record with other values at dotted paths."""
    out = copy.deepcopy(record)
    for path, value in changes.items():
        *parents, last = path.split(".")
        at: Any = out
        for part in parents:
            at = (
                at[int(part)]
                if isinstance(at, list)
                else at.setdefault(part, {})
            )
        if value == GONE:
            at.pop(last, None)
        else:
            at[int(last) if isinstance(at, list) else last] = value
    return out


def test_unreadable(subtests: pytest.Subtests) -> None:
    """An unreadable record has a reason in the words of its framework."""
    for name, changes, message in read_file(DATA / "unreadable.jsonl"):
        with (
            subtests.test(name=name, changes=str(changes)),
            pytest.raises(UnreadableError, match=message),
        ):
            reader(*sample(name)).read(line(put(sample(name)[0], changes)))
    for empty in ("", None):
        with pytest.raises(UnreadableError, match="when a run crashed"):
            read({"task_id": 4, "trial": 0, "traj": empty})


def test_grouped(subtests: pytest.Subtests) -> None:
    """Two rollouts are one group exactly if their framework compares them."""
    for name, alike, apart in read_file(DATA / "grouped.jsonl"):
        first = sample(name)[0]
        if name == "nemo_rl":
            first["content"] = [["q", "a"]]
        with subtests.test(name=name):
            key = read(first)[0].key
            same = {read(put(first, change))[0].key for change in alike}
            assert same <= {key}
            keys = {read(put(first, change))[0].key for change in apart}
            assert len(keys - {key}) == len(apart)


def test_broken_rollouts(subtests: pytest.Subtests) -> None:
    """An unreadable rollout has an error, and the other rollouts of its record have none."""
    for name, changes, wanted in read_file(DATA / "broken_rollouts.jsonl"):
        records = reader(*sample(name)).read(
            line(put(sample(name)[0], changes))
        )
        rollouts = [
            rollout for record in records for rollout in record.rollouts
        ]
        rollouts.sort(key=lambda rollout: rollout.path)
        with subtests.test(name=name, changes=str(changes)):
            assert [rollout.error is None for rollout in rollouts] == wanted
