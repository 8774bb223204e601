"""Suggestions for a mistyped word, file or path.

Only errors need them, so `difflib` is imported inside the function.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

_MOST = 5000
"""Names to compare at most: a directory or a record may hold any number, and an error must not take long."""
_DEEP = 4
"""Levels of a record that are searched."""


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the choice nearest in spelling, None if no ratio reaches `cutoff`, from 0 to 1.

    Case, `-`, `_` and blanks count for nothing.
    """
    from difflib import get_close_matches

    by_spelling = {_bare(choice): choice for choice in islice(choices, _MOST)}
    matches = get_close_matches(_bare(word), by_spelling, 1, cutoff)
    return by_spelling[matches[0]] if matches else None


def question(suggestion: str | None) -> str:
    """Return the end of a sentence that asks about a suggestion; empty for None."""
    return f"; did you mean {suggestion}?" if suggestion is not None else ""


def other_file(name: str, otherwise: str, *, before: str = "") -> str:
    """Return what to do about a missing file: write the nearest name, with `before`, else `otherwise`."""
    near = suggest_file(name)
    return otherwise if near is None else f"did you mean {before}{near}?"


def suggest_file(name: str) -> str | None:
    """Return the path of the file with the name nearest to a missing one's, in the same directory."""
    folder, last = os.path.split(name.rstrip("/"))
    try:
        with os.scandir(folder or ".") as entries:
            # a link to nothing is missing, and has the name itself
            names = [
                entry.name for entry in islice(entries, _MOST) if entry.name != last
            ]
    except (OSError, ValueError):  # then there is no suggestion
        return None
    finished = [name for name in names if not name.endswith(".partial")]
    match = nearest(last, finished, 0.8)
    return match and os.path.join(folder, match)  # noqa: PTH118 - keeps `./`


def suggest_path(dotted: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the dotted path in the records nearest to one that they lack."""
    paths = (path for record in records for path in _paths(record, "", _DEEP))
    known = dict.fromkeys(islice(paths, _MOST))
    return nearest(dotted, known, 0.7)


def _paths(value: Any, before: str, deep: int) -> Iterator[str]:
    """Yield every dotted path into an object; those into a group's rollouts as from one rollout."""
    if isinstance(value, Mapping) and deep:
        for key, inner in value.items():
            if isinstance(key, str) and key:
                yield before + key
                yield from _paths(inner, f"{before}{key}.", deep - 1)
        rollouts = value.get("trajectories")
        if not before and isinstance(rollouts, list):
            for item in rollouts[:5]:
                yield from _paths(item, "", deep - 1)


def _bare(word: str) -> str:
    return word.casefold().translate({ord(sign): None for sign in "_- "})
