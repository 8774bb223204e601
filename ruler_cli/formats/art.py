"""OpenPipe ART: groups and trajectories with `messages_and_choices` or `exchanges`, and table rows.

Every key is optional: the newest `model_dump` leaves out what equals its default (a reward of 0.0
too). The rows of ART's Parquet files, exported as JSON lines, hold metrics, tools and payloads as
JSON text; there `trajectory_json` is authoritative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse_text
from ruler_cli.formats.interface import Format, Layout
from ruler_cli.formats.native import read_group, read_line
from ruler_cli.records import Rollout

_MESSAGES = ("messages_and_choices", "exchanges")


def _is_group(record: Mapping[str, Any]) -> bool | None:
    trajectories = record.get("trajectories")
    if not isinstance(trajectories, list):
        return False
    return any(isinstance(t, dict) and any(k in t for k in _MESSAGES) for t in trajectories) or (
        None if not trajectories else False
    )


def _is_row(record: Mapping[str, Any]) -> bool:
    return "group_index" in record and ("trajectory_json" in record or "group_metadata" in record)


def _read_row(record: dict[str, Any]) -> list[Rollout]:
    payload = record.get("trajectory_json")
    if payload is None:
        if "trajectory_index" in record and record["trajectory_index"] is None:
            raise UnreadableError("is the sentinel row of an empty group: there is nothing to score")
        return read_line(record)
    try:
        inner = parse_text(payload) if isinstance(payload, str) else None
    except UnreadableError:
        inner = None
    if not isinstance(inner, dict):
        raise UnreadableError("holds no JSON object in `trajectory_json`")
    return read_line(inner)


_LAYOUT = Layout(extras=True, absent=b"0.0", refuses_null="ART")

GROUP = Format(
    name="ART groups",
    family="art",
    shape="group",
    tells="`trajectories` with `messages_and_choices` or `exchanges` in each",
    matches=_is_group,
    rollouts=read_group,
    keys=("group_id", "metadata.scenario_id"),
    layout=_LAYOUT,
)
TRAJECTORY = Format(
    name="ART trajectories",
    family="art",
    shape="trajectory",
    tells="`messages_and_choices` or `exchanges`",
    matches=lambda record: any(key in record for key in _MESSAGES) and not _is_row(record),
    rollouts=read_line,
    keys=("group_id", "group_index", "metadata.group_id", "metadata.scenario_id"),
    layout=_LAYOUT,
)
ROW = Format(
    name="ART table rows",
    family="art",
    shape="trajectory",
    tells="`group_index` with `trajectory_json` or `group_metadata`",
    matches=_is_row,
    rollouts=_read_row,
    keys=("group_index",),
    layout=replace(_LAYOUT, payload="trajectory_json"),
)
FORMATS = (ROW, GROUP, TRAJECTORY)
