"""Groups → what a page for a browser embeds of them: rows of a table, explanations, texts in blocks.

A block is gzip in base64, in which no foreign character can be seen.
"""

from __future__ import annotations

import base64
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from heapq import heappop, heappush
from typing import Any

import orjson

from ruler_cli.formats.chat import first_turn
from ruler_cli.marked.values import MarkedGroup
from ruler_cli.records import Group
from ruler_cli.report.figures import stretches
from ruler_cli.report.group import GroupText, page_key, shorter, shorter_line
from ruler_cli.scoring.render import readable_text
from ruler_cli.scratch import Scratch

MOST_TEXTS = 32 << 20
"""Bytes of all groups' texts in the file."""
AT_ONCE = 128 << 20
"""Bytes of texts that are made before it is known if they are chosen."""
MOST_TEXT = 16 << 20
"""Bytes of JSON of one group's text; more of it cannot be looked at in a browser."""
MOST_BLOCK = 2 << 20
"""Bytes that the text of one group takes in the file."""
_MOST_LINE, _LEAST_LINE = 1 << 20, 1 << 7
"""Characters of a line of a text that is too large: the most that it keeps, and the least."""
COLUMNS = (
    *("key", "task", "status", "kind", "reason", "judge", "passes"),
    *("scores", "labels", "bytes", "places", "slots", "spreads"),
    *("mean", "sd", "reliability", "weight", "tied", "live", "disagreement"),
    *("cost", "tokens", "latency", "at", "ordinal", "flags"),
)
"""The values of a row, in this order."""
_TASK, _NAME, _SAID = 160, 500, 4_000
"""Characters of a task, of a reason or a judge's name, and of an explanation in the table."""
_LEVEL = 6
"""A level of 9 takes a fifth longer for the thousandth part; 3 is twice as fast and a tenth larger."""
_GZIP = zlib.MAX_WBITS | 16


def as_json(value: Any) -> bytes:
    """A value as JSON that every reader takes: lone surrogates become U+FFFD, NaN and Infinity null.

    Integers beyond 64 bits, up to the largest double, are rounded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, a huge integer
        return orjson.dumps(readable(value))


def readable(value: Any) -> Any:
    """A value that any JSON can hold: no half of a surrogate pair, no integer beyond 64 bits."""
    if isinstance(value, str):
        return readable_text(value)
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else float(value)  # as JavaScript reads it anyway
    if isinstance(value, dict):
        return {readable_text(name): readable(item) for name, item in value.items()}
    return [readable(item) for item in value] if isinstance(value, list | tuple) else value


def packed(pieces: Iterable[bytes]) -> bytes:
    """Bytes, given in pieces, as one block, the same for the same bytes."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    done = [packer.compress(piece) for piece in pieces]
    return base64.b64encode(b"".join((*done, packer.flush())))


class Leaves:
    """What a page embeds of its groups, which are put in the order of their rows; it waits on disk.

    Texts are those of the most telling groups, until the next does not fit into MOST_TEXTS.
    """

    def __init__(self, stack: ExitStack) -> None:
        """The temporary file goes with `stack`."""
        self._spool = stack.enter_context(Scratch())
        self._rows: list[tuple[int, int]] = []  # begin and size: its values as JSON, a line each
        self._texts: list[tuple[int, int, bool]] = []  # begin, size, and if something had to be cut
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
        self._said: list[bytes] = []
        self._heap: list[tuple[int, int]] = []
        self._left, self._end = MOST_TEXTS, sys.maxsize
        self._order: list[tuple[int, str]] = []

    @property
    def size(self) -> int:
        """Bytes on disk so far."""
        return self._spool.size

    def put(self, ordinal: int, group: Group, marked: MarkedGroup, rank: int | None = None) -> None:
        """Add the `ordinal`th group of the file; one whose `rank` is known has no text if it has no room."""
        row = b"\n".join(map(as_json, _row(ordinal, group, marked)))
        said = as_json([shorter(r.explanation, _SAID) or None for r in marked.rollouts])
        self._said.append(self._packer.compress((b"," if self._rows else b"[") + said))
        wanted = rank is None or rank < self._end
        block, cut = text_block(GroupText.of(group, marked), marked) if wanted else (b"", False)
        self._rows.append((self._spool.write(row), len(row)))
        self._texts.append((self._spool.write(block), len(block), cut))
        if rank is not None and block:
            self._take(rank, len(block) + 1)

    def _take(self, rank: int, size: int) -> None:
        """Count a text; less telling ones make way for it."""
        heappush(self._heap, (-rank, size))
        self._left -= size
        while self._left < 0:
            least, freed = heappop(self._heap)
            self._left, self._end = self._left + freed, -least

    def finish(self, chosen: Mapping[int, str]) -> dict[str, int]:
        """Say how telling the groups are: by their ordinals, the most telling first, and why.

        It returns how many `rows` and `texts` there are, how many texts are `cut`, or too `huge` to be here.
        """
        ranks = {ordinal: (rank, because) for rank, (ordinal, because) in enumerate(chosen.items())}
        self._order = [ranks[ordinal] for ordinal in sorted(chosen)]
        left, here, huge = MOST_TEXTS, set[int](), 0
        for row in sorted(range(len(self._order)), key=self._order.__getitem__):
            size = self._texts[row][1]
            left -= size + bool(size)
            if left < 0:
                break
            huge += not size
            if size:
                here.add(row)
        self._texts = [text if row in here else (0, 0, False) for row, text in enumerate(self._texts)]
        self._said += self._packer.compress(b"]"), self._packer.flush()
        cut = sum(cut for _, _, cut in self._texts)
        return {"rows": len(self._rows), "texts": len(here), "cut": cut, "huge": huge}

    def data(self, head: dict[str, Any]) -> bytes:
        """The block of the page's data: `head` and the rows, column by column, in input order."""
        rows = [self._spool.read(size, at).split(b"\n") for at, size in self._rows]
        columns = dict(zip(COLUMNS, map(b",".join, zip(*rows, strict=True)), strict=True))
        more = {
            "telling": [rank for rank, _ in self._order],
            "because": [because for _, because in self._order],
            "text": list(self._places()),
        }
        columns |= {name: as_json(values)[1:-1] for name, values in more.items()}
        told = b",".join(b'"%s":[%s]' % (name.encode(), values) for name, values in columns.items())
        return packed((as_json(head)[:-1], b',"rows":{', told, b"}}"))

    def _places(self) -> Iterator[tuple[int, int] | None]:
        """Begin and size of each row's text among the blocks, which are a line each."""
        at = 0
        for _, size, _ in self._texts:
            yield (at, size) if size else None
            at += size + bool(size)

    def said(self) -> bytes:
        """The block of all explanations."""
        return base64.b64encode(b"".join(self._said))

    def blocks(self) -> Iterator[str]:
        """The texts, in the order of their rows."""
        return (self._spool.read(size, at).decode("ascii") for at, size, _ in self._texts if size)


def text_block(text: GroupText, marked: MarkedGroup) -> tuple[bytes, bool]:
    """The text as a block, empty if even the least of it is too large; True if some lines had to be cut."""
    most: int | None = None
    while most is None or most >= _LEAST_LINE:
        body = as_json(_text(text, marked, most))
        block = packed([body]) if len(body) <= MOST_TEXT else b""
        if 0 < len(block) <= MOST_BLOCK:
            return block, most is not None
        most = _MOST_LINE if most is None else most // 4
    return b"", True


def _text(text: GroupText, marked: MarkedGroup, most: int | None) -> dict[str, Any]:
    """The text and what was said of it; no line, explanation or reason longer than `most` characters."""
    strings: dict[str, int] = {}

    def words(said: str) -> str:
        return said if most is None else shorter(said, most)

    def lines(told: Iterable[str]) -> list[str]:
        return [line if most is None else shorter_line(line, most) for line in told]

    rollouts = [
        {
            "lines": [strings.setdefault(line, len(strings)) for line in lines(told)],
            "said": words(rollout.explanation),
            "why": words(rollout.reason),
            "score": rollout.score,
            "judged": rollout.judged,
            "label": rollout.label,
            "spread": rollout.spread,
            "slots": rollout.slots,
            "passes": rollout.pass_scores,
            "judges": rollout.judges,
            "suspect": rollout.suspect,
        }
        for rollout, told in zip(marked.rollouts, text.rollouts, strict=True)
    ]
    return {
        "key": page_key(marked.key),
        "context": lines(text.context),
        "tools": "\n".join(lines(text.tools.split("\n"))),
        "rubric": words(text.rubric),
        "strings": list(strings),
        "rollouts": rollouts,
        "identical": text.identical,
        "cut": most is not None,
    }


def _row(ordinal: int, group: Group, marked: MarkedGroup) -> list[Any]:
    """The group's values of COLUMNS."""
    rollouts = marked.rollouts
    return [
        *(page_key(marked.key), _task(group), marked.status, marked.kind),
        *(few_words(marked.reason), few_words(marked.judge), marked.passes),
        [r.score for r in rollouts],
        [r.label for r in rollouts],
        [r.size for r in rollouts],
        [_decimals(r.place) for r in rollouts],
        stretches(marked),
        [r.spread for r in rollouts],
        *(_decimals(marked.mean), _decimals(marked.sd), marked.reliability, marked.weight),
        *(marked.tied, marked.live, marked.disagreement),
        *(marked.cost, marked.usage.prompt + marked.usage.completion, marked.latency, marked.judged_at),
        *(ordinal, marked.flags),
    ]


def _task(group: Group) -> str:
    """The beginning of the user's last words before the agent's first turn; empty if nobody asked."""
    for rollout in group.rollouts:
        before = rollout.messages[: first_turn(rollout.messages)] if rollout.fault is None else []
        for message in reversed(before):
            if message.get("role") == "user":
                return " ".join(_words(message.get("content"))[: 8 * _TASK].split())[:_TASK]
    return ""


def _words(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return " ".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def few_words(text: str) -> str:
    """A reason or a name, not longer than a table can hold."""
    return shorter(text, _NAME)


def _decimals(value: float | None) -> float | None:
    """A figure without the noise of the last digits, which does not compress."""
    return None if value is None else round(value, 9)
