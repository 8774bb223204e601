"""Atropos's scored groups."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, reader, talk


def one(**more: Any) -> dict[str, Any]:
    """A group of two."""
    return {"tokens": [[1], [2]], "scores": [1.0, -1.0], "messages": [talk("a"), talk("b")], **more}


def test_reading() -> None:
    """The line is the group; conversations and scores run parallel."""
    first, second = keyed(*sample("atropos")).values()
    assert said(first) == ["Platform 4, at 22:10.", "Platform 7, I think.", "I could not find out."]
    assert [r.reward for r in first] == [1.0, -1.0, -1.0]
    assert [m["role"] for r in second for m in r.messages] == ["transcript", "transcript"]


def test_tokens_only() -> None:
    """Without messages there are token ids only: refused as a file, unreadable among others."""
    with pytest.raises(UsageError, match="token ids only"):
        reader({"tokens": [[1]], "scores": [1.0]})
    with pytest.raises(UnreadableError, match="token ids only: `messages` is null"):
        read(one(messages=None))


@pytest.mark.parametrize(("name", "value"), [("scores", [1.0]), ("tokens", [[1]]), ("scores", 1.0)])
def test_unequal(name: str, value: Any) -> None:
    """Lists that do not run parallel cannot be read."""
    with pytest.raises(UnreadableError, match=f"`{name}`"):
        read(one(**{name: value}))


def test_one_is_broken() -> None:
    """A conversation that is none is at fault alone."""
    assert [r.fault is None for r in read(one(messages=[[], talk("b")]))[0].rollouts] == [False, True]


def test_written() -> None:
    """Scores are replaced in their places; in a group that only distils the list is made."""
    record = one()
    done = written(record, SCORED, LOST)
    assert changed(record, done) == {"scores.0", "scores.1", "ruler"}
    assert done["scores"] == [0.625, None]
    assert [m["independent_reward"] for m in done["ruler"]["rollouts"]] == [1.0, -1.0]
    assert written(one(scores=None), SCORED)["scores"] == [0.625, 0.625]
    same_twice(record)
