"""One law for all containers: the same records from a file and from a pipe, and no damage that nobody tells."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ruler_cli.errors import UsageError
from ruler_cli.files import open_container
from ruler_cli.files.error_map import zstd
from ruler_cli.types import Line
from tests.files.test_archive import packed
from tests.files.test_open import fed

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

RECORDS = [{"id": f"{n}", "text": f'é "{n}" ]}}'} for n in range(9)]
ROWS = [json.dumps(record, ensure_ascii=False).encode() for record in RECORDS]
LINES = b"\n".join(ROWS)
LIST = b"[" + b",\n".join(ROWS) + b"]"


def table() -> bytes:
    """Return the records as Parquet."""
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), stream, row_group_size=4)
    return stream.getvalue()


def archive(method: int) -> bytes:
    """Return the records as samples of a log of Inspect."""
    members = {f"samples/{n}.json": row for n, row in enumerate(ROWS)}
    return packed(method, members)


CONTAINERS: dict[str, Callable[[], bytes]] = {
    "lines": lambda: LINES,
    "gzip": lambda: gzip.compress(LINES),
    "Zstandard": lambda: zstd.compress(LINES),
    "list": lambda: LIST,
    "list in gzip": lambda: gzip.compress(LIST),
    "member": lambda: b'{"trajectory_groups": ' + LIST + b', "more": [1]}',
    "objects": lambda: LINES.replace(b'{"', b'{\n"'),
    "CSV": lambda: b"id\ttext\n" + b"".join(b'%d\t"\xc3\xa9 ""%d"" ]}"\n' % (n, n) for n in range(9)),
    "Parquet": table,
    "archive": lambda: archive(zipfile.ZIP_STORED),
    "archive, deflated": lambda: archive(zipfile.ZIP_DEFLATED),
    "archive, Zstandard": lambda: archive(zipfile.ZIP_ZSTANDARD),
}  # fmt: skip
CHECKED = ("gzip", "Zstandard", "list in gzip", "Parquet", "archive, deflated")
"""Containers in which every cut shows."""


def records_of(path: Path) -> list[Line]:
    """Return the records of a container: each pass, each place and each offset leads to the same."""
    with ExitStack() as stack:
        container = open_container(str(path), stack)
        records = list(container.records())
        if not container.once:
            assert list(container.records()) == records
        for record in records:
            # a damaged row is told with its line, too
            assert record.where.startswith(container.where(record.number))
            if container.fd is not None:
                stored = os.pread(container.fd, len(record.raw), record.offset)
                assert stored == record.raw
    return records


@pytest.mark.parametrize("kind", CONTAINERS)
def test_records(tmp_path: Path, kind: str) -> None:
    """Each container gives the same records, whatever its name is, also through a pipe."""
    content = CONTAINERS[kind]()
    (tmp_path / "in.jsonl").write_bytes(content)
    fed(tmp_path / "pipe", content)
    for name in ("in.jsonl", "pipe"):
        records = records_of(tmp_path / name)
        assert [json.loads(record.raw) for record in records] == RECORDS


@pytest.mark.parametrize("kind", CONTAINERS)
def test_damaged(tmp_path: Path, kind: str) -> None:
    """A container that is cut off or changed anywhere is read, or refused with a sentence that names it."""
    whole = CONTAINERS[kind]()
    path = tmp_path / "in"
    places = random.Random(kind).sample(range(4, len(whole)), 40)
    cuts = 0
    for at in places:
        changed = bytes([whole[at] ^ 0x55])
        for damaged in (whole[:at], whole[:at] + changed + whole[at + 1 :]):
            path.write_bytes(damaged)
            try:
                records_of(path)
            except UsageError as error:
                assert str(path) in str(error)
                assert str(error).isprintable()
                cuts += damaged == whole[:at]
    assert cuts == len(places) or kind not in CHECKED
