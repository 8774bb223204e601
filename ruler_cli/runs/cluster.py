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
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ruler_cli.errors import CapReached, RulerError, UsageError
from ruler_cli.judges.resolve import environment
from ruler_cli.judging.panel import cache_of
from ruler_cli.ledger.database import ReplyRecord, append_rows, rows_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, end_tasks, in_thread
from ruler_cli.runs.file import (
    RunResult,
    judge_file,
    nothing_to_compare,
    resolve_judges,
    score,
)
from ruler_cli.runs.input import open_input, refuse_other_groups
from ruler_cli.runs.places import may_replace
from ruler_cli.settings.models import (
    JudgeSettings,
    PoolSettings,
    ScoreSettings,
    Shard,
)
from ruler_cli.types import Observer, Status, Summary, clean, value

Limits = TypeVar("Limits", PoolSettings, JudgeSettings)

_MIN_TPM = 100_000
"""Tokens per minute for a worker: a call larger than its share would exceed the limit of all."""
_TICK = 0.5
"""Seconds between reports."""


@value
class ShardReport:
    """Counts of a shard so far, and what is new: rows for the ledger, and warnings.

    The last report of a shard has `ended`, and the error that `stopped` it.
    """

    summary: Summary
    rows: Sequence[ReplyRecord]
    warnings: Sequence[str]
    ended: bool
    stopped: RulerError | None


@contextmanager
def ray_session(address: str | None) -> Iterator[Any]:
    """Start Ray on this machine, or join it at an address; UsageError if it cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        # Ray's would go to the command's stderr
        warnings.simplefilter("ignore")
        try:
            import ray

            for name in ("ray", "ray._private", "ray._common"):
                logging.getLogger(name).setLevel(logging.CRITICAL)
            # else it would join any Ray of this machine
            ray.init(
                address or os.environ.get("RAY_ADDRESS") or "local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
        except Exception as error:  # noqa: BLE001 - Ray raises anything
            why = clean(str(error).strip().split("\n")[0])
            problem = f"cannot be used: {why}"
            remedy = "see Ray's logs"
            raise UsageError(problem, remedy, place="--engine ray") from None
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
        reading = partial(
            open_input,
            settings.input,
            stack,
            lambda _: None,
        )
        source = await in_thread(reading)
        # a columnar record holds several groups, perhaps of several shards
        if (
            source.survey is None
            or source.streamed
            or source.survey.reader.format.shape == "columns"
        ):
            return await score(settings, observer, stop_signal)
        if error := nothing_to_compare(settings, source):
            raise error
        refuse_other_groups(
            source, settings.output, force=may_replace(settings)
        )
        source.report(observer)
        groups = source.survey.mine
    observer.started(groups)
    cpus = int(ray.cluster_resources().get("CPU", 1))
    count = _workers(settings, min(cpus, groups))
    reports = await _score_shards(
        ray,
        settings,
        observer,
        stop_signal,
        count,
    )
    shards = [report.summary for report in reports]
    ended = [report.summary for report in reports if report.ended]
    reason = stop_signal.reason
    if reason is not None:
        paid = Summary.of(shards)
        paid.stopped = reason.reason
        return RunResult(paid, reason, whole=False)
    if len(ended) < count:
        observer.warn("a worker of Ray died; this process scores what it left")
    cap = settings.pool.max_cost
    left = cap
    if cap is not None:
        # one that died may have spent its part
        left = cap / count * len(ended)
        for summary in ended:
            left -= (summary.cost_usd or 0.0) + (summary.unsure_usd or 0.0)
        left = max(0.0, left)
    rest = replace(settings.pool, max_cost=left)
    last = replace(settings, pool=rest, retry_failed=False)
    result = await score(last, observer, stop_signal)
    summary = result.summary
    paid = Summary.of(shards)
    summary.kept = min(paid.kept, summary.kept)
    summary.failed_before = min(paid.failed_before, summary.failed_before)
    paid = Summary.of([paid, summary])
    for name in _PAID:
        setattr(summary, name, getattr(paid, name))
    summary.seconds = time.perf_counter() - began
    if isinstance(result.stopped, CapReached):
        # it names the part of the cap that the last run had
        unscored = summary.failed.get("budget", 0)
        reached = CapReached(cap or 0.0, unscored, summary.cut)
        summary.stopped = reached.reason
        result = replace(result, stopped=reached)
    return result


def _workers(settings: ScoreSettings, most: int) -> int:
    """Return the number of workers: one whose share is less than a call would wait, or pass the limit."""
    limits: list[float | None] = [most]
    for judge in settings.judges:
        shared = settings.pool.of(judge)
        tokens = shared.tpm and shared.tpm / _MIN_TPM
        limits += [shared.concurrency, shared.rpm, tokens]
    return max(1, int(min(limit for limit in limits if limit is not None)))


async def _score_shards(
    ray: Any,
    settings: ScoreSettings,
    observer: Observer,
    stop_signal: StopSignal,
    count: int,
) -> list[ShardReport]:
    """Have workers score all shards, store the rows of their reports, and return the last report of each shard."""
    rows = list[Any]()
    if len(ray.nodes()) > 1:
        caches = [cache_of(None, judge) for judge in settings.judges]
        models = [cache.model for cache in caches]
        models += [cache.name for cache in caches]
        # the newest row of a request counts there: those of the run's own ledger
        for path in (*settings.ledgers, settings.ledger):
            rows += map(ray.put, rows_of(path, models))
    home = ray.get_runtime_context().get_node_id()
    keys = environment(settings.judges)
    actor = ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD")
    newest = dict[int, ShardReport]()

    async def follow(number: int, worker: Any) -> None:
        """Take the reports of a worker until its end, or until it dies."""
        score_shard = worker.score.options(num_returns="streaming")
        with suppress(ray.exceptions.RayActorError):
            async for reference in score_shard.remote():
                newest[number] = report = await reference
                if report.rows and settings.ledger:
                    append = partial(append_rows, settings.ledger, report.rows)
                    await asyncio.to_thread(append)
                for sentence in report.warnings:
                    observer.warn(sentence)
                if report.stopped is not None:
                    stop_signal.stop(report.stopped)
                summaries = [report.summary for report in newest.values()]
                observer.tick(Summary.of(summaries), Status())

    workers = []
    following = []
    for number in range(count):
        part = _for_shard(settings, number, count)
        worker = actor.remote(
            part,
            str(Path.cwd()),
            home,
            keys,
            rows,
        )
        workers.append(worker)
        following.append(asyncio.create_task(follow(number, worker)))
    whole = await stop_signal.before(asyncio.gather(*following))
    if stop_signal.reason is None:
        whole.result()
    else:
        for worker in workers:
            worker.stop.remote()
        # those that have not begun wait for a CPU
        begun = [following[number] for number in newest]
        await asyncio.gather(*begun)
        await end_tasks(*following)
    return [*newest.values()]


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

    def __init__(
        self,
        settings: ScoreSettings,
        folder: str,
        home: str,
        keys: Mapping[str, str],
        rows: Sequence[Any],
    ) -> None:
        """Begin on a node; on another than the command's make a ledger with its rows."""
        import ray

        self._settings = settings
        self._stop_signal = StopSignal()
        self._summary = Summary()
        self._warnings = list[str]()
        self._ledger: Path | None = None
        self._last_row = 0
        os.environ.update({**keys, **os.environ})
        # one that only the other node has is not needed here
        with suppress(OSError):
            os.chdir(folder)
        if ray.get_runtime_context().get_node_id() == home:
            return
        self._folder = TemporaryDirectory(prefix="ruler-")
        ledger = Path(self._folder.name) / "ledger.sqlite"
        Ledger(ledger).close()
        for reference in rows:
            some = ray.get(reference)
            append_rows(ledger, some)
            self._last_row += len(some)
        self._ledger = ledger
        self._settings = replace(settings, ledger=ledger, ledgers=())

    async def score(self) -> AsyncIterator[ShardReport]:
        """Score the shard; yield reports."""
        run = asyncio.ensure_future(self._score())
        while not (await asyncio.wait([run], timeout=_TICK))[0]:
            yield self._report()
        stopped = await run
        yield self._report(ended=True, stopped=stopped)

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        self._stop_signal.stop(RulerError("stopped by the command"))

    def _report(
        self,
        *,
        ended: bool = False,
        stopped: RulerError | None = None,
    ) -> ShardReport:
        rows = list[ReplyRecord]()
        for some in rows_of(self._ledger, after=self._last_row):
            rows += some
        self._last_row += len(rows)
        report = ShardReport(
            self._summary, rows, self._warnings, ended, stopped
        )
        self._warnings = []
        return report

    async def _score(self) -> RulerError | None:
        """Fill the ledger with the replies about the shard; return what stopped it."""
        settings = self._settings
        try:
            with ExitStack() as stack:
                resolved = resolve_judges(settings)
                session, _ = await judge_file(
                    settings, resolved, self, self._stop_signal, None, stack
                )
        except RulerError as error:
            # replies since the last report are paid for
            return error
        self._summary, stopped = session.finish()
        # the last run goes on where the cap of a worker ends
        return None if isinstance(stopped, CapReached) else stopped

    def tick(
        self,
        summary: Summary,
        status: Status,
    ) -> None:
        """Store counts for the next report."""
        self._summary = summary

    def warn(self, sentence: str) -> None:
        """Store a warning for the next report."""
        self._warnings.append(sentence)


def _for_shard(
    settings: ScoreSettings, number: int, count: int
) -> ScoreSettings:
    """Return the settings of one of `count` shards, with its share of the limits."""
    cap = settings.pool.max_cost
    shared = partial(share_of, number=number, count=count)
    shard = Shard(number + 1, count) if count > 1 else None
    return replace(
        settings,
        input=replace(settings.input, shard=shard),
        # another process writes OUTPUT
        output="-",
        combine=replace(settings.combine, debias=False, standardize=False),
        pool=replace(shared(settings.pool), max_cost=cap and cap / count),
        judge=shared(settings.judge),
        panel=tuple(map(shared, settings.panel)),
        escalate=settings.escalate and shared(settings.escalate),
    )


_PAID = ("asked", "hedged", "retried", "usage", "cost_usd", "unsure_usd")
"""Counts of calls: those of the shards and of the last run are added."""
