"""Preference pairs."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UsageError
from tests.formats.changes import SCORED, changed, keyed, said, same_twice, sample, written
from tests.values import read, reader, talk


def test_reading() -> None:
    """Text or messages, with a prompt or without: the preferred one first, which is the outcome."""
    groups = list(keyed(*sample("preference")).values())
    assert said(groups[0]) == ["Platform 4, at 22:10.", "Platform 7, I think."]
    assert [[r.outcome for r in group] for group in groups] == [[True, False]] * 4
    assert [[m["role"] for m in group[0].messages] for group in groups] == [["user", "assistant"]] * 4


def test_prompt_twice() -> None:
    """A prompt that the conversation says itself is not said again."""
    asked, answer = talk("4")
    whole = {"prompt": asked["content"], "chosen": [asked, answer], "rejected": talk("5")}
    assert read(whole)[0].rollouts[0].messages == [asked, answer]
    assert read({**whole, "chosen": [answer]})[0].rollouts[0].messages == [asked, answer]


def test_openai() -> None:
    """OpenAI's pairs have other names, and tools with the input."""
    first, second = keyed(*sample("preference_openai")).values()
    assert said(first) == ["Platform 4, at 22:10.", "Platform 7, I think."]
    assert first[0].tools == [{"type": "function", "function": {"name": "timetable"}}]
    assert second[0].tools is None


def test_one_is_missing() -> None:
    """A side that is null is at fault alone."""
    assert [r.fault is None for r in read({"chosen": "a", "rejected": None})[0].rollouts] == [True, False]


@pytest.mark.parametrize("record", [{"chosen": 0.5, "rejected": "x"}, {"chosen": ["a"], "rejected": ["b"]}])
def test_other_shapes(record: Any) -> None:
    """Figures and lists of texts are no pair."""
    with pytest.raises(UsageError):
        reader(record)


def test_written() -> None:
    """There is no room for a score but `ruler`."""
    for record in (*sample("preference"), *sample("preference_openai")):
        assert changed(record, written(record, SCORED)) == {"ruler"}
        same_twice(record)
