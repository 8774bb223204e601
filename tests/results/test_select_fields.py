"""Selections by fields of the records, and by files of marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ruler_cli.errors import UsageError
from tests.conftest import read
from tests.results.select_values import (
    annotation,
    dump,
    grouped,
    lines,
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
    """A path that no record has is refused; a value that none has is no error."""
    source = dump(tmp_path / "in.jsonl", GROUPS)
    for where, message in {
        "metadata.sead=1": "no rollout of .* has a value there",
        "modle=m1": "name a path below",
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
