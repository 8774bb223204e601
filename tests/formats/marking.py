"""A sample of each format, and a record of any format written back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from ruler_cli.annotate import annotate
from ruler_cli.files.parse import parse
from ruler_cli.records import Mark
from tests.conftest import ROOT
from tests.values import line, reader

GROUP = {"status": "scored", "key": "g"}


def sample(name: str) -> list[dict[str, Any]]:
    """The records of a format's sample."""
    return [parse(raw) for raw in sample_path(name).read_bytes().split(b"\n") if raw]


def sample_path(name: str) -> Path:
    """Where a format's sample stands."""
    return ROOT / "samples" / "formats" / f"{name}.jsonl"


def marked(record: Any, score: float | None = 0.5, on_failure: Any = "null", **told: Any) -> dict[str, Any]:
    """A record as it is written with one score for all its rollouts; None: they could not be scored."""
    found = reader(record, **told)
    at = line(record)
    (read,) = found.read(at)
    fields = {"status": "failed" if score is None else "scored", "score": score, "group": GROUP}
    both = [(rollout, Mark(score, dict(fields))) for rollout in read.rollouts]
    return parse(annotate(at.raw, found.format, both, GROUP, on_failure))


def without(record: Any, *paths: tuple[str | int, ...]) -> str:
    """A record without what stands at these paths, as text: the order of fields counts, and NaN is NaN."""
    bare: Any = copy.deepcopy(record)
    for path in paths:
        holder: Any = bare
        for part in path[:-1]:
            there = not isinstance(holder, dict) or part in holder
            holder = holder[part] if there else {}
        holder.pop(path[-1], None)
    return json.dumps(bare)
