"""The spans of a trace → the conversations that its model calls are steps of, and the tools between them.

A step that continues an earlier one replaces it, because its input holds that one's input and answer. A
message is left out only if it stands in the step that replaces its own, so a trace may be shown twice, never
in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ruler_cli.formats import dialects
from ruler_cli.formats.chat import Messages, text_of
from ruler_cli.formats.fields import EMPTY, JsonObject, Names, first
from ruler_cli.formats.trace_spans import Span

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
        size, said = len(self.input_prints), self.output_prints
        if self.input_prints != asked[:size]:
            return False
        again = not answered or not said or answered == said
        return _says(asked[size:], said) if asked[size:] else again


def conversations_of(spans: Sequence[Span]) -> list[Conversation]:
    """The conversations of the model calls, in the order in which they begin."""
    steps, by_id = _Steps(spans), _by_id(spans)
    for number, call in enumerate(spans):
        if call.kind != "call":
            continue
        question, answer = _exchange(call)
        calls = (span for span in around(by_id, call) if span.kind == "call")
        whole = (span for span in calls if None not in (span.input, span.output))
        outer = first(whole)
        # a framework's call wraps its client's, and holds its answer
        wrapped = outer is not None and _says(
            prints([turn for side in _exchange(outer) for turn in side]), prints(answer)
        )
        if (question or answer) and not wrapped:
            steps.add(number, question, answer)
    for one in steps.conversations:
        called = {name for turn in one.output for name in dialects.called_names(turn)}
        results = steps.results(one.last, len(spans)) if called else []
        one.output = [*one.output, *(r for r in results if r["name"] in called)]
    return steps.conversations


def _exchange(call: Span) -> tuple[Messages, Messages]:
    return dialects.question_turns(call.input), dialects.agent_turns(call.output)


class _Steps:
    """Conversations so far."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.conversations: list[Conversation] = []
        self._spans = spans
        self._by_parent: dict[str | None, Conversation] = {}

    def add(self, number: int, question: Messages, answer: Messages) -> None:
        """Add the step of a span to the conversation that it continues, or begin one."""
        asked, answered = prints(question), prints(answer)
        conversation = self._continued(asked, answered)
        if conversation is not None:
            if len(asked) > len(conversation.input_prints) or not conversation.output:
                if answer:
                    conversation.output, conversation.output_prints = answer, answered
                conversation.input, conversation.input_prints = question, asked
                self._index(conversation, number)
            return
        conversation = self._latest(number) if _is_partial(question) else None
        if conversation is None:
            conversation = Conversation(number, number)
            self.conversations.append(conversation)
        elif question:
            # without its first messages with which the conversation ends already
            inputs = conversation.input_prints[-len(asked) :]
            end = [*inputs, *conversation.output_prints]
            sizes = range(min(len(end), len(asked)), 0, -1)
            held = first(size for size in sizes if end[-size:] == asked[:size]) or 0
            question = question[held:]
        else:
            question = self.results(conversation.last, number)
        conversation.input += [*conversation.output, *question]
        conversation.input_prints += [*conversation.output_prints, *prints(question)]
        conversation.output, conversation.output_prints = answer, answered
        self._index(conversation, number)

    def _latest(self, number: int) -> Conversation | None:
        """The conversation that a step with new messages only goes on with."""
        last = self.conversations[-1] if self.conversations else None
        return self._by_parent.get(self._spans[number].parent) or last

    def results(self, last: int, until: int) -> Messages:
        """The results of the tools that ran between two spans."""
        tools = (span for span in self._spans[last + 1 : until] if span.kind == "tool")
        return [tool_turns(span)[1] for span in tools if span.output is not None]

    def _index(self, conversation: Conversation, number: int) -> None:
        conversation.last = number
        self._by_parent[self._spans[number].parent] = conversation

    def _continued(
        self, asked: list[Print], answered: list[Print]
    ) -> Conversation | None:
        """The conversation that a step continues, the one of the longest input, of equal ones the last."""
        known = [
            one
            for one in reversed(self.conversations[-_NEAR:])
            if one.input_prints and one.is_continued(asked, answered)
        ]
        return max(known, key=lambda one: len(one.input_prints), default=None)


def _is_partial(question: Messages) -> bool:
    """Tell if a framework sent only new messages: none, results of tools, or the agent's own turns."""
    if not question:
        return True
    own = question[0].get("role") in dialects.OWN_ROLES
    return own or dialects.is_result(question[0])


def tools_of(spans: Sequence[Span]) -> Any:
    """The tools that the first call was offered."""
    calls = (span for span in spans if span.kind == "call")
    offered = (span.tools or dialects.offered_tools(span.input) for span in calls)
    return first(filter(None, offered))


def tool_turns(span: Span) -> Messages:
    """The call of a tool that ran, and its result."""
    identity = span.identity or span.name
    return [
        dialects.call_turn(identity, span.name, span.input),
        dialects.result_turn(identity, span.output, span.name),
    ]


def depths(spans: Sequence[Span], conversations: Sequence[Conversation]) -> list[int]:
    """The number of tools around each conversation: a sub-agent's is one deeper."""
    by_id = _by_id(spans)
    return [
        sum(span.kind == "tool" for span in around(by_id, spans[one.first]))
        for one in conversations
    ]


def prints(messages: Messages) -> list[Print]:
    """The prints of messages, which are equal if the messages say the same."""
    return [_print(message) for message in messages]


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


def _print(message: JsonObject) -> Print:
    if "role" not in message and message.get("type") == "function_call_output":
        return "tool", str(message.get("output")).strip(), ()
    text = text_of(message)
    if not text:  # other parts tell it from other messages
        parts = message.get("content")
        if isinstance(parts, list):
            parts = [part for part in parts if not _is_use(part)]
        text = "" if parts in EMPTY else repr(parts)
    return str(message.get("role")), text, dialects.called_names(message)


def _is_use(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "tool_use"
