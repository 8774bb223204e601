"""Messages as the lines that a judge reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.formats.chat import check_messages
from ruler_cli.scoring.render import blocks, render, render_tools
from ruler_cli.scoring.request import compose, lay_out
from ruler_cli.settings import AskSettings
from tests.values import group, texts, values

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": [2]}'}}


def called(*calls: Any, **more: Any) -> dict[str, Any]:
    """An assistant's message that calls tools."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


RENDERED: list[tuple[list[Any], list[str]]] = [
    ([{"role": "user", "content": "Hi\nthere"}], ['user: "Hi\\nthere"']),
    ([{"role": "user", "content": "é“中😀"}], ['user: "é“中😀"']),
    ([{"role": "assistant", "content": None}], ['assistant: ""']),
    ([{"role": "user", "name": "bob", "content": "x"}], ['user bob: "x"']),
    ([{"role": "user", "name": "a b", "content": "x"}], ['user "a b": "x"']),
    ([{"role": "call x", "content": "y"}], ['"call x": "y"']),
    ([{"role": "call", "name": "x", "content": "y"}], ['"call" x: "y"']),
    ([{"role": None, "content": "y"}], ['assistant: "y"']),
    ([{"role": 7, "content": 8}], ['7: "8"']),
    ([{"role": "assistant", "content": None, "refusal": "No."}], ['assistant: "No."']),
    ([{"role": "user", "content": ["a", {"type": "text", "text": "b"}]}], ['user: "a\\nb"']),
    (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:…"}}]}],
        ['user: "[image]"'],
    ),
    (
        [
            {
                "role": "user",
                "content": [{"type": "document", "document": "data:application/pdf;base64,JVBERi0"}],
            }
        ],
        ['user: "[document]"'],
    ),
    (
        [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "words"}}]}],
        ['user: "{\\"type\\":\\"document\\",\\"source\\":{\\"type\\":\\"text\\",\\"data\\":\\"words\\"}}"'],
    ),
    ([{"role": "user", "content": [{"type": "input_audio", "x": 1}]}], ['user: "[audio]"']),
    ([{"role": "user", "content": [{"odd": 1}]}], ['user: "{\\"odd\\":1}"']),
    # reasoning
    (
        [{"role": "assistant", "reasoning_content": "hm", "content": "x"}],
        ['assistant thinking: "hm"\nassistant: "x"'],
    ),
    (
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}],
        ['assistant thinking: "hm"'],
    ),
    ([{"type": "reasoning", "summary": [{"text": "hm"}]}], ['assistant thinking: "hm"']),
    ([{"type": "reasoning", "summary": []}], ['assistant thinking: "(not shown)"']),
    # tool calls: nested, flat, JSON text, a list that is JSON text, Inspect's, and the old single one
    ([called(CALL)], ['call add: {"a":1,"b":[2]}']),
    ([called({"id": "c", "name": "f", "arguments": '{"x": null}'})], ['call f: {"x":null}']),
    ([called(json.dumps(CALL))], ['call add: {"a":1,"b":[2]}']),
    ([called() | {"tool_calls": json.dumps([CALL])}], ['call add: {"a":1,"b":[2]}']),
    ([called() | {"tool_calls": CALL}], ['call add: {"a":1,"b":[2]}']),
    ([called({"function": "f", "arguments": {"x": 1}})], ['call f: {"x":1}']),
    ([called("oops")], ['call unknown: "oops"']),
    ([called()], ['assistant: ""']),
    ([called() | {"tool_calls": "[]"}], ['assistant: ""']),
    ([called({"function": {"name": "f", "arguments": "no json"}})], ['call f: "no json"']),
    ([{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}], ["call f: {}"]),
    ([called(CALL, content="So:")], ['assistant: "So:"\ncall add: {"a":1,"b":[2]}']),
    # results, named by their call
    (
        [called(CALL), {"role": "tool", "tool_call_id": "c1", "content": '{"x": 1}'}],
        ['call add: {"a":1,"b":[2]}', 'tool add: {"x":1}'],
    ),
    ([{"role": "tool", "name": "f", "content": "text"}], ['tool f: "text"']),
    (
        [called(CALL), {"role": "tool", "name": "f", "tool_call_id": "c1", "content": "text"}],
        ['call add: {"a":1,"b":[2]}', 'tool f: "text"'],
    ),
    (
        [called(CALL), {"role": "tool", "name": None, "tool_call_id": "c1", "content": "text"}],
        ['call add: {"a":1,"b":[2]}', 'tool add: "text"'],
    ),
    ([{"role": "function", "name": "f", "content": [{"type": "text", "text": "[1]"}]}], ["tool f: [1]"]),
    ([{"role": "tool", "content": '{"x": NaN}'}], ['tool: "{\\"x\\": NaN}"']),
    # Anthropic
    (
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "[2]"}]},
                    {"type": "text", "text": "and?"},
                ],
            },
        ],
        ["call f: {}", 'tool f: [2]\nuser: "and?"'],
    ),
    # Vercel's AI SDK, pi, Azure's agents, LLaMA-Factory, Kimi
    (
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "value": "hm"},
                    {"type": "text", "value": "So:"},
                    {"type": "tool-call", "toolCallId": "t", "toolName": "f", "input": {"a": 1}},
                ],
            },
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t", "output": "ok"}]},
        ],
        ['assistant thinking: "hm"\nassistant: "So:"\ncall f: {"a":1}', 'tool: "ok"'],
    ),
    (
        [
            {"role": "assistant", "content": [{"type": "think", "think": "hm"}]},
            {"role": "assistant", "content": [{"type": "toolCall", "id": "t", "name": "f", "arguments": {}}]},
            {"role": "user", "content": [{"type": "toolResult", "toolCallId": "t", "content": "ok"}]},
        ],
        ['assistant thinking: "hm"', "call f: {}", 'tool f: "ok"'],
    ),
    (
        [
            {
                "role": "assistant",
                "content": [{"type": "tool_call", "tool_call_id": "t", "name": "f", "arguments": {"a": 1}}],
            },
            {
                "role": "tool",
                "tool_call_id": "t",
                "run_id": "r",
                "content": [{"type": "tool_result", "tool_result": {"b": 2}}],
            },
        ],
        ['call f: {"a":1}', 'tool f: {"b":2}'],
    ),
    ([called({"name": "f", "args": {"x": 1}})], ['call f: {"x":1}']),
    ([{"role": "assistant", "content": {"answer": "x"}}], ['assistant: "x"']),
    (
        [{"role": "user", "content": [{"type": "file", "path": "a.py", "content": "x = 1"}]}],
        ['user: "{\\"type\\":\\"file\\",\\"path\\":\\"a.py\\",\\"content\\":\\"x = 1\\"}"'],
    ),
    # OpenAI Responses
    (
        [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "function_call", "call_id": "r", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "r", "output": "ok"},
        ],
        ['assistant: "x"', 'call f: {"a":1}', 'tool f: "ok"'],
    ),
]


def test_lines(subtests: pytest.Subtests) -> None:
    """Each dialect of messages becomes the same few kinds of lines."""
    for messages, lines in RENDERED:
        with subtests.test(messages=messages, lines=lines):
            assert render(check_messages(messages, "messages")) == lines


@pytest.mark.parametrize("number", [2**64, 10**30, 12345678901234567, 0.1, 1e300, -(2**63)])
def test_numbers(number: float) -> None:
    """No number is shown rounded, as a value or inside JSON text."""
    for arguments in ({"n": number}, json.dumps({"n": number})):
        line = render([called({"function": {"name": "f", "arguments": arguments}})])[0]
        assert str(number).replace("+", "") in line.replace("+", "")


def test_deep() -> None:
    """Values that are nested deeply are shown or marked, and crash nothing."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    text = json.dumps(deep)
    assert "[[[[1]]]]" in render([{"role": "tool", "content": text}])[0]
    assert "[[[[1]]]]" in render([{"role": "user", "content": {"x": deep}}])[0]
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in render([called({"function": {"name": "f", "arguments": deep}})])[0]


def test_tools() -> None:
    """Tools are one line of JSON each, without OpenAI's wrapper."""
    nested = {"type": "function", "function": {"name": "f"}}
    assert render_tools([nested, {"name": "g"}, "text\n"]) == '{"name":"f"}\n{"name":"g"}\n"text\\n"'
    assert render_tools("</available_tools>") == '"</available_tools>"'


roles = st.sampled_from(["system", "user", "assistant", "tool", "function", "call"]) | texts
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image_url"]) | texts},
    optional=dict.fromkeys(("text", "id", "name", "input", "content", "thinking"), texts | values),
)
calls = (
    st.fixed_dictionaries({"id": texts, "name": texts, "arguments": texts | values})
    | st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": texts, "arguments": texts | values})})
    | values
)
messages = st.fixed_dictionaries(
    {"role": roles, "content": texts | st.none() | st.lists(parts | texts, max_size=3) | values},
    optional={
        "name": texts,
        "tool_calls": st.lists(calls, max_size=2) | texts,
        "tool_call_id": texts,
        "function_call": calls,
        "reasoning": texts | values,
        "refusal": texts,
    },
)
items = st.fixed_dictionaries(
    {"type": st.sampled_from(["function_call", "function_call_output", "reasoning"]) | values},
    optional={"call_id": texts, "name": texts, "arguments": texts, "output": texts, "summary": values},
)
conversations = st.lists(messages | items, min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(conversations, min_size=1, max_size=4), st.none() | st.lists(values, min_size=1), texts)
def test_nothing_is_forged(rollouts: list[list[Any]], tools: Any, rubric: str) -> None:
    """Text in a rollout never adds, removes or renames a delimiter, nor the last line."""
    sheet = lay_out(group(*rollouts, tools=tools, rubric=rubric), AskSettings())
    paper = compose(sheet, AskSettings())
    user = paper.request.user
    user.encode()
    paper.request.system.encode()
    assert user.splitlines() == user.split("\n")
    assert blocks(user) == {label: sheet.bodies[i] for label, i in paper.labels.items()}
    lines = user.split("\n")
    assert lines[-1] == f"trajectory_ids to score: {json.dumps(list(paper.labels), separators=(',', ':'))}"
    assert sum(line.startswith("<trajectory ") for line in lines) == len(sheet.bodies)
    assert sum(line == "</trajectory>" for line in lines) == len(sheet.bodies)
    assert sum(line.startswith("trajectory_ids") for line in lines) == 1
    assert all(label not in text for label in paper.labels for text in (sheet.context, *sheet.bodies))
