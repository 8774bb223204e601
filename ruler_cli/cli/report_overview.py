"""The figures of a run → one page for a person: sentences, histograms, groups worth a look."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruler_cli.cli import report_sentences as sentences
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import shorten
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.report.highlights import (
    WORST,
    Highlight,
    Shortlist,
    next_commands,
)
from ruler_cli.results.report.made_by import rows
from ruler_cli.results.scored_groups import ScoredGroup

if TYPE_CHECKING:
    from rich.console import RenderableType

_Json = dict[str, Any]
_REASONS = 3
_MADE_BY = 8
"""Rows on what made the scores; --json has all."""
_SCORES = 8
"""Scores of a group in a list; of more, the ends."""
_LONGEST = 121
"""Characters of a reason on the page."""
_BAD, _MUTED, _TITLE = "red", "dim", "bold"


def show(page: _Json, shortlist: Shortlist, terminal: Terminal) -> None:
    """Write the page to the terminal."""
    figures = page["figures"]
    worst, disputed = shortlist.worst(), shortlist.disputed()
    terminal.show(two_columns(_head(page), terminal, scored=_TITLE, failed=_BAD))
    lines = list(sentences.distributions(figures))
    if lines:
        terminal.show("", *(Text(line, "cyan") for line in lines))
    numbers = () if lines else sentences.averages(figures)
    findings = two_columns((*numbers, *sentences.findings(figures)), terminal)
    if findings.row_count:
        terminal.show("", findings)
    titles = (f"worst groups ({WORST})", f"most disputed groups ({shortlist.dispute})")
    third = "other groups" if worst or disputed else "groups"
    for title, groups in zip(
        (*titles, third), (worst, disputed, shortlist.others()), strict=True
    ):
        if groups:
            terminal.show("", Text(title, _TITLE), _groups(groups, terminal))
    if page["source"] != "-":  # stdin cannot be read again
        commands = commands_in_lines(
            next_commands(page["source"], shortlist, figures), terminal
        )
        terminal.show("", Text("next", _TITLE), *map(Text, commands))


def two_columns(
    rows: Iterable[tuple[str, str]], terminal: Terminal, **styles: str
) -> Table:
    """Make a table of names and sentences, without empty ones; `styles` are by name."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=_MUTED, no_wrap=True)
    table.add_column(overflow="fold")
    for name, sentence in rows:
        if sentence:
            table.add_row(name, terminal.text(sentence, styles.get(name, "")))
    return table


def _head(page: _Json) -> Iterator[tuple[str, str]]:
    figures = page["figures"]
    yield "scored", page["source"]
    yield "found", page["found"]
    yield "judge", sentences.judges(figures)
    for row in islice(rows(figures["made_by"]), _MADE_BY):
        beginning = (
            ""
            if row.text == DEFAULT_RUBRIC
            else shorten(" ".join(row.text.split()), _LONGEST)
        )
        yield row.name, ": ".join(filter(None, (row.sentence, beginning)))
    for name, sentence in sentences.counts(figures):
        yield name, sentence
        if name == "failed":
            for one in figures["reasons"][:_REASONS]:
                times = f"{one['groups']} x " if one["groups"] > 1 else ""
                yield "", times + shorten(one["reason"], _LONGEST)


def _groups(highlights: Sequence[Highlight], terminal: Terminal) -> RenderableType:
    """Make a table of groups."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=_MUTED)
    table.add_column("group", no_wrap=True, max_width=max(8, terminal.width * 3 // 10))
    reason = "against rewards" if highlights[0].because == "disagrees" else "why"
    table.add_column(reason if any(one.why for one in highlights) else "", no_wrap=True)
    table.add_column("scores, best first", overflow="fold")
    rewards = any(_rewards(one.group) for one in highlights)
    table.add_column("their rewards" if rewards else "", overflow="fold")
    for highlight in highlights:
        group = highlight.group
        key = Text(terminal.key(group.key), overflow="ellipsis")
        best_first = _some(
            [f"{s:.2f}".removeprefix("0") for s in sorted(group.scores, reverse=True)]
        )
        scores = terminal.text(group.reason if group.failed else " ".join(best_first))
        if group.failed:
            scores.no_wrap, scores.overflow = True, "ellipsis"
            scores.truncate(_LONGEST - 1, overflow="ellipsis")
        why = terminal.text(highlight.why, _BAD if group.failed else "yellow")
        table.add_row(key, why, scores, terminal.text(_rewards(group)))
    return Padding(table, (0, 0, 0, 2))


def _rewards(group: ScoredGroup) -> str:
    """List the labels of a group in the order of its scores; empty without any."""
    rollouts = [r for r in group.rollouts if r.score is not None]
    rollouts.sort(key=lambda r: -(r.score or 0))
    labels = ["-" if r.label is None else f"{r.label:.3g}" for r in rollouts]
    return " ".join(_some(labels)) if any(r.label is not None for r in rollouts) else ""


def _some(numbers: list[str]) -> list[str]:
    half = _SCORES // 2
    return (
        numbers if len(numbers) <= _SCORES else [*numbers[:half], "…", *numbers[-half:]]
    )


def commands_in_lines(
    commands: Iterable[Sequence[str]], terminal: Terminal
) -> Iterator[str]:
    """Yield commands of ruler to type next, folded between words if they are too long for a line."""
    for words in commands:
        line = "  ruler"
        for word in (_argument(text, terminal) for text in words):
            if len(line) + len(word) + 3 > terminal.width:
                yield f"{line} \\"
                line = "   "
            line += f" {word}"
        yield line


def _argument(text: str, terminal: Terminal) -> str:
    """Quote a word for a shell, with escapes for all that cannot be seen."""
    option, equals, key = (
        text.partition("=") if text.startswith("--group=") else ("", "", text)
    )
    visible = terminal.key(key)
    return (
        option
        + equals
        + (visible if visible.startswith("$'") else shlex.quote(visible))
    )
