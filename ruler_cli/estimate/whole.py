"""Groups → what judging them would take, without a call.

Every judge of a run is told apart: each has a context, a price, thinking and kept replies of its own.
Which requests there are is the plan's to say; what one takes is `outlay`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ruler_cli.estimate.bill import Bill, Seat
from ruler_cli.estimate.outlay import (
    CALLS,
    ENTRY,
    NEVER,
    PROMPT,
    THINKING,
    Outlay,
    Range,
    answer_bound,
    cost_of,
    summed,
)
from ruler_cli.quantiles import rounded
from ruler_cli.records import Group
from ruler_cli.scoring.coverage import Coverage
from ruler_cli.scoring.request import BYTES_PER_TOKEN, Sheet
from ruler_cli.settings import AskSettings


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls, tokens and USD of all that the ledger lacks, for all judges together and for each.

    Of calls, tokens, USD and what is kept see `Outlay`. `too_long` groups do not fit the context of any
    judge that scores every group, and fail; `too_long_keys` are the first of them. `windowed` groups are
    shown in windows, which `window_calls` ask about.

    `groups` have something to judge, and `laid_out` of them were rendered. Where these are fewer, calls
    and entries are counted, and the other figures are extrapolated: `kept`, `suspect`, `shared`, the
    tokens, windows that a context makes necessary, and how many seem identical or too long are. `shared`
    is the share of the prompts' bytes that stands in a context or in tools which all rollouts of a group
    have. `lengths` counts rollouts of each number of tokens, what they share included. `coverage` is of the
    groups that were laid out.
    """

    calls: Range
    prompt_tokens: Range
    completion_tokens: Range
    cost_usd: Range | None
    cap_usd: float | None
    kept: int
    kept_failed: int
    identical_rollouts: int
    tied_groups: int
    too_long: int
    suspect: int
    groups: int = 0
    laid_out: int = 0
    shared: float = 0.0
    too_long_keys: tuple[str, ...] = ()
    lengths: Counter[int] = field(default_factory=Counter)
    windowed: int = 0
    window_calls: Range = NEVER
    judges: tuple[Outlay, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)


def estimate(
    groups: Iterable[Group], ask: AskSettings, seats: Sequence[Seat], *, adaptive: bool = False
) -> Estimate:
    """Lay out every group as `score` would and add up, in memory that does not grow with their number.

    The first of `seats` is on the panel. `ask.context_tokens` is not looked at: each judge has its own.
    """
    seen = Seen()
    bills = [Bill.of(seat, ask, adaptive=adaptive) for seat in seats]
    for group in groups:
        sheet = bills[0].lay_out(group)
        if seen.look(group, sheet):
            charge(group, sheet, bills)
    return added(seen, bills, seen.groups)


def charge(group: Group, sheet: Sheet, bills: Sequence[Bill]) -> None:
    """Take a group in for every judge; `sheet` is what the first of them is shown."""
    refused = False
    for bill in bills:
        own = sheet if bill.ask == bills[0].ask or bill.holds(sheet) else bill.lay_out(group)
        refused = bill.take(group.key, own, certain=refused)


def added(seen: Seen, bills: Sequence[Bill], groups: int) -> Estimate:
    """All that was seen and charged, as it is told."""
    outlays = [bill.outlay() for bill in bills]
    widest = min((bill for bill in bills if bill.scores_all), key=lambda bill: bill.too_long)
    return Estimate(
        summed(each.calls for each in outlays),
        summed(each.prompt_tokens for each in outlays),
        summed(each.completion_tokens for each in outlays),
        *cost_of(outlays),
        sum(bill.kept for bill in bills),
        sum(bill.kept_failed for bill in bills),
        seen.identical_rollouts,
        seen.tied_groups,
        widest.too_long,
        seen.suspect,
        groups,
        seen.groups,
        seen.shared / seen.bytes if seen.bytes else 0.0,
        widest.keys,
        seen.lengths,
        max(bill.windowed for bill in bills),
        summed(each.window_calls for each in outlays),
        tuple(outlays),
        seen.coverage,
    )


@dataclass(slots=True)
class Seen:
    """What groups that were laid out have shown, whoever judges them."""

    groups: int = 0
    rollouts: int = 0
    identical_rollouts: int = 0
    tied_groups: int = 0
    suspect: int = 0
    bytes: int = 0
    shared: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)

    def look(self, group: Group, sheet: Sheet) -> bool:
        """Take a group in; whether there is anything to judge."""
        if not sheet.bodies:
            return False
        self.groups += 1
        self.coverage.look(group, sheet)
        rollouts = {
            i if rollout.member is None else rollout.member: body
            for i, (rollout, body) in enumerate(zip(group.rollouts, sheet.owner, strict=True))
            if body is not None
        }
        self.rollouts += len(rollouts)
        self.identical_rollouts += len(rollouts) - len(sheet.bodies)
        self.tied_groups += sheet.alone
        common = len(sheet.context.encode()) + len(sheet.tools.encode())
        self.shared += common
        sizes = [len(body.encode()) for body in sheet.bodies]
        self.bytes += common + sum(sizes)
        for body in rollouts.values():
            self.lengths[rounded(int((common + sizes[body]) / BYTES_PER_TOKEN))] += 1
        if sheet.suspects:
            self.suspect += sum(1 for owner in sheet.owner if owner in sheet.suspects)
        return True


__all__ = [
    "CALLS", "ENTRY", "PROMPT", "THINKING", "Estimate", "Outlay", "Range", "Seat", "Seen", "added",
    "answer_bound", "charge", "estimate",
]  # fmt: skip
