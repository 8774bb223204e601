"""Calls of models as tracers and gateways record them: a trace is a rollout, or a request with its response.

OpenTelemetry, Langfuse, LangSmith, Phoenix and OpenAI's agents.

Spans are gathered by their trace (`{"trace_id": …, "spans": […]}`), or stand in the record of their trace:
`observations` (Langfuse, `GET /api/public/traces/{id}`, and `{"trace": …, "observations": …}` of its pages),
`child_runs` (LangSmith). Traps:
- The rollout is the conversation that begins first, outside all tools: later ones, of sub-agents and of steps
  with another prompt, are further histories. The longest one may be another in each rollout of a task, and
  with it the hash of the prompt.
- Langfuse's pages write a trace's own `input` and `output` as JSON text, its API all values, or none. A text
  is a model's own, even if it is JSON, unless an input is JSON text as well.
- Equal prompts are a group, unless a field names the item of a data set. A session or a trace is no group.

A step of a conversation that continues an earlier one replaces it, because its input holds that one's input and
answer. A message is left out only if it stands in the step that replaces its own, so a trace may be shown
twice, never in part.

Requests and responses are written by proxies and gateways (LiteLLM, Helicone, Portkey, Claude Code's tracers) and by
batch APIs. The bodies are those of OpenAI, Anthropic and Gemini, below `body` or in place, or JSON text. Traps:
- The messages of a request may hold what another rollout said, so all of them are the prompt, unless the record
  names the session that it belongs to.
- A response that is JSON text beside a request that is none is a model's own text.
- The output of a batch has no request: its task stands in the input of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.values import (
    EMPTY,
    JsonObject,
    first,
    first_at,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.chat import make_rollout, read_or_error
from ruler_cli.formats.format import holds
from ruler_cli.formats.keys import hashed_key, key_text
from ruler_cli.formats.paths import Rollouts, every
from ruler_cli.formats.trace_spans import (
    Span,
    decoded,
    is_encoded,
    spans_of,
)
from ruler_cli.messages.content import Messages, Turn, first_agent_turn, text_of
from ruler_cli.messages.dialects import (
    OWN_ROLES,
    Said,
    agent_turns,
    as_turn,
    call_turn,
    each_at,
    is_message,
    is_own,
    is_result,
    messages_of,
    offered_tools,
    question_turns,
    result_turn,
    said,
)
from ruler_cli.messages.endings import first_ending
from ruler_cli.types import Rollout

_SPANS = words("spans observations child_runs")
_ITEMS = words(
    "datasetItemId dataset_item_id reference_example_id dataset_example_id metadata.dataset_item_id "
    "metadata.datasetItemId metadata.dataset_example_id metadata.reference_example_id "
    "attributes.dataset_example_id langfuse.experiment.item.id "
    'metadata.attributes."langfuse.experiment.item.id"'
)
_SCORES = words(
    "scores[].value annotations[].result.score annotations[].score span_annotations[].result.score "
    "span_annotations[].score feedback_stats{}.value.avg"
)
_INPUTS = words("input inputs input_text")
_OUTPUTS = words("output outputs output_text")
_ANSWER_MEMBERS = frozenset(words("messages choices generations candidates"))
_OWN = ("assistant", "None")
_LONG = 12
_WORD = 4
"""Characters of an answer, and of a task, that do not stand in another text by chance."""
_LANGFUSE = "id timestamp htmlPath|bookmarked|sessionId|userId|release|projectId"
"""Fields of Langfuse's traces beside their input and output."""
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


def _ends(record: JsonObject, spans: list[Span], *, encoded: bool) -> list[Any]:
    """The input and output of the first span without a parent; one that it lacks is the trace's own."""
    top = [span for span in spans if span.parent is None]
    roots = [
        span
        for span in top or [span for span in spans if span.outer is None]
        if span.kind == "other" and (span.input, span.output) != (None, None)
    ]
    trace = {} if is_text(record.get("run_type")) else _trace(record)
    question = _parsed(first_at(trace, *_INPUTS))
    answer = first_at(trace, *_OUTPUTS)
    if trace is not record:
        question = _parsed(question)
        answer = _parsed(answer)
    # a text in the output is the model's, even if it reads as JSON, unless all values are JSON text
    again = _parsed(answer)
    answer = again if encoded or is_text(again) else answer
    inputs = [span.input for span in roots]
    outputs = [span.output for span in reversed(roots)]
    # of several roots none is the trace's
    at = 0 if len(roots) > 1 else len(roots)
    inputs.insert(at, question)
    outputs.insert(at, answer)
    return [first(v for v in values if v is not None) for values in (inputs, outputs)]


def read_trace(record: JsonObject) -> Rollout:
    """Read a trace."""
    step = record.get("parent_run_id") and not record.get("child_runs")
    if "run_type" in record and step:
        raise UnreadableError(
            "is one step of a trace (LangSmith); give the runs as JSON lines, all of a trace"
        )
    listed = _listed(record)
    encoded = is_encoded([*listed, record])
    spans = spans_of(listed, encoded=encoded)
    given, final = _ends(record, spans, encoded=encoded)
    conversations = conversations_of(spans)
    further: tuple[Messages, ...] = ()
    if conversations:
        main = _main(conversations, given)
        messages = _with_ends(main.messages, conversations, given, final)
        further = tuple(one.messages for one in conversations if one is not main)
    else:
        messages = _without_calls(given, final, spans)
    calls = (span for span in spans if span.kind == "call")
    offered = (span.tools or offered_tools(span.input) for span in calls)
    tools = first(filter(None, offered))
    return Rollout(messages, (), further, tools, outcome=_outcome(record, spans))


def _main(conversations: list[Conversation], given: Any) -> Conversation:
    """The first conversation with the task, outside all tools if there is one."""
    question = messages_of(given, "user") or []

    def rank(one: Conversation) -> tuple[bool, int]:
        # a sub-agent's conversation is one tool deeper
        kinds = [span.kind for span in one.begin.around()]
        return not _is_asked(question, [one]), kinds.count("tool")

    return min(conversations, key=rank)


def _without_calls(given: Any, final: Any, spans: list[Span]) -> Messages:
    """A trace without messages of model calls: the root's input, the tools as they ran, its output."""
    answer = _answer(given, final)
    if not answer:
        raise UnreadableError(
            "holds no model call with its messages, and no output of its root; let the tracer record "
            "what was said, not only when"
        )
    messages = as_turn("user", given) if _has_more(given) else question_turns(given)
    if len(answer) == 1:
        for span in spans:
            if span.kind == "tool":
                call = call_turn(span.identity or span.name, span.name, span.input)
                messages += [call, _result(span)]
    return [*messages, *answer]


def _result(tool: Span) -> Turn:
    """The result of a tool that ran."""
    return result_turn(tool.identity or tool.name, tool.output, tool.name)


def _outcome(record: JsonObject, spans: list[Span]) -> float | None:
    """The only number of Langfuse's scores, Phoenix's annotations, LangSmith's feedback."""
    holders = (record, _trace(record), *(span.raw for span in spans))
    found = [
        value
        for holder in {id(holder): holder for holder in holders}.values()
        for path in _SCORES
        for _, value in every(holder, path)
        if isinstance(value, int | float)
    ]
    return found[0] if len(found) == 1 else None


def _with_ends(
    messages: Messages, conversations: list[Conversation], given: Any, final: Any
) -> Messages:
    """The main conversation, with the root's task and final answer if no conversation has them."""
    question = messages_of(given, "user") or []
    if not _is_asked(question, conversations):
        messages = [*question, *messages]
    elif first_agent_turn(messages) == 0:  # no message before it tells the task
        opening = [m for m in messages if m.get("role") == "user"][:1]
        messages = [*(question or opening or as_turn("user", given)), *messages]
    spoken = [each for one in conversations for each in (*one.input, *one.output)]
    output = messages_of(final, "assistant") or []
    answers = [m for m in output if m.get("role") in OWN_ROLES and text_of(m)]
    last = (answers or output)[-1:]
    if last:
        shown = _says(spoken, [*map(said, last)])
    else:
        own = (each.text for each in spoken if each.role in _OWN)
        shown = final in map(_parsed, own)
    if shown:
        return messages
    return [*messages, *(answers[-1:] or as_turn("assistant", final))]


def _is_asked(question: Messages, conversations: list[Conversation]) -> bool:
    """Tell if the last text of a user in a question is empty, or stands in an input of the conversations."""
    texts = [text_of(m) for m in question if m.get("role") == "user"][-1:]
    asked = [text_of(one.message) for each in conversations for one in each.input]
    return not any(texts) or any(_within(texts[0], text, _WORD) for text in asked)


def _within(text: str, other: str, least: int) -> bool:
    """Tell if another text holds this one; one shorter than `least` must be equal, as it stands in many."""
    known = not text or text == other
    return known or (len(text) >= least and text in other)


def _answer(given: Any, final: Any) -> Messages:
    """The root's output: the turns after its input, or one turn with all of it.

    A list of messages may be a model's text that somebody read as JSON: results of tools in it are none.
    """
    messages = messages_of(final, "assistant")
    whole = as_turn("assistant", final)
    if messages is None or _has_more(final):
        return whole
    before = [*map(said, messages_of(given, "user") or ())]
    rest = _rest(before, [*map(said, messages)])
    messages = [one.message for one in rest] or messages
    with_results = is_object(final) and "messages" in final
    known = all(is_own(m) or (with_results and is_result(m)) for m in messages)
    return messages if known else whole


def _has_more(value: Any) -> bool:
    """Tell if an object has several members and no messages, so that all of it is shown."""
    if not is_object(value) or is_message(value):
        return False
    stated = sum(inner not in EMPTY for inner in value.values())
    return stated > 1 and not _ANSWER_MEMBERS & value.keys()


def item_key(record: JsonObject) -> str | None:
    """Return the item of a data set on which a trace ran; None if it names none."""
    trace = _trace(record)
    metadata = {"metadata": decoded(trace.get("metadata"))}
    holders = (record, trace, metadata, *_listed(record))
    values = (lookup(holder, path) for holder in holders for path in _ITEMS)
    item = first(v for v in values if isinstance(v, str | int) and v != "")
    return None if item is None else key_text(item)


def is_spans(record: JsonObject) -> bool:
    """Tell if spans hold something that a model was asked or said."""
    return any(
        span.kind == "call" or (span.input, span.output) != (None, None)
        for span in spans_of(record.get("spans"))
    )


def is_langfuse(record: JsonObject) -> bool:
    """Tell if a record is a trace of Langfuse, with observations or without."""
    trace = _trace(record)
    if objects(lookup(record, "observations") or trace.get("observations")):
        return True
    return holds(trace, _LANGFUSE) and trace.get("output") is not None


_NEAR = 200
"""Last conversations that a step may continue; one before them is shown twice."""


@dataclass(slots=True)
class Conversation:
    """The input and output of a conversation's last step, whose number is `last`; `begin` is its first span."""

    begin: Span
    last: int
    input: list[Said]
    output: list[Said]

    @property
    def messages(self) -> Messages:
        """All messages of the conversation."""
        return [one.message for one in (*self.input, *self.output)]

    def is_continued(self, asked: list[Said], answered: list[Said]) -> bool:
        """Tell if a step holds this input and this answer, or is the same step again."""
        size = len(self.input)
        if not size or self.input != asked[:size]:
            return False
        if asked[size:]:
            return _says(asked[size:], self.output)
        return not answered or not self.output or answered == self.output


def conversations_of(spans: list[Span]) -> list[Conversation]:
    """The conversations of the model calls, in the order in which they begin."""
    found: list[Conversation] = []
    by_parent: dict[str | None, Conversation] = {}
    for number, span in enumerate(spans):
        asked, answered = _exchange(span) if span.kind == "call" else ([], [])
        if not (asked or answered) or _is_wrapped(span, answered):
            continue
        # of those that it continues the one of the longest input, of equal ones the last
        near = reversed(found[-_NEAR:])
        known = [one for one in near if one.is_continued(asked, answered)]
        one = max(known, key=lambda one: len(one.input), default=None)
        if one is None:
            one = by_parent.get(span.parent) or first(reversed(found))
            # a framework may send only new messages: none, results of tools, or the agent's own turns
            partial = not asked or asked[0].role in _OWN or is_result(asked[0].message)
            if one is None or not partial:
                one = Conversation(span, number, [], [])
                found.append(one)
            before = [*one.input, *one.output]
            between = _results(spans[one.last + 1 : number])
            one.input = [*before, *(_rest(before, asked) if asked else between)]
            one.output = answered
        elif len(asked) > len(one.input) or not one.output:
            one.input = asked
            one.output = answered or one.output
        else:
            continue
        one.last = number
        by_parent[span.parent] = one
    for one in found:
        called = {name for each in one.output for name in each.called}
        results = _results(spans[one.last + 1 :]) if called else []
        one.output += [each for each in results if each.message["name"] in called]
    return found


def _exchange(call: Span) -> tuple[list[Said], list[Said]]:
    question = question_turns(call.input)
    return [*map(said, question)], [*map(said, agent_turns(call.output))]


def _is_wrapped(call: Span, answered: list[Said]) -> bool:
    """Tell if a framework's call wraps this one of its client, and holds its answer."""
    calls = (span for span in call.around() if span.kind == "call")
    outer = first(span for span in calls if None not in (span.input, span.output))
    if outer is None:
        return False
    question, answer = _exchange(outer)
    return _says([*question, *answer], answered)


def _rest(before: list[Said], asked: list[Said]) -> list[Said]:
    """The messages of an input without its first ones with which a conversation ends already."""
    sizes = range(min(len(before), len(asked)), 0, -1)
    held = first(size for size in sizes if before[-size:] == asked[:size]) or 0
    return asked[held:]


def _results(spans: list[Span]) -> list[Said]:
    """The results of the tools among spans."""
    tools = (span for span in spans if span.kind == "tool" and span.output is not None)
    return [said(_result(span)) for span in tools]


def _says(messages: list[Said], answer: list[Said]) -> bool:
    """Tell if messages hold an answer: its text without its thoughts, and its calls."""
    own = [one for one in messages if one.role in _OWN]
    called = {name for one in own for name in one.called}
    return all(
        called.issuperset(one.called)
        and any(
            _within(one.text.split("</think>")[-1].strip(), each.text, _LONG)
            for each in own
        )
        for one in answer
    )


_BODIES = "request.body|request_body|request|body|input response.body|response_body|response|output"
_SESSIONS = words(
    "session_id sessionId trace_id traceId conversation_id thread_id metadata.session_id metadata.trace_id"
)
_ASKS = "messages[]|contents|input|prompt"
_ENDS = words(
    "choices.-1.finish_reason candidates.-1.finishReason stop_reason status incomplete_details.reason"
)
_STREAMED = ("data:", "event:")
_REPLIES = "choices[]|candidates[]|content[]|output[]"


def _bodies(record: JsonObject) -> list[Any]:
    """The bodies of a request, {} without one, and of its response; of two that are JSON text the values."""
    request, response = each_at(record, _BODIES)
    if is_text(request):
        request, response = map(_parsed, (request, response))
    return [request if is_object(request) else {}, response]


def _choices(record: JsonObject) -> list[Any]:
    """The choices in a response; [] if a record is no request with its response, or one of a batch."""
    request, response = _bodies(record)
    asked = holds(request, _ASKS) if request else "custom_id" in record
    replied = is_object(response) and holds(response, _REPLIES)
    if asked and (replied or (request and is_text(response))):
        return items(lookup(response, "choices")) or [response]
    return []


def is_exchange(record: JsonObject) -> bool:
    """Tell if a record holds a request to a model and its response."""
    return bool(_choices(record)) and not is_sampled(record)


def is_sampled(record: JsonObject) -> bool:
    """Tell if a record holds a request to a model for several answers, of which one may be left, and its response."""
    least = 0 if lookup(record, "ruler.rollouts") else 1
    return len(_choices(record)) > least


def read_exchange(record: JsonObject) -> Rollout:
    """Read a request to a model and its response."""
    return _exchange_with(record, _bodies(record)[1])


def read_samples(record: JsonObject) -> Rollouts:
    """Read a request to a model, and each of the answers in its response."""
    return [
        read_or_error((i,), _exchange_with, record, {"choices": [choice]})
        for i, choice in enumerate(_choices(record))
    ]


def _exchange_with(record: JsonObject, response: Any) -> Rollout:
    """Read a request and an answer.

    Records of one session are parts of one rollout if the agent's first turn in them is the same. Without such an
    id all of a request is the prompt, because another rollout may have begun the conversation.
    """
    request, _ = _bodies(record)
    if str(response).startswith(_STREAMED):
        raise UnreadableError(
            "has a stream of events for a response; log it as one object"
        )
    answer = messages_of(response, "assistant")
    if answer is None or not all(map(is_own, answer)):
        raise UnreadableError("has no answer in its response, as after a failed call")
    tools = offered_tools(request) or None
    ended = first_ending(_ENDS, partial(lookup, response))
    rollout = make_rollout(question_turns(request), answer, tools=tools, ended=ended)
    session = first_at(record, *_SESSIONS)
    if session is None:
        return rollout
    turns = map(said, rollout.messages[first_agent_turn(rollout.messages) :])
    begins = ([turn.text, turn.called] for turn in turns if turn.text or turn.called)
    member = hashed_key(str(session), first(begins))
    return replace(rollout, prompt_length=None, member=member)
