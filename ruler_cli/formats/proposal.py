"""First values of a file that no format fits → paths that would read it, or the reason why there is nothing to judge.

Three shapes are proposed: conversations; a task and an answer; a task and a list of answers. Records are the
values, the objects in a list of the one document that the file is, or the members of an object whose keys are
ids. A field whose name, or place, says gold, or names a grader, is never an answer.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple

from ruler_cli.errors import UsageError
from ruler_cli.files.values import (
    Names,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
)
from ruler_cli.messages.content import first_agent_turn
from ruler_cli.messages.conversations import json_messages, named_turns
from ruler_cli.messages.names import ROLES
from ruler_cli.settings.models import RecordPaths
from ruler_cli.types import words_of

Kind = Literal["gold", "tasks", "tokens", "other"]
_MOST, _DEEPEST = 100, 4
"""Records, values of a list and fields that are looked at; levels of a record or a document."""
_MEMBERS = 6
"""Members of an object that is taken for a list of records, whatever its keys."""
_LARGE = 200_000
"""Characters of a text that may be JSON of messages."""
_WORD = re.compile(r"[A-Z][a-z]+|[a-z]+|[A-Z]+(?![a-z])")
_NOT_PLAIN = re.compile(r"\[\]|\{\}|\||^$")
"""Marks of a key that no path can name."""
_ANSWERS = words_of("""
raw final response output completion generation prediction predicted reply rollout trajectory submission attempt
continuation solution transcript message
""")
"""Words of fields with an answer, the best first; as those of the next ones."""
_TASKS = words_of(
    "question ask prompt instruction task query problem goal request user asked input passage context document"
)
_REWARDS = words_of("reward score rating grade")
_OUTCOMES = words_of("correct success passed resolved solved correctness")
_GOLD = words_of("""
gold golden gt truth expected reference ref canonical correct oracle target human label ideal standard official expert
chosen rejected answer solution
""")
_GRADERS = words_of("""
judge judgement judgment grader grading evaluator evaluation critique verdict feedback rubric config metrics tool
critic reviewer error traceback system reasoning explanation
""")
_AUTHORS = words_of(
    "model llm agent assistant bot gpt claude gemini llama qwen policy generated"
)


_ANSWER_KINDS = ("turns", "texts", "text")
"""The three shapes: messages; a task and a list of answers; a task and an answer."""


class NothingToJudge(NamedTuple):
    """A file that holds no answers of an agent: the kind of what it holds, and the paths of that."""

    kind: Kind
    paths: Names


@dataclass(eq=False)
class _Column:
    """Values at a path of records.

    `kind` is `turns`, `texts` (a list of several), `text`, `numbers`, `number` or `ids`.
    """

    path: str
    kind: str
    values: list[Any] = field(default_factory=list)

    @cached_property
    def words(self) -> set[str]:
        """Return the words of its path, in the singular."""
        words = set[str]()
        for word in _WORD.findall(self.path):
            words.add(re.sub(r"(?<!s)s$", "", word.lower()))
        return words

    def says(self, names: Sequence[str]) -> bool:
        """Return whether it has one of these words."""
        return not self.words.isdisjoint(names)

    @cached_property
    def prose(self) -> bool:
        """Return whether most texts have several words, or are of a script without spaces."""
        wordy = 0
        for text in map(str, self.values):
            wordy += " " in text or not text.isascii()
        return 2 * wordy > len(self.values)

    @cached_property
    def answers(self) -> bool:
        """Return whether an agent may have written what stands here, by its name."""
        written = self.says(_AUTHORS) and self.prose
        if self.kind not in _ANSWER_KINDS or self.says(_GRADERS):
            return False
        if self.says(_GOLD) and not written:
            return False
        return self.kind == "turns" or written or self.says(_ANSWERS)

    @cached_property
    def asks(self) -> bool:
        """Return whether it may hold the task."""
        elsewhere = (*_GOLD, *_GRADERS, *_AUTHORS, *_ANSWERS)
        prose = self.kind == "text" and self.prose
        return prose and self.says(_TASKS) and not self.says(elsewhere)


def propose(values: Sequence[Any]) -> RecordPaths | NothingToJudge:
    """Propose paths for the first values of a file: its lines, its items, or the one document that it is."""
    nothing = NothingToJudge("other", ())
    for path, records in _records(values):
        fields = _fields(records)
        row = _row(path, fields)
        if row is not None:
            return row
        if nothing.kind == "other":
            nothing = _nothing(fields)
    return nothing


def refuse_tasks(name: str, values: Sequence[Any], path: str) -> None:
    """Raise UsageError if a list at a path of the user's holds rollouts of several tasks: it is no group."""
    lists = [items(lookup(value, path)) for value in values]
    row = propose(list(itertools.chain(*lists)))
    if isinstance(row, NothingToJudge) or row.records or not row.prompt:
        return
    tasks = 0
    for rollouts in lists:
        texts = [str(lookup(item, row.prompt[-1])) for item in rollouts]
        tasks = max(tasks, len({*texts}))
    if tasks < 2:
        return
    raise UsageError(
        "is a list whose items are of several tasks, and no group",
        f"use --set records={path}[], --messages {row.messages[0]} and --prompt {row.prompt[-1]}",
        place=f"{name}: --messages {path}",
    )


def _records(values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield what may be the records of a file, with the path that leads there; nearest first."""
    if len(values) != 1:
        yield "", values[:_MOST]
        return
    queue = [("", values[0], 0)]
    for path, value, depth in queue:
        below = f"{path}." if path else ""
        if _is_table(value):
            yield f"{path}[]", value[:_MOST]
        elif is_object(value) and depth < _DEEPEST:
            members = [*islice(value.items(), _MOST)]
            shapes = {
                frozenset(inner) for _, inner in members if is_object(inner)
            }
            if len(members) >= _MEMBERS and len(shapes) == 1:
                by_id = [{"key": key, "value": inner} for key, inner in members]
                yield f"{path}{{}}", by_id
            elif not path:
                yield "", values
            if len(queue) < _MOST:
                queue += [
                    (below + _step(key), inner, depth + 1)
                    for key, inner in members
                ]


def _fields(records: Sequence[Any]) -> list[_Column]:
    """Return the fields of records, those of objects inside too, and columns of the objects in a list."""
    fields: dict[tuple[str, str], _Column] = {}
    for record in records:
        queue = [("", record, 0)]
        for path, value, depth in queue:
            below = f"{path}." if path else ""
            kind = _kind(value)
            if kind and path:
                if len(fields) < _MOST:
                    column = fields.setdefault(
                        (path, kind), _Column(path, kind)
                    )
                    column.values.append(value)
                continue
            inside = value
            if _is_table(value):
                below = f"{path}[]."
                inside = _columns(value)
            if is_object(inside) and depth < _DEEPEST and len(queue) < _MOST:
                for key, inner in islice(inside.items(), _MOST):
                    if not _NOT_PLAIN.search(key):
                        queue.append((below + _step(key), inner, depth + 1))
    # what most records lack says nothing of them
    return [
        column
        for column in fields.values()
        if 2 * len(column.values) >= len(records)
    ]


def _is_table(value: Any) -> bool:
    """Return whether a value is a list of objects."""
    rows = items(value)[:_MOST]
    return bool(rows) and all(map(is_object, rows))


def _columns(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the columns of objects that hold values of one kind."""
    columns = {}
    for key in rows[0]:
        column = [row.get(key) for row in rows[:_MOST]]
        if _kind(column):
            columns[key] = column
    return columns


def _kind(value: Any) -> str:
    """Return the kind of a value; empty for one with others inside, and for nothing."""
    if is_text(value):
        turns = len(value) < _LARGE and json_messages(value)
        return "turns" if turns else "text" if value.strip() else ""
    if isinstance(value, int | float):
        return "number"
    if not is_list(value) or not value:
        return ""
    kinds = {type(item) for item in value[:_MOST]}
    if kinds == {str}:
        return "texts"
    if kinds <= {int, bool, float}:
        return "ids" if len(value) > 8 and kinds == {int} else "numbers"
    turns = named_turns(value) or value
    if not all(map(is_object, turns)):
        return ""
    roles = set[str | None]()
    for turn in turns[:_MOST]:
        # one with a type alone is a call, or its result
        if "role" in turn or "type" not in turn:
            role = str(turn.get("role")).lower()
            roles.add(ROLES.get(role))
    agents = "assistant" in roles and None not in roles
    return "turns" if agents else ""


def _step(key: str) -> str:
    return f'"{key}"' if "." in key else key


def _row(path: str, fields: Sequence[_Column]) -> RecordPaths | None:
    """Return the row of the first shape that fits: its answers, and the task, reward and outcome beside."""
    tasks = [column for column in fields if column.asks]
    prompt = _best(tasks, "text", _TASKS)[:1]
    written = [column for column in fields if column.answers]
    for kind in _ANSWER_KINDS:
        answers = _best(written, kind, _ANSWERS)
        if answers and (kind == "turns" or prompt):
            break
    else:
        return None
    best = answers[0]
    messages = [best.path]
    if kind == "turns" and any(map(_opening, best.values)):
        prompt = []
    named = best.words.intersection(_ANSWERS)
    if kind == "text" and named:
        # outputs of several models stand in fields that differ by a model's name alone
        messages = []
        for answer in answers:
            if answer.words.intersection(_ANSWERS) == named:
                messages.append(answer.path)
    row = RecordPaths(
        records=path,
        messages=tuple(messages),
        prompt=tuple(column.path for column in prompt),
    )
    if len(messages) > 1:
        return row
    numbers = "numbers" if kind == "texts" else "number"
    rewards = _best(fields, numbers, _REWARDS)
    outcomes = _best(fields, numbers, _OUTCOMES)
    return replace(
        row,
        reward=rewards[0].path if rewards else "reward",
        outcome=outcomes[0].path if outcomes else "",
    )


def _best(
    fields: Sequence[_Column], kind: str, names: Sequence[str]
) -> list[_Column]:
    """Return fields of a kind, those first that hold prose, have the first of these words, and are not deep.

    Numbers have one of the words.
    """

    def rank(column: _Column) -> tuple[bool, int, int]:
        places = map(names.index, column.words.intersection(names))
        place = min(places, default=len(names))
        return not column.prose, place, column.path.count(".")

    fitting = []
    for column in fields:
        named = not kind.startswith("number") or column.says(names)
        if column.kind == kind and named:
            fitting.append(column)
    return sorted(fitting, key=rank)


def _opening(value: Any) -> bool:
    """Return whether turns stand before the agent's first."""
    turns = (json_messages(value) if is_text(value) else value) or []
    turns = named_turns(turns) or turns
    return first_agent_turn(turns) > 0


def _nothing(fields: Sequence[_Column]) -> NothingToJudge:
    """Return the kind of what records hold without an answer, and the paths of that."""
    texts = [
        column
        for column in fields
        if column.kind == "text" and not column.says(_AUTHORS)
    ]
    kinds: dict[Kind, list[str]] = {
        "gold": [text.path for text in texts if text.says(_GOLD)],
        "tasks": [task.path for task in fields if task.asks],
        "tokens": [ids.path for ids in fields if ids.kind == "ids"],
    }
    for kind, paths in kinds.items():
        if paths:
            return NothingToJudge(kind, tuple(paths[:3]))
    return NothingToJudge("other", ())
