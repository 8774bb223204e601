"""Kinds of files that hold no records as they are: a sentence for each, with the line that converts it."""

from __future__ import annotations

import csv
import os
import re
import shlex
from collections.abc import Sequence
from itertools import chain, count
from pathlib import PurePath

from ruler_cli.errors import ForeignError, UsageError

_TAR = (257, b"ustar")
"""Offset and bytes that a tar archive has."""
HEAD = 512
"""Bytes that tell a kind."""
_EXPORT = "write the rollouts as JSON lines where they were made"
_NO_ROLLOUTS = "give the file with the rollouts"
_PACKED = {
    b"\xff\xfe\x00\x00": "UTF-32 text; convert it with: iconv -f UTF-32 -t UTF-8",
    b"\x00\x00\xfe\xff": "UTF-32 text; convert it with: iconv -f UTF-32 -t UTF-8",
    b"{\x00\x00\x00": "UTF-32 text; convert it with: iconv -f UTF-32LE -t UTF-8",
    b"\x00\x00\x00{": "UTF-32 text; convert it with: iconv -f UTF-32BE -t UTF-8",
    b"\xff\xfe": "UTF-16 text; convert it with: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it with: iconv -f UTF-16 -t UTF-8",
    b"{\x00": "UTF-16 text; convert it with: iconv -f UTF-16LE -t UTF-8",
    b"\x00{": "UTF-16 text; convert it with: iconv -f UTF-16BE -t UTF-8",
    b"PAR1": "Parquet; write it as JSON lines first, e.g. "
    "pandas.read_parquet(p).to_json(out, orient='records', lines=True)",
    b"PK\x03\x04": "a zip archive; unpack it and give the JSON lines inside",
    b"BZh": "bzip2; decompress it with bunzip2, or recompress as .gz or .zst",
    b"\xfd7zXZ": "xz; decompress it with unxz, or recompress as .gz or .zst",
}
"""First bytes of text, or of files, in a form to undo first; and the end of the sentence.

UTF-32 is above UTF-16, whose mark its own begins with.
"""
_BINARY = {
    b"7z\xbc\xaf": "a 7z archive; unpack it and give the JSON lines inside",
    b"Rar!": "a rar archive; unpack it and give the JSON lines inside",
    b"\x89PNG": f"a PNG image; {_NO_ROLLOUTS}",
    b"\xff\xd8\xff": f"a JPEG image; {_NO_ROLLOUTS}",
    b"GIF8": f"a GIF image; {_NO_ROLLOUTS}",
    b"%PDF": f"a PDF document; {_NO_ROLLOUTS}",
    b"\x7fELF": f"a program; {_NO_ROLLOUTS}",
    b"\x93NUMPY": f"a NumPy array, which holds no messages; {_EXPORT}",
    b"\x89HDF": f"HDF5, which holds arrays and no messages; {_EXPORT}",
    b"Obj\x01": f"Avro; {_EXPORT}",
    b"ORC": f"ORC; {_EXPORT}",
}
"""First bytes of files that are no text, and the end of the sentence about them."""
_PICKLE = (
    "a Python pickle, which can run code as it is read",
    "if you trust it, write it as JSON lines",
    "import json,pickle,sys; "
    "[print(json.dumps(r,default=vars)) for r in pickle.load(open(sys.argv[1],'rb'))]",
)
_PYTHON = {
    b"SQLite format 3\x00": (
        "an SQLite database",
        "write a table of it as JSON lines",
        "import json,sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.row_factory=sqlite3.Row; "
        "[print(json.dumps(dict(r))) for r in c.execute('SELECT * FROM ROLLOUTS')]",
    ),
    **{bytes((0x80, protocol)): _PICKLE for protocol in (2, 3, 4, 5)},
    b"ARROW1": (
        "an Arrow file",
        "write it as JSON lines",
        "import json,pyarrow as p,sys; f=p.ipc.open_file(sys.argv[1]); "
        "[print(json.dumps(r)) for r in f.read_all().to_pylist()]",
    ),
    b"\xff\xff\xff\xff": (
        "an Arrow stream, as data sets of Hugging Face are on disk",
        "write it as JSON lines",
        "import json,pyarrow as p,sys; f=p.ipc.open_stream(open(sys.argv[1],'rb')); "
        "[print(json.dumps(r)) for b in f for r in b.to_pylist()]",
    ),
}
"""First bytes of files that a line of Python converts: the kind, the advice, the program."""
_TABLE = (
    "import csv,json,sys; csv.field_size_limit(10**9); "
    "[print(json.dumps(r)) for r in csv.DictReader(open(sys.argv[1],newline='',encoding='utf-8-sig'){})]"
)
_SHEET = "import pandas,sys; print(pandas.read_excel(sys.argv[1]).to_json(orient='records',lines=True),end='')"
_YAML = "import json,sys,yaml; [print(json.dumps(r,default=str)) for r in yaml.safe_load(open(sys.argv[1]))]"
_LITERALS = "import ast,json,sys; [print(json.dumps(ast.literal_eval(r))) for r in open(sys.argv[1]) if r.strip()]"
_DATASET = (
    "import json,pathlib,pyarrow as p,sys; [print(json.dumps(r,default=str)) "
    "for f in sorted(pathlib.Path(sys.argv[1]).rglob('*.arrow')) "
    "for b in p.ipc.open_stream(open(f,'rb')) for r in b.to_pylist()]"
)
_DELIMITERS = {
    ",": ("CSV", ""),
    "\t": ("TSV", r",delimiter='\t'"),
    ";": ("CSV", ",delimiter=';'"),
}


def refuse_foreign(name: str, head: bytes) -> None:
    """Raise UsageError for a file that is no plain text, by its first `HEAD` bytes.

    ForeignError if it holds no records at all, so that a directory is read without it.
    """
    for magic, sentence in _PACKED.items():
        if head.startswith(magic):
            raise UsageError(f"{name}: is {sentence}")
    for magic, sentence in _BINARY.items():
        if head.startswith(magic):
            raise ForeignError(f"{name}: is {sentence}")
    for magic, (kind, advice, program) in _PYTHON.items():
        if head.startswith(magic):
            raise ForeignError(
                f"{name}: is {kind}; {advice}: {_command(program, name)}"
            )
    if head[_TAR[0] :].startswith(_TAR[1]):
        raise ForeignError(
            f"{name}: is a tar archive; unpack it (tar xf) and give what is inside"
        )


def refuse_saved_dataset(name: str, files: Sequence[str]) -> None:
    """Raise UsageError for a directory that `datasets` of Hugging Face saved: its records are in Arrow."""
    if any(one.endswith("dataset_info.json") for one in files) and any(
        one.endswith(".arrow") for one in files
    ):
        advice = f"write it as JSON lines: {_command(_DATASET, name)}"
        raise UsageError(
            f"{name}: is a data set that Hugging Face's `datasets` saved; {advice}"
        )


def foreign_member(name: str, members: Sequence[str]) -> str | None:
    """Return a sentence on a zip archive of another program, by the names of its members."""
    if any(
        one.endswith("data.pkl") for one in members
    ):  # never opened: it may run code
        return f"{name}: is a torch file; export its samples as JSON lines"
    if any(one.startswith("xl/") for one in members):
        return f"{name}: is an Excel workbook; write it as JSON lines: {_command(_SHEET, name)}"
    if any(one.endswith(".npy") for one in members):
        return f"{name}: holds NumPy arrays and no messages; {_EXPORT}"
    return None


def _cells(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line of a table; None if one is longer than Python's reader takes."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return None


def foreign_text(name: str, lines: Sequence[bytes]) -> str | None:
    """Return a sentence on text that is no JSON, by its first lines; None if its kind is not known."""
    first = lines[0].decode("utf-8", "replace").strip()
    below = lines[1].decode("utf-8", "replace").strip() if len(lines) > 1 else ""
    if first.startswith("version https://git-lfs."):
        return (
            f"{name}: is a pointer of Git LFS, and not the file; fetch it: git lfs pull"
        )
    if re.match(r"<!doctype html|<html", first, re.IGNORECASE):
        return f"{name}: is a web page (HTML); give the file with the rollouts, not the page that shows it"
    if first.startswith("<"):
        return f"{name}: is XML; {_EXPORT}"
    if first.startswith("{'"):
        return f"{name}: holds Python's notation, and no JSON; convert it: {_command(_LITERALS, name)}"
    for delimiter, (kind, option) in _DELIMITERS.items():
        columns, row = _cells(first, delimiter), _cells(below, delimiter)
        if not columns or len(columns) < 2:
            continue
        names = all(
            re.fullmatch(r"[A-Za-z_][\w .\[\]/-]{0,80}", column) for column in columns
        )
        if names and (
            row is None or len(row) == len(columns) or below.count('"') % 2 or not below
        ):
            return f"{name}: is {kind}; write it as JSON lines: {_command(_TABLE.format(option), name)}"
    if re.match(r"---$|- [\w-]+:|[\w-]+:( |$)|- ", first):
        return f"{name}: is YAML; write it as JSON lines: {_command(_YAML, name)}"
    return None


def _command(program: str, name: str) -> str:
    """Return the command that runs a program of Python over a file, into a new file of JSON lines."""
    source, unpack = shlex.quote("/dev/stdin" if name == "stdin" else name), ""
    for ending, tool in ((".gz", "zcat"), (".zst", "zstdcat")):
        if name.endswith(ending):
            name = name.removesuffix(ending)
            source, unpack = "/dev/stdin", f"{tool} {source} | "
    stem = "in" if name == "stdin" else str(PurePath(name.rstrip("/")).with_suffix(""))
    targets = chain(
        [f"{stem}.jsonl"], (f"{stem}.converted{n or ''}.jsonl" for n in count())
    )
    target = next(one for one in targets if not os.path.exists(one))  # noqa: PTH110 - no error for a long name
    return f'{unpack}python3 -c "{program}" {source} > {shlex.quote(target)}'
