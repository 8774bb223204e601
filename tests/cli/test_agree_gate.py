"""The gate of `ruler agree`: what counts once, what counts as wrong, and what is left out."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import people
from tests.cli.scored import scored
from tests.conftest import Ruler, write

Group = dict[str, Any]
Change = Callable[[list[Group]], list[Group]]
REASONS = ("reply", "refused", "too_long")
NOT_ASKED = ("budget", "interrupted", "transport", "input")


def groups(number: int, *, right: int, seed: int = 0) -> list[Group]:
    """Groups of two rollouts with rewards 0 and 1; the judge is right about so many of them."""
    dice = random.Random(seed)
    made = []
    for i in range(number):
        scores = [round(dice.uniform(0.1, 0.4), 3), round(dice.uniform(0.6, 0.9), 3)]
        made.append(
            scored(f"g{i}", *(scores if i < right else scores[::-1]), labels=(0.0, 1.0))
        )
    return made


def failed(group: Group, kind: str, *, whole: bool = True) -> Group:
    """The group without scores for this reason, or without that of its last rollout."""
    annotation = {"status": "failed", "kind": kind, "reason": "why", "score": None}
    lost = group["trajectories"][0 if whole else 1 :]
    kept = group["trajectories"][: 0 if whole else 1]
    again = [one | {"ruler": one["ruler"] | annotation} for one in lost]
    own = (
        {"status": "failed", "kind": kind, "reason": "why"} if whole else group["ruler"]
    )
    return group | {"trajectories": [*kept, *again], "ruler": own}


def measured(ruler: Ruler, folder: Path, lines: Sequence[Group], *more: str) -> Any:
    """The JSON of `ruler agree`, with its exit code."""
    write(folder / "s.jsonl", [*lines])
    done = ruler("agree", "s.jsonl", "--json", *more)
    return {
        **json.loads(done.stdout or "{}"),
        "code": done.returncode,
        "stderr": done.stderr,
    }


def renamed(group: Group, name: str) -> Group:
    """The group under another name."""
    return group | {"group_id": name}


def turned(group: Group) -> Group:
    """The group with its rollouts in another order."""
    return group | {"trajectories": group["trajectories"][::-1]}


REPEATS: dict[str, Change] = {
    "twice": lambda lines: lines * 2,
    "four times": lambda lines: lines * 4,
    "side by side": lambda lines: [one for line in lines for one in [line] * 3],
    "renamed": lambda lines: [
        *lines,
        *(renamed(one, f"n{i}") for i, one in enumerate(lines)),
    ],
    "in another order": lambda lines: [*lines, *map(turned, lines[::-1])],
}


@pytest.mark.parametrize("name", [*REPEATS])
def test_repeated_groups(name: str, ruler: Ruler, tmp_path: Path) -> None:
    """A group that stands more than once is no new evidence, whatever its name and order; the number is told."""
    lines = groups(40, right=32)
    once = measured(ruler, tmp_path, lines, "--at-least", "0.6")
    again = measured(ruler, tmp_path, REPEATS[name](lines), "--at-least", "0.6")
    assert again["gate"]["low"] == pytest.approx(once["gate"]["low"], abs=0.02)
    for key in ("groups", "rollouts", "code"):
        assert again[key] == once[key]
    for figure, measure in once["scorers"][0].items():
        if isinstance(measure, dict):
            other = again["scorers"][0][figure]
            assert (other["value"], other["groups"]) == (
                measure["value"],
                measure["groups"],
            )
    assert again["repeated"] == {"groups": 40, "scores": 0, "labels": 0}
    assert "40 groups with equal rollouts, each counted once" in again["stderr"]
    assert once["repeated"]["groups"] == 0
    assert once["stderr"] == ""


def test_repeated_lines(ruler: Ruler, tmp_path: Path) -> None:
    """Of a file with a rollout a line, groups that were repeated weigh no more than others."""
    lines = [
        one | {"group_id": group["group_id"]}
        for group in groups(40, right=32)
        for one in group["trajectories"]
    ]
    once = measured(ruler, tmp_path, lines, "--at-least", "0.6")
    again = measured(
        ruler, tmp_path, [*lines, *lines[:64], *lines[:64]], "--at-least", "0.6"
    )
    assert again["gate"]["low"] == pytest.approx(once["gate"]["low"], abs=0.02)
    assert again["gate"]["value"] == once["gate"]["value"] == 0.8
    assert again["repeated"] == {"groups": 32, "scores": 0, "labels": 0}


def test_repeats_that_differ(ruler: Ruler, tmp_path: Path) -> None:
    """Of scores of one group the mean counts, of its labels too, and the number of either is told."""
    lines = groups(10, right=10)
    first = [
        scored("x", 0.2, 0.4, labels=(0.0, 1.0)),
        scored("x", 0.8, 0.4, labels=(0.0, 1.0)),
    ]
    found = measured(ruler, tmp_path, [*lines, *first])
    assert found["repeated"] == {"groups": 1, "scores": 1, "labels": 0}
    # 0.5 is above 0.4: the mean is wrong, and it is one pair
    assert (found["scorers"][0]["pairs"], found["scorers"][0]["against"]) == (11, 1)
    assert "of 1 of them the scores differ, and the mean counts" in found["stderr"]
    # the labels of both are one half
    other = [scored("x", 0.2, 0.4, labels=own) for own in ((0.0, 1.0), (1.0, 0.0))]
    found = measured(ruler, tmp_path, [*lines, *other])
    assert found["repeated"] == {"groups": 1, "scores": 0, "labels": 1}
    assert found["scorers"][0]["pairs"] == 10


def test_others_count_each(ruler: Ruler, tmp_path: Path) -> None:
    """Two files count a repeated group once in `agree`, and `report` counts it as often as it stands there."""
    lines = groups(12, right=9)
    for name, own in (
        ("a", lines * 2),
        ("b", groups(12, right=6) * 2),
        ("c", lines),
        ("d", groups(12, right=6)),
    ):
        write(tmp_path / f"{name}.jsonl", own)
    twice, once = (
        json.loads(ruler("agree", *pair, "--json").stdout)
        for pair in (("a.jsonl", "b.jsonl"), ("c.jsonl", "d.jsonl"))
    )
    assert twice["differences"] == once["differences"]
    assert (twice["groups"], twice["repeated"]["groups"]) == (12, 12)
    for command in (("a.jsonl",), ("a.jsonl", "b.jsonl")):
        figures = json.loads(ruler("report", *command, "--json").stdout)
        each = figures.get("figures") or figures["files"][0]["figures"]
        assert each["groups"]["all"] == 24


def compared(
    folder: Path, by: Sequence[str] = ("ana",), **more: Any
) -> list[dict[str, Any]]:
    """Comparisons of the two rollouts of each group: the second is better."""
    return [
        {
            "group": name,
            "left": one,
            "right": other,
            "choice": "right",
            "by": person,
            "drawn": "random",
            "chance": 1,
        }
        | more
        for name, ((one, _), (other, _)) in people.rollouts(folder / "s.jsonl")
        for person in by
    ]


def marks(folder: Path, *, good: int = 1) -> list[dict[str, Any]]:
    """Marks of the two rollouts of each group; the one with this index is good."""
    return [
        {
            "group": name,
            "rollout": one,
            "mark": "good" if i == good else "bad",
            "by": "ana",
        }
        for name, both in people.rollouts(folder / "s.jsonl")
        for i, (one, _) in enumerate(both)
    ]


def test_labels_hold_by_ids(ruler: Ruler, tmp_path: Path) -> None:
    """A label holds where its rollouts are, in a group of its name first, and a comparison once in a file."""
    lines = groups(20, right=16)
    write(tmp_path / "s.jsonl", lines)
    for labels in (compared(tmp_path), marks(tmp_path)):
        write(tmp_path / "l.jsonl", labels)
        more = ("--people", "l.jsonl", "--at-least", "0.5")
        here = measured(ruler, tmp_path, lines, *more)
        away = measured(
            ruler,
            tmp_path,
            [renamed(one, f"other {i}") for i, one in enumerate(lines)],
            *more,
        )
        assert away["gate"] == here["gate"]
        assert away["label_files"]["unmatched"] == 0
    # the same two rollouts in a larger group
    extra = groups(21, right=21)[20]["trajectories"][0]
    larger = [
        one | {"group_id": f"l{i}", "trajectories": [*one["trajectories"], extra]}
        for i, one in enumerate(lines)
    ]
    write(tmp_path / "l.jsonl", compared_of(lines, tmp_path))
    again = measured(ruler, tmp_path, [*lines, *larger], "--people", "l.jsonl")
    assert (again["scorers"][0]["pairs"], again["groups"]) == (20, 20)


def compared_of(lines: Sequence[Group], folder: Path) -> list[dict[str, Any]]:
    """Comparisons in these groups."""
    write(folder / "s.jsonl", [*lines])
    return compared(folder)


def test_names_of_people(ruler: Ruler, tmp_path: Path) -> None:
    """One person under several spellings, or of a pair under two groups, is one person, whose latest line counts."""
    lines = groups(8, right=8)
    write(tmp_path / "s.jsonl", lines)
    labels = [
        one | {"at": "2026-11-27T12:00:00Z"}
        for one in compared(tmp_path, ("Ana ", "bo"))
    ]
    later = [
        one
        | {"by": " aNA", "choice": "left", "group": "old", "at": "2026-11-27T12:00:01Z"}
        for one in labels[:2:2]
    ]
    write(tmp_path / "l.jsonl", [*later, *labels])
    found = measured(ruler, tmp_path, lines, "--people", "l.jsonl")
    assert found["label_files"]["by"] == {"aNA": 8, "bo": 8}
    assert found["label_files"]["shared"] == 8
    assert found["scorers"][0]["pairwise_accuracy"]["value"] == pytest.approx(15 / 16)


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("source", ["records", "comparisons", "marks"])
def test_unscored_is_wrong(
    kind: str, source: str, ruler: Ruler, tmp_path: Path
) -> None:
    """A judge that has no score where it would be wrong passes no more than one that is wrong there."""
    lines = groups(60, right=60)
    write(tmp_path / "s.jsonl", lines)
    more: tuple[str, ...] = ()
    if source != "records":
        write(
            tmp_path / "l.jsonl",
            compared(tmp_path) if source == "comparisons" else marks(tmp_path),
        )
        more = ("--people", "l.jsonl")
    wrong = groups(60, right=40)
    by_error = measured(ruler, tmp_path, wrong, "--at-least", "0.7", *more)
    for whole in (True, False):
        silent = [*lines[:40], *(failed(one, kind, whole=whole) for one in lines[40:])]
        found = measured(ruler, tmp_path, silent, "--at-least", "0.7", *more)
        assert (found["code"], found["gate"]["passed"]) == (1, False)
        for name in ("value", "low", "passed", "not_asked"):
            assert found["gate"][name] == by_error["gate"][name], name
        assert found["scorers"][0]["pairwise_accuracy"]["value"] == 1.0
    text = " ".join(
        ruler("agree", "s.jsonl", "--at-least", "0.7", *more).stdout.split()
    )
    assert re.search(r"counted as wrong: (20|40) labels without a score", text)
    assert "not passed" in text


@pytest.mark.parametrize("kind", [*NOT_ASKED, "unmarked", "absent"])
@pytest.mark.parametrize("source", ["records", "comparisons", "marks"])
def test_not_asked(kind: str, source: str, ruler: Ruler, tmp_path: Path) -> None:
    """Labels of groups that the judge was not asked about are left out; above 5 % of all the gate does not pass."""
    lines = groups(100, right=95)
    more: tuple[str, ...] = ()
    write(tmp_path / "s.jsonl", lines)
    if source != "records":
        write(
            tmp_path / "l.jsonl",
            compared(tmp_path) if source == "comparisons" else marks(tmp_path),
        )
        more = ("--people", "l.jsonl")
    for left, passed in ((5, True), (6, False)):
        if kind == "absent":
            if source == "records":
                return
            rest: list[Group] = []
        elif kind == "unmarked":
            rest = [bare(one) for one in lines[:left]]
        else:
            rest = [failed(one, kind) for one in lines[:left]]
        found = measured(
            ruler, tmp_path, [*rest, *lines[left:]], "--at-least", "0.7", *more
        )
        assert (found["code"], found["gate"]["passed"]) == (1 - passed, passed)
        assert found["gate"]["not_asked"] == pytest.approx(left / 100)
        assert found["gate"]["unscored"] == 0
        assert found["gate"]["low"] > 0.8
        text = " ".join(
            ruler("agree", "s.jsonl", "--at-least", "0.7", *more).stdout.split()
        )
        assert f"left out are {left}% of the labels" in text
        assert ("which is more than 5%" in text) is not passed


def bare(group: Group) -> Group:
    """The group as it was before it was scored."""
    again = [
        {"messages": one["messages"], "reward": one["ruler"]["independent_reward"]}
        for one in group["trajectories"]
    ]
    return {"group_id": group["group_id"], "trajectories": again}


@pytest.mark.parametrize("drawn", ["", "random"])
def test_every_kind_passes(drawn: str, ruler: Ruler, tmp_path: Path) -> None:
    """Comparisons and marks each have to pass where there are 20 of them; fewer, or chosen ones, do not count."""
    lines = groups(120, right=120)
    write(tmp_path / "s.jsonl", lines)
    labels = compared(tmp_path)[:40]
    against = [one | {"drawn": drawn} for one in marks(tmp_path, good=0)]
    for number, passed in ((240, False), (20, False), (18, True)):
        write(tmp_path / "l.jsonl", [*labels, *against[:number]])
        found = measured(
            ruler, tmp_path, lines, "--people", "l.jsonl", "--at-least", "0.7"
        )
        assert (found["code"], found["gate"]["passed"]) == (1 - passed, passed), number
    assert len(found["gate"]["sets"]) == 1
    write(
        tmp_path / "l.jsonl",
        [*labels, *(one | {"drawn": "disputed"} for one in against)],
    )
    assert (
        measured(ruler, tmp_path, lines, "--people", "l.jsonl", "--at-least", "0.7")[
            "code"
        ]
        == 0
    )
    # marks of another file
    write(
        tmp_path / "l.jsonl",
        [*labels, *(one | {"rollout": f"{i:012}"} for i, one in enumerate(against))],
    )
    found = measured(ruler, tmp_path, lines, "--people", "l.jsonl", "--at-least", "0.7")
    assert (found["code"], found["gate"]["sets"][1]["not_asked"]) == (1, 1.0)
    text = " ".join(
        ruler(
            "agree", "s.jsonl", "--people", "l.jsonl", "--at-least", "0.7"
        ).stdout.split()
    )
    assert "pairs drawn at random passed" in text
    assert "left out are 100% of the labels" in text
