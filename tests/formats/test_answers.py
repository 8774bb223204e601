"""Lines with a prompt and an answer: hostile texts."""

from __future__ import annotations

from tests.values import read, talk

HOSTILE = (
    "[" * 100_000,
    '{"a":' * 100_000,
    "[" + " " * 100_000,
    "###" + "\t" * 100_000,
)


def test_hostile_texts() -> None:
    """A text that only begins as JSON or as a dialogue does is text."""
    for text in HOSTILE:
        (record,) = read({"prompt": text, "completion": text})
        assert record.rollouts[0].messages == talk(text, text)
