"""The scored files of `report` and `agree`: open them, say what is odd about them, print JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.cli.progress import Problems
from ruler_cli.cli.safe_text import print_json
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.models import ledger_path
from ruler_cli.settings.options import Options
from ruler_cli.types import Problem

if TYPE_CHECKING:
    from ruler_cli.results.compare import LeftOutGroup
    from ruler_cli.results.figures import ScoredFile


def open_files(
    sources: Sequence[str], options: Options, stack: ExitStack, problems: Problems
) -> list[ScoredFile]:
    """Open one file or two; problems of their records are added."""
    from ruler_cli.results.figures import ScoredFile

    if len(sources) == 2 and {*sources} == {"-"}:
        raise UsageError("only one of SCORED and SCORED2 can be stdin")

    def add(name: str, problem: Problem) -> None:
        problems.add(f"{name}: {problem.where} {command_words(problem.reason)}")

    files = []
    for source in sources:
        name = Location(source).shown
        file = ScoredFile(scored_input(options, source), stack, partial(add, name))
        print_note(*file.input.notes)
        files.append(file)
    return files


def report_problems(
    files: Sequence[ScoredFile], left_out: Sequence[LeftOutGroup], problems: Problems
) -> None:
    """Print the groups that are not compared, and the warnings on files that were read."""
    for group in left_out:
        problems.add(group.sentence)
    for file in files:
        if file.warning:
            print_note(f"warning: {command_words(file.warning)}")
    problems.close()


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
