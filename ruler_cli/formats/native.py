"""ruler's own shapes, `{"trajectories": [{"messages": …}, …]}` and `{"messages": …}`, and OpenPipe ART's.

ART: groups and trajectories with `messages_and_choices` or `exchanges`, and table rows. Every key is
optional: the newest `model_dump` leaves out what equals its default (a reward of 0.0 too). The rows of ART's
Parquet files, exported as JSON lines, hold metrics, tools and payloads as JSON text; `trajectory_json` wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats import turns
from ruler_cli.formats.chat import TOOLS, histories, messages_of, tools_of
from ruler_cli.formats.fields import json_value, list_field
from ruler_cli.formats.interface import ID_KEYS, ArtLayout, Format
from ruler_cli.formats.prompts import SYSTEM, with_system
from ruler_cli.formats.turns import ANSWER_LISTS, ANSWERS, SUBMISSIONS
from ruler_cli.types import Path, Rollout

BESIDE = (
    *SYSTEM, *ANSWERS, *ANSWER_LISTS, *SUBMISSIONS, *TOOLS,
    "messages_and_choices", "exchanges", "additional_histories",
)  # fmt: skip
"""Paths of fields beside `messages` and `tools` that belong to the conversation."""
_BESIDE = frozenset(path.split(".", 1)[0] for path in BESIDE)


def read_trajectory(value: Any, path: Path = ()) -> Rollout:
    """Read one trajectory object, native or ART; if it cannot be judged, the rollout has an `error`."""
    if not isinstance(value, dict):
        return Rollout([], path, error="is no object")
    try:
        own, prompt_length = value.get("messages"), None
        if own is None:
            messages = with_system(value, messages_of(value))
        else:
            messages = turns.chat_turns(own, "messages")
            if _BESIDE.isdisjoint(value):  # fast, as most dumps have none of these
                tools = value.get("tools") and tools_of(value)
                return Rollout(messages, path, tools=tools, reward=value.get("reward"))
            given = with_system(value, messages)
            messages = turns.with_answer(value, given)
            prompt_length = turns.prompt_size(given, messages)
        further = histories(value)
    except UnreadableError as error:
        return Rollout([], path, reward=value.get("reward"), error=str(error))
    messages = turns.with_submission(value, messages)
    tools, reward = tools_of(value), value.get("reward")
    return Rollout(messages, path, further, tools, reward, prompt_length=prompt_length)


def read_group(record: dict[str, Any]) -> list[Rollout]:
    """Read all trajectories of a group line; one that cannot be read does not stop the others."""
    trajectories = list_field(
        record, "trajectories", ", though the file is one group per line"
    )
    return [read_trajectory(t, ("trajectories", i)) for i, t in enumerate(trajectories)]


def read_single(record: dict[str, Any]) -> list[Rollout]:
    """Read the one trajectory of a trajectory line; UnreadableError if it cannot be judged."""
    if isinstance(record.get("trajectories"), list):
        raise UnreadableError(
            "is a whole group, though the file is one trajectory per line"
        )
    rollout = read_trajectory(record)
    if rollout.error is not None:
        raise UnreadableError(rollout.error)
    label = record.get("label")  # of TRL's and LLaMA-Factory's unpaired preferences
    return [replace(rollout, outcome=label)] if isinstance(label, bool) else [rollout]


def _is_group(record: Mapping[str, Any], *keys: str, empty: bool | None) -> bool | None:
    """Tell if a trajectory of a group has one of these keys; return `empty` if none has."""
    trajectories = record.get("trajectories")
    if not isinstance(trajectories, list):
        return False
    return (
        any(isinstance(t, dict) and any(k in t for k in keys) for t in trajectories)
        or empty
    )


def _is_row(record: Mapping[str, Any]) -> bool:
    return "group_index" in record and (
        "trajectory_json" in record or "group_metadata" in record
    )


def _read_row(record: dict[str, Any]) -> list[Rollout]:
    payload = record.get("trajectory_json")
    if payload is None:
        if "trajectory_index" in record and record["trajectory_index"] is None:
            raise UnreadableError(
                "is the sentinel row of an empty group: there is nothing to score"
            )
        return read_single(record)
    inner = json_value(payload) if isinstance(payload, str) else None
    if not isinstance(inner, dict):
        raise UnreadableError("holds no JSON object in `trajectory_json`")
    return read_single(inner)


_ART = ("messages_and_choices", "exchanges")
_LAYOUT, _ART_LAYOUT = ArtLayout(), ArtLayout(absent=b"0.0", refuses_null="ART")
FORMATS = (
    Format(
        "ART table rows", "art", "`group_index` with `trajectory_json` or `group_metadata`", _is_row,
        _read_row, ("group_index",), replace(_ART_LAYOUT, payload="trajectory_json"),
    ),
    Format(
        "ART groups", "art", "`trajectories` with `messages_and_choices` or `exchanges` in each",
        lambda record: _is_group(record, *_ART, empty=False if record.get("trajectories") else None),
        read_group, ("group_id", "metadata.scenario_id"), _ART_LAYOUT, shape="group",
    ),
    Format(
        "ART trajectories", "art", "`messages_and_choices` or `exchanges`",
        lambda record: any(key in record for key in _ART) and not _is_row(record), read_single,
        ("group_id", "group_index", "metadata.group_id", "metadata.scenario_id"), _ART_LAYOUT,
    ),
    Format(
        "native groups", "native", "`trajectories` with `messages` in each",
        lambda record: _is_group(record, "messages", empty=None), read_group, ("group_id",), _LAYOUT,
        shape="group",
    ),
    Format(
        "native trajectories", "native", "`messages`",
        lambda record: "messages" in record and not turns.answers_path(record), read_single, ID_KEYS, _LAYOUT,
        rank=0,
    ),
)  # fmt: skip
