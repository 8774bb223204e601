"""What is left out of a group that is too long."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.records import Rollout
from ruler_cli.scoring.request import LADDER, compose, lay_out, parts, windows
from ruler_cli.scoring.sheet import Sheet
from ruler_cli.settings import AskSettings
from tests.values import group, talk

ASK = AskSettings()
CUT = "left out by ruler"


def rollout(answer: str, output: int = 5000, thought: int = 1000) -> list[dict[str, Any]]:
    """A question, a thought, a tool output of so many words, and an answer."""
    return [
        {"role": "user", "content": "QUESTION " * 100},
        {"role": "assistant", "reasoning": "thought " * thought, "content": f"Let me look for {answer}."},
        {"role": "tool", "content": "output " * output},
        {"role": "assistant", "content": answer + " ANSWER" * 100},
    ]


def shown(sheet: Sheet, ask: AskSettings) -> str:
    """All that a pass asks."""
    return "\n".join(compose(sheet, ask, part).request.user for part in parts(sheet, ask, 0))


@pytest.mark.parametrize("tokens", [30_000, 8_000, 3_500, 2_000])
def test_shortened(tokens: int) -> None:
    """What does not fit is cut in the middle of tool outputs, then of thoughts, and marked; no more."""
    ask = replace(ASK, context_tokens=tokens)
    sheet = lay_out(group(rollout("a"), rollout("b")), ask)
    user = shown(sheet, ask)
    assert sheet.tokens <= tokens
    assert user.count("QUESTION") == 100
    assert user.count("ANSWER") == 200
    assert (sheet.shortening == 0) is (CUT not in user)
    assert (sheet.shortening == 0) is (tokens == 30_000)
    if "thought" in user and tokens > 7_000:
        assert user.count("thought ") == 2000


def only_tools(sheet: Sheet) -> bool:
    """Whether no step was taken that leaves out of reasoning."""
    return all(step.reasoning is None for step in LADDER[: sheet.shortening])


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000)), min_size=1, max_size=14),
    st.integers(1_200, 20_000),
)
def test_never_cut(lengths: list[tuple[int, int]], tokens: int) -> None:
    """The first user message and every final answer are whole, whatever has to be left out."""
    ask = replace(ASK, context_tokens=tokens)
    made = group(*(rollout(f"of {n}", *each) for n, each in enumerate(lengths)))
    sheet = lay_out(made, ask)
    bodies = sheet.bodies
    assert len(bodies) == len(lengths)
    assert (sheet.context + "\n".join(bodies)).count("QUESTION " * 100) == 1
    assert all(f"of {n}" + " ANSWER" * 100 in bodies[n] for n in range(len(bodies)))
    assert bool(sheet.shortening) is any(CUT in text for text in (sheet.context, *bodies))
    whole = lay_out(made, ASK)
    for text, full in zip(bodies, whole.bodies, strict=True):
        assert text == full or len(text) < len(full)
    assert (sheet.digest, sheet.digests, sheet.owner) == (whole.digest, whole.digests, whole.owner)


def test_whole_in_windows() -> None:
    """Rollouts of which four fit into a request are shown whole, however long the group is."""
    ask = replace(ASK, context_tokens=60_000)
    sheet = lay_out(group(*(rollout(f"{n}") for n in range(24))), ask)
    assert sheet.tokens > 200_000
    assert sheet.shortening == 0
    assert CUT not in shown(sheet, ask)
    assert windows(sheet, ask) >= 5


@pytest.mark.parametrize("number", [3, 9, 24])
def test_only_the_long_one(number: int) -> None:
    """One rollout that leaves no room for others is shortened, and no other is."""
    ask = replace(ASK, context_tokens=25_000)
    sheet = lay_out(group(rollout("long", 40_000), *(rollout(f"{n}", 300) for n in range(number - 1))), ask)
    assert [CUT in body for body in sheet.bodies] == [True] + [False] * (number - 1)
    assert only_tools(sheet)
    assert "thought " * 1000 in sheet.bodies[0]


@pytest.mark.parametrize("output", [40_000, 120_000])
def test_giants_keep_much(output: int) -> None:
    """Of an output that no context holds a quarter of the context is left at least, beside three others."""
    tokens = 60_000
    made = group(rollout("long", output), *(rollout(f"{n}") for n in range(11)))
    sheet = lay_out(made, replace(ASK, context_tokens=tokens))
    assert [CUT in body for body in sheet.bodies] == [True] + [False] * 11
    assert sheet.tokens_of([0]) > tokens / 4
    assert windows(sheet, replace(ASK, context_tokens=tokens)) == 3


def test_step_by_step() -> None:
    """The smaller the context the more is left out, and reasoning only when tool outputs are short."""
    made = group(*(rollout(f"{n}") for n in range(4)))
    steps = []
    for tokens in (50_000, 20_000, 12_000, 6_000, 3_000):
        sheet = lay_out(made, replace(ASK, context_tokens=tokens))
        assert sheet.tokens <= tokens
        steps.append(sheet.shortening)
        assert ("thought " * 1000 in sheet.bodies[0]) is only_tools(sheet)
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert LADDER[steps[-1] - 1].reasoning is not None


def test_marks_say_how_much() -> None:
    """A mark holds how many characters are gone, and what stands around it is the rest."""
    sheet = lay_out(group(rollout("a"), rollout("b")), replace(ASK, context_tokens=8_000))
    line = next(line for line in sheet.bodies[0].split("\n") if line.startswith("tool"))
    gone = re.search(r"\[… (\d+) characters left out by ruler …\]", line)
    assert gone
    assert len(line) - len('tool: ""') - len(gone[0]) + int(gone[1]) == len("output " * 5000)


def test_long_context() -> None:
    """What all share is shortened like a rollout where it is what is too long."""
    tool = {"role": "tool", "content": "shared " * 20_000}
    made = group(*([talk(a)[0], tool, talk(a)[1]] for a in "abc"))
    ask = replace(ASK, context_tokens=5_000)
    sheet = lay_out(made, ask)
    assert CUT in sheet.context
    assert sheet.context.startswith('user: "What is 2+2?"')
    assert only_tools(sheet)
    assert sheet.tokens <= 5_000
    assert len(sheet.bodies) == 3


def test_smaller_windows_last() -> None:
    """Where not even four fit when all is left out that may be, two do."""
    answers = ["x" * 20_000 + str(n) for n in range(8)]
    made = group(*([*rollout(a[-1])[:3], {"role": "assistant", "content": a}] for a in answers))
    ask = replace(ASK, context_tokens=14_000)
    sheet = lay_out(made, ask)
    assert sheet.shortening == len(LADDER)
    assert windows(sheet, ask, 4) == 0
    assert [len(part.bodies) for part in parts(sheet, ask, 1)] == [2, 2, 2, 2]


def test_too_long() -> None:
    """What cannot be cut stays whole, and too long."""
    ask = replace(ASK, context_tokens=100)
    sheet = lay_out(group(rollout("a"), rollout("b")), ask)
    assert sheet.tokens > 100
    assert windows(sheet, ask) == 0
    assert windows(lay_out(group(Rollout([], fault="is no object")), ask), ask) == 0


def test_suspects_as_shown() -> None:
    """Text that addresses the judge is looked for in what the judge is shown."""
    made = group(rollout("a"), [*rollout("b")[:3], {"role": "assistant", "content": "Dear judge, b"}])
    assert lay_out(made, replace(ASK, context_tokens=3_000)).suspects == {1}
