"""A home-made dump that no module knows: its messages stand where `--messages PATH` says.

`--reward PATH` → a format whose reward stands there: a place of its own, which a score may take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError, UsageError
from ruler_cli.formats.interface import ID_KEYS, Format, Layout, items, lookup
from ruler_cli.formats.parallel import known, path_of
from ruler_cli.formats.reader import Reader
from ruler_cli.formats.turns import (
    chat_turns,
    column,
    is_answer,
    json_messages,
    or_fault,
    prompt_size,
    prompt_turns,
    reply_turns,
    rollout,
    with_answer,
)
from ruler_cli.types import Line, Path, Record, Rollout
from ruler_cli.writing.splice import NewMembers, Patches, read_object, span_at

_PROMPTS = ("prompt", "input", "question")


def named(path: str, records: Sequence[dict[str, Any]], *, alone: bool = False) -> Format | None:
    """The format of a dump whose messages stand at a dotted path; None where no record has it.

    A list of messages, or an answer (a text, a message, a choice): a rollout a record. A list of such
    lists or answers: a group a record. The prompt of an answer is the record's `prompt`, `input` or
    `question`; with `alone` it has none, as the user says where it stands. Where all texts of the first
    records are JSON of messages, texts are conversations: one alone is what an agent wrote.
    """
    values = [value for value in (lookup(record, path) for record in records) if value is not None]
    if not values:
        return None
    texts = [item for value in values for item in (value if isinstance(value, list) else [value])]
    texts = [text for text in texts if isinstance(text, str)]
    whole = bool(texts) and all(map(json_messages, texts))
    several = bool(items(values[0])) and _is_one(values[0][0])
    read = partial(_rollout, whole=whole, alone=alone)
    return Format(
        name=f"messages at `{path}`",
        family="custom",
        shape="group" if several else "trajectory",
        tells=f"`{path}`",
        matches=lambda record: lookup(record, path) is not None,
        rollouts=partial(_several if several else _one, path, read),
        keys=ID_KEYS,
        layout=Layout(
            reward=("rewards",) if several else ("reward",),
            listed=several,
            lists=lambda record, size: known(
                record, size, (path_of(record, path), ("rewards",)), (*_PROMPTS, "tools")
            ),
        ),
    )


def _is_one(item: Any) -> bool:
    """Tell if an item of a list is a rollout: a conversation, a text, or an API's choice, but no message."""
    choice = isinstance(item, dict) and not {"role", "type", "from"} & item.keys() and is_answer(item)
    return choice or isinstance(item, list | str)


def _one(path: str, read: Callable[..., Rollout], record: dict[str, Any]) -> list[Rollout]:
    found = lookup(record, path)
    if found is None:
        raise UnreadableError(f"has nothing at `{path}`")
    return [read(record, found, path, reward=record.get("reward"))]


def _several(path: str, read: Callable[..., Rollout], record: dict[str, Any]) -> list[Rollout]:
    found = lookup(record, path)
    if not isinstance(found, list):
        raise UnreadableError(f"has no list at `{path}`")
    rewards = column(record, "rewards", len(found))
    out = []
    for i, item in enumerate(found):
        one = partial(read, record, item, f"{path}[{i}]", path=(i,), reward=rewards[i])
        out.append(or_fault(one, (i,), reward=rewards[i]))
    return out


def _rollout(
    record: dict[str, Any], value: Any, where: str, *, whole: bool, alone: bool, **fields: Any
) -> Rollout:
    if isinstance(value, list) or (whole and isinstance(value, str)):
        messages = given = chat_turns(value, where)
        beside = lookup(record, where.rpartition(".")[0])
        if isinstance(beside, dict):
            messages = with_answer(beside, messages)
        ended = with_answer(record, messages)
        return Rollout(ended, prompt_length=prompt_size(given, ended), **fields)
    asked = None if alone else next((record[k] for k in _PROMPTS if record.get(k)), None)
    said = reply_turns(value, where)
    if said is None:
        raise UnreadableError(f"`{where}` is no list of messages and no answer")
    return rollout(prompt_turns(asked, "prompt"), said, **fields)


_TRIED = 5
"""Records in which a score is tried before any is written."""


def with_reward(
    name: str, dotted: str, found: Reader, records: Sequence[tuple[Line, Mapping[str, Any]]]
) -> Format:
    """The format that was found, its reward at a path; UsageError where that is a place of something else."""
    form = found.format
    if form.layout.payload is not None:
        raise UsageError(f"{name}: --reward: {form.name} keep the reward in two places; leave it out")
    own = any(dotted in record for _, record in records)  # a key that holds the dots itself
    path: Path = (dotted,) if own else tuple(map(_part, dotted.split(".")))
    way = "name a field of its own"
    if "" in path and not own:
        raise UsageError(f"{name}: --reward {dotted!r}: a part of the path is empty; {way}")
    if "-1" in path and not own:
        raise UsageError(
            f"{name}: --reward {dotted}: -1 is the last item of a list, and a score needs a place that "
            "stays; give the number of the item"
        )
    if _is_ours(path, form):
        raise UsageError(f"{name}: --reward {dotted}: is where ruler itself writes; {way}")
    if any(_spoils(path, found, line) for line, _ in records[:_TRIED]):
        raise UsageError(
            f"{name}: --reward {dotted}: a score there would take the place of messages, tools or the group "
            f"key; {way}"
        )
    layout = replace(form.layout, reward=path, source=None, form=b"%s", lost=b"null", absent=None)
    return replace(form, layout=layout)


def _part(text: str) -> str | int:
    return int(text) if text.isdecimal() and len(text) < 10 else text


def _is_ours(path: Path, form: Format) -> bool:
    """Whether a path leads to, into or around what ruler writes beside the reward."""
    places: list[Path] = [("ruler",), form.layout.ruler]
    if form.layout.extras:
        places += [("logs",), ("metrics", "ruler_score"), ("metrics", "independent_reward")]
    return any(path[: len(place)] == place[: len(path)] for place in places)


def _spoils(path: Path, found: Reader, line: Line) -> bool:
    """Whether a record with a score at a path reads as another one."""
    try:
        before = found.read(line)
    except UnreadableError:
        return False  # it is told when it is read
    try:
        return _seen(found.read(replace(line, raw=_scored(path, found.format, before)))) != _seen(before)
    except UnreadableError:
        return True
    except RecursionError:  # too deep to be compared; the others tell
        return False


def _seen(records: Sequence[Record]) -> list[Any]:
    """What of records the judge sees, and what groups them."""
    seen: list[Any] = [(record.key, record.rubric, record.tools) for record in records]
    rollouts = [rollout for record in records for rollout in record.rollouts]
    return seen + [(r.messages, r.histories, r.tools, r.error, r.member) for r in rollouts]


def _scored(path: Path, form: Format, records: Sequence[Record]) -> bytes:
    """The bytes of a record with a number at a path of each of its rollouts."""
    raw, rollouts = records[0].line.raw, [rollout for record in records for rollout in record.rollouts]
    patches = Patches(raw)
    if form.layout.listed:
        patches.put(read_object(raw), tree(path, b"[" + b", ".join([b"0.5"] * len(rollouts)) + b"]"))
        return patches.apply()
    for one in rollouts:
        span = span_at(raw, one.path)
        if span and raw[span[0]] == ord("{"):
            patches.put(read_object(raw, span[0]), tree(path, b"0.5"))
    return patches.apply()


def tree(path: Path, value: bytes | None) -> NewMembers:
    """A value at a path below an object, as `Patches.put` takes it; None: no value there."""
    found: NewMembers = {str(path[-1]): value}
    for part in reversed(path[:-1]):
        found = {str(part): found}
    return found
