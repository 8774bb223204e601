"""From Python: all that `ruler score` can, and functions with the signatures of ART's: change the import."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict

from ruler_cli.config import AskSettings, JudgeSettings, PoolSettings, ScoreSettings
from ruler_cli.contradictions import refuse_contradictions
from ruler_cli.errors import ReaderGone, RefusedError, RulerError, WrongShapeError
from ruler_cli.object_groups import G, JudgedGroup, items_of
from ruler_cli.observer import Observer, Summary
from ruler_cli.open_scorer import Groups, GroupStream
from ruler_cli.run import score
from ruler_cli.scorer import Log, Scorer


async def score_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    settings: ScoreSettings | None = None,
    *,
    observer: Observer | None = None,
) -> Summary:
    """Score INPUT into OUTPUT as `ruler score` does, and return the summary.

    Each is a path, an address, or `-`. `settings.input` and `settings.output` take these values; the other
    settings are those of the command. Groups that could not be scored are counted in the summary. RulerError
    if something stopped the run: the same call goes on where it stopped, for replies are in the ledger.
    """
    settings = ScoreSettings() if settings is None else settings
    refuse_contradictions(settings)
    for name, path in (("input", input), ("output", output)):
        if not isinstance(path, str | os.PathLike):
            raise WrongShapeError(f"{name}: is of type {type(path).__name__}; give a path, an address or '-'")
    source = replace(settings.input, source=os.fspath(input))
    result = await score(replace(settings, input=source, output=os.fspath(output)), observer or Log())
    if result.stopped is not None and not isinstance(result.stopped, ReaderGone):
        raise result.stopped
    return result.summary


async def score_groups(
    groups: Groups[G], settings: ScoreSettings | None = None, *, observer: Observer | None = None
) -> AsyncGenerator[JudgedGroup[G], None]:
    """Score groups, an iterable or an async iterable, as `Scorer.score_groups` does, with an own Scorer.

    Replies are kept in the command's own ledger unless `settings.ledger` says otherwise, so that a program
    that is run again goes on where it stopped. Close the generator, with `contextlib.aclosing`, if what
    follows a loop that ends early depends on it.
    """
    async with Scorer(settings, observer=observer) as scorer, GroupStream(scorer.opened, groups) as stream:
        async for scored in stream:
            yield scored


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
    endpoint. NotScoredError if the judge gave no usable answer, UsageError on bad usage.
    """
    conversations = list(_several(message_lists, "message_lists", "a list of conversations"))
    messages = [
        list(_several(each, f"message_lists[{i}]", "a list of messages"))
        for i, each in enumerate(conversations)
    ]
    if not messages:
        return []
    given = None if tools is None else list(_several(tools, "tools", "a list of tools"))
    group = {"trajectories": [{"messages": each} for each in messages], "tools": given}
    scored = await _score_once(group, judge_model, extra_litellm_params, rubric, debug=debug)
    out = []
    for number, fields in enumerate(scored.trajectories, 1):
        if fields["status"] == "failed":
            raise NotScoredError("input", f"conversation {number} {fields['reason']}")
        explanation, own = fields["explanation"], fields["score"]
        out.append(TrajectoryScore(trajectory_id=str(number), explanation=explanation, score=own))
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

    `group` is a dict with `trajectories`, or any object with ART's attributes; WrongShapeError if it is
    neither. Each trajectory gets `reward`, `metrics["independent_reward"]`, `metrics["ruler_score"]` and a
    line in `logs`. NotScoredError if the judge gave no usable answer. With `swallow_exceptions` a group that
    cannot be scored gives None instead, and a warning is logged. No reply is kept: `Scorer` has a ledger.
    """
    if not items_of(group, "group"):
        return copy.copy(group)
    try:
        scored = await _score_once(group, judge_model, extra_litellm_params, rubric, debug=debug)
    except RulerError as error:
        if not swallow_exceptions or isinstance(error, WrongShapeError):
            raise
        Log().warn(str(error))
        return None
    return scored.group


async def _score_once(
    group: G, model: str, params: Mapping[str, Any] | None, rubric: str | None, *, debug: bool
) -> JudgedGroup[G]:
    """Score a group with a judge of its own, in one pass and without a ledger; NotScoredError if it fails.

    litellm's own parameters are acted on, the rest is sent.
    """
    params, usual = dict(params or {}), JudgeSettings()
    bases = [params.pop(name, None) for name in ("api_base", "base_url")]
    tries = [params.pop(name, None) for name in ("num_retries", "max_retries")]
    judge = JudgeSettings(
        model,
        api_base=bases[0] or bases[1],
        api_key=params.pop("api_key", None),
        timeout=float(params.pop("timeout", None) or usual.timeout),
        params=params,
    )
    retries = next((int(n) for n in tries if n is not None), PoolSettings().retries)
    pool, ask = PoolSettings(concurrency=1, retries=retries), AskSettings(rubric=rubric)
    settings = ScoreSettings(judge=judge, ask=ask, pool=pool, ledger=None, debug=debug)
    async with Scorer(settings, observer=_Replies()) as scorer:
        try:
            scored = await scorer.score(group)
        except RefusedError as error:
            raise NotScoredError("refused", str(error)) from None
    if scored.kind is not None:
        raise NotScoredError(scored.kind, str(scored.reason))
    return scored


class _Replies(Log):
    """Shows the judge's replies on stderr, and logs the rest."""

    def replied(self, group: str, text: str) -> None:
        """Show a reply."""
        sys.stderr.write(f"judge: {text}\n")


def _several(value: Any, name: str, meant: str) -> Iterable[Any]:
    """Return an iterable; WrongShapeError if the value is a text, a dict, or no iterable."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise WrongShapeError(f"{name}: is of type {type(value).__name__}; give {meant}")
    return value
