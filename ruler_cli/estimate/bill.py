"""One judge of a run and what it is asked about groups, less what it was asked before.

Which requests there are is the plan's to say; what one takes is `outlay`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ruler_cli.estimate.outlay import NEVER, Outlay, Range, Role, Total, times
from ruler_cli.judges.prices import Model
from ruler_cli.ledger import ReplyCache
from ruler_cli.records import Fault, Group, Reply, Request
from ruler_cli.scoring import plan
from ruler_cli.scoring.request import Sheet, compose, lay_out
from ruler_cli.settings import AskSettings

SHOWN = 5
"""Keys of groups that are too long, to look at."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One judge of a run: what is known of it, its parameters, what it was asked before, when it is asked.

    `place` is its number on the panel, which says with which order it begins.
    """

    name: str
    model: Model
    params: Mapping[str, Any] = field(default_factory=dict)
    kept: ReplyCache | None = None
    role: Role = "panel"
    place: int = 0


@dataclass(slots=True)
class Bill:
    """What one judge is asked about the groups taken in, and what of it was asked before.

    `requests` counts first requests of groups that fit, kept ones included; `certain` groups are known to
    be refused by the judge before.
    """

    seat: Seat
    ask: AskSettings
    adaptive: bool
    total: Total
    groups: int = 0
    certain: float = 0
    requests: int = 0
    kept: int = 0
    kept_failed: int = 0
    too_long: int = 0
    windowed: int = 0
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, seat: Seat, ask: AskSettings, *, adaptive: bool) -> Bill:
        """Nothing yet."""
        own = replace(ask, context_tokens=seat.model.context)
        return cls(seat, own, adaptive, Total.of(seat.model, seat.params))

    @property
    def scores_all(self) -> bool:
        """Whether the judge is asked about every group."""
        return self.seat.role == "panel"

    def lay_out(self, group: Group) -> Sheet:
        """The group as this judge is shown it."""
        return lay_out(group, self.ask)

    def holds(self, sheet: Sheet) -> bool:
        """Whether a sheet made for another judge is what this one is shown: nothing of it was left out."""
        limit = self.ask.context_tokens
        return not sheet.shortening and (limit is None or sheet.tokens <= limit)

    def often(self, turn: int, *, alone: bool, certain: float) -> Range:
        """How often a request of a pass is made; `certain`: how likely the judge before refuses."""
        role = self.seat.role
        if alone and role == "escalation":
            return NEVER  # it is tied
        return times(role, turn, adaptive=self.adaptive, certain=certain)

    def take(self, key: str, sheet: Sheet, *, certain: bool = False) -> bool:
        """Count the requests of a group; whether the judge is known to refuse it."""
        self.groups += 1
        self.certain += certain
        first = plan.parts(sheet, self.ask, plan.turn_of(0, self.seat.place))
        if not first:
            self.too_long += 1
            self.keys = (*self.keys, key)[:SHOWN]
            return False
        windowed, refused = len(first) > 1, False
        for number in range(plan.turns(sheet, self.ask)):
            often = self.often(number, alone=sheet.alone, certain=certain)
            if not often.high:
                return False
            self.windowed += windowed and not number
            turn = plan.turn_of(number, self.seat.place)
            for part in plan.parts(sheet, self.ask, turn) if number else first:
                self.requests += 1
                answer = self._find(sheet, part)
                if answer is None:
                    tokens = sheet.tokens_of(part.bodies)
                    self.total.add(tokens, len(part.bodies), often, windowed=windowed)
                    self.total.longest(tokens, partial(_request, sheet, self.ask, part))
                    continue
                self.kept += 1
                self.kept_failed += isinstance(answer, Fault)
                refused |= _refusal(answer)
        return refused

    def outlay(self) -> Outlay:
        """What it comes to."""
        return self.total.outlay(
            self.seat.name,
            self.seat.role,
            self.seat.model,
            kept=self.kept,
            kept_failed=self.kept_failed,
            too_long=self.too_long,
            windowed=self.windowed,
        )

    def _find(self, sheet: Sheet, part: plan.Part) -> Reply | Fault | None:
        kept = self.seat.kept
        return None if kept is None else kept.find(kept.key(_request(sheet, self.ask, part)))


def _request(sheet: Sheet, ask: AskSettings, part: plan.Part) -> Request:
    return compose(sheet, ask, part).request


def _refusal(answer: Reply | Fault) -> bool:
    return answer.kind == "refused" if isinstance(answer, Fault) else answer.refusal is not None
