"""How a file is written so that it is what its source was: schema, metadata, codecs."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from ruler_cli.files.parquet.column import Column

if TYPE_CHECKING:
    from ruler_cli.files.parquet.rows import Rows

_PANDAS = b"pandas"


def written_schema(schema: Any, columns: list[Column]) -> Any:
    """The source's schema with settled types, new columns behind, and metadata that agrees."""
    import pyarrow as pa

    fields, other = list(schema), []
    for column in columns:
        if column.at is None:
            fields.append(pa.field(column.name, column.kind))
            continue
        was = fields[column.at]
        if not was.type.equals(column.kind):
            other.append(column)
        field = was.with_type(column.kind)
        fields[column.at] = field.with_nullable(True) if column.gains_null else field
    metadata = dict(schema.metadata or {})
    if _PANDAS in metadata and other:
        metadata[_PANDAS] = _repaired(metadata[_PANDAS], {column.name: column.kind for column in other})
    return pa.schema(fields, metadata or None)


def settings_like(source: Rows, schema: Any) -> dict[str, Any]:
    """Arguments of `ParquetWriter` that keep each column's codec and the names inside lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = source.metadata
    codecs: dict[str, str] = {}
    for number in range(min(1, metadata.num_row_groups)):
        group = metadata.row_group(number)
        for at in range(group.num_columns):
            chunk = group.column(at)
            codecs[chunk.path_in_schema] = _CODECS.get(chunk.compression, chunk.compression)
    usual = Counter(codecs.values()).most_common(1)[0][0] if codecs else "SNAPPY"
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    compliant = not any(".list.item" in path for path in paths)
    probe = io.BytesIO()
    pq.write_table(pa.table([[]] * len(schema), schema=schema), probe, use_compliant_nested_type=compliant)
    leaves = pq.read_metadata(probe).schema
    written = [leaves.column(at).path for at in range(len(leaves))]
    return {
        "compression": {path: codecs.get(path, usual) for path in written} or usual,
        "use_compliant_nested_type": compliant,
    }


_CODECS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4", "LZO": "SNAPPY"}


def _repaired(text: bytes, other: dict[str, Any]) -> bytes:
    """What pandas noted of its columns, true again for those that have another type now."""
    try:
        notes = json.loads(text)
        for note in notes["columns"]:
            if note.get("field_name", note.get("name")) in other:
                number = str(other[note.get("field_name", note.get("name"))]) == "double"
                note["pandas_type"] = "float64" if number else "unicode"
                note["numpy_type"] = "float64" if number else "object"
                note["metadata"] = None
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    return json.dumps(notes).encode()
