"""Print pages with tables on stdout, in its width, colours and characters; each cell is safe to print."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ruler_cli.cli.safe_text import visible
from ruler_cli.errors import UsageError

BAD = "red"
MUTED = "dim"
TITLE = "bold"
NOTE = "yellow"
_SCORES = 8
"""Scores of a group in a list; of more, the ends."""
_NARROW = 0.3
"""The share of the terminal's width that the key of a group, or the name of a fact, may have."""
_NARROWEST, _WIDEST = 10, 9_999
_VARIATION = re.compile("[\ufe0e\ufe0f]")
"""Variation selectors: they make a picture of the character before, or text."""


class Terminal:
    """A rich console for stdout; no line is wider than `width`.

    Colours are for a terminal, or for any stdout with FORCE_COLOR; NO_COLOR turns all styles off.
    """

    def __init__(self) -> None:
        if sys.stdout is None:
            raise UsageError("stdout is closed")
        # what COLUMNS says, else the terminal's, else 80
        columns = shutil.get_terminal_size((80, 24)).columns
        self.width = min(max(columns, _NARROWEST), _WIDEST)
        self._narrow = max(12, int(self.width * _NARROW))
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._console = Console(
            file=sys.stdout,
            width=self.width,
            height=100,  # with both a dumb terminal is measured, too
            # without it bold text goes, too
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def foreign(
        self,
        text: str,
        *,
        lines: bool = False,
    ) -> str:
        """Return text of a file with escapes for what is unseen.

        The text is one line, with its line breaks as escapes, unless `lines` are allowed.
        """
        if lines:
            return visible(_VARIATION.sub("", text)).expandtabs(4)
        return visible(text).replace("\n", "\\n").replace("\t", "\\t")

    def text(
        self,
        text: str,
        style: str = "",
        *,
        lines: bool = False,
    ) -> Text:
        """Return the same as a text of rich."""
        return Text(self.foreign(text, lines=lines), style)

    def show(
        self,
        *parts: RenderableType,
    ) -> None:
        """Print parts of a page, one below another."""
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part)
        # a `?` for each character that the terminal does not have
        shown = (
            captured.get()
            .encode(self.encoding, "replace")
            .decode(self.encoding)
        )
        for line in shown.splitlines():
            sys.stdout.write(line.rstrip() + "\n")
        sys.stdout.flush()

    def section(
        self,
        *parts: RenderableType,
        title: str = "",
        indent: int = 0,
    ) -> None:
        """Print a section of a page below a blank line, unless there is nothing in its tables."""
        shown = []
        for part in parts:
            if not isinstance(part, Table) or part.row_count:
                shown.append(Padding(part, (0, 0, 0, indent)))
        if shown:
            heading = [Text(title, TITLE)] if title else []
            self.show("", *heading, *shown)

    def table(
        self,
        heads: Sequence[Column | str],
        rows: Iterable[Sequence[RenderableType]],
    ) -> Table:
        """Make a table; a cell that is a string may be foreign text. Columns without any text are left out."""
        cells = [
            [self.text(cell) if isinstance(cell, str) else cell for cell in row]
            for row in rows
        ]
        shown = [i for i in range(len(heads)) if any(row[i] for row in cells)]
        columns = [heads[i] for i in shown]
        result = Table(
            *columns,
            box=None,
            padding=(0, 2, 0, 0),
            pad_edge=False,
            show_header=any(
                isinstance(column, str) or column.header for column in columns
            ),
            header_style=MUTED,
        )
        for row in cells:
            result.add_row(*[row[i] for i in shown])
        return result

    def numbers(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[RenderableType]],
    ) -> Table:
        """Make a table of names with numbers behind them."""
        name, *others = heads
        columns = [Column(name, overflow="fold")]
        for head in others:
            columns.append(Column(head, justify="right"))
        return self.table(columns, rows)

    def facts(
        self,
        rows: Iterable[tuple[str, str]],
        **styles: str,
    ) -> Table:
        """Make a table of names and sentences, without empty ones; `styles` are by name."""
        # a name may be a criterion's whole text
        heads = (
            Column(style=MUTED, max_width=self._narrow, overflow="fold"),
            Column(overflow="fold"),
        )
        cells = []
        for name, sentence in rows:
            if sentence:
                style = styles.get(name, "")
                cells.append((name, self.text(sentence, style)))
        return self.table(heads, cells)

    def groups(
        self,
        heads: Sequence[str],
        rows: Iterable[tuple[str, Sequence[RenderableType]]],
    ) -> Table:
        """Make a table of groups: of each its key, a reason that is not folded, and more."""
        key = Column(
            "group",
            no_wrap=True,
            max_width=self._narrow,
            overflow="ellipsis",
        )
        columns = [key]
        for head in heads:
            columns.append(Column(head, overflow="fold"))
        cells = [(self.text(key), *row) for key, row in rows]
        return self.table(columns, cells)


def in_short(
    numbers: Sequence[float | None],
    form: str = "z.2f",
) -> str:
    """Write numbers in a line: none as a dash, and of many the ends; empty if all are None."""
    if all(number is None for number in numbers):
        return ""
    words = []
    for number in numbers:
        word = "-" if number is None else f"{number:{form}}"
        words.append(word.removeprefix("0") if form == "z.2f" else word)
    if len(words) > _SCORES:
        words[_SCORES // 2 : -_SCORES // 2] = ["…"]
    return " ".join(words)
