"""Records whose parts stand at the paths of a row: ruler's own, a user's, or those of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
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
    with_task,
)
from ruler_cli.formats.format import OWN, UNFIT, Format
from ruler_cli.formats.keys import ID_KEYS
from ruler_cli.formats.native import read_single, read_trajectory
from ruler_cli.formats.paths import (
    LISTS,
    Places,
    Rollouts,
    column,
    every,
    first_list,
    item_at,
    present,
    wrong_size,
)
from ruler_cli.messages.content import Messages
from ruler_cli.messages.conversations import (
    all_conversations,
    chat_turns,
    named_turns,
    prompt_turns,
)
from ruler_cli.settings.fields import paths
from ruler_cli.settings.models import ReadRecord, RecordPaths
from ruler_cli.types import Rollout

Finish = Callable[[JsonObject, Rollout], Rollout] | None


def read_row(form: Format, record: JsonObject, finish: Finish) -> Rollout | Rollouts:
    """Read the rollouts of a record, or its only one; `finish` adds what no path says."""
    if form.shape == "trajectory" and not form.listed:
        path = _present(form, record)
        return _rollout(form, record, finish, path, lookup(record, path))
    found = [*_sources(form, record)]
    head = first_list(present(record, _paths(form)[0]))
    if not (found or is_list(lookup(record, head))):
        cause = form.cause and f" ({form.cause})"
        raise UnreadableError(f"has no list `{head}`{cause}")
    given = (*paths(form.prompt), form.outcome, form.tools)
    check_lists(record, [places for _, places, _ in found], given)
    holder = () if form.listed else tuple(map(str, parts(head)))
    return [
        read_or_error(
            (*holder, i),
            _rollout,
            form,
            record,
            finish,
            path,
            value,
            places,
            places=places,
        )
        for i, (path, places, value) in enumerate(found)
    ]


def check_lists(
    record: JsonObject,
    rollouts: Sequence[Places],
    given: Iterable[str],
    *,
    listed: bool = False,
) -> None:
    """Raise UnreadableError if a list has not as many items as rollouts: nothing tells which belong together.

    `listed`: one that is named without a mark has an item for each, too.
    """
    size = len(rollouts)
    own = {path for places in rollouts for path, _ in places}
    for path in (name for names in given for name in names.split("|")):
        if listed and is_list(lookup(record, path)):
            column(record, path, size)
        beside = [places for places, _ in every(record, path) if places]
        apart = beside and beside[0][-1][0] not in own
        if apart and len(beside) != size and isinstance(beside[0][-1][1], int):
            raise wrong_size(first_list(path), size)


def _paths(form: RecordPaths) -> Sequence[str]:
    given: Sequence[str] = paths(form.messages or form.answers)
    return given


def _present(form: Format, record: JsonObject) -> str:
    """Return the path of the only rollout: its messages, or else its answer."""
    given = (*paths(form.messages)[:1], *paths(form.answers)[:1])
    *better, last = [present(record, path) for path in given]
    return first(path for path in better if lookup(record, path)) or last


def _at(record: JsonObject, names: str, places: Places) -> Any:
    """Return the value at the first of several paths that belongs to a rollout; None without a path."""
    return item_at(record, present(record, names), places) if names else None


def _sources(
    form: RecordPaths, record: JsonObject
) -> Iterator[tuple[str, Places, Any]]:
    """Yield the path, the places and the value of each rollout; one of several fields has its number first."""
    given = _paths(form)
    for i, path in enumerate(given):
        here = present(record, path)
        column: Places = (("", i),) if len(given) > 1 else ()
        for inner, value in every(record, here):
            yield here, (*column, *inner), value


def _rollout(
    form: Format,
    record: JsonObject,
    finish: Finish,
    path: str,
    value: Any,
    places: Places = (),
) -> Rollout:
    """Read one rollout."""
    own = form.rank == OWN
    if own and _is_structured(value):
        value = dump(value).decode("utf-8", "replace")
    answers = [name for given in paths(form.answers) for name in given.split("|")]
    if path not in answers and (
        not own or is_list(value) or (form.as_json and is_text(value))
    ):
        rollout = _conversation(form, record, path, value)
    elif own:
        answer = find_answer(value, path)
        if answer is None:
            what = "no list of messages and no answer" if value else "empty"
            raise UnreadableError(f"`{path}` is {what}")
        # the key of a group is no task, whatever its name
        other = {key: one for key, one in record.items() if key not in form.key_paths}
        name = None if form.prompt else prompt_field(other)
        prompt = task_turns(record, name) if name and name != path else []
        rollout = make_rollout(prompt, answer)
    else:
        rollout = make_rollout(_task(form, record, places), answer_turns(value, path))
    tools = None
    if form.tools not in ("", "tools"):
        tools = tools_of({"tools": _at(record, form.tools, places)})
    elif own or form.tools:
        tools = tools_of(record)
    member = _at(record, form.member, ())
    rollout = replace(
        rollout,
        tools=tools,
        outcome=_at(record, form.outcome, places),
        member=member if is_text(member) else None,
        places=places,
    )
    if form.first_wins:
        rollout = replace(rollout, outcome=not places[0][1])
    return finish(record, rollout) if finish else rollout


def _is_structured(value: Any) -> bool:
    """Tell if a value is neither turns nor an answer of a known shape, but objects, which are shown as JSON."""
    listed = [value] if is_object(value) else items(value)
    alone = all(is_object(one) and not is_answer(one) for one in listed)
    return bool(listed) and alone and named_turns(listed) is None


def _conversation(form: Format, record: JsonObject, path: str, value: Any) -> Rollout:
    if not value:
        cause = form.cause and f" ({form.cause})"
        raise UnreadableError(f"has no messages in `{path}`{cause}")
    listed = items(json_value(value))
    several = any(listed) and all(map(is_list, listed))
    *earlier, value = filter(None, listed) if several else [value]
    histories = tuple(chat_turns(part, path) for part in earlier)
    given = chat_turns(value, path)
    if form.calls:
        given = [_with_calls(turn, form.calls) for turn in given]
    if given is not value and not form.prompt:
        given = with_task(record, given)
    beside = lookup(record, path.rpartition(".")[0])
    holder = {**record, **beside} if is_object(beside) else record
    return read_conversation(holder, given, histories=histories)


def _with_calls(turn: JsonObject, path: str) -> dict[str, Any]:
    """Return a turn with its calls under the usual name."""
    calls = json_value(lookup(turn, path), text=True)
    rest = {name: value for name, value in turn.items() if name != path}
    if calls is None:
        return rest
    return {**rest, "tool_calls": calls if is_list(calls) else [calls]}


def _task(form: Format, record: JsonObject, places: Places) -> Messages:
    """Return the turns of the task, from its parts in their order."""
    names = [present(record, path) for path in paths(form.prompt)]
    return [
        turn
        for name in names
        for turn in prompt_turns(item_at(record, name, places), name)
    ]


def row_format(name: str, row: RecordPaths, records: Sequence[JsonObject]) -> Format:
    """Return the format of a user's row, adapted to the first records.

    A list of conversations or answers at its path makes each record a group. If all texts there are JSON of
    messages, texts are conversations; else they are answers.
    """
    given = [*_paths(row)]
    inside = [value for record in records for *_, value in _sources(row, record)]
    values = [value for value in inside if value is not None]
    pieces = [
        part for value in values for part in (value if is_list(value) else [value])
    ]
    listed_first = items(first(values))
    item = first(listed_first)
    # an item is a rollout if it is a conversation, a text, or an API's choice, but no message
    choice = is_object(item) and not {"role", "type", "from"} & item.keys()
    choice = choice and is_answer(item) and named_turns(listed_first) is None
    if len(given) == 1 and (is_list(item) or is_text(item) or choice):
        given = [f"{given[0]}[]"]
    several = len(given) > 1 or LISTS.search(given[0]) is not None
    holder, _, rest = given[0].partition("[].")
    # a rollout is an object of its own if it is in a list of the record, else an item of lists
    objects = len(given) == 1 and rest and not LISTS.search(holder + rest)
    listed = several and not (objects and len(parts(holder)) == 1)
    # a path with `[]` is read; what is written has one place
    reward = row.reward if listed else row.reward.removeprefix(f"{holder}[].")
    if reward == "reward" or LISTS.search(reward):
        reward = "rewards" if listed else "reward"
    columns = asdict(row) | {
        "messages" if row.messages else "answers": tuple(given),
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
        shown=", ".join(f"`{path}`" for path in given),
        as_json=all_conversations(pieces),
        listed=listed,
    )


def program_format(read: ReadRecord, records: Sequence[JsonObject]) -> Format:
    """Return the format of a program's own reader."""
    several = False
    for record in records:
        with suppress(*UNFIT):  # one that it cannot read is reported when it is read
            several = is_list(read(record))
            break

    def read_all(record: JsonObject) -> Rollout | Rollouts:
        found = read(record)
        if not several:
            return read_single(found)
        return [read_trajectory(one, (i,)) for i, one in enumerate(items(found))]

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
