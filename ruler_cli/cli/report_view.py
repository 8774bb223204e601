"""The figures of one scored file, or of two → a page on a terminal, and the data of a page for a browser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Column
from rich.text import Text

from ruler_cli.cli import report_sentences as sentences
from ruler_cli.cli.report_sentences import (
    OWN_SCORES,
    STATISTICS,
    Fact,
    given,
    interval,
    left_out_words,
    measured,
)
from ruler_cli.cli.tables import (
    BAD,
    MUTED,
    NOTE,
    TITLE,
    facts,
    groups,
    in_short,
    show_next,
    table,
)
from ruler_cli.cli.units import count, shorten
from ruler_cli.results.compare import Comparison
from ruler_cli.results.figures import BUILT_IN, ENOUGH
from ruler_cli.results.group_text import page_key
from ruler_cli.results.highlights import WORST, Highlight, Run
from ruler_cli.results.report.page import compact

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ruler_cli.cli.terminal import Terminal

_STREAM = ("-", "stdin")
"""Names of stdin, which cannot be read again."""
_NAMES = ("A", "B")
"""Names of two files."""
_REASONS = 3
_LONGEST, _IN_CELL, _TEXT = 120, 1000, 20_000
"""Characters of a reason or a rubric on a terminal, of one beside that of another file, and in a page."""
_MADE_BY = ("served as", "rubric", "parameters", "ruler")
"""Rows on what made the scores."""
_DISTRIBUTIONS = {
    "scores": ("rollouts by score", "mean"),
    "spread": ("groups by spread (sd)", "median"),
    "reliability": ("groups by reliability", "median"),
}
_BARS = "▁▂▃▄▅▆▇█"


class RunView:
    """The figures of one scored file."""

    rule = "the worst ones"
    """The rule that chooses groups for a page that cannot hold all of them."""

    def __init__(self, reading: Run, sources: Sequence[str], figures: Any) -> None:
        self._run = reading
        self._sources = sources
        self._figures = figures
        self._lists = reading.shortlist.lists()

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        figures = self._figures
        return {
            "found": self._run.file.input.found(),
            "figures": compact({**figures, "made_by": None}),
            "made_by": compact(figures["made_by"], _TEXT) | {"built_in": BUILT_IN},
            "facts": sentences.facts(figures),
            "lists": compact(self._run.lists_as_json()),
            "dispute": self._run.shortlist.dispute,
            "next": self._next(),
        }

    def show(self, terminal: Terminal) -> None:
        """Write the page to the terminal."""
        figures = self._figures
        lists = self._lists
        head = facts(self._head(), terminal, scored=TITLE, failed=BAD)
        terminal.show(head)
        found = [*sentences.findings(figures)]
        lines = [Text(line, "cyan") for line in self._histograms()]
        if lines:
            terminal.show("", *lines)
        else:
            found = [*sentences.averages(figures), *found]
        findings = facts(found, terminal)
        if findings.row_count:
            terminal.show("", findings)
        named = lists["worst"] or lists["disputed"]
        titles = {
            f"worst groups ({WORST})": lists["worst"],
            f"most disputed groups ({self._run.shortlist.dispute})": lists["disputed"],
            "other groups" if named else "groups": lists["others"],
        }
        for title, listed in titles.items():
            if listed:
                terminal.show("", Text(title, TITLE), _groups(listed, terminal))
        show_next(self._next(), terminal)

    def _head(self) -> Iterator[Fact]:
        figures = self._figures
        yield "scored", self._sources[0]
        yield "found", self._run.file.input.found()
        yield "judge", sentences.judges(figures)
        yield from sentences.made_by(figures, _LONGEST).items()
        for name, sentence in sentences.counts(figures):
            yield name, sentence
            if name == "failed":
                for one in figures["reasons"][:_REASONS]:
                    times = f"{one['groups']} x " if one["groups"] > 1 else ""
                    yield "", times + shorten(one["reason"], _LONGEST)

    def _histograms(self) -> Iterator[str]:
        """Yield a histogram in a line for each distribution of enough groups."""
        for name, (title, middle) in _DISTRIBUTIONS.items():
            bins = self._figures[name]["bins"]
            numbers = [bar["n"] for bar in bins]
            if min(sum(numbers), self._figures["groups"]["scored"]) >= ENOUGH:
                highest = max(numbers)
                # rounded up: only no rollout has the lowest bar
                bars = "".join(_BARS[-(-7 * n // highest)] for n in numbers)
                value = f"{middle} {self._figures[name][middle]:.2f}"
                yield f"{title:<22} 0 {bars} {bins[-1]['to']:g}, {value}"

    def _next(self) -> list[list[str]]:
        shown = [*self._lists["disputed"], *self._lists["worst"]]
        keys = [one.group.key for one in shown]
        commands = next_commands(self._sources, keys, "report.html")
        if commands and self._figures["groups"]["live"]:
            name = commands[-1][1]
            commands.append(["select", name, "train.jsonl", "--where", "live"])
        return commands


class ComparisonView:
    """The figures of two scored files."""

    rule = "those the judges disagree on most"
    """The rule that chooses groups for a page that cannot hold all of them."""

    def __init__(
        self, reading: Comparison, sources: Sequence[str], figures: Any
    ) -> None:
        self._comparison = reading
        self._sources = sources
        self._figures = figures
        self._opening = sentences.opening(figures)

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        figures = self._figures
        findings = [one for one in self._findings() if one[1]]
        rows = [*self._of_files(), *self._of_scores()]
        # for a page whose scripts do not run, without text of the input
        foreign = ("file", "judge", *_MADE_BY)
        facts = []
        for what, a, b, more in rows:
            if (a or b) and what not in foreign:
                facts.append((what, f"A {a}; B {b}; {more}"))
        comparison = {
            "groups": figures["groups"],
            "rollouts": figures["rollouts"],
            "opening": self._opening,
            "rows": rows,
            "findings": findings,
            "differ": [one.as_json() for one in self._comparison.differing],
            "cells": figures["cells"] if figures["groups"] >= ENOUGH else [],
        }
        return {
            "found": self._comparison.files[0].input.found(),
            "sources": self._sources,
            "facts": facts + findings,
            "next": self._next(),
            "comparison": compact(comparison, _IN_CELL),
        }

    def show(self, terminal: Terminal) -> None:
        """Write the page to the terminal."""
        figures = self._figures
        if self._opening:
            terminal.show(Text(self._opening, TITLE), "")
        _show_sides([("", *_NAMES, ""), *self._of_files()], terminal)
        both = f"{count(figures['rollouts'], 'rollout')} scored by both"
        compared = f"compared: {count(figures['groups'], 'group')}, {both}"
        terminal.show("", Text(compared, TITLE))
        _show_sides([("", *_NAMES, "A - B"), *self._of_scores()], terminal)
        terminal.show("", facts(self._findings(), terminal))
        if self._comparison.differing:
            terminal.show("", Text("groups they disagree on most", TITLE))
            heads = ("in another order", "A, best first", "B", "reward")
            rows = []
            for group in self._comparison.differing:
                order = group.one.best_first
                one = [group.one.rollouts[i] for i in order]
                other = [group.other.rollouts[i] for i in order]
                pairs = f"{group.against:g} of {count(group.pairs, 'pair')}"
                cells = (
                    Text(pairs, NOTE),
                    in_short([r.score for r in one]),
                    in_short([r.score for r in other]),
                    in_short([r.label for r in one], ".3g"),
                )
                rows.append((group.one.key, cells))
            terminal.show(groups(heads, rows, terminal))
        show_next(self._next(), terminal)

    def _next(self) -> list[list[str]]:
        keys = [group.one.key for group in self._comparison.differing]
        return next_commands(self._sources, keys, "compare.html")

    def _of_files(self) -> Iterator[_Sides]:
        """Yield rows about each file as a whole; on what made the scores only if the files differ in it."""
        each: list[dict[str, str]] = []
        for source, own, file in zip(
            self._sources,
            self._figures["files"],
            self._comparison.files,
            strict=True,
        ):
            figures = own["figures"]
            n = figures["groups"]
            calls = figures["usage"]["calls"]
            each.append(
                {
                    "file": source,
                    "judge": ", ".join(figures["judges"]),
                    **sentences.made_by(figures, _IN_CELL),
                    "passes": ", ".join(figures["passes"]),
                    "groups": f"{n['scored']} of {n['all']} scored",
                    "failed": sentences.kinds(figures),
                    "left out": left_out_words(file.figures.rollouts),
                    "cost": sentences.money(figures),
                    "calls": str(calls) if calls else "",
                    "reliability": given(figures["reliability"]["median"], "{:.2f}"),
                }
            )
        one, two = each
        for name in {**one, **two}:
            a = one.get(name, "")
            b = two.get(name, "")
            if a != b or name not in _MADE_BY:
                yield name, a, b, ""

    def _of_scores(self) -> Iterator[_Sides]:
        """Yield rows about the scores that can be compared."""
        for name, key in (("mean score", "means"), ("spread (sd)", "spreads")):
            a, b = (given(value, "{:.3f}") for value in self._figures[key])
            yield name, a, b, ""
        tied = self._figures["tied"]
        if any(tied):
            a, b = map(str, tied)
            yield "tied groups", a, b, ""
        agreement = self._comparison.agreement
        for name, title in STATISTICS.items():
            difference = agreement["differences"].get(name)
            if not difference or difference["value"] is None:
                continue
            a, b = (measured(judge[name]) for judge in agreement["scorers"])
            words = f"{measured(difference, '+')} ({interval(difference, '+')})"
            if difference["low"] is not None and not difference["told_apart"]:
                words += ", not significant"
            yield title, a, b, words

    def _findings(self) -> Iterator[Fact]:
        """Yield sentences about the two judges, each with a name."""
        figures = self._figures
        order = figures["order"]
        distance = figures["distance"]
        paired = figures["paired"]
        if order["agreement"] is not None:
            yield "same order", sentences.ordered_pairs(order)
        own = ""
        if any(file["figures"]["rollouts"]["moved"] for file in figures["files"]):
            own = f" ({OWN_SCORES})"
        mean = distance["mean"]
        most = distance["max"]
        yield "scores", f"differ by {mean:.2f} on average, {most:.2f} at most{own}"
        correlation = figures["correlation"]
        if correlation["value"] is not None:
            ends = interval(correlation)
            yield "correlation", f"{measured(correlation)} ({ends}) within groups"
        a, b = figures["one_scored"]
        in_a, in_b = paired["alone"]
        left_out = {
            "with different rollouts": paired["unlike"],
            "only in A": in_a,
            "only in B": in_b,
            "scored by A only": a,
            "scored by B only": b,
            "with no rollout scored by both": (
                paired["groups"] - figures["groups"] - a - b
            ),
        }
        words = [f"{count(n, 'group')} {what}" for what, n in left_out.items() if n]
        yield "not compared", ", ".join(words)


View = RunView | ComparisonView
_Sides = tuple[str, str, str, str]
"""A name, the values of A and B, and the difference of A and B."""


def view_of(reading: Any, sources: Sequence[str], figures: Any) -> View:
    """Return the view of one file, or of two."""
    if isinstance(reading, Comparison):
        return ComparisonView(reading, sources, figures)
    return RunView(reading, sources, figures)


def next_commands(
    sources: Sequence[str], keys: Sequence[str], page: str
) -> list[list[str]]:
    """Return the commands to type next, as words without quotes; none after stdin, which is gone.

    A name of a file or a key of a group may begin with a dash.
    """
    if {*_STREAM} & {*sources}:
        return []
    names = [f"./{one}" if one.startswith("-") else one for one in sources]
    commands = []
    for key in map(page_key, keys[:1]):
        option = ["--group", key]
        if key.startswith("-"):
            option = [f"--group={key}"]
        commands.append(["report", *names, *option])
    commands.append(["report", *names, "-o", page])
    return commands


def _groups(listed: Sequence[Highlight], terminal: Terminal) -> RenderableType:
    """Make a table of groups."""
    against = listed[0].because == "disagrees"
    heads = (
        "against rewards" if against else "why",
        "scores, best first",
        "rewards",
    )
    cells = []
    for one in listed:
        group = one.group
        rollouts = [group.rollouts[i] for i in group.best_first]
        why = terminal.text(one.why, BAD if group.failed else NOTE)
        scores = Text(in_short([r.score for r in rollouts]))
        if group.failed:
            scores = terminal.text(shorten(group.reason, _LONGEST))
            scores.no_wrap = True
            scores.overflow = "ellipsis"
        rewards = in_short([r.label for r in rollouts], ".3g")
        cells.append((group.key, (why, scores, rewards)))
    return groups(heads, cells, terminal)


def _show_sides(rows: Sequence[_Sides], terminal: Terminal) -> None:
    """Show a table of names and the values of A and B, without rows that both lack."""
    heads = [
        Column(style=MUTED, no_wrap=True),
        *(Column(overflow="fold") for _ in range(3)),
    ]
    cells: list[Sequence[RenderableType]] = []
    for name, a, b, more in rows:
        if a or b:
            style = "" if name else TITLE
            both = [terminal.text(value or "-", style) for value in (a, b)]
            cells.append((name, *both, more))
    terminal.show(table(heads, cells, terminal))
