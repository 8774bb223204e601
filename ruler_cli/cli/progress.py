"""Progress and problems of a run on stderr."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from ruler_cli.cli.messages import (
    command_words,
    hide_keys,
    print_note,
    print_stderr,
    print_wrapped,
    stderr_columns,
)
from ruler_cli.cli.safe_text import one_line
from ruler_cli.cli.units import cells, count, rounded, short
from ruler_cli.files.location import Location
from ruler_cli.types import (
    Observer,
    Problem,
    Status,
    Summary,
    answer_sentence,
    wait_sentence,
)

if TYPE_CHECKING:
    from tqdm import tqdm

    from ruler_cli.results.compare import LeftOutGroup

Progress = Literal["auto", "bar", "log", "none"]
_NAMED = 20
"""Problems, and groups not scored, that are named one by one; the rest is counted."""
_UNLIKE = 3
"""Groups that are named as not compared."""
_LOG_INTERVAL = 30.0
"""Seconds between two progress lines where there is no terminal."""
_REDRAW_INTERVAL = 0.1
"""Seconds between two drawings of the lines on a terminal, at least."""
_LEAST_BAR = 18
"""Columns of the bar, and of the percentage before it, at least."""
_COUNTER_DELAY = 1.0
"""Seconds before `group_counter` shows anything."""


class Console(Observer):
    """An observer that shows a run on stderr: two lines on a terminal, elsewhere a line every 30 seconds."""

    def __init__(self, progress: Progress, source: str, named: float = _NAMED) -> None:
        """`source` is INPUT, `named` the number of problems named one by one."""
        self._mode = progress
        if progress == "auto":
            drawn = (
                sys.stderr and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            )
            self._mode = "bar" if drawn else "log"
        if sys.stderr is None:  # closed, with `2>&-`
            self._mode = "none"
        self._source, self._named = Location(source).shown, named
        self.problems = self._failures = 0
        self._printed, self._waits_for = set[str](), set[str]()
        self._bars: tuple[tqdm[Any], tqdm[Any]] | None = None
        self._began = self._asked_since = self._drawn = self._last = time.monotonic()
        self._total: int | None = None
        self._facts = list[str]()
        self.summary = Summary()
        """The counts of the run, as they are known by now."""

    def note(self, sentence: str) -> None:
        """Show a sentence, once, unless progress is off."""
        if self._mode != "none":
            self._print_once(command_words(sentence))

    def warn(self, sentence: str) -> None:
        """Show a warning, once."""
        self._print_once(f"warning: {command_words(sentence)}")

    def problem(self, problem: Problem) -> None:
        """Name a line or trajectory that cannot be read."""
        self.problems += 1
        if self.problems <= self._named:
            reason = command_words(problem.reason)
            self._print(f"{self._source}: {problem.where} {reason}")

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Name a group that could not be scored; not those that the cap left out, which the end counts."""
        if kind == "budget":
            return
        self._failures += 1
        if self._failures <= self._named:
            self._print(f"group {group} not scored ({kind}): {command_words(reason)}")

    def started(self, groups: int | None) -> None:
        """Note the number of groups, and draw the lines in mode `bar`."""
        self._total = groups
        self._began = self._asked_since = time.monotonic()
        if self._mode == "bar" and self._bars is None:
            from tqdm import tqdm

            first, second = (
                tqdm(
                    total=groups,
                    file=_Terminal(),
                    position=i,
                    leave=False,
                    ncols=_columns(),
                )
                for i in range(2)
            )
            self._bars = first, second
            self._draw(self._began)

    def advanced(self, summary: Summary) -> None:
        """Move the bar, a few times a second at most."""
        self.summary = summary
        now = time.monotonic()
        if self._bars is not None and now - self._drawn >= _REDRAW_INTERVAL:
            self._draw(now)

    def tick(self, summary: Summary, status: Status) -> None:
        """Draw the lines again, or print one every 30 seconds."""
        self.summary = summary
        now = time.monotonic()
        if summary.groups == summary.kept and not status.requests_per_minute:
            self._asked_since = (
                now  # the time of cached groups before the first call is no rate
            )
        self._facts = _parts(summary, status, self._total)
        if self._bars is not None:
            self._draw(now)
        elif self._mode == "log" and now - self._last >= _LOG_INTERVAL:
            self._last = now
            print_note(
                "; ".join(
                    filter(
                        None, (", ".join(self._amounts(now)), ", ".join(self._facts))
                    )
                )
            )

    def waiting(self, judge: str, why: str, seconds: float) -> None:
        """Warn of a wait for a judge when it begins; the progress lines have it later."""
        if judge not in self._waits_for:
            self._waits_for.add(judge)
            self._print(f"warning: {wait_sentence(command_words(why), seconds)}")

    def answering(self, judge: str, seconds: float) -> None:
        """Say that a judge answers again."""
        self._waits_for.discard(judge)
        self._print(answer_sentence(judge, seconds))

    def stopping(self, in_flight: int, grace: float) -> None:
        """Say how many calls are waited for, and how long."""
        if in_flight and self._mode != "none":
            calls = count(in_flight, "call")
            self._print(
                f"stopping: up to {grace:g} s for {calls} in flight; Ctrl-C stops at once"
            )

    def replied(self, group: str, text: str) -> None:
        """Show a judge's reply."""
        reply = text or "(an empty reply)"
        self._print(f"judge on group {group}: {reply}", print_stderr)

    def close(self) -> None:
        """Remove the lines and print how many problems were not named."""
        for bar in reversed(self._bars or ()):
            bar.close()
        self._bars = None
        totals = (
            (self.problems, "unreadable lines"),
            (self._failures, "groups not scored"),
        )
        for number, what in totals:
            if number > self._named:
                print_note(f"… and {number - self._named:.0f} more {what}")

    def _draw(self, now: float) -> None:
        """Draw both lines."""
        if self._bars is None:
            return
        self._drawn = now
        (first, second), width = self._bars, _columns()
        first.ncols = second.ncols = width
        amounts = self._amounts(now)
        if self._total:
            first.n = min(self.summary.groups, self._total)
            room = width - _LEAST_BAR
            first.bar_format = "{percentage:3.0f}% |{bar}| " + fitting(amounts, room)
        else:
            first.bar_format = fitting(amounts, width)
        second.bar_format = (
            fitting(self._facts, width).replace("{", "{{").replace("}", "}}")
        )
        first.refresh()
        second.refresh()

    def _amounts(self, now: float) -> list[str]:
        """Return the groups that are done, the time that is left or gone, and the rate; the first most."""
        from tqdm import tqdm

        done, total = self.summary.groups, self._total
        seconds = now - self._asked_since
        rate = (done - self.summary.kept) / seconds if seconds > 0 else 0.0
        amounts = [
            f"{done} of {count(total, 'group')}" if total else count(done, "group")
        ]
        if not total or not rate:
            amounts.append(f"{tqdm.format_interval(now - self._began)} elapsed")
        elif done < total:
            amounts.append(
                f"{tqdm.format_interval(math.ceil((total - done) / rate))} left"
            )
        if rate:
            minute = rate < 1
            amounts.append(
                f"{60 * rate:.1f} groups/min" if minute else f"{rate:.1f} groups/s"
            )
        return amounts

    def _print_once(self, text: str) -> None:
        """Print a line, unless it was printed before: a run on Ray reads INPUT twice."""
        if text not in self._printed:
            self._printed.add(text)
            self._print(text)

    def _print(self, text: str, print_: Callable[[str], None] = print_wrapped) -> None:
        """Print a sentence above the two lines."""
        for bar in self._bars or ():
            bar.clear()
        print_(text)
        for bar in self._bars or ():
            bar.refresh()


class _Terminal:
    """stderr for the lines: a terminal that is gone must not end the run."""

    def write(self, text: str) -> None:
        """Write a text."""
        with suppress(OSError):  # it may be gone
            sys.stderr.write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with suppress(OSError):  # it may be gone
            sys.stderr.flush()

    @property
    def encoding(self) -> str:
        """The encoding, by which tqdm chooses the characters of the bar."""
        return sys.stderr.encoding


def _columns() -> int:
    """Return the columns that a line of the terminal may take."""
    return (stderr_columns() or shutil.get_terminal_size().columns) - 1


def _parts(summary: Summary, status: Status, total: int | None) -> list[str]:
    """Return the facts of the second line, the most important first."""
    failed = sum(summary.failed.values())
    seconds = f" {math.ceil(status.waiting)} s" if status.waiting else ""
    parts = [
        f"waiting{seconds}: {one_line(hide_keys(command_words(status.why)))}"
        if status.why
        else "",
        f"{status.in_flight} of {status.limit} calls in flight" if status.limit else "",
        _money(summary, total),
        f"{failed} failed" if failed else "",
        f"{status.retrying} to try again" if status.retrying else "",
        f"{summary.kept} cached" if summary.kept else "",
        f"{count(round(status.requests_per_minute), 'request')}/min"
        if status.requests_per_minute
        else "",
        f"{short(status.tokens_per_minute)} tokens/min"
        if status.tokens_per_minute
        else "",
    ]
    return [part for part in parts if part]


def fitting(parts: Sequence[str], width: int) -> str:
    """Return the parts that fit side by side in `width` columns, whole, the first ones preferred."""
    text = ""
    for part in parts:
        longer = f"{text}, {part}" if text else part
        if cells(longer) <= width:
            text = longer
    return text


def _money(summary: Summary, total: int | None) -> str:
    """Return the cost so far, and that of all groups at the same cost per group asked for."""
    asked = summary.groups - summary.kept
    if not summary.cost_usd:
        return ""
    remaining = (total or 0) - summary.groups
    about = (
        summary.cost_usd * (1 + remaining / asked) if asked and remaining > 0 else 0.0
    )
    return f"${rounded(summary.cost_usd)}" + (
        f" of about ${rounded(about)}" if about else ""
    )


@contextmanager
def group_counter() -> Iterator[Callable[[], object]]:
    """Give a function that counts one group on a terminal; the bar is removed at the end."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm import tqdm

    with tqdm(
        unit="group",
        file=sys.stderr,
        dynamic_ncols=True,
        leave=False,
        delay=_COUNTER_DELAY,
    ) as bar:

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
        self.add_sentence(f"{name}: {problem.where} {command_words(problem.reason)}")

    def add_sentence(self, sentence: str, number: int = 1) -> None:
        """Add a problem in words, or so many of them in one sentence."""
        self.number += number
        self._sentences += 1
        if self._sentences <= _NAMED:
            if not self._quiet and sentence not in self.first:
                print_note(sentence)
            self.first.append(sentence)

    def print_on_error(
        self, kind: type[BaseException] | None, _error: object, _trace: object
    ) -> None:
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
        self._sentences: tuple[list[str], list[str]] = (
            [],
            [],
        )  # those of one file only come last
        self._number = 0

    def add(self, group: LeftOutGroup) -> None:
        """Add the sentence on a group."""
        self._number += 1
        if len(self._sentences[group.alone]) < _UNLIKE:
            self._sentences[group.alone].append(group.sentence)

    def hand_to(self, problems: Problems) -> None:
        """Add them to the problems of the command."""
        sentences = [sentence for each in self._sentences for sentence in each][
            :_UNLIKE
        ]
        for sentence in sentences:
            problems.add_sentence(sentence)
        if more := self._number - len(sentences):
            problems.add_sentence(f"{count(more, 'more group')} not compared", more)
