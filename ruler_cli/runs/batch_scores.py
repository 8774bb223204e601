"""Results of groups → their scores within the batch, its statistics, and the counts of the run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from ruler_cli.errors import CapReached, NoUsableReply, RulerError, Sentence
from ruler_cli.formats.annotate import Digests
from ruler_cli.judges.resolve import is_embedded
from ruler_cli.judging.panel import Panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.ledger.texts import digest_of, params_text
from ruler_cli.prompting.prompt import shown_rubric
from ruler_cli.settings.keys import without_secrets
from ruler_cli.settings.models import CombineSettings, MaxFailures, ScoreSettings
from ruler_cli.types import (
    SHORTEST_KEY,
    UNANSWERED,
    BatchFigures,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    PassScores,
    Summary,
    readable_text,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.scoring.combine import BatchStatistics


class BatchScores:
    """The scores of groups as their batch grows.

    `waits` tells that scores are final only once the batch is complete. `names` are those of all judges, in
    their order.
    """

    def __init__(self, settings: ScoreSettings, stats: RunStats) -> None:
        """`stats` counts the groups."""
        self.stats, self._input, self._how = stats, settings.input, settings.combine
        self._ask = settings.ask
        self.names = tuple(judge.label for judge in settings.judges)
        self._embedded = {
            i for i, judge in enumerate(settings.judges) if is_embedded(judge)
        }
        self.texts = RunTexts(settings, stats.summary, stats.panel.ledger)
        self.waits = _waits(settings)
        # before the batch is whole, what needs the batch is left out
        self._early = (
            replace(self._how, debias=False, standardize=False)
            if self.waits
            else self._how
        )

    def take(self, group: Group, result: GroupResult) -> GroupScores | GroupError:
        """Count a group; return its scores, as far as they are known if the batch is to be complete first."""
        self._batch.add(result)
        scores = self._combined(result, self._early)
        if isinstance(scores, GroupScores) or scores.kind != "interrupted":
            self.stats.add(group, result, scores)
            self.stats.add_explanations(
                one for one in result.pass_scores if one.judge not in self._embedded
            )
            self.texts.add(group)
        return scores

    def complete(self, results: Iterable[GroupResult]) -> str | None:
        """Note that these are the results of all groups. Return a warning if an option has no effect."""
        from ruler_cli.scoring.statistics import ENOUGH_GROUPS

        positions = self._batch.position_bias
        self._batch.refit_noise(results, self._how)
        if not self._how.debias or positions.enough:
            return None
        return Sentence(
            "{debias} has no effect: it takes {least} groups with something to compare, and there are {groups}",
            least=ENOUGH_GROUPS,
            groups=positions.groups,
        )

    def final(self, result: GroupResult) -> GroupScores | GroupError:
        """Return the scores of a group within the complete batch."""
        return self._combined(result, self._how)

    def conclude(
        self, group: Group, result: GroupResult, scores: GroupScores | GroupError
    ) -> None:
        """Count the final scores of a group."""
        self.stats.conclude(scores)
        if isinstance(scores, GroupScores):
            self._batch.add_scores(group.key, result, scores)

    def figures(self) -> BatchFigures:
        """Return the figures of the batch so far."""
        checked = self._how.order_by_outcome or self._input.outcome is not None
        return self._batch.figures(debias=self._how.debias, checked=checked)

    @cached_property
    def _batch(self) -> BatchStatistics:
        from ruler_cli.scoring.combine import BatchStatistics

        return BatchStatistics(self.names, input_order=self._ask.order == "input")

    def _combined(
        self, result: GroupResult, how: CombineSettings
    ) -> GroupScores | GroupError:
        from ruler_cli.scoring.combine import combine

        return combine(result, how, self._batch, self._ask.single)


def _waits(settings: ScoreSettings) -> bool:
    """Tell if scores need the whole batch.

    Reliability does, a little: its noise is shrunk towards the batch's. A pipe is not held up for that.
    """
    how, several = settings.combine, settings.ask.passes > 1 or bool(settings.panel)
    in_order = settings.output == "-" and settings.draw is None
    return how.debias or how.standardize or (several and not in_order)


_LISTED = 20
"""Rubrics of a run whose texts its summary has, and models that it names."""


class RunTexts:
    """The texts that make the scores of a run, by digest: rubrics, and the parameters of its judges.

    The ledger keeps them; secrets are removed before the digest is taken.
    """

    def __init__(
        self, settings: ScoreSettings, summary: Summary, ledger: Ledger | None
    ) -> None:
        """Keep the parameters; the rubrics come with the groups."""
        self._summary, self._ledger = summary, ledger
        self._usual = settings.ask.rubric
        judges = settings.judges
        keys = [
            judge.api_key or os.environ.get(judge.api_key_env or "", "")
            for judge in judges
        ]
        self._secrets = [key for key in keys if len(key) >= SHORTEST_KEY]
        named = [
            {"judge": each.label, "model": each.model, "params": dict(each.params)}
            for each in judges
        ]
        self._params, text = self._kept(
            "params", params_text(without_secrets(named, self._secrets))
        )
        self._summary.params_texts[self._params] = text
        self._rubric = lru_cache(16)(partial(self._kept, "rubric"))

    def add(self, group: Group) -> None:
        """Count the rubric of a group."""
        listed = self._summary.rubric_texts
        digest, text = self._rubric_of(group)
        if digest in listed or len(listed) < _LISTED:
            listed[digest] = text
        else:
            self._summary.more_rubrics += 1

    def digests(self, group: Group) -> Digests:
        """Return the digests of what made the scores of a group."""
        return {"rubric": self._rubric_of(group)[0], "params": self._params}

    def _rubric_of(self, group: Group) -> tuple[str, str]:
        return self._rubric(shown_rubric(group, self._usual))

    def _kept(self, kind: str, text: str) -> tuple[str, str]:
        """Return the digest of a text, and the text without secrets."""
        text = readable_text(
            text if kind == "params" else without_secrets(text, self._secrets)
        )
        digest = digest_of(text)
        if self._ledger is not None and self._ledger.texts is not None:
            self._ledger.texts.add(digest, kind, text)
        return digest, text


_ENOUGH = 20
"""Groups of a stream from which on a share of them is one."""


FIRST_ASKED = 20
"""Groups of which one must get a score: a judge of which no reply can be used is not paid for the others."""
UNUSABLE = ("reply", "transport", "refused")
"""Kinds of failures that the judge, and not the group, is the reason of."""


class RunStats:
    """The summary of a run as it grows, and the bounds on its failures."""

    def __init__(self, most: MaxFailures | None, panel: Panel) -> None:
        """`panel` counts the calls, and knows the prices."""
        self._most, self.panel = most, panel
        self._began = time.perf_counter()
        self.summary = Summary()
        self._unusable = self._first_unusable = 0
        self._bounded = most is None
        """True until a group that was asked about has a score, or `first_failed` told that none has."""

    def add(
        self, group: Group, result: GroupResult, scores: GroupScores | GroupError
    ) -> None:
        """Count a group that is judged."""
        summary = self.summary
        summary.groups += 1
        summary.kept += result.cached
        summary.rollouts += group.compared
        self.pay(result)
        self._bounded &= result.cached or isinstance(scores, GroupError)
        for name in result.served:
            if name in summary.served or len(summary.served) < _LISTED:
                summary.served[name] = summary.served.get(name, 0) + 1
        if isinstance(scores, GroupError):
            if (
                scores.kind in UNUSABLE
                and not result.cached
                and scores.reason != UNANSWERED.reason
            ):
                self._unusable += 1
                self._first_unusable = self._first_unusable or summary.groups
            summary.failed[scores.kind] = summary.failed.get(scores.kind, 0) + 1
            # no judge makes up for what the dump itself lacks
            summary.failed_before += result.cached and scores.kind != "input"
            return
        summary.scored += 1
        summary.alone += result.alone
        summary.suspect += sum(rollout.suspect for rollout in scores.rollouts)
        summary.rescaled += result.rescaled
        summary.unknown_ids += result.unknown
        summary.shortened += bool(result.shortened)
        summary.degraded += scores.degraded
        summary.windowed += result.windows > 1
        summary.escalated += result.escalated_to in scores.used
        summary.cut += any(call.error.kind == "budget" for call in result.failed_calls)

    def add_explanations(self, replies: Iterable[PassScores]) -> None:
        """Count replies that explain several rollouts, and those of them with one text for all."""
        for reply in replies:
            texts = {text.strip() for text in reply.explanations}
            if len(reply.explanations) > 1 and "" not in texts:
                self.summary.explained += 1
                self.summary.same_explanations += len(texts) == 1

    def conclude(self, scores: GroupScores | GroupError) -> None:
        """Count what is known of a group only with the whole batch."""
        if isinstance(scores, GroupScores):
            self.summary.tied += scores.tied
            self.summary.one_score += scores.one_score

    def pay(self, result: GroupResult) -> None:
        """Count the money of the group's cached replies; that of this run is known by the panel."""
        summary = self.summary
        if summary.kept_usd is None or result.used == result.paid:
            return
        used, paid = self.panel.cost(result.used), self.panel.cost(result.paid)
        if used is not None and paid is not None:
            summary.kept_usd += used - paid

    def too_many(self, *, begun: bool) -> bool:
        """Tell if more has failed than the user allows; what the cap left out is no failure.

        A share is of all groups if their number is known, once judging has `begun`.
        """
        most, summary = self._most, self.summary
        if most is None or (most.percent and not begun):
            return False
        lost = (
            sum(n for kind, n in summary.failed.items() if kind != "budget")
            + summary.unreadable
        )
        known = (
            summary.total if summary.total is not None else max(summary.groups, _ENOUGH)
        )
        return lost > most.of(known)

    def first_failed(self, last: GroupError) -> NoUsableReply | None:
        """Return the error of a run of which the first groups that were asked about failed, once.

        `last` is the error of the newest group. A bound of the user's takes the place of this one.
        """
        if not self._bounded or self._unusable < FIRST_ASKED:
            return None
        self._bounded = False
        return NoUsableReply(FIRST_ASKED, last.reason, self._first_unusable)

    def cap_reached(self, cap: float | None) -> CapReached | None:
        """Return the error of a run that left out groups or passes for the cap of so many USD."""
        left, cut = self.summary.failed.get("budget", 0), self.summary.cut
        return (
            CapReached(cap or 0.0, left, cut, self.panel.budget.least)
            if left or cut
            else None
        )

    def finish(self, stopped: RulerError | None) -> Summary:
        """Return the whole summary, with the sentence that the run was stopped with."""
        summary = self.summary
        self.refresh()
        self.panel.count(summary)
        summary.seconds = time.perf_counter() - self._began
        summary.unsure_usd = (
            None if summary.cost_usd is None else self.panel.budget.unsure
        )
        summary.stopped = None if stopped is None else stopped.reason
        return summary

    def refresh(self) -> None:
        """Note the tokens and USD of all replies, also of those whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self.panel.spent()
        if self.summary.cost_usd is None:
            self.summary.kept_usd = None
