"""A verdict → what ruler writes: a mark for each rollout, and the group's part once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ruler_cli.ballots import Outcome, RolloutScore, Verdict
from ruler_cli.records import Failure, Group, Mark

_FINE = 6
"""Decimals of what is computed from scores: enough to compute with, and short to read."""
_COARSE = 3
"""Decimals of what a judge gave in one pass, and of where it saw the rollout."""
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""RFC 3339 in UTC, to the second."""


def judge_of(outcome: Outcome, verdict: Verdict | Failure, names: Sequence[str]) -> str:
    """Which judge, or judges, a group's scores are of; of one that nobody scored, who was to."""
    if isinstance(verdict, Verdict):
        return ", ".join(names[seat] for seat in verdict.used)
    heard = {ballot.judge for ballot in outcome.ballots} or {miss.judge for miss in outcome.misses} or {0}
    return ", ".join(names[seat] for seat in sorted(heard))


def marks_of(group: Group, outcome: Outcome, verdict: Verdict | Failure, names: Sequence[str]) -> list[Mark]:
    """A mark for each rollout of the group, in input order; `names` are those of all judges."""
    name = judge_of(outcome, verdict, names)
    if isinstance(verdict, Failure):
        lost = {"status": "failed", "kind": verdict.kind, "reason": verdict.reason, "judge": name}
        return [Mark(None, dict(lost)) for _ in group.rollouts]
    return [_mark(rollout, verdict.passes, name, names) for rollout in verdict.rollouts]


def _mark(rollout: RolloutScore, passes: int, name: str, names: Sequence[str]) -> Mark:
    score, said = rollout.score, rollout.explanation
    if score is None:
        return Mark(None, {"status": "failed", "kind": "input", "reason": said, "judge": name})
    fields: dict[str, Any] = {
        "status": "scored",
        "score": score,
        "explanation": said,
        "judge": name,
        "passes": passes,
    }
    if rollout.judged != score:
        fields["judge_score"] = _fine(rollout.judged)
    if rollout.spread is not None:
        fields["spread"] = _fine(rollout.spread)
    if len(names) > 1:
        fields["judges"] = {names[judge]: _fine(own) for judge, own in rollout.by_judge.items()}
    fields["slots"] = [round(slot, _COARSE) for slot in rollout.slots]
    if rollout.pass_scores != (rollout.judged,):  # of one pass the score itself tells it
        fields["pass_scores"] = [round(given, _COARSE) for given in rollout.pass_scores]
    if rollout.suspect:
        fields["suspect"] = True
    return Mark(score, fields)


def group_fields(
    group: Group, outcome: Outcome, verdict: Verdict | Failure, names: Sequence[str], cost_usd: float | None
) -> dict[str, Any]:
    """The group's part of the output, which stands once where the record is a group."""
    usage = outcome.usage
    failed = isinstance(verdict, Failure)
    fields: dict[str, Any] = {"status": "failed" if failed else "scored", "key": group.key}
    if isinstance(verdict, Failure):
        fields |= {"kind": verdict.kind, "reason": verdict.reason}
    fields |= {"judge": judge_of(outcome, verdict, names), "size": group.compared}
    if isinstance(verdict, Verdict):
        fields |= _quality(verdict, outcome)
    fields["usage"] = {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
    }
    fields["cost_usd"] = None if cost_usd is None else round(cost_usd, 8)
    fields["judged_at"] = time.strftime(_INSTANT, time.gmtime(outcome.ended))
    fields["latency_s"] = round(outcome.seconds, 3)
    fields["cached"] = outcome.kept
    return fields


def _quality(verdict: Verdict, outcome: Outcome) -> dict[str, Any]:
    """How good the scores of a group are, and what had to be done for them; counts only where there are."""
    fields: dict[str, Any] = {"passes": verdict.passes, "tied": verdict.tied}
    if verdict.reliability is not None:
        fields |= {
            "reliability": _fine(verdict.reliability),
            "weight": _fine(verdict.weight),
            "passes_for_0.9": verdict.passes_for,
        }
    elif verdict.weight is not None:
        fields["weight"] = _fine(verdict.weight)
    told: dict[str, Any] = {
        "degraded": verdict.degraded,
        "escalated": outcome.final in verdict.used,
        "windows": outcome.windows if outcome.windows > 1 else 0,
        "rescaled": outcome.rescaled,
        "unknown_ids": outcome.unknown,
        "shortened": outcome.shortened,
    }
    return fields | {name: value for name, value in told.items() if value}


def _fine(value: float | None) -> float | None:
    return None if value is None else round(value, _FINE)
