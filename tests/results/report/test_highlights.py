"""Groups that deserve a look."""

from __future__ import annotations

from typing import Any

from ruler_cli.results.highlights import (
    Shortlist,
)
from ruler_cli.results.record import GroupRecord
from tests.results.report.values import group


def shortlist(*groups: GroupRecord, n: int = 5) -> Shortlist:
    """Shortlist these groups."""
    result = Shortlist(n)
    for row in groups:
        result.add(row)
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
