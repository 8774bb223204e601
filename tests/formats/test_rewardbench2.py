"""RewardBench 2."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read


def test_reading() -> None:
    """Right answers come first, and where an answer stands is its outcome; ties have several."""
    groups = keyed(*sample("rewardbench2"))
    assert list(groups) == ["train", "tiles"]
    assert [r.outcome for r in groups["train"]] == [True, False, False]
    assert [r.outcome for r in groups["tiles"]] == [True, True, False]
    assert said(groups["tiles"])[1] == "Forty-eight."
    assert [r.path for r in groups["tiles"]] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("name", ["chosen", "rejected"])
def test_no_list(name: str) -> None:
    """A line without one of the lists cannot be read."""
    record = sample("rewardbench2")[0]
    with pytest.raises(UnreadableError, match=f"no list `{name}`"):
        read(record, {**record, name: None})


def test_written() -> None:
    """There is no room for a score but `ruler`, right answers first."""
    record = sample("rewardbench2")[0]
    done = written(record, SCORED)
    assert changed(record, done) == {"ruler"}
    assert len(done["ruler"]["rollouts"]) == 3
    same_twice(record)
