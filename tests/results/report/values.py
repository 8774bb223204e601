"""Scored groups: small builders, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ruler_cli.results.record import GroupRecord, RolloutRecord
from ruler_cli.types import iso

NOON = 1_764_000_000.0
"""A time in 2025."""


def rollout(
    score: float | None, label: float | None = None, **more: Any
) -> RolloutRecord:
    """A rollout with this score; without a score it failed."""
    reported: dict[str, Any] = {
        "judge_score": score,
        "label": label,
        "size": 100,
    } | more
    panel = reported.pop("panel", {})
    reported["judges"] = [
        {"judge": name, "score": mine} for name, mine in panel.items()
    ]
    status: Any = "failed" if score is None else "scored"
    return RolloutRecord(status, score, indices=(0,), **reported)


def group(
    scores: Sequence[float | None],
    labels: Sequence[float | None] = (),
    **more: Any,
) -> GroupRecord:
    """A group with these scores; without any score it failed."""
    reported = {"key": "g", "judge": "m"} | more
    row = reported.pop("each", [{}] * len(scores))
    labels = labels or [None] * len(scores)
    rollouts = tuple(
        rollout(s, y, **extra)
        for s, y, extra in zip(scores, labels, row, strict=True)
    )
    scored = any(s is not None for s in scores)
    if not scored:
        reported = {"kind": "reply", "reason": "no"} | reported
    at = reported.get("judged_at")
    if at is not None:
        reported["judged_at"] = iso(at)
    status: Any = "scored" if scored else "failed"
    return GroupRecord(status, rollouts=rollouts, **reported)
