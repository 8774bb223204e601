"""What somebody may have meant: the nearest of the words, files and paths that there are.

Needed on the way to an error only, so nothing is imported before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_MOST = 5000
"""Names that are compared: a directory or a record may hold any number, and an error must not take long."""
_DEEP = 4
_FOLDERS = 50
_LEFT = (".partial", ".failed.jsonl")
"""What a run leaves beside its output, which nobody means as an input."""


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The choice that a word was meant for, None where none is near.

    The same but for case, `-`, `_` and blanks comes first, then the one choice that it begins, then the
    nearest in spelling, of which `cutoff`, from 0 to 1, says how near it must be.
    """
    known = _few(choices)
    alike = {_bare(choice): choice for choice in reversed(known)}
    bare = _bare(word)
    if bare in alike:
        return alike[bare]
    begun = [choice for choice in known if len(bare) > 1 and _bare(choice).startswith(bare)]
    if len(begun) == 1:
        return begun[0]
    from difflib import get_close_matches

    close = get_close_matches(bare, alike, 1, cutoff)
    return alike[close[0]] if close else None


def question(found: str | None) -> str:
    """The end of a sentence that asks whether this was meant; empty for None."""
    return f"; did you mean {found}?" if found is not None else ""


def file(name: str) -> str | None:
    """The path, as it was begun, of the file or directory whose name is nearest to a missing one's."""
    if name.count("/") > _FOLDERS:
        return None
    folder, last = os.path.split(name.rstrip("/"))
    if folder and not os.path.isdir(folder):  # noqa: PTH112 - no error where the name is too long
        other = file(folder)
        if other is None or not os.path.isdir(other):  # noqa: PTH112 - as above
            return None
        same = os.path.join(other, last)  # noqa: PTH118 - `./` is kept as it was written
        return same if os.path.exists(same) else file(same)  # noqa: PTH110 - as above
    try:
        with os.scandir(folder or ".") as found:
            there = _few(entry.name for entry in found if not entry.name.endswith(_LEFT))
    except (OSError, ValueError):
        return None
    stems: dict[str, list[str]] = {}
    for entry in there:
        stems.setdefault(_stem(entry), []).append(entry)
    stem = nearest(_stem(last), stems)
    if stem is None:
        return None
    from difflib import SequenceMatcher

    best = max(sorted(stems[stem]), key=lambda other: SequenceMatcher(None, last, other).ratio())
    return os.path.join(folder, best)  # noqa: PTH118 - as above


def path(dotted: str, records: Iterable[Mapping[str, Any]]) -> str | None:
    """The dotted path, of those that records have, that is nearest to one that none has."""
    known = list(dict.fromkeys(_few(one for record in records for one in _paths(record, "", _DEEP))))
    found = nearest(dotted, known, 0.7)
    if found is not None:
        return found
    last = _bare(dotted.rsplit(".", 1)[-1])
    ends = [one for one in known if _bare(one.rsplit(".", 1)[-1]) == last]
    return ends[0] if ends else None


def _paths(value: Any, before: str, deep: int) -> Iterator[str]:
    """Every dotted path into an object, those of the rollouts of a group as of one of them."""
    if isinstance(value, Mapping) and deep:
        for key, inner in value.items():
            if isinstance(key, str) and key:
                yield before + key
                yield from _paths(inner, f"{before}{key}.", deep - 1)
        inner = value.get("trajectories")
        if not before and isinstance(inner, list):
            for item in inner[:5]:
                yield from _paths(item, "", deep - 1)


def _few(names: Iterable[str]) -> list[str]:
    from itertools import islice

    return list(islice(names, _MOST))


def _bare(word: str) -> str:
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")


def _stem(name: str) -> str:
    """A file's name without its endings, which are the same for all and would make all of them near."""
    return name[:1] + name[1:].split(".", 1)[0]
