"""Inspect archives: a sample is a record."""

from __future__ import annotations

import io
import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from ruler_cli.errors import ForeignError, UsageError
from ruler_cli.reading.open import open_container
from ruler_cli.types import Line
from ruler_cli.writing.output import Output

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

MEMBERS = {
    "_journal/start.json": b"{}",
    "samples/b_epoch_1.json": b'{"id": "b",\n "epoch": 1}',
    "_journal/summaries/1.json": b"[]",
    "samples/a_epoch_1.json": b'{"id": "a"}',
    "samples/deep/x.json": b"{}",
    "header.json": b"{}",
}


def packed(method: int, members: dict[str, bytes] = MEMBERS) -> bytes:
    """Make an archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def unpacked(text: bytes) -> dict[str, bytes]:
    """Return the members of an archive, in order."""
    with zipfile.ZipFile(io.BytesIO(text)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: Path, change: dict[int, bytes], keep: set[int]) -> tuple[list[Line], bytes]:
    """Return the samples, and the archive written again with changed samples."""
    stream = io.BytesIO()
    with ExitStack() as stack:
        container = open_container(str(path), stack)
        every = list(container.records())
        assert [container.where(line.number) for line in every] == [line.where for line in every]
        encoder = container.encoder(stream)
        for line in every:
            if line.number in keep:
                encoder.put(line.number, change.get(line.number, line.raw))
        encoder.end()
    return every, stream.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_ZSTANDARD])
def test_round_trip(tmp_path: Path, method: int) -> None:
    """Samples come in the archive's order; if written back, members keep names, order, method and content."""
    path = tmp_path / "log.eval"
    path.write_bytes(packed(method))
    every, same = rewritten(path, {}, {1, 2})
    assert [line.where for line in every] == ["sample b_epoch_1", "sample a_epoch_1"]
    assert list(unpacked(same).items()) == list(MEMBERS.items())
    with zipfile.ZipFile(io.BytesIO(same)) as archive:
        assert {info.compress_type for info in archive.infolist()} == {method}
    _, other = rewritten(path, {2: b'{"new": 1}'}, {2})
    wanted = {**MEMBERS, "samples/a_epoch_1.json": b'{"new": 1}'}
    del wanted["samples/b_epoch_1.json"]
    assert list(unpacked(other).items()) == list(wanted.items())


def test_equal_names(tmp_path: Path) -> None:
    """Of two members with one name the last counts, as for every program that reads the archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("samples/a.json", b'{"n": 1}')
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("samples/a.json", b'{"n": 2}')
    path = tmp_path / "log.eval"
    path.write_bytes(stream.getvalue())
    every, same = rewritten(path, {}, {1})
    assert [line.raw for line in every] == [b'{"n": 2}']
    assert unpacked(same) == {"samples/a.json": b'{"n": 2}'}


def test_pipe(tmp_path: Path) -> None:
    """An archive that comes through a pipe is spooled to disk."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(packed(zipfile.ZIP_DEFLATED),), daemon=True)
    writer.start()
    with ExitStack() as stack:
        assert len(list(open_container(str(pipe), stack).records())) == 2
    writer.join()


def test_foreign(tmp_path: Path) -> None:
    """An archive without samples is refused with advice, and so is a torch file, which may run code."""
    path = tmp_path / "x.zip"
    for members, advice in (
        ({"7/data.pkl": b"x", "7/version": b"3"}, "is a torch file; export"),
        ({"a.jsonl": b"{}"}, "unpack it"),
    ):
        path.write_bytes(packed(zipfile.ZIP_STORED, members))
        with ExitStack() as stack, pytest.raises(ForeignError, match=advice):
            open_container(str(path), stack)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_damaged(tmp_path: Path, step: int) -> None:
    """An archive that is cut off or changed anywhere is read, or refused with a sentence that names it."""
    whole, path = packed(zipfile.ZIP_DEFLATED), tmp_path / "x.eval"
    refused = 0
    for at in range(4, len(whole), step):
        for text in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]):
            path.write_bytes(text)
            try:
                rewritten(path, {}, {1, 2})
            except UsageError as error:
                assert str(path) in str(error)
                refused += 1
    assert refused > len(whole) // step


def test_output_names(tmp_path: Path) -> None:
    """Only an archive is written as an archive, and never compressed again; JSON lines always are allowed."""
    path = tmp_path / "log.eval"
    path.write_bytes(packed(zipfile.ZIP_STORED))
    (tmp_path / "in.jsonl").write_bytes(b"{}\n")
    with ExitStack() as stack:
        log = open_container(str(path), stack)
        lines = open_container(str(tmp_path / "in.jsonl"), stack)
        for name, source, message in [
            ("o.eval", lines, "only written for"),
            ("o.zip.gz", lines, "only written for"),
            ("o.parquet", log, "only written for"),
            ("o.eval.gz", log, "packed already"),
            ("o.json", log, "INPUT is no JSON document"),
        ]:
            with Output(str(tmp_path / name)) as output, pytest.raises(UsageError, match=message):
                output.write_as(source)
        for name in ("o.jsonl", "o.ndjson.zst", "o.eval", "o"):
            with Output(str(tmp_path / name)) as output:
                output.write_as(log)
                output.write([(1, b"{}")])
                output.commit()
            assert (tmp_path / name).read_bytes()[:2] == {"o.jsonl": b"{}", "o.ndjson.zst": b"\x28\xb5"}.get(
                name, b"PK"
            )


def test_damaged_while_written(tmp_path: Path) -> None:
    """If a member that is no sample is damaged, the members before it are left as an archive."""
    members = dict.fromkeys(MEMBERS, b"") | {"samples/b_epoch_1.json": b"{}", "samples/a_epoch_1.json": b"{}"}
    (tmp_path / "a.eval").write_bytes(
        packed(zipfile.ZIP_STORED, members | {"header.json": b"MARK"}).replace(b"MARK", b"MARX", 1)
    )
    stream = io.BytesIO()
    with ExitStack() as stack:
        container = open_container(str(tmp_path / "a.eval"), stack)
        encoder = container.encoder(stream)
        for line in container.records():
            encoder.put(line.number, line.raw)
        with pytest.raises(UsageError, match="damaged"):
            encoder.end()
    assert list(unpacked(stream.getvalue())) == list(MEMBERS)[:-1]
