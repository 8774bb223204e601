"""The scored files of `report` and `agree`: open them, say what is odd about them, print JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.messages import command_words, print_note
from ruler_cli.cli.progress import Problems
from ruler_cli.cli.safe_text import print_json
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.settings.load import scored_input
from ruler_cli.settings.options import Options

if TYPE_CHECKING:
    from ruler_cli.results.figures import ScoredFile


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
    counts = {"problems": problems.number, "first_problems": problems.first}
    print_json({"version": 1} | page | counts)
