"""What can go wrong, as sentences with an address and a way out.

RulerError            a run that cannot go on; carries the exit code
├── UsageError        2  bad usage or unreadable input; nothing was sent, unless a stream shows late
│                        that its groups are not adjacent
├── RefusedError      3  the judge refused the run (key, quota, unknown model, unreachable)
├── OutputError       1  OUTPUT could not be written to its end
└── InterruptedRun    130 or 143  Ctrl-C or SIGTERM
UnreadableError       one record that cannot be read; counted, never fatal to the rest
"""

from __future__ import annotations


class RulerError(Exception):
    """A run that cannot go on; the message is one sentence with a way out."""

    exit_code = 1


class UsageError(RulerError):
    """Bad usage or unreadable input."""

    exit_code = 2


class RefusedError(RulerError):
    """The judge refused the whole run."""

    exit_code = 3


class OutputError(RulerError):
    """OUTPUT could not be written to its end."""


class InterruptedRun(RulerError):  # noqa: N818 - an interruption is no error
    """The run was told to stop; `exit_code` is 128 + the signal's number, as shells have it."""

    def __init__(self, signum: int) -> None:
        """`signum` is the signal that came."""
        super().__init__("interrupted; what is whole so far is kept in OUTPUT.partial")
        self.exit_code = 128 + signum


class UnreadableError(Exception):
    """A record, or one trajectory of it, that cannot be read; the message is the reason."""
