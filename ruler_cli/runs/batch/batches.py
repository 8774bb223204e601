"""The batches of a ledger: submit what is missing, find what a crash left, fetch, import, cancel.

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
from ruler_cli.judges.providers import ModelInfo
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
from ruler_cli.runs.batch.replies import RENAMED, ReplyRow, import_rows, read_row
from ruler_cli.runs.batch.requests import (
    Line,
    MissingRequests,
    batch_price,
    render_missing,
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


class BatchCostError(RulerError):
    """Submission that could cost more than the cap; nothing was submitted."""

    exit_code = 4
    resumable = False


_ENQUEUED = re.compile(
    r"(?:enqueued.{0,30}(?:limit|quota)|token_limit_exceeded)(?:.{0,200}?limit\D{0,9}(?P<most>\d[\d,]*))?",
    re.IGNORECASE,
)
"""A provider's reason for a batch beyond the tokens that it enqueues, with their number if that is stated."""


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

    uncertain: list[BatchStatus]
    missing: MissingRequests
    batches: list[BatchRecord] = field(default_factory=list)
    out: int = 0
    large: int = 0
    held: int = 0

    @property
    def requests(self) -> int:
        """Number of requests that were submitted."""
        return sum(batch.requests for batch in self.batches)


class _BatchJudge(NamedTuple):
    """A judge, its batch API, the form of its request lines, its model with the batch price; its batches.

    `room` is in bytes, for all requests together that its provider enqueues at once; `out` are enqueued.
    """

    settings: JudgeSettings
    provider: Provider
    line: Line
    model: ModelInfo
    pending: list[_PendingBatch]
    room: float
    out: int

    def holds(self, size: int) -> bool:
        """Tell if one more request of this size has to wait: one always goes."""
        enqueued = self.out + sum(batch.bytes for batch in self.pending)
        return enqueued > 0 and enqueued + size > self.room


class _PendingBatch:
    """A batch before its submission: its requests, in a file, and their estimated cost."""

    def __init__(self, judge: _BatchJudge, folder: Path) -> None:
        self.judge, self.form = judge, judge.provider.form
        self.tag = secrets.token_hex(8)
        self.file = folder / f"ruler-{self.tag}.jsonl"
        self.keys = list[bytes]()
        self.bytes = 0
        settings = judge.settings
        self._estimate = JudgeEstimate(settings.model, judge.model, settings.params)

    def add(self, key: bytes, line: bytes, request: Request) -> None:
        """Append the line of a request to the file, and its cost to the estimate."""
        before = self.form.between if self.keys else self.form.opening
        self.write(before + line.removesuffix(b"\n"))
        self.keys.append(key)
        self.bytes += len(line)
        size = request.size if request.pictures else len(line)
        tokens = size / BYTES_PER_TOKEN
        self._estimate.add(Range(tokens, tokens, tokens), request, ALWAYS)

    def write(self, data: bytes) -> None:
        """Append to the file; OutputError if that is not possible."""
        with writing(str(self.file.parent)), self.file.open("ab") as out:
            out.write(data)

    @property
    def cost(self) -> Range | None:
        """Cost in USD, each request sent once (repeats go to later batches); None if unknown."""
        return self._estimate.totals(self.judge.model.price, ALWAYS).cost_usd


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
        self, settings: ScoreSettings, on_submitted: Callable[[BatchRecord], None]
    ) -> SubmitResult:
        """Recover from crashes, then submit all missing requests; `on_submitted` gets each batch.

        BatchCostError, before anything is submitted, if all of it could cost more than `pool.max_cost`.
        UsageError if a judge has no batch API, or no price under that cap; RulerError if INPUT cannot be read
        or a provider refuses: batches submitted until then are on record. Cancellation waits for the answer
        to a creation in progress.
        """
        judges = [self._batch_judge(judge, settings) for judge in settings.judges]
        while True:
            with self.journal.alone() as mine:
                if mine:
                    uncertain = await self.recover(give_up=True)
                    result = SubmitResult(uncertain, MissingRequests([]))
                    for each in await self._fill(settings, judges, result):
                        result.batches.append(await self._send(each))
                        on_submitted(result.batches[-1])
                    return result
            self.observer.note("waiting for another command that submits")
            await anyio.sleep(_LOCK_POLL)

    async def status(self, *states: BatchState) -> list[BatchStatus]:
        """Return the batches in these states, all batches without any, as their providers report them."""
        uncertain = await self._recover_if_idle()
        return [
            uncertain.get(batch.id) or await self._ask(batch)
            for batch in self.journal.batches(*states)
        ]

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
                for each in await self.status(*OPEN):
                    try:
                        if not await self._close(ledger, each, on_closed):
                            still_open.append(each)
                    except RulerError as error:
                        still_open.append(BatchStatus(each.batch, error=error))
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0 or not any(
                    _may_end(each, first=first) for each in still_open
                ):
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
        uncertain = {} if forget else await self._recover_if_idle()
        batches = self.journal.batches(*OPEN)
        if names:
            batches = [each for each in batches if {each.tag, each.remote} & {*names}]
        if len(batches) < len(names):
            remedy = "`ruler batch status` lists the open ones"
            raise UsageError("no such open batch", remedy, place=", ".join(names))
        statuses = []
        for batch in batches:
            if forget:
                why = "given up by hand"
                moved = self.journal.move(batch, "abandoned", reason=why)
                status = BatchStatus(moved or batch)
            else:
                known = uncertain.get(batch.id)
                status = known or await self._ask(batch, cancel=True)
            statuses.append(status)
        return statuses

    async def recover(self, *, give_up: bool = False) -> list[BatchStatus]:
        """Bring batches into a certain state; return the uncertain ones. The caller holds the lock.

        With `give_up`, a batch that has not appeared within the window is given up.
        """
        uncertain = []
        for found in self.journal.batches("creating"):
            batch = found
            # the time of the crash is unknown: count from the first search, or from now if the clock was set back
            if found.changed == found.created or found.changed > time.time():
                batch = self.journal.move(found, "creating") or found
            # computed before the listing: the last listing must come after the end
            seconds_left = max(0.0, batch.changed + self.window - time.time())
            try:
                ours, candidates = await self._find(batch)
                if not ours and (candidates or seconds_left or not give_up):
                    raise UncertainBatch(batch, candidates, seconds_left)
            except RulerError as error:
                uncertain.append(BatchStatus(batch, error=error))
                continue
            if ours:
                self.journal.move(batch, "submitted", remote=ours.id, label=ours.label)
                result = f"was found: {ours.id}"
            else:
                why = "never appeared at the provider"
                self.journal.move(batch, "abandoned", reason=why)
                result = f"{why}; its requests are free"
            self.observer.note(f"batch {batch.tag} {result}")
        return uncertain

    def _batch_judge(
        self, judge: JudgeSettings, settings: ScoreSettings
    ) -> _BatchJudge:
        """Prepare a judge for batches; UsageError if it has no batch API, or no price under a cost cap."""
        provider, (price, _) = self.providers.for_judge(judge), batch_price(judge)
        if settings.pool.max_cost is not None and price is None:
            remedy = "give it with --price IN,OUT; a batch takes half of it"
            problem = f"the price of {judge.label} is not known"
            raise UsageError(problem, remedy, place="--max-cost")
        model = replace(model_of(judge), price=price)
        before = [
            batch
            for batch in self.journal.batches()
            if (batch.model, batch.account) == (judge.model, provider.account)
        ]
        refused = [batch.reason for batch in before if RENAMED in batch.reason]
        line = request_line(provider.form.target, judge, refused)
        out = sum(batch.bytes for batch in before if batch.state in OPEN)
        return _BatchJudge(judge, provider, line, model, [], _room(before), out)

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
            allow, batches = judge.provider.form.allow, judge.pending
            line = judge.line(key, request)
            if not allow(1, len(line)):
                result.large += 1
            elif not self.journal.free(key, newest_row):
                result.out += 1
            elif judge.holds(len(line)):
                result.held += 1
            else:
                last = batches[-1] if batches else None
                if not last or not allow(len(last.keys) + 1, last.bytes + len(line)):
                    last = _PendingBatch(judge, self.journal.folder)
                    batches.append(last)
                last.add(key, line, request)

        result.missing = await render_missing(settings, add, self.observer)
        pending = [batch for judge in judges for batch in judge.pending]
        for batch in pending:
            batch.write(batch.form.closing)
        high = sum(batch.cost.high for batch in pending if batch.cost)
        max_cost = settings.pool.max_cost
        if max_cost is not None and high > max_cost:
            requests = sum(len(batch.keys) for batch in pending)
            problem = f"{requests} requests may cost up to ${high:.2f} at batch price"
            remedy = "nothing was submitted; allow that, or submit a part of INPUT"
            value = f"{max_cost:g}"
            raise BatchCostError(problem, remedy, place=f"--max-cost {value}")
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
                remote = await provider.create(pending.file, uploaded, pending.tag)
        except RulerError as error:
            state: BatchState = "failed"
            if isinstance(error, UnclearError):
                state = "creating"
            journal.move(batch, state, reason=str(error.brief))
            raise
        pending.file.unlink(missing_ok=True)
        created = journal.move(batch, "submitted", remote=remote.id, label=remote.label)
        if created is None:
            given_up = f"was given up by another command while it became {remote.id}"
            remedy = "cancel it at its provider, which bills it"
            raise RulerError(given_up, remedy, place=f"batch {batch.tag}")
        return created

    async def _recover_if_idle(self) -> dict[int, BatchStatus]:
        """Recover unless another command submits; return the uncertain batches by their row id."""
        if not self.journal.batches("creating"):
            return {}
        with self.journal.alone() as mine:
            uncertain = await self.recover() if mine else []
        return {each.batch.id: each for each in uncertain}

    async def _find(
        self, batch: BatchRecord
    ) -> tuple[RemoteBatch | None, list[RemoteBatch]]:
        """Return the batch with our tag, file or results; else the candidates, the oldest first."""
        provider = self.providers.for_batch(batch)
        others = self._others | {each.remote for each in self.journal.batches()}
        found: list[RemoteBatch] = []
        async for remote in provider.list_batches(batch.created - provider.form.skew):
            if remote.tag == batch.tag or (batch.file and remote.file == batch.file):
                return remote, []
            unknown = not (remote.tag or remote.file or remote.id in others)
            if unknown and remote.total in (0, batch.requests):
                found.insert(0, remote)
        ids = {key.hex() for key in self.journal.keys(batch.id)}
        candidates = []
        for remote in found:
            if remote.state == "running":
                candidates.append(remote)
                continue
            with TemporaryFile() as file:
                rows = map(read_row, await provider.results(remote, file))
                ours = sum(
                    isinstance(row, ReplyRow) and row.custom_id in ids for row in rows
                )
            if 2 * ours > batch.requests:
                return remote, []
            self._others.add(remote.id)
        return None, candidates

    async def _close(
        self,
        ledger: Ledger,
        current: BatchStatus,
        on_closed: Callable[[BatchRecord], None],
    ) -> bool:
        """Import the results of a batch and close it; return False if it has not ended."""
        batch, remote = current.batch, current.remote
        if remote is None or remote.state == "running":
            return False
        provider, keys = self.providers.for_batch(batch), self.journal.keys(batch.id)
        judge = JudgeSettings(batch.model, api_base=batch.base)
        name = cache_of(None, judge).name
        for _ in range(2):  # a second time if rows are missing: answers are paid for
            with TemporaryFile() as file:
                results = enumerate(await provider.results(remote, file), 1)
                rows = ((f"line {number}", number, line) for number, line in results)
                imported = import_rows(ledger, rows, name, keys)
            found = Counter(type(ledger.find(key)) for key in keys)
            answered, failed = found[Reply], found[CallError]
            others = len(imported.open) + imported.foreign + imported.unreadable
            missing = remote.succeeded - answered - others
            if missing <= 0 and not imported.unreadable:
                break
        messages = list(imported.messages.values())
        state: BatchState = "collected"
        if remote.state == "failed":
            state, messages = "failed", [remote.reason]
        closed = self.journal.move(
            batch,
            state,
            label=remote.label,
            reason=max(
                map(str, messages), key=lambda text: RENAMED in text, default=""
            ),
            answered=answered,
            failed=failed,
            left_out=batch.requests - answered - failed,
        )
        if closed is None:
            return True  # by another process, which reports it
        messages += [
            f"{row.where} of its results {row.reason}" for row in imported.rejected
        ]
        if missing > 0:
            messages.append(f"{missing} answers of its provider's count are missing")
        for sentence in messages if state == "collected" else ():
            self.observer.warn(f"batch {batch.tag}: {sentence}")
        on_closed(closed)
        return True

    async def _ask(self, batch: BatchRecord, *, cancel: bool = False) -> BatchStatus:
        """Fetch a submitted batch from its provider, or have it canceled."""
        try:
            if batch.state == "submitted" and batch.remote is not None:
                provider = self.providers.for_batch(batch)
                ask = provider.cancel if cancel else provider.retrieve
                return BatchStatus(batch, await ask(batch.remote))
            if cancel:
                problem = "is being submitted by another command; stop that first"
                raise RulerError(problem, place=f"batch {batch.tag}")
        except RulerError as error:
            return BatchStatus(batch, error=error)
        return BatchStatus(batch)


def _room(batches: Sequence[BatchRecord]) -> float:
    """Return the bytes that a provider enqueues at once, by the last batch that failed for their number.

    At most half of that batch, since others of the account may be enqueued.
    """
    for batch in reversed(batches):
        if batch.state == "failed" and (said := _ENQUEUED.search(batch.reason)):
            tokens = float((said["most"] or "inf").replace(",", ""))
            return min(tokens * BYTES_PER_TOKEN, batch.bytes / 2)
    return math.inf


def _may_end(status: BatchStatus, *, first: bool) -> bool:
    """Tell if a batch is worth waiting for; an outage after the `first` poll passes."""
    error = status.error
    if isinstance(error, UncertainBatch):
        return bool(error.candidates or error.seconds_left)
    if isinstance(error, UnreachableError):
        return not first
    return not isinstance(error, RefusedError | UsageError)
