"""Endings of rollouts, as each framework writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.messages.endings import ending
from ruler_cli.settings.models import RecordPaths
from ruler_cli.types import ENDINGS
from tests.formats.changes import sample
from tests.formats.test_particular import put
from tests.values import read, talk

DATA = Path(__file__).parents[1] / "data"
ENDED = [*map(json.loads, (DATA / "endings.jsonl").read_text().splitlines())]
"""Formats, changes to their samples, and how the rollout ended by them; `overlong` is a buffer, and no cut."""
"""The format, what differs in its first record, and how the rollout ended."""


def test_endings(subtests: pytest.Subtests) -> None:
    """A rollout ended as its framework says, and one of which it says no early end did not."""
    for name, changes, ended in ENDED:
        with subtests.test(name, changes=changes):
            record = sample(name)[0]
            (before,) = read(record)
            assert {rollout.ended for rollout in before.rollouts} == {""}
            (after,) = read(put(record, changes))
            assert {rollout.ended for rollout in after.rollouts} == {ended}


def test_each_of_a_group() -> None:
    """In a record with several rollouts each has its own ending, in lists and in objects."""
    native = {
        "trajectories": [
            {"messages": talk("4"), "is_truncated": True},
            {"messages": talk("5"), "is_truncated": False},
            {"messages": [*talk("6")[:-1], {"message": talk("6")[-1], "finish_reason": "length"}]},
            {"messages": talk("7"), "ended": "aborted"},
        ]
    }  # fmt: skip
    steps = sample("ms_swift")[0]
    listed = {**steps, "finish_reason": ["length", *["stop"] * 10][: len(steps["completion"])]}  # fmt: skip
    answers = sample("api_logs_samples")[0]
    answers["response"]["body"]["choices"][1]["finish_reason"] = "length"
    for record, ended in (
        (native, ["truncated", "", "truncated", "aborted"]),
        (listed, ["truncated", ""]),
        (answers, ["", "truncated"]),
    ):
        found = [each.ended for part in read(record) for each in part.rollouts]
        assert found[: len(ended)] == ended


def test_own_format() -> None:
    """A format of the user's names the places of its endings, of which the first that says one counts."""
    row = RecordPaths(messages="talk", ended="how.it|how.is_truncated")
    told: tuple[Any, ...] = (
        ({"it": "odd", "is_truncated": False}, ""),
        ({"it": "odd", "is_truncated": True}, "truncated"),
        ({"it": "cancelled", "is_truncated": True}, "aborted"),
        (None, ""),
    )
    for how, ended in told:
        (record,) = read({"id": 1, "talk": talk("4"), "how": how}, format=row)
        assert record.rollouts[0].ended == ended


@given(
    st.sampled_from(("error", "limit", "status", "a.is_truncated", "code", "")),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)
def test_any_value(path: str, value: Any) -> None:
    """Any value is one of the known endings, or none."""
    assert ending(path, value) in ("", *ENDINGS)
