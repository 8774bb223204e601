"""Traces of OpenTelemetry, Langfuse, LangSmith, Phoenix, MLflow and others: a trace is a rollout.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith), `data.spans` (MLflow), `spans` (any-agent, AgentOps, Jaeger). Traps:
- The rollout is the conversation that begins first, outside all tools: later ones, of sub-agents and of steps
  with another prompt, are further histories. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API as values.
- Equal prompts are a group, unless a field names the item of a data set. A session or a trace is no group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, first_agent_turn
from ruler_cli.formats.conversations import (
    Conversation,
    conversations_of,
    depths,
    prints,
    tool_turns,
    tools_of,
)
from ruler_cli.formats.dialects import (
    EMPTY,
    OWN_ROLES,
    as_turn,
    holds_result,
    input_messages,
    is_message,
    is_result,
    output_messages,
    question_turns,
    text_of,
)
from ruler_cli.formats.fields import first_at, items, json_value, lookup, objects
from ruler_cli.formats.interface import Format
from ruler_cli.formats.reader import key_text
from ruler_cli.formats.trace_spans import Span, decoded, spans_of
from ruler_cli.types import Rollout

_SPANS = ("spans", "observations", "data.spans", "child_runs")
_ITEMS = (
    "datasetItemId", "dataset_item_id", "reference_example_id", "dataset_example_id",
    "metadata.dataset_item_id", "metadata.datasetItemId", "metadata.dataset_example_id",
    "metadata.reference_example_id", "attributes.dataset_example_id",
)  # fmt: skip
_SCORES = ("scores", "annotations", "span_annotations", "info.assessments")
_SCORE_VALUES = ("value", "result.score", "score", "feedback.value", "avg")
_INPUTS = ("input", "inputs", "input_text", "info.request", "info.request_preview")
_OUTPUTS = (
    "final_output",
    "output",
    "outputs",
    "output_text",
    "info.response",
    "info.response_preview",
)
_ANSWER_MEMBERS = {"messages", "choices", "generations", "candidates"}
_LONG, _WORD = 12, 4
"""Characters of an answer, and of a task, that do not stand in another text by chance."""
_TRACE_FIELDS = (
    "htmlPath",
    "bookmarked",
    "sessionId",
    "userId",
    "release",
    "projectId",
)
"""Fields of Langfuse's traces beside their input and output."""
_parsed = partial(json_value, text=True)


def _trace(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object of the trace itself, without its spans."""
    trace = record.get("trace")
    return trace if isinstance(trace, Mapping) else record


def _listed(record: Mapping[str, Any]) -> list[Any]:
    """The spans of a record as they stand; [] if it has none."""
    if isinstance(record.get("run_type"), str):
        return [record]
    for holder in (record, _trace(record)):
        for path in _SPANS:
            if objects(listed := lookup(holder, path)):
                return items(listed)
    return []


def _root(record: Mapping[str, Any], spans: list[Span]) -> Span:
    """The first span without a parent; an input or output that it lacks is the trace's own."""
    known = {span.identity for span in spans}
    roots = [span for span in spans if span.parent is None] or [
        s for s in spans if s.parent not in known
    ]
    roots = [
        s for s in roots if s.kind == "other" and (s.input, s.output) != (None, None)
    ]
    root = (
        roots[0] if roots else Span("other", "", None, None, None, None, None, None, {})
    )
    if isinstance(record.get("run_type"), str):
        return root
    trace = _trace(record)
    question, answer = first_at(trace, *_INPUTS), first_at(trace, *_OUTPUTS)
    if trace is not record:
        question, answer = _parsed(_parsed(question)), _parsed(answer)
        # a text in the output is the model's, even if it reads as JSON
        answer = (
            text
            if str(answer)[:1] == '"' and isinstance(text := _parsed(answer), str)
            else answer
        )
    inputs, outputs = [s.input for s in roots], [s.output for s in reversed(roots)]
    at = 0 if len(roots) > 1 else len(roots)  # of several roots none is the trace's
    inputs.insert(at, question)
    outputs.insert(at, answer)
    question, answer = (
        next((v for v in values if v is not None), None) for values in (inputs, outputs)
    )
    return replace(root, input=question, output=answer)


def _read(record: dict[str, Any]) -> list[Rollout]:
    if (
        "run_type" in record
        and record.get("parent_run_id")
        and not record.get("child_runs")
    ):
        raise UnreadableError(
            "is one step of a trace (LangSmith); give the runs as JSON lines, all of a trace"
        )
    spans = spans_of(_listed(record))
    root = _root(record, spans)
    conversations = conversations_of(spans)
    if (
        conversations
    ):  # the one that holds the task first, the others in the order in which they begin
        task, depth = (
            _last_question(input_messages(root.input)),
            depths(spans, conversations),
        )
        order = range(len(conversations))
        best = min(
            order, key=lambda i: (not _is_asked(task, [conversations[i]]), depth[i], i)
        )
        conversations.insert(0, conversations.pop(best))
    messages = _with_ends(conversations, root) if conversations else _steps(spans, root)
    further = tuple(one.messages for one in conversations[1:])
    # a score is the outcome if it is the only one that is a number
    holders = [record, _trace(record), *(span.raw for span in spans)]
    scores = [
        *{
            id(score): value for holder in holders for score, value in _scores(holder)
        }.values()
    ]
    outcome = scores[0] if len(scores) == 1 else None
    return [
        Rollout(
            messages, (), further, tools_of(spans), record.get("reward"), None, outcome
        )
    ]


def _with_ends(conversations: list[Conversation], root: Span) -> Messages:
    """The first conversation, with the root's task and final answer if no conversation has them."""
    messages = conversations[0].messages
    question = input_messages(root.input)
    if question and not _is_asked(_last_question(question), conversations):
        messages = [*question, *messages]
    elif first_agent_turn(messages) == 0:  # no message before it tells the task
        opening = [m for m in messages if m.get("role") == "user"][:1]
        messages = [*(question or opening or as_turn("user", root.input)), *messages]
    texts = [
        text_of(m)
        for one in conversations
        for m in one.messages
        if m.get("role") in OWN_ROLES
    ]
    answers = [
        m
        for m in output_messages(root.output) or ()
        if m.get("role") in OWN_ROLES and text_of(m)
    ]
    if answers:
        shown = any(_within(text_of(answers[-1]), text, _LONG) for text in texts)
    else:
        shown = root.output in map(_parsed, texts)
    return (
        messages
        if shown
        else [*messages, *(answers[-1:] or as_turn("assistant", root.output))]
    )


def _is_asked(task: str, conversations: list[Conversation]) -> bool:
    """Tell if a task stands in an input of the conversations, or is empty."""
    return not task or any(
        _within(task, text_of(m), _WORD) for one in conversations for m in one.input
    )


def _within(text: str, other: str, least: int) -> bool:
    """Tell if another text holds this one; one shorter than `least` must be equal, as it stands in many."""
    return text == other or (len(text) >= least and text in other)


def _answer(root: Span) -> Messages:
    """The root's output: the turns after its input, or one turn with all of it.

    A list of messages may be a model's text that somebody read as JSON: results of tools in it are none.
    """
    messages, before = output_messages(root.output), input_messages(root.input) or []
    whole = as_turn("assistant", root.output)
    if messages is None or _has_more(root.output):
        return whole
    if (
        before
        and len(messages) > len(before)
        and prints(messages[: len(before)]) == prints(before)
    ):
        messages = messages[len(before) :]
    with_results = isinstance(root.output, Mapping) and "messages" in root.output
    own = [m.get("role") in OWN_ROLES and not holds_result(m) for m in messages]
    known = all(
        mine or (with_results and is_result(m))
        for m, mine in zip(messages, own, strict=True)
    )
    return messages if known else whole


def _has_more(value: Any) -> bool:
    """Tell if an object has several members and no messages, so that all of it is shown."""
    if (
        not isinstance(value, Mapping)
        or is_message(value)
        or _ANSWER_MEMBERS & value.keys()
    ):
        return False
    return sum(inner not in EMPTY for inner in value.values()) > 1


def _steps(spans: list[Span], root: Span) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    question = (
        as_turn("user", root.input)
        if _has_more(root.input)
        else question_turns(root.input)
    )
    answer = _answer(root)
    tools = [span for span in spans if span.kind == "tool" and span is not root]
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record what "
            "was said, not only when"
        )
    ran = (
        [turn for span in tools for turn in tool_turns(span)]
        if len(answer) == 1
        else []
    )
    return [*question, *ran, *answer]


def _last_question(question: Messages | None) -> str:
    """The text of the last message that a user wrote."""
    texts = [text_of(m) for m in question or () if m.get("role") == "user"]
    return texts[-1] if texts else ""


def _scores(holder: Mapping[str, Any]) -> Iterator[tuple[Any, float]]:
    """Langfuse's scores, Phoenix's annotations, MLflow's assessments, LangSmith's feedback."""
    stats = holder.get("feedback_stats")
    listed = [items(lookup(holder, path)) for path in _SCORES]
    for score in [
        *chain(*listed),
        *(stats.values() if isinstance(stats, Mapping) else ()),
    ]:
        values = (lookup(score, path) for path in _SCORE_VALUES)
        if (
            value := next((v for v in values if isinstance(v, int | float)), None)
        ) is not None:
            yield score, value


def _item_key(record: Mapping[str, Any]) -> str | None:
    """The item of a data set on which a trace ran; None if it names none."""
    trace = _trace(record)
    metadata = {"metadata": decoded(trace.get("metadata"))}
    for holder in (record, trace, metadata, *_listed(record)):
        names = (lookup(holder, path) for path in _ITEMS)
        if (
            item := next(
                (v for v in names if isinstance(v, str | int) and v != ""), None
            )
        ) is not None:
            return key_text(item)
        if item := lookup(
            lookup(holder, "metadata.attributes"), "langfuse.experiment.item.id"
        ):
            return key_text(item)
    return None


def _is_spans(record: Mapping[str, Any]) -> bool:
    listed = record.get("spans") if "spans" in record else lookup(record, "data.spans")
    return "messages" not in record and any(
        span.kind == "call" or span.input is not None or span.output is not None
        for span in spans_of(listed)
    )


def _is_langfuse(record: Mapping[str, Any]) -> bool:
    trace = _trace(record)
    if objects(lookup(record, "observations") or trace.get("observations")):
        return True
    named = "timestamp" in trace and any(key in trace for key in _TRACE_FIELDS)
    return "id" in trace and named and trace.get("output") is not None


def _is_run(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("run_type"), str) and (
        "inputs" in record or "outputs" in record
    )


FORMATS = tuple(
    Format(
        name,
        "traces",
        tells,
        matches,
        _read,
        key_of=_item_key,
        key_description="the data set's item",
    )
    for name, tells, matches in (
        ("traces of spans", "`trace_id`, `spans`", _is_spans),
        (
            "Langfuse traces",
            "`observations`; `id`, `timestamp`, `input`, `output`",
            _is_langfuse,
        ),
        ("LangSmith runs", "`run_type`, `inputs`, `outputs`", _is_run),
    )
)
