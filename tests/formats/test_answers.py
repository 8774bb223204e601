"""Lines with a prompt and an answer, or the turns of a conversation: every name, and hostile texts."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

from tests.values import read, talk

PROMPTS = "prompt instruction query question problem input user_input user_prompt user_message"
ANSWERS = (
    "completion response generation model_output prediction output actual_output"
    " actualOutput agent_response"
)
LISTS = "conversations conversation dialog dialogue turns items"
TURNS = [
    {"from": "human", "value": "What is 2+2?"},
    {"from": "gpt", "value": "4"},
]
FORMS: tuple[Any, ...] = (
    TURNS,
    talk("4"),
    [
        {"speaker": "user", "text": "What is 2+2?"},
        {"speaker": "bot", "text": "4"},
    ],
    [
        {"role": "Human", "value": "What is 2+2?"},
        {"role": "ChatGPT", "value": "4"},
    ],
    json.dumps(TURNS),
)
HOSTILE = (
    "[" * 100_000,
    '{"a":' * 100_000,
    "[" + " " * 100_000,
    "###" + "\t" * 100_000,
)


def test_names() -> None:
    """Any name of a prompt goes with any name of an answer, and any name of a list with any form of its turns."""
    records: list[dict[str, Any]] = []
    for prompt, answer in product(PROMPTS.split(), ANSWERS.split()):
        records.append({prompt: "What is 2+2?", answer: "4"})
    for name, turns in product(LISTS.split(), FORMS):
        records.append({name: turns})
    for record in records:
        assert read(record)[0].rollouts[0].messages == talk("4"), record


def test_hostile_texts() -> None:
    """A text that only begins as JSON or as a dialogue does is text."""
    for text in HOSTILE:
        (record,) = read({"prompt": text, "completion": text})
        assert record.rollouts[0].messages == talk(text, text)
