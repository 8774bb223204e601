"""The group that a command line names by its key: the search for it, and the error if there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from ruler_cli.cli.safe_text import parse_key, printable_key
from ruler_cli.errors import UsageError
from ruler_cli.settings.suggestions import nearest

if TYPE_CHECKING:
    from ruler_cli.results.compare import LeftOutGroup

COMPARED, LONGEST = 10_000, 200
"""Keys compared for a suggestion, and characters of a key that count."""
SAME_KEY = 20
"""Groups of one key that are shown; of more, the first."""
_IN_ADDRESS = "!*'()~"
"""Characters that a page, too, leaves as they are in its address."""


class KeySearch:
    """A search in the file `name` for the groups with a key; without a key none matches."""

    def __init__(
        self,
        name: str,
        key: str | None,
    ) -> None:
        self.name, self._key = name, key
        self._text = "" if key is None else parse_key(key)
        self._keys: list[str] = []
        self._matched: str | None = None

    def matches(self, key: str) -> bool:
        """True for a group with the key as it is, as ruler prints it, or as a page shortens it."""
        if self._key is None:
            return False
        matched = self._is(key)
        if matched:
            self._matched = self._matched or key
        elif len(self._keys) < COMPARED:
            self._keys.append(key)
        return matched

    def refuse_unknown(self, left_out: Sequence[LeftOutGroup] = ()) -> None:
        """Raise UsageError if there is a key and no group matched; it may be one that is `left_out`."""
        if self._key is None or self._matched is not None:
            return
        for group in left_out:
            if self._is(group.key):
                raise UsageError(f"{self.name}: {group.sentence}")
        shortened = {key[:LONGEST]: key for key in self._keys}
        near = nearest(self._key, shortened)
        remedy = see_check(self.name)
        if near:
            remedy = f"the nearest is {_quoted(shortened[near])}"
        problem = f"{self.name}: there is no group {_quoted(self._key)}"
        raise UsageError(problem, remedy)

    def _is(self, key: str) -> bool:
        return key in (self._key, self._text) or (
            len(key) > LONGEST and self._text == _page_key(key)
        )

    @property
    def fragment(self) -> str:
        """The part of a page's address that opens the first group that matched; empty without one."""
        from ruler_cli.types import readable_text

        if self._matched is None:
            return ""
        text = readable_text(_page_key(self._matched))
        return "#group=" + quote(text, safe=_IN_ADDRESS)


def _page_key(key: str) -> str:
    from ruler_cli.results.identity import group_name

    return group_name(key)


def see_check(name: str) -> str:
    """Return the advice for a file without a group."""
    return f"`ruler check {name}` says how groups are found"


def _quoted(key: str) -> str:
    """Write a key in a sentence, as `--group` takes it."""
    text = printable_key(key)
    return f"`{text}`" if len(text) <= LONGEST else f"`{text[:LONGEST]}…`"
