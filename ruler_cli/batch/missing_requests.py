"""INPUT and ledger → every request that the ledger lacks: what anybody may answer, by file or by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import anyio
import anyio.lowlevel

from ruler_cli.config import ScoreSettings
from ruler_cli.judges.resolve import cached_only
from ruler_cli.judging.blocks import SIZE
from ruler_cli.judging.group_run import BoundJudge, Item, JudgeRunner, judges_of
from ruler_cli.ledger.reply_cache import Ledger, ReplyCache
from ruler_cli.observer import Observer
from ruler_cli.pool.engine import Bounds, StopSignal, first_of, run, threaded
from ruler_cli.pool.retries import CachedOnly
from ruler_cli.reading.index import Index
from ruler_cli.reading.input import Input, open_input
from ruler_cli.types import GroupResult, Problem, Request

Lacking = tuple[int, bytes, Request]
Take = Callable[[int, bytes, Request], None]
"""Gets the judge's number in `judges_of`, the key and the text of a request."""

_LACKING: ContextVar[list[Lacking]] = ContextVar("_LACKING")
"""What the group lacks that the current task judges."""


@dataclass(slots=True)
class Rendered:
    """What was lacking.

    `groups` of the input: `answered` ones need nothing, of `failed` ones (by kind) nothing can be asked,
    or kept answers led to a failure; all others lack what `requests` counts, by judge in the order of
    `judges_of`. `characters` are those of the prompts, by judge. `unreadable` counts records.
    """

    requests: list[int]
    characters: list[int]
    groups: int = 0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0

    @property
    def unaskable(self) -> int:
        """Groups that no judge can be asked about: nothing to judge, or too long."""
        return self.failed["input"] + self.failed["too_long"]


async def render(
    settings: ScoreSettings, take: Take, observer: Observer | None = None, halt: StopSignal | None = None
) -> Rendered:
    """Give `take` each request that the ledger lacks, once, in the order of INPUT; nobody is asked.

    `take` is called from the event loop; what it raises ends the rendering. A ledger that is not there is
    empty and is not made. RulerError where INPUT or the ledger cannot be read, or where `halt` is told to
    stop: what was given until then is the beginning of all of it.
    """
    halt = halt or StopSignal()
    with ExitStack() as stack:
        rendering = _Rendering(settings, take, observer or Observer(), halt, stack)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_stop, halt, tasks.cancel_scope)
                await rendering.all(stack)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_of(group) from None
    if halt.reason is not None:
        raise halt.reason
    return rendering.done


async def _stop(halt: StopSignal, scope: anyio.CancelScope) -> None:
    """At once, also where a pipe is silent: nothing is in flight that was paid for."""
    await halt.event.wait()
    scope.cancel()


class _Rendering:
    """Judges each group by the ledger alone, and passes on what it lacks."""

    def __init__(
        self, settings: ScoreSettings, take: Take, observer: Observer, halt: StopSignal, stack: ExitStack
    ) -> None:
        self._settings, self._take, self._observer, self._halt = settings, take, observer, halt
        judges = judges_of(settings)
        chosen = [cached_only(judge) for judge in judges]
        ledger = None
        if settings.ledger is not None:
            ledger = stack.enter_context(Ledger(settings.ledger, settings.ledgers, make=False))
        self._given = stack.enter_context(closing(Index()))
        callers = [
            CachedOnly(ReplyCache(ledger, judge.model, judge.params), halt, partial(_note, seat))
            for seat, judge in enumerate(judges)
        ]
        asked = [BoundJudge(c.call, found.context) for c, found in zip(callers, chosen, strict=True)]
        self._runner = JudgeRunner(settings, asked)
        self._lacking = 0
        self.done = Rendered([0] * len(judges), [0] * len(judges))

    async def all(self, stack: ExitStack) -> None:
        """Read and lay out every group."""
        # in a thread, because a pipe may be silent for long and the survey of a file be long
        opened = threaded(open_input(self._settings.input, stack, self._problem) for _ in range(1))
        found = cast(Input, await opened())
        for sentence in (found.found(), *found.notes):
            self._observer.note(sentence)
        for sentence in found.survey.warnings() if found.survey else ():
            self._observer.warn(sentence)
        pull = found.pull()

        async def next_item() -> Item | None:
            group = await pull()
            if group is None:
                self._runner.end()
                return None
            return self._runner.place(group)

        # a block of groups that decide together is held, and no more
        room, bounds = anyio.lowlevel.checkpoint, Bounds(size=SIZE)
        await run(next_item, self._judge, self._deliver, lambda item: item.group.size, room, bounds)
        for sentence in () if found.survey else found.openings.sentences():
            self._observer.warn(sentence)

    def _problem(self, problem: Problem) -> None:
        self.done.unreadable += 1
        self._observer.problem(problem)

    async def _judge(self, item: Item) -> tuple[GroupResult, list[Lacking]]:
        lacking: list[Lacking] = []
        _LACKING.set(lacking)  # of this task and those that it starts
        return await self._runner.judge(item), lacking

    async def _deliver(self, item: Item, result: tuple[GroupResult, list[Lacking]]) -> None:
        (outcome, lacking), done = result, self.done
        if self._halt.reason is not None:
            return
        for seat, key, request in lacking:
            self._lacking += 1
            if self._given.first_seen(f"{seat} {key.hex()}", self._lacking) == self._lacking:
                done.requests[seat] += 1
                done.characters[seat] += request.size
                self._take(seat, key, request)
        done.groups += 1
        if not lacking and outcome.failed_calls and not outcome.pass_scores:
            failure = outcome.failed_calls[0].error
            done.failed[failure.kind] += 1
            self._observer.failed(item.group.key, failure.kind, failure.reason)
        elif not lacking:
            done.answered += 1


def _note(seat: int, key: bytes, request: Request) -> None:
    _LACKING.get().append((seat, key, request))
