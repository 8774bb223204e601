"""Records inside a JSON text, at the path of the list or object that holds them: bytes that are never parsed.

The text is not trusted: it may end anywhere or be not JSON at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ruler_cli.errors import ForeignError, UnreadableError, UsageError
from ruler_cli.files.parse import dump
from ruler_cli.files.splice import (
    DAMAGED,
    read_array,
    read_object,
    skip,
    value_end,
)
from ruler_cli.files.values import parts
from ruler_cli.types import value

_PATH = re.compile(r"\.?([^\[\]{}]*)(\[\]|\{\})")


class NoRecordsError(UnreadableError):
    """A path leads nowhere."""

    def for_input(self, name: str) -> ForeignError:
        """Return the error for a whole file."""
        remedy = "check the path, or leave it out: `ruler check` proposes one"
        return ForeignError(
            self.reason,
            remedy,
            place=f"{name}: --set records",
        )


@value
class RecordPath:
    """The names that lead to the items of a list or, with `by_key`, to the members of an object."""

    names: tuple[str, ...] = ()
    by_key: bool = False

    @property
    def text(self) -> str:
        """The path as the user writes it."""
        return ".".join(self.names) + ("{}" if self.by_key else "[]")


def path_of(text: str) -> RecordPath:
    """Read a path such as `data.runs[]` or `tasks{}`; UsageError if it is none."""
    match = _PATH.fullmatch(text)
    names = tuple(map(str, parts(match[1]))) if match and match[1] else ()
    if match is None or "" in names:
        raise UsageError(
            "is not a path of records",
            "it leads to the items of a list, e.g. data.runs[], or to the members of an object, {}",
            place=f"--set records={text}",
        )
    return RecordPath(names, match[2] == "{}")


def values_at(
    raw: bytes, at: int, path: RecordPath
) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each record in the value at an offset; a member is `{"key": …, "value": …}`.

    UnreadableError where the text is not JSON; NoRecordsError if the path leads nowhere.
    """
    nowhere = NoRecordsError(f"holds no records at `{path.text}`")
    try:
        at = skip(raw, at)
        for name in path.names:
            members = _members(raw, at)
            if name not in members:
                raise nowhere
            at = members[name]
        if raw[at] != ord("{" if path.by_key else "["):
            raise nowhere
        if not path.by_key:
            for start, end in read_array(raw, at):
                yield start, raw[start:end]
            return
        for key, start in _members(raw, at).items():
            member = raw[start : value_end(raw, start)]
            yield start, b'{"key": %s, "value": %s}' % (dump(key), member)
    except IndexError:  # the text ends
        raise UnreadableError(DAMAGED) from None


def _members(raw: bytes, at: int) -> dict[str, int]:
    """Return the offsets of the members of an object; none of any other value."""
    if raw[at] != ord("{"):
        return {}
    spans = read_object(raw, at)
    if raw[spans.end - 1 : spans.end] != b"}":
        raise UnreadableError(DAMAGED)
    if len(spans.every) > len(spans.members):
        raise UnreadableError("has two members of one name; rename one")
    return {key: start for key, (_, start, _) in spans.members.items()}
