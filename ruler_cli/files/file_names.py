"""Names of files to write: an ending promises a kind of file, and a name that promises another is refused."""

from __future__ import annotations

from pathlib import Path

from ruler_cli.errors import Sentence, UsageError
from ruler_cli.files.location import Location

TEXT = (".txt", ".log")
"""Endings of any text."""
FOREIGN = (
    *TEXT, ".csv", ".tsv", ".xlsx", ".xls", ".ods", ".html", ".htm", ".pdf", ".md", ".docx", ".xml", ".yaml",
    ".yml", ".toml", ".ini", ".db", ".sqlite", ".sqlite3", ".duckdb", ".pkl", ".pickle", ".pt", ".pth",
    ".npy", ".npz", ".h5", ".arrow", ".feather", ".avro", ".orc", ".msgpack", ".py", ".png", ".jpg", ".svg",
)  # fmt: skip
"""Endings of files that are no JSON lines."""
PACKED = (".bz2", ".xz", ".lzma", ".lz4", ".br", ".zip", ".7z", ".rar", ".tar", ".tgz")
"""Endings of compressions and archives that are not written."""


def refuse_output_name(
    source: str,
    output: str,
    content: str = "OUTPUT is JSON lines",
    other: tuple[str, ...] = (),
) -> None:
    """Raise UsageError if a name promises a directory, or a kind of file that INPUT does not become.

    An ending of FOREIGN that INPUT has, too, is INPUT's own name for what it holds. `content` says what is
    written; endings of `other` are refused as well.
    """
    out, file = Location(output), Path(output)
    if out.stream or (
        out.local and file.exists() and not file.is_file() and not file.is_dir()
    ):
        return
    inside = f"{out.public.rstrip('/')}/out.jsonl"
    if out.local and file.is_dir():
        raise UsageError(
            f"{output}: is a directory; name a file in it, e.g. {inside}, or `-` for stdout"
        )
    if out.public.endswith("/"):
        create = (
            f", and create it first: mkdir -p {output.rstrip('/')}" if out.local else ""
        )
        raise UsageError(
            f"{out.public}: is a directory's name; name a file in it, e.g. {inside}{create}"
        )
    own = "" if other else Location(source).unpacked
    refuse_ending(out.unpacked, f"{out.public}: {content}", own=own, other=other)


def refuse_ending(
    name: str, sentence: str, *, own: str = "", other: tuple[str, ...] = ()
) -> None:
    """Raise UsageError if a name has an ending of FOREIGN, of PACKED, or one of `other`.

    `own` is the name of a file whose ending is allowed. `sentence` begins the message.
    """
    stem, dot, ending = name.rpartition(".")
    kind = dot + ending.lower()
    if not stem or kind not in (*FOREIGN, *PACKED, *other):
        return
    if kind not in PACKED and own.lower().endswith(kind):
        return
    if kind in PACKED:
        whole = (
            stem if stem.endswith((".jsonl", ".json", ".ndjson")) else f"{stem}.jsonl"
        )
        packed = Sentence(
            "{sentence}, which is compressed as .gz or .zst only", sentence=sentence
        )
        raise UsageError(packed, f"name it {whole}.gz")
    problem = Sentence("{sentence}, and no {kind} file", sentence=sentence, kind=kind)
    raise UsageError(problem, f"name it {stem}.jsonl")
