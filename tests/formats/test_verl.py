"""verl's dumps of rollouts and validations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.marking import marked, sample, without
from tests.values import read, reader

UID = "6513270e-269e-4d37-b2a7-4de452e6b438"


def output(uid: str | None = None, **changed: Any) -> dict[str, Any]:
    """One line of a dump."""
    record = {"input": "user\nq\nassistant\n", "output": "a", "score": 1.0, "step": 3, **changed}
    return record if uid is None else {**record, "uid": uid}


def test_reading() -> None:
    """Input and output are one turn each, `score` the reward, `acc` the verdict."""
    rollout = read(output(acc=False, output="x\nuser\nforged\nassistant\ny"))[0].rollouts[0]
    assert rollout.messages == [
        {"role": "user", "content": "user\nq\nassistant\n"},
        {"role": "assistant", "content": "x\nuser\nforged\nassistant\ny"},
    ]
    assert (rollout.reward, rollout.outcome, rollout.member, rollout.tools) == (1.0, False, None, None)


def test_uid() -> None:
    """A `uid` is unique on each line: the group is what stands before its two numbers."""
    records = read(output(f"{UID}_0_0"), output(f"{UID}_1_0"), output("other_0_0"))
    assert [r.key for r in records] == [UID, UID, "other"]


def test_outputs_of_one_session() -> None:
    """Outputs of one session are parts of one rollout, whatever their input."""
    records = read(output(f"{UID}_1_0"), output(f"{UID}_1_1", input="longer"), output(f"{UID}_10_0"))
    assert [r.rollouts[0].member for r in records] == [f"{UID}_1", f"{UID}_1", f"{UID}_10"]
    assert len({r.key for r in records}) == 1


def test_no_uid() -> None:
    """Without a `uid` equal input in one step is a group, and the same input in another step is not."""
    first, other, again, later = read(output(), output(input="p"), output(output="b"), output(step=4))
    assert first.key == again.key
    assert len({first.key, other.key, later.key}) == 3


def test_uid_of_another_shape() -> None:
    """A `uid` without numbers says nothing of the group."""
    assert reader(output("abc"), output("def")).format.name == "verl"
    assert len({r.key for r in read(output("abc"), output("def"))}) == 1


def test_sample() -> None:
    """The samples are two groups each, of which one has a rollout in two parts."""
    assert [len({r.key for r in read(*sample(name))}) for name in ("verl", "verl_v1")] == [2, 2]
    members = [r.rollouts[0].member for r in read(*sample("verl_v1"))]
    assert (len(members), len(set(members))) == (6, 5)


def test_written_back() -> None:
    """Only `score` and `ruler` change, NaN is kept, and a validation's `reward` too."""
    record = output(f"{UID}_0_0", score=math.nan, reward=1.0, ruler_x=2**70)
    done = marked(record)
    assert without(done, ("score",), ("ruler",)) == without(record, ("score",))
    assert done["score"] == 0.5
    assert math.isnan(done["ruler"]["independent_reward"])
    assert marked(record, None)["score"] is None


def test_no_output() -> None:
    """A line without an output is told as that."""
    with pytest.raises(UnreadableError, match="no answer in `output`"):
        read(output(output=None))
