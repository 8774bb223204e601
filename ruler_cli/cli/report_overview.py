"""The figures of a run → one page for a person: sentences, small plots, groups worth a look."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.bar import Bar as Block
from rich.console import Group as Below
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruler_cli.cli import report_sentences as sentences
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import short, shorten
from ruler_cli.prompting.templates import DEFAULT_RUBRIC
from ruler_cli.results.report.figures import ReportFigures, charts
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
_BESIDE = 72
"""Columns from which on two plots stand side by side."""
_ROWS = 10
_PLOTS = 4
_REASONS = 3
_MADE_BY = 8
"""Rows on what made the scores; --json has all."""
_SCORES = 8
"""Scores of a group in a list; of more, the ends."""
_LONGEST = 121
"""Characters of a reason on the page."""
_BAD, _MUTED, _TITLE = "red", "dim", "bold"
_SIGNED, _COUNTED = 7, 8


def show(page: _Json, shortlist: Shortlist, terminal: Terminal) -> None:
    """Write the page to the terminal."""
    figures = page["figures"]
    worst, disputed = shortlist.worst(), shortlist.disputed()
    terminal.show(two_columns(_head(page), terminal, scored=_TITLE, failed=_BAD))
    beside = 2 if terminal.width >= _BESIDE else 1
    width = (terminal.width - 2) // 2 if beside == 2 else terminal.width
    blocks = list(islice(_plots(figures, width), _PLOTS))
    for start in range(0, len(blocks), beside):
        row = Table.grid(padding=(0, 2), expand=True)
        for _ in range(beside):
            row.add_column(ratio=1)
        row.add_row(*blocks[start : start + beside])
        terminal.show("", row)
    numbers = () if blocks else sentences.averages(figures)
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


def _plots(figures: ReportFigures, width: int) -> Iterator[RenderableType]:
    """Yield the plots that the figures deserve, the most important first."""
    mean, median = figures["scores"]["mean"], figures["spread"]["median"]
    plots: dict[str, Callable[[], RenderableType]] = {
        "scores": lambda: _histogram(
            f"rollouts by score, mean {mean:.2f}", figures["scores"]["bins"], width
        ),
        "spread": lambda: _histogram(
            f"groups by spread (sd), median {median:.2f}",
            figures["spread"]["bins"],
            width,
        ),
        "labels": lambda: _labels(figures["against_label"]["cells"], width),
        "slots": lambda: _positions(figures["slots"]["bins"], width),
        "reliability": lambda: _histogram(
            "groups by reliability", figures["reliability"]["bins"], width
        ),
    }
    return (plots[name]() for name in charts(figures) if name in plots)


def _labels(cells: Sequence[_Json], width: int) -> RenderableType:
    """Plot the mean label by score: a judge that agrees makes stairs."""
    low, high = (sum(end(cell["label"] for cell in cells)) / 2 for end in (min, max))
    rows = []
    for score in sorted({tuple(cell["score"]) for cell in cells}):
        column = [cell for cell in cells if tuple(cell["score"]) == score]
        n = sum(cell["n"] for cell in column)
        mean = sum(cell["n"] * sum(cell["label"]) / 2 for cell in column) / n
        rows.append(
            (
                _ends(*score),
                (high - low, 0, max(mean - low, 0)),
                f"{mean:.2f}",
                short(n),
            )
        )
    size = max(4, width - 8 - _SIGNED - _COUNTED - 3)
    return _bars(
        "mean original reward, by score", rows, size, "green", "reward", "rollouts"
    )


def _positions(bars: Sequence[_Json], width: int) -> RenderableType:
    """Plot how far above its group a rollout scores, by its position in the prompt; bars around zero."""
    most = max(*(abs(bar["mean"]) for bar in bars), 0.01)
    names = [f"{(bar['from'] + bar['to']) / 2:.2f}" for bar in bars]
    names[-1] = "last"
    names[0] = "first"
    rows = [
        (
            name,
            (2 * most, most + min(m, 0), most + max(m, 0)),
            f"{m:+.3f}",
            short(bar["n"]),
        )
        for name, bar in zip(names, bars, strict=True)
        for m in (bar["mean"],)
    ]
    size = max(4, (width - 8 - _SIGNED - _COUNTED - 3) // 2 * 2)
    return _bars(
        "score above its group, by position", rows, size, "magenta", "above", "scores"
    )


def _histogram(title: str, bars: Sequence[_Json], width: int) -> RenderableType:
    by = max(1, len(bars) // _ROWS)
    parts = [bars[start : start + by] for start in range(0, len(bars), by)]
    bins = [
        (part[0]["from"], part[-1]["to"], sum(bar["n"] for bar in part))
        for part in parts
    ]
    while len(bins) > 1 and bins[-1][1] < 1 and not bins[-1][2]:
        bins.pop()
    most = max(1, *(n for _, _, n in bins))
    rows = [(_ends(low, high), (most, 0, n), short(n)) for low, high, n in bins]
    return _bars(
        title, rows, max(4, width - 10 - _COUNTED - 3), "cyan", title.partition(" ")[0]
    )


def _bars(
    title: str, rows: Sequence[tuple[Any, ...]], width: int, colour: str, *heads: str
) -> RenderableType:
    """Draw a plot: in each row a name, a bar as (size, begin, end), and numbers below their `heads`."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style=_MUTED, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style=_MUTED)
    table.add_row("", "", *(Text(head, _MUTED) for head in heads))
    for name, bar, *numbers in rows:
        table.add_row(name, Block(*bar, width=width, color=colour), *numbers)
    return Below(Text(title, _TITLE, no_wrap=True, overflow="crop"), table)


def _ends(low: float, high: float) -> str:
    return "-".join(f"{end:.2f}".removesuffix("0") for end in (low, high))


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
