"""Scores of a group → the fields of OUTPUT, which runs write and reports read.

docs/output.md says what each key means.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from ruler_cli import __version__
from ruler_cli.types import (
    NO_ANSWER,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Kind,
    Rollout,
    RolloutScore,
    Usage,
)

_FINE = 6
"""Decimals of numbers that are computed from scores: enough to compute with, and short to read."""
_COARSE = 3
"""Decimals of a judge's score in one pass, and of the position of the rollout there."""
SCHEMA = 4
"""Version of both objects: since 2 every key stands in every record, with one type; since 3 criteria and `ended`;
since 4 rewards."""
_NO_SCORES = GroupScores((), passes=0, weight=0.0)
_NO_REPLIES = GroupResult((), (), ())
"""Quality and counts of a group that failed."""
INSTANT = "%Y-%m-%dT%H:%M:%SZ"
"""RFC 3339 in UTC, to the second."""


class JudgeScore(TypedDict):
    """The score of one judge of a panel."""

    judge: str
    score: float | None
    explanation: str


class CriterionValue(TypedDict):
    """The value of a criterion for a rollout, from 0 to 1."""

    name: str
    value: float


class RewardValue(TypedDict):
    """The value of a further reward field, at which a score stands now."""

    path: str
    value: Any


class _SharedKeys(TypedDict):
    """Keys of both objects."""

    status: Literal["scored", "failed"]
    kind: Kind | Literal[""]
    reason: str
    judge: str
    passes: int
    schema: int


class AnnotationFields(_SharedKeys):
    """The `ruler` object of a rollout but for its rewards, which are from the record's own bytes.

    Without a `score` (None) the rollout failed.
    """

    score: float | None
    judge_score: float | None
    explanation: str
    judges: list[JudgeScore]
    spread: float | None
    slots: list[float]
    pass_scores: list[float]
    criteria: list[CriterionValue]
    criteria_passes: list[list[float]]
    suspect: bool
    ended: str


class TrajectoryFields(AnnotationFields):
    """The `ruler` object of a trajectory in OUTPUT; `docs/output.md` says what each key means."""

    reward_path: str
    rewards: list[RewardValue]
    independent_reward: Any


class UsageFields(TypedDict):
    """The calls and tokens of a group, or of a file, as they stand in JSON."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    estimated: bool


class Digests(TypedDict):
    """The digests of the rubric, and of the parameters of the judges, that made scores."""

    rubric: str
    params: str


_Passes = TypedDict("_Passes", {"passes_for_0.9": int | None})


class GroupFields(_SharedKeys, Digests, _Passes):
    """The group's part of OUTPUT, its own `ruler` object; `docs/output.md` says what each key means."""

    key: str
    size: int
    tied: bool
    reliability: float | None
    weight: float | None
    degraded: bool
    escalated: bool
    windows: int
    rescaled: int
    unknown_ids: int
    shortened: int
    pictures_left_out: int
    version: str
    served: list[str]
    usage: UsageFields
    cost_usd: float | None
    judged_at: str
    latency_s: float
    cached: bool


def annotations_of(
    group: Group,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    shared: GroupFields,
) -> list[AnnotationFields]:
    """The `ruler` object of each rollout of the group, in input order; `names` are those of all judges."""
    if isinstance(scores, GroupError):
        rollouts = (RolloutScore(None, scores.reason),) * len(group.rollouts)
    else:
        rollouts = scores.rollouts
    kind = shared["kind"] or "input"

    def fields(rollout: RolloutScore, given: Rollout) -> AnnotationFields:
        score = rollout.score
        failed = score is None
        reason = rollout.explanation if failed else ""
        rollout = RolloutScore(None, "") if failed else rollout
        same = rollout.judge_score == score
        panel = rollout.by_judge.items() if len(names) > 1 else ()
        return {
            "status": "failed" if failed else "scored",
            "score": score,
            "judge_score": score if same else _fine(rollout.judge_score),
            "explanation": rollout.explanation,
            "kind": "refused" if reason == NO_ANSWER else kind if failed else "",
            "reason": reason,
            "judge": shared["judge"],
            "judges": [
                {
                    "judge": names[i],
                    "score": _fine(each),
                    "explanation": rollout.said.get(i, rollout.explanation),
                }
                for i, each in panel
            ],
            "passes": 0 if failed else shared["passes"],
            "spread": _fine(rollout.spread),
            "slots": [round(position, _COARSE) for position in rollout.positions],
            "pass_scores": [round(each, _COARSE) for each in rollout.pass_scores],
            "criteria": [
                {"name": one.name, "value": round(one.value, _FINE)}
                for one in rollout.criteria
            ],
            "criteria_passes": [
                [round(value, _COARSE) for value in one.passes]
                for one in rollout.criteria
            ],
            "suspect": rollout.suspect,
            "ended": given.ended,
            "schema": SCHEMA,
        }

    return [*map(fields, rollouts, group.rollouts)]


def group_fields(
    group: Group,
    result: GroupResult,
    scores: GroupScores | GroupError,
    names: Sequence[str],
    cost_usd: float | None,
    digests: Digests,
) -> GroupFields:
    """The group's part of the output, which stands once if the record is a group."""
    failure = scores if isinstance(scores, GroupError) else None
    quality = scores if isinstance(scores, GroupScores) else _NO_SCORES
    counted = _NO_REPLIES if failure else result
    judges = {one.judge for one in result.pass_scores}
    asked = judges or {call.judge for call in result.failed_calls} or {0}
    # of a group without scores those that were asked
    judged_by = sorted(asked) if failure else quality.used
    return {
        "status": "failed" if failure else "scored",
        "key": group.key,
        "kind": failure.kind if failure else "",
        "reason": failure.reason if failure else "",
        "judge": ", ".join([names[judge] for judge in judged_by]),
        "size": group.compared,
        "passes": quality.passes,
        "tied": quality.tied,
        "reliability": _fine(quality.reliability),
        # a factor: one pass says nothing against the scores
        "weight": 1.0 if quality.weight is None else _fine(quality.weight),
        "passes_for_0.9": quality.passes_for,
        "degraded": quality.degraded,
        "escalated": counted.escalated_to in quality.used,
        "windows": counted.windows if counted.windows > 1 else 0,
        "rescaled": 0,  # of earlier versions
        "unknown_ids": counted.unknown,
        "shortened": counted.shortened,
        "pictures_left_out": counted.pictures_left_out,
        **digests,
        "version": __version__,
        "served": list(result.served),
        "usage": usage_fields(result.usage),
        "cost_usd": None if cost_usd is None else round(cost_usd, 8),
        "judged_at": time.strftime(INSTANT, time.gmtime(result.ended)),
        "latency_s": round(result.seconds, 3),
        "cached": result.cached,
        "schema": SCHEMA,
    }


def usage_fields(usage: Usage) -> UsageFields:
    """The calls and tokens of a group, or of a file, as they stand in JSON."""
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "cached_tokens": usage.cached,
        "estimated": usage.estimated,
    }


def _fine(value: float | None) -> float | None:
    return None if value is None else round(value, _FINE)
