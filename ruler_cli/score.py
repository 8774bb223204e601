"""The recipe: read, group, judge, annotate, write. The composition root of a run."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import cast

import anyio
import anyio.to_thread

from ruler_cli.annotate import Marked, annotate, trajectory_bytes
from ruler_cli.counts import Counts
from ruler_cli.errors import CapReached, ReaderGone, RulerError, TooManyFailures, UsageError
from ruler_cli.files.output import FailedFile
from ruler_cli.formats.reader import Reader
from ruler_cli.judges.choose import Chosen, choose
from ruler_cli.judging import Outcome, group_fields, judge_group, marks_of
from ruler_cli.ledger import Ledger
from ruler_cli.observer import Observer, Summary
from ruler_cli.pool.caller import Caller
from ruler_cli.pool.engine import first_of, run
from ruler_cli.pool.feed import threaded
from ruler_cli.pool.halt import Halt
from ruler_cli.pool.pool import pool
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Failure, Group, Mark, Problem, Record
from ruler_cli.settings import ScoreSettings
from ruler_cli.shelf import Shelf
from ruler_cli.writing import AnyOutput, ByTurn, InOrder, Writer, failed_path, open_output, refuse_clashes

_POLL = 0.05
_TICK = 1.0
_READER = 5.0
"""Seconds that a run which is told to stop waits for a reader of stdout that takes nothing."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a run did, and why it stopped where it did not come to its end; `whole`: OUTPUT is there."""

    summary: Summary
    stopped: RulerError | None = None
    whole: bool = True


async def score(settings: ScoreSettings, observer: Observer | None = None, halt: Halt | None = None) -> Done:
    """Score INPUT into OUTPUT.

    RulerError where nothing could begin; once calls may have been made the reason to stop is a part
    of the result. `halt` stops the run from outside: what is in flight finishes, what is whole stays.
    """
    observer, halt = observer or Observer(), halt or Halt()
    chosen = choose(settings.judge)
    if settings.ask.context_tokens is None:
        settings = replace(settings, ask=replace(settings.ask, context_tokens=chosen.context))
    refuse_clashes(settings)
    if settings.pool.max_cost is not None and chosen.price is None:
        raise UsageError(
            f"--max-cost: the price of {settings.judge.model} is not known; give it with --price IN,OUT, "
            "in USD per million prompt and completion tokens"
        )
    # OUTPUT ends before INPUT is closed: what is behind the last record of a document is copied from there
    with ExitStack() as inputs, ExitStack() as stack:
        shelf = _shelf(settings, chosen, stack)
        output = open_output(settings)
        stack.enter_context(output)
        failed = FailedFile(failed_path(settings))
        stack.callback(failed.close)
        async with chosen.judge:  # before the input is read: a judge that is not there costs no wait
            caller = pool(chosen, settings.judge, settings.pool, halt, shelf)
            run_ = _Run(settings, chosen, observer, output, failed, caller)
            await run_.all(inputs)
        failed.close()
        if run_.whole:
            output.commit()
    return run_.finish()


def _shelf(settings: ScoreSettings, chosen: Chosen, stack: ExitStack) -> Shelf | None:
    """Where replies are kept: nowhere for a judge that costs nothing to ask again."""
    if settings.ledger is None or chosen.embedded:
        return None
    ledger = stack.enter_context(Ledger(settings.ledger))
    return Shelf(ledger, settings.judge.model, settings.judge.params)


class _Run:
    """One run: what is counted, and what each group goes through."""

    def __init__(
        self,
        settings: ScoreSettings,
        chosen: Chosen,
        observer: Observer,
        output: AnyOutput,
        failed: FailedFile,
        caller: Caller,
    ) -> None:
        self._settings, self._chosen, self._observer = settings, chosen, observer
        self._output, self._failed, self._caller = output, failed, caller
        self.halt = caller.gate.halt
        self._counts = Counts(settings.max_failures, chosen.price, caller)
        self._waiting: dict[int, list[Marked]] = {}
        self._begun = self._stopped = self._unfinished = self._writing = False

    async def all(self, stack: ExitStack) -> None:
        """Read, judge and write every group, until the end or until the run is told to stop."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain, tasks.cancel_scope)
                tasks.start_soon(self._tick)
                # in a thread, because a pipe may be silent for long and the survey of a file be long
                opened = threaded(self._open(stack) for _ in range(1))
                found = cast(Input, await opened())
                self._begin(found)
                if found.reader is not None:
                    await self._judge_all(found)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    def _open(self, stack: ExitStack) -> Input:
        return open_input(self._settings.input, stack, self.unreadable, self._output.into)

    def unreadable(self, problem: Problem) -> None:
        """Count, tell and keep something of the input that could not be read."""
        self._counts.summary.unreadable += 1
        self._observer.problem(problem)
        self._failed.add(problem)
        self._stop_if_too_many()

    @property
    def whole(self) -> bool:
        """Whether OUTPUT holds all that it is to hold."""
        return self.halt.reason is None and not self._unfinished

    def finish(self) -> Done:
        """The counts of the whole run, and why it stopped before its end."""
        stopped, left = self.halt.reason, self._counts.summary.failed.get("budget", 0)
        if stopped is None and left:
            stopped = CapReached(self._settings.pool.max_cost or 0.0, left)
        summary = self._counts.finish(stopped)
        name = self._reader.format.layout.refuses_null if summary.groups else ""
        if name and summary.failed and self._settings.on_failure == "null":
            self._observer.warn(
                f"{name} itself reads no file in which a reward is null; --on-failure drop leaves them out"
            )
        return Done(summary, stopped, self.whole)

    def _begin(self, found: Input) -> None:
        self._observer.note(found.found())
        for sentence in found.notes:
            self._observer.note(sentence)
        for sentence in found.survey.warnings() if found.survey else ():
            self._observer.warn(sentence)
        self._counts.summary.total = found.survey.groups if found.survey else None
        self._observer.started(self._counts.summary.total)
        if found.reader is not None:
            self._reader: Reader = found.reader
            if found.reader.format.shape == "columns" and self._settings.on_failure == "drop":
                raise UsageError(
                    "--on-failure drop: a record of this dump holds several groups, and cannot be left out "
                    "for one of them; give null or keep"
                )
        self._writer: Writer = ByTurn(self._output, found.index) if found.scattered else InOrder(self._output)
        self._begun = True
        self._stop_if_too_many()

    async def _judge_all(self, found: Input) -> None:
        pull = found.pull()

        async def next_group() -> Group | None:
            if self.halt.reason is not None:
                return None
            try:
                return await pull()
            except RulerError as error:  # what is in flight is paid for and may finish
                self.halt.now(error)
                return None

        await run(next_group, self._judge, self._deliver, lambda group: group.size, self._caller.gate.room)

    async def _drain(self, scope: anyio.CancelScope) -> None:
        """Once told to stop, wait for what is in flight, not for ever, and end what only waits."""
        await self.halt.told.wait()
        gate = self._caller.gate
        gate.nudge()
        if not isinstance(self.halt.reason, ReaderGone):  # `| head` is quiet
            self._observer.stopping(gate.in_flight, self._settings.grace)
        with anyio.move_on_after(self._settings.grace):
            quiet, blocked = 0, 0.0
            while quiet < 2:  # twice, so that the last reply is written too
                await anyio.sleep(_POLL)
                blocked = blocked + _POLL if self._writing else 0.0
                quiet = 0 if gate.in_flight or 0 < blocked < _READER else quiet + 1
        scope.cancel()

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(_TICK)
            if self._begun:
                self._observer.tick(self._counts.summary, self._caller.gate.status())

    async def _judge(self, group: Group) -> Outcome:
        settings = self._settings
        on_reply = self._observer.replied if settings.debug else None
        return await judge_group(
            group, settings.ask, self._caller.call, on_reply, retry_failed=settings.retry_failed
        )

    async def _deliver(self, group: Group, outcome: Outcome) -> None:
        verdict = outcome.verdict
        self._stopped = self._stopped or (isinstance(verdict, Failure) and verdict.kind == "interrupted")
        if self._stopped:  # OUTPUT is whole up to here; the rest is for the run that resumes
            self._counts.pay(outcome)
            return
        self._counts.add(group, outcome)
        if isinstance(verdict, Failure):
            self._observer.failed(group.key, verdict.kind, verdict.reason)
            self._stop_if_too_many()
        try:
            batch = self._annotated(group, outcome)
            if self._output.waits:  # a slow reader of the pipe must not stop the calls in flight
                self._writing = True  # a run that is told to stop does not leave half a record there
                written = await anyio.to_thread.run_sync(self._writer.write, batch, abandon_on_cancel=True)
            else:
                written = self._writer.write(batch)
        except BrokenPipeError:
            self._stopped = True
            self.halt.now(ReaderGone())
            return
        except RulerError as error:
            self._stopped = True
            self.halt.now(error)
            return
        finally:
            self._writing = False
        self._counts.summary.written += written
        self._observer.advanced(self._counts.summary)

    def _stop_if_too_many(self) -> None:
        most = self._settings.max_failures
        if most is not None and self._counts.too_many(begun=self._begun):
            self.halt.now(TooManyFailures(most.shown))

    def _annotated(self, group: Group, outcome: Outcome) -> list[tuple[int, bytes]]:
        """Each record's line number and new bytes; none where it is left out."""
        settings, name = self._settings, self._chosen.judge.name
        form, fields = self._reader.format, group_fields(group, outcome, name, self._chosen.price)
        marks = iter(marks_of(group, outcome, name))
        if form.shape != "group":  # there the group's part stands on each rollout
            marks = (Mark(m.score, {**m.fields, "group": fields}) for m in marks)
        failure = outcome.verdict if isinstance(outcome.verdict, Failure) else None
        dropped = settings.on_failure == "drop" and failure is not None
        if dropped and failure and failure.kind == "budget":  # for the run that goes on, and not in two files
            self._unfinished = True
            return [(record.line.number, b"") for record in group.records]
        batch = []
        for record in group.records:
            line, body = record.line, b""
            mine = [(rollout, next(marks)) for rollout in record.rollouts]
            for rollout in record.rollouts:
                if rollout.fault is not None and not dropped:  # a dropped record goes there whole
                    where = ".".join(map(str, rollout.path))
                    raw = trajectory_bytes(record, rollout)
                    self.unreadable(Problem(line.number, f"`{where}` {rollout.fault}", raw, line.place))
            if dropped:
                self._failed.add(Problem(line.number, "dropped", line.raw, line.place))
            else:
                whole = self._whole(record, mine)
                if whole is None:
                    continue
                body = annotate(line.raw, form, whole, fields, settings.on_failure)
            batch.append((line.number, body))
        return batch

    def _whole(self, record: Record, mine: list[Marked]) -> list[Marked] | None:
        """The marks of all rollouts of a record; None until the last of its groups is done."""
        if record.parts == 1:
            return mine
        found = self._waiting.setdefault(record.line.number, [])
        found += mine
        if record.part + 1 < record.parts:
            return None
        return sorted(self._waiting.pop(record.line.number), key=lambda pair: pair[0].path)
