"""Fields of records: those with few values are offered, in bounded memory, whatever records hold."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.record_fields import (
    MOST_FIELDS,
    MOST_VALUES,
    RecordFields,
)
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import InputSettings
from tests.results.report.written import group, report, rollout, written

Fields = dict[str, list[str]]


def read(source: Path) -> tuple[Fields, list[dict[str, list[str]]]]:
    """The values of the fields of a file, and those of each group."""
    with ExitStack() as stack:
        file = ScoredFile(
            open_input(InputSettings(str(source)), stack, lambda problem: None)
        )
        fields = RecordFields(file.annotations)
        rows = [dict(fields.add(entry)) for _, entry, _ in file.groups()]
        result = fields.as_json()
    values = {entry["path"]: entry["values"] for entry in result}
    held = [
        {
            path: [expected[at] for at in row[path]]
            for path, expected in values.items()
            if path in row
        }
        for row in rows
    ]
    return values, held


def with_fields(
    number: int, mine: dict[str, Any], *rollouts: Any
) -> dict[str, Any]:
    """A scored group whose record and rollouts have these fields."""
    members = [
        rollout(f"{number} {i}", i / 4) | row for i, row in enumerate(rollouts)
    ]
    return group(f"g{number}", *members) | mine


def test_fields(tmp_path: Path) -> None:
    """Scalars and nested objects of records and rollouts are fields; a rollout's own comes first."""
    lines = [
        with_fields(
            i,
            {
                "split": "test" if i % 2 else "train",
                "metadata": {
                    "step": i // 2,
                    "passed": bool(i % 2),
                    "model": "x",
                },
            },
            {"metadata": {"model": "wren"}},
            {"metadata": {"model": "heron" if i else "wren"}},
        )
        for i in range(4)
    ]
    values, held = read(written(tmp_path / "s.jsonl", *lines))
    assert values == {
        "split": ["train", "test"],
        "metadata.step": ["0", "1"],
        "metadata.passed": ["false", "true"],
        "metadata.model": ["wren", "heron"],
    }
    assert held[1] == {
        "split": ["test"],
        "metadata.step": ["0"],
        "metadata.passed": ["true"],
        "metadata.model": ["wren", "heron"],
    }


def test_no_fields(tmp_path: Path) -> None:
    """A value that is the same in all groups, different in each, measured, long, or shown elsewhere is no field."""
    lines = [
        with_fields(
            i,
            {
                "same": "x",
                "each": f"id {i}",
                "measured": i / 100,
                "long": "y" * (100 + i % 2),
                "deep": {"a": {"b": {"c": {"d": i % 2}}}},
                "none": None,
                "empty": "",
                "odd": float("nan") if i % 2 else 1,
                "many": f"v{i % (MOST_VALUES + 1)}",
                "numbers": [i % 2, 2],
            },
            {"score": i % 2},
            {"messages_of": [{"role": "x"}], "rewards": {"a": i % 2}},
        )
        for i in range(3 * MOST_VALUES)
    ]
    values, _ = read(written(tmp_path / "s.jsonl", *lines))
    assert values == {}


def test_bounds(tmp_path: Path) -> None:
    """However many names a file has, a page offers a few, and what is held of them does not grow."""
    lines = [
        with_fields(
            i,
            {"m": {f"n{j}": i % 2 for j in range(i, 90 + i)}},
            {f"x{i}": 1},
            {},
        )
        for i in range(300)
    ]
    source = written(tmp_path / "s.jsonl", *lines)
    values, _ = read(source)
    assert len(values) == MOST_FIELDS
    page, _, _ = report(source, tmp_path / "r.html")
    assert page.data["fields"] == []  # the page was not asked to offer any


HOSTILE = (
    "__proto__",
    "</script>",
    "a|b",
    "a[]",
    "{}",
    '"',
    "x=y",
    "\u202e",
    "\ud800",
    "0",
    "-1",
    " ",
    "a.b",
)


def test_hostile_names(tmp_path: Path) -> None:
    """Names and values of any characters are fields, or none; nothing fails."""
    lines = [
        with_fields(
            i,
            {
                "m": {
                    name: HOSTILE[(i // 2 + at) % 5]
                    for at, name in enumerate(HOSTILE)
                }
            },
            {},
            {},
        )
        for i in range(10)
    ]
    values, held = read(written(tmp_path / "s.jsonl", *lines))
    assert len(values) >= 8
    for row in held:
        assert all(row[path][0] in values[path] for path in row)
