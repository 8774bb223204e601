"""The command as a shell runs it, in this process: its start would be most of a test's time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

from ruler_cli.cli import main

_ROOT = Path(__file__).resolve().parents[1]
_LONGEST = 120
"""Seconds after which a run fails that does not end, unless more are given."""

Done = subprocess.CompletedProcess[str]


def run_apart(
    args: list[str],
    stdin: str,
    folder: Path,
    env: dict[str, str],
    longest: int = _LONGEST,
) -> Done:
    """Run `ruler ARGS` in `folder`, in a process of its own, with the simulated judge."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.simulated", *args],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=longest,
        check=False,
        env={**os.environ, "PYTHONPATH": str(_ROOT), **env},
    )


def run_here(
    args: list[str],
    stdin: str,
    folder: Path,
    env: dict[str, str],
    longest: int = _LONGEST,
) -> Done:
    """Do the same in this process, with pipes for its descriptors as a process has them."""
    with pytest.MonkeyPatch.context() as patch, _bounded(longest):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["ruler", *args])
        for name, value in env.items():
            patch.setenv(name, value)
        with _pipes(stdin.encode()) as output:
            code = _run()
    return Done(["ruler", *args], code, output[1], output[2])


def _run() -> int:
    try:
        main()
    except SystemExit as end:
        return (
            end.code if isinstance(end.code, int) else int(end.code is not None)
        )
    except Exception:  # noqa: BLE001 - whatever it is, a process ends with it
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _bounded(longest: int) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        pytest.fail(f"the command did not end within {longest} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(longest)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _pipes(stdin: bytes) -> Iterator[dict[int, str]]:
    """Make the descriptors 0 to 2 pipes; the text written to 1 and 2 is there at the end."""
    output: dict[int, str] = {}

    def give(to: int) -> None:
        with (
            suppress(BrokenPipeError),
            os.fdopen(to, "wb") as file,
        ):  # it may need no more
            file.write(stdin)

    def take(number: int, source: int) -> None:
        with os.fdopen(source, encoding="utf-8") as file:
            output[number] = file.read()

    sys.stdout.flush()
    sys.stderr.flush()
    before, saved = (
        (sys.stdin, sys.stdout, sys.stderr),
        [os.dup(number) for number in range(3)],
    )
    (source, giving), (taking, out), (errors, err) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for number, end in enumerate((source, out, err)):
        os.dup2(end, number)
        os.close(end)
    threads = [
        threading.Thread(target=give, args=(giving,)),
        threading.Thread(target=take, args=(1, taking)),
        threading.Thread(target=take, args=(2, errors)),
    ]
    ours = (
        os.fdopen(0, encoding="utf-8", closefd=False),
        os.fdopen(1, "w", encoding="utf-8", closefd=False),
        os.fdopen(
            2,
            "w",
            1,
            encoding="utf-8",
            errors="backslashreplace",
            closefd=False,
        ),
    )
    sys.stdin, sys.stdout, sys.stderr = ours
    for thread in threads:
        thread.start()
    try:
        yield output
    finally:
        for stream in ours:
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for thread in threads:
            thread.join(_LONGEST)
