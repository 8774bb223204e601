"""Which process reads which part of the input, and by what path."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ruler_cli.cluster.plan import write_plan
from ruler_cli.cluster.source import Part, ranged, streamed
from ruler_cli.files.location import Location
from ruler_cli.groups import line_of
from ruler_cli.reading import Input
from ruler_cli.settings import ScoreSettings


def parts_of(
    settings: ScoreSettings, found: Input, home: str, stack: ExitStack
) -> tuple[list[Part], str | None]:
    """What read tasks read of an input that was surveyed, and on which node (None: on any).

    Files are read where the driver is, on `home`; what is made for that ends with `stack`.
    """
    if found.reader is None or found.survey is None:
        return [], home
    together = settings.adaptive or settings.escalate is not None
    if found.plain is None:
        remote = Location(settings.input.source).remote
        source = settings.input.source if remote else str(Path(settings.input.source).absolute())
        survey = replace(found.survey, where=line_of)  # its own is a method of an open file
        parts = streamed(replace(settings.input, source=source), found.reader, survey, together)
        return parts, None if remote else home
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ruler-plan-"))) / "plan"
    with path.open("wb") as plan:
        ranges = write_plan(found.survey, found.index, together, plan)
    source = _path(settings.input.source, found.plain.fileno(), path.parent)
    return ranged(str(path), source, found.unit, ranges), home


def _path(source: str, fd: int, folder: Path) -> str:
    """A path by which other processes of this machine can open a file that is open here."""
    named = Path(source).absolute()
    if named.exists() and os.path.samestat(os.fstat(fd), named.stat()):
        return str(named)
    mine = Path(f"/proc/{os.getpid()}/fd/{fd}")
    if mine.exists():
        return str(mine)
    copy = folder / "input"
    with os.fdopen(os.dup(fd), "rb") as whole, copy.open("wb") as out:
        whole.seek(0)
        shutil.copyfileobj(whole, out, 1 << 20)
    return str(copy)
