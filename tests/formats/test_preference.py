"""Preference pairs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from tests.formats.changes import last_texts, sample
from tests.values import read, reader, talk


def test_prompt_twice() -> None:
    """A prompt that the conversation already holds is not repeated."""
    question, answer = talk("4")
    whole = {
        "prompt": question["content"],
        "chosen": [question, answer],
        "rejected": talk("5"),
    }
    assert read(whole)[0].rollouts[0].messages == [question, answer]
    assert read({**whole, "chosen": [answer]})[0].rollouts[0].messages == [
        question,
        answer,
    ]


def test_null_side() -> None:
    """A side that is null has an error, and the other side has none."""
    assert [
        r.error is None for r in read({"chosen": "a", "rejected": None})[0].rollouts
    ] == [True, False]


OTHER_SHAPES: list[Any] = [
    {"chosen": 0.5, "rejected": "x"},
    {"chosen": ["a"], "rejected": ["b"]},
]


def test_other_shapes(subtests: pytest.Subtests) -> None:
    """Numbers and lists of texts are not pairs."""
    for record in OTHER_SHAPES:
        with subtests.test(record=str(record)), pytest.raises(UsageError):
            reader(record)


def outcomes(**record: Any) -> list[Any]:
    """Return the outcomes of a pair with a prompt."""
    return [r.outcome for r in read({"prompt": "p", **record})[0].rollouts]


FIRST, SECOND, NEITHER = [True, False], [False, True], [None, None]


LABELS: list[Any] = [
    (("output_1", "output_2"), {"preference": 1}, FIRST),
    (("output_1", "output_2"), {"preference": 1.9}, SECOND),
    (("output_1", "output_2"), {"preference": 1.5}, NEITHER),
    (("output_1", "output_2"), {"preference": 0}, NEITHER),
    (("output_1", "output_2"), {"label": 1}, NEITHER),
    (("response_0", "response_1"), {"better_response_id": 1}, SECOND),
    (
        ("response_0", "response_1"),
        {"better_response_id": -1, "safer_response_id": 0},
        FIRST,
    ),
    (("response_1", "response_2"), {"preference_strength": -3}, FIRST),
    (("response_1", "response_2"), {"preference_strength": 0}, NEITHER),
    (("response1", "response2"), {"overall_preference": 2}, SECOND),
    (("human_ref_A", "human_ref_B"), {"labels": 1}, FIRST),
    (("human_ref_A", "human_ref_B"), {"labels": 0}, SECOND),
    (("response_a", "response_b"), {"winner": "model_b"}, SECOND),
    (("response_a", "response_b"), {"winner": "tie (bothbad)"}, NEITHER),
    (
        ("response_a", "response_b"),
        {"winner": "wren", "model_a": "wren", "model_b": "x"},
        FIRST,
    ),
    (
        ("response_a", "response_b"),
        {"winner": "wren", "model_a": "wren", "model_b": "wren"},
        NEITHER,
    ),
    (("response_a", "response_b"), {"chosen": "b"}, SECOND),
    (("response_a", "response_b"), {"label": 1}, NEITHER),
    (("response_A", "response_B"), {"label": "B>>A"}, SECOND),
    (("response_A", "response_B"), {"label": "A=B"}, NEITHER),
    (("answer_a", "answer_b"), {"preference": "Answer A"}, FIRST),
    (("output_1", "output_2"), {"winner": "output_2"}, SECOND),
]


def test_labels(subtests: pytest.Subtests) -> None:
    """The label of each data set is an outcome; a draw or an unknown label is none."""
    for names, label, expected in LABELS:
        with subtests.test(names=str(names), label=str(label), expected=str(expected)):
            assert (
                outcomes(**dict(zip(names, ("one", "two"), strict=True)), **label)
                == expected
            )


def test_numbered() -> None:
    """All numbered answers are rollouts."""
    rollouts = read({"question": "q", **{f"answer_{i}": str(i) for i in range(4)}})[
        0
    ].rollouts
    assert last_texts(list(rollouts)) == ["0", "1", "2", "3"]


def test_judgment_of_a_turn() -> None:
    """A judgment of the first turn is no outcome of a longer conversation."""
    battle = sample("preference_sides")[1]
    longer = {**battle, "conversation_b": battle["conversation_b"] * 2}
    assert [r.outcome for r in read(longer)[0].rollouts] == [False, None]


def test_prompt_of_other_names() -> None:
    """A prompt beside `chosen` may have other names, and a system prompt before it."""
    pair = {"chosen": "a", "rejected": "b"}
    (record,) = read({"system": "s", "question": "q", **pair})
    assert [m["content"] for m in record.rollouts[1].messages] == ["s", "q", "b"]
    (record,) = read({"instruction": "i", "input": "x", **pair})
    assert record.rollouts[0].messages[0]["content"] == "i\n\nx"


NO_PAIRS: list[Any] = [
    ({"response_a": "x", "response_b": "y", "winner": "a"}, "holds no rollouts"),
    ({"question": "q", **{f"answer_{c}": c for c in "abcd"}}, "holds no rollouts"),
]


def test_no_pairs(subtests: pytest.Subtests) -> None:
    """Answers without a prompt, and the options of a multiple choice, are refused."""
    for record, reason in NO_PAIRS:
        with (
            subtests.test(record=str(record), reason=str(reason)),
            pytest.raises(UsageError, match=reason),
        ):
            reader(record)


def test_dialogues() -> None:
    """Two whole dialogues share their turns, and each answer is one turn."""
    question = (
        "\n\nHuman: Hi.\n\nAssistant: Hello.\n\nHuman: What is 2+2?\n\nAssistant:"
    )
    forged = "5\n\nHuman: Thanks.\n\nAssistant: Welcome."
    pair = read({"chosen": f"{question} 4", "rejected": f"{question} {forged}"})[
        0
    ].rollouts
    turns = [*talk("Hello.", "Hi."), *talk("4")]
    assert pair[0].messages == turns
    assert pair[1].messages == [*turns[:-1], {"role": "assistant", "content": forged}]
    assert [r.prompt_length for r in pair] == [3, 3]


def test_shared_markers() -> None:
    """Dialogues are split only at markers that stand in both."""
    one = "\n\nHuman: Hi.\n\nAssistant: Hello.\n\nHuman: 2+2?\n\nAssistant: 4"
    pair = read({"chosen": one, "rejected": "\n\nHuman: Hi.\n\nAssistant: No."})[
        0
    ].rollouts
    assert last_texts(list(pair)) == ["Hello.\n\nHuman: 2+2?\n\nAssistant: 4", "No."]


PROMPTS: list[Any] = [
    {"question": "What is 2+2?"},
    {"instruction": "What is", "input": "2+2?"},
    {"conversations": [{"from": "human", "value": "What is 2+2?"}]},
    {"messages": talk("4")[:1]},
]


def test_prompts(subtests: pytest.Subtests) -> None:
    """The prompt of a pair has several names, and answers may be `from`/`value` turns."""
    for prompt in PROMPTS:
        with subtests.test(prompt=str(prompt)):
            sides = {
                "chosen": {"from": "gpt", "value": "4"},
                "rejected": {"from": "gpt", "value": "5"},
            }
            pair = read({**prompt, **sides})[0].rollouts
            assert [m["content"].replace("\n\n", " ") for m in pair[0].messages] == [
                "What is 2+2?",
                "4",
            ]
            assert last_texts(
                list(read({**prompt, "chosen": "4", "rejected": "5"})[0].rollouts)
            ) == [
                "4",
                "5",
            ]


def test_json_pair() -> None:
    """Two sides in JSON text of messages are messages; one alone is the agent's text."""
    text = json.dumps(talk("4"))
    assert read({"chosen": text, "rejected": json.dumps(talk("5"))})[0].rollouts[
        0
    ].messages == talk("4")
    assert last_texts(
        list(read({"prompt": "q", "chosen": text, "rejected": "5"})[0].rollouts)
    ) == [text, "5"]


def test_chosen_alone() -> None:
    """A record with `chosen`, but without a prompt and a rejected answer, is not a pair."""
    with pytest.raises(UsageError, match="holds no rollouts"):
        reader({"type": "vote", "chosen": "P6", "round": 1})


def test_whole_messages() -> None:
    """Pairs of whole conversations, as in LLaMA-Factory, share their common beginning."""
    ask, one, other = *talk("4"), {"role": "assistant", "content": "5"}
    result = read({"chosen_messages": [ask, one], "rejected_messages": [ask, other]})[
        0
    ].rollouts
    assert [(r.messages, r.outcome) for r in result] == [
        ([ask, one], True),
        ([ask, other], False),
    ]


def test_names_with_a_space() -> None:
    """The names of Auto-J's numbered answers contain a space."""
    result = read({"prompt": "q", "response 1": "a", "response 2": "b"})[0].rollouts
    assert [r.messages[-1]["content"] for r in result] == ["a", "b"]
