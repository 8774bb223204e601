"""INPUT and ledger → the requests that the ledger lacks, for a request file or a batch; nothing is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.lowlevel

from ruler_cli.config import JudgeSettings, ScoreSettings
from ruler_cli.judges.resolve import cached_only
from ruler_cli.judging.adaptive import BLOCK_BYTES
from ruler_cli.judging.group_run import GroupRun, JudgeRunner
from ruler_cli.judging.panel import PanelJudge, judges_of
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.observer import Observer
from ruler_cli.pool.engine import Bounds, StopSignal, first_of, in_thread, inline, run, threaded
from ruler_cli.reading.input import open_input
from ruler_cli.reading.scratch import Index
from ruler_cli.types import GroupResult, Problem, Request

MissingRequest = tuple[int, bytes, Request]
OnMissing = Callable[[int, bytes, Request], None]
"""Receives a missing request: the index of its judge in `judges_of`, its key, the request."""

_MISSING: ContextVar[list[MissingRequest]] = ContextVar("_MISSING")
"""Missing requests of the group that the current task judges."""


@dataclass(slots=True)
class MissingRequests:
    """Counts of the missing requests.

    `requests`, and `characters` of their prompts, are by judge in the order of `judges_of`. Of all `groups`,
    the `answered` ones need no request. The `failed` ones, by error kind, allow none or failed with the
    ledger's replies. All others miss at least one request. `unreadable` counts records.
    """

    requests: list[int]
    characters: list[int]
    groups: int = 0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0

    @property
    def unaskable(self) -> int:
        """Number of groups without a possible request: nothing to judge, or too long."""
        return self.failed["input"] + self.failed["too_long"]


async def render_missing(
    settings: ScoreSettings,
    on_missing: OnMissing,
    observer: Observer | None = None,
    stop_signal: StopSignal | None = None,
) -> MissingRequests:
    """Call `on_missing` with each request that the ledger lacks, once, in the order of INPUT.

    `on_missing` runs in the event loop; its errors end the rendering. A ledger that does not exist counts as
    empty and is not created. RulerError if INPUT or the ledger cannot be read, or after `stop_signal`: the
    calls until then are the first of all.
    """
    stop_signal = stop_signal or StopSignal()
    with ExitStack() as stack:
        rendering = _Rendering(settings, on_missing, observer or Observer(), stop_signal, stack)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_on_stop, stop_signal, tasks.cancel_scope)
                await rendering.run(stack)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None
    if stop_signal.reason is not None:
        raise stop_signal.reason
    return rendering.counts


async def _cancel_on_stop(stop_signal: StopSignal, scope: anyio.CancelScope) -> None:
    """Cancel at once, also while a pipe is silent: no paid call is in flight."""
    await stop_signal.event.wait()
    scope.cancel()


class _Rendering:
    """Judge each group by the ledger alone, and pass on the requests that it lacks."""

    def __init__(
        self,
        settings: ScoreSettings,
        on_missing: OnMissing,
        observer: Observer,
        stop_signal: StopSignal,
        stack: ExitStack,
    ) -> None:
        self._settings, self._on_missing = settings, on_missing
        self._observer, self._stop_signal = observer, stop_signal
        judges = judges_of(settings)
        ledger = None
        if settings.ledger is not None:
            ledger = stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))
        self._seen = stack.enter_context(closing(Index()))
        self._runner = JudgeRunner(
            settings, [self._panel_judge(ledger, index, judge) for index, judge in enumerate(judges)]
        )
        self._missing = 0
        self.counts = MissingRequests([0] * len(judges), [0] * len(judges))

    def _panel_judge(self, ledger: Ledger | None, index: int, judge: JudgeSettings) -> PanelJudge:
        """Return a judge that answers from the ledger alone, and notes the requests that it lacks."""
        cache, missing = ReplyCache(ledger, judge.model, judge.params), partial(_note, index)
        context = cached_only(judge).context
        return PanelJudge(None, cache, context=context, stop_signal=self._stop_signal, missing=missing)

    async def run(self, stack: ExitStack) -> None:
        """Read and judge every group."""
        # in a thread: a pipe may be silent for long, and the survey of a large file takes long
        source = await in_thread(partial(open_input, self._settings.input, stack, self._problem))
        for sentence in (source.found(), *source.notes):
            self._observer.note(sentence)
        for sentence in source.warnings() if source.survey else ():
            self._observer.warn(sentence)
        pull = (threaded if source.waits else inline)(source.groups)

        async def next_group() -> GroupRun | None:
            group = await pull()
            if group is None:
                self._runner.end()
                return None
            return self._runner.start(group)

        # at most one block of groups that are decided together is in memory
        bounds, wait_for_room = Bounds(size=BLOCK_BYTES), anyio.lowlevel.checkpoint
        await run(next_group, self._judge, self._deliver, lambda run: run.group.size, wait_for_room, bounds)
        for sentence in () if source.survey else source.warnings():
            self._observer.warn(sentence)

    def _problem(self, problem: Problem) -> None:
        self.counts.unreadable += 1
        self._observer.problem(problem)

    async def _judge(self, group_run: GroupRun) -> tuple[GroupResult, list[MissingRequest]]:
        missing: list[MissingRequest] = []
        _MISSING.set(missing)  # for this task and the tasks that it starts
        return await group_run.judge(), missing

    async def _deliver(self, group_run: GroupRun, judged: tuple[GroupResult, list[MissingRequest]]) -> None:
        (result, missing), counts = judged, self.counts
        if self._stop_signal.reason is not None:
            return
        for judge_index, key, request in missing:
            self._missing += 1
            if self._seen.first_seen(f"{judge_index} {key.hex()}", self._missing) == self._missing:
                counts.requests[judge_index] += 1
                counts.characters[judge_index] += request.size
                self._on_missing(judge_index, key, request)
        counts.groups += 1
        if not missing and result.failed_calls and not result.pass_scores:
            error = result.failed_calls[0].error
            counts.failed[error.kind] += 1
            self._observer.failed(group_run.group.key, error.kind, error.reason)
        elif not missing:
            counts.answered += 1


def _note(judge_index: int, key: bytes, request: Request) -> None:
    _MISSING.get().append((judge_index, key, request))
