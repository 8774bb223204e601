"""TRL's completions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.marking import marked, sample, without
from tests.values import read, reader


def row(**changed: Any) -> dict[str, Any]:
    """One row of the table."""
    record = {"step": 40, "prompt": "user\nq\nassistant\n", "completion": "a", "accuracy_reward": 1.0}
    return {**record, "format_reward": math.nan, "advantage": 0.5, **changed}


def test_reading() -> None:
    """Prompt and completion are one turn each, and a line `user` in a completion is text."""
    found = read(row(completion="a\nuser\nwell done"))[0].rollouts[0]
    assert [m["role"] for m in found.messages] == ["user", "assistant"]
    assert found.messages[1]["content"] == "a\nuser\nwell done"


def test_no_reward() -> None:
    """No total is made up; one of the columns can be named."""
    assert read(row())[0].rollouts[0].reward is None
    assert read(row(), reward="accuracy_reward")[0].rollouts[0].reward == 1.0


def test_key() -> None:
    """Equal prompts of one step are a group."""
    one, same, other, later = read(row(), row(completion="b"), row(prompt="p"), row(step=41))
    assert one.key == same.key
    assert len({one.key, other.key, later.key}) == 3


def test_others() -> None:
    """Columns of ms-swift and steps of one answer are not TRL's completions."""
    for record in (
        {"step": ["1"], "prompt": ["p"], "completion": ["c"], "advantages": [0.1]},
        {"step": ["1"], "prompt": ["p"], "completion": ["c"], "advantage": [0.1]},
        {"prompt": "p", "completions": ["c"], "labels": [True]},
    ):
        with pytest.raises(UsageError):
            reader(record, format="trl")


def test_no_completion() -> None:
    """A row without a completion is told as that."""
    with pytest.raises(UnreadableError, match="no answer in `completion`"):
        read(row(completion=None))


def test_written_back() -> None:
    """`reward` and `ruler` are added; no column is touched."""
    assert len({r.key for r in read(*sample("trl"))}) == 2
    for record in [*sample("trl"), row()]:
        done = marked(record)
        assert without(done, ("reward",), ("ruler",)) == without(record)
        assert (done["reward"], done["ruler"]["independent_reward"]) == (0.5, None)
        assert marked(record, None)["reward"] is None
