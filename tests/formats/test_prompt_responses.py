"""A prompt and a list of answers a line."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import SCORED, same_twice, written
from tests.values import read, reader, talk


@pytest.mark.parametrize("answer", ["4", talk("4")[1], [talk("4")[1]], {"text": "4", "index": 0}])
@pytest.mark.parametrize(
    "names", [("prompt", "responses"), ("question", "completions"), ("input", "outputs")]
)
def test_kinds(answer: Any, names: tuple[str, str]) -> None:
    """An answer is a text, a message, messages, or an object with a text, under the names people use."""
    asked, answers = names
    (rollout,) = read({asked: "What is 2+2?", answers: [answer]})[0].rollouts
    assert rollout.messages == talk("4")


def test_unequal(subtests: pytest.Subtests) -> None:
    """Rewards that do not run parallel belong to nobody knows which answer, and are never overwritten."""
    for rewards, says in [([1.0], "has 1 items for 2"), (0.5, "is no list")]:
        with subtests.test(rewards=str(rewards), says=str(says)):
            with pytest.raises(UnreadableError, match=says):
                read({"prompt": "q", "responses": ["a", "b"], "rewards": rewards})
            with pytest.raises(UnreadableError, match=says):
                read({"mine": ["a", "b"], "rewards": rewards}, messages="mine")


def test_steps_are_no_rollouts() -> None:
    """TRL's stepwise supervision holds steps of one answer: refused, and unreadable among others."""
    record = {"prompt": "q", "completions": ["a", "b"], "labels": [True, False]}
    with pytest.raises(UsageError, match="stepwise supervision"):
        reader(record)


@pytest.mark.parametrize(
    "answers",
    [
        {"choices": [{"message": talk("4")[1]}, {"message": talk("5")[1]}]},
        {"response": {"choices": [{"message": talk("4")[1]}, {"message": talk("5")[1]}]}},
        {"output": ["4", "5"]},
        {"responses": [{"text": "4"}, {"content": "5"}]},
        {"completions": [talk("4")[1], talk("5")[1]]},
    ],
)
@pytest.mark.parametrize("asked", [{"messages": talk("4")[:1]}, {"prompt": "What is 2+2?"}])
def test_several_beside(answers: dict[str, Any], asked: dict[str, Any]) -> None:
    """Several answers beside messages or a prompt are a group, and each of them a rollout."""
    record = {**asked, **answers}
    assert [r.messages for r in read(record)[0].rollouts] == [talk("4"), talk("5")]
    done = written(record, SCORED)
    assert done["rewards"] == [0.625, 0.625]
    same_twice(record)


def test_options_of_a_question() -> None:
    """The choices of a question are no answers to it."""
    with pytest.raises(UsageError):
        reader({"question": "What is 2+2?", "choices": ["3", "4"]})
    record = {"question": "What is 2+2?", "choices": ["3", "4"], "prediction": "4"}
    assert reader(record).format.name == "prompts with a completion"


def test_choice_without_text() -> None:
    """A choice that holds no answer is at fault alone, and is not dropped."""
    record = {"messages": talk("4")[:1], "choices": [{"message": talk("4")[1]}, {"message": None}]}
    assert [r.fault is None for r in read(record)[0].rollouts] == [True, False]


def test_one_and_several() -> None:
    """A file in which some prompts have one answer and some several is read as groups if told so."""
    choices = [{"message": talk(text)[1]} for text in "45"]
    records = [{"messages": talk("4")[:1], "choices": choices[:size]} for size in (1, 2)]
    with pytest.raises(UsageError, match="say --format prompt-responses"):
        reader(*records)
    found = read(*records, format="prompt-responses")
    assert [len(record.rollouts) for record in found] == [1, 2]
