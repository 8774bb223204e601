"""Samples of slime and miles, and items of slime's buffer."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.marking import marked, sample, without
from tests.values import read, reader, talk


def one(**changed: Any) -> dict[str, Any]:
    """One exported sample of slime."""
    record = {"group_index": 2, "index": 9, "prompt": "What is 2+2?", "tokens": [1], "response": "4"}
    return {**record, "reward": 1.0, "status": "completed", **changed}


def miles(**changed: Any) -> dict[str, Any]:
    """One line of miles."""
    record = {"sample_index": 9, "group_index": 2, "status": "completed", "reward": None}
    return {**record, "prompt": "<|im_start|>…", "messages": talk("4"), **changed}


@pytest.mark.parametrize(
    ("record", "name"),
    [(one(), "slime samples"), (one(prompt=talk("4")[:1]), "slime samples"), (miles(), "miles samples")],
)
def test_reading(record: Any, name: str) -> None:
    """Prompts are text or messages; recorded messages are the conversation."""
    found = read(record)[0]
    assert (found.key, found.rollouts[0].messages) == ("2", talk("4"))
    assert reader(record).format.name == name


def test_reward_of_several_parts() -> None:
    """A dict of rewards is read as it stands, with its verdict; written is a number, and it is kept."""
    record = one(reward={"score": -1.0, "acc": False})
    (rollout,) = read(record)[0].rollouts
    assert (rollout.reward, rollout.outcome) == ({"score": -1.0, "acc": False}, False)
    done = marked(record)
    assert (done["reward"], done["metadata"]["ruler"]["independent_reward"]) == (0.5, record["reward"])
    kept = marked(record, reward="reward.score")
    assert kept["reward"] == {"score": 0.5, "acc": False}
    assert kept["metadata"]["ruler"]["independent_reward"] == -1.0


def test_aborted() -> None:
    """An aborted sample answered nothing, which can be judged; one never generated cannot."""
    assert read(one(response="", status="aborted"))[0].rollouts[0].messages[1]["content"] == ""
    for record in (one(response=None, status="pending"), miles(messages=[]), miles(messages=None)):
        with pytest.raises(UnreadableError, match="was never generated"):
            read(record)


def test_buffer() -> None:
    """An item's own `uid` is no group; `instance_id` is."""
    item = {"uid": "4f", "messages": talk("4"), "reward": 1.0, "instance_id": "gsm8k-0", "extra_info": {}}
    record = read(item)[0]
    assert (record.key, record.rollouts[0].messages) == ("gsm8k-0", talk("4"))
    assert reader(item).format.name == "slime buffer items"


def test_others() -> None:
    """A native trajectory with a `group_index`, and a row of ART's table, are not slime's."""
    assert reader({"group_index": 0, "messages": talk("4")}).format.name == "native trajectories"
    row = {"group_index": 0, "group_metadata": "{}", "messages": talk("4"), "sample_index": 1}
    assert reader(row).format.name == "ART table rows"


@pytest.mark.parametrize(("name", "place"), [("slime", ("metadata",)), ("miles", ()), ("slime_buffer", ())])
def test_written_back(name: str, place: tuple[str, ...]) -> None:
    """Only `reward` and `ruler` change, which a sample of slime takes in its `metadata`."""
    assert len({r.key for r in read(*sample(name))}) == 2
    for record in sample(name):
        done = marked(record)
        ours = (*place, "ruler")
        assert without(done, ("reward",), ours) == without(record, ("reward",))
        assert (done["metadata"] if place else done)["ruler"]["independent_reward"] == record["reward"]
