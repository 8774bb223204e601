"""INPUT and ledger → the requests that the ledger lacks, for a request file or a batch; nothing is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import anyio.lowlevel

from ruler_cli.files.scratch import Index
from ruler_cli.judges.resolve import cached_only
from ruler_cli.judging.adaptive import BLOCK_BYTES
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import open_panel
from ruler_cli.ledger.reply_cache import Ledger
from ruler_cli.pool.engine import (
    Bounds,
    StopSignal,
    in_thread,
    inline,
    run,
    threaded,
)
from ruler_cli.runs.file import held_groups, nothing_to_compare
from ruler_cli.runs.input import Input, open_input
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import GroupResult, Observer, Problem, Request

OnMissing = Callable[[int, bytes, Request], None]
"""Receives a missing request: the index of its judge in `settings.judges`, its key, the request."""


@dataclass(slots=True)
class MissingRequests:
    """Counts of the missing requests.

    `requests` are by judge, in the order of `settings.judges`. Of all `groups`, the `answered` ones need no
    request. The `failed` ones, by error kind, allow none or failed with the ledger's replies. All others miss
    at least one request. `unreadable` counts records.
    """

    requests: list[int]
    groups: int = 0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0

    @property
    def lost(self) -> int:
        """Number of groups that failed with the ledger's replies."""
        return self.failed.total() - self.unaskable

    @property
    def unaskable(self) -> int:
        """Number of groups without a possible request: nothing to judge, or too long."""
        return self.failed["input"] + self.failed["too_long"]


async def render_missing(
    settings: ScoreSettings, on_missing: OnMissing, observer: Observer
) -> MissingRequests:
    """Call `on_missing` with each request that the ledger lacks, once, in the order of INPUT.

    `on_missing` runs in the event loop; its errors end the rendering. A ledger that does not exist counts as
    empty and is not created. RulerError if INPUT or the ledger cannot be read. No paid call is in flight, so
    it may be cancelled at any time.
    """
    with ExitStack() as stack:
        return await _render(settings, on_missing, observer, stack)


async def _render(
    settings: ScoreSettings, on_missing: OnMissing, observer: Observer, stack: ExitStack
) -> MissingRequests:
    """Judge each group by the ledger alone, and pass on the requests that it lacks."""
    judges = settings.judges
    counts = MissingRequests([0] * len(judges))
    ledger, seen = None, stack.enter_context(closing(Index()))
    if settings.ledger is not None:
        ledger = stack.enter_context(
            Ledger(settings.ledger, settings.ledgers, make=False)
        )
    resolved = [cached_only(judge) for judge in judges]
    panel = open_panel(settings, resolved, StopSignal(), ledger)
    runner = JudgeRunner(settings, panel.judges)

    def on_problem(problem: Problem) -> None:
        counts.unreadable += 1
        observer.problem(problem)

    def opened() -> Input:
        source = open_input(settings.input, stack, on_problem)
        if error := nothing_to_compare(settings, source):
            raise error
        return source

    # in a thread: a pipe may be silent for long, and the survey of a large file takes long
    source = await in_thread(opened)
    source.report(observer)
    pull = (threaded if source.waits else inline)(
        held_groups(settings, source, observer)
    )

    async def next_group() -> GroupRun | None:
        group = await pull()
        if group is None:
            runner.end()
            return None
        return runner.start(group)

    async def deliver(group_run: GroupRun, result: GroupResult) -> None:
        for judge_index, request in group_run.missing:
            key = panel.judges[judge_index].key(request)
            number = sum(counts.requests) + 1
            if seen.first_seen(key.hex(), number) == number:
                counts.requests[judge_index] += 1
                on_missing(judge_index, key, request)
        counts.groups += 1
        if group_run.missing:
            return
        if result.failed_calls and not result.pass_scores:
            error = result.failed_calls[0].error
            counts.failed[error.kind] += 1
            observer.failed(group_run.group.key, error.kind, error.reason)
        else:
            counts.answered += 1

    await run(
        next_group,
        GroupRun.judge,
        deliver,
        lambda group_run: group_run.group.size,
        anyio.lowlevel.checkpoint,
        # at most one block of groups that are decided together is in memory
        Bounds(size=BLOCK_BYTES),
    )
    source.report(observer, end=True)
    return counts
