"""Selections by fields of the records, and by files of marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.results.choice import Choice, Selector
from ruler_cli.results.conditions import parse_condition
from ruler_cli.results.identity import group_name, rollout_ids
from ruler_cli.results.labels import Labels
from ruler_cli.results.select import select
from ruler_cli.settings.models import InputSettings
from tests.conftest import read
from tests.results.select_values import (
    annotation,
    dump,
    grouped,
    lines,
    read_groups,
    selected,
)
from tests.results.test_select import ids

GROUPS = [
    grouped("a", 0.1, 0.9)
    | {"model": "m1", "step": 10, "tags": ["x", "y z", 3]},
    grouped("b", 0.2, 0.8) | {"model": "m2", "step": 20.0, "error": "timeout"},
    grouped("c", 0.3, 0.7)
    | {"step": None, "ok": True, "score": "high", "a.b": "dot"},
]
for _group in GROUPS:
    for _number, _one in enumerate(_group["trajectories"]):
        _one["metadata"] = {"seed": _number, "why": f"{_group['group_id']}=1"}
GROUPS[0]["trajectories"][1]["model"] = "own"

WHERE = {
    "model=m1": "a0",
    "model=own": "a1",
    "step=10": "a0 a1",
    "step=10.0": "a0 a1",
    "step=20": "b0 b1",
    "step=15..": "b0 b1",
    "step=..15": "a0 a1",
    "step=null": "c0 c1",
    "tags=x": "a0 a1",
    "tags=y z": "a0 a1",
    "tags=3": "a0 a1",
    "tags=null": "b0 b1 c0 c1",
    "step=1_0": "",
    "ok=true": "c0 c1",
    "ok=1": "",
    "metadata.seed=0": "a0 b0 c0",
    "metadata.why=b=1": "b0 b1",
    '"error"=timeout': "b0 b1",
    '"score"=high': "c0 c1",
    "a.b=dot": "c0 c1",
    '"a.b"=dot': "c0 c1",
    "metadata.seed=1|score=0.75..": "a1 b1",
    "metadata={}": "",
    "step=x..y": "",
}
"""Conditions with `|` between them, and the rollouts of GROUPS for which they hold."""


def test_fields(tmp_path: Path) -> None:
    """A value is that below the rollout, else below its record; numbers are equal however they are written."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    for where, kept in WHERE.items():
        tally = selected(source, tmp_path / "out.jsonl", *where.split("|"))
        assert ids(tmp_path / "out.jsonl") == kept.split(), where
        assert tally["kept rollouts"] == len(kept.split())


def test_fields_of_lines(tmp_path: Path) -> None:
    """Fields are read with a rollout a line, and in lists beside those of the rollouts, of which none is cut."""
    source = dump(tmp_path / "in.jsonl", lines(*GROUPS))
    selected(source, tmp_path / "out.jsonl", "metadata.seed=1")
    assert ids(tmp_path / "out.jsonl") == ["a1", "b1", "c1"]
    scores = (0.9, 0.1)
    listed = {"prompt": "p", "responses": ["a", "b"], "rewards": [*scores], "kinds": ["k", "l"],
              "source": "web", "tags": ["t", "u", "v"],
              "ruler": {"status": "scored", "rollouts": list(map(annotation, scores))}}  # fmt: skip
    source = dump(tmp_path / "in.jsonl", [listed])
    (tmp_path / "out.jsonl").unlink()
    for where, kept in {
        "source=web": ["a", "b"],
        "tags=u": ["a", "b"],
        "tags=x": [],
    }.items():
        selected(source, tmp_path / "out.jsonl", where)
        assert [
            r for row in read(tmp_path / "out.jsonl") for r in row["responses"]
        ] == kept
    with pytest.raises(UsageError, match="holds its answers in lists"):
        selected(source, tmp_path / "out.jsonl", "kinds=l")


def test_missing_field(tmp_path: Path) -> None:
    """A path that no record has is refused with a near one; a value that none has is no error."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    for where, message in {
        "metadata.sead=1": "no rollout of .* has a value there; did you mean metadata.seed",
        "modle=m1": "did you mean model",
        "kettle.pot=1": "name a path below a rollout or its record",
        "kettle=1..2": "--where kettle",
    }.items():
        with pytest.raises(UsageError, match=message):
            selected(source, tmp_path / "out.jsonl", where)
        assert not (tmp_path / "out.jsonl").exists()
    assert (
        selected(source, tmp_path / "out.jsonl", "model=m9")["kept groups"] == 0
    )
    assert (
        selected(source, tmp_path / "out.jsonl", "kettle=null")["kept groups"]
        == 3
    )


def marked(
    folder: Path, marks: list[dict[str, Any]], *where: str, groups: Any = GROUPS
) -> Selector:
    """Select by marks."""
    source = dump(folder / "in.jsonl", groups)
    files = Labels.read([dump(folder / "marks.jsonl", marks)], option="marks")
    return select(
        InputSettings(str(source)),
        str(folder / "out.jsonl"),
        Choice([*map(parse_condition, where)], marks=files),
        on_open=lambda _: None,
        on_problem=lambda _: None,
    )


def names(folder: Path) -> dict[str, str]:
    """Return the id of each rollout of GROUPS by its name."""
    source = dump(folder / "in.jsonl", GROUPS)
    return {
        trajectory["id"]: name
        for (group, scored), record in zip(
            read_groups(source), GROUPS, strict=True
        )
        for trajectory, name in zip(
            record["trajectories"], rollout_ids(group, scored), strict=True
        )
    }


def test_marks(tmp_path: Path) -> None:
    """A line without a rollout keeps its group, lines with rollouts keep these, and a word keeps its lines."""
    mine = names(tmp_path)
    marks: list[dict[str, Any]] = [
        {"group": "a", "rollout": mine["a1"], "mark": "good", "by": "ana"},
        {"group": "b", "mark": "reviewed"},
        {"group": "c", "rollout": mine["c0"], "mark": "bad", "by": "bo"},
        {
            "group": "c",
            "left": mine["c0"],
            "right": mine["c1"],
            "choice": "left",
        },
    ]
    for where, kept in {
        "": "a1 b0 b1 c0",
        "mark=good": "a1",
        "mark=reviewed": "b0 b1",
        "score=0.25..": "a1 b1 c0",
        "mark=bad model=m1": "",
    }.items():
        chosen = marked(tmp_path, marks, *where.split())
        assert ids(tmp_path / "out.jsonl") == kept.split(), where
        assert chosen.unmatched == ()
    both = [*marks, {"group": "a", "mark": "good", "by": "bo"}]
    marked(tmp_path, both, "mark=good")
    assert ids(tmp_path / "out.jsonl") == ["a0", "a1"]


def test_hostile_keys(tmp_path: Path) -> None:
    """A group of any key is found by the name that it has in a file of marks."""
    keys = [
        "</script>",
        "\u202ekey",
        "k" * 5000,
        "a\nb",
        "__proto__",
        "\ud800",
        "",
    ]
    groups = [grouped(key, 0.1, 0.9) | {"n": i} for i, key in enumerate(keys)]
    marks = [{"group": group_name(key), "mark": "x"} for key in keys]
    for number, mark in enumerate(marks):
        chosen = marked(tmp_path, [mark], groups=groups)
        assert [row["n"] for row in read(tmp_path / "out.jsonl")] == [number]
        assert chosen.unmatched == ()
