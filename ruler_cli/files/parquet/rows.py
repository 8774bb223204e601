"""A Parquet file as records: each row as one JSON object.

Rows come in small batches, within a row group too, so memory depends on the size of rows and pages
and not on that of row groups. pyarrow is an extra, imported where it is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Self

import orjson

from ruler_cli.errors import UsageError
from ruler_cli.files.container import Container
from ruler_cli.files.parquet.cells import cells
from ruler_cli.records import Line

_BATCH = 4 << 20
"""Bytes of rows that are decoded at once."""
_ROWS = 256
"""The most rows at once: a dictionary makes a column look much smaller in the file than its rows are."""
_PAGES = 1 << 20
"""Bytes that are read ahead in each column."""


class Rows(Container):
    """A Parquet file that is open; rows are numbered from 1. Close it, or use it as a context."""

    unit = "row"

    def __init__(self, name: str, stream: BinaryIO | None = None) -> None:
        """Open the file `name`, or a seekable stream that sentences call so.

        UsageError where it cannot be read, is no Parquet file, or pyarrow is missing. The stream stays
        open and must not be used by anybody else meanwhile.
        """
        super().__init__(name)
        pa = arrow(name)
        import pyarrow.parquet as pq

        try:
            # One handle for every reader: it takes care that two of them do not move each other.
            self._file = pa.OSFile(os.fspath(name)) if stream is None else pa.PythonFile(stream, mode="r")
        except OSError as error:
            raise UsageError(f"{name}: cannot be read: {os.strerror(error.errno or 5)}") from None
        with damage(name):
            self.metadata = pq.read_metadata(self._file)
            self.schema = self.metadata.schema.to_arrow_schema()

    def records(self) -> Iterator[Line]:
        """Every row as the JSON text of one object, its keys in the order of the columns."""
        for row, fields in self.rows():
            raw = b"{" + b",".join(fields) + b"}"
            yield Line(row + 1, row, raw, f"row {row + 1}")

    def rows(self) -> Iterator[tuple[int, list[bytes]]]:
        """Every row, numbered from 0: its members as JSON, `"name":value`, one for each column."""
        keys = [_key(name) for name in self.schema.names]
        start = 0
        for _, batch in self.batches():
            with damage(self.name):
                columns = [
                    [key + cell for cell in cells(column, name)]
                    for key, name, column in zip(keys, self.schema.names, batch.columns, strict=True)
                ]
                found = [list(row) for row in zip(*columns, strict=True)] or [[]] * batch.num_rows
            yield from enumerate(found, start)
            start += batch.num_rows

    def batches(self, columns: list[str] | None = None) -> Iterator[tuple[int, Any]]:
        """The rows as Arrow record batches, each with the number of its row group.

        pyarrow takes dots in `columns` for levels, so more may come than was asked for.
        """
        import pyarrow.parquet as pq

        with damage(self.name):
            # `pre_buffer` would hold a whole row group in memory, threads would hold a batch each.
            file = pq.ParquetFile(self._file, metadata=self.metadata, pre_buffer=False, buffer_size=_PAGES)
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                rows = max(1, min(_ROWS, _BATCH * group.num_rows // max(1, group.total_byte_size)))
                for batch in file.iter_batches(rows, [number], columns, use_threads=False):
                    yield number, batch

    def close(self) -> None:
        """Close the file; a stream that was given stays open."""
        if not isinstance(self._file, _python_file()):
            self._file.close()

    def __enter__(self) -> Self:
        """The file, open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


def _python_file() -> Any:
    import pyarrow as pa

    return pa.PythonFile


def _key(name: str) -> bytes:
    return orjson.dumps(name) + b":"


def arrow(name: str) -> Any:
    """The module pyarrow; UsageError says how it is installed."""
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(
            f"{name}: is Parquet; install the reader with: pip install 'ruler-cli[parquet]'"
        ) from None
    return pa


@contextmanager
def damage(name: str) -> Iterator[None]:
    """What pyarrow cannot read, as a sentence."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno:
            raise UsageError(f"{name}: cannot be read: {os.strerror(error.errno)}") from None
        raise UsageError(
            f"{name}: is damaged, or no whole Parquet file ({said(error)}); write it anew, or copy it again"
        ) from None


def said(error: BaseException) -> str:
    """The library's own words as far as they are safe to print."""
    first = (str(error).splitlines() or [""])[0]
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in first)[:150].rstrip(". ")
