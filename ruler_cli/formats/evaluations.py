"""Runs of evaluation tools: Inspect, promptfoo, tau2-bench; and an agent's steps.

Tasks mostly lie apart, because trials are the outer loop. Several readers take no null as a score.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    Names,
    first,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
)
from ruler_cli.formats.chat import (
    read_conversation,
    with_answer,
    with_task,
)
from ruler_cli.formats.keys import hashed_key
from ruler_cli.formats.names import STEP_LISTS
from ruler_cli.formats.paths import Rollouts
from ruler_cli.messages.content import (
    Messages,
    Turn,
    is_agent,
    new_turn,
    text_of,
)
from ruler_cli.messages.conversations import (
    chat_turns,
    check_messages,
    prompt_turns,
    step_turns,
)
from ruler_cli.types import Rollout

_ATTACHED = "attachment://"
_VARIABLE = re.compile(r"\{\{ *(.+?) *\}\}")


def read_inspect(record: JsonObject) -> Rollout:
    """Read a sample of Inspect."""
    stated = record.get("messages")
    messages = check_messages(stated, "messages") if stated else []
    before = messages or prompt_turns(record.get("input"), "input")
    whole = with_answer({"output": record.get("output")}, before)
    # after a tool's result `output` is still the model's message before it, or it is empty
    spoken = [("", None), *map(_spoken, filter(is_agent, messages))]
    if whole != before and not (messages and _spoken(whole[-1]) in spoken):
        messages = whole
    if not messages:
        raise UnreadableError(
            "has no messages in `messages` (Inspect writes this when a sample failed early)"
        )
    attached = record.get("attachments") or {}
    turns = []
    for message in messages:
        turn = _resolved(message, attached)
        content = turn.get("content")
        error = lookup(turn, "error.message")
        if is_text(error) and error not in str(content):
            shown = f"{content}\n" if content else ""
            turn["content"] = f"{shown}error: {error}"
        turns.append(turn)
    score = _inspect_score(record)
    return Rollout(turns, reward=score, outcome=score)


def _spoken(message: Turn) -> tuple[str, Any]:
    return text_of(message), message.get("tool_calls") or None


def _inspect_score(record: JsonObject) -> Any:
    """Return the first score that ruler did not write; UnreadableError if another scorer has its name."""
    scores = record.get("scores")
    if not is_object(scores):
        return None
    ours = ("metadata.ruler.status", "scores.ruler.metadata.status")
    if "ruler" in scores and first_at(record, *ours) is None:
        raise UnreadableError(
            "has a scorer `ruler` that ruler did not write; rename it"
        )
    score = first(scores[name] for name in scores if name != "ruler")
    return score.get("value") if is_object(score) else score


def _resolved(value: Any, attached: Turn) -> Any:
    """Return a value with its attachments in place, and with the summaries of thoughts that are left out.

    An attachment that is missing stays a reference.
    """
    if is_object(value):
        if value.get("type") == "reasoning" and value.get("redacted"):
            summary = value.get("summary") or "(not shown)"
            value = {"type": "reasoning", "reasoning": summary}
        return {key: _resolved(v, attached) for key, v in value.items()}
    if is_list(value):
        return [_resolved(v, attached) for v in value]
    if is_text(value) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    return value


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
    return Rollout([*prompt, answer])


def _variables(record: JsonObject) -> Turn:
    """The variables of a test, without those that have another value in each run."""
    stated = record.get("vars") or lookup(record, "testCase.vars") or {}
    names = [name for name in stated if not re.match("_|sessionId$", name)]
    return {name: stated[name] for name in names}


def promptfoo_key(record: JsonObject) -> str | None:
    """Return a hash of a test's name and its variables, or its prompt if it has none."""
    task = _variables(record) or lookup(record, "prompt.raw")
    return hashed_key("test", [task, lookup(record, "testCase.description")])


def promptfoo_outputs(record: JsonObject) -> Names:
    """Return the columns of outputs in a row of promptfoo's table: their names begin with the provider."""
    return tuple([name for name in record if name.startswith("[")])


def read_promptfoo_row(record: JsonObject) -> Rollouts:
    """Read a row of promptfoo's table: a test, the outputs of each prompt and provider, and beside each its status."""
    columns = [*record]
    outputs = promptfoo_outputs(record)
    test = {name: record[name] for name in columns[: columns.index(outputs[0])]}
    rollouts = []
    for i, name in enumerate(outputs):
        template = name.partition("] ")[2]
        prompt = _VARIABLE.sub(
            lambda mark: test.get(mark[1], mark[0]), template
        )
        # a label stands for the prompt
        asked = test if prompt == template else prompt
        at = columns.index(name)
        status, score = map(record.get, columns[at + 1 : at + 3])
        error = None
        if status not in ("PASS", "FAIL"):
            error = f"has no answer in `{name}`: its status is {status}"
        rollout = Rollout(
            [new_turn("user", asked), new_turn("assistant", record[name])],
            (i,),
            error=error,
            outcome=status == "PASS",
            reward=json_value(score),
        )
        rollouts.append(rollout)
    return rollouts


def steps_of(record: JsonObject) -> Messages:
    """Return an agent's steps, each a thought or an action, with what it saw, as turns; [] if there are none."""
    for name in STEP_LISTS:
        if turns := step_turns(items(record.get(name))):
            return turns
    return []


def read_steps(record: JsonObject) -> Rollout:
    """Read an agent's steps, or Gemini's contents, behind the record's task and before the answer beside them."""
    contents = [
        {"role": "user", **content}
        for content in objects(record.get("contents"))
    ]
    turns = chat_turns(contents, "contents") if contents else steps_of(record)
    return read_conversation(record, with_task(record, turns))


def with_results(
    _: JsonObject,
    rollout: Rollout,
) -> Rollout:
    """Name results by their calls, and calls of the simulated user as such, in a simulation of tau2-bench."""
    turns = []
    for message in rollout.messages:
        role = message.get("role")
        calls = objects(message.get("tool_calls"))
        turn = {**message}
        if role == "tool":
            turn["tool_call_id"] = message.get("id")
        elif role == "user" and calls:
            turn["tool_calls"] = [
                {**call, "name": f"{call.get('name')} (the user's)"}
                for call in calls
            ]
        # the results of calls that were made at once
        for result in objects(message.get("tool_messages")):
            identity = result.get("id")
            turns.append({**result, "role": "tool", "tool_call_id": identity})
        if "tool_messages" not in message:
            turns.append(turn)
    return replace(rollout, messages=turns)
