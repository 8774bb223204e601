"""The spans of a trace → the conversations that its model calls were steps of, and the tools between them.

A step that goes on where an earlier one ended replaces it: its input holds that one's input and answer. What
is shown is only left out if it stands in what replaces it, so a trace may be shown twice, never in part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from ruler_cli.formats.chat import Messages
from ruler_cli.formats.dialects import (
    NOTHING,
    OWN,
    as_json,
    asked,
    calling,
    is_result,
    names_of,
    offered,
    own_turns,
    result,
    text_of,
)
from ruler_cli.formats.trace_spans import Span

_NEAR = 20
"""Conversations with the same input that are looked at, the last first: what is missed is shown twice."""
_AROUND = 200
"""Spans around a span that are looked at."""
Print = tuple[str, str, tuple[str, ...]]
"""A message in any dialect: role, text, names of the tools that it calls."""


@dataclass(slots=True, eq=False)
class Conversation:
    """A conversation: its last step's input and answer, their prints, and the numbers of the spans."""

    first: int
    last: int
    asked: Messages = field(default_factory=list)
    said: Messages = field(default_factory=list)
    heard: list[Print] = field(default_factory=list)
    spoken: list[Print] = field(default_factory=list)

    @property
    def messages(self) -> Messages:
        """All of it."""
        return [*self.asked, *self.said]


def conversations_of(spans: Sequence[Span]) -> list[Conversation]:
    """The conversations of the model calls, in the order in which they began."""
    steps = _Steps(spans)
    known = _by_identity(spans)
    for number, call in enumerate(spans):
        if call.kind != "call":
            continue
        question, answer = _question(call.asked), own_turns(call.said)
        around = next((above for above in _above(known, call) if _tells(above)), None)
        if (question or answer) and not (around and _is_told(answer, around)):
            steps.add(number, question, answer)
    for conversation in steps.found:
        if called := {name for message in conversation.said for name in names_of(message)}:
            results = steps.results(conversation.last, len(spans))
            conversation.said = [*conversation.said, *(turn for turn in results if turn["name"] in called)]
    return steps.found


class _Steps:
    """Conversations so far, by a hash of their last step's input."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.found: list[Conversation] = []
        self._spans = spans
        self._known: dict[int, list[Conversation]] = {}
        self._below: dict[str | None, Conversation] = {}

    def add(self, number: int, question: Messages, answer: Messages) -> None:
        """A step: of a conversation that goes on, or the first of one."""
        heard, spoken = prints(question), prints(answer)
        conversation = self._before(heard, spoken)
        if conversation is not None:
            if len(heard) > len(conversation.heard) or not conversation.said:
                if answer:
                    conversation.said, conversation.spoken = answer, spoken
                conversation.asked, conversation.heard = question, heard
                self._note(conversation, number)
            return
        # a call was given only what is new: nothing, results of tools, or turns of its own
        more = not question or is_result(question[0]) or question[0].get("role") in OWN
        before = self._below.get(self._spans[number].parent) or next(reversed(self.found), None)
        conversation = before if more else None
        if conversation is None:
            conversation = Conversation(number, number)
            self.found.append(conversation)
        elif question:
            question = question[_overlap([*conversation.heard[-len(heard) :], *conversation.spoken], heard) :]
        else:
            question = self.results(conversation.last, number)
        conversation.asked += [*conversation.said, *question]
        conversation.heard += [*conversation.spoken, *prints(question)]
        conversation.said, conversation.spoken = answer, spoken
        self._note(conversation, number)

    def results(self, last: int, until: int) -> Messages:
        """The results of tools between two spans."""
        ran = (span for span in self._spans[last + 1 : until] if span.kind == "tool")
        return [tool_turns(span)[1] for span in ran if span.said is not None]

    def _note(self, conversation: Conversation, number: int) -> None:
        conversation.last = number
        self._below[self._spans[number].parent] = conversation
        self._known.setdefault(_marks(conversation.heard)[-1], []).append(conversation)

    def _before(self, heard: list[Print], spoken: list[Print]) -> Conversation | None:
        """The conversation of which this is a later step, the one of the longest input first."""
        for mark in _marks(heard)[:0:-1]:
            for one in self._known.get(mark, ())[-_NEAR:][::-1]:
                if one.heard == heard[: len(one.heard)] and _goes_on(one, heard, spoken):
                    return one
        return None


def _marks(heard: list[Print]) -> list[int]:
    """A hash of each beginning of an input, the shortest first."""
    return list(accumulate(heard, lambda mark, said: hash((mark, said)), initial=0))


def tools_of(spans: Sequence[Span]) -> Any:
    """The tools that the first call was offered."""
    calls = (span for span in spans if span.kind == "call")
    return next((found for span in calls if (found := span.tools or offered(span.asked))), None)


def tool_turns(span: Span) -> Messages:
    """A tool that ran, as the call and its result."""
    identity = span.identity or span.name
    return [calling(identity, span.name, span.asked), result(identity, span.said, span.name)]


def depths(spans: Sequence[Span], conversations: Sequence[Conversation]) -> list[int]:
    """The number of tools that each conversation stands below: a sub-agent's is one deeper."""
    known = _by_identity(spans)
    return [
        sum(above.kind == "tool" for above in _above(known, spans[conversation.first]))
        for conversation in conversations
    ]


def prints(messages: Messages) -> list[Print]:
    """The texts of messages, to be compared."""
    return [_print(message) for message in messages]


def _by_identity(spans: Sequence[Span]) -> dict[str, Span]:
    return {span.identity: span for span in spans if span.identity is not None}


def _question(value: Any) -> Messages:
    found = asked(value)
    if found is None:
        return [] if value in NOTHING else [{"role": "user", "content": as_json(value)}]
    return found


def _tells(span: Span) -> bool:
    return span.kind == "call" and span.asked is not None and span.said is not None


def _is_told(answer: Messages, around: Span) -> bool:
    """Tell if a call stands in another that says the same: a framework's and its client's are one."""
    return _is_said(prints(answer), prints([*_question(around.asked), *own_turns(around.said)]))


def _above(known: Mapping[str, Span], span: Span) -> Iterator[Span]:
    """The spans around a span, the nearest first; of very many the nearest only."""
    seen = {span.identity}
    at = known.get(span.parent or "")
    while at is not None and at.identity not in seen and len(seen) <= _AROUND:
        yield at
        seen.add(at.identity)
        at = known.get(at.parent or "")


def _goes_on(conversation: Conversation, heard: list[Print], spoken: list[Print]) -> bool:
    """Tell if a step with the same beginning holds all that was said, or is the same step once more."""
    rest = heard[len(conversation.heard) :]
    if rest:
        return _is_said(conversation.spoken, rest)
    return not spoken or not conversation.spoken or spoken == conversation.spoken


def _is_said(said: list[Print], rest: list[Print]) -> bool:
    """Tell if an answer stands in the turns behind its question: its text without its thoughts, its calls."""
    own = [(text, called) for role, text, called in rest if role in ("assistant", "None")]
    names = {name for _, called in own for name in called}
    return all(
        any(text.split("</think>")[-1].strip() in other for other, _ in own) and names.issuperset(called)
        for _, text, called in said
    )


def _overlap(heard: list[Print], now: list[Print]) -> int:
    """The number of turns of a question with which the conversation ends already."""
    return next((n for n in range(min(len(heard), len(now)), 0, -1) if heard[-n:] == now[:n]), 0)


def _print(message: Mapping[str, Any]) -> Print:
    if "role" not in message and message.get("type") == "function_call_output":
        return "tool", str(message.get("output")).strip(), ()
    text = text_of(message)
    if not text:  # what tells it from others is no text
        parts = message.get("content")
        if isinstance(parts, list):
            parts = [p for p in parts if not (isinstance(p, Mapping) and p.get("type") == "tool_use")]
        text = "" if parts in NOTHING else repr(parts)
    return str(message.get("role")), text, names_of(message)
