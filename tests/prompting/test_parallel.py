"""Calls that an agent makes at once, and their results, in the dialects of several frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import pytest

from ruler_cli.ledger.reply_cache import OTHER_LAYOUT, Ledger, ReplyCache
from ruler_cli.prompting.prompt import build_layout, write_prompt
from ruler_cli.prompting.render import render
from ruler_cli.settings.models import AskSettings
from tests.conftest import Ruler, write
from tests.ledger.test_reply_cache import reply
from tests.picture_judge import part
from tests.values import group, read

Messages = list[dict[str, Any]]
Ids = tuple[str, ...]
CITIES = ("Oslo", "Rome", "Bonn")
WEATHER = ("3 C", "24 C", "9 C")
ORDERS = ((0, 1, 2), (2, 0, 1), (1, 2, 0))
TASK = {"role": "user", "content": "Weather?"}
END = {"role": "assistant", "content": "Told."}
LINES = [
    *(f'call {n} weather: {{"city":"{city}"}}' for n, city in enumerate(CITIES, 1)),
    *(f'tool {n} weather: "{seen}"' for n, seen in enumerate(WEATHER, 1)),
]


def asked(at: int, **names: str) -> dict[str, Any]:
    """A call for a city, its fields under these names."""
    fields = {"id": f"c{at}", "name": "weather", "args": {"city": CITIES[at]}}
    return {names.get(name, name): value for name, value in fields.items()}


def openai(order: tuple[int, ...]) -> Messages:
    """Calls in one message, each result in its own."""
    calls = [{"id": f"c{n}", "function": asked(n, args="arguments")} for n in range(3)]
    results = [
        {"role": "tool", "tool_call_id": f"c{n}", "content": WEATHER[n]} for n in order
    ]
    return [TASK, {"role": "assistant", "content": None, "tool_calls": calls}, *results]


def anthropic(order: tuple[int, ...]) -> Messages:
    """Calls and results as parts, all results in one message."""
    uses = [{"type": "tool_use", **asked(n, args="input")} for n in range(3)]
    results = [
        {"type": "tool_result", "tool_use_id": f"c{n}", "content": WEATHER[n]}
        for n in order
    ]
    return [
        TASK,
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
    ]


def responses(order: tuple[int, ...]) -> Messages:
    """Items, each call and each result its own."""
    calls = [
        {"type": "function_call", **asked(n, id="call_id", args="arguments")}
        for n in range(3)
    ]
    results = [
        {"type": "function_call_output", "call_id": f"c{n}", "output": WEATHER[n]}
        for n in order
    ]
    return [TASK, *calls, *results]


def gemini(order: tuple[int, ...]) -> Messages:
    """Parts without types."""
    calls = [{"functionCall": asked(n)} for n in range(3)]
    results = [
        {"functionResponse": {**asked(n), "response": WEATHER[n]}} for n in order
    ]
    return [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": results},
    ]


def bedrock(order: tuple[int, ...]) -> Messages:
    """Content without types."""
    uses = [{"toolUse": asked(n, id="toolUseId", args="input")} for n in range(3)]
    results = [
        {"toolResult": {"toolUseId": f"c{n}", "content": [{"text": WEATHER[n]}]}}
        for n in order
    ]
    return [
        {"role": "user", "content": [{"text": "Weather?"}]},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
    ]


def langchain(order: tuple[int, ...]) -> Messages:
    """Calls both as parts and beside the content."""
    uses = [{"type": "tool_use", **asked(n, args="input")} for n in range(3)]
    calls = [{"type": "tool_call", **asked(n)} for n in range(3)]
    results = [
        {"type": "tool", "tool_call_id": f"c{n}", "content": WEATHER[n]} for n in order
    ]
    return [
        {"type": "human", "content": "Weather?"},
        {"type": "ai", "content": uses, "tool_calls": calls},
        *results,
    ]


def ai_sdk(order: tuple[int, ...]) -> Messages:
    """Results as parts of one message of the role tool."""
    calls = [
        {
            "type": "tool-call",
            **asked(n, id="toolCallId", name="toolName", args="input"),
        }
        for n in range(3)
    ]
    results = [
        {"type": "tool-result", "toolCallId": f"c{n}", "output": WEATHER[n]}
        for n in order
    ]
    return [
        TASK,
        {"role": "assistant", "content": calls},
        {"role": "tool", "content": results},
    ]


def llama_index(order: tuple[int, ...]) -> Messages:
    """Calls and their ids in further fields."""
    calls = [{"id": f"c{n}", "function": asked(n, args="arguments")} for n in range(3)]
    results = [
        {
            "role": "tool",
            "additional_kwargs": {"tool_call_id": f"c{n}"},
            "blocks": [{"block_type": "text", "text": WEATHER[n]}],
        }
        for n in order
    ]
    return [
        {"role": "user", "blocks": [{"block_type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "additional_kwargs": {"tool_calls": calls},
            "blocks": [],
        },
        *results,
    ]


def claude_code(order: tuple[int, ...]) -> Messages:
    """Each call and each result in a message of its own."""
    _, made, came = anthropic(order)
    calls = [{**made, "content": [use]} for use in made["content"]]
    return [TASK, *calls, *({**came, "content": [one]} for one in came["content"])]


DIALECTS: tuple[Callable[[tuple[int, ...]], Messages], ...] = (
    openai, anthropic, responses, gemini, bedrock, langchain, ai_sdk, llama_index, claude_code,
)  # fmt: skip


def test_dialects(subtests: pytest.Subtests) -> None:
    """In every dialect a result has the number of its call, and the order in which results came changes nothing."""
    for dialect in DIALECTS:
        with subtests.test(dialect.__name__):
            for order in ORDERS:
                record = {"messages": [*dialect(order), END]}
                rollout = read(record)[0].rollouts[0]
                text = "\n".join(render(rollout.messages))
                shown = ['user: "Weather?"', *LINES, 'assistant: "Told."']
                assert text.split("\n") == shown


def test_pictures_of_results() -> None:
    """Pictures in results are numbered in the order of the calls, so rollouts stay equal."""
    texts = set()
    for order in ORDERS:
        messages = openai(order)
        for number, message in zip(order, messages[2:], strict=True):
            message["content"] = [part(number / 10)]
        texts.add("\n".join(render(messages)))
    assert len(texts) == 1


def told(calls: list[Any], *results: Any, name: str = "f") -> Messages:
    """A message with calls of these ids, and results of these; an id may have a text with it."""
    made = [
        {"id": one, "name": name, "arguments": {"n": n}} for n, one in enumerate(calls)
    ]
    came = [
        {"role": "tool", "tool_call_id": one, "content": f"of {one}"} for one in results
    ]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *came]


def both(first: str, second: str) -> Messages:
    """Two calls of two tools with the same id, or without one, and two results."""
    messages = told([None, None], None, None)
    for call, name in zip(messages[0]["tool_calls"], (first, second), strict=True):
        call["name"] = name
    return messages


CALLS = ['call 1 f: {"n":0}', 'call 2 f: {"n":1}']
PLAIN = ['call f: {"n":0}', 'call f: {"n":1}']
ASK = {"role": "user", "content": "?"}
CASES: dict[str, tuple[Messages, list[str]]] = {
    "one call has no number": (told(["a"], "a"), [PLAIN[0], 'tool f: "of a"']),
    "calls without any result have none": (told(["a", "b"]), PLAIN),
    "a call without a result beside one that has one says so": (
        told(["a", "b"], "b"),
        [CALLS[0], "tool 1 f: (no result)", CALLS[1], 'tool 2 f: "of b"'],
    ),
    "a result without a call has no number, and may belong to any": (
        told(["a", "b"], "b", "z"),
        [*CALLS, 'tool 2 f: "of b"', 'tool: "of z"'],
    ),
    "repeated ids tell nothing": (
        told(["a", "a"], "a", "a"), [*PLAIN, 'tool f: "of a"', 'tool f: "of a"'],
    ),
    "repeated ids beside another": (
        told(["a", "a", "b"], "b", "a"),
        [*CALLS, 'call 3 f: {"n":2}', 'tool 3 f: "of b"', 'tool f: "of a"'],
    ),
    "missing ids tell nothing": (
        told([None, None], None, None), [*PLAIN, 'tool f: "of None"', 'tool f: "of None"'],
    ),
    "missing ids of two tools name none": (
        both("f", "g"), [PLAIN[0], 'call g: {"n":1}', 'tool: "of None"', 'tool: "of None"'],
    ),
    "a missing id of an earlier turn names none": (
        [*told([None], None), *told(["x"], None, name="g")],
        [PLAIN[0], 'tool f: "of None"', 'call g: {"n":0}', 'tool: "of None"'],
    ),
    "ids used again in a later turn are those of the later calls": (
        [*told(["a", "b"], "b", "a"), *told(["a", "b"], "b", "a", name="g")],
        [*CALLS, 'tool 1 f: "of a"', 'tool 2 f: "of b"',
         'call 3 g: {"n":0}', 'call 4 g: {"n":1}', 'tool 3 g: "of a"', 'tool 4 g: "of b"'],
    ),
    "a late result has the number of its call": (
        [*told(["a", "b"], "b"), *told(["c", "d"], "d", "a", "c", name="g")],
        [*CALLS, 'tool 2 f: "of b"', 'call 3 g: {"n":0}', 'call 4 g: {"n":1}',
         'tool 1 f: "of a"', 'tool 3 g: "of c"', 'tool 4 g: "of d"'],
    ),
    "calls are at once only if nobody spoke between them": (
        [*told(["a"]), ASK, *told(["b"], "b", "a")],
        [PLAIN[0], 'user: "?"', PLAIN[0], 'tool f: "of b"', 'tool f: "of a"'],
    ),
    "what stands between results is not moved": (
        [*told(["a", "b"], "b"), ASK, *told([], "a")[1:]],
        [*CALLS, 'tool 2 f: "of b"', 'user: "?"', 'tool 1 f: "of a"'],
    ),
    "a result inside its call needs no number": (
        [{"role": "assistant", "tool_calls": [{"id": n, "name": "f", "args": {}, "result": n} for n in "ab"]}],
        ["call f: {}", 'tool f: "a"', "call f: {}", 'tool f: "b"'],
    ),
    "a result in the message of its call stands behind it": (
        [{"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "tool_result", "tool_use_id": "a", "content": "x"}]}],
        ["call f: {}", 'tool f: "x"'],
    ),
}  # fmt: skip


def test_pairs(subtests: pytest.Subtests) -> None:
    """A result is paired with a call only if its id is that of this call alone."""
    for law, (messages, lines) in CASES.items():
        with subtests.test(law):
            assert "\n".join(render(messages)).split("\n") == lines


def test_no_number_is_forged() -> None:
    """Names of tools and roles never look like a number, and a result cannot say that there is none."""
    for name in ("2 f", "1 weather", "f: (no result)"):
        messages = told(["a"], "a", name=name)
        messages[1]["content"] = "(no result)"
        assert "\n".join(render(messages)).split("\n") == [
            f'call {json.dumps(name)}: {{"n":0}}',
            f'tool {json.dumps(name)}: "(no result)"',
        ]


def test_other_groups_keep_their_prompts() -> None:
    """Only a group with calls made at once and answered has the line on numbers, and another key."""
    parallel = build_layout(group(openai((0, 1, 2)), openai((0, 2, 1))), AskSettings())
    assert len(parallel.distinct) == 1
    request = write_prompt(parallel, AskSettings())
    assert "have numbers" in request.user
    for messages in (told(["a"], "a"), told(["a", "b"])):
        layout = build_layout(group([TASK, *messages]), AskSettings())
        assert "numbers" not in write_prompt(layout, AskSettings()).user
        assert layout.earlier is None


def test_kept_replies(ruler: Ruler, tmp_path: Path) -> None:
    """The run says once how many kept replies no longer answer, because results had lost their calls."""
    answers = zip(ORDERS[:2], ("Told.", "Done."), strict=True)
    rollouts = [
        {"task_id": "t", "messages": [*openai(order), {**END, "content": answer}]}
        for order, answer in answers
    ]
    write(tmp_path / "in.jsonl", rollouts)
    # of the two passes by version 0.1.0, as it was before results were paired with calls
    keys = ("308dd855b1c9bea1a809890726ead015", "d6ac62b4c06a10ca1a844114745098b6")
    with Ledger(tmp_path / "l.sqlite") as ledger:
        cache = ReplyCache(ledger, "openai/good", {})
        for key in keys:
            anyio.run(cache.keep, bytes.fromhex(key), reply())
    ask = ("--passes", "2", "--ledger", "l.sqlite", "--cached-only")
    done = ruler("score", "in.jsonl", "out.jsonl", "-m", "openai/good", *ask)
    assert done.returncode == 1
    reported = f"kept replies that no longer answer: 2 ({OTHER_LAYOUT})"
    assert done.stderr.count(reported) == 1, done.stderr


def test_many_calls() -> None:
    """Thousands of calls and results with equal, missing or unknown ids take no long time."""
    began = perf_counter()
    number = 10_000
    for ids in (["a"] * number, [None] * number, [*map(str, range(number))]):
        for results in (ids, reversed(ids), ["z"] * number):
            render(told(ids, *results))
    assert perf_counter() - began < 20
