"""Groups in, their scores out, in order: the part that a run over a file and an open Scorer share."""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ruler_cli.errors import (
    CapReached,
    InterruptedRun,
    NoUsableReply,
    ReaderGone,
    RefusedError,
    RulerError,
    TooManyFailures,
)
from ruler_cli.files.scratch import Scratch
from ruler_cli.judges.replies import SHORTEST_KEY
from ruler_cli.judges.resolve import is_embedded
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import Panel
from ruler_cli.ledger.database import digest_of, params_text
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import BOUNDS, Bounds, Engine, end_tasks
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import shown_rubric
from ruler_cli.prompting.templates import DEFAULT_RUBRIC, QUESTION
from ruler_cli.runs.waits import WaitReports
from ruler_cli.settings.keys import without_secrets
from ruler_cli.settings.models import (
    AskSettings,
    CombineSettings,
    MaxFailures,
    ScoreSettings,
)
from ruler_cli.types import (
    UNANSWERED,
    BatchFigures,
    CallError,
    FailedCall,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    Reply,
    Request,
    Status,
    Summary,
    readable_text,
    rubric_text,
)

if TYPE_CHECKING:  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.results.record import Digests, GroupRecord
    from ruler_cli.scoring.combine import BatchStatistics

FIRST_ASKED = 20
"""Groups of which one must get a score: a judge of which no reply can be used is not paid for the others."""
_FIRST_CUT = 3
"""Groups of which one must get a score if the judge's server cuts their prompts."""
UNUSABLE = ("reply", "transport", "refused")
"""Kinds of failures that the judge, and not the group, is the reason of."""
_TWO_SCALES = (
    "judges are asked or read in several ways: --standardize brings them to one scale at the end; "
    "--no-standardize does not"
)
_UNSURE = FailedCall(
    0,
    0,
    0,
    GroupError(
        "reply",
        "the judge gave only 0 and 1, then left that scale, and was not asked again",
    ),
)
_TICK = 1.0
"""Seconds between the reports to an observer."""
_ENOUGH = 20
"""Groups of a stream from which on a share of them is one."""
_LISTED = 20
"""Rubrics of a run whose texts its summary has, and models that it names."""


class ScoringSession:
    """Judges at work: the counts, warnings and reports of a run, and the bounds at which it stops.

    Use it as an async context where the loop runs.
    """

    def __init__(
        self, settings: ScoreSettings, observer: Observer, panel: Panel
    ) -> None:
        self.settings = settings
        self.observer = observer
        self.panel = panel
        self.stop_signal = panel.stop_signal
        judges = enumerate(settings.judges)
        embedded = [number for number, judge in judges if is_embedded(judge)]
        self.stats = RunStats(settings.most_failures, panel, embedded)
        self.texts = RunTexts(settings, self.stats.summary, panel.ledger)
        self.scores = BatchScores(settings)
        self.coverage = Coverage()
        self.streams = set[GroupStream]()
        self._tasks = set[asyncio.Task[object]]()
        self._gave_up = self._begun = False
        self._grace: asyncio.TimerHandle | None = None
        self._bounds = Counter[frozenset[tuple[int, int]]]()
        self._told = set[str]()
        self._waits = WaitReports(observer)
        panel.watch(self._report_waits)
        panel.stop_signal.on_stop = self._stop

    async def __aenter__(self) -> Self:
        """Begin to report to the observer every second."""
        self._reports = asyncio.create_task(self._report())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all calls in flight."""
        for stream in self.streams:
            stream.last()
        self._give_up()
        await end_tasks(self._reports, *self._tasks)
        self._warn_of_coverage()
        for sentence in self.panel.outdated():
            self.observer.warn(sentence)

    def begin(self, total: int | None) -> None:
        """Report that judging begins; `total` is the number of groups, if it is known."""
        self.stats.summary.total = total
        self.observer.started(total)
        self._begun = True
        settings = self.settings
        if settings.combine.standardize is None and settings.combining.standardize:
            self.observer.note(_TWO_SCALES)

    def runner(self) -> JudgeRunner:
        """Make a runner for groups that may share passes with one another."""
        on_reply = self._show if self.settings.debug else None
        return JudgeRunner(self.settings, self.panel.judges, on_reply, self.coverage)

    def _show(
        self,
        group_run: GroupRun,
        _judge: int,
        _request: Request,
        reply: Reply | CallError,
    ) -> None:
        """Show a reply to the observer."""
        text = reply.reason if isinstance(reply, CallError) else reply.text
        if isinstance(reply, Reply) and reply.answers is not None:
            text = reply.body.decode("utf-8", "replace")
        self.observer.replied(group_run.group.key, text)

    async def judge(self, group_run: GroupRun) -> GroupResult | None:
        """Ask the judges about a group, in a task of its own; None if the run ended before."""
        before = self._gave_up
        if before:  # while this task waited for its first turn
            return None
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task runs")
        self._tasks.add(task)
        try:
            result = await group_run.judge()
            while self.panel.unsure(result.bounds):
                # replies that are kept cost nothing again
                anew = GroupRun(group_run.runner, group_run.group)
                result = await anew.judge()
            return result
        except asyncio.CancelledError:
            if not self._gave_up:
                raise
            return None
        finally:
            self._tasks.discard(task)

    def take(
        self, batch: BatchScores, group: Group, result: GroupResult
    ) -> GroupScores | GroupError | None:
        """Count a group; return its scores as far as they are known, None if the run stopped before it."""
        if self.coverage.enough:
            self._warn_of_coverage()
        self._warn_of_scales()
        scores = batch.first(result)
        if isinstance(scores, GroupError) and scores.kind == "interrupted":
            self.stats.pay(result)
            return None
        self.stats.add(group, result, scores)
        self.texts.add(group)
        if isinstance(scores, GroupError):
            # of those without a reply there may be a million, and the summary counts them
            if scores.reason != UNANSWERED.reason:
                self.observer.failed(group.key, scores.kind, scores.reason)
            self.stop_if_too_many()
            useless = self.stats.first_failed(scores)
            if useless is not None:
                if self.stop_signal.outages:
                    self.stop_signal.stop(useless)
                else:  # another judge may be loaded at any time
                    self.observer.warn(useless.reason)
        self.observer.advanced(self.stats.summary)
        return scores

    def conclude(
        self,
        batch: BatchScores,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
    ) -> GroupRecord:
        """Count the final scores of a group; return its part of OUTPUT."""
        from ruler_cli.results.record import group_record

        cost = self.panel.cost(result.used)
        digests = self.texts.digests(group)
        record = group_record(group, result, scores, batch.names, cost, digests)
        if isinstance(scores, GroupScores):
            self.stats.summary.tied += scores.tied
            self.stats.summary.one_score += scores.one_score
            batch.statistics.add_scores(group.key, result, scores)
            self._bounds[result.bounds] += 1
            self.observer.scored(group.key, scores.scores, record.written.copy())
        return record

    def stop_if_too_many(self) -> None:
        """Stop if more has failed than the user allows."""
        if too_many := self.stats.too_many(begun=self._begun):
            self.stop_signal.stop(too_many)

    def finish(self) -> tuple[Summary, RulerError | None]:
        """Return the counts so far, and why the run stopped or left something out."""
        stopped = self.stop_signal.reason or self.stats.cap_reached()
        stopped = with_outage(stopped, self.panel.status())
        summary = self.stats.finish(stopped)
        summary.figures = self.scores.figures()
        unsure = self.panel.unsure
        summary.other_scale = sum(n for own, n in self._bounds.items() if unsure(own))
        return summary, stopped

    def go_on(self) -> None:
        """Forget that the run was told to stop."""
        self.stop_signal.go_on()
        self._gave_up = False
        if self._grace is not None:
            self._grace.cancel()

    def _stop(self) -> None:
        """Read no further group, and let calls in flight finish, but not for ever."""
        reason = self.stop_signal.reason
        in_flight = self.panel.status().in_flight
        self.panel.nudge()
        for stream in self.streams:
            stream.last()
        grace = self.settings.grace
        self._grace = asyncio.get_running_loop().call_later(grace, self._give_up)
        if reason is None or isinstance(reason, ReaderGone):  # `| head` is quiet
            return
        if in_flight and not isinstance(reason, InterruptedRun):
            self.observer.note(reason.brief)  # calls in flight may take long
        self.observer.stopping(in_flight, grace)

    def _give_up(self) -> None:
        self._gave_up = True
        for task in self._tasks:
            task.cancel()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._report_waits()
            if self._begun:
                self.stats.refresh()
                self.observer.tick(self.stats.summary, self.panel.status())

    def _report_waits(self) -> None:
        now = asyncio.get_running_loop().time()
        self._waits.look(now, self.panel.status())

    def _warn_of_scales(self) -> None:
        for settings, judge in zip(
            self.settings.judges, self.panel.judges, strict=True
        ):
            if judge.scale.left > 1 and settings.label not in self._told:
                self._told.add(settings.label)
                self.observer.warn(
                    f"{settings.label} stays on another scale than 0 to 1 when it is asked again; no such score is used"
                )

    def _warn_of_coverage(self) -> None:
        for sentence in self.coverage.report():
            self.observer.warn(sentence)


def with_outage(stopped: RulerError | None, status: Status) -> RulerError | None:
    """Return why a run stopped; an interruption names the judge that was down meanwhile."""
    if isinstance(stopped, InterruptedRun) and status.outage:
        return InterruptedRun(stopped.signum, status.outage)
    return stopped


Due = Iterator[tuple[Group, GroupResult, GroupScores | GroupError]]
"""Groups to be returned, with their final scores."""
Scored = tuple[Group, GroupResult, GroupScores | GroupError, "GroupRecord"]
"""A group, its result, its scores, and its part of OUTPUT."""


class Memory(list[tuple[Group, GroupResult]]):
    """Groups that wait for their batch, and their results: as `Scratch`, but held in memory."""

    put = list.append
    all = list.__iter__
    close = list.clear


class GroupStream(ABC):
    """An iterator over groups and their scores, in the order in which the groups are pulled.

    Use it as an async context, and iterate over it there. Groups whose scores need the whole batch come after
    the last one.
    """

    bounds: ClassVar[Bounds] = BOUNDS
    store: ClassVar[type[Memory | Scratch]] = Memory

    def __init__(self, session: ScoringSession) -> None:
        self._session = session
        self._batch = session.scores
        self._runner = session.runner()
        self._ended = False
        self.stopped: RulerError | None = None
        """The reason if the run was told to stop."""
        self._engine = Engine(
            self._next_run,
            self._judge,
            lambda run: run.group.size,
            session.panel.wait_for_demand,
            self.bounds,
        )
        self._due: Due = iter(())
        self._held: Memory | Scratch | None = None

    @abstractmethod
    async def _next_group(self) -> Group | None:
        """Read the next group; None after the last."""

    def _hold(self, group: Group, result: GroupResult) -> None:
        """Keep a group until its batch is whole."""
        if self._held is None:
            self._held = self.store()
        self._held.put((group, result))

    def _forget(self) -> None:
        """Forget the groups that are held."""
        if self._held is not None:
            self._held.close()
            self._held = None

    async def __aenter__(self) -> Self:
        await self._engine.__aenter__()
        self._session.streams.add(self)
        if self._session.stop_signal.reason is not None:
            self.last()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the calls in flight."""
        self._session.streams.discard(self)
        await self._engine.__aexit__()
        self._forget()

    def __aiter__(self) -> Self:
        return self

    async def next(self) -> Scored:
        """Return the next group; StopAsyncIteration after the last."""
        while (due := next(self._due, None)) is None:
            if self._ended:
                raise StopAsyncIteration
            try:
                run, result = await anext(self._engine)
                if result and self._session.panel.unsure(result.bounds):
                    result = await self._again(run.group)
                self._due = self._take(run.group, result) or iter(())
            except StopAsyncIteration:
                await self._settle()
                self._ended = True
                self._due = self._rest()
        if self._ended:
            await asyncio.sleep(0)  # there may be many, and nothing else waits
        return *due, self._session.conclude(self._batch, *due)

    def last(self) -> None:
        """Pull no further group."""
        self.stopped = self.stopped or self._session.stop_signal.reason
        self._engine.last()

    async def _next_run(self) -> GroupRun | None:
        group = await self._next_group()
        return None if group is None else self._runner.start(group)

    async def _judge(self, run: GroupRun) -> GroupResult | None:
        return await self._session.judge(run)

    def _take(self, group: Group, result: GroupResult | None) -> Due | None:
        """Count a group; return those to be returned now, None if the run stopped before it."""
        if result is None:
            return None
        scores = self._session.take(self._batch, group, result)
        if scores is None:
            return None
        if not self._batch.waits:
            return iter([(group, result, scores)])
        self._hold(group, result)
        return iter(())

    async def _again(self, group: Group) -> GroupResult | None:
        """Judge a group anew; what is in the ledger costs nothing."""
        run = GroupRun(self._runner, group)
        return await asyncio.create_task(self._session.judge(run))

    def _whole(self, group: Group) -> Group | None:
        """Return a group that was held, with its messages; None if they are gone."""
        return group

    async def _settle(self) -> None:
        """Judge groups that waited anew, if their scores may stand on another scale by now."""
        unsure = self._session.panel.unsure
        held = self._held
        if not held or not any(unsure(result.bounds) for _, result in held.all()):
            return
        self._held = None
        self._session.scores = self._batch = BatchScores(self._session.settings)
        for group, before in held.all():
            result = before
            if unsure(before.bounds):
                whole = self._whole(group)
                again = whole and await self._again(whole)
                result = again or replace(
                    before, pass_scores=(), failed_calls=(_UNSURE,)
                )
            scores = self._batch.first(result)
            if isinstance(scores, GroupError) and result is not before:
                self._session.stats.unscore(scores.kind)
                self._session.observer.failed(group.key, scores.kind, scores.reason)
            self._hold(group, result)
        held.close()
        await self._settle()

    def _rest(self) -> Due:
        """Yield the groups that waited for the last one."""
        if self._held is None:
            return
        results = (result for _, result in self._held.all())
        if warning := self._batch.complete(results):
            self._session.observer.warn(warning)
        for group, result in self._held.all():
            yield group, result, self._batch.final(result)
        self._forget()


class BatchScores:
    """The scores of groups as their batch grows.

    `waits` tells that scores are final only once the batch is complete. `names` are those of all judges, in
    their order.
    """

    def __init__(self, settings: ScoreSettings) -> None:
        self._settings = settings
        how = settings.combining
        self.names = tuple(judge.label for judge in settings.judges)
        several = settings.ask.passes > 1 or bool(settings.panel)
        in_order = settings.output == "-" and settings.draw is None
        # reliability needs the batch, a little: its noise is shrunk towards the batch's. A pipe is not held
        # up for that
        self.waits = how.debias or how.standardize or (several and not in_order)
        self._early = replace(how, debias=False, standardize=False)

    @cached_property
    def statistics(self) -> BatchStatistics:
        """The statistics of the batch."""
        from ruler_cli.scoring.combine import BatchStatistics

        in_input_order = self._settings.ask.order == "input"
        return BatchStatistics(self.names, input_order=in_input_order)

    def first(self, result: GroupResult) -> GroupScores | GroupError:
        """Add a group; return its scores, as far as they are known if the batch is to be complete first."""
        self.statistics.add(result)
        return self.final(result, self._early)

    def complete(self, results: Iterable[GroupResult]) -> str | None:
        """Note that these are the results of all groups. Return a warning if an option has no effect."""
        from ruler_cli.scoring.statistics import ENOUGH_GROUPS

        how = self._settings.combining
        positions = self.statistics.position_bias
        self.statistics.refit_noise(results, how)
        if not how.debias or positions.enough:
            return None
        return (
            f"--debias has no effect: it takes {ENOUGH_GROUPS} groups with something to compare, and "
            f"there are {positions.groups}"
        )

    def final(
        self, result: GroupResult, how: CombineSettings | None = None
    ) -> GroupScores | GroupError:
        """Return the scores of a group within the batch as it is."""
        from ruler_cli.scoring.combine import combine

        how = how or self._settings.combining
        return combine(result, how, self.statistics, self._settings.ask.single)

    def figures(self) -> BatchFigures:
        """Return the figures of the batch so far."""
        how = self._settings.combine
        outcome = self._settings.input.outcome
        checked = how.order_by_outcome or outcome is not None
        return self.statistics.figures(debias=how.debias, checked=checked)


def _asked(ask: AskSettings) -> dict[str, Any]:
    """Return what makes the requests to a judge unlike others: a question about each rollout, fewer pictures."""
    own: dict[str, Any] = {}
    if ask.by_probability:
        own = {"ask": ask.ask, "read": ask.read, "question": ask.question or QUESTION}
    most = ask.shown_pictures
    return own if most is None else {**own, "most_pictures": most}


class RunTexts:
    """The texts that make the scores of a run, by digest: rubrics, and the parameters of its judges.

    The ledger keeps them; secrets are removed before the digest is taken.
    """

    def __init__(
        self, settings: ScoreSettings, summary: Summary, ledger: Ledger | None
    ) -> None:
        """Keep the parameters; the rubrics come with the groups."""
        self._summary = summary
        self._ledger = ledger
        self._usual = settings.ask.rubric
        self._alone = all(settings.asked_each)
        judges = settings.judges
        keys = [
            judge.api_key or os.environ.get(judge.api_key_env or "", "")
            for judge in judges
        ]
        self._secrets = [key for key in keys if len(key) >= SHORTEST_KEY]
        named = [
            {
                "judge": each.label,
                "model": each.model,
                "params": dict(each.params),
                **_asked(settings.ask_of(each)),
            }
            for each in judges
        ]
        params = params_text(without_secrets(named, self._secrets, digests=True))
        self._params, text = self._kept("params", params)
        summary.params_texts[self._params] = text
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
        rubric = shown_rubric(group, self._usual)
        # the built-in one compares, and is shown to no judge that does not
        unseen = self._alone and rubric == DEFAULT_RUBRIC
        return self._rubric("" if unseen else rubric_text(rubric))

    def _kept(self, kind: str, text: str) -> tuple[str, str]:
        """Return the digest of a text, and the text without secrets."""
        if kind == "rubric":
            text = without_secrets(text, self._secrets)
        text = readable_text(text)
        digest = digest_of(text)
        if self._ledger is not None:
            self._ledger.add_text(digest, kind, text)
        return digest, text


class RunStats:
    """The summary of a run as it grows, and the bounds on its failures."""

    def __init__(
        self, most: MaxFailures | None, panel: Panel, embedded: Sequence[int] = ()
    ) -> None:
        """`panel` counts the calls, and knows the prices; the explanations of `embedded` judges are alike."""
        self._most = most
        self._panel = panel
        self._embedded = embedded
        self._began = time.perf_counter()
        self.summary = Summary()
        self._unusable = self._first_unusable = self._cut = 0
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
        for reply in result.pass_scores:
            # what says how likely an answer is says nothing else
            wordless = reply.judge in self._embedded or reply.error
            if wordless or len(reply.explanations) < 2:
                continue
            texts = {text.strip() for text in reply.explanations}
            if "" not in texts:
                summary.explained += 1
                summary.same_explanations += len(texts) == 1
        if isinstance(scores, GroupError):
            kind = scores.kind
            summary.failed[kind] = summary.failed.get(kind, 0) + 1
            # no judge makes up for what the dump itself lacks
            summary.failed_before += result.cached and kind != "input"
            asked = not result.cached and scores.reason != UNANSWERED.reason
            self._cut += asked and scores.cut
            if asked and kind in UNUSABLE:
                self._unusable += 1
                self._first_unusable = self._first_unusable or summary.groups
            return
        summary.scored += 1
        pairs = zip(scores.scores, result.owner, strict=True)
        lacking = [owner for score, owner in pairs if score is None]
        summary.unscored += len(lacking) - lacking.count(None)
        summary.alone += result.alone
        summary.suspect += sum(rollout.suspect for rollout in scores.rollouts)
        summary.mended += result.mended
        summary.unknown_ids += result.unknown
        summary.shortened += bool(result.shortened)
        summary.pictures_left_out += bool(result.pictures_left_out)
        summary.degraded += scores.degraded
        summary.windowed += result.windows > 1
        summary.escalated += result.escalated_to in scores.used
        summary.cut += result.capped

    def unscore(self, kind: str) -> None:
        """Count a scored group as one that failed."""
        failed = self.summary.failed
        self.summary.scored -= 1
        failed[kind] = failed.get(kind, 0) + 1

    def pay(self, result: GroupResult) -> None:
        """Count the money of the group's cached replies; that of this run is known by the panel."""
        summary = self.summary
        if summary.kept_usd is None or result.used == result.paid:
            return
        used = self._panel.cost(result.used)
        paid = self._panel.cost(result.paid)
        if used is not None and paid is not None:
            summary.kept_usd += used - paid

    def too_many(self, *, begun: bool) -> TooManyFailures | None:
        """Return the error if more has failed than the user allows; what the cap left out is no failure.

        A share is of all groups if their number is known, once judging has `begun`.
        """
        most = self._most
        summary = self.summary
        if most is None or (most.percent and not begun):
            return None
        lost = sum(summary.failed.values()) - summary.failed.get("budget", 0)
        known = summary.total
        if known is None:
            known = max(summary.groups, _ENOUGH)
        within = lost + summary.unreadable <= most.of(known)
        return None if within else TooManyFailures(most.shown)

    def first_failed(self, last: GroupError) -> RefusedError | None:
        """Return the error of a run of which the first groups that were asked about failed, once.

        `last` is the error of the newest group. A bound of the user's takes the place of this one.
        """
        cut = self._cut == _FIRST_CUT
        if not self._bounded or (self._unusable < FIRST_ASKED and not cut):
            return None
        self._bounded = False
        if cut:
            return RefusedError(
                f"no part of the first {_FIRST_CUT} groups was read whole, the last: {last.reason}"
            )
        return NoUsableReply(FIRST_ASKED, last.reason, self._first_unusable)

    def cap_reached(self) -> CapReached | None:
        """Return the error of a run that left out groups or passes for its cost cap."""
        left = self.summary.failed.get("budget", 0)
        return self.capped(left, self.summary.cut)

    def capped(self, left: int, cut: int) -> CapReached | None:
        """Return the error for groups that the cost cap left out, and those for which it cut passes."""
        budget = self._panel.budget
        if not (left or cut):
            return None
        return CapReached(budget.cap or 0.0, left, cut, budget.least)

    def finish(self, stopped: RulerError | None) -> Summary:
        """Return the whole summary, with the sentence that the run was stopped with."""
        summary = self.summary
        self.refresh()
        self._panel.count(summary)
        summary.seconds = time.perf_counter() - self._began
        known = summary.cost_usd is not None
        summary.unsure_usd = self._panel.budget.unsure if known else None
        summary.stopped = None if stopped is None else stopped.reason
        return summary

    def refresh(self) -> None:
        """Note the tokens and USD of all replies, also of those whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self._panel.spent()
        if self.summary.cost_usd is None:
            self.summary.kept_usd = None
