"""The figures of one scored file, or of two → a page on a terminal, and the data of a page for a browser."""

from __future__ import annotations

from collections.abc import (
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.table import Column, Table
from rich.text import Text

from ruler_cli.cli import sentences
from ruler_cli.cli.sentences import (
    OWN_SCORES,
    Fact,
    given,
    interval,
    measured,
)
from ruler_cli.cli.terminal import (
    BAD,
    MUTED,
    NOTE,
    TITLE,
    Terminal,
    in_short,
)
from ruler_cli.cli.units import count
from ruler_cli.judges.providers import EMBEDDED
from ruler_cli.results.compare import ComparedGroup, Comparison
from ruler_cli.results.figures import BUILT_IN, ENOUGH
from ruler_cli.results.highlights import Run, RunGroup
from ruler_cli.results.report.page import compact
from ruler_cli.types import shorten

_REASONS = 3
_LONGEST, _IN_CELL, _TEXT = 120, 1000, 20_000
"""Characters of a reason or a rubric on a terminal, of one beside that of another file, and in a page."""
_OF_CRITERION = {
    "mean": "mean",
    "with_score": "with the score",
    "reliability": "reliability",
    "first_less_last": "first - last",
}
"""Figures of a criterion, and their heads in the table."""
_MADE_BY = ("served as", "rubric", "parameters", "ruler")
"""Rows on what made the scores."""


@dataclass(frozen=True)
class RunView:
    """The figures of one scored file."""

    reading: Run
    sources: Sequence[str]
    figures: Any
    rule: ClassVar = "the worst ones"
    """The rule that chooses groups for a page that cannot hold all of them."""

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        figures = self.figures
        made_by = compact(figures["made_by"], _TEXT)
        return {
            "found": self.reading.files[0].input.brief(),
            "figures": compact(
                {**figures, "made_by": None, "against_people": None}
            ),
            "made_by": made_by | {"built_in": BUILT_IN},
            "facts": sentences.facts(figures),
            "worst": compact(self.reading.worst_as_json()),
            "embedded": not {*figures["judges"]} - {*EMBEDDED},
        }

    def show(
        self,
        terminal: Terminal,
    ) -> None:
        """Write the page to the terminal."""
        figures = self.figures
        terminal.show(
            terminal.facts(
                self._head(),
                scored=TITLE,
                failed=BAD,
            )
        )
        terminal.section(terminal.facts(sentences.of_scores(figures)))
        terminal.section(_criteria(figures["criteria"], terminal))
        terminal.section(
            _groups(self.reading.worst(), terminal),
            title="groups, the worst first",
            indent=2,
        )

    def _head(self) -> Iterator[Fact]:
        figures = self.figures
        yield "scored", self.sources[0]
        yield "judge", sentences.judges(figures)
        made = dict(sentences.made_by(figures, _LONGEST))
        del made["ruler"]  # a page has it, and a comparison if it differs
        yield from made.items()
        for name, sentence in sentences.counts(figures):
            yield name, sentence
            if name == "failed":
                for reason in figures["reasons"][:_REASONS]:
                    number = reason["groups"]
                    times = f"{number} x " if number > 1 else ""
                    yield "", times + shorten(reason["reason"], _LONGEST)
        yield from sentences.times(figures)


@dataclass(frozen=True)
class ComparisonView:
    """The figures of two scored files."""

    reading: Comparison
    sources: Sequence[str]
    figures: Any
    rule: ClassVar = "those the judges disagree on most"
    """The rule that chooses groups for a page that cannot hold all of them."""

    def data(self) -> dict[str, Any]:
        """Return the data of the page for a browser."""
        figures = self.figures
        findings = [fact for fact in self._findings() if fact[1]]
        scores = [*self._of_scores()]
        comparison = {
            "groups": figures["groups"],
            "rollouts": figures["rollouts"],
            "verdict": sentences.verdict(figures),
            "opening": sentences.opening(figures),
            "rows": [*self._of_files(), *scores],
            "findings": findings,
            "differ": [*map(_differing, self.reading.differing)],
            "cells": figures["cells"] if figures["groups"] >= ENOUGH else [],
        }
        # for a page whose scripts do not run, without text of the input
        both = [(name, f"A {a}; B {b}; {more}") for name, a, b, more in scores]
        return {
            "found": self.reading.files[0].input.brief(),
            "sources": self.sources,
            "facts": both + findings,
            "comparison": compact(comparison, _IN_CELL),
        }

    def show(
        self,
        terminal: Terminal,
    ) -> None:
        """Write the page to the terminal."""
        figures = self.figures
        terminal.show(Text(sentences.verdict(figures), TITLE))
        if opening := sentences.opening(figures):
            terminal.show(opening)
        terminal.show(
            "",
            _sides(
                self._of_files(),
                "",
                terminal,
            ),
        )
        both = f"{count(figures['rollouts'], 'rollout')} scored by both"
        compared = f"compared: {count(figures['groups'], 'group')}, {both}"
        scores = _sides(
            self._of_scores(),
            "A - B",
            terminal,
        )
        terminal.section(scores, title=compared)
        terminal.section(terminal.facts(self._findings()))
        rows = []
        for group in self.reading.differing:
            pairs = f"{group.order['against']:g} of {count(group.order['pairs'], 'pair')}"
            rows.append((group.first.key, [Text(pairs, NOTE)]))
        terminal.section(
            terminal.groups(["in another order"], rows),
            title="groups they disagree on most",
            indent=2,
        )

    def _of_files(self) -> Iterator[_Sides]:
        """Yield rows about each file as a whole; on what made the scores only if the files differ in it."""
        first, second = (
            dict(self._facts_of(side)) for side in range(len(self.sources))
        )
        for name, a in first.items():
            b = second[name]
            if a != b or name not in _MADE_BY:
                yield name, a, b, ""

    def _facts_of(self, side: int) -> Iterator[Fact]:
        figures = self.figures["files"][side]["figures"]
        yield "file", self.sources[side]
        yield "judge", sentences.judges(figures)
        yield from sentences.made_by(figures, _IN_CELL)
        yield from sentences.counts(figures)

    def _of_scores(self) -> Iterator[_Sides]:
        """Yield rows about the scores that can be compared."""
        for name, key in (("mean score", "means"), ("spread (sd)", "spreads")):
            a, b = (given(value, "{:z.3f}") for value in self.figures[key])
            yield name, a, b, ""
        tied = self.figures["tied"]
        if any(tied):
            a, b = map(str, tied)
            yield "tied groups", a, b, ""
        difference = self.figures["difference"]
        if difference["value"] is not None:
            a, b = map(measured, self.figures["pairwise_accuracy"])
            words = f"{measured(difference, '+')} ({interval(difference, '+')})"
            if difference["low"] is not None:
                apart = difference["told_apart"]
                words += ", significant" if apart else ", not significant"
            yield "pairwise accuracy", a, b, words

    def _findings(self) -> Iterator[Fact]:
        """Yield sentences about the two judges, each with a name."""
        figures = self.figures
        order = figures["order"]
        distance = figures["distance"]
        paired = figures["paired"]
        if order["agreement"] is not None:
            yield "same order", sentences.ordered_pairs(order)
        apart = f"differ by {distance['mean']:.2f} on average"
        apart += f", {distance['max']:.2f} at most"
        for file in figures["files"]:
            if file["figures"]["rollouts"]["moved"]:
                apart += f" ({OWN_SCORES})"
                break
        yield "scores", apart
        in_a, in_b = paired["alone"]
        left_out = {
            "only in A": in_a,
            "only in B": in_b,
            "without scores of both": paired["groups"] - figures["groups"],
        }
        words = [
            f"{count(number, 'group')} {what}"
            for what, number in left_out.items()
            if number
        ]
        yield "not compared", ", ".join(words)
        if unlike := paired["labels_differ"]:
            rollouts = f"{count(unlike, 'rollout')} with different rewards"
            yield "rewards", f"{rollouts} in A and B: not in the accuracy"


View = RunView | ComparisonView
_Sides = tuple[str, str, str, str]
"""A name, the values of A and B, and the difference of A and B."""


def view_of(
    reading: Any,
    sources: Sequence[str],
    figures: Any,
) -> View:
    """Return the view of one file, or of two."""
    two = isinstance(reading, Comparison)
    view = ComparisonView if two else RunView
    return view(reading, sources, figures)


def _differing(group: ComparedGroup) -> dict[str, Any]:
    """Return a group as JSON, with what both judges say of the rollout whose scores are the furthest apart."""
    i = group.furthest
    opinions = []
    for side in (group.first, group.second):
        if i is not None:
            score = side.rollouts[i].score
            explanation = side.rollouts[i].explanation
            opinions.append({"score": score, "explanation": explanation})
    return group.as_json() | {
        "furthest": i,
        "said": opinions,
    }


def _criteria(
    criteria: Sequence[dict[str, Any]],
    terminal: Terminal,
) -> Table:
    """Make the table of criteria, the one that goes with the score the most first."""
    heads = ("criterion", "rollouts", *_OF_CRITERION.values())
    rows = []
    for criterion in criteria:
        name = shorten(criterion["name"], _LONGEST)
        numbers = [given(criterion[key], "{:z.2f}") for key in _OF_CRITERION]
        rows.append((name, str(criterion["rollouts"]), *numbers))
    return terminal.numbers(heads, rows)


def _groups(
    listed: Sequence[RunGroup],
    terminal: Terminal,
) -> Table:
    """Make a table of groups."""
    cells = []
    for highlight in listed:
        group = highlight.first
        rollouts = [group.rollouts[i] for i in group.best_first]
        why = terminal.text(highlight.why, BAD if group.failed else NOTE)
        scores = Text(in_short([r.score for r in rollouts]))
        if group.failed:
            scores = terminal.text(shorten(group.reason, _LONGEST))
            scores.no_wrap = True
            scores.overflow = "ellipsis"
        rewards = in_short([r.label for r in rollouts], ".3g")
        cells.append((group.key, (why, scores, rewards)))
    return terminal.groups(("why", "scores, best first", "rewards"), cells)


def _sides(
    rows: Iterable[_Sides],
    difference: str,
    terminal: Terminal,
) -> Table:
    """Make a table of names and the values of A and B, without rows that both lack."""
    columns = [Column(style=MUTED, no_wrap=True)]
    for head in ("A", "B", difference):
        columns.append(Column(head, overflow="fold"))
    cells = [
        (name, a or "-", b or "-", more) for name, a, b, more in rows if a or b
    ]
    return terminal.table(columns, cells)
