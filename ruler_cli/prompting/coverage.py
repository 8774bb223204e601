"""The share of the rollouts' text that judges are shown, and the paths of the rest.

It reveals a dump that is read wrongly, of any shape: then the answers, or the tasks, are text that is in
the records and in no prompt. Only sentences count: no ids, paths, signatures or binary data. A text that is
in a prompt in another form (a diff, JSON text, the printed form of an object) is shown. What graders,
references, errors and metadata say is no part of a rollout, unless it stands above the turns: the names of
keys tell it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ruler_cli.errors import UnreadableError
from ruler_cli.files.parse import parse
from ruler_cli.files.values import words
from ruler_cli.messages.binary import LEFT_OUT, without_binary
from ruler_cli.messages.json_text import quoted
from ruler_cli.messages.names import GRADED, words_of
from ruler_cli.messages.side_fields import ABOUT, HARNESS
from ruler_cli.prompting.prompt import PromptLayout
from ruler_cli.types import Group, Record, printable, rubric_text

SHORTEST = 20
"""Characters of the shortest text that counts: shorter ones are roles, kinds and names."""
ENOUGH = 20
"""Groups that a run looks at: to look at one takes as long as to judge it."""
_ANSWER = 8
"""Characters of the shortest reference answer that is looked for in a prompt."""
_PIECE = 12
_VALUE = 4
_MOST_PIECES = 64
"""Characters of the shortest piece of a text that is searched by itself, and of the shortest value in JSON
text; pieces searched of one text."""
_MOST_TEXTS = 1_000_000
_MOST_PATHS = 10_000
_DEEPEST = 60
_MOST_SCANNED = 1 << 29
"""Characters of prompts that may be searched in vain."""
_SHARE = 0.85
_LEAST = 200
"""The share of the text that judges should be shown, and the bytes that may be missing in any case."""
_NAMED = 3
"""Paths that a sentence names."""


_BESIDE = GRADED | ABOUT | frozenset(words("error exception traceback"))
"""Words of keys with text of graders, references and errors, not of a rollout."""
_TURNS = frozenset(
    words("messages turns steps history conversation transcript trajectory")
)
"""Words of keys with turns, which may stand among those of a harness."""
_ANY_KEY = re.compile(r"[0-9]+|[0-9a-fA-F-]{8,}|.{41,}", re.DOTALL)
"""Keys that are ids rather than names: in a path they all become `*`."""
_BREAKS = re.compile(
    r"""(?:\\+(?:u[0-9a-fA-F]{4}|.)?|["'`<>{}\[\]|\x00-\x1f\x7f-\x9f\u2028-\u202e])+"""
)
"""Characters that another form of a text may escape, drop or replace, with the escapes themselves."""
_CIPHER = re.compile(
    r"\.(?:encrypted_(?:content|index|stdout)|redacted_thinking|redactedContent)$"
)
"""Paths of ciphertext."""
_KEYS = re.compile(r'"[^"\\]*\\*"\s*:')
_SCALARS = re.compile(r"(?:[\s\d.,:eE+-]|true|false|null)*")
"""Keys in JSON text, and what stands there between strings."""
_LEAD = re.compile(r"[\s+*#:→│0-9-]*(?:[A-Za-z]{2,9}:\s+)?")
"""Marks, numbers or the name of a speaker before a line of a diff, a listing or a dialogue."""
_RULER = "ruler"
_LOG = "RULER explanation: "
"""Key and beginning of what ruler itself wrote into a record."""


@dataclass(slots=True)
class Coverage:
    """Bytes of the texts of groups, each distinct text once, by path, with `[]` for any item of a list.

    `shown` counts what prompts show, `unseen` what they do not. `continued` counts groups in which a rollout goes on
    where another ends, `told` those with the reference answer in what all rollouts share. `binary` counts the bytes of
    base64 and ciphertext, which are left out.
    """

    groups: int = 0
    shown: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    binary: Counter[str] = field(default_factory=Counter)
    continued: int = 0
    first_continued: str = ""
    told: int = 0
    first_told: str = ""
    _reported: bool = False
    _seen: set[int] = field(default_factory=set)
    _columns: dict[int, list[str]] = field(default_factory=dict)

    def add(self, group: Group, layout: PromptLayout) -> None:
        """Add a group with the layout of its prompts."""
        if not layout.distinct or len(self._seen) > _MOST_TEXTS:
            return
        self.groups += 1
        for rollout, later in itertools.pairwise(sorted(layout.distinct)):
            if not rollout or later.startswith(rollout + "\n"):
                self.continued += 1
                self.first_continued = self.first_continued or group.key
                break
        answer = layout.reference.strip('"')
        if len(answer) >= _ANSWER and answer in layout.context:
            self.told += 1
            self.first_told = self.first_told or group.key
        shared = (layout.context, layout.tools, layout.reference)
        texts = (*shared, *layout.distinct, rubric_text(layout.rubric))
        prompt = _PromptText("\n".join(texts))
        for record in group.records:
            if record.parts > 1 and not self._join(record, prompt):
                continue
            try:
                value = parse(record.line.raw, exact=False)
            except (UnreadableError, RecursionError):
                continue
            for path, text in _leaves(value):
                self._count(path, text, prompt)
                if prompt.exhausted:
                    return

    def _join(self, record: Record, prompt: _PromptText) -> bool:
        """Return whether this is the last group of a columnar record; then the prompt holds the others' text too."""
        number = record.line.number
        # parts of a record are adjacent, so one record's texts are enough
        self._columns = {number: [*self._columns.get(number, ()), prompt.text]}
        prompt.text = "\n".join(self._columns[number])
        return len(self._columns[number]) == record.parts

    @property
    def bytes(self) -> int:
        """The bytes of the rollouts' text, shown or not."""
        turns = self._turns()
        texts = self.shown + self.unseen
        return sum(
            size for path, size in texts.items() if not _is_beside(path, turns)
        )

    @property
    def missing(self) -> int:
        """The bytes of the rollouts' text that are not shown."""
        return sum(size for _, size in self.not_shown())

    @property
    def share(self) -> float | None:
        """The share of the bytes that is shown; None if there is no text."""
        if whole := self.bytes:
            return 1 - self.missing / whole
        return None

    @property
    def enough(self) -> bool:
        """True if a run has looked at enough groups."""
        return self.groups >= ENOUGH

    def not_shown(self, *, beside: bool = False) -> list[tuple[str, int]]:
        """Return the paths with text that is not shown, and its bytes; the most bytes first.

        Those of the rollouts, or with `beside` those that are no part of them.
        """
        turns = self._turns()
        paths = [
            pair
            for pair in self.unseen.items()
            if _is_beside(pair[0], turns) is beside
        ]
        return sorted(paths, key=lambda pair: (-pair[1], pair[0]))

    def _turns(self) -> str:
        """Return the path of the list that holds half of what is shown, or more; empty if none does.

        What it holds that is not shown is subtracted, because graders repeat the turns among words of theirs.
        """
        lists = Counter[str]()
        for sign, texts in ((1, self.shown), (-1, self.unseen)):
            for path, size in texts.items():
                for end in re.finditer(r"\[\]", path):
                    lists[path[: end.end()]] += sign * size
        turns = max(
            lists,
            key=lambda path: (not _is_beside(path, ""), lists[path], len(path)),
            default="",
        )
        if 2 * lists[turns] >= self.shown.total():
            return turns
        return ""

    def not_shown_text(self) -> str:
        """Return the first of these paths with their sizes, for a sentence; empty if all is shown."""
        every = self.not_shown()
        some = [
            f"{printable(path)} {size:,} bytes" for path, size in every[:_NAMED]
        ]
        return ", ".join(some + ["…"] * (len(every) > _NAMED))

    def warnings(self) -> list[str]:
        """Return a warning if judges are not shown enough of the rollouts' text.

        And one if rollouts seem to be steps of one run, each with all steps before it.
        """
        sentences = []
        if self.continued:
            sentences.append(
                f"in {self.continued:,} of {self.groups:,} groups rollouts continue another rollout of the group "
                f"(first: {printable(self.first_continued)}); if they are steps of one run, keep the last step of "
                "each"
            )
        if self.told:
            sentences.append(
                f"in {self.told:,} of {self.groups:,} groups the reference answer appears in the shared context "
                f"(first: {printable(self.first_told)})"
            )
        missing = self.missing
        whole = self.bytes
        if missing > max(_LEAST, (1 - _SHARE) * whole):
            sentences.append(
                f"judges are shown {1 - missing / whole:.0%} of the text in the first {self.groups} groups; "
                f"not shown: {self.not_shown_text()} (`ruler check` names every path, in JSON)"
            )
        return sentences

    def report(self) -> list[str]:
        """Return the warnings of a run; none if it is called again."""
        if self._reported:
            return []
        self._reported = True
        return self.warnings()

    def _count(self, path: str, text: str, prompt: _PromptText) -> None:
        digest = hash(text)
        if digest in self._seen:
            return
        self._seen.add(digest)
        bare = "" if _CIPHER.search(path) else without_binary(text)
        mark = LEFT_OUT.search(bare)
        # else it is of a picture, or of no message
        if not bare or (mark and prompt.holds(mark[0])):
            self.binary[path] += _bytes(text) - _bytes(bare)
            text = bare
        if text.isascii() and " " not in text.strip() and text[:1] not in "{[":
            return  # an id, a path, a signature
        whole = shown = _bytes(text)
        if not prompt.holds(text):
            shown, whole = prompt.pieces_of(text)
        if prompt.exhausted:
            return
        for counter, size in (
            (self.shown, shown),
            (self.unseen, whole - shown),
        ):
            if size and (path in counter or len(counter) < _MOST_PATHS):
                counter[path] += size


class _PromptText:
    """The text of a prompt. Each search begins at the last match, since records and prompt have one order."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._scanned = 0

    @property
    def exhausted(self) -> bool:
        """True if too much was searched in vain: then nothing more is found."""
        return self._scanned > _MOST_SCANNED

    def holds(self, text: str) -> bool:
        """Return whether the prompt holds a text, escaped as in JSON or as it is."""
        escaped = quoted(text)[1:-1]
        return self._find(escaped) or (escaped != text and self._find(text))

    def pieces_of(self, text: str) -> tuple[int, int]:
        """Return the bytes of a text's sentences that are shown, and of all, if it is not shown as it is.

        The text is searched in the pieces that all its forms have in common; of many pieces some are
        searched, spread over the text. In JSON text, such as the arguments of a call, any value counts.
        """
        data = text.lstrip()[:1] in ("{", "[")
        least, text = (_VALUE, _KEYS.sub("", text)) if data else (_PIECE, text)
        split = (
            _LEAD.sub("", piece, count=1).rstrip()
            for piece in _BREAKS.split(text)
        )
        pieces = []
        for piece in split:
            # numbers have their separators beside them, which the prompt writes in another way
            counts = " " in piece or not piece.isascii()
            if data:
                counts = not _SCALARS.fullmatch(piece)
            if counts and len(piece) >= least:
                pieces.append(piece)
        whole = sum(map(_bytes, pieces))
        tried = pieces[:: -(-len(pieces) // _MOST_PIECES) or 1]
        shown = sum(_bytes(piece) for piece in tried if self._find(piece))
        return (
            round(whole * shown / sum(map(_bytes, tried))) if shown else 0
        ), whole

    def _find(self, text: str) -> bool:
        if self.exhausted:
            return False
        at = self.text.find(text, self._at)
        if at < 0:
            self._scanned += len(self.text)
            at = self.text.find(text)
        if at >= 0:
            self._at = at
        return at >= 0


def _is_beside(path: str, turns: str) -> bool:
    """Return whether a path leads to what is no part of a rollout, by the words of its keys below the turns."""
    named = words_of(path.removeprefix(turns))
    return bool(named & _BESIDE or (named & HARNESS and not named & _TURNS))


def _leaves(
    value: Any, path: str = "", depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield path and text of each string that may count, in order.

    Without ruler's own, and without demonstrations, which an agent is given and formats leave out.
    """
    if isinstance(value, str):
        if len(value) >= SHORTEST and not value.startswith(_LOG):
            yield path, value
    elif depth > _DEEPEST:
        return
    elif isinstance(value, list):
        below = f"{path}[]"
        for item in value:
            if type(item) in _HOLDERS:
                yield from _leaves(item, below, depth + 1)
    elif isinstance(value, dict) and value.get("is_demo") is not True:
        before = f"{path}." if path else ""
        if value.get("type") == "redacted_thinking":
            value = {"redacted_thinking": value.get("data")}
        for key, inner in value.items():
            if key != _RULER and type(inner) in _HOLDERS:
                yield from _leaves(inner, before + _key(key), depth + 1)


_HOLDERS = (str, dict, list)


@lru_cache(4096)
def _key(key: str) -> str:
    return "*" if _ANY_KEY.fullmatch(key) else key


def _bytes(text: str) -> int:
    data = text if text.isascii() else text.encode("utf-8", "surrogatepass")
    return len(data)
