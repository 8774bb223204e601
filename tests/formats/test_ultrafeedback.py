"""UltraFeedback's completions."""

from __future__ import annotations

import pytest

from ruler_cli.errors import UnreadableError
from tests.formats.changes import LOST, SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import line, read, reader


def test_reading() -> None:
    """Each completion is a rollout with its own score; the principle it was told is not shown."""
    first, second = keyed(*sample("ultrafeedback")).values()
    assert said(first) == ["Platform 4, at 22:10.", "Platform 7, I think.", "I could not find out."]
    assert [r.reward for r in (*first, *second)] == [8.5, 3.0, 5.0, 9.0, None]
    assert [m["role"] for m in first[0].messages] == ["user", "assistant"]


def test_broken() -> None:
    """A completion without a response is at fault alone; a line without a list is unreadable."""
    good = sample("ultrafeedback")[0]
    found = reader(good)
    (record,) = found.read(line({**good, "completions": [{"response": None}, 7, good["completions"][0]]}))
    assert [r.fault is None for r in record.rollouts] == [False, False, True]
    with pytest.raises(UnreadableError, match="no list `completions`"):
        read(good, {**good, "completions": None})


def test_written() -> None:
    """The overall score is replaced, and each completion has its own mark."""
    record = sample("ultrafeedback")[0]
    done = written(record, SCORED, LOST)
    wanted = {f"completions.{i}.{name}" for i in range(3) for name in ("overall_score", "ruler")}
    assert changed(record, done) == {"ruler", *wanted}
    assert [c["overall_score"] for c in done["completions"]] == [0.625, None, None]
    assert [c["ruler"]["independent_reward"] for c in done["completions"]] == [8.5, 3.0, 5.0]
    same_twice(record)
