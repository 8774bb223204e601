"""Words at the place of rewards and outcomes: verdicts, or labels."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.formats.rewards import Words, given, number, passed
from ruler_cli.reading import open_input
from ruler_cli.settings import InputSettings
from tests.values import read, talk


def says(*field: Any) -> list[bool | None]:
    """What each value of a field says, all of them known."""
    words = Words()
    for value in field:
        words = words.with_(value)
    return [passed(words.read(value)) for value in field]


FIELDS: list[Any] = [
    (["passed"], [True]),
    (["failed"], [False]),
    (["right"], [None]),
    (["right", "wrong"], [True, False]),
    (["right", "left", "both"], [None, None, None]),
    (["right", "left", "wrong"], [None, None, None]),
    (["yes", "yes"], [None, None]),
    (["yes", "no"], [True, False]),
    (["no"], [None]),
    (["good", "error"], [True, False]),
    (["C", "C"], [True, True]),
    (["C", "I", "P", "N"], [True, False, True, False]),
    (["A", "B", "C", "D"], [None, None, None, None]),
    (["passed", "timeout", ""], [True, None, None]),
    (["passed", "green"], [None, None]),
    ([True, "right", 0], [True, None, False]),
    (["1", "0.0", "TimeoutError"], [True, False, None]),
    ([{"status": "right"}, {"status": "left"}], [None, None]),
    ([{"status": "passed"}, {"status": "failed"}], [True, False]),
    (["passed", "x" * 100], [None, None]),
]


def test_fields(subtests: pytest.Subtests) -> None:
    """A word is a verdict only where the other words of its field are its opposites; numbers stay."""
    for field, wanted in FIELDS:
        with subtests.test(field=str(field), wanted=str(wanted)):
            assert says(*field) == wanted


def test_label_is_no_number() -> None:
    """A grade among other letters is no reward either, and what stands in the dump is still known."""
    words = Words().with_("A").with_("C")
    assert number(words.read("C")) is None
    assert given(words.read("C")) == "C"
    assert words.with_(words.read("C")) == words


def records(*words: str) -> list[dict[str, Any]]:
    """A rollout for each word, in groups of two."""
    return [
        {"group_id": i // 2, "messages": talk(f"{word} {i}"), "verdict": word} for i, word in enumerate(words)
    ]


def test_first_records() -> None:
    """A stream is read by the words of its first records."""
    found = read(*records("right", "left"), outcome="verdict")
    assert [passed(record.rollouts[0].outcome) for record in found] == [None, None]


@pytest.mark.parametrize(("last", "wanted"), [("left", None), ("wrong", True)])
def test_later_word(tmp_path: Path, last: str, wanted: bool | None) -> None:
    """A file is read by all its words: one far behind the first records still counts."""
    dump = tmp_path / "in.jsonl"
    dump.write_text("".join(json.dumps(r) + "\n" for r in records(*["right"] * 80, last)))
    with ExitStack() as stack:
        opened = open_input(InputSettings(str(dump), outcome="verdict"), stack, lambda _: None)
        rollouts = [rollout for group in opened.groups for rollout in group.rollouts]
    assert {passed(r.outcome) for r in rollouts[:80]} == {wanted}
