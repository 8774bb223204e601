"""Harbor's trials and exported traces."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, reader


def test_trials() -> None:
    """A trial's group is its task, its reward the verifier's, also as the verifier's own file says it."""
    groups = keyed(*sample("harbor_trials"))
    assert list(groups) == ["train", "tiles"]
    assert [(r.reward, r.outcome) for r in groups["train"]] == [(1.0, "1.0"), (0.0, "0.0")]
    assert said(groups["tiles"])[0] == "8 by 6 tiles: 48."


@pytest.mark.parametrize("filed", ["0.5", {"reward": "0.5"}])
def test_reward_file(filed: Any) -> None:
    """Where the result names no reward, the verifier's file does."""
    record = sample("harbor_trials")[0]
    record = {**record, "result": {**record["result"], "verifier_result": None}, "reward_file": filed}
    assert read(record)[0].rollouts[0].reward == "0.5"
    assert written(record, SCORED)["result"]["verifier_result"] == {"rewards": {"reward": 0.625}}
    assert written(record, LOST)["result"]["verifier_result"] is None


def test_trial_written() -> None:
    """The score stands where the verifier's reward stood, and is taken out where there is none."""
    record = sample("harbor_trials")[0]
    done = written(record, SCORED)
    assert changed(record, done) == {"result.ruler", "result.verifier_result.rewards.reward"}
    assert done["result"]["ruler"]["independent_reward"] == 1.0
    lost = written(done, LOST, found=reader(record))
    assert lost["result"]["verifier_result"] == {"rewards": {}}
    assert lost["result"]["ruler"]["independent_reward"] == 1.0
    kept = written(done, LOST, on_failure="keep", found=reader(record))
    assert kept["result"]["verifier_result"] == {"rewards": {"reward": 1.0}}
    same_twice(record)


def test_trial_without_trajectory() -> None:
    """A trial whose agent never ran says what it ended with."""
    record = sample("harbor_trials")[0]
    result = {**record["result"], "exception_info": {"exception_type": "AgentSetupTimeoutError"}}
    with pytest.raises(UnreadableError, match="the trial ended with AgentSetupTimeoutError"):
        read({**record, "result": result, "trajectory": None})


def test_export() -> None:
    """Episodes of one trial are one rollout; a result is text, a number or an exception's name."""
    groups = keyed(*sample("harbor_traces"))
    assert [r.member for r in groups["train"]] == ["train__k1", "train__k1", "train__k2"]
    assert [r.reward for r in groups["tiles"]] == ["1.0", "AgentTimeoutError"]


def test_export_written() -> None:
    """A result stays text, and is null where there is no score."""
    record = sample("harbor_traces")[-1]
    done = written(record, SCORED)
    assert changed(record, done) == {"result", "ruler"}
    assert done["result"] == "0.625"
    assert done["ruler"]["independent_reward"] == "AgentTimeoutError"
    assert written(record, LOST)["result"] is None
    same_twice(record)


@pytest.mark.parametrize("conversations", [None, []])
def test_export_without_messages(conversations: Any) -> None:
    """A row without messages says so."""
    with pytest.raises(UnreadableError, match="`conversations`"):
        read({**sample("harbor_traces")[0], "conversations": conversations})
