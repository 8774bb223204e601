"""Temporary files of a report in the making."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import BinaryIO, cast

from ruler_cli.errors import OutputError


def spool(stack: ExitStack) -> BinaryIO:
    """A temporary file that goes with `stack`."""
    return cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(buffering=1 << 16)))


def no_room(error: OSError) -> OutputError:
    """The sentence for one that cannot be written."""
    return OutputError(
        f"a temporary file cannot be written: {error.strerror}; make room, or name another directory with "
        "TMPDIR"
    )
