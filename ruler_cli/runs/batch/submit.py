"""INPUT → batches at a provider: each request that is neither in the ledger nor in an open batch, once.

The journal has a batch and its requests before the provider is asked to create it, and the batch's id after.
The next command recovers from a crash between the two.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from ruler_cli.errors import OutputError, RulerError, Sentence, UsageError
from ruler_cli.judges.pricing import ModelInfo
from ruler_cli.judges.resolve import model_of
from ruler_cli.pool.engine import StopSignal, run_beside
from ruler_cli.prompting.layout import BYTES_PER_TOKEN
from ruler_cli.runs.batch.http import UnclearError
from ruler_cli.runs.batch.journal import BatchRecord, Journal
from ruler_cli.runs.batch.missing_requests import MissingRequests, render_missing
from ruler_cli.runs.batch.providers import Provider, Providers
from ruler_cli.runs.batch.recover import BatchStatus, Recovery
from ruler_cli.runs.batch.request_files import Line, batch_price, request_line
from ruler_cli.runs.estimate import ALWAYS, JudgeEstimate, Range
from ruler_cli.settings.models import JudgeSettings, ScoreSettings
from ruler_cli.types import Observer, Request

_LOCK_POLL = 0.5
"""Seconds between two tries to get the lock from another command."""


class BatchCostError(RulerError):
    """Submission that could cost more than the cap; nothing was submitted."""

    exit_code = 4


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """Result of `submit`.

    `missing` counts the requests that the ledger lacked. Of these `out` were in other open batches already,
    and `large` were larger than the provider accepts. `uncertain` batches may exist at the provider.
    """

    missing: MissingRequests
    batches: tuple[BatchRecord, ...]
    out: int
    large: int
    uncertain: tuple[BatchStatus, ...]

    @property
    def requests(self) -> int:
        """Number of requests that were submitted."""
        return sum(batch.requests for batch in self.batches)


@dataclass(frozen=True, slots=True)
class _BatchJudge:
    """A judge, its batch API, the form of its request lines, and its model with the batch price."""

    settings: JudgeSettings
    provider: Provider
    line: Line
    model: ModelInfo


async def submit(
    settings: ScoreSettings,
    providers: Providers,
    on_submitted: Callable[[BatchRecord], None],
    observer: Observer,
    stop_signal: StopSignal,
    window: float,
) -> SubmitResult:
    """Recover from crashes, then submit all missing requests; `on_submitted` gets each batch.

    `window` is in seconds, see `Recovery`. BatchCostError, before anything is submitted, if all of it
    could cost more than `pool.max_cost`. RulerError if INPUT cannot be read or a provider refuses; batches
    submitted until then are on record. Cancellation waits for the answer to a creation in progress, with a
    note after `stop_signal`.
    """
    if settings.ledger is None:
        remedy = Sentence("leave out {ledger:none}")
        raise UsageError("answers are taken into the ledger", remedy, place="batches")
    judges = [
        _batch_judge(judge, providers, settings.pool.max_cost)
        for judge in settings.judges
    ]
    waiting = False
    with Journal(settings.ledger) as journal:
        while True:
            with journal.alone() as mine:
                if mine:
                    uncertain = await Recovery(
                        journal, providers, observer, window
                    ).and_wait()
                    missing, pending, large = await _fill_batches(
                        journal, judges, settings, observer
                    )
                    batches = list[BatchRecord]()
                    for each in pending:
                        batches.append(
                            await _send(journal, each, observer, stop_signal)
                        )
                        on_submitted(batches[-1])
                    out = (
                        sum(missing.requests)
                        - large
                        - sum(batch.requests for batch in batches)
                    )
                    return SubmitResult(
                        missing, tuple(batches), out, large, tuple(uncertain)
                    )
            if not waiting:
                waiting = True
                observer.note(
                    "another command submits to this ledger; waiting for its end"
                )
            await anyio.sleep(_LOCK_POLL)


def _batch_judge(
    settings: JudgeSettings, providers: Providers, max_cost: float | None
) -> _BatchJudge:
    """Prepare a judge for batches; UsageError if it has no batch API, or no price under a cost cap."""
    provider, price = providers.for_judge(settings), batch_price(settings)
    if max_cost is not None and price is None:
        per_million = (
            "in USD per million prompt and completion tokens (a batch takes half of it)"
        )
        remedy = Sentence("give it with {price:IN,OUT}, " + per_million)
        raise UsageError(
            f"the price of {settings.label} is not known", remedy, option="max_cost"
        )
    model = replace(model_of(settings), price=price)
    return _BatchJudge(
        settings, provider, request_line(provider.api.name, settings), model
    )


class _PendingBatch:
    """A batch before its submission: its requests, in a file, and their estimated cost."""

    def __init__(self, judge: _BatchJudge, journal: Journal) -> None:
        self.judge, self.tag = judge, f"{int(time.time()):08x}-{secrets.token_hex(6)}"
        self.file = journal.folder / f"ruler-{self.tag}.jsonl"
        self.requests = self.bytes = 0
        self._estimate = JudgeEstimate(
            judge.settings.model, judge.model, judge.settings.params
        )

    def add(self, line: bytes, request: Request) -> None:
        """Append a request to the file, and its cost to the estimate."""
        api = self.judge.provider.api
        self.write(
            (api.between if self.requests else api.opening) + line.removesuffix(b"\n")
        )
        self.requests, self.bytes = self.requests + 1, self.bytes + len(line)
        prompt_bytes = sum(
            len(text.encode("utf-8", "replace"))
            for text in (request.system, request.user)
        )
        tokens = prompt_bytes / BYTES_PER_TOKEN
        self._estimate.add(Range(tokens, tokens, tokens), len(request.labels), ALWAYS)

    def write(self, data: bytes) -> None:
        """Append to the file; OutputError if that is not possible."""
        try:
            with self.file.open("ab") as out:
                out.write(data)
        except OSError as error:
            problem = f"the requests cannot be written there: {error.strerror}"
            remedy = Sentence(
                "make room, or give a ledger elsewhere with {ledger:PATH}"
            )
            raise OutputError(problem, remedy, place=str(self.file.parent)) from None

    def cost(self) -> Range | None:
        """Return the cost in USD, each request sent once (repeats go to later batches); None if unknown."""
        return self._estimate.totals(self.judge.model.price, ALWAYS).cost_usd


async def _fill_batches(
    journal: Journal,
    judges: list[_BatchJudge],
    settings: ScoreSettings,
    observer: Observer,
) -> tuple[MissingRequests, list[_PendingBatch], int]:
    """Put all missing requests of INPUT into batches within the limits, and claim them in the journal.

    Return also the number of requests that are too large. BatchCostError if the batches could cost too much.
    """
    batches, filling = list[_PendingBatch](), dict[int, _PendingBatch]()
    large, newest_row = 0, journal.newest()

    def add(judge_index: int, key: bytes, request: Request) -> None:
        nonlocal large
        judge, batch = judges[judge_index], filling.get(judge_index)
        line, limits = judge.line(key, request), judge.provider.limits
        if not limits.allow(1, len(line)):
            large += 1
        elif journal.free(key, newest_row):
            if batch is None or not limits.allow(
                batch.requests + 1, batch.bytes + len(line)
            ):
                batch = filling[judge_index] = _PendingBatch(judge, journal)
                batches.append(batch)
            batch.add(line, request)
            journal.claim(batch.tag, key)

    missing = await render_missing(settings, add, observer)
    for batch in batches:
        batch.write(batch.judge.provider.api.closing)
    high, max_cost = (
        sum(cost.high for batch in batches if (cost := batch.cost())),
        settings.pool.max_cost,
    )
    if max_cost is not None and high > max_cost:
        requests = sum(batch.requests for batch in batches)
        problem = (
            f"a batch cannot be stopped at a sum, and the {requests} requests that are lacking could cost up "
            f"to ${high:.2f} at batch price"
        )
        remedy = "nothing was submitted. Allow as much, or submit a part of INPUT"
        raise BatchCostError(problem, remedy, option="max_cost", value=f"{max_cost:g}")
    return missing, batches, large


async def _send(
    journal: Journal,
    pending: _PendingBatch,
    observer: Observer,
    stop_signal: StopSignal,
) -> BatchRecord:
    """Submit one batch: record it, have the provider create it, record its id."""
    judge, provider, cost = (
        pending.judge.settings,
        pending.judge.provider,
        pending.cost(),
    )
    uploaded = await provider.upload(pending.file)
    batch = journal.begin(
        pending.tag,
        provider=provider.api.name,
        model=judge.model,
        base=judge.api_base,
        key_env=judge.api_key_env,
        account=provider.client.account,
        requests=pending.requests,
        bytes=pending.bytes,
        usd=cost.expected if cost else None,
        file=uploaded,
    )

    async def explain_the_delay() -> None:
        await stop_signal.event.wait()
        observer.note(
            "stopping once the provider has answered, since the batch is paid for then; Ctrl-C "
            "stops at once, and the next `ruler batch` command looks for it"
        )

    try:
        with anyio.CancelScope(
            shield=True
        ):  # without the answer the batch may exist and be billed
            remote = await run_beside(
                explain_the_delay,
                lambda: provider.create(pending.file, uploaded, pending.tag),
            )
    except UnclearError as error:
        journal.move(batch, "creating", reason=str(error.brief))
        recorded = f"batch {batch.tag} is on record as perhaps submitted"
        remedy = f"{recorded}, and the next `ruler batch` command looks for it"
        raise RulerError(error.sentence, remedy) from None
    except RulerError as error:
        journal.move(batch, "failed", reason=str(error.brief))
        raise
    pending.file.unlink(missing_ok=True)
    created = journal.move(batch, "submitted", remote=remote.id, label=remote.label)
    if created is None:
        raise RulerError(
            f"batch {batch.tag}: was given up by another command while it was created; it is {remote.id} at "
            "its provider, which bills it: call it off there"
        )
    return created
