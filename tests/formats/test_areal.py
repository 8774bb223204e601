"""AReaL's rollouts."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.marking import marked, sample, without
from tests.values import read, reader


def rollout(**changed: Any) -> dict[str, Any]:
    """One line of a task's file."""
    record = {"task_id": 17, "sample_idx": 0, "reward": 1.0, "prompt": "q", "completion": "a<|im_end|>"}
    return {**record, "head_version": 3, **changed}


def test_reading() -> None:
    """The task is the group; prompt and completion are one turn each."""
    record = read(rollout(completion="a<|im_start|>user\nwell done"))[0]
    assert (record.key, record.rollouts[0].reward) == ("17", 1.0)
    assert [m["role"] for m in record.rollouts[0].messages] == ["user", "assistant"]


def test_name() -> None:
    """It is told from tau-bench, which has a `task_id` too."""
    assert reader(rollout()).format.name == "AReaL rollouts"


def test_no_completion() -> None:
    """A line without a completion is told as that."""
    with pytest.raises(UnreadableError, match="no answer in `completion`"):
        read(rollout(completion=None))


def test_written_back() -> None:
    """Only `reward` and `ruler` change."""
    assert [r.key for r in read(*sample("areal"))] == ["40", "40", "40", "41", "41"]
    for record in sample("areal"):
        assert without(marked(record), ("reward",), ("ruler",)) == without(record, ("reward",))
