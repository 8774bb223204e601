"""Results of evaluation tools: promptfoo, BFCL, MT-bench answers, and completions of code benchmarks.

promptfoo (`--output x.json`, `x.jsonl`): a result is a rollout, and what a test asks is its `vars`, whichever
prompt and provider answered; with `--repeat` every run has a `testIdx` of its own, so that is no key; an own
provider may take the variables and leave the prompt empty, and both sides may have been stripped.
BFCL (`BFCL_v*_result.json`, JSON lines): the question stands in the log where a conversation has several
turns, and else in another file; score files hold it, but only what failed. FastChat (`model_answer/*.jsonl`;
Arena-Hard and LiveBench write the same): the questions are in another file, always. Where the task is in
another file, the record is refused with the command that joins them. HumanEval (`task_id`, `completion`),
EvalPlus (`solution`): `passed` is the outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, check_messages
from ruler_cli.formats.interface import (
    Format,
    RecordLayout,
    RefusedFormat,
    first_at,
    has_keys,
    lookup,
    objects,
    printable,
)
from ruler_cli.formats.reader import hashed_key
from ruler_cli.formats.turns import answer_turns, is_message_list, prompt_turns, read_or_error
from ruler_cli.types import Path, Rollout

_OF_A_RUN = ("sessionId",)
"""Variables of promptfoo that are another value in each run of a test."""


def _promptfoo(record: dict[str, Any]) -> list[Rollout]:
    said = lookup(record, "response.output")
    if said is None:
        why = lookup(record, "error") or lookup(record, "response.error")
        raise UnreadableError(
            f"has no answer in `response.output`{': ' + printable(why, 200) if isinstance(why, str) else ''}"
        )
    if said == "[output stripped]":
        raise UnreadableError("has no answer: it was written with PROMPTFOO_STRIP_RESPONSE_OUTPUT")
    answer: Messages = [{"role": "assistant", "content": said}]
    if is_message_list(said) and all("function" in item or item.get("type") == "function" for item in said):
        answer = [{"role": "assistant", "content": None, "tool_calls": said}]
    return [Rollout([*_asked(record), *answer], reward=record.get("score"), outcome=record.get("success"))]


def _is_result(record: Mapping[str, Any]) -> bool:
    """Tell if it has the keys of a result; before 2024 there were no indexes."""
    return any(has_keys(*keys)(record) for keys in (("testIdx", "promptIdx"), ("vars", "gradingResult")))


def _asked(record: Mapping[str, Any]) -> Messages:
    """The prompt of promptfoo, a text or JSON text of messages, and the variables where there is none."""
    raw = lookup(record, "prompt.raw")
    if isinstance(raw, str) and raw.strip() and raw != "[prompt stripped]":
        return prompt_turns(raw, "prompt.raw")
    if told := _variables(record):
        return [{"role": "user", "content": told}]
    raise UnreadableError("has no prompt in `prompt.raw` and no `vars` (see PROMPTFOO_STRIP_PROMPT_TEXT)")


def _variables(record: Mapping[str, Any]) -> dict[str, Any]:
    told = record.get("vars") or lookup(record, "testCase.vars")
    told = told if isinstance(told, dict) else {}
    return {k: v for k, v in told.items() if k[:1] != "_" and k not in _OF_A_RUN}


def _test(record: Mapping[str, Any]) -> str | None:
    """A test: its variables and its name, and the prompt where it has no variables."""
    asked = _variables(record) or lookup(record, "prompt.raw")
    return hashed_key("test", [asked, lookup(record, "testCase.description")])


def _bfcl(record: dict[str, Any]) -> list[Rollout]:
    if "traceback" in record:
        raise UnreadableError("has an error in `result` and no answer (BFCL writes this with `traceback`)")
    question = _question(record)
    log = record.get("inference_log")
    if any(_QUERY in turn for turn in objects(log)):
        messages = [turn for part in objects(log) for turn in _logged(part)]
    elif question:
        messages = list(_paired(question, _result(record)))
    else:
        given = next(_inputs(log), None)
        if given is None:
            raise UnreadableError("has no question, neither in `inference_log` nor joined from its file")
        asked = given.get("message") if isinstance(given, dict) else given
        messages = [*prompt_turns(asked, "inference_log"), _model(_result(record))]
    tools = lookup(record, "function") or lookup(record, "prompt.function")
    return [Rollout(messages, tools=tools, reward=record.get("reward"), outcome=record.get("valid"))]


_QUERY = "begin_of_turn_query"
_CATEGORY = re.compile(
    r"(live_|exec_|executable_|multi_turn_|simple|multiple|parallel|irrelevance|relevance|java|rest|sql|chatable|"
    r"web_search|memory|format_sensitivity)"
)
"""Beginnings of BFCL's ids: the category."""


def _question(record: Mapping[str, Any]) -> Any:
    found = record.get("question") or lookup(record, "prompt.question")
    return found if isinstance(found, list) and all(isinstance(turn, list) for turn in found) else None


def _result(record: Mapping[str, Any]) -> Any:
    return first_at(record, "result", "model_result_raw", "model_result")


def _inputs(log: Any) -> Iterator[Any]:
    """The requests that BFCL noted (`--include-input-log`)."""
    for entry in objects(log):
        if entry.get("role") == "inference_input" and entry.get("content"):
            yield entry["content"]


def _logged(turn: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One turn of a log: the query, then what the model and the tools said at each step."""
    yield from check_messages(turn[_QUERY], _QUERY) if turn.get(_QUERY) else ()
    for name, step in turn.items():
        for entry in objects(step) if name.startswith("step_") else ():
            role = entry.get("role")
            if role == "assistant":
                yield {**_model(entry.get("content")), "reasoning_content": entry.get("reasoning_content")}
            elif role == "tool":
                yield {"role": "tool", "content": entry.get("content")}


def _paired(question: list[Any], result: Any) -> Iterator[dict[str, Any]]:
    """Questions of turns with their answers, each a list of steps where there are several."""
    many = len(question) > 1
    if many and not (isinstance(result, list) and len(result) == len(question)):
        raise UnreadableError(f"has {len(question)} turns in `question` and other answers in `result`")
    for turn, said in zip(question, result if many else [result], strict=True):
        yield from check_messages(turn, "question") if turn else ()
        for step in said if many and isinstance(said, list) else [said]:
            yield _model(step)


def _model(said: Any) -> dict[str, Any]:
    """An answer of a model: a text, or calls as `{name: arguments}`."""
    calls = objects(said)
    if not calls or len(calls) != len(said):
        return {"role": "assistant", "content": said}
    listed = [{"name": name, "arguments": given} for call in calls for name, given in call.items()]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def _of_bfcl(record: Mapping[str, Any]) -> bool:
    named = isinstance(record.get("id"), str) and _CATEGORY.match(record["id"])
    noted = {"inference_log", "input_token_count", "traceback"} & record.keys()
    return ("result" in record and bool(named) and bool(noted)) or _is_score(record)


def _is_score(record: Mapping[str, Any]) -> bool:
    return {"id", "valid", "prompt"} <= record.keys() and bool(lookup(record, "prompt.question"))


def _is_bfcl(record: Mapping[str, Any]) -> bool:
    log = record.get("inference_log")
    told = any(_QUERY in part for part in objects(log))
    return _of_bfcl(record) and bool(_question(record) or told or next(_inputs(log), None))


def _mt_bench(record: dict[str, Any]) -> list[Rollout]:
    if not isinstance(record["choices"], list) or not record["choices"]:
        raise UnreadableError("has no list of answers in `choices`")
    if not isinstance(record.get("turns"), list):
        raise UnreadableError("has no list of questions in `turns`")
    out = []
    for i, choice in enumerate(record["choices"]):
        path, reward = ("choices", i), lookup(choice, "reward")
        read = partial(_turn_by_turn, record["turns"], lookup(choice, "turns"), path, reward)
        out.append(read_or_error(read, path, reward=reward))
    return out


def _turn_by_turn(questions: list[Any], answers: Any, path: Path, reward: Any) -> Rollout:
    """Questions, each with its answer; both are texts or objects with `content`."""
    if not isinstance(answers, list) or not answers:
        raise UnreadableError("has no answers in `turns`")
    if len(answers) > len(questions):
        raise UnreadableError(f"has {len(answers)} answers for {len(questions)} questions")
    texts = [
        [t.get("content") if isinstance(t, dict) else t for t in turns] for turns in (questions, answers)
    ]
    out: Messages = []
    for question, answer in zip(*texts, strict=False):
        out += [{"role": "user", "content": question}, *answer_turns(answer, "turns")]
    return Rollout(out, path, reward=reward)


def _answers(record: Mapping[str, Any]) -> bool:
    """Tell if it is a model's answers to a question of FastChat."""
    first = next(iter(record.get("choices") or ()), None)
    return {"question_id", "choices"} <= record.keys() and isinstance(first, dict) and "turns" in first


_TASKS = ("prompt", "problem", "question", "question_content", "instruction")
_CODE = ("completion", "solution")
_OTHERS = {"messages", "response", "responses", "output", "outputs", "completions", "sample_idx", "advantage"}
"""Fields of other records with a `task_id`."""


def _completion(record: dict[str, Any]) -> list[Rollout]:
    asked = next((record[name] for name in _TASKS if isinstance(record.get(name), str)), None)
    name = _code(record)
    messages = [*prompt_turns(asked, "prompt"), *answer_turns(record.get(name), name)]
    return [Rollout(messages, reward=record.get("reward"), outcome=record.get("passed"))]


def _code(record: Mapping[str, Any]) -> str:
    return next((name for name in _CODE if name in record), _CODE[0])


def _is_completion(record: Mapping[str, Any]) -> bool:
    """Tell if it is a sample of a code benchmark: with a prompt a `solution` may be the data set's own."""
    asked = any(name in record for name in _TASKS)
    if not isinstance(record.get("task_id"), str) or _OTHERS & record.keys():
        return False
    if "completion" in record:
        return isinstance(record["completion"], str) and ("passed" in record or not asked)
    return isinstance(record.get("solution"), str) and not asked


FORMATS = (
    Format(
        "promptfoo results", "promptfoo", "`testIdx`, `promptIdx`, `prompt.raw`",
        lambda record: _is_result(record) and isinstance(lookup(record, "prompt.raw"), str), _promptfoo,
        layout=RecordLayout(reward=("score",)), key_of=_test, key_description="variables of the test",
    ),
    Format("BFCL results", "bfcl", "`id`, `result`, `inference_log`", _is_bfcl, _bfcl, ("id",)),
    Format(
        "MT-bench answers", "mt-bench", "`question_id`, `choices`, `turns`",
        lambda record: _answers(record) and isinstance(record.get("turns"), list), _mt_bench,
        ("question_id",),
    ),
    Format("code completions", "code", "`task_id`, `completion`", _is_completion, _completion, ("task_id",)),
)  # fmt: skip
REFUSALS = (
    RefusedFormat(
        _of_bfcl,
        "holds an answer of BFCL without its question; join them: jq -c --slurpfile q QUESTIONS.json "
        "'. as $a | $q[] | select(.id == $a.id) | {question, function} + $a' RESULT.json > joined.jsonl",
    ),
    RefusedFormat(
        _answers,
        "holds answers of MT-bench without their questions; join them: jq -c --slurpfile q question.jsonl "
        "'. as $a | $q[] | select(.question_id == $a.question_id) | {turns} + $a' ANSWERS.jsonl > "
        "joined.jsonl",
    ),
    RefusedFormat(
        lambda record: has_keys("question_id", "text")(record) and "category" not in record,
        "holds an answer or a question alone (Vicuna's, FLASK's, Gorilla's); join them: jq -c --slurpfile q "
        "QUESTIONS.jsonl '. as $a | $q[] | select((.question_id // .idx) == $a.question_id) | {prompt: "
        "(.text // .instruction), completion: $a.text}' ANSWERS.jsonl > joined.jsonl",
    ),
    RefusedFormat(
        lambda record: (
            has_keys("question_id", "judge")(record) and bool({"judgment", "g1_winner"} & record.keys())
        ),
        "is a judgment of FastChat's judge, not a rollout; give the answers of `model_answer`",
    ),
    RefusedFormat(
        has_keys("evalId", "results"),
        "is a whole promptfoo result in one line; give the .json file, or a result a line: "
        "jq -c '.results.results[]'",
    ),
)
