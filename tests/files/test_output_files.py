"""OUTPUT, its partial file and the failed file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files import open_container
from ruler_cli.files.containers import Container
from ruler_cli.files.location import Location
from ruler_cli.files.output import FailedFile, Output
from ruler_cli.files.source import decompressed
from ruler_cli.types import Line, Problem
from tests.conftest import ROOT, Ruler
from tests.test_laws import disk_of


def content(path: Path) -> bytes:
    """Read the bytes of a file, decompressed."""
    with Location(str(path)).open() as stream:
        return decompressed(str(path), stream).read()


def stored(path: Path) -> list[bytes]:
    """Read the lines of a file, decompressed."""
    return content(path).splitlines()


def test_atomic(tmp_path: Path) -> None:
    """`commit` replaces OUTPUT as a whole, compressed as its name says.

    After an exception OUTPUT is as before, and OUTPUT.partial holds whole records.
    """
    records = [b"%d" % n for n in range(1000)]
    for name in ("out.jsonl", "out.jsonl.gz", "out.jsonl.zst"):
        path = tmp_path / name
        path.write_bytes(b"old\n")
        error = pytest.raises(ZeroDivisionError)
        with error, Output(str(path), force=True) as output:
            for n, record in enumerate(records):
                output.write([(n, record)])
            raise ZeroDivisionError
        assert (path.read_bytes(), stored(tmp_path / f"{name}.partial")) == (
            b"old\n",
            records,
        )
        with Output(str(path), force=True) as output:
            for n, record in enumerate(records):
                output.write([(n, record)])
            assert path.read_bytes() == b"old\n"
            output.commit()
        assert stored(path) == records
        assert (path.read_bytes()[:2] == b"0\n") is (name == "out.jsonl")
    assert len(list(tmp_path.iterdir())) == 3


def test_pipe(tmp_path: Path) -> None:
    """A named pipe gets each record as it is written."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with Output(str(path)) as output:
        output.write([(1, b"{}")])
        assert os.read(reading, 100) == b"{}\n"
        output.commit()
    os.close(reading)


def test_locked(tmp_path: Path) -> None:
    """Two runs never write one OUTPUT."""
    name = str(tmp_path / "out")
    with Output(name) as output:
        with pytest.raises(UsageError, match="another run is writing it"):
            Output(name)
        output.write([(1, b"{}")])
        output.commit()
    with Output(name, force=True):
        pass
    assert stored(tmp_path / "out") == [b"{}"]


def test_symbolic_link(tmp_path: Path) -> None:
    """OUTPUT that is a symbolic link stays one, and its target keeps its permissions."""
    (tmp_path / "far").mkdir()
    link, target = tmp_path / "link", tmp_path / "far" / "out"
    target.touch(0o600)
    link.symlink_to(target)
    with Output(str(link)) as output:
        output.write([(1, b"{}")])
        output.commit()
    assert link.is_symlink()
    assert target.read_bytes() == b"{}\n"
    assert target.stat().st_mode & 0o777 == 0o600


@contextmanager
def documented(
    tmp_path: Path, text: bytes
) -> Iterator[tuple[Container, list[Line]]]:
    """Open a JSON document as INPUT, and read its records."""
    path = tmp_path / "in.json"
    path.write_bytes(text)
    with ExitStack() as stack:
        container = open_container(str(path), stack)
        yield container, list(container.records())


LIST = b'[\n {"a": 1},\n {"a":\n 2},\n {"a": 3}\n]\n'


def test_form(tmp_path: Path) -> None:
    """The name of OUTPUT decides on lines, a list or a table, whatever INPUT is; .gz and .zst compress.

    A list without records, and the partial file of an interrupted run, are lists too.
    """
    lines = b'{"a": 1}\n{"a":  2}\n{"a": 3}\n'
    items = b'[\n{"a": 1},\n{"a":\n 2},\n{"a": 3}\n]\n'
    names = ("o.json", "o.json.gz", "o", "o.jsonl", "o.ndjson.zst", "o.parquet")
    for name in names:
        with (
            documented(tmp_path, LIST) as (container, every),
            Output(str(tmp_path / name)) as output,
        ):
            output.write_as(container)
            for line in every:
                output.write([(line.number, line.raw)])
            output.commit()
        if name == "o.parquet":
            table = pq.read_table(tmp_path / name)
            assert table.to_pylist() == [{"a": 1}, {"a": 2}, {"a": 3}]
        else:
            assert content(tmp_path / name) == (
                items if ".json." in f"{name}." else lines
            )
    with (
        documented(tmp_path, LIST) as (container, every),
        Output(str(tmp_path / "o.json"), force=True) as output,
    ):
        output.write_as(container)
        output.commit()
    assert (tmp_path / "o.json").read_bytes() == b"[]\n"
    cut = pytest.raises(ZeroDivisionError)
    with (
        documented(tmp_path, LIST) as (container, every),
        cut,
        Output(str(tmp_path / "p.json")) as output,
    ):
        output.write_as(container)
        output.write([(2, every[1].raw)])
        raise ZeroDivisionError
    assert (tmp_path / "p.json.partial").read_bytes() == b'[\n{"a":\n 2}\n]\n'


IN_PLACE = {
    "a.jsonl": (b"{}\n", True),
    "a.json": (b"[{}]", True),
    "b.json": (b"{}\n{}\n", False),
    "b.jsonl": (b"[{}]", False),
    "c.json": (b'{"trajectory_groups": [{}]}', False),
    "d.json": (b'{\n"a": 1\n}\n{\n"a": 2\n}\n', False),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(tmp_path: Path, name: str) -> None:
    """OUTPUT may be INPUT only if it keeps the form of lines, a bare list or a table."""
    content, allowed = IN_PLACE[name]
    path = tmp_path / name
    path.write_bytes(content)
    refused = (
        nullcontext()
        if allowed
        else pytest.raises(UsageError, match="is INPUT")
    )
    with ExitStack() as stack, Output(str(path), force=True) as output, refused:
        output.write_as(open_container(str(path), stack))


def add_failed(path: Path | None, *raws: bytes) -> int:
    """Add failed lines in one run, and return the number of new ones."""
    before = path.read_bytes().count(b"\n") if path and path.is_file() else 0
    failed = FailedFile(path)
    for raw in raws:
        failed.add(Problem(1, "broken", raw))
    failed.close()
    failed.close()
    after = path.read_bytes().count(b"\n") if path and path.is_file() else 0
    return after - before


def test_failed_file(tmp_path: Path) -> None:
    """The failed file appears with its first line, and a later run adds only new lines.

    A record over several lines becomes one line, and a last line without LF stays separate.
    """
    path = tmp_path / "failed"
    assert (add_failed(path), path.exists(), add_failed(None, b"{")) == (
        0,
        False,
        0,
    )
    assert add_failed(path, b"{", b"\xff") == 2
    assert add_failed(path, b"\xff", b"[", b"{", b"") == 1
    assert path.read_bytes() == b"{\n\xff\n[\n"
    for raw in (
        b'{\n "a": 1\n}',
        b'{\x00"a": 1}',
        b"\x1f\x8bxx",
        b"\xff\xfe{",
        b"\xef\xbb\xbf{]",
        b"PK\x03\x04",
    ):
        path.unlink()
        assert (add_failed(path, raw), add_failed(path, raw, b"[")) == (1, 1)
        assert path.read_bytes() == raw.replace(b"\n", b" ") + b"\n[\n"
    path.write_bytes(b"x\ny")
    add_failed(path, b"z")
    assert path.read_bytes() == b"x\ny\nz\n"


def test_equal_failed_lines(tmp_path: Path) -> None:
    """Of equal lines of INPUT the failed file has as many as any run met: OUTPUT may have taken INPUT's place."""
    path = tmp_path / "failed"
    assert add_failed(path, b"{") == 1
    assert add_failed(path, b"{", b"{", b"{") == 2
    assert add_failed(path, b"{", b"{") == 0
    assert [add_failed(path, b"x\ny", b"x\ny") for _ in "ab"] == [4, 0]


def test_unwritable_failed_file(tmp_path: Path) -> None:
    """A failed file that cannot be written is an error, even if only closing it fails."""
    with disk_of(100), pytest.raises(OutputError, match="cannot be written"):
        add_failed(tmp_path / "failed", b"x" * 200)
    with pytest.raises(OutputError, match="cannot be written"):
        add_failed(tmp_path / "none" / "failed", b"x")


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_partial_is_new(
    ruler: Ruler, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    """Whatever command writes OUTPUT, a link that stands at OUTPUT.partial goes, and its target stays."""
    source, precious = ROOT / "samples" / "groups.jsonl", tmp_path / "precious"
    precious.write_text("mine\n")
    assert (
        ruler("score", source, "scored.jsonl", "-m", "offline").returncode == 0
    )
    for name, words in {
        "out.jsonl": ("score", source, "out.jsonl", "-m", "offline"),
        "out.jsonl.gz": ("score", source, "out.jsonl.gz", "-m", "offline"),
        "kept.jsonl": (
            "select",
            "scored.jsonl",
            "kept.jsonl",
            "--where",
            "scored",
        ),
        "report.html": ("report", "scored.jsonl", "-o", "report.html"),
        "requests.jsonl": (
            "batch",
            "export",
            source,
            "requests.jsonl",
            "-m",
            "openai/x",
            "--ledger",
            "l.sqlite",
        ),
    }.items():
        link(tmp_path / f"{name}.partial", precious)
        done = ruler(*words)
        assert done.returncode == 0, done.stderr
        assert precious.read_text() == "mine\n", name
        assert (tmp_path / name).stat().st_size > 100
        assert not (tmp_path / name).is_symlink()
        assert not (tmp_path / f"{name}.partial").is_symlink()


def test_failed_file_is_no_link(ruler: Ruler, tmp_path: Path) -> None:
    """A link at the name of the failed file is refused before anything is read, and its target stays."""
    (tmp_path / "in.jsonl").write_bytes(
        (ROOT / "samples" / "one.jsonl").read_bytes() + b"{\n"
    )
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    for name, more in (
        ("out.jsonl.failed.jsonl", ()),
        ("bad", ("--set", "failed=bad")),
    ):
        (tmp_path / name).symlink_to("precious")
        done = ruler("score", "in.jsonl", "out.jsonl", "-m", "offline", *more)
        assert done.returncode == 2
        assert f"{name}: is a link" in done.stderr
        (tmp_path / name).unlink()
    assert precious.read_text() == "mine\n"
    (tmp_path / "bad").symlink_to("precious")
    with pytest.raises(
        OutputError, match="cannot be written"
    ):  # it came during the run
        add_failed(tmp_path / "bad", b"{")
    assert precious.read_text() == "mine\n"


def test_failed_file_may_be_stderr(tmp_path: Path) -> None:
    """A device may be a link, as /dev/fd is."""
    reading, writing = os.pipe()
    add_failed(Path(f"/dev/fd/{writing}"), b"{")
    assert os.read(reading, 9) == b"\n{\n"[1:]
    os.close(reading)
    os.close(writing)


def test_replaced_partial(tmp_path: Path) -> None:
    """A file that takes the place of OUTPUT.partial during the run does not become OUTPUT."""
    path, partial = tmp_path / "out", tmp_path / "out.partial"
    with (
        pytest.raises(
            OutputError, match=r"out\.partial: was removed or replaced"
        ),
        Output(str(path)) as output,
    ):
        output.write([(1, b"{}")])
        partial.unlink()
        partial.symlink_to("precious")
        output.commit()
    assert not path.exists()


def test_failed_is_input(ruler: Ruler, tmp_path: Path) -> None:
    """A failed file that is INPUT by another name, even a hard link, is refused, and INPUT stays."""
    before = (ROOT / "samples" / "one.jsonl").read_bytes()
    (tmp_path / "in.jsonl").write_bytes(before + b"{\n")
    (tmp_path / "hard").hardlink_to(tmp_path / "in.jsonl")
    done = ruler(
        "score",
        "in.jsonl",
        "out.jsonl",
        "-m",
        "offline",
        "--set",
        "failed=hard",
    )
    assert (done.returncode, "or is INPUT or OUTPUT" in done.stderr) == (
        2,
        True,
    )
    assert (tmp_path / "in.jsonl").read_bytes() == before + b"{\n"


def test_partial_behind_a_link(ruler: Ruler, tmp_path: Path) -> None:
    """INPUT is refused if it is the partial file of OUTPUT's target, and stays."""
    partial = tmp_path / "real.jsonl.partial"
    partial.write_bytes((ROOT / "samples" / "one.jsonl").read_bytes())
    (tmp_path / "real.jsonl").write_text("old")
    (tmp_path / "out.jsonl").symlink_to("real.jsonl")
    done = ruler("score", partial.name, "out.jsonl", "-m", "offline")
    assert (done.returncode, "rename it first" in done.stderr) == (2, True)
    assert (
        partial.stat().st_size
        and (tmp_path / "real.jsonl").read_text() == "old"
    )


@pytest.mark.parametrize("name", ["out.parquet", "out.json", "out.jsonl.gz"])
def test_end_that_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OUTPUT whose end cannot be written is reported once, and not ended again."""
    with (
        documented(tmp_path, LIST) as (container, lines),
        pytest.raises(OutputError, match="No space left"),
        Output(str(tmp_path / name)) as output,
    ):
        output.write_as(container)
        output.write([(line.number, line.raw) for line in lines])
        end = output.writer.end

        def fill() -> None:
            end()
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(output.writer, "end", fill)
        output.commit()
    assert not (tmp_path / name).exists()
    if name == "out.json":
        text = (tmp_path / "out.json.partial").read_bytes()
        assert text.count(b"]") == 1
