"""Tasks in another file → records of INPUT that are read with their tasks.

The other file is read once, to its end, before INPUT is. Its tasks stand in a temporary SQLite file by the digests of
their keys, so memory does not grow with it. Of a record of it only the task is kept, and tools: never an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from typing import Any, NoReturn

from ruler_cli.errors import Sentence, UnreadableError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.error_map import temporary
from ruler_cli.files.parse import dump, parse, parse_value
from ruler_cli.files.scratch import digest, temporary_database
from ruler_cli.formats.chat import (
    PROMPTS,
    Messages,
    has_content,
    has_text,
    is_reply,
    prompt_turns,
    task_turns,
    text_of,
    with_prompt,
)
from ruler_cli.formats.fields import (
    JsonObject,
    first,
    is_object,
    is_text,
    items,
    lookup,
    words,
)
from ruler_cli.formats.reader import (
    Reader,
    detect,
    first_keys,
    first_records,
    key_text,
)
from ruler_cli.settings.models import InputSettings, paths
from ruler_cli.settings.suggestions import suggest_path
from ruler_cli.types import Line, Record, Rollout, printable

_NAMES = (*PROMPTS, *words("problem_statement question_content text turns messages"))
"""Fields that hold a task, best first. Never those of an answer, a solution, a patch or a test."""
_LISTS = ("turns", "question")
"""Fields with the questions of a conversation: MT-bench's, BFCL's. Their formats place each before its answer."""
_TOOLS = ("function", "tools")
_TABLE = "CREATE TABLE task (key BLOB PRIMARY KEY, body BLOB)"
_CACHE = 2000
"""Kilobytes of tasks in memory."""


@dataclass(frozen=True, slots=True)
class Task:
    """The questions of a task, each as messages that an answer follows; mostly there is one.

    `fields` are those that a format reads beside an answer: questions in a list, and tools.
    """

    questions: list[Messages]
    fields: JsonObject

    def filled(self, record: JsonObject, *, as_prompt: bool) -> JsonObject:
        """Return a record with the fields of its task; its own win. `as_prompt`: with the task as `prompt`, too."""
        filled = {**self.fields, **record}
        if as_prompt and len(self.questions) == 1:
            return {"prompt": self.questions[0], **filled}
        return filled

    def before(self, rollout: Rollout, name: str) -> Rollout:
        """Return a rollout with its task, put before it unless it is there; with an error if it has no place."""
        if rollout.error is not None:
            return rollout
        if len(self.questions) == 1:
            return with_prompt(rollout, self.questions[0], name)
        asked = text_of(self.questions[0][-1])
        if any(asked == text_of(message) for message in rollout.messages):
            return rollout
        problem = Sentence(
            "has a task of {several} questions, and its format does not say where they stand between the answers; "
            "name the one that was asked with {prompt:turns.0}",
            several=len(self.questions),
        )
        return replace(rollout, error=problem)


def task_of(record: JsonObject, given: Sequence[str] = ()) -> Task | None:
    """Return the task of a record, at the user's paths or else under one of its usual names; None for none.

    UnreadableError if what stands there is no task.
    """
    texts = {n: v for n, v in record.items() if isinstance(v, str | list)}
    usual = (name for name in _NAMES if has_text(texts.get(name)))
    chosen = [*(given or islice(usual, 1))]
    values = [lookup(record, path) for path in chosen]
    parts = [*map(_questions, values, chosen)]
    several = any(len(part) > 1 for part in parts)
    asked = [turns for part in parts for turns in part]
    if not (given or several) and is_text(first(values)):
        # with the system prompt and the context beside it
        asked = [task_turns(record, first(chosen))]
    if not several:
        asked = [[*chain.from_iterable(asked)]]
    asked = [_without_answer(turns) for turns in asked]
    asked = [turns for turns in asked if any(map(has_content, turns))]
    if not asked:
        return None
    names = [*_TOOLS, *(name for name in _LISTS if name in chosen)]
    beside = {name: record[name] for name in names if items(record.get(name))}
    return Task(asked, beside)


def _questions(value: Any, where: str) -> list[Messages]:
    """Return what a value asks: a text or messages at once, or the questions in a list one after the other."""
    head = first(items(value))
    if head is None or (is_object(head) and {"role", "from"} & head.keys()):
        return [prompt_turns(value, where)]
    return [
        prompt_turns(one.get("content") if is_object(one) else one, where)
        for one in value
    ]


def _without_answer(turns: Messages) -> Messages:
    """Return the turns up to the last that is not the agent's: what it answers there is a training set's own."""
    while turns and is_reply(turns[-1]):
        turns = turns[:-1]
    return turns


def _refuse(option: str, path: str, record: JsonObject, name: str) -> NoReturn:
    """Raise UsageError for a path that the records of the file `name` do not have, of which one is given."""
    near = suggest_path(path, [record])
    keys = f"their keys: {first_keys(record) or 'none'}"
    remedy = f"did you mean {printable(near)}?" if near else keys
    problem = "none of the records has it"
    raise UsageError(problem, remedy, option=option, value=path, place=name)


class Tasks:
    """The tasks of a file, by a key that records of INPUT have too: at the path `ours` there, `theirs` here."""

    def __init__(self, name: str, on: str) -> None:
        """`name` is the file in sentences; `on` is one path, or `OURS=THEIRS`."""
        self.ours, _, theirs = on.partition("=")
        self.name = name
        self.theirs = theirs or self.ours
        self.notes: list[str] = []
        self._lock = threading.Lock()
        self._db = temporary_database(_TABLE, cache=_CACHE)

    def close(self) -> None:
        """Forget all tasks."""
        self._db.interrupt()
        with self._lock:
            self._db.close()

    def read(self, lines: Iterable[Line], given: Sequence[str]) -> None:
        """Keep the tasks of all records, at the `given` paths if any; UsageError for none, and for two of one key."""
        begin: JsonObject = {}
        count = 0
        keyed = False
        without = 0
        first_without = ""
        for line in lines:
            with suppress(UnreadableError, RecursionError):
                record = parse(line.raw)
                begin = begin or record
                key = lookup(record, self.theirs)
                keyed |= key is not None
                task = task_of(record, given)
                if key is not None and task is not None:
                    self._keep(key_text(key), task, line.where)
                    count += 1
                    continue
            without += 1
            first_without = first_without or line.where
        if not keyed:
            _refuse("on", self.theirs, begin, self.name)
        if not count:
            _refuse("prompt", first(given) or "PATH", begin, self.name)
        if without:
            several = "record" if without == 1 else "records"
            lacking = f"of {self.name} without a task or a key (first: {first_without})"
            self.notes.append(f"{without:,} {several} {lacking}")

    def _keep(self, key: str, task: Task, place: str) -> None:
        body = dump([task.questions, task.fields])
        query = "INSERT OR IGNORE INTO task VALUES (?, ?)"
        with self._lock, temporary():
            new = self._db.execute(query, (digest(key), body)).rowcount
        if not new and self._find(key) != body:
            raise UsageError(
                f"{place} is another task with the same `{self.theirs}`, {printable(key)}",
                Sentence("name a field that tells them apart with {on:KEY}"),
                place=self.name,
            )

    def _find(self, key: str) -> bytes | None:
        query = "SELECT body FROM task WHERE key = ?"
        # another thread may still read INPUT when a run stops
        with self._lock, temporary():
            found = self._db.execute(query, (digest(key),)).fetchall()
        return first(body for (body,) in found)

    def of(self, record: JsonObject) -> Task:
        """Return the task of a record of INPUT; UnreadableError if there is none."""
        key = lookup(record, self.ours)
        if key is None:
            raise UnreadableError(f"has no `{self.ours}`, by which its task is found")
        text = key_text(key)
        body = self._find(text)
        if body is None:
            shown = printable(text)
            raise UnreadableError(
                f"has no task: no record of {self.name} has the `{self.theirs}` {shown}"
            )
        return Task(*parse_value(body))

    def reader(
        self, name: str, sample: Sequence[Line], settings: InputSettings
    ) -> JoinedReader:
        """Return a reader of INPUT, `name`, whose first lines are a sample; UsageError if no format fits these.

        A record may be an answer alone, which only a prompt beside it tells.
        """
        own = replace(settings, prompt=())
        records = [record for _, record in first_records(name, sample)]
        if all(lookup(record, self.ours) is None for record in records):
            _refuse("on", self.ours, records[0], name)
        as_prompt = False
        try:
            found = detect(name, self._filled(sample, as_prompt), own)
        except UsageError:
            as_prompt = True
            found = detect(name, self._filled(sample, as_prompt), own)
        known = {one.name: getattr(found, one.name) for one in fields(Reader)}
        if found.by_prompt and found.format.shape == "trajectory":
            known["key"] = self.ours
        return JoinedReader(**known, tasks=self, as_prompt=as_prompt)

    def _filled(self, sample: Sequence[Line], as_prompt: bool) -> list[Line]:
        """Return lines with the fields of their tasks; one that cannot be read as it is."""
        filled = []
        for line in sample:
            raw = line.raw
            with suppress(UnreadableError, RecursionError):
                record = parse(raw)
                raw = dump(self.of(record).filled(record, as_prompt=as_prompt))
            filled.append(replace(line, raw=raw))
        return filled


@dataclass(frozen=True)
class JoinedReader(Reader):
    """Read lines with their tasks. `as_prompt`: a task is read as the `prompt` of its record."""

    tasks: Tasks = field(kw_only=True)
    as_prompt: bool = False

    def read_parsed(self, value: JsonObject, line: Line) -> tuple[Record, ...]:
        """Read a record with its task; UnreadableError if it has none."""
        task = self.tasks.of(value)
        filled = task.filled(value, as_prompt=self.as_prompt)
        out = []
        for record in super().read_parsed(filled, line):
            rollouts = [task.before(one, self.tasks.name) for one in record.rollouts]
            out.append(replace(record, rollouts=tuple(rollouts)))
        return tuple(out)


def open_tasks(settings: InputSettings, stack: ExitStack) -> Tasks | None:
    """Read the file with the tasks, until `stack` ends; None if no settings name one."""
    source, on = settings.prompts, settings.on
    if source is None or on is None:
        if source is on:
            return None
        both = "give both: {prompts:FILE} with the tasks and {on:KEY}, the key that INPUT has too"
        raise UsageError(Sentence(both))
    container = open_container(source, stack, most=settings.max_record << 20)
    tasks = stack.enter_context(closing(Tasks(container.name, on)))
    tasks.read(container.records(), paths(settings.prompt))
    return tasks
