"""What is long is shown by the user's pager, where stdout is a terminal."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ruler_cli.cli.terminal import Terminal

_NONE = ("", "cat")
"""As git has it: these mean no pager."""


@contextmanager
def paged(terminal: Terminal) -> Iterator[None]:
    """What is shown inside goes to `$PAGER`, else less, else straight to stdout.

    A pager that cannot be started is done without; one that the user leaves early ends the block.
    """
    pager = _start(terminal) if terminal.tty else None
    if pager is None or pager.stdin is None:
        yield
        return
    write, terminal.write = terminal.write, pager.stdin.write
    try:
        with suppress(BrokenPipeError):
            yield
    finally:
        terminal.write = write
        with suppress(OSError):
            pager.stdin.close()
        _wait(pager)


def _start(terminal: Terminal) -> subprocess.Popen[str] | None:
    given = os.environ.get("PAGER", "cat" if os.environ.get("TERM", "dumb") == "dumb" else "less")
    try:
        words = shlex.split(given)
    except ValueError:  # a quote that does not end
        return None
    if " ".join(words) in _NONE:
        return None
    env = {"LESS": "FRX", "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(  # noqa: S603 - the user's own command, without a shell
            words, stdin=subprocess.PIPE, env=env, text=True, encoding=terminal.encoding, errors="replace"
        )
    except OSError:
        return None
    if not _takes_colour(words, env):
        terminal.plain()
    return pager


def _takes_colour(words: list[str], env: dict[str, str]) -> bool:
    """Whether it passes colours on: less with -R or -r; of others it is not known."""
    if Path(words[0]).name != "less":
        return False
    flags = "".join(word for word in words[1:] if word[:1] == "-" and word[:2] != "--")
    said = f"{flags}{env['LESS']}"
    return "R" in said or "r" in said or "--RAW-CONTROL-CHARS" in words


def _wait(pager: subprocess.Popen[str]) -> None:
    while True:
        try:
            pager.wait()
        except KeyboardInterrupt:  # Ctrl-C is the pager's, which goes on
            continue
        return
