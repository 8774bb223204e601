"""Lines with a prompt and one answer or several, or the turns of a conversation."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import SCORED, keyed, same_twice, written
from tests.values import read, reader, talk

CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}],
}


def test_messages() -> None:
    """A prompt of messages and a completion of several turns are one conversation."""
    prompt, answer = talk("4")
    record = {
        "prompt": [prompt],
        "completion": [CALL, {"role": "tool", "content": "4"}, answer],
    }
    record_read = read({**record, "tools": '[{"name": "f"}]', "task_id": 3})[0]
    assert record_read.rollouts[0].messages == [
        prompt,
        CALL,
        {"role": "tool", "content": "4"},
        answer,
    ]
    assert (record_read.key, record_read.rollouts[0].tools) == ("3", [{"name": "f"}])


def test_step() -> None:
    """The same prompt in another step is another group."""
    assert (
        len(keyed(*({"prompt": "q", "completion": "a", "step": s} for s in (1, 2, 1))))
        == 2
    )


def test_label(subtests: pytest.Subtests) -> None:
    """The label of an unpaired preference is an outcome."""
    for label in [True, False]:
        with subtests.test(label=str(label)):
            assert (
                read({"prompt": "q", "completion": "a", "label": label})[0]
                .rollouts[0]
                .outcome
                is label
            )


def test_empty_answer() -> None:
    """An empty answer and a null each have an error of their own."""
    error = read({"prompt": "q", "completion": " "})[0].rollouts[0].error
    assert error == "has only empty turns of the agent: there is nothing to judge"
    with pytest.raises(UnreadableError, match="`completion` is null, as after an"):
        read({"prompt": "q", "completion": None})


OTHER_SHAPES: list[Any] = [
    {"prompt": ["a", "b"], "completion": ["c", "d"]},
    {"prompt": {"a": 1}, "completion": "x"},
    {"input": {"a": 1}, "output": {"b": 2}},
    {"prompt": "q", "completion": 7},
]


def test_other_shapes(subtests: pytest.Subtests) -> None:
    """A prompt or answer that is neither text nor messages makes no rollout."""
    for record in OTHER_SHAPES:
        with subtests.test(record=str(record)), pytest.raises(UsageError):
            reader(record)


def test_native_wins() -> None:
    """A record with `messages` is native, whatever other fields it has."""
    record = {
        "messages": talk("4"),
        "prompt": "q",
        "completion": "a",
        "input": "q",
        "output": "a",
    }
    assert reader(record).format.name == "native trajectories"


def test_every_pair() -> None:
    """Any name of a prompt goes with any name of an answer."""
    prompts = "prompt instruction query question problem input user_input user_prompt user_message"
    answers = "completion response generation model_output prediction output actual_output actualOutput"
    for one, other in product(prompts.split(), [*answers.split(), "agent_response"]):
        assert read({one: "What is 2+2?", other: "4"})[0].rollouts[0].messages == talk(
            "4"
        )


def test_alpaca() -> None:
    """The input of an instruction follows it in the prompt, and distinguishes tasks."""
    tasks = [
        ("Add them.", "2 and 2"),
        ("Add them.", ""),
        ("Name a tree.", ""),
        ("Add them.", "2 and 2"),
    ]
    groups = keyed(*({"instruction": a, "input": b, "output": "x"} for a, b in tasks))
    assert [rollouts[0].messages[0]["content"] for rollouts in groups.values()] == [
        "Add them.\n\n2 and 2",
        "Add them.",
        "Name a tree.",
    ]
    assert len(next(iter(groups.values()))) == 2


def test_history() -> None:
    """A system prompt and earlier turns, as pairs or messages, precede the question."""
    record = {
        "system": "Be brief.",
        "history": [["Hi.", "Hello."]],
        "query": "2+2?",
        "response": "4",
    }
    rollout = read(record)[0].rollouts[0]
    assert [m["role"] for m in rollout.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert rollout.prompt_length == 4
    listed = {**record, "history": talk("Hello.", "Hi.")}
    assert read(listed)[0].rollouts[0].messages == rollout.messages
    assert len(keyed(record, listed, {**record, "history": [["Hi.", "What?"]]})) == 2


def test_reference_answer() -> None:
    """`answer` is the agent's only beside a question, and only without another answer field."""
    assert read({"question": "What is 2+2?", "answer": "4"})[0].rollouts[
        0
    ].messages == talk("4")
    both = {
        "question": "What is 2+2?",
        "answer": "5",
        "model_output": "4",
        "output": "5",
    }
    assert read(both)[0].rollouts[0].messages == talk("4")
    with pytest.raises(UsageError):
        reader({"prompt": "q", "answer": "4"})


def test_json_texts() -> None:
    """Prompt and completion may be JSON text of messages."""
    prompt, answer = talk("4")
    record = {
        "prompt": json.dumps([prompt]),
        "completion": json.dumps([CALL, {"role": "tool", "content": "4"}, answer]),
    }
    assert [m["role"] for m in read(record)[0].rollouts[0].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


DIALOGUE: list[Any] = [
    "\n\nHuman: Hi.\n\nAssistant: Hello.\n\nHuman: What is 2+2?\n\nAssistant:",
    "Human: Hi.\n\nAssistant: Hello.\n\nHuman: What is 2+2?\n\nAssistant:",
    "### Human: Hi.### Assistant: Hello.### Human: What is 2+2?### Assistant:",
    "USER: Hi. ASSISTANT: Hello. USER: What is 2+2? ASSISTANT:",
    "User: Hi.\nAssistant: Hello.\nUser: What is 2+2?\nAssistant:",
]


def test_dialogue(subtests: pytest.Subtests) -> None:
    """A prompt that is a whole dialogue becomes turns; the completion stays one turn."""
    for prompt in DIALOGUE:
        with subtests.test(prompt=str(prompt)):
            forged = "4\n\nHuman: Thanks.\n\nAssistant: Welcome."
            rollout = read({"prompt": prompt, "completion": forged})[0].rollouts[0]
            turns = [(m["role"], m["content"]) for m in rollout.messages]
            assert turns == [
                ("user", "Hi."),
                ("assistant", "Hello."),
                ("user", "What is 2+2?"),
                ("assistant", forged),
            ]
            assert rollout.prompt_length == 3


NO_DIALOGUE: list[Any] = [
    "Say Human: and Assistant: twice.",
    "User: hello",
    "Assistant:",
    "# Human: x",
]


def test_no_dialogue(subtests: pytest.Subtests) -> None:
    """Text that does not begin with a marker, or has one side only, is the user's turn."""
    for prompt in NO_DIALOGUE:
        with subtests.test(prompt=str(prompt)):
            assert (
                read({"prompt": prompt, "completion": "a"})[0]
                .rollouts[0]
                .messages[0]["content"]
                == prompt
            )


def test_context() -> None:
    """The context of a question is a part of the prompt, unless the question contains it."""
    record = {"question": "Who?", "answer": "Ada."}
    message = read({**record, "context": "Ada wrote it."})[0].rollouts[0].messages[0]
    assert message["content"] == "Who?\n\nAda wrote it."
    contained = read(
        {**record, "question": "Ada wrote it. Who?", "context": "Ada wrote it."}
    )[0].rollouts[0]
    assert contained.messages[0]["content"] == "Ada wrote it. Who?"
    assert read({"prompt": "Who?", "completion": "x", "context": "web"})[0].rollouts[
        0
    ].messages == talk("x", "Who?")


def test_retrieved(subtests: pytest.Subtests) -> None:
    """Texts retrieved for a question are context of its answer, and leave the group as it is."""
    for name in ["context", "retrieved_contexts", "retrieval_context", "documents"]:
        with subtests.test(name=str(name)):
            one, other = (
                read({"query": "Who?", "response": answer, name: [text]})[0]
                for answer, text in (("Ada.", "Ada wrote it."), ("Bo.", "Bo read it."))
            )
            assert one.key == other.key
            assert [turn["role"] for turn in one.rollouts[0].messages] == [
                "user",
                "context",
                "assistant",
            ]
            assert one.rollouts[0].messages[1]["content"] == ["Ada wrote it."]


@pytest.mark.parametrize(
    "answer", ["4", talk("4")[1], [talk("4")[1]], {"text": "4", "index": 0}]
)
@pytest.mark.parametrize(
    "names",
    [("prompt", "responses"), ("question", "completions"), ("input", "outputs")],
)
def test_kinds(answer: Any, names: tuple[str, str]) -> None:
    """An answer is a text, a message, messages, or an object with a text, under any common name."""
    prompt_name, answers = names
    (rollout,) = read({prompt_name: "What is 2+2?", answers: [answer]})[0].rollouts
    assert rollout.messages == talk("4")


def test_unequal(subtests: pytest.Subtests) -> None:
    """A record is unreadable if its rewards are not one for each answer."""
    message = "no list of 2 items at `rewards`"
    for rewards in ([1.0], 0.5):
        with subtests.test(rewards=str(rewards)):
            with pytest.raises(UnreadableError, match=message):
                read({"prompt": "q", "responses": ["a", "b"], "rewards": rewards})
            with pytest.raises(UnreadableError, match=message):
                read({"mine": ["a", "b"], "rewards": rewards}, messages="mine")


def test_stepwise_supervision() -> None:
    """TRL's stepwise supervision, which holds steps of one answer, is refused."""
    record = {"prompt": "q", "completions": ["a", "b"], "labels": [True, False]}
    with pytest.raises(UsageError, match="holds no rollouts"):
        reader(record)


@pytest.mark.parametrize(
    "answers",
    [
        {"choices": [{"message": talk("4")[1]}, {"message": talk("5")[1]}]},
        {
            "response": {
                "choices": [{"message": talk("4")[1]}, {"message": talk("5")[1]}]
            }
        },
        {"output": ["4", "5"]},
        {"responses": [{"text": "4"}, {"content": "5"}]},
        {"completions": [talk("4")[1], talk("5")[1]]},
    ],
)
@pytest.mark.parametrize(
    "prompt", [{"messages": talk("4")[:1]}, {"prompt": "What is 2+2?"}]
)
def test_several_answers(answers: dict[str, Any], prompt: dict[str, Any]) -> None:
    """Several answers beside messages or a prompt are a group of rollouts."""
    record = {**prompt, **answers}
    assert [r.messages for r in read(record)[0].rollouts] == [talk("4"), talk("5")]
    scored = written(record, SCORED)
    assert scored["rewards"] == [0.625, 0.625]
    same_twice(record)


def test_choices_of_a_question() -> None:
    """The choices of a question are not its answers."""
    with pytest.raises(UsageError):
        reader({"question": "What is 2+2?", "choices": ["3", "4"]})
    record = {"question": "What is 2+2?", "choices": ["3", "4"], "prediction": "4"}
    assert reader(record).format.name == "prompts with a completion"


def test_choice_without_text() -> None:
    """A choice without an answer is a rollout with an error."""
    record = {
        "messages": talk("4")[:1],
        "choices": [{"message": talk("4")[1]}, {"message": None}],
    }
    assert [r.error is None for r in read(record)[0].rollouts] == [True, False]


def test_one_and_several() -> None:
    """`--format prompt-responses` reads a file of prompts with one answer or several."""
    choices = [{"message": talk(text)[1]} for text in "45"]
    records = [
        {"messages": talk("4")[:1], "choices": choices[:size]} for size in (1, 2)
    ]
    with pytest.raises(UsageError, match="name it: --format prompt-responses"):
        reader(*records)
    records_read = read(*records, format="prompt-responses")
    assert [len(record.rollouts) for record in records_read] == [1, 2]


TURNS = [{"from": "human", "value": "What is 2+2?"}, {"from": "gpt", "value": "4"}]


def test_names_of_turns() -> None:
    """The list of turns and its fields have several names."""
    forms: list[Any] = [
        TURNS,
        talk("4"),
        [{"speaker": "user", "text": "What is 2+2?"}, {"speaker": "bot", "text": "4"}],
        [{"role": "Human", "value": "What is 2+2?"}, {"role": "ChatGPT", "value": "4"}],
        json.dumps(TURNS),
        [{"human": "What is 2+2?", "assistant": "4"}],
    ]
    for name in (
        "conversations",
        "conversation",
        "dialog",
        "dialogue",
        "turns",
        "items",
    ):
        for turns in forms:
            assert read({name: turns})[0].rollouts[0].messages == talk("4")


@pytest.mark.parametrize(
    "name", ["gpt", "chatgpt", "bing", "bard", "assistant", "model"]
)
def test_agents(name: str) -> None:
    """A turn under any of the agent's names is the agent's."""
    turns = [TURNS[0], {"from": name, "value": "4"}]
    assert read({"conversations": turns})[0].rollouts[0].messages == talk("4")


def test_calls_stay() -> None:
    """A turn keeps its other fields."""
    call = {
        "from": "gpt",
        "value": None,
        "tool_calls": [{"id": "1"}],
        "weight": 0,
        "loss": False,
    }
    assert read({"conversations": [TURNS[0], call, TURNS[1]]})[0].rollouts[0].messages[
        1
    ] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1"}],
        "weight": 0,
        "loss": False,
    }


@pytest.mark.parametrize(
    "text",
    [
        "### Human: What is 2+2?### Assistant: 4",
        "\n\nHuman: What is 2+2?\n\nAssistant: 4",
        "USER: What is 2+2? ASSISTANT: 4",
    ],
)
def test_text(text: str) -> None:
    """A text that is a whole dialogue is a conversation."""
    assert read({"text": text})[0].rollouts[0].messages == talk("4")


@pytest.mark.parametrize(
    "record",
    [{"text": "Human: hello"}, {"items": [{"sku": 1}]}, {"turns": 3}, {"items": ["a"]}],
)
def test_no_turns(record: Any) -> None:
    """Other lists and texts are not conversations."""
    with pytest.raises(UsageError):
        reader(record)


def test_answer_beside() -> None:
    """An answer beside the turns is the last turn."""
    assert read({"conversations": TURNS[:1], "response": "4"})[0].rollouts[
        0
    ].messages == talk("4")


def test_broken_turn() -> None:
    """A record with an item that is not a turn is unreadable."""
    good = {"conversations": TURNS}
    with pytest.raises(UnreadableError):
        read(good, {"conversations": [TURNS[0], "gpt: 4"]})


def test_query_beside_a_question() -> None:
    """A `query` beside a `question` is no task: in text-to-SQL sets it is the right answer."""
    record = {"question": "How many?", "query": "SELECT 1", "prediction": "SELECT 2"}
    shown = json.dumps(read(record)[0].rollouts[0].messages)
    assert "How many?" in shown
    assert "SELECT 1" not in shown
