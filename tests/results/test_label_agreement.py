"""Agreement with labels of people: comparisons, several people, and the chances of their draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.results.agreement import Agreement
from ruler_cli.results.label_agreement import LabelAgreement
from ruler_cli.results.labels import PairLabel, latest
from ruler_cli.results.record import GroupRecord
from tests.results.agree_values import scored

IDS = "abcdefgh"


def group(name: str, *scores: float | None) -> GroupRecord:
    """A group whose rollouts are a, b, c and so on."""
    return scored(scores, [None] * len(scores), key=name)


def pair(name: str, choice: str, by: str = "ana", **more: Any) -> PairLabel:
    """A comparison of the rollouts a and b, drawn at random."""
    line: dict[str, Any] = {
        "left": "a",
        "right": "b",
        "drawn": "random",
        **more,
    }
    line["left"] = f"{name}.{line['left']}"
    line["right"] = f"{name}.{line['right']}"
    return PairLabel(group=name, choice=choice, by=by, **line)


def measure(
    groups: Sequence[GroupRecord],
    lines: Sequence[PairLabel] | None,
) -> Agreement:
    """Measure a judge on labels of people; ids are those of a group alone, as ids of what rollouts hold are."""
    labels = None if lines is None else latest(lines)
    result = LabelAgreement(labels)
    for row in groups:
        result.add(
            [f"{row.key}.{name}" for name in IDS[: len(row.rollouts)]], row
        )
    return result.agreement() | {"left": result.left}


def accuracy(result: Agreement, judge: int = 0) -> float:
    """The pairwise accuracy of a judge."""
    value: float = result["scorers"][judge]["pairwise_accuracy"]["value"]
    return value


def test_by_hand() -> None:
    """A tie of the judge counts one half; equal and unsure pairs, and those without a score, are counted apart."""
    scores = {"right": (0.9, 0.1), "wrong": (0.2, 0.8), "tied": (0.5, 0.5)}
    groups = [group(name, *both) for name, both in scores.items()]
    groups += [group(name, 0.9, 0.1) for name in ("equal", "unsure", "none")]
    lines = [pair(name, "left") for name in (*scores, "failed")]
    lines += [pair("equal", "equal"), pair("unsure", "unsure")]
    result = measure([*groups, group("failed", 0.9, None)], lines)
    assert accuracy(result) == pytest.approx(0.5)
    (scorer,) = result["scorers"]
    assert (scorer["pairs"], scorer["against"], scorer["tied"]) == (3, 1, 1)
    assert result["labelled"] == {
        "of": "comparisons", "drawn": "random", "measured": 3, "equal": 1, "unsure": 1,
        "unscored": 1, "not_asked": 0, "shared": 0, "unmatched": 0,
    }  # fmt: skip
    assert scorer["by_gap"][0]["pairs"] == 2


def test_chances() -> None:
    """A label that was drawn half as often counts twice, as in files of earlier versions; counts are those of pairs."""
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(3)]
    chances = ("left", 0.5), ("left", 0.5), ("right", 0.25)
    lines = [
        pair(f"g{i}", side, chance=c) for i, (side, c) in enumerate(chances)
    ]
    result = measure(groups, lines)
    assert accuracy(result) == pytest.approx(4 / 8)
    assert result["scorers"][0]["pairs"] == 3


def test_drawn_apart() -> None:
    """If any label was drawn at random only those count, and disputed ones never do."""
    groups = [group(f"g{i}", 0.9, 0.1) for i in range(18)]
    lines = [pair(f"g{i}", "left") for i in range(6)]
    chosen = [pair(f"g{i}", "right", drawn="") for i in range(6, 12)]
    disputed = [pair(f"g{i}", "right", drawn="disputed") for i in range(12, 18)]
    result = measure(groups, [*lines, *chosen, *disputed])
    assert (accuracy(result), result["labelled"]["measured"]) == (1.0, 6)
    result = measure(groups, [*chosen, *disputed])
    assert (accuracy(result), result["labelled"]["drawn"]) == (0.0, "")
    with pytest.raises(UsageError, match="none at random"):
        measure(groups, disputed)


def test_homes() -> None:
    """A label holds in the group of its name, or of another name if the rollouts have one label; once in a file."""
    ids = ["x", "y"]
    lines = [
        PairLabel(
            group=name, left="x", right="y", choice=choice, drawn="random"
        )
        for name, choice in (("g0", "left"), ("g1", "right"))
    ]
    counts = []
    for labels, names in (
        (lines, ("g1", "g0", "g2")),
        (lines[:1], ("else", "more")),
    ):
        result = LabelAgreement(latest(labels))
        for i, name in enumerate(names):
            result.add([*ids, f"{i}"], group(name, 0.9, 0.1, 0.5))
        counts.append((accuracy(result.agreement()), result.left))
    assert counts == [(0.5, []), (1.0, [])]
