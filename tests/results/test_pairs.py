"""Groups of two files side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.results.annotations import AnnotationReader
from ruler_cli.results.compare import (
    ComparedGroup,
    DigestedGroup,
    LeftOutGroup,
    pair_groups,
)
from ruler_cli.results.identity import digests_of
from ruler_cli.results.record import GroupRecord
from ruler_cli.types import Group
from tests.results.agree_values import scored
from tests.values import read, reader, talk


def test_digest() -> None:
    """The digest of a rollout depends on its messages only: not on the order of keys, nor on nulls."""
    record = {
        "group_id": "g",
        "messages": talk("four"),
        "ruler": {"status": "scored", "score": 0.5},
    }
    turned = [
        dict(reversed(message.items())) | {"tool_calls": None}
        for message in talk("four")
    ]
    records = (
        record,
        record | {"messages": turned},
        record | {"logs": ["x"], "reward": 1},
        record | {"messages": talk("five")},
        record | {"messages": talk("null")},
    )
    groups = [Group("g", tuple(read(first))) for first in records]
    first, *same, second, named = (
        tuple(digests_of(group, AnnotationReader(reader(record)).group(group)))
        for group in groups
    )
    assert same == [first, first]
    assert len({first, second, named}) == 3


def make_group(
    key: str, *texts: str, labels: tuple[float | None, ...] | None = None
) -> DigestedGroup:
    """A group of rollouts with these texts."""
    scores = [0.5] * len(texts)
    return digested(scored(scores, labels or scores, key=key), texts)


def digested(group: GroupRecord, texts: Sequence[str]) -> DigestedGroup:
    """A group with these texts as digests."""
    return DigestedGroup(0, group, tuple(text.encode() for text in texts))


def matched(
    first: list[DigestedGroup], second: list[DigestedGroup]
) -> tuple[list[ComparedGroup], dict[str, Any], list[str]]:
    """Pair the groups of two files."""
    files = [
        (group._replace(number=number) for number, group in enumerate(file, 1))
        for file in (first, second)
    ]
    result = list(pair_groups(*files))
    pairs = [row for row in result if isinstance(row, ComparedGroup)]
    left = [row for row in result if isinstance(row, LeftOutGroup)]
    sides = [group.side for group in left]
    counts = {"groups": len(pairs), "alone": [sides.count(0), sides.count(1)]}
    return pairs, counts, [group.sentence for group in left]


def numbered(key: str, *texts: str) -> DigestedGroup:
    """A group with another score for each occurrence of a text."""
    scores = [
        1000 * float(text) + texts[:i].count(text)
        for i, text in enumerate(texts)
    ]
    return digested(scored(scores, [None] * len(texts), key=key), texts)


@given(
    st.lists(st.sampled_from("1234"), max_size=6),
    st.lists(st.sampled_from("1234"), max_size=6),
)
def test_repeated_key(first: list[str], second: list[str]) -> None:
    """Groups of the same key are paired by their rollouts, in any order; equal ones in file order."""
    pairs, result, output = matched(
        *([make_group("a", text) for text in file] for file in (first, second))
    )
    common = (Counter(first) & Counter(second)).total()
    left = [len(file) - common for file in (first, second)]
    assert sorted(
        Counter(first[pair.number - 1] for pair in pairs).items()
    ) == sorted((Counter(first) & Counter(second)).items())
    assert result == {"groups": common, "alone": left}
    assert len(output) == sum(left)
    if first == second:
        assert [pair.number for pair in pairs] == [*range(1, len(first) + 1)]
