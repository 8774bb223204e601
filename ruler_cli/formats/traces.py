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
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.formats.chat import Messages, first_turn
from ruler_cli.formats.interface import Format, items, lookup
from ruler_cli.formats.reader import as_text
from ruler_cli.formats.trace_messages import (
    as_json,
    asked,
    holds_result,
    is_message,
    is_result,
    said,
    text_of,
)
from ruler_cli.formats.trace_spans import Span, has_talk, spans_of
from ruler_cli.formats.trace_talks import Talk, depths, prints, talks_of, tool_turns, tools_of
from ruler_cli.records import Rollout

_SPANS = ("spans", "observations", "data.spans", "child_runs")
_ITEMS = (
    "datasetItemId", "dataset_item_id", "reference_example_id", "dataset_example_id",
    "metadata.dataset_item_id", "metadata.datasetItemId", "metadata.dataset_example_id",
    "metadata.reference_example_id", "attributes.dataset_example_id",
)  # fmt: skip
_FIRST = ("input", "inputs", "input_text", "info.request", "info.request_preview")
_LAST = ("final_output", "output", "outputs", "output_text", "info.response", "info.response_preview")
_MESSAGES = {"messages", "choices", "generations", "candidates"}
_OWN = ("assistant", None)
_NOTHING: tuple[Any, ...] = (None, "", [], {})
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
    """The first span without a parent, with what the trace says of input and output where it says none."""
    known = {span.identity for span in spans}
    roots = [span for span in spans if span.parent is None] or [s for s in spans if s.parent not in known]
    roots = [s for s in roots if s.kind == "other" and (s.asked, s.said) != (None, None)]
    root = roots[0] if roots else Span("other", "", None, None, None, None, None, None, {})
    if isinstance(record.get("run_type"), str):
        return root
    trace = _holder(record)
    first, last = ([v for key in keys if (v := lookup(trace, key)) is not None] for keys in (_FIRST, _LAST))
    if trace is not record:
        first, last = [_once(_once(value)) for value in first], [_once_as_text(value) for value in last]
    before = [s.asked for s in roots if s.asked is not None]
    behind = [s.said for s in reversed(roots) if s.said is not None]
    if len(roots) > 1:  # none of them is the trace's
        before, behind = [*first, *before], [*last, *behind]
    return replace(
        root,
        asked=next(iter([*before, *first]), None),
        said=next(iter([*behind, *last]), None),
    )


def _once_as_text(value: Any) -> Any:
    """An output that stands as JSON text; a text in it is the model's, whatever it says."""
    value = _once(value)
    return quoted if isinstance(quoted := _once(value), str) and str(value)[:1] == '"' else value


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
    talks = talks_of(spans)
    if talks:
        talks = _ordered(spans, talks, root)
        messages = _with_ends(talks, root)
    else:
        messages = _steps(spans, root)
    further = tuple(talk.messages for talk in talks[1:])
    outcome = _outcome(record, spans)
    return [Rollout(messages, (), further, tools_of(spans), record.get("reward"), None, outcome)]


def _ordered(spans: list[Span], talks: list[Talk], root: Span) -> list[Talk]:
    """The conversation that holds the task first; the others as they began."""
    task = _last_words(asked(root.asked))
    missed = [bool(task) and not any(_asks(task, text_of(m)) for m in talk.asked) for talk in talks]
    deep = depths(spans, talks)
    best = min(range(len(talks)), key=lambda i: (missed[i], deep[i], i))
    return [talks[best], *talks[:best], *talks[best + 1 :]]


def _with_ends(talks: list[Talk], root: Span) -> Messages:
    """The first conversation, with the trace's first and last word if none has them."""
    messages = talks[0].messages
    question = asked(root.asked)
    task = _last_words(question)
    heard = [text_of(m) for talk in talks for m in talk.asked]
    if question and task and not any(_asks(task, text) for text in heard):
        messages = [*question, *messages]
    elif first_turn(messages) == 0:  # nothing stands before it by which a task could be told
        opening = [m for m in messages if m.get("role") == "user"][:1]
        given = [] if root.asked in _NOTHING else [{"role": "user", "content": as_json(root.asked)}]
        messages = [*(question or opening or given), *messages]
    own = [m for m in said(root.said) or () if m.get("role") in _OWN and text_of(m)]
    last = own[-1] if own else {"role": "assistant", "content": as_json(root.said)}
    spoken = [text_of(m) for talk in talks for m in talk.messages if m.get("role") in _OWN]
    told = any(_within(text_of(last), t) for t in spoken) if own else root.said in map(_once, spoken)
    return messages if told or root.said in _NOTHING else [*messages, last]


def _within(text: str, other: str) -> bool:
    """Tell if a text is shown by another; a short one stands in many by chance."""
    return text == other or (len(text) >= _LONG and text in other)


def _asks(text: str, other: str) -> bool:
    """Tell if a task stands in a prompt."""
    return text == other or (len(text) >= _WORD and text in other)


def _answer(root: Span) -> Messages:
    """The root's output: the turns behind its input, or one turn with all of it.

    A list of messages may be a model's text that somebody read as JSON: results of tools in it are none.
    """
    if root.said in _NOTHING:
        return []
    found, before = said(root.said), asked(root.asked) or []
    whole = [{"role": "assistant", "content": as_json(root.said)}]
    if found is None or _has_more(root.said):
        return whole
    if before and len(found) > len(before) and prints(found[: len(before)]) == prints(before):
        found = found[len(before) :]
    ours = isinstance(root.said, Mapping) and "messages" in root.said
    own = [m.get("role") in _OWN and not holds_result(m) for m in found]
    return (
        found if all(mine or (ours and is_result(m)) for m, mine in zip(found, own, strict=True)) else whole
    )


def _has_more(value: Any) -> bool:
    """Tell if an object holds more than one thing, and no messages: then all of it is shown."""
    if not isinstance(value, Mapping) or is_message(value) or _MESSAGES & value.keys():
        return False
    return sum(inner not in _NOTHING for inner in value.values()) > 1


def _steps(spans: list[Span], root: Span) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    question = None if _has_more(root.asked) else asked(root.asked)
    if question is None and root.asked not in _NOTHING:
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
    for path in ("scores", "annotations", "span_annotations", "info.assessments"):
        for score in items(lookup(holder, path)):
            for key in ("value", "result.score", "score", "feedback.value"):
                value = lookup(score, key)
                if isinstance(value, int | float):
                    yield score, value
                    break
    stats = holder.get("feedback_stats")
    for score in stats.values() if isinstance(stats, Mapping) else ():
        value = lookup(score, "avg")
        if isinstance(value, int | float):
            yield score, value


def item_of(record: Mapping[str, Any]) -> str | None:
    """The item of a data set that a trace was run on, where it names one."""
    trace = _holder(record)
    metadata = _once(trace.get("metadata"))
    for holder in (record, trace, {"metadata": metadata}, *_listed(record)):
        if isinstance(holder, Mapping):
            for path in _ITEMS:
                found = lookup(holder, path)
                if isinstance(found, str | int) and found != "":
                    return as_text(found)
            found = lookup(holder, "metadata.attributes")
            if isinstance(found, Mapping) and found.get("langfuse.experiment.item.id"):
                return as_text(found["langfuse.experiment.item.id"])
    return None


def _is_spans(record: Mapping[str, Any]) -> bool:
    listed = record.get("spans") if "spans" in record else lookup(record, "data.spans")
    return isinstance(listed, list) and "messages" not in record and any(map(_deep_talk, listed))


def _deep_talk(raw: Any) -> bool:
    """Tell if a span, or one inside it, may hold a conversation."""
    return has_talk(raw) or (
        isinstance(raw, Mapping) and any(has_talk(span.raw) for span in spans_of([raw])[1:])
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


def _format(name: str, tells: str, matches: Any) -> Format:
    return Format(
        name=name,
        family="traces",
        tells=tells,
        matches=matches,
        rollouts=_read,
        key_of=item_of,
        key_told="the data set's item",
    )


FORMATS = (
    _format("traces of spans", "`trace_id`, `spans`", _is_spans),
    _format("Langfuse traces", "`observations`; `id`, `timestamp`, `input`, `output`", _is_langfuse),
    _format("LangSmith runs", "`run_type`, `inputs`, `outputs`", _is_run),
)
