"""The share of the records' text that judges are shown, and where the rest of it stands.

A dump that is read wrongly shows itself here, whatever its shape: the answers, or the tasks, are text
that is in the records and in no prompt.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from ruler_cli.errors import UnreadableError
from ruler_cli.formats.interface import printable
from ruler_cli.prompting.layout import PromptLayout
from ruler_cli.prompting.render import quoted
from ruler_cli.reading.parse import parse
from ruler_cli.types import Group

SHORTEST = 20
"""Characters from which on a text counts: shorter ones are roles, kinds and names."""
ENOUGH = 20
"""Groups after which a run knows enough: to look at one takes as long as to judge it."""
_LINE, _TEXT_IN_TEXT = 8, 3
"""Characters of a line that is looked for by itself, and how deep JSON text in JSON text is."""
_MOST_TEXTS, _MOST_PATHS, _DEEPEST = 1_000_000, 10_000, 60
_MOST_SCANNED = 1 << 29
"""Characters of a prompt that are passed in search of texts that are not in it."""
_NAMED = 3
_ANY_KEY = re.compile(r"[0-9]+|[0-9a-fA-F-]{8,}|.{41,}", re.DOTALL)
"""Keys that are ids rather than names: all of them are one path."""
_ID = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_.:+-]{20,80}")
"""An id, a hash or a time: none of them is text."""
_BINARY = re.compile(r"(?:data:[A-Za-z0-9/+.;=-]{1,100},)?[A-Za-z0-9+/=_-]{200,}")
"""A picture, a signature, something encrypted."""
_LONGEST_ID = 80
_SPEAKER = re.compile(r"^[# ]*[A-Za-z]{2,9}:\s*")
_OURS, _LOG = "ruler", "RULER explanation: "

_Leaf = tuple[str, str]


@dataclass(slots=True)
class Coverage:
    """Bytes of the texts of groups, each distinct text once, and how many of them are in the prompts.

    `missing` holds the bytes that are not shown, by the path where they stand, `[]` for any item of a list.
    `continued` counts groups in which a rollout goes on where another ends.
    """

    groups: int = 0
    bytes: int = 0
    shown: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    first_continued: str = ""
    _seen: set[int] = field(default_factory=set)

    def look(self, group: Group, sheet: PromptLayout) -> None:
        """Take in a group, laid out as its judge is shown it."""
        if not sheet.distinct or len(self._seen) > _MOST_TEXTS:
            return
        self.groups += 1
        self._compare(group, sheet)
        prompt = _Prompt("\n".join((sheet.context, sheet.tools, *sheet.distinct, sheet.rubric)))
        for record in group.records:
            if record.part:
                continue
            try:
                value = parse(record.line.raw, exact=False)
            except (UnreadableError, RecursionError):
                continue
            for path, text in _leaves(value):
                self._take(path, text, prompt)
                if prompt.tired:
                    return

    @property
    def share(self) -> float | None:
        """The share that is shown; None if there is no text."""
        return self.shown / self.bytes if self.bytes else None

    @property
    def enough(self) -> bool:
        """Tell if a run has looked at enough groups."""
        return self.groups >= ENOUGH

    def most(self) -> list[tuple[str, int]]:
        """The paths with text that is not shown, those with the most bytes first."""
        return sorted(self.missing.items(), key=lambda pair: (-pair[1], pair[0]))

    def named(self) -> str:
        """The first of these paths with their sizes, for a sentence; empty if all is shown."""
        every = self.most()
        some = ", ".join(f"{printable(path)} {_size(size)}" for path, size in every[:_NAMED])
        return some + (", …" if len(every) > _NAMED else "")

    def doubts(self) -> list[str]:
        """A warning if rollouts seem to be steps of one run, each with all that was said before."""
        if not self.continued:
            return []
        groups = "1 group has" if self.continued == 1 else f"{self.continued:,} groups have"
        return [
            f"{groups} rollouts that go on where another of the group ends (first: "
            f"{printable(self.first_continued)}), as if they were steps of one run; if they are, keep the "
            "last step of each run"
        ]

    def _compare(self, group: Group, sheet: PromptLayout) -> None:
        """Count a group of which a rollout is the beginning of another."""
        ordered = sorted(sheet.distinct)
        if any(not one or other.startswith(one + "\n") for one, other in itertools.pairwise(ordered)):
            self.continued += 1
            self.first_continued = self.first_continued or group.key

    def _take(self, path: str, text: str, prompt: _Prompt) -> None:
        known = hash(text)
        if known in self._seen:
            return
        self._seen.add(known)
        if " " not in text[:_LONGEST_ID] and (
            _ID.fullmatch(text) if len(text) <= _LONGEST_ID else _BINARY.fullmatch(text)
        ):
            return
        size = _bytes(text)
        shown = size if prompt.holds(text) else round(size * prompt.part_of(text))
        if prompt.tired:
            return
        self.bytes += size
        self.shown += shown
        if shown < size and (path in self.missing or len(self.missing) < _MOST_PATHS):
            self.missing[path] += size - shown


class _Prompt:
    """The text that a judge is shown. Texts of records mostly stand in it in the order of the records."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._scanned = text, 0, 0

    @property
    def tired(self) -> bool:
        """Tell if so much was looked for in vain that nothing more is looked for."""
        return self._scanned > _MOST_SCANNED

    def holds(self, text: str) -> bool:
        """Tell if a text is shown: as a JSON string, or as it is."""
        shown = quoted(text)[1:-1]
        return self._find(shown) or (shown != text and self._find(text))

    def part_of(self, text: str, depth: int = 0) -> float:
        """The share of a text that is shown where it is not shown as one piece.

        JSON text may be shown as the JSON that it is; of any other text the lines count.
        """
        if text.lstrip()[:1] in ("{", "["):
            try:
                value = orjson.loads(text)
                if self._find(orjson.dumps(value).decode()):
                    return 1.0
            except (ValueError, TypeError):  # it only looks like JSON, or is nested too deeply
                value = None
            inner = [leaf for _, leaf in _leaves(value, 1)]
        else:
            inner = [line.strip() for line in re.split(r"[\n\r]+", text) if len(line) >= _LINE]
        whole = sum(map(_bytes, inner))
        if not whole or depth == _TEXT_IN_TEXT or inner == [text]:
            return 0.0
        shown = (_bytes(one) * (1.0 if self._tells(one) else self.part_of(one, depth + 1)) for one in inner)
        return sum(shown) / whole

    def _tells(self, line: str) -> bool:
        """Tell if a line is shown, without the name of the speaker if a dialogue was split into turns."""
        if self.holds(line):
            return True
        said = _SPEAKER.sub("", line)
        return said != line and self.holds(said)

    def _find(self, text: str) -> bool:
        if self.tired:
            return False
        at = self._text.find(text, self._at)
        if at < 0:
            self._scanned += len(self._text)
            at = self._text.find(text)
        if at >= 0:
            self._at = at
        return at >= 0


def _leaves(value: Any, shortest: int = SHORTEST) -> Iterator[_Leaf]:
    """Every text of a JSON value that is long enough, in order, with its path; none that ruler wrote."""
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack:
        path, item, depth = stack.pop()
        if isinstance(item, str):
            if len(item) >= shortest and not item.startswith(_LOG):
                yield path, item
        elif depth > _DEEPEST:
            continue
        elif isinstance(item, dict):
            inner = [
                (f"{path}.{_key(key)}" if path else _key(key), one, depth + 1)
                for key, one in item.items()
                if key != _OURS and type(one) in _HOLDERS
            ]
            stack += reversed(inner)
        elif isinstance(item, list):
            below = f"{path}[]"
            stack += [(below, one, depth + 1) for one in reversed(item) if type(one) in _HOLDERS]


_HOLDERS = (str, dict, list)


@lru_cache(4096)
def _key(key: str) -> str:
    return "*" if _ANY_KEY.fullmatch(key) else key


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size(size: int) -> str:
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"
