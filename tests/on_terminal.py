"""The command on a terminal: a process of its own whose stdin, stdout and stderr are a pty."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from rich.cells import cell_len

_ROOT = Path(__file__).resolve().parents[1]
_LONGEST = 60.0
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe0f\ufeff\ud800-\udfff]"
)
"""Characters of a file that must not reach a terminal."""
_OURS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PAGER", "LESS", "COLORTERM")


def on_terminal(
    folder: Path, *args: object, keys: str = "", columns: int = 80, **env: str
) -> tuple[int, str]:
    """Run `ruler ARGS`, type `keys` once it is quiet; return its exit code and its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
    command = [sys.executable, "-m", "ruler_cli", *map(str, args)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
        env={**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(_ROOT), **env},
    ) as process:  # fmt: skip
        os.close(theirs)
        output = _read_until_end(ours, process, keys.encode())
        os.close(ours)
        return process.wait(_LONGEST), output.decode().replace("\r\n", "\n")


def _read_until_end(ours: int, process: subprocess.Popen[bytes], keys: bytes) -> bytes:
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


def widest(text: str) -> int:
    """The number of columns of the widest line."""
    return max(map(cell_len, text.split("\n")))
