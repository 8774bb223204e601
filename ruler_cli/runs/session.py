"""A run: source → judge stream → sink.

A source yields groups, the stream has the judges of a session score them, and a sink takes each group with its scores,
in the order of the source. A file run, a Scorer and Ray's workers are other sources and sinks.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
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
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import (
    CallError,
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
"""Groups of which one must get a score: if no reply of a judge can be used, no further one is paid for."""
_FIRST_CUT = 3
"""Groups of which one must get a score if the judge's server cuts their prompts."""
_TWO_SCALES = (
    "judges are asked or read in different ways: use --set standardize=true to bring them to one scale at the end, "
    "or --set standardize=false to leave them"
)
UNUSABLE = ("reply", "transport", "refused")
"""Kinds of failures that the judge causes, and not the group."""
_UNSURE = GroupError(
    "reply",
    "the judge gave only 0 and 1, and later left that scale, so these scores may be on another one",
)
_FIGURES = words_of("tied alone one_score degraded explained same_explanations")
"""Counts of a summary that come from its figures."""
_TICK = 1.0
"""Seconds between the reports to an observer."""
_ENOUGH = 20
"""Groups of a stream after which a share of them means something."""
_LISTED = 20
"""Rubrics of a run whose texts its summary has, and models that it names."""


class Scored(NamedTuple):
    """A group, what its judges said, its scores, and its part of OUTPUT."""

    group: Group
    result: GroupResult
    scores: GroupScores | GroupError
    part: GroupRecord


def annotated_records(
    scored: Scored,
    names: Sequence[str],
    *,
    apart: bool,
) -> Iterator[tuple[Record, list[Annotated]]]:
    """Yield the records of a group, each with the annotations of its rollouts; `names` are those of all judges.

    `apart`: each annotation has the group's part.
    """
    from ruler_cli.results.record import rollout_records

    group, _, scores, part = scored
    shared = {"group": part.written} if apart else {}
    annotations = iter(
        rollout_records(
            group,
            scores,
            names,
            part,
        )
    )
    for record in group.records:
        annotated: list[Annotated] = []
        for rollout in record.rollouts:
            annotation = vars(next(annotations)) | shared
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
        self.stop_signal.on_stop = self._stop
        self.summary = Summary()
        self.names = tuple([judge.label for judge in settings.judges])
        # a sentence on probabilities holds no other explanation
        self._wordless = {
            number
            for number, judge in enumerate(settings.judges)
            if is_embedded(judge)
        }
        self.scores = BatchScores(settings)
        self.coverage = Coverage()
        self.streams = set[JudgeStream]()
        self.tasks = set[asyncio.Task[object]]()
        self._began = time.perf_counter()
        self._gave_up = self._begun = False
        self._grace: asyncio.TimerHandle | None = None
        self._unusable = self._first_unusable = self._cut = 0
        self._any_usable = settings.most_failures is not None
        """True if a group that was asked about has a score, or if the user bounds the failures."""
        self._bounds = Counter[frozenset[tuple[int, int]]]()
        self._on_other_scale = set[str]()
        self._waits = WaitReports(observer)
        panel.watch(self._report_waits)
        self._secrets = _secrets(settings)
        self._compares = not all(settings.asked_each)
        self._kept_text = lru_cache(16)(self._keep)
        params = _params(settings, self._secrets)
        self._params, text = self._keep("params", params)
        self.summary.params_texts[self._params] = text

    @cached_property
    def sums(self) -> ScoreSums:
        """The sums over the scores of all groups."""
        from ruler_cli.scoring.batch import ScoreSums

        return ScoreSums(self.names)

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
        """Show a reply to the observer; a reply without a text is shown as it came."""
        if isinstance(reply, CallError):
            text = reply.reason
        else:
            text = reply.text or reply.body.decode("utf-8", "replace")
        self.observer.replied(group.key, text)

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
        self._warn(*self.coverage.report())

    def begin(self, total: int | None) -> None:
        """Report that judging begins; `total` is the number of groups, if it is known."""
        self.summary.total = total
        self.observer.started(total)
        self._begun = True
        settings = self.settings
        unstated = settings.combine.standardize is None
        if unstated and settings.combining.standardize:
            self._warn(_TWO_SCALES)
        self.stop_if_too_many()

    async def judge(self, group: Group) -> GroupResult | None:
        """Ask the judges about a group, in a task of its own; None if the run ended before."""
        before = self._gave_up
        if before:  # while this task waited to start
            return None
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the engine's
        self.tasks.add(task)
        try:
            return await GroupRun(self.runner, group).judge()
        except asyncio.CancelledError:
            if not self._gave_up:
                raise
            return None
        finally:
            self.tasks.discard(task)

    def take(
        self,
        group: Group,
        result: GroupResult,
        combination: Combined,
    ) -> bool:
        """Count a group with its scores as they are so far; return False if the run stopped before it."""
        error = combination if isinstance(combination, GroupError) else None
        if error is not None and error.kind == "interrupted":
            return False
        if self.coverage.enough:
            self._warn(*self.coverage.report())
        for label, judge in zip(self.names, self.panel.judges, strict=True):
            if judge.scale.left > 1 and label not in self._on_other_scale:
                self._on_other_scale.add(label)
                self._warn(
                    f"{label} keeps to a scale other than 0 to 1 when it is asked again; such scores are not used"
                )
        summary = self.summary
        summary.groups += 1
        summary.kept += result.cached
        summary.rollouts += group.compared
        for name in result.served:
            if name in summary.served or len(summary.served) < _LISTED:
                summary.served[name] = summary.served.get(name, 0) + 1
        if isinstance(combination, GroupError):
            self._count_failure(group, result, combination)
        else:
            self._count_scores(result, combination.scores)
        self.observer.advanced(summary)
        return True

    def _count_scores(
        self,
        result: GroupResult,
        scores: GroupScores,
    ) -> None:
        summary = self.summary
        self._any_usable |= not result.cached
        summary.scored += 1
        for score, owner in zip(scores.scores, result.owner, strict=True):
            summary.unscored += score is None and owner is not None
        summary.suspect += sum(rollout.suspect for rollout in scores.rollouts)
        summary.mended += result.mended
        summary.unknown_ids += result.unknown
        summary.shortened += bool(result.shortened)
        summary.pictures_left_out += bool(result.pictures_left_out)
        summary.windowed += result.windows > 1
        summary.escalated += result.escalated_to in scores.used
        summary.cut += result.capped

    def _count_failure(
        self,
        group: Group,
        result: GroupResult,
        error: GroupError,
    ) -> None:
        """Count and report a group without scores; stop if there are too many, or if no reply can be used."""
        summary = self.summary
        # no judge makes up for what the dump itself lacks
        summary.failed_before += result.cached and error.kind != "input"
        self._fail(group, error, reported=not result.missing)
        self.stop_if_too_many()
        if self._any_usable or result.cached or result.missing:
            return
        self._cut += error.cut
        if error.kind in UNUSABLE:
            self._unusable += 1
            self._first_unusable = self._first_unusable or summary.groups
        useless: RefusedError
        if self._cut == _FIRST_CUT:
            useless = RefusedError(
                f"no part of the first {_FIRST_CUT} groups was read whole; the last: {error.reason}"
            )
        elif self._unusable == FIRST_ASKED:
            first = self._first_unusable
            useless = NoUsableReply(FIRST_ASKED, error.reason, first)
        else:
            return
        self._any_usable = True
        if self.stop_signal.outages:
            self.stop_signal.stop(useless)
        else:  # another judge may be loaded at any time
            self._warn(useless.reason)

    def unscore(
        self,
        group: Group,
        error: GroupError,
    ) -> None:
        """Count a scored group as one that failed."""
        self.summary.scored -= 1
        self._fail(group, error)

    def _fail(
        self,
        group: Group,
        error: GroupError,
        *,
        reported: bool = True,
    ) -> None:
        failed = self.summary.failed
        failed[error.kind] = failed.get(error.kind, 0) + 1
        # a million may lack a reply, and the summary counts them
        if reported:
            self.observer.failed(group.key, error.kind, error.reason)

    def conclude(
        self,
        group: Group,
        result: GroupResult,
        scores: GroupScores | GroupError,
    ) -> Scored:
        """Count the final scores of a group; return it with its part of OUTPUT."""
        from ruler_cli.results.record import group_record

        cost = self.panel.cost(result.used)
        digests = self.digests(group)
        part = group_record(
            group,
            result,
            scores,
            self.names,
            cost,
            digests,
        )
        if isinstance(scores, GroupScores):
            wordless = not self._wordless.isdisjoint(scores.used)
            if any(reply.error for reply in result.pass_scores):
                wordless = True
            self.sums.add(result, scores, own_words=not wordless)
            self._bounds[result.bounds] += 1
            self.observer.scored(group.key, scores.scores, part.written.copy())
        return Scored(group, result, scores, part)

    def stop_if_too_many(self) -> None:
        """Stop if more has failed than the user allows; a group that the cap left out is not a failure.

        A share is of all groups if their number is known, once judging has begun.
        """
        most = self.settings.most_failures
        summary = self.summary
        if most is None or (most.percent and not self._begun):
            return
        total = summary.total
        if total is None:
            total = max(summary.groups, _ENOUGH)
        lost = sum(summary.failed.values()) + summary.unreadable
        if lost - summary.failed.get("budget", 0) > most.of(total):
            self.stop_signal.stop(TooManyFailures(most.shown))

    def cap_reached(
        self,
        left: int,
        cut: int,
    ) -> CapReached | None:
        """Return the error for groups that the cost cap left out, and those for which it cut passes."""
        budget = self.panel.budget
        if not (left or cut):
            return None
        return CapReached(
            budget.cap or 0.0,
            left,
            cut,
            budget.least,
        )

    def finish(self) -> tuple[Summary, RulerError | None]:
        """Return the counts so far, and the reason why the run stopped or left something out."""
        summary = self.summary
        stopped = self.stop_signal.reason
        if stopped is None:
            left = summary.failed.get("budget", 0)
            stopped = self.cap_reached(left, summary.cut)
        # an interruption names the judge that was down meanwhile
        outage = self.panel.status().outage
        if isinstance(stopped, InterruptedRun) and outage:
            stopped = InterruptedRun(stopped.signum, outage)
        summary.stopped = None if stopped is None else stopped.reason
        summary.seconds = time.perf_counter() - self._began
        self.panel.count(summary)
        self._refresh()
        unpriced = summary.cost_usd is None
        summary.unsure_usd = None if unpriced else self.panel.budget.unsure
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

    def _refresh(self) -> None:
        """Note the tokens and USD of all replies, also of those whose group is not written yet, and the figures."""
        self.summary.usage, self.summary.cost_usd = self.panel.spent()
        for name in _FIGURES:
            setattr(self.summary, name, self.sums.figures.counts[name])

    def go_on(self) -> None:
        """Forget that the run was told to stop."""
        self.stop_signal.go_on()
        self._gave_up = False
        if self._grace is not None:
            self._grace.cancel()

    def _stop(self) -> None:
        """Read no further group, and let calls in flight finish within the grace period."""
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
                self._refresh()
                self.observer.tick(self.summary, self.panel.status())

    def _report_waits(self) -> None:
        now = asyncio.get_running_loop().time()
        self._waits.look(now, self.panel.status())

    def _warn(self, *sentences: str) -> None:
        for sentence in sentences:
            self.observer.warn(sentence)

    def digests(self, group: Group) -> Digests:
        """Count the rubric of a group; return the digests of what made its scores."""
        rubric = shown_rubric(group, self.settings.ask.rubric)
        # the built-in one compares, and is shown to no judge that does not
        if rubric == DEFAULT_RUBRIC and not self._compares:
            rubric = ""
        digest, text = self._kept_text("rubric", rubric_text(rubric))
        texts = self.summary.rubric_texts
        if digest in texts or len(texts) < _LISTED:
            texts[digest] = text
        else:
            self.summary.more_rubrics += 1
        return {"rubric": digest, "params": self._params}

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
    """Return the parameters of the judges, and the values that set their requests apart, as text without secrets."""
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
        self.batch = session.scores
        self.stopped: RulerError | None = None
        """The reason if the run was told to stop."""
        self._engine = Engine(
            source.next,
            self._judge,
            lambda group: group.size,
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
                group, result = await anext(self._engine)
            except StopAsyncIteration:
                self._rest = self._at_end()
                break
            if result and self._session.panel.unsure(result.bounds):
                # what is in the ledger costs nothing
                result = await asyncio.create_task(self._judge(group))
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

    async def _judge(self, group: Group) -> GroupResult | None:
        result = await self._session.judge(group)
        if self._source.endless and result is not None and result.capped:
            self.last()
        return result

    def _take(
        self,
        group: Group,
        result: GroupResult | None,
    ) -> Scored | None:
        """Count a group; return it if its scores are final, None if they wait or the run stopped before it."""
        session = self._session
        batch = self.batch
        taken = False
        if result is not None and not self._cut:
            combination = batch.add(result)
            taken = session.take(group, result, combination)
        if result is None or not taken:
            self._cut = not self._gaps
            return None
        if not batch.waiting:
            return session.conclude(group, result, batch.rated(combination))
        try:
            self._held.add(group, result, combination)
        except RulerError as error:  # there is no room for groups that wait
            self.drop(error)
        return None

    def _at_end(self) -> Iterator[Scored]:
        """Yield the groups that waited for the last one."""
        session = self._session
        batch = self.batch
        results = (result for _, result, _ in self._held)
        if warning := batch.complete(results):
            session.observer.warn(warning)
        for group, result, combination in self._held:
            scores = batch.rated(batch.completed(result, combination))
            unsure = session.panel.unsure(result.bounds)
            if unsure and isinstance(scores, GroupScores):
                scores = _UNSURE
                session.unscore(group, scores)
            yield session.conclude(group, result, scores)
        self._held.close()


_Held: TypeAlias = "tuple[Group, GroupResult, Combined]"


class HeldGroups:
    """Groups that wait for their batch, and their results: in memory, or on disk without their messages."""

    def __init__(
        self,
        *,
        on_disk: bool,
    ) -> None:
        self._on_disk = on_disk
        self._groups = deque[_Held]()
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
            # an object so deep is not a number
            shallow = _shallow(rollout.reward, _DEEPEST)
            bare = replace(
                rollout,
                messages=[],
                histories=(),
                tools=None,
                outcome=None,
                reward=rollout.reward if shallow else None,
            )
            rollouts.append(bare)
        line = record.line
        if record.part + 1 < record.parts:
            # a line of several groups is written with the last of them
            line = replace(line, raw=b"")
        records.append(
            replace(
                record,
                line=line,
                rollouts=tuple(rollouts),
                tools=None,
            )
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
        self.at_once = True
        self.waiting = False
        """True once a group waits for the batch: it holds up all behind it."""
        self.need_all = bool(self._how.debias or self._how.standardize)
        """True if the scores of every group need the whole batch."""

    @cached_property
    def statistics(self) -> BatchStatistics:
        """The sums over the batch."""
        from ruler_cli.scoring.batch import BatchStatistics

        return BatchStatistics(input_order=self._input_order)

    def add(self, result: GroupResult) -> Combined:
        """Add a group; return its scores without a correction by the batch."""
        from ruler_cli.scoring.combine import combined
        from ruler_cli.scoring.tables import PassTables

        made = PassTables(result)
        self.statistics.add(made)
        combination = combined(made, self._alone, self._single)
        final = isinstance(combination, GroupError) or combination.final
        self.waiting |= self.need_all or not (final or self.at_once)
        return combination

    def complete(self, results: Iterable[GroupResult]) -> str | None:
        """Note that these are the results of all groups that wait. Return a warning if an option has no effect."""
        from ruler_cli.scoring.statistics import ENOUGH_GROUPS, Noise

        statistics = self.statistics
        if statistics.corrects(self._how):
            # differences that are corrected are not noise
            statistics.noise = Noise()
            for result in results:
                statistics.add_noise(self._corrected(result))
        positions = statistics.position_bias
        if not (self.waiting and self._how.debias) or positions.enough:
            return None
        return (
            f"--set debias=true has no effect: it needs {ENOUGH_GROUPS} groups with something to compare, and "
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
