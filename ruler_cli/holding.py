"""Groups that are judged and wait on disk until the whole batch is: in, and out in the same order."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace

from ruler_cli.judging import Outcome
from ruler_cli.records import Group, Record


class Holding:
    """A temporary file of groups with what became of them; it ends with the process."""

    def __init__(self) -> None:
        """Nothing waits."""
        # pickle: the file has no name, is written and read by this process alone, and never kept
        self._file = tempfile.TemporaryFile(buffering=1 << 16)  # noqa: SIM115 - closed by `close`
        self._number = 0

    def __len__(self) -> int:
        """How many groups wait."""
        return self._number

    def put(self, group: Group, outcome: Outcome) -> None:
        """Keep a group, without its messages: its records' bytes hold them, and nobody reads them again."""
        slim = Group(group.key, tuple(_slim(record) for record in group.records))
        pickle.dump((slim, outcome), self._file, pickle.HIGHEST_PROTOCOL)
        self._number += 1

    def all(self) -> Iterator[tuple[Group, Outcome]]:
        """Everything, in the order in which it came."""
        self._file.seek(0)
        for _ in range(self._number):
            yield pickle.load(self._file)  # noqa: S301 - our own file, see above

    def close(self) -> None:
        """Give the disk back."""
        self._file.close()


def _slim(record: Record) -> Record:
    rollouts = tuple(replace(rollout, messages=[], histories=(), tools=None) for rollout in record.rollouts)
    return replace(record, rollouts=rollouts, tools=None)
