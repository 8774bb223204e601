"""Two scored files of one input → one HTML file with both judges side by side."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.scratch import Scratch
from ruler_cli.results.compare import (
    ComparedGroup,
    ComparisonFigures,
    ScoredGroups,
    compare_files,
    next_commands,
)
from ruler_cli.results.pairing import OnLeftOut
from ruler_cli.results.report import embedded
from ruler_cli.results.report.embedded import EmbeddedGroups
from ruler_cli.results.report.figures import ENOUGH
from ruler_cli.results.report.group_text import GroupText
from ruler_cli.results.report.highlights import Ranking
from ruler_cli.results.report.html import (
    MOST_GROUPS,
    SCRIPTS,
    STYLES,
    LeftOut,
    WrittenReport,
    command_of,
    page_file,
    put,
    source_name,
)
from ruler_cli.results.report.made_by import TextLookup, no_texts, opening
from ruler_cli.results.scored_file import ScoredFile
from ruler_cli.results.scored_groups import ScoredGroup
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group

RULE = "Those on which the judges differ most: pairs of rollouts in another order, then the distance of scores."
"""The rule that chooses groups for a page that cannot hold all of them."""
COMPARE_SCRIPTS = (*SCRIPTS[:-1], "compare.js", SCRIPTS[-1])
"""The last script shows the page."""
COMPARE_STYLES = (*STYLES, "compare.css")


@dataclass(frozen=True, slots=True)
class ComparisonWords:
    """The figures in words: rows of a name, the value of A and that of B; and sentences, each with a name.

    `facts` are all of them as sentences, without any text of the input.
    """

    rows: Sequence[tuple[str, str, str]]
    findings: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]


class _FirstFile:
    """The texts of the first file's groups: on disk, until the like of each in the second file is found."""

    def __init__(self, stack: ExitStack) -> None:
        self._spool = stack.enter_context(Scratch())
        self._places, self._sizes = array("q"), array("q")

    def put(self, groups: ScoredGroups) -> Iterator[tuple[Group, ScoredGroup]]:
        """Store the text of each group on its way."""
        for group, scored_group in groups:
            data = embedded.as_json(asdict(GroupText.of(group, scored_group)))
            self._places.append(self._spool.write(data))
            self._sizes.append(len(data))
            yield group, scored_group

    def text(self, number: int) -> GroupText:
        """Return the text of a group by its number in the file, from 1."""
        at, size = self._places[number - 1], self._sizes[number - 1]
        return GroupText(**orjson.loads(self._spool.read(size, at)))


def write_comparison(
    files: Sequence[tuple[InputSettings, OnProblem]],
    target: str,
    *,
    on_left_out: OnLeftOut,
    words: Callable[[Sequence[Mapping[str, Any]], ComparisonFigures], ComparisonWords],
    most: int = MOST_GROUPS,
    on_group: Callable[[str], bool] = lambda _key: False,
    on_read: Callable[[], object] = lambda: None,
    texts: TextLookup = no_texts,
) -> WrittenReport:
    """Write the page that compares two scored files to `target`; the parameters are those of `write_html`.

    Each file has its own `on_problem`. `on_left_out` gets each group that is not compared.
    `words` puts figures into words, for the `source` of each file. The texts are those of the first file.
    UsageError also if no rollout has a score in both.
    """
    sources = [settings.source for settings, _ in files]
    with ExitStack() as stack:
        file = page_file(stack, target, *sources)
        scored = [
            ScoredFile(settings, stack, on_problem) for settings, on_problem in files
        ]
        first, rows = _FirstFile(stack), EmbeddedGroups(stack)
        chosen = Ranking(most)

        def add(group: ComparedGroup) -> None:
            asked = on_group(group.one.key)
            if chosen.add(group.number, group.rank, asked=asked):
                rows.put(group.number, first.text(group.number), group.one, group)

        def groups_of(file: ScoredFile) -> ScoredGroups:
            return first.put(file.groups()) if file is scored[0] else file.groups()

        comparison = compare_files(
            scored,
            on_left_out=on_left_out,
            on_group=add,
            texts=texts,
            groups_of=groups_of,
        )
        on_read()
        figures, differing = comparison.figures, comparison.differing
        names = [source_name(one) for one in sources]
        heads = [
            {"source": name, "found": one.input.found()}
            for name, one in zip(names, scored, strict=True)
        ]
        said = words(heads, figures)
        return put(
            (file, target),
            scored,
            rows,
            LeftOut(
                figures["paired"]["groups"],
                RULE,
                command_of(*sources),
                **rows.finish(chosen.chosen()),
            ),
            {
                "sources": names,
                "facts": said.facts,
                "next": next_commands(names, differing),
                "comparison": {
                    "groups": figures["groups"],
                    "rollouts": figures["rollouts"],
                    "opening": opening(figures["differs"], figures["rubric_groups"]),
                    "rows": said.rows,
                    "findings": said.findings,
                    "differ": embedded.differing(differing),
                    "cells": figures["cells"] if figures["groups"] >= ENOUGH else [],
                },
            },
            scripts=COMPARE_SCRIPTS,
            styles=COMPARE_STYLES,
        )
