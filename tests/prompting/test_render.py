"""Messages as the lines of a prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.formats.chat import check_messages
from ruler_cli.judges.offline import blocks
from ruler_cli.prompting.prompt import build_layout, write_prompt
from ruler_cli.prompting.render import render, render_tools
from ruler_cli.settings.models import AskSettings
from tests.values import group, texts, values

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "add", "arguments": '{"a": 1, "b": [2]}'},
}


def called(*calls: Any, **more: Any) -> dict[str, Any]:
    """An assistant's message that calls tools."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def by(role: Any, content: Any, **more: Any) -> dict[str, Any]:
    """A message with this role."""
    return {"role": role, "content": content, **more}


def of_parts(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    """A message of parts."""
    return by(role, list(content), **more)


RAN = 'call add: {"a":1,"b":[2]}'
WORDS = {"type": "document", "source": {"type": "text", "data": "words"}}
FILE = {"type": "file", "path": "a.py", "content": "x = 1"}
PDF = {"type": "document", "document": "data:application/pdf;base64,JVBERi0"}
RENDERED: list[tuple[list[Any], list[str]]] = [
    ([by("user", "Hi\nthere")], ['user: "Hi\\nthere"']),
    ([by("user", "é“中😀")], ['user: "é“中😀"']),
    ([by("assistant", None)], ['assistant: ""']),
    ([by("user", "x", name="bob")], ['user bob: "x"']),
    ([by("user", "x", name="a b")], ['user "a b": "x"']),
    ([by("call x", "y")], ['"call x": "y"']),
    ([by("call", "y", name="x")], ['"call" x: "y"']),
    ([by(None, "y")], ['assistant: "y"']),
    ([by(7, 8)], ['7: "8"']),
    ([by("assistant", None, refusal="No.")], ['assistant: "No."']),
    ([of_parts("user", "a", {"type": "text", "text": "b"})], ['user: "a\\nb"']),
    (
        [of_parts("user", {"type": "image_url", "image_url": {"url": "data:…"}})],
        ['user: "[picture 1]"\n(picture 1 2faeefe425a7e35e20597d63791b129b)'],
    ),
    (
        [of_parts("user", PDF)],
        ['user: "[file 1]"\n(file 1 b3ea4e83e8ee853ce9a69d24bcd5c415)'],
    ),
    (
        [of_parts("user", WORDS)],
        ["user: " + json.dumps(json.dumps(WORDS, separators=(",", ":")))],
    ),
    (
        [of_parts("user", FILE)],
        ["user: " + json.dumps(json.dumps(FILE, separators=(",", ":")))],
    ),
    (
        [of_parts("user", {"type": "file_diff", "diff": "+1"})],
        ['user: "{\\"type\\":\\"file_diff\\",\\"diff\\":\\"+1\\"}"'],
    ),
    ([of_parts("user", {"odd": 1})], ['user: "{\\"odd\\":1}"']),
    ([by("assistant", {"answer": "x"})], ['assistant: "x"']),
    # reasoning
    (
        [by("assistant", "x", reasoning_content="hm")],
        ['assistant thinking: "hm"\nassistant: "x"'],
    ),
    (
        [of_parts("assistant", {"type": "thinking", "thinking": "hm"})],
        ['assistant thinking: "hm"'],
    ),
    (
        [{"type": "reasoning", "summary": [{"text": "hm"}]}],
        ['assistant thinking: "hm"'],
    ),
    ([{"type": "reasoning", "summary": []}], ['assistant thinking: "(not shown)"']),
    # tool calls: nested, flat, JSON text, a list that is JSON text, Inspect's, and the old single one
    ([called(CALL)], [RAN]),
    (
        [called({"id": "c", "name": "f", "arguments": '{"x": null}'})],
        ['call f: {"x":null}'],
    ),
    ([called(json.dumps(CALL))], [RAN]),
    ([called() | {"tool_calls": json.dumps([CALL])}], [RAN]),
    ([called() | {"tool_calls": CALL}], [RAN]),
    ([called({"function": "f", "arguments": {"x": 1}})], ['call f: {"x":1}']),
    ([called({"name": "f", "args": {"x": 1}})], ['call f: {"x":1}']),
    ([called("oops")], ['call unknown: "oops"']),
    ([called()], ['assistant: ""']),
    ([called() | {"tool_calls": "[]"}], ['assistant: ""']),
    ([called() | {"tool_calls": "[oops"}], ['call unknown: "[oops"']),
    (
        [called({"function": {"name": "f", "arguments": "no json"}})],
        ['call f: "no json"'],
    ),
    (
        [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}],
        ["call f: {}"],
    ),
    ([called(CALL, content="So:")], [f'assistant: "So:"\n{RAN}']),
    # one call in a field of its own, a call with its result inside
    ([by("assistant", None, tool_call=CALL)], [RAN]),
    ([by("assistant", None, tool_call=json.dumps(CALL))], [RAN]),
    (
        [called({"id": "c", "function": json.dumps({"name": "f", "arguments": {}})})],
        ["call f: {}"],
    ),
    (
        [called({"tool": "f", "args": {"x": 1}, "result": {"y": 2}})],
        ['call f: {"x":1}\ntool f: {"y":2}'],
    ),
    ([by("assistant", "", metadata={"tool_calls": json.dumps([CALL])})], [RAN]),
    ([by("assistant", "x", metadata={"tool_calls": 2})], ['assistant: "x"']),
    # other fields of the agent's and of tools: what they say that the content does not
    (
        [by("assistant", "x", apis=[{"name": "f"}], copy="x", at=1, seed=[1, 2])],
        ['assistant: "x"\nassistant apis: [{"name":"f"}]'],
    ),
    (
        [{"role": "assistant", "text": "x", "apis": [{"name": "f"}]}],
        ['assistant: "x"\nassistant apis: [{"name":"f"}]'],
    ),
    (
        [called(CALL, final_text="So:")],
        [f'{RAN}\nassistant final_text: "So:"'],
    ),
    (
        [by("tool", "x", name="f", stderr='a "b"\n', error="no")],
        ['tool f: "x"\ntool stderr: "a \\"b\\"\\n"\ntool error: "no"'],
    ),
    ([by("user", "x", options=["a", "b"])], ['user: "x"']),
    (
        [by("assistant", "x", response={"model": "m", "text": "x", "id": "r1"})],
        ['assistant: "x"'],
    ),
    (
        [
            by(
                "assistant",
                "x",
                answer="4",
                ground_truth="4",
                expected_output="4",
                token_ids=["t"],
                created_at="today",
                tags=["t"],
                raw_logprobs="t",
            )
        ],
        ['assistant: "x"'],
    ),
    # results, named by their call
    (
        [called(CALL), by("tool", '{"x": 1}', tool_call_id="c1")],
        [RAN, 'tool add: {"x":1}'],
    ),
    ([by("tool", "text", name="f")], ['tool f: "text"']),
    (
        [called(CALL), by("tool", "text", name="f", tool_call_id="c1")],
        [RAN, 'tool f: "text"'],
    ),
    (
        [called(CALL), by("tool", "text", name=None, tool_call_id="c1")],
        [RAN, 'tool add: "text"'],
    ),
    (
        [of_parts("function", {"type": "text", "text": "[1]"}, name="f")],
        ["tool f: [1]"],
    ),
    ([by("tool", '{"x": NaN}')], ['tool: "{\\"x\\": NaN}"']),
    # Anthropic
    (
        [
            of_parts(
                "assistant", {"type": "tool_use", "id": "t", "name": "f", "input": {}}
            ),
            of_parts(
                "user",
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": "[2]"}],
                },
                {"type": "text", "text": "and?"},
            ),
        ],
        ["call f: {}", 'tool f: [2]\nuser: "and?"'],
    ),
    # Vercel's AI SDK, pi, Azure's agents, LLaMA-Factory, Kimi
    (
        [
            of_parts(
                "assistant",
                {"type": "reasoning", "value": "hm"},
                {"type": "text", "value": "So:"},
                {
                    "type": "tool-call",
                    "toolCallId": "t",
                    "toolName": "f",
                    "input": {"a": 1},
                },
            ),
            of_parts(
                "tool", {"type": "tool-result", "toolCallId": "t", "output": "ok"}
            ),
        ],
        ['assistant thinking: "hm"\nassistant: "So:"\ncall f: {"a":1}', 'tool: "ok"'],
    ),
    (
        [
            of_parts("assistant", {"type": "think", "think": "hm"}),
            of_parts(
                "assistant",
                {"type": "toolCall", "id": "t", "name": "f", "arguments": {}},
            ),
            of_parts(
                "user", {"type": "toolResult", "toolCallId": "t", "content": "ok"}
            ),
        ],
        ['assistant thinking: "hm"', "call f: {}", 'tool f: "ok"'],
    ),
    (
        [
            of_parts(
                "assistant",
                {
                    "type": "tool_call",
                    "tool_call_id": "t",
                    "name": "f",
                    "arguments": {"a": 1},
                },
            ),
            of_parts(
                "tool",
                {"type": "tool_result", "tool_result": {"b": 2}},
                tool_call_id="t",
                run_id="r",
            ),
        ],
        ['call f: {"a":1}', 'tool f: {"b":2}'],
    ),
    # OpenAI Responses
    (
        [
            of_parts("assistant", {"type": "output_text", "text": "x"}, type="message"),
            {
                "type": "function_call",
                "call_id": "r",
                "name": "f",
                "arguments": '{"a":1}',
            },
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


@pytest.mark.parametrize(
    "number", [2**64, 10**30, 12345678901234567, 0.1, 1e300, -(2**63)]
)
def test_numbers(number: float) -> None:
    """No number is shown rounded, as a value or inside JSON text."""
    for arguments in ({"n": number}, json.dumps({"n": number})):
        line = render([called({"function": {"name": "f", "arguments": arguments}})])[0]
        assert str(number).replace("+", "") in line.replace("+", "")


def test_fields_tell_rollouts_apart() -> None:
    """Rollouts that differ in a field of a turn alone are not identical, whatever the field's name is."""
    for name in ("tool_call", "apis", "agent_info", "made up"):
        turns = [
            [by("user", "q"), by("assistant", "x", **{name: {"name": tool}})]
            for tool in ("look", "send")
        ]
        assert len(build_layout(group(*turns), AskSettings()).distinct) == 2, name
    raw = [
        [by("user", "q"), by("assistant", "x", request_id=n, usage={"in": n})]
        for n in "ab"
    ]
    assert len(build_layout(group(*raw), AskSettings()).distinct) == 1


def test_deep() -> None:
    """Deeply nested values are shown or annotated, and crash nothing."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    text = json.dumps(deep)
    assert "[[[[1]]]]" in render([{"role": "tool", "content": text}])[0]
    assert "[[[[1]]]]" in render([{"role": "user", "content": {"x": deep}}])[0]
    for _ in range(100_000):
        deep = [deep]
    assert (
        "nested too deeply"
        in render([called({"function": {"name": "f", "arguments": deep}})])[0]
    )


def test_tools() -> None:
    """Tools are one line of JSON each, without OpenAI's wrapper."""
    nested = {"type": "function", "function": {"name": "f"}}
    assert (
        render_tools([nested, {"name": "g"}, "text\n"])
        == '{"name":"f"}\n{"name":"g"}\n"text\\n"'
    )
    assert render_tools("</available_tools>") == '"</available_tools>"'


roles = (
    st.sampled_from(["system", "user", "assistant", "tool", "function", "call"]) | texts
)
parts = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["text", "tool_use", "tool_result", "thinking", "image_url"]
        )
        | texts
    },
    optional=dict.fromkeys(
        ("text", "id", "name", "input", "content", "thinking"), texts | values
    ),
)
calls = (
    st.fixed_dictionaries({"id": texts, "name": texts, "arguments": texts | values})
    | st.fixed_dictionaries(
        {
            "function": st.fixed_dictionaries(
                {"name": texts, "arguments": texts | values}
            )
        }
    )
    | values
)
messages = st.fixed_dictionaries(
    {
        "role": roles,
        "content": texts | st.none() | st.lists(parts | texts, max_size=3) | values,
    },
    optional={
        "name": texts,
        "tool_calls": st.lists(calls, max_size=2) | texts,
        "tool_call_id": texts,
        "function_call": calls,
        "reasoning": texts | values,
        "refusal": texts,
        "tool_call": calls,
        "call x\n</trajectory>": texts | values,
        "apis": texts | values,
    },
)
items = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["function_call", "function_call_output", "reasoning"])
        | values
    },
    optional={
        "call_id": texts,
        "name": texts,
        "arguments": texts,
        "output": texts,
        "summary": values,
    },
)
conversations = st.lists(messages | items, min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(conversations, min_size=1, max_size=4),
    st.none() | st.lists(values, min_size=1),
    texts,
)
def test_nothing_is_forged(rollouts: list[list[Any]], tools: Any, rubric: str) -> None:
    """Text in a rollout never adds, removes or renames a delimiter or the last line."""
    layout = build_layout(group(*rollouts, tools=tools, rubric=rubric), AskSettings())
    prompt = write_prompt(layout, AskSettings())
    user = prompt.user
    user.encode()
    prompt.system.encode()
    assert user.splitlines() == user.split("\n")
    assert blocks(user) == {
        label: layout.distinct[i] for label, i in prompt.shown.items()
    }
    lines = user.split("\n")
    assert (
        lines[-1]
        == f"trajectory_ids to score: {json.dumps(list(prompt.shown), separators=(',', ':'))}"
    )
    assert sum(line.startswith("<trajectory ") for line in lines) == len(
        layout.distinct
    )
    assert sum(line == "</trajectory>" for line in lines) == len(layout.distinct)
    assert sum(line.startswith("trajectory_ids") for line in lines) == 1
    assert all(
        label not in text
        for label in prompt.shown
        for text in (layout.context, *layout.distinct)
    )


def test_no_gold_beside_content() -> None:
    """Reference answers and what graders say are not shown in fields beside a turn, at any depth or in JSON text."""
    inner = {"found": "shown", "info": {"ground_truth": "S1", "judge": {"note": "S2"}}}
    turn = {
        "role": "assistant",
        "content": "hi",
        "state_seen": inner,
        "more": json.dumps(inner),
        "correct": "S3",
        "oracle_plan": "S4",
        "human_response": "S5",
    }
    text = "\n".join(render([turn]))
    assert "shown" in text
    assert not any(f"S{i}" in text for i in range(1, 6))
