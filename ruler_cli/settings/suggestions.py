"""Suggestions for a mistyped word, file or path.

Only errors need them, so `difflib` is imported inside the function.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any

_MOST = 5000
"""Names to compare at most: a directory or a record may hold any number, and an error must not take long."""
_DEEP = 4
"""Levels of a record that are searched."""


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the choice nearest in spelling, None if no ratio reaches `cutoff`, from 0 to 1."""
    from difflib import get_close_matches

    matches = get_close_matches(word, list(islice(choices, _MOST)), 1, cutoff)
    return matches[0] if matches else None


def question(suggestion: str | None) -> str:
    """Return the end of a sentence that asks about a suggestion; empty for None."""
    return f"; did you mean {suggestion}?" if suggestion else ""


def other_file(name: str, otherwise: str, *, before: str = "") -> str:
    """Return what to do about a missing file: write the nearest name, with `before`, else `otherwise`."""
    near = suggest_file(name)
    return otherwise if near is None else f"did you mean {before}{near}?"


def suggest_file(name: str) -> str | None:
    """Return the path of the file with the name nearest to a missing one's, in the same directory."""
    folder, last = os.path.split(name.rstrip("/"))
    names: list[str] = []
    with suppress(OSError, ValueError):
        names += [entry.name for entry in islice(Path(folder).iterdir(), _MOST)]
    # a link to nothing is missing, and has the name itself
    others = [one for one in names if one != last]
    match = nearest(last, others, 0.8)
    return match and os.path.join(folder, match)  # noqa: PTH118 - keeps `./`


def pattern_of(paths: Sequence[str]) -> str:
    """Return a pattern that all paths match: their common begin and end, with `*` between."""
    begin, rests = _common(paths)
    end, middles = _common([rest[::-1] for rest in rests])
    folders = {middle.count("/") for middle in middles}
    stars = "*/" * max(folders) + "*"
    if len(folders) > 1:
        begin = begin[: begin.rfind("/") + 1]
        stars = "**/*"
        end = end.partition("/")[0]
    return escape(begin) + stars + escape(end[::-1])


def _common(texts: Sequence[str]) -> tuple[str, list[str]]:
    """Return the begin that texts share, and their rests."""
    begin = os.path.commonprefix(texts)  # noqa: RUF071 - of texts
    return begin, [text[len(begin) :] for text in texts]


def suggest_path(dotted: str, records: Iterable[Any]) -> str | None:
    """Return the dotted path in the records nearest to one that they lack."""
    paths = (path for record in records for path in _paths(record, "", _DEEP))
    return nearest(dotted, islice(paths, _MOST), 0.7)


def _paths(value: Any, before: str, deep: int) -> Iterator[str]:
    """Yield every dotted path into an object."""
    if isinstance(value, Mapping) and deep:
        for key, inner in value.items():
            yield before + key
            yield from _paths(inner, f"{before}{key}.", deep - 1)
