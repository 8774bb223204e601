"""`--summary FILE`: what a run did, as JSON, in a file that is none of its others."""

from __future__ import annotations

from pathlib import Path

import typer

from ruler_cli.errors import OutputError, UsageError
from ruler_cli.files.remote import is_remote
from ruler_cli.observer import Summary
from ruler_cli.settings import ScoreSettings


def refuse(path: Path | None, settings: ScoreSettings) -> None:
    """Tell before a call what would be told after all of them."""
    from ruler_cli.writing import is_address

    if path is None:
        return
    taken = [
        settings.input.source,
        settings.output,
        settings.output.rstrip("/") + ".failed.jsonl",
        settings.failed,
    ]
    if is_address(path):
        raise UsageError("--summary: is an address; give a file of this machine")
    files = [other for other in taken if other and not is_remote(str(other))]
    if str(path) != "-" and any(path.resolve() == Path(other).resolve() for other in files):
        raise UsageError(f"--summary {path}: is another file of this run; give it a name of its own")
    if str(path) == "-" and settings.output == "-":
        raise UsageError("--summary -: stdout holds the records already; give it a file")
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(f"--summary {path}: is a directory, or its directory does not exist")


def write(path: Path, done: Summary) -> None:
    """Write it; OutputError where that cannot be."""
    import dataclasses

    import orjson

    text = orjson.dumps({"version": 1, **dataclasses.asdict(done)}, option=orjson.OPT_INDENT_2)
    if str(path) == "-":
        typer.echo(text)
        return
    try:
        path.write_bytes(text + b"\n")
    except OSError as error:
        raise OutputError(f"--summary {path}: cannot be written: {error.strerror}") from None
