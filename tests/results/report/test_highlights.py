"""Groups that deserve a look."""

from __future__ import annotations

from typing import Any

from ruler_cli.results.report.highlights import Ranking, Shortlist
from ruler_cli.results.scored_groups import ScoredGroup
from tests.results.report.values import drawn, group, rollout


def ranking(groups: list[ScoredGroup], most: int = 100) -> Ranking:
    """Rank these groups, numbered from 1."""
    result = Ranking(most)
    for number, one in enumerate(groups, 1):
        result.add(number, one)
    return result


FAILED = group([None, None], kind="reply")
AGAINST = group([0.1, 0.9], [1.0, 0.0], reliability=1.0)
SUSPECT = group([0.5, 0.6], each=[{"suspect": True}, {}])
UNSURE = group([0.4, 0.6], reliability=0.1)
WIDE = group([0.0, 1.0])
TIED = group([0.5, 0.5])
REST = ScoredGroup("g", (rollout(None),), "unmarked")


def test_kinds_alternate() -> None:
    """The first group of every kind comes in the order of the rule, then the second, then the rest."""
    groups = [REST, TIED, WIDE, UNSURE, SUSPECT, AGAINST, FAILED] * 2
    result = ranking(groups).chosen()
    order = ["failed", "disagrees", "suspect", "unsure", "spread", "tied"]
    assert list(result.values()) == order * 2 + ["rest"] * 2
    assert list(result) == [7, 6, 5, 4, 3, 2, 14, 13, 12, 11, 10, 9, 1, 8]


def test_highest_degree_first() -> None:
    """Within a kind the group with the highest degree comes first, and of equal ones the first."""
    less = group([0.2, 0.4, 0.5], [1.0, 0.0, 1.0], annotated_tied=True)
    more = group([0.5, 0.4, 0.3], [0.0, 1.0, 1.0], annotated_tied=True)
    assert list(ranking([less, more, more]).chosen())[:2] == [2, 1]  # 1 follows as tied
    unsure = [group([0.4, 0.6], reliability=r) for r in (0.5, 0.2, 0.9)]
    assert next(iter(ranking(unsure).chosen())) == 2
    assert list(ranking([FAILED, FAILED, group([None], kind="refused")]).chosen()) == [1, 3, 2]
    spreads = [group([0.5, 0.6], each=[{"spread": s}, {}]) for s in (0.1, 0.3, 0.2)]
    assert ranking(spreads).chosen()[2] == "unsure"


def test_most() -> None:
    """A ranking has at most so many groups, each once, and always the first of the whole order."""
    groups = list(drawn(400))
    all_ = list(ranking(groups, 400).chosen())
    assert sorted(all_) == list(range(1, 401))
    for most in (0, 1, 7, 100, 399):
        assert list(ranking(groups, most).chosen()) == all_[:most]


def shortlist(*groups: ScoredGroup, n: int = 5) -> Shortlist:
    """Shortlist these groups."""
    result = Shortlist(n)
    for one in groups:
        result.add(one)
    return result


def named(
    key: str, scores: list[float | None], labels: list[float | None] | None = None, **more: Any
) -> ScoredGroup:
    """A group with this key."""
    return group(scores, labels or [], key=key, **more)


def test_worst() -> None:
    """Failed groups stand first, one of each kind, then suspects, then the least reliable."""
    result = shortlist(
        named("fine", [0.1, 0.9], reliability=1.0),
        named("shaky", [0.4, 0.5], reliability=0.3),
        named("tied", [0.5, 0.5], [0.0, 1.0]),
        named("suspect", [0.5, 0.6], each=[{"suspect": True}, {}]),
        named("lost", [None], kind="reply"),
        named("lost too", [None], kind="reply"),
        named("refused", [None], kind="refused"),
        n=10,
    )
    assert [(t.group.key, t.because) for t in result.worst()] == [
        ("lost", "failed"),
        ("refused", "failed"),
        ("lost too", "failed"),
        ("suspect", "suspect"),
        ("tied", "tied"),
        ("shaky", "unsure"),
    ]


def test_disputed_by_labels() -> None:
    """If labels differ, the groups with most pairs scored against them are disputed."""
    result = shortlist(
        named("panel", [0.5, 0.5], each=[{"judges": {"a": 0.0, "b": 1.0}}, {}]),
        named("one", [0.1, 0.9], [1.0, 0.0]),
        named("two", [0.1, 0.9, 0.9], [1.0, 0.0, 0.0]),
        named("none", [0.1, 0.9], [0.0, 1.0]),
    )
    assert [(t.group.key, t.because, t.degree) for t in result.disputed()] == [
        ("two", "disagrees", 2.0),
        ("one", "disagrees", 1.0),
    ]


def test_disputed_by_judges() -> None:
    """Without labels, the groups on which a panel or the passes differ most are disputed."""
    result = shortlist(
        named("close", [0.5], each=[{"judges": {"a": 0.5, "b": 0.6}}]),
        named("far", [0.5], each=[{"judges": {"a": 0.2, "b": 0.9}}]),
        named("passes", [0.5], each=[{"spread": 0.3}]),
        named("agreed", [0.5]),
        named("labelled alike", [0.5, 0.7], [1.0, 1.0]),
    )
    assert [t.group.key for t in result.disputed()] == ["far", "passes", "close"]


def test_list_length() -> None:
    """No list exceeds the requested length."""
    for n in (0, 1, 3):
        result = shortlist(*drawn(200), n=n)
        assert len(result.worst()) == len(result.disputed()) == n
