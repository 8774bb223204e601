"""Two scored files → a page for a person: both judges side by side, and one group with both explanations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ruler_cli.cli.compare_sentences import NAMES, findings, of_files, of_scores
from ruler_cli.cli.group_keys import SAME_KEY, KeySearch
from ruler_cli.cli.progress import Problems, UnlikeGroups, group_counter
from ruler_cli.cli.report_group import group_rule, show_shared, show_text
from ruler_cli.cli.report_overview import commands_in_lines, two_columns
from ruler_cli.cli.report_sentences import given
from ruler_cli.cli.terminal import Terminal
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.results.compare import (
    ComparedGroup,
    ComparisonFigures,
    DifferenceRanking,
    compare_files,
    next_commands,
)
from ruler_cli.results.pairing import LeftOutGroup, pair_groups, with_digests
from ruler_cli.results.report.group_text import GroupText, rollout_json, shared_json
from ruler_cli.results.report.made_by import TextLookup, opening
from ruler_cli.results.scored_groups import ScoredGroup, ScoredRollout

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruler_cli.results.scored_file import ScoredFile
    from ruler_cli.types import Group

_Json = Mapping[str, Any]
_BESIDE = 100
"""Columns from which on two explanations stand side by side."""
_TITLE, _MUTED = "bold", "dim"


def compare(
    files: Sequence[ScoredFile], problems: Problems, texts: TextLookup
) -> tuple[ComparisonFigures, list[ComparedGroup]]:
    """Read both files; return their figures and the groups on which they differ most."""
    ranking, unlike = DifferenceRanking(), UnlikeGroups()
    with group_counter() as tick:

        def add(group: ComparedGroup) -> None:
            ranking.add(group)
            tick()

        names = [file.name for file in files]
        figures = compare_files(
            files[0].groups(), files[1].groups(), names, unlike.add, add, texts
        )
    unlike.hand_to(problems)
    return figures, ranking.ranked()


def show(
    heads: Sequence[_Json],
    figures: ComparisonFigures,
    differing: Sequence[ComparedGroup],
    terminal: Terminal,
) -> None:
    """Write the page; `heads` hold the sources of the files."""
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
        for i in by_score(group.one)
    ]
    width = max(len(cell) for column in columns for cell in column)
    names = ("A", "B", "reward")[: 3 if any(r.label is not None for r in one) else 2]
    rows = zip(names, zip(*columns, strict=True), strict=False)
    return [(name, " ".join(cell.rjust(width) for cell in row)) for name, row in rows]


def _cell(score: float | None) -> str:
    return "-" if score is None else f"{score:.2f}".removeprefix("0")


def by_score(group: ScoredGroup) -> list[int]:
    """Return the indices of the rollouts, the best first, those without a score last."""
    scores = [rollout.judge_score for rollout in group.rollouts]
    return sorted(
        range(len(scores)), key=lambda i: (scores[i] is None, -(scores[i] or 0.0))
    )


class ComparedText:
    """The first groups of a key in both files, and their text as the judge of A read it.

    `more` counts further ones.
    """

    def __init__(
        self, files: Sequence[ScoredFile], key: str, problems: Problems
    ) -> None:
        """UsageError if one of the files has no group of the key, or they are not the same."""
        self.groups, self.more = list[ComparedGroup](), 0
        self._first: dict[int, tuple[int, Group]] = {}
        searches = [KeySearch(file.name, key) for file in files]
        one, other = (
            starmap(with_digests, self._read(file, search, keep=file is files[0]))
            for file, search in zip(files, searches, strict=True)
        )
        left_out: list[LeftOutGroup] = []
        for pair in pair_groups(one, other, {}, left_out.append):
            if len(self.groups) < SAME_KEY:
                self.groups.append(ComparedGroup.of(pair))
            else:
                self.more += 1
                del self._first[pair.number]
        for search in searches:
            search.refuse_unknown()
        if not self.groups:
            raise UsageError(
                f"{files[0].name} and {files[1].name}: {left_out[0].sentence}"
            )
        for group in left_out:
            problems.add_sentence(group.sentence)

    def _read(
        self, file: ScoredFile, search: KeySearch, *, keep: bool
    ) -> Iterator[tuple[Group, ScoredGroup]]:
        found = 0
        for ordinal, group in enumerate(file.input.groups, 1):
            if search.matches(group.key):
                found += 1
                if keep:
                    self._first[found] = ordinal, group
                yield group, file.read_group(group)

    def of(self, group: ComparedGroup) -> GroupText:
        """Render the text of one of them."""
        return GroupText.of(self._first[group.number][1], group.one)

    def as_json(self) -> dict[str, Any]:
        """Return the first of them as JSON, its number in A, and how many others there are."""
        group = self.groups[0]
        text = self.of(group)
        rows = zip(
            group.one.rollouts,
            group.other.rollouts,
            text.rollouts,
            text.identical,
            strict=True,
        )
        compared = group.as_json()
        del compared["ordinal"]  # the number among groups of this key
        compared |= {
            "rollouts": [
                {
                    "a": rollout_json(a),
                    "b": rollout_json(b),
                    "lines": list(lines),
                    "same_as": same_as,
                }
                for a, b, lines, same_as in rows
            ],
            **shared_json(text),
        }
        same_key = len(self.groups) - 1 + self.more
        return {
            "ordinal": self._first[group.number][0],
            "same_key": same_key,
            "group": compared,
        }


def show_group(
    group: ComparedGroup, text: GroupText, heads: Sequence[_Json], terminal: Terminal
) -> None:
    """Write a group: figures, scores and explanations of both, then its rollouts, the best of A first."""
    order = by_score(group.one)
    terminal.show(group_rule(f"group {terminal.key(group.one.key)}"))
    terminal.show(_side_by_side([("", *NAMES), *_of_group(group, heads)], terminal))
    if group.pairs:
        order_of_pairs = f"{group.pairs - group.against:g} of {count(group.pairs, 'pair')} in the same order"
        terminal.show("", Text(order_of_pairs))
    terminal.show("", _rollouts(group, order))
    for number in order:
        pair = group.one.rollouts[number], group.other.rollouts[number]
        terminal.show(
            "",
            group_rule(f"rollout {number + 1}: {_both(pair)}"),
            _explanations(pair, terminal),
        )
    show_shared(text, terminal)
    shown: set[int] = set()
    best = (
        order[0] if order and group.one.rollouts[order[0]].score is not None else None
    )
    for number in order:
        same = text.identical[number]
        terminal.show("", group_rule(f"rollout {number + 1}"))
        show_text(
            text,
            number,
            best,
            same if same in shown and same != number else None,
            terminal,
        )
        shown.add(number)


def _of_group(
    group: ComparedGroup, heads: Sequence[_Json]
) -> Iterator[tuple[str, str, str]]:
    both = (group.one, group.other)
    yield "file", heads[0]["source"], heads[1]["source"]
    yield "judge", group.one.judge, group.other.judge
    failed, passes, means, spreads, reliabilities = (
        [f"failed ({g.kind}): {g.reason}" if g.failed else "" for g in both],
        ["" if g.passes is None else str(g.passes) for g in both],
        [given(g.mean, "{:.2f}") for g in both],
        [given(g.sd, "{:.2f}") for g in both],
        [given(g.reliability, "{:.2f}") for g in both],
    )
    rows = {
        "status": failed,
        "passes": passes,
        "mean score": means,
        "spread (sd)": spreads,
    }
    for name, (a, b) in (rows | {"reliability": reliabilities}).items():
        yield name, a, b


def _rollouts(group: ComparedGroup, order: Sequence[int]) -> Table:
    """Make the table of both scores, without columns that are empty for all rollouts."""
    pairs = [(group.one.rollouts[i], group.other.rollouts[i]) for i in order]
    columns = {
        "rollout": [str(i + 1) for i in order],
        "A": [given(a.judge_score, "{:.2f}") for a, _ in pairs],
        "B": [given(b.judge_score, "{:.2f}") for _, b in pairs],
        "A - B": [_difference(a, b) for a, b in pairs],
        "sd of A": [given(a.spread, "{:.2f}") for a, _ in pairs],
        "sd of B": [given(b.spread, "{:.2f}") for _, b in pairs],
        "reward": [given(a.label, "{:.4g}") for a, _ in pairs],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=_MUTED)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _difference(a: ScoredRollout, b: ScoredRollout) -> str:
    if a.judge_score is None or b.judge_score is None:
        return ""
    return f"{a.judge_score - b.judge_score:+.2f}"


def _both(pair: Sequence[ScoredRollout]) -> str:
    scores = [
        f"{name} {given(r.judge_score, '{:.2f}') or '-'}"
        for name, r in zip(NAMES, pair, strict=True)
    ]
    return ", ".join(scores) + given(pair[0].label, ", reward {:.4g}")


def _explanations(pair: Sequence[ScoredRollout], terminal: Terminal) -> Table:
    """Put both explanations side by side, or one below the other in a narrow terminal."""
    texts = [
        r.explanation or (f"{r.kind}: {r.reason}" if r.reason else "-") for r in pair
    ]
    foreign = [terminal.text(text, "italic", lines=True) for text in texts]
    table = Table.grid(padding=(0, 2, 0, 0), expand=terminal.width >= _BESIDE)
    if terminal.width >= _BESIDE:
        for _ in NAMES:
            table.add_column(style=_MUTED, no_wrap=True)
            table.add_column(overflow="fold", ratio=1)
        table.add_row("A", foreign[0], "B", foreign[1])
        return table
    table.add_column(style=_MUTED, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in zip(NAMES, foreign, strict=True):
        table.add_row(name, text)
    return table
