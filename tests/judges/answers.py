"""Error responses of providers, servers and gateways, each with its meaning; and contexts that they state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

_DATA = Path(__file__).parents[1] / "data"


class Answer(NamedTuple):
    """The sender, the status, the expected kind and scope, the body, and the path of an API of decision models."""

    sender: str
    status: int
    meaning: tuple[str, ...]
    body: bytes
    route: str = ""


def _rows(name: str) -> list[Any]:
    return [
        json.loads(line) for line in (_DATA / name).read_bytes().splitlines()
    ]


ANSWERS = [
    Answer(
        row["sender"],
        row["status"],
        tuple(row["meaning"].split()),
        row["body"].encode(),
        row.get("route", ""),
    )
    for row in _rows("error_answers.jsonl")
]
CONTEXTS = [
    (row["message"], row["context"] and tuple(row["context"]))
    for row in _rows("stated_contexts.jsonl")
]
"""Messages, each with the limit and the size that it states."""
