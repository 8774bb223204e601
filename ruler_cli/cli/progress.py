"""Progress and problems of a run on stderr."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal

from ruler_cli.cli.messages import (
    command_words,
    hide_keys,
    one_line,
    print_note,
    print_stderr,
    print_wrapped,
    stderr_columns,
)
from ruler_cli.cli.units import cells, count, rounded, short, wrap
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
    from ruler_cli.results.pairing import LeftOutGroup

Progress = Literal["auto", "bar", "log", "none"]
_NAMED = 20
"""Problems, and groups not scored, that are named one by one; the rest is counted."""
_UNLIKE = 3
"""Groups that are named as not compared."""
_LOG_INTERVAL = 30.0
"""Seconds between two progress lines where there is no terminal."""
_REDRAW_INTERVAL = 0.1
"""Seconds between two drawings of the lines on a terminal, at least."""
_SMOOTHING = 60.0
"""Seconds after which a group counts a third in the rate."""
_LEAST_BAR = 10
"""Columns of the bar, at least."""
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
        self._printed = set[str]()
        self._lines: _TwoLines | None = None
        self._began = self._drawn = self._last = time.monotonic()
        self._total: int | None = None
        self._facts, self._waits, self._rate = list[str](), False, _Rate()
        self._waits_for = set[str]()
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
            self._print(
                f"{self._source}: {problem.where} {command_words(problem.reason)}"
            )

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Name a group that could not be scored; not those that the cap left out, which the end counts."""
        if kind == "budget":
            return
        self._failures += 1
        if self._failures <= self._named:
            self._print(f"group {group} not scored ({kind}): {command_words(reason)}")

    def started(self, groups: int | None) -> None:
        """Note the number of groups, and draw the lines in mode `bar`."""
        self._total, self._began = groups, time.monotonic()
        self._rate = _Rate(self._began)
        if self._mode == "bar":
            self._lines = self._lines or _TwoLines()
            self._draw(Summary(), self._began)

    def advanced(self, summary: Summary) -> None:
        """Move the bar, a few times a second at most."""
        self.summary = summary
        if self._lines is not None:
            now = time.monotonic()
            if now - self._drawn >= _REDRAW_INTERVAL:
                self._draw(summary, now)

    def tick(self, summary: Summary, status: Status) -> None:
        """Draw the lines again, or print one every 30 seconds."""
        self.summary = summary
        now, asked = time.monotonic(), summary.groups - summary.kept
        if (
            asked or status.requests_per_minute
        ):  # the time of cached groups before the first call is no rate
            self._rate.update(now, asked)
        else:
            self._rate = _Rate(now)
        self._facts, self._waits = (
            _parts(summary, status, self._total),
            bool(status.why),
        )
        if self._lines is not None:
            self._draw(summary, now)
        elif self._mode == "log" and now - self._last >= _LOG_INTERVAL:
            self._last = now
            done = ", ".join(
                _amounts(
                    summary.groups, self._total, self._left(summary), self._rate.value
                )
            )
            print_note("; ".join(filter(None, (done, ", ".join(self._facts)))))

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
        self._print(
            f"judge on group {group}: {text or '(an empty reply)'}", print_stderr
        )

    def close(self) -> None:
        """Remove the lines and print how many problems were not named."""
        if self._lines is not None:
            self._lines.clear()
            self._lines = None
        totals = (
            (self.problems, "lines that cannot be read"),
            (self._failures, "groups not scored"),
        )
        for number, what in totals:
            if number > self._named:
                print_note(f"… and {number - self._named:.0f} more {what}")

    def _draw(self, summary: Summary, now: float) -> None:
        self._drawn = now
        if self._lines is not None:
            width = (stderr_columns() or shutil.get_terminal_size().columns) - 1
            left, elapsed = self._left(summary), now - self._began
            first = bar_line(
                summary.groups, self._total, left, self._rate.value, elapsed, width
            )
            waits = [
                next(wrap(fact, width)) for fact in self._facts[: self._waits]
            ]  # a cause may be long
            self._lines.draw(
                first, fitting([*waits, *self._facts[self._waits :]], width)
            )

    def _left(self, summary: Summary) -> float | None:
        """Return the seconds until the end, None if they are not known."""
        if self._total is None or not self._rate.value:
            return None
        return max(0, self._total - summary.groups) / self._rate.value

    def _print_once(self, text: str) -> None:
        """Print a line, unless it was printed before: a run on Ray reads INPUT twice."""
        if text not in self._printed:
            self._printed.add(text)
            self._print(text)

    def _print(self, text: str, print_: Callable[[str], None] = print_wrapped) -> None:
        """Print a sentence above the two lines."""
        if self._lines is None:
            print_(text)
        else:
            self._lines.clear()
            print_(text)
            self._lines.draw_again()


class _TwoLines:
    """Two lines at the end of what is printed on a terminal, drawn over themselves.

    The cursor stays at their beginning: if the terminal becomes narrower and breaks them anew, the next
    drawing covers all of it.
    """

    def __init__(self) -> None:
        self._text = ""

    def draw(self, first: str, second: str) -> None:
        """Draw the lines, which must be narrower than the terminal."""
        self._text = f"\r{first}\x1b[K\n{second}\x1b[J\r\x1b[A"
        self.draw_again()

    def draw_again(self) -> None:
        """Draw the same lines once more."""
        self._write(self._text)

    def clear(self) -> None:
        """Remove the lines."""
        self._write("\r\x1b[J")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that is gone must not end the run
            sys.stderr.write(text)
            sys.stderr.flush()


class _Rate:
    """Groups per second, smoothed: those of the last minute count most."""

    def __init__(self, now: float = 0.0) -> None:
        self._at, self._done = now, 0
        self._groups = self._seconds = 0.0

    def update(self, now: float, done: int) -> None:
        """Count `done` groups in all until `now`, in seconds."""
        faded = math.exp((self._at - now) / _SMOOTHING)
        self._groups = self._groups * faded + done - self._done
        self._seconds = self._seconds * faded + now - self._at
        self._at, self._done = now, done

    @property
    def value(self) -> float | None:
        """Return groups per second; None before the first group."""
        return (
            self._groups / self._seconds if self._done and self._seconds > 0 else None
        )


def bar_line(
    done: int,
    total: int | None,
    left: float | None,
    rate: float | None,
    elapsed: float,
    width: int,
) -> str:
    """Return the first line: the bar and what fits beside it in `width` columns; `left`, `elapsed` in s."""
    from tqdm import tqdm

    amounts = _amounts(done, total, left, rate)
    if not total or rate is None:
        amounts.insert(1, f"{tqdm.format_interval(elapsed)} elapsed")
    if not total:
        return fitting(amounts, width)
    bar = width - len("100% || ")
    while len(amounts) > 1 and len(", ".join(amounts)) > bar - _LEAST_BAR:
        amounts.pop()
    beside = ", ".join(amounts)
    if len(beside) > bar - _LEAST_BAR // 2:
        return fitting([f"{min(done, total) / total:.0%} of {total}"], width)
    form = "{percentage:3.0f}% |{bar}| " + beside
    return str(
        tqdm.format_meter(
            min(done, total),
            total,
            elapsed,
            ncols=width,
            bar_format=form,
            ascii=_ascii(),
        )
    )


def _amounts(
    done: int, total: int | None, left: float | None, rate: float | None
) -> list[str]:
    """Return the groups that are done, the time that is left, and the groups per second; the first most."""
    from tqdm import tqdm

    amounts = [f"{done} of {count(total, 'group')}" if total else count(done, "group")]
    if left is not None and done < (total or 0):
        amounts.append(f"{tqdm.format_interval(math.ceil(left))} left")
    if rate is not None:
        amounts.append(
            f"{rate:.1f} groups/s" if rate >= 1 else f"{60 * rate:.1f} groups/min"
        )
    return amounts


def _ascii() -> bool:
    try:
        "█▏".encode(sys.stderr.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


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
