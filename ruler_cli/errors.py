"""Errors that end a run, or a record: each is one sentence with an address and a way out."""

from __future__ import annotations

import copyreg
from typing import Any


class RulerError(Exception):
    """A run cannot go on; the message is one sentence with a way out."""

    exit_code = 1
    resumable = True
    """The same command goes on."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the sentence in a copy or a pickle: `__init__` of some errors makes it from numbers."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # of protocol 2


class UsageError(RulerError):
    """Bad usage or unreadable input; nothing was sent.

    Unless a stream turns out late to have groups that are not adjacent.
    """

    exit_code = 2
    resumable = False


class WrongShapeError(UsageError, TypeError):
    """An argument of a Python function is of another kind than it takes; nothing was sent."""


class NothingToCompare(UsageError):  # noqa: N818 - the input is no error by itself
    """No group of INPUT has two rollouts that differ; nothing was sent."""

    def __init__(self, key: str) -> None:
        """`key` says what makes rollouts one group."""
        super().__init__(
            "no group of INPUT has anything to compare: each has one rollout, or rollouts that are all alike "
            f"({key}); name what the rollouts of one task share with --group-by PATH, or have each scored by "
            "itself with --single score"
        )


class ForeignError(UsageError):
    """A file of a kind without records; a directory is read without it."""


class InputChanged(RulerError):  # noqa: N818 - as the next ones
    """INPUT is not what it was when the run began; what was written by then is whole."""

    def __init__(self, name: str, reason: str) -> None:
        """`name` is that of INPUT, `reason` the place that differs, or why it cannot be read any more."""
        super().__init__(f"{name}: changed while it was read ({reason}); run again when no program writes it")


class RefusedError(RulerError):
    """The judge refused the whole run: key, quota, unknown model, unreachable."""

    exit_code = 3


class NoUsableReply(RefusedError):  # noqa: N818 - the judge answered
    """None of the first groups that the judges were asked about in this run got a score."""

    resumable = False

    def __init__(self, groups: int, reason: str = "", first: int = 1) -> None:
        """`reason` is that of the last of so many `groups`; the `first` of them has this number in INPUT."""
        why = f", the last because {reason}" if reason else ""
        super().__init__(f"stopped: none of the first {groups} groups that were asked about got a score{why}")
        self.first = first


class OutputError(RulerError):
    """OUTPUT could not be written to its end."""


class TooManyFailures(RulerError):  # noqa: N818 - the run stops as the user asked
    """More failed than the user allows."""

    def __init__(self, allowed: str) -> None:
        """`allowed` is the value of --max-failures, as given."""
        super().__init__(
            f"stopped: more failed than --max-failures {allowed} allows; allow more, or have what failed "
            "asked again with --retry-failed"
        )


class CapReached(RulerError):  # noqa: N818 - the run stops as the user asked
    """The next call could have cost more than the user allows."""

    exit_code = 4

    def __init__(self, cap: float, left: int, cut: int = 0, least: float | None = None) -> None:
        """`cap` in USD; `left` groups could not be judged for it, `cut` lack some of their passes.

        `least` is what one call may cost, in USD, if the cap let none go: the same command would do the same.
        """
        groups = "1 group is" if left == 1 else f"{left} groups are"
        fewer = f", {cut} scored by fewer passes than asked for" if cut else ""
        self.resumable = least is None
        if least is None:
            reached, way_out = "reached", "the same command may spend as much again"
        else:
            reached = "less than one call may cost"
            way_out = f"give {1.1 * least:.2g} or more"  # two digits, never rounded to less than the call
        super().__init__(f"--max-cost {cap:g} is {reached}: {groups} not scored{fewer}; {way_out}")


class ReaderGone(RulerError):  # noqa: N818 - the end of a pipe is no error
    """The reader of stdout is gone (`| head`)."""

    exit_code = 0

    def __init__(self) -> None:
        """Take no arguments: there is one message."""
        super().__init__("nobody reads stdout any more")


class InterruptedRun(RulerError):  # noqa: N818 - an interruption is no error
    """A signal stopped the run; `exit_code` is 128 + its number, as in shells."""

    def __init__(self, signum: int, outage: str = "") -> None:
        """`signum` is the number of the signal, `outage` the sentence on a judge that was down."""
        super().__init__(f"interrupted; {outage}" if outage else "interrupted")
        self.signum, self.exit_code = signum, 128 + signum


class UnreadableError(Exception):
    """A record, or one trajectory of it, cannot be read; counted, never fatal to the rest.

    The message is the reason.
    """
