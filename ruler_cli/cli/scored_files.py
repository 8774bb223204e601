"""The scored files of `report` and `agree`: open them, say what is odd about them, print JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.cli.progress import Problems
from ruler_cli.cli.safe_text import print_json
from ruler_cli.cli.units import count
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.compare import LeftOutGroup
    from ruler_cli.results.figures import ScoredFile

_UNLIKE = 3
"""Groups that are named as not compared."""


class UnlikeGroups:
    """Sentences on groups of two files that are not compared: the first few, and the number of all.

    They wait until it is known that the files have something in common.
    """

    def __init__(self) -> None:
        self._number = 0
        # different ones, and those of one file only
        self._named: tuple[list[str], list[str]] = ([], [])

    def add(self, group: LeftOutGroup) -> None:
        """Add the sentence on a group."""
        self._number += 1
        named = self._named[group.side is not None]
        if len(named) < _UNLIKE:
            named.append(group.sentence)

    def hand_to(self, problems: Problems) -> None:
        """Add them to the problems of the command."""
        different, alone = self._named
        named = (different + alone)[:_UNLIKE]
        for sentence in named:
            problems.add_sentence(sentence)
        more = self._number - len(named)
        if more:
            problems.add_sentence(f"{count(more, 'more group')} not compared", more)


def open_files(
    sources: Sequence[str], options: Options, stack: ExitStack, problems: Problems
) -> list[ScoredFile]:
    """Open one file or two; problems of their records are added."""
    from ruler_cli.results.figures import ScoredFile

    if len(sources) == 2 and {*sources} == {"-"}:
        raise UsageError("only one of SCORED and SCORED2 can be stdin")
    stack.push(problems.print_on_error)
    files = []
    for source in sources:
        add = partial(problems.add, Location(source).shown)
        file = ScoredFile(scored_input(options, source), stack, add)
        print_note(*file.input.notes)
        files.append(file)
    return files


def print_warnings(files: Sequence[ScoredFile]) -> None:
    """Print the warnings on files that were read."""
    for file in files:
        if file.warning:
            print_note(f"warning: {command_words(file.warning)}")


def head_of(file: ScoredFile) -> dict[str, Any]:
    """Return the name of a file, without a password, and a line that describes it."""
    return {"source": Location(file.source).public, "found": file.input.found()}


def print_facts(page: dict[str, Any], problems: Problems) -> None:
    """Print one JSON object: a page, and what could not be read."""
    print_json(
        {
            "version": 1,
            **page,
            "problems": problems.number,
            "first_problems": problems.first,
        }
    )


def text_lookup(options: Options) -> Callable[[Iterable[str]], Mapping[str, str]]:
    """Return a lookup of texts by their digests in the ledger of a command."""
    from ruler_cli.ledger.database import texts

    path = ledger_path(options.ledger_name)
    return partial(texts, [] if path is None else [path])
