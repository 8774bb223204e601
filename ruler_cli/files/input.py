"""INPUT → groups, ready to be pulled: found, surveyed where it can be read twice, or streamed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from ruler_cli.errors import InputChanged, Sentence, UnreadableError, UsageError
from ruler_cli.files.container import Container, MultiFileContainer
from ruler_cli.files.grouping import (
    OnProblem,
    OnRecord,
    Openings,
    Survey,
    fetched,
    grouped,
    labelled,
    part_of,
    records,
    streamed,
    survey,
    surveyed,
    unchanged,
)
from ruler_cli.files.location import Location
from ruler_cli.files.open import open_container, spool_lines
from ruler_cli.files.parse import parse
from ruler_cli.files.scratch import Index, Scratch, place
from ruler_cli.formats.detect import SAMPLE, detect
from ruler_cli.formats.interface import fits as is_of
from ruler_cli.formats.interface import printable as plain_text
from ruler_cli.formats.reader import Reader
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
        """Warnings on what is read and how it is grouped; those of a stream are known at its end.

        `alone`: rollouts without another are to be scored by themselves.
        """
        grouping = (
            self.survey.warnings(alone=alone)
            if self.survey is not None
            else self.openings.sentences()
        )
        return [*self.container.warnings(), *grouping]

    def report(
        self, observer: Observer, *, end: bool = False, alone: bool = False
    ) -> None:
        """Report what was found, and the warnings as soon as they are known: for a stream at its `end`."""
        if self.reader is None and not end:
            observer.warn(
                self.found()
            )  # nothing will be scored, also where notes are off
            return
        for sentence in () if end else (self.found(), *self.notes):
            observer.note(sentence)
        for sentence in (
            self.warnings(alone=alone) if end == (self.survey is None) else ()
        ):
            observer.warn(sentence)

    def picked(self, firsts: Collection[int]) -> Iterator[Group]:
        """Some groups, each given by the number of its first record: fetched, or found among `groups`."""
        if self.fd is None or self.reader is None:
            yield from (
                group for group in self.groups if place(group.records[0]) in firsts
            )
            return
        whole = self.reader.format.shape != "trajectory"
        for first, places in self.index.chosen(firsts, each_line=whole):
            with unchanged(self.container.name):
                group = fetched(self.fd, self.reader, places, self.container.line)
            yield part_of(group, first)

    def found(self) -> str:
        """Describe the input in one line."""
        if self.reader is None:
            return "no records: INPUT is empty, or holds blank lines only"
        hashed = (
            "key: the line"
            if self.reader.format.shape == "group"
            else "key: hash of the prompt"
        )
        own = (
            f"key: {self.reader.key}"
            if self.reader.key == self.reader.format.key_description
            else ""
        )
        key = hashed if self.reader.by_prompt else own or f"key `{self.reader.key}`"
        if self.reader.labels is not None:
            labels = list(dict.fromkeys(self.reader.labels.values()))
            shown = [*map(plain_text, labels[:_NAMED]), *["…"] * (len(labels) > _NAMED)]
            key += f" within its {self.reader.label_kind} ({', '.join(shown)})"
        head = f"{self.reader.format.name}, {key}"
        if self.survey is None:
            return f"{head}, streamed"
        s = self.survey
        sizes = (
            f"{s.smallest}"
            if s.smallest == s.largest
            else f"{s.smallest} to {s.largest}"
        )
        records = f"{s.records} record{'s' * (s.records != 1)}"
        groups = f"{s.groups} group{'s' * (s.groups != 1)}"
        rollouts = f"{sizes} rollout{'s' * (sizes != '1')}"
        return f"{head}: {records}, {groups} of {rollouts}, {_WORDS[s.grouping]}"


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
    shard, name = settings.shard, Location(settings.source).shown
    container = open_container(settings.source, stack, most=settings.max_record << 20)
    on_open(container)
    if container.once and draw is not None:
        problem = (
            f"groups are drawn from all of INPUT, and {name} is read once, as it comes"
        )
        remedy = "give INPUT as a file, or leave it out"
        raise UsageError(problem, remedy, option="spend", value="spread")
    if (
        container.once and settings.grouping == "scattered"
    ):  # all of it is on disk before anything is judged
        container = spool_lines(container, stack)
    index = stack.enter_context(closing(Index(draw)))
    lines = container.records()
    first = (
        list(itertools.islice(lines, SAMPLE))
        if container.once
        else container.sample(SAMPLE)
    )
    if not first:
        for line in lines:  # what is damaged, or no JSON at all, is not empty
            raise UsageError(
                f"{name}: none of its files holds records ({line.where} is no JSON object)"
            )
        return Input(container, index)
    reader = detect(name, first, settings)
    if shard is not None and reader.format.shape == "columns":
        problem = (
            f"a record of {name} holds several groups, which may be of different shards"
        )
        some = "give each process some of the files, or of the lines (`split -n l/16`), and a {ledger}"
        raise UsageError(problem, Sentence(some), option="shard")

    def report(problem: Problem) -> None:
        if shard is None or shard.tells(
            problem.line
        ):  # of all shards together each once
            on_problem(problem)

    if not container.once:
        return _survey_file(
            container, settings, stack, index, reader, report, on_record, on_again
        )
    openings = Openings(reader.format.simulated_user, reader.format.varied_prompts)
    read = records(itertools.chain(first, lines), reader.read, report)
    groups = streamed(read, reader, settings, index, openings, on_record)
    notes = [_first(settings.limit)] if settings.limit is not None else []
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


def _survey_file(
    container: Container,
    settings: InputSettings,
    stack: ExitStack,
    index: Index,
    reader: Reader,
    on_problem: OnProblem,
    on_record: OnRecord | None,
    on_again: Callable[[], None],
) -> Input:
    location, shard, fd = Location(settings.source), settings.shard, container.fd
    name, problems, notes, limit = (
        location.shown,
        list[Problem](),
        list[str](),
        settings.limit,
    )

    def report(problem: Problem) -> None:
        problems[:] = problems or [problem]
        on_problem(problem)

    def lines() -> Iterator[Line]:
        return (
            container.records()
            if container.fd is not None
            else _with_offsets(container.records())
        )

    if isinstance(container, MultiFileContainer):
        notes += container.check_files(_fits(reader), report)
    where = container.where
    result = survey(lines(), reader, settings, index, report, where, on_record)
    if settings.group_by is None and reader.format.shape == "trajectory":
        within = labelled(result.reader, container.tasks(), index)
        if within is not None:  # a second look, since other records belong together now
            index = stack.enter_context(closing(Index(index.seed)))
            on_again()
            result = survey(
                lines(), within, settings, index, lambda _: None, where, on_record
            )
    reader = result.reader
    if result.first_mixed:
        line = next(
            (line for line in lines() if line.number == result.first_mixed), None
        )
        if line is None:
            raise InputChanged(name, where(result.first_mixed))
        with unchanged(name):
            result.openings.first_mixed = str(reader.read(line)[0].key)
    if limit is not None and (result.cut or limit < result.groups):
        notes.append(_first(limit, 0 if result.cut else result.groups))
    if shard is not None:
        notes.append(f"{shard}: {result.mine:,} of {_groups(result.groups)}")
    if result.records == 0:
        first = [
            Sentence("{line} {why}", line=one.where, why=one.reason)
            for one in problems[:1]
        ]
        raise UsageError(
            f"none of its {container.unit}s can be read", *first, place=name
        )
    in_order = result.grouping != "scattered" and index.seed is None
    if not in_order and fd is None:
        scratch = stack.enter_context(Scratch())
        with unchanged(name):
            for line in surveyed(lines(), result, index):
                scratch.skip(line.offset)
                scratch.write(line.raw)
        fd = scratch.fileno()

    def groups() -> Iterator[Group]:
        with unchanged(name):
            if in_order or fd is None:
                yield from grouped(
                    surveyed(lines(), result, index), reader, result.grouping
                )
                return
            each_line = result.grouping == "line"
            for places in index.places(each_line=each_line):
                if each_line:
                    group = fetched(fd, reader, places[:1], container.line)
                    yield from (
                        Group(str(record.key), (record,)) for record in group.records
                    )
                else:
                    yield fetched(fd, reader, places, container.line)

    return Input(
        container, index, reader, result, groups(), groups, notes=notes, fd=fd, openings=result.openings,
        waits=location.remote and in_order, total=result.mine, in_order=in_order,
    )  # fmt: skip


def _groups(number: int) -> str:
    return f"{number:,} group{'s' * (number != 1)}"


def _first(limit: int, groups: int = 0) -> str:
    """The sentence on a limit; `groups` is the number of all, 0 if it is not known."""
    number = "" if limit == 1 else f" {limit:,}"
    of = f" of {_groups(groups)}" if groups else " group" if limit == 1 else " groups"
    only = f"only the first{number}{of}; leave it out for all of them"
    return Sentence("{limit:{most}}: {only}", most=limit, only=only)


def _with_offsets(lines: Iterator[Line]) -> Iterator[Line]:
    """Give records the offsets that they have if they are written one after another without a separator."""
    offset = 0
    for line in lines:
        yield Line(line.number, offset, line.raw, line.place, line.source, line.skipped)
        offset += len(line.raw)


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
