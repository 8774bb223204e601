"""The batches of a ledger: submit what is missing, and bring those on record into line with their providers.

Each request that is neither in the ledger nor in an open batch is submitted once. The journal has a batch and
its requests before the provider is asked to create it, and the batch's id after; the next command recovers
from a crash between the two. If the crash hid the provider's answer, the batch may exist: its requests stay
reserved until that is certain. OpenAI stores our tag. Anthropic stores none: there every batch of that time
with as many requests is a candidate, and the ids in its results decide once it has ended.

Results go to the ledger before the batch is closed, and importing them twice does no harm: after a crash at
any point they are fetched once more.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import anyio

from ruler_cli.errors import RefusedError, RulerError, UsageError
from ruler_cli.files.error_map import writing
from ruler_cli.judges.providers import Price
from ruler_cli.judges.resolve import model_of
from ruler_cli.judging.panel import cache_of
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.runs.batch.journal import OPEN, BatchRecord, BatchState, Journal
from ruler_cli.runs.batch.providers import (
    Provider,
    Providers,
    RemoteBatch,
    UnclearError,
    UnreachableError,
)
from ruler_cli.runs.batch.replies import (
    RENAMED,
    ImportResult,
    ReplyRow,
    import_rows,
    read_row,
)
from ruler_cli.runs.batch.requests import (
    Line,
    MissingRequests,
    batch_price,
    find_missing,
    request_line,
)
from ruler_cli.runs.estimate import ALWAYS, JudgeEstimate, Range
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.tokens import BYTES_PER_TOKEN
from ruler_cli.types import CallError, Observer, Reply, Request

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two polls while waiting for batches."""
_LOCK_POLL = 0.5
"""Seconds between two tries to get the lock from another command."""
_ENQUEUED = re.compile(
    r"(?:enqueued.{0,30}(?:limit|quota)|token_limit_exceeded)(?:.{0,200}?limit\D{0,9}(?P<most>\d[\d,]*))?",
    re.IGNORECASE,
)
"""A provider's reason for a batch beyond the tokens that it enqueues, with their number if that is stated."""


class BatchCostError(RulerError):
    """Submission that could cost more than the cap; nothing was submitted."""

    exit_code = 4
    resumable = False


class UncertainBatch(RulerError):  # noqa: N818 - it may be all right
    """It is unknown if a batch exists at its provider.

    Each of `candidates` may be it, and it may still appear within `seconds_left`.
    """

    def __init__(
        self,
        batch: BatchRecord,
        candidates: Sequence[RemoteBatch],
        seconds_left: float,
    ) -> None:
        self.candidates, self.seconds_left = candidates, seconds_left
        problem = f"may still appear at the provider within {seconds_left:.0f} s; run again then"
        if candidates:
            names = ", ".join(remote.id for remote in candidates[:3])
            problem = f"may be {names}; this is certain once that has ended"
        super().__init__(problem, place=f"batch {batch.tag}")


class BatchStatus(NamedTuple):
    """A batch on record, the batch at its provider, and why that could not be fetched."""

    batch: BatchRecord
    remote: RemoteBatch | None = None
    error: RulerError | None = None


@dataclass
class SubmitResult:
    """Result of a submission.

    `uncertain` batches may exist at the provider. `missing` counts the requests that the ledger lacks. Of
    these `out` were in open batches already, `large` were larger than the provider accepts, and `held` are more than
    it enqueues at once.
    """

    uncertain: list[BatchStatus] = field(default_factory=list)
    missing: MissingRequests = field(
        default_factory=lambda: MissingRequests([])
    )
    batches: list[BatchRecord] = field(default_factory=list)
    out: int = 0
    large: int = 0
    held: int = 0

    @property
    def requests(self) -> int:
        """Number of requests that were submitted."""
        return sum(batch.requests for batch in self.batches)


@dataclass
class _BatchJudge:
    """A judge, its batch API, the form of its request lines, its batch price, and its batches.

    `room` is in bytes, for all requests together that its provider enqueues at once; `enqueued` bytes are.
    """

    settings: JudgeSettings
    provider: Provider
    line: Line
    price: Price | None
    room: float
    enqueued: int
    pending: list[_PendingBatch] = field(default_factory=list)

    def batch_for(self, size: int, folder: Path) -> _PendingBatch | None:
        """Return the batch for one more request of this size; None if it has to wait: one always goes."""
        if self.enqueued and self.enqueued + size > self.room:
            return None
        self.enqueued += size
        if self.pending:
            last = self.pending[-1]
            if self.provider.form.allow(len(last.keys) + 1, last.bytes + size):
                return last
        self.pending.append(_PendingBatch(self, folder))
        return self.pending[-1]


class _PendingBatch:
    """A batch before its submission: its requests, in a file, and their estimated cost."""

    def __init__(self, judge: _BatchJudge, folder: Path) -> None:
        self.judge, self.form = judge, judge.provider.form
        self.tag = secrets.token_hex(8)
        self.file = folder / f"ruler-{self.tag}.jsonl"
        self.keys = list[bytes]()
        self.bytes = 0
        settings = judge.settings
        model = replace(model_of(settings), price=judge.price)
        self._estimate = JudgeEstimate(settings.model, model, settings.params)

    def add(self, key: bytes, line: bytes, request: Request) -> None:
        """Append the line of a request to the file, and its cost to the estimate."""
        before = self.form.between if self.keys else self.form.opening
        self.write(before + line.removesuffix(b"\n"))
        self.keys.append(key)
        self.bytes += len(line)
        size = request.size if request.pictures else len(line)
        tokens = size / BYTES_PER_TOKEN
        self._estimate.add(tokens, request, ALWAYS)

    def write(self, data: bytes) -> None:
        """Append to the file; OutputError if that is not possible."""
        with writing(str(self.file.parent)), self.file.open("ab") as out:
            out.write(data)

    @property
    def cost(self) -> Range | None:
        """Cost in USD, each request sent once (repeats go to later batches); None if unknown."""
        return self._estimate.cost_usd


@dataclass
class Batches:
    """The batches of a ledger, for one command.

    `window` is the number of seconds after an interrupted creation in which a batch may still appear in the
    listings of its provider.
    """

    journal: Journal
    providers: Providers
    observer: Observer
    window: float
    _others: set[str | None] = field(default_factory=set)
    """Batches at providers that turned out not to be a candidate."""

    async def submit(
        self,
        settings: ScoreSettings,
        on_submitted: Callable[[BatchRecord], None],
    ) -> SubmitResult:
        """Find what a crash left, then submit all missing requests; `on_submitted` gets each batch.

        BatchCostError, before anything is submitted, if all of it could cost more than `pool.max_cost`.
        UsageError if a judge has no batch API, or no price under that cap; RulerError if INPUT cannot be read
        or a provider refuses: batches submitted until then are on record. Cancellation waits for the answer
        to a creation in progress.
        """
        judges = [
            self._batch_judge(judge, settings) for judge in settings.judges
        ]
        while True:
            with self.journal.alone() as alone:
                if alone:
                    result = SubmitResult()
                    for batch in self.journal.batches("creating"):
                        try:
                            await self._find(batch, give_up=True)
                        except RulerError as error:
                            result.uncertain.append(
                                BatchStatus(batch, error=error)
                            )
                    for pending in await self._fill(settings, judges, result):
                        result.batches.append(await self._send(pending))
                        on_submitted(result.batches[-1])
                    return result
            self.observer.note("waiting for another command that submits")
            await anyio.sleep(_LOCK_POLL)

    async def status(self, *states: BatchState) -> list[BatchStatus]:
        """Return the batches in these states, all batches without any, as their providers report them."""
        batches = self.journal.batches(*states)
        statuses = [await self._reconcile(batch) for batch in batches]
        return [status for status in statuses if status is not None]

    async def collect(
        self,
        on_closed: Callable[[BatchRecord], None],
        *,
        wait: float = 0.0,
        pause: float = _FIRST_PAUSE,
    ) -> list[BatchStatus]:
        """Import the results of every batch that has ended; return the batches that are still open.

        `on_closed` gets each batch as it is closed. With `wait`, in seconds, poll until no batch is open or
        the time is over. After an error the batches closed until then are on record.
        """
        if not self.journal.batches(*OPEN):
            return []  # there may be no ledger
        deadline, first = time.monotonic() + wait, True
        with Ledger(self.journal.path) as ledger:
            while True:
                still_open = list[BatchStatus]()
                for batch in self.journal.batches(*OPEN):
                    status = await self._reconcile(batch, ledger=ledger)
                    if status is None:
                        continue
                    if status.batch.state in OPEN:
                        still_open.append(status)
                    else:
                        on_closed(status.batch)
                seconds_left = deadline - time.monotonic()
                may_end = any(
                    _may_end(status, first=first) for status in still_open
                )
                if seconds_left <= 0 or not may_end:
                    return still_open
                first = False
                await anyio.sleep(min(pause, seconds_left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def cancel(
        self, names: Sequence[str], *, forget: bool = False
    ) -> list[BatchStatus]:
        """Cancel the open batches with these tags or provider's ids; all open batches without names.

        Requests processed by then are billed, and `collect` imports them. With `forget` the provider is not
        asked: the batch is given up, and its requests are free. UsageError if a name fits no open batch.
        """
        batches = self.journal.batches(*OPEN)
        if names:
            batches = [
                batch
                for batch in batches
                if {batch.tag, batch.remote} & {*names}
            ]
        if len(batches) < len(names):
            remedy = "`ruler batch status` lists the open ones"
            raise UsageError(
                "no such open batch", remedy, place=", ".join(names)
            )
        statuses = []
        for batch in batches:
            status: BatchStatus | None
            if forget:
                moved = self.journal.move(
                    batch, "abandoned", reason="given up by hand"
                )
                status = BatchStatus(moved or batch)
            else:
                status = await self._reconcile(batch, cancel=True)
            if status is not None:
                statuses.append(status)
        return statuses

    async def _reconcile(
        self,
        batch: BatchRecord,
        *,
        cancel: bool = False,
        ledger: Ledger | None = None,
    ) -> BatchStatus | None:
        """Bring a batch on record into line with its provider: find it, fetch or cancel it, close it.

        A batch whose creation has no recorded answer is looked for, unless another command may be creating it.
        A batch that has ended is closed if there is a `ledger` for its results; None if another process has
        closed it, which reports it.
        """
        try:
            if batch.state == "creating":
                with self.journal.alone() as alone:
                    if alone:
                        batch = await self._find(batch, give_up=False)
                    elif cancel:
                        problem = "is being submitted by another command; stop that first"
                        raise RulerError(problem, place=f"batch {batch.tag}")
            if batch.state != "submitted" or batch.remote is None:
                return BatchStatus(batch)
            provider = self.providers.for_batch(batch)
            ask = provider.cancel if cancel else provider.retrieve
            remote = await ask(batch.remote)
            if ledger is None or remote.state == "running":
                return BatchStatus(batch, remote)
            closed = await self._close(ledger, provider, batch, remote)
        except RulerError as error:
            return BatchStatus(batch, error=error)
        return None if closed is None else BatchStatus(closed)

    async def _find(self, batch: BatchRecord, *, give_up: bool) -> BatchRecord:
        """Find a batch whose creation has no recorded answer; UncertainBatch if it may exist.

        The caller holds the lock. With `give_up`, a batch that has not appeared within the window is given up.
        """
        batch = self.journal.batch(batch.id)
        if batch.state != "creating":
            return batch
        # the time of the crash is unknown: count from the first search, or from now if the clock was set back
        if batch.changed == batch.created or batch.changed > time.time():
            batch = self.journal.move(batch, "creating") or batch
        # computed before the listing: the last listing must come after the end
        seconds_left = max(0.0, batch.changed + self.window - time.time())
        ours, candidates = await self._search(batch)
        if ours is not None:
            place = {"remote": ours.id, "label": ours.label}
            moved = self.journal.move(batch, "submitted", **place)
            result = f"was found: {ours.id}"
        elif candidates or seconds_left or not give_up:
            raise UncertainBatch(batch, candidates, seconds_left)
        else:
            why = "never appeared at the provider"
            moved = self.journal.move(batch, "abandoned", reason=why)
            result = f"{why}; its requests are free"
        self.observer.note(f"batch {batch.tag} {result}")
        return moved or batch

    async def _search(
        self, batch: BatchRecord
    ) -> tuple[RemoteBatch | None, list[RemoteBatch]]:
        """Return the batch with our tag, file or results; else the candidates, the oldest first."""
        provider = self.providers.for_batch(batch)
        others = self._others | {
            batch.remote for batch in self.journal.batches()
        }
        untagged: list[RemoteBatch] = []
        since = batch.created - provider.form.skew
        for remote in await provider.list_batches(since):
            if remote.tag == batch.tag or (
                batch.file and remote.file == batch.file
            ):
                return remote, []
            unknown = not (remote.tag or remote.file or remote.id in others)
            if unknown and remote.total in (0, batch.requests):
                untagged.insert(0, remote)
        ids = {key.hex() for key in self.journal.keys(batch.id)}
        candidates = []
        for remote in untagged:
            if remote.state == "running":
                candidates.append(remote)
                continue
            ours = 0
            with TemporaryFile() as file:
                for row in map(read_row, await provider.results(remote, file)):
                    ours += isinstance(row, ReplyRow) and row.custom_id in ids
            if 2 * ours > batch.requests:
                return remote, []
            self._others.add(remote.id)
        return None, candidates

    async def _close(
        self,
        ledger: Ledger,
        provider: Provider,
        batch: BatchRecord,
        remote: RemoteBatch,
    ) -> BatchRecord | None:
        """Import the results of a batch that has ended, and close it; None if another process has closed it."""
        imported = ImportResult()
        answered = failed = missing = 0
        keys = self.journal.keys(batch.id)
        model = cache_of(
            None, JudgeSettings(batch.model, api_base=batch.base)
        ).name
        for _ in range(
            2
        ):  # a second time if rows are missing: answers are paid for
            with TemporaryFile() as file:
                results = enumerate(await provider.results(remote, file), 1)
                rows = (
                    (f"line {number}", number, line) for number, line in results
                )
                imported = import_rows(ledger, rows, model, keys)
            kinds = Counter(type(ledger.find(key)) for key in keys)
            answered, failed = kinds[Reply], kinds[CallError]
            others = len(imported.open) + imported.foreign + imported.unreadable
            missing = remote.succeeded - answered - others
            if missing <= 0 and not imported.unreadable:
                break
        reasons = list(imported.messages.values())
        # the next submission reads the reason of a refused bound
        reason = next((reason for reason in reasons if RENAMED in reason), "")
        state: BatchState = "collected"
        if remote.state == "failed":
            state, reason = "failed", remote.reason
        closed = self.journal.move(
            batch,
            state,
            label=remote.label,
            reason=str(reason or next(iter(reasons), "")),
            answered=answered,
            failed=failed,
            left_out=batch.requests - answered - failed,
        )
        if closed is None or state == "failed":
            return closed
        for row in imported.rejected:
            reasons.append(f"{row.where} of its results {row.reason}")
        if missing > 0:
            reasons.append(
                f"{missing} answers of its provider's count are missing"
            )
        for sentence in reasons:
            self.observer.warn(f"batch {batch.tag}: {sentence}")
        return closed

    def _batch_judge(
        self, judge: JudgeSettings, settings: ScoreSettings
    ) -> _BatchJudge:
        """Prepare a judge for batches; UsageError if it has no batch API, or no price under a cost cap."""
        provider = self.providers.for_judge(judge)
        price, _ = batch_price(judge)
        if settings.pool.max_cost is not None and price is None:
            problem = f"the price of {judge.label} is not known"
            remedy = "state it with --price IN,OUT; a batch takes half of it"
            raise UsageError(problem, remedy, place="--max-cost")
        refused = list[str]()
        room = math.inf
        enqueued = 0
        for batch in self.journal.batches():
            if (batch.model, batch.account) != (judge.model, provider.account):
                continue
            if batch.state in OPEN:
                enqueued += batch.bytes
            if RENAMED in batch.reason:
                refused.append(batch.reason)
            limit = _ENQUEUED.search(batch.reason)
            if limit and batch.state == "failed":
                # at most half of that batch, since others of the account may be enqueued
                tokens = float((limit["most"] or "inf").replace(",", ""))
                room = min(tokens * BYTES_PER_TOKEN, batch.bytes / 2)
        line = request_line(provider.form.target, judge, refused)
        return _BatchJudge(judge, provider, line, price, room, enqueued)

    async def _fill(
        self,
        settings: ScoreSettings,
        judges: Sequence[_BatchJudge],
        result: SubmitResult,
    ) -> list[_PendingBatch]:
        """Put all missing requests of INPUT into batches within the limits, each once; count the others.

        BatchCostError if the batches could cost too much.
        """
        newest_row = self.journal.newest()

        def add(judge_index: int, key: bytes, request: Request) -> None:
            judge = judges[judge_index]
            line = judge.line(key, request)
            if not judge.provider.form.allow(1, len(line)):
                result.large += 1
                return
            if not self.journal.free(key, newest_row):
                result.out += 1
                return
            batch = judge.batch_for(len(line), self.journal.folder)
            if batch is None:
                result.held += 1
                return
            batch.add(key, line, request)

        result.missing = await find_missing(settings, add, self.observer)
        pending = [batch for judge in judges for batch in judge.pending]
        high = 0.0
        for batch in pending:
            batch.write(batch.form.closing)
            high += batch.cost.high if batch.cost else 0.0
        max_cost = settings.pool.max_cost
        if max_cost is not None and high > max_cost:
            requests = sum(len(batch.keys) for batch in pending)
            problem = (
                f"{requests} requests may cost up to ${high:.2f} at batch price"
            )
            remedy = (
                "nothing was submitted; allow that, or submit a part of INPUT"
            )
            raise BatchCostError(
                problem, remedy, place=f"--max-cost {max_cost:g}"
            )
        return pending

    async def _send(self, pending: _PendingBatch) -> BatchRecord:
        """Submit one batch: record it, have the provider create it, record its id."""
        judge, provider = pending.judge.settings, pending.judge.provider
        journal = self.journal
        uploaded = await provider.upload(pending.file)
        batch = journal.begin(
            pending.keys,
            tag=pending.tag,
            provider=pending.form.target,
            model=judge.model,
            base=judge.api_base,
            key_env=judge.api_key_env,
            account=provider.account,
            requests=len(pending.keys),
            bytes=pending.bytes,
            usd=pending.cost and pending.cost.expected,
            file=uploaded,
        )
        try:
            # without the answer the batch may exist and be billed
            with anyio.CancelScope(shield=True):
                remote = await provider.create(
                    pending.file, uploaded, pending.tag
                )
        except RulerError as error:
            state: BatchState = "failed"
            if isinstance(error, UnclearError):
                state = "creating"
            journal.move(batch, state, reason=str(error.brief))
            raise
        pending.file.unlink(missing_ok=True)
        created = journal.move(
            batch, "submitted", remote=remote.id, label=remote.label
        )
        if created is None:
            given_up = (
                f"was given up by another command while it became {remote.id}"
            )
            remedy = "cancel it at its provider, which bills it"
            raise RulerError(given_up, remedy, place=f"batch {batch.tag}")
        return created


def _may_end(status: BatchStatus, *, first: bool) -> bool:
    """Return whether a batch is worth waiting for; an outage after the `first` poll passes."""
    error = status.error
    if isinstance(error, UncertainBatch):
        return bool(error.candidates or error.seconds_left)
    if isinstance(error, UnreachableError):
        return not first
    return not isinstance(error, RefusedError | UsageError)
