"""Two files of one input, side by side."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.paired import Matched, paired
from ruler_cli.agreement.scored import Scored
from tests.agreement.values import scored


def made(key: str, *texts: str, labels: tuple[float | None, ...] | None = None) -> Scored:
    """A group of rollouts with these texts."""
    scores = [0.5] * len(texts)
    return scored(scores, labels or scores, key=key, prints=tuple(text.encode() for text in texts))


def matched(one: list[Scored], other: list[Scored]) -> tuple[list[tuple[Scored, Scored]], Matched, list[str]]:
    """What comes of two files."""
    found, said = Matched(), list[str]()
    pairs = list(paired(iter(one), iter(other), found, said.append))
    return pairs, found, said


@given(st.permutations("abcdef"), st.permutations("abcdef"), st.integers(0, 6), st.integers(0, 6))
def test_groups_meet_by_key(one: list[str], other: list[str], m: int, n: int) -> None:
    """In any two orders each group that both files hold is found once, and the others are counted."""
    pairs, found, said = matched([made(k, k) for k in one[:m]], [made(k, k) for k in other[:n]])
    common = set(one[:m]) & set(other[:n])
    assert sorted(a.key for a, _ in pairs) == sorted(common)
    assert all(a.key == b.key and a.prints == b.prints for a, b in pairs)
    assert found == Matched(len(common), 0, (m - len(common), n - len(common)))
    assert len(said) == m + n - 2 * len(common)


def test_nothing_is_paired_by_guess() -> None:
    """Groups of one key with other rollouts, more of them or other labels are left out and named."""
    one = [made(k, "x", "y") for k in "abcd"]
    other = [
        made("a", "x", "z"),
        made("b", "x"),
        made("c", "x", "y", labels=(0.5, 0.7)),
        made("d", "y", "x"),
    ]
    pairs, found, said = matched(one, other)
    assert (pairs, found) == ([], Matched(0, 4, (0, 0)))
    assert "1 of its 2 rollouts are others" in said[0]
    assert "has 2 rollouts in the first file and 1 in the second" in said[1]
    assert "labels" in said[2]
    assert "2 of its 2 rollouts" in said[3]


def test_a_key_that_repeats() -> None:
    """Groups of the same key meet in the order in which they stand."""
    pairs, _, said = matched([made("a", "1"), made("a", "2")], [made("a", "1"), made("a", "2")])
    assert [(a.prints, b.prints) for a, b in pairs] == [((b"1",), (b"1",)), ((b"2",), (b"2",))]
    assert not said


def test_either_label() -> None:
    """Where one file has no label that of the other counts for both."""
    one = made("a", "x", "y", labels=(None, 1.0))
    other = replace(one, labels=(0.0, None))
    [(a, b)], _, _ = matched([one], [other])
    assert a.labels == b.labels == (0.0, 1.0)
