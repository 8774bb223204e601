"""INPUT → groups, ready to be pulled: found, surveyed where it can be read twice, or streamed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from ruler_cli.config import InputSettings
from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.detect import SAMPLE, detect
from ruler_cli.formats.interface import fits as is_of
from ruler_cli.formats.interface import printable as plain_text
from ruler_cli.formats.reader import Reader
from ruler_cli.reading.container import Container, MultiFileContainer
from ruler_cli.reading.grouping import (
    File,
    LineOf,
    OnProblem,
    OnRecord,
    Survey,
    fetched,
    grouped,
    labelled,
    own,
    part_of,
    records,
    scattered,
    streamed,
    survey,
    surveyed,
    unchanged,
)
from ruler_cli.reading.index import Index, place
from ruler_cli.reading.location import Location
from ruler_cli.reading.open import open_container, spool_lines
from ruler_cli.reading.openings import Openings
from ruler_cli.reading.parse import parse
from ruler_cli.reading.scratch import Scratch, spool_records, with_offsets
from ruler_cli.types import Group, Line, Problem


@dataclass(frozen=True, slots=True)
class Input:
    """An input that is open: its reader, its counts, and its groups as an iterator.

    `survey` is None for a stream, `total` the number of groups if it is known. `waits`: to read it may take
    long, because of a pipe or a network. `notes` are sentences on parts that are not read. `index` keeps the
    records that wait for their turn if groups are scattered.
    """

    reader: Reader | None
    survey: Survey | None
    groups: Iterator[Group]
    index: Index
    waits: bool = False
    notes: Sequence[str] = ()
    plain: File | None = None
    line_of: LineOf = Line
    again: Callable[[], Iterator[Group]] | None = None
    unit: str = "line"
    openings: Openings = field(default_factory=Openings)
    total: int | None = None

    def early_warnings(self) -> Sequence[str]:
        """Warnings on how records are grouped, known before anything is judged; of a stream none."""
        return self.survey.warnings() if self.survey is not None else ()

    def late_warnings(self) -> Sequence[str]:
        """Warnings on how records were grouped, known at the end of a stream."""
        return self.openings.sentences() if self.survey is None else ()

    @property
    def scattered(self) -> bool:
        """Tell if the records of a group lie apart, so that output must wait for its turn."""
        return self.survey is not None and self.survey.grouping == "scattered"

    def picked(self, wanted: Sequence[Sequence[int]]) -> Iterator[Group]:
        """Some groups, each given by the numbers of its records: fetched, or found among all of them."""
        if self.plain is not None and self.reader is not None:
            for numbers in wanted:
                with unchanged("the input"):
                    group = fetched(self.plain, self.reader, self.index.at(numbers), self.line_of)
                yield part_of(group, numbers[0])
            return
        firsts = {numbers[0] for numbers in wanted}
        again = self.again() if self.again is not None else self.groups
        yield from (group for group in again if place(group.records[0]) in firsts)

    def found(self) -> str:
        """Describe the input in one line."""
        if self.reader is None:
            return "no records"
        hashed = "key: the line" if self.reader.format.shape == "group" else "key: hash of the prompt"
        own = f"key: {self.reader.key}" if self.reader.key == self.reader.format.key_description else ""
        key = hashed if self.reader.by_prompt else own or f"key `{self.reader.key}`"
        if self.reader.labels is not None:
            key += f" within its {self.reader.label_kind} ({', '.join(_some(self.reader.labels.values()))})"
        head = f"{self.reader.format.name}, {key}"
        if self.survey is None:
            return f"{head}, streamed"
        s = self.survey
        sizes = f"{s.smallest}" if s.smallest == s.largest else f"{s.smallest} to {s.largest}"
        records = f"{s.records} record{'s' * (s.records != 1)}"
        groups = f"{s.groups} group{'s' * (s.groups != 1)}"
        rollouts = f"{sizes} rollout{'s' * (sizes != '1')}"
        return f"{head}: {records}, {groups} of {rollouts}, {_WORDS[s.grouping]}"


def _some(labels: Iterable[str]) -> list[str]:
    """The first labels, for a sentence."""
    every = list(dict.fromkeys(labels))
    return [plain_text(label) for label in every[:_NAMED]] + ["…"] * (len(every) > _NAMED)


_NAMED = 4
"""Labels of files that are named."""
_WORDS = {"line": "one per line", "consecutive": "adjacent", "scattered": "scattered"}


def open_input(
    settings: InputSettings,
    stack: ExitStack,
    on_problem: OnProblem,
    on_open: Callable[[Container], None] = lambda _container: None,
    on_record: OnRecord | None = None,
    on_again: Callable[[], None] = lambda: None,
) -> Input:
    """Open INPUT; a file is surveyed to its end first, a pipe of JSON lines is read as it comes.

    Each problem and each record is reported once: by the survey of a file, or as a stream is read. `on_open`
    gets the container before its records are read. A shard reports its own problems only. `on_again`: all
    records are reported once more, with other groups; problems are not.
    """
    shard = settings.shard
    container = open_container(settings.source, stack)
    on_open(container)
    if container.once and settings.grouping == "scattered":  # all of it is on disk before anything is judged
        container = spool_lines(container.name, container.records(), stack)

    def report(problem: Problem) -> None:
        if shard is None or shard.tells(problem.line):  # of all shards together each once
            on_problem(problem)

    if not container.once:
        return _file(container, settings, stack, report, on_record, on_again)
    lines, index = container.records(), _index(stack)
    first = list(itertools.islice(lines, SAMPLE))
    if not first:
        return Input(None, None, iter(()), index, unit=container.unit)
    reader = _detected(Location(settings.source).shown, first, settings)
    openings = Openings(reader.format.simulated_user)
    read = records(itertools.chain(first, lines), reader.read, report)
    groups = streamed(read, reader, settings.grouping, index, openings, on_record, shard)
    notes = [] if shard is None else [str(shard)]
    return Input(reader, None, groups, index, waits=True, notes=notes, openings=openings)


def _detected(name: str, first: list[Line], settings: InputSettings) -> Reader:
    reader = detect(name, first, settings)
    if settings.shard is not None and reader.format.shape == "columns":
        raise UsageError(
            f"--shard: a record of {name} holds several groups, which may be of different shards; "
            "give each process some of the files, or of the lines (`split -n l/16`), and a --ledger"
        )
    return reader


def _file(
    container: Container,
    settings: InputSettings,
    stack: ExitStack,
    on_problem: OnProblem,
    on_record: OnRecord | None,
    on_again: Callable[[], None],
) -> Input:
    name, index, shard = Location(settings.source).shown, _index(stack), settings.shard
    problems: list[Problem] = []

    def report(problem: Problem) -> None:
        problems[:] = problems or [problem]
        on_problem(problem)

    first = container.sample(SAMPLE)
    if not first:
        for line in container.records():  # what is damaged, or no JSON at all, is not empty
            raise UsageError(f"{name}: none of its files holds records ({line.where} is no JSON object)")
        return Input(None, None, iter(()), index, unit=container.unit)
    reader, notes = _detected(name, first, settings), list[str]()
    if isinstance(container, MultiFileContainer):
        container.shard = shard
        notes += container.check_files(_fits(reader), report)

    def lines() -> Iterator[Line]:
        return container.records() if container.plain else with_offsets(container.records())

    result = survey(lines(), reader, settings.grouping, index, report, container.where, on_record, shard)
    if (
        isinstance(container, MultiFileContainer)
        and settings.group_by is None
        and reader.format.shape == "trajectory"
    ):
        within = labelled(result.reader, container.tasks(), index)
        if within is not None:  # a second look, since other records belong together now
            index, how = _index(stack), settings.grouping
            on_again()
            result = survey(lines(), within, how, index, _known, container.where, on_record, shard)
    reader = result.reader
    if result.first_mixed:
        result.openings.first_mixed = _key_at(result.first_mixed, lines(), reader)
    if shard is not None:
        notes.append(f"{shard}: {result.mine:,} of {result.groups:,} group{'s' * (result.groups != 1)}")
    if result.records == 0:
        why = f"; {problems[0].where} {problems[0].reason}" if problems else ""
        raise UsageError(f"{name}: none of its {container.unit}s can be read{why}")
    plain: File | None = container if container.plain else None
    if result.grouping == "scattered" and plain is None:
        with unchanged(f"{name}:"):
            plain = spool_records(own(surveyed(lines(), result), index), stack.enter_context(Scratch()))

    def again() -> Iterator[Group]:
        with unchanged(f"{name}:"):
            if result.grouping == "scattered" and plain is not None:
                yield from scattered(plain, reader, index, container.line)
            else:
                yield from grouped(own(surveyed(lines(), result), index), reader, result.grouping)

    return Input(
        reader, result, again(), index, notes=notes, plain=plain, line_of=container.line, again=again,
        waits=Location(settings.source).remote and result.grouping != "scattered", unit=container.unit,
        openings=result.openings, total=result.mine,
    )  # fmt: skip


def _known(_: Problem) -> None:
    """Pass over a problem that the first survey has reported."""


def _key_at(number: int, lines: Iterable[Line], reader: Reader) -> str:
    """The group key of the first record of a line."""
    line = next(line for line in lines if line.number == number)
    return str(reader.read(line)[0].key)


def _fits(reader: Reader) -> Callable[[Line], bool | None]:
    """Tell if a record is of the format, well-formed or not; None where it is no JSON object."""

    def fits(line: Line) -> bool | None:
        try:
            value = parse(line.raw)
        except (UnreadableError, RecursionError):
            return None
        try:
            return bool(is_of(reader.format, value) or reader.read(line))
        except UnreadableError:
            return False

    return fits


def _index(stack: ExitStack) -> Index:
    index = Index()
    stack.callback(index.close)
    return index
