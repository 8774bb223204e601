"""A scored file → the same file with fewer groups and rollouts; bytes of the rest are unchanged.

In place of them lines of another kind may be made of what is taken, see `pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.location import Location
from ruler_cli.files.output import Output, refuse_clashes
from ruler_cli.files.splice import Patches, read_array, span_at
from ruler_cli.formats.format import Format
from ruler_cli.results.choice import Choice, Selector
from ruler_cli.results.pairs import PairMaker
from ruler_cli.results.source import ScoredSource
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Line, Path, Problem

OpenContainer = Callable[[Container], None]
Open = Callable[
    [InputSettings, ExitStack, OnProblem, OpenContainer], ScoredSource
]
"""Opens INPUT until a stack ends; functions get each record that cannot be read, and the container."""


def select(
    source: InputSettings,
    output: str,
    open_source: Open,
    choice: Choice,
    pairs: PairMaker | None = None,
    *,
    force: bool = False,
    on_problem: Callable[[Problem], None],
    on_group: Callable[[], object] = lambda: None,
) -> Selector:
    """Write the groups and rollouts of a choice, or the `pairs` that are made of them.

    UsageError if no group of INPUT has the figure of a condition. `on_problem` is called with each line of INPUT
    that cannot be read, `on_group` after each group. Groups are read one at a time. `force`: an OUTPUT that ruler
    did not write is replaced. After an error OUTPUT is as it was, and nothing else is left.

    The selector is returned, with its counts.
    """
    selector = Selector(choice)
    counts = selector.counts
    scored = Location(source.source)

    def unreadable(problem: Problem) -> None:
        counts["unreadable"] += 1
        on_problem(problem)

    def write_as(container: Container) -> None:
        if not pairs:
            out.write_as(container, scored=False)

    refuse_in_place = partial(_refuse_in_place, scored, output)
    refuse_clashes(source.source, output)
    if pairs:
        refuse_in_place("lose its rollouts")
    # OUTPUT ends before INPUT is closed: it copies the bytes behind the last record of a document
    with ExitStack() as inputs, Output(output, keep=False, force=force) as out:
        opened = open_source(source, inputs, unreadable, write_as)
        if counts["unreadable"]:
            refuse_in_place("lose what cannot be read")
        if opened.reader is not None:
            if not (opened.in_order or pairs):
                out.keep_order(opened.order())
            selector.open(opened.reader, source)
            cutter = Cutter(opened.reader.format)
            for group in opened.groups:
                on_group()
                try:
                    selected = selector.select(group)
                    if pairs is None:
                        kept = selected.indices if selected else None
                        out.write(cutter.records(group, kept))
                    elif selected is not None:
                        out.write(pairs.lines(selected))
                except UsageError as error:
                    raise UsageError(f"{scored.shown}: {error}") from None
            selector.refuse_missing(scored.shown)
            if counts["groups"] and not counts["kept groups"]:
                refuse_in_place(
                    f"be left with none of its {counts['groups']} groups"
                )
        out.commit()
    return selector


def _refuse_in_place(
    scored: Location,
    output: str,
    why: str,
) -> None:
    """Raise UsageError if OUTPUT is INPUT."""
    if output != "-" and scored.same(output):
        problem = f"is INPUT, and would {why}"
        place = Location(output).shown
        raise UsageError(problem, "give another OUTPUT", place=place)


class Cutter:
    """Cuts the rollouts that are left out from the bytes of their records.

    A line may hold several groups, and is done when the last of them is.
    """

    def __init__(self, form: Format) -> None:
        self._form = form
        # by line: the paths of its rollouts so far, and whether each stays
        self._open: dict[int, dict[Path, bool]] = {}

    def records(
        self,
        group: Group,
        selected: Collection[int] | None,
    ) -> list[tuple[int, bytes]]:
        """Return the number and the new bytes of each record that is done; no bytes: it is left out.

        `selected` are indices among the group's rollouts, None: the group is left out. UsageError for a
        record that cannot lose a rollout.
        """
        records = []
        index = 0
        for record in group.records:
            line = record.line
            paths = self._open.pop(line.number, {})
            for rollout in record.rollouts:
                paths[rollout.path] = selected is not None and index in selected
                index += 1
            if record.part + 1 < record.parts:
                self._open[line.number] = paths
                continue
            removed = [path for path, stays in paths.items() if not stays]
            body = line.raw
            if len(removed) == len(paths) and (removed or selected is None):
                body = b""
            elif removed:
                body = self._cut(line, removed)
            records.append((line.number, body))
        return records

    def _cut(
        self,
        line: Line,
        removed: Collection[Path],
    ) -> bytes:
        try:
            return cut(line.raw, self._form, removed)
        except (UnreadableError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            reason = "is nested too deeply" if deep else error
            raise UsageError(
                f"{line.where} cannot lose a rollout exactly: it {reason}",
                "use conditions about groups, which leave out whole records",
            ) from None


def cut(
    raw: bytes,
    form: Format,
    removed: Collection[Path],
) -> bytes:
    """Cut some rollouts out of the list of a record.

    UnreadableError if several lists hold parts of each: if the wrong list lost an item, or the right one did not,
    every later item would belong to another rollout, and nobody would notice.
    """
    if form.shape == "columns" or form.listed or form.parallel:
        raise UnreadableError("holds its answers in lists, or compares them")
    dropped = {int(path[-1]) for path in removed}
    patches = Patches(raw)
    for path in {path[:-1] for path in removed if len(path) > 1}:
        span = span_at(raw, path)
        if span is not None and raw[span[0]] == ord("["):
            items = read_array(raw, span[0])
            patches.drop(items, [i in dropped for i in range(len(items))])
    return patches.apply()
