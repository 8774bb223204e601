"""The recipe: read, group, judge, annotate, write. The composition root of a run."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

import anyio.to_thread

from ruler_cli.annotate import annotate, trajectory_bytes
from ruler_cli.errors import RefusedError, UsageError
from ruler_cli.files.output import FailedFile, Output
from ruler_cli.formats.detect import Reader
from ruler_cli.groups import Index
from ruler_cli.judges.choose import Chosen, choose
from ruler_cli.judging import Outcome, group_fields, judge_group, marks_of
from ruler_cli.observer import Observer, Summary
from ruler_cli.pool.caller import Caller
from ruler_cli.pool.engine import Bounds, run
from ruler_cli.pool.feed import threaded
from ruler_cli.reading import Input, open_input
from ruler_cli.records import Failure, Group, Problem
from ruler_cli.settings import ScoreSettings


async def score(settings: ScoreSettings, observer: Observer | None = None) -> Summary:
    """Score INPUT into OUTPUT; what cannot go on is a RulerError with its exit code."""
    observer = observer or Observer()
    chosen = choose(settings.judge)
    if settings.ask.context_tokens is None:
        settings = replace(settings, ask=replace(settings.ask, context_tokens=chosen.context))
    _refuse_clashes(settings)
    with ExitStack() as stack:
        output = stack.enter_context(Output(settings.output))
        failed = FailedFile(_failed_path(settings))
        stack.callback(failed.close)
        run_ = _Run(settings, chosen, observer, output, failed)
        async with chosen.judge:  # before the input is read: a judge that is not there costs no wait
            # in a thread, because a pipe may be silent for long and the survey of a file be long
            opened = threaded(open_input(settings.input, stack, run_.unreadable) for _ in range(1))
            found = cast(Input, await opened())
            observer.note(found.found())
            for sentence in found.survey.warnings() if found.survey else ():
                observer.warn(sentence)
            observer.started(found.survey.groups if found.survey else None)
            await run_.all(found)
        failed.close()
        output.commit()
    return run_.finish()


class _Run:
    """One run: what is counted, and what each group goes through."""

    def __init__(
        self, settings: ScoreSettings, chosen: Chosen, observer: Observer, output: Output, failed: FailedFile
    ) -> None:
        self._settings, self._chosen, self._observer = settings, chosen, observer
        self._output, self._failed = output, failed
        self._summary = Summary()
        self._began = time.perf_counter()
        self._caller = Caller(chosen.judge, settings.judge.concurrency, settings.judge.retries)
        self._writer: _Writer = _InOrder(output)

    async def all(self, found: Input) -> None:
        """Judge and write every group."""
        if found.reader is None:
            return
        self._reader: Reader = found.reader
        if found.scattered:
            self._writer = _ByTurn(self._output, found.index)
        bounds = Bounds(items=4 * self._settings.judge.concurrency)
        await run(found.pull(), self._judge, self._deliver, lambda group: group.size, bounds)

    def unreadable(self, problem: Problem) -> None:
        """Count, tell and keep something of the input that could not be read."""
        self._summary.unreadable += 1
        self._observer.problem(problem)
        self._failed.add(problem)

    def finish(self) -> Summary:
        """The counts of the whole run."""
        self._summary.seconds = time.perf_counter() - self._began
        return self._summary

    async def _judge(self, group: Group) -> Outcome:
        on_reply = self._observer.replied if self._settings.debug else None
        outcome = await judge_group(group, self._settings.ask, self._caller.call, on_reply)
        if outcome.fatal is not None:
            raise RefusedError(outcome.fatal.reason)
        return outcome

    async def _deliver(self, group: Group, outcome: Outcome) -> None:
        self._count(group, outcome)
        settings, name = self._settings, self._chosen.judge.name
        marks = iter(marks_of(group, outcome, name))
        fields = group_fields(group, outcome, name, self._chosen.price)
        dropped = settings.on_failure == "drop" and isinstance(outcome.verdict, Failure)
        batch = []
        for record in group.records:
            mine = [next(marks) for _ in record.rollouts]
            for rollout in record.rollouts:
                if rollout.fault is not None and not dropped:  # a dropped record goes there whole
                    where = ".".join(map(str, rollout.path))
                    raw = trajectory_bytes(record, rollout)
                    self.unreadable(Problem(record.line.number, f"`{where}` {rollout.fault}", raw))
            body = b""
            if dropped:
                self._failed.add(Problem(record.line.number, "dropped", record.line.raw))
            else:
                body = annotate(record, self._reader.format, mine, fields, settings.on_failure)
            batch.append((record.line.number, body))
        if self._output.to_stdout:  # a slow reader of the pipe must not stop the calls in flight
            self._summary.written += await anyio.to_thread.run_sync(
                self._writer.write, batch, abandon_on_cancel=True
            )
        else:
            self._summary.written += self._writer.write(batch)
        self._observer.advanced(self._summary)

    def _count(self, group: Group, outcome: Outcome) -> None:
        summary, verdict = self._summary, outcome.verdict
        summary.groups += 1
        summary.rollouts += len(group.rollouts)
        summary.usage += outcome.usage
        price = self._chosen.price
        summary.cost_usd = None if price is None else price.of(summary.usage)
        if isinstance(verdict, Failure):
            summary.failed[verdict.kind] = summary.failed.get(verdict.kind, 0) + 1
            self._observer.failed(group.key, verdict.kind, verdict.reason)
            return
        summary.scored += 1
        summary.tied += verdict.tied
        summary.suspect += len(verdict.suspects)
        summary.rescaled += verdict.rescaled
        summary.unknown_ids += verdict.unknown
        summary.shortened += bool(verdict.shortened)


class _Writer(ABC):
    """Puts records into OUTPUT in input order; an empty body is a record that is left out."""

    def __init__(self, output: Output) -> None:
        self._output = output

    @abstractmethod
    def write(self, batch: list[tuple[int, bytes]]) -> int:
        """Take the records of one group; the number of records that reached OUTPUT."""

    def _put(self, body: bytes) -> int:
        if not body:
            return 0
        self._output.write(body)
        return 1


class _InOrder(_Writer):
    """Groups come in input order and their records are adjacent: written at once."""

    def write(self, batch: list[tuple[int, bytes]]) -> int:
        return sum(self._put(body) for _, body in batch)


class _ByTurn(_Writer):
    """Records of a group lie apart: each is kept on disk until all before it are written."""

    def __init__(self, output: Output, index: Index) -> None:
        super().__init__(output)
        self._index = index
        self._order: Iterator[tuple[int, int, int]] = index.lines()
        self._next = next(self._order, None)

    def write(self, batch: list[tuple[int, bytes]]) -> int:
        for number, body in batch:
            self._index.keep(number, body)
        written = 0
        while self._next is not None:
            ready = self._index.take(self._next[0])
            if ready is None:
                break
            written += self._put(ready)
            self._next = next(self._order, None)
        return written


def _refuse_clashes(settings: ScoreSettings) -> None:
    """No file of a run may be another one: the later would destroy the earlier."""
    source, output, failed = settings.input.source, settings.output, settings.failed
    if output != "-" and _same(source, output + ".partial"):
        raise UsageError(f"{source}: is where OUTPUT is written until it is whole; rename it first")
    if failed is not None:
        for other in (source, output, output + ".partial"):
            if other != "-" and _same(other, str(failed)):
                raise UsageError(f"--failed {failed}: is INPUT or OUTPUT; give it a file of its own")
        if failed.is_dir() or failed.suffix in (".gz", ".zst"):
            raise UsageError(f"--failed {failed}: give the name of a plain file")
    if settings.on_failure == "drop" and output == "-" and failed is None:
        raise UsageError("--on-failure drop: with OUTPUT - say where dropped records go, with --failed FILE")


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _failed_path(settings: ScoreSettings) -> Path | None:
    if settings.failed is not None:
        if not settings.failed.parent.is_dir():
            raise UsageError(f"--failed {settings.failed}: its directory does not exist")
        return settings.failed
    return None if settings.output == "-" else Path(settings.output + ".failed.jsonl")
