"""Few named conditions, each with one meaning, and a way out for every other text."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.marked.values import MarkedGroup, MarkedRollout
from ruler_cli.records import Rollout
from ruler_cli.selection.conditions import NAMES, against, condition

grades = st.none() | st.sampled_from([0.0, 0.5, 1.0])


def of(
    *scores: float | None, labels: tuple[float | None, ...] = (), reliability: float | None = None
) -> MarkedGroup:
    """A group with these scores."""
    rollouts = tuple(
        MarkedRollout((i,), Rollout([]), "failed" if s is None else "scored", s, s, y)
        for i, (s, y) in enumerate(zip(scores, labels or [None] * len(scores), strict=True))
    )
    known = any(s is not None for s in scores)
    return MarkedGroup("g", rollouts, "scored" if known else "failed", reliability=reliability)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("live", [True, False, False, False]),
        ("tied", [False, True, False, True]),
        ("failed", [False, False, True, False]),
        ("scored", [True, True, False, True]),
    ],
)
def test_states(name: str, holds: list[bool]) -> None:
    """A group is live, tied or failed, and scored unless it failed."""
    groups = [of(0.1, 0.9), of(0.5, 0.5), of(None, None), of(0.5, None)]
    assert [condition(name).holds(group) for group in groups] == holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("reliability=0.5..0.7", [False, True, True, False, False]),
        ("reliability=0.5..", [False, True, True, True, False]),
        ("reliability=..0.7", [True, True, True, False, False]),
        ("reliability=.7...7", [False, False, True, False, False]),
    ],
)
def test_ranges(text: str, holds: list[bool]) -> None:
    """Both ends belong to a range, either may be left out, and what has no figure is in none."""
    groups = [of(0.1, 0.9, reliability=r) for r in (0.4, 0.5, 0.7, 0.8, None)]
    assert [condition(text).holds(group) for group in groups] == holds


def test_scores_are_of_rollouts() -> None:
    """A condition about scores picks rollouts; those without a score lie in no range."""
    one = condition("score=0.5..1")
    assert [one.takes(r) for r in of(0.4, 0.5, None, 1.0, 1.1).rollouts] == [False, True, False, True, False]
    assert one.about_rollouts
    assert one.holds(of(None))
    assert all(condition("live").takes(r) for r in of(0.4, None).rollouts)


@given(st.lists(st.tuples(grades, grades), max_size=6))
def test_bare_disagreement(rows: list[tuple[float | None, float | None]]) -> None:
    """Without a range it holds where a pair stands in the other order than its labels, a tie is none."""
    group = of(*(s for s, _ in rows), labels=tuple(y for _, y in rows))
    known = [(s, y) for s, y in rows if s is not None and y is not None]
    pairs = itertools.permutations(known, 2)
    assert against(group) == any(a[0] < b[0] and a[1] > b[1] for a, b in pairs)
    assert condition("disagreement").holds(group) == against(group)


def test_disagreement_in_a_range() -> None:
    """With a range it is the share of pairs, and groups whose labels do not differ are in none."""
    groups = [of(0.1, 0.9, labels=(0, 1)), of(0.9, 0.1, labels=(0, 1)), of(0.9, 0.1, labels=(1, 1))]
    assert [condition("disagreement=..0").holds(g) for g in groups] == [True, False, False]
    assert [condition("disagreement=0.5..").holds(g) for g in groups] == [False, True, False]


WAYS = {
    "relability": "is no condition; did you mean `reliability`?",
    "Live": "did you mean `live`?",
    "not tied": "did you mean `live`?",
    "disputed": "did you mean `disagreement`?",
    "kettle": "the conditions are live, tied, failed, scored, reliability, disagreement, score",
    "": "--where : is no condition; the conditions are",
    "score > 0.8": "is no condition; write a range, e.g. score=0.7..",
    "relability=0.7..": "write a range, e.g. reliability=0.7..",
    "live=1..": "takes no range; write --where live",
    "score=0.8": "write a range, e.g. score=0.7..",
    "score=..": "write a range",
    "score=nan..": "write a range",
    "score=a..b": "write a range",
    "score=0.8..0.2": "the lower end stands first",
    "reliability=70..": "reliability lies from 0 to 1; write a range",
    "\x1b[31mlive": "--where \ufffd[31mlive: is no condition; did you mean `live`?",
}


def test_way_out() -> None:
    """What is no condition is reported with the nearest one or the way to write it."""
    for text, says in WAYS.items():
        with pytest.raises(UsageError) as error:
            condition(text)
        assert says in str(error.value)
        assert "\x1b" not in str(error.value)


@given(
    st.text(max_size=12) | st.builds("{}={}".format, st.sampled_from(NAMES), st.text("0.9-e:n ", max_size=9))
)
def test_any_text(text: str) -> None:
    """Whatever is written, it is a condition with a range that is one, or a UsageError."""
    try:
        found = condition(text)
    except UsageError:
        return
    assert found.name in NAMES
    assert not math.isnan(found.low + found.high) or found.low == -math.inf
    assert found.low <= found.high
