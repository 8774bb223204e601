"""Shapes that hold nothing to judge, each with a hint for the user."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.fields import has_keys
from ruler_cli.formats.interface import refused_shapes
from ruler_cli.formats.turns import answers_path, is_reply, with_answer


def _is_prompt_only(record: Mapping[str, Any]) -> bool:
    """Tell if all messages are the user's and the system's: a prompt of a training set (OpenAI RFT)."""
    messages = record.get("messages")
    if not isinstance(messages, list) or not messages or answers_path(record):
        return False
    try:
        if is_reply(with_answer(record, messages)[-1]):
            return False
    except UnreadableError:
        return False
    return all(
        isinstance(m, dict) and m.get("role") in ("user", "system", "developer")
        for m in messages
    )


def _is_figures_only(record: Mapping[str, Any]) -> bool:
    """Tell if a record and its objects hold only numbers: metrics (SkyRL, ART's history)."""
    flat = [
        v
        for value in record.values()
        for v in (value.values() if isinstance(value, dict) else [value])
    ]
    values = [v for v in flat if v is not None]
    return bool(values) and all(isinstance(v, int | float) for v in values)


_SPANS = (
    "resourceSpans", "batches", "traceId spanId", "traceID spanID", "trace_id span_id", "trace_id spans",
    "name ph ts", "name context parent_id start_time",
)  # fmt: skip


def _is_span(record: Mapping[str, Any]) -> bool:
    """Tell if a record is a profiler's or tracer's span: their files are called `traces.jsonl`, too."""
    return any(has_keys(*keys.split())(record) for keys in _SPANS)


def _is_by_columns(record: Mapping[str, Any]) -> bool:
    """Tell if each field is an object of rows numbered from 0."""
    columns = list(record.values())
    return len(columns) > 1 and all(
        isinstance(column, dict)
        and "0" in column
        and column.keys() == columns[0].keys()
        for column in columns
    )


def _has_members(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for objects whose members are objects with these keys."""
    return lambda record: (
        bool(record) and all(map(has_keys(*keys), itertools.islice(record.values(), 3)))
    )


_PROMPTS = {"prompt", "messages", "request", "input", "question", "query"}
_ANSWERS = {
    "completion",
    "completions",
    "response",
    "responses",
    "output",
    "outputs",
    "messages",
}

REFUSALS = refused_shapes(
    ("trajectory_groups",
     "holds several groups in one line among others; write one a line: jq -c '.trajectory_groups[]'"),
    ("prompt_tokens response_tokens",
     "holds token ids only (open-instruct); decode them first and write `prompt` and `completion`"),
    ("tokens scores", "holds token ids only; let Atropos write `messages` along with them"),
    ("responses_create_params", "holds NeMo-Gym's inputs and no `response`; give the file with the rollouts"),
    ("prompt completions labels",
     "is stepwise supervision: its completions are steps of one answer, not rollouts"),
    (lambda record: {"prompt", "reward_model"} <= record.keys() and not _ANSWERS & record.keys(),
     "holds a prompt and no answer (verl's training set); give the file with the rollouts"),
    ("custom_id body",
     "is a request of a batch, not a rollout; write `prompt` and `completion` of each with its answer"),
    (lambda record: {"custom_id", "response"} <= record.keys() and not _PROMPTS & record.keys(),
     "is an answer of a batch without its request; join them: jq -c --slurpfile q REQUESTS.jsonl "
     "'. as $a | $q[] | select(.custom_id == $a.custom_id) | {prompt: (.body.messages // .body.input), "
     "response: $a.response.body}' ANSWERS.jsonl > joined.jsonl"),
    ("mapping title",
     "is a conversation of ChatGPT's export, which is a tree; write its last branch: jq -c '. as $c | "
     "[(.current_node // (.mapping | to_entries | map(select((.value.children // []) == [])) | last.key)) "
     "| recurse($c.mapping[.].parent // empty)] | reverse | "
     "map($c.mapping[.].message | select(. != null) | "
     '{role: .author.role, content: [.content.parts[]? | strings] | join(" ")} | '
     'select(.content != "")) | {messages: .}\''),
    (lambda record: has_keys("code", "input", "output")(record) and "????" in f"{record['input']}",
     "holds the two questions that CRUXEval asks of a function, and no answer; give the rollouts"),
    ("post patch",
     "is what a client sends to LangSmith, in halves; export the runs from there, a trace a line"),
    ("spanContext attributes",
     "is a span as OpenTelemetry's JavaScript keeps it; write its ids as an exporter does: jq -c '(if "
     'type == "array" then .[] else . end) | {name, context: {trace_id: .spanContext.traceId, span_id: '
     ".spanContext.spanId}, parent_id: (.parentSpanContext.spanId // .parentSpanId), start_time: "
     ".startTime, attributes}'"),
    (lambda record: has_keys("parts", "kind")(record) and record["kind"] in ("request", "response"),
     "is a message of Pydantic AI; write those of a run as one line: jq -c '{messages: [.[] | .kind as $k "
     '| .parts[] | if .part_kind == "tool-call" then {role: "assistant", content: [{type: "tool_call", '
     'id: .tool_call_id, name: .tool_name, arguments: .args}]} elif .part_kind == "tool-return" then '
     '{role: "tool", tool_call_id, name: .tool_name, content} elif .part_kind == "system-prompt" then '
     '{role: "system", content} elif .part_kind == "thinking" then {role: "assistant", thinking: '
     '.content} else {role: (if $k == "response" then "assistant" else "user" end), content} end]}\''),
    (_is_by_columns,
     "is a table by columns (pandas' `to_json`); write a row a line: jq -c '. as $t | "
     "(to_entries[0].value | keys_unsorted[]) as $i | $t | map_values(.[$i])'"),
    (lambda record: (
        {"results", "n_resolved"} <= record.keys() or {"trial_name", "is_resolved"} <= record.keys()
    ),
     "says which tasks of Terminal-Bench were resolved, and nothing that an agent said or did; give its "
     "logs (Harbor, which came after it, writes `agent/trajectory.json`)"),
    (_has_members("query", "turn_history"),
     "holds InterCode's runs by number; write one a line: jq -c '.[] | .turn_history as $t | {task_id, "
     'messages: ([{role: "user", content: .query}] + [range($t.actions | length) as $i | {role: '
     '"assistant", content: $t.actions[$i]}, {role: "tool", content: ($t.observations[$i] | '
     "tostring)}]), reward: .summary.max_reward}'"),
    (_has_members("query", "available_tools", "answer"),
     "holds ToolBench's answers by number; write one a line: jq -c '.[] | {query, tools: "
     ".available_tools, response: .answer.final_answer}' (its steps: `.answer.answer_details`)"),
    ("eval samples",
     "is a whole Inspect log in one line; give the .json or .eval file, or a sample a line: "
     "jq -c '.samples[]'"),
    ("simulations info",
     "is a whole tau2-bench result in one line; give the .json file, or write one simulation a line: "
     "jq -c '.simulations[]'"),
    (_is_span,
     "is a span of a tracer or profiler that holds nothing a model was asked or said (no `gen_ai.…`, "
     "`llm.…`, `input`); let the tracer record contents, or give the file with the rollouts"),
    ("traces export_metadata",
     "holds several traces in one object (LangSmith); write one a line: jq -c '.traces[]'"),
    (lambda record: isinstance(record.get("data"), list) and "meta" in record,
     "is a page of an API's answer (Langfuse); write one trace a line: jq -c '.data[]'"),
    (_is_prompt_only,
     "holds no turn of an agent: these are prompts (OpenAI RFT's, a data set's); give the rollouts"),
    (_is_figures_only, "holds figures only: these are metrics, not rollouts; give the file beside it"),
)  # fmt: skip
