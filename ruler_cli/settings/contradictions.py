"""Settings of one run that contradict one another, or that cannot be by themselves."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.settings.rubric import scale_mistake

if TYPE_CHECKING:
    from ruler_cli.settings.models import JudgeSettings, ScoreSettings

FIRST_PASSES = 2
"""Passes that adaptive scoring, and a stronger judge, give every group."""


def refuse_contradictions(settings: ScoreSettings) -> None:
    """Raise UsageError if settings of a run contradict one another."""
    for judge in settings.judges:
        _refuse_name(judge, "escalate" if judge is settings.escalate else "model")
    _refuse_twins(settings)
    _refuse_panel(settings)
    _refuse_passes(settings)
    _refuse_parts_of_input(settings)
    if settings.cached_only and settings.ledger is None:
        remedy = Sentence("leave out {ledger:none}")
        raise UsageError("needs a ledger", remedy, option="cached_only")
    if mistake := scale_mistake(settings.ask.rubric):
        raise UsageError(mistake, option="rubric")
    if settings.combine.debias and settings.ask.order == "input":
        problem = "needs a random order: in input order a position tells the rollout"
        raise UsageError(problem, Sentence("leave out {order:input}"), option="debias")


def _refuse_name(judge: JudgeSettings, option: str) -> None:
    """Raise UsageError if a text cannot be the name of a judge."""
    name = judge.label
    wrong = partial(UsageError, option=option, value=name)
    if not name.strip() or name.startswith("-"):
        raise UsageError("needs a value", option=option)
    if name != name.strip() or "," in name:
        raise wrong("names one judge", "repeat it for a panel")
    if "://" in name:
        endpoint = Sentence(
            "give it as {api_base:URL}, and the model's name there as {model}"
        )
        raise UsageError("is an address", endpoint, option=option)
    if name.endswith("/"):
        raise wrong("the model's name is missing after the provider")


def _refuse_twins(settings: ScoreSettings) -> None:
    """Raise UsageError if two judges are one: by their name, or to the ledger."""
    for one, other in combinations(settings.judges, 2):
        if one.label == other.label:
            several = Sentence("to ask one judge several times, give {passes}")
            raise UsageError(f"{one.label} is named twice as a judge", several)
        if (one.model, one.params) == (other.model, other.params):
            alike = f"judges {one.label} and {other.label} have one model and the same parameters"
            problem = f"{alike}, so the ledger cannot tell their replies apart"
            raise UsageError(problem, "leave one out, or give one another parameter")


def _refuse_panel(settings: ScoreSettings) -> None:
    """Raise UsageError if an option needs several judges and there is one."""
    needed = {
        "fallback": settings.fallback,
        "standardize": settings.combine.standardize,
    }
    for option, given in needed.items():
        if given and not settings.panel:
            raise UsageError(
                "needs several judges", Sentence("repeat {model}"), option=option
            )
    if settings.fallback and settings.combine.standardize:
        problem = Sentence("needs judges that score together, not in turn")
        raise UsageError(
            problem, Sentence("leave out {fallback}"), option="standardize"
        )


def _refuse_passes(settings: ScoreSettings) -> None:
    """Raise UsageError if there are too few passes for what is to be done with them."""
    passes, least = settings.ask.passes, settings.combine.min_passes
    averaged = settings.panel and not settings.fallback
    two = Sentence("give {passes:2} or more")
    if settings.adaptive and passes < FIRST_PASSES:
        raise UsageError("starts with 2 passes for every group", two, option="adaptive")
    if settings.escalate and passes < FIRST_PASSES and not averaged:
        raise UsageError(
            "one pass cannot show which groups are unclear", two, option="escalate"
        )
    wrong = partial(UsageError, option="min_passes", value=least)
    if least > passes:
        raise wrong(Sentence("is more than {passes:{most}}", most=passes))
    if least > FIRST_PASSES and (settings.adaptive or settings.escalate):
        option = "adaptive" if settings.adaptive else "escalate"
        raise wrong(
            Sentence(f"{{{option}}} gives most groups 2 passes"), "give 2 or less"
        )


def _refuse_parts_of_input(settings: ScoreSettings) -> None:
    """Raise UsageError for what needs all groups, in their order, and gets a part of them."""
    deciding = {"adaptive": settings.adaptive, "escalate": settings.escalate}
    needing_all = {
        **deciding,
        "debias": settings.combine.debias,
        "standardize": settings.combine.standardize,
    }
    for option, given in needing_all.items():
        if given and settings.input.shard is not None:
            last = "give it to the last run, over the whole file with the {ledger} of every shard"
            raise UsageError(
                "needs all groups, and a shard has some", Sentence(last), option=option
            )
    for option, given in deciding.items():
        if given and settings.draw is not None:
            problem = Sentence(
                f"cannot be with {{{option}}}, which compares neighbours in INPUT"
            )
            raise UsageError(problem, "leave one out", option="spend", value="spread")
