"""Records → groups: by line, consecutive, or scattered.

A file is surveyed first (`survey`): each line is read, its group key noted, and nothing is judged before the
whole input is known to be readable. The notes stand in a temporary SQLite file, so memory does not grow with
the dump. The file is read again for the groups, and refused if it has changed by then. A pipe is read once
(`streamed`): its groups must be adjacent.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from ruler_cli.errors import InputChanged, Sentence, UnreadableError, UsageError
from ruler_cli.files.parse import dump, too_large
from ruler_cli.files.scratch import Index, Place, digest, place
from ruler_cli.formats.chat import has_content, task_messages
from ruler_cli.formats.interface import printable
from ruler_cli.formats.reader import Reader
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Line, Problem, Record, Rollout

OnProblem = Callable[[Problem], None]
LineOf = Callable[[int, int, bytes], Line]
"""The number of a record, its offset and its bytes → the line that it is."""
Where = Callable[[int], str]
"""The number of a record → the name of its place in a sentence."""
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

    def look(
        self, rollouts: Iterable[Rollout], where: str, *, compare: bool = True
    ) -> list[Opening]:
        """Count the rollouts of a record that show no task; return the opening of each.

        A part of a rollout after the first is passed over. Without `compare` nothing is returned.
        """
        openings: list[Opening] = []
        members: set[str] = set()
        for rollout in rollouts:
            if rollout.error is not None or rollout.member in members:
                continue
            if rollout.member is not None:
                members.add(rollout.member)
            asked = task_messages(rollout)
            if not any(map(has_content, asked)):
                self.taskless += 1
                self.first_taskless = self.first_taskless or where
            if self.simulated_user and not any(
                turn.get("role") in _SYSTEM for turn in rollout.messages
            ):
                self.ruleless += 1
            if compare:
                if self.simulated_user:
                    asked = [
                        message for message in asked if message.get("role") in _SYSTEM
                    ]
                openings.append(
                    [(message.get("role"), message.get("content")) for message in asked]
                )
        return openings

    def compared(self, openings: Sequence[Opening], key: str) -> None:
        """Count a group whose openings are not all the same."""
        if not self.varied_prompts and any(
            opening != openings[0] for opening in openings
        ):
            self.mixed += 1
            self.first_mixed = self.first_mixed or key

    def sentences(self) -> list[str]:
        """A warning for each doubt, with the way out."""
        out: list[str] = []
        if self.taskless:
            out.append(
                Sentence(
                    "{showing} the judge no task: nothing stands before the agent's first turn (first: "
                    "{first}); name the place of the task's text with {prompt:PATH}",
                    showing=_showing(self.taskless),
                    first=self.first_taskless,
                )
            )
        if self.ruleless:
            out.append(
                f"{_showing(self.ruleless)} the judge no rules that the agent had to follow: no message is "
                "the system's (tau2-bench keeps them beside); put them there: "
                "jq -c '.info.environment_info.policy as $p | .simulations[] | "
                '.messages = [{role: "system", content: $p}] + .messages\''
            )
        if self.mixed:
            groups = "1 group" if self.mixed == 1 else f"{self.mixed:,} groups"
            out.append(
                Sentence(
                    "the rollouts of {groups} begin differently (first: {first}), as if they were of "
                    "different tasks; if they are, name another key with {group_by:PATH}",
                    groups=groups,
                    first=printable(self.first_mixed),
                )
            )
        return out


def _showing(count: int) -> str:
    return "1 rollout shows" if count == 1 else f"{count:,} rollouts show"


def _number(opening: Opening) -> int:
    """A number of 64 bits that equal openings share within one process."""
    return hash(
        tuple(
            [
                part if isinstance(part, str) else dump(part)
                for pair in opening
                for part in pair
            ]
        )
    )


@dataclass(slots=True)
class Survey:
    """Counts of the records and groups of a file; sizes are rollouts per group, the parts of one joined.

    `mine` counts the run's own groups: all of them, unless the run is of one shard. `end` is the number of
    the last line and the offset behind it: lines that are appended later are not read. `reader` knows the
    words that all records have for rewards and outcomes: groups are read with it. `cut`: the file was not
    read to its end, because the run needs its first groups only.
    """

    reader: Reader
    grouping: Literal["line", "consecutive", "scattered"] = "line"
    records: int = 0
    groups: int = 0
    mine: int = 0
    rollouts: int = 0
    smallest: int = 0
    largest: int = 0
    singles: int = 0
    repeated: tuple[int, int] | None = None
    openings: Openings = field(default_factory=Openings)
    first_mixed: int = 0
    end: tuple[int, int] = (0, 0)
    cut: bool = False
    where: Where = "line {}".format

    @property
    def _is_one_group(self) -> bool:
        """True if several records are one group, by a key and not because a record is a group."""
        several = self.groups == 1 and self.records > 1
        return several and self.reader.format.shape == "trajectory" and not self.cut

    def warnings(self, *, alone: bool = False) -> list[str]:
        """List the signs of a wrong group key, a sentence each.

        One group is none by itself: a dump of one task is normal. It is one if its rollouts begin
        differently, or if the dump has no key. `alone`: rollouts are to be scored by themselves.
        """
        out: list[str] = []
        if self.groups > 1 and self.singles == self.groups and not alone:
            given = self.reader.format.shape == "group"
            key = "" if given else f" ({self.reader.shown_key})"
            nothing = f"every group has one rollout{key}: nothing can be compared"
            out.append(nothing if given else _with_way(nothing))
        elif self._is_one_group and (self.reader.by_prompt or self.openings.mixed):
            out.append(
                _with_way(
                    f"all {self.records} records are one group ({self.reader.shown_key})"
                )
            )
        elif self.groups > 1 and self.largest > 8 * max(
            1, self.rollouts // self.groups
        ):
            sizes = f"{self.smallest} to {self.largest}"
            out.append(
                _with_way(
                    f"group sizes are very uneven, {sizes} ({self.reader.shown_key})"
                )
            )
        if self.repeated:
            first, second = self.repeated
            out.append(
                f"{self.where(first)} and {self.where(second)} have the same `{self.reader.key}`; each is "
                "judged as a group of its own"
            )
        return out + self.openings.sentences()


def _with_way(doubt: str) -> Sentence:
    """Return a doubt about the group key, with the way out."""
    return Sentence(
        "{doubt}; if that is not meant, name another key with {group_by:PATH}",
        doubt=doubt,
    )


def records(
    lines: Iterable[Line],
    read: Callable[[Line], tuple[Record, ...]],
    on_problem: OnProblem,
) -> Iterator[Record]:
    """Read each line; one that cannot be read goes to `on_problem`, with its reason."""
    for line in lines:
        if line.skipped:
            on_problem(
                Problem(
                    line.number,
                    too_large(line.skipped),
                    b"",
                    line.place,
                    too_large=True,
                )
            )
            continue
        try:
            parts = read(line)
        except UnreadableError as error:
            on_problem(Problem(line.number, error.reason, line.raw, line.place))
            continue
        yield from parts


def first_groups(read: Iterable[Record], limit: int) -> Iterator[Record]:
    """Yield the records of the first groups, each of which is a record by itself.

    Nothing behind them is read. A columnar line, which is several groups, is not cut.
    """
    for groups, record in enumerate(read, 1):
        yield record
        if groups >= limit and record.part == record.parts - 1:
            return


def survey(
    lines: Iterable[Line],
    reader: Reader,
    settings: InputSettings,
    index: Index,
    on_problem: OnProblem,
    where: Where = "line {}".format,
    on_record: OnRecord | None = None,
) -> Survey:
    """Read the input once; decide how its groups lie, and which are those of the run.

    Input behind the first groups that `settings.limit` asks for is not read if none of them can go on there.
    """
    grouping, shard, limit = settings.grouping, settings.shard, settings.limit
    whole = reader.format.shape != "trajectory"
    if whole and grouping in ("consecutive", "scattered"):
        problem = "every record of this file already is a group"
        raise UsageError(problem, option="grouping", value=grouping)
    openings = Openings(reader.format.simulated_user, reader.format.varied_prompts)
    result = Survey(reader, where=where, openings=openings)

    def noted() -> Iterator[Line]:
        for line in lines:
            result.end = (line.number, line.end)
            yield line

    # else rollouts of one group begin alike, or are meant not to
    compare = not (reader.by_prompt or openings.varied_prompts)
    last, runs, read = b"", 0, records(noted(), reader.read_rounded, on_problem)
    ends = limit is None or whole or grouping == "line"
    if limit is not None and ends:
        read = first_groups(read, limit)
    for record in read:
        result.records += 1
        result.reader = result.reader.with_words((record,))
        key = f"\n{record.line.number}" if grouping == "line" else str(record.key)
        within = ends or limit is None or index.among_first(digest(key), limit)
        mine = within and (shard is None or shard.holds(digest(str(record.key))))
        begins = openings.look(
            record.rollouts, record.line.where, compare=whole or compare
        )
        if whole or len(begins) > 1:
            openings.compared(begins, str(record.key))
        opening = _number(begins[0]) if begins and not whole else None
        short, rollouts = index.add(record, key, opening, whole=whole, mine=mine)
        result.rollouts += rollouts
        if short != last:
            last, runs = short, runs + 1
        if on_record is not None and within:
            on_record(record, rollouts)
    index.flush()
    sizes = index.sizes(each_line=whole)
    result.groups, result.smallest, result.largest, result.singles, result.mine = sizes
    if limit is not None and ends and result.groups >= limit:
        result.cut, result.end = True, (record.line.number, record.line.end)
    if whole:
        result.repeated = index.repeated_key()
        return result
    if compare:
        openings.mixed, result.first_mixed = index.mixed()
    adjacent = runs == result.groups
    if grouping == "consecutive" and not adjacent:
        one, other = index.repeated_key(apart=True) or (0, 0)
        problem = f"{where(one)} and {where(other)} are one group with others between"
        remedy = Sentence("leave {grouping} at auto")
        raise UsageError(problem, remedy, option="grouping", value="consecutive")
    if grouping != "line":
        result.grouping = (
            "consecutive" if adjacent and grouping != "scattered" else "scattered"
        )
    return result


def streamed(
    stream: Iterable[Record],
    reader: Reader,
    settings: InputSettings,
    index: Index,
    openings: Openings,
    on_record: OnRecord | None,
) -> Iterator[Group]:
    """Groups of a stream, with the checks that a survey makes of a file.

    Adjacent records of one key are a group; a key that comes back is a UsageError. Behind the first groups
    that `settings.limit` asks for the stream is read for more records of theirs only.
    """
    shard, limit = settings.shard, settings.limit
    whole = reader.format.shape != "trajectory"
    alone = whole or settings.grouping == "line"
    if limit is not None and alone:
        stream, limit = first_groups(stream, limit), None
    end = math.inf  # where the groups begin that are beyond the limit
    for nth, group in enumerate(_groups(stream, alone=alone)):
        number = group.records[0].line.number
        end = number if nth == limit else end
        before = number if alone else index.first_seen(group.key, number)
        if before >= end:
            continue
        if before != number:
            problem = f"group {group.key!r} comes back after it ended (it began at line {before})"
            remedy = Sentence(
                "from stdin groups must be adjacent: have all of it kept on disk first with "
                "{grouping:scattered}, or give the input as a file"
            )
            raise UsageError(problem, remedy, place=f"line {number}")
        short = b"" if whole else digest(group.key)
        for record in group.records:
            if on_record is not None:
                on_record(record, index.rollouts(record, short))
        openings.compared(
            openings.look(group.rollouts, group.records[0].line.where), group.key
        )
        if shard is None or shard.holds(digest(group.key)):
            yield group


def fetched(fd: int, reader: Reader, places: Iterable[Place], line_of: LineOf) -> Group:
    """One group, by the places of its records in a file; UnreadableError if other bytes stand there now.

    `line_of` makes a line of a record's number, offset and bytes.
    """
    read: list[Record] = []
    for nth, start, size, hashed in places:
        line = line_of(
            nth, start, os.pread(fd, size, start)
        )  # past buffers: each record would fill one
        if hash(line.raw) != hashed:
            raise UnreadableError(line.where)
        read += reader.read(line)
    return Group(str(read[0].key), tuple(read))


def part_of(group: Group, first: int) -> Group:
    """The group of a columnar line whose record has this number; any other group as it is."""
    if group.records[0].parts == 1:
        return group
    record = next(record for record in group.records if place(record) == first)
    return Group(str(record.key), (record,))


def grouped(lines: Iterable[Line], reader: Reader, grouping: str) -> Iterator[Group]:
    """Groups that are lines, or adjacent lines, of a file that was surveyed."""
    read = (record for line in lines for record in reader.read(line))
    return _groups(read, alone=grouping == "line")


def _groups(read: Iterable[Record], *, alone: bool) -> Iterator[Group]:
    """Make groups of adjacent records of one key, or of each record alone."""
    if alone:
        yield from (Group(str(record.key), (record,)) for record in read)
        return
    for key, members in itertools.groupby(read, key=lambda record: record.key):
        yield Group(str(key), tuple(members))


def surveyed(again: Iterator[Line], survey: Survey, index: Index) -> Iterator[Line]:
    """The lines of the run's own groups, as the survey read them; UnreadableError if one of them has changed.

    Lines that were appended since are left.
    """
    places, at = index.lines(), (0, 0)
    wanted = next(places, None)
    for line in again:
        if line.number > survey.end[0]:
            break
        at = (line.number, line.end)
        if line.number == survey.end[0] and at != survey.end:
            break
        if wanted is None or line.number < wanted[0]:
            continue
        if line.number > wanted[0] or hash(line.raw) != wanted[3]:
            break
        yield line
        wanted = next((place for place in places if place[0] != line.number), None)
    if wanted is not None or at != survey.end:
        raise UnreadableError(
            survey.where(survey.end[0] if wanted is None else wanted[0])
        )


@contextmanager
def unchanged(name: str) -> Iterator[None]:
    """Raise InputChanged if the records of a surveyed file have changed since, or cannot be read again."""
    try:
        yield
    except UnreadableError as error:
        raise InputChanged(name, str(error)) from None
    except UsageError as error:
        reason = str(error).removeprefix(f"{name}: ").partition(";")[0]
        raise InputChanged(name, f"it {reason}") from None


def labelled(reader: Reader, tasks: Mapping[str, str], index: Index) -> Reader | None:
    """The reader with a label of each file in its keys; None if the keys tell the tasks apart by themselves.

    Indices of tasks begin at 0 in every file of an evaluation: without a label the first tasks of all of
    them would be one group. `tasks` maps names of files to the task that each names, or "". If files
    name several tasks, that is the label. Else it is the outermost folder, or the file, that explains as
    many groups of different openings as the files do.
    """
    named = {name: task for name, task in tasks.items() if task}
    if len(set(named.values())) > 1 and len(named) == len(tasks):
        return replace(reader, labels=named, label_kind="task")
    if reader.by_prompt or len(tasks) < 2 or not index.mixed()[0]:
        return None
    files = {name: name for name in tasks}
    least, _ = index.mixed(files)
    if least >= index.mixed()[0]:
        return None
    for depth in range(1, max(len(PurePath(name).parts) for name in tasks)):
        folders = {name: "/".join(PurePath(name).parts[:-1][:depth]) for name in tasks}
        if index.mixed(folders)[0] == least:
            return replace(reader, labels=folders, label_kind="folder")
    return replace(reader, labels=files, label_kind="file")
