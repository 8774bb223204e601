"""People's labels beside the judges of `report`, and two files whose labels differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

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
    second = [lines[0] | {"by": "bo"}, lines[1] | {"by": "bo"}]
    second[1] |= {"choice": "left"}
    return [*lines, *second]


def test_judges(ruler: Ruler, tmp_path: Path) -> None:
    """`report --people` has the accuracy of each judge and of all together, as `agree` measures it."""
    write(tmp_path / "l.jsonl", panel(tmp_path))
    people = ("s.jsonl", "--people", "l.jsonl")
    done = ruler("report", *people, COLUMNS="100")
    assert (done.returncode, done.stderr) == (0, "")
    begin = done.stdout.index("against people")
    assert done.stdout[begin:].split("\n\n")[0].splitlines() == [
        "against people       all judges: 0.800 (0.491 to 1.000), 8 pairs in 8 groups",
        "                     one\\x1b[2J: 0.900 (0.604 to 1.000), 8 pairs in 8 groups",
        "                     two\\x1b[2J: 0.600 (0.293 to 0.892), 8 pairs in 8 groups",
        "                     two people agree: 0.500 (too few groups), 2 pairs in 2 groups",
        "                     labels: 8 pairs drawn at random; not counted: 1 equal",
    ]
    report = json.loads(ruler("report", *people, "--json").stdout)
    agree = json.loads(ruler("agree", *people, "--json").stdout)
    against = report["figures"]["against_people"]
    assert against == {name: agree[name] for name in against}
    assert [row["pairs"] for row in against["scorers"]] == [8, 8, 8]


@pytest.mark.parametrize(
    "change",
    [{"choice": "both"}, {"drawn": "disputed"}, {"left": "0" * 12}],
)
def test_mistakes(change: dict[str, Any], ruler: Ruler, tmp_path: Path) -> None:
    """Labels that `agree` refuses `report` refuses in the same words; a label of no rollout is named by both."""
    lines = panel(tmp_path)
    write(tmp_path / "l.jsonl", [line | change for line in lines])
    write(tmp_path / "m.jsonl", [*lines, lines[0] | {"left": "0" * 12}])
    for name, code in (("l", 2), ("m", 1)):
        people = ("s.jsonl", "--people", f"{name}.jsonl")
        first, second = (ruler(word, *people) for word in ("report", "agree"))
        assert (first.returncode, second.returncode) == (code, code)
        assert first.stderr == second.stderr
        assert (first.stdout == "") is (code == 2)


def test_different_labels(ruler: Ruler, tmp_path: Path) -> None:
    """Of two files only labels count in which they do not differ, and a rollout with two is counted as left out."""
    for name, labels in (("a", (0, 1)), ("b", (1, 0))):
        groups = [scored(f"g{i}", 0.2, 0.8, labels=(0, 1)) for i in range(6)]
        groups += [scored(f"h{i}", 0.8, 0.2, labels=labels) for i in range(3)]
        groups.append(
            scored("i", 0.8, 0.2, labels=(0, None)[:: -1 if name == "b" else 1])
        )
        write(tmp_path / f"{name}.jsonl", groups)
    for files in (("a.jsonl", "b.jsonl"), ("b.jsonl", "a.jsonl")):
        result = json.loads(ruler("compare", *files, "--json").stdout)
        assert result["paired"]["labels_differ"] == 6
        accuracies = [row["value"] for row in result["pairwise_accuracy"]]
        assert accuracies == [1.0, 1.0]
        shown = ruler("compare", *files, COLUMNS="100").stdout
        assert shown.startswith(
            "Both are equally good in accuracy on 6 groups\n"
        )
        words = (
            "6 rollouts with different rewards in A and B: not in the accuracy"
        )
        assert f"rewards     {words}\n" in shown.replace(
            "rewards  ", "rewards  "
        )


def test_no_signed_zero(ruler: Ruler, tmp_path: Path) -> None:
    """No number that rounds to 0 has a sign, whatever side it is from."""
    names = []
    for i, tiny in enumerate((1e-5, -1e-5, 1e-12, -1e-12, -0.0)):
        groups = []
        for g in range(3):
            labels = (-tiny, tiny, tiny)
            groups.append(scored(f"{g}", tiny, tiny / 2, -tiny, labels=labels))
            for trajectory in groups[-1]["trajectories"][1:]:
                trajectory["messages"][-1]["content"] += "x" * g
        names.append(write(tmp_path / f"{i}.jsonl", groups).name)
    for command in (
        ("trend", *names),
        ("report", names[1]),
        ("compare", *names[1:3]),
    ):
        for more in ((), ("--json",)):
            shown = ruler(*command, *more).stdout
            assert not re.findall(r"[-−]0?\.?0+(?![.\d])", shown), shown
