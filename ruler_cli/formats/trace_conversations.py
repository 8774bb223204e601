"""The spans of a trace → its conversations with models.

A step of a conversation that continues an earlier one replaces it, because its input holds that one's input and
answer. A message is left out only if it stands in the step that replaces its own, so a trace may be shown
twice, never in part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ruler_cli.files.values import first
from ruler_cli.formats.trace_spans import Span
from ruler_cli.messages.content import Messages, Turn
from ruler_cli.messages.dialects import (
    Said,
    agent_turns,
    is_result,
    question_turns,
    result_turn,
    said,
)

AGENT = ("assistant", "None")
"""Roles of what the agent said."""
_LONG = 12
"""Characters of an answer that do not stand in another text by chance."""
_NEAR = 200
"""Last conversations that a step may continue; one before them is shown twice."""


@dataclass(slots=True)
class Conversation:
    """The input and output of a conversation's last step, whose number is `last`; `begin` is its first span."""

    begin: Span
    last: int
    input: list[Said] = field(default_factory=list)
    output: list[Said] = field(default_factory=list)

    @property
    def messages(self) -> Messages:
        """All messages of the conversation."""
        return [turn.message for turn in (*self.input, *self.output)]

    def is_continued(self, asked: list[Said], answered: list[Said]) -> bool:
        """Return whether a step holds this input and this answer, or is the same step again."""
        size = len(self.input)
        if not size or self.input != asked[:size]:
            return False
        if asked[size:]:
            return says(asked[size:], self.output)
        return not answered or not self.output or answered == self.output


def conversations_of(spans: list[Span]) -> list[Conversation]:
    """Return the conversations of the model calls, in the order in which they begin."""
    conversations: list[Conversation] = []
    by_parent: dict[str | None, Conversation] = {}
    for number, span in enumerate(spans):
        if span.kind != "call":
            continue
        asked, answered = _exchange(span)
        if not (asked or answered) or _is_wrapped(span, answered):
            continue
        talk = _continued(conversations, asked, answered)
        if talk is None:
            talk = by_parent.get(span.parent) or first(reversed(conversations))
            if talk is None or _is_whole(asked):
                talk = Conversation(span, number)
                conversations.append(talk)
            new = rest_of([*talk.input, *talk.output], asked)
            if not asked:
                new = _results(spans[talk.last + 1 : number])
            talk.input += [*talk.output, *new]
            talk.output = answered
        elif len(asked) > len(talk.input) or not talk.output:
            talk.input = asked
            talk.output = answered or talk.output
        else:
            continue
        talk.last = number
        by_parent[span.parent] = talk
    for talk in conversations:
        called = {name for turn in talk.output for name in turn.called}
        if called:
            results = _results(spans[talk.last + 1 :])
            talk.output += [
                turn for turn in results if turn.message["name"] in called
            ]
    return conversations


def _continued(
    conversations: list[Conversation],
    asked: list[Said],
    answered: list[Said],
) -> Conversation | None:
    """Return the conversation that a step continues: of the longest input, of equal ones the last."""
    near = reversed(conversations[-_NEAR:])
    continued = [talk for talk in near if talk.is_continued(asked, answered)]
    return max(continued, key=lambda talk: len(talk.input), default=None)


def _is_whole(asked: list[Said]) -> bool:
    """Return whether an input begins a conversation.

    A framework may send only new messages: none, results of tools, or the agent's own turns.
    """
    if not asked or asked[0].role in AGENT:
        return False
    return not is_result(asked[0].message)


def _exchange(call: Span) -> tuple[list[Said], list[Said]]:
    asked = question_turns(call.input)
    answered = agent_turns(call.output)
    return [*map(said, asked)], [*map(said, answered)]


def _is_wrapped(call: Span, answered: list[Said]) -> bool:
    """Return whether a framework's call wraps this one of its client, and holds its answer."""
    for span in call.around():
        if span.kind == "call" and None not in (span.input, span.output):
            asked, answer = _exchange(span)
            return says([*asked, *answer], answered)
    return False


def rest_of(before: list[Said], asked: list[Said]) -> list[Said]:
    """Return the messages of an input without its first ones with which a conversation ends already."""
    for size in range(min(len(before), len(asked)), 0, -1):
        if before[-size:] == asked[:size]:
            return asked[size:]
    return asked


def _results(spans: list[Span]) -> list[Said]:
    """Return the results of the tools among spans."""
    tools = [span for span in spans if span.kind == "tool"]
    return [said(result_of(tool)) for tool in tools if tool.output is not None]


def result_of(tool: Span) -> Turn:
    """Return the result of a tool that ran, as a turn."""
    return result_turn(tool.identity or tool.name, tool.output, tool.name)


def says(messages: list[Said], answer: list[Said]) -> bool:
    """Return whether messages hold an answer: its text without its thoughts, and its calls."""
    spoken = [turn for turn in messages if turn.role in AGENT]
    called = {name for turn in spoken for name in turn.called}
    for part in answer:
        text = part.text.split("</think>")[-1].strip()
        is_shown = any(is_within(text, turn.text, _LONG) for turn in spoken)
        if not is_shown or not called.issuperset(part.called):
            return False
    return True


def is_within(
    text: str,
    whole: str,
    least: int,
) -> bool:
    """Return whether a text holds this one; one shorter than `least` must be equal, as it stands in many."""
    if not text or text == whole:
        return True
    return len(text) >= least and text in whole
