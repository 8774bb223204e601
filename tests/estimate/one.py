"""Estimates for one judge, as most tests ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ruler_cli.estimate.bill import Seat
from ruler_cli.estimate.extrapolate import Fetch, extrapolate
from ruler_cli.estimate.notes import Notes, Overview
from ruler_cli.estimate.whole import Estimate, estimate
from ruler_cli.judges.prices import Model
from ruler_cli.ledger import ReplyCache
from ruler_cli.records import Group
from ruler_cli.settings import AskSettings


def estimate_one(
    groups: Iterable[Group],
    ask: AskSettings,
    model: Model,
    params: Mapping[str, Any] | None = None,
    kept: ReplyCache | None = None,
) -> Estimate:
    """What one judge is asked, all groups laid out."""
    return estimate(groups, ask, [Seat("", model, params or {}, kept)])


def extrapolate_one(
    notes: Notes,
    whole: Overview,
    fetch: Fetch,
    ask: AskSettings,
    model: Model,
    params: Mapping[str, Any] | None = None,
    kept: ReplyCache | None = None,
) -> Estimate:
    """What one judge is asked, by some of the groups."""
    return extrapolate(notes, whole, fetch, ask, [Seat("", model, params or {}, kept)])
