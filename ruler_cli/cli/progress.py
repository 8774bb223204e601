"""Progress and problems of a run on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from ruler_cli.cli.messages import print_note, print_stderr
from ruler_cli.cli.units import count, short
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.reading.location import Location
from ruler_cli.types import Problem

if TYPE_CHECKING:
    from tqdm import tqdm

Progress = Literal["auto", "bar", "log", "none"]
_NAMED = 20
"""Problems, and groups not scored, that are named one by one; the rest is counted."""
_UNLIKE = 3
"""Groups that are named as not compared."""
_LOG_INTERVAL = 30.0
"""Seconds between two progress lines where there is no terminal."""
_COUNTER_DELAY = 1.0
"""Seconds before `group_counter` shows anything."""


class Console(Observer):
    """An observer that shows a run on stderr: a bar on a terminal, elsewhere a line every 30 seconds."""

    def __init__(self, progress: Progress, source: str, named: float = _NAMED) -> None:
        """`source` is INPUT, `named` the number of problems named one by one."""
        self._mode = progress
        if progress == "auto":
            self._mode = "bar" if sys.stderr and sys.stderr.isatty() else "log"
        self._source, self._named = Location(source).shown, named
        self.problems = self._failures = 0
        self._printed = set[str]()
        self._total: int | None = None
        self._bar: tqdm[Any] | None = None
        self._last = time.monotonic()

    def note(self, sentence: str) -> None:
        """Show a sentence, once, unless progress is off."""
        if self._mode != "none":
            self._print_once(f"ruler: {sentence}")

    def warn(self, sentence: str) -> None:
        """Show a warning, once."""
        self._print_once(f"ruler: warning: {sentence}")

    def problem(self, problem: Problem) -> None:
        """Name a line or trajectory that cannot be read."""
        self.problems += 1
        if self.problems <= self._named:
            self._print(f"ruler: {self._source}: {problem.where} {problem.reason}")

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Name a group that could not be scored."""
        self._failures += 1
        if self._failures <= self._named:
            self._print(f"ruler: group {group} not scored ({kind}): {reason}")

    def started(self, groups: int | None) -> None:
        """Open the bar in mode `bar`."""
        self._total = groups
        if self._mode == "bar":
            if self._bar is not None:
                self._bar.close()
            from tqdm import tqdm

            self._bar = tqdm(total=groups, unit="group", file=sys.stderr, dynamic_ncols=True)

    def advanced(self, summary: Summary) -> None:
        """Move the bar."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.update(1)

    def tick(self, summary: Summary, status: Status) -> None:
        """Show the state on the bar, or as a line every 30 seconds."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.set_postfix_str(_state(summary, status, self._total), refresh=True)
        elif self._mode == "log" and time.monotonic() - self._last >= _LOG_INTERVAL:
            self._last = time.monotonic()
            of = f" of {self._total}" if self._total else ""
            print_note(f"{summary.groups}{of} groups; {_state(summary, status, self._total)}")

    def stopping(self, in_flight: int, grace: float) -> None:
        """Say how many calls are waited for, and how long."""
        if in_flight and self._mode != "none":
            calls = count(in_flight, "call")
            self._print(f"ruler: stopping: up to {grace:g} s for {calls} in flight; Ctrl-C stops at once")

    def replied(self, group: str, text: str) -> None:
        """Show a judge's reply."""
        self._print(f"judge on group {group}: {text}")

    def close(self) -> None:
        """Close the bar and print how many problems were not named."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None
        totals = ((self.problems, "lines that cannot be read"), (self._failures, "groups not scored"))
        for number, what in totals:
            if number > self._named:
                print_note(f"… and {number - self._named:.0f} more {what}")

    def _print_once(self, text: str) -> None:
        """Print a line, unless it was printed before: a run on Ray reads INPUT twice."""
        if text not in self._printed:
            self._printed.add(text)
            self._print(text)

    def _print(self, text: str) -> None:
        if self._bar is not None:
            with suppress(OSError):
                self._bar.clear()
        print_stderr(text)


def _state(summary: Summary, status: Status, total: int | None) -> str:
    failed = sum(summary.failed.values())
    parts = [
        f"{summary.kept} kept" if summary.kept else "",
        f"{failed} failed" if failed else "",
        f"{status.in_flight} of {status.limit} calls in flight",
        f"{status.requests_per_minute:.0f} requests and {short(status.tokens_per_minute)} tokens per minute",
        _money(summary, total),
        f"waiting {math.ceil(status.waiting)} s {status.why}" if status.why else "",
    ]
    return ", ".join(filter(None, parts))


def _money(summary: Summary, total: int | None) -> str:
    """Return the cost so far, and that of all groups at the same cost per group asked for."""
    asked = summary.groups - summary.kept
    if not summary.cost_usd or not asked:
        return ""
    remaining = (total or 0) - summary.groups
    expected = f" of about ${summary.cost_usd * (1 + remaining / asked):.2f}" if remaining > 0 else ""
    return f"${summary.cost_usd:.2f}{expected}"


@contextmanager
def group_counter() -> Iterator[Callable[[], object]]:
    """Give a function that counts one group on a terminal; the bar is removed at the end."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(unit="group", file=sys.stderr, dynamic_ncols=True, leave=False, delay=_COUNTER_DELAY) as bar:

        def advance() -> None:
            with suppress(OSError):  # a terminal that is gone must not end the command
                bar.update()

        yield advance


class Problems:
    """Problems of a scored file: printed on stderr at once, or, if `quiet`, listed for a program."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self.number, self.first = quiet, 0, list[str]()
        self._sentences = 0

    def add(self, name: str, problem: Problem) -> None:
        """Add a record of the file `name` that cannot be read."""
        self.add_sentence(f"{name}: {problem.where} {problem.reason}")

    def add_sentence(self, sentence: str, number: int = 1) -> None:
        """Add a problem in words, or so many of them in one sentence."""
        self.number += number
        self._sentences += 1
        if self._sentences <= _NAMED:
            if not self._quiet and sentence not in self.first:
                print_note(sentence)
            self.first.append(sentence)

    def print_on_error(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        """Print the list if an exception leaves the context: then no page will hold it."""
        if kind is not None and self._quiet:
            print_note(*dict.fromkeys(self.first))

    def close(self) -> None:
        """Print how many were not named."""
        if self._sentences > _NAMED and not self._quiet:
            print_note(f"… and {self._sentences - _NAMED} more")


class UnlikeGroups:
    """Sentences on groups of two files that are not compared: the first few, and the number of all.

    They wait until it is known that the files have something in common.
    """

    def __init__(self) -> None:
        self._sentences, self._number = list[str](), 0

    def add(self, sentence: str) -> None:
        """Add the sentence on a group."""
        self._number += 1
        if len(self._sentences) < _UNLIKE:
            self._sentences.append(sentence)

    def hand_to(self, problems: Problems) -> None:
        """Add them to the problems of the command."""
        for sentence in self._sentences:
            problems.add_sentence(sentence)
        if more := self._number - len(self._sentences):
            problems.add_sentence(f"{count(more, 'more group')} not compared", more)
