"""Scores of a group → the fields of the output: an annotation for each rollout, and the group's own part."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ruler_cli import __version__
from ruler_cli.types import Group, GroupError, GroupResult, GroupScores, RolloutScore, Usage

Annotation = Mapping[str, Any]
"""The `ruler` object of a rollout but for `independent_reward`, which is taken from the record's own bytes.
Without a `score` the rollout failed."""
_FINE = 6
"""Decimals of numbers that are computed from scores: enough to compute with, and short to read."""
_COARSE = 3
"""Decimals of a judge's score in one pass, and of the position of the rollout there."""
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""RFC 3339 in UTC, to the second."""


def _judge_names(result: GroupResult, scores: GroupScores | GroupError, names: Sequence[str]) -> str:
    """The judges whose scores a group has; of a group without scores, those that were asked."""
    if isinstance(scores, GroupScores):
        return ", ".join([names[judge] for judge in scores.used])
    asked = {each.judge for each in result.pass_scores} or {call.judge for call in result.failed_calls} or {0}
    return ", ".join(names[judge] for judge in sorted(asked))


def annotations_of(
    group: Group, result: GroupResult, scores: GroupScores | GroupError, names: Sequence[str]
) -> list[Annotation]:
    """The `ruler` object of each rollout of the group, in input order; `names` are those of all judges."""
    judge = _judge_names(result, scores, names)
    if isinstance(scores, GroupError):
        failed = {"status": "failed", "kind": scores.kind, "reason": scores.reason, "judge": judge}
        return [dict(failed) for _ in group.rollouts]
    return [_annotation(rollout, scores.passes, judge, names) for rollout in scores.rollouts]


def _annotation(rollout: RolloutScore, passes: int, judge: str, names: Sequence[str]) -> Annotation:
    score, text = rollout.score, rollout.explanation
    if score is None:
        return {"status": "failed", "kind": "input", "reason": text, "judge": judge}
    fields: dict[str, Any] = {"status": "scored", "score": score, "explanation": text, "judge": judge}
    fields["passes"] = passes
    if rollout.judge_score != score:
        fields["judge_score"] = _fine(rollout.judge_score)
    if rollout.spread is not None:
        fields["spread"] = _fine(rollout.spread)
    if len(names) > 1:
        fields["judges"] = {names[number]: _fine(own) for number, own in rollout.by_judge.items()}
    fields["slots"] = [round(position, _COARSE) for position in rollout.positions]
    if rollout.pass_scores != (rollout.judge_score,):  # of one pass the score itself says it
        fields["pass_scores"] = [round(each, _COARSE) for each in rollout.pass_scores]
    if rollout.suspect:
        fields["suspect"] = True
    return fields


def group_fields(
    group: Group,
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    cost_usd: float | None,
    digests: Mapping[str, str],
) -> dict[str, Any]:
    """The group's part of the output, which stands once if the record is a group.

    `digests` are those of the rubric and of the judges' parameters.
    """
    usage, failed = result.usage, isinstance(scores, GroupError)
    fields: dict[str, Any] = {"status": "failed" if failed else "scored", "key": group.key}
    if isinstance(scores, GroupError):
        fields |= {"kind": scores.kind, "reason": scores.reason}
    fields |= {"judge": _judge_names(result, scores, names), "size": group.compared}
    if isinstance(scores, GroupScores):
        fields |= _quality(scores, result)
    fields |= digests
    fields["version"], fields["served"] = __version__, list(result.served)
    fields["usage"] = usage_fields(usage)
    fields["cost_usd"] = None if cost_usd is None else round(cost_usd, 8)
    fields["judged_at"] = time.strftime(_INSTANT, time.gmtime(result.ended))
    fields["latency_s"] = round(result.seconds, 3)
    fields["cached"] = result.cached
    return fields


def usage_fields(usage: Usage) -> dict[str, int]:
    """The calls and tokens of a group, or of a file, as they stand in JSON."""
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
    }


def _quality(scores: GroupScores, result: GroupResult) -> dict[str, Any]:
    """The quality of a group's scores, and the counts of what they needed; a count of 0 is left out."""
    fields: dict[str, Any] = {"passes": scores.passes, "tied": scores.tied}
    if scores.reliability is not None:
        fields |= {
            "reliability": _fine(scores.reliability),
            "weight": _fine(scores.weight),
            "passes_for_0.9": scores.passes_for,
        }
    elif scores.weight is not None:
        fields["weight"] = _fine(scores.weight)
    counts: dict[str, Any] = {
        "degraded": scores.degraded,
        "escalated": result.escalated_to in scores.used,
        "windows": result.windows if result.windows > 1 else 0,
        "rescaled": result.rescaled,
        "unknown_ids": result.unknown,
        "shortened": result.shortened,
    }
    return fields | {name: value for name, value in counts.items() if value}


def _fine(value: float | None) -> float | None:
    return None if value is None else round(value, _FINE)
