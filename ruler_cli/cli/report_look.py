"""A scored file → what `ruler report` shows: the run as a whole, or one of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from ruler_cli.cli.messages import say, typed
from ruler_cli.cli.messages import shown as key_shown
from ruler_cli.cli.progress import waiting
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Group
from ruler_cli.report.figures import Figures
from ruler_cli.report.group import GroupText, group_json, page_key
from ruler_cli.report.scored import Scored
from ruler_cli.report.telling import Shortlist, Telling

_LIKE, _LOOKED_AT, _LONGEST = 3, 10_000, 200
"""Keys that are suggested, that are compared, and how much of each."""
_ALIKE = 20
"""Groups of one key that are shown; of more, the first."""


@dataclass(frozen=True, slots=True)
class Run:
    """All of a scored file. `source` is what to type for it, None if it cannot be read again."""

    name: str
    source: str | None
    found: str
    figures: Figures
    worst: Sequence[Telling]
    disputed: Sequence[Telling]

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "version": 1,
            "source": self.name,
            "found": self.found,
            "figures": self.figures,
            "worst": [telling.as_json() for telling in self.worst],
            "disputed": [telling.as_json() for telling in self.disputed],
        }


@dataclass(frozen=True, slots=True)
class One:
    """The groups of a key, mostly one; `more` are not held."""

    name: str
    found: str
    groups: Sequence[tuple[int, MarkedGroup, GroupText]]
    more: int

    def as_json(self) -> dict[str, Any]:
        """The first of them for a program, and how many others have its key."""
        ordinal, group, text = self.groups[0]
        return {
            "version": 1,
            "source": self.name,
            "found": self.found,
            "ordinal": ordinal,
            "same_key": len(self.groups) + self.more - 1,
            "group": group_json(group, text),
        }


def run(scored: Scored, source: str) -> Run:
    """All of it; UsageError if no group has a mark."""
    shortlist = Shortlist()
    with waiting() as tick:

        def look(_ordinal: int, _group: Group, marked: MarkedGroup) -> None:
            shortlist.add(marked)
            tick()

        figures = scored.figures(look)
    if scored.doubt:
        say(f"ruler: warning: {scored.doubt}")
    name = Location(source).public  # a command to type again must show no password either
    again = None if name == "-" else name
    return Run(name, again, scored.input.found(), figures, shortlist.worst(), shortlist.disputed())


def one(scored: Scored, source: str, key: str) -> One:
    """The groups with a key, given as it is or as the page tells it; UsageError if there are none."""
    alone = _tells_keys_apart(scored)
    exact: list[tuple[int, Group]] = []
    told: list[tuple[int, Group]] = []
    more, keys, meant = 0, list[str](), typed(key)
    for ordinal, group in enumerate(scored.input.groups, 1):
        if group.key == key:
            more += len(exact) >= _ALIKE
            exact += [(ordinal, group)] if len(exact) < _ALIKE else []
            if alone:  # no other group can have it, and what cannot be read is known already
                break
        elif not exact:
            if _means(meant, group.key) and len(told) < _ALIKE:
                told.append((ordinal, group))
            if len(keys) < _LOOKED_AT:
                keys.append(group.key)
    found = exact or told
    if not found:
        raise _unknown(scored.name, key, keys)
    marked = [(ordinal, group, scored.mark(group)) for ordinal, group in found]
    texts = [(ordinal, mark, GroupText.of(group, mark)) for ordinal, group, mark in marked]
    return One(Location(source).public, scored.input.found(), texts, more)


def _tells_keys_apart(scored: Scored) -> bool:
    """True if all was looked at before, and no two groups have one key."""
    survey = scored.input.survey
    if survey is None or survey.repeated is not None:
        return False
    return survey.grouping != "line" or survey.reader.format.shape != "trajectory"


def _means(told: str, key: str) -> bool:
    """True if a key is told by this text: itself, or, if it is very long, as a page shortens it."""
    return told == key or (len(key) > _LONGEST and told == page_key(key))


def _unknown(name: str, key: str, keys: Sequence[str]) -> UsageError:
    like = nearest(key, keys)
    way = (
        f"the nearest {'are' if len(like) > 1 else 'is'} {', '.join(map(_named, like))}"
        if like
        else f"its first keys are {', '.join(map(_named, keys[:_LIKE]))}"
        if keys
        else f"`ruler check {name}` says how groups are found"
    )
    return UsageError(f"{name}: there is no group {_named(key)}; {way}")


def _named(key: str) -> str:
    """A key in a sentence, as `--group` takes it."""
    text = key_shown(key)
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[:_LONGEST]}…`"


def nearest(key: str, keys: Sequence[str]) -> list[str]:
    """The keys most like one that is not there: those that it begins or is part of, then those nearly it."""
    part = [other for other in keys if key and key.lower() in other.lower()]
    part.sort(key=lambda other: (not other.lower().startswith(key.lower()), len(other)))
    short = {other[:_LONGEST]: other for other in reversed(keys)}
    close = get_close_matches(key[:_LONGEST], short, _LIKE)
    return list(islice(dict.fromkeys((*part, *(short[one] for one in close))), _LIKE))
