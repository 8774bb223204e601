"""Scored groups → one HTML file on which people compare pairs of rollouts without knowing their scores.

The file holds the texts of the drawn pairs, the names of their groups and rollouts, and how each was drawn. It holds
nothing that a judge, a verifier or the record says of them.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from typing import Any, NamedTuple

from ruler_cli.files.scratch import Scratch
from ruler_cli.results.draw import DrawnPair, PairDraw
from ruler_cli.results.group_text import GroupText
from ruler_cli.results.record import GroupRecord
from ruler_cli.results.report.page import (
    MOST_TEXT,
    MOST_TEXTS,
    HtmlFile,
    as_json,
    packed,
    text_of,
)
from ruler_cli.types import Group, words_of

LABEL_SCRIPTS = words_of("vendor/lib.js base.js turns.js turnlist.js label.js")
LABEL_STYLES = words_of("report.css group.css label.css")


class LabelCounts(NamedTuple):
    """Numbers of a page: its pairs by the way they were `drawn`, and its `size` in bytes.

    `left_out` counts drawn pairs whose text cannot be read or does not fit.
    """

    drawn: Mapping[str, int]
    left_out: int
    size: int


class LabelPage:
    """The page on which people compare pairs of one scored file; texts are on disk until pairs are drawn."""

    def __init__(
        self,
        stack: ExitStack,
        target: str,
        source: str,
        draw: PairDraw,
        *,
        force: bool = False,
    ) -> None:
        """Create the file `target` (see `HtmlFile`)."""
        self._file = HtmlFile(stack, target, [source], force=force)
        self._spool = stack.enter_context(Scratch())
        self._draw = draw

    def add(
        self,
        group: Group,
        scored: GroupRecord,
    ) -> None:
        """Add the next group."""
        self._draw.add(group, scored, self._keep)

    def _keep(
        self,
        group: Group,
        scored: GroupRecord,
    ) -> tuple[int, int]:
        data = pickle.dumps(GroupText.of(group, scored))
        return len(data), self._spool.write(data)

    def write(self) -> LabelCounts:
        """Draw the pairs, write the page and let it appear."""
        drawn = self._draw.drawn()
        comparisons = []
        texts = []
        for pair, text in self._texts(drawn):
            # what a line of labels says of a pair before it is answered
            comparison: dict[str, Any] = {
                "group": pair.group,
                "left": pair.ids[0],
                "right": pair.ids[1],
                "drawn": pair.drawn,
                "chance": pair.chance,
            }
            comparisons.append(comparison)
            texts.append(text)
        draw = blake2b(as_json(comparisons), digest_size=8)
        head = {
            "version": 1,
            "draw": draw.hexdigest(),
            "comparisons": comparisons,
            "texts": [*map(len, texts)],
        }
        size = self._file.fill(
            "label.html",
            (LABEL_SCRIPTS, LABEL_STYLES),
            {"data": packed(as_json(head)).decode()},
            texts,
        )
        ways = Counter([comparison["drawn"] for comparison in comparisons])
        return LabelCounts(ways, len(drawn) - len(texts), size)

    def _texts(
        self, drawn: Sequence[DrawnPair]
    ) -> Iterator[tuple[DrawnPair, bytes]]:
        """Yield each pair with its text as a block, until the next does not fit into the page."""
        left = MOST_TEXTS
        for pair in drawn:
            whole = pickle.loads(self._spool.read(*pair.kept[0]))  # noqa: S301 - our own file
            text = text_of(whole, pair.indices)
            # what the page puts lines into
            text["rollouts"] = [{}, {}]
            data = as_json(text)
            if not any(text["lines"]) or len(data) > MOST_TEXT:
                continue
            block = packed(data)
            left -= len(block)
            if left < 0:
                return
            yield pair, block
