"""What a run came to: groups, failures, tokens and money, as they are known so far."""

from __future__ import annotations

import time

from ruler_cli.ballots import Verdict
from ruler_cli.judging import Outcome
from ruler_cli.observer import Summary
from ruler_cli.pool.panel import Panel
from ruler_cli.records import Failure, Group
from ruler_cli.settings import MaxFailures

_ENOUGH = 20
"""Groups of a stream before which a share of them says nothing."""


class Counts:
    """The summary of a run as it grows, and whether too much has failed."""

    def __init__(self, most: MaxFailures | None, panel: Panel) -> None:
        """`panel` knows what was asked and what it took."""
        self._most, self._panel = most, panel
        self._began = time.perf_counter()
        self.summary = Summary()

    def add(self, group: Group, outcome: Outcome, verdict: Verdict | Failure) -> None:
        """Count a group that is judged."""
        summary = self.summary
        summary.groups += 1
        summary.kept += outcome.kept
        summary.rollouts += group.compared
        self.pay(outcome)
        if isinstance(verdict, Failure):
            summary.failed[verdict.kind] = summary.failed.get(verdict.kind, 0) + 1
            # what the dump itself lacks, no judge makes up for
            summary.failed_before += outcome.kept and verdict.kind != "input"
            return
        summary.scored += 1
        summary.alone += outcome.alone
        summary.suspect += sum(rollout.suspect for rollout in verdict.rollouts)
        summary.rescaled += outcome.rescaled
        summary.unknown_ids += outcome.unknown
        summary.shortened += bool(outcome.shortened)
        summary.degraded += verdict.degraded
        summary.windowed += outcome.windows > 1
        summary.escalated += outcome.final in verdict.used
        summary.cut += any(miss.failure.kind == "budget" for miss in outcome.misses)

    def conclude(self, verdict: Verdict | Failure) -> None:
        """Count what only the whole batch tells of a group."""
        if isinstance(verdict, Verdict):
            self.summary.tied += verdict.tied
            self.summary.one_score += verdict.one_score

    def pay(self, outcome: Outcome) -> None:
        """Count the money of a group, what this run asked for apart from what was kept."""
        summary = self.summary
        self._spent()
        used, paid = self._panel.cost(outcome.used), self._panel.cost(outcome.paid)
        if summary.kept_usd is not None and used is not None and paid is not None:
            summary.kept_usd += used - paid

    def too_many(self, *, begun: bool) -> bool:
        """Whether more has failed than --max-failures allows; what the cap left out is no failure.

        A share is of all groups where their number is known, which it is once judging has `begun`.
        """
        most, summary = self._most, self.summary
        if most is None or (most.percent and not begun):
            return False
        lost = sum(n for kind, n in summary.failed.items() if kind != "budget") + summary.unreadable
        known = summary.total if summary.total is not None else max(summary.groups, _ENOUGH)
        return lost > most.of(known)

    def finish(self, stopped: Exception | None) -> Summary:
        """The whole summary, with the sentence that a run was stopped with."""
        summary, tries = self.summary, self._panel.tries()
        self._spent()
        summary.seconds = time.perf_counter() - self._began
        summary.asked, summary.retried, summary.unanswered = tries.asked, tries.retried, tries.unanswered
        summary.unsure_usd = None if summary.cost_usd is None else self._panel.budget.unsure
        summary.most_in_flight = tries.most
        summary.stopped = None if stopped is None else str(stopped)
        return summary

    def _spent(self) -> None:
        """Every reply that came counts, also one whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self._panel.spent()
        if self.summary.cost_usd is None:
            self.summary.kept_usd = None
