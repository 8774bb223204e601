"""Histories of agent frameworks with messages of their own: ADK, AutoGen, LangChain, CrewAI."""

from __future__ import annotations

from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.scoring.render import render
from tests.formats.changes import sample
from tests.values import read, reader


def test_calls(subtests: pytest.Subtests) -> None:
    """A call is shown once, with its arguments, and its result as the tool's."""
    for name in ["adk_sessions", "autogen", "langchain"]:
        with subtests.test(name=str(name)):
            lines = "\n".join(render(read(sample(name)[0])[0].rollouts[0].messages)).split("\n")
            (call,) = [line for line in lines if line.startswith("call ")]
            (result,) = [line for line in lines if line.startswith("tool ")]
            assert call == 'call timetable: {"to":"Tromsø"}'
            assert result.startswith("tool timetable: ")


def events(*parts: Any, **more: Any) -> list[Any]:
    """The messages of an ADK session whose agent's event has these parts."""
    asked = {"author": "user", "content": {"parts": [{"text": "q"}], "role": "user"}}
    event = {"author": "guide", "content": {"parts": list(parts), "role": "model"}, **more}
    return read({"events": [asked, event]})[0].rollouts[0].messages[1:]


def test_adk_parts() -> None:
    """Code, files and what nobody knows are shown, and an error is no answer."""
    ran = {"executableCode": {"code": "1+1"}}, {"codeExecutionResult": {"output": "2"}}
    assert render(events(*ran)) == ['call code: {"code":"1+1"}', 'tool code: {"output":"2"}']
    (pictured,) = events({"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}})
    assert pictured["content"] == [{"type": "text", "text": "see"}, {"type": "image/png"}]
    (strange,) = events({"newKind": {"x": 1}})
    assert strange["content"] == [{"newKind": {"x": 1}}]
    assert events(errorMessage="quota")[-1] == {"role": "error", "content": "quota"}
    assert events({"text": "pie"}, partial=True) == []


def test_adk_outcomes() -> None:
    """A status is an outcome in both spellings, and a case that was not evaluated has none."""
    case = sample("adk_evaluations")[0]
    told = [{**case, "finalEvalStatus": status} for status in (1, 2, 3, "passed", "failed")]
    assert [read(record)[0].rollouts[0].outcome for record in told] == [True, False, None, True, False]


def test_adk_text_contents() -> None:
    """Contents that are texts, and calls that hold their result, are read as well."""
    invocation = {
        "userContent": {"role": "user", "content": "add 2 3"},
        "tools": [{"id": "c", "name": "calc", "arguments": {"a": 2}, "result": 5}],
        "finalResponse": {"role": "assistant", "content": "5"},
    }
    case = {
        "evalId": "x",
        "overallEvalMetricResults": [],
        "evalMetricResultPerInvocation": [{"actualInvocation": invocation}],
    }
    messages = read(case)[0].rollouts[0].messages
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]


def test_adk_without_session() -> None:
    """A result without a session or invocations says so."""
    case = {**sample("adk_evaluations")[0], "sessionDetails": None}
    with pytest.raises(UnreadableError, match="no session in `sessionDetails`"):
        read(case)


def test_adk_sets() -> None:
    """An evaluation set is refused: its answers are the expected ones, and no agent's."""
    case = {"evalId": "x", "conversation": [{"userContent": {"parts": [{"text": "q"}]}, "finalResponse": {}}]}
    with pytest.raises(UsageError, match="evaluation set, whose answers are the expected ones"):
        read(case)


def test_autogen_speakers() -> None:
    """Only a user's own name makes a turn the user's; what is not told as such is an agent's."""
    messages = [
        {"source": "planner", "type": "TextMessage", "content": "plan"},
        {"source": "User", "type": "TextMessage", "content": "task"},
        {"source": "coder", "type": "CodeExecutionEvent", "result": {"exit_code": 0, "output": "ok"}},
        {"source": "coder", "type": "StructuredMessage[Plan]", "content": {"steps": 2}},
    ]
    found = read({"task_id": 1, "messages": messages})[0].rollouts[0].messages
    assert [m["role"] for m in found] == ["assistant", "user", "tool", "assistant"]
    assert found[-1]["content"] == {"steps": 2}


def test_autogen_model_context() -> None:
    """What an agent's model was given is read by its types."""
    call = {"id": "c", "name": "find", "arguments": "{}"}
    messages = [
        {"type": "UserMessage", "source": "boss", "content": "task"},
        {"type": "AssistantMessage", "source": "guide", "content": [call], "thought": "hm"},
        {"type": "FunctionExecutionResultMessage", "content": [{"content": "x", "call_id": "c"}]},
    ]
    found = read({"messages": messages})[0].rollouts[0].messages
    assert [m["role"] for m in found] == ["user", "assistant", "tool"]
    assert found[1]["tool_calls"] == [call]
    assert found[1]["reasoning_content"] == "hm"


def test_old_autogen_without_names() -> None:
    """Where there are no names, who spoke first has asked."""
    record = sample("autogen_old")[0]
    for message in record["chat_history"]:
        del message["name"]
    assert [m["role"] for m in read(record)[0].rollouts[0].messages] == ["user", "assistant"]


def test_chat_history_of_others() -> None:
    """Earlier turns beside a question are no rollout."""
    with pytest.raises(UsageError):
        reader({"chat_history": [{"role": "user", "content": "hi"}], "documents": ["d"]})


def test_langchain_beside_roles() -> None:
    """Messages with roles stay what they are, whatever their type."""
    messages = [{"role": "user", "type": "human", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert reader({"messages": messages}).format.family == "native"


@pytest.mark.parametrize("name", ["autogen", "langchain"])
@pytest.mark.parametrize("strange", ["text", None, 3, []])
def test_strange_message(name: str, strange: Any) -> None:
    """A message that is no object makes the record unreadable, and is never passed over."""
    record = sample(name)[0]
    record["messages"].insert(1, strange)
    with pytest.raises(UnreadableError, match="no object"):
        read(record)
