"""Where a run writes: records in input order, and no file that would destroy another."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from ruler_cli.errors import UsageError
from ruler_cli.files.listing import Listing, is_many, listed, passed_over
from ruler_cli.files.output import Output, as_lines, plain_name
from ruler_cli.files.remote import is_remote, public, same_place
from ruler_cli.files.tree import OutputTree
from ruler_cli.index import Index
from ruler_cli.settings import ScoreSettings

_FILES = (".json", ".parquet", ".eval", ".zip", ".csv", ".txt")
"""Names that are meant for one file."""

AnyOutput = Output | OutputTree


def open_output(source: str, output: str) -> AnyOutput:
    """OUTPUT of an INPUT: a directory where that is many files and the name does not ask for JSON lines."""
    name = public(output)
    if not is_many(source) or as_lines(name):
        return Output(output)
    if plain_name(name).endswith(_FILES) and not Path(output).is_dir():
        what = "the address of a directory, or one" if is_remote(output) else "a directory, or a name"
        raise UsageError(f"{name}: INPUT is many files; give {what} that ends in .jsonl")
    return OutputTree(output)


class Writer(ABC):
    """Puts records into OUTPUT in input order; an empty body is a record that is left out."""

    def __init__(self, output: AnyOutput) -> None:
        """`output` is open."""
        self._output = output

    @abstractmethod
    def write(self, batch: list[tuple[int, bytes]]) -> int:
        """Take the records of one group; the number of records that reached OUTPUT."""

    def _put(self, number: int, body: bytes) -> int:
        if not body:
            return 0
        self._output.put(number, body)
        return 1


class InOrder(Writer):
    """Groups come in input order and their records are adjacent: written at once."""

    def write(self, batch: list[tuple[int, bytes]]) -> int:
        """Write them."""
        return sum(self._put(number, body) for number, body in batch)


class ByTurn(Writer):
    """Records of a group lie apart: each is kept on disk until all before it are written."""

    def __init__(self, output: AnyOutput, index: Index) -> None:
        """`index` knows the order of all records and keeps what waits."""
        super().__init__(output)
        self._index = index
        self._order: Iterator[tuple[int, int, int]] = index.lines()
        self._next = next(self._order, None)

    def write(self, batch: list[tuple[int, bytes]]) -> int:
        """Keep them, and write what has its turn."""
        for number, body in batch:
            self._index.keep(number, body)
        written = 0
        while self._next is not None:
            ready = self._index.take(self._next[0])
            if ready is None:
                break
            written += self._put(self._next[0], ready)
            self._next = next(self._order, None)
        return written


def refuse_clashes(source: str, output: str, failed: Path | None = None) -> None:
    """No file of a run may be another one: the later would destroy the earlier."""
    local = _is_local(output)
    if local and same_place(source, output + ".partial"):
        raise UsageError(f"{source}: is where OUTPUT is written until it is whole; rename it first")
    if failed is not None:
        if is_address(failed):
            raise UsageError("--failed: is an address; give a file of this machine")
        for other in (source, output, output + ".partial" if local else "-"):
            if other != "-" and same_place(other, str(failed)):
                raise UsageError(f"--failed {failed}: is INPUT or OUTPUT; give it a file of its own")
        if failed.is_dir() or failed.suffix in (".gz", ".zst"):
            raise UsageError(f"--failed {failed}: give the name of a plain file")
    if is_many(source):
        _refuse_inside(source, output, failed)


def refuse_homeless(settings: ScoreSettings) -> None:
    """Dropped records go somewhere."""
    output = settings.output
    if settings.on_failure == "drop" and not _is_local(output) and settings.failed is None:
        what = "OUTPUT -" if output == "-" else "an address as OUTPUT"
        raise UsageError(f"--on-failure drop: with {what} say where dropped records go, with --failed FILE")


def refuse_shard(settings: ScoreSettings) -> None:
    """UsageError where OUTPUT of a shard would take the place of INPUT, or hold what is not its own."""
    source, output, shard = settings.input.source, settings.output, settings.input.shard
    if shard is None or output == "-":
        return
    listing = listed(source) if is_many(source) else None
    root = source if listing is None else listing.base or str(listing.root)
    if same_place(root, output):
        raise UsageError(f"--shard: OUTPUT {public(output)} is INPUT, of which only {shard} would be left")
    if listing is None or listing.base or as_lines(output):
        return
    from ruler_cli.files.harbor import trials  # which few runs need

    if trials(listing):
        raise UsageError(
            "--shard: a Harbor job as OUTPUT would hold trials of other shards, not scored; name it .jsonl"
        )


def _refuse_inside(source: str, output: str, failed: Path | None) -> None:
    """A file of a run that lies among those of INPUT would be read by the next run."""
    listing = listed(source)
    if listing.base:
        _refuse_among(source, output, listing)
        return
    root = Path(os.path.realpath(listing.root))
    inside = {os.path.realpath(listing.path(name)) for name in listing.names}
    whole = as_lines(output) and _is_local(output)
    for name in (output if whole else "-", str(failed or "-")):
        real = Path(os.path.realpath(name))
        below = Path(source).is_dir() and root in real.parents
        if name != "-" and (str(real) in inside or (below and not passed_over(str(real.relative_to(root))))):
            raise UsageError(f"{name}: lies in INPUT and would be read as a part of it; give a place outside")


def _refuse_among(source: str, output: str, listing: Listing) -> None:
    """The same for addresses, as far as their text tells."""
    out = public(output)
    beside = as_lines(out) and out.rpartition("/")[0] == public(source).rstrip("/")
    if beside or out in {public(listing.source(name)) for name in listing.names}:
        raise UsageError(f"{out}: lies in INPUT and would be read as a part of it; give a place outside")


def _is_local(output: str) -> bool:
    """Whether OUTPUT is on this machine's disk."""
    return output != "-" and not is_remote(output)


def is_address(path: Path) -> bool:
    """Whether what was taken for a path is an address: `Path` makes one slash of two."""
    return is_remote(str(path).replace(":/", "://", 1)) and not path.parent.is_dir()


def failed_path(settings: ScoreSettings) -> Path | None:
    """The failed file of a run; None where there is none. UsageError where it cannot be."""
    if settings.failed is not None:
        if not settings.failed.parent.is_dir():
            raise UsageError(f"--failed {settings.failed}: its directory does not exist")
        return settings.failed
    if not _is_local(settings.output):
        return None
    return Path(settings.output.rstrip("/") + ".failed.jsonl")
