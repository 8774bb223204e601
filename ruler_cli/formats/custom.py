"""A home-made dump that no module knows: its messages stand where `--messages PATH` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.chat import check_messages
from ruler_cli.formats.interface import ID_KEYS, Format, Layout, lookup
from ruler_cli.formats.parallel import known, path_of
from ruler_cli.formats.turns import column
from ruler_cli.records import Path, Rollout

_PROMPTS = ("prompt", "input", "question")


def named(path: str, records: Sequence[dict[str, Any]]) -> Format | None:
    """The format of a dump whose messages stand at a dotted path; None where no record has it.

    A list of messages, or a text that is the rollout's answer: a rollout a record. A list of such
    lists: a group a record. The prompt of an answer is the record's `prompt`, `input` or `question`.
    """
    found = next((value for value in (lookup(record, path) for record in records) if value is not None), None)
    if found is None:
        return None
    several = isinstance(found, list) and bool(found) and isinstance(found[0], list | str)
    return Format(
        name=f"messages at `{path}`",
        family="custom",
        shape="group" if several else "trajectory",
        tells=f"`{path}`",
        matches=lambda record: lookup(record, path) is not None,
        rollouts=lambda record: _several(record, path) if several else [_one(record, path)],
        keys=ID_KEYS,
        layout=Layout(
            reward=("rewards",) if several else ("reward",),
            listed=several,
            lists=lambda record, size: _lists(record, path, size),
        ),
    )


def _lists(record: Mapping[str, Any], path: str, size: int) -> list[Path]:
    return known(record, size, (path_of(record, path), ("rewards",)), (*_PROMPTS, "tools"))


def _one(record: dict[str, Any], path: str) -> Rollout:
    found = lookup(record, path)
    if found is None:
        raise UnreadableError(f"has nothing at `{path}`")
    return Rollout(_messages(record, found, path), reward=record.get("reward"))


def _several(record: dict[str, Any], path: str) -> list[Rollout]:
    found = lookup(record, path)
    if not isinstance(found, list):
        raise UnreadableError(f"has no list at `{path}`")
    rewards = column(record, "rewards", len(found))
    rollouts = []
    for i, item in enumerate(found):
        reward = rewards[i]
        try:
            rollouts.append(Rollout(_messages(record, item, f"{path}[{i}]"), (i,), reward=reward))
        except UnreadableError as error:
            rollouts.append(Rollout([], (i,), reward=reward, fault=str(error)))
    return rollouts


def _messages(record: dict[str, Any], value: Any, where: str) -> list[Any]:
    if not isinstance(value, str):
        return check_messages(value, where)
    asked = next((record[k] for k in _PROMPTS if record.get(k)), None)
    answer = {"role": "assistant", "content": value}
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}, answer]
    return [*check_messages(asked, "prompt"), answer] if asked is not None else [answer]
