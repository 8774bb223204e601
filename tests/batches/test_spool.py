"""Requests on their way: on disk, under a lock that tells the living from the dead."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ruler_cli.batches.spool import Spool, alive, last_sign, sweep
from ruler_cli.errors import OutputError
from ruler_cli.records import Request
from tests.conftest import ROOT

REQUEST = Request("système", "user", ("a", "b"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a ledger is."""
    return tmp_path / "a [b]*.sqlite"


def test_written(place: Path) -> None:
    """What was put down comes out in order, of each judge apart, with what is wanted of it."""
    with Spool(place) as spool:
        for i in range(10):
            spool.add(i % 2, bytes([i]) * 16, b"line %d\n" % i, REQUEST)
        picks = list(spool.picks(0))
        assert [pick.key[0] for pick in picks] == [0, 2, 4, 6, 8]
        assert list(spool.picks(0, 2, picks[2].offset)) == picks[2:]
        assert {(pick.prompt, pick.labels) for pick in picks} == {(12, 2)}
        file = spool.write(0, "tag", lambda key: key[0] != 4, picks[1], picks[3])
        assert file.read_bytes() == b"line 2\nline 6\n"
        assert file.name == "ruler-tag.jsonl"
        assert list(spool.picks(7)) == []
    assert not list(place.parent.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_no_room(place: Path) -> None:
    """A disk that is full is told with the way out, whenever that shows."""
    with pytest.raises(OutputError, match="--ledger"), Spool(place) as spool:
        spool.add(0, bytes(16), b"line\n", REQUEST)
        lines, index = spool._lines[0]
        lines.close()
        spool._lines[0] = (open("/dev/full", "w+b"), index)  # noqa: SIM115, PTH123 - the spool closes it
        spool.add(0, bytes(16), b"x" * 100_000, REQUEST)


def test_private(place: Path) -> None:
    """Prompts are nobody else's to read."""
    with Spool(place) as spool:
        assert spool.folder.stat().st_mode & 0o077 == 0


def test_lives(place: Path) -> None:
    """Who submits is alive as long as the spool is open, and leaves a sign where it ends badly."""
    with pytest.raises(RuntimeError), Spool(place) as spool:
        spool.add(0, bytes(16), b"line\n", REQUEST)
        assert alive(place, spool.owner)
        sweep(place, set())
        assert alive(place, spool.owner)
        raise RuntimeError
    assert not alive(place, spool.owner)
    assert 0 <= time.time() - last_sign(place, spool.owner) < 60
    assert [path.name for path in spool.folder.iterdir()] == ["lock"]
    sweep(place, {spool.owner})
    assert last_sign(place, spool.owner)
    sweep(place, set())
    assert not last_sign(place, spool.owner)
    assert not alive(place, "a [b]*.sqlite.batch-other")


def test_killed(place: Path) -> None:
    """A process that is killed is dead to others at once, and what it left is removed."""
    code = (
        "import sys, time; from pathlib import Path; from ruler_cli.batches.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1])); print(spool.owner, flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", code, place],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)},
    )  # fmt: skip
    with process:
        assert process.stdout
        owner = process.stdout.readline().strip()
        assert alive(place, owner)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert not alive(place, owner)
    sweep(place, set())
    assert not list(place.parent.iterdir())


def test_signs(place: Path) -> None:
    """Each sign of life is newer than the one before."""
    with Spool(place) as spool:
        os.utime(spool.folder / "lock", (1.0, 1.0))
        assert last_sign(place, spool.owner) == 1.0
        spool.beat()
        assert last_sign(place, spool.owner) > 1.0


def test_no_locks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system has no locks that is told, and no directory is left behind."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(OutputError, match="No locks available"):
        Spool(place)
    assert not list(place.parent.iterdir())


def test_full(place: Path) -> None:
    """Where there is no room that is told with the place, and nothing stays but the sign of life."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from ruler_cli.batches.spool import Spool\n"
        "from ruler_cli.records import Request; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "with Spool(Path(sys.argv[1])) as spool:\n"
        "    for i in range(100): spool.add(0, bytes(16), bytes(1000), Request('', '', ()))\n"
        "    spool.write(0, 'tag', lambda key: True, 0, 100_000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(place)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "OutputError" in done.stderr
    assert f"{place}.batch-" in done.stderr
    assert "File too large; make room" in done.stderr
    (folder,) = place.parent.iterdir()
    assert [path.name for path in folder.iterdir()] == ["lock"]
