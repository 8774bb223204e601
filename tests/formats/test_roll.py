"""ROLL's columnar steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import line, read, reader, talk


def test_reading() -> None:
    """One line holds several groups: their ids, the prompt's messages as JSON text, and the scores."""
    groups = keyed(*sample("roll"))
    assert list(groups) == ["line 1: train", "line 1: tiles"]
    assert said(groups["line 1: train"]) == [
        "Platform 4, at 22:10.",
        "Platform 7, I think.",
        "I could not find out.",
    ]
    assert [(r.path, r.reward) for r in groups["line 1: tiles"]] == [((1,), 1.0), ((3,), 0.0)]
    assert [m["role"] for m in groups["line 1: tiles"][0].messages] == ["system", "user", "assistant"]


def test_without_ids() -> None:
    """Without ids equal prompts are a group, and without messages the prompt is text."""
    (record,) = sample("roll")
    del record["id"], record["messages"]
    assert [len(rollouts) for rollouts in keyed(record).values()] == [3, 2]


@pytest.mark.parametrize("name", ["scores", "id", "messages", "prompt"])
def test_unequal(name: str) -> None:
    """Lists of unequal length cannot be read: nobody knows what belongs together."""
    (record,) = sample("roll")
    record[name] = record[name][:-1]
    with pytest.raises(UnreadableError, match=f"`{name}` has 4 items for 5 rollouts"):
        read(record)


def test_missing_answer() -> None:
    """A response that is null is at fault alone, in its own group."""
    (record,) = sample("roll")
    record["responses"][2] = None
    rollouts = keyed(record)["line 1: train"]
    assert [r.fault is None for r in rollouts] == [True, False, True]


def test_empty() -> None:
    """A step without rollouts says so."""
    with pytest.raises(UnreadableError, match="its columns are empty"):
        read({"global_step": [], "responses": [], "scores": []})


def test_written() -> None:
    """Scores are replaced in their places, and `ruler` is one more column."""
    (record,) = sample("roll")
    done = written(record, SCORED, LOST, SCORED)
    assert changed(record, done) == {"ruler", *(f"scores.{i}" for i in range(5))}
    assert done["scores"] == [0.625, None, 0.625, 0.625, 0.625]
    assert [m["independent_reward"] for m in done["ruler"]] == record["scores"]
    same_twice(record)


def test_agentic() -> None:
    """Agentic steps hold whole conversations; group and reward stand in JSON text."""
    groups = keyed(*sample("roll_agentic"))
    assert list(groups) == ["line 1: rail_0_0_7", "line 1: rail_1_0_7"]
    first = groups["line 1: rail_0_0_7"]
    assert [r.reward for r in first] == [1.0, 0.0]
    assert said(first) == ["Platform 4, at 22:10.", "Platform 7, I think."]
    assert [len(r.histories) for r in first] == [1, 0]
    assert first[0].tools == [{"name": "timetable"}]


def test_agentic_without_messages() -> None:
    """A rollout without messages is at fault, and the others are judged; no list at all is unreadable."""
    (record,) = sample("roll_agentic")
    found = reader(record)
    record["messages"][0] = ""
    assert [r.fault is None for r in keyed(record)["line 1: rail_0_0_7"]] == [False, True]
    del record["messages"]
    with pytest.raises(UnreadableError, match="no list `messages`"):
        found.read(line(record))


@pytest.mark.parametrize("told", ["", "{", None, "[]"])
def test_agentic_without_data(told: Any) -> None:
    """Without the group's names equal prompts are a group."""
    record = {"trajectory_data": [told, told], "messages": [json.dumps(talk(x)) for x in "ab"]}
    ((rollouts),) = keyed(record).values()
    assert [r.reward for r in rollouts] == [None, None]


def test_agentic_written() -> None:
    """There is no column of scores, so one is added."""
    (record,) = sample("roll_agentic")
    done = written(record, SCORED)
    assert changed(record, done) == {"scores", "ruler"}
    assert done["scores"] == [0.625] * 4
    same_twice(record)
