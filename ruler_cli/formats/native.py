"""ruler's own shapes, `{"trajectories": [{"messages": …}, …]}` and `{"messages": …}`, and OpenPipe ART's.

ART: groups and trajectories with `messages_and_choices` or `exchanges`, and table rows. Every key is
optional: the newest `model_dump` leaves out what equals its default (a reward of 0.0 too). The rows of ART's
Parquet files, exported as JSON lines, hold metrics, tools and payloads as JSON text; `trajectory_json` wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import turns
from ruler_cli.formats.chat import (
    TOOLS,
    Messages,
    check_messages,
    last_states,
    new_turn,
    tools_of,
)
from ruler_cli.formats.fields import (
    JsonObject,
    Rollouts,
    first,
    items,
    json_value,
    list_field,
    lookup,
    objects,
)
from ruler_cli.formats.turns import (
    ANSWER_LISTS,
    ANSWERS,
    SUBMISSIONS,
    SYSTEM,
    with_system,
)
from ruler_cli.types import Path, Rollout

ART = ("messages_and_choices", "exchanges")
BESIDE = (
    *SYSTEM,
    *ANSWERS,
    *ANSWER_LISTS,
    *SUBMISSIONS,
    *TOOLS,
    *ART,
    "additional_histories",
)
"""Paths of fields beside `messages` and `tools` that belong to the conversation."""
_BESIDE = frozenset(path.split(".", 1)[0] for path in BESIDE)


def read_trajectory(value: Any, path: Path = ()) -> Rollout:
    """Read one trajectory object, native or ART; if it cannot be judged, the rollout has an `error`."""
    if not isinstance(value, dict):
        return Rollout([], path, error="is no object")
    reward = value.get("reward")
    try:
        return _read(value, path, reward)
    except UnreadableError as error:
        return Rollout([], path, reward=reward, error=str(error))


def _read(value: JsonObject, path: Path, reward: Any) -> Rollout:
    own, prompt_length = value.get("messages"), None
    given = [] if own is None else turns.chat_turns(own, "messages")
    if given and _BESIDE.isdisjoint(value):  # fast, as most dumps have none of these
        tools = value.get("tools") and tools_of(value)
        return Rollout(given, path, tools=tools, reward=reward)
    exchanges = _exchanges(value)
    if given:
        given = with_system(value, given)
        messages = turns.with_answer(value, given)
        prompt_length = turns.prompt_size(given, messages)
    else:
        messages = with_system(value, _recorded(value, exchanges))
    further = [
        _recorded(history, _exchanges(history))
        if isinstance(history, dict)
        else check_messages(history, "additional_histories")
        for history in items(value.get("additional_histories"))
        if isinstance(history, dict | list)
    ]
    further += [check_messages(c, "exchanges") for c in _conversations(exchanges)[:-1]]
    tools = tools_of(value)
    if tools is None and exchanges:
        tools = exchanges[0][0].get("tools")
    messages = turns.with_submission(value, messages)
    return Rollout(
        messages, path, tuple(further), tools, reward, prompt_length=prompt_length
    )


_Exchange = tuple[JsonObject, JsonObject]
"""A request that ART recorded, and its response."""


def _recorded(value: JsonObject, exchanges: list[_Exchange]) -> Messages:
    """Return the main conversation of a trajectory; UnreadableError if there is none."""
    for key in ("messages", "messages_and_choices"):
        if value.get(key) is not None:
            return check_messages(value[key], key)
    if conversations := _conversations(exchanges):
        return check_messages(conversations[-1], "exchanges")
    raise UnreadableError("has no messages")


def _conversations(exchanges: list[_Exchange]) -> list[Messages]:
    """Return the recorded conversations without those that a later one continues."""
    whole = (
        [*_asked(request), *_answered(response)] for request, response in exchanges
    )
    return last_states(whole, _without_nulls)


def _without_nulls(value: Any) -> Any:
    """Return a value without nulls and empty lists: a client omits them when it sends a message again."""
    if isinstance(value, dict):
        pairs = ((key, _without_nulls(inner)) for key, inner in value.items())
        return {key: inner for key, inner in pairs if inner is not None and inner != []}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def _exchanges(trajectory: JsonObject) -> list[_Exchange]:
    recorded = trajectory.get("exchanges")
    kinds = ("chat_completions", "responses", "messages", "completions")
    both = [
        (exchange.get("request"), exchange.get("response"))
        for kind in kinds
        for exchange in objects(lookup(recorded, kind))
    ]
    return [(a, b) for a, b in both if isinstance(a, dict) and isinstance(b, dict)]


def _asked(request: JsonObject) -> Iterator[Any]:
    for key in ("system", "instructions"):
        if request.get(key):
            yield new_turn("system", request[key])
    for key in ("messages", "input", "prompt"):
        value = request.get(key)
        if isinstance(value, str):
            yield new_turn("user", value)
        yield from items(value)


def _answered(response: JsonObject) -> Messages:
    choice = first(objects(items(response.get("choices"))[:1]))
    if choice is not None:
        message = choice.get("message")
        text = new_turn("assistant", choice.get("text"))
        return [text if message is None else message]
    if isinstance(response.get("output"), list):
        return list(response["output"])
    role = response.get("role", "assistant")
    return [new_turn(role, response.get("content"))]


def read_group(record: JsonObject) -> Rollouts:
    """Read all trajectories of a group line; one that cannot be read does not stop the others."""
    trajectories = list_field(record, "trajectories", " (the file is a group a line)")
    return [read_trajectory(t, ("trajectories", i)) for i, t in enumerate(trajectories)]


def read_single(record: JsonObject) -> Rollouts:
    """Read the one trajectory of a trajectory line; UnreadableError if it cannot be judged."""
    if isinstance(record.get("trajectories"), list):
        raise UnreadableError("is a whole group (the file is a trajectory a line)")
    rollout = read_trajectory(record)
    if rollout.error is not None:
        raise UnreadableError(rollout.error)
    label = record.get("label")  # of TRL's and LLaMA-Factory's unpaired preferences
    return [replace(rollout, outcome=label)] if isinstance(label, bool) else [rollout]


def read_row(record: JsonObject) -> Rollouts:
    """Read a row of ART's tables."""
    payload = record.get("trajectory_json")
    if payload is None:
        if record.get("trajectory_index", 0) is None:
            raise UnreadableError(
                "is the sentinel row of an empty group: there is nothing to score"
            )
        return read_single(record)
    inner = json_value(payload) if isinstance(payload, str) else None
    if not isinstance(inner, dict):
        raise UnreadableError("holds no JSON object in `trajectory_json`")
    return read_single(inner)


def is_native_group(record: JsonObject) -> bool | None:
    """Tell if trajectories have `messages`; None for a group that is empty, or has no known members."""
    return _has_any(record, "messages") or None


def is_art_group(record: JsonObject) -> bool | None:
    """Tell if trajectories have ART's members; None for a group that is empty."""
    return _has_any(record, *ART) if record["trajectories"] else None


def _has_any(record: JsonObject, *keys: str) -> bool:
    """Tell if a trajectory of a group has one of these keys."""
    return any(key in one for one in objects(record["trajectories"]) for key in keys)


def is_native(record: JsonObject) -> bool:
    """Tell if `messages` are a rollout, and no list of answers stands beside them."""
    return not turns.answers_path(record)
