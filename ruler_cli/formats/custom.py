"""The user's own paths: the format of a dump with its messages at a path, and a format with its reward at one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.annotate import ORIGINAL, annotate
from ruler_cli.formats.chat import (
    all_conversations,
    chat_turns,
    find_answer,
    is_answer,
    make_rollout,
    prompt_size,
    prompt_turns,
    read_or_error,
    with_answer,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Rollouts,
    first,
    first_of,
    is_list,
    is_object,
    is_text,
    items,
    lookup,
)
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.table import (
    ID_KEYS,
    Format,
    RecordLayout,
)
from ruler_cli.types import Line, Path, Record, Rollout

_PROMPTS = ("prompt", "input", "question")


def custom_format(
    path: str, records: Sequence[dict[str, Any]], *, alone: bool = False
) -> Format | None:
    """Return the format of a dump with its messages at a dotted path; None if no record has that path.

    If the value is a list of messages or an answer (a text, a message, a choice), each record is a rollout;
    if it is a list of those, each record is a group. The prompt of an answer is the record's `prompt`,
    `input` or `question`; with `alone` it has none, because the user names its path. If all texts of the
    first records are JSON of messages, texts are conversations; else they are answers.
    """
    values = [v for v in (lookup(record, path) for record in records) if v is not None]
    if not values:
        return None
    parts = [part for v in values for part in (v if is_list(v) else [v])]
    whole, item = all_conversations(parts), first(items(values[0]))
    # an item is a rollout if it is a conversation, a text, or an API's choice, but no message
    choice = is_object(item) and not {"role", "type", "from"} & item.keys()
    several = is_list(item) or is_text(item) or (choice and is_answer(item))

    def read_one(record: JsonObject, value: Any, where: str) -> Rollout:
        if is_list(value) or (whole and is_text(value)):
            messages = given = chat_turns(value, where)
            beside = lookup(record, where.rpartition(".")[0])
            if is_object(beside):
                messages = with_answer(beside, messages)
            ended = with_answer(record, messages)
            return Rollout(ended, prompt_length=prompt_size(given, ended))
        prompt = None if alone else first_of(record, _PROMPTS)
        answer = find_answer(value, where)
        if answer is None:
            raise UnreadableError(f"`{where}` is no list of messages and no answer")
        return make_rollout(prompt_turns(prompt, "prompt"), answer)

    def read(record: JsonObject) -> Rollout | Rollouts:
        value = lookup(record, path)
        if value is None or (several and not is_list(value)):
            raise UnreadableError(f"has {'no list' if several else 'nothing'} at `{path}`")  # fmt: skip
        if not several:
            return read_one(record, value, path)
        return [
            read_or_error(partial(read_one, record, item, f"{path}[{i}]"), (i,))
            for i, item in enumerate(value)
        ]

    reward = ("rewards",) if several else ("reward",)
    layout = RecordLayout(
        reward, listed=several, lists=(path, "rewards"), apart=(*_PROMPTS, "tools")
    )
    return Format(
        f"messages at `{path}`",
        "custom",
        "",
        read,
        ID_KEYS,
        layout,
        "group" if several else "trajectory",
        lambda record: lookup(record, path) is not None,
        f"`{path}`",
    )


_TRIED = 5
"""Number of records in which a score is tried before any is written."""


def with_reward(
    name: str,
    dotted: str,
    reader: Reader,
    records: Sequence[tuple[Line, JsonObject]],
) -> Format:
    """Return the reader's format with its reward at a path; UsageError if a score there overwrites others."""
    form, layout = reader.format, reader.format.layout
    wrong = partial(UsageError, option="reward", value=dotted, place=name)
    parts = dotted.split(".")
    if any(dotted in record for _, record in records):
        path: Path = (dotted,)  # a key that holds the dots itself
    elif "" in parts or "-1" in parts:
        raise wrong("is no place that stays", "give keys, and the numbers of items")
    else:
        numbers = (part.isdecimal() and len(part) < 10 for part in parts)
        both = zip(parts, numbers, strict=True)
        path = tuple(int(part) if number else part for part, number in both)
    ours: list[Path] = [("ruler",), layout.ruler]
    if layout.payload is not None:
        raise wrong(f"{form.name} keep the reward in two places", "leave it out")
    if layout.extras:
        ours += [("logs",), ("metrics", "ruler_score"), ("metrics", ORIGINAL)]
    moved = replace(layout, reward=path, elsewhere=False, absent=None)
    rewarded = replace(form, layout=replace(moved, form=b"%s", lost=b"null"))
    taken = any(path[: len(other)] == other[: len(path)] for other in ours)
    if taken or any(_changes(rewarded, reader, line) for line, _ in records[:_TRIED]):
        problem = "a score there would replace what is read, or what ruler writes"
        raise wrong(problem, "name a field of its own")
    return rewarded


def _changes(rewarded: Format, reader: Reader, line: Line) -> bool:
    """Tell if a score at its new place changes what the judge sees of a record, or its group key."""
    try:
        before = reader.read(line)
    except UnreadableError:
        return False  # reported when it is read
    rollouts = [rollout for record in before for rollout in record.rollouts]
    scored = [(rollout, _SCORED) for rollout in rollouts]
    try:
        raw = annotate(line.raw, rewarded, scored, _SCORED, "null")
        return _compared(reader.read(replace(line, raw=raw))) != _compared(before)
    except UnreadableError:
        return True
    except RecursionError:  # too deep to compare; other records tell
        return False


_SCORED = {"status": "scored", "score": 0.5}
"""An annotation to try."""


def _compared(records: Sequence[Record]) -> list[Any]:
    """Return all that the judge sees of records, and their group keys."""
    whole: list[Any] = [(one.key, one.rubric, one.tools) for one in records]
    return whole + [
        (r.messages, r.histories, r.tools, r.error, r.member)
        for record in records
        for r in record.rollouts
    ]
