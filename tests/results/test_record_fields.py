"""Fields of records: those with few values are offered, in bounded memory, whatever records hold."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ruler_cli.results.figures import ScoredFile
from ruler_cli.results.record_fields import MOST_FIELDS, MOST_VALUES, RecordFields
from ruler_cli.settings.models import InputSettings
from tests.formats.test_every_format import each_layout, scored
from tests.results.report.written import group, report, rollout, written

Fields = dict[str, list[str]]


def read(source: Path) -> tuple[Fields, list[dict[str, list[str]]], dict[str, bool]]:
    """The values of the fields of a file, those of each group, and for each field if all rollouts share it."""
    with ExitStack() as stack:
        file = ScoredFile(InputSettings(str(source)), stack, lambda problem: None)
        fields = RecordFields(file.annotations)
        rows = [dict(fields.add(one)) for _, one, _ in file.groups()]
        numbers = fields.offered()
        found = fields.as_json()
    values = {one["path"]: one["values"] for one in found}
    held = [
        {
            path: [known[at] for at in row[number]]
            for number, (path, known) in zip(numbers, values.items(), strict=True)
            if number in row
        }
        for row in rows
    ]
    return values, held, {one["path"]: one["exact"] for one in found}


def with_fields(number: int, own: dict[str, Any], *rollouts: Any) -> dict[str, Any]:
    """A scored group whose record and rollouts have these fields."""
    members = [rollout(f"{number} {i}", i / 4) | one for i, one in enumerate(rollouts)]
    return group(f"g{number}", *members) | own


def test_fields(tmp_path: Path) -> None:
    """Scalars, words of lists and nested objects of records and rollouts are fields; a rollout's own comes first."""
    lines = [
        with_fields(
            i,
            {
                "split": "test" if i % 2 else "train",
                "metadata": {"step": i // 2, "a.b": {"c": bool(i % 2)}, "model": "x"},
                "tags": [["a"], ["a", "b"]][i % 2],
            },
            {"metadata": {"model": "wren"}},
            {"metadata": {"model": "heron" if i else "wren"}},
        )
        for i in range(4)
    ]
    values, held, exact = read(written(tmp_path / "s.jsonl", *lines))
    assert values == {
        "split": ["train", "test"],
        "metadata.step": ["0", "1"],
        'metadata."a.b".c': ["false", "true"],
        "tags": ["a", "b"],
        "metadata.model": ["wren", "heron"],
    }
    assert held[1] == {
        "split": ["test"],
        "metadata.step": ["0"],
        'metadata."a.b".c': ["true"],
        "tags": ["a", "b"],
        "metadata.model": ["wren", "heron"],
    }
    assert exact == {name: name != "metadata.model" for name in values}


def test_no_fields(tmp_path: Path) -> None:
    """A value that is the same in all groups, different in each, measured, long, or shown elsewhere is no field."""
    lines = [
        with_fields(
            i,
            {
                "same": "x",
                "each": f"id {i}",
                "measured": i / 7 % 1,
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
    values, _, _ = read(written(tmp_path / "s.jsonl", *lines))
    assert values == {}


def test_few_fractions(tmp_path: Path) -> None:
    """A number with a fraction is a field if there are few of them, as of temperatures."""
    lines = [
        with_fields(i, {"temperature": 0.7 + i % 2 * 0.3}, {}, {}) for i in range(6)
    ]
    values, _, _ = read(written(tmp_path / "s.jsonl", *lines))
    assert values == {"temperature": ["0.7", "1.0"]}


def test_partly_absent(tmp_path: Path) -> None:
    """A field that some rollouts of a group lack is not one for all of them; whole groups may lack it."""
    lines = [with_fields(0, {}, {}, {})]
    for i in range(1, 6):
        value = str(i // 2)
        lines.append(with_fields(i, {}, {"a": value, "b": value}, {"a": value}))
    values, held, exact = read(written(tmp_path / "s.jsonl", *lines))
    assert set(values) == {"a", "b"}
    assert held[0] == {}
    assert exact == {"a": True, "b": False}


@pytest.mark.parametrize("odd", [["a"] * 13, ["a", 1], [["a"]]])
@pytest.mark.parametrize("at", [0, 3])
def test_lists_of_other_things(tmp_path: Path, odd: Any, at: int) -> None:
    """A field is no exact one if some group has a list there of which the page has no words."""
    tags = [["a"], ["a", "b"], ["b"], ["a"]]
    lines = [with_fields(i, {"tags": own}, {}) for i, own in enumerate(tags)]
    lines.insert(at, with_fields(9, {"tags": odd}, {}))
    values, _, exact = read(written(tmp_path / "s.jsonl", *lines))
    assert (values["tags"], exact["tags"]) == (["a", "b"], False)


def test_bounds(tmp_path: Path) -> None:
    """However many names a file has, a page offers a few, and what is held of them does not grow."""
    lines = [
        with_fields(
            i, {"m": {f"n{j}": i % 2 for j in range(i, 90 + i)}}, {f"x{i}": 1}, {}
        )
        for i in range(300)
    ]
    source = written(tmp_path / "s.jsonl", *lines)
    values, _, _ = read(source)
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
                    name: HOSTILE[(i // 2 + at) % 5] for at, name in enumerate(HOSTILE)
                }
            },
            {},
            {},
        )
        for i in range(10)
    ]
    values, held, _ = read(written(tmp_path / "s.jsonl", *lines))
    assert len(values) >= 8
    for row in held:
        assert all(row[path][0] in values[path] for path in row)


@each_layout
def test_exact(name: str, tmp_path: Path) -> None:
    """In a dump of each layout all rollouts of a group have the value of an exact field at its path, or none has."""
    scored(name, tmp_path)
    source = tmp_path / "out.jsonl"
    values, held, exact = read(source)
    with ExitStack() as stack:
        file = ScoredFile(InputSettings(str(source)), stack, lambda problem: None)
        for (_, one, _), row in zip(file.groups(), held, strict=True):
            for path in (path for path in values if exact[path]):
                found = [
                    file.annotations.reader.value_at(
                        file.annotations.value(record), rollout, path
                    )
                    for record in one.records
                    for rollout in record.rollouts
                ]
                texts = [text_of(value) for value in found]
                assert texts == [row.get(path, [])] * len(texts), (path, found)


def text_of(value: Any) -> list[str]:
    """A value as the texts of a field."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [one if isinstance(one, str) else json.dumps(one) for one in listed]
