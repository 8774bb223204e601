"""Runs of an evaluation, a sample each: Inspect AI, tau2-bench, eval-protocol.

Inspect (`EvalSample`, as `inspect log dump` and a log hold it; `inspect_ai.log`, `_recorders/json.py`,
`_recorders/eval.py`). Traps: the epoch is which rollout of a task it is, and tasks are never adjacent; a tool
call's `function` is its name; long texts stand in `attachments`; the answer may stand in `output` alone, and
the question in `input` alone; a sample that failed early has neither messages nor an output. Its reader drops
unknown keys and takes no null as a score's value, so a score is a scorer of its own, `ruler`, which is absent
where there is none (as `inspect score --action append` writes it), and the rest is sample metadata.

tau2-bench (`results.json`, `tau2.data_model.simulation.SimulationRun`). Traps: the trial is the outer loop,
so tasks lie apart; arguments of tool calls are objects, and a result has the call's `id`; the simulated user
calls tools too (`requestor`), which are not the agent's work; a full-duplex (voice) run has `ticks` and no
`messages`. Its reader (`Results.load`) drops unknown keys but for `reward_info.info`, and takes no null as a
reward, so it reads no file in which a group failed: `--on-failure drop` leaves those out.

eval-protocol: a row is an `eval_protocol.models.EvaluationRow`. Traps: the group is the input's row, and each
run of it a rollout; the score stands in `evaluation_result`, which is null before the evaluation; its reader
keeps unknown keys and takes no null as a score either. A recording (`mcp/execution/base_policy.py`,
`log_conversation_state_for_playback`) has a line for each step of each environment, with all messages so far,
for playback. Traps: threads write in no order; the file is appended to, so an index of a run may come again
in the next one: a rollout is known by its first answer too, whose calls have ids of their own; it has no
reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, first_agent_turn, tools_of
from ruler_cli.formats.interface import Format, RecordLayout, items, keyed_format, lookup, objects, printable
from ruler_cli.formats.prompts import prompt_key
from ruler_cli.formats.reader import hashed_key
from ruler_cli.formats.turns import chat_turns, prompt_turns, with_answer
from ruler_cli.types import Rollout

_ATTACHED = "attachment://"


def _inspect(record: dict[str, Any]) -> list[Rollout]:
    messages = _inspect_messages(record)
    if isinstance(attached := record.get("attachments"), dict):
        messages = _resolved(messages, attached)
    scores = record.get("scores")
    scores = scores if isinstance(scores, dict) else {}
    if "ruler" in scores and lookup(record, "metadata.ruler.status") is None:
        raise UnreadableError("has a scorer `ruler` that ruler did not write; rename it")
    given = next((score for name, score in scores.items() if name != "ruler"), None)
    value = given.get("value") if isinstance(given, dict) else given
    turns = [turn for message in messages for turn in _inspect_turns(message)]
    return [Rollout(turns, reward=value, outcome=value)]


def _inspect_messages(record: dict[str, Any]) -> Messages:
    """The messages, and the answer in `output` if it is not among them."""
    said = check_messages(record["messages"], "messages") if record.get("messages") else []
    asked = said or prompt_turns(record.get("input"), "input")
    found = with_answer({"output": record.get("output")}, asked)
    if said:
        # after a tool's result `output` is still what the model said before it
        return said if found[len(said) :] and _is_said(found[-1], said) else found
    if len(found) == len(asked):
        reason = lookup(record, "error.message")
        why = f": {printable(reason, 200)}" if isinstance(reason, str) else ""
        raise UnreadableError(
            f"has no messages in `messages` (Inspect writes this when a sample failed early{why})"
        )
    return found


def _is_said(answer: dict[str, Any], messages: Messages) -> bool:
    """Tell if an answer is the agent's last message, or says nothing."""
    last: dict[str, Any] = next((m for m in reversed(messages) if m.get("role") == "assistant"), {})
    own = [answer.get(name) or None for name in ("content", "tool_calls")]
    return not any(own) or own == [last.get(name) or None for name in ("content", "tool_calls")]


def _resolved(value: Any, attached: dict[str, Any]) -> Any:
    """A value with the texts that stand elsewhere in the sample."""
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
    said = lookup(message, "error.message")
    if message.get("role") == "tool" and isinstance(said, str) and said not in str(content):
        yield {**message, "content": f"{content}\nerror: {said}" if content else f"error: {said}"}
        return
    if not isinstance(content, list):
        yield message
        return
    parts: Messages = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_use":
            call = {"id": part.get("id"), "name": part.get("name"), "arguments": part.get("arguments")}
            yield {"role": message.get("role"), "content": parts, "tool_calls": [call]}
            result = part.get("error") or part.get("result")
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": result}
            parts = []
        elif kind == "reasoning" and part.get("redacted"):
            parts.append({"type": "reasoning", "reasoning": part.get("summary") or "(not shown)"})
        else:
            parts.append(part)
    if parts or message.get("tool_calls") or not content:
        yield {**message, "content": parts}


def _tau2(record: dict[str, Any]) -> list[Rollout]:
    if not record.get("messages"):
        if record.get("ticks"):
            raise UnreadableError("is a full-duplex run: it has `ticks` and no `messages`; write those first")
        raise UnreadableError("has no messages in `messages` (tau2-bench writes this when a run crashed)")
    found = check_messages(record["messages"], "messages")
    messages = [turn for message in found for turn in _tau2_turns(message)]
    return [Rollout(messages, reward=lookup(record, "reward_info.reward"))]


def _tau2_turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message with what came back named by its call, and the user's own calls told as that."""
    calls = items(message.get("tool_calls"))
    if isinstance(message.get("tool_messages"), list):  # the results of calls that were made at once
        for one in objects(message["tool_messages"]):
            yield from _tau2_turns({"role": "tool", **one})
    elif message.get("role") == "tool":
        yield {**message, "tool_call_id": message.get("id")}
    elif message.get("role") == "user" and calls:
        named = [{**c, "name": f"{c.get('name')} (the user's)"} if isinstance(c, dict) else c for c in calls]
        yield {**message, "tool_calls": named}
    else:
        yield message


def _chat(record: dict[str, Any], otherwise: str) -> Messages:
    if not record.get("messages"):
        raise UnreadableError(f"has no messages in `messages`{otherwise}")
    return with_answer(record, chat_turns(record["messages"], "messages"))


def _row(record: dict[str, Any]) -> list[Rollout]:
    messages = _chat(record, " (written when a rollout failed)")
    return [Rollout(messages, tools=tools_of(record), reward=lookup(record, "evaluation_result.score"))]


_APART = ("epoch", "iteration", "episode", "episode_id", "rollout_id", "run_id", "trial", "group_id", "seed")
"""Fields that may tell two rollouts of one environment from each other."""


def _environment(record: Mapping[str, Any]) -> Any:
    return record.get("env_index", record.get("env_idx"))


def _is_step(record: Mapping[str, Any]) -> bool:
    numbers = (_environment(record), record.get("step"))
    return "messages" in record and "input_metadata" not in record and all(type(n) is int for n in numbers)


def _opening(messages: Messages) -> int:
    """The number of first messages that are the task; the agent's turns may be missing."""
    roles = [message.get("role") in ("tool", "function") for message in messages]
    return min(first_agent_turn(messages), roles.index(True) if True in roles else len(messages))


def _step_key(record: Mapping[str, Any]) -> str:
    messages = _step(dict(record))[0].messages
    return prompt_key(Rollout(messages[: _opening(messages)]), None)


def _step(record: dict[str, Any]) -> list[Rollout]:
    messages = _chat(record, ": nothing was said up to this step")
    known = [_environment(record), *(record.get(name) for name in _APART)]
    member = hashed_key("env", [*known, messages[: _opening(messages) + 1]])
    return [Rollout(messages, tools=tools_of(record), reward=record.get("reward"), member=member)]


FORMATS = (
    keyed_format(
        "messages input_metadata", "eval-protocol rows", "eval-protocol", _row, ("input_metadata.row_id",),
        RecordLayout(reward=("evaluation_result", "score"), refuses_null="eval-protocol"),
    ),
    Format(
        "eval-protocol recordings", "eval-protocol", "`env_index`, `step`, `messages`", _is_step, _step,
        key_of=_step_key, key_description="hash of the prompt, whatever the step",
    ),
    keyed_format(
        "id epoch messages", "Inspect samples", "inspect", _inspect, ("id",),
        RecordLayout(
            reward=("scores", "ruler"), ruler=("metadata", "ruler"), source=("scores", "*", "value"),
            form=b'{"value": %s}', lost=b"",
        ),
    ),
    keyed_format(
        "task_id messages reward_info", "tau2-bench", "tau2", _tau2, ("task_id",),
        RecordLayout(
            reward=("reward_info", "reward"), ruler=("reward_info", "info", "ruler"),
            refuses_null="tau2-bench",
        ),
        simulated_user=True,
    ),
)  # fmt: skip
