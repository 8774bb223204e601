"""A scored file → what `ruler report` shows: the run as a whole, or one of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

from ruler_cli.cli.messages import say, typed
from ruler_cli.cli.messages import shown as key_shown
from ruler_cli.cli.progress import Problems, waiting
from ruler_cli.errors import UsageError
from ruler_cli.files.location import Location
from ruler_cli.marked.read import Marks, doubt, refuse_unmarked, refuse_unusable
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.reading import open_input
from ruler_cli.records import Group
from ruler_cli.settings import InputSettings

if TYPE_CHECKING:
    from ruler_cli.report.texts import GroupText
    from ruler_cli.report.values import Overview, Telling

_LISTED = 5
_LIKE, _LOOKED_AT, _LONGEST = 3, 10_000, 200
"""Keys that are suggested, that are compared, and how much of each."""
_ALIKE = 20
"""Groups of one key that are shown; of more, the first."""


@dataclass(frozen=True, slots=True)
class Run:
    """All of a scored file. `source` is what to type for it, None where it cannot be read again."""

    name: str
    source: str | None
    found: str
    overview: Overview
    worst: Sequence[Telling]
    disputed: Sequence[Telling]

    def as_json(self) -> dict[str, Any]:
        """The same for a program."""
        from ruler_cli.report.as_json import overview_json, telling_json

        return {
            "version": 1,
            "source": self.name,
            "found": self.found,
            "figures": overview_json(self.overview),
            "worst": [telling_json(telling) for telling in self.worst],
            "disputed": [telling_json(telling) for telling in self.disputed],
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
        from ruler_cli.report.as_json import group_json

        ordinal, group, text = self.groups[0]
        return {
            "version": 1,
            "source": self.name,
            "found": self.found,
            "ordinal": ordinal,
            "same_key": len(self.groups) + self.more - 1,
            "group": group_json(group, text),
        }


class Look:
    """One scored file, opened."""

    def __init__(self, where: InputSettings, problems: Problems, stack: ExitStack) -> None:
        self._where, self._name = where, Location(where.source).shown
        self._input = open_input(where, stack, lambda problem: problems.problem(self._name, problem))
        if self._input.reader is None:
            raise UsageError(f"{self._name}: holds no records; give a file that `ruler score` wrote")
        for note in self._input.notes:
            say(f"ruler: {note}")
        self._marks = Marks(self._input.reader, given=where.outcome is not None)

    def run(self) -> Run:
        """All of it; UsageError where nothing has a mark."""
        from ruler_cli.report.overview import Gathering
        from ruler_cli.report.telling import Shortlist

        gathering, shortlist = Gathering(), Shortlist(_LISTED)
        with waiting() as one:
            for group in map(self._marks.group, self._input.groups):
                gathering.add(group)
                shortlist.add(group)
                one()
        overview = gathering.overview()
        refuse_unmarked(self._name, overview.groups, overview.unmarked)
        refuse_unusable(self._name, self._where.outcome, overview.labelled)
        if said := doubt(self._where.outcome, overview.own_labels, overview.rollouts_scored):
            say(f"ruler: warning: {said}")
        name = Location(self._where.source).public  # a command to type again must show no password either
        again = None if name == "-" else name
        return Run(name, again, self._input.found(), overview, shortlist.worst(), shortlist.disputed())

    def one(self, key: str) -> One:
        """The groups with a key, given as it is or as the page tells it; UsageError where there are none."""
        alone = self._tells_keys_apart()
        exact: list[tuple[int, Group]] = []
        told: list[tuple[int, Group]] = []
        more, keys, meant = 0, list[str](), typed(key)
        for ordinal, group in enumerate(self._input.groups, 1):
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
            raise self._unknown(key, keys)
        return self._one(found, more)

    def _tells_keys_apart(self) -> bool:
        """Whether all was looked at before, and no two groups have one key."""
        survey = self._input.survey
        if survey is None or survey.repeated is not None:
            return False
        return survey.grouping != "line" or survey.reader.format.shape != "trajectory"

    def _one(self, found: Sequence[tuple[int, Group]], more: int) -> One:
        from ruler_cli.report.texts import group_text

        marked = [(ordinal, group, self._marks.group(group)) for ordinal, group in found]
        texts = [(ordinal, mark, group_text(group, mark)) for ordinal, group, mark in marked]
        return One(Location(self._where.source).public, self._input.found(), texts, more)

    def _unknown(self, key: str, keys: Sequence[str]) -> UsageError:
        like = nearest(key, keys)
        way = (
            f"the nearest {'are' if len(like) > 1 else 'is'} {', '.join(map(named, like))}"
            if like
            else f"its first keys are {', '.join(map(named, keys[:_LIKE]))}"
            if keys
            else f"`ruler check {self._name}` says how groups are found"
        )
        return UsageError(f"{self._name}: there is no group {named(key)}; {way}")


def _means(told: str, key: str) -> bool:
    """Whether a key is told by this text: itself, or where it is very long, as a page shortens it."""
    if len(key) <= _LONGEST:
        return told == key
    from ruler_cli.report.rows import page_key

    return told in (key, page_key(key))


def named(key: str) -> str:
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
