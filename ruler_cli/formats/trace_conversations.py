"""The spans of a trace → its conversations with models.

A step of a conversation that continues an earlier one replaces it, because its input holds that one's input and
answer. A message is left out only if it stands in the step that replaces its own, so a trace may be shown
twice, never in part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ruler_cli.files.values import first
from ruler_cli.formats.trace_spans import Span
from ruler_cli.messages.content import Messages
from ruler_cli.messages.dialects import (
    Said,
    agent_turns,
    call_turn,
    question_turns,
    result_turn,
    said,
)

Turns = list[Said]

_LONG = 12
"""Characters of a text that do not stand in another text by chance."""
_NEAR = 200
"""Last conversations that a step may continue; one before them is shown twice."""


@dataclass(slots=True)
class Conversation:
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
        return begins and says(spoken, self.output)


def conversations_of(spans: list[Span]) -> list[Conversation]:
    """Return the conversations of the model calls, in the order in which they begin."""
    conversations: list[Conversation] = []
    for number, span in enumerate(spans):
        if span.kind != "call":
            continue
        asked = [*map(said, question_turns(span.input))]
        answered = [*map(said, agent_turns(span.output))]
        if not asked + answered:
            continue
        near = conversations[:-_NEAR:-1]
        continued = [t for t in near if t.is_continued(asked, answered)]
        if continued:
            talk = max(continued, key=lambda talk: len(talk.input))
            new = asked[len(talk.input) :]
            talk.input = talk.input + _with_thought(new, talk.output)
            if new or answered:
                talk.output = answered
        else:
            talk = Conversation(asked, answered, number, span.parent)
            conversations.append(talk)
        talk.last = number
        talk.parent = span.parent
    _add_last_tools(conversations, spans)
    return conversations


def _add_last_tools(
    conversations: list[Conversation],
    spans: list[Span],
) -> None:
    """Add the tools that ran after a conversation's last step: results of its calls, and what no model called."""
    end = 0
    called = set()
    for talk in conversations:
        end = max(end, talk.last)
        called |= _called(talk.turns)
        pending = _called(talk.output)
        for tool in spans[talk.last + 1 :]:
            if tool.kind != "tool" or tool.output is None:
                continue
            if tool.name in pending:
                _, result = run_of(tool)
                talk.output.append(said(result))
    for tool in spans[end + 1 :]:
        if tool.kind != "tool" or tool.name in called:
            continue
        beside = (t for t in conversations if t.parent == tool.parent)
        for talk in [*beside, *conversations][:1]:
            talk.output += map(said, run_of(tool))


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


def rest_of(
    before: Turns,
    asked: Turns,
) -> Turns:
    """Return the messages of an input without its first ones with which a conversation ends already."""
    for size in range(len(asked), 0, -1):
        if before[-size:] == asked[:size]:
            return asked[size:]
    return asked


def run_of(tool: Span) -> Messages:
    """Return the call and the result of a tool that ran, as turns."""
    identity = tool.identity or tool.name
    call = call_turn(identity, tool.name, tool.input)
    return [call, result_turn(identity, tool.output, tool.name)]


def _called(turns: Turns) -> set[str]:
    """Return the names of the tools that turns call."""
    return {name for turn in turns for name in turn.called}


def says(
    turns: Turns,
    answer: Turns,
) -> bool:
    """Return whether turns hold an answer: its text without its thoughts, and its calls."""
    spoken = [turn for turn in turns if turn.form.by_agent]
    for part in answer:
        *_, last = part.text.split("</think>")
        text = last.strip()
        if not any(is_within(text, turn.text) for turn in spoken):
            return False
    return _called(answer) <= _called(spoken)


def is_within(
    text: str,
    whole: str,
) -> bool:
    """Return whether a text holds this one; a short one must be equal, as it stands in many."""
    if not text or text == whole:
        return True
    return len(text) >= _LONG and text in whole
