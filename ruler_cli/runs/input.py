"""INPUT → groups, ready to be pulled: found, surveyed if it can be read twice, or streamed.

A file is surveyed first: each line is read, its group key noted, and nothing is judged before the whole
input is known to be readable. The notes stand in a temporary SQLite file, so memory does not grow with the
dump. A pipe is read once: its groups must be adjacent.
"""

from __future__ import annotations

import itertools
import math
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
from pathlib import PurePath
from typing import Any, Literal

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.containers import Container
from ruler_cli.files.grouping import (
    OnProblem,
    Where,
    fetched,
    first_groups,
    grouped,
    records,
    surveyed,
    unchanged,
)
from ruler_cli.files.location import Location
from ruler_cli.files.marks import has_scores, not_replaced, refuse_foreign
from ruler_cli.files.parse import dump, parse
from ruler_cli.files.scratch import Index, Scratch, digest, place
from ruler_cli.formats.chat import prompt_key, task_messages
from ruler_cli.formats.events import open_records
from ruler_cli.formats.reader import SAMPLE, Reader, detect, first_records
from ruler_cli.formats.table import fits
from ruler_cli.messages.content import has_content
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.settings.suggestions import question
from ruler_cli.types import (
    Group,
    Line,
    Observer,
    Problem,
    Record,
    Rollout,
    printable,
)

_WORDS = {"line": "one per line", "consecutive": "adjacent", "scattered": "scattered"}
OnRecord = Callable[[Record, int], object]
"""Gets each record, and the number of rollouts that begin in it: a rollout that stands in several records
counts once."""
Opening = list[tuple[object, object]]
"""Role and content of the messages before the agent's first turn."""
_SYSTEM = ("system", "developer")


@dataclass(slots=True)
class Openings:
    """Counts of what is doubtful, over all rollouts that can be judged.

    `simulated_user`: the user of the dump is a model too and words the task anew for each rollout, so
    that only the system's messages are compared. Without any the agent's rules are not shown.
    `varied_prompts`: the dump compares prompts, so that nothing is.
    """

    simulated_user: bool = False
    varied_prompts: bool = False
    taskless: int = 0
    first_taskless: str = ""
    mixed: int = 0
    first_mixed: str = ""
    ruleless: int = 0

    @classmethod
    def of(cls, reader: Reader) -> Openings:
        """Begin to count those that a reader reads."""
        form = reader.format
        return cls(form.simulated_user, form.varied_prompts)

    def look(self, rollouts: Iterable[Rollout], where: str) -> list[Opening]:
        """Count the rollouts of a record that show no task or no rules; return the opening of each.

        A part of a rollout after the first is passed over.
        """
        openings = list[Opening]()
        members = set[str | None]()
        for rollout in rollouts:
            if rollout.error is not None or rollout.member in members:
                continue
            members.add(rollout.member)
            members.discard(None)
            asked = task_messages(rollout)
            if not any(map(has_content, asked)):
                self.taskless += 1
                self.first_taskless = self.first_taskless or where
            if self.simulated_user:
                if not any(turn.get("role") in _SYSTEM for turn in rollout.messages):
                    self.ruleless += 1
                asked = [turn for turn in asked if turn.get("role") in _SYSTEM]
            openings.append([(turn.get("role"), turn.get("content")) for turn in asked])
        return openings

    def compare(self, openings: Sequence[Opening], where: str) -> None:
        """Count a group whose openings are not all the same; its first record is there."""
        if self.varied_prompts or all(each == openings[0] for each in openings):
            return
        self.mixed += 1
        self.first_mixed = self.first_mixed or where

    def sentences(self) -> list[str]:
        """Return a warning for each doubt, with the way out."""
        out: list[str] = []
        if self.taskless:
            out.append(
                f"{_count(self.taskless, 'rollout')} without a task: nothing precedes the agent's "
                f"first turn (first: {self.first_taskless}); give the path of the task with "
                "--prompt PATH; if another file has it, join the two first"
            )
        if self.ruleless:
            out.append(
                f"{_count(self.ruleless, 'rollout')} without rules for the agent: there is no system message "
                "(tau2-bench keeps the rules beside the messages); add it: "
                "jq -c '.info.environment_info.policy as $p | .simulations[] | "
                '.messages = [{role: "system", content: $p}] + .messages\''
            )
        if self.mixed:
            out.append(
                f"the rollouts of {_count(self.mixed, 'group')} begin differently (first: "
                f"{self.first_mixed}), as if they were different tasks; if they are, name another "
                "key with --group-by PATH"
            )
        return out


def _number(opening: Opening) -> int:
    """Return a number of 64 bits that equal openings share within one process."""
    parts = [part for pair in opening for part in pair]
    return hash(tuple(part if isinstance(part, str) else dump(part) for part in parts))


@dataclass(slots=True)
class Survey:
    """Counts of the records and groups of a file; sizes are rollouts per group, the parts of one joined.

    `mine` counts the run's own groups: all of them, unless the run is of one shard. `end` is the number of
    the last line and the offset behind it: lines that are appended later are not read. `cut`: the file
    was not read to its end, because the run needs its first groups only.
    """

    reader: Reader
    openings: Openings
    where: Where = "line {}".format
    grouping: Literal["line", "consecutive", "scattered"] = "line"
    records: int = 0
    groups: int = 0
    mine: int = 0
    rollouts: int = 0
    smallest: int = 0
    largest: int = 0
    singles: int = 0
    repeated: tuple[int, int] | None = None
    end: tuple[int, int] = (0, 0)
    cut: bool = False

    def warnings(self, *, alone: bool = False) -> list[str]:
        """List the signs of a wrong group key, a sentence each.

        One group is none by itself: a dump of one task is normal. It is one if its rollouts begin
        differently, or if the dump has no key. `alone`: rollouts are to be scored by themselves.
        """
        out: list[str] = []
        key = shown_key(self.reader)
        mean = self.rollouts // max(1, self.groups)
        shape = self.reader.format.shape
        one_group = self.groups == 1 and shape == "trajectory" and not self.cut
        doubtful = self.reader.by_prompt or self.openings.mixed
        if self.groups > 1 and self.singles == self.groups and not alone:
            nothing = "nothing can be compared: every group has one rollout"
            given = shape == "group"
            out.append(nothing if given else _doubt(f"{nothing} ({key})"))
        elif one_group and self.records > 1 and doubtful:
            out.append(_doubt(f"all {self.records} records are one group ({key})"))
        elif self.groups > 1 and self.largest > 8 * max(1, mean):
            sizes = f"{self.smallest} to {self.largest}"
            out.append(_doubt(f"group sizes are very uneven, {sizes} ({key})"))
        if self.repeated:
            first, second = map(self.where, self.repeated)
            out.append(
                f"{first} and {second} have the same `{self.reader.key}`; each is judged as its own group"
            )
        return out + self.openings.sentences()


def _doubt(problem: str) -> str:
    """Return a doubt about the group key, with the way out."""
    return f"{problem}; if that is wrong, name another key with --group-by PATH"


@dataclass(slots=True)
class Input:
    """An input that is open: its reader, its counts, and its groups as an iterator.

    `survey` is None for a stream, `reader` for an input without records. `notes` are sentences on parts that
    are not read. `fd` is a file in which a record can be read at its offset; None if there is none. `stack` closes
    what is opened later.
    """

    settings: InputSettings
    stack: ExitStack
    container: Container
    index: Index
    reader: Reader | None = None
    survey: Survey | None = None
    openings: Openings = field(default_factory=Openings)
    groups: Iterator[Group] = field(default_factory=lambda: iter(()))
    notes: list[str] = field(default_factory=list)
    fd: int | None = None

    @property
    def total(self) -> int | None:
        """The number of groups; None for a stream."""
        return None if self.survey is None else self.survey.mine

    @property
    def in_order(self) -> bool:
        """True if groups come as their records lie in INPUT; else output waits for its turn in the index."""
        scattered = self.survey is not None and self.survey.grouping == "scattered"
        return not scattered and self.index.seed is None

    @property
    def waits(self) -> bool:
        """True if to read it may take long, because of a pipe or a network."""
        remote = Location(self.settings.source).remote
        return self.survey is None or (remote and self.in_order)

    def look(
        self,
        reader: Reader,
        on_problem: OnProblem,
        on_record: OnRecord,
        on_again: Callable[[], None],
    ) -> None:
        """Survey all records of a file, twice if files count their keys anew."""
        container = self.container
        settings = self.settings
        first_problem = list[Problem]()

        def report(problem: Problem) -> None:
            first_problem[:] = first_problem or [problem]
            on_problem(problem)

        def surveyed_with(reader: Reader, on_problem: OnProblem) -> Survey:
            lines = self._lines()
            where = container.where
            return survey(
                lines, reader, settings, self.index, on_problem, where, on_record
            )

        self.notes += container.check_files(partial(_is_of, reader), report)
        found = surveyed_with(reader, report)
        if not settings.group_by and found.reader.format.shape == "trajectory":
            within = labelled(found.reader, container.tasks(), self.index)
            if within is not None:
                # a second look, since other records belong together now
                again = closing(Index(self.index.seed))
                self.index = self.stack.enter_context(again)
                on_again()
                found = surveyed_with(within, lambda _: None)
        if found.records == 0:
            why = [f"{problem.where} {problem.reason}" for problem in first_problem]
            problem = f"none of its {container.unit}s can be read"
            raise UsageError(problem, *why, place=container.name)
        self.reader = found.reader
        self.openings = found.openings
        self.survey = found
        self.fd = container.fd
        if not self.in_order and self.fd is None:
            self.fd = self._copied(found)
        self.groups = self.again()

    def _lines(self) -> Iterator[Line]:
        """Yield the lines; without a file of them, with the offsets that they have in a copy."""
        offset = 0
        for line in self.container.records():
            if self.container.fd is not None:
                yield line
            else:
                yield replace(line, offset=offset)
                offset += len(line.raw)

    def _copied(self, found: Survey) -> int:
        """Copy the lines of the run's own groups to a file, and return its descriptor."""
        scratch = self.stack.enter_context(Scratch())
        with unchanged(self.container.name):
            for line in surveyed(self._lines(), found.end, found.where, self.index):
                scratch.skip(line.offset)
                scratch.write(line.raw)
        return scratch.fileno()

    def warnings(self, *, alone: bool = False) -> Sequence[str]:
        """Return warnings on what is read and how it is grouped; those of a stream are known at its end.

        `alone`: rollouts without another are to be scored by themselves.
        """
        if self.survey is None:
            grouping = self.openings.sentences()
        else:
            grouping = self.survey.warnings(alone=alone)
        missing = self.reader.missing.items() if self.reader else ()
        lacking = [
            f"no record has a value at --reward {path}{question(near and printable(near))}"
            for path, near in missing
        ]
        return [*self.container.warnings(), *grouping, *lacking]

    def report(
        self,
        observer: Observer,
        *,
        end: bool = False,
        alone: bool = False,
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
        for first, places in self.index.chosen(firsts):
            with unchanged(self.container.name):
                read = self.reader.read
                group = fetched(self.fd, read, first, places, self.container.line)
            yield group

    def again(self) -> Iterator[Group]:
        """Yield the groups from the first on once more; none of a stream.

        They are fetched from a file by their places, or come as their records lie in INPUT.
        """
        found = self.survey
        if found is None:
            return
        read = found.reader.read
        alone = found.grouping == "line"
        with unchanged(self.container.name):
            if self.in_order or self.fd is None:
                own = surveyed(self._lines(), found.end, found.where, self.index)
                each = (record for line in own for record in read(line))
                yield from grouped(each, alone=alone)
                return
            for first, places in self.index.places():
                yield fetched(self.fd, read, first, places, self.container.line)

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
    """Describe the key of the groups, and where their tasks are from."""
    if reader.by_prompt:
        alone = reader.format.shape == "group"
        key = "key: the line" if alone else "key: hash of the prompt"
    elif reader.key == reader.format.key_description:
        key = f"key: {reader.key}"
    else:
        key = f"key `{reader.key}`"
    if reader.labels:
        key += f" within its {reader.label_kind}"
    return key


def _parsed(line: Line) -> dict[str, Any] | None:
    """Return the value of a record; None if it is not a JSON object."""
    try:
        return parse(line.raw)
    except (UnreadableError, RecursionError):
        return None


def _is_of(reader: Reader, line: Line) -> bool | None:
    """Tell if a record is of the format, well-formed or not; None if it is not a JSON object."""
    value = _parsed(line)
    if value is None:
        return None
    try:
        return bool(fits(reader.format, value) or reader.read(line))
    except UnreadableError:
        return False


def shown_key(reader: Reader) -> str:
    """The key of a group in words, for a sentence."""
    if not reader.by_prompt:
        return f"key `{reader.key}`"
    if reader.format.shape == "group":
        return "each record is a group"
    return "hash of the prompt"


def open_input(
    settings: InputSettings,
    stack: ExitStack,
    on_problem: OnProblem,
    on_open: Callable[[Container], None] = lambda _container: None,
    on_record: OnRecord = lambda _record, _count: None,
    on_again: Callable[[], None] = lambda: None,
    draw: int | None = None,
) -> Input:
    """Open INPUT; a file is surveyed to its end first, a pipe of JSON lines is read as it comes.

    Each problem and each record is reported once: by the survey of a file, or as a stream is read. `on_open`
    gets the container before its records are read. A shard reports its own problems only. `on_again`: all
    records are reported once more, with other groups; problems are not. With `draw`, a seed, the groups of a
    file come in an order that only it and their contents decide; UsageError for a pipe.
    """
    shard = settings.shard
    keep = settings.grouping == "scattered" and draw is None
    most = settings.max_record << 20
    row = settings.with_paths(settings.named_row or RecordPaths())
    container = open_records(
        settings.source, stack, most=most, keep=keep, records=row.records
    )
    name = container.name
    on_open(container)
    if container.once and draw is not None:
        problem = f"groups are drawn from all of INPUT, and {name} is read once"
        remedy = "give INPUT as a file, or leave it out"
        raise UsageError(problem, remedy, place="--spend spread")
    index = stack.enter_context(closing(Index(draw)))
    opened = Input(settings, stack, container, index)
    lines = container.records()
    if container.once:
        first = list(itertools.islice(lines, SAMPLE))
    else:
        first = container.sample(SAMPLE)
    if not first:
        for line in container.records():
            # what is damaged, or no JSON at all, is not empty
            problem = (
                f"none of its files holds records ({line.where} is not a JSON object)"
            )
            raise UsageError(problem, place=name)
        return opened
    reader = detect(name, first, settings)
    if len(settings.messages) == 1:
        from ruler_cli.runs.proposal import refuse_tasks

        values = [value for _, value in first_records(name, first)]
        refuse_tasks(name, values, *settings.messages)
    if shard is not None and reader.format.shape == "columns":
        remedy = "give each process some of the files or lines (`split -n l/16`), and a --ledger"
        problem = f"a record of {name} holds several groups"
        raise UsageError(problem, remedy, place="--shard")

    def report(problem: Problem) -> None:
        # of all shards together each once
        if shard is None or shard.tells(problem.line):
            on_problem(problem)

    if settings.limit is not None:
        groups = _count(settings.limit, "group")
        only = f"--limit {settings.limit}: the first {groups} only"
        opened.notes.append(only)
    if shard is not None:
        opened.notes.append(str(shard))
    if not container.once:
        opened.look(reader, report, on_record, on_again)
        return opened
    read = records(itertools.chain(first, lines), reader.read, report)
    opened.reader = reader
    openings = opened.openings = Openings.of(reader)
    opened.groups = streamed(
        read, reader, settings, index, openings, on_record, container.where
    )
    return opened


def survey(
    lines: Iterable[Line],
    reader: Reader,
    settings: InputSettings,
    index: Index,
    on_problem: OnProblem,
    where: Where = "line {}".format,
    on_record: OnRecord = lambda _record, _count: None,
) -> Survey:
    """Read the input once; decide how its groups lie, and which are those of the run.

    Input behind the first groups that `settings.limit` asks for is not read if none of them can go on there.
    """
    grouping, shard, limit = settings.grouping, settings.shard, settings.limit
    form, whole = reader.format, reader.format.shape != "trajectory"
    if whole and grouping in ("consecutive", "scattered"):
        raise UsageError(
            "every record of this file already is a group",
            place=f"--grouping {grouping}",
        )
    openings = Openings.of(reader)
    result = Survey(reader, openings, where)
    # else rollouts of one group begin alike, or are meant not to
    compare = not (reader.by_prompt or form.varied_prompts)

    def noted() -> Iterator[Line]:
        for line in lines:
            result.end = (line.number, line.end)
            yield line

    read = records(noted(), reader.read, on_problem)
    alone = whole or grouping == "line"
    cut, among = (limit, None) if alone else (None, limit)
    if cut is not None:
        read = first_groups(read, cut)
    index.by = "id" if alone else "key"
    last, runs = b"", 0
    for record in read:
        result.records += 1
        key = f"\n{record.line.number}" if grouping == "line" else str(record.key)
        within = among is None or index.among_first(digest(key), among)
        mine = within and (shard is None or shard.holds(digest(str(record.key))))
        begins = openings.look(record.rollouts, record.line.where)
        openings.compare(begins, record.line.where)
        opening = _number(begins[0]) if begins and compare and not whole else None
        short, rollouts = index.add(record, key, opening, mine=mine)
        result.rollouts += rollouts
        runs += short != last
        last = short
        if within:
            on_record(record, rollouts)
    index.flush()
    sizes = index.sizes()
    result.groups, result.smallest, result.largest, result.singles, result.mine = sizes
    if cut is not None and result.groups >= cut:
        result.cut, result.end = True, (record.line.number, record.line.end)
    if whole:
        result.repeated = index.repeated_key()
        return result
    if compare:
        openings.mixed, first = index.mixed()
        openings.first_mixed = where(first) if first else ""
    adjacent = runs == result.groups
    if grouping == "consecutive" and not adjacent:
        lines_of_it = map(where, index.repeated_key(apart=True) or (0, 0))
        problem = f"{' and '.join(lines_of_it)} are one group with others between"
        raise UsageError(
            problem,
            "leave --grouping at auto",
            place=f"--grouping {grouping}",
        )
    if grouping != "line":
        in_order = adjacent and grouping != "scattered"
        result.grouping = "consecutive" if in_order else "scattered"
    return result


def streamed(
    stream: Iterable[Record],
    reader: Reader,
    settings: InputSettings,
    index: Index,
    openings: Openings,
    on_record: OnRecord,
    where: Where = "line {}".format,
) -> Iterator[Group]:
    """Yield groups of a stream, with the checks that a survey makes of a file.

    Adjacent records of one key are a group; a key that comes back is a UsageError. Behind the first groups
    that `settings.limit` asks for the stream is read for more records of theirs only.
    """
    shard = settings.shard
    limit = settings.limit
    whole = reader.format.shape != "trajectory"
    alone = whole or settings.grouping == "line"
    if limit is not None and alone:
        stream = first_groups(stream, limit)
        limit = None
    end = math.inf  # where the groups begin that are beyond the limit
    for nth, group in enumerate(grouped(stream, alone=alone)):
        number = group.records[0].line.number
        end = number if nth == limit else end
        before = number if alone else index.first_seen(group.key, number)
        if before >= end:
            continue
        if before != number:
            problem = f"group {group.key!r} comes back after it ended (it began at {where(before)})"
            remedy = "groups on stdin must be adjacent; buffer all of it with --grouping scattered, or give a file"
            raise UsageError(problem, remedy, place=where(number))
        short = b"" if whole else digest(group.key)
        for record in group.records:
            on_record(record, index.rollouts(record, short))
        place = group.records[0].line.where
        openings.compare(openings.look(group.rollouts, place), place)
        if shard is None or shard.holds(digest(group.key)):
            yield group


def labelled(reader: Reader, tasks: Mapping[str, str], index: Index) -> Reader | None:
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
    folders = {name: PurePath(name).parts[:-1] for name in tasks}
    for depth in range(1, 1 + max(map(len, folders.values()))):
        labels = {name: "/".join(parts[:depth]) for name, parts in folders.items()}
        if index.mixed(labels)[0] == least:
            return replace(reader, labels=labels, label_kind="folder")
    return replace(reader, labels=files, label_kind="file")


def refuse_other_groups(source: Input, output: str, *, force: bool) -> None:
    """Raise UsageError if INPUT is a scored file, and OUTPUT a scored file of none of its groups.

    Then it is likely that OUTPUT was forgotten behind a pattern. A pipe, which is read once, is not compared.
    """
    place = Location(output)
    if force or source.survey is None:
        return
    if not any(map(has_scores, source.container.sample(1))):
        return
    if not refuse_foreign(place, "OUTPUT"):
        return
    paths: dict[str, Any] = dict.fromkeys(
        ("records", "limit", "shard", "reward", "outcome", "reference")
    )
    alike = replace(source.settings, source=output, **paths)
    with ExitStack() as stack, suppress(UsageError):
        scored = open_input(alike, stack, lambda _problem: None)
        labelled = source.reader is not None and bool(source.reader.labels)
        names = {_name(group, by_prompt=labelled) for group in scored.again()}
        if any(_name(one, by_prompt=labelled) in names for one in source.again()):
            return
    raise not_replaced(place, "holds scores of other groups than those of INPUT")


def _name(group: Group, *, by_prompt: bool) -> str:
    """Return what tells a group from those of another file: its key, or the hash of its prompt if that is a line."""
    if by_prompt or group.key == group.records[0].line.where:
        with suppress(UnreadableError, IndexError):
            return prompt_key(group.rollouts[0], None)
    return group.key


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
