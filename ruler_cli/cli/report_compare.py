"""The comparison of two scored files → a page for a person: both judges side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruler_cli.cli.compare_sentences import NAMES, findings, of_files, of_scores
from ruler_cli.cli.report_overview import commands_in_lines, two_columns
from ruler_cli.cli.report_sentences import given
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import count
from ruler_cli.results.compare import ComparedGroup, Comparison, next_commands
from ruler_cli.results.report.made_by import opening

if TYPE_CHECKING:
    from rich.console import RenderableType

_Json = Mapping[str, Any]
_TITLE, _MUTED = "bold", "dim"


def show(heads: Sequence[_Json], comparison: Comparison, terminal: Terminal) -> None:
    """Write the page; `heads` hold the sources of the files."""
    figures, differing = comparison.figures, comparison.differing
    if made := opening(figures["differs"], figures["rubric_groups"]):
        terminal.show(Text(made, _TITLE), "")
    terminal.show(_side_by_side([("", *NAMES), *of_files(heads, figures)], terminal))
    both = f"{count(figures['rollouts'], 'rollout')} that both scored"
    groups = count(figures["groups"], "group")
    terminal.show("", Text(f"compared: {groups}, {both}", _TITLE))
    terminal.show(_side_by_side(of_scores(figures), terminal))
    terminal.show("", two_columns(findings(figures), terminal))
    if differing:
        title = "groups on which they differ most (pairs in another order)"
        terminal.show("", Text(title, _TITLE), _differing(differing, terminal))
    sources = [head["source"] for head in heads]
    if "-" not in sources:  # stdin cannot be read again
        commands = next_commands(sources, differing)
        terminal.show(
            "", Text("next", _TITLE), *map(Text, commands_in_lines(commands, terminal))
        )


def _side_by_side(rows: Sequence[tuple[str, str, str]], terminal: Terminal) -> Table:
    """Make a table of names and the values of A and B, without rows that both lack."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(style=_MUTED, no_wrap=True, width=min(20, terminal.width // 3))
    for _ in NAMES:
        table.add_column(overflow="fold", ratio=1)
    for name, *values in rows:
        if any(values):
            style = "" if name else _TITLE
            table.add_row(
                name, *(terminal.text(value or "-", style) for value in values)
            )
    return table


def _differing(groups: Sequence[ComparedGroup], terminal: Terminal) -> RenderableType:
    """Make a table with both scores and the reward of each rollout below one another."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, max_width=max(8, terminal.width * 3 // 10))
    table.add_column(no_wrap=True, style="yellow")
    table.add_column(no_wrap=True, style=_MUTED)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for group in groups:
        key = Text(terminal.key(group.one.key), overflow="ellipsis")
        why = [
            f"{group.against:g} of {count(group.pairs, 'pair')}",
            f"differ by {group.distance or 0.0:.2f}",
            "",
        ]
        rows = _aligned(group)
        for i, (name, cells) in enumerate(rows):
            table.add_row("" if i else key, why[i], name, Text(cells))
    return Padding(table, (0, 0, 0, 2))


def _aligned(group: ComparedGroup) -> list[tuple[str, str]]:
    """Return the scores of A, those of B, and the rewards, a column for each rollout, the best of A first."""
    one, other = group.one.rollouts, group.other.rollouts
    columns = [
        (
            _cell(one[i].judge_score),
            _cell(other[i].judge_score),
            given(one[i].label, "{:.3g}") or "-",
        )
        for i in group.one.best_first
    ]
    width = max(len(cell) for column in columns for cell in column)
    names = ("A", "B", "reward")[: 3 if any(r.label is not None for r in one) else 2]
    rows = zip(names, zip(*columns, strict=True), strict=False)
    return [(name, " ".join(cell.rjust(width) for cell in row)) for name, row in rows]


def _cell(score: float | None) -> str:
    return "-" if score is None else f"{score:.2f}".removeprefix("0")
