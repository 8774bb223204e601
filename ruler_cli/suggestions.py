"""Suggestions for a mistyped word, file or path: the nearest that there is.

Needed on the way to an error only, so nothing is imported before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

_MOST = 5000
"""Names that are compared: a directory or a record may hold any number, and an error must not take long."""
_DEEP = 4
_FOLDERS = 50


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The choice nearest in spelling, None if none is as near as `cutoff`, from 0 to 1.

    Case, `-`, `_` and blanks count for nothing.
    """
    from difflib import get_close_matches

    alike = {_bare(choice): choice for choice in islice(choices, _MOST)}
    close = get_close_matches(_bare(word), alike, 1, cutoff)
    return alike[close[0]] if close else None


def question(found: str | None) -> str:
    """The end of a sentence that asks if this was meant; empty for None."""
    return f"; did you mean {found}?" if found is not None else ""


def file(name: str) -> str | None:
    """The path, as it was begun, of the file or directory whose name is nearest to a missing one's."""
    folder, last = os.path.split(name.rstrip("/"))
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - no error where the name is too long
        other = file(folder) if folder.count("/") < _FOLDERS else None
        return other and file(os.path.join(other, last))  # noqa: PTH118 - `./` is kept as it was written
    try:
        with os.scandir(folder or ".") as found:
            near = nearest(last, (entry.name for entry in found if not entry.name.endswith(".partial")), 0.8)
    except (OSError, ValueError):
        return None
    return near and os.path.join(folder, near)  # noqa: PTH118 - as above


def path(dotted: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """The dotted path, of those that records have, that is nearest to one that none has."""
    known = dict.fromkeys(islice((one for record in records for one in _paths(record, "", _DEEP)), _MOST))
    ends = {one.rsplit(".", 1)[-1]: one for one in reversed(known)}
    return nearest(dotted, known, 0.7) or ends.get(nearest(dotted.rsplit(".", 1)[-1], ends, 1.0) or "")


def _paths(value: Any, before: str, deep: int) -> Iterator[str]:
    """Every dotted path into an object, those of the rollouts of a group as of one of them."""
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
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")
