"""Groups that deserve a look."""

from __future__ import annotations

from typing import Any

from ruler_cli.results.highlights import (
    Best,
    Shortlist,
    reasons,
)
from ruler_cli.results.record import GroupRecord
from tests.results.report.values import drawn, group, rollout

FAILED = group([None, None], kind="reply")
AGAINST = group([0.1, 0.9], [1.0, 0.0], reliability=1.0)
UNSURE = group([0.4, 0.6], reliability=0.1)
REST = GroupRecord(key="g", rollouts=(rollout(None),))


def test_order() -> None:
    """The worst come first, then those with most pairs against their labels; the rest keeps its order."""
    refused, budget = group([None], kind="refused"), group([None], kind="budget")
    more = group([0.9, 0.8, 0.1], [0.0, 0.0, 1.0], reliability=1.0)
    groups = [REST, budget, UNSURE, AGAINST, more, FAILED, FAILED, refused, REST]
    best, result = Best[int](9), Shortlist()
    for number, one in enumerate(groups, 1):
        best.add(result.add(one), number)
    assert best.ranked() == [6, 8, 3, 7, 5, 4, 2, 1, 9]
    assert reasons(more) == reasons(AGAINST) == ["disagrees", "spread"]


def test_most() -> None:
    """The best of a ranking are the first of the whole order."""
    groups = list(drawn(400))
    ranks = [Shortlist().add(one) for one in groups]
    for most in (0, 1, 7, 100, 400):
        best = Best[int](most)
        for number, rank in enumerate(ranks):
            best.add(rank, number)
        whole = sorted(range(400), key=lambda i: ranks[i], reverse=True)
        assert best.ranked() == whole[:most]


def shortlist(*groups: GroupRecord, n: int = 5) -> Shortlist:
    """Shortlist these groups."""
    result = Shortlist(n)
    for one in groups:
        result.add(one)
    return result


def named(
    key: str,
    scores: list[float | None],
    labels: list[float | None] | None = None,
    **more: Any,
) -> GroupRecord:
    """A group with this key."""
    return group(scores, labels or [], key=key, **more)


def test_worst() -> None:
    """A failed group of each kind stands first, then suspects, ties, unreliable ones, other failures."""
    result = shortlist(
        named("fine", [0.1, 0.9], reliability=1.0),
        named("shaky", [0.4, 0.5], reliability=0.3),
        named("tied", [0.5, 0.5], [0.0, 1.0]),
        named("suspect", [0.5, 0.6], each=[{"suspect": True}, {}]),
        named("lost", [None], kind="reply"),
        named("lost too", [None], kind="reply"),
        named("refused", [None], kind="refused"),
        named("not reached", [None], kind="budget"),
        named("stopped", [None], kind="interrupted"),
        n=10,
    )
    assert [(t.group.key, t.because) for t in result.lists()["worst"]] == [
        ("lost", "failed"),
        ("refused", "failed"),
        ("suspect", "suspect"),
        ("tied", "tied"),
        ("shaky", "unsure"),
        ("lost too", "failed"),
    ]
    assert [t.why for t in result.lists()["worst"]][2:5] == [
        "suspect",
        "tied, rewards differ",
        "reliability 0.30",
    ]
    assert [t.ordinal for t in result.lists()["worst"]] == [5, 7, 4, 3, 2, 6]


def test_no_reason_no_list() -> None:
    """A group without a reason is in no list: good reliability, small spreads, few pairs against labels."""
    nine: list[float | None] = [float(i < 3) for i in range(6)]
    groups = [
        named("sure", [0.1, 0.9], reliability=0.99),
        named("fair", [0.4, 0.5], reliability=0.5),
        named("steady", [0.5, 0.6], each=[{"spread": 0.06}, {}]),
        named("tied alike", [0.5, 0.5], [1.0, 1.0]),
        named("half a pair", [0.8, 0.7, 0.7], [1.0, 0.0, 1.0]),
        named("one of nine", [0.9, 0.8, 0.5, 0.6, 0.2, 0.1], nine),
    ]
    result = shortlist(*groups)
    assert [
        t.group.key for t in (*result.lists()["worst"], *result.lists()["disputed"])
    ] == []
    assert [reasons(one) for one in groups] == [
        ["spread"],
        [],
        [],
        ["tied"],
        [],
        ["spread"],
    ]
    assert reasons(named("close", [0.5, 0.62])) == []
    assert (
        shortlist(named("a", [0.5], each=[{"panel": {"a": 0.5, "b": 0.6}}])).lists()[
            "disputed"
        ]
        == []
    )


def test_other_groups() -> None:
    """Of a small file the groups without a reason are named too, in input order."""
    groups = [named("a", [0.5, 0.5]), named("b", [None]), named("c", [0.2, 0.4]), REST]
    others = shortlist(*groups).lists()["others"]
    named_ = [(t.group.key, t.why, t.ordinal) for t in others]
    assert named_ == [("a", "tied", 1), ("c", "", 3), ("g", "not judged", 4)]
    assert len(shortlist(*[groups[2]] * 9).lists()["others"]) == 9
    assert shortlist(*[groups[2]] * 10).lists()["others"] == []


def test_disputed_by_labels() -> None:
    """If labels differ, the groups with most pairs scored against them are disputed."""
    result = shortlist(
        named("panel", [0.5, 0.5], each=[{"panel": {"a": 0.0, "b": 1.0}}, {}]),
        named("one", [0.1, 0.9], [1.0, 0.0]),
        named("two", [0.1, 0.9, 0.9], [1.0, 0.0, 0.0]),
        named("none", [0.1, 0.9], [0.0, 1.0]),
    )
    assert [(t.group.key, t.because, t.why) for t in result.lists()["disputed"]] == [
        ("two", "disagrees", "2 of 2 pairs"),
        ("one", "disagrees", "1 of 1 pairs"),
    ]
    assert result.dispute == "scores against the original reward"


def test_disputed_by_judges() -> None:
    """Without labels, the groups on which a panel or the passes differ most are disputed."""
    result = shortlist(
        named("close", [0.5], each=[{"panel": {"a": 0.5, "b": 0.6}}]),
        named("far", [0.5], each=[{"panel": {"a": 0.2, "b": 0.9}}]),
        named("passes", [0.5], each=[{"spread": 0.3}]),
        named("agreed", [0.5]),
        named("labelled alike", [0.5, 0.7], [1.0, 1.0]),
    )
    assert [t.group.key for t in result.lists()["disputed"]] == ["far", "passes"]
    assert [t.why for t in result.lists()["disputed"]] == [
        "apart by 0.70",
        "apart by 0.30",
    ]
    assert result.dispute == "the judges of the panel furthest apart"


def test_list_length() -> None:
    """No list exceeds the requested length."""
    for n in (0, 1, 3):
        result = shortlist(*drawn(200), n=n)
        assert len(result.lists()["worst"]) == len(result.lists()["disputed"]) == n
