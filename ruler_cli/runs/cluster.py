"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over a shard with its share of the limits. On this machine it writes the user's ledger,
elsewhere a ledger of its own, whose new rows come with each report. The last run, in this process, makes the
calls that need the whole input: further passes, escalated groups, groups that the cost cap left out.
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

import anyio.to_thread

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
from ruler_cli.ledger.database import ReplyRecord, append_rows, copy_rows, new_rows
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import StopSignal, run_beside, together
from ruler_cli.runs.batch_scores import FIRST_ASKED, UNUSABLE
from ruler_cli.runs.file import RunResult, nothing_to_compare, score, with_outage
from ruler_cli.runs.input import open_input
from ruler_cli.settings.models import (
    JudgeSettings,
    MaxFailures,
    PoolSettings,
    ScoreSettings,
    Shard,
)
from ruler_cli.types import Observer, Status, Summary, WaitReports, clean

Limits = TypeVar("Limits", PoolSettings, JudgeSettings)

_SHARDS, _TRIES = 3, 3
"""Shards for each worker, so that all finish together; workers that may die over one shard."""
_MIN_TPM = 100_000
"""Tokens per minute for a worker: a call larger than its share would exceed the limit of all."""
_TICK, _PAUSE = 0.5, 2.0
"""Seconds between reports, and after a shard if there are rate limits: a shard starts with a burst."""


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
    address, cpus = (
        address or os.environ.get("RAY_ADDRESS"),
        max(os.cpu_count() or 1, workers),
    )
    local = {
        "address": "local",
        "num_cpus": cpus,
        "object_store_memory": 1 << 29,
        "include_dashboard": False,
    }
    options = {"address": address} if address else local
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
            why = f"{address or 'this machine'} cannot be used ({_first_line(error)}); see the logs of Ray"
            raise UsageError(f"Ray at {why}", option="engine", value="ray") from None
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
        source = await anyio.to_thread.run_sync(
            open_input, settings.input, stack, problems.append
        )
        if source.reader is None or source.survey is None:
            return await score(settings, observer, stop_signal)
        if error := await anyio.to_thread.run_sync(
            nothing_to_compare, settings, source
        ):
            raise error
        source.report(observer)
        groups, limits, shape = (
            source.survey.mine,
            settings.pool,
            source.reader.format.shape,
        )
    each = [limits.of(judge) for judge in settings.judges]
    shares = [
        share
        for own in each
        for share in (own.concurrency, own.rpm, own.tpm and own.tpm / _MIN_TPM)
    ]
    workers = max(
        1, int(min(workers, groups, *(share for share in shares if share is not None)))
    )
    count = (
        min(groups, _SHARDS * workers) if shape != "columns" else 1
    )  # columns: several groups a record
    waiting = deque(
        (Shard(number, count) if count > 1 else None, 0)
        for number in range(1, count + 1)
    )
    run = _RayRun(ray, settings, min(workers, count), waiting, observer, stop_signal)
    await run.score(groups, len(problems))
    result = RunResult(
        Summary(), with_outage(stop_signal.reason, run.status), whole=False
    )
    if stop_signal.reason is None:
        last = replace(
            settings, pool=replace(limits, max_cost=run.usd_left), retry_failed=False
        )
        result = await score(last, observer, stop_signal)
    summary, stopped = _combined(run.summary, result.summary), result.stopped
    if isinstance(
        stopped, CapReached
    ):  # it holds the part of the cap that the last run had
        stopped = CapReached(
            limits.max_cost or 0.0, summary.failed.get("budget", 0), summary.cut
        )
    summary.total, summary.written = groups, result.summary.written
    summary.seconds = time.perf_counter() - began
    summary.stopped = None if stopped is None else stopped.reason
    return replace(result, summary=summary, stopped=stopped)


@dataclass
class _RayRun:
    """Shards that wait for a worker, each with the number of workers lost over it; reports on the others."""

    ray: Any
    settings: ScoreSettings
    workers: int
    waiting: deque[tuple[Shard | None, int]]
    observer: Observer
    stop_signal: StopSignal

    def __post_init__(self) -> None:
        self._shard_settings, self.usd_left = (
            _for_workers(self.settings),
            self.settings.pool.max_cost,
        )
        self._reports, self._most, self.status = list[ShardReport](), 0, Status()
        self._actors, self._ready = dict[int, Any](), set[int]()

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        return replace(
            Summary.of([report.summary for report in self._reports]),
            most_in_flight=self._most,
        )

    async def score(self, groups: int, unreadable: int) -> None:
        """Score every shard, unless the run is stopped; `unreadable` lines were found in INPUT."""
        self.observer.started(groups)
        workers = [partial(self._work, number) for number in range(self.workers)]
        await run_beside(
            partial(self._watch, groups, unreadable), lambda: together(workers)
        )

    async def _watch(self, groups: int, unreadable: int) -> None:
        """Report progress, and stop the workers after a stop signal or too many failures."""
        reported, allowed = 0, self.settings.most_failures
        waits = WaitReports(self.observer)
        while self.stop_signal.reason is None:
            await anyio.sleep(_TICK)
            summary, status = (
                self.summary,
                Status.of([report.status for report in self._reports]),
            )
            self._most, self.status = max(self._most, status.in_flight), status
            for _ in range(summary.groups - reported):
                self.observer.advanced(summary)
            reported = max(reported, summary.groups)
            waits.look(anyio.current_time(), status)
            self.observer.tick(summary, status)
            failed = sum(
                number for kind, number in summary.failed.items() if kind != "budget"
            )
            unusable = (
                sum(summary.failed.get(kind, 0) for kind in UNUSABLE)
                - summary.failed_before
            )
            if allowed is None and not summary.scored and unusable >= FIRST_ASKED:
                self.stop_signal.stop(NoUsableReply(unusable))
            if allowed is not None and failed + max(
                unreadable, summary.unreadable
            ) > allowed.of(groups):
                self.stop_signal.stop(TooManyFailures(allowed.shown))
        self.observer.stopping(self.status.in_flight, self.settings.grace)
        for number, worker in self._actors.items():
            if number in self._ready:
                worker.stop.remote()
            else:  # it may wait for a free CPU
                self.ray.kill(worker)

    async def _work(self, number: int) -> None:
        """Have one shard after another scored, by a new worker if one dies."""
        while self.waiting and self.stop_signal.reason is None:
            shard, deaths = self.waiting.popleft()
            try:
                if number not in self._ready:
                    await self._begin(number)
                await self._score_shard(number, shard)
            except RulerError as error:  # Ray wraps one of a worker
                self.stop_signal.stop(getattr(error, "cause", error))
            except self.ray.exceptions.RayTaskError:
                raise
            except self.ray.exceptions.RayError as error:
                self._ready.discard(number)
                self.waiting.appendleft((shard, deaths + 1))
                if deaths + 1 == _TRIES:
                    why = f"{_TRIES} workers died on {shard or 'the input'} ({_first_line(error)})"
                    hint = "check Ray's logs, and that every node has the same ruler and Ray"
                    remedy = f"{hint}; another run goes on"
                    self.stop_signal.stop(
                        RulerError(why, remedy, option="engine", value="ray")
                    )
        if number in self._ready:
            with suppress(self.ray.exceptions.RayError):
                await self._actors[number].end.remote()
            self.ray.kill(self._actors.pop(number))

    async def _begin(self, number: int) -> None:
        """Start a worker, and send it the files that are missing on its node."""
        actor = self.ray.remote(Worker).options(
            num_cpus=1, scheduling_strategy="SPREAD"
        )
        worker = self._actors[number] = actor.remote()
        home, size = (
            self.ray.get_runtime_context().get_node_id(),
            size_of(self._shard_settings.input.source),
        )
        keys = environment(self.settings.judges)
        for name in await worker.begin.remote(
            __version__, self._shard_settings, home, size, keys
        ):
            await self._send(worker, name)
        self._ready.add(number)

    async def _send(self, worker: Any, name: str) -> None:
        """Send a worker INPUT, or the rows of a ledger for the run's judges."""
        file = Path(name)
        with tempfile.TemporaryDirectory(prefix="ruler-") as folder:
            if name != self._shard_settings.input.source:
                file = Path(folder) / "ledger.sqlite"
                Ledger(file).close()
                models = [judge.model for judge in self.settings.judges]
                await anyio.to_thread.run_sync(copy_rows, name, models, file)
            elif not file.is_file():
                reason = f"a node of the cluster lacks the files of {name}"
                advice = "put them on a shared disk, or give one file or an address"
                raise UsageError(reason, advice, option="engine", value="ray")
            with file.open("rb") as stream:
                while part := stream.read(8 << 20):
                    await worker.take.remote(name, part)

    async def _score_shard(self, number: int, shard: Shard | None) -> None:
        """Have a worker score a shard; store its reports, and its replies in the ledger."""
        limits, index = self._limits(number), len(self._reports)
        self._reports.append(ShardReport())
        try:
            stream = self._actors[number].score.options(num_returns="streaming")
            async for part in stream.remote(shard, limits, self._judges(number)):
                self._reports[index], rows = await part
                if rows and self.settings.ledger is not None:
                    await anyio.to_thread.run_sync(
                        append_rows, self.settings.ledger, rows
                    )
        except (
            self.ray.exceptions.RayError
        ):  # another worker scores the groups, but the calls are paid for
            last = self._reports[index].summary
            paid = Summary(
                asked=last.usage.calls, usage=last.usage, cost_usd=last.cost_usd
            )
            self._reports[index] = ShardReport(paid)
            raise
        report = self._reports[index]
        if self.usd_left is not None and limits.max_cost is not None:
            spent = (report.summary.cost_usd or 0.0) + (
                report.summary.unsure_usd or 0.0
            )
            self.usd_left = max(0.0, self.usd_left + limits.max_cost - spent)
        if report.stopped is not None:
            self.stop_signal.stop(report.stopped)
        elif any(own.rpm or own.tpm for own in map(limits.of, self._judges(number))):
            await anyio.sleep(_PAUSE)

    def _limits(self, number: int) -> PoolSettings:
        """Return a worker's share of the limits and of the USD left."""
        limits, count, cap = self.settings.pool, self.workers, self.usd_left
        if self.usd_left is not None:
            cap = self.usd_left / (len(self.waiting) + 1)
            self.usd_left -= cap
        return replace(share_of(limits, number, count), max_cost=cap)

    def _judges(self, number: int) -> list[JudgeSettings]:
        """Return the judges with a worker's share of their own limits."""
        return [
            share_of(judge, number, self.workers)
            for judge in self._shard_settings.judges
        ]


def share_of(limits: Limits, number: int, count: int) -> Limits:
    """Return the share of limits that the worker `number` of `count` has."""
    return replace(
        limits,
        concurrency=limits.concurrency
        and (limits.concurrency + count - 1 - number) // count,
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
        size: int,
        environment: Mapping[str, str],
    ) -> list[str]:
        """Take the settings from the node `home`, where INPUT has `size` bytes; return files missing here."""
        if version != __version__:
            reason = f"a worker has ruler {__version__}, this machine {version}"
            raise UsageError(
                reason, "install the same everywhere", option="engine", value="ray"
            )
        for name, value in environment.items():
            os.environ.setdefault(name, value)
        self._stop_signal, self._folder = (
            StopSignal(),
            Path(tempfile.mkdtemp(prefix="ruler-")),
        )
        self._ledger: Path | None = None
        output, source = self._folder / "out.jsonl", settings.input.source
        output.symlink_to(os.devnull)
        self._settings = replace(settings, output=str(output))
        import ray

        if ray.get_runtime_context().get_node_id() == home:
            return []
        ledgers = [str(path) for path in (settings.ledger, *settings.ledgers)]
        missing = [*([source] if size_of(source) != size else []), *ledgers]
        self._copies = {
            n: self._folder / f"{i}-{n.rpartition('/')[2]}"
            for i, n in enumerate(missing)
        }
        self._ledger, self._last_row = self._folder / "ledger.sqlite", 0
        Ledger(self._ledger).close()
        self._settings = replace(
            self._settings,
            input=replace(settings.input, source=str(self._copies.get(source, source))),
            ledger=self._ledger,
            ledgers=tuple(self._copies[name] for name in ledgers),
        )
        return list(self._copies)

    async def take(self, name: str, part: bytes) -> None:
        """Append a part to this node's copy of a file."""
        with self._copies[name].open("ab") as file:
            file.write(part)

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
        rows, self._last_row = new_rows(self._ledger, self._last_row)
        return rows


def size_of(source: str) -> int:
    """Return the bytes of a file, -1 for a directory, 0 if it is not on this machine."""
    path = Path(source)
    return path.stat().st_size if path.is_file() else -int(path.is_dir())


def _for_workers(settings: ScoreSettings) -> ScoreSettings:
    """Return the settings of a shard: absolute paths, and no option that needs the whole batch."""
    source, passes = settings.input.source, settings.ask.passes
    source = source if Location(source).remote else str(Path(source).absolute())
    return replace(
        settings,
        input=replace(settings.input, source=source),
        ask=replace(
            settings.ask, passes=min(FIRST, passes) if settings.adaptive else passes
        ),
        combine=replace(
            settings.combine, min_passes=1, debias=False, standardize=False
        ),
        failed=None,
        max_failures=MaxFailures(
            100, percent=True
        ),  # none: `_watch` knows the failures of all shards
        ledger=settings.ledger and settings.ledger.absolute(),
        ledgers=tuple(path.absolute() for path in settings.ledgers),
        adaptive=False,
        escalate=None,
    )


def _combined(shards: Summary, last: Summary) -> Summary:
    """Return the summary of all shards and the last run as one run."""
    if not last.groups:
        return shards
    paid, kept = Summary.of([shards, last]), None
    if last.kept_usd is not None and shards.cost_usd is not None:
        kept = max(0.0, round(last.kept_usd - shards.cost_usd, 9))
    return replace(
        last,
        **{
            name: getattr(paid, name)
            for name in (
                "asked",
                "hedged",
                "retried",
                "usage",
                "cost_usd",
                "unsure_usd",
            )
        },
        kept=min(shards.kept, last.kept),
        failed_before=min(shards.failed_before, last.failed_before),
        kept_usd=kept,
        most_in_flight=max(shards.most_in_flight, last.most_in_flight),
    )


def _first_line(error: Exception) -> str:
    return clean(str(error).strip().split("\n")[0].rstrip("."))[:160]
