"""The comparison of two scored files → a page for a person: both judges side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ruler_cli.cli.compare_sentences import NAMES, findings, of_files, of_scores
from ruler_cli.cli.report_overview import (
    commands_in_lines,
    in_short,
    rewards_of,
    table_of_groups,
    two_columns,
)
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
        title = "groups on which they differ most"
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
    """Make a table of groups, with both scores of each rollout, the best of A first."""
    rewards = any(rewards_of(group.one) for group in groups)
    heads = ("in another order", "A, best first", "B", "reward" if rewards else "")
    rows = []
    for group in groups:
        pairs = f"{group.against:g} of {count(group.pairs, 'pair')}"
        order = group.one.best_first
        scores = [
            Text(in_short([one.rollouts[i].score for i in order]))
            for one in (group.one, group.other)
        ]
        rewards_ = Text(rewards_of(group.one))
        rows.append((group.one.key, [Text(pairs, "yellow"), *scores, rewards_]))
    return table_of_groups(heads, rows, terminal)
