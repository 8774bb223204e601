"""From Python, with the signatures of ART's `ruler` and `ruler_score_group`: change the import."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict

from ruler_cli.config import CombineSettings, InputSettings, JudgeSettings, PoolSettings, ScoreSettings
from ruler_cli.errors import RefusedError, RulerError
from ruler_cli.formats.native import read_trajectory
from ruler_cli.formats.reader import validated
from ruler_cli.judges.resolve import ResolvedJudge, resolve
from ruler_cli.judging.group_run import JudgeRunner
from ruler_cli.judging.panel import open_panel
from ruler_cli.pool.engine import StopSignal
from ruler_cli.scoring.batch_statistics import BatchStatistics
from ruler_cli.scoring.combine import combine
from ruler_cli.types import Group, GroupError, GroupResult, GroupScores, Judge, Line, Record, Rollout
from ruler_cli.writing.fields import annotations_of, group_fields

_LOG = "RULER explanation: "


class TrajectoryScore(BaseModel):
    """A judge's score in [0, 1] of one trajectory; the id is its position in the input, from 1."""

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    explanation: str
    score: float


class NotScoredError(RulerError):
    """A group that could not be scored; `kind` says what kind of failure it was."""

    def __init__(self, kind: str, reason: str) -> None:
        """`reason` is one sentence."""
        super().__init__(f"not scored ({kind}): {reason}")
        self.kind = kind


async def ruler(
    message_lists: Sequence[Sequence[Any]],
    judge_model: str = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str | None = None,
    tools: Sequence[Any] | None = None,
    *,
    debug: bool = False,
) -> list[TrajectoryScore]:
    """Score conversations that pursue one goal, side by side; scores in the order given.

    `extra_litellm_params` are parameters of the judge call; `api_base` among them names an
    endpoint. NotScoredError where the judge gave no usable answer, UsageError on bad usage.
    """
    if not message_lists:
        return []
    values = [{"messages": _plain(list(messages))} for messages in message_lists]
    group = _group(values, rubric, _plain(list(tools)) if tools else None)
    _, scores = await _judge(group, judge_model, extra_litellm_params, debug=debug)
    out = []
    for number, one in enumerate(scores.rollouts, 1):
        if one.score is None:
            raise NotScoredError("input", f"conversation {number} {one.explanation}")
        out.append(TrajectoryScore(trajectory_id=str(number), explanation=one.explanation, score=one.score))
    return out


async def score_group(
    group: Any,
    judge_model: str = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: str | None = None,
    *,
    swallow_exceptions: bool = False,
    debug: bool = False,
) -> Any:
    """Score a group; return it annotated, of the same kind, and leave the argument as it was.

    `group` is a dict with `trajectories`, or any object with ART's attributes. Each trajectory gets
    `reward`, `metrics["independent_reward"]`, `metrics["ruler_score"]` and a line in `logs`. With
    `swallow_exceptions` a group that cannot be scored gives None instead of an exception.
    """
    try:
        items = _get(group, "trajectories") or []
        values = [_trajectory(item) for item in items]
        own = _get(group, "rubric")
        tools = _get(group, "tools")
        asked = _group(values, own if isinstance(own, str) else rubric, _plain(tools) if tools else None)
        if not values:
            return copy.copy(group)
        result, scores = await _judge(asked, judge_model, extra_litellm_params, debug=debug)
    except RulerError:
        if swallow_exceptions:
            return None
        raise
    annotations = annotations_of(asked, result, scores, [judge_model])
    scored = [
        _annotated(item, each.get("score"), dict(each)) for item, each in zip(items, annotations, strict=True)
    ]
    fields = group_fields(asked, result, scores, [judge_model], None)
    return _with(group, {"trajectories": scored, "ruler": fields})


async def _judge(
    group: Group, model: str, params: Mapping[str, Any] | None, *, debug: bool
) -> tuple[GroupResult, GroupScores]:
    judge, retries = _settings(model, dict(params or {}))
    settings = ScoreSettings(
        InputSettings("-"), "-", judge, pool=PoolSettings(concurrency=1, retries=retries)
    )  # one pass of one judge

    def show(_key: str, text: str) -> None:
        sys.stderr.write(f"judge: {text}\n")

    resolved = resolve(judge)
    async with _opened(resolved):
        stop_signal = StopSignal()
        panel = open_panel(settings, [resolved], stop_signal, None)
        runner = JudgeRunner(settings, panel.judges, show if debug else None)
        result = await runner.start(group).judge()
    if stop_signal.reason is not None:
        kind = "refused" if isinstance(stop_signal.reason, RefusedError) else "transport"
        raise NotScoredError(kind, str(stop_signal.reason))
    scores = combine(result, CombineSettings(), BatchStatistics())
    if isinstance(scores, GroupError):
        raise NotScoredError(scores.kind, scores.reason)
    return result, scores


def _opened(resolved: ResolvedJudge) -> Judge:
    if resolved.judge is None:
        raise ValueError("a judge of whom only cached replies count is not opened")
    return resolved.judge


def _settings(model: str, params: dict[str, Any]) -> tuple[JudgeSettings, int]:
    """litellm's own parameters are ours to act on; the rest goes into the call."""
    usual = JudgeSettings()
    base = params.pop("api_base", None) or params.pop("base_url", None)
    params.pop("base_url", None)
    tries = [params.pop(name, None) for name in ("num_retries", "max_retries")]
    settings = JudgeSettings(
        model,
        api_base=base,
        api_key=params.pop("api_key", None),
        timeout=float(params.pop("timeout", None) or usual.timeout),
        params=params,
    )
    return settings, next((int(n) for n in tries if n is not None), PoolSettings().retries)


def _group(values: list[dict[str, Any]], rubric: str | None, tools: Any) -> Group:
    rollouts: list[Rollout] = [
        validated(read_trajectory(value, ("trajectories", i))) for i, value in enumerate(values)
    ]
    record = Record(Line(1, 0, b""), tuple(rollouts), "group", rubric, tools)
    return Group("group", (record,))


def _trajectory(item: Any) -> dict[str, Any]:
    """The parts of a trajectory that are judged, as plain values."""
    keys = ("messages_and_choices", "messages", "additional_histories", "exchanges", "tools", "reward")
    found = {}
    for key in keys:
        value = _get(item, key)
        if value is not None and not callable(value):  # ART's trajectory.messages is a method
            found[key] = _plain(value)
    if found.get("messages_and_choices"):
        found.pop("messages", None)
    return found


def _plain(value: Any) -> Any:
    """Models and mappings → dicts, so that one reader serves files and objects."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "__dict__"):
        return {key: _plain(inner) for key, inner in vars(value).items() if not key.startswith("_")}
    return orjson.loads(orjson.dumps(value, default=str))


def _annotated(item: Any, score: float | None, fields: Mapping[str, Any]) -> Any:
    reward = _get(item, "reward")
    metrics = dict(_get(item, "metrics") or {})
    original = metrics.get("independent_reward", reward)
    logs = [log for log in _get(item, "logs") or [] if not str(log).startswith(_LOG)]
    metrics.pop("ruler_score", None)
    if original is not None:
        metrics["independent_reward"] = original
    if score is not None:
        metrics["ruler_score"] = score
        logs.append(_LOG + str(fields["explanation"]))
    new = {"reward": score, "metrics": metrics, "logs": logs}
    return _with(item, {**new, "ruler": {**fields, "independent_reward": original}})


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _with(value: Any, changes: dict[str, Any]) -> Any:
    """A shallow copy with other members; an object gets only those that its kind has."""
    if isinstance(value, Mapping):
        return {**value, **changes}
    new = copy.copy(value)
    for name, changed in changes.items():
        if name != "ruler":
            setattr(new, name, changed)
    return new
