"""stderr: sentences, problems and progress; control characters never reach a terminal raw."""

from __future__ import annotations

import errno
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

import typer

from ruler_cli.errors import InterruptedRun, ReaderGone, RulerError
from ruler_cli.observer import Observer, Status, Summary
from ruler_cli.records import Problem

if TYPE_CHECKING:
    from tqdm import tqdm

Progress = Literal["auto", "bar", "log", "none"]
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What could move a terminal's cursor or colour, or turn what stands on it around."""
_NAMED = 20
"""How many problems and failures are named one by one; the rest is counted."""
_EVERY = 30.0
"""Seconds between two progress lines where there is no terminal."""


def safe(text: str) -> str:
    """Text with what could move a terminal's cursor or colour shown as escapes."""
    return UNSAFE.sub(lambda c: f"\\x{ord(c[0]):02x}" if ord(c[0]) < 256 else f"\\u{ord(c[0]):04x}", text)


def safe_value(value: Any) -> Any:
    """A value whose texts can be written as UTF-8 and read on a terminal."""
    if isinstance(value, dict):
        return {safe_value(key): safe_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [safe_value(item) for item in value]
    return safe(value) if isinstance(value, str) else value


def say(text: str) -> None:
    """One line on stderr."""
    with suppress(OSError):  # a terminal or pipe that is gone must not end the run
        typer.echo(safe(text).replace("\n", "\\n").replace("\t", "\\t"), err=True)


@contextmanager
def told(resume: str | None = None) -> Iterator[None]:
    """Turn what stops a command into one sentence and its exit code."""
    try:
        yield
    except RulerError as error:
        if not isinstance(error, ReaderGone):
            say(f"ruler: {error}")
            if resume and error.exit_code != 2:
                say(f"ruler: to go on: {resume}")
        if isinstance(error, ReaderGone):
            sys.stdout = None
        if isinstance(error, InterruptedRun):
            # at once: a thread may wait for a pipe that nobody reads or writes any more
            with suppress(OSError, AttributeError):
                sys.stderr.flush()
            os._exit(error.exit_code)
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # nobody reads any more; a traceback at exit would be all that is left to see
        sys.stdout = None
        raise typer.Exit(0) from None
    except MemoryError:
        say("ruler: a record, or what it is packed in, is too large for the memory there is")
        raise typer.Exit(1) from None
    except OSError as error:  # a name too long, no room for what waits on disk: no module can foresee all
        where = f"{error.filename}: " if error.filename else ""
        room = "; make room, or name another directory for what waits on disk with TMPDIR"
        say(f"ruler: {where}{error.strerror or error}{room if error.errno == errno.ENOSPC else ''}")
        raise typer.Exit(2 if error.filename else 1) from None


class Console(Observer):
    """Shows a run on stderr: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, progress: Progress, source: str, named: float = _NAMED) -> None:
        """`source` is how INPUT is called in messages; `named` problems are told one by one."""
        self._mode = (
            progress if progress != "auto" else ("bar" if sys.stderr and sys.stderr.isatty() else "log")
        )
        self._source, self._most = source, named
        self._problems = self._failures = 0
        self._said = set[str]()
        self._total: int | None = None
        self._bar: tqdm[Any] | None = None
        self._last = time.monotonic()

    def note(self, sentence: str) -> None:
        """Show a sentence, once, unless progress is off."""
        if self._mode != "none":
            self._once(f"ruler: {sentence}")

    def warn(self, sentence: str) -> None:
        """Show a warning, once."""
        self._once(f"ruler: warning: {sentence}")

    def problem(self, problem: Problem) -> None:
        """Name what could not be read."""
        self._problems += 1
        self._named(self._problems, f"{self._source}: {problem.where} {problem.reason}")

    def failed(self, group: str, kind: str, reason: str) -> None:
        """Name a group that could not be scored."""
        self._failures += 1
        self._named(self._failures, f"group {group} not scored ({kind}): {reason}")

    def started(self, groups: int | None) -> None:
        """Open the bar where there is one."""
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
        """Show the state on the bar, or as a line when it is time."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.set_postfix_str(_state(summary, status, self._total), refresh=True)
        elif self._mode == "log" and time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            of = f" of {self._total}" if self._total else ""
            say(f"ruler: {summary.groups}{of} groups; {_state(summary, status, self._total)}")

    def stopping(self, in_flight: int, grace: float) -> None:
        """Say what is waited for."""
        if in_flight and self._mode != "none":
            calls = count(in_flight, "call")
            self._line(f"ruler: stopping: up to {grace:g} s for {calls} in flight; Ctrl-C stops at once")

    def replied(self, group: str, text: str) -> None:
        """Show a judge's reply."""
        self._line(f"judge on group {group}: {text}")

    def close(self) -> None:
        """Close the bar and say what was not named."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None
        more = ((self._problems, "lines that cannot be read"), (self._failures, "groups not scored"))
        for number, what in more:
            if number > self._most:
                say(f"ruler: … and {number - self._most:.0f} more {what}")

    def _named(self, number: int, sentence: str) -> None:
        if number <= self._most:
            self._line(f"ruler: {sentence}")

    def _once(self, text: str) -> None:
        """Show a line, unless it was shown before: a run on Ray reads INPUT twice."""
        if text not in self._said:
            self._said.add(text)
            self._line(text)

    def _line(self, text: str) -> None:
        write: Callable[[str], None] = say
        if self._bar is not None:
            with suppress(OSError):
                self._bar.clear()
        write(text)


def closing(summary: Summary) -> list[str]:
    """The closing block: what the run did, for a person."""
    groups = count(max(summary.total or 0, summary.groups), "group")
    inside = f"{count(summary.rollouts, 'rollout')}, {count(summary.written, 'record')}"
    out = [f"{summary.scored} of {groups} scored ({inside}) in {summary.seconds:.1f} s"]
    failed = ", ".join(f"{number} {kind}" for kind, number in sorted(summary.failed.items()))
    if failed:
        out.append(f"not scored: {failed}")
    notes = (
        (summary.failed_before, "group", "failed in an earlier run, not asked again; --retry-failed does"),
        (summary.kept - summary.failed_before, "group", "answered from the ledger, without a call"),
        (summary.unanswered, "request", "not in the ledger: `ruler render` or `ruler batch submit` has them"),
        (summary.unreadable, "line or trajectory", "not readable"),
        (summary.tied, "group", "without relative signal (tied)"),
        (summary.windowed, "group", "shown in windows"),
        (summary.escalated, "group", "scored by the stronger judge"),
        (summary.suspect, "rollout", "with text that addresses a judge (suspect)"),
        (summary.rescaled, "reply", "on a scale to 10, rescaled"),
        (summary.unknown_ids, "unknown id", "in replies, ignored"),
        (summary.shortened, "group", "shortened to fit the judge"),
    )
    out += [f"{count(number, what)} {said}" for number, what, said in notes if number]
    out += _indifferent(summary)
    if summary.figures is not None:
        from ruler_cli.cli.figures import lines

        out += lines(summary.figures)
    usage = summary.usage
    cost = "cost unknown" if summary.cost_usd is None else f"${summary.cost_usd:.4f}"
    tokens = f"{usage.prompt} prompt + {usage.completion} completion tokens"
    out.append(f"{count(usage.calls, 'call')}, {tokens}, {cost}")
    if summary.retried:
        tried = ", ".join(f"{number} {kind}" for kind, number in summary.retried.items())
        out.append(f"{count(sum(summary.retried.values()), 'call')} had to be tried again: {tried}")
    if summary.unsure_usd:
        out.append(f"calls that told no usage may have cost up to ${summary.unsure_usd:.4f} more")
    return out


def _indifferent(summary: Summary) -> list[str]:
    """The line on a judge that says nothing: of over a third of the groups with something to compare."""
    compared = summary.scored - summary.alone
    if 3 * summary.one_score <= compared:
        return []
    several = summary.figures is not None and summary.figures.judges
    who = "these judges do" if several else "this judge does"
    return [
        f"{summary.one_score} of {count(compared, 'group')} got the same score for every rollout: {who} not "
        "tell them apart; another judge (-m) or rubric (--rubric) may, more passes hardly will"
    ]


def count(number: int, what: str) -> str:
    """A number with its noun."""
    if number == 1:
        return f"1 {what}"
    plural = {"reply": "replies", "batch": "batches", "line or trajectory": "lines or trajectories"}.get(
        what, f"{what}s"
    )
    return f"{number} {plural}"


def _state(summary: Summary, status: Status, total: int | None) -> str:
    failed = sum(summary.failed.values())
    parts = [
        f"{summary.kept} kept" if summary.kept else "",
        f"{failed} failed" if failed else "",
        f"{status.in_flight} of {status.limit} calls in flight",
        f"{status.requests_per_minute:.0f} requests and {_short(status.tokens_per_minute)} tokens per minute",
        _money(summary, total),
        f"waiting {math.ceil(status.waiting)} s {status.why}" if status.why else "",
    ]
    return ", ".join(filter(None, parts))


def _money(summary: Summary, total: int | None) -> str:
    """What is spent, and what all of it will come to if the rest costs as much as what was asked for."""
    asked = summary.groups - summary.kept
    if not summary.cost_usd or not asked:
        return ""
    left = (total or 0) - summary.groups
    expected = f" of about ${summary.cost_usd * (1 + left / asked):.2f}" if left > 0 else ""
    return f"${summary.cost_usd:.2f}{expected}"


def _short(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.0f}"
