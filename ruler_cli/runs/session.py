"""A run: source → judge stream → sink.

A source yields groups, the stream has the judges of a session score them, and a sink takes each group with its scores,
in the order of the source. A file run, a Scorer and Ray's workers are other sources and sinks.
"""

from __future__ import annotations

import asyncio
import copy
import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

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
from ruler_cli.pool.engine import BOUNDS, Bounds, Engine, end_tasks
from ruler_cli.prompting.coverage import Coverage
from ruler_cli.prompting.prompt import shown_rubric
from ruler_cli.prompting.templates import DEFAULT_RUBRIC, QUESTION
from ruler_cli.runs.waits import WaitReports
from ruler_cli.settings.keys import without_secrets
from ruler_cli.settings.models import (
    MaxFailures,
    ScoreSettings,
)
from ruler_cli.types import (
    CallError,
    FailedCall,
    Group,
    GroupError,
    GroupResult,
    GroupScores,
    Observer,
    Record,
    Reply,
    Summary,
    readable_text,
    rubric_text,
    words_of,
)

if (
    TYPE_CHECKING
):  # imported at the first reply, so that the first request goes sooner
    from ruler_cli.formats.annotate import Annotated
    from ruler_cli.results.record import Digests, GroupRecord
    from ruler_cli.scoring.batch import BatchStatistics, ScoreSums
    from ruler_cli.scoring.combine import Combined
    from ruler_cli.scoring.tables import PassTables

FIRST_ASKED = 20
"""Groups of which one must get a score: a judge of which no reply can be used is not paid for the others."""
_FIRST_CUT = 3
"""Groups of which one must get a score if the judge's server cuts their prompts."""
UNUSABLE = ("reply", "transport", "refused")
"""Kinds of failures that the judge, and not the group, is the reason of."""
_TWO_SCALES = (
    "judges are asked or read in several ways: --set standardize=true brings them to one scale at the end; "
    "--set standardize=false does not"
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
_FIGURES = words_of("tied alone one_score degraded explained same_explanations")
"""Counts of a summary that its figures give."""
_TICK = 1.0
"""Seconds between the reports to an observer."""
_ENOUGH = 20
"""Groups of a stream from which on a share of them is one."""
_LISTED = 20
"""Rubrics of a run whose texts its summary has, and models that it names."""


class Scored(NamedTuple):
    """A group, what its judges said, its scores, and its part of OUTPUT."""

    group: Group
    result: GroupResult
    scores: GroupScores | GroupError
    part: GroupRecord


def annotated_records(
    scored: Scored, names: Sequence[str], *, apart: bool
) -> Iterator[tuple[Record, list[Annotated]]]:
    """Yield the records of a group, each with the annotations of its rollouts; `names` are those of all judges.

    `apart`: each annotation has the group's part.
    """
    from ruler_cli.results.record import rollout_records

    group, _, scores, part = scored
    annotations = iter(rollout_records(group, scores, names, part))
    for record in group.records:
        annotated: list[Annotated] = []
        for rollout in record.rollouts:
            annotation = vars(next(annotations))
            if apart:
                annotation = {**annotation, "group": part.written}
            annotated.append((rollout, annotation))
        yield record, annotated


class GroupSource(Protocol):
    """Groups to be scored.

    `endless`: it may never end, and is read no further once the cost cap is reached. `on_disk`: groups that wait for
    their batch are held on disk, without their messages.
    """

    endless: bool
    on_disk: bool

    async def next(self) -> Group | None:
        """Return the next group; None after the last."""
        ...

    def restored(self, group: Group) -> Group | None:
        """Return a group that was held with its messages; None if they are gone."""
        ...


class Sink(Protocol):
    """Takes each group with its scores, in the order of the source.

    `at_once`: it takes a group as soon as it and all before it are judged, though the reliability of its scores would
    be surer with the whole batch.
    """

    at_once: bool

    async def take(self, scored: Scored) -> None:
        """Take a group."""
        ...


async def run(
    session: ScoringSession,
    source: GroupSource,
    sink: Sink,
) -> None:
    """Have every group of a source scored into a sink, until the last or until the run is told to stop.

    It ends where a group is missing, for the run that resumes.
    """
    session.scores.at_once = sink.at_once
    async with JudgeStream(session, source, gaps=False) as stream:
        async for scored in stream:
            try:
                await sink.take(scored)
            except BrokenPipeError:
                stream.drop(ReaderGone())
            except RulerError as error:
                stream.drop(error)


class ScoringSession:
    """Judges at work: the counts, warnings and reports of a run, and the bounds at which it stops.

    Use it as an async context where the loop runs.
    """

    def __init__(
        self,
        settings: ScoreSettings,
        observer: Observer,
        panel: Panel,
    ) -> None:
        self.settings = settings
        self.observer = observer
        self.panel = panel
        self.stop_signal = panel.stop_signal
        self.stats = RunStats(settings.most_failures, panel)
        self.names = tuple([judge.label for judge in settings.judges])
        # what says how likely an answer is says nothing else
        self._wordless = {
            number
            for number, judge in enumerate(settings.judges)
            if is_embedded(judge)
        }
        self.scores = BatchScores(settings)
        self.coverage = Coverage()
        self.streams = set[JudgeStream]()
        self.tasks = set[asyncio.Task[object]]()
        self._secrets = _secrets(settings)
        self._params = self._keep("params", _params(settings, self._secrets))
        self._rubric = lru_cache(16)(partial(self._keep, "rubric"))
        self._compares = not all(settings.asked_each)
        self._gave_up = self._begun = False
        self._grace: asyncio.TimerHandle | None = None
        self._bounds = Counter[frozenset[tuple[int, int]]]()
        self._on_other_scale = set[str]()
        self._waits = WaitReports(observer)
        digest, text = self._params
        self.stats.summary.params_texts[digest] = text
        panel.watch(self._report_waits)
        panel.stop_signal.on_stop = self._stop

    @cached_property
    def sums(self) -> ScoreSums:
        """The sums over the scores of all groups."""
        from ruler_cli.scoring.batch import ScoreSums

        return ScoreSums(self.names)

    async def __aenter__(self) -> Self:
        """Begin to report to the observer every second."""
        self._reports = asyncio.create_task(self._report())
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all calls in flight."""
        for stream in self.streams:
            stream.last()
        self._give_up()
        await end_tasks(self._reports, *self.tasks)
        self._warn_of_coverage()

    def begin(self, total: int | None) -> None:
        """Report that judging begins; `total` is the number of groups, if it is known."""
        self.stats.summary.total = total
        self.observer.started(total)
        self._begun = True
        settings = self.settings
        if (
            settings.combine.standardize is None
            and settings.combining.standardize
        ):
            self.observer.note(_TWO_SCALES)

    @cached_property
    def runner(self) -> JudgeRunner:
        """The runner of all groups."""
        on_reply = self._show if self.settings.debug else None
        return JudgeRunner(
            self.settings, self.panel.judges, on_reply, self.coverage
        )

    def _show(
        self,
        group: Group,
        reply: Reply | CallError,
    ) -> None:
        """Show a reply to the observer."""
        text = reply.reason if isinstance(reply, CallError) else reply.text
        if isinstance(reply, Reply) and reply.answers is not None:
            text = reply.body.decode("utf-8", "replace")
        self.observer.replied(group.key, text)

    async def judge(self, group_run: GroupRun) -> GroupResult | None:
        """Ask the judges about a group, in a task of its own; None if the run ended before."""
        before = self._gave_up
        if before:  # while this task waited for its first turn
            return None
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task runs")
        self.tasks.add(task)
        try:
            return await group_run.judge()
        except asyncio.CancelledError:
            if not self._gave_up:
                raise
            return None
        finally:
            self.tasks.discard(task)

    def take(
        self,
        batch: BatchScores,
        group: Group,
        result: GroupResult,
    ) -> tuple[Combined, bool] | None:
        """Count a group; return its scores and whether they wait for their batch, None if the run stopped before it."""
        if self.coverage.enough:
            self._warn_of_coverage()
        self._warn_of_scales()
        combination, waits = batch.add(result)
        if isinstance(combination, GroupError):
            if combination.kind == "interrupted":
                return None
            self.stats.add(group, result, combination)
            self._failed(group, result, combination)
        else:
            self.stats.add(group, result, combination.scores)
        self.observer.advanced(self.stats.summary)
        return combination, waits

    def _failed(
        self,
        group: Group,
        result: GroupResult,
        error: GroupError,
    ) -> None:
        """Report a group without scores, and stop if there are too many."""
        # of those that lack a reply there may be a million, and the summary counts them
        if not result.missing:
            self.observer.failed(group.key, error.kind, error.reason)
        self.stop_if_too_many()
        useless = self.stats.first_failed(error)
        if useless is None:
            return
        if self.stop_signal.outages:
            self.stop_signal.stop(useless)
        else:  # another judge may be loaded at any time
            self.observer.warn(useless.reason)

    def unscore(self, group: Group, error: GroupError) -> None:
        """Count a scored group as one that failed."""
        summary = self.stats.summary
        summary.scored -= 1
        summary.failed[error.kind] = summary.failed.get(error.kind, 0) + 1
        self.observer.failed(group.key, error.kind, error.reason)

    def conclude(
        self,
        batch: BatchScores,
        group: Group,
        result: GroupResult,
        combination: Combined,
    ) -> Scored:
        """Count the final scores of a group; return it with its part of OUTPUT."""
        from ruler_cli.results.record import group_record

        scores = batch.rated(combination)
        cost = self.panel.cost(result.used)
        digests = self.digests(group)
        part = group_record(group, result, scores, self.names, cost, digests)
        if isinstance(scores, GroupScores):
            wordless = not self._wordless.isdisjoint(scores.used)
            if any(reply.error for reply in result.pass_scores):
                wordless = True
            self.sums.add(result, scores, own_words=not wordless)
            self._bounds[result.bounds] += 1
            self.observer.scored(group.key, scores.scores, part.written.copy())
        return Scored(group, result, scores, part)

    def stop_if_too_many(self) -> None:
        """Stop if more has failed than the user allows."""
        if too_many := self.stats.too_many(begun=self._begun):
            self.stop_signal.stop(too_many)

    def finish(self) -> tuple[Summary, RulerError | None]:
        """Return the counts so far, and why the run stopped or left something out."""
        stopped = self.stop_signal.reason or self.stats.cap_reached()
        # an interruption names the judge that was down meanwhile
        outage = self.panel.status().outage
        if isinstance(stopped, InterruptedRun) and outage:
            stopped = InterruptedRun(stopped.signum, outage)
        summary = self.stats.finish(stopped)
        self._count()
        how = self.settings.combine
        outcome = self.settings.input.outcome
        summary.figures = self.sums.of(
            self.scores.statistics,
            debias=how.debias,
            checked=how.order_by_outcome or outcome is not None,
        )
        summary.other_scale = 0
        for bounds, groups in self._bounds.items():
            if self.panel.unsure(bounds):
                summary.other_scale += groups
        return summary, stopped

    def _count(self) -> None:
        """Note the counts of groups with scores."""
        for name in _FIGURES:
            setattr(self.stats.summary, name, self.sums.figures.counts[name])

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
        self.panel.schedule_check()
        for stream in self.streams:
            stream.last()
        grace = self.settings.grace
        self._grace = asyncio.get_running_loop().call_later(
            grace, self._give_up
        )
        if reason is None or isinstance(
            reason, ReaderGone
        ):  # `| head` is quiet
            return
        if in_flight and not isinstance(reason, InterruptedRun):
            self.observer.note(reason.brief)  # calls in flight may take long
        self.observer.stopping(in_flight, grace)

    def _give_up(self) -> None:
        self._gave_up = True
        for task in self.tasks:
            task.cancel()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._report_waits()
            if self._begun:
                self.stats.refresh()
                self._count()
                self.observer.tick(self.stats.summary, self.panel.status())

    def _report_waits(self) -> None:
        now = asyncio.get_running_loop().time()
        self._waits.look(now, self.panel.status())

    def _warn_of_scales(self) -> None:
        for number, judge in enumerate(self.panel.judges):
            if judge.scale.left <= 1:
                continue
            label = self.settings.judges[number].label
            if label not in self._on_other_scale:
                self._on_other_scale.add(label)
                self.observer.warn(
                    f"{label} stays on another scale than 0 to 1 when it is asked again; no such score is used"
                )

    def _warn_of_coverage(self) -> None:
        for sentence in self.coverage.report():
            self.observer.warn(sentence)

    def digests(self, group: Group) -> Digests:
        """Count the rubric of a group; return the digests of what made its scores."""
        rubric = shown_rubric(group, self.settings.ask.rubric)
        # the built-in one compares, and is shown to no judge that does not
        if rubric == DEFAULT_RUBRIC and not self._compares:
            rubric = ""
        digest, text = self._rubric(rubric_text(rubric))
        summary = self.stats.summary
        texts = summary.rubric_texts
        if digest in texts or len(texts) < _LISTED:
            texts[digest] = text
        else:
            summary.more_rubrics += 1
        return {"rubric": digest, "params": self._params[0]}

    def _keep(
        self,
        kind: str,
        text: str,
    ) -> tuple[str, str]:
        """Return the digest of a text that makes scores, and the text without secrets; the ledger keeps it."""
        if kind == "rubric":
            text = without_secrets(text, self._secrets)
        text = readable_text(text)
        digest = digest_of(text)
        if self.panel.ledger is not None:
            self.panel.ledger.add_text(digest, kind, text)
        return digest, text


def _secrets(settings: ScoreSettings) -> list[str]:
    """Return the keys of the judges."""
    secrets = list[str]()
    for judge in settings.judges:
        key = judge.api_key or os.environ.get(judge.api_key_env or "", "")
        if len(key) >= SHORTEST_KEY:
            secrets.append(key)
    return secrets


def _params(settings: ScoreSettings, secrets: Sequence[str]) -> str:
    """Return the parameters of the judges of a run, and what sets their requests apart, as text without secrets."""
    judges = list[dict[str, Any]]()
    for judge in settings.judges:
        facts: dict[str, Any] = {
            "judge": judge.label,
            "model": judge.model,
            "params": dict(judge.params),
        }
        ask = settings.ask_of(judge)
        if ask.by_probability:
            facts["ask"] = ask.ask
            facts["read"] = ask.read
            facts["question"] = ask.question or QUESTION
        if ask.shown_pictures is not None:
            facts["most_pictures"] = ask.shown_pictures
        judges.append(facts)
    return params_text(without_secrets(judges, secrets))


class JudgeStream:
    """An iterator over the groups of a source with their scores, in the order in which they are pulled.

    Use it as an async context, and iterate over it there. Groups whose scores need the whole batch come after
    the last one. Without `gaps` none comes behind one that the run stopped before.
    """

    def __init__(
        self,
        session: ScoringSession,
        source: GroupSource,
        *,
        gaps: bool = True,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._session = session
        self._source = source
        self._gaps = gaps
        self._cut = False
        self._runner = session.runner
        self.batch = session.scores
        self.stopped: RulerError | None = None
        """The reason if the run was told to stop."""
        self._engine = Engine(
            self._start,
            self._judge,
            lambda group_run: group_run.group.size,
            session.panel.wait_for_demand,
            bounds,
        )
        self._held = HeldGroups(on_disk=source.on_disk)
        self._rest: Iterator[Scored] | None = None

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
        self._held.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Scored:
        """Return the next group; StopAsyncIteration after the last."""
        while self._rest is None:
            try:
                group_run, result = await anext(self._engine)
            except StopAsyncIteration:
                await self._settle()
                self._rest = self._at_end()
                break
            group = group_run.group
            if result and self._session.panel.unsure(result.bounds):
                result = await self._again(group)
            scored = self._take(group, result)
            if scored is not None:
                return scored
        await asyncio.sleep(0)  # there may be many, and nothing else waits
        if (due := next(self._rest, None)) is None:
            raise StopAsyncIteration
        return due

    def last(self) -> None:
        """Pull no further group."""
        self.stopped = self.stopped or self._session.stop_signal.reason
        self._engine.last()

    def drop(self, reason: RulerError) -> None:
        """Stop the run, and yield no further group: its taker takes none."""
        self._session.stop_signal.stop(reason)
        self._cut = True
        if self._rest is not None:
            self._rest = iter(())
        self._held.close()

    async def _start(self) -> GroupRun | None:
        """Begin the next group of the source."""
        group = await self._source.next()
        return None if group is None else GroupRun(self._runner, group)

    async def _judge(self, group_run: GroupRun) -> GroupResult | None:
        result = await self._session.judge(group_run)
        if self._source.endless and result is not None and result.capped:
            self.last()
        return result

    async def _again(self, group: Group) -> GroupResult | None:
        """Judge a group anew; what is in the ledger costs nothing."""
        group_run = GroupRun(self._runner, group)
        return await asyncio.create_task(self._session.judge(group_run))

    def _take(
        self,
        group: Group,
        result: GroupResult | None,
    ) -> Scored | None:
        """Count a group; return it if its scores are final, None if they wait or the run stopped before it."""
        session = self._session
        taken = None
        if result is not None and not self._cut:
            taken = session.take(self.batch, group, result)
        if result is None or taken is None:
            self._cut = not self._gaps
            return None
        combination, waits = taken
        # one that waits holds up all behind it
        if not (waits or self._held):
            return session.conclude(self.batch, group, result, combination)
        try:
            self._held.add(group, result, combination)
        except RulerError as error:  # there is no room for groups that wait
            self.drop(error)
        return None

    async def _settle(self) -> None:
        """Judge scored groups that waited anew, if their scores may stand on another scale by now."""
        while any(
            self._unsure(result, scores) for _, result, scores in self._held
        ):
            held = self._held
            self._held = HeldGroups(on_disk=self._source.on_disk)
            self.batch.forget_waiting()
            for group, before, earlier in held:
                result = before
                if self._unsure(before, earlier):
                    result = await self._anew(group, before)
                scores, _ = self.batch.add(result)
                failed_before = isinstance(earlier, GroupError)
                if isinstance(scores, GroupError) and not failed_before:
                    self._session.unscore(group, scores)
                self._held.add(group, result, scores)
            held.close()

    def _unsure(self, result: GroupResult, scores: Combined) -> bool:
        """Return whether a group has scores that may stand on another scale."""
        if isinstance(scores, GroupError):
            return False
        return self._session.panel.unsure(result.bounds)

    async def _anew(self, group: Group, before: GroupResult) -> GroupResult:
        """Judge a group that was held anew; without its messages it fails."""
        whole = self._source.restored(group)
        if whole is not None:
            result = await self._again(whole)
            if result is not None:
                return result
        return replace(before, pass_scores=(), failed_calls=(_UNSURE,))

    def _at_end(self) -> Iterator[Scored]:
        """Yield the groups that waited for the last one."""
        if not self._held:
            return
        batch = self.batch
        results = (result for _, result, _ in self._held)
        if warning := batch.complete(results):
            self._session.observer.warn(warning)
        for group, result, combination in self._held:
            completed = batch.completed(result, combination)
            yield self._session.conclude(batch, group, result, completed)
        self._held.close()


_Held: TypeAlias = "tuple[Group, GroupResult, Combined]"


class HeldGroups:
    """Groups that wait for their batch, and their results: in memory, or on disk without their messages."""

    def __init__(self, *, on_disk: bool) -> None:
        self._groups = deque[_Held]()
        self._on_disk = on_disk
        self._scratch: Scratch | None = None

    def add(
        self,
        group: Group,
        result: GroupResult,
        combination: Combined,
    ) -> None:
        """Hold a group; OutputError if there is no room."""
        if not self._on_disk:
            self._groups.append((group, result, combination))
            return
        if self._scratch is None:
            self._scratch = Scratch()
        result = replace(result, missing=())
        self._scratch.put((slim(group), result, combination))

    def __bool__(self) -> bool:
        return bool(self._groups) or self._scratch is not None

    def __iter__(self) -> Iterator[_Held]:
        return (
            iter(self._groups) if self._scratch is None else self._scratch.all()
        )

    def close(self) -> None:
        """Forget them."""
        self._groups.clear()
        if self._scratch is not None:
            self._scratch.close()
            self._scratch = None


_DEEPEST = 100
"""Levels of lists and objects in a reward that is held on disk: pickle goes no deeper than Python's stack."""


def slim(group: Group) -> Group:
    """Return a group without its messages: they stand in the bytes of its records, and are not read again."""
    records = []
    for record in group.records:
        rollouts = []
        for rollout in record.rollouts:
            # an object so deep is no number
            reward = (
                rollout.reward if _shallow(rollout.reward, _DEEPEST) else None
            )
            bare = replace(
                rollout,
                messages=[],
                histories=(),
                tools=None,
                outcome=None,
                reward=reward,
            )
            rollouts.append(bare)
        line = record.line
        if record.part + 1 < record.parts:
            # a line of several groups is written with the last of them
            line = replace(line, raw=b"")
        records.append(
            replace(record, line=line, rollouts=tuple(rollouts), tools=None)
        )
    return Group(group.key, tuple(records))


def _shallow(value: Any, levels: int) -> bool:
    items: Iterable[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        items = value.values()
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)


class BatchScores:
    """The scores of groups as their batch grows.

    `at_once` is that of the sink: scores that the noise of the batch rates are then rated by that of the groups so far.
    """

    def __init__(self, settings: ScoreSettings) -> None:
        self._how = settings.combining
        self._alone = replace(self._how, debias=False, standardize=False)
        self._single = settings.ask.single
        self._input_order = settings.ask.order == "input"
        self._several = settings.ask.passes > 1 or bool(settings.panel)
        self._before: BatchStatistics | None = None
        self.at_once = True
        self.waits = bool(self._how.debias or self._how.standardize)
        """True if the scores of every group need the whole batch."""

    @cached_property
    def statistics(self) -> BatchStatistics:
        """The sums over the batch."""
        from ruler_cli.scoring.batch import BatchStatistics

        return BatchStatistics(input_order=self._input_order)

    def add(self, result: GroupResult) -> tuple[Combined, bool]:
        """Add a group; return its scores without a correction by the batch, and whether they wait for the batch."""
        from ruler_cli.scoring.combine import combined
        from ruler_cli.scoring.tables import PassTables

        made = PassTables(result)
        combination = combined(made, self._alone, self._single)
        final = isinstance(combination, GroupError) or combination.final
        # scores of only 0 and 1 may turn out to stand on another scale
        unsure = self._several and bool(result.bounds)
        waits = self.waits
        if not self.at_once:
            waits = waits or unsure or not final
        if waits and self._before is None:
            self._before = copy.deepcopy(self.statistics)
        self.statistics.add(made)
        return combination, waits

    def forget_waiting(self) -> None:
        """Forget the first group that waits, and all that were added since."""
        self.statistics = copy.deepcopy(self._before or self.statistics)

    def complete(self, results: Iterable[GroupResult]) -> str | None:
        """Note that these are the results of all groups that wait. Return a warning if an option has no effect."""
        from ruler_cli.scoring.statistics import ENOUGH_GROUPS, Noise

        statistics = self.statistics
        if statistics.corrects(self._how):
            # differences that are corrected are no noise
            statistics.noise = Noise()
            for result in results:
                statistics.add_noise(self._corrected(result))
        positions = statistics.position_bias
        if not self._how.debias or positions.enough:
            return None
        return (
            f"--set debias=true has no effect: it takes {ENOUGH_GROUPS} groups with something to compare, and "
            f"there are {positions.groups}"
        )

    def _corrected(self, result: GroupResult) -> PassTables:
        """Return the tables of a group with the corrections of the batch."""
        from ruler_cli.scoring.tables import PassTables

        return PassTables(result, self.statistics.correction(self._how))

    def completed(
        self,
        result: GroupResult,
        combination: Combined,
    ) -> Combined:
        """Return the scores of a group that waited, with the corrections of the batch."""
        from ruler_cli.scoring.combine import combined

        if not self.statistics.corrects(self._how):
            return combination
        return combined(self._corrected(result), self._how, self._single)

    def rated(self, combination: Combined) -> GroupScores | GroupError:
        """Return the scores of a group by the noise of the batch as it is."""
        if isinstance(combination, GroupError):
            return combination
        return combination.rated(self.statistics.noise)


class RunStats:
    """The summary of a run as it grows, and the bounds on its failures."""

    def __init__(
        self,
        most: MaxFailures | None,
        panel: Panel,
    ) -> None:
        """`panel` counts the calls, and knows the prices."""
        self._most = most
        self._panel = panel
        self._began = time.perf_counter()
        self.summary = Summary()
        self._unusable = self._first_unusable = self._cut = 0
        self._bounded = most is None
        """True until a group that was asked about has a score, or `first_failed` told that none has."""

    def add(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
    ) -> None:
        """Count a group that is judged."""
        summary = self.summary
        summary.groups += 1
        summary.kept += result.cached
        summary.rollouts += group.compared
        self._bounded &= result.cached or isinstance(scores, GroupError)
        for name in result.served:
            if name in summary.served or len(summary.served) < _LISTED:
                summary.served[name] = summary.served.get(name, 0) + 1
        if isinstance(scores, GroupError):
            kind = scores.kind
            summary.failed[kind] = summary.failed.get(kind, 0) + 1
            # no judge makes up for what the dump itself lacks
            summary.failed_before += result.cached and kind != "input"
            asked = not (result.cached or result.missing)
            self._cut += asked and scores.cut
            if asked and kind in UNUSABLE:
                self._unusable += 1
                self._first_unusable = self._first_unusable or summary.groups
            return
        summary.scored += 1
        pairs = zip(scores.scores, result.owner, strict=True)
        lacking = [owner for score, owner in pairs if score is None]
        summary.unscored += len(lacking) - lacking.count(None)
        summary.suspect += sum(rollout.suspect for rollout in scores.rollouts)
        summary.mended += result.mended
        summary.unknown_ids += result.unknown
        summary.shortened += bool(result.shortened)
        summary.pictures_left_out += bool(result.pictures_left_out)
        summary.windowed += result.windows > 1
        summary.escalated += result.escalated_to in scores.used
        summary.cut += result.capped

    def too_many(self, *, begun: bool) -> TooManyFailures | None:
        """Return the error if more has failed than the user allows; what the cap left out is no failure.

        A share is of all groups if their number is known, once judging has `begun`.
        """
        most = self._most
        summary = self.summary
        if most is None or (most.percent and not begun):
            return None
        lost = sum(summary.failed.values()) - summary.failed.get("budget", 0)
        total = summary.total
        if total is None:
            total = max(summary.groups, _ENOUGH)
        within = lost + summary.unreadable <= most.of(total)
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

    def capped(
        self,
        left: int,
        cut: int,
    ) -> CapReached | None:
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
        summary.unsure_usd = self._panel.budget.unsure
        if summary.cost_usd is None:
            summary.unsure_usd = None
        summary.stopped = None if stopped is None else stopped.reason
        return summary

    def refresh(self) -> None:
        """Note the tokens and USD of all replies, also of those whose group is not written yet."""
        self.summary.usage, self.summary.cost_usd = self._panel.spent()
