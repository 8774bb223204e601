"""Runs of evaluation tools and benchmarks: Inspect, promptfoo, tau2-bench, BFCL, MT-bench.

Tasks mostly lie apart, because trials are the outer loop. Several readers take no null as a score. A record
without its question, which is in another file (BFCL, FastChat), holds nothing that can be judged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    Names,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.chat import (
    read_conversation,
    read_or_error,
    with_answer,
    with_task,
)
from ruler_cli.formats.keys import hashed_key
from ruler_cli.formats.names import STEP_LISTS
from ruler_cli.formats.paths import Rollouts, list_field
from ruler_cli.messages.content import Messages, Turn, is_agent, new_turn
from ruler_cli.messages.conversations import (
    chat_turns,
    check_messages,
    prompt_turns,
    step_turns,
)
from ruler_cli.messages.dialects import each_at
from ruler_cli.types import Rollout

_ATTACHED = "attachment://"


def read_inspect(record: JsonObject) -> Rollout:
    """Read a sample of Inspect."""
    stated = record.get("messages")
    messages = check_messages(stated, "messages") if stated else []
    before = messages or prompt_turns(record.get("input"), "input")
    whole = with_answer({"output": record.get("output")}, before)
    # after a tool's result `output` is still the model's message before it, or it is empty
    replies = [[None, None], *map(_said, filter(is_agent, messages))]
    repeated = messages and _said(whole[-1]) in replies
    if len(whole) > len(before) and not repeated:
        messages = whole
    if not messages:
        raise UnreadableError(
            "has no messages in `messages` (Inspect writes this when a sample failed early)"
        )
    if is_object(attached := record.get("attachments")):
        messages = _resolved(messages, attached)
    value = _inspect_score(record)
    turns = [*map(_inspect_turn, messages)]
    return Rollout(turns, reward=value, outcome=value)


def _inspect_score(record: JsonObject) -> Any:
    """Return the first score that ruler did not write; UnreadableError if another scorer has its name."""
    scores = record.get("scores")
    if not is_object(scores):
        return None
    ours = first_at(
        record, "metadata.ruler.status", "scores.ruler.metadata.status"
    )
    if "ruler" in scores and ours is None:
        raise UnreadableError(
            "has a scorer `ruler` that ruler did not write; rename it"
        )
    for name, score in scores.items():
        if name != "ruler":
            return score.get("value") if is_object(score) else score
    return None


def _said(message: JsonObject) -> list[Any]:
    return [message.get(key) or None for key in ("content", "tool_calls")]


def _resolved(value: Any, attached: Turn) -> Any:
    """A value with its attachments in their places; one that is missing stays a reference."""
    if is_object(value):
        return {key: _resolved(v, attached) for key, v in value.items()}
    if is_list(value):
        return [_resolved(v, attached) for v in value]
    if is_text(value) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    return value


def _inspect_turn(message: Turn) -> Turn:
    """Return a message with its error as text, and the summary of a thought that is left out."""
    content = message.get("content")
    error = lookup(message, "error.message")
    if (
        message["role"] == "tool"
        and is_text(error)
        and error not in str(content)
    ):
        before = f"{content}\n" if content else ""
        content = f"{before}error: {error}"
    if not is_list(content):
        return {**message, "content": content}
    parts: Messages = []
    for part in content:
        if lookup(part, "type") == "reasoning" and part.get("redacted"):
            summary = part.get("summary") or "(not shown)"
            parts.append({"type": "reasoning", "reasoning": summary})
        else:
            parts.append(part)
    return {**message, "content": parts}


def read_promptfoo(record: JsonObject) -> Rollout:
    """Read a result of promptfoo."""
    output = lookup(record, "response.output")
    raw = lookup(record, "prompt.raw")
    if output in (None, "[output stripped]"):
        raise UnreadableError("has no answer in `response.output`")
    if is_text(raw) and raw.strip() not in ("", "[prompt stripped]"):
        prompt = prompt_turns(raw, "prompt.raw")
    elif variables := _variables(record):
        prompt = [new_turn("user", variables)]
    else:
        raise UnreadableError("has no prompt in `prompt.raw` and no `vars`")
    answer = new_turn("assistant", output)
    called = [item for item in objects(output) if "function" in item]
    if called and called == output:
        answer = new_turn("assistant", None, tool_calls=called)
    return Rollout([*prompt, answer], outcome=record.get("success"))


def _variables(record: JsonObject) -> Turn:
    """The variables of a test, without those that have another value in each run."""
    stated = record.get("vars") or lookup(record, "testCase.vars")
    variables = {}
    for name, value in stated.items() if is_object(stated) else ():
        if name[:1] != "_" and name != "sessionId":
            variables[name] = value
    return variables


def promptfoo_key(record: JsonObject) -> str | None:
    """Return a hash of a test's name and its variables, or its prompt if it has none."""
    task = _variables(record) or lookup(record, "prompt.raw")
    name = lookup(record, "testCase.description")
    return hashed_key("test", [task, name])


def promptfoo_outputs(record: JsonObject) -> Names:
    """Return the columns of outputs in a row of promptfoo's table: their names begin with the provider."""
    return tuple([name for name in record if name.startswith("[")])


def read_promptfoo_row(record: JsonObject) -> Rollouts:
    """Read a row of promptfoo's table: a test, the outputs of each prompt and provider, and beside each its status."""
    names = [*record]
    outputs = promptfoo_outputs(record)
    test = {name: record[name] for name in names[: names.index(outputs[0])]}
    rollouts = []
    for i, name in enumerate(outputs):
        template = name.partition("] ")[2]
        prompt = template
        for variable, value in test.items():
            mark = r"\{\{ *" + re.escape(variable) + r" *\}\}"
            prompt = value.join(re.split(mark, prompt))
        # a label stands for the prompt
        asked = test if prompt == template else prompt
        turns = [new_turn("user", asked), new_turn("assistant", record[name])]
        at = names.index(name)
        status, score = [record[names[at + beside]] for beside in (1, 2)]
        error = None
        if status not in ("PASS", "FAIL"):
            error = f"has no answer in `{name}`: its status is {status}"
        outcome = status == "PASS"
        reward = json_value(score)
        rollouts.append(
            Rollout(turns, (i,), error=error, outcome=outcome, reward=reward)
        )
    return rollouts


def steps_of(record: JsonObject) -> Messages:
    """Return an agent's steps, each a thought or an action, with what it saw, as turns; [] if there are none."""
    for name in STEP_LISTS:
        value = record.get(name)
        listed = _numbered(value) if is_object(value) else items(value)
        if turns := step_turns(listed):
            return turns
    return []


def _numbered(steps: JsonObject) -> list[Any]:
    """Return the steps in an object whose keys end in their numbers, such as DSPy's `thought_0`."""
    listed = defaultdict[str, Turn](dict)
    for key, value in steps.items():
        name, _, number = key.rpartition("_")
        listed[number][name] = value
    return [*listed.values()]


def read_steps(record: JsonObject) -> Rollout:
    """Read an agent's steps, or Gemini's contents, behind the record's task and before the answer beside them."""
    contents = [
        {"role": "user", **content}
        for content in objects(record.get("contents"))
    ]
    turns = chat_turns(contents, "contents") if contents else steps_of(record)
    if is_object(record.get("trajectory")):
        # what DSPy's agent says in the end
        thought, text = each_at(record, "reasoning answer")
        if is_text(thought) and is_text(text):
            last = new_turn("assistant", text, reasoning_content=thought)
            turns = [*turns, last]
    return read_conversation(record, with_task(record, turns))


def with_results(_: JsonObject, rollout: Rollout) -> Rollout:
    """Read the results of calls in a simulation of tau2-bench."""
    turns = [
        turn for message in rollout.messages for turn in _tau2_turns(message)
    ]
    return replace(rollout, messages=turns)


def _tau2_turns(message: Turn) -> Iterator[Turn]:
    """A message, with results named by their calls, and calls of the simulated user marked as such."""
    role = message.get("role")
    calls = objects(message.get("tool_calls"))
    # the results of calls that were made at once
    for result in objects(message.get("tool_messages")):
        yield from _tau2_turns({"role": "tool", **result})
    if role == "tool":
        message = {**message, "tool_call_id": message.get("id")}
    elif role == "user" and calls:
        named = [
            {**call, "name": f"{call.get('name')} (the user's)"}
            for call in calls
        ]
        message = {**message, "tool_calls": named}
    if "tool_messages" not in message:
        yield message


_BFCL = words(
    "live_ exec_ executable_ multi_turn_ simple multiple parallel irrelevance relevance java rest sql chatable "
    "web_search memory format_sensitivity"
)
"""Beginnings of the ids of BFCL's categories."""
_RESULT = frozenset(words("inference_log input_token_count traceback"))
"""Fields of its results, of which each has one."""


def is_bfcl(record: JsonObject) -> bool:
    """Return whether a record is a result of BFCL, or of its score files."""
    if lookup(record, "prompt.question") is not None:
        return True
    has_result = not _RESULT.isdisjoint(record)
    return has_result and record["id"].startswith(_BFCL)


def read_bfcl(record: JsonObject) -> Rollout:
    """Read a result of BFCL."""
    if "traceback" in record:
        raise UnreadableError(
            "has an error in `result` and no answer (BFCL writes this with `traceback`)"
        )
    log = objects(record.get("inference_log"))
    if any(_QUERY in part for part in log):
        messages: Messages = []
        for part in log:
            messages += _logged(part)
    else:
        messages = _answered(record)
    tools = record.get("function") or lookup(record, "prompt.function")
    return Rollout(messages, tools=tools, outcome=record.get("valid"))


def _logged(part: Turn) -> Iterator[Turn]:
    """A part of a log: a query, then the messages of the model and the tools at each step."""
    if asked := part.get(_QUERY):
        yield from check_messages(asked, _QUERY)
    entries = []
    for name, step in part.items():
        if name.startswith("step_"):
            entries += objects(step)
    for entry in entries:
        role, content, thought = each_at(
            entry, "role content reasoning_content"
        )
        if role == "assistant":
            yield {**_model_turn(content), "reasoning_content": thought}
        elif role == "tool":
            yield new_turn(role, content)


def _answered(record: JsonObject) -> Messages:
    """The turns of a question, each before its answer; of several turns each answer is a list of steps."""
    question = items(first_at(record, "question", "prompt.question"))
    result = first_at(record, "result", "model_result_raw", "model_result")
    if not question:
        raise UnreadableError(_apart("id"))
    answers = [[result]]
    if len(question) > 1:
        answers = items(result)
    if len(answers) != len(question):
        raise UnreadableError(
            f"has {len(question)} turns in `question` and other answers in `result`"
        )
    messages: Messages = []
    for turn, answer in zip(question, answers, strict=True):
        messages += check_messages(turn, "question") if turn else ()
        steps = answer if is_list(answer) else [answer]
        messages += map(_model_turn, steps)
    return messages


_QUERY = "begin_of_turn_query"


def _model_turn(answer: Any) -> Turn:
    """The turn of a model that answered with a text, or with calls as `{name: arguments}`."""
    calls = objects(answer)
    if not calls or len(calls) != len(answer):
        return new_turn("assistant", answer)
    listed = []
    for call in calls:
        for name, arguments in call.items():
            listed.append({"name": name, "arguments": arguments})
    return new_turn("assistant", None, tool_calls=listed)


def _apart(key: str) -> str:
    """Return why a record without its question is not read."""
    return f"has no question, which stands in another file; join the two by `{key}`"


def read_mt_bench(record: JsonObject) -> Rollouts:
    """Read the answers to the turns of a question; both are texts or objects with `content`."""
    questions = record.get("turns")
    if not is_list(questions):
        raise UnreadableError(_apart("question_id"))

    def read(answers: Any) -> Rollout:
        count = len(items(answers))
        if not 0 < count <= len(questions):
            raise UnreadableError(
                f"has {count} answers for {len(questions)} questions"
            )
        turns = []
        for pair in zip(questions, answers, strict=False):
            for role, turn in zip(("user", "assistant"), pair, strict=True):
                text = turn.get("content") if is_object(turn) else turn
                turns.append(new_turn(role, text))
        return Rollout(turns)

    rollouts = []
    for number, choice in enumerate(list_field(record, "choices")):
        path = ("choices", number)
        rollouts.append(read_or_error(path, read, lookup(choice, "turns")))
    return rollouts
