"""A file as its text, whatever the compression."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ruler_cli.files.compression import decompressed
from ruler_cli.files.location import Location


@contextmanager
def open_source(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed."""
    with Location(name).open() as stream:
        yield decompressed(name, stream)
