"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over a shard with its share of the limits, and keeps nothing but the replies: on this
machine in the user's ledger, elsewhere in one of its own, whose rows are fetched while it runs. The last
run, here, finds them in the ledger. It asks for what no shard can decide: further passes of --adaptive,
--escalate, and what the cost cap left over.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli.cluster.worker import (
    VERSION,
    Job,
    Report,
    Row,
    Worker,
    copy_ledger,
    keep_rows,
    ledgers,
    node,
    size_of,
)
from ruler_cli.errors import CapReached, RulerError, TooManyFailures, UsageError
from ruler_cli.files.location import Location
from ruler_cli.judges.choose import environment
from ruler_cli.judges.faults import clean
from ruler_cli.judging import judges_of
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.pool.engine import first_of
from ruler_cli.pool.halt import Halt
from ruler_cli.reading import open_input
from ruler_cli.score import Done, score
from ruler_cli.scoring.gain import FIRST
from ruler_cli.settings import MaxFailures, PoolSettings, ScoreSettings
from ruler_cli.shard import Shard

_ROUNDS, _STRIKES = 3, 3
"""Shards for each worker, so that those that are done early help; workers that may end over one shard."""
_LEAST_TOKENS = 100_000
"""Tokens per minute that a worker needs: a call larger than its share would pass the limit of all."""
_TICK, _PAUSE = 0.5, 2.0
"""Seconds between two looks at a worker, and between its shards under a limit, of which each may begin with a
second's worth at once."""
_PART = 8 << 20
"""Bytes of a file that go between two nodes at once."""
_STORE = 512 << 20
"""Bytes of shared memory of a Ray that is started here."""


async def score_on_ray(
    settings: ScoreSettings, observer: Observer, halt: Halt, *, ray: Any, workers: int
) -> Done:
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
        least = (limits.concurrency, limits.rpm, limits.tpm and limits.tpm / _LEAST_TOKENS)
        workers = max(1, int(min(workers, groups, *(share for share in least if share is not None))))
        columns = found.reader.format.shape == "columns"  # a record holds several groups
        shards = 1 if columns else min(groups, _ROUNDS * workers)
        fleet = _Fleet(ray, _job(settings), min(workers, shards), shards, halt)
        await fleet.all(len(problems), groups, settings.max_failures, observer)
        if halt.reason is None:
            cap = limits.max_cost and max(0.0, limits.max_cost - fleet.used)
            last = replace(settings, pool=replace(limits, max_cost=cap), retry_failed=False)
            if limits.rpm or limits.tpm:
                await anyio.sleep(_PAUSE)
            done = await score(last, observer, halt)
        else:
            done = Done(Summary(), halt.reason, whole=False)
    summary = _whole(fleet.summary, done.summary) if done.summary.groups else fleet.summary
    stopped = done.stopped
    if isinstance(stopped, CapReached):  # it knows what was left of the cap
        stopped = CapReached(limits.max_cost or 0.0, summary.failed.get("budget", 0), summary.cut)
    seconds, why = time.perf_counter() - began, None if stopped is None else str(stopped)
    written = done.summary.written
    summary = replace(summary, total=groups, written=written, seconds=seconds, stopped=why)
    return replace(done, summary=summary, stopped=stopped)


@contextmanager
def started(address: str | None, workers: int) -> Iterator[Any]:
    """Start Ray on this machine, or join it at an address; UsageError if it cannot be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a command that scores calls nobody's home
    address = address or os.environ.get("RAY_ADDRESS")
    cpus = max(os.cpu_count() or 1, workers)
    here = {"address": "local", "num_cpus": cpus, "object_store_memory": _STORE, "include_dashboard": False}
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
            raise UsageError(
                f"--engine ray: Ray at {address or 'this machine'} cannot be used ({_first(error)}); see the "
                "logs of Ray"
            ) from None
        try:
            yield ray
        finally:
            ray.shutdown()


class _Fleet:
    """Shards of one run that are still to be scored, and what workers made of the others."""

    def __init__(self, ray: Any, job: Job, workers: int, shards: int, halt: Halt) -> None:
        self._ray, self._job, self._workers, self._halt = ray, job, workers, halt
        every = [Shard(number, shards) for number in range(1, shards + 1)] if shards > 1 else [None]
        self._waiting = deque((shard, 0) for shard in every)
        self._past, self._live = list[Summary](), dict[int, Report]()
        self._granted, self._peaks = dict[int, float](), dict[int, int]()
        self.used = 0.0
        self._elsewhere = sum(each["Alive"] for each in ray.nodes()) > 1

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        whole = Summary.of([*self._past, *(report.summary for report in self._live.values())])
        whole.most_in_flight = sum(self._peaks.values())
        return whole

    async def all(self, lost: int, total: int, most: MaxFailures | None, observer: Observer) -> None:
        """Score every shard, unless the run is told to stop; `lost` lines cannot be read, `most` may fail."""
        observer.started(total)
        await self._send_ledgers()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, lost, total, most, observer)
                async with anyio.create_task_group() as slots:
                    for slot in range(self._workers):
                        slots.start_soon(self._work, slot)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    async def _watch(self, lost: int, total: int, most: MaxFailures | None, observer: Observer) -> None:
        """Report how the run stands, and stop it if too much fails."""
        shown, stopping = 0, False
        while True:
            await anyio.sleep(_TICK)
            summary, status = self.summary, Status.of([report.status for report in self._live.values()])
            for _ in range(summary.groups - shown):
                observer.advanced(summary)
            shown = max(shown, summary.groups)
            observer.tick(summary, status)
            if self._halt.reason is not None and not stopping:
                stopping = True
                observer.stopping(status.in_flight, self._job.settings.grace)
            failed = sum(number for kind, number in summary.failed.items() if kind != "budget")
            if most is not None and failed + max(lost, summary.unreadable) > most.of(total):
                self._halt.now(TooManyFailures(most.shown))

    async def _work(self, slot: int) -> None:
        """Have one shard after another scored, by another worker if one ends."""
        kind = self._ray.remote(Worker).options(num_cpus=1, scheduling_strategy="SPREAD")
        worker: Any = None
        try:
            while self._waiting and self._halt.reason is None:
                shard, strikes = self._waiting.popleft()
                worker = worker or kind.remote()
                try:
                    await self._scored(worker, slot, shard)
                except self._ray.exceptions.RayTaskError:
                    raise
                except self._ray.exceptions.RayError as error:
                    worker = None
                    self._lose(slot)
                    self._waiting.appendleft((shard, strikes + 1))
                    if strikes + 1 == _STRIKES and self._halt.reason is None:
                        self._halt.now(
                            RulerError(
                                f"--engine ray: {_STRIKES} workers ended over {shard or 'the input'} "
                                f"({_first(error)}); is the same ruler-cli[ray] on every node, with memory "
                                "enough? See Ray's logs there; the same command goes on"
                            )
                        )
                    await self._send_ledgers()
        finally:
            if worker is not None:
                self._ray.kill(worker)

    async def _scored(self, worker: Any, slot: int, shard: Shard | None) -> None:
        """Have a worker score a shard, and look at it again and again."""
        limits = self._limits(slot)
        running, after, asked = worker.score.remote(self._job, shard, limits), 0, None
        while not self._ray.wait([running], timeout=0)[0]:
            asked = asked or worker.news.remote(after)
            await anyio.sleep(_TICK)
            if self._ray.wait([asked], timeout=0)[0]:
                with suppress(self._ray.exceptions.RayError):  # then `running` fails too
                    self._live[slot] = self._ray.get(asked)
                    after = await self._keep(self._live[slot].rows, after)
                asked = None
            if self._halt.reason is not None:
                if slot not in self._live:  # it waits for a free CPU
                    self._ray.kill(worker)
                worker.stop.remote()
        report: Report = self._ray.get(running)
        await self._keep(report.rows, after)
        self._live[slot] = Report()
        self._past.append(report.summary)
        self._peaks[slot] = max(self._peaks.get(slot, 0), report.summary.most_in_flight)
        self._granted.pop(slot, None)
        self.used += (report.summary.cost_usd or 0.0) + (report.summary.unsure_usd or 0.0)
        if report.lacks == "ledgers":
            self._elsewhere = True
            await self._send_ledgers()
        elif report.lacks:
            self._send_input()
        if report.lacks:
            self._waiting.appendleft((shard, 0))
        elif report.stopped is not None:
            self._halt.now(report.stopped)
        elif self._waiting and (limits.rpm or limits.tpm):
            await anyio.sleep(_PAUSE)

    async def _keep(self, rows: Sequence[Row], after: int) -> int:
        """Keep rows behind that id in the user's ledger; return the last id."""
        rows = [row for row in rows if row[0] > after]
        if rows and self._job.settings.ledger is not None:
            await anyio.to_thread.run_sync(keep_rows, self._job.settings.ledger, rows)
        return rows[-1][0] if rows else after

    def _limits(self, slot: int) -> PoolSettings:
        """Return a worker's share of the limits, and of the money that is neither spent nor granted."""
        limits, of = self._job.settings.pool, self._workers
        most, cap = limits.concurrency, limits.max_cost
        if cap is not None:
            cap = max(0.0, cap - self.used - sum(self._granted.values())) / (len(self._waiting) + 1)
            self._granted[slot] = cap
        return replace(
            limits,
            concurrency=most and most // of + (slot < most % of),
            rpm=limits.rpm and limits.rpm / of,
            tpm=limits.tpm and limits.tpm / of,
            max_cost=cap,
        )

    def _lose(self, slot: int) -> None:
        """Count what a worker that ended had paid, as far as it is known; its grant may be spent."""
        seen = self._live.pop(slot, Report()).summary
        self._past.append(Summary(asked=seen.usage.calls, usage=seen.usage, cost_usd=seen.cost_usd))
        self.used += self._granted.pop(slot, 0.0)

    async def _send_ledgers(self) -> None:
        """Put what the ledgers hold by now into Ray's store, if there are other nodes."""
        models = [judge.model for judge in judges_of(self._job.settings)]
        self._job = replace(self._job, known=self._elsewhere)
        for path in ledgers(self._job.settings) if self._elsewhere else ():
            if path.exists():
                with tempfile.TemporaryDirectory(prefix="ruler-") as folder:
                    copy = Path(folder) / "ledger.sqlite"
                    await anyio.to_thread.run_sync(copy_ledger, path, models, copy)
                    self._send(str(path), copy)

    def _send_input(self) -> None:
        """Put INPUT into Ray's store, for workers on nodes that do not have it."""
        source = Path(self._job.settings.input.source)
        if not source.is_file():
            why = f"a node of the cluster does not have the files of {source}"
            way = "put them on a disk that all nodes share, or give one file or an address"
            self._halt.now(UsageError(f"--engine ray: {why}; {way}"))
        elif str(source) not in self._job.files:
            self._send(str(source), source)

    def _send(self, name: str, file: Path) -> None:
        with file.open("rb") as stream:
            parts = [self._ray.put(part) for part in iter(lambda: stream.read(_PART), b"")]
        self._job = replace(self._job, files={**self._job.files, name: parts})


def _job(settings: ScoreSettings) -> Job:
    """Return the orders to workers, without what needs the whole batch."""
    source, ledger = settings.input.source, settings.ledger
    if not Location(source).remote:
        source = str(Path(source).absolute())
    first = min(FIRST, settings.ask.passes) if settings.adaptive else settings.ask.passes
    shared = replace(
        settings,
        input=replace(settings.input, source=source),
        ask=replace(settings.ask, passes=first),
        combine=replace(settings.combine, min_passes=1, debias=False, standardize=False),
        on_failure="null",
        max_failures=None,
        ledger=ledger and ledger.absolute(),
        ledgers=tuple(path.absolute() for path in settings.ledgers),
        adaptive=False,
        escalate=None,
        debug=False,
    )
    return Job(shared, node(), VERSION, size_of(source), environment(judges_of(settings)))


def _whole(shards: Summary, last: Summary) -> Summary:
    """Return all shards and the last run as one run."""
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
