"""The format of a dump that no module knows, from the path of its messages.

The path of a reward → the same format with its reward there, if a score there overwrites nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.files.splice import Patches, nested, read_object, span_at
from ruler_cli.formats import turns
from ruler_cli.formats.fields import items, lookup
from ruler_cli.formats.interface import (
    ID_KEYS,
    ArtLayout,
    Format,
    ListLayout,
    RecordLayout,
)
from ruler_cli.formats.parallel import column, parallel_lists, path_of
from ruler_cli.formats.reader import Reader
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
    values = [
        value
        for value in (lookup(record, path) for record in records)
        if value is not None
    ]
    if not values:
        return None
    parts = [
        part
        for value in values
        for part in (value if isinstance(value, list) else [value])
    ]
    several = bool(items(values[0])) and _is_rollout(values[0][0])
    read = partial(_read_rollout, whole=turns.all_conversations(parts), alone=alone)

    def lists(record: Mapping[str, Any], size: int) -> list[Path]:
        paths = (path_of(record, path), ("rewards",))
        return parallel_lists(record, size, paths, (*_PROMPTS, "tools"))

    return Format(
        f"messages at `{path}`", "custom", f"`{path}`", lambda record: lookup(record, path) is not None,
        partial(_read_several if several else _read_single, path, read), ID_KEYS,
        ListLayout(("rewards",), lists=lists) if several else RecordLayout(lists=lists),
        shape="group" if several else "trajectory",
    )  # fmt: skip


def _is_rollout(item: Any) -> bool:
    """Tell if an item of a list is a rollout: a conversation, a text, or an API's choice, but no message."""
    choice = (
        isinstance(item, dict)
        and not {"role", "type", "from"} & item.keys()
        and turns.is_answer(item)
    )
    return choice or isinstance(item, list | str)


def _read_single(
    path: str, read: Callable[..., Rollout], record: dict[str, Any]
) -> list[Rollout]:
    value = lookup(record, path)
    if value is None:
        raise UnreadableError(f"has nothing at `{path}`")
    return [replace(read(record, value, path), reward=record.get("reward"))]


def _read_several(
    path: str, read: Callable[..., Rollout], record: dict[str, Any]
) -> list[Rollout]:
    values = lookup(record, path)
    if not isinstance(values, list):
        raise UnreadableError(f"has no list at `{path}`")
    rewards = column(record, "rewards", len(values))
    return [
        turns.read_or_error(
            partial(read, record, item, f"{path}[{i}]"), (i,), reward=rewards[i]
        )
        for i, item in enumerate(values)
    ]


def _read_rollout(
    record: dict[str, Any], value: Any, where: str, *, whole: bool, alone: bool
) -> Rollout:
    if isinstance(value, list) or (whole and isinstance(value, str)):
        messages = given = turns.chat_turns(value, where)
        beside = lookup(record, where.rpartition(".")[0])
        if isinstance(beside, dict):
            messages = turns.with_answer(beside, messages)
        ended = turns.with_answer(record, messages)
        return Rollout(ended, prompt_length=turns.prompt_size(given, ended))
    prompt = (
        None if alone else next((record[k] for k in _PROMPTS if record.get(k)), None)
    )
    answer = turns.find_answer(value, where)
    if answer is None:
        raise UnreadableError(f"`{where}` is no list of messages and no answer")
    return turns.make_rollout(turns.prompt_turns(prompt, "prompt"), answer)


_TRIED = 5
"""Number of records in which a score is tried before any is written."""


def with_reward(
    name: str,
    dotted: str,
    reader: Reader,
    records: Sequence[tuple[Line, Mapping[str, Any]]],
) -> Format:
    """Return the reader's format with its reward at a path; UsageError if a score there overwrites others."""
    form = reader.format
    art = form.layout if isinstance(form.layout, ArtLayout) else None
    if art and art.payload is not None:
        problem = f"{form.name} keep the reward in two places"
        raise UsageError(problem, "leave it out", option="reward", place=name)
    wrong = partial(UsageError, option="reward", value=dotted, place=name)
    own = any(
        dotted in record for _, record in records
    )  # a key that holds the dots itself
    parts = [dotted] if own else dotted.split(".")
    path: Path = tuple(
        int(p) if p.isdecimal() and len(p) < 10 and not own else p for p in parts
    )
    advice = "name a field of its own"
    if "" in path and not own:
        raise wrong("a part of the path is empty", advice)
    if "-1" in path and not own:
        problem = "-1 is the last item of a list, and a score needs a place that stays"
        raise wrong(problem, "give the number of the item")
    ours: list[Path] = [("ruler",), form.layout.ruler]
    if art:
        ours += [
            ("logs",),
            ("metrics", "ruler_score"),
            ("metrics", "independent_reward"),
        ]
    if any(path[: len(other)] == other[: len(path)] for other in ours):
        raise wrong("is where ruler itself writes", advice)
    if any(_changes(path, reader, line) for line, _ in records[:_TRIED]):
        raise wrong(
            "a score there would take the place of messages, tools or the group key",
            advice,
        )
    layout = replace(form.layout, reward=path, source=None, form=b"%s", lost=b"null")
    return replace(
        form,
        layout=replace(layout, absent=None)
        if isinstance(layout, ArtLayout)
        else layout,
    )


def _changes(path: Path, reader: Reader, line: Line) -> bool:
    """Tell if a score at a path changes what the judge sees of a record, or its group key."""
    try:
        before = reader.read(line)
    except UnreadableError:
        return False  # reported when it is read
    try:
        after = reader.read(
            replace(line, raw=_with_scores(path, reader.format, before))
        )
        return _compared(after) != _compared(before)
    except UnreadableError:
        return True
    except RecursionError:  # too deep to compare; other records tell
        return False


def _compared(records: Sequence[Record]) -> list[Any]:
    """Return all that the judge sees of records, and their group keys."""
    fields: list[Any] = [
        (record.key, record.rubric, record.tools) for record in records
    ]
    rollouts = [rollout for record in records for rollout in record.rollouts]
    return fields + [
        (r.messages, r.histories, r.tools, r.error, r.member) for r in rollouts
    ]


def _with_scores(path: Path, form: Format, records: Sequence[Record]) -> bytes:
    """Return the bytes of a record with a number at a path of each of its rollouts."""
    raw, rollouts = (
        records[0].line.raw,
        [rollout for record in records for rollout in record.rollouts],
    )
    patches = Patches(raw)
    if form.layout.listed:
        patches.put(
            read_object(raw),
            nested(path, b"[" + b", ".join([b"0.5"] * len(rollouts)) + b"]"),
        )
        return patches.apply()
    for rollout in rollouts:
        span = span_at(raw, rollout.path)
        if span and raw[span[0]] == ord("{"):
            patches.put(read_object(raw, span[0]), nested(path, b"0.5"))
    return patches.apply()
