"""People's labels beside the judges of `report`, and two files whose labels differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.cli.scored import scored
from tests.conftest import Ruler, write
from tests.people import rollouts

LABELLED = 8
"""Groups in which a rollout is better, of nine; one judge is wrong on three of these, and both together on one."""


def panel(folder: Path) -> list[dict[str, Any]]:
    """Write s.jsonl, scored by two judges, and return labels: of each group the second rollout is better."""
    groups = []
    for i in range(LABELLED + 1):
        own = {"one": (0.2, 0.8), "two": (0.3, 0.5)}
        if i < 3:
            own["two"] = (0.9, 0.1) if i == 2 else (0.6, 0.4)
        both = [sum(pair) / 2 for pair in zip(*own.values(), strict=True)]
        group = scored(f"g{i}", *both, passes=2)
        for j, trajectory in enumerate(group["trajectories"]):
            trajectory["ruler"]["judges"] = [
                {"judge": f"{name}\x1b[2J", "score": scores[j]}
                for name, scores in own.items()
            ]
        groups.append(group)
    lines = []
    for key, pair in rollouts(write(folder / "s.jsonl", groups)):
        (left, _), (right, _) = pair
        line = {"group": key, "left": left, "right": right, "by": "ana"}
        lines.append(line | {"choice": "right", "drawn": "random"})
    lines[-1] |= {"choice": "equal"}
    # another person: the same, with the rollouts in each other's places; the contrary; both are equal
    sides = {"left": lines[0]["right"], "right": lines[0]["left"]}
    for i, choice in enumerate(("left", "left", "equal")):
        said = {"choice": choice, "by": "bo"} | (sides if not i else {})
        lines.append(lines[i] | said)
    return lines


def test_judges(ruler: Ruler, tmp_path: Path) -> None:
    """`report --people` has the accuracy of each judge and of all together, as `agree` measures it.

    No page has a raw control character of a name.
    """
    write(tmp_path / "l.jsonl", panel(tmp_path))
    people = ("s.jsonl", "--people", "l.jsonl")
    done = ruler("report", *people, COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    begin = done.stdout.index("against people")
    assert done.stdout[begin:].split("\n\n")[0].splitlines() == [
        "against people  all judges: 0.727 (0.409 to 1.000), 8 pairs in 8 groups",
        "                one\\x1b[2J: 0.909 (0.601 to 1.000), 8 pairs in 8 groups",
        "                two\\x1b[2J: 0.545 (0.254 to 0.852), 8 pairs in 8 groups",
        "                two people agree: 0.500 (too few groups), 3 pairs in 3 groups",
        "                labels: 8 pairs drawn at random; not counted: 1 equal",
    ]
    report = json.loads(ruler("report", *people, "--json").stdout)
    agree = json.loads(ruler("agree", *people, "--json").stdout)
    against = report["figures"]["against_people"]
    assert against == {name: agree[name] for name in against}
    assert [row["pairs"] for row in against["scorers"]] == [8, 8, 8]
    ruler("report", *people, "-o", "r.html")
    assert "\x1b" not in (tmp_path / "r.html").read_text()


def test_mistakes(ruler: Ruler, tmp_path: Path) -> None:
    """Labels that `agree` refuses `report` refuses in the same words."""
    lines = panel(tmp_path)
    people = ("s.jsonl", "--people", "l.jsonl")
    for name in ("choice", "drawn", "left"):
        write(tmp_path / "l.jsonl", [line | {name: "0"} for line in lines])
        first, second = (ruler(word, *people) for word in ("report", "agree"))
        assert first.returncode == second.returncode == 2
        assert first.stderr == second.stderr


def test_different_labels(ruler: Ruler, tmp_path: Path) -> None:
    """Of two files only labels count in which they agree, of rollouts that both score; others are left out."""
    for name, labels, score in (("a", (0, 1), 0.2), ("b", (1, 0), None)):
        groups = [scored(f"g{i}", 0.2, 0.8, labels=(0, 1)) for i in range(6)]
        groups += [scored(f"h{i}", 0.8, 0.2, labels=labels) for i in range(3)]
        groups.append(scored("i", 0.8, score, labels=(0, 1)))
        write(tmp_path / f"{name}.jsonl", groups)
    result = json.loads(ruler("compare", "a.jsonl", "b.jsonl", "--json").stdout)
    assert result["paired"]["labels_differ"] == 6
    accuracies = [row["value"] for row in result["pairwise_accuracy"]]
    assert accuracies == [1.0, 1.0]
    shown = ruler("compare", "b.jsonl", "a.jsonl", COLUMNS="100").stdout
    assert shown.startswith("Both are equally good in accuracy on 6 groups\n")
    words = "6 rollouts with different rewards in A and B: not in the accuracy"
    assert re.search(rf"^rewards +{words}$", shown, re.M)


def test_no_signed_zero(ruler: Ruler, tmp_path: Path) -> None:
    """No number that rounds to 0 has a sign, whatever side it is from."""
    tiny = (1e-5, -1e-5, 1e-12, -1e-12, -0.0)
    for i, a in enumerate(tiny):
        groups = [
            scored(f"{g}", a, a / 2, -a, labels=(-a, a, a)) for g in range(3)
        ]
        write(tmp_path / f"{i}.jsonl", groups)
    names = [f"{i}.jsonl" for i in range(len(tiny))]
    for command in (
        ("trend", *names),
        ("report", names[1]),
        ("compare", *names[1:3]),
    ):
        for more in ((), ("--json",)):
            shown = ruler(*command, *more).stdout
            assert not re.findall(r"-0?\.?0+(?![.\d])", shown), shown
