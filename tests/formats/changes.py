"""Annotated records, and their changes as dotted paths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruler_cli.files.parse import parse
from ruler_cli.formats.annotate import Annotation, annotate
from ruler_cli.formats.reader import Reader
from ruler_cli.settings.models import OnFailure
from ruler_cli.types import Record, Rollout
from tests.conftest import ROOT
from tests.values import line, reader

SAMPLES = ROOT / "samples" / "formats"
GROUP = {"status": "scored", "key": "g"}
SCORED = {"status": "scored", "score": 0.625, "explanation": "good"}
FAILED = {
    "status": "failed",
    "kind": "reply",
    "reason": "the judge said nothing",
}


def sample(name: str) -> list[Any]:
    """Return the records of `samples/formats/NAME.jsonl`."""
    return [json.loads(raw) for raw in raws(SAMPLES / f"{name}.jsonl")]


def raws(path: Path) -> list[bytes]:
    """Return the lines of a file."""
    return [raw for raw in path.read_bytes().split(b"\n") if raw]


def keyed(*records: Any, **options: Any) -> dict[str | None, list[Rollout]]:
    """Return the rollouts of these records by group key."""
    groups: dict[str | None, list[Rollout]] = {}
    for record in each(reader(*records, **options), *records):
        groups.setdefault(record.key, []).extend(record.rollouts)
    return groups


def each(detected: Reader, *records: Any) -> Iterator[Record]:
    """Yield every record of these lines."""
    for i, record in enumerate(records, 1):
        yield from detected.read(line(record, i))


def last_texts(rollouts: list[Rollout]) -> list[Any]:
    """Return the last text of each rollout."""
    return [r.messages[-1].get("content") for r in rollouts]


def written(
    record: Any,
    *annotations: Annotation,
    on_failure: OnFailure = "null",
    using: Reader | None = None,
) -> Any:
    """Return a record with these annotations; further rollouts get the last one."""
    using = using or reader(record)
    parts = using.read(line(record))
    rollouts = sorted(
        (r for part in parts for r in part.rollouts), key=lambda r: r.path
    )
    each_annotation = [
        annotations[min(i, len(annotations) - 1)] for i in range(len(rollouts))
    ]
    raw = parts[0].line.raw
    return parse(
        annotate(
            raw,
            using.format,
            list(zip(rollouts, each_annotation, strict=True)),
            GROUP,
            on_failure,
        )
    )


def changed(before: Any, after: Any, path: str = "") -> set[str]:
    """Return the dotted paths at which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        inner = [
            changed(before[key], after[key], f"{path}{key}.")
            if key in before and key in after
            else {f"{path}{key}"}
            for key in {**before, **after}
        ]
        return set().union(*inner)
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        pairs = enumerate(zip(before, after, strict=True))
        return set().union(
            *(changed(one, other, f"{path}{i}.") for i, (one, other) in pairs)
        )
    return set() if json.dumps(before) == json.dumps(after) else {path[:-1]}


def same_twice(record: Any) -> None:
    """Check that scoring a record again, also after a failure, gives the same record."""
    detected = reader(record)
    once = written(record, SCORED, using=detected)
    for between in (SCORED, FAILED):
        again = written(
            written(record, between, using=detected), SCORED, using=detected
        )
        assert changed(once, again) == set()
