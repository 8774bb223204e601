"""The options on how replies become scores, which can be changed afterwards without a call."""

from __future__ import annotations

from math import isnan
from typing import Annotated

import typer

from ruler_cli.cli import options
from ruler_cli.errors import UsageError
from ruler_cli.settings import ScoreSettings

MinPasses = Annotated[
    int,
    typer.Option(
        metavar="M",
        min=1,
        envvar="RULER_MIN_PASSES",
        help="Valid passes that a judge must have brought for its scores to count.",
    ),
]
Debias = Annotated[
    bool,
    typer.Option(
        "--debias", envvar="RULER_DEBIAS", help="Subtract what the batch shows that a place is worth."
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize",
        envvar="RULER_STANDARDIZE",
        help="Bring the judges of a panel to one mean and spread before they are averaged.",
    ),
]
Blend = Annotated[
    float | None,
    typer.Option(
        metavar="W",
        min=0.0,
        max=1.0,
        envvar="RULER_BLEND",
        help="Mix: W times the judge's score, the rest the original reward.",
    ),
]
ByOutcome = Annotated[
    bool,
    typer.Option(
        "--order-by-outcome",
        envvar="RULER_ORDER_BY_OUTCOME",
        help="A rollout that failed its check (--outcome, else the reward) never outranks one that passed.",
    ),
]


def refuse_what_cannot_be(settings: ScoreSettings) -> None:
    """UsageError where options contradict one another, before anything is read."""
    ask, how = settings.ask, settings.combine
    _refuse_nan(settings)
    if how.standardize and (not settings.panel or settings.fallback):
        raise UsageError("--standardize: there is one judge only; a panel is several -m, without --fallback")
    if how.debias and ask.order == "input":
        raise UsageError("--debias: in input order a place says what the rollout is; leave out --order input")
    stronger = settings.escalate.model if settings.escalate else None
    judges = 1 if settings.fallback else 1 + len(settings.panel)
    options.refuse_passes(ask.passes, adaptive=settings.adaptive, escalate=stronger, judges=judges)
    if how.min_passes > ask.passes:
        raise UsageError(
            f"--min-passes {how.min_passes}: is more than --passes {ask.passes}, so no group could be scored"
        )
    if how.min_passes > 1 and (stronger is not None or settings.adaptive):
        _refuse_least(how.min_passes, adaptive=settings.adaptive)


def _refuse_least(least: int, *, adaptive: bool) -> None:
    from ruler_cli.scoring.gain import FIRST

    if least <= FIRST:
        return
    if adaptive:
        raise UsageError(
            f"--min-passes {least}: with --adaptive most groups get {FIRST} passes; give {FIRST} or less"
        )
    raise UsageError(
        f"--min-passes {least}: the judge of --escalate gives {FIRST} passes, so its scores would never "
        f"count; give {FIRST} or less"
    )


def warning(settings: ScoreSettings) -> str | None:
    """What the given options make of the figures, where that misleads."""
    if settings.ask.order == "input" and (
        settings.ask.passes > 1 or (settings.panel and not settings.fallback)
    ):
        return (
            "--order input: every pass shows the same order, so what a judge gives a place for itself counts "
            "as reliability and weight; leave it out to have that cancel"
        )
    return None


def _refuse_nan(settings: ScoreSettings) -> None:
    """`nan` is read as a number and passes every bound, and then no score and no wait is one."""
    pool = settings.pool
    given = (
        ("--blend", settings.combine.blend),
        ("--rpm", pool.rpm),
        ("--tpm", pool.tpm),
        ("--max-cost", pool.max_cost),
        ("--timeout", settings.judge.timeout),
    )
    for name, value in given:
        if value is not None and isnan(value):
            raise UsageError(f"{name} nan: is no number; give one, or leave the option out")
