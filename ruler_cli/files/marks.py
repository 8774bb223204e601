"""An existing file → ruler's own or another program's, by its mark: another's is replaced only by --force."""

from __future__ import annotations

import re
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Literal

from ruler_cli.errors import (
    ForeignError,
    RulerError,
    UnreadableError,
    UsageError,
)
from ruler_cli.files import open_container
from ruler_cli.files.error_map import reading
from ruler_cli.files.location import Location
from ruler_cli.files.parse import parse
from ruler_cli.files.source import decompressed
from ruler_cli.types import Line

Kind = Literal["OUTPUT", "page", "summary", "request file"]
_HEADS = {
    "request file": re.compile(rb'\{"custom_id":"[0-9a-f]{32}",'),
    "page": re.compile(rb'[^{]*<meta name="generator" content="ruler '),
    "summary": re.compile(
        rb'\{\s*"version": \d+,\s*"(ruler|groups|scored|total)"'
    ),
}
"""The beginnings of files that are not lists of records."""
_PAIR = {"chosen", "rejected", "score_chosen", "chosen_id"}
"""Members of the pairs that are made of scored records."""
_STATUS = rb'"status":\s*"(?:scored|failed)"'
_ANNOTATION = re.compile(
    rb'(?<!\\)(?:"ruler":\s*\{\s*%s|%s,\s*"(?:score":[^,]*,\s*"judge_score|independent_reward)")'
    % (_STATUS, _STATUS)
)
"""An annotation under its own name, or as the metadata of a score in an Inspect log."""
_HEAD = 1 << 14


def refuse_foreign(
    location: Location, kind: Kind, *, force: bool = False
) -> bool:
    """Raise UsageError for a file that ruler did not write as this kind, unless it is empty; return whether it holds
    scores.

    It may be compressed, a table, or at an address. With `force` it is not looked at.
    """
    why = f"is not ruler's own {kind}"
    try:
        if force or not _has_bytes(location):
            return False
        if kind == "OUTPUT":
            with ExitStack() as stack:
                container = open_container(location.name, stack)
                lines = container.records()
                first = next(lines, None)
                # a log may begin with a sample that is not scored
                further = lines if container.log else ()
                if first is None:
                    is_ours = container.form != ""
                elif any(map(has_scores, chain((first,), further))):
                    return True
                else:
                    is_ours = parse(first.raw).keys() >= _PAIR
        else:
            with location.open() as stream, reading(location.public):
                head = decompressed(location.public, stream).read(_HEAD)
            is_ours = not head or bool(_HEADS[kind].match(head))
        if is_ours:
            return False
    except (ForeignError, UnreadableError, RecursionError):
        pass
    except RulerError as error:
        why = f"ruler cannot tell if it wrote it ({error.problem})"
    raise not_replaced(location, why)


def not_replaced(location: Location, why: str) -> UsageError:
    """Return the error for a file that stays as it is."""
    return UsageError(
        f"exists, and {why}",
        "give another name (put a pattern of inputs in quotes), or replace it with --force",
        place=location.public,
    )


def _has_bytes(location: Location) -> bool:
    """Return whether a location is a file that is not empty, and not a stream or a device."""
    if location.remote:
        store = location.store()
        with reading(location.public):
            return bool(
                store.system.exists(store.path)
                and store.system.info(store.path).get("size") != 0
            )
    path = Path(location.name)
    return location.local and path.is_file() and path.stat().st_size > 0


def has_scores(line: Line) -> bool:
    """Return whether a record has an annotation of ruler; one that is quoted in a text does not count."""
    return bool(_ANNOTATION.search(line.raw))
