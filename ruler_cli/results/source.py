"""A scored file that the caller opened, as the modules of this room read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ruler_cli.files.index import OutputOrder
from ruler_cli.formats.reader import Reader
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group


class ScoredSource(Protocol):
    """An open file: its settings, the reader of its records, None if there are none, and its groups, once."""

    settings: InputSettings
    groups: Iterator[Group]

    @property
    def reader(self) -> Reader | None: ...  # noqa: D102

    @property
    def in_order(self) -> bool:
        """Return whether groups come as their records lie in the file."""

    def order(self) -> OutputOrder:
        """Return what brings lines that are written out of order into that of the file."""

    def brief(self) -> str:
        """Describe the file in one line."""
