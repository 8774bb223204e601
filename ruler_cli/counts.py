"""What a run came to: groups, failures, tokens and money, as they are known so far."""

from __future__ import annotations

import time

from ruler_cli.judges.prices import Price
from ruler_cli.judging import Outcome
from ruler_cli.observer import Summary
from ruler_cli.pool.caller import Caller
from ruler_cli.records import Failure, Group
from ruler_cli.settings import MaxFailures

_ENOUGH = 20
"""Groups of a stream before which a share of them says nothing."""


class Counts:
    """The summary of a run as it grows, and whether too much has failed."""

    def __init__(self, most: MaxFailures | None, price: Price | None, caller: Caller) -> None:
        """`caller` knows what was asked and what it took."""
        self._most, self._price, self._caller = most, price, caller
        self._began = time.perf_counter()
        self.summary = Summary()

    def add(self, group: Group, outcome: Outcome) -> None:
        """Count a group that is done."""
        summary, verdict = self.summary, outcome.verdict
        summary.groups += 1
        summary.kept += outcome.kept
        summary.rollouts += group.compared
        self.pay(outcome)
        if isinstance(verdict, Failure):
            summary.failed[verdict.kind] = summary.failed.get(verdict.kind, 0) + 1
            summary.failed_before += outcome.kept
            return
        summary.scored += 1
        summary.tied += verdict.tied
        summary.suspect += len(verdict.suspects)
        summary.rescaled += verdict.rescaled
        summary.unknown_ids += verdict.unknown
        summary.shortened += bool(verdict.shortened)

    def pay(self, outcome: Outcome) -> None:
        """Count the money of a group, what this run asked for apart from what was kept."""
        summary, price = self.summary, self._price
        self._spent()
        if price is not None and summary.kept_usd is not None:
            summary.kept_usd += price.of(outcome.usage) - price.of(outcome.paid)

    def too_many(self, *, begun: bool) -> bool:
        """Whether more has failed than --max-failures allows; what the cap left out is no failure.

        A share is of all groups where their number is known, which it is once judging has `begun`.
        """
        most, summary = self._most, self.summary
        if most is None or (most.percent and not begun):
            return False
        lost = sum(n for kind, n in summary.failed.items() if kind != "budget") + summary.unreadable
        known = summary.total if summary.total is not None else max(summary.groups, _ENOUGH)
        return lost > (most.number * known / 100 if most.percent else most.number)

    def finish(self, stopped: Exception | None) -> Summary:
        """The whole summary, with the sentence that a run was stopped with."""
        summary, tally = self.summary, self._caller.tally
        self._spent()
        summary.seconds = time.perf_counter() - self._began
        summary.asked, summary.retried = tally.asked, dict(sorted(tally.retried.items()))
        summary.unsure_usd = self._caller.gate.budget.unsure if self._price else None
        summary.most_in_flight = tally.most
        summary.stopped = None if stopped is None else str(stopped)
        return summary

    def _spent(self) -> None:
        """Every reply that came counts, also one whose group is not written yet."""
        self.summary.usage = self._caller.tally.usage
        if self._price is None:
            self.summary.cost_usd = self.summary.kept_usd = None
        else:
            self.summary.cost_usd = self._price.of(self.summary.usage)
