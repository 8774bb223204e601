"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over a shard with its share of the limits and keeps the replies: on this machine in the
user's ledger, elsewhere in one of its own, whose new rows come with each report. The last run asks only for
what no shard can decide: further passes of --adaptive, --escalate, and what the cost cap left over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli import __version__
from ruler_cli.answer import clean
from ruler_cli.config import PoolSettings, ScoreSettings, Shard
from ruler_cli.errors import CapReached, RulerError, TooManyFailures, UsageError
from ruler_cli.judges.resolve import environment
from ruler_cli.judging.adaptive import FIRST
from ruler_cli.judging.panel import judges_of
from ruler_cli.ledger.database import WAIT
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.pool.engine import StopSignal
from ruler_cli.reading.input import open_input
from ruler_cli.reading.location import Location
from ruler_cli.run import RunResult, score

_ROUNDS, _STRIKES = 3, 3
"""Shards for each worker, so that those that are done early help; workers that may end over one shard."""
_LEAST_TOKENS = 100_000
"""Tokens per minute that a worker needs: a call larger than its share would pass the limit of all."""
_TICK, _PAUSE = 0.5, 2.0
"""Seconds between reports, and after a shard under a limit: the next begins with a second's worth at once."""
_COLUMNS = "key, at, seconds, model, status, prompt, completion, cached, body"
_Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Report:
    """State of a shard: counts so far, calls at this moment, the reason why it was stopped."""

    summary: Summary = field(default_factory=Summary)
    status: Status = field(default_factory=Status)
    stopped: RulerError | None = None


@contextmanager
def started(address: str | None, workers: int) -> Iterator[Any]:
    """Start Ray on this machine, or join it at an address; UsageError if it cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a command that scores calls nobody's home
    address = address or os.environ.get("RAY_ADDRESS")
    cpus = max(os.cpu_count() or 1, workers)
    here = {"address": "local", "num_cpus": cpus, "object_store_memory": 1 << 29, "include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stderr is the command's
        import ray
        from ray._private import worker

        for name in ("ray", "ray._private", "ray._common"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # it tells of a worker that ended on stdout, which may be a pipe of records
        worker.print_to_stdstream = lambda *_, **__: None
        given = {"address": address} if address else here
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=False, **given)
        except Exception as error:  # noqa: BLE001 - Ray raises anything
            why = f"Ray at {address or 'this machine'} cannot be used ({_first(error)}); see the logs of Ray"
            raise UsageError(f"--engine ray: {why}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


async def score_on_ray(
    settings: ScoreSettings, observer: Observer, halt: StopSignal, *, ray: Any, workers: int
) -> RunResult:
    """Score INPUT into OUTPUT as `score` does, with so many workers of a Ray that runs."""
    began = time.perf_counter()
    with ExitStack() as stack:
        problems = list[object]()
        found = await anyio.to_thread.run_sync(open_input, settings.input, stack, problems.append)
        if found.reader is None or found.survey is None:
            return await score(settings, observer, halt)
        for sentence in (found.found(), *found.notes):
            observer.note(sentence)
        for sentence in found.survey.warnings():
            observer.warn(sentence)
        groups, limits = found.survey.groups, settings.pool
        columns = found.reader.format.shape == "columns"  # a record holds several groups
    shares = (limits.concurrency, limits.rpm, limits.tpm and limits.tpm / _LEAST_TOKENS)
    workers = max(1, int(min(workers, groups, *(share for share in shares if share is not None))))
    number = 1 if columns else min(groups, _ROUNDS * workers)
    shards = _Shards(ray, settings, min(workers, number), number, observer, halt)
    await shards.score(groups, len(problems))
    done = RunResult(Summary(), halt.reason, whole=False)
    if halt.reason is None:
        last = replace(settings, pool=replace(limits, max_cost=shards.left), retry_failed=False)
        done = await score(last, observer, halt)
    summary, stopped = _whole(shards.summary, done.summary), done.stopped
    if isinstance(stopped, CapReached):  # it knows what was left of the cap
        stopped = CapReached(limits.max_cost or 0.0, summary.failed.get("budget", 0), summary.cut)
    summary.total, summary.written = groups, done.summary.written
    summary.seconds = time.perf_counter() - began
    summary.stopped = None if stopped is None else str(stopped)
    return replace(done, summary=summary, stopped=stopped)


class _Shards:
    """Shards of a run that wait for a worker, and reports on the others; `left` is money for no shard yet."""

    def __init__(
        self,
        ray: Any,
        settings: ScoreSettings,
        workers: int,
        number: int,
        observer: Observer,
        halt: StopSignal,
    ) -> None:
        self._ray, self._settings, self._observer, self._halt = ray, settings, observer, halt
        self._orders, self._slots, self.left = _for_workers(settings), workers, settings.pool.max_cost
        every = [Shard(each, number) for each in range(1, number + 1)] if number > 1 else [None]
        self._waiting = deque((shard, 0) for shard in every)
        self._reports, self._most = list[Report](), 0
        self._workers, self._ready = dict[int, Any](), set[int]()

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        return replace(Summary.of([report.summary for report in self._reports]), most_in_flight=self._most)

    async def score(self, groups: int, lost: int) -> None:
        """Score every shard, unless the run is told to stop; `lost` lines cannot be read."""
        self._observer.started(groups)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, groups, lost)
            async with anyio.create_task_group() as slots:
                for slot in range(self._slots):
                    slots.start_soon(self._work, slot)
            tasks.cancel_scope.cancel()

    async def _watch(self, groups: int, lost: int) -> None:
        """Show how the run stands, and stop the workers if it is told to stop or too much fails."""
        shown, most, status = 0, self._settings.max_failures, Status()
        while self._halt.reason is None:
            await anyio.sleep(_TICK)
            summary, status = self.summary, Status.of([report.status for report in self._reports])
            self._most = max(self._most, status.in_flight)
            for _ in range(summary.groups - shown):
                self._observer.advanced(summary)
            shown = max(shown, summary.groups)
            self._observer.tick(summary, status)
            failed = sum(number for kind, number in summary.failed.items() if kind != "budget")
            if most is not None and failed + max(lost, summary.unreadable) > most.of(groups):
                self._halt.stop(TooManyFailures(most.shown))
        self._observer.stopping(status.in_flight, self._settings.grace)
        for slot, worker in self._workers.items():
            if slot in self._ready:
                worker.stop.remote()
            else:  # it may wait for a free CPU
                self._ray.kill(worker)

    async def _work(self, slot: int) -> None:
        """Have one shard after another scored, by another worker if one ends."""
        while self._waiting and self._halt.reason is None:
            shard, strikes = self._waiting.popleft()
            try:
                if slot not in self._ready:
                    await self._begin(slot)
                await self._scored(slot, shard)
            except RulerError as error:  # Ray wraps one of a worker
                self._halt.stop(getattr(error, "cause", error))
            except self._ray.exceptions.RayTaskError:
                raise
            except self._ray.exceptions.RayError as error:
                self._ready.discard(slot)
                self._waiting.appendleft((shard, strikes + 1))
                if strikes + 1 == _STRIKES:
                    what = f"{_STRIKES} workers ended over {shard or 'the input'} ({_first(error)})"
                    way = "is the same ruler-cli[ray] on every node, with memory enough? See Ray's logs there"
                    self._halt.stop(RulerError(f"--engine ray: {what}; {way}; the same command goes on"))
        if slot in self._ready:
            with suppress(self._ray.exceptions.RayError):
                await self._workers[slot].end.remote()
            self._ray.kill(self._workers.pop(slot))

    async def _begin(self, slot: int) -> None:
        """Start a worker, and send it the files that its node lacks."""
        kind = self._ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD")
        worker = self._workers[slot] = kind.remote()
        home, size = self._ray.get_runtime_context().get_node_id(), size_of(self._orders.input.source)
        keys = environment(judges_of(self._settings))
        for name in await worker.begin.remote(__version__, self._orders, home, size, keys):
            await self._send(worker, name)
        self._ready.add(slot)

    async def _send(self, worker: Any, name: str) -> None:
        """Send a worker INPUT, or what a ledger holds of the run's judges."""
        file = Path(name)
        with tempfile.TemporaryDirectory(prefix="ruler-") as folder:
            if name != self._orders.input.source:
                file = Path(folder) / "ledger.sqlite"
                models = [judge.model for judge in judges_of(self._settings)]
                await anyio.to_thread.run_sync(_copy_ledger, name, models, file)
            elif not file.is_file():
                why = f"a node of the cluster does not have the files of {name}"
                way = "put them on a disk that all nodes share, or give one file or an address"
                raise UsageError(f"--engine ray: {why}; {way}")
            with file.open("rb") as stream:
                while part := stream.read(8 << 20):
                    await worker.take.remote(name, part)

    async def _scored(self, slot: int, shard: Shard | None) -> None:
        """Have a worker score a shard, and keep its reports and replies."""
        limits, number = self._limits(slot), len(self._reports)
        self._reports.append(Report())
        try:
            stream = self._workers[slot].score.options(num_returns="streaming")
            async for part in stream.remote(shard, limits):
                self._reports[number], rows = await part
                if rows and self._settings.ledger is not None:
                    await anyio.to_thread.run_sync(_keep_rows, self._settings.ledger, rows)
        except self._ray.exceptions.RayError:  # its groups are another's, and it may have spent its money
            seen = self._reports[number].summary
            paid = Summary(asked=seen.usage.calls, usage=seen.usage, cost_usd=seen.cost_usd)
            self._reports[number] = Report(paid)
            raise
        report = self._reports[number]
        if self.left is not None and limits.max_cost is not None:
            spent = (report.summary.cost_usd or 0.0) + (report.summary.unsure_usd or 0.0)
            self.left = max(0.0, self.left + limits.max_cost - spent)
        if report.stopped is not None:
            self._halt.stop(report.stopped)
        elif limits.rpm or limits.tpm:
            await anyio.sleep(_PAUSE)

    def _limits(self, slot: int) -> PoolSettings:
        """Return a worker's share of the limits, and of the money that is left."""
        limits, of, cap = self._settings.pool, self._slots, self.left
        if self.left is not None:
            cap = self.left / (len(self._waiting) + 1)
            self.left -= cap
        return replace(
            limits,
            concurrency=limits.concurrency and (limits.concurrency + of - 1 - slot) // of,
            rpm=limits.rpm and limits.rpm / of,
            tpm=limits.tpm and limits.tpm / of,
            max_cost=cap,
        )


class Worker(Observer):
    """An actor of Ray: it scores shards on its node, one at a time."""

    async def begin(
        self, version: str, settings: ScoreSettings, home: str, size: int, environment: Mapping[str, str]
    ) -> list[str]:
        """Take orders from the node `home`, where INPUT has this size; return files that this node lacks."""
        if version != __version__:
            why = f"a worker has ruler {__version__}, this machine {version}"
            raise UsageError(f"--engine ray: {why}; install the same everywhere")
        for name, value in environment.items():
            os.environ.setdefault(name, value)
        self._halt, self._folder = StopSignal(), Path(tempfile.mkdtemp(prefix="ruler-"))
        self._ledger: Path | None = None
        output, source = self._folder / "out.jsonl", settings.input.source
        output.symlink_to(os.devnull)
        self._settings = replace(settings, output=str(output))
        import ray

        if ray.get_runtime_context().get_node_id() == home:
            return []
        ledgers = [str(path) for path in (settings.ledger, *settings.ledgers)]
        lacks = [*([source] if size_of(source) != size else []), *ledgers]
        self._copies = {n: self._folder / f"{i}-{n.rpartition('/')[2]}" for i, n in enumerate(lacks)}
        self._ledger, self._last = self._folder / "ledger.sqlite", 0
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

    async def score(self, shard: Shard | None, limits: PoolSettings) -> AsyncIterator[tuple[Report, _Rows]]:
        """Score a shard (None: all of INPUT); yield reports, each with the new rows of a ledger here."""
        self._report = Report()
        given = replace(self._settings, input=replace(self._settings.input, shard=shard), pool=limits)
        running = asyncio.ensure_future(score(given, self, self._halt))
        while not (await asyncio.wait([running], timeout=_TICK))[0]:
            yield self._report, self._rows()
        try:
            done = await running
            stopped = None if isinstance(done.stopped, CapReached) else done.stopped
            last = Report(done.summary, stopped=stopped)
        except RulerError as error:  # replies since the last report are paid for
            last = replace(self._report, stopped=error)
        yield last, self._rows()

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        self._halt.stop(RulerError("stopped by the command"))

    async def end(self) -> None:
        """Remove what this worker has written."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def tick(self, summary: Summary, status: Status) -> None:
        """Take counts and status for the next report."""
        self._report = Report(summary, status)

    def _rows(self) -> _Rows:
        if self._ledger is None:
            return []
        with closing(sqlite3.connect(self._ledger)) as ledger:
            query = f"SELECT id, {_COLUMNS} FROM replies WHERE id > ? ORDER BY id"  # noqa: S608
            rows = ledger.execute(query, (self._last,)).fetchall()
        self._last = rows[-1][0] if rows else self._last
        return [row[1:] for row in rows]


def _keep_rows(path: Path, rows: _Rows) -> None:
    """Keep rows of a worker's ledger in the user's."""
    values = ", ".join("?" * len(rows[0]))
    with closing(sqlite3.connect(path, timeout=WAIT)) as ledger, ledger:
        ledger.executemany(f"INSERT INTO replies ({_COLUMNS}) VALUES ({values})", rows)  # noqa: S608


def _copy_ledger(path: str, models: Sequence[str], copy: Path) -> None:
    """Copy the rows of a ledger that are of these models, none if it is not there."""
    Ledger(copy).close()
    if not Path(path).exists():
        return
    with closing(sqlite3.connect(copy)) as ledger, ledger:
        ledger.execute("ATTACH ? AS whole", (path,))
        marks = ", ".join("?" * len(models))
        query = f"SELECT {_COLUMNS} FROM whole.replies WHERE model IN ({marks}) ORDER BY id"  # noqa: S608
        ledger.execute(f"INSERT INTO replies ({_COLUMNS}) {query}", models)


def size_of(source: str) -> int:
    """Return the bytes of a file, -1 for a directory, 0 for what is not on this machine."""
    path = Path(source)
    return path.stat().st_size if path.is_file() else -int(path.is_dir())


def _for_workers(settings: ScoreSettings) -> ScoreSettings:
    """Return the settings of a shard, without what needs the whole batch."""
    source, passes = settings.input.source, settings.ask.passes
    source = source if Location(source).remote else str(Path(source).absolute())
    return replace(
        settings,
        input=replace(settings.input, source=source),
        ask=replace(settings.ask, passes=min(FIRST, passes) if settings.adaptive else passes),
        combine=replace(settings.combine, min_passes=1, debias=False, standardize=False),
        failed=None,
        max_failures=None,
        ledger=settings.ledger and settings.ledger.absolute(),
        ledgers=tuple(path.absolute() for path in settings.ledgers),
        adaptive=False,
        escalate=None,
    )


def _whole(shards: Summary, last: Summary) -> Summary:
    """Return all shards and the last run as one run."""
    if not last.groups:
        return shards
    paid, kept = Summary.of([shards, last]), None
    if last.kept_usd is not None and shards.cost_usd is not None:
        kept = max(0.0, round(last.kept_usd - shards.cost_usd, 9))
    return replace(
        last,
        **{name: getattr(paid, name) for name in ("asked", "retried", "usage", "cost_usd", "unsure_usd")},
        kept=min(shards.kept, last.kept),
        failed_before=min(shards.failed_before, last.failed_before),
        kept_usd=kept,
        most_in_flight=max(shards.most_in_flight, last.most_in_flight),
    )


def _first(error: Exception) -> str:
    """Return the first sentence of what Ray says."""
    return clean(str(error).strip().split("\n")[0].rstrip("."))[:160]
