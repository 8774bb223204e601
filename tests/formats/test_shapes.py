"""Every shape of a record: its format, and what the judge reads of it, row by row of `tests/data/shapes.jsonl`."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.keys import PROMPT_HASH
from ruler_cli.formats.reader import Reader
from ruler_cli.settings.models import RecordPaths
from ruler_cli.types import Rollout
from tests.conftest import ROOT
from tests.values import line, reader, render

SHAPES = ROOT / "tests/data/shapes.jsonl"
ROWS: list[dict[str, Any]] = [*map(json.loads, SHAPES.read_text().splitlines())]
HASHED = re.compile(r"[a-z0-9_-]*-[0-9a-f]{16}")
"""A key or a member that is a hash: only which of them are equal is a law."""
FIELDS = (
    "reward",
    "outcome",
    "reference",
    "tools",
    "prompt_length",
    "error",
    "ended",
)


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return fields of InputSettings; a format that is an object is one of the user's own."""
    settings = dict(options)
    for name, value in options.items():
        if isinstance(value, list):
            settings[name] = tuple(value)
    if isinstance(options.get("format"), dict):
        settings["format"] = RecordPaths(**options["format"])
    if "rows" in options:
        rows = options["rows"].items()
        settings["rows"] = {name: RecordPaths(**row) for name, row in rows}
    return settings


def shown(rollout: Rollout, names: dict[str, str]) -> dict[str, Any]:
    """Return the lines of a rollout and what its record says of it."""
    facts: dict[str, Any] = {}
    if rollout.messages:
        facts["lines"] = render(rollout.messages)
    if rollout.histories:
        facts["histories"] = [render(history) for history in rollout.histories]
    if rollout.member is not None:
        facts["member"] = named(rollout.member, names)
    for field in FIELDS:
        value = getattr(rollout, field)
        if value is not None and value != "":
            facts[field] = value
    return facts


def named(key: str | None, names: dict[str, str]) -> str | None:
    """Return a key; one that is a hash is numbered."""
    if key is None or not HASHED.fullmatch(key):
        return key
    return names.setdefault(key, f"#{len(names) + 1}")


def read_as(row: dict[str, Any]) -> dict[str, Any]:
    """Return how the records of a row are read, or why they are refused."""
    records = row["records"]
    try:
        detected = reader(*records, **settings_of(row.get("options", {})))
    except UsageError as error:
        return {
            "refused": str(error).partition("; name the path of the answers")[0]
        }
    names: dict[str, str] = {}
    groups = []
    for number, record in enumerate(records, 1):
        groups += read_line(detected, record, number, names)
    facts: dict[str, Any] = {"format": detected.format.name}
    if detected.key != PROMPT_HASH:
        facts["by"] = str(detected.key)
    return facts | {"read": groups}


def read_line(
    detected: Reader, record: Any, number: int, names: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the groups of a record, or why it is unreadable."""
    try:
        parts = detected.read(line(record, number))
    except UnreadableError as error:
        return [{"unreadable": str(error)}]
    groups = []
    for part in parts:
        rollouts = [shown(rollout, names) for rollout in part.rollouts]
        groups.append({"key": named(part.key, names), "rollouts": rollouts})
    return groups


def test_shapes(subtests: pytest.Subtests) -> None:
    """The records of each row are read as it says, by the law that it names.

    After an intended change, `python -m tests.formats.test_shapes` writes the file anew.
    """
    for number, row in enumerate(ROWS, 1):
        wanted = {
            name: row[name]
            for name in row.keys() - {"law", "records", "options"}
        }
        with subtests.test(row["law"], row=number):
            assert text_of(read_as(row)) == text_of(wanted)


def text_of(facts: dict[str, Any]) -> str:
    """Return facts as text, because NaN is not equal to itself."""
    return json.dumps(facts, sort_keys=True, indent=1)


if __name__ == "__main__":
    lines = []
    for asked in ROWS:
        kept = {
            key: asked[key]
            for key in ("law", "records", "options")
            if key in asked
        }
        lines.append(json.dumps(kept | read_as(asked), ensure_ascii=False))
    SHAPES.write_text("\n".join(lines) + "\n")
    sys.stderr.write(f"{SHAPES.relative_to(ROOT)}: written\n")
