"""Lines of INPUT → counts of its records and groups, and warnings on how they are grouped.

A file is surveyed first: each line is read, its group key noted, and nothing is judged before the whole
input is known to be readable. The notes stand in a temporary SQLite file, so memory does not grow with the
dump. A pipe is read once (`streamed`): its groups must be adjacent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.grouping import (
    OnProblem,
    Where,
    first_groups,
    grouped,
    records,
)
from ruler_cli.files.parse import dump
from ruler_cli.files.scratch import Index, digest
from ruler_cli.formats.chat import has_content, task_messages
from ruler_cli.formats.reader import Reader
from ruler_cli.settings.models import InputSettings
from ruler_cli.types import Group, Line, Record, Rollout

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

    def look(self, rollouts: Iterable[Rollout], where: str) -> list[Opening]:
        """Count the rollouts of a record that show no task or no rules; return the opening of each.

        A part of a rollout after the first is passed over.
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
                Sentence(
                    "{showing} the judge no task: nothing precedes the agent's first turn (first: {first}); "
                    "give the path of the task with {prompt:PATH}",
                    showing=_showing(self.taskless),
                    first=self.first_taskless,
                )
            )
        if self.ruleless:
            out.append(
                f"{_showing(self.ruleless)} the judge no rules for the agent: there is no system message "
                "(tau2-bench keeps the rules beside the messages); add it: "
                "jq -c '.info.environment_info.policy as $p | .simulations[] | "
                '.messages = [{role: "system", content: $p}] + .messages\''
            )
        if self.mixed:
            groups = "1 group" if self.mixed == 1 else f"{self.mixed:,} groups"
            out.append(
                Sentence(
                    "the rollouts of {groups} begin differently (first: {first}), as if they were different "
                    "tasks; if they are, name another key with {group_by:PATH}",
                    groups=groups,
                    first=self.first_mixed,
                )
            )
        return out


def _showing(count: int) -> str:
    return "1 rollout shows" if count == 1 else f"{count:,} rollouts show"


def _number(opening: Opening) -> int:
    """Return a number of 64 bits that equal openings share within one process."""
    parts = [part for pair in opening for part in pair]
    return hash(tuple(part if isinstance(part, str) else dump(part) for part in parts))


@dataclass(slots=True)
class Survey:
    """Counts of the records and groups of a file; sizes are rollouts per group, the parts of one joined.

    `mine` counts the run's own groups: all of them, unless the run is of one shard. `end` is the number of
    the last line and the offset behind it: lines that are appended later are not read. `reader` knows the
    words that all records have for rewards and outcomes: groups are read with it. `cut`: the file was not
    read to its end, because the run needs its first groups only.
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
        key = self.reader.shown_key
        mean = self.rollouts // max(1, self.groups)
        if self.groups > 1 and self.singles == self.groups and not alone:
            nothing = "nothing can be compared: every group has one rollout"
            given = self.reader.format.shape == "group"
            out.append(nothing if given else _doubt(f"{nothing} ({key})"))
        elif self._is_one_group and (self.reader.by_prompt or self.openings.mixed):
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


def _doubt(problem: str) -> Sentence:
    """Return a doubt about the group key, with the way out."""
    return Sentence(
        "{problem}; if that is wrong, name another key with {group_by:PATH}",
        problem=problem,
    )


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
    form, whole = reader.format, reader.format.shape != "trajectory"
    if whole and grouping in ("consecutive", "scattered"):
        problem = "every record of this file already is a group"
        raise UsageError(problem, option="grouping", value=grouping)
    openings = Openings(form.simulated_user, form.varied_prompts)
    result = Survey(reader, openings, where)

    def noted() -> Iterator[Line]:
        for line in lines:
            result.end = (line.number, line.end)
            yield line

    # else rollouts of one group begin alike, or are meant not to
    compare = not (reader.by_prompt or form.varied_prompts)
    last, runs = b"", 0
    read = records(noted(), reader.read, on_problem)
    ends = limit is None or whole or grouping == "line"
    if limit is not None and ends:
        read = first_groups(read, limit)
    for record in read:
        result.records += 1
        result.reader = result.reader.with_words((record,))
        key = f"\n{record.line.number}" if grouping == "line" else str(record.key)
        within = ends or limit is None or index.among_first(digest(key), limit)
        mine = within and (shard is None or shard.holds(digest(str(record.key))))
        opening = None
        begins = openings.look(record.rollouts, record.line.where)
        if whole or compare:
            openings.compare(begins, record.line.where)
        if begins and compare and not whole:
            opening = _number(begins[0])
        short, rollouts = index.add(record, key, opening, whole=whole, mine=mine)
        result.rollouts += rollouts
        runs += short != last
        last = short
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
        openings.mixed, first = index.mixed()
        openings.first_mixed = where(first) if first else ""
    adjacent = runs == result.groups
    if grouping == "consecutive" and not adjacent:
        raise _not_adjacent(index, where)
    if grouping != "line":
        in_order = adjacent and grouping != "scattered"
        result.grouping = "consecutive" if in_order else "scattered"
    return result


def _not_adjacent(index: Index, where: Where) -> UsageError:
    first, second = map(where, index.repeated_key(apart=True) or (0, 0))
    problem = f"{first} and {second} are one group with others between"
    remedy = Sentence("leave {grouping} at auto")
    return UsageError(problem, remedy, option="grouping", value="consecutive")


def streamed(
    stream: Iterable[Record],
    reader: Reader,
    settings: InputSettings,
    index: Index,
    openings: Openings,
    on_record: OnRecord | None,
) -> Iterator[Group]:
    """Yield groups of a stream, with the checks that a survey makes of a file.

    Adjacent records of one key are a group; a key that comes back is a UsageError. Behind the first groups
    that `settings.limit` asks for the stream is read for more records of theirs only.
    """
    shard, limit = settings.shard, settings.limit
    whole = reader.format.shape != "trajectory"
    alone = whole or settings.grouping == "line"
    if limit is not None and alone:
        stream, limit = first_groups(stream, limit), None
    end = math.inf  # where the groups begin that are beyond the limit
    for nth, group in enumerate(grouped(stream, alone=alone)):
        number = group.records[0].line.number
        end = number if nth == limit else end
        before = number if alone else index.first_seen(group.key, number)
        if before >= end:
            continue
        if before != number:
            problem = f"group {group.key!r} comes back after it ended (it began at line {before})"
            remedy = Sentence(
                "groups on stdin must be adjacent; buffer all of it with {grouping:scattered}, or "
                "give a file"
            )
            raise UsageError(problem, remedy, place=f"line {number}")
        short = b"" if whole else digest(group.key)
        for record in group.records:
            if on_record is not None:
                on_record(record, index.rollouts(record, short))
        where = group.records[0].line.where
        openings.compare(openings.look(group.rollouts, where), where)
        if shard is None or shard.holds(digest(group.key)):
            yield group


def labelled(reader: Reader, tasks: Mapping[str, str], index: Index) -> Reader | None:
    """Return the reader with a label of each file in its keys; None if the keys tell the tasks apart.

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
    folders = {name: PurePath(name).parts[:-1] for name in tasks}
    for depth in range(1, 1 + max(map(len, folders.values()))):
        labels = {name: "/".join(parts[:depth]) for name, parts in folders.items()}
        if index.mixed(labels)[0] == least:
            return replace(reader, labels=labels, label_kind="folder")
    return replace(reader, labels=files, label_kind="file")
