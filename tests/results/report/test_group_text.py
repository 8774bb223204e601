"""One group's text, whole and shortened, as a report shows it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.report.page import as_json, packed
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.results.report.written import unpacked
from tests.values import texts

TASK = {"role": "user", "content": "Book a seat."}


def text_of(where: Path, *turns: Any, **mine: Any) -> GroupText:
    """The text of a group of rollouts with one turn each; an item that is no string replaces the messages."""
    rollouts = [
        {
            "messages": [TASK, {"role": "assistant", "content": turn}]
            if isinstance(turn, str)
            else turn
        }
        for turn in turns
    ]
    where.write_bytes(
        orjson.dumps({"group_id": "g", "trajectories": rollouts, **mine})
    )
    with ExitStack() as stack:
        scored = ScoredFile(
            open_input(
                InputSettings(str(where)),
                stack,
                lambda problem: pytest.fail(problem.reason),
            )
        )
        ((_, group, scored_group),) = scored.groups(lambda key: True)
        return GroupText.of(group, scored_group)


def test_group_text(tmp_path: Path) -> None:
    """The context stands once, identical rollouts name the first, and an unreadable one has no lines."""
    result = text_of(
        tmp_path / "in.jsonl", "one", 5, "two", "one", 6, rubric="Be brief."
    )
    assert result.context == ['user: "Book a seat."']
    row, two = ['assistant: "one"'], ['assistant: "two"']
    assert result.rollouts == [row, [], two, row, []]
    assert (result.identical, result.rubric) == ([0, 1, 2, 0, 4], "Be brief.")


@given(texts)
def test_block(text: str) -> None:
    """Any text is restored from its block, whose characters are those of base64; NaN is null."""
    body = as_json({text: [text, float("nan")]})
    block = packed(body)
    assert re.fullmatch(rb"[A-Za-z0-9+/]+=*", block)
    readable = text.encode("utf-16", "surrogatepass").decode(
        "utf-16", "replace"
    )
    assert unpacked(block.decode()) == {readable: [readable, None]}
