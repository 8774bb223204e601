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


def adk(*parts: Any, **more: Any) -> dict[str, Any]:
    """An ADK session whose agent's event has these parts."""
    prompt = {"author": "user", "content": {"parts": [{"text": "q"}], "role": "user"}}
    return {
        "events": [
            prompt,
            {
                "author": "guide",
                "content": {"parts": list(parts), "role": "model"},
                **more,
            },
        ]
    }


CALL = {"id": "c", "name": "find", "arguments": "{}"}
RENDERED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("code is a call and its result",
     adk({"executableCode": {"code": "1+1"}}, {"codeExecutionResult": {"output": "2"}}),
     ['user: "q"', 'call code: {"code":"1+1"}', 'tool code: {"output":"2"}']),
    ("a piece of a later event is no turn", adk({"text": "pie"}, partial=True), ['user: "q"']),
    ("a picture is numbered, and its mark stands below its turn",
     adk({"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
     ['user: "q"', 'assistant guide: "see\\n[picture 1]"\n(picture 1 c0caf1f1c11f86e57cba1f3f13dfea0b)']),
    ("an unknown part is shown as it is", adk({"newKind": {"x": 1}}),
     ['user: "q"', 'assistant guide: "{\\"newKind\\":{\\"x\\":1}}"']),
    ("an error is no answer", adk({"text": "hm"}, errorMessage="quota"),
     ['user: "q"', 'assistant guide: "hm"', 'error: "quota"']),
    ("only a user's own name makes a turn the user's",
     {"task_id": 1, "messages": [
         {"source": "planner", "type": "TextMessage", "content": "plan"},
         {"source": "User", "type": "TextMessage", "content": "task"},
         {"source": "coder", "type": "CodeExecutionEvent", "result": {"exit_code": 0, "output": "ok"}},
         {"source": "coder", "type": "StructuredMessage[Plan]", "content": {"steps": 2}}]},
     ['assistant planner: "plan"', 'user: "task"', 'tool: "ok"', 'assistant coder: "{\\"steps\\":2}"']),
    ("messages of a model's context are read by their types",
     {"messages": [
         {"type": "UserMessage", "source": "boss", "content": "task"},
         {"type": "AssistantMessage", "source": "guide", "content": [CALL], "thought": "hm"},
         {"type": "FunctionExecutionResultMessage", "content": [{"content": "x", "call_id": "c"}]}]},
     ['user: "task"', 'assistant thinking: "hm"\ncall find: {}', 'tool find: "x"']),
]  # fmt: skip


def test_rendering(subtests: pytest.Subtests) -> None:
    """Each text, call and result of the agent is a line of its own."""
    for law, record, lines in RENDERED:
        with subtests.test(law=law):
            assert render(read(record)[0].rollouts[0].messages) == lines


MALFORMED: list[Any] = ["text", None, 3, []]
REFUSED: list[tuple[type[Exception], str, Any]] = [
    # the answers of an evaluation set are the expected ones, and no agent's
    (UsageError, "holds no rollouts",
     {"evalId": "x", "conversation": [{"userContent": {"parts": [{"text": "q"}]}, "finalResponse": {}}]}),
    # earlier turns beside a question are no rollout
    (UsageError, "holds no rollouts",
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
