"""Groups → what judging them would take, without a call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ruler_cli.judges.prices import Model
from ruler_cli.records import Group, Usage
from ruler_cli.scoring.request import lay_out
from ruler_cli.settings import AskSettings

ANSWER_TOKENS_PER_ROLLOUT = 60
"""An entry with two sentences of explanation; reasoning tokens come on top and are not known."""


@dataclass(slots=True)
class Estimate:
    """Calls, tokens and cost of one pass; `cost_usd` is None where the price is not known."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    too_long: int = 0
    suspect: int = 0
    cost_usd: float | None = None


def estimate(groups: Iterable[Group], ask: AskSettings, model: Model) -> Estimate:
    """Lay out every group as `score` would and add up."""
    found = Estimate()
    for group in groups:
        sheet = lay_out(group, ask)
        if not sheet.bodies:
            continue
        readable = sum(1 for owner in sheet.owner if owner is not None)
        found.identical_rollouts += readable - len(sheet.bodies)
        found.tied_groups += sheet.alone
        found.suspect += sum(1 for owner in sheet.owner if owner in sheet.suspects)
        if model.context is not None and sheet.tokens > model.context:
            found.too_long += 1
            continue
        found.calls += 1
        found.prompt_tokens += sheet.tokens
        found.completion_tokens += ANSWER_TOKENS_PER_ROLLOUT * len(sheet.bodies)
    if model.price is not None:
        found.cost_usd = model.price.of(Usage(found.prompt_tokens, found.completion_tokens))
    return found
