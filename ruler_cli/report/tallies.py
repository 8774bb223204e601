"""Counts of words that a stranger's file holds, in memory that it cannot fill."""

from __future__ import annotations

import re

from ruler_cli.report.values import Reason

OTHER = "other"
"""Where words are counted that came when there were too many different ones."""
_LONGEST_NAME = 200
_LONGEST_REASON = 600
_LONGEST_KEY = 4000
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
_IDS = re.compile(r"(?=[\w-]*\d)[A-Za-z0-9_-]{16,}")


class Tally:
    """How often words occur: the first `most` different ones, the rest as `other`."""

    def __init__(self, most: int = 24) -> None:
        self._most = most
        self._n: dict[str, int] = {}

    def add(self, word: str) -> str:
        """Count one, and say as what; of a very long word only its beginning is kept."""
        word = word[:_LONGEST_NAME]
        if word not in self._n and len(self._n) >= self._most:
            word = OTHER
        self._n[word] = self._n.get(word, 0) + 1
        return word

    def found(self) -> dict[str, int]:
        """The commonest first."""
        return dict(sorted(self._n.items(), key=lambda item: (-item[1], item[0])))


class Reasons:
    """Sentences that groups failed with, alike where only numbers and ids in them differ.

    The first 500 different sentences are counted; groups that failed with another are in no reason.
    """

    _MOST = 500

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[int, str, str]] = {}

    def add(self, kind: str, reason: str, key: str) -> None:
        """Count a group."""
        reason = reason[: _LONGEST_REASON + 1]
        alike = (kind[:_LONGEST_NAME], _NUMBERS.sub("0", _IDS.sub("0", reason)))
        n, text, first = self._found.get(alike, (0, reason, key[:_LONGEST_KEY]))
        if n or len(self._found) < self._MOST:
            self._found[alike] = n + 1, text, first

    def commonest(self, most: int) -> tuple[Reason, ...]:
        """The commonest, each in the words of the first group that failed with it."""
        ranked = sorted(self._found.items(), key=lambda item: -item[1][0])[:most]
        return tuple(Reason(kind, _cut(text), n, first) for (kind, _), (n, text, first) in ranked)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
