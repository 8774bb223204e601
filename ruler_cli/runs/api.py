"""From Python: all that `ruler score` can, and functions with the signatures of ART's: change the import."""

from __future__ import annotations

import copy
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from ruler_cli.errors import (
    ReaderGone,
    RefusedError,
    RulerError,
    WrongShapeError,
)
from ruler_cli.runs.file import score
from ruler_cli.runs.json_form import G
from ruler_cli.runs.objects import JudgedGroup, ObjectReader
from ruler_cli.runs.scorer import Groups, Log, Scorer, guarded, scored_groups
from ruler_cli.settings.models import (
    AskSettings,
    InputSettings,
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
    refuse_no_settings,
)
from ruler_cli.types import Observer, Standards, Summary

_SETTINGS = {
    "base_url": "api_base",
    "api_base": "api_base",
    "api_key": "api_key",
    "timeout": "timeout",
    "max_retries": "retries",
    "num_retries": "retries",
}
"""Parameters of litellm that are settings here, of which the last wins; the others are sent."""


async def score_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    settings: ScoreSettings | None = None,
    *,
    force: bool = False,
    observer: Observer | None = None,
) -> Summary:
    """Score INPUT into OUTPUT as `ruler score` does, and return the summary.

    Each is a path, an address, or `-`. `settings.input` and `settings.output` take these values; the other
    settings are those of the command. `force`: an OUTPUT that ruler did not write is replaced. Groups that
    could not be scored are counted in the summary. RulerError if something stopped the run: the same call
    goes on where it stopped, for replies are in the ledger.
    """
    settings = ScoreSettings() if settings is None else settings
    refuse_no_settings(settings)
    source = replace(settings.input, source=os.fspath(input))
    force = force or settings.force
    settings = replace(
        settings, input=source, output=os.fspath(output), force=force
    )
    result = await score(settings, guarded(observer))
    if result.stopped is not None and not isinstance(
        result.stopped, ReaderGone
    ):
        raise result.stopped
    return result.summary


def score_groups(
    groups: Groups[G],
    settings: ScoreSettings | None = None,
    *,
    observer: Observer | None = None,
) -> AsyncGenerator[JudgedGroup[G], None]:
    """Score groups of an iterable or async iterable as `Scorer.score_groups` does, with a Scorer of its own.

    Replies are kept in the command's own ledger unless `settings.ledger` says otherwise, so that a program
    that is run again goes on where it stopped. Close the generator, with `contextlib.aclosing`, if what
    follows a loop that ends early depends on it.
    """
    return scored_groups(
        Scorer(settings, observer=observer), groups, opens=True
    )


class TrajectoryScore(BaseModel):
    """A judge's score in [0, 1] of one trajectory; the id is its position in the input, from 1.

    `criteria` are the values of the criteria of a `Rubric`, by their names.
    """

    model_config = ConfigDict(frozen=True)

    trajectory_id: str
    explanation: str
    score: float
    criteria: dict[str, float] = {}


class NotScoredError(RulerError):
    """A group that could not be scored; `kind` says what kind of failure it was."""

    def __init__(self, kind: str, reason: str) -> None:
        """`reason` is one sentence."""
        super().__init__(f"not scored ({kind}): {reason}")
        self.kind = kind


async def ruler(
    message_lists: Any,
    judge_model: str = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: Standards | None = None,
    tools: Sequence[Any] | None = None,
    *,
    debug: bool = False,
) -> list[TrajectoryScore]:
    """Score conversations that pursue one goal, side by side; scores in the order given.

    `message_lists` may be any group that `Scorer.score` takes. `extra_litellm_params` are parameters of the judge
    call; `api_base` among them names an endpoint. NotScoredError if the judge gave no usable answer, UsageError on bad
    usage.
    """
    group: Any = message_lists
    if isinstance(group, list | tuple) and not group:
        return []
    if tools is not None:
        group = {"trajectories": message_lists, "tools": tools}
    scored = await _score_once(
        group, judge_model, extra_litellm_params, rubric, debug=debug
    )
    rollouts = []
    for number, fields in enumerate(scored.trajectories, 1):
        score = fields["score"]
        if score is None:
            raise NotScoredError(
                "input", f"conversation {number} {fields['reason']}"
            )
        criteria = {
            criterion["name"]: criterion["value"]
            for criterion in fields["criteria"]
        }
        rollouts.append(
            TrajectoryScore(
                trajectory_id=str(number),
                explanation=fields["explanation"],
                score=score,
                criteria=criteria,
            )
        )
    return rollouts


async def score_group(
    group: G,
    judge_model: str = "openai/o3",
    extra_litellm_params: Mapping[str, Any] | None = None,
    rubric: Standards | None = None,
    *,
    swallow_exceptions: bool = False,
    debug: bool = False,
) -> G | None:
    """Score a group; return it annotated, of the same kind, and leave the argument as it was.

    `group` is an object with ART's attributes, or any other group that `Scorer.score` takes; WrongShapeError
    if it is none. Each trajectory gets `reward`, and where its shape has them
    `metrics["independent_reward"]`, `metrics["ruler_score"]` and a line in `logs`; an object that cannot be
    judged is left out, and a warning is logged. NotScoredError if the judge gave no usable answer. With
    `swallow_exceptions` any error while the group is scored gives None instead, and a warning is logged. No
    reply is kept: `Scorer` has a ledger.
    """
    if not ObjectReader(InputSettings()).read(group, 0).items:
        # no group is an error in any case
        return copy.copy(group)
    try:
        scored = await _score_once(
            group, judge_model, extra_litellm_params, rubric, debug=debug
        )
    except Exception as error:
        if not swallow_exceptions:  # ART swallows what is raised between its check of the group and the scores
            raise
        Log().warn(str(error) if isinstance(error, RulerError) else repr(error))
        return None
    return scored.group


async def _score_once(
    group: G,
    model: str,
    params: Mapping[str, Any] | None,
    rubric: Standards | None,
    *,
    debug: bool,
) -> JudgedGroup[G]:
    """Score a group with a judge of its own, in one pass and without a ledger; NotScoredError if it fails.

    litellm's own parameters are acted on, the rest is sent.
    """
    if not isinstance(params, Mapping | None):
        raise WrongShapeError(
            f"extra_litellm_params: is of type {type(params).__name__}; give a dict"
        )
    params = dict(params or {})
    judge = dict[str, Any]()
    for name, setting in _SETTINGS.items():
        value = params.pop(name, None)
        if value is not None:
            judge[setting] = value
    pool = {"retries": judge.pop("retries")} if "retries" in judge else {}
    settings = ScoreSettings(
        judge=JudgeSettings(model, params=params, **judge),
        ask=AskSettings(rubric=rubric),
        pool=PoolSettings(concurrency=1, **pool),
        ledger=None,
        debug=debug,
    )
    async with Scorer(settings) as scorer:
        try:
            scored = await scorer.score(group)
        except RefusedError as error:
            raise NotScoredError("refused", str(error)) from None
    if scored.kind is not None:
        raise NotScoredError(scored.kind, scored.reason)
    return scored
