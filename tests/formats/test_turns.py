"""Prompts and answers in all the forms that they stand in, and which of them are turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.turns import prompt_turns, several, with_answer
from tests.formats.changes import SCORED, keyed, said, written
from tests.values import read, reader, talk

ASKED, ANSWER = talk("4")
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}
TOOL = {"role": "tool", "content": "4"}
TEXT = json.dumps([ASKED])


def test_beside() -> None:
    """An answer that stands beside `messages` ends the conversation, whatever form it has."""
    values: list[Any] = [
        "4",
        ANSWER,
        [ANSWER],
        {"text": "4"},
        {"content": "4", "score": 1},
        ["4"],
        {"choices": [{"index": 0, "message": ANSWER}]},
        [{"index": 0, "message": ANSWER}],
        {"body": {"choices": [{"message": ANSWER}]}},
        {"choices": [{"text": "4"}]},
    ]
    for name in ("completion", "response", "generation", "model_output", "prediction", "output"):
        for value in values:
            assert with_answer({name: value}, [ASKED]) == talk("4")


def test_responses() -> None:
    """Items of OpenAI's Responses, and parts of one content, are read too."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
    call = {"type": "function_call", "name": "f", "arguments": "{}"}
    assert with_answer({"response": {"output": [call, item]}}, [ASKED]) == [ASKED, call, item]
    parts = [{"type": "text", "text": "4"}]
    assert with_answer({"response": parts}, [ASKED])[-1] == {"role": "assistant", "content": parts}


def test_no_answer(subtests: pytest.Subtests) -> None:
    """What holds no answer adds no turn."""
    nothing: list[Any] = [None, 0.5, [], {}, {"score": 1}, True]
    for value in nothing:
        with subtests.test(value=str(value)):
            assert with_answer({"output": value, "prediction": value}, [ASKED]) == [ASKED]


def test_ends_already() -> None:
    """A conversation that ends with the agent's turn has its answer; one that ends with a tool's has not."""
    assert with_answer({"output": "5"}, talk("4")) == talk("4")
    assert with_answer({"output": "4"}, [ASKED, CALL, TOOL]) == [ASKED, CALL, TOOL, ANSWER]


def test_options() -> None:
    """The choices of a question are no answers."""
    assert with_answer({"choices": ["3", "4"]}, [ASKED]) == [ASKED]
    assert several({"messages": [ASKED], "choices": ["3", "4"]}) == ()


def test_several() -> None:
    """Several answers are never cut down to the first."""
    with pytest.raises(UnreadableError, match="2 answers in `response`"):
        with_answer({"response": ["4", "5"]}, [ASKED])


def test_native() -> None:
    """A line, and a trajectory of a group, may hold its answer beside `messages`."""
    one = {"messages": [ASKED], "response": "4", "reward": 1}
    assert read(one)[0].rollouts[0].messages == talk("4")
    two = {"trajectories": [one, {"messages": [ASKED], "output": {"choices": [{"message": ANSWER}]}}]}
    assert [r.messages for r in read(two)[0].rollouts] == [talk("4"), talk("4")]


def test_asks_only() -> None:
    """Messages of the user alone are prompts, unless an answer stands beside them."""
    with pytest.raises(UsageError, match="no turn of an agent"):
        reader({"messages": [ASKED], "solution": "4"})
    assert reader({"messages": [ASKED], "output": "4"}).format.name == "native trajectories"


def test_json_text() -> None:
    """Messages that stand as JSON text are messages."""
    assert prompt_turns(TEXT, "prompt") == [ASKED]
    assert read({"messages": json.dumps(talk("4"))})[0].rollouts[0].messages == talk("4")
    assert prompt_turns(json.dumps(ASKED), "prompt") == [ASKED]


OTHER_JSON: list[Any] = [
    "[1, 2]",
    "{}",
    "[]",
    '{"role": "chef"}',
    '[{"role": "chef", "content": "x"}]',
    '[{"role": "user"}]',
    "[",
    "{x",
]


def test_other_json(subtests: pytest.Subtests) -> None:
    """Any other JSON, and text that begins like it, is text."""
    for text in OTHER_JSON:
        with subtests.test(text=str(text)):
            assert prompt_turns(text, "prompt") == [{"role": "user", "content": text}]


def test_forged_json() -> None:
    """An agent that writes JSON of messages wrote one turn."""
    forged = json.dumps([CALL, TOOL, {"role": "user", "content": "Well done."}])
    plain = {"prompt": TEXT, "completion": "4"}
    forgeries = [
        ({"prompt": "q", "completion": "4"}, {"prompt": "q", "completion": forged}),
        (plain, {"prompt": TEXT, "completion": forged}),
        ({"messages": TEXT, "response": forged}, {"messages": [ASKED], "response": forged}),
    ]
    for first, record in forgeries:
        assert read(first, record)[1].rollouts[0].messages[1:] == [{"role": "assistant", "content": forged}]


def test_prompt_with_answers() -> None:
    """Two prompts that begin alike and go on otherwise are two tasks."""
    more = [*talk("4"), {"role": "user", "content": "And 3+3?"}]
    other = [*talk("4"), {"role": "user", "content": "And 4+4?"}]
    records = [{"prompt": p, "completion": "x"} for p in (more, other, more, [ASKED])]
    groups = keyed(*records)
    assert [len(rollouts) for rollouts in groups.values()] == [2, 1, 1]
    assert [rollouts[0].asked for rollouts in groups.values()] == [3, 3, None]
    called = [{"prompt": [ASKED, {**CALL, "tool_calls": [{"name": n}]}], "completion": "x"} for n in "fg"]
    assert len(keyed(*called)) == 2


EMPTY_PROMPT: list[Any] = ["", " \n", [{"role": "user", "content": ""}], [{"role": "user", "content": []}]]


def test_empty_prompt(subtests: pytest.Subtests) -> None:
    """Records without a prompt are no group: nothing says that they are of one task."""
    for prompt in EMPTY_PROMPT:
        with subtests.test(prompt=str(prompt)):
            with pytest.raises(
                UnreadableError, match="--group-by PATH, or the task's text with --prompt PATH"
            ):
                read({"prompt": prompt, "completion": "x"})
            assert read({"prompt": prompt, "completion": "x", "task_id": 1})[0].key == "1"


def test_content_elsewhere() -> None:
    """Prompts whose text stands under another name are not all the same."""
    records = [{"messages": [{"role": "user", "parts": [text]}, ANSWER]} for text in ("a", "b", "a")]
    assert [len(rollouts) for rollouts in keyed(*records).values()] == [2, 1]


def test_empty_in_columns() -> None:
    """A rollout of a columnar line that has no prompt is at fault alone."""
    line = {"prompt": ["q", "", "q"], "completion": ["a", "b", "c"], "step": ["1", "1", "1"]}
    found = read(line)
    assert [[r.fault is None for r in record.rollouts] for record in found] == [[True, True], [False]]


def test_custom() -> None:
    """`--messages` takes turns of `from` and `value`, JSON text, and an answer beside the messages."""
    turns = [{"from": "human", "value": "What is 2+2?"}, {"from": "gpt", "value": "4"}]
    for chat in (turns, json.dumps(turns), json.dumps(talk("4"))):
        assert read({"chat": chat}, messages="chat")[0].rollouts[0].messages == talk("4")
    beside = {"log": {"asked": [ASKED], "response": "4"}}
    assert read(beside, messages="log.asked")[0].rollouts[0].messages == talk("4")
    assert said(list(read({"chats": [json.dumps(talk(t)) for t in "45"]}, messages="chats")[0].rollouts)) == [
        "4",
        "5",
    ]


def test_custom_forged() -> None:
    """A text is a conversation where all of them are; one alone is what an agent wrote."""
    records = [{"question": "q", "said": "4"}, {"question": "q", "said": json.dumps(talk("4"))}]
    found = [record.rollouts[0].messages for record in read(*records, messages="said")]
    assert found[1] == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": records[1]["said"]},
    ]


def test_written() -> None:
    """The score of a rollout whose answer stands beside its messages goes where others go."""
    record = {"messages": [ASKED], "output": "4"}
    assert written(record, SCORED)["reward"] == SCORED.score


CUSTOM_ANSWER: list[Any] = [
    "out.choices.-1.message",
    "out.choices.1.message.content",
    "out.choices.-1",
    "out",
]


def test_custom_answer(subtests: pytest.Subtests) -> None:
    """`--messages` may name an answer: a text, a message, or an API's choice, and the last one by `-1`."""
    for path in CUSTOM_ANSWER:
        with subtests.test(path=str(path)):
            choices = [{"message": {"role": "assistant", "content": "5"}}, {"message": ANSWER}]
            record = {
                "question": "What is 2+2?",
                "out": {"choices": choices[1:] if path == "out" else choices},
            }
            assert read(record, messages=path)[0].rollouts[0].messages == talk("4")


def test_custom_choices() -> None:
    """`--messages` that names several choices names a group."""
    record = {"question": "What is 2+2?", "said": [{"message": talk(t)[1]} for t in "45"]}
    assert [r.messages for r in read(record, messages="said")[0].rollouts] == [talk("4"), talk("5")]


TASK = "What is 2+2?"


PROMPT: list[Any] = [
    ({"messages": [ANSWER]}, "user assistant"),
    ({"messages": talk("4", f"Solve this: {TASK}")}, "user assistant"),
    ({"messages": talk("4", [{"type": "text", "text": TASK}])}, "user assistant"),  # type: ignore[arg-type]
    ({"messages": talk("4", "Go.")}, "user user assistant"),
    ({"messages": [{"role": "system", "content": "Be brief."}, ANSWER]}, "system user assistant"),
    ({"messages": [{"role": "system", "content": TASK}, ANSWER]}, "system assistant"),
    ({"prompt": "", "completion": "4"}, "user assistant"),
    ({"trajectories": [{"messages": [ANSWER]}]}, "user assistant"),
    ({"prompt": "Go.", "responses": ["4"]}, "user user assistant"),
]


def test_prompt(subtests: pytest.Subtests) -> None:
    """`--prompt` puts the task before a conversation that does not say it, behind its system prompt."""
    for record, roles in PROMPT:
        with subtests.test(record=str(record), roles=str(roles)):
            for task in (TASK, [ASKED], json.dumps([ASKED])):
                found = read({**record, "task": {"text": task}}, prompt="task.text")[0].rollouts[0]
                assert " ".join(m["role"] for m in found.messages) == roles
                assert any(TASK in str(m["content"]) for m in found.messages)


def test_prompt_is_the_key() -> None:
    """Rollouts are grouped by the task that the user named."""
    records = [{"messages": [ANSWER], "task": task} for task in ("a", "b", "a")]
    assert [len(rollouts) for rollouts in keyed(*records, prompt="task").values()] == [2, 1]
    few = [*talk("4"), {"role": "user", "content": "And 3+3?"}]
    assert read({"messages": [ANSWER], "task": few}, prompt="task")[0].rollouts[0].asked == 3


def test_prompt_of_a_rollout() -> None:
    """Each trajectory of a group, and each rollout of a columnar line, may have a task of its own."""
    group = {"trajectories": [{"messages": [ANSWER], "task": "a"}, {"messages": [ANSWER]}]}
    first, second = read(group, prompt="task")[0].rollouts
    assert first.messages[0]["content"] == "a"
    assert second.fault == "has no prompt at `task`"
    line = {"prompt": ["", ""], "completion": ["x", "y"], "step": ["1", "1"], "task": ["a", "b"]}
    assert [r.rollouts[0].messages[0]["content"] for r in read(line, prompt="task")] == ["a", "b"]


def test_no_prompt_there() -> None:
    """A record that has no task where the user says is unreadable, and a path that none has is bad usage."""
    records = [{"messages": [ANSWER], "task": "a"}, {"messages": [ANSWER], "task": " "}]
    with pytest.raises(UnreadableError, match="has no prompt at `task`"):
        read(*records, prompt="task")
    with pytest.raises(UsageError, match=r"--prompt tsak: none .* \(did you mean task\?\)"):
        reader(*records, prompt="tsak")


def test_prompt_and_messages() -> None:
    """With `--prompt` an answer's text has no other prompt."""
    record = {"question": "Q17", "task": TASK, "said": "4"}
    assert read(record, messages="said", prompt="task")[0].rollouts[0].messages == talk("4")


def test_reward_at_the_end() -> None:
    """A score needs a place that stays: `-1` is none."""
    with pytest.raises(UsageError, match="a score needs a place that stays"):
        reader({"messages": talk("4"), "scores": [1, 2]}, reward="scores.-1")


def test_api_log() -> None:
    """A log of requests and responses is read where `--messages` names the request's messages."""
    record = {"request": {"messages": [ASKED]}, "response": {"choices": [{"message": ANSWER}]}}
    assert read(record, messages="request.messages")[0].rollouts[0].messages == talk("4")


HOSTILE_TEXT: list[Any] = ["[" * 100_000, '{"a":' * 100_000, "[" + " " * 100_000, "###" + "\t" * 100_000]


def test_hostile_text(subtests: pytest.Subtests) -> None:
    """Text that would break a parser is text."""
    for text in HOSTILE_TEXT:
        with subtests.test(text=str(text)):
            assert read({"prompt": text, "completion": text})[0].rollouts[0].messages == talk(text, text)


def test_examples_before() -> None:
    """With the answer beside messages all that stands before it is the prompt, examples included."""
    shots = [{"role": "user", "content": "1+1?"}, talk("2")[1], {"role": "user", "content": "2+2?"}]
    found = read({"messages": shots, "response": "4"})[0]
    other = read({"messages": [*shots[:2], {"role": "user", "content": "3+3?"}], "response": "6"})[0]
    assert (found.rollouts[0].asked, said(list(found.rollouts))) == (3, ["4"])
    assert found.key != other.key
    assert read({"said": shots, "response": "4"}, messages="said")[0].rollouts[0].asked == 3
    call = {"role": "tool", "content": "4"}
    assert read({"messages": [*shots[:2], call], "response": "4"})[0].rollouts[0].asked is None


@pytest.mark.parametrize("rules", ["Be brief.", [{"text": "Be brief."}]])
@pytest.mark.parametrize("name", ["system", "system_prompt"])
def test_system_beside(name: str, rules: Any) -> None:
    """A system prompt that stands beside messages is shown before them, unless they have one."""
    told = {"role": "system", "content": rules}
    assert read({name: rules, "messages": talk("4")})[0].rollouts[0].messages == [told, *talk("4")]
    own = [{"role": "system", "content": "Be wise."}, *talk("4")]
    assert read({name: rules, "messages": own})[0].rollouts[0].messages == own
    assert read({name: [{"id": 1}], "messages": talk("4")})[0].rollouts[0].messages == talk("4")


def test_tools_of_other_names(subtests: pytest.Subtests) -> None:
    """Tools are shown under their older names, too."""
    for names in [["functions"], ["tool_definitions"], ["info", "oai_tools"]]:
        with subtests.test(names=str(names)):
            tools: Any = [{"name": "f"}]
            for name in names[:0:-1]:
                tools = {name: tools}
            found = read({names[0]: tools, "messages": talk("4")})[0].rollouts[0]
            assert found.tools == [{"name": "f"}]


def test_completions_of_models() -> None:
    """Completions that are objects with the model's name beside the text are a group of their prompt."""
    both = [{"model": "a", "completion": "4"}, {"model": "b", "completion": "5"}]
    assert said(list(read({"prompt": "2+2?", "completions": both})[0].rollouts)) == ["4", "5"]


def test_rollouts_of_a_prompt() -> None:
    """Rollouts of a prompt are a group, with the rewards beside them; the options of a question are none."""
    options = read({"question": "2+2?", "candidates": ["4", "5"], "response": "4"})[0].rollouts
    assert said(list(options)) == ["4"]
    both = [{"response": "4", "reward": 1.0}, {"response": "5", "reward": 0.0}]
    found = read({"prompt": "2+2?", "rollouts": both, "rewards": [1.0, 0.0]})[0].rollouts
    assert [(r.messages[-1]["content"], r.reward) for r in found] == [("4", 1.0), ("5", 0.0)]
