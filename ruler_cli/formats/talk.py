"""A conversation as the events of an agent's session tell it, one after another."""

from __future__ import annotations

from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import Messages
from ruler_cli.records import Rollout

_OWN = ("assistant", None)
"""Roles of the agent's turns; an item that is shown as it is has none."""


class Talk:
    """The turns so far; those that the user took back are histories of their own."""

    def __init__(self) -> None:
        """Nothing said."""
        self.turns: Messages = []
        self._taken: list[Messages] = []
        self._agent = 0
        self._session: Any = None

    @property
    def begun(self) -> bool:
        """Tell if the agent had a turn."""
        return self._agent > 0

    def head(self, session: Any, *, behind: bool = False) -> None:
        """The session that what follows is of; UnreadableError where another one begins `behind` turns."""
        if (self.begun or behind) and session != self._session:
            raise UnreadableError(
                "holds several sessions; give each in a file of its own, and their directory"
            )
        self._session = session if self._session is None else self._session

    def say(self, role: str, content: Any, **more: Any) -> None:
        """One turn; none where it says nothing."""
        given = {key: value for key, value in more.items() if value not in (None, "", [])}
        if content not in (None, "", []) or given:
            self.turns.append({"role": role, "content": plain_content(content), **given})
            self._agent += role == "assistant"

    def add(self, item: dict[str, Any]) -> None:
        """An item of the agent's that is shown as it is."""
        self.turns.append(item)
        self._agent += 1

    def answer(self, identity: Any, content: Any, name: Any = None) -> None:
        """Add the answer of a tool."""
        turn = {"role": "tool", "tool_call_id": str(identity), "content": content}
        self.turns.append(turn if name is None else {**turn, "name": str(name)})

    def note(self, text: Any) -> None:
        """Something that the harness told; in front of the agent's first turn it is not what was asked."""
        if self.begun:
            self.say("system", text)

    def back(self, to: int) -> None:
        """Take back all turns from a number on."""
        taken = self.turns[to:]
        if taken:
            del self.turns[to:]
            self._agent -= sum(turn.get("role") in _OWN for turn in taken)
            self._taken.append(taken)

    def aside(self, other: Talk) -> None:
        """Keep another conversation as one that was taken back."""
        self._taken.append(other.turns)

    def rollout(self, reward: Any, tools: Any = None) -> Rollout:
        """The conversation; UnreadableError if it holds no task, or nothing of the agent."""
        if not self.begun:
            raise UnreadableError("holds no turn of the agent")
        first = next(i for i, turn in enumerate(self.turns) if turn.get("role") in _OWN)
        if not any(turn.get("role") == "user" for turn in self.turns[:first]):
            raise UnreadableError(
                "holds no task: what the user asked is not in it; give the session's own file"
            )
        taken = [turns for turns in self._taken if any(turn.get("role") in _OWN for turn in turns)]
        return Rollout(self.turns, (), tuple(taken), tools, reward)


def plain_content(content: Any) -> Any:
    """Content that is nothing but texts as one text: equal prompts are equal however they were written."""
    if not isinstance(content, list):
        return content
    texts = [text_of(part) for part in content]
    return content if None in texts else "\n".join(map(str, texts))


def text_of(part: Any) -> str | None:
    """The text of a part of a message; None where it is something else."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type") not in (None, "text", "input_text", "output_text"):
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def parts_of(content: Any) -> list[Any]:
    """Content as its parts."""
    return content if isinstance(content, list) else [] if content in (None, "") else [content]


def without(text: str, opens: str, closes: str) -> str:
    """Text without what a harness put between two tags; a tag that is not closed stays."""
    kept, at = [], 0
    while (start := text.find(opens, at)) >= 0 and (end := text.find(closes, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closes)
    return "".join([*kept, text[at:]])


def call(identity: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A tool call as messages have it."""
    return {"id": str(identity), "name": str(name), "arguments": arguments}
