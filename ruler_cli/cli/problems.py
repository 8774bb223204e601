"""What of a scored file cannot be used, named on stderr or listed for a program."""

from __future__ import annotations

from ruler_cli.cli.console import Console
from ruler_cli.records import Problem

_NAMED = 20
"""Problems that are named one by one; the rest is counted."""


class Problems:
    """Names what cannot be used: on stderr at once, or in a list for a program."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console("log", "")
        self.number = 0
        self.first: list[str] = []

    def problem(self, name: str, problem: Problem) -> None:
        """A record that cannot be read."""
        self.tell(f"{name}: {problem.where} {problem.reason}")

    def tell(self, sentence: str) -> None:
        """A sentence."""
        self.number += 1
        if self.number > _NAMED:
            return
        self.first.append(sentence)
        if not self._quiet:
            self._console.note(sentence)

    def left(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        """Where there is no page that could list them, they are told after all."""
        if kind is not None and self._quiet:
            for sentence in self.first:
                self._console.note(sentence)

    def close(self) -> None:
        """Say how many were not named."""
        if self.number > _NAMED and not self._quiet:
            self._console.note(f"… and {self.number - _NAMED} more")
