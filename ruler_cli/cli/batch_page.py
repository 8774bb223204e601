"""The batches of a ledger, as a table for a person and as JSON for a program."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ruler_cli.batches.collect import Standing
from ruler_cli.batches.journal import Batch
from ruler_cli.cli.messages import safe
from ruler_cli.cli.units import iso, rounded


def table(found: Sequence[Standing]) -> list[str]:
    """A line for each, under a head."""
    if not found:
        return ["no batch is out"]
    rows = [["tag", "id", "model", "state", "requests", "done", "failed", "cost", "age"]]
    for each in found:
        batch, remote = each.batch, each.remote
        done = batch.answered if remote is None else remote.succeeded
        failed = batch.failed if remote is None else remote.failed
        numbers = ["" if number is None else str(number) for number in (done, failed)]
        cost = "unknown" if batch.usd is None else f"${rounded(batch.usd)}"
        state = batch.state if remote is None else remote.label
        row = [batch.tag, batch.remote or "", batch.way.model, state, str(batch.requests), *numbers, cost]
        rows.append([*map(_flat, row), _age(time.time() - batch.created)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [zip(row, widths, strict=True) for row in rows]
    return ["  ".join(cell.ljust(width) for cell, width in cells).rstrip() for cells in lines]


def as_json(standing: Standing) -> dict[str, Any]:
    """One batch for a program; what its provider does not say now is null."""
    batch, remote = standing.batch, standing.remote
    doubt = standing.doubt
    told = None if remote is None else {
        "state": remote.state, "label": safe(remote.label), "total": remote.total,
        "succeeded": remote.succeeded, "failed": remote.failed,
    }  # fmt: skip
    return {
        "tag": batch.tag,
        "id": batch.remote,
        "provider": batch.way.provider,
        "model": safe(batch.way.model),
        "state": batch.state,
        "requests": batch.requests,
        "bytes": batch.bytes,
        "expected_usd": batch.usd,
        "created": iso(batch.created),
        "changed": iso(batch.changed),
        "answered": batch.answered,
        "failed": batch.failed,
        "left_out": batch.left_out,
        "reason": safe(batch.reason),
        "remote": told,
        "candidates": [safe(each.id) for each in doubt.candidates] if doubt else [],
        "trouble": safe(str(standing.trouble)) if standing.trouble else safe(doubt.told) if doubt else None,
    }


def name(batch: Batch) -> str:
    """Its tag, and its provider's name for it."""
    return _flat(f"{batch.tag} ({batch.remote})" if batch.remote else batch.tag)


def _flat(text: str) -> str:
    return safe(text).replace("\n", "\\n").replace("\t", "\\t")


def _age(seconds: float) -> str:
    minutes = max(0, int(seconds // 60))
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"
