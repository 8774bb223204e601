"""Records whose parts stand at the paths of a row: ruler's own, a user's, or those of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import dump
from ruler_cli.files.values import (
    JsonObject,
    first,
    is_list,
    is_object,
    is_text,
    items,
    json_value,
    lookup,
    objects,
    parts,
)
from ruler_cli.formats.chat import (
    answer_turns,
    find_answer,
    is_answer,
    make_rollout,
    prompt_field,
    read_conversation,
    read_or_error,
    task_turns,
    tools_of,
    with_calls,
    with_task,
)
from ruler_cli.formats.format import OWN, UNFIT, Format
from ruler_cli.formats.keys import ID_KEYS
from ruler_cli.formats.native import read_single, read_trajectory
from ruler_cli.formats.paths import (
    LISTS,
    Places,
    Rollouts,
    alternatives,
    every,
    first_list,
    item_at,
    present,
)
from ruler_cli.messages.conversations import (
    all_conversations,
    chat_turns,
    named_turns,
    prompt_turns,
)
from ruler_cli.settings.extensions import guarded, load
from ruler_cli.settings.fields import paths
from ruler_cli.settings.models import ReadRecord, RecordPaths
from ruler_cli.types import Rollout


def read_row(
    form: Format,
    record: JsonObject,
) -> Rollout | Rollouts:
    """Read the rollouts of a record, or its only one."""
    if form.shape == "trajectory" and not form.listed:
        # its messages, or else its answer
        fields = (*paths(form.messages)[:1], *paths(form.answers)[:1])
        path = present(record, "|".join(fields))
        return _rollout(
            form,
            record,
            path,
            lookup(record, path),
        )
    sources = [*_sources(form, record)]
    head = first_list(present(record, _paths(form)[0]))
    if not sources and not is_list(lookup(record, head)):
        raise UnreadableError(f"has no list `{head}`{form.cause}")
    holder = () if form.listed else tuple(map(str, parts(head)))
    read = partial(_rollout, form, record)
    rollouts = []
    for i, (path, places, value) in enumerate(sources):
        rollout = read_or_error(
            (*holder, i), read, path, value, places, places=places
        )
        rollouts.append(rollout)
    return rollouts


def _paths(form: RecordPaths) -> Sequence[str]:
    listed: Sequence[str] = paths(form.messages or form.answers)
    return listed


def _sources(
    form: RecordPaths, record: JsonObject
) -> Iterator[tuple[str, Places, Any]]:
    """Yield the path, the places and the value of each rollout; one of several fields has its number first."""
    listed = _paths(form)
    for i, path in enumerate(listed):
        here = present(record, path)
        column: Places = (("", i),) if len(listed) > 1 else ()
        for inner, value in every(record, here):
            yield here, (*column, *inner), value


def _rollout(
    form: Format,
    record: JsonObject,
    path: str,
    value: Any,
    places: Places = (),
) -> Rollout:
    """Read one rollout."""
    is_named = form.rank == OWN
    listed = [value] if is_object(value) else items(value)
    is_known = any(map(is_answer, listed)) or objects(listed) != listed
    is_unknown = is_named and bool(listed) and not is_known
    if is_unknown and named_turns(listed, calls=True) is None:
        # objects of no known shape are shown as JSON
        value = dump(value).decode("utf-8", "replace")
    may_be_turns = is_list(value) or (form.as_json and is_text(value))
    is_answer_path = path in alternatives(paths(form.answers))
    if not is_answer_path and (may_be_turns or not is_named):
        rollout = _conversation(
            form,
            record,
            path,
            value,
        )
    elif is_named:
        rollout = _answer(
            form,
            record,
            path,
            value,
        )
    else:
        prompt = []
        for names in paths(form.prompt):
            part = item_at(record, names, places)
            prompt += prompt_turns(part, present(record, names))
        rollout = make_rollout(prompt, answer_turns(value, path))
    member = item_at(record, form.member)
    return replace(
        rollout,
        tools=tools_of(record) if is_named else None,
        outcome=not places[0][1] if form.first_wins else None,
        member=member if is_text(member) else None,
        places=places,
    )


def _answer(
    form: Format,
    record: JsonObject,
    path: str,
    value: Any,
) -> Rollout:
    """Read a rollout that is an answer at a path which the user named."""
    answer = find_answer(value, path)
    if answer is None:
        what = "no list of messages and no answer" if value else "empty"
        raise UnreadableError(f"`{path}` is {what}")
    prompt = []
    if not form.prompt:
        # the key of a group is not a task, whatever its name
        unkeyed = dict(record)
        for key in form.key_paths:
            unkeyed.pop(key, None)
        name = prompt_field(unkeyed)
        if name and name != path:
            prompt = task_turns(record, name)
    if form.shape == "trajectory":
        answer = with_calls(_holder(record, path), answer)
    return make_rollout(prompt, answer)


def _conversation(
    form: Format,
    record: JsonObject,
    path: str,
    value: Any,
) -> Rollout:
    if not value:
        raise UnreadableError(f"has no messages in `{path}`{form.cause}")
    listed = items(json_value(value))
    several = any(listed) and all(map(is_list, listed))
    *earlier, value = filter(None, listed) if several else [value]
    histories = tuple(chat_turns(part, path) for part in earlier)
    turns = chat_turns(value, path)
    if turns is not value and not form.prompt:
        turns = with_task(record, turns)
    return read_conversation(_holder(record, path), turns, histories=histories)


def _holder(
    record: JsonObject,
    path: str,
) -> JsonObject:
    """Return the fields beside a path, and those of the record."""
    beside = lookup(record, path.rpartition(".")[0])
    return {**record, **beside} if is_object(beside) else record


def row_format(
    name: str,
    row: RecordPaths,
    records: Sequence[JsonObject],
) -> Format:
    """Return the format of a user's row, adapted to the first records.

    A list of conversations or answers at its path makes each record a group. If all texts there are JSON of
    messages, texts are conversations; else they are answers.
    """
    listed_paths = [*_paths(row)]
    values = []
    pieces = []
    for record in records:
        for *_, value in _sources(row, record):
            if value is not None:
                values.append(value)
                pieces += items(value) or [value]
    # an item is a rollout if it is a conversation, a text, or an API's choice, but no message
    listed_first = items(first(values))
    item = first(listed_first)
    is_rollout = is_list(item) or is_text(item)
    if is_object(item) and not {"role", "type", "from"} & item.keys():
        is_rollout = is_answer(item) and named_turns(listed_first) is None
    single = len(listed_paths) == 1
    if single and is_rollout:
        listed_paths = [f"{listed_paths[0]}[]"]
    several = not single or LISTS.search(listed_paths[0]) is not None
    holder, _, rest = listed_paths[0].partition("[].")
    # a rollout is an object of its own if it is in a list of the record, else an item of lists
    nested = "." in holder or LISTS.search(holder + rest)
    listed = several and not (single and rest and not nested)
    # a path with `[]` is read; a score has one place
    reward = row.reward if listed else row.reward.removeprefix(f"{holder}[].")
    if reward == "reward" or LISTS.search(reward):
        reward = "rewards" if listed else "reward"
    columns = asdict(row) | {
        "messages" if row.messages else "answers": tuple(listed_paths),
        "reward": reward,
        "group_by": row.group_by or (ID_KEYS,),
    }
    return Format(
        name,
        "custom",
        **columns,
        rank=OWN,
        shape="group" if several else "trajectory",
        test=lambda record: any(
            value is not None for *_, value in _sources(row, record)
        ),
        shown=", ".join(f"`{path}`" for path in listed_paths),
        as_json=all_conversations(pieces),
        listed=listed,
    )


def extension_format(
    point: Any,
    records: Sequence[JsonObject],
) -> Format:
    """Return the format of an entry point: an object with `read`, and others of its members or not."""
    extension = load(point)
    read = guarded(point.name, extension.read)
    form = program_format(read, records)
    return replace(
        form,
        name=point.name,
        family=point.name,
        rank=1,
        group_by=(getattr(extension, "group_by", ID_KEYS),),
        reward=getattr(extension, "reward", form.reward),
        test=guarded(point.name, getattr(extension, "fits", None)),
        edit=getattr(extension, "annotate", None),
    )


def program_format(
    read: ReadRecord,
    records: Sequence[JsonObject],
) -> Format:
    """Return the format of a program's own reader."""
    several = False
    for record in records:
        # one that it cannot read is reported when it is read
        with suppress(*UNFIT):
            several = is_list(read(record))
            break

    def read_all(record: JsonObject) -> Rollout | Rollouts:
        trajectories = read(record)
        if not several:
            return read_single(trajectories)
        listed = enumerate(items(trajectories))
        return [read_trajectory(trajectory, (i,)) for i, trajectory in listed]

    return Format(
        "a reader of your own",
        "custom",
        group_by=(ID_KEYS,),
        rank=OWN,
        read=read_all,
        reward="rewards" if several else "reward",
        shape="group" if several else "trajectory",
        listed=several,
    )
