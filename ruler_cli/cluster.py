"""One run on Ray: workers score shards of INPUT, then this process writes OUTPUT from the ledger.

A worker runs `score` over a shard with its share of the limits, and keeps nothing but the replies: on this
machine in the user's ledger, elsewhere in one of its own, whose rows are fetched while it runs. The last run,
here, finds them in the ledger. It asks for what no shard can decide: further passes of --adaptive, --escalate,
and what the cost cap left over.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import tempfile
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ruler_cli import __version__
from ruler_cli.errors import CapReached, RulerError, TooManyFailures, UsageError
from ruler_cli.files.remote import is_remote
from ruler_cli.hearing import judges_of
from ruler_cli.judges.faults import clean
from ruler_cli.judges.providers import provider_of, variables
from ruler_cli.ledger import Ledger
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.pool.engine import first_of
from ruler_cli.pool.halt import Halt
from ruler_cli.reading import open_input
from ruler_cli.score import Done, score
from ruler_cli.scoring.gain import FIRST
from ruler_cli.settings import JudgeSettings, PoolSettings, ScoreSettings
from ruler_cli.shard import Shard

_ROUNDS, _STRIKES = 3, 3
"""Shards for each worker, so that those that are done early help; workers that may end over one shard."""
_LEAST_TOKENS = 100_000
"""Tokens per minute that a worker needs: a call larger than its share would pass the limit of all."""
_TICK, _PAUSE = 0.5, 2.0
"""Seconds between two looks at a worker, and between its shards under a limit, of which each may begin with a
second's worth at once."""
_PART, _ROWS = 8 << 20, 2_000
"""Bytes of a file, and rows of a ledger, that go between two nodes at once."""
_STORE = 512 << 20
"""Bytes of shared memory of a Ray that is started here."""
_PATIENCE = 60.0
"""Seconds that another process's write to the ledger is waited for."""
_COLUMNS = "key, at, seconds, model, status, prompt, completion, cached, body"
_ALSO = {"gemini": ("GOOGLE_",), "vertex_ai": ("VERTEX_", "GOOGLE_")}
"""What variables of a provider begin with, beside its name and the first word of its key's variable."""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """What all workers are told: how a shard is scored, the driver's node and version, and the judges' keys.

    `files` are copies, as parts in Ray's store, for nodes without these files; `size` is INPUT's.
    """

    settings: ScoreSettings
    home: str
    version: str
    size: int
    environment: Mapping[str, str] = field(repr=False)
    files: Mapping[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """State of a shard: counts so far, rows of a ledger elsewhere, the reason why it was stopped.

    `lacks`: INPUT is not on this node.
    """

    summary: Summary = field(default_factory=Summary)
    status: Status = Status()
    rows: Sequence[Row] = ()
    stopped: RulerError | None = None
    lacks: bool = False


class Worker(Observer):
    """Scores shards, one at a time; Ray makes an actor of it."""

    def __init__(self) -> None:
        """It knows nothing before the first shard."""
        self._report, self._after = Report(), 0
        self._own: Path | None = None
        self._halt: Halt | None = None

    async def score(self, job: Job, shard: Shard | None, limits: PoolSettings) -> Report:
        """Score a shard (None: all of INPUT) within these limits."""
        if job.version != _version():
            why = f"a worker has {_version()}, this machine {job.version}; install the same everywhere"
            return Report(stopped=UsageError(f"--engine ray: {why}"))
        for name, value in job.environment.items():
            os.environ.setdefault(name, value)
        self._report, self._after, self._halt = Report(), 0, Halt()
        with tempfile.TemporaryDirectory(prefix="ruler-") as name:
            folder = Path(name)
            settings = await self._here(job, folder)
            if settings is None:
                return Report(lacks=True)
            stopped: RulerError | None
            try:
                given = replace(settings, input=replace(settings.input, shard=shard), pool=limits)
                done = await score(given, self, self._halt)
            except RulerError as error:
                stopped = error
            else:
                self._report = Report(done.summary)
                stopped = None if isinstance(done.stopped, CapReached) else done.stopped
            return replace(self._report, rows=self._rows(-1), stopped=stopped)

    async def news(self, after: int) -> Report:
        """Return how the shard stands, and rows of this worker's own ledger behind the one of that id."""
        self._after = after
        return replace(self._report, rows=self._rows(_ROWS))

    async def stop(self) -> None:
        """Let calls in flight finish and send no more."""
        if self._halt is not None:
            self._halt.now(RulerError("stopped by the command"))

    def advanced(self, summary: Summary) -> None:
        """Keep the counts for `news`."""
        self._report = replace(self._report, summary=summary)

    def tick(self, summary: Summary, status: Status) -> None:
        """Keep counts and status for `news`."""
        self._report = Report(summary, status)

    async def _here(self, job: Job, folder: Path) -> ScoreSettings | None:
        """Return a shard's settings with the files of this node; None if INPUT is not among them."""
        output, settings = folder / "out.jsonl", job.settings
        output.symlink_to(os.devnull)
        settings = replace(settings, output=str(output), failed=None)
        source = settings.input.source
        if _size(source) != job.size:
            copy = await _fetched(job, source, folder)
            if copy is None:
                return None
            settings = replace(settings, input=replace(settings.input, source=str(copy)))
        self._own = None if _node() == job.home else folder / "ledger.sqlite"
        if self._own is None:
            return settings
        Ledger(self._own).close()
        known = [await _fetched(job, str(path), folder) for path in _ledgers(settings)]
        return replace(settings, ledger=self._own, ledgers=tuple(path for path in known if path is not None))

    def _rows(self, most: int) -> list[Row]:
        if self._own is None or not self._own.exists():
            return []
        with closing(sqlite3.connect(self._own)) as ledger:
            query = f"SELECT id, {_COLUMNS} FROM replies WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608
            return ledger.execute(query, (self._after, most)).fetchall()


class _Fleet:
    """Shards of one run that are still to be scored, and what workers made of the others."""

    def __init__(self, ray: Any, job: Job, workers: int, shards: int, halt: Halt) -> None:
        self._ray, self._job, self._workers, self._halt = ray, job, workers, halt
        every = [Shard(number, shards) for number in range(1, shards + 1)] if shards > 1 else [None]
        self._waiting = deque((shard, 0) for shard in every)
        self._past, self._live = list[Summary](), dict[int, Report]()
        self._granted, self._begun = dict[int, float](), set[int]()
        self._most, self.used = 0, 0.0
        self._elsewhere = sum(each["Alive"] for each in ray.nodes()) > 1

    @property
    def summary(self) -> Summary:
        """Return the counts of all shards so far."""
        whole = _added([*self._past, *(report.summary for report in self._live.values())])
        whole.most_in_flight = self._most
        return whole

    async def all(self, lost: int, total: int, observer: Observer) -> None:
        """Score every shard, unless the run is told to stop; `lost` lines of INPUT cannot be read."""
        observer.started(total)
        await self._send_ledgers()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, lost, total, observer)
                async with anyio.create_task_group() as slots:
                    for slot in range(self._workers):
                        slots.start_soon(self._work, slot)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None

    async def _watch(self, lost: int, total: int, observer: Observer) -> None:
        """Report how the run stands, and stop it if too much fails."""
        shown, stopping = 0, False
        while True:
            await anyio.sleep(_TICK)
            summary, status = self.summary, Status.of([report.status for report in self._live.values()])
            self._most = max(self._most, status.in_flight)
            for _ in range(summary.groups - shown):
                observer.advanced(summary)
            shown = max(shown, summary.groups)
            observer.tick(summary, status)
            if self._halt.reason is not None and not stopping:
                stopping = True
                observer.stopping(status.in_flight, self._job.settings.grace)
            failed = sum(number for kind, number in summary.failed.items() if kind != "budget")
            most = self._job.settings.max_failures
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
            if self._halt.reason is not None:
                if slot not in self._begun:  # it waits for a free CPU
                    self._ray.kill(worker)
                worker.stop.remote()
            if self._ray.wait([asked], timeout=0)[0]:
                with suppress(self._ray.exceptions.RayError):  # then `running` fails too
                    self._live[slot] = self._ray.get(asked)
                    self._begun.add(slot)
                    after = await self._keep(self._live[slot].rows, after)
                asked = None
        report: Report = self._ray.get(running)
        await self._keep(report.rows, after)
        self._live.pop(slot, None)
        self._past.append(report.summary)
        self._granted.pop(slot, None)
        self.used += (report.summary.cost_usd or 0.0) + (report.summary.unsure_usd or 0.0)
        if report.lacks:
            await self._send_input()
            self._waiting.appendleft((shard, 0))
        elif report.stopped is not None:
            self._halt.now(report.stopped)
        elif self._waiting and (limits.rpm or limits.tpm):
            await anyio.sleep(_PAUSE)

    async def _keep(self, rows: Sequence[Row], after: int) -> int:
        """Keep rows behind that id in the user's ledger; return the last id."""
        rows = [row for row in rows if row[0] > after]
        if rows and self._job.settings.ledger is not None:
            await anyio.to_thread.run_sync(_kept, self._job.settings.ledger, rows)
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
        self._begun.discard(slot)

    async def _send_ledgers(self) -> None:
        """Put what the ledgers hold by now into Ray's store, if there are other nodes."""
        models = [judge.model for judge in judges_of(self._job.settings)]
        for path in _ledgers(self._job.settings) if self._elsewhere else ():
            if path.exists():
                with tempfile.TemporaryDirectory(prefix="ruler-") as folder:
                    copy = Path(folder) / "ledger.sqlite"
                    await anyio.to_thread.run_sync(_copied, path, models, copy)
                    self._send(str(path), copy)

    async def _send_input(self) -> None:
        source = self._job.settings.input.source
        if not Path(source).is_file():
            raise UsageError(
                f"--engine ray: a node of the cluster does not have the files of {source}; put them on a disk "
                "that all nodes share, or give one file or an address"
            )
        if source not in self._job.files:
            self._send(source, Path(source))

    def _send(self, name: str, file: Path) -> None:
        with file.open("rb") as stream:
            parts = [self._ray.put(part) for part in iter(lambda: stream.read(_PART), b"")]
        self._job = replace(self._job, files={**self._job.files, name: parts})


async def score_on_ray(
    settings: ScoreSettings, observer: Observer, halt: Halt, *, ray: Any, workers: int
) -> Done:
    """Score INPUT into OUTPUT as `score` does, with so many workers of a Ray that runs."""
    began = time.perf_counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ruler-")))
        settings = replace(settings, ledger=settings.ledger or folder / "ledger.sqlite")
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
        await fleet.all(len(problems), groups, observer)
        if halt.reason is None:
            cap = limits.max_cost and max(0.0, limits.max_cost - fleet.used)
            last = replace(settings, pool=replace(limits, max_cost=cap), retry_failed=False)
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
                f"--engine ray: Ray at {address or 'this machine'} cannot be used ({_first(error)}); see Ray's "
                "own logs"
            ) from None
        try:
            yield ray
        finally:
            ray.shutdown()


def _job(settings: ScoreSettings) -> Job:
    """Return what workers are told, without what needs the whole batch."""
    source, ledger = settings.input.source, settings.ledger
    if not is_remote(source):
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
    return Job(shared, _node(), _version(), _size(source), _environment(judges_of(settings)))


def _whole(shards: Summary, last: Summary) -> Summary:
    """Return all shards and the last run as one run."""
    paid, kept = _added([shards, last]), None
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


def _added(parts: Sequence[Summary]) -> Summary:
    """Add up all that is counted; None where one does not know it."""
    whole = Summary()
    for part in parts:
        for name in (each.name for each in fields(Summary)):
            one, other = getattr(whole, name), getattr(part, name)
            if name in ("total", "stopped", "figures"):
                continue
            if isinstance(one, dict):
                setattr(whole, name, dict(sorted((Counter(one) + Counter(other)).items())))
            else:
                setattr(whole, name, None if one is None or other is None else one + other)
    return whole


def _ledgers(settings: ScoreSettings) -> list[Path]:
    return [path for path in (settings.ledger, *settings.ledgers) if path is not None]


def _copied(path: Path, models: Sequence[str], copy: Path) -> None:
    """Copy the rows of a ledger that are of these models."""
    Ledger(copy).close()
    with closing(sqlite3.connect(copy)) as ledger, ledger:
        ledger.execute("ATTACH ? AS whole", (str(path),))
        marks = ", ".join("?" * len(models))
        ledger.execute(
            f"INSERT INTO replies ({_COLUMNS}) SELECT {_COLUMNS} FROM whole.replies "  # noqa: S608
            f"WHERE model IN ({marks}) ORDER BY id",
            models,
        )


def _kept(path: Path, rows: Sequence[Row]) -> None:
    """Keep rows of a worker's ledger in the user's."""
    values = ", ".join("?" * (len(rows[0]) - 1))
    with closing(sqlite3.connect(path, timeout=_PATIENCE)) as ledger, ledger:
        query = f"INSERT INTO replies ({_COLUMNS}) VALUES ({values})"  # noqa: S608
        ledger.executemany(query, [row[1:] for row in rows])


async def _fetched(job: Job, path: str, folder: Path) -> Path | None:
    """Return this node's copy of a file; None if none was sent."""
    if path not in job.files:
        return None
    copy = folder / f"{len(list(folder.iterdir()))}-{Path(path).name}"
    with copy.open("wb") as file:
        for part in job.files[path]:
            file.write(await part)
    return copy


def _size(source: str) -> int:
    """Return the bytes of a file, -1 for a directory, 0 for what is not on this machine."""
    path = Path(source)
    return path.stat().st_size if path.is_file() else -int(path.is_dir())


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _version() -> str:
    return f"ruler {__version__} on Python {sys.version_info[0]}.{sys.version_info[1]}"


def _environment(judges: Sequence[JudgeSettings]) -> dict[str, str]:
    """Return the variables that were named for the judges' keys, and those of their providers."""
    named, heads = {judge.api_key_env for judge in judges}, set[str]()
    for judge in judges:
        own, word = list(variables(provider_of(judge.model, judge.params))), judge.model.partition("/")[0]
        named.update(own)
        heads |= {
            f"{word.upper()}_",
            *(f"{name.partition('_')[0]}_" for name in own[:1]),
            *_ALSO.get(word, ()),
        }
    chosen = tuple(heads)
    return {name: value for name, value in os.environ.items() if name in named or name.startswith(chosen)}


def _first(error: Exception) -> str:
    """Return the first sentence of what Ray says."""
    return clean(str(error).strip().split("\n")[0].rstrip("."))[:160]
