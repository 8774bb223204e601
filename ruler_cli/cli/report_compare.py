"""The figures of two scored files → sentences and pairs of values, and a page for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Column
from rich.text import Text

from ruler_cli.cli import report_sentences
from ruler_cli.cli.measured import (
    OWN_SCORES,
    STATISTICS,
    interval,
    left_out_words,
    number,
)
from ruler_cli.cli.report_overview import STREAM, file_words, group_option
from ruler_cli.cli.report_sentences import given, ordered_pairs
from ruler_cli.cli.tables import (
    MUTED,
    NOTE,
    TITLE,
    facts,
    groups,
    in_short,
    show_next,
    table,
)
from ruler_cli.cli.units import count
from ruler_cli.results.compare import Comparison, ComparisonFigures, OnLeftOut
from ruler_cli.results.figures import ENOUGH
from ruler_cli.results.made_by import in_cells, opening
from ruler_cli.results.report.page import compact

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruler_cli.cli.terminal import Terminal
    from ruler_cli.results.scored_file import ScoredFile

_Json = Mapping[str, Any]
Sides = tuple[str, str, str, str]
"""A name, the values of A and B, and the difference of A and B."""
RULE = "those the judges disagree on most"
"""The rule that chooses groups for a page that cannot hold all of them."""
NAMES = ("A", "B")
"""Names of the two files."""
_MADE_BY = ("served as", "rubric", "parameters", "ruler")
"""Rows on what made the scores."""
_IN_CELL = 1000
"""Characters of a text beside that of another file."""


def read(files: Sequence[ScoredFile], on_left_out: OnLeftOut) -> Comparison:
    """Return the reading of two files; `on_left_out` gets the groups that are not compared."""
    return Comparison(files, on_left_out)


def show(
    heads: Sequence[_Json],
    figures: ComparisonFigures,
    comparison: Comparison,
    terminal: Terminal,
) -> None:
    """Write the page to the terminal; heads have the `source` of a file."""
    sources = [head["source"] for head in heads]
    if made := opening(figures["differs"], figures["rubric_groups"]):
        terminal.show(Text(made, TITLE), "")
    _show_sides([("", *NAMES, ""), *_of_files(sources, figures, comparison)], terminal)
    both = f"{count(figures['rollouts'], 'rollout')} scored by both"
    compared = f"compared: {count(figures['groups'], 'group')}, {both}"
    terminal.show("", Text(compared, TITLE))
    _show_sides([("", *NAMES, "A - B"), *_of_scores(figures, comparison)], terminal)
    terminal.show("", facts(findings(figures), terminal))
    if comparison.differing:
        terminal.show("", Text("groups they disagree on most", TITLE))
        heads_ = ("in another order", "A, best first", "B", "reward")
        rows = []
        for group in comparison.differing:
            order = group.one.best_first
            one = [group.one.rollouts[i] for i in order]
            cells = (
                Text(f"{group.against:g} of {count(group.pairs, 'pair')}", NOTE),
                in_short([r.score for r in one]),
                in_short([group.other.rollouts[i].score for i in order]),
                in_short([r.label for r in one], ".3g"),
            )
            rows.append((group.one.key, cells))
        terminal.show(groups(heads_, rows, terminal))
    show_next(next_commands(sources, comparison), terminal)


def page_data(
    sources: Sequence[str], figures: ComparisonFigures, comparison: Comparison
) -> dict[str, Any]:
    """Return the data of the page for a browser."""
    return {
        "found": comparison.files[0].input.found(),
        "sources": sources,
        "facts": [*_facts(figures, comparison)],
        "next": next_commands(sources, comparison),
        "comparison": compact(
            {
                "groups": figures["groups"],
                "rollouts": figures["rollouts"],
                "opening": opening(figures["differs"], figures["rubric_groups"]),
                "rows": [
                    *_of_files(sources, figures, comparison),
                    *_of_scores(figures, comparison),
                ],
                "findings": [one for one in findings(figures) if one[1]],
                "differ": [one.as_json() for one in comparison.differing],
                "cells": figures["cells"] if figures["groups"] >= ENOUGH else [],
            },
            _IN_CELL,
        ),
    }


def next_commands(sources: Sequence[str], comparison: Comparison) -> list[list[str]]:
    """Return the commands to type next, as words without quotes; none after stdin, which is gone."""
    names = file_words(sources)
    shown = [group.one.key for group in comparison.differing[:1]]
    commands = [["report", *names, *group_option(key)] for key in shown]
    commands.append(["report", *names, "-o", "compare.html"])
    return [] if {*STREAM} & {*names} else commands


def _show_sides(rows: Sequence[Sides], terminal: Terminal) -> None:
    """Show a table of names and the values of A and B, without rows that both lack."""
    heads = [Column(style=MUTED, no_wrap=True)]
    heads += [Column(overflow="fold") for _ in (*NAMES, "A - B")]
    cells: list[Sequence[RenderableType]] = [
        (
            name,
            *(terminal.text(value or "-", "" if name else TITLE) for value in (a, b)),
            more,
        )
        for name, a, b, more in rows
        if a or b
    ]
    terminal.show(table(heads, cells, terminal))


def _facts(
    figures: ComparisonFigures, comparison: Comparison
) -> Iterator[tuple[str, str]]:
    """Yield all names and sentences, for a page whose scripts do not run."""
    for name, file in zip(NAMES, figures["files"], strict=True):
        for what, text in report_sentences.counts(file["figures"]):
            yield f"{name}: {what}", text
    for what, a, b, more in _of_scores(figures, comparison):
        yield from ((f"A: {what}", a), (f"B: {what}", b), (f"A - B: {what}", more))
    yield from findings(figures)


def _of_files(
    sources: Sequence[str], figures: ComparisonFigures, comparison: Comparison
) -> Iterator[Sides]:
    """Yield rows about each file as a whole; on what made the scores only if the files differ in it."""
    each = zip(sources, figures["files"], comparison.files, strict=True)
    cells = [_of_file(source, own["figures"], file) for source, own, file in each]
    if figures["differs"]["judge"] is False:
        for cell in cells:  # the file tells them apart
            cell["judge"] += f" ({cell['file']})"
    for name in {**cells[0], **cells[1]}:
        a, b = (cell.get(name, "") for cell in cells)
        if a != b or name not in _MADE_BY:
            yield name, a, b, ""


def _of_file(source: str, figures: _Json, file: ScoredFile) -> dict[str, str]:
    groups, calls = figures["groups"], figures["usage"]["calls"]
    return {
        "file": source,
        "judge": ", ".join(figures["judges"]),
        **in_cells(figures["made_by"], _IN_CELL),
        "passes": ", ".join(figures["passes"]),
        "groups": f"{groups['scored']} of {groups['all']} scored",
        "failed": report_sentences.kinds(figures),
        "left out": left_out_words(file.figures.rollouts),
        "cost": report_sentences.money(figures),
        "calls": str(calls) if calls else "",
        "reliability": given(figures["reliability"]["median"], "{:.2f}"),
    }


def _of_scores(figures: ComparisonFigures, comparison: Comparison) -> Iterator[Sides]:
    """Yield rows about the scores that can be compared."""
    for name, key in (("mean score", "means"), ("spread (sd)", "spreads")):
        a, b = (given(value, "{:.3f}") for value in figures[key])
        yield name, a, b, ""
    tied = figures["tied"]
    a, b = (str(number) if any(tied) else "" for number in tied)
    yield "tied groups", a, b, ""
    agreement = comparison.agreement
    for name, title in STATISTICS.items():
        difference = agreement["differences"].get(name)
        if difference and difference["value"] is not None:
            a, b = (number(judge[name]) for judge in agreement["scorers"])
            chance = difference["low"] is not None and not difference["told_apart"]
            sure = ", not significant" if chance else ""
            ends = interval(difference, "+")
            yield title, a, b, f"{number(difference, '+')} ({ends}){sure}"


def findings(figures: ComparisonFigures) -> Iterator[tuple[str, str]]:
    """Yield sentences about the two judges, each with a name."""
    order, distance, paired = figures["order"], figures["distance"], figures["paired"]
    if order["agreement"] is not None:
        yield "same order", ordered_pairs(order)
    moved = any(file["figures"]["rollouts"]["moved"] for file in figures["files"])
    own = f" ({OWN_SCORES})" if moved else ""
    mean, most = distance["mean"], distance["max"]
    yield "scores", f"differ by {mean:.2f} on average, {most:.2f} at most{own}"
    correlation = figures["correlation"]
    if correlation["value"] is not None:
        ends = interval(correlation)
        yield "correlation", f"{number(correlation)} ({ends}) within groups"
    a, b = figures["one_scored"]
    left_out = {
        "with different rollouts": paired["unlike"],
        "only in A": paired["alone"][0],
        "only in B": paired["alone"][1],
        "scored by A only": a,
        "scored by B only": b,
        "with no rollout scored by both": paired["groups"] - figures["groups"] - a - b,
    }
    words = [f"{count(n, 'group')} {what}" for what, n in left_out.items() if n]
    yield "not compared", ", ".join(words)
