"""Scores, labels, places and costs as scored files hold them, and groups of two files side by side."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.agreement.scored import LEFT_OUT, Extract, Scored, paired
from ruler_cli.marked.read import MOST_JUDGES
from ruler_cli.records import Group
from tests.agreement.values import scored
from tests.values import read, reader, talk


def mark(score: Any, **more: Any) -> dict[str, Any]:
    """A mark as `score` writes it."""
    return {"status": "scored", "score": score, "judge": "m", "independent_reward": 1.0, **more}


def trajectory(ruler: Any, **more: Any) -> dict[str, Any]:
    """A trajectory of group g."""
    return {"group_id": "g", "messages": talk("four"), "reward": 0.1, "ruler": ruler, **more}


def of(*records: dict[str, Any], digests: bool = False, **told: Any) -> tuple[Scored, Counter[str]]:
    """These records as one group."""
    extract = Extract(reader(*records, **told), given="outcome" in told, digests=digests)
    found = read(*records, **told)
    return extract.group(Group(str(found[0].key), tuple(found))), extract.seen


def column(found: Scored, name: str) -> list[Any]:
    """A field of each rollout."""
    return [getattr(item, name) for item in found.items]


def test_what_is_measured() -> None:
    """Score, first reward, mean place, and the cost of the group, once."""
    group = {"cost_usd": 0.25}
    found, seen = of(
        trajectory(mark(0.5, slots=[0, 0.5], group=group)),
        trajectory(mark(0.75, slots=[1, 0.5], group=group, independent_reward=0)),
    )
    assert column(found, "score") == [0.5, 0.75]
    assert column(found, "label") == [1.0, 0.0]
    assert column(found, "place") == [0.25, 0.75]
    assert column(found, "size") == [len(b'[{"role":"assistant","content":"four"}]')] * 2
    assert found.cost == 0.25
    assert (seen["groups"], seen["rollouts"], seen["scored"]) == (1, 2, 2)
    assert not any(seen[name] for name in LEFT_OUT)


def test_the_judges_own() -> None:
    """Where an outcome or a reward moved a score, what the judge said counts: the score holds its label."""
    found, seen = of(trajectory(mark(0.9, judge_score=0.4)), trajectory(mark(0.5)))
    assert column(found, "score") == [0.4, 0.5]
    assert (seen["moved"], seen["scored"]) == (1, 2)


def test_failures_are_no_zeros() -> None:
    """What failed, has no mark or no label is counted and has no number."""
    failed = {"status": "failed", "kind": "refused", "reason": "no", "independent_reward": 1}
    found, seen = of(
        trajectory(failed, reward=None),
        {"group_id": "g", "messages": talk("x"), "reward": 0.5},
        trajectory(mark(0.5, independent_reward=None), reward=0.5),
        trajectory(mark(0.5, independent_reward="maybe")),
        trajectory(mark("0.5")),
    )
    assert column(found, "score") == [None, None, 0.5, 0.5, None]
    assert column(found, "label") == [1.0, 0.5, None, None, 1.0]
    assert all(seen[name] == (name != "more_judges") for name in LEFT_OUT)


def test_labels_of_the_users_own() -> None:
    """Labels at a path are counted where they are no numbers, and where they are the scores."""
    given: list[Any] = ["passed", False, None, [{}], 0.5]
    found, seen = of(*[trajectory(mark(0.5), metadata={"ok": ok}) for ok in given], outcome="metadata.ok")
    assert column(found, "label") == [1.0, 0.0, None, None, 0.5]
    assert (seen["unlabelled"], seen["odd_labels"], seen["own_labels"]) == (1, 1, 1)


def test_odd_panels() -> None:
    """A judge without a number has none; of very many judges the first few count, the rest is counted."""
    found, seen = of(trajectory(mark(0.5, judges={"a": "x", "b": 0.5})), trajectory(mark(0.5, judges=["a"])))
    assert column(found, "judges") == [{"b": 0.5, "a": None}, {}]
    found, seen = of(*[trajectory(mark(0.5, judges={f"{i}{j}": 0.5 for j in range(9)})) for i in range(2)])
    assert [len(judges) for judges in column(found, "judges")] == [MOST_JUDGES, 0]
    assert seen["more_judges"] == 18 - MOST_JUDGES


def test_odd_costs() -> None:
    """A cost that is none is not known, and counted."""
    found, seen = of(trajectory(mark(0.5, group={"cost_usd": -1})))
    assert (found.cost, seen["odd_costs"]) == (None, 1)


def test_digests() -> None:
    """Rollouts are known again by their messages, whatever was written beside them."""
    records = (
        trajectory(mark(0.5)),
        trajectory(mark(0.9), logs=["x"]),
        trajectory(mark(0.5)) | {"messages": talk("five")},
    )
    one, same, other = (column(of(record, digests=True)[0], "digest") for record in records)
    assert one == same != other
    assert column(of(records[0])[0], "digest") == [b""]


def made(key: str, *texts: str, labels: tuple[float | None, ...] | None = None) -> Scored:
    """A group of rollouts with these texts."""
    scores = [0.5] * len(texts)
    return scored(scores, labels or scores, key=key, digest=[text.encode() for text in texts])


def matched(
    one: list[Scored], other: list[Scored]
) -> tuple[list[tuple[Scored, Scored]], dict[str, Any], list[str]]:
    """What comes of two files."""
    found, said = dict[str, Any](), list[str]()
    pairs = list(paired(iter(one), iter(other), found, said.append))
    return pairs, found, said


@given(st.permutations("abcdef"), st.permutations("abcdef"), st.integers(0, 6), st.integers(0, 6))
def test_groups_meet_by_key(one: list[str], other: list[str], m: int, n: int) -> None:
    """In any two orders each group that both files hold is found once, and the others are counted."""
    pairs, found, said = matched([made(k, k) for k in one[:m]], [made(k, k) for k in other[:n]])
    common = set(one[:m]) & set(other[:n])
    assert sorted(a.key for a, _ in pairs) == sorted(common)
    assert all(a == b for a, b in pairs)
    assert found == {"groups": len(common), "unlike": 0, "alone": [m - len(common), n - len(common)]}
    assert len(said) == m + n - 2 * len(common)


def test_nothing_is_paired_by_guess() -> None:
    """Groups of one key with other rollouts, more of them or other labels are left out and named."""
    one = [made(k, "x", "y") for k in "abcd"]
    unlike = [
        made("a", "x", "z"),
        made("b", "x"),
        made("c", "x", "y", labels=(0.5, 0.7)),
        made("d", "y", "x"),
    ]
    pairs, found, said = matched(one, unlike)
    assert (pairs, found) == ([], {"groups": 0, "unlike": 4, "alone": [0, 0]})
    for sentence, part in zip(
        said, ("1 of its 2 rollouts are others", "1 in the second", "labels", "2 of its 2"), strict=True
    ):
        assert part in sentence


def test_a_key_that_repeats() -> None:
    """Groups of the same key meet in the order in which they stand."""
    twice = [made("a", "1"), made("a", "2")]
    pairs, _, said = matched(twice, twice)
    assert (pairs, said) == ([(one, one) for one in twice], [])


def test_either_label() -> None:
    """Where one file has no label that of the other counts for both."""
    [(a, b)], _, _ = matched(
        [made("a", "x", "y", labels=(None, 1.0))], [made("a", "x", "y", labels=(0.0, None))]
    )
    assert column(a, "label") == column(b, "label") == [0.0, 1.0]
