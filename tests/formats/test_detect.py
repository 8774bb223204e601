"""Detection of formats by the keys of records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError, UsageError
from tests.values import line, read, reader, talk, values

NATIVE = {"messages": talk("4")}


def refusal(*records: Any, **options: Any) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(UsageError) as error:
        reader(*records, **options)
    return str(error.value)


def test_disagreement() -> None:
    """Lines of two formats are refused, and the error names a line of each."""
    message = refusal(NATIVE, b"broken", {"x": 1}, {"trajectories": [NATIVE]})
    assert (
        "line 1 looks like native trajectories, line 4 like native groups"
        in message
    )
    assert "--format native" in message


@given(
    values.filter(lambda v: v is not None),
    values.filter(lambda v: v is not None),
)
def test_keys_of_any_kind(value: Any, second_value: Any) -> None:
    """Any JSON value is a group key; equal values are one group, and unequal integers are two."""
    keyed = [
        {**NATIVE, "group_id": key} for key in (value, value, second_value)
    ]
    first, again, second = (record.key for record in read(*keyed))
    assert first == again
    if isinstance(value, int) and isinstance(second_value, int):
        assert (first == second) is (repr(value) == repr(second_value))


def test_whole_group_among_trajectories() -> None:
    """A group's line in a file of trajectories is unreadable, and the reverse."""
    with pytest.raises(UnreadableError, match="has no messages"):
        reader(NATIVE).read(line({"trajectories": [NATIVE]}))
    with pytest.raises(UnreadableError, match="has no list `trajectories`"):
        reader({"trajectories": [NATIVE]}).read(line(NATIVE))


@given(
    values,
    st.sampled_from(
        [
            "messages",
            "traj",
            "exchanges",
            "messages_and_choices",
            "trajectories",
        ]
    ),
)
def test_any_value(value: Any, where: str) -> None:
    """Any value in place of messages is read, or is refused with a sentence."""
    for record in (
        {where: value, "task_id": 1},
        {where: [value], "task_id": 1},
    ):
        try:
            read(record)
        except (UnreadableError, UsageError) as error:
            assert str(error)


def test_deep(subtests: pytest.Subtests) -> None:
    """A record nested to any depth, in any field, is read, or is refused with a sentence."""
    for depth in [300, 900, 1000, 1100, 100_000]:
        with subtests.test(depth=str(depth)):
            deep = b"[" * depth + b"]" * depth
            for raw in (
                b'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": %s}]}'
                % deep,
                b'{"group_id": %s, "messages": [{"role": "assistant", "content": "x"}]}'
                % deep,
                b'{"messages_and_choices": [{"role": "user", "content": "x"}], "exchanges": %s}'
                % deep,
                b'{"exchanges": {"chat_completions": [{"request": {"messages": %s}, "response": {}}]}}'
                % deep,
            ):
                try:
                    read(raw)
                except (UnreadableError, UsageError) as error:
                    assert "nested too deeply" in str(
                        error
                    ) or "not a message object" in str(error)


NO_OBJECTS: tuple[tuple[Any, str], ...] = (
    (b'["x"]', "one object per line"),
    (b'"text"', "one object per line"),
    (b"[1]", "one object per line"),
    (b"[]", "one object per line"),
    (b"\xff", "is not UTF-8"),
    (b"nothing", "line 1 is not JSON"),
    ({"\ud800\n\x1b[31m": "x"}, "(its keys: \ufffd\ufffd\ufffd[31m)"),
)


def test_no_objects() -> None:
    """A file without objects is refused with what is read, and no key of it reaches the terminal raw."""
    for record, message in NO_OBJECTS:
        assert message in refusal(record)
