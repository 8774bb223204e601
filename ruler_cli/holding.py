"""Groups that are judged and wait on disk until the whole batch is: in, and out in the same order."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ruler_cli.judging import Outcome
from ruler_cli.records import Group, Record, Rollout
from ruler_cli.scratch import Scratch, room

_DEEPEST = 100
"""Levels of lists and objects in a reward that is kept: pickle goes no deeper than Python's stack."""


class Holding:
    """A temporary file of groups with what became of them; it ends with the process."""

    def __init__(self) -> None:
        """Nothing waits, and no file is made before something does."""
        self._scratch: Scratch | None = None
        self._number = 0

    def __len__(self) -> int:
        """How many groups wait."""
        return self._number

    def put(self, group: Group, outcome: Outcome) -> None:
        """Keep a group, without its messages: its records' bytes hold them, and nobody reads them again.

        OutputError where there is no room.
        """
        self._scratch = self._scratch or Scratch()
        # pickle: the file has no name, is written and read by this process alone, and never kept
        with room():
            pickle.dump((slim(group), outcome), self._scratch.file, pickle.HIGHEST_PROTOCOL)
        self._number += 1

    def all(self) -> Iterator[tuple[Group, Outcome]]:
        """Everything that was kept whole, in the order in which it came; OutputError as in `put`."""
        if self._scratch is None:
            return
        with room():
            self._scratch.file.seek(0)
        for _ in range(self._number):
            with room():
                held = pickle.load(self._scratch.file)  # noqa: S301 - our own file, see above
            yield held

    def close(self) -> None:
        """Give the disk back."""
        if self._scratch is not None:
            self._scratch.close()


def slim(group: Group) -> Group:
    """A group without its messages, as far as it is needed to write it."""
    return Group(group.key, tuple(_slim(record) for record in group.records))


def _slim(record: Record) -> Record:
    rollouts = tuple(map(_slim_rollout, record.rollouts))
    whole = record.part + 1 == record.parts  # a line of many groups is written with the last of them
    line = record.line if whole else replace(record.line, raw=b"")
    return replace(record, line=line, rollouts=rollouts, tools=None)


def _slim_rollout(rollout: Rollout) -> Rollout:
    reward = rollout.reward if _shallow(rollout.reward, _DEEPEST) else None  # no such object is a number
    return replace(rollout, messages=[], histories=(), tools=None, outcome=None, reward=reward)


def _shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, list | dict):
        return True
    items = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_shallow(item, levels - 1) for item in items)
