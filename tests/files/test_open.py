"""INPUT is opened as its kind of container, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers.document import Document
from ruler_cli.files.containers.lines import JsonLines, lines
from ruler_cli.files.error_map import zstd
from ruler_cli.types import Line

PACKS: tuple[Callable[[bytes], bytes], ...] = (
    bytes,
    gzip.compress,
    zstd.compress,
)
LINES = b'{"a": 1}\n\n{"a": 2}'
LIST = b'[{"a": 1},\n {"a": 2}]'
HELD = b'{"trajectory_groups": [{"a": 1}, {"a": 2}]}\n'
TEXT = b'{"a":1}\n\n  \r\n{"b":2}\r\n{"c":"\xe2\x80\xa8 \xc2\x85"}'
PACKED = (
    TEXT,
    gzip.compress(TEXT),
    gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:]),
    zstd.compress(TEXT),
    zstd.compress(TEXT[:10]) + zstd.compress(TEXT[10:]),
    zstd.compress(TEXT[:10])
    + b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    + zstd.compress(TEXT[10:]),
)
"""The plain text, gzip of one and two members, Zstandard of one, of two and with a skippable frame."""


def read(path: Path) -> list[Line]:
    """Read all records of a file."""
    with ExitStack() as stack:
        return list(open_container(str(path), stack).records())


def refused(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(UsageError) as error:
        read(path)
    assert str(path) in str(error.value)
    return str(error.value)


def fed(path: Path, text: bytes) -> threading.Thread:
    """Make a named pipe that gets a text."""
    os.mkfifo(path)
    writer = threading.Thread(
        target=path.write_bytes, args=(text,), daemon=True
    )
    writer.start()
    return writer


def test_kinds(tmp_path: Path) -> None:
    """The first bytes show the kind, compressed or not; only JSON lines in a pipe are read `once`."""
    texts = (LINES, b"\n \n" + LINES, LIST, b"\n" + LIST, HELD)
    every = itertools.product((False, True), texts, PACKS)
    for number, (pipe, text, pack) in enumerate(every):
        path = tmp_path / f"{number}.csv"
        if pipe:
            fed(path, pack(text))
        else:
            path.write_bytes(pack(text))
        with ExitStack() as stack:
            container = open_container(str(path), stack)
            wanted = Document if LINES not in text else JsonLines
            assert type(container) is wanted
            assert container.once is (pipe and wanted is JsonLines)
            assert (container.fd is not None) is (
                wanted is Document or (not pipe and pack is bytes)
            )
            records = list(container.records())
            assert [line.raw for line in records] == [b'{"a": 1}', b'{"a": 2}']
            assert [container.where(line.number) for line in records] == [
                line.where for line in records
            ]
            if not container.once:
                assert (
                    list(container.records()) == records == container.sample(9)
                )
            if container.fd is not None:
                again = [
                    os.pread(container.fd, len(x.raw), x.offset)
                    for x in records
                ]
                assert again == [x.raw for x in records]


def test_lines(tmp_path: Path) -> None:
    """Lines end at LF only, blank lines are ignored, and the first bytes show the compression."""
    for packed in PACKED:
        (tmp_path / "in.jsonl").write_bytes(packed)
        records = read(tmp_path / "in.jsonl")
        assert [line.number for line in records] == [1, 4, 5]
        assert [line.raw for line in records] == [
            b'{"a":1}',
            b'{"b":2}\r',
            TEXT.rpartition(b"\n")[2],
        ]
        assert all(
            TEXT[x.offset : x.offset + len(x.raw)] == x.raw for x in records
        )


def test_damaged(tmp_path: Path) -> None:
    """Compressed data that is cut off or damaged is an error, not a short file."""
    path, many = tmp_path / "in", os.urandom(50_000).hex().encode() + b"\n"
    changed = bytearray(gzip.compress(os.urandom(1000)))
    changed[200:210] = b"0123456789"
    behind = zstd.compress(b"{}\n") + b"garbage that is no frame"
    for data in (
        gzip.compress(many)[:-9],
        zstd.compress(many)[:-9],
        bytes(changed),
        behind,
    ):
        path.write_bytes(data)
        assert "is damaged, truncated or unsupported" in refused(path)


def test_large_window(tmp_path: Path) -> None:
    """A Zstandard window that is larger than is read is refused with the library's reason."""
    path, option = tmp_path / "in it.zst", zstd.CompressionParameter.window_log
    for log in (27, 31):
        compressor = zstd.ZstdCompressor(options={option: log})
        path.write_bytes(compressor.compress(LINES) + compressor.flush())
        if log == 27:
            assert [line.raw for line in read(path)] == [
                b'{"a": 1}',
                b'{"a": 2}',
            ]
    assert "requires too much memory" in refused(path)


def test_foreign(tmp_path: Path) -> None:
    """A file without text, or that does not exist, is refused before it is read, with advice."""
    path = tmp_path / "in"
    widths = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
    packed = (
        bz2.compress(LINES),
        lzma.compress(LINES),
        gzip.compress(bytes(99)),
    )
    for text in (*(LINES.decode().encode(name) for name in widths), *packed):
        path.write_bytes(text)
        assert "neither text nor a known container (it begins with" in refused(
            path
        )
        assert "convert it to JSON lines" in refused(path)
    path.write_bytes(b"PAR1 and nothing else")
    assert "damaged, truncated" in refused(path)
    fed(tmp_path / "pipe", b"PAR1 and nothing else")
    assert "damaged, truncated" in refused(tmp_path / "pipe")
    assert "no such file" in refused(tmp_path / "none")
    if os.geteuid():
        path.chmod(0o000)
        assert "cannot be read: Permission denied" in refused(path)
    if Path("/proc/self/mem").exists():
        assert "cannot be read" in refused(Path("/proc/self/mem"))


def test_zeros(tmp_path: Path) -> None:
    """Zeros that a crash left before or behind records make no other file of them."""
    path = tmp_path / "in"
    for text in (bytes(90) + b"\n" + LINES, LINES + b"\n" + bytes(90)):
        path.write_bytes(text)
        assert {b'{"a": 1}', b'{"a": 2}'} <= {line.raw for line in read(path)}


@given(text=st.text("a \r\n", max_size=40), most=st.integers(1, 8))
def test_long_lines(text: str, most: int) -> None:
    """A line is whole, or its beginning and its size if it has more bytes; offsets are those of the text."""
    whole = text.encode()
    cut_lines = list(lines("in", io.BytesIO(whole), most))
    expected = [
        (n, part)
        for n, part in enumerate(whole.split(b"\n"), 1)
        if part.strip() or len(part) > most
    ]
    assert [line.number for line in cut_lines] == [
        number for number, _ in expected
    ]
    for line, (_, part) in zip(cut_lines, expected, strict=True):
        assert line.skipped == (len(part) if len(part) > most else 0)
        assert whole[line.offset : line.end] == part
        assert part.startswith(line.raw)


def test_slow_pipe(tmp_path: Path) -> None:
    """The first line of a pipe shows JSON lines: it is a record before the second line comes."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    go_on = threading.Event()

    def slowly() -> None:
        with path.open("wb", buffering=0) as stream:
            stream.write(LINES[:9])
            assert go_on.wait(20)
            stream.write(LINES[9:])

    writer = threading.Thread(target=slowly, daemon=True)
    writer.start()
    with ExitStack() as stack:
        records = open_container(str(path), stack).records()
        assert next(records).raw == b'{"a": 1}'
        go_on.set()
        assert next(records).raw == b'{"a": 2}'
        writer.join()


def test_long_first_line(tmp_path: Path) -> None:
    """A very long first line of a stream is read whole."""
    long = b'{"a": "%s"}' % (b"x" * 9_000_000)
    (tmp_path / "in").write_bytes(gzip.compress(long + b"\n{}\n", 1))
    assert [line.raw for line in read(tmp_path / "in")] == [long, b"{}"]
