"""Parquet: each row is a record, as one JSON object. pyarrow is an extra: it is imported where it is needed.

Rows come in small batches, so memory depends on the size of rows and pages, and not on that of row groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, BinaryIO, Self

from ruler_cli.errors import UsageError
from ruler_cli.files.containers import MAX_BYTES, Container
from ruler_cli.files.error_map import reading
from ruler_cli.files.source import Source
from ruler_cli.types import Line

_READ_AHEAD = 1 << 20
"""Bytes that are read ahead in each column."""
_DECODER = (ValueError, TypeError, LookupError, OverflowError, OSError)
"""Errors of pyarrow beside its own, also for values that Python does not hold; its OSErrors have no number."""


def require_pyarrow(name: str) -> None:
    """Raise UsageError if pyarrow is not installed, which reads and writes the file of this name."""
    if find_spec("pyarrow") is None:
        raise UsageError(
            "Parquet needs the package pyarrow",
            "install it with: pip install pyarrow",
            place=name,
        )


class Parquet(Container):
    """A Parquet file that is open; rows are numbered from 1."""

    unit = "row"
    form = "table"
    may_hold_events = True

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        most: int = MAX_BYTES,
    ) -> None:
        """`stream` is seekable, stays open, and has no other reader; UsageError if it is not a Parquet file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__(name, most)
        # one handle for every reader: it keeps an offset for each of them
        self._file = pa.PythonFile(stream, mode="r")
        self._errors = (pa.ArrowException, *_DECODER)
        with reading(name, *self._errors):
            self.metadata = pq.read_metadata(self._file)
            self.schema = self.metadata.schema.to_arrow_schema()
        names = self.schema.names
        twice = next(
            (column for column in names if names.count(column) > 1), None
        )
        if twice is not None:
            raise UsageError(
                f"two columns are named `{twice}`",
                "rename one of them",
                place=name,
            )

    @classmethod
    def open(cls, source: Source) -> Self:
        """Open a Parquet file; one from a pipe is kept on disk."""
        require_pyarrow(source.name)
        remote = source.location.remote
        stream = source.stream if remote else source.seekable()
        return cls(
            source.name,
            stream,
            source.most,
        )

    def records(self) -> Iterator[Line]:
        """Yield every row as the JSON text of one object, its keys in the order of the columns."""
        from ruler_cli.files.arrow import objects

        number = 0
        for batch in self.batches():
            large = (
                batch.nbytes > self.most
            )  # text is made of one row at a time
            pieces = (batch.slice(at, 1) for at in range(len(batch)))
            for piece in pieces if large else [batch]:
                if piece.nbytes > self.most:
                    number += 1
                    yield self.line(
                        number,
                        number - 1,
                        b"{",
                        piece.nbytes,
                    )
                    continue
                with reading(self.name, *self._errors):
                    raws = objects(piece)
                for raw in raws:
                    number += 1
                    yield self.line(
                        number,
                        number - 1,
                        raw,
                    )

    def batches(self) -> Iterator[Any]:
        """Yield the rows as Arrow record batches."""
        import pyarrow.parquet as pq

        from ruler_cli.files.arrow import BATCH, MAX_ROWS

        with reading(self.name, *self._errors):
            # `pre_buffer` would hold a whole row group in memory, threads would hold a batch each
            file = pq.ParquetFile(
                self._file,
                metadata=self.metadata,
                pre_buffer=False,
                buffer_size=_READ_AHEAD,
            )
            for number in range(self.metadata.num_row_groups):
                group = self.metadata.row_group(number)
                fitting = (
                    BATCH * group.num_rows // max(1, group.total_byte_size)
                )
                rows = max(1, min(MAX_ROWS, fitting))
                yield from file.iter_batches(
                    rows,
                    [number],
                    use_threads=False,
                )
