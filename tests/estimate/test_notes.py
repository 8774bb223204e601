"""What is noted of records, and what groups come to."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from ruler_cli.estimate.notes import Noted, Notes, Tally
from ruler_cli.records import Line, Record, Rollout
from tests.values import talk


@pytest.fixture
def notes() -> Iterator[Notes]:
    """Nothing noted yet."""
    made = Notes()
    yield made
    made.close()


def note(notes: Notes, *rows: tuple[int, str, Any], **fields: Any) -> None:
    """A record for each group, answer and reward."""
    for number, (group, answer, reward) in enumerate(rows, 1):
        rollout = Rollout(talk(answer), reward=reward, **fields)
        notes.add(Record(Line(number, 0, b"x" * 500), (rollout,)), group, 1)


def test_groups(notes: Notes) -> None:
    """Records of a group are put together however they lie, and rollouts that repeat another counted."""
    note(notes, (1, "four", 1.0), (2, "a", 0), (1, "five!", 0.0), (2, "b?", 0), (1, "four", None))
    found = {group.number: group for group in notes.groups()}
    assert found[1][1:4] == (1 << 20, 3, 2)
    assert found[1][5:] == (2, 0.0, 1.0)
    assert found[2][2:4] == (2, 2)
    assert notes.places([2, 1]) == {1: [n << 20 for n in (1, 3, 5)], 2: [n << 20 for n in (2, 4)]}
    whole = notes.overview()
    assert (whole.groups, whole.rollouts, whole.identical, whole.alike, whole.tied) == (2, 5, 1, 1, 0)
    assert (whole.equal, whole.spread, whole.sizes) == (1, 0.5, {2: 1, 3: 1})
    assert whole.lengths.total() == 5


def test_size(notes: Notes) -> None:
    """An opening that all share counts once, and so does a rollout that is there twice."""
    note(notes, *((1, answer * 200, 0) for answer in "ab"), *((2, "a" * 200, 0) for _ in range(9)))
    two, nine = sorted(notes.groups(), key=lambda group: group.number)
    assert 950 <= two.size < 1000
    assert 400 < nine.size < 501
    assert (nine.rollouts, nine.distinct) == (9, 1)


def test_members(notes: Notes) -> None:
    """Parts of one rollout are one, with one length and one reward."""
    for number, (member, begins) in enumerate(zip("aab", (1, 0, 1), strict=True), 1):
        rollout = Rollout(talk(f"part {number}" * 100), member=member, reward=1.0)
        notes.add(Record(Line(number, 0, b"x" * 600), (rollout,)), 1, begins)
    (group,) = notes.groups()
    assert (group.rollouts, group.distinct, group.rewards) == (2, 2, 2)
    assert (notes.rewards.numbers, notes.outcomes.absent) == (2, 2)
    whole = notes.overview()
    assert (whole.rollouts, whole.sizes) == (2, {2: 1})
    assert max(whole.lengths) > 1.5 * min(whole.lengths)


def test_no_member_is_no_part(notes: Notes) -> None:
    """Rollouts without a member are not joined where others have one."""
    note(notes, (1, "a", 0), (1, "b?", 0))
    note(notes, (1, "c..", 0), member="m")
    (group,) = notes.groups()
    assert group.rollouts == 3


def test_faults(notes: Notes) -> None:
    """What cannot be judged is told, and is no rollout."""
    fine, faulty = Rollout(talk("x")), Rollout([], fault="has no messages")
    assert not notes.add(Record(Line(1, 0, b"{}"), (fine, faulty)), 1, 2)
    assert not notes.add(Record(Line(2, 0, b"{}"), ()), 2, 0)
    assert notes.add(Record(Line(3, 0, b"{}"), (fine,)), 3, 1)
    assert [group.rollouts for group in notes.groups()] == [1, 1]
    assert notes.records == 3


def test_nothing(notes: Notes) -> None:
    """Without records there are no groups."""
    assert list(notes.groups()) == []
    assert notes.overview().spread is None


def test_tally() -> None:
    """What is absent and what is no number is neither a zero nor part of the mean."""
    tally = Tally()
    for value in (1.0, None, "TimeoutError", math.nan, [0.25, 0.25], True, "I"):
        tally.add(value)
    assert (tally.absent, tally.other, tally.numbers) == (1, 2, 4)
    assert (tally.lowest, tally.mean, tally.highest) == (0.0, 0.625, 1.0)
    assert not tally.of_truth
    assert Tally().mean is None


def test_memory(notes: Notes) -> None:
    """Memory does not grow with the number of records."""

    def peak(number: int) -> int:
        tracemalloc.start()
        for i in range(number):
            rollout = Rollout(talk(f"{i}"), reward=0.5)
            notes.add(Record(Line(i, 0, b"x" * 500), (rollout,)), i // 4, 1)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    few = peak(5_000)
    assert peak(15_000) < 1.2 * few
    assert isinstance(next(notes.groups()), Noted)
