"""Scored groups: small builders, and random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
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
    reported["judges"] = [{"judge": name, "score": own} for name, own in panel.items()]
    status: Any = "failed" if score is None else "scored"
    return RolloutRecord(status, score, indices=(0,), **reported)


def group(
    scores: Sequence[float | None], labels: Sequence[float | None] = (), **more: Any
) -> GroupRecord:
    """A group with these scores; without any score it failed."""
    reported = {"key": "g", "judge": "m"} | more
    each = reported.pop("each", [{}] * len(scores))
    labels = labels or [None] * len(scores)
    rollouts = tuple(
        rollout(s, y, **extra) for s, y, extra in zip(scores, labels, each, strict=True)
    )
    scored = any(s is not None for s in scores)
    if not scored:
        reported = {"kind": "reply", "reason": "no"} | reported
    at = reported.get("judged_at")
    if at is not None:
        reported["judged_at"] = iso(at)
    status: Any = "scored" if scored else "failed"
    return GroupRecord(status, rollouts=rollouts, **reported)


def drawn(groups: int, seed: int = 6) -> Iterator[GroupRecord]:
    """Random groups of every kind, equal for an equal seed."""
    dice = random.Random(seed)
    for i in range(groups):
        size = dice.randint(1, 9)
        if dice.random() < 0.05:
            yield GroupRecord(
                key=f"g{i}",
                rollouts=tuple(RolloutRecord(indices=(j,)) for j in range(size)),
            )
            continue
        lost = dice.random() < 0.1
        scores = [
            None
            if lost or dice.random() < 0.05
            else dice.choice([dice.randrange(21) / 20, dice.random()])
            for _ in range(size)
        ]
        labels = [dice.choice([0.0, 1.0, 1.0, None]) for _ in range(size)]
        shown = dice.sample(range(size), size)
        each = [
            {
                "size": int(dice.lognormvariate(7, 2)),
                "slots": (position / max(1, size - 1),),
                "suspect": dice.random() < 0.05,
                "judge_score": None
                if s is None
                else dice.choice([s, round(s * 0.9, 6)]),
                "spread": dice.random() / 4,
            }
            for s, position in zip(scores, shown, strict=True)
        ]
        failed = all(s is None for s in scores)
        yield group(
            scores,
            labels,
            each=each,
            key=f"g{i}",
            kind=dice.choice(["reply", "transport"]) if failed else "",
            reason=f"tried {dice.randrange(9)} times" if failed else "",
            judge=dice.choice(["a", "b"]),
            passes=dice.choice([None, 1, 2]),
            tied=dice.choice([True, False, False, False]),
            reliability=dice.choice([None, dice.random()]),
            usage={"prompt_tokens": dice.randrange(999), "calls": dice.randrange(3)},
            cost_usd=dice.choice([None, dice.random() / 100]),
            latency_s=dice.choice([None, round(dice.lognormvariate(1, 1), 3)]),
            judged_at=NOON + dice.randrange(7200),
            flags=tuple(flag for flag in ("suspect", "cached") if dice.random() < 0.1),
        )
