"""A Parquet file that is read, and written again with what is new."""

from __future__ import annotations

from typing import BinaryIO

from ruler_cli.files.container import Encoder
from ruler_cli.files.parquet.encoder import ParquetEncoder
from ruler_cli.files.parquet.rows import Rows


class Parquet(Rows):
    """A Parquet file that is open; rows are numbered from 1. Close it, or use it as a context."""

    def encoder(self, stream: BinaryIO) -> Encoder:
        """What writes annotated rows as a Parquet file with this one's schema and what is new."""
        return ParquetEncoder(self, stream)
