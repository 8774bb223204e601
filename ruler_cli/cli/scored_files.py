"""The scored files of `report` and `agree`: read them, say what is odd about them, print JSON, name what is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.messages import print_note
from ruler_cli.cli.progress import Problems, group_counter
from ruler_cli.cli.safe_text import print_json
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options
from ruler_cli.types import Problem

if TYPE_CHECKING:
    from ruler_cli.results.agreement import Agreement
    from ruler_cli.results.compare import LeftOutGroup
    from ruler_cli.results.figures import ScoredFile


class FileProblems(Problems):
    """Problems of scored files: of each record that cannot be read, and what else `add` is given."""

    def __init__(self) -> None:
        super().__init__("problems")

    def open(
        self,
        source: str,
        options: Options,
        stack: ExitStack,
    ) -> ScoredFile:
        """Open a file, and print what it is; UsageError if it cannot be read."""
        from ruler_cli.results.figures import ScoredFile
        from ruler_cli.runs.input import open_input

        add = partial(self._add, Location(source).shown)
        settings = scored_input(options, source)
        opened = open_input(settings, stack, add)
        file = ScoredFile(opened)
        print_note(*opened.notes)
        return file

    def _add(
        self,
        name: str,
        problem: Problem,
    ) -> None:
        self.add(f"{name}: {problem.where} {problem.reason!s}")

    def print_json(
        self,
        page: Mapping[str, Any],
        groups: Iterable[Any] | None = None,
    ) -> None:
        """Print one JSON object: a page, the problems, and the `groups` one by one."""
        counts = {"problems": self.number, "first_problems": self.first}
        print_json(
            {
                "version": 5,
                **page,
                **counts,
            },
            groups,
        )


def warn(file: ScoredFile) -> None:
    """Print the warning on a file that was read, if there is one."""
    if file.warning:
        print_note(f"warning: {file.warning!s}")


def print_written(
    what: str,
    size: int,
    target: str,
) -> None:
    """Print what a page holds, and where it is."""
    to = "stdout" if target == "-" else target
    print_note(f"{what}, {size / 1e6:.1f} MB written to {to}")


def _refuse_empty(
    agreement: Agreement, file: ScoredFile, left: Sequence[str]
) -> None:
    """Raise UsageError if there is nothing to compare, with the reason and the way out.

    `left` are sentences on labels of no rollout.
    """
    labelled = any(scorer["pairs"] for scorer in agreement["scorers"])
    if labelled or agreement["corrected"]:
        return
    counts = file.figures.rollouts
    labels = agreement["labelled"]
    reason = "all labels within each group are equal"
    if not counts["scored"]:
        reason = "no rollout has a score"
    elif left and not labels["equal"] + labels["unsure"]:
        reason = left[0]
    elif agreement["label_files"]:
        reason = "no label says that one rollout is better than another, both with a score"
    elif not counts["labelled"]:
        reason = "no rollout has a usable label"
    remedy = "name labels of its rollouts with --labels PATH or --people FILE"
    raise UsageError(f"nothing to compare: {reason}", remedy, place=file.name)


class ScoredFiles:
    """One scored file, or two of the same input; `reading` has the figures of the groups so far.

    `problems` are those of the files, and groups that are `left_out` of a comparison.
    """

    def __init__(
        self,
        sources: Sequence[str],
        options: Options,
        stack: ExitStack,
        *,
        labelled: bool = False,
    ) -> None:
        """Compare scores with labels of people if there are files of them, or with those of records if `labelled`.

        UsageError if a file cannot be read.
        """
        from ruler_cli.results.compare import Comparison
        from ruler_cli.results.highlights import Run
        from ruler_cli.results.label_agreement import LabelAgreement
        from ruler_cli.results.labels import read_labels

        if [*sources] == ["-", "-"]:
            raise UsageError("only one of SCORED and OTHER can be stdin")
        self._options = options
        self.problems = FileProblems()
        self.left_out: list[LeftOutGroup] = []
        self._labels: Any = None
        self.files = [
            self.problems.open(name, options, stack) for name in sources
        ]
        labels = read_labels(options.people) if options.people else None
        if options.people or labelled:
            self._labels = LabelAgreement(labels)
        self.reading: Any = Run(self.files[0], self._labels)
        if self.files[1:]:
            self.reading = Comparison(self.files, self.left_out.append)

    def groups(self, keep: Any = lambda *_: None) -> Iterator[Any]:
        """Yield each group, counted on a terminal; what `keep` returns of it is `kept` with it."""
        with group_counter() as bar:
            for group in self.reading.groups(keep):
                bar.update()
                yield group

    def figures(self) -> Any:
        """Return the figures of the groups so far, with the texts that the ledger has."""
        from ruler_cli.ledger.database import texts

        path = ledger_path(self._options.ledger_name)
        figures = self.reading.figures(
            partial(texts, [] if path is None else [path])
        )
        if self._labels:
            figures["against_people"] = self.agreement()
        return figures

    def agreement(self) -> Agreement:
        """Measure how the scores agree with labels; UsageError if there is nothing to compare."""
        measure = self._labels
        if measure.repeated:
            groups = count(measure.repeated, "group")
            print_note(
                f"{groups} with the rollouts of another one, not counted again"
            )
        agreement: Agreement = measure.agreement()
        left = []
        for group, *rollouts in measure.left:
            label = f"label of {' and '.join(rollouts)} in group {group!r}"
            left.append(f"{label}: no such rollout in {self.names}")
        _refuse_empty(agreement, self.files[0], left)
        for sentence in left:
            self.problems.add(sentence)
        return agreement

    def report_problems(self) -> None:
        """Print the groups that are left out, and the warnings on files that were read."""
        for group in self.left_out:
            self.problems.add(group.sentence)
        for file in self.files:
            warn(file)
        self.problems.close()

    @property
    def names(self) -> str:
        """The files in a sentence."""
        return " and ".join(file.name for file in self.files)

    @property
    def heads(self) -> list[dict[str, Any]]:
        """The name of each file, without a password, and a line that describes it."""
        return [
            {
                "source": Location(file.source).public,
                "found": file.input.brief(),
            }
            for file in self.files
        ]
