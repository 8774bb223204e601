"""Histories of agent frameworks with messages of their own: ADK, AutoGen, LangChain."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from tests.formats.changes import sample
from tests.values import read, reader, render


def test_calls(subtests: pytest.Subtests) -> None:
    """The judge reads each call once, with its arguments, and its result as a tool message."""
    for name in ["adk_sessions", "autogen", "langchain"]:
        with subtests.test(name=str(name)):
            lines = "\n".join(
                render(read(sample(name)[0])[0].rollouts[0].messages)
            ).split("\n")
            (call,) = [line for line in lines if line.startswith("call ")]
            (result,) = [line for line in lines if line.startswith("tool ")]
            assert call == 'call timetable: {"to":"Tromsø"}'
            assert result.startswith("tool timetable: ")


MALFORMED: list[Any] = ["text", None, 3, []]
REFUSED: list[tuple[type[Exception], str, Any]] = [
    # the answers of an evaluation set are the expected ones, and no agent's
    (UsageError, "holds no rollouts",
     {"evalId": "x", "conversation": [{"userContent": {"parts": [{"text": "q"}]}, "finalResponse": {}}]}),
    # earlier turns beside a question are no rollout
    (UsageError, "holds no rollouts|does not read",
     {"chat_history": [{"role": "user", "content": "hi"}], "documents": ["d"]}),
    *((UnreadableError, "has no messages where", {**record, "messages": [record["messages"][0], malformed]})
      for malformed in MALFORMED
      for record in (sample("autogen")[0], sample("langchain")[0])),
]  # fmt: skip


def test_refused(subtests: pytest.Subtests) -> None:
    """A record without a conversation, or with a malformed message, is refused with the reason."""
    for error, reason, record in REFUSED:
        with subtests.test(reason=reason), pytest.raises(error, match=reason):
            read(record)


def test_langchain_beside_roles() -> None:
    """Messages with roles are native, whatever their `type`."""
    messages = [
        {"role": "user", "type": "human", "content": "q"},
        {"role": "assistant", "content": "a"},
    ]
    assert reader({"messages": messages}).format.family == "native"
