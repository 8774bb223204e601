"""The group that a command line names by its key: the search for it, and the error if there is none."""

from __future__ import annotations

from ruler_cli.cli.safe_text import one_line, visible
from ruler_cli.errors import UsageError
from ruler_cli.types import shorten

_LONGEST = 200
"""Characters of a key in a sentence."""
SAME_KEY = 20
"""Groups of one key that are shown; of more, the first."""


class KeySearch:
    """A search in the file `name` for the groups with a key; without a key none matches."""

    def __init__(self, name: str, key: str | None) -> None:
        self.name = name
        self._key = key
        self._matched = False

    def matches(self, key: str) -> bool:
        """True for a group with the key as it is, as ruler prints it, or as a page shortens it."""
        from ruler_cli.results.identity import group_name

        printed = one_line(visible(key))
        matched = self._key in (key, printed, group_name(key))
        self._matched = self._matched or matched
        return matched

    def refuse_unknown(self) -> None:
        """Raise UsageError if there is a key and no group matched."""
        if self._key is None or self._matched:
            return
        key = shorten(one_line(visible(self._key)), _LONGEST)
        problem = f"{self.name}: there is no group `{key}`"
        raise UsageError(problem, see_check(self.name))


def see_check(name: str) -> str:
    """Return the advice for a file without a group."""
    return f"`ruler check {name}` shows how groups are found"
