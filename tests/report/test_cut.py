"""A group's text, shortened so that nothing is left out in silence."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.report.cut import shortened, shorter
from ruler_cli.report.texts import GroupText

MARK = "left out of this report"


def text_of(*rollouts: tuple[str, ...], context: tuple[str, ...] = ()) -> GroupText:
    """Distinct rollouts."""
    return GroupText(context, "", "", rollouts, tuple(range(len(rollouts))))


def test_small_parts_stay_whole() -> None:
    """The long rollout pays; context and short rollouts are as they were."""
    long = tuple(f'assistant: "turn {i}"' for i in range(10_000))
    found = shortened(text_of(("one",), long, ("two", "three"), context=("c",)), 20_000)
    assert found.context == ("c",)
    assert (found.rollouts[0], found.rollouts[2]) == (("one",), ("two", "three"))
    kept = found.rollouts[1]
    assert (kept[0], kept[-1]) == (long[0], long[-1])
    (mark,) = [line for line in kept if MARK in line]
    gone = re.match(r"\(([\d,]+) lines, ([\d,]+) characters", mark)
    assert gone is not None
    assert int(gone[1].replace(",", "")) == len(long) - (len(kept) - 1)
    left = set(long) - set(kept)
    assert int(gone[2].replace(",", "")) == sum(len(line) + 1 for line in left)
    assert 10_000 < sum(map(len, kept)) < 22_000


@pytest.mark.parametrize("text", ["x" * 9_000, '"' * 9_000, "\n" * 9_000, "é\u2028" * 4_500])
def test_a_line_that_is_cut_is_still_a_line(text: str) -> None:
    """A long message keeps both ends and stays one line of JSON behind its role."""
    line = f"assistant: {json.dumps(f'begin {text} end', ensure_ascii=False)}"
    (found,) = shortened(text_of((line,)), 2_000).rollouts[0]
    said = json.loads(found.removeprefix("assistant: "))
    assert said.startswith("begin")
    assert said.endswith("end")
    assert MARK in said
    assert "\n" not in found


def test_arguments_that_are_cut_become_text() -> None:
    """Half of an object is no JSON: what is left of it stands in a string."""
    (found,) = shortened(text_of(('call f: {"a":"' + "x" * 9_000 + '"}',)), 2_000).rollouts[0]
    assert json.loads(found.removeprefix("call f: ")).startswith('{"a":"xxx')


def test_identical_rollouts_stay_identical() -> None:
    """A rollout that says what another says is cut in the same way, and counts once."""
    lines = tuple(f"line {i}" for i in range(5_000))
    text = GroupText((), "t" * 9_000, "r" * 9_000, (lines, lines), (0, 0))
    found = shortened(text, 3_000)
    assert found.rollouts[0] is found.rollouts[1]
    assert MARK in found.tools
    assert MARK in found.rubric


@given(
    st.lists(st.lists(st.text(max_size=300), max_size=20).map(tuple), min_size=1, max_size=5),
    st.integers(0, 3_000),
)
def test_a_text_gets_smaller_or_says_what_lacks(rollouts: list[tuple[str, ...]], room: int) -> None:
    """Every line is there unless a mark says that some are not."""
    found = shortened(text_of(*rollouts), room)
    for before, after in zip(rollouts, found.rollouts, strict=True):
        assert after == before or any(MARK in line for line in after)


@given(st.text(max_size=50), st.integers(0, 60))
def test_shorter_counts_what_is_gone(text: str, room: int) -> None:
    """What is left and what the mark counts make up the text."""
    found = shorter(text, room)
    if len(text) <= room:
        assert found == text
    else:
        gone = re.search(r"\[… (\d+) characters left out", found)
        assert gone is not None
        assert int(gone[1]) == len(text) - 2 * (room // 2)
