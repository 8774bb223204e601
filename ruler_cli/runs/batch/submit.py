"""INPUT → batches at a provider: each request that is neither in the ledger nor in an open batch, once.

The journal has a batch and its requests before the provider is asked to create it, and the batch's id after.
The next command recovers from a crash between the two.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import anyio

from ruler_cli.errors import RulerError, Sentence, UsageError
from ruler_cli.files.error_map import writing
from ruler_cli.judges.providers import ModelInfo
from ruler_cli.judges.resolve import model_of
from ruler_cli.prompting.prompt import BYTES_PER_TOKEN
from ruler_cli.runs.batch.batches import Batches, BatchStatus
from ruler_cli.runs.batch.http import UnclearError
from ruler_cli.runs.batch.journal import BatchRecord, Journal
from ruler_cli.runs.batch.missing_requests import MissingRequests, render_missing
from ruler_cli.runs.batch.providers import Provider
from ruler_cli.runs.batch.request_files import Line, batch_price, request_line
from ruler_cli.runs.estimate import ALWAYS, JudgeEstimate, Range
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import Request

_LOCK_POLL = 0.5
"""Seconds between two tries to get the lock from another command."""


class BatchCostError(RulerError):
    """Submission that could cost more than the cap; nothing was submitted."""

    exit_code = 4
    resumable = False


class SubmitResult(NamedTuple):
    """Result of `submit`.

    `missing` counts the requests that the ledger lacked. Of these `large` were larger than the provider
    accepts. `uncertain` batches may exist at the provider.
    """

    missing: MissingRequests
    batches: list[BatchRecord]
    large: int
    uncertain: list[BatchStatus]

    @property
    def requests(self) -> int:
        """Number of requests that were submitted."""
        return sum(batch.requests for batch in self.batches)

    @property
    def out(self) -> int:
        """Number of missing requests that were in other open batches already."""
        return sum(self.missing.requests) - self.large - self.requests


class _BatchJudge(NamedTuple):
    """A judge, its batch API, the form of its request lines, its model with the batch price; its batches."""

    settings: JudgeSettings
    provider: Provider
    line: Line
    model: ModelInfo
    pending: list[_PendingBatch]


async def submit(
    batches: Batches,
    settings: ScoreSettings,
    on_submitted: Callable[[BatchRecord], None],
) -> SubmitResult:
    """Recover from crashes, then submit all missing requests; `on_submitted` gets each batch.

    BatchCostError, before anything is submitted, if all of it could cost more than `pool.max_cost`.
    RulerError if INPUT cannot be read or a provider refuses; batches submitted until then are on record.
    Cancellation waits for the answer to a creation in progress.
    """
    judges = [_batch_judge(judge, batches, settings) for judge in settings.judges]
    while True:
        with batches.journal.alone() as mine:
            if mine:
                uncertain = await batches.recover(give_up=True)
                missing, pending, large = await _fill(batches, judges, settings)
                submitted = list[BatchRecord]()
                for each in pending:
                    submitted.append(await _send(batches.journal, each))
                    on_submitted(submitted[-1])
                return SubmitResult(missing, submitted, large, uncertain)
        batches.observer.note("waiting for another command that submits")
        await anyio.sleep(_LOCK_POLL)


def _batch_judge(
    judge: JudgeSettings, batches: Batches, settings: ScoreSettings
) -> _BatchJudge:
    """Prepare a judge for batches; UsageError if it has no batch API, or no price under a cost cap."""
    provider, (price, _) = batches.providers.for_judge(judge), batch_price(judge)
    if settings.pool.max_cost is not None and price is None:
        remedy = Sentence("give it with {price:IN,OUT}; a batch takes half of it")
        problem = f"the price of {judge.label} is not known"
        raise UsageError(problem, remedy, option="max_cost")
    model = replace(model_of(judge), price=price)
    line = request_line(provider.target, judge)
    return _BatchJudge(judge, provider, line, model, [])


class _PendingBatch:
    """A batch before its submission: its requests, in a file, and their estimated cost."""

    def __init__(self, judge: _BatchJudge, journal: Journal) -> None:
        self.judge = judge
        self.tag = f"{int(time.time()):08x}-{secrets.token_hex(6)}"
        self.file = journal.folder / f"ruler-{self.tag}.jsonl"
        self.keys = list[bytes]()
        self.bytes = 0
        self._estimate = JudgeEstimate(
            judge.settings.model, judge.model, judge.settings.params
        )

    def fits(self, line: bytes) -> bool:
        """Tell if the batch takes one more request."""
        limits = self.judge.provider.limits
        return limits.allow(len(self.keys) + 1, self.bytes + len(line))

    def add(self, key: bytes, line: bytes, request: Request) -> None:
        """Append a request to the file, and its cost to the estimate."""
        api = self.judge.provider
        before = api.between if self.keys else api.opening
        self.write(before + line.removesuffix(b"\n"))
        self.keys.append(key)
        self.bytes += len(line)
        prompt = (request.system + request.user).encode("utf-8", "replace")
        tokens = len(prompt) / BYTES_PER_TOKEN
        self._estimate.add(Range(tokens, tokens, tokens), len(request.labels), ALWAYS)

    def write(self, data: bytes) -> None:
        """Append to the file; OutputError if that is not possible."""
        with writing(str(self.file.parent)), self.file.open("ab") as out:
            out.write(data)

    @property
    def cost(self) -> Range | None:
        """Cost in USD, each request sent once (repeats go to later batches); None if unknown."""
        return self._estimate.totals(self.judge.model.price, ALWAYS).cost_usd


async def _fill(
    batches: Batches, judges: list[_BatchJudge], settings: ScoreSettings
) -> tuple[MissingRequests, list[_PendingBatch], int]:
    """Put all missing requests of INPUT into batches within the limits, each once.

    Return also the number of requests that are too large. BatchCostError if the batches could cost too much.
    """
    journal = batches.journal
    large, newest_row = 0, journal.newest()

    def add(judge_index: int, key: bytes, request: Request) -> None:
        nonlocal large
        judge = judges[judge_index]
        line = judge.line(key, request)
        if not judge.provider.limits.allow(1, len(line)):
            large += 1
        elif journal.free(key, newest_row):
            if not judge.pending or not judge.pending[-1].fits(line):
                judge.pending.append(_PendingBatch(judge, journal))
            judge.pending[-1].add(key, line, request)

    missing = await render_missing(settings, add, batches.observer)
    pending = [batch for judge in judges for batch in judge.pending]
    for batch in pending:
        batch.write(batch.judge.provider.closing)
    high = sum(batch.cost.high for batch in pending if batch.cost)
    max_cost = settings.pool.max_cost
    if max_cost is not None and high > max_cost:
        requests = sum(len(batch.keys) for batch in pending)
        problem = f"{requests} requests may cost up to ${high:.2f} at batch price"
        remedy = "nothing was submitted; allow that, or submit a part of INPUT"
        raise BatchCostError(problem, remedy, option="max_cost", value=f"{max_cost:g}")
    return missing, pending, large


async def _send(journal: Journal, pending: _PendingBatch) -> BatchRecord:
    """Submit one batch: record it, have the provider create it, record its id."""
    judge, provider = pending.judge.settings, pending.judge.provider
    uploaded = await provider.upload(pending.file)
    batch = journal.begin(
        pending.tag,
        pending.keys,
        provider=provider.target,
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
        lost = isinstance(error, UnclearError)
        journal.move(batch, "creating" if lost else "failed", reason=str(error.brief))
        raise
    pending.file.unlink(missing_ok=True)
    created = journal.move(batch, "submitted", remote=remote.id, label=remote.label)
    if created is None:
        given_up = f"was given up by another command while it became {remote.id}"
        remedy = "cancel it at its provider, which bills it"
        raise RulerError(given_up, remedy, place=f"batch {batch.tag}")
    return created
