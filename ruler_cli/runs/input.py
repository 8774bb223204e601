"""INPUT → groups, ready to be pulled: found, surveyed if it can be read twice, or streamed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers import Container
from ruler_cli.files.grouping import (
    OnProblem,
    fetched,
    grouped,
    part_of,
    records,
    surveyed,
    unchanged,
)
from ruler_cli.files.location import Location
from ruler_cli.files.parse import parse
from ruler_cli.files.scratch import Index, Scratch, place
from ruler_cli.formats.fields import printable
from ruler_cli.formats.reader import SAMPLE, Reader, detect
from ruler_cli.formats.table import fits
from ruler_cli.runs.survey import (
    OnRecord,
    Openings,
    Survey,
    labelled,
    streamed,
    survey,
)
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Line, Observer, Problem

_NAMED = 4
"""Labels of files that are named."""
_WORDS = {"line": "one per line", "consecutive": "adjacent", "scattered": "scattered"}


@dataclass(frozen=True, slots=True)
class Input:
    """An input that is open: its reader, its counts, and its groups as an iterator.

    `survey` is None for a stream, `total` the number of groups if it is known. `again` yields the groups from
    the first on once more; None for a stream. `waits`: to read it may take long, because of a pipe or a
    network. `notes` are sentences on parts that are not read. `in_order`: groups come as their records lie in
    INPUT; else output must wait for its turn, and `index` keeps the records that do. `fd` is a file in which
    a record can be read at its offset; None if there is none.
    """

    container: Container
    index: Index
    reader: Reader | None = None
    survey: Survey | None = None
    groups: Iterator[Group] = field(default_factory=lambda: iter(()))
    again: Callable[[], Iterator[Group]] | None = None
    waits: bool = False
    notes: Sequence[str] = ()
    fd: int | None = None
    openings: Openings = field(default_factory=Openings)
    total: int | None = None
    in_order: bool = True

    def warnings(self, *, alone: bool = False) -> Sequence[str]:
        """Return warnings on what is read and how it is grouped; those of a stream are known at its end.

        `alone`: rollouts without another are to be scored by themselves.
        """
        if self.survey is None:
            grouping = self.openings.sentences()
        else:
            grouping = self.survey.warnings(alone=alone)
        return [*self.container.warnings(), *grouping]

    def report(
        self, observer: Observer, *, end: bool = False, alone: bool = False
    ) -> None:
        """Report what was found, and the warnings as soon as they are known: for a stream at its `end`."""
        if not end and self.reader is None:
            # nothing will be scored, also where notes are off
            observer.warn(self.found())
            return
        if not end:
            for sentence in (self.found(), *self.notes):
                observer.note(sentence)
        if end == (self.survey is None):
            for sentence in self.warnings(alone=alone):
                observer.warn(sentence)

    def picked(self, firsts: Collection[int]) -> Iterator[Group]:
        """Yield some groups, each given by the number of its first record."""
        if self.fd is None or self.reader is None:
            for group in self.groups:
                if place(group.records[0]) in firsts:
                    yield group
            return
        whole = self.reader.format.shape != "trajectory"
        for first, places in self.index.chosen(firsts, each_line=whole):
            with unchanged(self.container.name):
                read, line_of = self.reader.read, self.container.line
                group = fetched(self.fd, read, places, line_of)
            yield part_of(group, first)

    def found(self) -> str:
        """Describe the input in one line."""
        if self.reader is None:
            return "no records: INPUT is empty, or holds blank lines only"
        head = f"{self.reader.format.name}, {_key(self.reader)}"
        found = self.survey
        if found is None:
            return f"{head}, streamed"
        sizes = f"{found.smallest} to {found.largest}"
        rollouts = (
            _count(found.largest, "rollout")
            if found.smallest == found.largest
            else f"{sizes} rollouts"
        )
        counts = f"{_count(found.records, 'record')}, {_count(found.groups, 'group')}"
        return f"{head}: {counts} of {rollouts}, {_WORDS[found.grouping]}"


def _key(reader: Reader) -> str:
    """Describe the key of the groups."""
    if reader.by_prompt:
        alone = reader.format.shape == "group"
        key = "key: the line" if alone else "key: hash of the prompt"
    elif reader.key == reader.format.key_description:
        key = f"key: {reader.key}"
    else:
        key = f"key `{reader.key}`"
    if reader.labels is None:
        return key
    labels = list(dict.fromkeys(reader.labels.values()))
    shown = [*map(printable, labels[:_NAMED]), *["…"] * (len(labels) > _NAMED)]
    return f"{key} within its {reader.label_kind} ({', '.join(shown)})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def open_input(
    settings: InputSettings,
    stack: ExitStack,
    on_problem: OnProblem,
    on_open: Callable[[Container], None] = lambda _container: None,
    on_record: OnRecord | None = None,
    on_again: Callable[[], None] = lambda: None,
    draw: int | None = None,
) -> Input:
    """Open INPUT; a file is surveyed to its end first, a pipe of JSON lines is read as it comes.

    Each problem and each record is reported once: by the survey of a file, or as a stream is read. `on_open`
    gets the container before its records are read. A shard reports its own problems only. `on_again`: all
    records are reported once more, with other groups; problems are not. With `draw`, a seed, the groups of a
    file come in an order that only it and their contents decide; UsageError for a pipe.
    """
    shard, most = settings.shard, settings.max_record << 20
    keep = settings.grouping == "scattered" and draw is None
    container = open_container(settings.source, stack, most=most, keep=keep)
    name = container.name
    on_open(container)
    if container.once and draw is not None:
        problem = f"groups are drawn from all of INPUT, and {name} is read once"
        remedy = "give INPUT as a file, or leave it out"
        raise UsageError(problem, remedy, option="spend", value="spread")
    index = stack.enter_context(closing(Index(draw)))
    lines = container.records()
    if container.once:
        first = list(itertools.islice(lines, SAMPLE))
    else:
        first = container.sample(SAMPLE)
    if not first:
        for line in lines:  # what is damaged, or no JSON at all, is not empty
            problem = (
                f"none of its files holds records ({line.where} is no JSON object)"
            )
            raise UsageError(problem, place=name)
        return Input(container, index)
    reader = detect(name, first, settings)
    if shard is not None:
        _refuse_columns(reader, name)

    def report(problem: Problem) -> None:
        # of all shards together each once
        if shard is None or shard.tells(problem.line):
            on_problem(problem)

    if not container.once:
        surveys = _FileSurvey(container, settings, stack, reader)
        return surveys.input(index, report, on_record, on_again)
    openings = Openings(reader.format.simulated_user, reader.format.varied_prompts)
    read = records(itertools.chain(first, lines), reader.read, report)
    groups = streamed(read, reader, settings, index, openings, on_record)
    notes = [] if settings.limit is None else [_first(settings.limit)]
    notes += [] if shard is None else [str(shard)]
    return Input(
        container,
        index,
        reader,
        groups=groups,
        waits=True,
        notes=notes,
        openings=openings,
    )


def _refuse_columns(reader: Reader, name: str) -> None:
    """Raise UsageError if the groups of a record may be of different shards."""
    if reader.format.shape == "columns":
        remedy = Sentence(
            "give each process some of the files or lines (`split -n l/16`), and a {ledger}"
        )
        problem = f"a record of {name} holds several groups"
        raise UsageError(problem, remedy, option="shard")


@dataclass(slots=True)
class _FileSurvey:
    """Surveys an INPUT that can be read twice, and reads its groups."""

    container: Container
    settings: InputSettings
    stack: ExitStack
    reader: Reader

    def input(
        self,
        index: Index,
        on_problem: OnProblem,
        on_record: OnRecord | None,
        on_again: Callable[[], None],
    ) -> Input:
        """Survey all records, twice if files count their keys anew."""
        container, settings, problems = self.container, self.settings, list[Problem]()

        def report(problem: Problem) -> None:
            problems[:] = problems or [problem]
            on_problem(problem)

        notes = container.check_files(partial(_is_of, self.reader), report)
        found = self._survey(self.reader, index, report, on_record)
        if settings.group_by is None and found.reader.format.shape == "trajectory":
            within = labelled(found.reader, container.tasks(), index)
            if within is not None:
                # a second look, since other records belong together now
                index = self.stack.enter_context(closing(Index(index.seed)))
                on_again()
                found = self._survey(within, index, lambda _: None, on_record)
        self.reader = found.reader
        if found.records == 0:
            first = [
                Sentence("{line} {why}", line=p.where, why=p.reason) for p in problems
            ]
            problem = f"none of its {container.unit}s can be read"
            raise UsageError(problem, *first, place=container.name)
        if settings.limit is not None and (found.cut or settings.limit < found.groups):
            notes.append(_first(settings.limit, 0 if found.cut else found.groups))
        if settings.shard is not None:
            notes.append(f"{settings.shard}: {found.mine:,} of {_groups(found.groups)}")
        in_order = found.grouping != "scattered" and index.seed is None
        fd = container.fd
        if not in_order and fd is None:
            fd = self._copied(found, index)
        groups = partial(self._groups, found, index, None if in_order else fd)
        return Input(
            container, index, self.reader, found, groups(), groups, notes=notes, fd=fd, openings=found.openings,
            waits=Location(settings.source).remote and in_order, total=found.mine, in_order=in_order,
        )  # fmt: skip

    def _lines(self) -> Iterator[Line]:
        """Yield the lines; without a file of them, with the offsets that they have in a copy."""
        if self.container.fd is not None:
            return self.container.records()
        return _with_offsets(self.container.records())

    def _survey(
        self,
        reader: Reader,
        index: Index,
        on_problem: OnProblem,
        on_record: OnRecord | None,
    ) -> Survey:
        where, settings = self.container.where, self.settings
        return survey(
            self._lines(), reader, settings, index, on_problem, where, on_record
        )

    def _own_lines(self, found: Survey, index: Index) -> Iterator[Line]:
        return surveyed(self._lines(), found.end, found.where, index)

    def _copied(self, found: Survey, index: Index) -> int:
        """Copy the lines of the run's own groups to a file, and return its descriptor."""
        scratch = self.stack.enter_context(Scratch())
        with unchanged(self.container.name):
            for line in self._own_lines(found, index):
                scratch.skip(line.offset)
                scratch.write(line.raw)
        return scratch.fileno()

    def _groups(self, found: Survey, index: Index, fd: int | None) -> Iterator[Group]:
        """Yield the groups: fetched from a file by their places, or as their records lie in INPUT."""
        read, alone = self.reader.read, found.grouping == "line"
        with unchanged(self.container.name):
            if fd is None:
                own = self._own_lines(found, index)
                each = (record for line in own for record in read(line))
                yield from grouped(each, alone=alone)
                return
            for places in index.places(each_line=alone):
                own_places = places[:1] if alone else places
                group = fetched(fd, read, own_places, self.container.line)
                yield from grouped(group.records, alone=True) if alone else [group]


def _with_offsets(lines: Iterator[Line]) -> Iterator[Line]:
    """Give records the offsets that they have if they are written one after another without a separator."""
    offset = 0
    for line in lines:
        yield Line(line.number, offset, line.raw, line.place, line.source, line.skipped)
        offset += len(line.raw)


def _is_of(reader: Reader, line: Line) -> bool | None:
    """Tell if a record is of the format, well-formed or not; None if it is no JSON object."""
    try:
        value = parse(line.raw)
    except (UnreadableError, RecursionError):
        return None
    try:
        return bool(fits(reader.format, value) or reader.read(line))
    except UnreadableError:
        return False


def _groups(number: int) -> str:
    return f"{number:,} group{'s' * (number != 1)}"


def _first(limit: int, groups: int = 0) -> str:
    """Return the sentence on a limit; `groups` is the number of all, 0 if it is not known."""
    first = f"{limit:,} of {_groups(groups)}" if groups else _groups(limit)
    return Sentence("{limit:{most}}: the first {first} only", most=limit, first=first)
