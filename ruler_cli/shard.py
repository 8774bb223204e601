"""One of N shards of an input: which of its groups and lines are a process's own.

A group belongs to the shard that its key tells, so processes that know nothing of one another, on
whatever machine, judge every group once. Nothing of it changes what is asked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from zlib import crc32

from ruler_cli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Shard:
    """The shard `number` of `of`; the first is 1."""

    number: int
    of: int

    def holds(self, digest: bytes) -> bool:
        """Tell if a group is its own, by the digest of the group's key (see `index.digest`)."""
        return int.from_bytes(digest[:8]) % self.of == self.number - 1

    def copies(self, name: str) -> bool:
        """Tell if a file that holds no record is its own to copy, by the file's name."""
        return crc32(os.fsencode(name)) % self.of == self.number - 1

    def tells(self, line: int) -> bool:
        """Tell if a line that cannot be read, of which no key is known, is its own to tell and keep."""
        return line % self.of == self.number - 1

    def __str__(self) -> str:
        """As a sentence calls it."""
        return f"shard {self.number} of {self.of}"


def shard_of(text: str) -> Shard | None:
    """`I/N` → the shard; None for 1/1, which is all of it. UsageError where there is no such shard."""
    found = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text.strip())
    if not found:
        raise UsageError(f"--shard {text}: write it as I/N, e.g. 1/16 for the first of 16 shards")
    number, of = int(found[1]), int(found[2])
    if not of:
        raise UsageError(f"--shard {text}: there are no shards; write it as I/N, e.g. 1/16")
    if not 1 <= number <= of:
        raise UsageError(
            f"--shard {text}: shards are counted from 1 to {of}; a SLURM array is to be --array=1-{of}"
        )
    return Shard(number, of) if of > 1 else None
