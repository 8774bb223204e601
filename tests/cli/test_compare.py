"""`ruler compare A B`: both judges side by side, on the terminal and as JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scored import hostile, scored
from tests.conftest import Ruler, write
from tests.on_terminal import RAW, widest
from tests.screen import same_screen
from tests.values import few

OWN: dict[str, Any] = {
    "judge": "strict",
    "passes": 2,
    "cost_usd": 0.5,
    "usage": {"calls": 2},
}
OTHER: dict[str, Any] = {
    "judge": "kind",
    "passes": 1,
    "cost_usd": 0.25,
    "usage": {"calls": 1},
}


def two_judges(folder: Path) -> None:
    """Write a.jsonl and b.jsonl: one group in another order, one tied in B, one that only B scored."""
    alike = [scored(f"g{i}", 0.3, 0.7, **OWN) for i in range(6)]
    a = [
        *alike,
        scored("level", 0.3, 0.7, **OWN),
        scored("turned", 0.3, 0.7, labels=(0, 1), **OWN),
    ]
    lost = scored("lost", None, None, **{**OWN, "usage": {}, "cost_usd": None})
    b = [scored(f"g{i}", 0.4, 0.8, **OTHER) for i in range(6)]
    b += [
        scored("level", 0.9, 0.9, **OTHER),
        scored("turned", 0.9, 0.1, labels=(0, 1), **OTHER),
    ]
    write(folder / "a.jsonl", [*a, lost])
    write(folder / "b.jsonl", [scored("lost", 0.2, 0.6, **OTHER), *b])


def test_page(ruler: Ruler, tmp_path: Path) -> None:
    """The page has both judges' figures, their agreement, and the groups on which they differ most."""
    two_judges(tmp_path)
    done = ruler("compare", "a.jsonl", "b.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    same_screen("report_two", done.stdout)


def test_json(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` prints the same as one object with stable keys."""
    two_judges(tmp_path)
    result = json.loads(ruler("compare", "a.jsonl", "b.jsonl", "--json").stdout)
    assert list(result) == [
        "version", "files", "paired", "groups", "rollouts", "means", "spreads", "tied",
        "distance", "order", "cells", "pairwise_accuracy", "difference", "differs", "differ",
        "problems", "first_problems",
    ]  # fmt: skip
    assert [list(file) for file in result["files"]] == [
        ["source", "found", "figures"]
    ] * 2
    assert [file["figures"]["cost_usd"] for file in result["files"]] == [
        4.0,
        2.25,
    ]
    paired = {"groups": 9, "alone": [0, 0], "labels_differ": 0}
    assert result["paired"] == paired
    assert (result["groups"], result["rollouts"]) == (8, 16)
    assert (
        result["tied"]
        == [0, 1]
        == [file["figures"]["groups"]["tied"] for file in result["files"]]
    )
    assert result["means"] == pytest.approx([0.5, 0.625])
    assert result["order"] == {
        "pairs": 8,
        "against": 1.5,
        "tied": 1,
        "agreement": 1 - 1.5 / 8,
    }
    assert result["distance"] == {
        "mean": pytest.approx((12 * 0.1 + 0.2 + 0.6 + 1.2) / 16),
        "max": pytest.approx(0.6),
    }
    assert sum(cell["n"] for cell in result["cells"]) == 16
    first = result["differ"][0]
    assert list(first) == [
        "ordinal",
        "key",
        "pairs",
        "against",
        "distance",
        "a",
        "b",
    ]
    assert (
        first["key"],
        first["ordinal"],
        first["pairs"],
        first["against"],
    ) == (
        "turned",
        8,
        1,
        1.0,
    )
    assert (first["a"]["scores"], first["b"]["scores"]) == (
        [0.3, 0.7],
        [0.9, 0.1],
    )


def test_accuracies_as_json(ruler: Ruler, tmp_path: Path) -> None:
    """`--json` has the accuracy of both judges as `agree` measures it, and their difference with its interval."""
    for name, scores in (("a", (0.2, 0.8)), ("b", (0.8, 0.2))):
        groups = [
            scored(
                f"g{i}",
                *scores[:: -1 if name == "b" and i < 2 else 1],
                labels=(0, 1),
            )
            for i in range(12)
        ]
        write(tmp_path / f"{name}.jsonl", groups)
    found = json.loads(ruler("compare", "a.jsonl", "b.jsonl", "--json").stdout)
    for name, accuracy in zip("ab", found["pairwise_accuracy"], strict=True):
        done = ruler("agree", f"{name}.jsonl", "--json")
        (alone,) = json.loads(done.stdout)["scorers"]
        assert alone["pairwise_accuracy"] == accuracy
    assert found["difference"]["value"] == pytest.approx(1 - 2 / 12)
    assert found["difference"]["told_apart"]
    assert (
        found["difference"]["low"] < 1 - 2 / 12 <= found["difference"]["high"]
    )
    same = json.loads(ruler("compare", "a.jsonl", "a.jsonl", "--json").stdout)
    assert not same["difference"]["told_apart"]


def test_own_scores(ruler: Ruler, tmp_path: Path) -> None:
    """The judges' own scores are compared, not those that a reward moved, and the page says so."""
    two_judges(tmp_path)
    a = [
        json.loads(line)
        for line in (tmp_path / "a.jsonl").read_text().splitlines()
    ]
    for record in a:
        for trajectory in record["trajectories"]:
            if "score" in (annotation := trajectory["ruler"]):
                annotation |= {"judge_score": annotation["score"], "score": 0.0}
                trajectory["reward"] = 0.0
    write(tmp_path / "a.jsonl", a)
    same_screen(
        "report_two_moved", ruler("compare", "a.jsonl", "b.jsonl").stdout
    )


@pytest.mark.parametrize(
    ("right", "significant"),
    [((30, 30), False), ((0, 30), True), ((50, 49), False), ((16, 14), False)],
)
def test_rewards(
    right: tuple[int, int], significant: bool, ruler: Ruler, tmp_path: Path
) -> None:
    """A judge agrees more with the rewards only if chance does not explain it; one figure decides that."""
    for name, number in zip("ab", right, strict=True):
        groups = [
            scored(
                f"g{i}",
                *((0.2, 0.8) if i < number else (0.8, 0.2)),
                labels=(0, 1),
            )
            for i in range(100 if max(right) > 30 else 30)
        ]
        write(tmp_path / f"{name}.jsonl", groups)
    shown = ruler("compare", "a.jsonl", "b.jsonl", COLUMNS="120").stdout
    (line,) = (
        line for line in shown.splitlines() if line.startswith("pairwise ")
    )
    assert line.endswith(
        ", significant" if significant else ", not significant"
    )
    assert shown.count("significant") == 1


def test_left_out(ruler: Ruler, tmp_path: Path) -> None:
    """Groups of one file only, or with other rollouts, are counted; the first few are named."""
    groups = [scored(f"g{i}", 0.3, 0.7) for i in range(12)]
    write(tmp_path / "a.jsonl", [*groups, scored("other", 0.1, 0.2)])
    write(tmp_path / "b.jsonl", [*groups[:3], scored("other", 0.1, 0.2, 0.3)])
    done = ruler("compare", "a.jsonl", "b.jsonl")
    assert done.returncode == 1
    first, *others = done.stderr.splitlines()
    assert first == (
        "ruler: group 'g3' of the first file left out: the second has none with its key and rollouts"
    )
    assert len(others) == 10
    assert "'other' of the second file left out" in done.stderr
    assert (
        "not compared  10 groups only in A, 1 group only in B\n" in done.stdout
    )
    result = json.loads(ruler("compare", "a.jsonl", "b.jsonl", "--json").stdout)
    assert (result["problems"], len(result["first_problems"])) == (11, 11)


def test_other_format(ruler: Ruler, tmp_path: Path) -> None:
    """Order of records, rollouts and keys, nulls and format do not matter; one file may be stdin."""
    two_judges(tmp_path)
    b = [
        json.loads(line)
        for line in (tmp_path / "b.jsonl").read_text().splitlines()
    ]
    rows = [
        {"group_id": r["group_id"], **t} for r in b for t in r["trajectories"]
    ]
    for row in rows:
        row["messages"] = [
            dict(reversed(m.items())) | {"tool_calls": None}
            for m in row["messages"]
        ]
    random.Random(7).shuffle(rows)
    write(tmp_path / "rows.jsonl", rows)
    write(
        tmp_path / "turned.jsonl",
        [{**r, "trajectories": r["trajectories"][::-1]} for r in b],
    )
    want = json.loads(ruler("compare", "a.jsonl", "b.jsonl", "--json").stdout)
    lines = (tmp_path / "a.jsonl").read_text()
    for name in ("rows.jsonl", "turned.jsonl"):
        got = json.loads(
            ruler("compare", "-", name, "--json", stdin=lines).stdout
        )
        for field in ("paired", "rollouts", "order", "cells"):
            assert got[field] == want[field], field
        assert [one["b"]["scores"] for one in got["differ"]] == [
            one["b"]["scores"] for one in want["differ"]
        ]


def test_not_compared(ruler: Ruler, tmp_path: Path) -> None:
    """A group is compared if both judges scored one of its rollouts; the others are listed."""
    a = [
        scored("half", 0.1, None),
        scored("none", None, None),
        scored("a", None, 0.3),
        scored("b", None),
    ]
    b = [
        scored("half", None, 0.1),
        scored("none", None, None),
        scored("a", 0.2, 0.3),
        scored("b", 0.1),
    ]
    write(tmp_path / "a.jsonl", a)
    write(tmp_path / "b.jsonl", b)
    output = ruler("compare", "a.jsonl", "b.jsonl").stdout
    assert "compared: 1 group, 1 rollout scored by both" in output
    line = " ".join(
        output[output.index("\nnot compared") :].split("\n\n")[0].split()
    )
    assert line == "not compared 3 groups without scores of both"


def test_small_difference(ruler: Ruler, tmp_path: Path) -> None:
    """Agreement of almost all pairs is not 100%, and a group with one pair of many turned is listed."""
    one, other = [i / 40 for i in range(33)], [i / 40 for i in range(33)]
    other[3], other[4] = other[4], other[3]
    write(tmp_path / "a.jsonl", [scored("g", *one)])
    write(tmp_path / "b.jsonl", [scored("g", *other)])
    output = " ".join(ruler("compare", "a.jsonl", "b.jsonl").stdout.split())
    assert (
        "527 of 528 pairs in order, 1 reversed, 0 tied (99.8%; chance: 50%)"
        in output
    )
    assert "disagree on most" in output


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("- -", "only one of SCORED and OTHER can be stdin"),
        ("a.jsonl raw.jsonl", "raw.jsonl: no rollout has an annotation of ruler; score it first"),
        ("a.jsonl alien.jsonl", "a.jsonl and alien.jsonl: no group in common; give two scored files of"),
        ("a.jsonl others.jsonl", "a.jsonl and others.jsonl: no group in common; give two scored files of"),
        ("a.jsonl lost.jsonl", "a.jsonl and lost.jsonl: no rollout has a score in both files; see why with "
         "`ruler report lost.jsonl`"),
        ("a.jsonl half.jsonl", "a.jsonl and half.jsonl: no rollout has a score in both files"),
        ("a.jsonl b.jsonl -o x.html --json", "-o writes a page; leave --json out"),
        ("a.jsonl b.jsonl --max-groups 3", "--max-groups is for a page"),
        ("a.jsonl none.jsonl", "none.jsonl: no such file"),
        ("a.jsonl b.jsonl -o a.jsonl", "a.jsonl: a report is a local file; end its name in .html"),
        ("a.jsonl alien.jsonl -o x.html", "a.jsonl and alien.jsonl: no group in common"),
    ],
)  # fmt: skip
def test_mistakes(
    args: str, sentence: str, ruler: Ruler, tmp_path: Path
) -> None:
    """A pair of files that cannot be compared is refused in one sentence, and nothing is written."""
    two_judges(tmp_path)
    a = [
        json.loads(line)
        for line in (tmp_path / "a.jsonl").read_text().splitlines()
    ]
    write(tmp_path / "raw.jsonl", [{"group_id": r["group_id"], "trajectories": [
        {"messages": t["messages"], "reward": 1} for t in r["trajectories"]]} for r in a])  # fmt: skip
    others = [
        scored("x", 0.1, 0.2),
        scored("turned", 0.1, 0.2),
        scored("level", 0.1),
    ]
    others[1]["trajectories"][0]["messages"][-1]["content"] = "Something else."
    write(tmp_path / "others.jsonl", others)
    write(tmp_path / "alien.jsonl", [scored("alien", 0.1, 0.9)])
    write(
        tmp_path / "lost.jsonl", [scored(f"g{i}", None, None) for i in range(6)]
    )
    write(
        tmp_path / "half.jsonl",
        [scored("lost", 0.1, 0.2), scored("g0", None, None)],
    )
    done = ruler("compare", *args.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ruler: {sentence}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("columns", few(1, [10, 37, 120]))
def test_hostile(columns: int, ruler: Ruler, tmp_path: Path) -> None:
    """With any key, judge, reason or explanation nothing raw is shown, and no line is too wide."""
    write(tmp_path / "a.jsonl", hostile())
    write(tmp_path / "b.jsonl", [_swapped(group) for group in hostile()])
    done = ruler("compare", "a.jsonl", "b.jsonl", COLUMNS=str(columns))
    assert done.returncode == 0, done.stderr
    assert RAW.findall(done.stdout) == []
    assert widest(done.stdout) <= columns
    done = ruler("compare", "a.jsonl", "b.jsonl", "--json")
    assert RAW.findall(done.stdout) == []
    assert json.loads(done.stdout)["paired"]["groups"] == len(hostile())


def _swapped(group: dict[str, Any]) -> dict[str, Any]:
    one, other = group["trajectories"]
    for trajectory, score in ((one, 0.1), (other, 0.8)):
        if "score" in trajectory["ruler"]:
            trajectory["ruler"]["score"] = score
            trajectory["reward"] = score
    return group
