"""Annotated records → OUTPUT, whole or not at all; lines that could not be read → the failed file.

A file appears by atomic rename; until then it is OUTPUT.partial, which holds whole records only.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.container import Container, Encoder, Lines
from ruler_cli.files.remote import public
from ruler_cli.files.whole import LocalFile, begin
from ruler_cli.records import Problem

_OWN = {".parquet": "row", ".eval": "sample", ".zip": "sample"}
"""Names that only one kind of container may have, by the unit of that kind."""


class Output:
    """OUTPUT as records are written to it; use as a context and `commit` at the end."""

    def __init__(self, name: str) -> None:
        """Open OUTPUT, an address or `-`; UsageError where it cannot be written, before anything is read."""
        self.name = public(name)
        self._file = begin(name)
        self.waits = self._file.waits
        """Whether a record may have to wait for somebody who takes it, as on stdout."""
        self._empty, self._done = True, False
        self._container: Container | None = None
        self._encoder: Encoder | None = None
        self._ended = False

    def into(self, container: Container) -> None:
        """Write a container of INPUT's kind, where the name does not ask for JSON lines.

        UsageError where the name asks for what cannot be made of this INPUT.
        """
        refuse_shape(self.name, container)
        self._container = None if as_lines(self.name) else container

    def put(self, number: int, body: bytes) -> None:
        """Append the record with this number."""
        self._empty = False
        with self._sentence():
            self._shape().put(number, body)
            if self._file.through:
                self._file.stream.flush()

    def commit(self) -> None:
        """Make OUTPUT appear; OutputError where it does not."""
        with self._sentence():
            self._end()
            self._file.end()
            self._file.commit()
        self._done = True

    def __enter__(self) -> Output:
        """The output, open."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close; without `commit` what is whole so far stays in OUTPUT.partial, and at an address nothing."""
        if self._done:
            return
        local = self._file if isinstance(self._file, LocalFile) else None
        try:
            if local is None or self._empty:
                self._file.discard()
                return
            try:
                if not isinstance(error, OutputError):
                    with contextlib.suppress(UsageError):  # INPUT is damaged, and that is told already
                        self._end()  # a document without its end could not be read
            finally:
                local.keep()
        except OSError as late:
            if local is not None and local.packed and self._container is None:
                _cut_torn(local.partial)
            if error is None:
                raise self._stuck(late) from None

    def _shape(self) -> Encoder:
        """What puts records together; made with the first of them, when all of INPUT is known."""
        if self._encoder is None:
            stream = self._file.stream
            self._encoder = self._container.encoder(stream) if self._container else Lines(stream)
        return self._encoder

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._shape().end()

    @contextlib.contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._stuck(error) from None

    def _stuck(self, error: OSError) -> OutputError:
        where = self._file.partial if isinstance(self._file, LocalFile) else self.name
        kept = "what is whole so far is kept; " if isinstance(self._file, LocalFile) else ""
        return OutputError(
            f"{where}: cannot be written: {error.strerror}; {kept}make room, then run the same command again"
        )


def as_lines(name: str) -> bool:
    """Whether an OUTPUT of this name is JSON lines whatever INPUT is."""
    return name == "-" or plain_name(name).endswith((".jsonl", ".ndjson"))


def plain_name(name: str) -> str:
    """A name without the ending that asks for compression."""
    return name.removesuffix(".gz").removesuffix(".zst")


def refuse_shape(name: str, container: Container) -> None:
    """UsageError where OUTPUT's name asks for a kind of file that is not made of this INPUT."""
    if not container.rewritable:
        _refuse_own_shape(name, container)
    if as_lines(name):
        return
    inner = plain_name(name)
    asked = next((end for end in _OWN if inner.endswith(end)), None)
    mine = container.unit in _OWN.values()
    if asked and _OWN[asked] != container.unit:
        raise UsageError(f"{name}: a {asked} file is only written for one as INPUT; name OUTPUT .jsonl")
    if mine and inner != name:
        raise UsageError(f"{name}: such a file is packed already; leave out the last ending")
    if mine and inner.endswith(".json"):
        own = " or ".join(end for end, unit in _OWN.items() if unit == container.unit)
        raise UsageError(f"{name}: INPUT is no JSON document; name OUTPUT {own} as INPUT is, or .jsonl")


def _refuse_own_shape(name: str, container: Container) -> None:
    """The same where the records are made of events: a file of events is not written."""
    same = name != "-" and os.path.realpath(name) == os.path.realpath(container.name)
    if same or plain_name(name).endswith(".json"):
        raise UsageError(
            f"{name}: INPUT holds rollouts of many events, which are not written again in their shape; "
            f"name {'another OUTPUT' if same else 'OUTPUT'} .jsonl, and it holds one record a rollout"
        )


class FailedFile:
    """Lines that could not be read, verbatim; kept across runs: it may be their only copy.

    A run that meets a line which an earlier run left here does not add it again; equal lines of one
    input are all kept.
    """

    def __init__(self, path: Path | None) -> None:
        """Collect into `path`, which appears with the first line; None only counts."""
        self.path = path
        self.written = 0
        self._file: BinaryIO | None = None
        self._held: Counter[bytes] = Counter()

    def add(self, problem: Problem) -> None:
        """Append one line unless an earlier run did; nothing of what has no bytes."""
        if self.path is None or not problem.raw:
            return
        try:
            if self._file is None:
                self._file = self._open(self.path)
            raw = problem.raw.replace(b"\n", b" ")  # a record of a document may lie over several lines
            mark = _digest(raw)
            if self._held[mark]:
                self._held[mark] -= 1
                return
            self._file.write(raw + b"\n")
            self.written += 1
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Bring the lines to disk; done before OUTPUT appears, so that no line is in neither."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            with file:
                file.flush()
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _open(self, path: Path) -> BinaryIO:
        torn = False
        if path.exists() and path.stat().st_size:
            with path.open("rb") as stream:  # verbatim: a line may begin as if it were compressed
                self._held = Counter(_digest(raw.removesuffix(b"\n")) for raw in stream)
            with path.open("rb") as stream:
                stream.seek(-1, os.SEEK_END)
                torn = stream.read(1) != b"\n"
        file = path.open("ab")
        if torn:
            file.write(b"\n")
        return file


def _digest(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=16).digest()


def _cut_torn(partial: Path) -> None:
    """Leave whole records only, after the disk filled up within one."""
    with partial.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - (1 << 16))
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        file.truncate(end)
