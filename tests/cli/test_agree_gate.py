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
        scores = [round(dice.uniform(low, low + 0.3), 3) for low in (0.1, 0.6)]
        ordered = scores if i < right else scores[::-1]
        made.append(scored(f"g{i}", *ordered, labels=(0.0, 1.0)))
    return made


def failed(group: Group, kind: str, *, whole: bool = True) -> Group:
    """The group without scores for this reason, or without that of its last rollout."""
    why = {"status": "failed", "kind": kind, "reason": "why"}
    rollouts = group["trajectories"]
    cut = 0 if whole else 1
    again = [
        one | {"ruler": one["ruler"] | why | {"score": None}}
        for one in rollouts[cut:]
    ]
    own = why if whole else group["ruler"]
    return group | {"trajectories": rollouts[:cut] + again, "ruler": own}


def measured(
    ruler: Ruler, folder: Path, lines: Sequence[Group], *more: str
) -> Any:
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
    "side by side": lambda lines: [one for line in lines for one in [line] * 3],
    "renamed": lambda lines: [
        *lines,
        *(renamed(one, f"n{i}") for i, one in enumerate(lines)),
    ],
    "in another order": lambda lines: [*lines, *map(turned, lines[::-1])],
}


def test_too_few(ruler: Ruler, tmp_path: Path) -> None:
    """If even a judge without an error fails with so few groups, the verdict says so; uneven groups allow less."""
    for number, size in ((12, 1), (40, 1), (12, 5)):
        labels = (0.0,) * size + (1.0,) * size
        lines = [
            *groups(number, right=number),
            scored("a", *labels, labels=labels),
        ]
        found = measured(ruler, tmp_path, lines, "--at-least", "0.9")
        gate = found["gate"]
        assert (gate["highest"] - gate["low"] > 0.01) is (size > 1)
        assert ("an error begins at 0.800 at most" in found["stderr"]) is (
            number == 12
        )


@pytest.mark.parametrize("name", [*REPEATS])
def test_repeated_groups(name: str, ruler: Ruler, tmp_path: Path) -> None:
    """A group that stands more than once is no new evidence, whatever its name and order; the number is told."""
    lines = groups(40, right=32)
    once = measured(ruler, tmp_path, lines, "--at-least", "0.6")
    more = REPEATS[name](lines)
    again = measured(ruler, tmp_path, more, "--at-least", "0.6")
    assert again["gate"]["low"] == pytest.approx(once["gate"]["low"], abs=0.02)
    for key in ("groups", "rollouts", "code"):
        assert again[key] == once[key]
    assert again["gate"]["value"] == once["gate"]["value"] == 0.8
    repeats = len(more) - 40
    assert again["repeated"] == repeats
    assert (
        f"not counted again: {repeats} groups with the rollouts of"
        in again["stderr"]
    )
    assert (once["repeated"], once["stderr"]) == (0, "")


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


@pytest.mark.parametrize(
    ("kind", "source"),
    [*zip(REASONS, ("records", "comparisons", "comparisons"), strict=True)],
)
def test_unscored_is_wrong(
    kind: str, source: str, ruler: Ruler, tmp_path: Path
) -> None:
    """A judge that has no score where it would be wrong passes no more than one that is wrong there."""
    lines = groups(60, right=60)
    write(tmp_path / "s.jsonl", lines)
    more = ["--at-least", "0.7"]
    if source != "records":
        write(tmp_path / "l.jsonl", compared(tmp_path))
        more += ["--people", "l.jsonl"]
    wrong = groups(60, right=40)
    by_error = measured(ruler, tmp_path, wrong, *more)
    for whole in (True, False):
        silent = [failed(one, kind, whole=whole) for one in lines[40:]]
        found = measured(ruler, tmp_path, lines[:40] + silent, *more)
        assert (found["code"], found["gate"]["passed"]) == (1, False)
        for name in ("value", "low", "passed", "not_asked"):
            assert found["gate"][name] == by_error["gate"][name], name
        assert found["scorers"][0]["pairwise_accuracy"]["value"] == 1.0
    text = " ".join(ruler("agree", "s.jsonl", *more).stdout.split())
    assert re.search(r"counted as wrong: (20|40) labels without a score", text)
    assert "failed: the interval" in text


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *((kind, "records") for kind in NOT_ASKED),
        ("unmarked", "records"),
        ("absent", "comparisons"),
        ("budget", "comparisons"),
    ],
)
def test_not_asked(
    kind: str, source: str, ruler: Ruler, tmp_path: Path
) -> None:
    """Labels of groups that the judge was not asked about are left out; above 5 % of all the gate does not pass."""
    lines = groups(100, right=95)
    more = ["--at-least", "0.7"]
    write(tmp_path / "s.jsonl", lines)
    if source != "records":
        write(tmp_path / "l.jsonl", compared(tmp_path))
        more += ["--people", "l.jsonl"]
    for left, passed in ((5, True), (6, False)):
        if kind == "absent":
            rest = []
        elif kind == "unmarked":
            rest = [bare(one) for one in lines[:left]]
        else:
            rest = [failed(one, kind) for one in lines[:left]]
        found = measured(ruler, tmp_path, [*rest, *lines[left:]], *more)
        assert (found["code"], found["gate"]["passed"]) == (1 - passed, passed)
        assert found["gate"]["not_asked"] == pytest.approx(left / 100)
        assert found["gate"]["unscored"] == 0
        assert found["gate"]["low"] > 0.8
        text = " ".join(ruler("agree", "s.jsonl", *more).stdout.split())
        assert f"not asked about {left}% of the labels, which" in text
        assert ("and more than 5%" in text) is not passed


def bare(group: Group) -> Group:
    """The group as it was before it was scored."""
    again = [
        {
            "messages": one["messages"],
            "reward": one["ruler"]["independent_reward"],
        }
        for one in group["trajectories"]
    ]
    return {"group_id": group["group_id"], "trajectories": again}
