"""ms-swift's completions."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, reader


def test_reading() -> None:
    """Equal prompts of a line are a group; there is no total reward, and none is made up."""
    first, second = keyed(*sample("ms_swift")).values()
    assert said(first) == ["Platform 4, at 22:10.", "Platform 7, I think.", "I could not find out."]
    assert [r.reward for r in (*first, *second)] == [None] * 5


def test_reward_function() -> None:
    """Which reward function is the comparison, the user says, and its list is then replaced."""
    record = sample("ms_swift")[0]
    found = reader(record, reward="Accuracy")
    done = written(record, SCORED, found=found)
    assert [r.reward for part in keyed(record, reward="Accuracy").values() for r in part] == [1.0, 0.0, 0.0]
    assert done["Accuracy"] == [0.625] * 3
    assert [m["independent_reward"] for m in done["ruler"]] == [1.0, 0.0, 0.0]


def test_megatron() -> None:
    """Megatron's lines have `gen_step` for `step`, and GKD's no advantages."""
    record = {"gen_step": [3, 3], "prompt": ["q", "r"], "completion": ["a", "b"]}
    assert reader(record).format.name == "ms-swift steps"
    assert len(keyed(record)) == 2


def test_unequal() -> None:
    """Lists of unequal length cannot be read."""
    record = sample("ms_swift")[0]
    record["completion"] = record["completion"][:2]
    with pytest.raises(UnreadableError, match="`completion` has 2 items for 3 rollouts"):
        read(record)


def test_written() -> None:
    """A list `reward` is added, beside one of each reward function, and `ruler` is one more column."""
    record = sample("ms_swift")[0]
    done = written(record, SCORED, LOST)
    assert changed(record, done) == {"reward", "ruler"}
    assert done["reward"] == [0.625, None, None]
    assert [m["status"] for m in done["ruler"]] == ["scored", "failed", "failed"]
    same_twice(record)


def test_rows() -> None:
    """The Ray trainers' rollouts: the same prompt in another step is another group."""
    groups = list(keyed(*sample("ms_swift_ray")).values())
    assert [[r.reward for r in group] for group in groups] == [[1.0, 0.0], [None, None]]
    record = sample("ms_swift_ray")[0]
    assert changed(record, written(record, SCORED)) == {"reward", "ruler"}
    with pytest.raises(UnreadableError, match="no group key"):
        read(record, {"gen_step": 1, "completion": "a"})
