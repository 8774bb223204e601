"""Settings that cannot be: of another type, out of bounds, or in contradiction with one another."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, get_args

from ruler_cli.config import (
    JudgeSettings,
    MaxFailures,
    OnFailure,
    PoolSettings,
    ScoreSettings,
    param_mistake,
)
from ruler_cli.errors import UsageError, WrongShapeError


def _refuse_types(settings: Any) -> None:
    """Raise UsageError if a value has another type than its field, as a program may give it."""
    if not isinstance(settings, ScoreSettings):
        kind = type(settings).__name__
        raise WrongShapeError(f"settings: is of type {kind}; give ScoreSettings(judge=JudgeSettings(NAME))")
    ask, most = settings.ask, settings.max_failures
    rows: list[tuple[str, Any, tuple[Any, ...] | type]] = [
        *(("judge", judge, JudgeSettings) for judge in settings.judges),
        ("max_failures", MaxFailures(0) if most is None else most, MaxFailures),
        ("on_failure", settings.on_failure, get_args(OnFailure)),
        ("rubric", "" if ask.rubric is None else ask.rubric, str),
        ("order", ask.order, ("random", "input")),
        ("single", ask.single, ("flag", "score")),
        *((f"--{name}", getattr(ask, name), int) for name in ("passes", "seed")),
    ]
    for name, value, form in rows:
        if isinstance(form, tuple) and value not in form:
            raise UsageError(f"{name}: is none of {', '.join(map(repr, form))}")
        if isinstance(form, type) and not isinstance(value, form):
            raise UsageError(f"{name}: is of type {type(value).__name__}; give {form.__name__}")


def _refuse_numbers(settings: ScoreSettings) -> None:
    """Raise UsageError if a number is out of its bounds, or none."""
    ask, pool, combine = settings.ask, settings.pool, settings.combine
    judges = settings.judges
    limited: list[PoolSettings | JudgeSettings] = [pool, *judges]
    rows: list[tuple[str, Any, float, float]] = [
        ("--passes", ask.passes, 1, math.inf),
        ("--group-size", ask.group_size, 2, math.inf),
        ("--min-passes", combine.min_passes, 1, math.inf),
        ("--blend", combine.blend, 0, 1),
        ("--retries", pool.retries, 0, math.inf),
        ("--max-cost", pool.max_cost, 0, math.inf),
        *(("--concurrency", each.concurrency, 1, math.inf) for each in limited),
        *(("--rpm", each.rpm, 0.01, math.inf) for each in limited),
        *(("--tpm", each.tpm, 1, math.inf) for each in limited),
        *(("--timeout", judge.timeout, 0.001, math.inf) for judge in judges),
    ]
    for option, value, least, most in rows:
        if value is not None and not isinstance(value, int | float):
            raise UsageError(f"{option}: is of type {type(value).__name__}; give a number")
        if value is not None and not least <= value <= most:  # `nan` is not, either
            bounds = f"from {least:g} to {most:g}" if most < math.inf else f"of {least:g} or more"
            raise UsageError(f"{option} {value:g}: give a number {bounds}")


def _refuse_judges(settings: ScoreSettings) -> None:
    """Raise UsageError if a judge has no name of its own, or a key among its parameters, or no fallback."""
    judges = settings.judges
    names = [judge.label for judge in judges]
    for name, value in [pair for judge in judges for pair in judge.params.items()]:
        mistake = param_mistake(name, value, "JudgeSettings(api_base=…)", "JudgeSettings(model=…)")
        if name == "api_key":  # it would be sent in the body of the request
            mistake = "give it as JudgeSettings(api_key=…)"
        if mistake:
            raise UsageError(f"params: `{name}` is no parameter of a call; {mistake}")
    for name in names:
        if not name.strip():
            raise UsageError("-m or --escalate: the judge has no name")
        if name != name.strip() or "," in name:
            split = " ".join(f"-m {one.strip()}" for one in name.split(",") if one.strip())
            raise UsageError(f"-m or --escalate '{name}': is no one name; write {split}")
        if "://" in name:
            raise UsageError(
                "-m or --escalate: is an address; give it as --api-base URL, and the model's name there as -m"
            )
        if name.startswith("-"):
            raise UsageError(f"-m or --escalate: its value is missing in front of {name}")
        if name.endswith("/"):
            raise UsageError(f"-m or --escalate {name}: the model's own name is missing behind its provider")
        if names.count(name) > 1:
            raise UsageError(f"{name} is named twice as a judge; --passes asks one judge several times")
    if settings.fallback and not settings.panel:
        raise UsageError("--fallback needs another judge to fall back on; give -m again")


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if options of one run contradict one another, or cannot be by themselves.

    A group gets 2 passes first, see `judging.adaptive.FIRST`.
    """
    _refuse_types(settings)
    _refuse_judges(settings)
    _refuse_numbers(settings)
    ask, combine = settings.ask, settings.combine
    averaged = settings.panel and not settings.fallback
    judges = settings.judges
    for one, other in combinations(judges, 2):
        if (one.model, one.params) == (other.model, other.params):
            raise UsageError(
                f"judges {one.label} and {other.label} are one judge to the ledger, which keeps replies by "
                f"model ({one.model}) and parameters; leave one out, or set them apart with params"
            )
    if combine.standardize and not averaged:
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if combine.debias and ask.order == "input":
        raise UsageError(
            "--debias: in input order a position says what the rollout is; leave out --order input"
        )
    if ask.passes < 2 and settings.adaptive:
        raise UsageError("--adaptive spends 2 passes on every group first; give --passes 3 or more")
    if ask.passes < 2 and settings.escalate and not averaged:
        raise UsageError("--escalate: one pass does not tell what is resolved; give --passes 2 or more")
    few = f"--min-passes {combine.min_passes}"
    if combine.min_passes > ask.passes:
        raise UsageError(f"{few}: is more than --passes {ask.passes}, so no group could be scored")
    if combine.min_passes > 2 and settings.adaptive:
        raise UsageError(f"{few}: with --adaptive most groups get 2 passes; give 2 or less")
    if combine.min_passes > 2 and settings.escalate:
        raise UsageError(
            f"{few}: the judge of --escalate gives 2 passes, so its scores would never count; give 2 or less"
        )
    needing_all = (
        ("--adaptive", settings.adaptive, "give --passes 2 here, and --adaptive", ""),
        ("--escalate", settings.escalate, "leave it out here, and give it", ""),
        ("--debias", combine.debias, "leave it out here, and give it", ": it costs no call"),
        ("--standardize", combine.standardize, "leave it out here, and give it", ": it costs no call"),
    )
    for option, given, instead, cost in needing_all:
        if given and settings.input.shard is not None:
            raise UsageError(
                f"{option}: needs the replies to all groups, and a shard has some; {instead} to the last "
                f"run, over the whole file with the --ledger of every shard{cost}"
            )
