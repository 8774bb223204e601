"""A group as requests to the judge: its shortening, the content of each pass, and the text."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.judges.offline import blocks
from ruler_cli.prompting import templates
from ruler_cli.prompting.prompt import (
    ExchangeState,
    build_layout,
    requests_of_pass,
    why_unaskable,
    write_prompt,
)
from ruler_cli.prompting.windows import is_connected
from ruler_cli.settings.models import AskSettings
from ruler_cli.types import Group, Rollout
from tests.values import first_request, group, read, talk, texts

SAMPLES = Path(__file__).parents[2] / "samples"
ASK = AskSettings()
TOOL, OTHER = {"name": "f"}, {"name": "g"}


def asked(made: Group, ask: AskSettings = ASK, attempt: int = 0) -> str:
    """The user message of a group."""
    layout = build_layout(made, ask)
    (part,) = requests_of_pass(layout, ask, 0)
    return write_prompt(layout, ask, part, ExchangeState(attempt)).user


def test_shape() -> None:
    """The shared context stands first and once, then the tools, the rollouts, and the ids to score."""
    user = asked(group(talk("4"), talk("5"), tools=[TOOL]))
    lines = user.split("\n")
    assert lines[:3] == ["<context>", 'user: "What is 2+2?"', "</context>"]
    assert lines[3:6] == [
        "<available_tools>",
        '{"name":"f"}',
        "</available_tools>",
    ]
    assert sorted(blocks(user).values()) == ['assistant: "4"', 'assistant: "5"']
    assert lines[-1].startswith("trajectory_ids to score: [")


def test_labels_in_no_text() -> None:
    """A rollout that holds every label of four letters gets longer labels."""
    letters = "bcdfghjkmnpqrstvwxz"
    every = " ".join(map("".join, itertools.product(letters, repeat=4)))
    prompt = first_request(
        build_layout(group(talk(every), talk("x"), talk("y")), ASK), ASK
    )
    assert len(prompt.shown) == 3
    assert all(len(label) > 4 and label not in every for label in prompt.shown)


def test_tools() -> None:
    """Shared tools stand once, also against the group's; if they differ, each rollout shows its own."""
    first = [Rollout(talk(a), tools=[TOOL]) for a in "ab"]
    assert asked(group(*first)).count('{"name":"f"}') == 1
    assert asked(group(*first, tools=[TOOL])).count('{"name":"f"}') == 1
    differ = asked(group(first[0], Rollout(talk("b"), tools=[OTHER])))
    assert "<available_tools>" not in differ
    assert sorted(b.split("\n")[:2] for b in blocks(differ).values()) == [
        ["(tools of this rollout)", '{"name":"f"}'],
        ["(tools of this rollout)", '{"name":"g"}'],
    ]
    assert "<available_tools>\n" + '{"name":"f"}' in asked(
        group(*first, tools=[OTHER])
    )
    some = asked(group(first[0], talk("b"), tools=[OTHER]))
    assert "<available_tools>\n" + '{"name":"g"}' in some
    assert some.count('(tools of this rollout)\n{"name":"f"}') == 1


def test_rubric() -> None:
    """The group's own rubric wins over the option, the option over the built-in one."""
    option = replace(ASK, rubric="OPTION")
    wanted = {
        "OWN": ("OWN", option),
        "OPTION": (None, option),
        templates.DEFAULT_RUBRIC: (None, ASK),
    }
    for text, (own, ask) in wanted.items():
        made = group(talk("a"), talk("b"), rubric=own)
        system = first_request(build_layout(made, ask), ask).system
        assert [rubric for rubric in wanted if rubric in system] == [text]


def test_alone() -> None:
    """A lone rollout gets an absolute score: the prompt up to the agent's first message is its context."""
    layout = build_layout(group(talk("4")), ASK)
    assert (layout.context, layout.distinct, layout.alone) == (
        'user: "What is 2+2?"',
        ('assistant: "4"',),
        True,
    )
    system = first_request(layout, ASK).system
    assert system.startswith("You are grading a rollout")
    only = build_layout(group([{"role": "user", "content": "x"}]), ASK)
    assert (only.context, only.distinct) == ("", ('user: "x"',))


OURS = {
    # seed, attempt, order: digest of the requests for samples/groups.jsonl
    (0, 0, "random"): "39a0e58d35dcb770242780a40f090237",
    (0, 1, "random"): "585d6c3bdd3b22c1578f1c146e36f6e4",
    (7, 2, "random"): "d9aaf596b772e2ffe5f3c86ea9482840",
    (0, 0, "input"): "9ff463d396069a9ac74fef7d28d1254b",
}
"""Requests of the first pass as ledgers in the field hold them: another byte, and they are paid for again."""


@pytest.mark.parametrize("case", OURS)
def test_first_pass_of_old_ledgers(case: tuple[int, int, Any]) -> None:
    """A request of the first pass has, to the byte, the text that it had before there were passes."""
    seed, attempt, order = case
    ask = AskSettings(seed=seed, order=order)
    lines = (SAMPLES / "groups.jsonl").read_bytes().splitlines()
    whole = blake2b(digest_size=16)
    for record in read(*map(json.loads, lines)):
        layout = build_layout(Group("g", (record,)), ask)
        (part,) = requests_of_pass(layout, ask, 0)
        state = ExchangeState(attempt, "n" * bool(attempt))
        request = write_prompt(layout, ask, part, state)
        whole.update(
            "\0".join([request.system, request.user, *request.labels]).encode()
        )
        assert request.pass_index == 0
    assert whole.hexdigest() == OURS[case]


answers = st.lists(texts, min_size=2, max_size=9, unique=True)


@settings(deadline=None)
@given(answers, st.integers(0, 9), st.integers(1, 3), st.integers(0, 1))
def test_labels_are_fresh(
    given_answers: list[str], pass_index: int, later: int, attempt: int
) -> None:
    """Two passes, and two attempts of one, show the same rollouts under different labels.

    Of 130,000 labels the same may be drawn twice by chance, so of several one may be.
    """
    layout = build_layout(group(*map(talk, given_answers)), ASK)
    first, second, corrected = [
        write_prompt(
            layout,
            ASK,
            requests_of_pass(layout, ASK, index)[0],
            ExchangeState(number),
        )
        for index, number in (
            (pass_index, attempt),
            (pass_index + later, attempt),
            (pass_index, attempt + 1),
        )
    ]
    everyone = set(range(len(layout.distinct)))
    assert set(first.shown.values()) == everyone
    for other in (second, corrected):
        assert len({*first.labels} & {*other.labels}) <= (len(everyone) > 1)
        assert set(other.shown.values()) == everyone
    assert second.pass_index == first.pass_index + later


def of_sizes(sizes: list[int]) -> Group:
    """A group of different rollouts with so many characters each."""
    return group(
        *(talk(f"{number} " + "x" * size) for number, size in enumerate(sizes))
    )


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=30),
    st.integers(2, 12),
    st.none() | st.integers(1400, 6000),
    st.integers(0, 11),
)
def test_one_pass(
    sizes: list[int], most: int, context: int | None, pass_index: int
) -> None:
    """A pass shows each rollout once, in requests that fit the judge; two passes connect windows of more than two."""
    ask = replace(ASK, group_size=most, context_tokens=context)
    layout = build_layout(of_sizes(sizes), ask)
    count = len(requests_of_pass(layout, ask, 0))
    result = requests_of_pass(layout, ask, pass_index)
    assert len(result) == count
    if not count:
        assert context is not None
        assert layout.tokens_of(range(len(sizes))) > context
        return
    assert [(part.pass_index, part.window) for part in result] == [
        (pass_index, number) for number in range(count)
    ]
    assert sorted(index for part in result for index in part.distinct) == list(
        range(len(sizes))
    )
    if context is not None:
        assert all(
            layout.tokens_of(part.distinct) <= context for part in result
        )
    assert count == 1 or all(len(part.distinct) >= 2 for part in result)
    first, second = (
        [list(part.distinct) for part in requests_of_pass(layout, ask, t)]
        for t in (0, 1)
    )
    assert is_connected(first, second) or min(map(len, first)) == 2


@settings(deadline=None, max_examples=30)
@given(
    st.permutations(range(14)), st.integers(0, 9), st.sampled_from([None, 1000])
)
def test_input_order(
    mixed: list[int], pass_index: int, context: int | None
) -> None:
    """Any order of the input gives the identical requests of a pass."""
    conversations = [talk(f"{number} " + "y" * 300) for number in range(14)]
    ask = replace(ASK, group_size=5, context_tokens=context)
    asked: list[list[Any]] = []
    for order in (range(14), mixed):
        layout = build_layout(
            group(*(conversations[number] for number in order)), ask
        )
        asked.append(
            [
                write_prompt(layout, ask, part)
                for part in requests_of_pass(layout, ask, pass_index)
            ]
        )
    assert len(asked[0]) > 2
    assert asked[0] == asked[1]


@pytest.mark.parametrize("number", [1, 2, 3, 8, 60])
def test_too_long(number: int) -> None:
    """If no two rollouts fit, no pass is made, and the error states their length."""
    made = of_sizes([40_000] * number)
    ask = replace(ASK, context_tokens=9_000)
    layout = build_layout(made, ask)
    assert requests_of_pass(layout, ask, 0) == []
    error = why_unaskable(made, layout, ask)
    assert error.kind == "too_long"
    tokens = int(error.reason.split()[1])
    assert tokens > 9_000
    assert "more than the 9000 that the judge takes" in error.reason
    assert requests_of_pass(layout, replace(ask, context_tokens=90_000), 0)


CUT = "left out by ruler"


def rollout(
    answer: str, output: int = 5000, thought: int = 1000
) -> list[dict[str, Any]]:
    """A question, a thought, a tool output of so many words, and an answer."""
    return [
        {"role": "user", "content": "QUESTION " * 100},
        {
            "role": "assistant",
            "reasoning": "thought " * thought,
            "content": f"Let me look for {answer}.",
        },
        {"role": "tool", "content": "output " * output},
        {"role": "assistant", "content": answer + " ANSWER" * 100},
    ]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
        min_size=1,
        max_size=14,
    ),
    st.integers(1_200, 20_000),
)
def test_never_cut(lengths: list[tuple[int, int]], tokens: int) -> None:
    """The first user message and every final answer are whole, for any shortening."""
    ask = replace(ASK, context_tokens=tokens)
    made = group(
        *(rollout(f"of {n}", *sizes) for n, sizes in enumerate(lengths))
    )
    layout = build_layout(made, ask)
    distinct = layout.distinct
    assert len(distinct) == len(lengths)
    assert (layout.context + "\n".join(distinct)).count("QUESTION " * 100) == 1
    assert all(
        f"of {n}" + " ANSWER" * 100 in distinct[n] for n in range(len(distinct))
    )
    assert bool(layout.shortening) is any(
        CUT in text for text in (layout.context, *distinct)
    )
    whole = build_layout(made, ASK)
    for text, full in zip(distinct, whole.distinct, strict=True):
        assert text == full or len(text) < len(full)
    assert (layout.digest, layout.digests, layout.owner) == (
        whole.digest,
        whole.digests,
        whole.owner,
    )
