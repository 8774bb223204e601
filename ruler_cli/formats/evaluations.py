"""Runs of evaluation tools, a sample each: Inspect AI, promptfoo, eval-protocol.

Inspect (`EvalSample`, as `inspect log dump` and a log hold it; `inspect_ai.log`, `_recorders/json.py`,
`_recorders/eval.py`). Traps: the epoch counts the rollouts of a task, and tasks are never adjacent; a tool
call's `function` is its name; long texts stand in `attachments`; the answer may stand in `output` alone, and
the question in `input` alone; a sample that failed early has neither messages nor an output. Its reader drops
unknown keys and takes no null as a score's value, so ruler's score is a scorer of its own, `ruler`, which is
absent if there is none (as `inspect score --action append` writes it), and the rest is sample metadata.

promptfoo (`--output x.json`, `x.jsonl`): a result is a rollout, and the `vars` of a test are its task,
whichever prompt and provider answered. Traps: with `--repeat` every run has a `testIdx` of its own, so it is
no key; an own provider may take the variables and leave the prompt empty; both sides may have been stripped.

eval-protocol: a row is an `eval_protocol.models.EvaluationRow`. Traps: the group is the input's row, and each
run of it a rollout; the score stands in `evaluation_result`, which is null before the evaluation; its reader
keeps unknown keys and takes no null as a score either. A recording (`mcp/execution/base_policy.py`,
`log_conversation_state_for_playback`) has a line for each step of each environment, with all messages so far,
for playback. Traps: threads write in no order; the file is appended to, so an index of a run may come again
in the next one: the first answer, whose calls have ids of their own, tells the rollouts apart; there is no
reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, first_agent_turn, tools_of
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import has_keys, is_message_list, lookup
from ruler_cli.formats.interface import Format, RecordLayout, keyed_format, printable, refused_shapes
from ruler_cli.formats.prompts import prompt_key
from ruler_cli.formats.reader import hashed_key
from ruler_cli.formats.turns import chat_turns, prompt_turns, with_answer
from ruler_cli.types import Rollout

_ATTACHED = "attachment://"


def _read_inspect(record: dict[str, Any]) -> list[Rollout]:
    messages = _inspect_messages(record)
    if isinstance(attached := record.get("attachments"), dict):
        messages = _resolved(messages, attached)
    scores = record["scores"] if isinstance(record.get("scores"), dict) else {}
    if "ruler" in scores and lookup(record, "metadata.ruler.status") is None:
        raise UnreadableError("has a scorer `ruler` that ruler did not write; rename it")
    score = next((score for name, score in scores.items() if name != "ruler"), None)
    value = score.get("value") if isinstance(score, dict) else score
    turns = [turn for message in messages for turn in _inspect_turns(message)]
    return [Rollout(turns, reward=value, outcome=value)]


def _inspect_messages(record: dict[str, Any]) -> Messages:
    """The messages, and the answer in `output` if it is not among them."""
    messages = check_messages(record["messages"], "messages") if record.get("messages") else []
    before = messages or prompt_turns(record.get("input"), "input")
    whole = with_answer({"output": record.get("output")}, before)
    if len(whole) > len(before):
        # after a tool's result `output` is still the model's message before it, or it is empty
        last: dict[str, Any] = next((m for m in reversed(messages) if m.get("role") == "assistant"), {})
        own, said = ([m.get(key) or None for key in ("content", "tool_calls")] for m in (whole[-1], last))
        return messages if messages and (not any(own) or own == said) else whole
    if not messages:
        reason = lookup(record, "error.message")
        why = f": {printable(reason, 200)}" if isinstance(reason, str) else ""
        raise UnreadableError(
            f"has no messages in `messages` (Inspect writes this when a sample failed early{why})"
        )
    return messages


def _resolved(value: Any, attached: dict[str, Any]) -> Any:
    """A value with its attachments in their places; one that is missing stays a reference."""
    if isinstance(value, dict):
        return {key: _resolved(v, attached) for key, v in value.items()}
    if isinstance(value, list):
        return [_resolved(v, attached) for v in value]
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    return value


def _inspect_turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as others write it: server-side tool use as a call and its result, an error as text."""
    content = message.get("content")
    error = lookup(message, "error.message")
    if message.get("role") == "tool" and isinstance(error, str) and error not in str(content):
        yield {**message, "content": f"{content}\nerror: {error}" if content else f"error: {error}"}
        return
    if not isinstance(content, list):
        yield message
        return
    parts: Messages = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_use":
            call = call_turn(part.get("id"), part.get("name"), part.get("arguments"))
            yield call | {"role": message.get("role"), "content": parts}
            yield result_turn(part.get("id"), part.get("error") or part.get("result"))
            parts = []
        elif kind == "reasoning" and part.get("redacted"):
            parts.append({"type": "reasoning", "reasoning": part.get("summary") or "(not shown)"})
        else:
            parts.append(part)
    if parts or message.get("tool_calls") or not content:
        yield {**message, "content": parts}


_RUN_VARIABLES = ("sessionId",)
"""Variables of promptfoo that have another value in each run of a test."""


def _read_promptfoo(record: dict[str, Any]) -> list[Rollout]:
    output, raw = lookup(record, "response.output"), lookup(record, "prompt.raw")
    if output is None:
        why = lookup(record, "error") or lookup(record, "response.error")
        reason = f": {printable(why, 200)}" if isinstance(why, str) else ""
        raise UnreadableError(f"has no answer in `response.output`{reason}")
    if output == "[output stripped]":
        raise UnreadableError("has no answer: it was written with PROMPTFOO_STRIP_RESPONSE_OUTPUT")
    if isinstance(raw, str) and raw.strip() and raw != "[prompt stripped]":
        prompt = prompt_turns(raw, "prompt.raw")
    elif variables := _variables(record):
        prompt = [{"role": "user", "content": variables}]
    else:
        raise UnreadableError("has no prompt in `prompt.raw` and no `vars` (see PROMPTFOO_STRIP_PROMPT_TEXT)")
    called = is_message_list(output) and all(
        "function" in item or item.get("type") == "function" for item in output
    )
    content = {"content": None, "tool_calls": output} if called else {"content": output}
    turns = [*prompt, {"role": "assistant", **content}]
    return [Rollout(turns, reward=record.get("score"), outcome=record.get("success"))]


def _variables(record: Mapping[str, Any]) -> dict[str, Any]:
    variables = record.get("vars") or lookup(record, "testCase.vars")
    variables = variables if isinstance(variables, dict) else {}
    return {k: v for k, v in variables.items() if k[:1] != "_" and k not in _RUN_VARIABLES}


def _test_key(record: Mapping[str, Any]) -> str | None:
    """A hash of a test's name and its variables, or its prompt if it has none."""
    task = _variables(record) or lookup(record, "prompt.raw")
    return hashed_key("test", [task, lookup(record, "testCase.description")])


def _chat(record: dict[str, Any], otherwise: str) -> Messages:
    if not record.get("messages"):
        raise UnreadableError(f"has no messages in `messages`{otherwise}")
    return with_answer(record, chat_turns(record["messages"], "messages"))


def _read_row(record: dict[str, Any]) -> list[Rollout]:
    messages, reward = _chat(record, " (written when a rollout failed)"), "evaluation_result.score"
    return [Rollout(messages, tools=tools_of(record), reward=lookup(record, reward))]


_APART = ("epoch", "iteration", "episode", "episode_id", "rollout_id", "run_id", "trial", "group_id", "seed")
"""Fields that may tell two rollouts of one environment from each other."""


def _environment(record: Mapping[str, Any]) -> Any:
    return record.get("env_index", record.get("env_idx"))


def _is_step(record: Mapping[str, Any]) -> bool:
    numbers = (_environment(record), record.get("step"))
    return "messages" in record and "input_metadata" not in record and all(type(n) is int for n in numbers)


def _opening(messages: Messages) -> int:
    """The number of first messages that are the task; the agent's turns may be missing after it."""
    results = (i for i, message in enumerate(messages) if message.get("role") in ("tool", "function"))
    return min(first_agent_turn(messages), next(results, len(messages)))


def _step_key(record: Mapping[str, Any]) -> str:
    messages = _read_step(dict(record))[0].messages
    return prompt_key(Rollout(messages[: _opening(messages)]), None)


def _read_step(record: dict[str, Any]) -> list[Rollout]:
    messages = _chat(record, ": nothing was said up to this step")
    numbers = [_environment(record), *(record.get(name) for name in _APART)]
    member = hashed_key("env", [*numbers, messages[: _opening(messages) + 1]])
    return [Rollout(messages, tools=tools_of(record), reward=record.get("reward"), member=member)]


FORMATS = (
    keyed_format(
        "messages input_metadata", "eval-protocol rows", "eval-protocol", _read_row,
        ("input_metadata.row_id",),
        RecordLayout(reward=("evaluation_result", "score"), refuses_null="eval-protocol"),
    ),
    Format(
        "eval-protocol recordings", "eval-protocol", "`env_index`, `step`, `messages`", _is_step,
        _read_step, key_of=_step_key, key_description="hash of the prompt, whatever the step",
    ),
    keyed_format(
        "id epoch messages", "Inspect samples", "inspect", _read_inspect, ("id",),
        RecordLayout(
            reward=("scores", "ruler"), ruler=("metadata", "ruler"), source=("scores", "*", "value"),
            form=b'{"value": %s}', lost=b"",
        ),
    ),
    Format(
        "promptfoo results", "promptfoo", "`testIdx`, `promptIdx`, `prompt.raw`",
        # before 2024 there were no indexes
        lambda record: isinstance(lookup(record, "prompt.raw"), str)
        and any(has_keys(*keys.split())(record) for keys in ("testIdx promptIdx", "vars gradingResult")),
        _read_promptfoo, layout=RecordLayout(reward=("score",)), key_of=_test_key,
        key_description="variables of the test",
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
    ("evalId results",
     "is a whole promptfoo result in one line; give the .json file, or a result a line: "
     "jq -c '.results.results[]'"),
)  # fmt: skip
