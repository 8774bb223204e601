"""INPUT as the container that it is."""

from __future__ import annotations

import gzip
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files.compression import zstd
from ruler_cli.files.container import Container
from ruler_cli.files.document import Document
from ruler_cli.files.open import JsonLines, LinesOnce, open_container

LINES = b'{"a": 1}\n\n{"a": 2}'
LIST = b'[{"a": 1},\n {"a": 2}]'
HELD = b'{"trajectory_groups": [{"a": 1}, {"a": 2}]}\n'


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress], ids=["plain", "gz", "zst"])
@pytest.mark.parametrize("text", [LINES, b"\n \n" + LINES, LIST, b"\n" + LIST, HELD])
@pytest.mark.parametrize("pipe", [False, True], ids=["file", "pipe"])
def test_kinds(tmp_path: Path, pack: type, text: bytes, pipe: bool) -> None:
    """The first bytes tell what it is, compressed or not; what comes once is JSON lines in a pipe only."""
    path = tmp_path / "in.csv"
    if pipe:
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(pack(text),), daemon=True).start()
    else:
        path.write_bytes(pack(text))
    with ExitStack() as stack:
        found = open_container(str(path), stack)
        is_lines = LINES in text
        wanted = Document if not is_lines else LinesOnce if pipe else JsonLines
        assert type(found) is wanted
        assert found.once is (wanted is LinesOnce)
        assert found.plain is (wanted is Document or (wanted is JsonLines and pack is bytes))
        every = list(found.records())
        assert [line.raw for line in every] == [b'{"a": 1}', b'{"a": 2}']
        assert [found.where(line.number) for line in every] == [line.where for line in every]
        if not found.once:
            assert list(found.records()) == every == found.sample(9)
        if found.plain:
            assert [os.pread(found.fileno(), len(x.raw), x.offset) for x in every] == [x.raw for x in every]


def test_silent_pipe(tmp_path: Path) -> None:
    """JSON lines in a pipe are told by the first line: nobody waits for the second."""
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
        found = open_container(str(path), stack)
        first = next(records := found.records())
        assert first.raw == b'{"a": 1}'
        go_on.set()
        assert next(records).raw == b'{"a": 2}'
        writer.join()


def test_long_first_line(tmp_path: Path) -> None:
    """A first line beyond all measure is read whole from a pipe, too."""
    long = b'{"a": "%s"}' % (b"x" * 9_000_000)
    path = tmp_path / "in"
    path.write_bytes(gzip.compress(long + b"\n{}\n", 1))
    with ExitStack() as stack:
        assert [line.raw for line in open_container(str(path), stack).records()] == [long, b"{}"]


@pytest.mark.parametrize("pipe", [False, True])
def test_parquet(tmp_path: Path, pipe: bool) -> None:
    """What cannot be Parquet after its first bytes, or has no reader installed, is a sentence."""
    path, text = tmp_path / "in", b"PAR1 and nothing else"
    if pipe:
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(text,), daemon=True).start()
    else:
        path.write_bytes(text)
    with ExitStack() as stack, pytest.raises(UsageError, match="Parquet"):
        open_container(str(path), stack)


@pytest.mark.parametrize("head", ['{"a":1}'.encode("utf-16"), b"BZh91AY", b"\xfd7zXZ\x00"])
def test_foreign(tmp_path: Path, head: bytes) -> None:
    """What holds no text is refused before it is read."""
    (tmp_path / "in").write_bytes(head)
    with ExitStack() as stack, pytest.raises(UsageError, match=r"bunzip2|iconv|unxz"):
        open_container(str(tmp_path / "in"), stack)


def test_many(tmp_path: Path) -> None:
    """A directory and a pattern are many files."""
    (tmp_path / "a.jsonl").write_bytes(LINES)
    with ExitStack() as stack:
        for name in (tmp_path, tmp_path / "*.jsonl"):
            found: Container = open_container(str(name), stack)
            assert [line.place for line in found.records()] == ["a.jsonl line 1", "a.jsonl line 3"]
