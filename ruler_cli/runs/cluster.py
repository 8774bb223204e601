"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over a shard with its share of the limits. On this machine it writes the user's ledger,
elsewhere a ledger of its own: it begins with the rows for the run's judges, and its new rows come with each
report. INPUT has to be at the same path on every node. The last run, in this process, makes the calls that
need the whole input: further passes, escalated groups, groups that the cost cap left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ruler_cli import __version__
from ruler_cli.errors import (
    CapReached,
    NoUsableReply,
    RulerError,
    TooManyFailures,
    UsageError,
)
from ruler_cli.files.location import Location
from ruler_cli.judges.resolve import environment
from ruler_cli.judging.adaptive import FIRST
from ruler_cli.ledger.database import ReplyRecord, append_rows, rows_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread, run_beside, together
from ruler_cli.runs.file import RunResult, nothing_to_compare, score
from ruler_cli.runs.input import open_input
from ruler_cli.runs.session import FIRST_ASKED, UNUSABLE, with_outage
from ruler_cli.settings.models import (
    JudgeSettings,
    MaxFailures,
    PoolSettings,
    ScoreSettings,
    Shard,
)
from ruler_cli.types import Observer, Status, Summary, WaitReports, clean

Limits = TypeVar("Limits", PoolSettings, JudgeSettings)

_SHARDS = 3
"""Shards for each worker, so that all finish together."""
_TRIES = 3
"""Workers that may die over one shard."""
_MIN_TPM = 100_000
"""Tokens per minute for a worker: a call larger than its share would exceed the limit of all."""
_TICK = 0.5
"""Seconds between reports."""
_PAUSE = 2.0
"""Seconds after a shard if there are rate limits: a shard starts with a burst."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """State of a shard: counts so far, calls in flight, and the error that stopped it."""

    summary: Summary = field(default_factory=Summary)
    status: Status = field(default_factory=Status)
    stopped: RulerError | None = None


@contextmanager
def ray_session(address: str | None, workers: int) -> Iterator[Any]:
    """Start Ray on this machine, or join it at an address; UsageError if it cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": address or "local"}
    if address is None:
        options["num_cpus"] = max(os.cpu_count() or 1, workers)
        options["object_store_memory"] = 1 << 29
        options["include_dashboard"] = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's would go to the command's stderr
        import ray
        from ray._private import worker

        for name in ("ray", "ray._private", "ray._common"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # it prints a worker's end on stdout, which may be a pipe of records
        worker.print_to_stdstream = lambda *_, **__: None
        try:
            ray.init(
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                **options,
            )
        except Exception as error:  # noqa: BLE001 - Ray raises anything
            why = f"cannot be used at {address or 'this machine'}: {_first_line(error)}"
            raise _of_engine(why, "see the logs of Ray") from None
        try:
            yield ray
        finally:
            ray.shutdown()


async def score_on_ray(
    settings: ScoreSettings,
    observer: Observer,
    stop_signal: StopSignal,
    *,
    ray: Any,
    workers: int,
) -> RunResult:
    """Score INPUT into OUTPUT as `score` does, with so many workers of a running Ray."""
    began = time.perf_counter()
    with ExitStack() as stack:
        problems = list[object]()
        reading = partial(open_input, settings.input, stack, problems.append)
        source = await in_thread(reading)
        if source.reader is None or source.survey is None:
            return await score(settings, observer, stop_signal)
        if error := nothing_to_compare(settings, source):
            raise error
        source.report(observer)
        groups = source.survey.mine
        shape = source.reader.format.shape
    limits = settings.pool
    # a worker whose share of a limit is less than one call would wait, or pass the limit
    most = [workers, groups]
    for own in map(limits.of, settings.judges):
        tpm = own.tpm and own.tpm / _MIN_TPM
        most += [
            int(limit) for limit in (own.concurrency, own.rpm, tpm) if limit is not None
        ]
    workers = max(1, min(most))
    count = min(groups, _SHARDS * workers)
    shards: list[Shard | None] = [
        Shard(number, count) for number in range(1, count + 1)
    ]
    # a columnar record holds several groups, perhaps of several shards
    if shape == "columns" or count == 1:
        shards = [None]
    workers = min(workers, len(shards))
    run = _RayRun(ray, settings, workers, shards, observer, stop_signal)
    await run.score(groups, len(problems))
    stopped = with_outage(stop_signal.reason, run.status)
    result = RunResult(Summary(), stopped, whole=False)
    if stop_signal.reason is None:
        rest = replace(limits, max_cost=run.usd_left)
        last = replace(settings, pool=rest, retry_failed=False)
        result = await score(last, observer, stop_signal)
    summary = _combined(run.summary, result.summary)
    stopped = result.stopped
    if isinstance(stopped, CapReached):
        # it names the part of the cap that the last run had
        left = summary.failed.get("budget", 0)
        stopped = CapReached(limits.max_cost or 0.0, left, summary.cut)
    summary.total = groups
    summary.written = result.summary.written
    summary.seconds = time.perf_counter() - began
    summary.stopped = None if stopped is None else stopped.reason
    return replace(result, summary=summary, stopped=stopped)


class _RayRun:
    """Shards that wait for a worker, and reports on the others."""

    def __init__(
        self,
        ray: Any,
        settings: ScoreSettings,
        workers: int,
        shards: Sequence[Shard | None],
        observer: Observer,
        stop_signal: StopSignal,
    ) -> None:
        self._ray = ray
        self._settings = settings
        self._workers = workers
        self._observer = observer
        self._stop_signal = stop_signal
        self._waiting = deque((shard, 0) for shard in shards)
        """Each with the number of workers that died over it."""
        self._shard_settings = _for_workers(settings)
        self.usd_left = settings.pool.max_cost
        self._reports = list[ShardReport]()
        self._most = 0
        self.status = Status()
        self._actors = dict[int, Any]()
        self._ready = set[int]()

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        summary = Summary.of([report.summary for report in self._reports])
        return replace(summary, most_in_flight=self._most)

    async def score(self, groups: int, unreadable: int) -> None:
        """Score every shard, unless the run is stopped; `unreadable` lines were found in INPUT."""
        self._observer.started(groups)
        workers = [partial(self._work, number) for number in range(self._workers)]
        watch = partial(self._watch, groups, unreadable)
        await run_beside(watch, partial(together, workers))

    async def _watch(self, groups: int, unreadable: int) -> None:
        """Report progress, and stop the workers after a stop signal or too many failures."""
        reported = 0
        allowed = self._settings.most_failures
        waits = WaitReports(self._observer)
        while self._stop_signal.reason is None:
            await asyncio.sleep(_TICK)
            summary = self.summary
            self.status = Status.of([report.status for report in self._reports])
            self._most = max(self._most, self.status.in_flight)
            for _ in range(summary.groups - reported):
                self._observer.advanced(summary)
            reported = max(reported, summary.groups)
            waits.look(time.monotonic(), self.status)
            self._observer.tick(summary, self.status)
            if allowed is None:
                kinds = [summary.failed.get(kind, 0) for kind in UNUSABLE]
                unusable = sum(kinds) - summary.failed_before
                if not summary.scored and unusable >= FIRST_ASKED:
                    self._stop_signal.stop(NoUsableReply(unusable))
                continue
            failed = sum(summary.failed.values()) - summary.failed.get("budget", 0)
            if failed + max(unreadable, summary.unreadable) > allowed.of(groups):
                self._stop_signal.stop(TooManyFailures(allowed.shown))
        self._observer.stopping(self.status.in_flight, self._settings.grace)
        for number, worker in self._actors.items():
            if number in self._ready:
                worker.stop.remote()
            else:  # it may wait for a free CPU
                self._ray.kill(worker)

    async def _work(self, number: int) -> None:
        """Have one shard after another scored, by a new worker if one dies."""
        errors = self._ray.exceptions
        while self._waiting and self._stop_signal.reason is None:
            shard, deaths = self._waiting.popleft()
            try:
                if number not in self._ready:
                    await self._begin(number)
                await self._score_shard(number, shard)
            except RulerError as error:  # Ray wraps one of a worker
                self._stop_signal.stop(getattr(error, "cause", error))
            except errors.RayTaskError:
                raise
            except errors.RayError as error:
                self._ready.discard(number)
                self._waiting.appendleft((shard, deaths + 1))
                if deaths + 1 == _TRIES:
                    why = f"{_TRIES} workers died on {shard or 'the input'} ({_first_line(error)})"
                    remedy = "check Ray's logs, and that every node has the same ruler and Ray"
                    dead = RulerError(why, remedy, option="engine", value="ray")
                    self._stop_signal.stop(dead)
        if number in self._ready:
            with suppress(errors.RayError):
                await self._actors[number].end.remote()
            self._ray.kill(self._actors.pop(number))

    async def _begin(self, number: int) -> None:
        """Start a worker; one on another node gets the rows of the ledgers for the run's judges."""
        settings = self._shard_settings
        actor = self._ray.remote(Worker)
        options = actor.options(num_cpus=1, scheduling_strategy="SPREAD")
        worker = self._actors[number] = options.remote()
        home = self._ray.get_runtime_context().get_node_id()
        keys = environment(settings.judges)
        if await worker.begin.remote(__version__, settings, home, keys):
            models = [judge.model for judge in settings.judges]
            # the newest row of a request counts there: those of the run's own ledger
            for path in (*settings.ledgers, settings.ledger):
                for rows in rows_of(path, models):
                    await worker.take.remote(rows)
        self._ready.add(number)

    async def _score_shard(self, number: int, shard: Shard | None) -> None:
        """Have a worker score a shard; store its reports, and its replies in the ledger."""
        settings = self._settings
        index = len(self._reports)
        cap = None
        usd_left = self.usd_left
        if usd_left is not None:
            cap = usd_left / (len(self._waiting) + 1)
            self.usd_left = usd_left - cap
        pool = share_of(settings.pool, number, self._workers)
        pool = replace(pool, max_cost=cap)
        judges = [
            share_of(judge, number, self._workers)
            for judge in self._shard_settings.judges
        ]
        self._reports.append(ShardReport())
        try:
            stream = self._actors[number].score.options(num_returns="streaming")
            async for part in stream.remote(shard, pool, judges):
                self._reports[index], rows = await part
                if rows and settings.ledger is not None:
                    await asyncio.to_thread(append_rows, settings.ledger, rows)
        except self._ray.exceptions.RayError:
            # another worker scores the groups, but the calls are paid for
            last = self._reports[index].summary
            paid = Summary(
                asked=last.usage.calls,
                usage=last.usage,
                cost_usd=last.cost_usd,
            )
            self._reports[index] = ShardReport(paid)
            raise
        report = self._reports[index]
        if cap is not None and self.usd_left is not None:
            spent = report.summary
            left = cap - (spent.cost_usd or 0.0) - (spent.unsure_usd or 0.0)
            self.usd_left = max(0.0, self.usd_left + left)
        if report.stopped is not None:
            self._stop_signal.stop(report.stopped)
        elif any(own.rpm or own.tpm for own in map(pool.of, judges)):
            await asyncio.sleep(_PAUSE)


def share_of(limits: Limits, number: int, count: int) -> Limits:
    """Return the share of limits that the worker `number` of `count` has."""
    calls = limits.concurrency
    return replace(
        limits,
        concurrency=calls and (calls + count - 1 - number) // count,
        rpm=limits.rpm and limits.rpm / count,
        tpm=limits.tpm and limits.tpm / count,
    )


class Worker(Observer):
    """An actor of Ray: it scores shards on its node, one at a time."""

    async def begin(
        self,
        version: str,
        settings: ScoreSettings,
        home: str,
        environment: Mapping[str, str],
    ) -> bool:
        """Take the settings of the node `home`. Return True if this is another: it has a ledger of its own."""
        import ray

        if version != __version__:
            reason = f"a worker has ruler {__version__}, this machine {version}"
            raise _of_engine(reason, "install the same everywhere")
        source = settings.input.source
        if not (Location(source).remote or os.path.exists(source)):  # noqa: PTH110, ASYNC240 - one look
            remedy = "put it on a disk that all nodes share, or give an address"
            raise _of_engine(f"a node of the cluster lacks {source}", remedy)
        for name, value in environment.items():
            os.environ.setdefault(name, value)
        self._stop_signal = StopSignal()
        self._folder = Path(tempfile.mkdtemp(prefix="ruler-"))
        output = self._folder / "out.jsonl"
        output.symlink_to(os.devnull)
        self._settings = replace(settings, output=str(output))
        self._ledger: Path | None = None
        self._last_row = 0
        if ray.get_runtime_context().get_node_id() == home:
            return False
        self._ledger = self._folder / "ledger.sqlite"
        Ledger(self._ledger).close()
        self._settings = replace(self._settings, ledger=self._ledger, ledgers=())
        return True

    async def take(self, rows: Sequence[ReplyRecord]) -> None:
        """Append rows to this node's ledger."""
        if self._ledger is not None:
            append_rows(self._ledger, rows)
            self._last_row += len(rows)

    async def score(
        self, shard: Shard | None, limits: PoolSettings, judges: Sequence[JudgeSettings]
    ) -> AsyncIterator[tuple[ShardReport, list[ReplyRecord]]]:
        """Score a shard (None: all of INPUT); yield reports, each with the new rows of this node's ledger."""
        self._report = ShardReport()
        settings = replace(
            self._settings,
            input=replace(self._settings.input, shard=shard),
            pool=limits,
            judge=judges[0],
            panel=tuple(judges[1:]),
        )
        run = asyncio.ensure_future(score(settings, self, self._stop_signal))
        while not (await asyncio.wait([run], timeout=_TICK))[0]:
            yield self._report, self._new_rows()
        try:
            result = await run
            stopped = None if isinstance(result.stopped, CapReached) else result.stopped
            last = ShardReport(result.summary, stopped=stopped)
        except RulerError as error:  # replies since the last report are paid for
            last = replace(self._report, stopped=error)
        yield last, self._new_rows()

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        self._stop_signal.stop(RulerError("stopped by the command"))

    async def end(self) -> None:
        """Remove the files of this worker."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def tick(self, summary: Summary, status: Status) -> None:
        """Store counts and status for the next report."""
        self._report = ShardReport(summary, status)

    def _new_rows(self) -> list[ReplyRecord]:
        if self._ledger is None:
            return []
        rows = [
            row for part in rows_of(self._ledger, after=self._last_row) for row in part
        ]
        self._last_row += len(rows)
        return rows


def _for_workers(settings: ScoreSettings) -> ScoreSettings:
    """Return the settings of a shard: absolute paths, and no option that needs the whole batch."""
    source = settings.input.source
    ask = settings.ask
    if not Location(source).remote:
        source = str(Path(source).absolute())
    if settings.adaptive:
        ask = replace(ask, passes=min(FIRST, ask.passes))
    return replace(
        settings,
        input=replace(settings.input, source=source),
        ask=ask,
        combine=replace(
            settings.combine, min_passes=1, debias=False, standardize=False
        ),
        failed=None,
        # none: `_watch` knows the failures of all shards
        max_failures=MaxFailures(100, percent=True),
        ledger=settings.ledger and settings.ledger.absolute(),
        ledgers=tuple(path.absolute() for path in settings.ledgers),
        adaptive=False,
        escalate=None,
    )


_PAID = ("asked", "hedged", "retried", "usage", "cost_usd", "unsure_usd")
"""Counts of calls: those of the shards and of the last run are added."""


def _combined(shards: Summary, last: Summary) -> Summary:
    """Return the summary of all shards and the last run as one run."""
    if not last.groups:
        return shards
    paid = Summary.of([shards, last])
    kept = None
    if last.kept_usd is not None and shards.cost_usd is not None:
        kept = max(0.0, round(last.kept_usd - shards.cost_usd, 9))
    return replace(
        last,
        **{name: getattr(paid, name) for name in _PAID},
        kept=min(shards.kept, last.kept),
        failed_before=min(shards.failed_before, last.failed_before),
        kept_usd=kept,
        most_in_flight=max(shards.most_in_flight, last.most_in_flight),
    )


def _of_engine(problem: str, remedy: str) -> UsageError:
    return UsageError(problem, remedy, option="engine", value="ray")


def _first_line(error: Exception) -> str:
    return clean(str(error).strip().split("\n")[0].rstrip("."))[:160]
