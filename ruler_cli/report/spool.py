"""Temporary files of a report in the making."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, suppress
from typing import BinaryIO, cast

from ruler_cli.errors import OutputError


def spool(stack: ExitStack) -> BinaryIO:
    """A temporary file that goes with `stack`."""
    file = cast(BinaryIO, tempfile.TemporaryFile(buffering=1 << 16))  # noqa: SIM115 - it ends with `stack`
    stack.callback(_close, file)
    return file


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # what it still wanted to write: that there is no room was told already
        file.close()


def no_room(error: OSError) -> OutputError:
    """The sentence for one that cannot be written."""
    return OutputError(
        f"a temporary file cannot be written: {error.strerror}; make room, or name another directory with "
        "TMPDIR"
    )
