"""The groups of an input that a page has room for: which they are, their rows and their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from ruler_cli.files.location import Location
from ruler_cli.marked.read import Marks, refuse_unmarked, refuse_unusable
from ruler_cli.reading import Input
from ruler_cli.report.again import Again
from ruler_cli.report.blocks import as_json
from ruler_cli.report.kept import Kept, Room
from ruler_cli.report.overview import Gathering
from ruler_cli.report.rows import COLUMNS, leaf
from ruler_cli.report.telling import Ranking
from ruler_cli.report.values import Overview
from ruler_cli.settings import InputSettings

MOST_TEXTS = 32 << 20
"""Bytes of all groups' texts in the file."""
AT_ONCE = 128 << 20
"""Bytes of groups that are made ready before it is known whether they are chosen."""


class Chosen:
    """Looks at every group once; then it knows the chosen ones, and reads those again that it must.

    The first groups, as many as a page holds, are made ready as they come: most files hold no more, and
    nothing is read again. Memory holds what a ranking needs, and of a chosen group its number.

    `ordinals` are the numbers of the chosen groups, from 1, in input order; `texts` those of them whose
    text there is room for; `huge` is how many have none because even its ends are too large.
    """

    def __init__(self, opened: Input, where: InputSettings, stack: ExitStack, most: int) -> None:
        """`opened` must hold records; at most `most` groups are chosen."""
        assert opened.reader is not None  # noqa: S101 - as it says
        self._opened, self._where, self._most = opened, where, most
        self._marks = Marks(opened.reader, given=where.outcome is not None)
        self._again, self._kept, self._room = Again(opened, stack), Kept(stack), Room(MOST_TEXTS)
        self._ranking = Ranking(most)
        self.overview = Overview()
        self.ordinals: list[int] = []
        self.texts: list[int] = []
        self.huge = 0

    def look(self, on_group: Callable[[], object]) -> None:
        """Read everything; UsageError where ruler has never written a mark."""
        gathering, ready = Gathering(), True
        for ordinal, group in enumerate(self._opened.groups, 1):
            marked = self._marks.group(group)
            gathering.add(marked)
            self._ranking.add(ordinal, marked)
            ready = ready and ordinal <= self._most and self._kept.size < AT_ONCE
            if ready:
                self._kept.put(ordinal, leaf(ordinal, group, marked))
            else:
                self._again.note(ordinal, group)
            on_group()
        self.overview = gathering.overview()
        name = Location(self._where.source).shown
        refuse_unmarked(name, self.overview.groups, self.overview.unmarked)
        refuse_unusable(name, self._where.outcome, self.overview.labelled)
        self._choose()

    def _choose(self) -> None:
        ranks = {ordinal: rank for rank, ordinal in enumerate(self._ranking.chosen())}
        self.ordinals = sorted(ranks)
        missing = [ordinal for ordinal in self.ordinals if ordinal not in self._kept]
        for ordinal in self.ordinals:
            if ordinal in self._kept:
                self._take(ordinal, ranks[ordinal])
        for ordinal, group in self._again.groups(missing):
            text = self._room.has(ranks[ordinal])
            self._kept.put(ordinal, leaf(ordinal, group, self._marks.group(group), text=text))
            self._take(ordinal, ranks[ordinal])
        self._kept.settle()
        self._ranks = ranks
        fitting = [ordinal for ordinal in self.ordinals if self._room.has(ranks[ordinal])]
        self.texts = [ordinal for ordinal in fitting if self._kept.text_size(ordinal)]
        self.huge = len(fitting) - len(self.texts)

    def _take(self, ordinal: int, rank: int) -> None:
        size = self._kept.text_size(ordinal)
        if size and self._room.has(rank):
            self._room.take(rank, size + 1)

    @property
    def cut(self) -> int:
        """How many of the texts do not hold all of theirs."""
        return sum(map(self._kept.cut, self.texts))

    def data(self, head: dict[str, Any]) -> Iterator[bytes]:
        """The page's data as JSON: `head` and the rows, column by column, in input order."""
        rows = list(map(self._kept.row, self.ordinals))
        yield as_json(head)[:-1] + b',"rows":{'
        for at, name in enumerate(COLUMNS):
            yield b'"%s":[%s],' % (name.encode(), b",".join(row[at] for row in rows))
        more = {
            "telling": [self._ranks[ordinal] for ordinal in self.ordinals],
            "because": [self._ranking.because(ordinal) for ordinal in self.ordinals],
            "text": self._places(),
        }
        yield as_json(more)[1:] + b"}"

    def said(self) -> Iterator[bytes]:
        """All explanations as JSON, in input order."""
        for at, ordinal in enumerate(self.ordinals):
            yield (b"," if at else b"[") + self._kept.said(ordinal)
        yield b"]" if self.ordinals else b"[]"

    def blocks(self) -> Iterator[str]:
        """The texts there is room for, in input order."""
        return map(self._kept.text, self.texts)

    def _places(self) -> list[tuple[int, int] | None]:
        """Where the text of each row stands among the blocks, which are a line each."""
        places: dict[int, tuple[int, int]] = {}
        at = 0
        for ordinal in self.texts:
            size = self._kept.text_size(ordinal)
            places[ordinal] = (at, size)
            at += size + 1
        return [places.get(ordinal) for ordinal in self.ordinals]
