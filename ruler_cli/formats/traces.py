"""Traces of model calls, each a rollout: OpenTelemetry, Langfuse, LangSmith, Phoenix, OpenAI's agents, LiteLLM's log.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith). Traps:
- The rollout is the conversation that begins first: later ones, of sub-agents and of steps
  with another prompt, are further histories. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API all values, or none. A text
  is a model's own, even if it is JSON, unless an input is JSON text as well.
- Equal prompts are a group, unless a field names the item of a data set. A session or a trace is no group.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    JsonObject,
    first,
    first_at,
    is_object,
    items,
    lookup,
    words,
)
from ruler_cli.formats.keys import key_text
from ruler_cli.formats.paths import every
from ruler_cli.formats.trace_conversations import (
    Conversation,
    conversations_of,
    is_within,
    rest_of,
    run_of,
    says,
)
from ruler_cli.formats.trace_spans import Span, decoded, spans_of, values_of
from ruler_cli.messages.content import Messages, first_agent_turn, text_of
from ruler_cli.messages.dialects import (
    as_turn,
    is_message,
    messages_of,
    offered_tools,
    question_turns,
    said,
)
from ruler_cli.types import Rollout

_SPANS = words("spans observations trace.observations")
_ITEMS = words(
    "datasetItemId dataset_item_id reference_example_id dataset_example_id metadata.dataset_item_id "
    "metadata.datasetItemId metadata.dataset_example_id metadata.reference_example_id "
    "attributes.dataset_example_id langfuse.experiment.item.id "
    'metadata.attributes."langfuse.experiment.item.id" trace.datasetItemId trace.metadata.datasetItemId '
    "trace.metadata.dataset_item_id"
)
_SCORES = words("scores[].value trace.scores[].value")
_FEEDBACK = words(
    "annotations[].result.score annotations[].score span_annotations[].result.score span_annotations[].score "
    "feedback_stats{}.value.avg"
)
"""Scores of a trace, and those of a span."""


def _listed(record: JsonObject) -> list[Any]:
    """Return the spans of a record as they stand; it may be the outermost one itself."""
    return items(first_at(record, *_SPANS)) or [record]


def read_trace(record: JsonObject) -> Rollout:
    """Read a trace."""
    if record.get("parent_run_id") and not record.get("child_runs"):
        raise UnreadableError(
            "is one step of a trace (LangSmith); give the runs as JSON lines, all of a trace"
        )
    spans = spans_of(_listed(record))
    task, final = _ends(record, spans)
    conversations = conversations_of(spans)
    further = []
    if conversations:
        main, messages = _main(conversations, task)
        messages += _unsaid(final, conversations)
        further = [talk.messages for talk in conversations if talk is not main]
    else:
        messages = _without_calls(task, final, spans)
    offered = (
        span.tools or offered_tools(span.input)
        for span in spans
        if span.kind == "call"
    )
    return Rollout(
        messages,
        histories=tuple(further),
        tools=first(filter(None, offered)),
        outcome=_outcome(record, spans),
    )


def _ends(
    record: JsonObject,
    spans: list[Span],
) -> tuple[Any, Any]:
    """Return the trace's own input and output; what it lacks is that of its first or last outermost span."""
    task, final = values_of(record)
    # a page's values are JSON text of what the API returns
    if "trace" in record:
        task, final = values_of({"input": task, "output": final})
    last = None
    identities = {span.identity for span in spans}
    for span in spans:
        is_inside = span.parent and span.parent in identities
        if span.kind == "other" and not is_inside:
            task = span.input if task is None else task
            last = span.output if span.output is not None else last
    return task, last if final is None else final


def _main(
    conversations: list[Conversation],
    task: Any,
) -> tuple[Conversation, Messages]:
    """Return the first conversation with the task, or else the first, and its messages behind the task."""
    question = messages_of(task, "user") or []
    text = text_of(question[-1]) if question else ""

    def is_unasked(talk: Conversation) -> bool:
        return not any(is_within(text, turn.text) for turn in talk.input)

    main = min(conversations, key=is_unasked)
    messages = main.messages
    if (text and is_unasked(main)) or not first_agent_turn(messages):
        messages = [*(question or as_turn("user", task)), *messages]
    return main, messages


def _unsaid(
    final: Any,
    conversations: list[Conversation],
) -> Messages:
    """Return the root's final answer as a turn; none if a conversation has it."""
    messages = messages_of(final, "assistant") or as_turn("assistant", final)
    output = [*map(said, messages)]
    answers = [turn for turn in output if turn.form.by_agent and turn.text]
    last = (answers or output)[-1:]
    for talk in conversations:
        values = [decoded(turn.text) for turn in talk.turns]
        if says(talk.turns, last) or final in values:
            return []
    return [turn.message for turn in last]


def _without_calls(
    task: Any,
    final: Any,
    spans: list[Span],
) -> Messages:
    """Return the turns of a trace without model calls: the root's input, the tools as they ran, its output.

    A list of messages may be a model's text that somebody read as JSON: results of tools in it are none.
    """
    asked = question_turns(task)
    if is_object(task) and not is_message(task) and "messages" not in task:
        stated = [*filter(None, task.values())]
        # one of several members would be a part of the task
        asked = as_turn("user", task) if len(stated) > 1 else asked
    messages = messages_of(final, "assistant") or as_turn("assistant", final)
    if not messages:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record what was said, "
            "not only when (OpenAI's agents: let your processor add `input` and `response` of `span.span_data` to the "
            "`span_data` that it writes)"
        )
    turns = [*map(said, messages)]
    answer = rest_of([*map(said, asked)], turns) or turns
    has_results = is_object(final) and "messages" in final
    for turn in answer:
        is_returned = has_results and turn.form.is_returned
        if not (turn.form.is_own or is_returned):
            return [*asked, *as_turn("assistant", final)]
    for tool in spans:
        if tool.kind == "tool" and len(answer) == 1:
            asked += run_of(tool)
    return [*asked, *[turn.message for turn in answer]]


def _outcome(
    record: JsonObject,
    spans: list[Span],
) -> float | None:
    """Return the only number of Langfuse's scores, Phoenix's annotations, LangSmith's feedback."""
    stated = [every(record, path) for path in _SCORES]
    for span in spans:
        stated += [every(span.raw, path) for path in _FEEDBACK]
    scores = [score for _, score in chain.from_iterable(stated)]
    numbers = [s for s in scores if isinstance(s, int | float)]
    return numbers[0] if len(numbers) == 1 else None


def item_key(record: JsonObject) -> str | None:
    """Return the item of a data set on which a trace ran; None if it names none."""
    metadata = decoded(first_at(record, "metadata", "trace.metadata"))
    for holder in [record, {"metadata": metadata}, *_listed(record)]:
        for path in _ITEMS:
            item = lookup(holder, path)
            if isinstance(item, str | int) and item != "":
                return key_text(item)
    return None


def is_spans(record: JsonObject) -> bool:
    """Return whether spans hold something that a model was asked or said."""
    return any(
        span.kind == "call" or span.input or span.output
        for span in spans_of(record.get("spans"))
    )
