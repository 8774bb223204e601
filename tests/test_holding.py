"""What waits comes back as it was, without what nobody reads again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.ballots import Outcome
from ruler_cli.holding import Holding
from ruler_cli.records import Group, Line, Record, Rollout, Usage
from tests.scoring.saying import groups
from tests.values import NASTY, values


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A record with rewards and faults of any kind."""
    rollouts = [
        Rollout(
            [{"role": "user"}], ("trajectories", i), reward=draw(values), outcome=draw(values), fault=fault
        )
        for i, fault in enumerate(draw(st.lists(st.none() | st.sampled_from(NASTY), max_size=3)))
    ]
    parts = draw(st.integers(1, 3))
    line = Line(draw(st.integers(1, 9)), 0, draw(st.binary(max_size=20)), draw(st.sampled_from(NASTY)))
    key = draw(st.none() | st.sampled_from(NASTY))
    return Record(line, tuple(rollouts), key, part=draw(st.integers(0, parts - 1)), parts=parts)


held = st.tuples(
    st.builds(Group, st.sampled_from(NASTY), st.lists(records(), max_size=3).map(tuple)), groups()
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, NaN to NaN."""
    return repr(one) == repr(other)


@given(st.lists(held, max_size=4))
def test_comes_back(put: list[tuple[Group, Outcome]]) -> None:
    """Groups come back in their order, twice if asked twice, with all that is written of them."""
    holding = Holding()
    given_ = [
        (group, replace(said, seconds=1.5, kept=True, used=(Usage(1),), paid=(Usage(),), ended=1.8e9 + 0.1))
        for group, said in put
    ]
    for group, outcome in given_:
        holding.put(group, outcome)
    assert len(holding) == len(put)
    for _ in range(2):
        back = list(holding.all())
        assert same([outcome for _, outcome in back], [outcome for _, outcome in given_])
        for (group, _), (other, _) in zip(back, given_, strict=True):
            assert group.key == other.key
            for record, was in zip(group.records, other.records, strict=True):
                last = was.part + 1 == was.parts
                assert record.line == (was.line if last else replace(was.line, raw=b""))
                rollouts = tuple(replace(r, messages=[], outcome=None) for r in was.rollouts)
                assert same(record, replace(was, line=record.line, rollouts=rollouts))
    holding.close()
    holding.close()


def test_nothing_waits() -> None:
    """Where nothing was put nothing comes, and no file is made."""
    holding = Holding()
    assert list(holding.all()) == []
    assert len(holding) == 0
    holding.close()
