"""Rows of evaluations: tinker-cookbook and eval-protocol."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, reader


@pytest.mark.parametrize("name", ["tinker", "eval_protocol"])
def test_reading(name: str) -> None:
    """Runs of one example are a group."""
    groups = keyed(*sample(name))
    assert list(groups) == ["train", "tiles"]
    assert said(groups["train"]) == ["Platform 4, at 22:10.", "Platform 7, I think."]
    assert [r.reward for r in groups["train"]] == [1.0, 0.0]


def test_tinker_written() -> None:
    """Reward and `ruler` alone are written: metrics and logs are the benchmark's own."""
    record = sample("tinker")[0]
    assert changed(record, written(record, SCORED)) == {"reward", "ruler"}
    same_twice(record)


def test_eval_protocol_written() -> None:
    """The score is replaced where it stands, or made, and null where there is none."""
    first, *_, last = sample("eval_protocol")
    done = written(first, SCORED)
    assert changed(first, done) == {"evaluation_result.score", "ruler"}
    assert done["ruler"]["independent_reward"] == 1.0
    assert written(last, SCORED)["evaluation_result"] == {"score": 0.625}
    assert written(first, LOST)["evaluation_result"]["score"] is None
    assert written(last, LOST, on_failure="keep")["evaluation_result"] is None
    same_twice(first)


@pytest.mark.parametrize(("name", "where"), [("tinker", "turns"), ("eval_protocol", "messages")])
def test_no_messages(name: str, where: str) -> None:
    """A row without messages says so."""
    with pytest.raises(UnreadableError, match=f"no messages in `{where}`"):
        read({**sample(name)[0], where: []})


def test_tinker_summaries() -> None:
    """Summaries of the trainer hold no text."""
    with pytest.raises(UsageError, match="no text"):
        reader({"group_idx": 0, "traj_idx": 1, "total_reward": 1.0, "tags": ["x"]})
