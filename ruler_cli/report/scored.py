"""SCORED, opened: its groups with their marks, its figures, and some of its groups once more."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.groups import OnProblem
from ruler_cli.index import place
from ruler_cli.marked.read import Marks, doubt, refuse_unmarked, refuse_unusable
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.reading import open_input
from ruler_cli.records import Group, Line
from ruler_cli.report.figures import Figures, Gathering
from ruler_cli.scratch import Scratch
from ruler_cli.settings import InputSettings


class Scored:
    """A scored file; `doubt` is a sentence on its labels once the figures are known."""

    def __init__(self, where: InputSettings, stack: ExitStack, on_problem: OnProblem) -> None:
        """UsageError if it holds no records; `on_problem` is told each that cannot be read."""
        self._where, self.name = where, Location(where.source).shown
        self.input = open_input(where, stack, on_problem)
        if self.input.reader is None:
            raise UsageError(f"{self.name}: holds no records; give a file that `ruler score` wrote")
        self.mark = Marks(self.input.reader, given=where.outcome is not None).group
        self.doubt: str | None = None

    def figures(self, on_group: Callable[[int, Group, MarkedGroup], object]) -> Figures:
        """Read everything; UsageError if no group has a mark, or none a label that was asked for."""
        gathering = Gathering()
        for ordinal, group in enumerate(self.input.groups, 1):
            marked = self.mark(group)
            gathering.add(marked)
            on_group(ordinal, group, marked)
        figures = gathering.figures()
        groups, rollouts = figures["groups"], figures["rollouts"]
        refuse_unmarked(self.name, groups["all"], groups["unmarked"])
        refuse_unusable(self.name, self._where.outcome, rollouts["labelled"])
        self.doubt = doubt(self._where.outcome, gathering.own_labels, rollouts["scored"])
        return figures


class Again:
    """Groups of an input that was read, once more, also of a pipe: that is kept on disk as it comes.

    Memory holds 8 bytes a record and 8 a group.
    """

    def __init__(self, scored: Scored, stack: ExitStack) -> None:
        self._input = scored.input
        once = self._input.plain is None and self._input.again is None
        self._spool = stack.enter_context(Scratch()) if once else None
        self._last, self._at = b"", 0
        self._numbers, self._ends = array("q"), array("q", [0])

    def note(self, group: Group) -> None:
        """Note the next group; none may be left out."""
        for record in group.records:
            if self._spool is not None:
                self._input.index.add(replace(record, line=self._kept(record.line)), group.key, whole=True)
            self._numbers.append(place(record))
        self._ends.append(len(self._numbers))

    def _kept(self, line: Line) -> Line:
        """The line as it stands on disk; the groups of one columnar line share it."""
        if self._spool is not None and self._last is not line.raw:
            self._last, self._at = line.raw, self._spool.write(line.raw)
        return replace(line, offset=self._at)

    def groups(self, ordinals: Sequence[int]) -> Iterator[tuple[int, Group]]:
        """The groups with these numbers, from 1, which grow; UsageError if the input has changed."""
        opened = self._input
        if self._spool is not None:
            opened.index.flush()
            opened = replace(opened, plain=self._spool)
        found = opened.picked([self._numbers[self._ends[o - 1] : self._ends[o]] for o in ordinals])
        for ordinal in ordinals:
            group = next(found, None)
            if group is None:
                raise UsageError("the input changed while it was read; run again when it is whole")
            yield ordinal, group
