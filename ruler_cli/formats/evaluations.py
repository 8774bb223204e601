"""Runs of evaluation tools and benchmarks: Inspect, promptfoo, eval-protocol, tau2-bench, BFCL, MT-bench.

Tasks mostly lie apart, because trials are the outer loop. Several readers take no null as a score. A record
without its question, which is in another file (BFCL, FastChat), is refused with the command that joins both.

docs/formats.md says who writes each file, and what its keys do not show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import (
    Messages,
    check_messages,
    first_agent_turn,
    messages_in,
    tools_of,
)
from ruler_cli.formats.dialects import call_turn, result_turn
from ruler_cli.formats.fields import (
    first_at,
    has_keys,
    is_message_list,
    items,
    lookup,
    objects,
)
from ruler_cli.formats.interface import (
    Format,
    RecordLayout,
    keyed_format,
    printable,
    refused_shapes,
)
from ruler_cli.formats.prompts import prompt_key
from ruler_cli.formats.reader import hashed_key
from ruler_cli.formats.turns import (
    answer_turns,
    chat_turns,
    prompt_turns,
    read_or_error,
    with_answer,
)
from ruler_cli.types import Rollout

_ATTACHED = "attachment://"


def _read_inspect(record: dict[str, Any]) -> list[Rollout]:
    messages = _inspect_messages(record)
    if isinstance(attached := record.get("attachments"), dict):
        messages = _resolved(messages, attached)
    scores = record["scores"] if isinstance(record.get("scores"), dict) else {}
    places = ("metadata.ruler", "scores.ruler.metadata")
    if "ruler" in scores and all(
        lookup(record, f"{place}.status") is None for place in places
    ):
        raise UnreadableError(
            "has a scorer `ruler` that ruler did not write; rename it"
        )
    score = next((score for name, score in scores.items() if name != "ruler"), None)
    value = score.get("value") if isinstance(score, dict) else score
    turns = [turn for message in messages for turn in _inspect_turns(message)]
    return [Rollout(turns, reward=value, outcome=value)]


def _inspect_messages(record: dict[str, Any]) -> Messages:
    """The messages, and the answer in `output` if it is not among them."""
    messages = (
        check_messages(record["messages"], "messages") if record.get("messages") else []
    )
    before = messages or prompt_turns(record.get("input"), "input")
    whole = with_answer({"output": record.get("output")}, before)
    if len(whole) > len(before):
        # after a tool's result `output` is still the model's message before it, or it is empty
        last: dict[str, Any] = next(
            (m for m in reversed(messages) if m.get("role") == "assistant"), {}
        )
        own, said = (
            [m.get(key) or None for key in ("content", "tool_calls")]
            for m in (whole[-1], last)
        )
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
    if (
        message.get("role") == "tool"
        and isinstance(error, str)
        and error not in str(content)
    ):
        yield {
            **message,
            "content": f"{content}\nerror: {error}" if content else f"error: {error}",
        }
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
            parts.append(
                {"type": "reasoning", "reasoning": part.get("summary") or "(not shown)"}
            )
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
        raise UnreadableError(
            "has no answer: it was written with PROMPTFOO_STRIP_RESPONSE_OUTPUT"
        )
    if isinstance(raw, str) and raw.strip() and raw != "[prompt stripped]":
        prompt = prompt_turns(raw, "prompt.raw")
    elif variables := _variables(record):
        prompt = [{"role": "user", "content": variables}]
    else:
        raise UnreadableError(
            "has no prompt in `prompt.raw` and no `vars` (see PROMPTFOO_STRIP_PROMPT_TEXT)"
        )
    called = is_message_list(output) and all(
        "function" in item or item.get("type") == "function" for item in output
    )
    content = {"content": None, "tool_calls": output} if called else {"content": output}
    turns = [*prompt, {"role": "assistant", **content}]
    return [Rollout(turns, reward=record.get("score"), outcome=record.get("success"))]


def _variables(record: Mapping[str, Any]) -> dict[str, Any]:
    variables = record.get("vars") or lookup(record, "testCase.vars")
    variables = variables if isinstance(variables, dict) else {}
    return {
        k: v for k, v in variables.items() if k[:1] != "_" and k not in _RUN_VARIABLES
    }


def _test_key(record: Mapping[str, Any]) -> str | None:
    """A hash of a test's name and its variables, or its prompt if it has none."""
    task = _variables(record) or lookup(record, "prompt.raw")
    return hashed_key("test", [task, lookup(record, "testCase.description")])


def _chat(record: dict[str, Any], otherwise: str) -> Messages:
    if not record.get("messages"):
        raise UnreadableError(f"has no messages in `messages`{otherwise}")
    return with_answer(record, chat_turns(record["messages"], "messages"))


def _read_row(record: dict[str, Any]) -> list[Rollout]:
    messages, reward = (
        _chat(record, " (written when a rollout failed)"),
        "evaluation_result.score",
    )
    return [Rollout(messages, tools=tools_of(record), reward=lookup(record, reward))]


_APART = (
    "epoch",
    "iteration",
    "episode",
    "episode_id",
    "rollout_id",
    "run_id",
    "trial",
    "group_id",
    "seed",
)
"""Fields that may tell two rollouts of one environment from each other."""


def _environment(record: Mapping[str, Any]) -> Any:
    return record.get("env_index", record.get("env_idx"))


def _is_step(record: Mapping[str, Any]) -> bool:
    numbers = (_environment(record), record.get("step"))
    return (
        "messages" in record
        and "input_metadata" not in record
        and all(type(n) is int for n in numbers)
    )


def _opening(messages: Messages) -> int:
    """The number of first messages that are the task; the agent's turns may be missing after it."""
    results = (
        i
        for i, message in enumerate(messages)
        if message.get("role") in ("tool", "function")
    )
    return min(first_agent_turn(messages), next(results, len(messages)))


def _step_key(record: Mapping[str, Any]) -> str:
    messages = _read_step(dict(record))[0].messages
    return prompt_key(Rollout(messages[: _opening(messages)]), None)


def _read_step(record: dict[str, Any]) -> list[Rollout]:
    messages = _chat(record, ": nothing was said up to this step")
    numbers = [_environment(record), *(record.get(name) for name in _APART)]
    member = hashed_key("env", [*numbers, messages[: _opening(messages) + 1]])
    return [
        Rollout(
            messages, tools=tools_of(record), reward=record.get("reward"), member=member
        )
    ]


def _read_tau2(record: dict[str, Any]) -> list[Rollout]:
    if record.get("ticks") and not record.get("messages"):
        raise UnreadableError(
            "is a full-duplex run: it has `ticks` and no `messages`; write those first"
        )
    messages = messages_in(
        record, "messages", "tau2-bench writes this when a run crashed"
    )
    turns = [turn for message in messages for turn in _tau2_turns(message)]
    return [Rollout(turns, reward=lookup(record, "reward_info.reward"))]


def _tau2_turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, with results named by their calls, and calls of the simulated user marked as such."""
    calls = items(message.get("tool_calls"))
    if isinstance(
        message.get("tool_messages"), list
    ):  # the results of calls that were made at once
        for one in objects(message["tool_messages"]):
            yield from _tau2_turns({"role": "tool", **one})
    elif message.get("role") == "tool":
        yield {**message, "tool_call_id": message.get("id")}
    elif message.get("role") == "user" and calls:
        named = [
            {**c, "name": f"{c.get('name')} (the user's)"} if isinstance(c, dict) else c
            for c in calls
        ]
        yield {**message, "tool_calls": named}
    else:
        yield message


def _read_bfcl(record: dict[str, Any]) -> list[Rollout]:
    if "traceback" in record:
        raise UnreadableError(
            "has an error in `result` and no answer (BFCL writes this with `traceback`)"
        )
    question, log = _question(record), record.get("inference_log")
    result = first_at(record, "result", "model_result_raw", "model_result")
    if any(_QUERY in turn for turn in objects(log)):
        messages = [turn for part in objects(log) for turn in _logged(part)]
    elif question:
        messages = list(_answered(question, result))
    elif (request := _request(log)) is not None:
        prompt = request.get("message") if isinstance(request, dict) else request
        messages = [*prompt_turns(prompt, "inference_log"), _model_turn(result)]
    else:
        raise UnreadableError(
            "has no question, neither in `inference_log` nor joined from its file"
        )
    tools = lookup(record, "function") or lookup(record, "prompt.function")
    return [
        Rollout(
            messages,
            tools=tools,
            reward=record.get("reward"),
            outcome=record.get("valid"),
        )
    ]


_QUERY = "begin_of_turn_query"
_CATEGORY = re.compile(
    r"(live_|exec_|executable_|multi_turn_|simple|multiple|parallel|irrelevance|relevance|java|rest|sql|chatable|"
    r"web_search|memory|format_sensitivity)"
)
"""Beginnings of BFCL's ids: the category."""


def _question(record: Mapping[str, Any]) -> Any:
    turns = record.get("question") or lookup(record, "prompt.question")
    return (
        turns
        if isinstance(turns, list) and all(isinstance(turn, list) for turn in turns)
        else None
    )


def _request(log: Any) -> Any:
    """The first request in a log (`--include-input-log`); None if there is none."""
    requests = (
        entry.get("content")
        for entry in objects(log)
        if entry.get("role") == "inference_input"
    )
    return next(filter(None, requests), None)


def _logged(turn: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One turn of a log: the query, then the messages of the model and the tools at each step."""
    yield from check_messages(turn[_QUERY], _QUERY) if turn.get(_QUERY) else ()
    for name, step in turn.items():
        for entry in objects(step) if name.startswith("step_") else ():
            role = entry.get("role")
            if role == "assistant":
                thought = entry.get("reasoning_content")
                yield {
                    **_model_turn(entry.get("content")),
                    "reasoning_content": thought,
                }
            elif role == "tool":
                yield {"role": "tool", "content": entry.get("content")}


def _answered(question: list[Any], result: Any) -> Iterator[dict[str, Any]]:
    """The questions of turns, each with its answer; of several turns each answer is a list of steps."""
    many = len(question) > 1
    if many and not (isinstance(result, list) and len(result) == len(question)):
        raise UnreadableError(
            f"has {len(question)} turns in `question` and other answers in `result`"
        )
    for turn, answer in zip(question, result if many else [result], strict=True):
        yield from check_messages(turn, "question") if turn else ()
        for step in answer if many and isinstance(answer, list) else [answer]:
            yield _model_turn(step)


def _model_turn(answer: Any) -> dict[str, Any]:
    """The turn of a model that answered with a text, or with calls as `{name: arguments}`."""
    calls = objects(answer)
    if not calls or len(calls) != len(answer):
        return {"role": "assistant", "content": answer}
    listed = [
        {"name": name, "arguments": value}
        for call in calls
        for name, value in call.items()
    ]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def _from_bfcl(record: Mapping[str, Any]) -> bool:
    named = isinstance(record.get("id"), str) and _CATEGORY.match(record["id"])
    logged = {"inference_log", "input_token_count", "traceback"} & record.keys()
    score = has_keys("id", "valid", "prompt")(record) and bool(
        lookup(record, "prompt.question")
    )
    return ("result" in record and bool(named) and bool(logged)) or score


def _is_bfcl(record: Mapping[str, Any]) -> bool:
    log = record.get("inference_log")
    logged = any(_QUERY in part for part in objects(log))
    return _from_bfcl(record) and bool(_question(record) or logged or _request(log))


def _read_mt_bench(record: dict[str, Any]) -> list[Rollout]:
    rollouts = []
    for name, what in (("choices", "answers"), ("turns", "questions")):
        if not isinstance(record.get(name), list) or (
            name == "choices" and not record[name]
        ):
            raise UnreadableError(f"has no list of {what} in `{name}`")
    for i, choice in enumerate(record["choices"]):
        read = partial(_turn_by_turn, record["turns"], lookup(choice, "turns"))
        rollouts.append(
            read_or_error(read, ("choices", i), reward=lookup(choice, "reward"))
        )
    return rollouts


def _turn_by_turn(questions: list[Any], answers: Any) -> Rollout:
    """Questions, each with its answer; both are texts or objects with `content`."""
    if not isinstance(answers, list) or not answers:
        raise UnreadableError("has no answers in `turns`")
    if len(answers) > len(questions):
        raise UnreadableError(
            f"has {len(answers)} answers for {len(questions)} questions"
        )
    messages: Messages = []
    for pair in zip(questions, answers, strict=False):
        question, answer = (
            turn.get("content") if isinstance(turn, dict) else turn for turn in pair
        )
        messages += [
            {"role": "user", "content": question},
            *answer_turns(answer, "turns"),
        ]
    return Rollout(messages)


def _is_mt_bench(record: Mapping[str, Any]) -> bool:
    first = next(iter(record.get("choices") or ()), None)
    return (
        {"question_id", "choices"} <= record.keys()
        and isinstance(first, dict)
        and "turns" in first
    )


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
            reward=("scores", "ruler"), ruler=("metadata", "ruler"),
            other_ruler=("scores", "ruler", "metadata"), source=("scores", "*", "value"),
            form=b'{"value": %s}', lost=b"",
        ),
    ),
    Format(
        "promptfoo results", "promptfoo", "`testIdx`, `promptIdx`, `prompt.raw`",
        # before 2024 there were no indexes
        lambda record: isinstance(lookup(record, "prompt.raw"), str)
        and any(has_keys(*keys.split())(record) for keys in ("testIdx promptIdx", "vars gradingResult")),
        _read_promptfoo, layout=RecordLayout(reward=("score",)), key_of=_test_key,
        key_description="variables of the test", varied_prompts=True,
    ),
    keyed_format(
        "task_id messages reward_info", "tau2-bench", "tau2", _read_tau2, ("task_id",),
        RecordLayout(
            reward=("reward_info", "reward"), ruler=("reward_info", "info", "ruler"),
            refuses_null="tau2-bench",
        ),
        simulated_user=True,
    ),
    Format("BFCL results", "bfcl", "`id`, `result`, `inference_log`", _is_bfcl, _read_bfcl, ("id",)),
    Format(
        "MT-bench answers", "mt-bench", "`question_id`, `choices`, `turns`",
        lambda record: _is_mt_bench(record) and isinstance(record.get("turns"), list), _read_mt_bench,
        ("question_id",),
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
    ("evalId results",
     "is a whole promptfoo result in one line; give the .json file, or a result a line: "
     "jq -c '.results.results[]'"),
    (_from_bfcl,
     "holds an answer of BFCL without its question; join them: jq -c --slurpfile q QUESTIONS.json "
     "'. as $a | $q[] | select(.id == $a.id) | {question, function} + $a' RESULT.json > joined.jsonl"),
    (_is_mt_bench,
     "holds answers of MT-bench without their questions; join them: jq -c --slurpfile q question.jsonl "
     "'. as $a | $q[] | select(.question_id == $a.question_id) | {turns} + $a' ANSWERS.jsonl > "
     "joined.jsonl"),
    (lambda record: has_keys("question_id", "text")(record) and "category" not in record,
     "holds an answer or a question alone (Vicuna's, FLASK's, Gorilla's); join them: jq -c --slurpfile q "
     "QUESTIONS.jsonl '. as $a | $q[] | select((.question_id // .idx) == $a.question_id) | {prompt: "
     "(.text // .instruction), completion: $a.text}' ANSWERS.jsonl > joined.jsonl"),
    (lambda record: (
        has_keys("question_id", "judge")(record) and bool({"judgment", "g1_winner"} & record.keys())
    ),
     "is a judgment of FastChat's judge, not a rollout; give the answers of `model_answer`"),
)  # fmt: skip
