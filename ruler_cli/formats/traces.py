"""Traces of OpenTelemetry, Langfuse, LangSmith, Phoenix, MLflow and others: a trace is a rollout.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith), `data.spans` (MLflow), `spans` (any-agent, AgentOps, Jaeger). Traps:
- What is shown is the conversation that began first, and that no tool ran: later ones, of sub-agents and of
  steps with another prompt, are further parts. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- The first and the last word stand at the root: they are added where no conversation has them.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API as values.
- The group is what was asked, unless a field names the item of a data set. A session or a trace is no group.
- A score is the outcome where there is exactly one that is a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    NOTHING,
    OWN,
    as_json,
    asked,
    holds_result,
    is_message,
    is_result,
    said,
    text_of,
)
from ruler_cli.formats.interface import Format, first_at, items, lookup
from ruler_cli.formats.reader import key_text
from ruler_cli.formats.trace_spans import Span, decoded, spans_of
from ruler_cli.reading.parse import parse_text
from ruler_cli.types import Rollout

_SPANS = ("spans", "observations", "data.spans", "child_runs")
_ITEMS = (
    "datasetItemId", "dataset_item_id", "reference_example_id", "dataset_example_id",
    "metadata.dataset_item_id", "metadata.datasetItemId", "metadata.dataset_example_id",
    "metadata.reference_example_id", "attributes.dataset_example_id",
)  # fmt: skip
_SCORES = ("scores", "annotations", "span_annotations", "info.assessments")
_FIGURES = ("value", "result.score", "score", "feedback.value", "avg")
_FIRST = ("input", "inputs", "input_text", "info.request", "info.request_preview")
_LAST = ("final_output", "output", "outputs", "output_text", "info.response", "info.response_preview")
_HELD = {"messages", "choices", "generations", "candidates"}
_LONG, _WORD = 12, 4
"""Characters of an answer, and of a task, that is not found in another text by chance."""
_TRACE = ("htmlPath", "bookmarked", "sessionId", "userId", "release", "projectId")
"""Fields that Langfuse writes of a trace beside its input and output."""


def _holder(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object of the trace itself."""
    trace = record.get("trace")
    return trace if isinstance(trace, Mapping) else record


def _listed(record: Mapping[str, Any]) -> list[Any]:
    if isinstance(record.get("run_type"), str):
        return [record]
    for holder in (record, _holder(record)):
        for path in _SPANS:
            found = lookup(holder, path)
            if isinstance(found, list) and any(isinstance(item, Mapping) for item in found):
                return found
    return []


def _root(record: Mapping[str, Any], spans: list[Span]) -> Span:
    """The first span without a parent, with the trace's own input and output where it has none."""
    known = {span.identity for span in spans}
    roots = [span for span in spans if span.parent is None] or [s for s in spans if s.parent not in known]
    roots = [s for s in roots if s.kind == "other" and (s.asked, s.said) != (None, None)]
    root = roots[0] if roots else Span("other", "", None, None, None, None, None, None, {})
    if isinstance(record.get("run_type"), str):
        return root
    trace = _holder(record)
    first, last = first_at(trace, *_FIRST), first_at(trace, *_LAST)
    if trace is not record:
        first, last = _once(_once(first)), _once(last)
        # a text in the output is the model's, even if it reads as JSON
        last = text if str(last)[:1] == '"' and isinstance(text := _once(last), str) else last
    before, behind = [s.asked for s in roots], [s.said for s in reversed(roots)]
    at = 0 if len(roots) > 1 else len(roots)  # of several roots none is the trace's
    before.insert(at, first)
    behind.insert(at, last)
    first, last = (next((v for v in values if v is not None), None) for values in (before, behind))
    return replace(root, asked=first, said=last)


def _once(value: Any) -> Any:
    """A value that stands as JSON text."""
    try:
        return parse_text(value) if isinstance(value, str) else value
    except UnreadableError:
        return value


def _read(record: dict[str, Any]) -> list[Rollout]:
    if "run_type" in record and record.get("parent_run_id") and not record.get("child_runs"):
        raise UnreadableError(
            "is one step of a trace (LangSmith); give the runs as JSON lines, all of a trace"
        )
    spans = spans_of(_listed(record))
    root = _root(record, spans)
    conversations = conversations_of(spans)
    if conversations:
        conversations = _ordered(spans, conversations, root)
        messages = _with_ends(conversations, root)
    else:
        messages = _steps(spans, root)
    further = tuple(one.messages for one in conversations[1:])
    outcome = _outcome(record, spans)
    return [Rollout(messages, (), further, tools_of(spans), record.get("reward"), None, outcome)]


def _ordered(spans: list[Span], found: list[Conversation], root: Span) -> list[Conversation]:
    """The conversation that holds the task first; the others as they began."""
    task, deep = _last_words(asked(root.asked)), depths(spans, found)
    best = min(range(len(found)), key=lambda i: (not _is_asked(task, found[i : i + 1]), deep[i], i))
    return [found[best], *found[:best], *found[best + 1 :]]


def _with_ends(conversations: list[Conversation], root: Span) -> Messages:
    """The first conversation, with the trace's first and last word if none has them."""
    messages = conversations[0].messages
    question = asked(root.asked)
    if question and not _is_asked(_last_words(question), conversations):
        messages = [*question, *messages]
    elif first_agent_turn(messages) == 0:  # nothing stands before it by which a task could be told
        opening = [m for m in messages if m.get("role") == "user"][:1]
        given = [] if root.asked in NOTHING else [{"role": "user", "content": as_json(root.asked)}]
        messages = [*(question or opening or given), *messages]
    own = [m for m in said(root.said) or () if m.get("role") in OWN and text_of(m)]
    last = own[-1] if own else {"role": "assistant", "content": as_json(root.said)}
    spoken = [text_of(m) for one in conversations for m in one.messages if m.get("role") in OWN]
    told = any(_within(text_of(last), t, _LONG) for t in spoken) if own else root.said in map(_once, spoken)
    return messages if told or root.said in NOTHING else [*messages, last]


def _is_asked(task: str, conversations: list[Conversation]) -> bool:
    """Tell if a task stands in a prompt of the conversations, or there is none."""
    return not task or any(_within(task, text_of(m), _WORD) for one in conversations for m in one.asked)


def _within(text: str, other: str, least: int) -> bool:
    """Tell if a text is shown by another; a short one stands in many by chance."""
    return text == other or (len(text) >= least and text in other)


def _answer(root: Span) -> Messages:
    """The root's output: the turns behind its input, or one turn with all of it.

    A list of messages may be a model's text that somebody read as JSON: results of tools in it are none.
    """
    if root.said in NOTHING:
        return []
    found, before = said(root.said), asked(root.asked) or []
    whole = [{"role": "assistant", "content": as_json(root.said)}]
    if found is None or _has_more(root.said):
        return whole
    if before and len(found) > len(before) and prints(found[: len(before)]) == prints(before):
        found = found[len(before) :]
    ours = isinstance(root.said, Mapping) and "messages" in root.said
    own = [m.get("role") in OWN and not holds_result(m) for m in found]
    known = all(mine or (ours and is_result(m)) for m, mine in zip(found, own, strict=True))
    return found if known else whole


def _has_more(value: Any) -> bool:
    """Tell if an object holds more than one thing, and no messages: then all of it is shown."""
    if not isinstance(value, Mapping) or is_message(value) or _HELD & value.keys():
        return False
    return sum(inner not in NOTHING for inner in value.values()) > 1


def _steps(spans: list[Span], root: Span) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    question = None if _has_more(root.asked) else asked(root.asked)
    if question is None and root.asked not in NOTHING:
        question = [{"role": "user", "content": as_json(root.asked)}]
    answer = _answer(root)
    ran = [turn for span in spans if span.kind == "tool" and span is not root for turn in tool_turns(span)]
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record what "
            "was said, not only when"
        )
    return [*(question or []), *(ran if len(answer) == 1 else []), *answer]


def _last_words(question: Messages | None) -> str:
    """The text of the last message that a user wrote."""
    texts = [text_of(m) for m in question or () if m.get("role") == "user"]
    return texts[-1] if texts else ""


def _outcome(record: Mapping[str, Any], spans: list[Span]) -> Any:
    """The one score that is a number; None where there are none, or several."""
    holders = [record, _holder(record), *(span.raw for span in spans)]
    found = {id(score): value for holder in holders for score, value in _scores(holder)}
    return next(iter(found.values())) if len(found) == 1 else None


def _scores(holder: Mapping[str, Any]) -> Iterator[tuple[Any, float]]:
    """Langfuse's scores, Phoenix's annotations, MLflow's assessments, LangSmith's feedback."""
    stats = holder.get("feedback_stats")
    listed = [items(lookup(holder, path)) for path in _SCORES]
    for score in [*chain(*listed), *(stats.values() if isinstance(stats, Mapping) else ())]:
        values = (lookup(score, path) for path in _FIGURES)
        if (value := next((v for v in values if isinstance(v, int | float)), None)) is not None:
            yield score, value


def item_of(record: Mapping[str, Any]) -> str | None:
    """The item of a data set that a trace was run on, where it names one."""
    trace = _holder(record)
    metadata = {"metadata": decoded(trace.get("metadata"))}
    for holder in (record, trace, metadata, *_listed(record)):
        found = (lookup(holder, path) for path in _ITEMS)
        if (item := next((v for v in found if isinstance(v, str | int) and v != ""), None)) is not None:
            return key_text(item)
        named = lookup(holder, "metadata.attributes")
        if isinstance(named, Mapping) and named.get("langfuse.experiment.item.id"):
            return key_text(named["langfuse.experiment.item.id"])
    return None


def _is_spans(record: Mapping[str, Any]) -> bool:
    listed = record.get("spans") if "spans" in record else lookup(record, "data.spans")
    return "messages" not in record and any(
        span.kind == "call" or span.asked is not None or span.said is not None for span in spans_of(listed)
    )


def _is_langfuse(record: Mapping[str, Any]) -> bool:
    trace = _holder(record)
    listed = lookup(record, "observations") or trace.get("observations")
    if isinstance(listed, list) and any(isinstance(item, Mapping) for item in listed):
        return True
    named = "timestamp" in trace and any(key in trace for key in _TRACE)
    return "id" in trace and named and trace.get("output") is not None


def _is_run(record: Mapping[str, Any]) -> bool:
    return isinstance(record.get("run_type"), str) and ("inputs" in record or "outputs" in record)


def _format(name: str, signature: str, matches: Any) -> Format:
    return Format(
        name=name,
        family="traces",
        signature=signature,
        matches=matches,
        rollouts=_read,
        key_of=item_of,
        key_description="the data set's item",
    )


FORMATS = (
    _format("traces of spans", "`trace_id`, `spans`", _is_spans),
    _format("Langfuse traces", "`observations`; `id`, `timestamp`, `input`, `output`", _is_langfuse),
    _format("LangSmith runs", "`run_type`, `inputs`, `outputs`", _is_run),
)
