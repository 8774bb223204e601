"""Where a run writes: records in input order, and no file that would destroy another."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

from ruler_cli.errors import UsageError
from ruler_cli.files.address import OutputAddress, OutputFolder
from ruler_cli.files.listing import Listing, is_many, listed, passed_over
from ruler_cli.files.output import Output, as_lines, plain_name
from ruler_cli.files.remote import is_remote, public
from ruler_cli.files.tree import OutputTree
from ruler_cli.index import Index
from ruler_cli.settings import ScoreSettings

_FILES = (".json", ".parquet", ".eval", ".zip", ".csv", ".txt")
"""Names that are meant for one file."""

AnyOutput = Output | OutputTree | OutputAddress | OutputFolder


def open_output(settings: ScoreSettings) -> AnyOutput:
    """OUTPUT: a directory where INPUT is many files and the name does not ask for JSON lines."""
    if is_remote(settings.output):
        return _open_address(settings)
    if is_many(settings.input.source) and not as_lines(settings.output):
        if plain_name(settings.output).endswith(_FILES) and not Path(settings.output).is_dir():
            way = "give a directory, or a name that ends in .jsonl"
            raise UsageError(f"{settings.output}: INPUT is many files; {way}")
        return OutputTree(settings.output)
    return Output(settings.output)


def _open_address(settings: ScoreSettings) -> OutputAddress | OutputFolder:
    name = public(settings.output)
    if not is_many(settings.input.source) or as_lines(name):
        return OutputAddress(settings.output)
    if plain_name(name).endswith(_FILES):
        way = "give the address of a directory, or one that ends in .jsonl"
        raise UsageError(f"{name}: INPUT is many files; {way}")
    return OutputFolder(settings.output)


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


def refuse_clashes(settings: ScoreSettings) -> None:
    """No file of a run may be another one: the later would destroy the earlier."""
    source, output, failed = settings.input.source, settings.output, settings.failed
    local = output != "-" and not is_remote(output)
    if local and _same(source, output + ".partial"):
        raise UsageError(f"{source}: is where OUTPUT is written until it is whole; rename it first")
    if failed is not None:
        if is_address(failed):
            raise UsageError("--failed: is an address; give a file of this machine")
        for other in (source, output, output + ".partial" if local else "-"):
            if other != "-" and _same(other, str(failed)):
                raise UsageError(f"--failed {failed}: is INPUT or OUTPUT; give it a file of its own")
        if failed.is_dir() or failed.suffix in (".gz", ".zst"):
            raise UsageError(f"--failed {failed}: give the name of a plain file")
    if is_many(source):
        _refuse_inside(settings)
    if settings.on_failure == "drop" and not local and failed is None:
        what = "OUTPUT -" if output == "-" else "an address as OUTPUT"
        raise UsageError(f"--on-failure drop: with {what} say where dropped records go, with --failed FILE")


def _refuse_inside(settings: ScoreSettings) -> None:
    """A file of a run that lies among those of INPUT would be read by the next run."""
    listing = listed(settings.input.source)
    if listing.base:
        _refuse_among(settings.input.source, settings.output, listing)
        return
    root = Path(os.path.realpath(listing.root))
    inside = {os.path.realpath(listing.path(name)) for name in listing.names}
    whole = as_lines(settings.output) and not is_remote(settings.output)
    for name in (settings.output if whole else "-", str(settings.failed or "-")):
        real = Path(os.path.realpath(name))
        below = Path(settings.input.source).is_dir() and root in real.parents
        if name != "-" and (str(real) in inside or (below and not passed_over(str(real.relative_to(root))))):
            raise UsageError(f"{name}: lies in INPUT and would be read as a part of it; give a place outside")


def _refuse_among(source: str, output: str, listing: Listing) -> None:
    """The same for addresses, as far as their text tells."""
    out = public(output)
    beside = as_lines(out) and out.rpartition("/")[0] == public(source).rstrip("/")
    if beside or out in {public(listing.source(name)) for name in listing.names}:
        raise UsageError(f"{out}: lies in INPUT and would be read as a part of it; give a place outside")


def is_address(path: Path) -> bool:
    """Whether what was taken for a path is an address: `Path` makes one slash of two."""
    return is_remote(str(path).replace(":/", "://", 1)) and not path.parent.is_dir()


def _same(one: str, other: str) -> bool:
    if is_remote(one) or is_remote(other):
        return public(one).rstrip("/") == public(other).rstrip("/")
    return os.path.realpath(one) == os.path.realpath(other)


def failed_path(settings: ScoreSettings) -> Path | None:
    """The failed file of a run; None where there is none. UsageError where it cannot be."""
    if settings.failed is not None:
        if not settings.failed.parent.is_dir():
            raise UsageError(f"--failed {settings.failed}: its directory does not exist")
        return settings.failed
    if settings.output == "-" or is_remote(settings.output):
        return None
    return Path(settings.output.rstrip("/") + ".failed.jsonl")
