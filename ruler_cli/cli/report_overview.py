"""The figures of a run on one page for a person: what became of it, small plots, groups worth a look."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from rich.bar import Bar as Block
from rich.console import Group as Below
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruler_cli.cli import report_sentences as sentences
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import short
from ruler_cli.results.report.figures import ReportFigures
from ruler_cli.results.report.highlights import Highlight
from ruler_cli.results.scored_groups import ScoredGroup

if TYPE_CHECKING:
    from rich.console import RenderableType

_Json = dict[str, Any]
_BESIDE = 72
"""Columns from which on two plots stand side by side."""
_ROWS = 10
_PLOTS = 4
_REASONS = 3
_SCORES = 8
"""Scores of a group that are listed; of more, the ends."""
_LONGEST = 120
"""Characters of a reason that are shown."""
_BAD, _MUTED, _TITLE = "red", "dim", "bold"
_SIGNED, _COUNTED = 7, 6


def show(page: _Json, worst: Sequence[Highlight], disputed: Sequence[Highlight], terminal: Terminal) -> None:
    """Write the page."""
    o = page["figures"]
    terminal.show(_table(_head(page), terminal))
    beside = 2 if terminal.width >= _BESIDE else 1
    width = (terminal.width - 2) // 2 if beside == 2 else terminal.width
    blocks = list(islice(_plots(o, width), _PLOTS))
    for at in range(0, len(blocks), beside):
        row = Table.grid(padding=(0, 2), expand=True)
        for _ in range(beside):
            row.add_column(ratio=1)
        row.add_row(*blocks[at : at + beside])
        terminal.show("", row)
    said = _table(sentences.findings(o), terminal)
    if said.row_count:
        terminal.show("", said)
    if worst:
        title = Text("worst groups (failed, suspect, then least reliable)", _TITLE)
        terminal.show("", title, _groups(worst, terminal))
    if disputed:
        title = Text(f"most disputed groups ({_dispute(o, disputed)})", _TITLE)
        terminal.show("", title, _groups(disputed, terminal, apart=True))
    if page["source"] != "-":  # what can be read again
        key = next((one.group.key for one in (*disputed, *worst)), None)
        typed = _next(page["source"], key, live=o["groups"]["live"] > 0, terminal=terminal)
        terminal.show("", Text("next", _TITLE), *map(Text, typed))


def facts() -> Table:
    """A table of names and what is said of each."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style=_MUTED, no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _table(rows: Iterable[tuple[str, str]], terminal: Terminal) -> Table:
    table, styles = facts(), {"scored": _TITLE, "failed": _BAD}
    for name, sentence in rows:
        if sentence:
            table.add_row(name, terminal.text(sentence, styles.get(name, "")))
    return table


def _head(page: _Json) -> Iterator[tuple[str, str]]:
    o = page["figures"]
    yield "scored", page["source"]
    yield "found", page["found"]
    yield "judge", sentences.judges(o)
    for name, sentence in sentences.counts(o):
        yield name, sentence
        if name == "failed":
            yield from (("", _reason(one["groups"], one["reason"])) for one in o["reasons"][:_REASONS])


def _reason(groups: int, reason: str) -> str:
    text = reason if len(reason) <= _LONGEST else reason[:_LONGEST] + "…"
    return f"{groups} x {text}" if groups > 1 else text


def _plots(o: ReportFigures, width: int) -> Iterator[RenderableType]:
    """The plots that the file has figures for, the weightiest first."""
    mean, median = o["scores"]["mean"], o["spread"]["median"]
    if mean is not None:
        yield _histogram(f"rollouts by score, mean {mean:.2f}", o["scores"]["bins"], width)
    if median is not None:
        yield _histogram(f"groups by spread (sd), median {median:.2f}", o["spread"]["bins"], width)
    cells, positions = o["against_label"]["cells"], o["slots"]["bins"]
    if len({tuple(cell["label"]) for cell in cells}) > 1:
        yield _labels(cells, width)
    if positions:
        yield _positions(positions, width)
    if o["reliability"]["groups"]:
        yield _histogram("groups by reliability", o["reliability"]["bins"], width)


def _labels(cells: Sequence[_Json], width: int) -> RenderableType:
    """The mean label of the rollouts with about a score: a judge that agrees makes stairs."""
    low, high = (sum(end(cell["label"] for cell in cells)) / 2 for end in (min, max))
    rows = []
    for score in sorted({tuple(cell["score"]) for cell in cells}):
        same = [cell for cell in cells if tuple(cell["score"]) == score]
        n = sum(cell["n"] for cell in same)
        mean = sum(cell["n"] * sum(cell["label"]) / 2 for cell in same) / n
        rows.append((_ends(*score), (high - low, 0, max(mean - low, 0)), f"{mean:.2f}", short(n)))
    return _bars("mean original reward, by score", rows, max(4, width - 8 - 2 * _COUNTED - 3), "green")


def _positions(bars: Sequence[_Json], width: int) -> RenderableType:
    """How far above its group a rollout scores, by its position in the prompt; bars around zero."""
    most = max(*(abs(bar["mean"]) for bar in bars), 0.01)
    names = [f"{(bar['from'] + bar['to']) / 2:.2f}" for bar in bars]
    names[-1] = "last"
    names[0] = "first"
    rows = [
        (name, (2 * most, most + min(m, 0), most + max(m, 0)), f"{m:+.3f}", short(bar["n"]))
        for name, bar in zip(names, bars, strict=True)
        for m in (bar["mean"],)
    ]
    size = max(4, (width - 8 - _SIGNED - _COUNTED - 3) // 2 * 2)
    return _bars("score above its group, by place shown", rows, size, "magenta")


def _histogram(title: str, bars: Sequence[_Json], width: int) -> RenderableType:
    by = max(1, len(bars) // _ROWS)
    parts = [bars[at : at + by] for at in range(0, len(bars), by)]
    found = [(part[0]["from"], part[-1]["to"], sum(bar["n"] for bar in part)) for part in parts]
    while len(found) > 1 and found[-1][1] < 1 and not found[-1][2]:
        found.pop()
    most = max(1, *(n for _, _, n in found))
    rows = [(_ends(low, high), (most, 0, n), short(n)) for low, high, n in found]
    return _bars(title, rows, max(4, width - 10 - _COUNTED - 3), "cyan")


def _bars(title: str, rows: Sequence[tuple[Any, ...]], width: int, colour: str) -> RenderableType:
    """A plot: in each row a name, a bar as (size, begin, end), and what is told of it."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style=_MUTED, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style=_MUTED)
    for name, bar, *told in rows:
        table.add_row(name, Block(*bar, width=width, color=colour), *told)
    return Below(Text(title, _TITLE, no_wrap=True, overflow="crop"), table)


def _ends(low: float, high: float) -> str:
    return "-".join(f"{end:.2f}".removesuffix("0") for end in (low, high))


def _dispute(o: ReportFigures, disputed: Sequence[Highlight]) -> str:
    """Between whom: the rule is `Shortlist`'s."""
    if o["against_label"]["pairs"]:
        halves = any(telling.group.disputes[0] % 1 for telling in disputed)
        return "scores against the original reward" + ", equal scores count half" * halves
    panel = any(len(r.judges) > 1 for telling in disputed for r in telling.group.rollouts)
    return "the judges of the panel furthest apart" if panel else "passes furthest apart"


def _groups(found: Sequence[Highlight], terminal: Terminal, *, apart: bool = False) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=_MUTED)
    table.add_column("group", no_wrap=True, max_width=max(8, terminal.width * 3 // 10))
    table.add_column("against" if apart and found[0].because == "disagrees" else "why", no_wrap=True)
    table.add_column("scores, best first", overflow="fold")
    table.add_column("their rewards" if any(map(_rewards, (t.group for t in found))) else "", overflow="fold")
    for telling in found:
        group = telling.group
        key = Text(terminal.key(group.key), overflow="ellipsis")
        told = f"apart by {telling.much:.2f}" if apart and telling.because == "unsure" else _why(telling)
        why = Text(told, _BAD if group.failed else "yellow")
        scores = terminal.text(group.reason if group.failed else _scored(group))
        if group.failed:
            scores.no_wrap, scores.overflow = True, "ellipsis"
            scores.truncate(_LONGEST, overflow="ellipsis")
        table.add_row(key, why, scores, terminal.text(_rewards(group)))
    return Padding(table, (0, 0, 0, 2))


def _why(telling: Highlight) -> str:
    group = telling.group
    against, pairs = group.disputes
    told = {
        "failed": f"failed: {group.kind}",
        "disagrees": f"{against:g} of {pairs} pairs",
        "suspect": "suspect",
        "unsure": "noisy" if group.reliability is None else f"reliability {group.reliability:.2f}",
        "tied": "tied",
        "spread": "" if group.sd is None else f"sd {group.sd:.2f}",
        "rest": "" if group.mean is None else f"mean {group.mean:.2f}",
    }
    return told[telling.because]


def _scored(group: ScoredGroup) -> str:
    """Its scores, the best first."""
    return " ".join(_some([f"{s:.2f}".removeprefix("0") for s in sorted(group.scores, reverse=True)]))


def _rewards(group: ScoredGroup) -> str:
    """Its labels in the order of its scores."""
    found = [r for r in group.rollouts if r.score is not None]
    found.sort(key=lambda r: -(r.score or 0))
    labels = ["-" if r.label is None else f"{r.label:.3g}" for r in found]
    return " ".join(_some(labels)) if any(r.label is not None for r in found) else ""


def _some(told: list[str]) -> list[str]:
    half = _SCORES // 2
    return told if len(told) <= _SCORES else [*told[:half], "…", *told[-half:]]


def _next(source: str, key: str | None, *, live: bool, terminal: Terminal) -> Iterator[str]:
    """What to type next; folded between words where it is too long for a line."""
    source = _argument(source, terminal)
    if key is not None:
        name = _argument(key, terminal)
        group = [f"--group={name}"] if name.startswith("-") else ["--group", name]
        yield from _folded(["ruler", "report", source, *group], terminal)
    yield from _folded(["ruler", "report", source, "-o", "report.html"], terminal)
    if live:
        yield from _folded(["ruler", "select", source, "live.jsonl", "--where", "live"], terminal)


def _argument(text: str, terminal: Terminal) -> str:
    """A word as a shell takes it, that can be seen whole."""
    seen = terminal.key(text)
    return seen if seen.startswith("$'") else shlex.quote(text)


def _folded(typed: Sequence[str], terminal: Terminal) -> Iterator[str]:
    line = " "
    for at, word in enumerate(typed):
        if at and len(line) + len(word) + 3 > terminal.width:
            yield f"{line} \\"
            line = "   "
        line += f" {word}"
    yield line
