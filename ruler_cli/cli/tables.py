"""Tables on a terminal: rows of text → a table without lines, each cell safe to print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ruler_cli.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

BAD = "red"
MUTED = "dim"
TITLE = "bold"
NOTE = "yellow"
_SCORES = 8
"""Scores of a group in a list; of more, the ends."""
_KEY = 0.3
"""The share of the terminal's width that the key of a group may have."""


def table(
    heads: Sequence[Column | str],
    rows: Iterable[Sequence[RenderableType]],
    terminal: Terminal,
) -> Table:
    """Make a table; a cell that is a string may be foreign text. Columns without any text are left out."""
    cells = [
        [terminal.text(cell) if isinstance(cell, str) else cell for cell in row]
        for row in rows
    ]
    shown = [i for i in range(len(heads)) if any(row[i] for row in cells)]
    columns = [heads[i] for i in shown]
    result = Table(
        *columns,
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_header=any(isinstance(one, str) or one.header for one in columns),
        header_style=MUTED,
    )
    for row in cells:
        result.add_row(*[row[i] for i in shown])
    return result


def facts(rows: Iterable[tuple[str, str]], terminal: Terminal, **styles: str) -> Table:
    """Make a table of names and sentences, without empty ones; `styles` are by name."""
    heads = (
        Column(style=MUTED, no_wrap=True),
        Column(overflow="fold"),
    )
    cells = []
    for name, sentence in rows:
        if sentence:
            style = styles.get(name, "")
            cells.append((name, terminal.text(sentence, style)))
    return table(heads, cells, terminal)


def groups(
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[RenderableType]]],
    terminal: Terminal,
) -> RenderableType:
    """Make a table of groups: of each its key, a reason that is not folded, and more."""
    width = max(8, int(terminal.width * _KEY))
    key = Column("group", no_wrap=True, max_width=width, overflow="ellipsis")
    columns = [key]
    for i, head in enumerate(heads):
        columns.append(Column(head, no_wrap=not i, overflow="fold"))
    cells = [(Text(terminal.key(key)), *row) for key, row in rows]
    return Padding(table(columns, cells, terminal), (0, 0, 0, 2))


def in_short(numbers: Sequence[float | None], form: str = ".2f") -> str:
    """Write numbers in a line: none as a dash, and of many the ends; empty if all are None."""
    short = ["-" if n is None else f"{n:{form}}" for n in numbers]
    if form == ".2f":
        short = [text.removeprefix("0") for text in short]
    if len(short) > _SCORES:
        short[_SCORES // 2 : -_SCORES // 2] = ["…"]
    if any(n is not None for n in numbers):
        return " ".join(short)
    return ""
