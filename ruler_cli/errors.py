"""Errors that end a run, or a record: values with a place, a problem and a remedy."""

from __future__ import annotations

import copy
import copyreg
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

_STOPPED = "stopped"
"""The place of an error with which the user stops a run."""


class RulerError(Exception):
    """An error that ends a run; its text is one sentence with a remedy, and names options as the command line does.

    Its parts: the `place` (a file and a line, an option and its value, a judge), the `problem` there, and the
    `remedy`. Each but the problem may be empty.
    """

    exit_code = 1
    resumable = True
    """The same command goes on."""

    def __init__(
        self, problem: str, remedy: str = "", *, place: str = ""
    ) -> None:
        """Take the parts; the problem alone may be the whole sentence."""
        self.problem = problem
        self.remedy = remedy
        self.place = place
        super().__init__(problem)

    def __str__(self) -> str:
        """Return the whole sentence."""
        return self.brief + (f"; {self.remedy}" if self.remedy else "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the parts in a copy or a pickle: `__init__` of some errors makes them from numbers."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # of protocol 2

    @property
    def brief(self) -> str:
        """The sentence without the remedy."""
        return f"{self.place}: {self.problem}" if self.place else self.problem

    @property
    def reason(self) -> str:
        """The sentence, without the prefix that says that a run stopped."""
        return str(self).removeprefix(f"{_STOPPED}: ")

    def with_parts(self, **parts: str) -> Self:
        """Return a copy with other parts."""
        changed = copy.copy(self)
        vars(changed).update(parts)
        return changed


class UsageError(RulerError):
    """Bad usage or unreadable input; nothing was sent.

    Unless a stream turns out late to have groups that are not adjacent.
    """

    exit_code = 2
    resumable = False


class WrongShapeError(UsageError, TypeError):
    """An argument of a Python function is of another kind than it takes; nothing was sent."""


class UnknownShapeError(UsageError):
    """No format fits INPUT; `values` are its first records, from which a row may be proposed."""

    values: Sequence[Any] = ()


class NothingToCompare(UsageError):  # noqa: N818 - the input is no error by itself
    """No group of INPUT has two rollouts that differ; nothing was sent."""

    def __init__(self, key: str) -> None:
        """Take the `key` that makes rollouts one group."""
        alike = f"each has one rollout, or only identical rollouts ({key})"
        super().__init__(
            f"no group of INPUT has anything to compare: {alike}",
            "give the field that rollouts of one task share with --group-by PATH, or score each rollout by itself with "
            "--set single=score",
        )


class ForeignError(UsageError):
    """A file of a kind without records; a directory is read without it."""


class InputChanged(RulerError):  # noqa: N818 - as the next ones
    """INPUT changed after the run began; every record that was written before is whole."""

    def __init__(self, name: str, reason: str) -> None:
        """Take the name of INPUT, and the place that differs or the error of the reading as the reason."""
        problem = f"changed while it was read ({reason})"
        super().__init__(
            problem, "run again once no program writes to it", place=name
        )


class RefusedError(RulerError):
    """The judge refused the whole run: key, quota, unknown model, unreachable."""

    exit_code = 3


class NoUsableReply(RefusedError):  # noqa: N818 - the judge answered
    """None of the first groups that were sent to the judges in this run got a score."""

    resumable = False

    def __init__(self, groups: int, reason: str = "", first: int = 1) -> None:
        """Take the number of groups, the reason of the last one, and the number of the first one in INPUT."""
        problem = (
            f"of the first {groups} groups sent to the judge, none was scored"
        )
        if reason:
            problem += f", the last because {reason}"
        super().__init__(problem, place=_STOPPED)
        self.first = first


class OutputError(RulerError):
    """OUTPUT could not be written to its end."""


class TooManyFailures(RulerError):  # noqa: N818 - the run stops as the user asked
    """More failed than the user allows."""

    def __init__(self, allowed: str) -> None:
        """Take the bound as the user gave it."""
        problem = f"more failed than --max-failures {allowed} allows"
        remedy = "raise the limit, or ask again what the judge refused with --retry-failed"
        super().__init__(problem, remedy, place=_STOPPED)


class CapReached(RulerError):  # noqa: N818 - the run stops as the user asked
    """The next call could have cost more than the user allows."""

    exit_code = 4

    def __init__(
        self, cap: float, left: int, cut: int = 0, least: float | None = None
    ) -> None:
        """`cap` in USD; `left` groups could not be judged for it, `cut` lack some of their passes.

        `least` is what the cheapest of them may cost, in USD: above the cap, another run would do the same.
        """
        groups = "1 group is" if left == 1 else f"{left} groups are"
        fewer = f", {cut} scored by fewer passes than asked for" if cut else ""
        reached, advice = (
            "reached",
            "raise it, or spend as much again in a new run or Scorer",
        )
        if least is not None and least > cap:
            self.resumable = False
            reached = "less than any remaining group may cost"
            advice = f"use {1.1 * least:.2g} or more"  # two digits, never rounded to less than its cost
        problem = f"--max-cost {cap:g} is {reached}: {groups} not scored{fewer}"
        super().__init__(problem, advice)


class ReaderGone(RulerError):  # noqa: N818 - the end of a pipe is no error
    """The reader of stdout is gone (`| head`)."""

    exit_code = 0

    def __init__(self) -> None:
        """Take no arguments: there is one message."""
        super().__init__("nobody reads stdout any more")


class InterruptedRun(RulerError):  # noqa: N818 - an interruption is no error
    """A signal stopped the run; `exit_code` is 128 + its number, as in shells."""

    def __init__(self, signum: int, outage: str = "") -> None:
        """Take the number of the signal, and the sentence on a judge that was down."""
        super().__init__(f"interrupted; {outage}" if outage else "interrupted")
        self.signum, self.exit_code = signum, 128 + signum


class UnreadableError(Exception):
    """A record, or one trajectory of it, cannot be read; counted, never fatal to the rest."""

    def __init__(self, reason: str) -> None:
        """Take the reason, which may name options."""
        super().__init__(reason)
        self.reason = reason


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def system_problem(error: OSError) -> tuple[str, str]:
    """Return the problem of an error of the system, and the remedy if one is known."""
    full = error.errno in _DISK_FULL
    return error.strerror or str(error), "make room" if full else ""


@contextmanager
def system_errors(
    verb: str, kind: type[RulerError], remedy: str = "", *, place: str = ""
) -> Iterator[None]:
    """Turn an error of the system into one of a kind."""
    try:
        yield
    except OSError as error:
        problem, advice = system_problem(error)
        raise kind(
            f"cannot be {verb}: {problem}", remedy or advice, place=place
        ) from None
    except UnicodeDecodeError:
        raise kind(
            "is not UTF-8 text", remedy or "save it as UTF-8", place=place
        ) from None
