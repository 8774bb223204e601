"""A scored file → the same file with fewer groups and rollouts; bytes of the rest are unchanged.

In place of them lines of another kind may be made of what is taken, see `pairs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.grouping import OnProblem
from ruler_cli.files.location import Location
from ruler_cli.files.output import (
    Output,
    refuse_clashes,
    refuse_input,
)
from ruler_cli.files.splice import (
    Patches,
    read_array,
    span_at,
)
from ruler_cli.formats.format import Format
from ruler_cli.results.choice import Choice, Selector
from ruler_cli.results.pairs import PairMaker
from ruler_cli.results.source import ScoredSource
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import (
    Group,
    Line,
    Path,
    Problem,
)

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

    UsageError if no group of INPUT has the figure of a condition, or OUTPUT is INPUT. `on_problem` is called with each
    line of INPUT that cannot be read, `on_group` after each group. Groups are read one at a time. `force`: an OUTPUT
    that ruler did not write is replaced. After an error OUTPUT is as it was, and nothing else is left.

    The selector is returned, with its counts.
    """
    selector = Selector(choice)
    name = Location(source.source).shown

    def unreadable(problem: Problem) -> None:
        selector.counts["unreadable"] += 1
        on_problem(problem)

    def write_as(container: Container) -> None:
        if not pairs:
            out.write_as(container, scored=False)

    refuse_input(source.source, output)
    refuse_clashes(source.source, output)
    # OUTPUT ends before INPUT is closed: it copies the bytes behind the last record of a document
    with ExitStack() as inputs, Output(output, keep=False, force=force) as out:
        opened = open_source(
            source,
            inputs,
            unreadable,
            write_as,
        )
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
                    raise UsageError(f"{name}: {error}") from None
            selector.refuse_missing(name)
        out.commit()
    return selector


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
                body = cut(line, self._form, removed)
            records.append((line.number, body))
        return records


def cut(
    line: Line,
    form: Format,
    removed: Collection[Path],
) -> bytes:
    """Cut some rollouts out of the list of a record.

    UsageError if several lists hold parts of each: if the wrong list lost an item, or the right one did not,
    every later item would belong to another rollout, and nobody would notice.
    """
    reason = "holds its answers in lists, or compares them"
    if form.shape != "columns" and not form.listed and not form.parallel:
        try:
            return _without(line.raw, removed)
        except UnreadableError as error:
            reason = str(error)
        except RecursionError:
            reason = "is nested too deeply"
    raise UsageError(
        f"no rollout can be removed from {line.where}: it {reason}",
        "use conditions about groups, which leave out whole records",
    )


def _without(raw: bytes, removed: Collection[Path]) -> bytes:
    dropped = {int(path[-1]) for path in removed}
    patches = Patches(raw)
    for path in {path[:-1] for path in removed if len(path) > 1}:
        span = span_at(raw, path)
        if span is not None and raw[span[0]] == ord("["):
            items = read_array(raw, span[0])
            patches.drop(items, [i in dropped for i in range(len(items))])
    return patches.apply()
