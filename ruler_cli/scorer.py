"""Judges that stay open for groups from Python: one pool, one ledger and one budget for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from ruler_cli.config import ScoreSettings
from ruler_cli.contradictions import refuse_contradictions
from ruler_cli.errors import UsageError
from ruler_cli.object_groups import G, JudgedGroup
from ruler_cli.observer import Observer, OutageWatch, Status, Summary
from ruler_cli.open_scorer import Groups, GroupStream, OpenScorer
from ruler_cli.pool.engine import StopSignal
from ruler_cli.run import open_judges, resolve_judges
from ruler_cli.types import Problem

_FILES = (
    ("format", "auto"), ("grouping", "auto"), ("group_by", None), ("messages", None), ("prompt", None),
    ("shard", None), ("limit", None),
)  # fmt: skip
"""Settings of `InputSettings` that say how a file is read, each with its default."""


class Log(Observer):
    """Passes a run's notes and warnings to Python's `logging`, as logger `ruler_cli`."""

    _log = logging.getLogger("ruler_cli")

    def __init__(self) -> None:
        """Log an outage of a judge once a minute."""
        self._outages = OutageWatch(60)

    def tick(self, summary: Summary, status: Status) -> None:
        """Log that a judge is down, with the cause, and that it answers again."""
        if line := self._outages.line(status):
            self._log.warning("%s", line)

    def note(self, sentence: str) -> None:
        """Log a sentence."""
        self._log.info("%s", sentence)

    def warn(self, sentence: str) -> None:
        """Log a warning."""
        self._log.warning("%s", sentence)

    def problem(self, problem: Problem) -> None:
        """Log a part of the input that could not be read."""
        self._log.info("%s %s", problem.where, problem.reason)

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Log a group that could not be scored."""
        self._log.info("%s: not scored (%s): %s", group, kind, reason)

    def replied(self, group: str, text: str) -> None:
        """Log a judge's reply, with `settings.debug`."""
        self._log.info("judge on group %s: %s", group, text)


class Scorer:
    """The judges of a run, open for any number of groups from Python.

    Use it as an async context: `async with Scorer(settings) as scorer`. All that is scored within shares one
    pool (rate limits, adaptive concurrency, retries), one ledger, one `max_cost` and one `max_failures`.
    Replies are kept in the command's own ledger unless `settings.ledger` says otherwise, so a program that
    is run again pays for nothing twice.
    """

    def __init__(self, settings: ScoreSettings | None = None, *, observer: Observer | None = None) -> None:
        """UsageError for settings that contradict one another, or that only a file can have."""
        self._settings, self._observer = _checked(settings), observer or Log()
        self._stack = AsyncExitStack()
        self._parts: OpenScorer | None = None

    async def __aenter__(self) -> Self:
        """Open the judges and the ledger; UsageError if a key, an address or a price is missing."""
        if self._parts is not None:
            raise UsageError("the Scorer is open already; make another one, or share it")
        resolved, stop_signal = resolve_judges(self._settings), StopSignal(outages=False)
        async with AsyncExitStack() as stack:
            panel = await open_judges(self._settings, resolved, stop_signal, stack)
            self._parts = parts = OpenScorer(self._settings, self._observer, panel)
            stack.push_async_callback(parts.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """End what is still running, its callers get a UsageError, and close judges and ledger."""
        self._parts = None
        await self._stack.aclose()

    async def score(self, group: G) -> JudgedGroup[G]:
        """Score one group; its failure is a value with a reason. May be called from many tasks at once.

        `group` is a dict with `trajectories`, or any object with ART's attributes, and stays as it is.
        WrongShapeError if it is neither; RulerError if the judges refused the run, or too many groups
        failed. If `max_cost` is reached, groups in flight fail with kind `budget`, and each later call
        raises CapReached unless the ledger answers it.
        """
        return await self.opened.one(group)

    async def score_groups(self, groups: Groups[G]) -> AsyncGenerator[JudgedGroup[G], None]:
        """Score many groups: yield each as soon as it and all before it are done, in the order given.

        Groups are read no further ahead than the judges need. An iterable is read in the event loop, so one
        that waits has to be an async iterable. With `adaptive` or `escalate` 64 neighbours share their
        passes, so `groups` must not wait for a score before the next group comes. With `debias` or
        `standardize` all groups are held until the last is judged.

        A group that could not be scored is a value with a reason. An error that stops the run (the judges
        refused it, `max_cost` is reached, too many failed, `groups` itself raised) is raised after
        everything that is done has been yielded. To leave the loop early ends the calls in flight. If
        `max_cost` is reached, a list is still read to its end, and any other iterable no further.
        """
        async with GroupStream(self.opened, groups) as stream:
            async for judged in stream:
                yield judged

    def summary(self) -> Summary:
        """Return the counts of all groups so far, their tokens and their cost.

        With `debias` or `standardize` each stream is a batch, and the figures are of the newest one.
        """
        return self.opened.summary()

    @property
    def opened(self) -> OpenScorer:
        """The open judges; UsageError if they are not, or are in another event loop."""
        if self._parts is None:
            raise UsageError("the Scorer is not open; use it as `async with Scorer(settings) as scorer`")
        if self._parts.loop is not asyncio.get_running_loop():
            raise UsageError("the Scorer is open in another event loop; score there, or open one here")
        return self._parts


def _checked(settings: ScoreSettings | None) -> ScoreSettings:
    """Return the settings for groups from Python; UsageError if a file is needed for them."""
    settings = ScoreSettings() if settings is None else settings
    refuse_contradictions(settings)
    for name, usual in _FILES:
        if getattr(settings.input, name) != usual:
            raise UsageError(
                f"settings.input.{name}: says how a file is read, and these groups come from Python; leave "
                "it out, or use `score_file`"
            )
    if settings.on_failure == "drop" or settings.failed is not None:
        raise UsageError(
            "on_failure='drop' and `failed` write files; leave them out, and skip a group whose `failed` is "
            "true"
        )
    return replace(settings, input=replace(settings.input, source="-"), output="-")
