"""Groups of two files side by side."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.results.pairing import DigestedGroup, GroupPair, pair_groups, with_digests
from ruler_cli.results.scored_file import AnnotationReader
from ruler_cli.types import Group
from tests.results.agree_values import scored
from tests.values import read, reader, talk


def test_digest() -> None:
    """The digest of a rollout depends on its messages only."""
    record = {"group_id": "g", "messages": talk("four"), "ruler": {"status": "scored", "score": 0.5}}
    records = (record, record | {"logs": ["x"], "reward": 1}, record | {"messages": talk("five")})
    groups = [Group("g", tuple(read(one))) for one in records]
    one, same, other = (
        with_digests(group, AnnotationReader(reader(record)).group(group))[1] for group in groups
    )
    assert one == same != other


def make_group(key: str, *texts: str, labels: tuple[float | None, ...] | None = None) -> DigestedGroup:
    """A group of rollouts with these texts."""
    scores = [0.5] * len(texts)
    return scored(scores, labels or scores, key=key), tuple(text.encode() for text in texts)


def matched(
    one: list[DigestedGroup], other: list[DigestedGroup]
) -> tuple[list[GroupPair], dict[str, Any], list[str]]:
    """Pair the groups of two files."""
    result, output = dict[str, Any](), list[str]()
    pairs = list(pair_groups(iter(one), iter(other), result, output.append))
    return pairs, result, output


@given(st.permutations("abcdef"), st.permutations("abcdef"), st.integers(0, 6), st.integers(0, 6))
def test_by_key(first: list[str], second: list[str], m: int, n: int) -> None:
    """In any two orders each group of both files is paired once, and the others are counted."""
    pairs, result, output = matched(
        [make_group(k, k) for k in first[:m]], [make_group(k, k) for k in second[:n]]
    )
    common = set(first[:m]) & set(second[:n])
    assert sorted(pair.one.key for pair in pairs) == sorted(common)
    assert all(pair.one == pair.other for pair in pairs)
    assert all(first[pair.number - 1] == pair.one.key for pair in pairs)
    assert result == {"groups": len(common), "unlike": 0, "alone": [m - len(common), n - len(common)]}
    assert len(output) == m + n - 2 * len(common)


def test_different_groups() -> None:
    """Groups of one key with different rollouts, sizes or labels are left out and named."""
    one = [make_group(k, "x", "y") for k in "abcd"]
    unlike = [
        make_group("a", "x", "z"),
        make_group("b", "x"),
        make_group("c", "x", "y", labels=(0.5, 0.7)),
        make_group("d", "y", "x"),
    ]
    pairs, result, output = matched(one, unlike)
    assert (pairs, result) == ([], {"groups": 0, "unlike": 4, "alone": [0, 0]})
    for sentence, part in zip(
        output, ("1 of its 2 rollouts are others", "1 in the second", "labels", "2 of its 2"), strict=True
    ):
        assert part in sentence


def test_repeated_key() -> None:
    """Groups of the same key are paired in file order."""
    twice = [make_group("a", "1"), make_group("a", "2")]
    pairs, _, output = matched(twice, twice)
    assert (pairs, output) == ([(one, one, i) for i, (one, _) in enumerate(twice, 1)], [])


def test_either_label() -> None:
    """A label that is missing in one file is taken from the other."""
    [(a, b, _)], _, _ = matched(
        [make_group("a", "x", "y", labels=(None, 1.0))], [make_group("a", "x", "y", labels=(0.0, None))]
    )
    assert [r.label for r in a.rollouts] == [r.label for r in b.rollouts] == [0.0, 1.0]
