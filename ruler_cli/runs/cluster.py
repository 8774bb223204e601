"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over one shard with its share of the limits. On this machine it writes the user's ledger,
elsewhere a ledger of its own: it begins with the rows for the run's judges, and its new rows come with each
report. INPUT has to be at the same path on every node. The last run, in this process, makes the calls
that the cost cap or a worker that died left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from ruler_cli.formats.input import open_input, refuse_other_groups
from ruler_cli.judges.resolve import environment
from ruler_cli.judging.panel import cache_of
from ruler_cli.ledger.database import ReplyRecord, append_rows, rows_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, in_thread, run_beside, together
from ruler_cli.runs.file import (
    RunResult,
    judge_file,
    nothing_to_compare,
    resolve_judges,
    score,
)
from ruler_cli.runs.places import may_replace
from ruler_cli.runs.session import FIRST_ASKED, UNUSABLE, with_outage
from ruler_cli.runs.waits import WaitReports
from ruler_cli.settings.models import (
    JudgeSettings,
    MaxFailures,
    PoolSettings,
    ScoreSettings,
    Shard,
)
from ruler_cli.types import Observer, Status, Summary, clean

Limits = TypeVar("Limits", PoolSettings, JudgeSettings)

_MIN_TPM = 100_000
"""Tokens per minute for a worker: a call larger than its share would exceed the limit of all."""
_TICK = 0.5
"""Seconds between reports."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """State of a shard: counts so far, calls in flight, and the error that stopped it."""

    summary: Summary = field(default_factory=Summary)
    status: Status = field(default_factory=Status)
    stopped: RulerError | None = None


@contextmanager
def ray_session(address: str | None) -> Iterator[Any]:
    """Start Ray on this machine, or join it at an address; UsageError if it cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {
            "address": "local",
            "object_store_memory": 1 << 29,
            "include_dashboard": False,
        }
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Ray's would go to the command's stderr
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
) -> RunResult:
    """Score INPUT into OUTPUT as `score` does, with a worker for each CPU of a running Ray."""
    began = time.perf_counter()
    with ExitStack() as stack:
        problems = list[object]()
        reading = partial(open_input, settings.input, stack, problems.append)
        source = await in_thread(reading)
        if source.reader is None or source.survey is None:
            return await score(settings, observer, stop_signal)
        if error := nothing_to_compare(settings, source):
            raise error
        refuse_other_groups(
            source, settings.output, force=may_replace(settings)
        )
        source.report(observer)
        groups = source.survey.mine
        shape = source.reader.format.shape
    limits = settings.pool
    most = [int(ray.cluster_resources().get("CPU", 1)), groups]
    # a columnar record holds several groups, perhaps of several shards
    if shape == "columns":
        most.append(1)
    # a worker whose share of a limit is less than one call would wait, or pass the limit
    for judge in settings.judges:
        shares = limits.of(judge)
        tokens = shares.tpm and shares.tpm / _MIN_TPM
        for limit in (shares.concurrency, shares.rpm, tokens):
            if limit is not None:
                most.append(int(limit))
    workers = max(1, min(most))
    run = _RayRun(ray, settings, observer, stop_signal)
    await run.score(workers, groups, len(problems))
    stopped = with_outage(stop_signal.reason, run.status)
    result = RunResult(Summary(), stopped, whole=False)
    if stop_signal.reason is None:
        cap = limits.max_cost
        rest = replace(limits, max_cost=cap and max(0.0, cap - run.spent))
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


@dataclass(slots=True)
class _RayRun:
    """A worker for each shard, and their reports.

    `ready` are workers that have begun. `spent` is the USD that those which have ended spent, or may have
    spent.
    """

    ray: Any
    settings: ScoreSettings
    observer: Observer
    stop_signal: StopSignal
    reports: list[ShardReport] = field(default_factory=list)
    ready: list[Any] = field(default_factory=list)
    status: Status = field(default_factory=Status)
    most_in_flight: int = 0
    spent: float = 0.0

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        summary = Summary.of([report.summary for report in self.reports])
        return replace(summary, most_in_flight=self.most_in_flight)

    async def score(
        self,
        count: int,
        groups: int,
        unreadable: int,
    ) -> None:
        """Score every shard, unless the run is stopped; `unreadable` lines were found in INPUT."""
        self.observer.started(groups)
        workers = [
            partial(self._work, _for_worker(self.settings, number, count))
            for number in range(count)
        ]
        watch = partial(self._watch, groups, unreadable)
        await run_beside(watch, partial(together, workers))

    async def _watch(
        self,
        groups: int,
        unreadable: int,
    ) -> None:
        """Report progress, and stop the workers after a stop signal or too many failures."""
        allowed = self.settings.most_failures
        waits = WaitReports(self.observer)
        while self.stop_signal.reason is None:
            await asyncio.sleep(_TICK)
            summary = self.summary
            self.status = Status.of([report.status for report in self.reports])
            self.most_in_flight = max(
                self.most_in_flight, self.status.in_flight
            )
            waits.look(time.monotonic(), self.status)
            self.observer.tick(summary, self.status)
            if allowed is None:
                kinds = [summary.failed.get(kind, 0) for kind in UNUSABLE]
                unusable = sum(kinds) - summary.failed_before
                if not summary.scored and unusable >= FIRST_ASKED:
                    self.stop_signal.stop(NoUsableReply(unusable))
                continue
            failed = sum(summary.failed.values()) - summary.failed.get(
                "budget", 0
            )
            if failed + max(unreadable, summary.unreadable) > allowed.of(
                groups
            ):
                self.stop_signal.stop(TooManyFailures(allowed.shown))
        self.observer.stopping(self.status.in_flight, self.settings.grace)
        for worker in self.ready:
            worker.stop.remote()

    async def _work(self, settings: ScoreSettings) -> None:
        """Have a worker score its shard; store its reports, and its replies in the ledger."""
        index = len(self.reports)
        self.reports.append(ShardReport())
        errors = self.ray.exceptions
        actor = self.ray.remote(Worker)
        options = actor.options(num_cpus=1, scheduling_strategy="SPREAD")
        worker = options.remote()
        try:
            # it may wait for a free CPU
            begun = await self.stop_signal.before(self._begin(worker, settings))
            if not begun.done():
                begun.cancel()
                return
            begun.result()
            stream = worker.score.options(num_returns="streaming")
            async for part in stream.remote():
                self.reports[index], rows = await part
                if rows and settings.ledger is not None:
                    await asyncio.to_thread(append_rows, settings.ledger, rows)
            report = self.reports[index]
            summary = report.summary
            self.spent += (summary.cost_usd or 0.0) + (
                summary.unsure_usd or 0.0
            )
            if report.stopped is not None:
                self.stop_signal.stop(report.stopped)
        except RulerError as error:  # Ray wraps one of a worker
            self.stop_signal.stop(getattr(error, "cause", error))
        except errors.RayTaskError:
            raise
        except errors.RayError as error:
            died = f"a worker of Ray died ({_first_line(error)})"
            self.observer.warn(f"{died}; this process scores what it left")
            # the calls are paid for, and some may not be known
            last = self.reports[index].summary
            paid = Summary(
                asked=last.usage.calls, usage=last.usage, cost_usd=last.cost_usd
            )
            self.reports[index] = ShardReport(paid)
            self.spent += settings.pool.max_cost or 0.0
        finally:
            self.ray.kill(worker)

    async def _begin(
        self,
        worker: Any,
        settings: ScoreSettings,
    ) -> None:
        """Start a worker; one on another node gets the rows of the ledgers for the run's judges."""
        home = self.ray.get_runtime_context().get_node_id()
        keys = environment(settings.judges)
        if await worker.begin.remote(__version__, settings, home, keys):
            caches = [cache_of(None, judge) for judge in settings.judges]
            models = [
                name for cache in caches for name in (cache.model, cache.name)
            ]
            # the newest row of a request counts there: those of the run's own ledger
            for path in (*settings.ledgers, settings.ledger):
                for rows in rows_of(path, models):
                    await worker.take.remote(rows)
        self.ready.append(worker)


def share_of(
    limits: Limits,
    number: int,
    count: int,
) -> Limits:
    """Return the share of limits that the worker `number` of `count` has."""
    calls = limits.concurrency
    return replace(
        limits,
        concurrency=calls and (calls + count - 1 - number) // count,
        rpm=limits.rpm and limits.rpm / count,
        tpm=limits.tpm and limits.tpm / count,
    )


class Worker(Observer):
    """An actor of Ray that scores a shard on its node."""

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
        self._report = ShardReport()
        self._folder = Path(tempfile.mkdtemp(prefix="ruler-"))
        self._settings = settings
        self._ledger = self._folder / "ledger.sqlite"
        self._last_row = 0
        if ray.get_runtime_context().get_node_id() == home:
            return False
        Ledger(self._ledger).close()
        self._settings = replace(settings, ledger=self._ledger, ledgers=())
        return True

    async def take(self, rows: Sequence[ReplyRecord]) -> None:
        """Append rows to this node's ledger."""
        append_rows(self._ledger, rows)
        self._last_row += len(rows)

    async def score(
        self,
    ) -> AsyncIterator[tuple[ShardReport, list[ReplyRecord]]]:
        """Score the shard; yield reports, each with the new rows of this node's ledger."""
        run = asyncio.ensure_future(self._score_shard())
        while not (await asyncio.wait([run], timeout=_TICK))[0]:
            yield self._report, self._new_rows()
        try:
            last = await run
        except (
            RulerError
        ) as error:  # replies since the last report are paid for
            last = replace(self._report, stopped=error)
        rows = self._new_rows()
        shutil.rmtree(self._folder, ignore_errors=True)
        yield last, rows

    async def _score_shard(self) -> ShardReport:
        """Fill the ledger with the replies about the shard."""
        settings = self._settings
        with ExitStack() as stack:
            resolved = resolve_judges(settings)
            session, _ = await judge_file(
                settings, resolved, self, self._stop_signal, None, stack
            )
        summary, stopped = session.finish()
        # the last run goes on where the cap of a worker ends
        if isinstance(stopped, CapReached):
            stopped = None
        return ShardReport(summary, stopped=stopped)

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        self._stop_signal.stop(RulerError("stopped by the command"))

    def tick(
        self,
        summary: Summary,
        status: Status,
    ) -> None:
        """Store counts and status for the next report."""
        self._report = ShardReport(summary, status)

    def _new_rows(self) -> list[ReplyRecord]:
        rows = [
            row
            for part in rows_of(self._ledger, after=self._last_row)
            for row in part
        ]
        self._last_row += len(rows)
        return rows


def _for_worker(
    settings: ScoreSettings,
    number: int,
    count: int,
) -> ScoreSettings:
    """Return the settings of one of `count` workers.

    It has a shard, a share of the limits, absolute paths, and no option that needs the whole batch.
    """
    source = settings.input.source
    cap = settings.pool.max_cost
    shared = partial(share_of, number=number, count=count)
    if not Location(source).remote:
        source = str(Path(source).absolute())
    return replace(
        settings,
        input=replace(
            settings.input,
            source=source,
            shard=Shard(number + 1, count) if count > 1 else None,
        ),
        # another process writes OUTPUT
        output="-",
        on_failure="null",
        failed=None,
        pool=replace(shared(settings.pool), max_cost=cap and cap / count),
        judge=shared(settings.judge),
        panel=tuple(map(shared, settings.panel)),
        combine=replace(
            settings.combine, min_passes=1, debias=False, standardize=False
        ),
        # none: `_watch` knows the failures of all shards
        max_failures=MaxFailures(100, percent=True),
        ledger=settings.ledger and settings.ledger.absolute(),
        ledgers=tuple(path.absolute() for path in settings.ledgers),
        escalate=settings.escalate and shared(settings.escalate),
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
    return UsageError(problem, remedy, place="--engine ray")


def _first_line(error: Exception) -> str:
    return clean(str(error).strip().split("\n")[0].rstrip("."))[:160]
