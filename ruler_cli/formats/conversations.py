"""The spans of a trace → the conversations that its model calls are steps of, and the tools between them.

A step that continues an earlier one replaces it, because its input holds that one's input and answer. A
message is left out only if it stands in the step that replaces its own, so a trace may be shown twice, never
in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ruler_cli.formats import dialects
from ruler_cli.formats.chat import Messages
from ruler_cli.formats.trace_spans import Span

_NEAR = 20
"""Conversations with the same input that are compared, the last first; one beyond them is shown twice."""
_AROUND = 200
"""Spans around a span that are looked at."""
Print = tuple[str, str, tuple[str, ...]]
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


def conversations_of(spans: Sequence[Span]) -> list[Conversation]:
    """The conversations of the model calls, in the order in which they begin."""
    steps = _Steps(spans)
    by_id = _by_id(spans)
    for number, call in enumerate(spans):
        if call.kind != "call":
            continue
        question, answer = (
            dialects.question_turns(call.input),
            dialects.agent_turns(call.output),
        )
        calls = (span for span in _around(by_id, call) if span.kind == "call")
        outer = next(
            (span for span in calls if None not in (span.input, span.output)), None
        )
        # a framework's call wraps its client's, and holds its answer
        wrap = (
            [*dialects.question_turns(outer.input), *dialects.agent_turns(outer.output)]
            if outer
            else []
        )
        if (question or answer) and not (outer and _says(prints(wrap), prints(answer))):
            steps.add(number, question, answer)
    for one in steps.conversations:
        if called := {
            name for message in one.output for name in dialects.called_names(message)
        }:
            results = steps.results(one.last, len(spans))
            one.output = [
                *one.output,
                *(turn for turn in results if turn["name"] in called),
            ]
    return steps.conversations


class _Steps:
    """Conversations so far, indexed by a hash of their last step's input."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.conversations: list[Conversation] = []
        self._spans = spans
        self._by_input: dict[int, list[Conversation]] = {}
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
        # some frameworks send only new messages: none, results of tools, or the agent's own turns
        partial = (
            not question
            or dialects.is_result(question[0])
            or question[0].get("role") in dialects.OWN_ROLES
        )
        latest = self._by_parent.get(self._spans[number].parent) or next(
            reversed(self.conversations), None
        )
        conversation = latest if partial else None
        if conversation is None:
            conversation = Conversation(number, number)
            self.conversations.append(conversation)
        elif (
            question
        ):  # without its first messages with which the conversation ends already
            end = [
                *conversation.input_prints[-len(asked) :],
                *conversation.output_prints,
            ]
            sizes = range(min(len(end), len(asked)), 0, -1)
            question = question[next((n for n in sizes if end[-n:] == asked[:n]), 0) :]
        else:
            question = self.results(conversation.last, number)
        conversation.input += [*conversation.output, *question]
        conversation.input_prints += [*conversation.output_prints, *prints(question)]
        conversation.output, conversation.output_prints = answer, answered
        self._index(conversation, number)

    def results(self, last: int, until: int) -> Messages:
        """The results of the tools that ran between two spans."""
        tools = (span for span in self._spans[last + 1 : until] if span.kind == "tool")
        return [tool_turns(span)[1] for span in tools if span.output is not None]

    def _index(self, conversation: Conversation, number: int) -> None:
        conversation.last = number
        self._by_parent[self._spans[number].parent] = conversation
        self._by_input.setdefault(_hashes(conversation.input_prints)[-1], []).append(
            conversation
        )

    def _continued(
        self, asked: list[Print], answered: list[Print]
    ) -> Conversation | None:
        """The conversation that a step continues, the one of the longest input first."""
        for key in _hashes(asked)[:0:-1]:
            for one in self._by_input.get(key, ())[-_NEAR:][::-1]:
                if one.input_prints != asked[: len(one.input_prints)]:
                    continue
                said, rest = one.output_prints, asked[len(one.input_prints) :]
                # it holds the conversation's answer, or is the same step again
                if (
                    _says(rest, said)
                    if rest
                    else not answered or not said or answered == said
                ):
                    return one
        return None


def _hashes(messages: list[Print]) -> list[int]:
    """A hash of each beginning of an input, the shortest first."""
    return list(
        accumulate(messages, lambda before, message: hash((before, message)), initial=0)
    )


def tools_of(spans: Sequence[Span]) -> Any:
    """The tools that the first call was offered."""
    calls = (span for span in spans if span.kind == "call")
    return next(
        (
            tools
            for span in calls
            if (tools := span.tools or dialects.offered_tools(span.input))
        ),
        None,
    )


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
        sum(s.kind == "tool" for s in _around(by_id, spans[one.first]))
        for one in conversations
    ]


def prints(messages: Messages) -> list[Print]:
    """The prints of messages, which are equal if the messages say the same."""
    return [_print(message) for message in messages]


def _by_id(spans: Sequence[Span]) -> dict[str, Span]:
    return {span.identity: span for span in spans if span.identity is not None}


def _around(by_id: Mapping[str, Span], span: Span) -> Iterator[Span]:
    """The spans around a span, the nearest first, at most `_AROUND`."""
    passed = {span.identity}
    outer = by_id.get(span.parent or "")
    while outer is not None and outer.identity not in passed and len(passed) <= _AROUND:
        yield outer
        passed.add(outer.identity)
        outer = by_id.get(outer.parent or "")


def _says(messages: list[Print], answer: list[Print]) -> bool:
    """Tell if messages hold an answer: its text without its thoughts, and its calls."""
    own = [
        (text, called)
        for role, text, called in messages
        if role in ("assistant", "None")
    ]
    names = {name for _, called in own for name in called}
    return all(
        any(text.split("</think>")[-1].strip() in other for other, _ in own)
        and names.issuperset(called)
        for _, text, called in answer
    )


def _print(message: Mapping[str, Any]) -> Print:
    if "role" not in message and message.get("type") == "function_call_output":
        return "tool", str(message.get("output")).strip(), ()
    text = dialects.text_of(message)
    if not text:  # other parts tell it from other messages
        parts = message.get("content")
        if isinstance(parts, list):
            parts = [
                p
                for p in parts
                if not (isinstance(p, Mapping) and p.get("type") == "tool_use")
            ]
        text = "" if parts in dialects.EMPTY else repr(parts)
    return str(message.get("role")), text, dialects.called_names(message)
