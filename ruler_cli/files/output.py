"""Annotated records → OUTPUT, of the container that its name asks for; unreadable lines → the failed file.

OUTPUT appears whole or not at all: on this machine by rename, until then it is NAME.partial, which holds
whole records only; at an address when all of it is uploaded (see `RemoteFile`). No file of a run destroys another.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import mmap
import os
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.containers import Container, Writer
from ruler_cli.files.containers.lines import LinesWriter
from ruler_cli.files.error_map import creating, writing, zstd
from ruler_cli.files.index import OutputOrder
from ruler_cli.files.location import Location
from ruler_cli.files.marks import Kind, refuse_foreign
from ruler_cli.types import Problem

if TYPE_CHECKING:
    from ruler_cli.files.containers.inspect_log import InspectLogWriter
    from ruler_cli.files.remote import RemoteStore

_BUFFER = 1 << 16
"""Bytes collected before a write: with a mebibyte, which no cache holds, a record took four times as long."""
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
"""Flags that create a file, and fail where any file or link stands."""
_OLD = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags that open a file of an earlier run, and never wait for a pipe."""
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "hf"})
"""Stores in which an object appears when its upload is complete."""
_OTHER_ENDINGS = (
    ".csv", ".tsv", ".xlsx", ".html", ".pdf", ".yaml", ".sqlite", ".arrow", ".zip", ".tar", ".tgz", ".bz2", ".xz",
)  # fmt: skip
"""Endings of file names of kinds that are never written."""
_Records = Iterable[tuple[int, bytes]]
"""Numbers of lines and the records for them."""


def compressed(name: str, stream: BinaryIO) -> BinaryIO:
    """Wrap a stream for writing by the ending of the name: .gz, .zst, anything else plain."""
    if name.endswith(".gz"):
        file = gzip.GzipFile(
            fileobj=stream,
            mode="wb",
            mtime=0,
            filename="",
        )
        return cast(BinaryIO, file)
    if name.endswith(".zst"):
        frames = zstd.ZstdFile(stream, "wb")
        # else a file of no records would have no frame, which other programs call damaged
        frames.write(b"")
        return cast(BinaryIO, frames)
    return stream


class PassThrough:
    """Stdout, a pipe or a device: bytes are passed on at once, and nothing can be taken back."""

    partial: Path | None = None
    """The file with the records that were written before an error; None if they are not kept."""
    replaces = False
    """True if `commit` replaces an existing file."""

    may_block = False

    def __init__(self, name: str) -> None:
        """Open it; UsageError if stdout is closed, OSError if it cannot be written."""
        if name != "-":
            self._take(name, Path(name).open("wb"))  # noqa: SIM115 - `close`
            return
        if sys.stdout is None:
            raise UsageError(
                "stdout is closed",
                "give a file name",
                place="-",
            )
        self.may_block = True
        self._take(name, sys.stdout.buffer)

    def _take(
        self,
        name: str,
        file: BinaryIO,
    ) -> None:
        """Take an open file; the ending of the name decides on compression."""
        self.file = file
        self.stream = compressed(name, file)

    def flush(self) -> None:
        """Write what is still buffered."""
        if self.stream is not self.file:
            self.stream.close()
        self.file.flush()

    def commit(self) -> None:
        """Write the rest."""
        self.flush()
        self.close()

    def close(self) -> None:
        """Close it with what is written so far; stdout stays open."""
        if not self.may_block:
            # it is closed also where the rest cannot be written
            with self.file:
                self.flush()

    discard = close  # what was written is there already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        *_: object,
    ) -> None:
        """Discard what was written if there is an error."""
        if kind is not None:
            self.discard()


class LocalFile(PassThrough):
    """A file of this machine; until `commit` it is NAME.partial."""

    partial: Path

    def __init__(self, name: str) -> None:
        """Open it; UsageError if another run writes it, OSError if it cannot be written."""
        self._target = Path(os.path.realpath(name))
        self.partial = self._target.with_name(self._target.name + ".partial")
        self._take(name, _open_locked(self.partial))
        if self._target.exists():  # its permissions stay
            mode = stat.S_IMODE(self._target.stat().st_mode)
            os.fchmod(self.file.fileno(), mode)

    @property
    def replaces(self) -> bool:  # type: ignore[override]  # a stream replaces nothing
        """Return whether there is a file of this name."""
        return self._target.exists()

    def commit(self) -> None:
        """Write the rest, so that it survives a power cut, and rename the file to its name.

        OutputError if another file took its place.
        """
        self.flush()
        descriptor = self.file.fileno()
        os.fsync(descriptor)
        if not self.partial.exists() or not os.path.samestat(
            os.fstat(descriptor), self.partial.lstat()
        ):
            raise OutputError(
                "was removed or replaced during the run",
                "run it again",
                place=str(self.partial),
            )
        self.partial.replace(self._target)
        self.file.close()

    def drop_torn_line(self) -> None:
        """Cut off a last line that has no end: the disk may have filled up within it."""
        if self.stream is not self.file:
            return  # nobody can cut what is compressed
        with open(os.open(self.partial, _OLD), "r+b") as file:  # noqa: PTH123 - a descriptor
            if size := file.seek(0, os.SEEK_END):
                with mmap.mmap(
                    file.fileno(), size, access=mmap.ACCESS_READ
                ) as text:
                    size = text.rfind(b"\n") + 1
                file.truncate(size)

    def discard(self) -> None:
        """Remove what was written."""
        # the rest, that cannot be written, is given up too
        with contextlib.suppress(OSError):
            self.close()
        self.partial.unlink(missing_ok=True)


def _open_locked(partial: Path) -> BinaryIO:
    """Create NAME.partial for this process alone; UsageError if another run has it open.

    What an earlier run left there, or a link, symbolic or hard, is removed; what it led to is as it was.
    """
    with contextlib.suppress(FileNotFoundError):
        refuse_locked(partial)
        partial.unlink()
    # an error if another run begins just now
    file = os.fdopen(
        os.open(
            partial,
            _NEW,
            0o666,
        ),
        "wb",
        _BUFFER,
    )
    _lock(file, partial)
    return file


def refuse_locked(partial: Path) -> None:
    """Raise UsageError if another run has NAME.partial open, OSError if it cannot be opened."""
    if not partial.is_symlink():
        with open(os.open(partial, _OLD), "rb") as old:  # noqa: PTH123 - a descriptor
            _lock(old, partial)


def _lock(file: BinaryIO, path: Path) -> None:
    """Lock a file, or close it and raise UsageError if another run has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UsageError(
            "another run is writing it",
            "wait for that run, or give another OUTPUT",
            place=str(path),
        ) from None


class RemoteFile(PassThrough):
    """A file at an address, which is collected on this machine's disk; `commit` uploads it.

    Object stores (S3, Cloud Storage, the Hugging Face hub) make an object visible when its upload is completed.
    Any other file system gets NAME.partial, which `commit` renames.
    """

    def __init__(self, store: RemoteStore) -> None:
        """Open it; raise an error if it is already known that it cannot be written."""
        self._system = store.system
        self._path = store.path
        scheme = store.public.partition("://")[0]
        self._staged = ""
        # no bucket, no credentials, no network: known now, and not at the end
        if scheme not in _OBJECT_STORES:
            self._staged = f"{self._path}.partial"
            self._system.open(self._staged, "wb").close()
        elif scheme != "hf":
            # a user who may not look at a bucket may be allowed to write to it
            with contextlib.suppress(PermissionError):
                self._system.info(self._path.partition("/")[0])
        # closed by `commit` and `discard`
        file: Any = tempfile.NamedTemporaryFile()  # noqa: SIM115
        self._take(store.public, file)

    @property
    def replaces(self) -> bool:  # type: ignore[override]  # a stream replaces nothing
        """Return whether there is an object of this name."""
        return bool(self._system.exists(self._path))

    def commit(self) -> None:
        """Upload the file and make it appear."""
        self.flush()
        self._system.put_file(self.file.name, self._staged or self._path)
        if self._staged:
            self._system.mv(self._staged, self._path)
        self._staged = ""
        self.file.close()

    def discard(self) -> None:
        """Discard what was written; never raise."""
        with contextlib.suppress(Exception):
            self.file.close()
            if self._staged:
                self._system.rm_file(self._staged)

    close = discard


def create_file(
    location: Location, kind: Kind = "OUTPUT", *, force: bool = False
) -> PassThrough:
    """Open a location for writing; UsageError if it cannot be written, or is another program's without `force`."""
    name = location.name
    path = Path(name)
    with creating(location.public, location.real):
        refuse_foreign(
            location,
            kind,
            force=force,
        )
        if location.remote:
            return RemoteFile(location.store())
        special = location.stream or (path.exists() and not path.is_file())
        return PassThrough(name) if special else LocalFile(name)


def refuse_name(name: str, *others: str) -> None:
    """Raise UsageError if a name is that of a directory, or has an ending that is never written, or one of `others`."""
    out = Location(name)
    place = out.public
    if place.endswith("/") or (out.local and Path(name).is_dir()):
        inside = f"{place.rstrip('/')}/out.jsonl"
        raise UsageError(
            "is a directory",
            f"name a file in it, e.g. {inside}, or `-` for stdout",
            place=place,
        )
    endings = (*_OTHER_ENDINGS, *others)
    if place != out.unpacked:
        endings += (".parquet", ".eval")
    stem = out.unpacked.rpartition(".")[0]
    if stem and out.unpacked.lower().endswith(endings):
        problem = f"ruler does not write {place.removeprefix(stem)} files"
        lines = stem if stem.endswith(".jsonl") else f"{stem}.jsonl"
        raise UsageError(
            problem,
            f"name it {lines}",
            place=place,
        )


def _writer_of(
    output: Location, scores: Container | None = None
) -> type[Writer]:
    """Return the writer of OUTPUT; without the `scores` of an INPUT no score can be put into a log."""
    name = output.unpacked
    is_log = scores is not None and scores.log is not None
    if name.endswith(".eval") or (is_log and name.endswith(".json")):
        from ruler_cli.files.containers.inspect_log import InspectLogWriter

        return InspectLogWriter
    if name.endswith(".json"):
        from ruler_cli.files.containers.document import ListWriter

        return ListWriter
    if name.endswith(".parquet"):
        from ruler_cli.files.containers.parquet import require_pyarrow

        require_pyarrow(output.public)
        from ruler_cli.files.arrow import TableWriter

        return TableWriter
    return LinesWriter


class Output:
    """OUTPUT, open for records; use as a context and `commit` at the end."""

    def __init__(
        self,
        name: str,
        *,
        keep: bool = True,
        force: bool = False,
    ) -> None:
        """Open a file, an address or `-`; UsageError if it cannot be written, before anything is read.

        `keep`: after an error whole records stay in NAME.partial. `force`: another program's file is replaced.
        """
        refuse_name(name)
        location = self._location = Location(name)
        self.name = location.public
        self._kind = _writer_of(location)
        self._target = create_file(location, force=force)
        self.may_block = self._target.may_block
        """Tells if writing a record may block, as on stdout that is a pipe."""
        self._keep = keep and self._target.partial is not None
        self._source: Container | None = None
        self.log: InspectLogWriter | None = None
        """OUTPUT, if it is an Inspect log."""
        self._empty = True
        self._done = False
        self._ended = False
        self._ordered: Callable[[_Records], _Records] = iter

    def write_as(
        self,
        container: Container,
        *,
        scored: bool = True,
    ) -> None:
        """Take the container of INPUT; UsageError if OUTPUT cannot be written from it.

        Without `scored` records are not those of `score`, and none can be put into an Inspect log.
        """
        name = self._location
        self._source = container if scored else None
        self._kind = _writer_of(name, self._source)
        if self._kind.keeps_all:
            self.log = cast("InspectLogWriter", self.writer)
            return
        self._source = container
        keeps_form = self._kind.form == container.form
        if not name.stream and not keeps_form and name.same(container.name):
            raise UsageError(
                "is INPUT, and would lose its form",
                "give another OUTPUT",
                place=name.public,
            )

    @cached_property
    def writer(self) -> Writer:
        """The writer of its kind."""
        return self._kind(
            self._target.stream,
            self.name,
            self._source,
        )

    def keep_order(self, order: OutputOrder) -> None:
        """Write records in the order of INPUT: records that come too early are held on disk."""
        self._ordered = order.ordered

    def write(self, records: _Records) -> int:
        """Take the records of one group; return the number of records that reached OUTPUT.

        An empty body is a record that is left out. A pipe gets all of them at once.
        """
        written = 0
        with self._errors():
            for number, record in self._ordered(records):
                if record:
                    self._empty = False
                    self.writer.put(number, record)
                    written += 1
            if type(self._target) is PassThrough:
                self._target.stream.flush()
        return written

    @property
    def replaces(self) -> bool:
        """Return whether `commit` takes the place of an OUTPUT that is there."""
        with self._errors():
            return self._target.replaces

    def commit(self) -> None:
        """Make OUTPUT appear; OutputError if it does not."""
        with self._errors():
            self._ended = True
            self.writer.end()
            self._target.commit()
        self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _: object,
        error: BaseException | None,
        __: object,
    ) -> None:
        """Close; without `commit` whole records stay in .partial files if they are to be kept."""
        if self._done:
            return
        target = self._target
        # an error of the context counts for more
        with contextlib.suppress(OSError) if error else self._errors():
            if self._empty or self.log or not self._keep:
                target.discard()
                return
            # a list or a table gets its end; damage of INPUT was reported
            with contextlib.ExitStack() as stack:
                if isinstance(target, LocalFile) and self._kind is LinesWriter:
                    stack.callback(target.drop_torn_line)
                stack.callback(target.close)
                stack.enter_context(contextlib.suppress(UsageError))
                if not self._ended:
                    self.writer.end()

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        kept = self._keep and self._kind is LinesWriter
        place = str(self._target.partial or self.name)
        return writing(place, "finished groups are kept; " if kept else "")


class FailedFile:
    """Lines that could not be read, verbatim. The file stays across runs: it may be their only copy.

    A run does not add a line that an earlier run left here; it adds all equal lines of its own input.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None collects nothing."""
        self.path = path
        self._earlier = Counter[bytes]()
        """The digests of lines that earlier runs left, and that are not met again yet."""

    def add(self, problem: Problem) -> None:
        """Append one line, unless an earlier run did or the problem has no bytes."""
        raw = problem.raw
        if self.path is None or not raw:
            return
        # a record of a document may lie over several lines
        if raw[:1] in b"{[":
            raw = raw.replace(b"\n", b" ")
        with writing(str(self.path)):
            file = self._file
            # a row of a table may lie over several lines, too
            lines = Counter(map(_digest, raw.split(b"\n")))
            if lines <= self._earlier:
                self._earlier -= lines
            else:
                file.write(raw + b"\n")

    def close(self) -> None:
        """Bring the lines to disk; call it before OUTPUT appears, so that every line is in one of them."""
        file = vars(self).pop("_file", None)
        if file is not None:
            with writing(str(self.path)), file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())

    @cached_property
    def _file(self) -> BinaryIO:
        path = cast(Path, self.path)
        line = b"\n"
        if path.is_file():
            # verbatim: a line may begin as if it were compressed
            with path.open("rb") as stream:
                for line in stream:
                    self._earlier[_digest(line.removesuffix(b"\n"))] += 1
        no_link = 0 if is_device(path) else os.O_NOFOLLOW
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_link
        file = os.fdopen(
            os.open(
                path,
                flags,
                0o666,
            ),
            "ab",
        )
        if not line.endswith(b"\n"):
            file.write(b"\n")
        return file


def _digest(line: bytes) -> bytes:
    return blake2b(line).digest()


def is_device(path: Path) -> bool:
    """Return whether a path is one of the system's, where links such as /dev/stderr stand."""
    return path.parts[:2] in (("/", "dev"), ("/", "proc"))


def refuse_input(source: str, output: str) -> None:
    """Raise UsageError if OUTPUT, which holds something else, is INPUT."""
    if source != "-" and Location(source).same(output):
        raise UsageError(
            "is INPUT",
            "give another name",
            place=output,
        )


def refuse_clashes(
    source: str, output: str, failed: Path | None = None
) -> None:
    """Raise UsageError if a file of the run is another one: the later would destroy the earlier."""
    out = Location(output)
    place_of_input = Location(source)
    partial = "-"
    if out.local:
        partial = f"{out.real}.partial"  # OUTPUT may be a link
        if place_of_input.same(partial):
            raise UsageError(
                "is where OUTPUT is written until it is complete",
                "rename it first",
                place=source,
            )
    places = [out]
    if failed is not None:
        name = str(failed)
        if not failed.parent.is_dir():
            # `Path` makes one slash of an address's two
            name = name.replace(":/", "://", 1)
        place = Location(name)
        endings = (".gz", ".zst", ".json", *_OTHER_ENDINGS)
        is_plain = not (place.remote or failed.is_dir())
        names = {source, output, partial} - {"-"}
        taken = any(Location(name).same(place.name) for name in names)
        if taken or not is_plain or failed.name.endswith(endings):
            raise UsageError(
                "is not a plain file on this machine, or is INPUT or OUTPUT",
                "give it a file of its own",
                place=f"--set failed={place.public}",
            )
        places.append(place)
    if not place_of_input.many:
        return
    listing = place_of_input.listed()
    for place in places:
        if not place.stream and listing.would_hold(place):
            raise UsageError(
                "lies in INPUT and would be read as a part of it",
                "give a path outside INPUT",
                place=place.public,
            )
