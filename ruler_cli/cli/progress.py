"""Progress and problems of a run on stderr."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from ruler_cli.cli.messages import print_note, print_stderr
from ruler_cli.cli.safe_text import one_line
from ruler_cli.cli.units import count, short, usd
from ruler_cli.files.location import Location
from ruler_cli.settings.keys import hide_keys
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

Progress = Literal["auto", "bar", "log", "none"]
_NAMED = 20
"""Problems, and groups not scored, that are named one by one; the rest is counted."""
_LOG_INTERVAL = 30.0
"""Seconds between two progress lines where there is no terminal."""
_BAR_INTERVAL = 0.1
"""Seconds between two drawings of a bar."""
_COUNTER_DELAY = 1.0
"""Seconds before `group_counter` shows anything."""
_UNIT = "group"
_BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}"
_COUNTED = "groups: {n_fmt} [{elapsed}, {rate_fmt}{postfix}]"
"""The bar if the number of all groups is not known."""
_BRIEF = _BAR + " [{elapsed}<{remaining}{postfix}]"
_FULL = _BRIEF.replace("{postfix}", ", {rate_fmt}{postfix}")
_FORMS = (
    *((_FULL, most) for most in range(8, 0, -1)),
    *((_BRIEF, most) for most in range(2, -1, -1)),
    (_BAR, 0),
)
"""Forms of a bar of ten cells, in tqdm's words, and the most facts in it, each shorter than the one before."""
_CLEAR = "\r\x1b[K"
"""Clears the line of a terminal."""


class Problems:
    """Problems in sentences: the `first` are printed at once, the rest is counted."""

    def __init__(
        self, what: str, print_: Callable[[str], object] = print_note
    ) -> None:
        """`what` names a further one of them."""
        self._what = what
        self._print = print_
        self.number = 0
        self.first: list[str] = []

    def add(self, sentence: str, *, known: bool = False) -> None:
        """Add a problem; one that is `known` already is counted alone."""
        self.number += 1
        if len(self.first) < _NAMED and not known:
            self.first.append(sentence)
            self._print(sentence)

    def close(self) -> None:
        """Print how many were not printed."""
        if more := self.number - len(self.first):
            print_note(f"… and {count(more, self._what)}")


class Console(Observer):
    """An observer that shows a run on stderr: a bar on a terminal, elsewhere a line every 30 seconds."""

    def __init__(self, progress: Progress, source: str) -> None:
        """`source` is INPUT."""
        self._mode = progress
        if sys.stderr is None:  # closed, with `2>&-`
            self._mode = "none"
        elif progress == "auto":
            drawn = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
            self._mode = "bar" if drawn else "log"
        self._source = Location(source).shown
        self._unreadable = Problems("more unreadable line", self._print)
        self._unscored = Problems("more group not scored", self._print)
        self._printed = set[str]()
        self._waits_for = set[str]()
        self._began = self._last = time.monotonic()
        self._total: int | None = None
        self._status: Status | None = None
        self.summary = Summary()
        """The counts of the run, as they are known by now."""

    def note(self, sentence: str) -> None:
        """Show a sentence, once, unless progress is off."""
        if self._mode != "none":
            self._print_once(str(sentence))

    def warn(self, sentence: str) -> None:
        """Show a warning, once."""
        self._print_once(f"warning: {sentence!s}")

    def _print_once(self, text: str) -> None:
        """Print a line, unless it was printed before: each worker of Ray may warn of the same."""
        if text not in self._printed:
            self._printed.add(text)
            self._print(text)

    def problem(self, problem: Problem) -> None:
        """Name a line or trajectory that cannot be read."""
        reason = str(problem.reason)
        self._unreadable.add(f"{self._source}: {problem.where} {reason}")

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Name the first group that is not scored for a reason; the end counts the others, and those of the cap."""
        if kind != "budget":
            why = f"not scored ({kind}): {reason!s}"
            # a reason with a number of its own may come a million times
            known = any(each.endswith(why) for each in self._unscored.first)
            self._unscored.add(f"group {group} {why}", known=known)

    def started(self, groups: int | None) -> None:
        """Note the number of groups."""
        self._total = groups
        self._began = time.monotonic()

    def advanced(self, summary: Summary) -> None:
        """Draw the bar again, a few times a second at most."""
        self.summary = summary
        if self._mode == "bar" and self._due(_BAR_INTERVAL):
            columns = 80
            with suppress(OSError):  # stdout may be a file
                size = os.get_terminal_size(sys.stderr.fileno())
                columns = size.columns or columns  # 0: nobody said it
            _write(_CLEAR + self._line(columns - 1))

    def tick(self, summary: Summary, status: Status) -> None:
        """Draw the bar again, or print a line every 30 seconds."""
        self._status = status
        self.advanced(summary)
        if self._mode == "log" and self._due(_LOG_INTERVAL):
            print_note(self._line().strip())

    def _due(self, interval: float) -> bool:
        """Return whether a line is to be shown again."""
        now = time.monotonic()
        due = now - self._last >= interval
        if due:
            self._last = now
        return due

    def _line(self, columns: int | None = None) -> str:
        """Return the state of the run in a line; of a bar facts are left out, the least needed first, until it fits."""
        from tqdm import tqdm
        from tqdm.utils import disp_len

        facts = []
        if self._status is not None:
            facts = _facts(self.summary, self._status)
        line = ""
        for form, most in _FORMS:
            shown = facts[:most]
            if most <= 3:  # the reason of a wait is needed less
                shown = [fact.partition(": ")[0] for fact in shown]
            line = tqdm.format_meter(
                self.summary.groups,
                self._total or 0,
                time.monotonic() - self._began,
                ncols=0 if columns is None else None,
                unit=_UNIT,
                initial=self.summary.kept,
                bar_format=(form if columns else None)
                if self._total
                else _COUNTED,
                postfix=", ".join(shown),
            )
            if columns is None or disp_len(line) <= columns:
                break
        return line

    def waiting(self, judge: str, why: str, seconds: float) -> None:
        """Warn of a wait for a judge when it begins; the progress lines have it later."""
        if judge not in self._waits_for:
            self._waits_for.add(judge)
            self._print(f"warning: {wait_sentence(str(why), seconds)}")

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
        """Remove the bar and print how many problems were not named."""
        if self._mode == "bar":
            _write(_CLEAR)
        self._unreadable.close()
        self._unscored.close()

    def _print(
        self, text: str, print_: Callable[[str], None] = print_note
    ) -> None:
        """Print a sentence in the place of the bar."""
        if self._mode == "bar":
            _write(_CLEAR)
        print_(text)


def _write(text: str) -> None:
    """Write to a terminal, which may be gone: that must not end the run."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def _facts(summary: Summary, status: Status) -> list[str]:
    """Return the facts of a run, the most needed first."""
    why = one_line(hide_keys(str(status.why)))
    seconds = f" {math.ceil(status.waiting)} s" if status.waiting else ""
    failed = sum(summary.failed.values())
    requests = count(round(status.requests_per_minute), "request")
    facts = {
        f"waiting{seconds}: {why}": why,
        usd(summary.cost_usd or 0): summary.cost_usd,
        f"{failed:,} failed": failed,
        f"{status.in_flight} of {status.limit} calls in flight": status.limit,
        f"{status.retrying} to try again": status.retrying,
        f"{summary.kept:,} from the ledger": summary.kept,
        f"{requests}/min": status.requests_per_minute,
        f"{short(status.tokens_per_minute)} tokens/min": status.tokens_per_minute,
    }
    return [fact for fact, value in facts.items() if value]


def group_counter() -> tqdm[Any]:
    """Return a bar that counts groups on a terminal, each with `update`; it is removed at the end."""
    from tqdm import tqdm

    drawn = sys.stderr is not None and sys.stderr.isatty()
    return tqdm(
        unit=_UNIT,
        bar_format=_COUNTED,
        leave=False,
        delay=_COUNTER_DELAY,
        disable=not drawn,
    )
