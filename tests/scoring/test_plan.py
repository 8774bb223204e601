"""Which requests a pass takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.records import Failure, Group, Rollout
from ruler_cli.scoring.request import compose, lay_out, obstacle, parts, turns, windows
from ruler_cli.scoring.windows import connected
from ruler_cli.settings import AskSettings
from tests.values import group, talk

ASK = AskSettings()


def of_sizes(sizes: list[int]) -> Group:
    """A group of rollouts of so many characters, each different."""
    return group(*(talk(f"{number} " + "x" * size) for number, size in enumerate(sizes)))


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=30),
    st.integers(2, 12),
    st.none() | st.integers(1400, 6000),
    st.integers(0, 11),
)
def test_a_pass(sizes: list[int], most: int, context: int | None, turn: int) -> None:
    """A pass shows each rollout once, in requests that fit the judge, and two passes hang together."""
    ask = replace(ASK, group_size=most, context_tokens=context)
    sheet = lay_out(of_sizes(sizes), ask)
    count = windows(sheet, ask)
    found = parts(sheet, ask, turn)
    assert len(found) == count
    if not count:
        assert context is not None
        assert sheet.tokens_of(range(len(sizes))) > context
        return
    assert [(part.turn, part.window) for part in found] == [(turn, number) for number in range(count)]
    assert sorted(body for part in found for body in part.bodies) == list(range(len(sizes)))
    if context is not None:
        assert all(sheet.tokens_of(part.bodies) <= context for part in found)
    assert count == 1 or all(len(part.bodies) >= 2 for part in found)
    first, second = ([part.bodies for part in parts(sheet, ask, t)] for t in (0, 1))
    assert connected(first, second)


@settings(deadline=None, max_examples=30)
@given(st.permutations(range(14)), st.integers(0, 9), st.sampled_from([None, 1000]))
def test_input_order(mixed: list[int], turn: int, context: int | None) -> None:
    """However the input is sorted, a pass asks the identical questions."""
    conversations = [talk(f"{number} " + "y" * 300) for number in range(14)]
    ask = replace(ASK, group_size=5, context_tokens=context)
    asked: list[list[Any]] = []
    for order in (range(14), mixed):
        sheet = lay_out(group(*(conversations[number] for number in order)), ask)
        asked.append([compose(sheet, ask, part).request for part in parts(sheet, ask, turn)])
    assert len(asked[0]) > 2
    assert asked[0] == asked[1]


@given(st.integers(2, 9), st.integers(0, 3))
def test_at_once(number: int, pair: int) -> None:
    """A group that is shown at once stands in an order and then in its reverse."""
    sheet = lay_out(of_sizes([5] * number), ASK)
    (first,), (second,) = parts(sheet, ASK, 2 * pair), parts(sheet, ASK, 2 * pair + 1)
    assert first.bodies == second.bodies[::-1]


def test_mirrored() -> None:
    """In windows too a rollout stands at the mirrored slot of the pass before, among others."""
    ask = replace(ASK, group_size=6)
    sheet = lay_out(of_sizes([5] * 30), ask)
    for turn in (0, 2, 4):
        first, second = parts(sheet, ask, turn), parts(sheet, ask, turn + 1)
        slots, after = (
            {body: slot for part in made for slot, body in enumerate(part.bodies)} for made in (first, second)
        )
        assert {slots[body] + after[body] for body in range(30)} == {5}
        assert not {frozenset(part.bodies) for part in first} & {frozenset(part.bodies) for part in second}


def test_order_of_input() -> None:
    """On request rollouts stand in input order in every pass, also within windows, which stay random."""
    ask = replace(ASK, group_size=6, order="input")
    sheet = lay_out(of_sizes([5] * 30), ask)
    for turn in range(3):
        found = parts(sheet, ask, turn)
        assert all(list(part.bodies) == sorted(part.bodies) for part in found)
    assert {part.bodies for part in parts(sheet, ask, 0)} != {part.bodies for part in parts(sheet, ask, 1)}
    whole = replace(ask, group_size=30)
    assert [parts(sheet, whole, turn)[0].bodies for turn in range(3)] == [tuple(range(30))] * 3


def test_turns() -> None:
    """Passes are as many as asked for, two at least in windows, one for what is compared with nothing."""
    large, small, alone = (lay_out(of_sizes([5] * number), ASK) for number in (33, 32, 1))
    assert [turns(sheet, ASK) for sheet in (large, small, alone)] == [2, 1, 1]
    three = replace(ASK, passes=3)
    assert [turns(sheet, three) for sheet in (large, small, alone)] == [3, 3, 1]
    assert turns(alone, replace(three, single="score")) == 3


def test_number_of_windows() -> None:
    """There are as few windows as the group's size asks for."""
    sheet = lay_out(of_sizes([5] * 64), ASK)
    assert [windows(sheet, replace(ASK, group_size=most)) for most in (64, 63, 32, 31, 8)] == [1, 2, 2, 3, 8]


@pytest.mark.parametrize("number", [1, 2, 3, 8, 60])
def test_too_long(number: int) -> None:
    """Where no two rollouts fit, no pass is made, and the failure says how long they are."""
    made = of_sizes([40_000] * number)
    ask = replace(ASK, context_tokens=9_000)
    sheet = lay_out(made, ask)
    assert (windows(sheet, ask), parts(sheet, ask, 0)) == (0, ())
    failure = obstacle(made, sheet, ask)
    assert isinstance(failure, Failure)
    assert failure.kind == "too_long"
    tokens = int(failure.reason.split()[1])
    assert tokens > 9_000
    assert "more than the 9000 that the judge takes" in failure.reason
    assert obstacle(made, sheet, replace(ask, context_tokens=90_000)) is None


def test_nothing_to_judge() -> None:
    """An empty group, or one that cannot be read, has no request and a reason."""
    for made, reason in [
        (group(), "has no trajectories"),
        (group(Rollout([], fault="has no messages")), "the first: has no messages"),
    ]:
        sheet = lay_out(made, ASK)
        assert parts(sheet, ASK, 0) == ()
        failure = obstacle(made, sheet, ASK)
        assert failure is not None
        assert failure.kind == "input"
        assert reason in failure.reason
