"""Calls that an agent makes at once, and their results, in the dialects of several frameworks."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from itertools import product
from time import perf_counter
from typing import Any

import pytest

from ruler_cli.prompting.prompt import build_layout
from ruler_cli.settings.models import AskSettings
from tests.conftest import ROOT
from tests.picture_judge import part
from tests.values import first_request, group, read, render

Messages = list[dict[str, Any]]
CITIES = ("Oslo", "Rome", "Bonn")
WEATHER = ("3 C", "24 C", "9 C")
ORDERS = ((0, 1, 2), (2, 0, 1), (1, 2, 0))
TASK = {"role": "user", "content": "Weather?"}
END = {"role": "assistant", "content": "Told."}
LINES = [
    *(
        f'call {n} weather: {{"city":"{city}"}}'
        for n, city in enumerate(CITIES, 1)
    ),
    *(f'tool {n} weather: "{seen}"' for n, seen in enumerate(WEATHER, 1)),
]
DIALECTS = json.loads((ROOT / "tests/data/parallel_dialects.json").read_text())
CASES = json.loads((ROOT / "tests/data/parallel_cases.json").read_text())


def conversation(order: Sequence[int], dialect: str = "openai") -> Messages:
    """Three calls in a dialect, and their results in an order, each in a message or all in one."""
    calls, results, *around = DIALECTS[dialect].values()
    came = [results[at] for at in order]
    for role, name in around:
        came = [{"role": role, name: came}]
    return [*calls, *came]


def test_dialects(subtests: pytest.Subtests) -> None:
    """In every dialect a result has the number of its call, and the order in which results came changes nothing."""
    for dialect, order in product(DIALECTS, ORDERS):
        with subtests.test(dialect=dialect, order=order):
            record = {"messages": [*conversation(order, dialect), END]}
            text = "\n".join(render(read(record)[0].rollouts[0].messages))
            shown = ['user: "Weather?"', *LINES, 'assistant: "Told."']
            assert text.split("\n") == shown


def test_pictures_of_results() -> None:
    """Pictures in results are numbered in the order of the calls, so rollouts stay equal."""
    texts = set()
    for order in ORDERS:
        messages = conversation(order)
        seen = [{"content": [part(number / 10)]} for number in order]
        messages[2:] = map(operator.or_, messages[2:], seen)
        texts.add("\n".join(render(messages)))
    assert len(texts) == 1


def told(calls: list[Any], *results: Any, name: str = "f") -> Messages:
    """A message with calls of these ids, and results of these; an id may have a text with it."""
    made = [
        {"id": one, "name": name, "arguments": {"n": n}}
        for n, one in enumerate(calls)
    ]
    came = [
        {"role": "tool", "tool_call_id": one, "content": f"of {one}"}
        for one in results
    ]
    return [{"role": "assistant", "content": None, "tool_calls": made}, *came]


def test_pairs(subtests: pytest.Subtests) -> None:
    """A result is paired with a call only if its id is that of this call alone."""
    for law, case in CASES.items():
        with subtests.test(law):
            assert (
                "\n".join(render(case["messages"])).split("\n") == case["lines"]
            )


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
    parallel = build_layout(
        group(conversation((0, 1, 2)), conversation((0, 2, 1))), AskSettings()
    )
    assert len(parallel.distinct) == 1
    request = first_request(parallel, AskSettings())
    assert "have numbers" in request.user
    for messages in (told(["a"], "a"), told(["a", "b"])):
        layout = build_layout(group([TASK, *messages]), AskSettings())
        assert "numbers" not in first_request(layout, AskSettings()).user


def test_many_calls() -> None:
    """Thousands of calls and results with equal, missing or unknown ids take no long time."""
    began = perf_counter()
    number = 10_000
    for ids in (["a"] * number, [None] * number, [*map(str, range(number))]):
        for results in (ids, reversed(ids), ["z"] * number):
            render(told(ids, *results))
    assert perf_counter() - began < 20
