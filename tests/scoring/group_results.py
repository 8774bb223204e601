"""Results of groups, as builders and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ruler_cli.types import (
    FailedCall,
    GroupError,
    GroupResult,
    Kind,
    PassScores,
)

scores = st.floats(0, 1) | st.sampled_from(
    [0.0, 0.05, 0.1, 0.3, 0.5, 0.95, 1.0]
)


def one_pass(
    inputs: Sequence[float], pass_index: int = 0, judge: int = 0, **more: Any
) -> PassScores:
    """A judge's scores of distinct rollouts 0, 1, …, shown in this order or in that of `distinct`."""
    distinct = tuple(more.pop("distinct", range(len(inputs))))
    replies = tuple(
        f"judge {judge} turn {pass_index} body {rollout}"
        for rollout in distinct
    )
    return PassScores(
        judge,
        pass_index,
        more.pop("window", 0),
        distinct,
        tuple(inputs),
        replies,
        **more,
    )


def failed_call(
    pass_index: int = 0,
    judge: int = 0,
    kind: Kind = "reply",
    reason: str = "it said nothing",
) -> FailedCall:
    """A request that brought no scores."""
    return FailedCall(judge, pass_index, 0, GroupError(kind, reason))


def group_result(*replies: PassScores | FailedCall, **more: Any) -> GroupResult:
    """A group with these replies; its distinct readable rollouts are those of the first."""
    pass_scores = tuple(s for s in replies if isinstance(s, PassScores))
    size = more.pop("size", len(pass_scores[0].distinct) if pass_scores else 2)
    fields = {
        "owner": tuple(range(size)),
        "sizes": (100,) * size,
        "pass_scores": pass_scores,
        "failed_calls": tuple(s for s in replies if isinstance(s, FailedCall)),
    } | more
    fields.setdefault("reasons", ("",) * len(fields["owner"]))
    return GroupResult(**fields)


@st.composite
def groups(
    draw: st.DrawFn, least: int = 1, passes: int = 4, judges: int = 3
) -> GroupResult:
    """A group as judges may have scored it: each pass in its own order, rollouts alike or unreadable."""
    n = draw(st.integers(least, 6))
    panel = draw(st.integers(1, judges))
    replies = []
    for judge in range(panel):
        for pass_index in range(draw(st.integers(1, passes))):
            order = draw(st.permutations(range(n)))
            inputs = draw(st.lists(scores, min_size=n, max_size=n))
            replies.append(one_pass(inputs, pass_index, judge, distinct=order))
    more = draw(st.lists(st.none() | st.integers(0, n - 1), max_size=3))
    owner = draw(st.permutations([*range(n), *more]))
    return group_result(
        *replies,
        size=n,
        owner=tuple(owner),
        reasons=tuple(
            "no messages" if rollout is None else "" for rollout in owner
        ),
        sizes=tuple(
            draw(st.lists(st.integers(1, 10**6), min_size=n, max_size=n))
        ),
        judges=panel,
        rewards=tuple(
            draw(
                st.lists(
                    st.floats(0, 1), min_size=len(owner), max_size=len(owner)
                )
            )
        ),
        outcomes=tuple(
            draw(
                st.lists(
                    st.sampled_from([None, False, True]),
                    min_size=len(owner),
                    max_size=len(owner),
                )
            )
        ),
    )
