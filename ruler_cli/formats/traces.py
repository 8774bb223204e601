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
from ruler_cli.formats.chat import Messages, first_agent_turn, text_of
from ruler_cli.formats.conversations import (
    Conversation,
    conversations_of,
    depths,
    prints,
    tool_turns,
    tools_of,
)
from ruler_cli.formats.dialects import (
    OWN_ROLES,
    as_turn,
    input_messages,
    is_message,
    is_own,
    is_result,
    output_messages,
    question_turns,
)
from ruler_cli.formats.fields import (
    EMPTY,
    JsonObject,
    Rollouts,
    first,
    first_at,
    items,
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.reader import key_text
from ruler_cli.formats.trace_spans import Span, decoded, spans_of
from ruler_cli.types import Rollout

_SPANS = words("spans observations data.spans child_runs")
_ITEMS = words(
    "datasetItemId dataset_item_id reference_example_id dataset_example_id metadata.dataset_item_id "
    "metadata.datasetItemId metadata.dataset_example_id metadata.reference_example_id "
    "attributes.dataset_example_id"
)
_SCORES = words("scores annotations span_annotations info.assessments")
_SCORE_VALUES = words("value result.score score feedback.value avg")
_INPUTS = words("input inputs input_text info.request info.request_preview")
_OUTPUTS = words(
    "final_output output outputs output_text info.response info.response_preview"
)
_ANSWER_MEMBERS = frozenset(words("messages choices generations candidates"))
_LONG, _WORD = 12, 4
"""Characters of an answer, and of a task, that do not stand in another text by chance."""
_TRACE_FIELDS = words("htmlPath bookmarked sessionId userId release projectId")
"""Fields of Langfuse's traces beside their input and output."""
_NOTHING = Span("other", "", None, None, None, None, None, None, {})
_parsed = partial(json_value, text=True)


def _trace(record: JsonObject) -> JsonObject:
    """The object of the trace itself, without its spans."""
    trace = record.get("trace")
    return trace if isinstance(trace, Mapping) else record


def _listed(record: JsonObject) -> list[Any]:
    """The spans of a record as they stand; [] if it has none."""
    if isinstance(record.get("run_type"), str):
        return [record]
    holders = (record, _trace(record))
    listed = (lookup(holder, path) for holder in holders for path in _SPANS)
    return first(filter(objects, listed)) or []


def _root(record: JsonObject, spans: list[Span]) -> Span:
    """The first span without a parent; an input or output that it lacks is the trace's own."""
    known = {span.identity for span in spans}
    top = [span for span in spans if span.parent is None]
    roots = [
        span
        for span in top or [span for span in spans if span.parent not in known]
        if span.kind == "other" and (span.input, span.output) != (None, None)
    ]
    root = first(roots) or _NOTHING
    if isinstance(record.get("run_type"), str):
        return root
    trace = _trace(record)
    question, answer = first_at(trace, *_INPUTS), first_at(trace, *_OUTPUTS)
    if trace is not record:
        question, answer = _parsed(_parsed(question)), _parsed(answer)
        # a text in the output is the model's, even if it reads as JSON
        again = _parsed(answer) if str(answer)[:1] == '"' else None
        answer = again if isinstance(again, str) else answer
    inputs, outputs = [s.input for s in roots], [s.output for s in reversed(roots)]
    # of several roots none is the trace's
    at = 0 if len(roots) > 1 else len(roots)
    inputs.insert(at, question)
    outputs.insert(at, answer)
    question, answer = (
        first(value for value in values if value is not None)
        for values in (inputs, outputs)
    )
    return replace(root, input=question, output=answer)


def read_trace(record: JsonObject) -> Rollouts:
    """Read a trace."""
    step = record.get("parent_run_id") and not record.get("child_runs")
    if "run_type" in record and step:
        raise UnreadableError(
            "is one step of a trace (LangSmith); give the runs as JSON lines, all of a trace"
        )
    spans = spans_of(_listed(record))
    root = _root(record, spans)
    conversations = conversations_of(spans)
    if conversations:
        # the one that holds the task first, the others in the order in which they begin
        task, depth = _task(input_messages(root.input)), depths(spans, conversations)
        best = min(
            range(len(conversations)),
            key=lambda i: (not _is_asked(task, conversations[i : i + 1]), depth[i], i),
        )
        conversations.insert(0, conversations.pop(best))
    messages = _with_ends(conversations, root) if conversations else _steps(spans, root)
    further = tuple(one.messages for one in conversations[1:])
    # a score is the outcome if it is the only one that is a number
    holders = [record, _trace(record), *(span.raw for span in spans)]
    scores = [*dict(chain.from_iterable(map(_scores, holders))).values()]
    outcome = scores[0] if len(scores) == 1 else None
    return [Rollout(messages, (), further, tools_of(spans), outcome=outcome)]


def _with_ends(conversations: list[Conversation], root: Span) -> Messages:
    """The first conversation, with the root's task and final answer if no conversation has them."""
    messages = conversations[0].messages
    question = input_messages(root.input)
    if question and not _is_asked(_task(question), conversations):
        messages = [*question, *messages]
    elif first_agent_turn(messages) == 0:  # no message before it tells the task
        opening = [m for m in messages if m.get("role") == "user"][:1]
        messages = [*(question or opening or as_turn("user", root.input)), *messages]
    said = [m for one in conversations for m in one.messages]
    own = [text_of(m) for m in said if m.get("role") in OWN_ROLES]
    output = output_messages(root.output) or ()
    answers = [m for m in output if m.get("role") in OWN_ROLES and text_of(m)]
    if answers:
        shown = any(_within(text_of(answers[-1]), text, _LONG) for text in own)
    else:
        shown = root.output in map(_parsed, own)
    ending = answers[-1:] or as_turn("assistant", root.output)
    return messages if shown else [*messages, *ending]


def _is_asked(task: str, conversations: list[Conversation]) -> bool:
    """Tell if a task stands in an input of the conversations, or is empty."""
    inputs = (text_of(m) for one in conversations for m in one.input)
    return not task or any(_within(task, text, _WORD) for text in inputs)


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
    size = len(before)
    if 0 < size < len(messages) and prints(messages[:size]) == prints(before):
        messages = messages[size:]
    with_results = isinstance(root.output, Mapping) and "messages" in root.output
    known = all(is_own(m) or (with_results and is_result(m)) for m in messages)
    return messages if known else whole


def _has_more(value: Any) -> bool:
    """Tell if an object has several members and no messages, so that all of it is shown."""
    if not isinstance(value, Mapping) or is_message(value):
        return False
    stated = sum(inner not in EMPTY for inner in value.values())
    return stated > 1 and not _ANSWER_MEMBERS & value.keys()


def _steps(spans: list[Span], root: Span) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    whole = _has_more(root.input)
    question = as_turn("user", root.input) if whole else question_turns(root.input)
    answer = _answer(root)
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record what "
            "was said, not only when"
        )
    tools = [span for span in spans if span.kind == "tool" and span is not root]
    ran = [turn for span in tools for turn in tool_turns(span)]
    return [*question, *(ran if len(answer) == 1 else ()), *answer]


def _task(question: Messages | None) -> str:
    """The text of the last message that a user wrote."""
    texts = [text_of(m) for m in question or () if m.get("role") == "user"]
    return texts[-1] if texts else ""


def _scores(holder: JsonObject) -> Iterator[tuple[int, float]]:
    """Langfuse's scores, Phoenix's annotations, MLflow's assessments, LangSmith's feedback, by their id."""
    stats = holder.get("feedback_stats")
    listed = [score for path in _SCORES for score in items(lookup(holder, path))]
    for score in [*listed, *(stats.values() if isinstance(stats, Mapping) else ())]:
        values = (lookup(score, path) for path in _SCORE_VALUES)
        value = first(v for v in values if isinstance(v, int | float))
        if value is not None:
            yield id(score), value


def item_key(record: JsonObject) -> str | None:
    """Return the item of a data set on which a trace ran; None if it names none."""
    trace = _trace(record)
    metadata = {"metadata": decoded(trace.get("metadata"))}
    for holder in (record, trace, metadata, *_listed(record)):
        names = [lookup(holder, path) for path in _ITEMS]
        stated = (v for v in names if isinstance(v, str | int) and v != "")
        item = first(stated)
        if item is None:
            attributes = lookup(holder, "metadata.attributes")
            item = lookup(attributes, "langfuse.experiment.item.id") or None
        if item is not None:
            return key_text(item)
    return None


def is_spans(record: JsonObject) -> bool:
    """Tell if spans hold something that a model was asked or said."""
    listed = record.get("spans") if "spans" in record else lookup(record, "data.spans")
    return any(
        span.kind == "call" or (span.input, span.output) != (None, None)
        for span in spans_of(listed)
    )


def is_langfuse(record: JsonObject) -> bool:
    """Tell if a record is a trace of Langfuse, with observations or without."""
    trace = _trace(record)
    if objects(lookup(record, "observations") or trace.get("observations")):
        return True
    named = {"id", "timestamp"} <= trace.keys() and any(
        k in trace for k in _TRACE_FIELDS
    )
    return named and trace.get("output") is not None
