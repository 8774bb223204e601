"""Records as the containers that INPUT may be, and back, without ruler's own code."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path

from ruler_cli.files.error_map import zstd

LINES, DOCUMENTS = (
    (".jsonl", ".jsonl.gz", ".jsonl.zst"),
    (".json", ".holder.json", ".eval"),
)
KINDS = (*LINES, *DOCUMENTS, "")
"""Endings of a name; none: a directory of shards."""
OUTPUT = dict.fromkeys(KINDS, ".jsonl") | {
    kind: kind for kind in (*LINES, ".json")
}
"""Ending of INPUT → ending of the OUTPUT that has its records."""
_SHARDS = ("a-2.jsonl", "a-10.jsonl.gz", "b/one.json")


def fits(kind: str, record: bytes) -> bool:
    """Return whether a container can hold a record: if more than line ends separate records, it must be JSON."""
    if kind in LINES:
        return True
    try:
        return isinstance(
            json.loads(record.decode()), dict
        )  # as other programs read a document
    except (ValueError, RecursionError):
        return False


def pack(path: Path, kind: str, records: Sequence[bytes], end: bytes) -> None:
    """Write records as a container; `end` stands behind each line."""
    if kind in LINES:
        text = end.join(records)
        path.write_bytes(_packed(path.suffix, text))
    elif kind == ".json":
        path.write_bytes(b"[" + (b"," + end).join(records) + b"]")
    elif kind == ".holder.json":
        path.write_bytes(
            b'{"a": [1],'
            + end
            + b' "trajectory_groups": ['
            + b",".join(records)
            + b'], "z": {}}'
        )
    elif kind == ".eval":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("header.json", b"{}")
            for i, record in enumerate(records):
                file.writestr(f"samples/{i}_epoch_1.json", record)
    else:
        third = len(records) // 3 + 1
        for i, name in enumerate(_SHARDS):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            inner = name[name.index(".") :]
            pack(path / name, inner, records[i * third : (i + 1) * third], end)


def in_files_read(
    records: Sequence[bytes], left_out: Collection[str]
) -> list[bytes]:
    """Records of a directory without those of the files that a run left out, each with a sentence."""
    third = len(records) // 3 + 1
    return [
        record
        for i, name in enumerate(_SHARDS)
        if name not in left_out
        for record in records[i * third : (i + 1) * third]
    ]


def _packed(suffix: str, text: bytes) -> bytes:
    return (
        gzip.compress(text)
        if suffix == ".gz"
        else zstd.compress(text)
        if suffix == ".zst"
        else text
    )


def unpack(path: Path, kind: str) -> list[bytes]:
    """The records of an OUTPUT, blank lines left out."""
    if kind in LINES:
        text = path.read_bytes()
        text = {".gz": gzip.decompress, ".zst": zstd.decompress}.get(
            path.suffix, bytes
        )(text)
        return [line for line in text.split(b"\n") if line.strip()]
    return [json.dumps(item).encode() for item in json.loads(path.read_bytes())]
