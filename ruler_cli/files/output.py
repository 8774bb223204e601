"""Annotated records → OUTPUT, a file or a directory; unreadable lines → the failed file.

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
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from ruler_cli.errors import OutputError, Sentence, UsageError
from ruler_cli.files.atomic import (
    LocalFile,
    PassThrough,
    StagedFiles,
    create_file,
    create_new,
    open_errors,
    write_errors,
)
from ruler_cli.files.container import (
    Container,
    Encoder,
    MultiFileContainer,
    write_lines,
    write_list,
)
from ruler_cli.files.directory import find_trials
from ruler_cli.files.file_names import TEXT, refuse_ending, refuse_output_name
from ruler_cli.files.inspect_log import InspectLog, LogKind
from ruler_cli.files.location import Listing, Location, is_ignored
from ruler_cli.files.scratch import Index, Place
from ruler_cli.settings.models import ScoreSettings
from ruler_cli.types import Problem

_FILES = (".json", ".parquet", ".eval", ".zip", ".csv", ".txt")
"""Names that are meant for one file."""


def open_output(source: str, output: str, *, keep: bool = True) -> Output:
    """OUTPUT of an INPUT: a directory where that is many files and the name does not ask for JSON lines.

    `keep`: after an error whole records stay in .partial files.
    """
    return Output(output, many=_is_directory(source, output), keep=keep)


def refuse_output(source: str, output: str) -> None:
    """Raise UsageError if OUTPUT cannot be written, as far as that shows without writing."""
    location = Location(output)
    if not _is_directory(source, output) and location.local:
        with open_errors(location):
            location.real.parent.stat()


def _is_directory(source: str, output: str) -> bool:
    """Tell if OUTPUT is to be a directory; UsageError if its name promises what INPUT does not become."""
    out = Location(output)
    if not Location(source).many or out.as_lines:
        refuse_output_name(source, output)
        return False
    if out.unpacked.endswith(_FILES) and not Path(output).is_dir():
        what = (
            "the address of a directory, or one"
            if out.remote
            else "a directory, or a name"
        )
        raise UsageError(
            f"{out.public}: INPUT is many files; give {what} that ends in .jsonl"
        )
    return True


class Output:
    """OUTPUT, open for records; use as a context and `commit` at the end."""

    def __init__(self, name: str, *, many: bool = False, keep: bool = True) -> None:
        """Open a file, an address or `-`, or with `many` a directory of the files of INPUT.

        UsageError if it cannot be written, before anything is read.
        """
        self._location = Location(name)
        self.name = self._path = self._location.public
        self._target = (
            StagedFiles(self._location) if many else create_file(self._location)
        )
        self.may_block = self._target.may_block
        """Tells if writing a record may block, as on stdout that is a pipe."""
        self._keep = keep
        self._advice = (
            "what is whole so far is kept; "
            if keep and self._target.partial is not None
            else ""
        )
        if isinstance(self._target, LocalFile):
            self._path = str(self._target.partial)
        self._container: Container | None = None
        """INPUT, if OUTPUT is of its kind, and not JSON lines."""
        self.log: InspectLog | None = None
        """OUTPUT, if it is an Inspect log."""
        self._empty, self._done, self._listed = True, False, False
        self._index: Index | None = None
        self._order: Iterator[Place] = iter(())

    def write_as(self, container: Container, *, scored: bool = True) -> None:
        """Write the kind of INPUT, unless the name asks for JSON lines; UsageError if that is impossible.

        Without `scored` records are not those of `score`, and none can be put into an Inspect log.
        """
        if isinstance(container, MultiFileContainer) and isinstance(
            self._target, StagedFiles
        ):
            _refuse_others(self._location, container.listing)
            container.in_place = not self._location.remote and self._location.same(
                container.listing.base
            )
            container.output_directory = self.name
            self._container = container
            return
        kind = _log_kind(self._location, container) if scored else None
        if container.log and kind and not isinstance(self._target, StagedFiles):
            self.log = InspectLog(
                self.name, container.name, container.log, kind, self._target.stream
            )
            self._advice = ""
            return
        _refuse_shape(self._location, container)
        rewritable = (
            not container.lines_only
            and type(container).rewrite is not Container.rewrite
        )
        if not self._location.as_lines and rewritable:
            self._container = container
        elif self._location.unpacked.endswith(".json") and container.unit == "line":
            # JSON lines that are called .json stay JSON lines
            self._listed = not Location(container.name).unpacked.endswith(".json")
        if self._keep and (self._container or self._listed):
            self._advice = "it has no end yet and cannot be read; "

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
            if isinstance(self._container, MultiFileContainer) and isinstance(
                self._target, StagedFiles
            ):
                self._container.write_other_files(self._target)
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
                # a document gets its end, so that it can be read; damage of INPUT was reported
                with contextlib.closing(target), contextlib.suppress(UsageError):
                    self._encoder.end()
            finally:
                lines = self._container is None and not self._listed
                if isinstance(target, LocalFile) and target.plain and lines:
                    _cut_torn(target.partial)

    @cached_property
    def _encoder(self) -> Encoder | InspectLog:
        """The encoder, made with the first record, when all of INPUT is known."""
        if self.log:
            return self.log
        if isinstance(self._target, StagedFiles):
            assert isinstance(self._container, MultiFileContainer)  # noqa: S101 - `write_as` came before
            return Encoder(self.name, self._container.rewrite_files(self._target))
        stream = self._target.stream
        if self._container:
            return self._container.encoder(stream)
        return Encoder(
            self.name, write_list(stream) if self._listed else write_lines(stream)
        )

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return write_errors(self._path, self._advice)


def _refuse_others(folder: Location, listing: Listing) -> None:
    """Raise UsageError if a directory lies in INPUT, or holds files that are none of INPUT's."""
    root = listing.root
    if not root.remote and root.real in folder.real.parents:
        raise UsageError(
            f"{folder.name}: lies in INPUT and would be read as a part of it; give one outside"
        )
    present: Sequence[str] = ()
    if folder.many:
        with contextlib.suppress(UsageError):  # it is empty
            present = folder.listed().names
    other = next(
        (
            name
            for name in present
            if name not in listing.names and not is_ignored(name)
        ),
        None,
    )
    if other is not None and not folder.same(root.name):
        raise UsageError(
            f"{folder.public}: holds {other}, which is no file of INPUT; give a directory of its own"
        )


def _log_kind(output: Location, container: Container) -> LogKind | None:
    """Return the kind of Inspect log that OUTPUT's name asks for; None if it is to be something else."""
    if container.log is None or output.as_lines:
        return None
    if output.unpacked.endswith(".eval") and output.unpacked != output.public:
        raise UsageError(
            f"{output.public}: such a file is packed already; leave out the last ending"
        )
    kinds: dict[str, LogKind] = {".eval": "eval", ".json": "json"}
    return next(
        (kind for ending, kind in kinds.items() if output.unpacked.endswith(ending)),
        None,
    )


def _refuse_shape(output: Location, container: Container) -> None:
    """Raise UsageError if OUTPUT's name asks for a kind of file that cannot be made from this INPUT."""
    name, inner = output.public, output.unpacked
    same = not output.stream and output.same(container.name)
    if container.lines_only and (same or inner.endswith(".json")):
        other = "another OUTPUT" if same else "OUTPUT"
        raise UsageError(f"{name}: INPUT {container.lines_only}; name {other} .jsonl")
    if output.as_lines:
        return
    if inner.endswith(".eval"):
        raise UsageError(
            f"{name}: a .eval file is only written with the scores of an Inspect log; name OUTPUT .jsonl"
        )
    table = container.unit == "row"
    if inner.endswith(".parquet") and not table:
        raise UsageError(
            f"{name}: a .parquet file is only written for a .parquet INPUT; name OUTPUT .jsonl"
        )
    if table and inner != name:
        raise UsageError(
            f"{name}: such a file is packed already; leave out the last ending"
        )
    if table and inner.endswith(".json"):
        raise UsageError(
            f"{name}: INPUT is no JSON document; name OUTPUT .parquet as INPUT is, or .jsonl"
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
        listing, out = Location(source).listed(), Location(output)
        places = [out] * (out.as_lines or out.remote) + [Location(str(failed))] * (
            failed is not None
        )
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
    listing = source.listed() if source.many else None
    root = source.name if listing is None else listing.base
    if output.same(root):
        problem = f"OUTPUT {output.public} is INPUT, of which only {left} would be left"
        raise UsageError(problem, option=option)
    if (
        listing is not None
        and not source.remote
        and not output.as_lines
        and find_trials(listing)
    ):
        problem = "a Harbor job as OUTPUT would hold other trials too, not scored"
        raise UsageError(problem, "name it .jsonl", option=option)


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
