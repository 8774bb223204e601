"""Annotated records → OUTPUT, lines, a list or a table by its name; unreadable lines → the failed file.

OUTPUT appears whole or not at all, by atomic rename; until then it is NAME.partial, which holds whole
records only. No file of a run destroys another.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import mmap
import os
import shlex
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from ruler_cli.errors import OutputError, Sentence, UsageError
from ruler_cli.files.atomic import (
    LocalFile,
    PassThrough,
    create_file,
    create_new,
    open_errors,
    write_errors,
)
from ruler_cli.files.container import (
    Container,
    Encoder,
    Form,
    write_lines,
    write_list,
)
from ruler_cli.files.file_names import TEXT, refuse_ending, refuse_output_name
from ruler_cli.files.inspect_log import InspectLog, LogKind
from ruler_cli.files.location import Location
from ruler_cli.files.scratch import Index, Place
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import Problem

if TYPE_CHECKING:
    from ruler_cli.files.parquet import Parquet


def open_output(source: str, output: str, *, keep: bool = True) -> Output:
    """OUTPUT of an INPUT; UsageError if its name asks for what is not written.

    `keep`: after an error whole records stay in NAME.partial.
    """
    _refuse_name(source, output)
    return Output(output, keep=keep)


def refuse_output(source: str, output: str) -> None:
    """Raise UsageError if OUTPUT cannot be written, as far as that shows without writing."""
    _refuse_name(source, output)
    location = Location(output)
    if location.local:
        with open_errors(location):
            location.real.parent.stat()


def _refuse_name(source: str, output: str) -> None:
    refuse_output_name(source, output)
    name = Location(output)
    if (
        name.unpacked.endswith((".parquet", ".eval")) and name.unpacked != name.public
    ):  # both are compressed inside
        raise UsageError(
            f"{name.public}: such a file is packed already; leave out the last ending"
        )
    if name.unpacked.endswith(".parquet") and find_spec("pyarrow") is None:
        raise UsageError(
            f"{name.public}: is Parquet; install the writer with: pip install pyarrow"
        )


def _form_of(output: Location) -> Form:
    """Return the form that a name asks for."""
    if output.unpacked.endswith(".json"):
        return "list"
    return "table" if output.unpacked.endswith(".parquet") else "lines"


class Output:
    """OUTPUT, open for records; use as a context and `commit` at the end."""

    def __init__(self, name: str, *, keep: bool = True) -> None:
        """Open a file, an address or `-`; UsageError if it cannot be written, before anything is read."""
        self._location = Location(name)
        self.name = self._path = self._location.public
        self._form = _form_of(self._location)
        self._target = create_file(self._location)
        self.may_block = self._target.may_block
        """Tells if writing a record may block, as on stdout that is a pipe."""
        self._keep = keep
        self._advice = (
            "finished groups are kept; "
            if keep and self._target.partial is not None
            else ""
        )
        if isinstance(self._target, LocalFile):
            self._path = str(self._target.partial)
        self._source = ""
        self._table: Parquet | None = None
        """INPUT, if it is a table, whose columns keep their types."""
        self.log: InspectLog | None = None
        """OUTPUT, if it is an Inspect log."""
        self._empty, self._done = True, False
        self._index: Index | None = None
        self._order: Iterator[Place] = iter(())

    def write_as(self, container: Container, *, scored: bool = True) -> None:
        """Take the container of INPUT; UsageError if OUTPUT cannot be written from it.

        Without `scored` records are not those of `score`, and none can be put into an Inspect log.
        """
        self._source = container.name
        kind = _log_kind(self._location, container) if scored else None
        if container.log and kind:
            self.log = InspectLog(
                self.name, container.name, container.log, kind, self._target.stream
            )
            self._advice = ""
            return
        if self._location.unpacked.endswith(".eval"):
            what = "an .eval file is only written with the scores of an Inspect log"
            raise UsageError(f"{self.name}: {what}; name OUTPUT .jsonl")
        self._refuse_in_place(container)
        if self._form == "table" and container.form == "table":
            self._table = cast("Parquet", container)
        if self._keep and self._form != "lines":
            self._advice = "it has no end yet and cannot be read; "

    def _refuse_in_place(self, container: Container) -> None:
        """Raise UsageError if OUTPUT is INPUT and would not keep its form."""
        name = self._location
        if name.stream or not name.same(container.name) or container.form == self._form:
            return
        forms = {"lines": "JSON lines", "list": "a JSON list", "table": "Parquet"}
        raise UsageError(
            f"{name.public}: is INPUT, and would become {forms[self._form]}; give another OUTPUT"
        )

    def keep_order(self, index: Index) -> None:
        """Write records in the order of `index`, which keeps those that wait for their turn."""
        # a columnar line, which is several groups, is written once
        lines = itertools.groupby(index.lines(), key=itemgetter(0))
        self._index, self._order = index, (next(same) for _, same in lines)
        self._next = next(self._order, None)

    def write(self, records: Iterable[tuple[int, bytes]]) -> int:
        """Take the records of one group; return the number of records that reached OUTPUT.

        An empty body is a record that is left out. A pipe gets all of them at once.
        """
        written = 0
        with self._errors():
            for number, record in (
                records if self._index is None else self._in_turn(self._index, records)
            ):
                if record:
                    self._empty = False
                    self._encoder.put(number, record)
                    written += 1
            if type(self._target) is PassThrough:
                self._target.stream.flush()
        return written

    def _in_turn(
        self, index: Index, records: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        """Keep the records on disk, and yield what has its turn."""
        for number, record in records:
            index.keep(number, record)
        while (
            self._next is not None and (ready := index.take(self._next[0])) is not None
        ):
            yield self._next[0], ready
            self._next = next(self._order, None)

    @property
    def replaces(self) -> bool:
        """Tell if `commit` takes the place of an OUTPUT that is there."""
        return self._target.replaces

    def commit(self) -> None:
        """Make OUTPUT appear; OutputError if it does not."""
        with self._errors():
            self._encoder.end()
            self._target.end()
            self._target.commit()
        self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close; without `commit` whole records stay in .partial files if they are to be kept."""
        target = self._target
        if self._done:
            return
        # an error of the context counts for more
        with (
            contextlib.suppress(OSError),
            contextlib.nullcontext() if error else self._errors(),
        ):
            if self._empty or self.log or target.partial is None or not self._keep:
                target.discard()
                return
            try:
                # a list or a table gets its end, so that it can be read; damage of INPUT was reported
                with contextlib.closing(target), contextlib.suppress(UsageError):
                    self._encoder.end()
            finally:
                lines = self._form == "lines"
                if isinstance(target, LocalFile) and target.plain and lines:
                    _cut_torn(target.partial)

    @cached_property
    def _encoder(self) -> Encoder | InspectLog:
        """The encoder, made with the first record, when all of INPUT is known."""
        if self.log:
            return self.log
        stream = self._target.stream
        if self._form == "lines":
            return Encoder(self._source, write_lines(stream))
        if self._form == "list":
            return Encoder(self._source, write_list(stream))
        from ruler_cli.files.parquet import write_table

        return Encoder(self._source, write_table(stream, self._source, self._table))

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return write_errors(self._path, self._advice)


def _log_kind(output: Location, container: Container) -> LogKind | None:
    """Return the kind of Inspect log that OUTPUT's name asks for; None if it is to be something else."""
    if container.log is None or output.as_lines:
        return None
    kinds: dict[str, LogKind] = {".eval": "eval", ".json": "json"}
    return next(
        (kind for ending, kind in kinds.items() if output.unpacked.endswith(ending)),
        None,
    )


class FailedFile:
    """Lines that could not be read, verbatim. The file stays across runs: it may be their only copy.

    A run does not add a line that an earlier run left here; it adds all equal lines of its own input.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None collects nothing."""
        self.path = path
        self.written = 0
        self._file: BinaryIO | None = None
        self._earlier: Counter[bytes] = Counter()

    def add(self, problem: Problem) -> None:
        """Append one line, unless an earlier run did or the problem has no bytes."""
        if self.path is None or not problem.raw:
            return
        with self._errors():
            self._file = self._file or self._open(self.path)
            raw = problem.raw.replace(
                b"\n", b" "
            )  # a record of a document may lie over several lines
            if self._earlier[_digest(raw)]:
                self._earlier[_digest(raw)] -= 1
                return
            self._file.write(raw + b"\n")
            self.written += 1

    def close(self) -> None:
        """Bring the lines to disk; call it before OUTPUT appears, so that every line is in one of them."""
        file, self._file = self._file, None
        if file is not None:
            with self._errors(), file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())

    def _open(self, path: Path) -> BinaryIO:
        last = b"\n"
        if path.is_file():
            with path.open(
                "rb"
            ) as stream:  # verbatim: a line may begin as if it were compressed
                for last in stream:
                    self._earlier[_digest(last.removesuffix(b"\n"))] += 1
                stream.seek(0)
                if (
                    os.fstat(stream.fileno()).st_nlink > 1
                ):  # another name of it, such as a backup, stays
                    with os.fdopen(create_new(path), "wb") as copy:
                        shutil.copyfileobj(stream, copy)
        no_link = 0 if _is_device(path) else os.O_NOFOLLOW
        file = os.fdopen(
            os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_link, 0o666), "ab"
        )
        file.write(b"" if last.endswith(b"\n") else b"\n")
        return file

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot be written: {error.strerror}"
            ) from None


def _is_device(path: Path) -> bool:
    """Tell if a path is one of the system's, where links such as /dev/stderr stand."""
    return path.parts[:2] in (("/", "dev"), ("/", "proc"))


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _cut_torn(partial: Path) -> None:
    """Cut off a last record that has no end: the disk may have filled up within it."""
    with os.fdopen(os.open(partial, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
        if size := file.seek(0, os.SEEK_END):
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as text:
                size = text.rfind(b"\n") + 1
            file.truncate(size)


def refuse_clashes(source: str, output: str, failed: Path | None = None) -> None:
    """No file of a run may be another one: the later would destroy the earlier."""
    local = Location(output).local
    partial = f"{Location(output).real}.partial"  # OUTPUT may be a link
    if local and Location(source).same(partial):
        raise UsageError(
            f"{source}: is where OUTPUT is written until it is whole; rename it first"
        )
    if failed is not None:
        if Location.of(failed).remote:
            raise UsageError(
                "is an address", "give a file of this machine", option="failed"
            )
        wrong = functools.partial(UsageError, option="failed", value=failed)
        for other in (source, output, partial if local else "-"):
            if other != "-" and Location(other).same(str(failed)):
                raise wrong("is INPUT or OUTPUT", "give it a file of its own")
        if failed.is_dir() or failed.suffix in (".gz", ".zst"):
            raise wrong("give the name of a plain file")
        if failed.suffix not in TEXT:
            kept = Sentence(
                "{failed:{name}}: keeps lines of INPUT as they are", name=failed
            )
            refuse_ending(
                str(failed), kept, own=Location(source).unpacked, other=(".json",)
            )
    if Location(source).many:
        listing = Location(source).listed()
        places = [Location(output)]
        places += [] if failed is None else [Location(str(failed))]
        for place in places:
            if not place.stream and listing.would_hold(place):
                raise UsageError(
                    f"{place.public}: lies in INPUT and would be read as a part of it; give a place outside"
                )


def refuse_settings(settings: ScoreSettings) -> None:
    """UsageError if dropped records have no place, or OUTPUT of some groups would take the place of all."""
    source, output = Location(settings.input.source), Location(settings.output)
    shard, limit = settings.input.shard, settings.input.limit
    if settings.on_failure == "drop" and not output.local and settings.failed is None:
        what = "OUTPUT -" if output.stream else "an address as OUTPUT"
        remedy = Sentence(
            "with {what} say where dropped records go, with {failed:FILE}", what=what
        )
        raise UsageError(remedy, option="on_failure", value="drop")
    failed = failed_path(settings)
    if failed is not None and failed.is_symlink() and not _is_device(failed):
        remedy = Sentence("remove it, or give {failed:FILE}")
        raise UsageError(
            "is a link, and a run adds lines to it", remedy, place=str(failed)
        )
    if (shard is None and limit is None) or output.stream:
        return
    option, left = (
        ("limit", f"the first {limit}") if shard is None else ("shard", str(shard))
    )
    if output.same(source.name):
        problem = f"OUTPUT {output.public} is INPUT, of which only {left} would be left"
        raise UsageError(problem, option=option)


def failed_path(settings: ScoreSettings) -> Path | None:
    """The failed file of a run; None where there is none. UsageError where it cannot be."""
    if settings.failed is not None:
        if not settings.failed.parent.is_dir():
            advice = (
                f"create it with: mkdir -p {shlex.quote(str(settings.failed.parent))}"
            )
            problem = "its directory does not exist"
            raise UsageError(problem, advice, option="failed", value=settings.failed)
        return settings.failed
    if not Location(settings.output).local:
        return None
    return Path(settings.output.rstrip("/") + ".failed.jsonl")
