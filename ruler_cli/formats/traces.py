"""Traces of model calls, each a rollout: OpenTelemetry, Langfuse, LangSmith, Phoenix, OpenAI's agents, LiteLLM's log.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith). Traps:
- The rollout is the conversation that begins first: later ones, of sub-agents and of steps
  with another prompt, are further histories. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API all values, or none. A text
  is a model's own, even if it is JSON, unless an input is JSON text as well.
- Equal prompts are a group, unless a field names the item of a data set. A session or a trace is not a group.

A step of a conversation that continues an earlier one replaces it, because its input holds that one's input and
answer. A message is left out only if it stands in the step that replaces its own, so a trace may be shown
twice, never in part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from ruler_cli.formats.trace_spans import Span, decoded, spans_of, values_of
from ruler_cli.messages.content import Messages, first_agent_turn, text_of
from ruler_cli.messages.dialects import (
    ComparableMessage,
    agent_turns,
    as_turn,
    call_turn,
    comparable,
    is_message,
    messages_of,
    offered_tools,
    question_turns,
    result_turn,
)
from ruler_cli.types import Rollout

Turns = list[ComparableMessage]

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
_LONG = 12
"""Characters of a text that do not stand in another text by chance."""
_NEAR = 200
"""Last conversations that a step may continue; one before them is shown twice."""


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
    conversations = _conversations_of(spans)
    further: tuple[Messages, ...] = ()
    if conversations:
        messages, further = _joined(conversations, task, final)
    else:
        messages = _without_calls(task, final, spans)
    tools = []
    # the only number of Langfuse's scores, Phoenix's annotations, LangSmith's feedback
    stated = [every(record, path) for path in _SCORES]
    for span in spans:
        stated += [every(span.raw, path) for path in _FEEDBACK]
        if span.kind == "call":
            tools.append(span.tools or offered_tools(span.input))
    numbers = []
    for scores in stated:
        numbers += [s for _, s in scores if isinstance(s, int | float)]
    return Rollout(
        messages,
        histories=further,
        tools=first(filter(None, tools)),
        outcome=numbers[0] if len(numbers) == 1 else None,
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


def _joined(
    conversations: list[_Conversation],
    task: Any,
    final: Any,
) -> tuple[Messages, tuple[Messages, ...]]:
    """Return the first conversation with the task, or else the first, behind the task; and the other ones.

    The root's final answer is its last turn, unless a conversation has it.
    """
    question = messages_of(task, "user") or []
    text = text_of(question[-1]) if question else ""

    def is_unasked(conversation: _Conversation) -> bool:
        return not any(
            _is_within(text, turn.text) for turn in conversation.input
        )

    main = min(conversations, key=is_unasked)
    messages = main.messages
    if (text and is_unasked(main)) or not first_agent_turn(messages):
        messages = [*(question or as_turn("user", task)), *messages]
    answer = messages_of(final, "assistant") or as_turn("assistant", final)
    output = [*map(comparable, answer)]
    spoken = [turn for turn in output if turn.form.by_agent and turn.text]
    last = (spoken or output)[-1:]
    for conversation in conversations:
        values = [decoded(turn.text) for turn in conversation.turns]
        if _holds_answer(conversation.turns, last) or final in values:
            break
    else:
        messages += [turn.message for turn in last]
    further = [
        conversation.messages
        for conversation in conversations
        if conversation is not main
    ]
    return messages, tuple(further)


def _without_calls(
    task: Any,
    final: Any,
    spans: list[Span],
) -> Messages:
    """Return the turns of a trace without model calls: the root's input, the tools as they ran, its output."""
    asked = question_turns(task)
    if is_object(task) and not is_message(task) and "messages" not in task:
        # one of several members would be a part of the task
        stated = [*filter(None, task.values())]
        asked = as_turn("user", task) if len(stated) > 1 else asked
    answer = agent_turns(final)
    if lookup(final, "messages"):
        # the state of a framework begins with the input
        state = messages_of(final, "assistant") or []
        size = len(asked)
        if [*map(comparable, state[:size])] == [*map(comparable, asked)]:
            answer = state[size:]
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record messages, "
            "not only times (OpenAI's agents: let your processor add `input` and `response` of `span.span_data` to the "
            "`span_data` that it writes)"
        )
    for tool in spans:
        if tool.kind == "tool":
            asked += _run_of(tool)
    return [*asked, *answer]


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
    """Return whether spans hold the input or the output of a model."""
    return any(
        span.kind == "call" or span.input or span.output
        for span in spans_of(record.get("spans"))
    )


@dataclass(slots=True)
class _Conversation:
    """The input and output of a conversation's last step, whose number is `last` and whose parent `parent`."""

    input: Turns
    output: Turns
    last: int
    parent: str | None

    @property
    def turns(self) -> Turns:
        """All turns of the conversation."""
        return self.input + self.output

    @property
    def messages(self) -> Messages:
        """All messages of the conversation."""
        return [turn.message for turn in self.turns]

    def is_continued(
        self,
        asked: Turns,
        answered: Turns,
    ) -> bool:
        """Return whether a step holds this input and this answer, or is the same step again."""
        size = len(self.input)
        begins = bool(self.input) and self.input == asked[:size]
        # the same step again may have failed
        spoken = asked[size:] or answered or self.output
        return begins and _holds_answer(spoken, self.output)


def _conversations_of(spans: list[Span]) -> list[_Conversation]:
    """Return the conversations of the model calls, in the order in which they begin."""
    conversations: list[_Conversation] = []
    for number, span in enumerate(spans):
        if span.kind != "call":
            continue
        asked = [*map(comparable, question_turns(span.input))]
        answered = [*map(comparable, agent_turns(span.output))]
        if not asked + answered:
            continue
        near = conversations[:-_NEAR:-1]
        continued = [t for t in near if t.is_continued(asked, answered)]
        if continued:
            conversation = max(
                continued, key=lambda conversation: len(conversation.input)
            )
            new = asked[len(conversation.input) :]
            conversation.input = conversation.input + _with_thought(
                new, conversation.output
            )
            if new or answered:
                conversation.output = answered
            conversation.last = number
            conversation.parent = span.parent
        else:
            conversation = _Conversation(
                asked,
                answered,
                number,
                span.parent,
            )
            conversations.append(conversation)
    # the tools that ran after a conversation's last step: results of its calls, and what no model called
    called = set()
    for conversation in conversations:
        called |= _called(conversation.turns)
        pending = _called(conversation.output)
        for tool in spans[conversation.last + 1 :]:
            if tool.kind != "tool" or tool.output is None:
                continue
            if tool.name in pending:
                _, result = _run_of(tool)
                conversation.output.append(comparable(result))
    end = max([conversation.last for conversation in conversations], default=0)
    for tool in spans[end + 1 :]:
        if tool.kind == "tool" and tool.name not in called:
            beside = (t for t in conversations if t.parent == tool.parent)
            for conversation in [*beside, *conversations][:1]:
                conversation.output += map(comparable, _run_of(tool))
    return conversations


def _with_thought(
    new: Turns,
    answer: Turns,
) -> Turns:
    """Return the turns that a step adds; the first, if it repeats an answer without its thought, has it."""
    thought = first(turn.form.thought for turn in answer if turn.form.thought)
    if not new or not thought or not new[0].form.by_agent:
        return new
    if any(turn.form.thought for turn in new):
        return new
    message = {**new[0].message, "reasoning_content": thought}
    return [replace(new[0], message=message), *new[1:]]


def _run_of(tool: Span) -> Messages:
    """Return the call and the result of a tool that ran, as turns."""
    identity = tool.identity or tool.name
    call = call_turn(identity, tool.name, tool.input)
    return [call, result_turn(identity, tool.output, tool.name)]


def _called(turns: Turns) -> set[str]:
    """Return the names of the tools that turns call."""
    return {name for turn in turns for name in turn.called}


def _holds_answer(turns: Turns, answer: Turns) -> bool:
    """Return whether turns hold an answer: its text without its thoughts, and its calls."""
    spoken = [turn for turn in turns if turn.form.by_agent]
    for part in answer:
        *_, last = part.text.split("</think>")
        text = last.strip()
        if not any(_is_within(text, turn.text) for turn in spoken):
            return False
    return _called(answer) <= _called(spoken)


def _is_within(text: str, whole: str) -> bool:
    """Return whether a text holds this one; a short one must be equal, as it stands in many."""
    if not text or text == whole:
        return True
    return len(text) >= _LONG and text in whole
