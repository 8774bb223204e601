"""A file as its text, whatever the compression."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ruler_cli.files.source import decompressed, open_raw


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed."""
    with open_raw(name) as stream:
        yield decompressed(name, stream)
