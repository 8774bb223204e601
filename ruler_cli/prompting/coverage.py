"""The share of the records' text that judges are shown, and the paths of the rest.

It reveals a dump that is read wrongly, of any shape: then the answers, or the tasks, are text that is in
the records and in no prompt.
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
"""Characters of the shortest text that counts: shorter ones are roles, kinds and names."""
ENOUGH = 20
"""Groups that a run looks at: to look at one takes as long as to judge it."""
_LINE, _TEXT_IN_TEXT = 8, 3
"""Characters of the shortest line that is searched by itself, and levels of JSON text inside JSON text."""
_MOST_TEXTS, _MOST_PATHS, _DEEPEST = 1_000_000, 10_000, 60
_MOST_SCANNED = 1 << 29
"""Characters of prompts that may be searched in vain."""
_HALF = 0.5
"""The share of the text that judges should be shown."""
_NAMED = 3
"""Paths that a sentence names."""
_ANY_KEY = re.compile(r"[0-9]+|[0-9a-fA-F-]{8,}|.{41,}", re.DOTALL)
"""Keys that are ids rather than names: in a path they all become `*`."""
_ID = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_.:+-]{20,80}")
"""An id, a hash or a time: none of them is text."""
_BINARY = re.compile(r"(?:data:[A-Za-z0-9/+.;=-]{1,100},)?[A-Za-z0-9+/=_-]{200,}")
"""A picture, a signature, something encrypted."""
_LONGEST_ID = 80
_SPEAKER = re.compile(r"^[# ]*[A-Za-z]{2,9}:\s*")
_RULER, _LOG = "ruler", "RULER explanation: "
"""Key and beginning of what ruler itself wrote into a record."""


@dataclass(slots=True)
class Coverage:
    """Bytes of the texts of groups, each distinct text once, and the number of them that prompts show.

    `missing` counts the bytes that are not shown, by path, with `[]` for any item of a list.
    `continued` counts groups in which a rollout goes on where another ends.
    """

    groups: int = 0
    bytes: int = 0
    shown: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    first_continued: str = ""
    _reported: bool = False
    _seen: set[int] = field(default_factory=set)

    def add(self, group: Group, layout: PromptLayout) -> None:
        """Add a group with the layout of its prompts."""
        if not layout.distinct or len(self._seen) > _MOST_TEXTS:
            return
        self.groups += 1
        ordered = sorted(layout.distinct)
        if any(not one or other.startswith(one + "\n") for one, other in itertools.pairwise(ordered)):
            self.continued += 1
            self.first_continued = self.first_continued or group.key
        prompt = _PromptText("\n".join((layout.context, layout.tools, *layout.distinct, layout.rubric)))
        for record in group.records:
            if record.part:
                continue
            try:
                value = parse(record.line.raw, exact=False)
            except (UnreadableError, RecursionError):
                continue
            for path, text in _leaves(value):
                self._count(path, text, prompt)
                if prompt.exhausted:
                    return

    @property
    def share(self) -> float | None:
        """The share of the bytes that is shown; None if there is no text."""
        return self.shown / self.bytes if self.bytes else None

    @property
    def enough(self) -> bool:
        """True if a run has looked at enough groups."""
        return self.groups >= ENOUGH

    def not_shown(self) -> list[tuple[str, int]]:
        """Return the paths with text that is not shown, and its bytes; the most bytes first."""
        return sorted(self.missing.items(), key=lambda pair: (-pair[1], pair[0]))

    def not_shown_text(self) -> str:
        """Return the first of these paths with their sizes, for a sentence; empty if all is shown."""
        every = self.not_shown()
        some = ", ".join(f"{printable(path)} {_size(size)}" for path, size in every[:_NAMED])
        return some + (", …" if len(every) > _NAMED else "")

    def warnings(self) -> list[str]:
        """Return a warning if rollouts seem to be steps of one run, each with all steps before it."""
        if not self.continued:
            return []
        groups = "1 group has" if self.continued == 1 else f"{self.continued:,} groups have"
        return [
            f"{groups} rollouts that go on where another of the group ends (first: "
            f"{printable(self.first_continued)}), as if they were steps of one run; if they are, keep the "
            "last step of each run"
        ]

    def report(self) -> list[str]:
        """Return the warnings of a run; none if it is called again.

        They say if judges are shown less than half of the text, and which text they are not shown.
        """
        if self._reported:
            return []
        self._reported, sentences = True, self.warnings()
        if self.share is not None and self.share < _HALF:
            groups = f"the first {self.groups} groups" if self.groups > 1 else "the first group"
            sentences.append(
                f"judges are shown {self.share:.0%} of the text in {groups}; "
                f"not shown: {self.not_shown_text()} (`ruler check` names every place)"
            )
        return sentences

    def _count(self, path: str, text: str, prompt: _PromptText) -> None:
        digest = hash(text)
        if digest in self._seen:
            return
        self._seen.add(digest)
        no_text = _ID if len(text) <= _LONGEST_ID else _BINARY
        if " " not in text[:_LONGEST_ID] and no_text.fullmatch(text):
            return
        size = _bytes(text)
        shown = size if prompt.holds(text) else round(size * prompt.share_of(text))
        if prompt.exhausted:
            return
        self.bytes += size
        self.shown += shown
        if shown < size and (path in self.missing or len(self.missing) < _MOST_PATHS):
            self.missing[path] += size - shown


class _PromptText:
    """The text of a prompt. Each search begins at the last match, since records and prompt have one order."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._scanned = text, 0, 0

    @property
    def exhausted(self) -> bool:
        """True if too much was searched in vain: then nothing more is found."""
        return self._scanned > _MOST_SCANNED

    def holds(self, text: str) -> bool:
        """Tell if the prompt holds a text, escaped as in JSON or as it is."""
        escaped = quoted(text)[1:-1]
        return self._find(escaped) or (escaped != text and self._find(text))

    def share_of(self, text: str, depth: int = 0) -> float:
        """Return the share of a text that is shown, if it is not shown as one piece.

        JSON text may be shown as JSON values; any other text is searched line by line.
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
        shown = 0.0
        for one in inner:
            # a line is shown with or without the name of its speaker
            held = self.holds(one) or ((speech := _SPEAKER.sub("", one)) != one and self.holds(speech))
            shown += _bytes(one) * (1.0 if held else self.share_of(one, depth + 1))
        return shown / whole

    def _find(self, text: str) -> bool:
        if self.exhausted:
            return False
        at = self._text.find(text, self._at)
        if at < 0:
            self._scanned += len(self._text)
            at = self._text.find(text)
        if at >= 0:
            self._at = at
        return at >= 0


def _leaves(value: Any, shortest: int = SHORTEST) -> Iterator[tuple[str, str]]:
    """Yield path and text of each string of `shortest` characters or more, in order, without ruler's own."""
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack:
        path, item, depth = stack.pop()
        if isinstance(item, str):
            if len(item) >= shortest and not item.startswith(_LOG):
                yield path, item
        elif depth > _DEEPEST:
            continue
        elif isinstance(item, dict):
            before = f"{path}." if path else ""
            stack += [
                (before + _key(key), one, depth + 1)
                for key, one in reversed(item.items())
                if key != _RULER and type(one) in _HOLDERS
            ]
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
