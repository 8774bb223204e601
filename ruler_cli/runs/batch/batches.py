"""The batches of a ledger: submit what is missing, and bring those on record into line with their providers.

Each request that is neither in the ledger nor in an open batch is submitted once. The journal has a batch and
its requests before the provider is asked to create it, and the batch's id after; the next command recovers
from a crash between the two. If the crash hid the provider's answer, the batch may exist: its requests stay
reserved until that is certain. OpenAI names the uploaded file. Anthropic has none: there every batch of that time
with as many requests is a candidate, and the ids in its results decide once it has ended.

Results go to the ledger before the batch is closed, and importing them twice does no harm: after a crash at
any point they are fetched once more.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

import anyio

from ruler_cli.errors import (
    RefusedError,
    RulerError,
    UnreadableError,
    UsageError,
)
from ruler_cli.files.scratch import Scratch
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
from ruler_cli.runs.batch.replies import import_rows, read_row
from ruler_cli.runs.batch.requests import (
    MissingRequests,
    batch_price,
    find_missing,
    request_line,
)
from ruler_cli.runs.estimate import ALWAYS, JudgeEstimate
from ruler_cli.runs.file import refuse_unpriced
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import CallError, Observer, Reply, Request

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two polls while waiting for batches."""
_LOCK_POLL = 0.5
"""Seconds between two tries to get the lock from another command."""
_OVERHEAD = 64
"""Bytes of a batch, which may be one HTTP request, outside of its lines."""


class BatchCostError(RulerError):
    """Submission that could cost more than the cap; nothing was submitted."""

    exit_code = 4
    resumable = False


class UncertainBatch(RulerError):  # noqa: N818 - it may be all right
    """A batch may or may not exist at its provider.

    Each of `candidates`, ids at the provider, may be it, and it may still appear within `seconds_left`.
    """

    def __init__(
        self, batch: BatchRecord, candidates: Sequence[str], seconds_left: float
    ) -> None:
        self.candidates = candidates
        self.seconds_left = seconds_left
        self.is_over = not (candidates or seconds_left)
        problem = f"may still appear at the provider within {seconds_left:.0f} s; run again then"
        if candidates:
            names = ", ".join(candidates[:3])
            problem = f"may be {names}; it is certain once that has ended"
        super().__init__(problem, place=f"batch {batch.tag}")


class BatchStatus(NamedTuple):
    """A batch on record, the batch at its provider, and why that could not be fetched."""

    batch: BatchRecord
    remote: RemoteBatch | None = None
    error: RulerError | None = None


class SubmitResult(NamedTuple):
    """Result of a submission, with the requests that the ledger lacks.

    Of these `out` were in open batches already.
    """

    missing: MissingRequests
    batches: list[BatchRecord]
    out: int

    @property
    def requests(self) -> int:
        """Number of requests that were submitted."""
        return sum(batch.requests for batch in self.batches)


@dataclass
class _PendingBatch:
    """A batch before its submission: the lines of its requests, their estimated cost, and their keys."""

    lines: Scratch
    estimate: JudgeEstimate
    keys: list[bytes] = field(default_factory=list)


class _Outbox:
    """The requests to one judge, in batches within the limits of its batch API."""

    def __init__(self, judge: JudgeSettings, provider: Provider) -> None:
        """UsageError if requests to this judge have no form."""
        self.judge = judge
        self.provider = provider
        self.price = batch_price(judge)
        self.batches = list[_PendingBatch]()
        self._line = request_line(judge)

    def add(self, key: bytes, request: Request, stack: ExitStack) -> None:
        """Add a request; `stack` closes its batch."""
        line = self._line(key, request)
        space = self.provider.most_bytes - _OVERHEAD - len(line)
        most = self.provider.most_requests
        batch = self.batches[-1] if self.batches else None
        if not batch or batch.lines.size > space or len(batch.keys) == most:
            model = replace(model_of(self.judge), price=self.price)
            estimate = JudgeEstimate(self.judge.model, model, self.judge.params)
            batch = _PendingBatch(stack.enter_context(Scratch()), estimate)
            self.batches.append(batch)
        batch.lines.write(line)
        batch.keys.append(key)
        # once: repeats go to later batches
        batch.estimate.add(request, ALWAYS)


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

    async def submit(
        self,
        settings: ScoreSettings,
        on_submitted: Callable[[BatchRecord], None],
    ) -> SubmitResult:
        """Find what a crash left, then submit all missing requests; `on_submitted` gets each batch.

        BatchCostError, before anything is submitted, if all of it could cost more than `pool.max_cost`.
        UsageError if a judge has no batch API, or no price under that cap; RulerError if INPUT cannot be read.
        If a provider refuses a batch, or may have one that is not found, the others are submitted, but for those of
        the same judge that follow a refused one; then the gravest error is raised. Cancellation waits for the answer
        to a creation in progress.
        """
        outboxes = []
        for judge in settings.judges:
            provider = self.providers.for_judge(judge)
            outbox = _Outbox(judge, provider)
            refuse_unpriced(settings, judge, outbox.price)
            outboxes.append(outbox)
        errors = list[RulerError]()
        with ExitStack() as stack:
            while not stack.enter_context(self.journal.alone()):
                self.observer.note("waiting for another command that submits")
                await anyio.sleep(_LOCK_POLL)
            for batch in self.journal.batches("creating"):
                try:
                    await self._find(batch, give_up=True)
                except RulerError as error:
                    errors.append(error)
            result = await self._fill(settings, outboxes, stack)
            for outbox in outboxes:
                try:
                    for pending in outbox.batches:
                        batch = await self._send(outbox, pending)
                        result.batches.append(batch)
                        on_submitted(batch)
                except RulerError as error:
                    errors.append(error)
        if errors:
            *lesser, gravest = sorted(errors, key=attrgetter("exit_code"))
            for minor in lesser:
                self.observer.warn(str(minor))
            raise gravest
        return result

    async def status(self, *, closed: bool = False) -> list[BatchStatus]:
        """Return the open batches as their providers report them, and with `closed` the others too."""
        states = () if closed else OPEN
        batches = self.journal.batches(*states)
        return [await self._reconcile(batch) for batch in batches]

    async def collect(
        self,
        on_closed: Callable[[BatchRecord], None],
        *,
        wait: float = 0.0,
    ) -> list[BatchStatus]:
        """Import the results of every batch that has ended; return the batches that are still open.

        `on_closed` gets each batch as it is closed. With `wait`, in seconds, poll until no batch is open or
        the time is over. After an error the batches closed until then are on record.
        """
        deadline = time.monotonic() + wait
        pause = _FIRST_PAUSE
        with Ledger(self.journal.path, make=False) as ledger:
            while True:
                still_open = list[BatchStatus]()
                may_end = False
                for batch in self.journal.batches(*OPEN):
                    status = await self._reconcile(batch, ledger=ledger)
                    if status.batch.state not in OPEN:
                        on_closed(status.batch)
                        continue
                    still_open.append(status)
                    error = status.error
                    # an outage passes, but not an address that never answered
                    passing = isinstance(error, UnreachableError)
                    passing = passing and pause > _FIRST_PAUSE
                    lost = isinstance(error, UncertainBatch) and error.is_over
                    lasts = lost or isinstance(error, RefusedError | UsageError)
                    may_end |= passing or not lasts
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0 or not may_end:
                    return still_open
                await anyio.sleep(min(pause, seconds_left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    async def cancel(
        self, names: Sequence[str], *, forget: bool = False
    ) -> list[BatchStatus]:
        """Cancel the open batches with these tags or provider's ids; all open batches without names.

        Requests processed by then are billed, and `collect` imports them. With `forget` the provider is not
        asked: the batch is given up, and its requests are free. UsageError if a name fits no open batch.
        """
        named = []
        for batch in self.journal.batches(*OPEN):
            if not names or batch.tag in names or batch.remote in names:
                named.append(batch)
        if len(named) < len(names):
            raise UsageError(
                "no such open batch",
                "`ruler batch status` lists the open ones",
                place=", ".join(names),
            )
        statuses = []
        for batch in named:
            if not forget:
                statuses.append(await self._reconcile(batch, cancel=True))
                continue
            why = "given up by hand"
            given_up = self.journal.move(batch, "abandoned", reason=why)
            statuses.append(BatchStatus(given_up))
        return statuses

    async def _reconcile(
        self,
        batch: BatchRecord,
        *,
        cancel: bool = False,
        ledger: Ledger | None = None,
    ) -> BatchStatus:
        """Bring a batch on record into line with its provider: find it, fetch or cancel it, close it.

        A batch whose creation has no recorded answer is looked for, unless another command may be creating it.
        A batch that has ended is closed if there is a `ledger` for its results.
        """
        try:
            if batch.state == "creating":
                with self.journal.alone() as alone:
                    if alone:
                        batch = await self._find(batch, give_up=False)
                    elif cancel:
                        raise RulerError(
                            "is being submitted by another command; stop that command first",
                            place=f"batch {batch.tag}",
                        )
            if batch.state != "submitted" or batch.remote is None:
                return BatchStatus(batch)
            provider = self.providers.for_batch(batch)
            ask = provider.cancel if cancel else provider.retrieve
            remote = await ask(batch.remote)
            if ledger is None or remote.state == "running":
                return BatchStatus(batch, remote)
            return BatchStatus(
                await self._close(ledger, provider, batch, remote)
            )
        except RulerError as error:
            return BatchStatus(batch, error=error)

    async def _find(self, batch: BatchRecord, *, give_up: bool) -> BatchRecord:
        """Find a batch whose creation has no recorded answer; UncertainBatch if it may exist.

        The caller holds the lock. With `give_up`, a batch that has not appeared within the window is given up.
        """
        batch = self.journal.batch(batch.id)
        if batch.state != "creating":
            return batch
        # the time of the crash is unknown: count from the first search, or from now if the clock was set back
        if batch.changed == batch.created or batch.changed > time.time():
            batch = self.journal.move(batch, "creating")
        # computed before the listing: the last listing must come after the end
        seconds_left = max(0.0, batch.changed + self.window - time.time())
        ours, candidates = await self._search(batch)
        if ours is not None:
            result = f"was found: {ours.id}"
            batch = self.journal.move(batch, "submitted", remote=ours.id)
        elif candidates or seconds_left or not give_up:
            raise UncertainBatch(batch, candidates, seconds_left)
        else:
            why = "never appeared at the provider"
            result = f"{why}; its requests are free"
            batch = self.journal.move(batch, "abandoned", reason=why)
        self.observer.note(f"batch {batch.tag} {result}")
        return batch

    async def _search(
        self, batch: BatchRecord
    ) -> tuple[RemoteBatch | None, list[str]]:
        """Return the batch with our file or results; else the ids of the candidates, the oldest first."""
        provider = self.providers.for_batch(batch)
        recorded = {record.remote for record in self.journal.batches()}
        since = batch.created - provider.skew
        ids = {key.hex() for key in self.journal.keys(batch.id)}
        candidates = []
        for remote in reversed(await provider.list_batches(since)):
            if batch.file and remote.file == batch.file:
                return remote, []
            # its requests may not be counted yet
            fits = remote.total in (0, batch.requests) and not remote.file
            if not fits or remote.id in recorded:
                continue
            if remote.state == "running":
                candidates.append(remote.id)
                continue
            # another ledger's batch may hold a few of the same requests
            ours = 0
            for line in await provider.results(remote):
                with suppress(UnreadableError):
                    ours += read_row(line).custom_id in ids
            if 2 * ours > batch.requests:
                return remote, []
        return None, candidates

    async def _close(
        self,
        ledger: Ledger,
        provider: Provider,
        batch: BatchRecord,
        remote: RemoteBatch,
    ) -> BatchRecord:
        """Import the results of a batch that has ended, and close it, unless another process has closed it."""
        keys = self.journal.keys(batch.id)
        judge = JudgeSettings(batch.model, api_base=batch.base)
        model = cache_of(None, judge).name
        for _ in range(2):  # once more if rows are missing: they are paid for
            lines = await provider.results(remote)
            rows = (
                (f"line {number} of its results", number, line)
                for number, line in enumerate(lines, 1)
            )
            imported = import_rows(ledger, rows, model, keys)
            missing = remote.succeeded + remote.failed - imported.rows
            if missing <= 0 and not imported.unreadable:
                break
        reasons = [*imported.messages.values()]
        for row in imported.rejected:
            reasons.append(f"{row.where} {row.reason}")
        if missing > 0:
            reasons.append(
                f"{missing} of the rows that its provider counts are missing"
            )
        for sentence in reasons:
            self.observer.warn(f"batch {batch.tag}: {sentence}")
        answers = Counter(type(ledger.find(key)) for key in keys)
        return self.journal.move(
            batch,
            "failed" if remote.state == "failed" else "collected",
            reason=remote.reason or next(iter(reasons), ""),
            answered=answers[Reply],
            failed=answers[CallError],
            left_out=answers[type(None)],
        )

    async def _fill(
        self,
        settings: ScoreSettings,
        outboxes: Sequence[_Outbox],
        stack: ExitStack,
    ) -> SubmitResult:
        """Put all missing requests of INPUT into outboxes, each once; count the others.

        BatchCostError if their batches could cost too much.
        """
        newest_row = self.journal.newest()
        out = 0

        def add(judge_index: int, key: bytes, request: Request) -> None:
            nonlocal out
            if self.journal.free(key, newest_row):
                outboxes[judge_index].add(key, request, stack)
            else:
                out += 1

        missing = await find_missing(settings, add, self.observer)
        high = 0.0
        requests = 0
        for outbox in outboxes:
            for batch in outbox.batches:
                high += batch.estimate.cost.high
                requests += len(batch.keys)
        max_cost = settings.pool.max_cost
        if max_cost is not None and high > max_cost:
            raise BatchCostError(
                f"{requests} requests may cost up to ${high:.2f} at the batch price",
                "nothing was submitted; raise the cap, or submit a part of INPUT",
                place=f"--max-cost {max_cost:g}",
            )
        return SubmitResult(missing, [], out)

    async def _send(
        self, outbox: _Outbox, pending: _PendingBatch
    ) -> BatchRecord:
        """Submit one batch: record it, have the provider create it, record its id."""
        judge = outbox.judge
        provider = outbox.provider
        tag = secrets.token_hex(8)
        lines = pending.lines
        uploaded = await provider.upload(tag, lines.file)
        cost = pending.estimate.cost_usd
        batch = self.journal.begin(
            pending.keys,
            tag=tag,
            provider=provider.target,
            model=judge.model,
            base=judge.api_base,
            key_env=judge.api_key_env,
            account=provider.account,
            bytes=lines.size,
            usd=cost and cost.expected,
            file=uploaded,
        )
        try:
            # without the answer the batch may exist and be billed
            with anyio.CancelScope(shield=True):
                remote = await provider.create(tag, lines.file, uploaded)
        except RulerError as error:
            state: BatchState = "failed"
            if isinstance(error, UnclearError):
                state = "creating"
            self.journal.move(batch, state, reason=error.brief)
            raise
        lines.close()
        created = self.journal.move(batch, "submitted", remote=remote.id)
        if created.state != "submitted":
            raise RulerError(
                f"was given up by another command while it became {remote.id}",
                "cancel it at its provider, which bills it",
                place=f"batch {batch.tag}",
            )
        return created
