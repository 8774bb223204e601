"""INPUT → groups, ready to be pulled: found, surveyed where it can be read twice, or streamed."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.source import is_compressed, lines, open_source, shown
from ruler_cli.formats.detect import SAMPLE, detect
from ruler_cli.formats.interface import PROMPT_HASH
from ruler_cli.formats.reader import Reader
from ruler_cli.groups import Index, OnProblem, Survey, by_line, consecutive, records, scattered, survey
from ruler_cli.pool.feed import inline, threaded
from ruler_cli.records import Group, Line, Problem, Record
from ruler_cli.settings import InputSettings


@dataclass(frozen=True, slots=True)
class Input:
    """An input that is open: how it is read, what is known of it, its groups as an iterator.

    `survey` is None for a stream. `index` holds what waits for its turn where groups are scattered.
    """

    reader: Reader | None
    survey: Survey | None
    groups: Iterator[Group]
    index: Index
    streamed: bool = False

    @property
    def scattered(self) -> bool:
        """Whether the records of a group lie apart, so that output must wait for its turn."""
        return self.survey is not None and self.survey.grouping == "scattered"

    def pull(self) -> Callable[[], Awaitable[Group | None]]:
        """The groups, one at a time."""
        return (threaded if self.streamed else inline)(self.groups)

    def found(self) -> str:
        """What was found, in one line."""
        if self.reader is None:
            return "no records"
        hashed = "key: the line" if self.reader.format.shape == "group" else "key: hash of the prompt"
        key = hashed if self.reader.key == PROMPT_HASH else f"key `{self.reader.key}`"
        head = f"{self.reader.format.name}, {key}"
        if self.survey is None:
            return f"{head}, streamed"
        s = self.survey
        sizes = f"{s.smallest}" if s.smallest == s.largest else f"{s.smallest} to {s.largest}"
        records = f"{s.records} record{'s' * (s.records != 1)}"
        groups = f"{s.groups} group{'s' * (s.groups != 1)}"
        rollouts = f"{sizes} rollout{'s' * (sizes != '1')}"
        return f"{head}: {records}, {groups} of {rollouts}, {_WORDS[s.grouping]}"


_WORDS = {"line": "one per line", "consecutive": "adjacent", "scattered": "scattered"}


def open_input(settings: InputSettings, stack: ExitStack, on_problem: OnProblem) -> Input:
    """Open INPUT; a file is surveyed to its end first, a pipe is read as it comes.

    Each problem is told once: by the survey of a file, or as a stream is read.
    """
    name = settings.source
    if name != "-" and (not Path(name).exists() or Path(name).is_file() or Path(name).is_dir()):
        return _file(settings, stack, on_problem)
    if settings.grouping == "scattered":
        raise UsageError("--grouping scattered: a pipe is read once; give the input as a file")
    stream = stack.enter_context(open_source(name))
    found = lines(name, stream)
    first = list(itertools.islice(found, SAMPLE))
    index = _index(stack)
    if not first:
        return Input(None, None, iter(()), index)
    reader = detect(shown(name), first, settings)
    read = records(itertools.chain(first, found), reader, on_problem)
    whole = reader.format.shape != "trajectory" or settings.grouping == "line"
    return Input(reader, None, by_line(read) if whole else consecutive(read, index), index, streamed=True)


def _file(settings: InputSettings, stack: ExitStack, on_problem: OnProblem) -> Input:
    name, index = settings.source, _index(stack)
    with open_source(name) as stream:
        first = list(itertools.islice(lines(name, stream), SAMPLE))
    if not first:
        return Input(None, None, iter(()), index)
    reader = detect(name, first, settings)
    with open_source(name) as stream:
        found = survey(lines(name, stream), reader, settings.grouping, index, on_problem)
    if found.records == 0:
        raise UsageError(f"{name}: none of its lines can be read; see the reasons above")
    stream = stack.enter_context(open_source(name))
    if found.grouping == "scattered":
        if is_compressed(name):
            stream = _spooled(stream, stack)
        return Input(reader, found, _unchanged(name, scattered(stream, reader, index)), index)
    again = 0

    def told(problem: Problem) -> None:
        nonlocal again
        again += 1
        if again > found.problems:  # the survey has told the others
            raise UsageError(
                f"{name}: changed while it was read ({problem.where}); run again when it is whole"
            )

    read = records(_surveyed(name, lines(name, stream), found), reader, told)
    return Input(reader, found, by_line(read) if found.grouping == "line" else _adjacent(read), index)


def _surveyed(name: str, again: Iterator[Line], found: Survey) -> Iterator[Line]:
    """The lines that the survey read: none that were appended since, and the last one unchanged."""
    number = found.end[0]
    at = (0, 0)
    for line in again:
        if line.number > number:
            break
        at = (line.number, line.offset + len(line.raw))
        if line.number == number and at != found.end:
            break
        yield line
    if at != found.end:
        raise UsageError(f"{name}: changed while it was read (line {number}); run again when it is whole")


def _adjacent(read: Iterator[Record]) -> Iterator[Group]:
    """Consecutive records of one key, in a file that was surveyed."""
    for key, members in itertools.groupby(read, key=lambda record: record.key):
        yield Group(str(key), tuple(members))


def _unchanged(name: str, groups: Iterator[Group]) -> Iterator[Group]:
    try:
        yield from groups
    except UnreadableError as error:
        raise UsageError(f"{name}: changed while it was read ({error}); run again when it is whole") from None


def _spooled(stream: BinaryIO, stack: ExitStack) -> BinaryIO:
    """The decompressed text in a temporary file, where records can be fetched by offset."""
    spool = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    shutil.copyfileobj(stream, spool, 1 << 20)
    spool.flush()  # it is read by its descriptor
    return cast(BinaryIO, spool)


def _index(stack: ExitStack) -> Index:
    index = Index()
    stack.callback(index.close)
    return index


def _nothing(_problem: Problem) -> None:
    """The survey has told it already."""
