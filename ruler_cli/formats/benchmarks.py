"""Results of benchmarks: tau2-bench, BFCL, MT-bench answers, and completions of code benchmarks.

tau2-bench (`results.json`, `tau2.data_model.simulation.SimulationRun`). Traps: the trial is the outer loop,
so tasks lie apart; arguments of tool calls are objects, and a result has the call's `id`; the simulated user
calls tools too (`requestor`), which are not the agent's work; a full-duplex (voice) run has `ticks` and no
`messages`. Its reader (`Results.load`) drops unknown keys but for `reward_info.info`, and takes no null as a
reward, so it reads no file in which a group failed: `--on-failure drop` leaves those out.

BFCL (`BFCL_v*_result.json`, JSON lines): the question stands in the log if a conversation has several turns,
and else in another file; score files hold it, but only of answers that failed. FastChat
(`model_answer/*.jsonl`; Arena-Hard and LiveBench write the same): the questions are always in another file. A
record without its question is refused with the command that joins both. HumanEval (`task_id`, `completion`),
EvalPlus (`solution`): `passed` is the outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages, messages_in
from ruler_cli.formats.fields import first_at, has_keys, items, lookup, objects
from ruler_cli.formats.interface import Format, RecordLayout, keyed_format, refused_shapes
from ruler_cli.formats.turns import answer_turns, prompt_turns, read_or_error
from ruler_cli.types import Rollout


def _read_tau2(record: dict[str, Any]) -> list[Rollout]:
    if record.get("ticks") and not record.get("messages"):
        raise UnreadableError("is a full-duplex run: it has `ticks` and no `messages`; write those first")
    messages = messages_in(record, "messages", "tau2-bench writes this when a run crashed")
    turns = [turn for message in messages for turn in _tau2_turns(message)]
    return [Rollout(turns, reward=lookup(record, "reward_info.reward"))]


def _tau2_turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, with results named by their calls, and calls of the simulated user marked as such."""
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


def _read_bfcl(record: dict[str, Any]) -> list[Rollout]:
    if "traceback" in record:
        raise UnreadableError("has an error in `result` and no answer (BFCL writes this with `traceback`)")
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
        raise UnreadableError("has no question, neither in `inference_log` nor joined from its file")
    tools = lookup(record, "function") or lookup(record, "prompt.function")
    return [Rollout(messages, tools=tools, reward=record.get("reward"), outcome=record.get("valid"))]


_QUERY = "begin_of_turn_query"
_CATEGORY = re.compile(
    r"(live_|exec_|executable_|multi_turn_|simple|multiple|parallel|irrelevance|relevance|java|rest|sql|chatable|"
    r"web_search|memory|format_sensitivity)"
)
"""Beginnings of BFCL's ids: the category."""


def _question(record: Mapping[str, Any]) -> Any:
    turns = record.get("question") or lookup(record, "prompt.question")
    return turns if isinstance(turns, list) and all(isinstance(turn, list) for turn in turns) else None


def _request(log: Any) -> Any:
    """The first request in a log (`--include-input-log`); None if there is none."""
    requests = (entry.get("content") for entry in objects(log) if entry.get("role") == "inference_input")
    return next(filter(None, requests), None)


def _logged(turn: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One turn of a log: the query, then the messages of the model and the tools at each step."""
    yield from check_messages(turn[_QUERY], _QUERY) if turn.get(_QUERY) else ()
    for name, step in turn.items():
        for entry in objects(step) if name.startswith("step_") else ():
            role = entry.get("role")
            if role == "assistant":
                thought = entry.get("reasoning_content")
                yield {**_model_turn(entry.get("content")), "reasoning_content": thought}
            elif role == "tool":
                yield {"role": "tool", "content": entry.get("content")}


def _answered(question: list[Any], result: Any) -> Iterator[dict[str, Any]]:
    """The questions of turns, each with its answer; of several turns each answer is a list of steps."""
    many = len(question) > 1
    if many and not (isinstance(result, list) and len(result) == len(question)):
        raise UnreadableError(f"has {len(question)} turns in `question` and other answers in `result`")
    for turn, answer in zip(question, result if many else [result], strict=True):
        yield from check_messages(turn, "question") if turn else ()
        for step in answer if many and isinstance(answer, list) else [answer]:
            yield _model_turn(step)


def _model_turn(answer: Any) -> dict[str, Any]:
    """The turn of a model that answered with a text, or with calls as `{name: arguments}`."""
    calls = objects(answer)
    if not calls or len(calls) != len(answer):
        return {"role": "assistant", "content": answer}
    listed = [{"name": name, "arguments": value} for call in calls for name, value in call.items()]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def _from_bfcl(record: Mapping[str, Any]) -> bool:
    named = isinstance(record.get("id"), str) and _CATEGORY.match(record["id"])
    logged = {"inference_log", "input_token_count", "traceback"} & record.keys()
    score = has_keys("id", "valid", "prompt")(record) and bool(lookup(record, "prompt.question"))
    return ("result" in record and bool(named) and bool(logged)) or score


def _is_bfcl(record: Mapping[str, Any]) -> bool:
    log = record.get("inference_log")
    logged = any(_QUERY in part for part in objects(log))
    return _from_bfcl(record) and bool(_question(record) or logged or _request(log))


def _read_mt_bench(record: dict[str, Any]) -> list[Rollout]:
    rollouts = []
    for name, what in (("choices", "answers"), ("turns", "questions")):
        if not isinstance(record.get(name), list) or (name == "choices" and not record[name]):
            raise UnreadableError(f"has no list of {what} in `{name}`")
    for i, choice in enumerate(record["choices"]):
        read = partial(_turn_by_turn, record["turns"], lookup(choice, "turns"))
        rollouts.append(read_or_error(read, ("choices", i), reward=lookup(choice, "reward")))
    return rollouts


def _turn_by_turn(questions: list[Any], answers: Any) -> Rollout:
    """Questions, each with its answer; both are texts or objects with `content`."""
    if not isinstance(answers, list) or not answers:
        raise UnreadableError("has no answers in `turns`")
    if len(answers) > len(questions):
        raise UnreadableError(f"has {len(answers)} answers for {len(questions)} questions")
    messages: Messages = []
    for pair in zip(questions, answers, strict=False):
        question, answer = (turn.get("content") if isinstance(turn, dict) else turn for turn in pair)
        messages += [{"role": "user", "content": question}, *answer_turns(answer, "turns")]
    return Rollout(messages)


def _is_mt_bench(record: Mapping[str, Any]) -> bool:
    first = next(iter(record.get("choices") or ()), None)
    return {"question_id", "choices"} <= record.keys() and isinstance(first, dict) and "turns" in first


_PROMPTS = ("prompt", "problem", "question", "question_content", "instruction")
_COMPLETIONS = ("completion", "solution")
_OTHERS = {"messages", "response", "responses", "output", "outputs", "completions", "sample_idx", "advantage"}
"""Fields of other records with a `task_id`."""


def _read_completion(record: dict[str, Any]) -> list[Rollout]:
    prompt = next((record[name] for name in _PROMPTS if isinstance(record.get(name), str)), None)
    name = next((name for name in _COMPLETIONS if name in record), _COMPLETIONS[0])
    messages = [*prompt_turns(prompt, "prompt"), *answer_turns(record.get(name), name)]
    return [Rollout(messages, reward=record.get("reward"), outcome=record.get("passed"))]


def _is_completion(record: Mapping[str, Any]) -> bool:
    """Tell if it is a sample of a code benchmark: a `solution` beside a prompt may be the data set's own."""
    prompted = any(name in record for name in _PROMPTS)
    if not isinstance(record.get("task_id"), str) or _OTHERS & record.keys():
        return False
    if "completion" in record:
        return isinstance(record["completion"], str) and ("passed" in record or not prompted)
    return isinstance(record.get("solution"), str) and not prompted


FORMATS = (
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
    Format(
        "code completions", "code", "`task_id`, `completion`", _is_completion, _read_completion, ("task_id",)
    ),
)  # fmt: skip
REFUSALS = refused_shapes(
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
