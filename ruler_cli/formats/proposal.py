"""First values of a file that no format fits → paths that would read it.

Three shapes are proposed: conversations; a task and an answer; a task and a list of answers. Records are the
values, the objects in a list of the one document that the file is, or the members of an object whose keys are
ids. A field whose name, or place, says gold, or names a grader, is never an answer. One that may be either, or whose
name says nothing, is proposed if something beside it shows that an agent wrote it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice, product
from operator import contains, itemgetter
from typing import Any

from ruler_cli.errors import RulerError, UsageError
from ruler_cli.files.values import (
    Names,
    first_at,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
    objects,
    words,
)
from ruler_cli.formats.paths import every
from ruler_cli.formats.reader import detect, read_records
from ruler_cli.messages.content import Messages, first_agent_turn
from ruler_cli.messages.conversations import json_messages, named_turns
from ruler_cli.messages.names import ROLES, words_of
from ruler_cli.settings.models import InputSettings, RecordPaths
from ruler_cli.types import Line

_Values = Sequence[Any]
_MOST, _DEEPEST = 100, 4
"""Records, values of a list and members that are looked at; levels of a record or a document."""
_FIELDS = 1000
"""Fields of a record that are looked at."""
_NOTHING = ("", "[]", "{}", "null")
"""Values that hold no text."""
_NOT_PLAIN = re.compile(r"\[\]|\{\}|\||^$")
"""Characters of a key that no path can name."""
_ABOUT = re.compile(
    r"(ids?|idx|index|(?<!answer_)key|name|type|mode|model|class|count|tokens|hash|sha|md5|path|url|version|date"
    r"|time(stamp)?|(^|[._])ts|_at|status|reason|score|outcome|func|template|[a-z]2[a-z]+)"
    '"?$',
    re.IGNORECASE,
)
"""Ends of paths to metadata of the record, which is neither a task nor an answer."""
_IDS = [
    *map(
        re.compile,
        (
            r"(?i)^[^[]*(task|question|query|problem|case|scenario|item|instance|example|sample|prompt|doc|issue|puzzle)"
            r"s?_?idx?$|^(qid|key)$|^[^[]*\.(qid|id|idx|index|key)$",
            "(?i)^(?!.*(run|rollout|trajectory|trace|span|session|conversation|thread|call|message|turn|step|attempt"
            "|response|completion|generation|request|model|agent|user|customer|client|worker|config|experiment|batch"
            "|template|persona|domain|category|topic|source|dataset|db|database|level|version|checkpoint|provider"
            "|account|author|grader|judge|tool|player|speaker|participant|event|log|entry|record|row|file|commit"
            "|transaction|order|device|team|channel|room|page|image|video|node|edge|parent|job|process|host|server"
            "|app|ticket|product|company|article)s?_?idx?$)"
            "[^[]*(_|(?-i:(?<=[a-z])(?=I)))idx?$",
            r"(?i)^([^[]*[._])?(problem|question|puzzle|case|scenario|instance)(_name)?$",
            "^(id|idx|index)$",
        ),
    )
]
"""Paths of values that answers to one task share: its id, an id that may be its, its name, the number of a row."""
_FLAGS = re.compile(
    r"""[][,'" ]*((True|False|0(\.\d+)?|1(\.0)?)\b[][,'" ]*)+""", re.IGNORECASE
)
"""Values of outcomes, true or false, or from 0 to 1."""
_ANSWERS = words("""
raw final response output completion generation prediction predicted reply rollout trajectory submission attempt
continuation actual transcript samples hypothesis message answer solution
""")
"""Words of fields with an answer, the best first; as those of the next ones."""
_EITHER = frozenset(words("answer solution"))
"""Words of an answer that may be an agent's or the reference."""
_ASKERS = words("user customer client")
_TASKS = words("""
question ques q ask prompt instruction task query problem issue goal request user customer client asked input objective
intent utterance scenario situation statement description claim ticket
""")
_REWARDS = words("reward score rating grade")
_OUTCOMES = words(
    "correct success successful passed resolved solved correctness verified won"
)
_REFERENCES = words(
    "reference ref gold golden gt true truth expected target ideal canonical"
)
_GOLD = (
    *_REFERENCES,
    *words(
        "correct incorrect wrong best oracle human label standard official expert chosen rejected key"
    ),
)
_BOTH = frozenset((*_ANSWERS, *_GOLD))
_STEPS = words("step trajectory history trace turn log event action thought")
"""Words of lists with the stages of one rollout."""
_NO_RECORDS = re.compile(
    r"(^|\.)(checkpoint|config|settings)\.|(^|[._])(conversation|history|dialog(ue)?|exchanges|turns|messages|steps)$"
)
"""Paths of lists in settings, and of those with the stages of one rollout."""
_DATA_SET = words("option choice distractor annotator split level")
"""Words of fields that only a data set has: an answer beside them is gold."""
_NEITHER = (
    *_DATA_SET,
    *words("""
judge judgement judgment grader grading evaluator evaluation critique verdict feedback rubric config metrics tool
critic reviewer error traceback system reasoning explanation usage scores rewards
context passage document retrieved knowledge evidence chunk source hint rationale note comment title tag topic
metadata reflection variant classification parameter property schema criteria criterion correctness accuracy
faithfulness relevance relevancy obs observation initial
"""),
)
"""Words of fields with text of graders and tools, with text that an agent was shown, and with notes on a task."""
_MODELS = words("gpt claude gemini llama qwen mistral deepseek")
_AUTHORS = (*words("model llm agent assistant bot policy generated"), *_MODELS)
_SPOKEN = ("turns", "texts", "text")


@dataclass(eq=False)
class _Column:
    """Values of one kind at a path of records."""

    path: str
    kind: str
    values: list[Any] = field(default_factory=list)

    @property
    def words(self) -> frozenset[str]:
        """The words of its path."""
        return words_of(self.path)

    def has(
        self,
        names: Collection[str],
    ) -> bool:
        """Return whether its path has one of these words."""
        return not self.words.isdisjoint(names)

    @property
    def whole(self) -> str:
        """The path of the answer: its own, or that of an object whose name, unlike its members', says answer."""
        holder, _, name = self.path.rpartition(".")
        # those of several models stand under their names
        is_one = self.kind in ("text", "number") and not holder.endswith("s")
        if is_one and words_of(name).isdisjoint(_BOTH):
            return self.path if words_of(holder).isdisjoint(_BOTH) else holder
        return self.path

    @cached_property
    def prose(self) -> bool:
        """Return whether most texts are more than a word, or are of a script without spaces."""
        wordy = 0
        for value in self.values:
            text = "".join(value) if self.kind == "texts" else str(value)
            wordy += " " in text or not text.isascii()
        return 2 * wordy > len(self.values)

    @cached_property
    def is_flag(self) -> bool:
        """Return whether all values are true or false, or from 0 to 1."""
        return _FLAGS.fullmatch(str(self.values)) is not None

    def holds(self, other: _Column) -> bool:
        """Return whether most texts contain the text of another column, and more."""
        texts = [*map(str, self.values)]
        inside = [str(value).removesuffix(".0") for value in other.values]
        count = sum(map(contains, texts, inside))
        return 2 * count > len(texts) and texts != inside

    @cached_property
    def part(self) -> str:
        """The part of a record that its name says: answer, gold, either, task, or another text; empty for no part."""
        stages = self.kind == "texts" and self.has(_STEPS)
        if stages or self.has(_NEITHER) or _ABOUT.search(self.path):
            return ""
        if self.kind not in _SPOKEN:
            return "gold" if self.has(_REFERENCES) else ""
        named = self.words.intersection(_ANSWERS)
        asks = self.has(_TASKS) and self.prose
        if self.has(_AUTHORS) and self.prose and (named or not asks):
            return "answer"
        if self.has(_GOLD):
            return "gold"
        if asks and self.has(_ASKERS):
            return "task"
        if named & _EITHER and named <= _EITHER | {"final"}:
            return "either"
        if named or self.kind == "turns":
            return "answer"
        return "task" if asks else "text"


_Columns = list[_Column]


def propose(values: _Values) -> RecordPaths | None:
    """Propose paths for the first values of a file: its lines, its items, or the one document that it is.

    None: no field is clearly an answer.
    """
    for path, records in _records(values):
        first = objects([*records[:_MOST]])
        columns = _columns(first)
        row = _row(path, columns)
        # figures may make records unreadable
        plain = row and replace(row, reward="reward", outcome="")
        for tried in filter(None, (row, plain)):
            settings = InputSettings(format=tried)
            lines = [(Line(0, 0, b""), record) for record in first]
            with suppress(RulerError):
                reader = detect("", lines, settings)
                for record in read_records(reader, lines):
                    if None in [rollout.error for rollout in record.rollouts]:
                        return tried
        if len(values) > 1 and any(column.part == "task" for column in columns):
            # the items in a record with a task are parts of it
            break
    return None


def reference_fields(
    values: _Values,
    judged: Sequence[Set[str]],
) -> list[str]:
    """Return the paths of fields that may hold a reference answer, by their names; the likeliest first.

    `judged` are the texts in the rollouts of each value: a field that always holds one of them is none.
    """
    fields = []
    for column in _columns(values):
        path = column.whole
        named = column.has((*_REFERENCES, *_EITHER)) and "[]" not in path
        if column.part not in ("gold", "either") or column.is_flag or not named:
            continue
        references = [str(lookup(value, path)) for value in values]
        if not all(map(contains, judged, references)):
            # an `answer` may be an agent's or the reference
            fields.append((column.part == "either", path))
    fields.sort(key=itemgetter(0))
    return [*dict.fromkeys(path for _, path in fields)]


def refuse_tasks(
    name: str,
    values: _Values,
    path: str,
) -> None:
    """Raise UsageError if a list at a path of the user's holds rollouts of several tasks: it is not a group."""
    holder, _, _ = path.partition("[]")
    lists = [items(lookup(value, holder)) for value in values]
    row = _row("", _columns([*chain(*lists)][:_MOST]))
    if row is None:
        return
    option = "--prompt" if row.prompt else "--group-by"
    for task, rollouts in product(row.prompt or row.group_by, lists):
        tasks = {str(lookup(rollout, task)) for rollout in rollouts}
        if len(tasks) > 1 and not words_of(task).isdisjoint(_TASKS):
            raise UsageError(
                "is a list of rollouts of several tasks, and not one group",
                f"use --set records={holder}[], --messages {row.messages[0]} and {option} {task}",
                place=f"{name}: --messages {path}",
            )


def _records(values: _Values) -> Iterator[tuple[str, _Values]]:
    """Yield what may be the records of a file, with the path that leads there; nearest first."""
    queue = [("", [*values])]
    for path, column in queue:
        inside = [*chain(*map(items, column))]
        stages = _NO_RECORDS.search(path)
        if inside and objects(inside) == inside and not stages:
            yield f"{path}[]", inside
        holders = objects(column)
        for holder in holders[:1]:
            members = [*holder.values()]
            by_id = len(column) == 1 and objects(members) == members
            if len(members) == 1 and by_id:
                # only one of them holds its id
                by_id = next(iter(holder)) in members[0].values()
            if by_id and members and set.intersection(*map(set, members)):
                # because they have a key in common
                entries = every(holder, "{}")
                yield f"{path}{{}}", [entry for _, entry in entries]
            elif not path:
                yield "", values
            for key in islice(holder, _MOST):
                below = [value.get(key) for value in holders]
                queue.append((_below(path, key), below))
        del queue[_MOST:]


def _below(path: str, key: str) -> str:
    step = f'"{key}"' if "." in key else key
    return f"{path}.{step}" if path else step


def _columns(records: _Values) -> _Columns:
    """Return the fields that half of the records have: a field that most records lack says nothing about them."""
    columns: dict[tuple[str, str], _Column] = {}
    for record in records:
        for path, kind, value in islice(_fields(record), _FIELDS):
            column = columns.setdefault((path, kind), _Column(path, kind))
            column.values.append(value)
    usual = []
    for column in columns.values():
        empty = [lookup(record, column.path) for record in records].count([])
        if 2 * (len(column.values) + empty) >= len(records):
            usual.append(column)
        if column.kind == "text" and column.is_flag:
            # as a table has them
            column.kind = "number"
    # those that are not deep come first
    return sorted(usual, key=lambda column: column.path.count("."))


def _fields(
    value: Any,
    path: str = "",
    depth: int = 0,
) -> Iterator[tuple[str, str, Any]]:
    """Yield path, kind and value of the fields of a record, also inside objects.

    The objects in a list have columns: the values of one kind that they have under a key. Of conversations each of
    which goes on with the one before, the last is the rollout.
    """
    kind = _kind(value)
    if not words_of(path).isdisjoint(_ANSWERS) and _turns(value, calls=True):
        # calls without results may be gold, but by their name
        kind = "turns"
    if kind and path:
        yield path, kind, value
    elif value and objects(value) == value:
        for key in value[0]:
            column = [row.get(key) for row in value]
            kind = _kind(column)
            # turns are pieces of one conversation
            if kind not in ("", "turns") and not _NOT_PLAIN.search(key):
                yield _below(f"{path}[]", key), kind, column
    elif len(items(value)) > 1 and all(map(is_list, value)):
        begin, *_, last = value
        if begin == last[: len(begin)]:
            yield from _fields(last, f"{path}.-1", depth + 1)
    elif is_object(value) and depth < _DEEPEST:
        for key, member in islice(value.items(), _MOST):
            if not _NOT_PLAIN.search(key):
                yield from _fields(member, _below(path, key), depth + 1)


def _kind(value: Any) -> str:
    """Return the kind of a value; empty for one with others inside, and for nothing."""
    if _turns(value):
        return "turns"
    if is_text(value):
        return "" if value.strip() in _NOTHING else "text"
    if isinstance(value, int | float):
        return "number"
    kinds = {type(item) for item in items(value)[:_MOST]}
    if kinds == {str}:
        return "texts" if any(map(str.strip, value)) else ""
    return "numbers" if kinds and kinds <= {int, bool, float} else ""


def _turns(
    value: Any,
    *,
    calls: bool = False,
) -> Messages:
    """Return the turns of a conversation in which an agent speaks, also in JSON text; [] for any other value."""
    if is_text(value):
        value = json_messages(value)
    turns = named_turns(items(value), calls=calls) or items(value)
    # a list of questions with their answers is not a conversation
    rows = first_at(value, "0.question", "0.expectedOutput") is not None
    if rows or not all(map(is_object, turns)):
        return []
    roles = []
    for turn in turns[:_MOST]:
        # one with a type alone is a call, or its result
        if "role" in turn or "type" not in turn:
            roles.append(ROLES.get(str(turn.get("role")).lower()))
    return turns if "assistant" in roles and None not in roles else []


def _row(
    path: str,
    columns: _Columns,
) -> RecordPaths | None:
    """Return the row of the first shape that fits: its answers, and the task, reward and outcome beside."""
    asked = [column for column in columns if column.part == "task"]
    # a prompt may hold the question
    wide = [column for column in asked if any(map(column.holds, asked))]
    task = _best_path(wide or asked, "text", _TASKS)
    key = "" if task else _key(columns)
    written = _written(columns)
    if not task:
        written = [column for column in written if _is_alone(column, key)]
    if not written:
        return None
    best, *others = sorted(written, key=_rank)
    messages = {best.whole: None}
    named = best.words.intersection(_ANSWERS)
    for column in others:
        # outputs of several models stand in fields that differ by a model's name alone
        models = best.has(_MODELS) and column.has(_MODELS)
        alike = column.words.intersection(_ANSWERS) == named
        if alike and (named or models) and column.kind == best.kind == "text":
            if not column.path.startswith(task.rpartition(".")[0]):
                # each has a task of its own
                return None
            messages[column.whole] = None
    prompt: Names = ()
    if any(first_agent_turn(_turns(value)) for value in best.values):
        # turns of another speaker come first
        key = ""
    elif task:
        prompt = (task,)
    figures = "numbers" if best.kind == "texts" else "number"
    if len(messages) > 1:
        # fields beside one answer do not belong to the others
        figures = ""
    # the path of the whole is shorter than those of its parts
    short = sorted(columns, key=lambda column: len(column.path))
    flags = [column for column in columns if column.is_flag]
    return RecordPaths(
        records=path,
        messages=tuple(messages),
        prompt=prompt,
        group_by=(key,) if key else (),
        reward=_best_path(short, figures, _REWARDS) or "reward",
        outcome=_best_path(flags, figures, _OUTCOMES),
    )


def _key(columns: _Columns) -> str:
    """Return the path of the id of the task, or of its short name; empty if there is none."""
    for pattern, column in product(_IDS, columns):
        several = len({*map(str, column.values)}) > 1
        if pattern.search(column.path) and (several or len(column.values) == 1):
            return column.path
    return ""


def _is_alone(column: _Column, key: str) -> bool:
    """Return whether answers need no task: turns hold it, and an id may stand for that of texts."""
    if column.kind == "turns":
        return True
    # any other id, or the number of a row, may belong to anything
    named = column.part == "answer" or column.kind == "texts"
    alone = (named or _IDS[0].search(key)) and "[]" not in column.path
    return bool(key and alone)


def _written(columns: _Columns) -> _Columns:
    """Return the fields that hold answers: those whose names say so, or one that something beside it shows as such."""
    parts = defaultdict[str, _Columns](list)
    named = set[str]()
    graded = stages = False
    for column in columns:
        parts[column.part].append(column)
        named |= column.words
        graded |= column.is_flag and column.has(_OUTCOMES)
        stages |= "[]" in column.path and column.has(_STEPS)
    answers = parts["answer"]
    if any(column.kind == "texts" for column in parts["task"]):
        # lists of texts beside those of tasks are the stages of one rollout
        return [column for column in answers if column.kind != "texts"]
    if answers or not named.isdisjoint(_DATA_SET):
        return answers
    either = parts["either"]
    graded |= "context" in named
    if either and (parts["gold"] or graded):
        return either
    texts = [column for column in either + parts["text"] if column.prose]
    heads = {column.path.partition("[]")[0] for column in texts}
    if stages or len(heads) != 1 or (parts["gold"] and not graded):
        return []
    text, *more = texts
    if more:
        # a list of objects that holds all texts
        return [replace(text, path=heads.pop())]
    # a list of texts may be anything, unless there is a figure for each
    figures = any(column.kind == "numbers" for column in columns)
    return texts if figures or text.kind == "text" else []


def _best_path(
    columns: _Columns,
    kind: str,
    names: Names,
) -> str:
    """Return the path of the best column of a kind that has one of these words; empty if there is none."""
    for name in names:
        for column in columns:
            if column.kind == kind and name in column.words:
                return column.path
    return ""


def _rank(column: _Column) -> tuple[int, bool, int]:
    """Return the place of an answer: by its kind, prose before a word, and then by its first word."""
    places = map(_ANSWERS.index, column.words.intersection(_ANSWERS))
    place = min(places, default=len(_ANSWERS))
    return _SPOKEN.index(column.kind), not column.prose, place
