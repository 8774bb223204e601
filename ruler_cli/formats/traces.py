"""Traces of OpenTelemetry, Langfuse, LangSmith, Phoenix, MLflow and others: a trace is a rollout.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith), `data.spans` (MLflow), `spans` (any-agent, AgentOps, Jaeger). Traps:
- The rollout is the conversation that begins first, outside all tools: later ones, of sub-agents and of steps
  with another prompt, are further histories. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API as values.
- Equal prompts are a group, unless a field names the item of a data set. A session or a trace is no group.

A step of a conversation that continues an earlier one replaces it, because its input holds that one's input and
answer. A message is left out only if it stands in the step that replaces its own, so a trace may be shown
twice, never in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages, first_agent_turn, text_of
from ruler_cli.formats.dialects import (
    OWN_ROLES,
    agent_turns,
    as_turn,
    call_turn,
    called_names,
    is_message,
    is_own,
    is_result,
    messages_of,
    offered_tools,
    question_turns,
    result_turn,
)
from ruler_cli.formats.fields import (
    EMPTY,
    JsonObject,
    Names,
    first,
    first_at,
    is_list,
    is_object,
    is_text,
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
_LONG = 12
_WORD = 4
"""Characters of an answer, and of a task, that do not stand in another text by chance."""
_TRACE_FIELDS = words("htmlPath bookmarked sessionId userId release projectId")
"""Fields of Langfuse's traces beside their input and output."""
_NOTHING = Span(
    "other",
    "",
    None,
    None,
    None,
    None,
    None,
    {},
)
_parsed = partial(json_value, text=True)


def _trace(record: JsonObject) -> JsonObject:
    """The object of the trace itself, without its spans."""
    trace = record.get("trace")
    return trace if is_object(trace) else record


def _listed(record: JsonObject) -> list[Any]:
    """The spans of a record as they stand; [] if it has none."""
    if is_text(record.get("run_type")):
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
    if is_text(record.get("run_type")):
        return root
    trace = _trace(record)
    question = first_at(trace, *_INPUTS)
    answer = first_at(trace, *_OUTPUTS)
    if trace is not record:
        question = _parsed(_parsed(question))
        answer = _parsed(answer)
        # a text in the output is the model's, even if it reads as JSON
        again = _parsed(answer) if str(answer)[:1] == '"' else None
        answer = again if is_text(again) else answer
    inputs = [s.input for s in roots]
    outputs = [s.output for s in reversed(roots)]
    # of several roots none is the trace's
    at = 0 if len(roots) > 1 else len(roots)
    inputs.insert(at, question)
    outputs.insert(at, answer)
    question, answer = (
        first(value for value in values if value is not None)
        for values in (inputs, outputs)
    )
    return replace(root, input=question, output=answer)


def read_trace(record: JsonObject) -> Rollout:
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
        _put_task_first(conversations, root, spans)
        messages = _with_ends(conversations, root)
    else:
        messages = _without_calls(root, spans)
    further = tuple(one.messages for one in conversations[1:])
    scores = _scores(record, spans)
    # a number is the outcome if it is the only one
    outcome = scores[0] if len(scores) == 1 else None
    return Rollout(messages, (), further, tools_of(spans), outcome=outcome)


def _put_task_first(
    conversations: list[Conversation],
    root: Span,
    spans: list[Span],
) -> None:
    """Put the conversation with the task first; the others stay in the order in which they begin."""
    task = _task(messages_of(root.input, "user"))
    by_id = _by_id(spans)

    def rank(one: Conversation) -> tuple[bool, int]:
        # a sub-agent's conversation is one tool deeper
        kinds = [span.kind for span in around(by_id, spans[one.first])]
        return not _is_asked(task, [one]), kinds.count("tool")

    best = min(conversations, key=rank)
    conversations.remove(best)
    conversations.insert(0, best)


def _without_calls(root: Span, spans: list[Span]) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    answer = _answer(root)
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record "
            "what was said, not only when"
        )
    whole = _has_more(root.input)
    messages = as_turn("user", root.input) if whole else question_turns(root.input)
    if len(answer) == 1:
        for span in spans:
            if span.kind == "tool" and span is not root:
                messages += tool_turns(span)
    return [*messages, *answer]


def _scores(record: JsonObject, spans: list[Span]) -> list[float]:
    """Langfuse's scores, Phoenix's annotations, MLflow's assessments, LangSmith's feedback, each once."""
    known: dict[int, float] = {}
    for holder in (record, _trace(record), *(span.raw for span in spans)):
        scores = [score for path in _SCORES for score in items(lookup(holder, path))]
        stats = holder.get("feedback_stats")
        if is_object(stats):
            scores += stats.values()
        for score in scores:
            values = (lookup(score, path) for path in _SCORE_VALUES)
            value = first(v for v in values if isinstance(v, int | float))
            if value is not None:
                known[id(score)] = value
    return list(known.values())


def _with_ends(conversations: list[Conversation], root: Span) -> Messages:
    """The first conversation, with the root's task and final answer if no conversation has them."""
    messages = conversations[0].messages
    question = messages_of(root.input, "user")
    if question and not _is_asked(_task(question), conversations):
        messages = [*question, *messages]
    elif first_agent_turn(messages) == 0:  # no message before it tells the task
        opening = [m for m in messages if m.get("role") == "user"][:1]
        messages = [*(question or opening or as_turn("user", root.input)), *messages]
    said = [m for one in conversations for m in one.messages]
    own = [text_of(m) for m in said if m.get("role") in OWN_ROLES]
    output = messages_of(root.output, "assistant") or ()
    answers = [m for m in output if m.get("role") in OWN_ROLES and text_of(m)]
    if answers:
        shown = any(_within(text_of(answers[-1]), text, _LONG) for text in own)
    else:
        shown = root.output in map(_parsed, own)
    ending = answers[-1:] or as_turn("assistant", root.output)
    if shown:
        return messages
    return [*messages, *ending]


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
    messages = messages_of(root.output, "assistant")
    before = messages_of(root.input, "user") or []
    whole = as_turn("assistant", root.output)
    if messages is None or _has_more(root.output):
        return whole
    size = len(before)
    if 0 < size < len(messages) and prints(messages[:size]) == prints(before):
        messages = messages[size:]
    with_results = is_object(root.output) and "messages" in root.output
    known = all(is_own(m) or (with_results and is_result(m)) for m in messages)
    return messages if known else whole


def _has_more(value: Any) -> bool:
    """Tell if an object has several members and no messages, so that all of it is shown."""
    if not is_object(value) or is_message(value):
        return False
    stated = sum(inner not in EMPTY for inner in value.values())
    return stated > 1 and not _ANSWER_MEMBERS & value.keys()


def _task(question: Messages | None) -> str:
    """The text of the last message that a user wrote."""
    texts = [text_of(m) for m in question or () if m.get("role") == "user"]
    return texts[-1] if texts else ""


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
    return any(
        span.kind == "call" or (span.input, span.output) != (None, None)
        for span in spans_of(first_at(record, "spans", "data.spans"))
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


_NEAR = 200
"""Last conversations that a step may continue; one before them is shown twice."""
_AROUND = 200
"""Spans around a span that are looked at."""
Print = tuple[str, str, Names]
"""A message in any dialect: role, text, names of the tools that it calls."""


@dataclass(slots=True, eq=False)
class Conversation:
    """The input and output of a conversation's last step, each as messages and as their prints.

    `first` and `last` are the numbers of its first and last span.
    """

    first: int
    last: int
    input: Messages = field(default_factory=list)
    output: Messages = field(default_factory=list)
    input_prints: list[Print] = field(default_factory=list)
    output_prints: list[Print] = field(default_factory=list)

    @property
    def messages(self) -> Messages:
        """All messages of the conversation."""
        return [*self.input, *self.output]

    def is_continued(self, asked: list[Print], answered: list[Print]) -> bool:
        """Tell if a step holds this input and this answer, or is the same step again."""
        size = len(self.input_prints)
        said = self.output_prints
        if self.input_prints != asked[:size]:
            return False
        again = not answered or not said or answered == said
        if asked[size:]:
            return _says(asked[size:], said)
        return again


def conversations_of(spans: Sequence[Span]) -> list[Conversation]:
    """The conversations of the model calls, in the order in which they begin."""
    steps = _Steps(spans)
    by_id = _by_id(spans)
    for number, call in enumerate(spans):
        if call.kind != "call":
            continue
        question, answer = _exchange(call)
        calls = (span for span in around(by_id, call) if span.kind == "call")
        whole = (span for span in calls if None not in (span.input, span.output))
        outer = first(whole)
        # a framework's call wraps its client's, and holds its answer
        wrapped = outer is not None and _says(
            prints([turn for side in _exchange(outer) for turn in side]),
            prints(answer),
        )
        if (question or answer) and not wrapped:
            steps.add(number, question, answer)
    for one in steps.conversations:
        called = {name for turn in one.output for name in called_names(turn)}
        results = steps.results(one.last, len(spans)) if called else []
        one.output = [*one.output, *(r for r in results if r["name"] in called)]
    return steps.conversations


def _exchange(call: Span) -> tuple[Messages, Messages]:
    return question_turns(call.input), agent_turns(call.output)


class _Steps:
    """Conversations so far."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.conversations: list[Conversation] = []
        self._spans = spans
        self._by_parent: dict[str | None, Conversation] = {}

    def add(self, number: int, question: Messages, answer: Messages) -> None:
        """Add the step of a span to the conversation that it continues, or begin one."""
        asked = prints(question)
        answered = prints(answer)
        parent = self._spans[number].parent
        # of those that it continues the one of the longest input, of equal ones the last
        known = [
            one
            for one in reversed(self.conversations[-_NEAR:])
            if one.input_prints and one.is_continued(asked, answered)
        ]
        if known:
            one = max(known, key=lambda one: len(one.input_prints))
            if len(asked) > len(one.input_prints) or not one.output:
                if answer:
                    one.output = answer
                    one.output_prints = answered
                one.input = question
                one.input_prints = asked
                one.last = number
                self._by_parent[parent] = one
            return
        begin = question[0] if question else {"role": None}
        # a framework sent only new messages: none, results of tools, or the agent's own turns
        partial = begin.get("role") in OWN_ROLES or is_result(begin)
        before = self._by_parent.get(parent) or first(self.conversations[-1:])
        if not partial or before is None:
            before = Conversation(number, number)
            self.conversations.append(before)
        elif question:
            # without its first messages with which the conversation ends already
            inputs = before.input_prints[-len(asked) :]
            end = [*inputs, *before.output_prints]
            sizes = range(min(len(end), len(asked)), 0, -1)
            held = first(size for size in sizes if end[-size:] == asked[:size]) or 0
            question = question[held:]
        else:
            question = self.results(before.last, number)
        before.input += [*before.output, *question]
        before.input_prints += [*before.output_prints, *prints(question)]
        before.output = answer
        before.output_prints = answered
        before.last = number
        self._by_parent[parent] = before

    def results(self, last: int, until: int) -> Messages:
        """The results of the tools that ran between two spans."""
        tools = (span for span in self._spans[last + 1 : until] if span.kind == "tool")
        return [tool_turns(span)[1] for span in tools if span.output is not None]


def tools_of(spans: Sequence[Span]) -> Any:
    """The tools that the first call was offered."""
    calls = (span for span in spans if span.kind == "call")
    offered = (span.tools or offered_tools(span.input) for span in calls)
    return first(filter(None, offered))


def tool_turns(span: Span) -> Messages:
    """The call of a tool that ran, and its result."""
    identity = span.identity or span.name
    return [
        call_turn(identity, span.name, span.input),
        result_turn(identity, span.output, span.name),
    ]


def prints(messages: Messages) -> list[Print]:
    """The prints of messages, which are equal if the messages say the same."""
    out: list[Print] = []
    for message in messages:
        if "role" not in message and message.get("type") == "function_call_output":
            out.append(("tool", str(message.get("output")).strip(), ()))
            continue
        text = text_of(message)
        parts = message.get("content")
        if not text:  # other parts tell it from other messages
            if is_list(parts):
                parts = [part for part in parts if lookup(part, "type") != "tool_use"]
            text = "" if parts in EMPTY else repr(parts)
        names = called_names(message)
        out.append((str(message.get("role")), text, names))
    return out


def _by_id(spans: Sequence[Span]) -> dict[str, Span]:
    return {span.identity: span for span in spans if span.identity is not None}


def around(by_id: Mapping[str, Span], span: Span) -> Iterator[Span]:
    """The spans around a span, the nearest first, at most `_AROUND`."""
    passed = {span.identity}
    outer = by_id.get(span.parent or "")
    while outer is not None and outer.identity not in passed and len(passed) <= _AROUND:
        yield outer
        passed.add(outer.identity)
        outer = by_id.get(outer.parent or "")


def _says(messages: list[Print], answer: list[Print]) -> bool:
    """Tell if messages hold an answer: its text without its thoughts, and its calls."""
    own = [message for message in messages if message[0] in ("assistant", "None")]
    names = {name for _, _, called in own for name in called}
    return all(
        any(text.split("</think>")[-1].strip() in other for _, other, _ in own)
        and names.issuperset(called)
        for _, text, called in answer
    )
