"""INPUT → groups, ready to be pulled: found, surveyed if they may lie apart, or streamed.

A file is surveyed first: each line is read, its group key noted, and nothing is judged before the whole input is known
to be readable. The notes stand in a temporary file, so memory does not grow with the dump; so do the lines, unless they
can be read in INPUT by their offsets. A large file whose every line is a group is only looked at: its lines are
counted, each must end as an object does, and is parsed when it is judged. A pipe is read once: its groups must be
adjacent.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.grouping import (
    OnProblem,
    Where,
    fetched,
    first_groups,
    grouped,
    records,
    unchanged,
)
from ruler_cli.files.index import (
    Index,
    OutputOrder,
    short_hash,
)
from ruler_cli.files.location import Location
from ruler_cli.files.marks import has_scores, not_replaced, refuse_foreign
from ruler_cli.files.parse import dump, first_records, parse
from ruler_cli.files.scratch import Scratch, digest
from ruler_cli.files.values import first
from ruler_cli.formats.chat import task_messages
from ruler_cli.formats.events import open_records
from ruler_cli.formats.keys import prompt_key
from ruler_cli.formats.reader import SAMPLE, Reader, detect
from ruler_cli.formats.table import fits
from ruler_cli.messages.content import is_agent
from ruler_cli.messages.conversations import is_system
from ruler_cli.messages.read import has_content
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.types import (
    Group,
    Line,
    Observer,
    Problem,
    Record,
)

_LOOKED_AT = 8 << 20
"""Bytes of a file of groups from which on it is read once: a smaller one is surveyed in no time."""
OnRecord = Callable[[Record, int], object]
"""Gets each record, and the number of rollouts that begin in it: a rollout that stands in several records
counts once."""


def _ignore(*_: object) -> None:
    """Ignore a record that no caller asked for."""


@dataclass(slots=True)
class Survey:
    """Counts of the records and groups of an input; sizes are rollouts per group, the parts of one joined.

    `mine` counts the run's own groups: all of them, unless the run is of one shard. `end` is the number of
    the last line and the offset behind it: lines that are appended later are not read. `draw` is the seed of an order
    of groups.
    `taskless` counts rollouts that show no task, `unusual` those that the agent begins, or with an observation before
    its first turn, `mixed` groups whose rollouts begin differently, and `ruleless` rollouts without a system message
    where the user of the dump is a model too, which words the task anew for each: then only the system's messages are
    compared.
    """

    reader: Reader
    settings: InputSettings
    where: Where = "line {}".format
    on_record: OnRecord = _ignore
    draw: int | None = None
    index: Index = field(init=False)
    layout: str = "one per line"
    records: int = 0
    groups: int = 0
    mine: int = 0
    rollouts: int = 0
    smallest: int = 0
    largest: int = 0
    singles: int = 0
    taskless: int = 0
    first_taskless: str = ""
    unusual: int = 0
    ruleless: int = 0
    mixed: int = 0
    first_mixed: str = ""
    repeated: tuple[int, int] | None = None
    end: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        """Begin an index of the records."""
        self.index = Index(self.draw, alone=self.alone)

    @property
    def whole(self) -> bool:
        """Return whether a record is a group, or several."""
        return self.reader.format.shape != "trajectory"

    @property
    def alone(self) -> bool:
        """Return whether each record is a group by itself."""
        return self.whole or self.settings.grouping == "line"

    @property
    def compares(self) -> bool:
        """Return whether openings within a group are compared: else they are alike, or differ on purpose."""
        return not (self.reader.by_prompt or self.reader.format.varied_prompts)

    def read(
        self,
        lines: Iterable[Line],
        on_problem: OnProblem,
    ) -> Iterator[Record]:
        """Yield the records of lines, and note where the last one ends.

        Behind the first groups that `limit` asks for nothing is read if none of them can go on there.
        """

        def noted() -> Iterator[Line]:
            for line in lines:
                self.end = (line.number, line.end)
                yield line

        read = records(noted(), self.reader.read, on_problem)
        limit = self.settings.limit
        if limit is not None and self.alone:
            return first_groups(read, limit)
        return read

    def add(self, record: Record) -> bool:
        """Count a record; return whether it is of the run's own groups."""
        settings = self.settings
        short = digest(str(record.key))
        within = True
        if not self.alone and settings.limit is not None:
            within = self.index.group(short) < settings.limit
        mine = within
        if settings.shard is not None and within:
            mine = settings.shard.holds(short)
        if settings.grouping == "line":
            short = digest(f"\n{record.line.number}")
        opening = self._opening(record)
        rollouts = self.index.add(record, short, opening, mine=mine)
        self.records += 1
        self.rollouts += rollouts
        if within:
            self.on_record(record, rollouts)
        return mine

    def _opening(self, record: Record) -> int | None:
        """Look at how the rollouts of a record begin; return a number that those of one task share in this process.

        None: nothing is to be compared with other records. A part of a rollout after the first is passed over.
        """
        where = record.line.where
        openings = list[int]()
        members = set[str]()
        for rollout in record.rollouts:
            if rollout.error is not None or rollout.member in members:
                continue
            if rollout.member is not None:
                members.add(rollout.member)
            asked = task_messages(rollout)
            if not any(map(has_content, asked)):
                self.taskless += 1
                self.first_taskless = self.first_taskless or where
            else:
                begins = not rollout.prompt_length and is_agent(
                    rollout.messages[0]
                )
                self.unusual += begins or asked[-1].get("role") == "tool"
            if self.reader.format.simulated_user:
                self.ruleless += not any(map(is_system, rollout.messages))
                asked = [*filter(is_system, asked)]
            opening = [
                (turn.get("role"), turn.get("content")) for turn in asked
            ]
            openings.append(hash(dump(opening)))
        if self.whole:
            if len({*openings}) > 1 and not self.reader.format.varied_prompts:
                self.mixed += 1
                self.first_mixed = self.first_mixed or where
            return None
        return first(openings) if self.compares else None

    def finish(self) -> None:
        """Take the counts of the groups."""
        index = self.index
        sizes = index.sizes()
        self.groups, self.smallest, self.largest, self.singles, self.mine = (
            sizes
        )
        if self.whole:
            self.repeated = index.returned()
            return
        if self.compares:
            self.mixed, mixed_at = index.mixed()
            self.first_mixed = self.where(mixed_at) if mixed_at else ""
        if not self.alone:
            apart = index.returned(apart=True)
            self.layout = "scattered" if apart else "adjacent"

    def warnings(self, *, alone: bool = False) -> list[str]:
        """List the signs of a wrong group key, and of rollouts that are read wrong, one sentence each with the remedy.

        One group is none by itself: a dump of one task is normal. It is one if its rollouts begin
        differently, or if the dump has no key. `alone`: rollouts are to be scored by themselves.
        """
        warnings = list[str]()
        doubts = list[str]()
        key = shown_key(self.reader)
        mean = self.rollouts // max(1, self.groups)
        several = self.groups > 1
        if several and self.singles == self.groups and not alone:
            nothing = "nothing can be compared: every group has one rollout"
            if self.reader.format.shape == "group":
                warnings.append(nothing)
            else:
                doubts.append(f"{nothing} ({key})")
        elif self.groups == 1 and not self.whole:
            if self.records > 1 and (self.reader.by_prompt or self.mixed):
                all_one = f"all {self.records} records are one group ({key})"
                doubts.append(all_one)
        elif several and self.largest > 8 * max(1, mean):
            sizes = f"{self.smallest} to {self.largest}"
            doubts.append(f"group sizes are very uneven, {sizes} ({key})")
        if self.unusual and self.reader.by_prompt:
            begun = _count(self.unusual, "rollout")
            doubts.append(
                f"{begun} in which the agent begins, or an observation before its first turn is part of the group key"
            )
        for doubt in doubts:
            remedy = "if that is wrong, name another key with --group-by PATH"
            warnings.append(f"{doubt}; {remedy}")
        if self.repeated:
            before, again = map(self.where, self.repeated)
            warnings.append(
                f"{before} and {again} have the same `{self.reader.key}`; each is judged as its own group"
            )
        if self.taskless:
            warnings.append(
                f"{_count(self.taskless, 'rollout')} without a task: nothing precedes the agent's first turn "
                f"(first: {self.first_taskless}); give the path of the task with --prompt PATH, or what rollouts "
                "of one task share with --group-by PATH (lines get it by jq -c '.group_id = 1'); if another file has "
                "the task, join the two first"
            )
        if self.ruleless:
            warnings.append(
                f"{_count(self.ruleless, 'rollout')} without rules for the agent: there is no system message "
                "(tau2-bench keeps the rules beside the messages); add it: "
                "jq -c '.info.environment_info.policy as $p | .simulations[] | "
                '.messages = [{role: "system", content: $p}] + .messages\''
            )
        if self.mixed:
            warnings.append(
                f"the rollouts of {_count(self.mixed, 'group')} begin differently (first: {self.first_mixed}), "
                "as if they were different tasks; if they are, name another key with --group-by PATH"
            )
        return warnings


@dataclass(slots=True)
class Input:
    """An input that is open: its counts, and its groups as an iterator.

    `survey` is None for an input without records. `notes` are sentences on parts that are not read. `fd` is a file in
    which a record can be read at its offset; None if there is none. `stack` closes what is opened later. `hashes` are
    those of the lines of a file that is read once, when groups are judged. `draw` is the seed of an order of groups.
    """

    settings: InputSettings
    stack: ExitStack
    container: Container
    draw: int | None = None
    survey: Survey | None = None
    groups: Iterator[Group] = field(default_factory=lambda: iter(()))
    notes: list[str] = field(default_factory=list)
    fd: int | None = None
    hashes: array[int] | None = None

    @property
    def reader(self) -> Reader | None:
        """The reader of its records; None if there are none."""
        return self.survey.reader if self.survey else None

    @property
    def streamed(self) -> bool:
        """Return whether it is a pipe, which is read once: nothing is known of its groups before they come."""
        return self.container.once

    @property
    def total(self) -> int | None:
        """The number of groups; None for a stream."""
        if self.hashes is not None:
            return len(self.hashes)
        if self.survey is None or self.streamed:
            return None
        return self.survey.mine

    @property
    def late(self) -> bool:
        """Return whether warnings are known only once all groups were read."""
        return self.streamed or self.hashes is not None

    @property
    def in_order(self) -> bool:
        """Return whether groups come as their records lie in INPUT; else output is put into that order."""
        scattered = (
            self.survey is not None and self.survey.layout == "scattered"
        )
        return not scattered and self.draw is None

    def order(self) -> OutputOrder:
        """Return what brings bodies that are done out of order into that of INPUT."""
        assert self.survey is not None  # noqa: S101 - without records nothing is done
        return self.stack.enter_context(closing(OutputOrder(self.survey.index)))

    def look(
        self,
        reader: Reader,
        on_problem: OnProblem,
        on_record: OnRecord,
    ) -> None:
        """Survey all records of a file, twice if files count their keys anew."""
        container = self.container
        problems = list[Problem]()

        def report(problem: Problem) -> None:
            if not problems:
                problems.append(problem)
            on_problem(problem)

        self.notes += container.check_files(partial(_is_of, reader), report)
        self.fd = container.fd
        copy = None
        if self.fd is None:
            copy = self.stack.enter_context(Scratch())
        read = self.new_survey(reader, on_record)
        self._survey(read, copy, report)
        if not self.settings.group_by and not read.whole:
            within = labelled(reader, container.tasks(), read.index)
            if within is not None:
                # a second look, since other records belong together now
                read = self.new_survey(within)
                self._survey(read, copy, _ignore)
        if read.records == 0:
            why = ""
            for first_problem in problems:
                why = f"{first_problem.where} {first_problem.reason}"
            problem = f"none of its {container.unit}s can be read"
            raise UsageError(problem, why, place=container.name)
        if copy is not None:
            self.fd = copy.fileno()
        self.groups = self.again()

    def _survey(
        self,
        read: Survey,
        copy: Scratch | None,
        on_problem: OnProblem,
    ) -> None:
        """Count all records of a file; the lines of the run's own groups go to the copy."""
        last = 0
        for record in read.read(self._lines(), on_problem):
            line = record.line
            # a columnar line is several records
            if read.add(record) and line.number > last and copy is not None:
                last = line.number
                copy.skip(line.offset)
                copy.write(line.raw)
        read.finish()

    def new_survey(
        self, reader: Reader, on_record: OnRecord = _ignore
    ) -> Survey:
        """Begin to count the records that a reader reads."""
        where = self.container.where
        read = Survey(reader, self.settings, where, on_record, self.draw)
        self.stack.enter_context(closing(read.index))
        self.survey = read
        return read

    def look_at_lines(self, reader: Reader, on_problem: OnProblem) -> bool:
        """Count the lines of a large file of groups, each of which is then parsed once, when it is judged.

        Return False if one of them is not an object at a glance: then the file is to be surveyed.
        """
        container = self.container
        if container.fd is None or reader.format.shape != "group":
            return False
        hashes = array("I")
        end = (0, 0)
        for line in container.records():
            if line.skipped or line.error or line.raw.strip()[-1:] != b"}":
                return False
            hashes.append(short_hash(line.raw))
            end = (line.number, line.end)
        if end[1] < _LOOKED_AT:
            return False
        self.hashes = hashes
        read = self.new_survey(reader)

        def once() -> Iterator[Group]:
            with unchanged(container.name):
                lines = read.read(self._looked_at(), on_problem)
                yield from streamed(lines, read)
                if read.end != end:
                    raise UnreadableError(read.where(end[0]))

        self.groups = once()
        return True

    def _looked_at(self) -> Iterator[Line]:
        """Yield the lines that were there at the beginning; UnreadableError if one has changed."""
        # in this order no line is read behind the last
        for hashed, line in zip(
            self.hashes or (), self.container.records(), strict=False
        ):
            if short_hash(line.raw) != hashed:
                raise UnreadableError(line.where)
            yield line

    def _lines(self) -> Iterator[Line]:
        """Yield the lines; without a file of them, with the offsets that they have in a copy."""
        offset = 0
        for line in self.container.records():
            if self.container.fd is not None:
                yield line
            else:
                yield replace(line, offset=offset)
                offset += len(line.raw)

    def warnings(self, *, alone: bool = False) -> Sequence[str]:
        """Return warnings on what is read and how it is grouped; see `late`.

        `alone`: rollouts without another are to be scored by themselves.
        """
        warnings = list(self.container.warnings())
        if self.survey is not None:
            warnings += self.survey.warnings(alone=alone)
            for path in self.survey.reader.missing:
                warnings.append(f"no record has a value at --reward {path}")
        return warnings

    def report(
        self,
        observer: Observer,
        *,
        end: bool = False,
        alone: bool = False,
    ) -> None:
        """Report what was found, and the warnings as soon as they are known."""
        if not end and self.survey is None:
            # nothing will be scored, also where notes are off
            observer.warn(self.brief())
            return
        notes = [] if end else [self.brief(), *self.notes]
        for sentence in notes:
            observer.note(sentence)
        if end == self.late:
            for sentence in self.warnings(alone=alone):
                observer.warn(sentence)

    def again(self, firsts: Collection[int] | None = None) -> Iterator[Group]:
        """Yield the groups from the first on once more; none of a stream.

        `firsts`: only those that begin with these records.
        """
        read = self.survey
        if read is None or self.streamed:
            return
        name = self.container.name
        with unchanged(name):
            if self.fd is None:
                lines = records(self._looked_at(), read.reader.read, _ignore)
                yield from grouped(lines, alone=True)
                return
            apart = read.layout == "scattered"
            places = read.index.places(firsts, apart=apart)
            line = self.container.line
            yield from fetched(self.fd, read.reader.read, places, line)

    def brief(self) -> str:
        """Describe the input in one line."""
        read = self.survey
        if read is None:
            return "no records: INPUT is empty, or holds blank lines only"
        head = f"{read.reader.format.name}, {shown_key(read.reader)}"
        if self.streamed:
            return f"{head}, streamed"
        if self.hashes is not None:
            lines = _count(len(self.hashes), "group")
            return f"{head}: {lines}, {read.layout}"
        rollouts = _count(read.largest, "rollout")
        if read.smallest != read.largest:
            rollouts = f"{read.smallest} to {read.largest} rollouts"
        counts = (
            f"{_count(read.records, 'record')}, {_count(read.groups, 'group')}"
        )
        return f"{head}: {counts} of {rollouts}, {read.layout}"


def shown_key(reader: Reader) -> str:
    """Describe the key of the groups, and where their tasks are from."""
    if reader.by_prompt:
        key = "key: hash of the prompt"
        if reader.format.shape == "group":
            key = "key: the line"
    elif reader.key == reader.format.key_description:
        key = f"key: {reader.key}"
    else:
        key = f"key `{reader.key}`"
    if reader.labels:
        key += f" within its {reader.label_kind}"
    return key


def _is_of(reader: Reader, line: Line) -> bool | None:
    """Return whether a record is of the format, well-formed or not; None if it is not a JSON object."""
    try:
        value = parse(line.raw)
    except (UnreadableError, RecursionError):
        return None
    with suppress(UnreadableError):
        return bool(fits(reader.format, value) or reader.read(line))
    return False


def open_input(
    settings: InputSettings,
    stack: ExitStack,
    on_problem: OnProblem,
    on_open: Callable[[Container], None] = _ignore,
    on_record: OnRecord = _ignore,
    draw: int | None = None,
    *,
    once: bool = False,
) -> Input:
    """Open INPUT; a file is surveyed to its end first, a pipe of JSON lines is read as it comes.

    Each problem and each record is reported once: by the survey of a file, or as a stream is read. `on_open`
    gets the container before its records are read. A shard reports its own problems only. With `draw`, a seed, the
    groups of a file come in an order that only it and their contents decide; UsageError for a pipe. `once`: a file
    whose lines are groups may be read as it comes.
    """
    shard = settings.shard
    limit = settings.limit
    row = settings.with_paths(settings.named_row or RecordPaths())
    container = open_records(
        settings.source,
        stack,
        most=settings.max_record << 20,
        keep=settings.grouping == "scattered" and draw is None,
        records=row.records,
    )
    name = container.name
    on_open(container)
    if container.once and draw is not None:
        problem = f"groups are drawn from all of INPUT, and {name} is read once"
        remedy = "give INPUT as a file, or leave it out"
        raise UsageError(problem, remedy, place="--set spend=spread")
    opened = Input(settings, stack, container, draw)
    lines = container.records()
    if container.once:
        first_lines = list(itertools.islice(lines, SAMPLE))
    else:
        first_lines = container.sample(SAMPLE)
    if not first_lines:
        # what is damaged, or no JSON at all, is not empty
        for line in lines:
            problem = f"none of its files holds records ({line.where} is not a JSON object)"
            raise UsageError(problem, place=name)
        return opened
    reader = _reader_of(name, first_lines, settings)

    def report(problem: Problem) -> None:
        # of all shards together each once
        if shard is None or shard.reports(problem.line):
            on_problem(problem)

    if limit is not None:
        groups = _count(limit, "group")
        opened.notes.append(f"--limit {limit}: the first {groups} only")
    if shard is not None:
        opened.notes.append(str(shard))
    if container.once:
        read = opened.new_survey(reader, on_record)
        stream = itertools.chain(first_lines, lines)
        opened.groups = streamed(read.read(stream, report), read)
        return opened
    is_whole = shard is None and limit is None and draw is None
    if not (once and is_whole and opened.look_at_lines(reader, report)):
        opened.look(reader, report, on_record)
    return opened


def _reader_of(
    name: str, first: Sequence[Line], settings: InputSettings
) -> Reader:
    """Return the reader of the format of the first records; UsageError for paths that make no sense."""
    records = first_records(name, first)
    reader = detect(name, records, settings)
    if len(settings.messages) == 1:
        from ruler_cli.formats.proposal import refuse_tasks

        values = [value for _, value in records]
        refuse_tasks(name, values, *settings.messages)
    if settings.shard is not None and reader.format.shape == "columns":
        raise UsageError(
            f"a record of {name} holds several groups",
            "give each process some of the files or lines (`split -n l/16`), and a --ledger",
            place="--shard",
        )
    return reader


def streamed(stream: Iterable[Record], read: Survey) -> Iterator[Group]:
    """Yield the groups of records that are read once, and count them as a survey does.

    Adjacent records of one key are a group; a key that comes back is a UsageError. Behind the first groups
    that `limit` asks for the stream is read for more records of theirs only.
    """
    limit = read.settings.limit
    groups = 0
    for group in grouped(stream, alone=read.alone):
        if not read.alone:
            number = read.index.group(digest(group.key))
            came_back = number < groups
            groups = max(groups, number + 1)
            if limit is not None and number >= limit:
                continue
            if came_back:
                where = group.records[0].line.where
                raise UsageError(
                    f"{where} belongs to an earlier group, with others in between",
                    "groups on stdin must be adjacent; buffer all of it with --grouping scattered, or give a file",
                )
        mine = [read.add(record) for record in group.records]
        if mine[0]:
            yield group
    read.finish()


def labelled(
    reader: Reader,
    tasks: Mapping[str, str],
    index: Index,
) -> Reader | None:
    """Return the reader with a label of each file in its keys; None if the keys tell the tasks apart.

    Indices of tasks begin at 0 in every file of an evaluation: without a label the first tasks of all of
    them would be one group. `tasks` maps names of files to the task that each names, or "". If files
    name several tasks, that is the label. Else it is the outermost folder, or the file, that explains as
    many groups of different openings as the files do.
    """
    if len(set(tasks.values())) > 1 and all(tasks.values()):
        return replace(reader, labels=tasks, label_kind="task")
    if reader.by_prompt or len(tasks) < 2:
        return None
    files = {name: name for name in tasks}
    least, _ = index.mixed(files)
    if least >= index.mixed()[0]:
        return None
    for depth in itertools.count(1):
        labels = {name: "/".join(name.split("/")[:depth]) for name in files}
        # the whole names do at last
        if index.mixed(labels)[0] == least:
            break
    kind = "file" if labels == files else "folder"
    return replace(reader, labels=labels, label_kind=kind)


def refuse_other_groups(
    source: Input,
    output: str,
    *,
    force: bool,
) -> None:
    """Raise UsageError if INPUT is a scored file, and OUTPUT a scored file of none of its groups.

    Then it is likely that OUTPUT was forgotten behind a pattern. A pipe, which is read once, is not compared.
    """
    location = Location(output)
    if force or source.streamed:
        return
    if not any(map(has_scores, source.container.sample(1))):
        return
    if not refuse_foreign(location, "OUTPUT"):
        return
    paths: dict[str, Any] = dict.fromkeys(
        ("records", "limit", "shard", "reward", "outcome", "reference")
    )
    alike = replace(source.settings, source=output, **paths)
    with ExitStack() as stack, suppress(UsageError):
        scored = open_input(alike, stack, _ignore)
        labels = source.reader is not None and bool(source.reader.labels)
        names = {_name(group, by_prompt=labels) for group in scored.again()}
        for group in source.again():
            if _name(group, by_prompt=labels) in names:
                return
    raise not_replaced(
        location, "holds scores of groups that INPUT does not have"
    )


def _name(group: Group, *, by_prompt: bool) -> str:
    """Return the name of a group among those of other files: its key, or the hash of its prompt for a line."""
    prompt = ""
    if by_prompt or group.key == group.records[0].line.where:
        for rollout in group.rollouts[:1]:
            prompt = prompt_key(rollout, None)
    return prompt or group.key


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
