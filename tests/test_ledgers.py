"""Several ledgers as one: the first is written, all are read, and nothing is made, changed or missed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ruler_cli.errors import UsageError
from ruler_cli.judges.answer_form import reply_of
from ruler_cli.ledger import Ledger
from ruler_cli.ledgers import Ledgers
from ruler_cli.records import Fault, Reply
from tests.conftest import ROOT

MARK = Fault("refused", "no", "group")


def said(text: str) -> Reply:
    """A reply with this text."""
    body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    reply = reply_of(json.dumps(body).encode())
    assert isinstance(reply, Reply)
    return reply


def ledger(path: Path, **rows: Reply | Fault) -> Path:
    """A ledger with these answers."""
    with Ledger(path) as made:
        for key, answer in rows.items():
            made.keep(key.encode(), "m", answer, 1.0)
    return path


def text(found: Ledgers, key: str) -> str | None:
    """What a reply says, or why a call failed."""
    kept = found.find(key.encode())
    if kept is None:
        return None
    return kept.answer.text if isinstance(kept.answer, Reply) else kept.answer.reason


answers = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["x", "y", None]), max_size=4)


@settings(max_examples=25)
@given(st.lists(answers, min_size=1, max_size=4))
def test_order(rows: list[dict[str, str | None]]) -> None:
    """A key's answer is the first reply in the order given, else a mark, else none."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [
            ledger(Path(folder) / str(i), **{k: MARK if v is None else said(v) for k, v in each.items()})
            for i, each in enumerate(rows)
        ]
        with Ledgers(paths[0], paths[1:]) as found:
            for key in "abcd":
                held = [each[key] for each in rows if key in each]
                wanted = next((value for value in held if value), "no" if held else None)
                assert text(found, key) == wanted


def test_written(tmp_path: Path) -> None:
    """What is asked for is kept in the first alone; a ledger that is read stays as it was to the byte."""
    other = ledger(tmp_path / "other", a=said("x"))
    before = other.read_bytes()

    async def keep() -> None:
        with Ledgers(tmp_path / "new" / "first", [other]) as found:
            assert text(found, "a") == "x"
            await found.store(b"b", "m", said("y"), 1.0)
            assert text(found, "b") == "y"

    anyio.run(keep)
    assert other.read_bytes() == before
    with Ledgers(tmp_path / "new" / "first") as found:
        assert (text(found, "a"), text(found, "b")) == (None, "y")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "other"]


def test_absent(tmp_path: Path) -> None:
    """Another ledger that is not there is bad usage, told before the first is made."""
    with pytest.raises(UsageError, match="misspelt: no such file; of several ledgers only the first"):
        Ledgers(tmp_path / "first", [tmp_path / "misspelt"])
    assert list(tmp_path.iterdir()) == []


def test_not_made(tmp_path: Path) -> None:
    """Where nothing is to be made, a first ledger that is not there holds nothing and is not made."""
    other = ledger(tmp_path / "other", a=said("x"))
    with Ledgers(tmp_path / "first", [other], make=False) as found:
        assert text(found, "a") == "x"
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_empty(tmp_path: Path) -> None:
    """A file of no bytes, which a process that was killed at its start leaves, holds nothing and stays so."""
    (tmp_path / "other").touch()
    with Ledgers(tmp_path / "first", [tmp_path / "other"]) as found:
        assert text(found, "a") is None
    assert (tmp_path / "other").stat().st_size == 0


def test_foreign(tmp_path: Path) -> None:
    """What is no ledger is refused with a sentence, and is left as it was."""
    (tmp_path / "notes").write_text("no database " * 100)
    (tmp_path / "folder").mkdir()
    with sqlite3.connect(tmp_path / "theirs") as made:
        made.execute("CREATE TABLE replies (key BLOB)")
    made.close()
    for name, says in (
        ("notes", "not a database"),
        ("theirs", "another program's"),
        ("folder", "no regular file"),
    ):
        with pytest.raises(UsageError, match=f"{name}: .*{says}.*; correct the --ledger"):
            Ledgers(tmp_path / "first", [tmp_path / name])
    assert (tmp_path / "notes").read_text() == "no database " * 100


def test_named_twice(tmp_path: Path) -> None:
    """A ledger named twice, by whatever name, is opened once."""
    first, other = ledger(tmp_path / "first", a=said("x")), ledger(tmp_path / "other", b=said("y"))
    (tmp_path / "link").symlink_to(other)
    with Ledgers(first, [first, other, tmp_path / "link", other]) as found:
        assert len(found._all) == 2
        assert (text(found, "a"), text(found, "b")) == ("x", "y")


def test_many(tmp_path: Path) -> None:
    """As many ledgers as an array has tasks can be open at once."""
    (tmp_path / "0").touch()
    source = ledger(tmp_path / "made", a=said("x"))
    paths = [Path(shutil.copy(source, tmp_path / f"{i}.sqlite")) for i in range(400)]
    with Ledgers(tmp_path / "first", paths) as found:
        assert text(found, "a") == "x"


WRITER = """
import sys
from pathlib import Path
from tests.test_ledgers import Ledger, said
with Ledger(Path(sys.argv[1])) as made:
    for line in sys.stdin:
        made.keep(line.strip().encode(), "m", said(line.strip()), 1.0)
        print("kept", flush=True)
"""


class Writer:
    """Another process that keeps what it is told."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def keep(self, key: str) -> None:
        """Have it keep an answer, and wait until it has."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{key}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "kept\n"

    def kill(self) -> None:
        """End it at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that another user may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def writer(folder: Path) -> Iterator[Writer]:
    """A process that writes the ledger `other` there."""
    made = Writer(folder / "other")
    yield made
    made.kill()


def as_other(work: Callable[[], None]) -> None:
    """Do something as a user who may not write what is not his, root included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child needs no thread of this process
        child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def shared(folder: Path) -> list[str]:
    """Let everybody read a ledger, and nobody write beside it; the names of its files."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    return sorted(path.name for path in folder.iterdir())


def test_being_written(writer: Writer, folder: Path, tmp_path: Path) -> None:
    """What another process keeps at this moment is found as soon as it is kept, and goes on being kept."""
    writer.keep("a")
    with Ledgers(tmp_path / "first", [folder / "other"]) as found:
        assert (text(found, "a"), text(found, "b")) == ("a", None)
        writer.keep("b")
        assert text(found, "b") == "b"
    writer.keep("c")
    with Ledgers(tmp_path / "first", [folder / "other"]) as found:
        assert text(found, "c") == "c"


def test_after_a_kill(writer: Writer, folder: Path, tmp_path: Path) -> None:
    """What a process had kept when it was killed is found."""
    writer.keep("a")
    writer.kill()
    with Ledgers(tmp_path / "first", [folder / "other"]) as found:
        assert text(found, "a") == "a"


@pytest.mark.parametrize("state", ["whole", "being written", "killed"])
def test_of_another_user(state: str, writer: Writer, folder: Path) -> None:
    """A ledger that may only be read is read, whatever state it is in, and no file is made beside it."""
    writer.keep("a")
    if state == "killed":
        writer.kill()
    elif state == "whole":
        writer.process.communicate(timeout=30)
    names = shared(folder)
    assert names == (["other"] if state == "whole" else ["other", "other-shm", "other-wal"])

    def look() -> None:
        with Ledgers(None, [folder / "other"]) as found:
            assert text(found, "a") == "a"
            assert text(found, "b") is None

    as_other(look)
    assert sorted(path.name for path in folder.iterdir()) == names


def test_unreadable(folder: Path) -> None:
    """A ledger that may not even be read is refused with a sentence."""
    ledger(folder / "other", a=said("x")).chmod(0)

    def look() -> None:
        with pytest.raises(UsageError, match="other: cannot be read as a ledger"):
            Ledgers(None, [folder / "other"])

    as_other(look)


def test_log_alone(writer: Writer, folder: Path) -> None:
    """A log that only its owner can read in is told, since what stands in it would be missed."""
    writer.keep("a")
    writer.kill()
    (folder / "other-shm").unlink()
    shared(folder)

    def look() -> None:
        with pytest.raises(UsageError, match="other: has a log beside it that only its owner can read in"):
            Ledgers(None, [folder / "other"])

    as_other(look)
