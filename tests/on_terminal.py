"""The command on a terminal: a process of its own whose stdin, stdout and stderr are a pty."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.cells import cell_len

_ROOT = Path(__file__).resolve().parents[1]
_LONGEST = 60.0
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff\ud800-\udfff]"
)
"""Characters of a file that must not reach a terminal."""
_OURS = (
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "PAGER",
    "LESS",
    "COLORTERM",
)


def on_terminal(
    folder: Path, *args: object, keys: str = "", columns: int = 80, **env: str
) -> tuple[int, str]:
    """Run `ruler ARGS`, type `keys` once it is quiet; return its exit code and its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(
        theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0)
    )
    inherited = {
        name: value for name, value in os.environ.items() if name not in _OURS
    }
    command = [sys.executable, "-m", "ruler_cli", *map(str, args)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
        env={**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(_ROOT), **env},
    ) as process:  # fmt: skip
        os.close(theirs)
        output = _read_until_end(ours, process, keys.encode())
        os.close(ours)
        return process.wait(_LONGEST), output.decode().replace("\r\n", "\n")


def _read_until_end(
    ours: int, process: subprocess.Popen[bytes], keys: bytes
) -> bytes:
    out, end = b"", time.monotonic() + _LONGEST
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.5)[0]:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # all who had it open are gone
                return out
            if not piece:
                return out
            out += piece
        elif keys and out:
            os.write(ours, keys)
            keys = b""
    process.kill()
    return out


class Screen:
    """The screen of a terminal: what is printed, with the few escape codes that `ruler` uses."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self.columns, self._rows = columns, rows
        self._cells = [""]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        """The lines that are not empty."""
        return [line.rstrip() for line in self._cells if line.strip()]

    def feed(self, text: str) -> None:
        """Print text."""
        for code, other in _PRINTED.findall(text):
            if code == "\r":
                self._column = 0
            elif code == "\n":
                self._down()
            elif code == "\x1b[A":
                self._row = max(0, self._row - 1)
            elif code in ("\x1b[K", "\x1b[J"):
                self._cells[self._row] = self._cells[self._row][: self._column]
                if code == "\x1b[J":
                    del self._cells[self._row + 1 :]
            elif other and not other.startswith("\x1b["):
                self._put(other)

    def _put(self, character: str) -> None:
        if self._column == self.columns:
            self._column = 0
            self._down()
        line = self._cells[self._row].ljust(self._column)
        self._cells[self._row] = (
            line[: self._column] + character + line[self._column + 1 :]
        )
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        self._cells += [""] * (self._row + 1 - len(self._cells))
        if len(self._cells) > self._rows:
            del self._cells[0]
            self._row -= 1


_PRINTED = re.compile("(\r|\n|\x1b\\[[AKJ])|(\x1b\\[[0-9;]*m|.)", re.DOTALL)


def watched(
    folder: Path,
    *args: object,
    columns: int = 80,
    stdin: str | None = None,
    stop: Callable[[list[str]], bool] = lambda _: False,
    resize: int = 0,
    **env: str,
) -> tuple[int, list[list[str]]]:
    """Run `ruler ARGS`; return its exit code, and the lines of its screen whenever it has printed.

    The process gets a SIGINT, or the terminal `resize` columns, once `stop` is true of the lines.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(
        theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0)
    )
    inherited = {
        name: value for name, value in os.environ.items() if name not in _OURS
    }
    command = [sys.executable, "-m", "ruler_cli", *map(str, args)]
    source = theirs if stdin is None else subprocess.PIPE
    screens, screen, decoder = (
        list[list[str]](),
        Screen(columns),
        codecs.getincrementaldecoder("utf-8")(),
    )
    with subprocess.Popen(
        command, stdin=source, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
        env={**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(_ROOT), **env},
    ) as process:  # fmt: skip
        if process.stdin is not None and stdin is not None:
            process.stdin.write(stdin.encode())
            process.stdin.close()
        for piece in _pieces(ours, theirs, process):
            screen.feed(decoder.decode(piece))
            screens.append(screen.lines)
            if stop(screen.lines):
                stop = lambda _: False  # noqa: E731 - once is enough
                if resize:
                    screen.columns = resize
                    fcntl.ioctl(
                        ours,
                        termios.TIOCSWINSZ,
                        struct.pack("HHHH", 24, resize, 0, 0),
                    )
                else:
                    process.send_signal(signal.SIGINT)
        os.close(ours)
        return process.wait(_LONGEST), screens


def _pieces(
    ours: int, theirs: int, process: subprocess.Popen[bytes]
) -> Iterator[bytes]:
    """Yield what a process prints, until its end."""
    os.close(theirs)
    end = time.monotonic() + _LONGEST
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.5)[0]:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # all who had it open are gone
                return
            if not piece:
                return
            yield piece
    process.kill()


def widest(text: str) -> int:
    """The number of columns of the widest line."""
    return max(map(cell_len, text.split("\n")))
