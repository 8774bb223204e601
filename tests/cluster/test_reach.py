"""Whether Ray answers at an address, before Ray itself would try it for minutes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Timer

import pytest

from ruler_cli.cluster import reach
from ruler_cli.errors import RefusedError, UsageError
from tests.conftest import ROOT, group, write

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of one that takes every connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@needs_ray
def test_silent(silent: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """One who is not Ray is refused in one sentence, and Ray's own lines are seen nowhere."""
    monkeypatch.setattr(reach, "_PATIENCE", 2.0)
    with pytest.raises(RefusedError, match=f"{silent} does not answer within 2 s"):
        reach.Reach(silent).wait(Event())
    assert capfd.readouterr() == ("", "")


def test_stopped(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not waited for any more is not refused, and the process that asked is gone."""
    monkeypatch.setattr(reach, "_ASK", "import time; time.sleep(60)")
    over = Event()
    asked = reach.Reach(silent)
    Timer(0.1, over.set).start()
    asked.wait(over)
    assert asked._process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("code", "refused"), [(0, False), (1, False), (3, True)])
def test_answers(code: int, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is not Ray's is refused; what went wrong otherwise is left to Ray."""
    monkeypatch.setattr(reach, "_ASK", f"raise SystemExit({code})")
    asked = reach.Reach("h:1")
    if refused:
        with pytest.raises(RefusedError, match="is not one of Ray's"):
            asked.wait(Event())
    else:
        asked.wait(Event())


def test_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray that is not installed is told with the command that installs it."""
    monkeypatch.setattr(reach, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'ruler-cli\[ray\]'"):
        reach.refuse_missing()


@needs_ray
def test_interrupted(silent: str, tmp_path: Path) -> None:
    """Ctrl-C ends a run that waits for an answer, long before the wait's end."""
    write(tmp_path / "in.jsonl", [group("g", 0.1, 0.9)])
    run = [sys.executable, "-m", "ruler_cli", "score", "in.jsonl", "out.jsonl", "-m", "offline"]
    with subprocess.Popen(
        [*run, "--engine", "ray", "--ray-address", silent],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()  # the input is read, the answer waited for
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130, first + rest
    assert "does not answer" not in rest
    assert "rpc_client" not in rest
    assert not (tmp_path / "out.jsonl").exists()
