"""A directory or a pattern: every file is a shard, opened as the container that it is.

Which files hold records is known once the format is: a file of which no record is of that format is
left out, with a sentence, and copied as it is where OUTPUT is a directory. A shard that is damaged
is a problem of its own and does not stop the others: what can be read of it is read.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePath

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.reading.compression import BOM, PARQUET_MAGIC, ZIP_MAGIC, decompressed, readable
from ruler_cli.reading.container import Container, Encoder, Many, StagedFiles, TreeEncoder, task_of
from ruler_cli.reading.location import Listing
from ruler_cli.types import Line, Problem

Open = Callable[[str, ExitStack, str], Container]
_DAMAGED = "is damaged"
_ENOUGH = 10_000
"""Records without one of the format after which a file is taken to hold none."""
_HEAD = 4096
"""Bytes of a file that show whether it is text."""
_METADATA = 1 << 20
"""Bytes of a `metadata.json` that are read."""
_NAMED = 20
"""Files left out that are named one by one."""


@dataclass(slots=True)
class _Seen:
    """What a pass saw of a shard: the number in front of its first record, its last record's, its end."""

    name: str
    start: int
    unit: str = "line"
    last: int = 0
    end: int = 0
    task: str = ""


class Shards(Many):
    """The records of many files, numbered through; opened one after another."""

    def __init__(self, name: str, listing: Listing, open_one: Open) -> None:
        """`open_one` opens a file of the listing."""
        super().__init__(name)
        self.listing, self._names = listing, frozenset(listing.names)
        self._open = open_one
        self._left: dict[str, str] = {}
        self._damaged: set[str] = set()
        self._gathered = ""
        self._seen: list[_Seen] = []
        self._told: Callable[[Problem], None] | None = None

    @property
    def shards(self) -> list[str]:
        """The names of the files that are read."""
        return [name for name in self.listing.names if name not in self._left]

    def open_shard(self, name: str, stack: ExitStack) -> Container:
        """One file."""
        return self._open(self.listing.at(name).name, stack, name)

    def sample(self, count: int) -> list[Line]:
        """The first records of several files, evenly chosen where they are many."""
        names, found = self.listing.names, list[Line]()
        chosen = names if len(names) <= count else [names[i * len(names) // count] for i in range(count)]
        for name in chosen:
            with ExitStack() as stack:
                try:
                    self._refuse_binary(name)
                    first = self.open_shard(name, stack).sample(max(2, count // len(chosen)))
                except UsageError:
                    continue  # `settle` says so
                found += [
                    Line(0, x.offset, x.raw, f"{name} {x.where}", name) for x in first if _may_be_record(x)
                ]
        return found

    def settle(self, fits: Callable[[Line], bool | None], on_problem: Callable[[Problem], None]) -> list[str]:
        """Find the files that hold no record; a sentence for each of them."""
        self._told = on_problem
        sentences = []
        for name in self.listing.names:
            try:
                reason, bad = self._judged(name, fits), False
            except ForeignError as error:
                reason, bad = self._reason(name, error), False
            except UsageError as error:
                reason, bad = self._reason(name, error), True
            if reason.startswith(_DAMAGED):
                bad = True
            if bad:
                self._damaged.add(name)
                on_problem(Problem(0, reason, b"", name))
            elif reason:
                sentences.append(f"{name} {reason}: left out")
            if reason:
                self._left[name] = reason
        if self.tree and self._gathered:
            raise UsageError(
                f"{self.tree}: {self._gathered} is a rollout of many events, which is not written again in "
                "its shape; name OUTPUT .jsonl, and it holds one record a rollout"
            )
        more = len(sentences) - _NAMED
        return sentences[:_NAMED] + ([f"… and {more} more files: left out"] if more > 0 else [])

    def records(self) -> Iterator[Line]:
        """Every record of every shard; one that ends in damage is told once.

        A later pass reads what the first one read: lines that were appended since are left, any other
        change is a UsageError.
        """
        before, known = self._seen, list[_Seen]()
        base = 0
        for index, name in enumerate(self.shards):
            seen = _Seen(name, base)
            known.append(seen)
            with ExitStack() as stack:
                try:
                    yield from self._numbered(seen, stack, before[index] if before else None)
                except UsageError as error:
                    self._damage(name, base + seen.last, error)
            if before and before[index] != seen:
                raise UsageError(f"{self.name}: {name} changed while it was read; run again when it is whole")
            base += seen.last
        self._seen = known

    def _numbered(self, seen: _Seen, stack: ExitStack, before: _Seen | None) -> Iterator[Line]:
        shard = self.open_shard(seen.name, stack)
        seen.unit, seen.task = shard.unit, shard.task or self._beside(seen.name)
        for line in shard.records():
            if before and line.number > before.last:
                return
            seen.last, seen.end = line.number, line.offset + len(line.raw)
            yield Line(
                seen.start + line.number, line.offset, line.raw, f"{seen.name} {line.where}", seen.name
            )

    def line(self, number: int, offset: int, raw: bytes) -> Line:
        """A record again, with the name of its file."""
        return Line(number, offset, raw, self.place(number), self.located(number)[0])

    def tasks(self) -> dict[str, str]:
        """The task in the head of each file, or in the `metadata.json` beside it."""
        return {seen.name: seen.task for seen in self._seen if seen.last}

    def _beside(self, name: str) -> str:
        """The environment that verifiers writes into `metadata.json` beside its results."""
        beside = str(PurePath(name).with_name("metadata.json"))
        if beside == name or beside not in self._names:
            return ""
        place = self.listing.at(beside)
        with place.open() as stream, readable(place.shown):
            return task_of(stream.read(_METADATA))

    def place(self, number: int) -> str:
        """File and place of a record."""
        seen = self._of(number)
        return f"{seen.name} {seen.unit} {number - seen.start}"

    def located(self, number: int) -> tuple[str, int]:
        """The shard of a record, and its number there."""
        seen = self._of(number)
        return seen.name, number - seen.start

    def _of(self, number: int) -> _Seen:
        return self._seen[bisect_right(self._seen, number - 1, key=lambda seen: seen.start) - 1]

    def into(self, staged: StagedFiles) -> TreeEncoder:
        """What writes the same files again, with other records."""
        return _Rewritten(self, staged)

    def _judged(self, name: str, fits: Callable[[Line], bool | None]) -> str:
        """Why a file is left out; empty where it is read, also where it is empty."""
        json = other = seen = 0
        self._refuse_binary(name)
        with ExitStack() as stack:
            shard = self.open_shard(name, stack)
            for line in shard.records():
                verdict, seen = fits(line), seen + 1
                if verdict:
                    self._gathered = self._gathered or ("" if shard.rewritable else name)
                    return ""
                json += verdict is False or line.raw.lstrip()[:1] == b"{"
                other += verdict is False
                if seen == _ENOUGH:
                    break
        if other:
            return "holds no record of this format"
        if json:
            return f"{_DAMAGED}: none of its records is JSON"
        return "is no JSON" if seen else ""

    def _refuse_binary(self, name: str) -> None:
        """A checkpoint beside the dump must not be taken for one endless line."""
        place = self.listing.at(name)
        with place.open() as stream, readable(place.shown):
            if stream.peek(4).startswith((PARQUET_MAGIC, ZIP_MAGIC)):
                return
            head = decompressed(place.shown, stream).read(_HEAD)
            # behind records zeros are what a crash leaves of a file that was being written
            if b"\0" in head and head.removeprefix(BOM).lstrip()[:1] not in (b"{", b"["):
                raise ForeignError(f"{place.shown}: is no text")

    def _damage(self, name: str, number: int, error: UsageError) -> None:
        if self._told is None or (self._seen and name not in self._damaged):
            raise error  # it could be read before
        if self.in_place and name not in self._damaged:
            way = "OUTPUT would keep only what can be read of it, and is INPUT: give another directory"
            raise UsageError(f"{error}; {way}")
        if name not in self._damaged:
            self._damaged.add(name)
            self._told(Problem(number, self._reason(name, error), b"", name))

    def _reason(self, name: str, error: UsageError) -> str:
        return str(error).removeprefix(f"{self.listing.at(name).shown}: ")


def _may_be_record(line: Line) -> bool:
    return line.raw.lstrip()[:1] == b"{"


class _Rewritten:
    """Shard after shard, one open at a time."""

    def __init__(self, shards: Shards, staged: StagedFiles) -> None:
        self._shards, self._staged = shards, staged
        self._names = iter(shards.shards)
        self._stack = ExitStack()
        self._now: str | None = None
        self._encoder: Encoder | None = None

    def put(self, number: int, body: bytes) -> None:
        """A record of this shard, or of a later one."""
        name, inner = self._shards.located(number)
        while self._now != name:
            self._next()
        assert self._encoder is not None  # noqa: S101 - the shard of this name is open
        self._encoder.put(inner, body)

    def end(self, *, whole: bool) -> None:
        """The last shard read to its end; `whole`: those behind it and what was left out as well."""
        if not whole:
            self._close()
            return
        while self._next():
            pass
        read = set(self._shards.shards)
        listing = self._shards.listing
        for name in listing.names:
            # what may not be read was told, and cannot be copied
            if name in read or not self._shards.copies(name):
                continue
            if listing.base or os.access(listing.path(name), os.R_OK):
                self._staged.copy(name, listing.at(name))

    def _next(self) -> bool:
        self._close()
        self._now = next(self._names, None)
        if self._now is None:
            return False
        shard = self._shards.open_shard(self._now, self._stack)
        self._encoder = shard.encoder(self._staged.open(self._now))
        return True

    def _close(self) -> None:
        encoder, self._encoder = self._encoder, None
        with self._stack:
            if encoder is not None:
                encoder.end()
                self._staged.close()
