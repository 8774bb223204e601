"""The output of a run: records in input order, and no file that would destroy another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ruler_cli.config import ScoreSettings
from ruler_cli.errors import UsageError
from ruler_cli.reading.index import Index
from ruler_cli.reading.location import Location
from ruler_cli.writing.files import Output

_FILES = (".json", ".parquet", ".eval", ".zip", ".csv", ".txt")
"""Names that are meant for one file."""


def open_output(source: str, output: str) -> Output:
    """OUTPUT of an INPUT: a directory where that is many files and the name does not ask for JSON lines."""
    out = Location(output)
    if not Location(source).many or out.as_lines:
        return Output(output)
    if out.unpacked.endswith(_FILES) and not Path(output).is_dir():
        what = "the address of a directory, or one" if out.remote else "a directory, or a name"
        raise UsageError(f"{out.public}: INPUT is many files; give {what} that ends in .jsonl")
    return Output(output, many=True)


class Writer:
    """Puts records into OUTPUT in input order; an empty body is a record that is left out."""

    def __init__(self, output: Output, index: Index | None = None) -> None:
        """`index` knows the order of all records, where those of a group lie apart, and keeps what waits."""
        self._output, self._index = output, index
        self._order: Iterator[tuple[int, int, int]] = iter(()) if index is None else index.lines()
        self._next = next(self._order, None)

    def write(self, batch: list[tuple[int, bytes]]) -> int:
        """Take the records of one group; the number of records that reached OUTPUT.

        With an index they are kept on disk, and what has its turn is written.
        """
        if self._index is None:
            return sum(self._put(number, body) for number, body in batch)
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

    def _put(self, number: int, body: bytes) -> int:
        if body:
            self._output.put(number, body)
        return bool(body)


def refuse_clashes(source: str, output: str, failed: Path | None = None) -> None:
    """No file of a run may be another one: the later would destroy the earlier."""
    local = Location(output).local
    partial = f"{Location(output).real}.partial"  # OUTPUT may be a link
    if local and Location(source).same(partial):
        raise UsageError(f"{source}: is where OUTPUT is written until it is whole; rename it first")
    if failed is not None:
        if Location.of(failed).remote:
            raise UsageError("--failed: is an address; give a file of this machine")
        for other in (source, output, partial if local else "-"):
            if other != "-" and Location(other).same(str(failed)):
                raise UsageError(f"--failed {failed}: is INPUT or OUTPUT; give it a file of its own")
        if failed.is_dir() or failed.suffix in (".gz", ".zst"):
            raise UsageError(f"--failed {failed}: give the name of a plain file")
    if Location(source).many:
        listing, out = Location(source).listed(), Location(output)
        places = [out] * (out.as_lines or out.remote) + [Location(str(failed))] * (failed is not None)
        for place in places:
            if not place.stream and listing.would_hold(place):
                raise UsageError(
                    f"{place.public}: lies in INPUT and would be read as a part of it; give a place outside"
                )


def refuse_homeless(settings: ScoreSettings) -> None:
    """Dropped records go somewhere."""
    output = Location(settings.output)
    if settings.on_failure == "drop" and not output.local and settings.failed is None:
        what = "OUTPUT -" if output.stream else "an address as OUTPUT"
        raise UsageError(f"--on-failure drop: with {what} say where dropped records go, with --failed FILE")


def refuse_shard(settings: ScoreSettings) -> None:
    """UsageError where OUTPUT of a shard would take the place of INPUT, or hold what is not its own."""
    source, output, shard = Location(settings.input.source), Location(settings.output), settings.input.shard
    if shard is None or output.stream:
        return
    listing = source.listed() if source.many else None
    root = source.name if listing is None else listing.base
    if output.same(root):
        raise UsageError(f"--shard: OUTPUT {output.public} is INPUT, of which only {shard} would be left")
    if listing is None or source.remote or output.as_lines:
        return
    from ruler_cli.reading.harbor import find_trials  # which few runs need

    if find_trials(listing):
        raise UsageError(
            "--shard: a Harbor job as OUTPUT would hold trials of other shards, not scored; name it .jsonl"
        )


def failed_path(settings: ScoreSettings) -> Path | None:
    """The failed file of a run; None where there is none. UsageError where it cannot be."""
    if settings.failed is not None:
        if not settings.failed.parent.is_dir():
            raise UsageError(f"--failed {settings.failed}: its directory does not exist")
        return settings.failed
    if not Location(settings.output).local:
        return None
    return Path(settings.output.rstrip("/") + ".failed.jsonl")
