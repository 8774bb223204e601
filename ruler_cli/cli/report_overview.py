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
    reason = "against rewards" if highlights[0].because == "disagrees" else "why"
    rewards = any(rewards_of(one.group) for one in highlights)
    heads = (
        reason if any(one.why for one in highlights) else "",
        "scores, best first",
        "their rewards" if rewards else "",
    )
    rows = []
    for highlight in highlights:
        group = highlight.group
        ordered = [group.rollouts[i].score for i in group.best_first]
        scores = terminal.text(group.reason if group.failed else in_short(ordered))
        if group.failed:
            scores.no_wrap, scores.overflow = True, "ellipsis"
            scores.truncate(_LONGEST - 1, overflow="ellipsis")
        why = terminal.text(highlight.why, _BAD if group.failed else "yellow")
        rows.append((group.key, [why, scores, Text(rewards_of(group))]))
    return table_of_groups(heads, rows, terminal)


def table_of_groups(
    heads: Sequence[str],
    rows: Iterable[tuple[str, Sequence[Text]]],
    terminal: Terminal,
) -> RenderableType:
    """Make a table of a row for each group: its key, a reason that is not folded, and more."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=_MUTED)
    table.add_column("group", no_wrap=True, max_width=max(8, terminal.width * 3 // 10))
    for i, head in enumerate(heads):
        table.add_column(head, no_wrap=not i, overflow="fold")
    for key, cells in rows:
        table.add_row(Text(terminal.key(key), overflow="ellipsis"), *cells)
    return Padding(table, (0, 0, 0, 2))


def rewards_of(group: ScoredGroup) -> str:
    """List the labels of a group, the best rollout first; empty without any."""
    labels = [group.rollouts[i].label for i in group.best_first]
    return in_short(labels, ".3g") if any(one is not None for one in labels) else ""


def in_short(numbers: Sequence[float | None], form: str = ".2f") -> str:
    """Write numbers in a line: none as a dash, and of many the ends."""
    half = _SCORES // 2
    short = ["-" if n is None else f"{n:{form}}" for n in numbers]
    if form == ".2f":
        short = [text.removeprefix("0") for text in short]
    if len(short) > _SCORES:
        short = [*short[:half], "…", *short[-half:]]
    return " ".join(short)


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
