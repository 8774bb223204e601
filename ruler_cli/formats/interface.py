"""What a format is: record in, rollouts out, and where an annotation goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ruler_cli.records import Rollout


@dataclass(frozen=True, slots=True)
class Layout:
    """Where ruler writes on a trajectory.

    `reward` is the dump's own reward field; `extras` says that the shape has `metrics` and `logs`;
    `payload` names a member that holds the trajectory once more, as JSON text, and wins when the
    dump is read; `absent` is what a reward that is not there means.
    """

    reward: str = "reward"
    extras: bool = True
    payload: str | None = None
    absent: bytes | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """One dump shape.

    `matches` looks at keys only; None says "could be". `rollouts` raises UnreadableError.
    `keys` are dotted paths of a group key, best first.
    """

    name: str
    shape: Literal["group", "trajectory"]
    matches: Callable[[Mapping[str, Any]], bool | None]
    rollouts: Callable[[dict[str, Any]], list[Rollout]]
    keys: tuple[str, ...]
    layout: Layout = Layout()


def lookup(record: Any, path: str) -> Any:
    """The value at a dotted path, a key that holds the dots itself first; None where absent."""
    if isinstance(record, dict) and path in record:
        return record[path]
    for part in path.split("."):
        if not isinstance(record, dict) or part not in record:
            return None
        record = record[part]
    return record
