"""Detection of formats by the keys of records."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.keys import PROMPT_HASH
from tests.values import line, read, reader, talk, values

CHOICE = {
    "finish_reason": "stop",
    "index": 0,
    "message": {"role": "assistant", "content": "4"},
}
ART = {"messages_and_choices": [{"role": "user", "content": "q"}, CHOICE]}
NATIVE = {"messages": talk("4")}
PAIR = {"prompt": "q", "completion": "a"}


DETECTED: list[Any] = [
    ({"trajectories": [NATIVE]}, "native groups", PROMPT_HASH),
    ({"group_id": 1, "trajectories": [NATIVE]}, "native groups", "group_id"),
    ({"trajectories": []}, "native groups", PROMPT_HASH),
    ({"trajectories": [ART]}, "ART groups", PROMPT_HASH),
    (
        {"trajectories": [ART], "metadata": {"scenario_id": "s"}},
        "ART groups",
        "metadata.scenario_id",
    ),
    ({"trajectories": [{"exchanges": {}}]}, "ART groups", PROMPT_HASH),
    (ART, "ART trajectories", PROMPT_HASH),
    (
        {**ART, "metadata": {"scenario_id": "s"}},
        "ART trajectories",
        "metadata.scenario_id",
    ),
    (
        {"group_index": 0, "group_metadata": "{}", "messages": []},
        "ART table rows",
        "group_index",
    ),
    ({"group_index": 0, "trajectory_json": "{}"}, "ART table rows", "group_index"),
    ({"group_index": 0, **NATIVE}, "native trajectories", "group_index"),
    ({"task_id": 0, "trial": 1, "traj": []}, "tau-bench", "task_id"),
    (NATIVE, "native trajectories", PROMPT_HASH),
    ({**NATIVE, "task_id": 3, "group_id": "a"}, "native trajectories", "group_id"),
    ({**NATIVE, "tools": []}, "native trajectories", PROMPT_HASH),
]


def test_detection(subtests: pytest.Subtests) -> None:
    """Each shape is detected, with its group key."""
    for record, name, key in DETECTED:
        with subtests.test(record=str(record), name=str(name), key=str(key)):
            detected = reader(record)
            assert (detected.format.name, detected.key) == (name, key)


def refusal(*records: Any, **options: Any) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(UsageError) as error:
        reader(*records, **options)
    return str(error.value)


def test_disagreement() -> None:
    """Lines of two formats are refused, and the error names a line of each."""
    message = refusal(NATIVE, b"broken", {"x": 1}, {"trajectories": [NATIVE]})
    assert "line 1 looks like native trajectories, line 4 like native groups" in message
    assert "--format native" in message


def test_empty_group() -> None:
    """An empty group has no certain format, so other records decide."""
    assert (
        reader({"trajectories": []}, {"trajectories": [ART]}).format.name
        == "ART groups"
    )


UNKNOWN: list[Any] = [
    ({"a": "x", "b": 2}, "(its keys: a, b)"),
    ({}, "(its keys: none)"),
    ({"\ud800\n\x1b[31m": "x"}, "(its keys: \ufffd\ufffd\ufffd[31m)"),
    ({"k" * 99: "x"}, f"(its keys: {'k' * 60}…)"),
    ({"prompt_tokens": [], "response_tokens": []}, "holds no rollouts"),
    ({"prompt": "", "completions": ["a"], "labels": [True]}, "holds no rollouts"),
    ({"eval/all/avg_score": 0.66}, "holds no rollouts"),
    ({"question_id": 1, "response": "t"}, "holds no rollouts"),
    ({"run": 1, "samples": [PAIR, PAIR]}, "holds no rollouts that ruler knows"),
    ({"events": [{"type": "summary", "leafUuid": "u"}]}, "holds no rollouts"),
    ({"traceId": "1", "spanId": "2", "name": "rollout"}, "holds no rollouts"),
    (b"nothing", "line 1 is not JSON"),
    (b"\xff", "is not UTF-8"),
]


def test_unknown(subtests: pytest.Subtests) -> None:
    """A file without rollouts is refused with its keys or a hint."""
    for record, message in UNKNOWN:
        with subtests.test(record=str(record), message=str(message)):
            assert message in refusal(record)


def test_prompts_among_rollouts() -> None:
    """A rollout without an answer is unreadable, and the others are read."""
    prompt = {"messages": [{"role": "user", "content": "q"}]}
    assert reader(prompt, NATIVE).format.name == "native trajectories"
    assert reader(prompt, format="native").format.name == "native trajectories"


def test_format_option() -> None:
    """`--format` decides between two matching formats, and refuses records of others."""
    both = {"task_id": 1, "traj": talk("a"), "messages": talk("b")}
    assert reader(both).format.name == "tau-bench"
    assert reader(both, format="native").format.name == "native trajectories"
    assert "its keys" in refusal(NATIVE, format="tau-bench")


def test_group_by() -> None:
    """`--group-by` takes a dotted path; a key that contains the dots itself comes first."""
    nested = {**NATIVE, "metadata": {"scenario_id": "s1"}}
    assert read(nested, group_by="metadata.scenario_id")[0].key == "s1"
    assert (
        read({**nested, "metadata.scenario_id": 7}, group_by="metadata.scenario_id")[
            0
        ].key
        == "7"
    )


def test_missing_key() -> None:
    """A trajectory without the group key is unreadable."""
    with pytest.raises(UnreadableError, match="has no group key at `group_id`"):
        read({**NATIVE, "group_id": "a"}, NATIVE)


@given(values.filter(lambda v: v is not None), values.filter(lambda v: v is not None))
def test_keys_of_any_kind(one: Any, other: Any) -> None:
    """Any JSON value is a group key; equal values are one group, and unequal integers are two."""
    first, again, second = (
        r.key for r in read(*({**NATIVE, "group_id": x} for x in (one, one, other)))
    )
    assert first == again
    if isinstance(one, int) and isinstance(other, int):
        assert (first == second) is (repr(one) == repr(other))


def test_huge_keys() -> None:
    """Group keys beyond 64 bits are compared exactly."""
    first, second = read(
        {**NATIVE, "group_id": 2**127}, {**NATIVE, "group_id": 2**127 + 1}
    )
    assert first.key != second.key


def test_prompt_hash() -> None:
    """Without a key, rollouts with one prompt and one step are a group, whatever their answers."""
    question = {"role": "user", "content": "q"}
    item = {"type": "function_call", "name": "f", "arguments": "{}"}
    keys = [
        read({"messages": [question, answer], **more})[0].key
        for answer, more in [
            ({"role": "assistant", "content": "a"}, {}),
            ({"role": "assistant", "content": "b"}, {"reward": 1}),
            (item, {}),
            ({**item, "arguments": "x"}, {}),
        ]
    ]
    assert len(set(keys)) == 1
    assert read({"messages": [question, item], "step": 1})[0].key not in keys
    assert read({"messages": talk("a", "other")})[0].key not in keys


def test_own_prompt_field() -> None:
    """A record's own field `prompt` does not replace the hash of prompt and step."""
    keys = [
        read({"prompt": "q", "completion": "a", "step": s})[0].key for s in (1, 2, 1)
    ]
    assert keys[0] == keys[2] != keys[1]
    native = {**NATIVE, "prompt": "text of its own"}
    assert read(native)[0].key == read(NATIVE)[0].key
    assert read(native, group_by="prompt")[0].key == native["prompt"]


def test_foreign_ruler(subtests: pytest.Subtests) -> None:
    """A record with a foreign field `ruler`, at any level, is unreadable."""
    for foreign in [
        0,
        "x",
        {},
        {"score": 1},
        [],
        {"status": "measured"},
        '{"status": 1}',
        [{}],
    ]:
        with subtests.test(mine=str(foreign)):
            for record in (
                {**NATIVE, "ruler": foreign},
                {"trajectories": [NATIVE], "ruler": foreign},
                {"trajectories": [NATIVE, {**NATIVE, "ruler": foreign}]},
            ):
                with pytest.raises(
                    UnreadableError, match="`ruler` that ruler did not write"
                ):
                    read(record)
            assert read(
                {**NATIVE, "ruler": {"status": "scored"}}, {**NATIVE, "ruler": None}
            )


def test_whole_group_among_trajectories() -> None:
    """A group's line in a file of trajectories is unreadable, and the reverse."""
    with pytest.raises(UnreadableError, match="has no messages"):
        reader(NATIVE).read(line({"trajectories": [NATIVE]}))
    with pytest.raises(UnreadableError, match="has no list `trajectories`"):
        reader({"trajectories": [NATIVE]}).read(line(NATIVE))


BAD_MESSAGES: list[Any] = [
    (None, "has no messages"),
    ({"role": "user"}, "`messages` is no list"),
    ("hello", "`messages` is no list"),
    ([], "`messages` is empty"),
    (["hello"], r"`messages\[0\]` is no message object"),
    ([*talk("a"), None], r"`messages\[2\]` is no message object"),
    ([{"content": "x"}], r"`messages\[0\]` is no message object"),
]


def test_bad_messages(subtests: pytest.Subtests) -> None:
    """A record with bad messages is unreadable; in a group only their trajectory has an error."""
    for messages, message in BAD_MESSAGES:
        with subtests.test(messages=str(messages), message=str(message)):
            with pytest.raises(UnreadableError, match=message):
                read({"messages": messages})
            record = read(
                {"trajectories": [NATIVE, {"messages": messages}, 7, NATIVE]}
            )[0]
            errors = [r.error for r in record.rollouts]
            assert (errors[0], errors[2], errors[3]) == (None, "is no object", None)
            assert re.search(message, errors[1] or "")
            assert [r.path for r in record.rollouts] == [
                ("trajectories", i) for i in range(4)
            ]


@given(
    values,
    st.sampled_from(
        ["messages", "traj", "exchanges", "messages_and_choices", "trajectories"]
    ),
)
def test_any_value(value: Any, where: str) -> None:
    """Any value in place of messages is read, or is refused with a sentence."""
    for record in ({where: value, "task_id": 1}, {where: [value], "task_id": 1}):
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
                    ) or "no message object" in str(error)


def test_no_objects(subtests: pytest.Subtests) -> None:
    """A file without objects is refused with what is read."""
    for raw in (b'["x"]', b'"text"', b"[1]", b"[]", b"\xff"):
        with subtests.test(raw=str(raw)):
            assert "one object a line" in refusal(raw)
