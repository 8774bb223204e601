"""Agreement with labels of people: comparisons, marks, several people, corrections and the gate."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.results.agreement import Agreement
from ruler_cli.results.label_agreement import LabelAgreement, LabelledRollouts, gate
from ruler_cli.results.labels import LabelLine, Labels, PairLabel, RolloutMark
from ruler_cli.results.record import GroupRecord
from tests.results.agree_values import scored

IDS = "abcdefgh"
Choices = dict[str, str]
"""The choice of each person."""


def group(name: str, *scores: float | None, labels: Sequence[Any] = ()) -> GroupRecord:
    """A group whose rollouts are a, b, c and so on."""
    return scored(scores, labels or [None] * len(scores), key=name)


def pair(name: str, choice: str, by: str = "ana", **more: Any) -> PairLabel:
    """A comparison of the rollouts a and b, drawn at random."""
    line: dict[str, Any] = {"left": "a", "right": "b", "drawn": "random", **more}
    return PairLabel(name, choice=choice, by=by, **line)  # type: ignore[arg-type]


def named(line: LabelLine) -> LabelLine:
    """A line with ids that are those of its group alone, as ids of what rollouts hold are."""
    if isinstance(line, PairLabel):
        left, right = (f"{line.group}.{one}" for one in (line.left, line.right))
        return replace(line, left=left, right=right)
    return replace(line, rollout=line.rollout and f"{line.group}.{line.rollout}")


def measure(
    groups: Sequence[GroupRecord],
    lines: Sequence[LabelLine] | None,
    *,
    given: bool = False,
) -> tuple[Agreement, LabelAgreement]:
    """Measure a judge on labels of people."""
    labels = None if lines is None else Labels.of(map(named, lines))
    result = LabelAgreement(labels, "score", given=given)
    for one in groups:
        ids = [f"{one.key}.{name}" for name in IDS[: len(one.rollouts)]]
        result.add(LabelledRollouts(ids), one)
    return result.agreement(), result


def accuracy(result: Agreement, judge: int = 0) -> dict[str, Any]:
    """The pairwise accuracy of a judge."""
    value: dict[str, Any] = result["scorers"][judge]["pairwise_accuracy"]
    return value


def test_by_hand() -> None:
    """A tie of the judge counts one half; equal and unsure pairs, and those without a score, are counted apart."""
    scores = {"right": (0.9, 0.1), "wrong": (0.2, 0.8), "tied": (0.5, 0.5)}
    groups = [group(name, *both) for name, both in scores.items()]
    more = [group(name, 0.9, 0.1) for name in ("equal", "unsure", "none")]
    failed = group("failed", 0.9, None)
    lines = [pair(name, "left") for name in (*scores, "failed")]
    lines += [pair("equal", "equal"), pair("unsure", "unsure")]
    result, _ = measure([*groups, *more, failed], lines)
    assert accuracy(result)["value"] == pytest.approx(0.5)
    (scorer,) = result["scorers"]
    assert (scorer["pairs"], scorer["against"], scorer["tied"]) == (3, 1, 1)
    files = result["label_files"]
    counts = {name: files[name] for name in ("measured", "equal", "unsure", "unscored")}
    assert counts == {"measured": 3, "equal": 1, "unsure": 1, "unscored": 1}
    assert (files["of"], files["drawn"]) == ("comparisons", "random")
    assert scorer["by_gap"][0]["pairs"] == 2


def test_either_side() -> None:
    """It does not matter which rollout stood left, nor which person's line came first."""
    turned = pair("g0", "right", left="b", right="a", by="bo")
    lines = [pair("g0", "left"), turned, pair("g1", "left"), pair("g1", "right", "bo")]
    groups = [group(name, 0.9, 0.1) for name in ("g0", "g1")]
    result, _ = measure(groups, lines)
    assert accuracy(result)["value"] == pytest.approx(0.75)
    assert measure(groups, lines[::-1])[0] == result


def test_chance() -> None:
    """A pair that was drawn half as often counts twice; the counts are those of pairs."""
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(3)]
    lines = [
        pair("g0", "left", chance=0.5),
        pair("g1", "left", chance=0.5),
        pair("g2", "right", chance=0.25),
    ]
    result, _ = measure(groups, lines)
    assert accuracy(result)["value"] == pytest.approx(4 / 8)
    assert result["scorers"][0]["pairs"] == 3


def test_pages_with_other_draws() -> None:
    """Labels of several draws, one for each person, say of all pairs what those of one draw say."""
    groups = [group("small", 0.9, 0.1), group("large", *[0.9, 0.1] * 4)]
    lines = [pair("small", "left", by, chance=1.0) for by in ("ana", "bo")]
    for by, left, right in (("ana", "a", "b"), ("bo", "c", "d")):
        sides: dict[str, Any] = {"left": left, "right": right, "chance": 0.1}
        lines.append(pair("large", "right", by, **sides))
    result, _ = measure(groups, lines)
    assert accuracy(result)["value"] == pytest.approx(1 / 11)


def test_drawn_apart() -> None:
    """Labels that were not drawn at random never mix with those that were; alone they are all there is."""
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(12)]
    random_lines = [pair(f"g{i}", "left") for i in range(6)]
    disputed = [pair(f"g{i}", "right", drawn="disputed") for i in range(6, 12)]
    result, _ = measure(groups, [*random_lines, *disputed])
    assert accuracy(result)["value"] == 1.0
    assert result["label_files"]["measured"] == 6
    unscored = group("g6", 0.9, None)
    result, _ = measure([*groups[:6], unscored], [*random_lines, disputed[0]])
    files = result["label_files"]
    assert (files["unscored"], files["left_out"]) == (0, 1)
    result, _ = measure(groups, disputed)
    assert accuracy(result)["value"] == 0.0
    assert result["label_files"]["drawn"] == "disputed"


def test_several_people() -> None:
    """The judge is measured against one person at random, as people are against one another."""
    lines = [
        *(pair("g0", choice, by) for by, choice in (("ana", "left"), ("bo", "left"))),
        *(pair("g1", choice, by) for by, choice in (("ana", "left"), ("bo", "right"))),
        *(pair("g2", choice, by) for by, choice in (("ana", "left"), ("bo", "equal"))),
        pair("g3", "right"),
    ]
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(4)]
    result, _ = measure(groups, lines)
    assert accuracy(result)["value"] == pytest.approx((2 + 1 + 2 + 0) / 7)
    people = result["people"]
    assert people["agreement"]["value"] == pytest.approx((1 + 0 + 1 / 2) / 3)
    # on the pairs of several
    assert people["judge"]["value"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert result["label_files"]["shared"] == 3
    assert measure(groups, lines[:1])[0]["people"] is None


def test_panel_and_criteria() -> None:
    """The judges of a panel, and the values of criteria, are measured on comparisons like the score itself."""
    groups = []
    for i in range(8):
        panel = {"one": (0.9, 0.1), "two": (0.1, 0.9), "three": (0.9, 0.1 + 0.1 * i)}
        both = [
            replace(rollout, criteria=[{"name": "brief", "value": value}])
            for rollout, value in zip(
                scored([0.9, 0.1], [None, None], judges=panel).rollouts,
                (0.2, 0.2 if i < 4 else 0.8),
                strict=True,
            )
        ]
        groups.append(GroupRecord("scored", f"g{i}", rollouts=tuple(both)))
    result, _ = measure(groups, [pair(f"g{i}", "left") for i in range(8)])
    assert [accuracy(result, i)["value"] for i in range(4)] == [1.0, 1.0, 0.0, 1.0]
    (brief,) = result["criteria"]
    assert (brief["name"], brief["pairs"], brief["tied"]) == ("brief", 8, 4)
    assert brief["pairwise_accuracy"]["value"] == pytest.approx(2 / 8)


def test_marks() -> None:
    """Labels of rollouts have the figures of labels in records; of several people the mean counts."""
    groups = [group(f"g{i}", 0.9, 0.5, 0.1) for i in range(6)]
    lines = [
        RolloutMark(f"g{i}", one, label=label, by=by)
        for i in range(6)
        for one, label in zip("abc", (1.0, 0.5, 0.0), strict=True)
        for by in ("ana", "bo")
    ]
    lines[0] = replace(lines[0], label=0.0)  # the mean of the first is one half
    result, _ = measure(groups, [*lines, RolloutMark("g0", mark="reviewed")])
    assert accuracy(result)["value"] == 1.0
    assert result["scorers"][0]["pairs"] == 17
    assert result["label_files"]["of"] == "rollouts"


def test_precedence() -> None:
    """A mark comes before the record's label, which counts for others only if its path is given."""
    groups = [group(f"g{i}", 0.9, 0.5, 0.1, labels=(0, 0, 1)) for i in range(6)]
    lines = [RolloutMark(f"g{i}", "a", label=2.0) for i in range(6)]
    lines += [RolloutMark(f"g{i}", "c", label=-1.0) for i in range(6)]
    alone, _ = measure(groups, lines)
    assert (accuracy(alone)["value"], alone["scorers"][0]["pairs"]) == (1.0, 6)
    both, _ = measure(groups, lines, given=True)
    assert (accuracy(both)["value"], both["scorers"][0]["pairs"]) == (1.0, 18)
    none, _ = measure(groups, None)
    assert accuracy(none)["value"] == 0.0
    assert none["label_files"] is None


def test_marks_with_chances() -> None:
    """If marks were drawn with chances that differ, a pair counts by the inverse of both."""
    groups = [group(f"g{i}", 0.9, 0.5, 0.1) for i in range(2)]
    marked = {"g0": (0.5, 0.5), "g1": (0.5, 0.25)}
    lines = []
    for number, (name, chances) in enumerate(marked.items()):
        for one, label, chance in zip("ac", (1 - number, number), chances, strict=True):
            mark = RolloutMark(name, one, label=label, drawn="random", chance=chance)
            lines.append(mark)
    result, _ = measure(groups, lines)
    assert accuracy(result)["value"] == pytest.approx(4 / (4 + 8))


def test_unknown_labels() -> None:
    """Labels of groups and rollouts that no file has are left over, and change nothing."""
    lines = [pair("g0", "left"), pair("other", "left"), pair("g0", "left", left="zz")]
    marks = [RolloutMark("g0", "zz", label=1.0), RolloutMark("other", mark="seen")]
    result, labels = measure([group("g0", 0.9, 0.1)], [*lines, *marks])
    assert sorted(labels.left) == [
        ("g0", "g0.b", "g0.zz"), ("g0", "g0.zz"), ("other", "other.a", "other.b"),
    ]  # fmt: skip

    assert result["label_files"]["unmatched"] == 3
    assert result["scorers"][0]["pairs"] == 1


def test_corrected_mean() -> None:
    """Labels of some rollouts, and scores of all that are half of them, give the mean label of all."""
    dice = random.Random(3)
    truths = [[float(dice.random() < 0.7) for _ in range(4)] for _ in range(100)]
    groups = [
        group(f"g{i}", *(t / 2 for t in own), labels=(own[0], None, None, None))
        for i, own in enumerate(truths)
    ]
    result, _ = measure(groups, None)
    mean = result["corrected"]["mean"]
    assert (mean["number"], mean["labelled"]) == (400, 100)
    assert mean["corrected"]["value"] == pytest.approx(
        2 * mean["scores"]["value"], abs=0.01
    )
    assert mean["weight"] == pytest.approx(2, abs=0.2)
    # if all have labels there is nothing to correct
    full = [group(f"g{i}", 0.5, 0.6, labels=(1, 0)) for i in range(9)]
    assert measure(full, None)[0]["corrected"]["mean"] is None
    # marks that were not drawn at random correct nothing
    marks = [RolloutMark(f"g{i}", "a", label=1.0) for i in range(50)]
    mean = measure(groups, marks)[0]["corrected"]["mean"]
    assert mean is None


def right(number: int, of: int) -> Agreement:
    """A judge that is right about so many of so many pairs, each of a group."""
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(of)]
    lines = [pair(f"g{i}", "left" if i < number else "right") for i in range(of)]
    return measure(groups, lines)[0]


def test_gate() -> None:
    """A judge passes if its interval lies above the bound; too few groups for an interval are refused."""
    passed = gate(right(19, 20), 0.7)
    assert (passed["passed"], passed["labels"]) == (True, 20)
    assert passed["low"] > 0.7
    for number in (16, 4):
        assert not gate(right(number, 20), 0.7)["passed"]
    with pytest.raises(UsageError, match="label a pair in 5 groups"):
        gate(right(3, 3), 0.7)
