"""Runs of evaluation tools: Inspect AI's samples."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.scoring.rewards import number, passed
from ruler_cli.settings.models import OnFailure
from tests.formats.changes import (
    FAILED,
    SCORED,
    changed,
    same_twice,
    written,
)
from tests.values import read, reader, talk


def inspected(**more: Any) -> dict[str, Any]:
    """A sample."""
    return {
        "id": "a",
        "epoch": 1,
        "messages": talk("4"),
        "output": {},
        "metadata": {},
        **more,
    }


def scores(value: Any) -> dict[str, Any]:
    """The score of one scorer."""
    return {"match": {"value": value, "history": []}}


def test_failed(subtests: pytest.Subtests) -> None:
    """A failed sample has no scorer `ruler`, because a null would make the log unreadable."""
    choices: list[OnFailure] = ["null", "keep"]
    for on_failure in choices:
        with subtests.test(on_failure=str(on_failure)):
            record = inspected(scores=scores("C"))
            for before in (record, written(record, SCORED)):
                done = written(
                    before, FAILED, on_failure=on_failure, using=reader(record)
                )
                assert changed(record, done) == {"metadata.ruler"}
                assert done["metadata"]["ruler"]["independent_reward"] == "C"


def test_no_scores() -> None:
    """A sample without scores gets its first score, and its independent reward is null."""
    for record in (inspected(), inspected(scores=None), inspected(scores={})):
        done = written(record, SCORED)
        assert done["scores"] == {"ruler": {"value": 0.625}}
        assert done["metadata"]["ruler"]["independent_reward"] is None


def test_rewritten_by_inspect() -> None:
    """A scored log that Inspect rewrote, with further fields of a score, is still ruler's."""
    done = written(inspected(scores=scores("I")), SCORED)
    done["scores"]["ruler"] |= {"answer": None, "history": []}
    again = written(done, SCORED)
    assert again["metadata"]["ruler"]["independent_reward"] == "I"


def test_labels() -> None:
    """A score that is one of several labels is no outcome, in any sample of the log."""
    records = [
        inspected(id=word, scores=scores(word))
        for word in ("left", "right", "both")
    ]
    actual = [record.rollouts[0] for record in read(*records)]
    assert [(number(r.reward), passed(r.outcome)) for r in actual] == [
        (None, None)
    ] * 3
    same_twice(records[1])
