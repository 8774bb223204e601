"""Files of every make as lines."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import capped, lines, zstd
from ruler_cli.records import Line
from tests.files.opening import open_source


def read(path: Path) -> list[Line]:
    """All lines of a file."""
    with open_source(str(path)) as stream:
        return list(lines(str(path), stream))


def refused(path: Path) -> str:
    """The sentence with which a file is refused."""
    with pytest.raises(UsageError) as error:
        read(path)
    assert str(path) in str(error.value)
    return str(error.value)


TEXT = b'{"a":1}\n\n  \r\n{"b":2}\r\n{"c":"\xe2\x80\xa8 \xc2\x85"}'


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:]),
        zstd.compress(TEXT),
        zstd.compress(TEXT[:10]) + zstd.compress(TEXT[10:]),
        zstd.compress(TEXT[:10]) + b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + zstd.compress(TEXT[10:]),
    ],
    ids=["plain", "gz", "gz members", "zst", "zst frames", "zst skippable"],
)
def test_lines(tmp_path: Path, packed: bytes) -> None:
    """Lines end at LF only, blank ones are passed over, and compression is told by the bytes."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(packed)
    found = read(path)
    assert [line.number for line in found] == [1, 4, 5]
    assert [line.raw for line in found] == [b'{"a":1}', b'{"b":2}\r', TEXT.rpartition(b"\n")[2]]
    assert all(TEXT[x.offset : x.offset + len(x.raw)] == x.raw for x in found)


@given(st.lists(st.binary(max_size=8).filter(lambda b: b"\n" not in b), max_size=6), st.booleans())
def test_offsets(tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], ends: bool) -> None:
    """Number, offset and bytes of every line lead back to the file, with and without a last LF."""
    text = b"{}\n" + b"\n".join(parts) + (b"\n" if ends else b"")
    path = tmp_path_factory.mktemp("offsets") / "in"
    path.write_bytes(text)
    found = read(path)
    assert [x.raw for x in found] == [x for x in text.split(b"\n") if x.strip(b" \t\r\n\x0b\x0c")]
    assert all(text[x.offset :].startswith(x.raw) for x in found)


def test_bom(tmp_path: Path) -> None:
    """A byte order mark is no part of the first line, and offsets stay true."""
    path = tmp_path / "in"
    path.write_bytes(b"\xef\xbb\xbf{}\n[]\n")
    assert read(path) == [Line(1, 3, b"{}"), Line(2, 6, b"[]")]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gz", "zst"])
def test_cut_off(tmp_path: Path, pack: type) -> None:
    """Compressed data that is cut off is a sentence, not a short file."""
    path = tmp_path / "in"
    path.write_bytes(pack(os.urandom(50_000).hex().encode() + b"\n")[:-9])
    assert "damaged or cut off" in refused(path)


def test_damaged(tmp_path: Path) -> None:
    """Compressed data that is damaged is a sentence."""
    path = tmp_path / "in"
    packed = bytearray(gzip.compress(os.urandom(1000)))
    packed[200:210] = b"0123456789"
    path.write_bytes(packed)
    assert "damaged or cut off" in refused(path)
    path.write_bytes(zstd.compress(b"{}\n") + b"garbage that is no frame")
    assert "damaged or cut off" in refused(path)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ('{"a":1}'.encode("utf-16"), "iconv -f UTF-16"),
        ('{"a":1}'.encode("utf-16-le"), "iconv -f UTF-16LE"),
        ('{"a":1}'.encode("utf-16-be"), "iconv -f UTF-16BE"),
        (b"PAR1....", "read_parquet"),
        (b"PK\x03\x04....", "unpack it"),
        (b"BZh91AY", "bunzip2"),
        (b"\xfd7zXZ\x00", "unxz"),
    ],
)
def test_foreign(tmp_path: Path, head: bytes, says: str) -> None:
    """A file that is no JSON lines is named, with the way out."""
    path = tmp_path / "in"
    path.write_bytes(head)
    assert says in refused(path)


def test_no_file(tmp_path: Path) -> None:
    """A missing file and a directory are sentences."""
    assert "no such file" in refused(tmp_path / "none")
    assert "is a directory" in refused(tmp_path)


def test_unreadable() -> None:
    """A file that opens and cannot be read is a sentence."""
    path = Path("/proc/self/mem")
    if not path.exists():
        pytest.skip("needs Linux's /proc")
    assert "cannot be read" in refused(path)


def test_forbidden(tmp_path: Path) -> None:
    """A file without permission is a sentence."""
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "in"
    path.touch(0o000)
    assert "cannot be read: Permission denied" in refused(path)


def test_empty(tmp_path: Path) -> None:
    """An empty file has no lines."""
    path = tmp_path / "in"
    path.touch()
    assert read(path) == []


@given(parts=st.lists(st.binary(max_size=6), max_size=6), most=st.integers(0, 8))
def test_capped(parts: list[bytes], most: int) -> None:
    """A line is whole, or cut where it is longer than allowed and then still is; none is split into two."""
    whole = b"\n".join(parts)
    found = list(capped(io.BytesIO(whole), most))
    expected = whole.split(b"\n")
    expected = expected if expected[-1] else expected[:-1]
    assert len(found) == len(expected)
    for line, full in zip(found, expected, strict=True):
        bare = line.removesuffix(b"\n")
        assert bare == full if len(full) <= most else len(bare) > most and full.startswith(bare)
