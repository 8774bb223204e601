"""Groups → what a page for a browser embeds of them: rows of a table, explanations, texts in blocks.

A block is gzip in base64, in which no foreign character can be seen.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any

import orjson

from ruler_cli.formats.chat import first_turn
from ruler_cli.prompting.render import readable_text
from ruler_cli.reading.scratch import Scratch
from ruler_cli.results.report.figures import stretches
from ruler_cli.results.report.group_text import GroupText, page_key, rollout_json, shorter, shorter_line
from ruler_cli.results.scored_groups import ScoredGroup
from ruler_cli.types import Group

MOST_TEXTS = 32 << 20
"""Bytes of all groups' texts in the file."""
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
_TASK, NAME, _SAID = 160, 500, 4_000
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


class EmbeddedGroups:
    """What a page embeds of its groups: put once each, as they come, on disk until it is known which are in.

    Texts are those of the most telling groups, until the next does not fit into MOST_TEXTS.
    """

    def __init__(self, stack: ExitStack) -> None:
        """The temporary file goes with `stack`."""
        self._spool = stack.enter_context(Scratch())
        self._put: dict[int, tuple[int, int, int]] = {}  # by ordinal: begin, size of the row, of the text
        self._chosen: list[tuple[int, int, str]] = []  # in input order: ordinal, rank, why
        self._texts: dict[int, tuple[int, int]] = {}  # by ordinal: begin and size of a block

    def put(self, ordinal: int, group: Group, marked: ScoredGroup) -> None:
        """Add the `ordinal`th group of the file: its row, a value a line, its explanations, its text."""
        said = [shorter(r.explanation, _SAID) or None for r in marked.rollouts]
        row = b"\n".join(map(as_json, [*_row(ordinal, group, marked), said]))
        text = as_json(_text(GroupText.of(group, marked), marked))
        self._put[ordinal] = (self._spool.write(row), len(row), len(text))
        self._spool.write(text)

    def finish(self, chosen: Mapping[int, str]) -> dict[str, int]:
        """Choose groups by their ordinals, the most telling first, each with why.

        It returns how many `rows` and `texts` there are, how many texts are `cut`, or too `huge` to be here.
        """
        left, counts = MOST_TEXTS, {"rows": len(chosen), "texts": 0, "cut": 0, "huge": 0}
        self._chosen = sorted((ordinal, rank, why) for rank, (ordinal, why) in enumerate(chosen.items()))
        for ordinal in chosen:
            at, row, size = self._put[ordinal]
            block, cut = text_block(self._spool.read(size, at + row))
            left -= len(block) + bool(block)
            if left < 0:
                break
            if block:
                self._texts[ordinal] = (self._spool.write(block), len(block))
            counts["texts" if block else "huge"] += 1
            counts["cut"] += cut and bool(block)
        return counts

    def _rows(self) -> Iterator[list[bytes]]:
        for ordinal, _, _ in self._chosen:
            at, size, _ = self._put[ordinal]
            yield self._spool.read(size, at).split(b"\n")

    def data(self, head: dict[str, Any]) -> bytes:
        """The block of the page's data: `head` and the rows, column by column, in input order."""
        columns = dict(zip(COLUMNS, map(b",".join, zip(*self._rows(), strict=True)), strict=False))
        more = {
            "telling": [rank for _, rank, _ in self._chosen],
            "because": [why for _, _, why in self._chosen],
            "text": list(self._places()),
        }
        columns |= {name: as_json(values)[1:-1] for name, values in more.items()}
        named = b",".join(b'"%s":[%s]' % (name.encode(), values) for name, values in columns.items())
        return packed((as_json(head)[:-1], b',"rows":{', named, b"}}"))

    def _places(self) -> Iterator[tuple[int, int] | None]:
        """Begin and size of each row's text among the blocks, which are a line each."""
        at = 0
        for ordinal, _, _ in self._chosen:
            _, size = self._texts.get(ordinal, (0, 0))
            yield (at, size) if size else None
            at += size + bool(size)

    def said(self) -> bytes:
        """The block of all explanations."""
        pieces = (b"," * (n > 0) + row[-1] for n, row in enumerate(self._rows()))
        return packed(chain((b"[",), pieces, (b"]",)))

    def blocks(self) -> Iterator[str]:
        """The texts, in the order of their rows."""
        found = (self._texts[ordinal] for ordinal, _, _ in self._chosen if ordinal in self._texts)
        return (self._spool.read(size, at).decode("ascii") for at, size in found)


def text_block(text: bytes) -> tuple[bytes, bool]:
    """A text as a block, empty if even the least of it is too large; True if lines had to be cut."""
    most, body = 4 * _MOST_LINE, text
    while most >= _LEAST_LINE:
        block = packed([body]) if len(body) <= MOST_TEXT else b""
        if 0 < len(block) <= MOST_BLOCK:
            return block, body is not text
        most //= 4
        body = as_json(_shortened(orjson.loads(text), most))
    return b"", True


def _shortened(text: dict[str, Any], most: int) -> dict[str, Any]:
    """A text of which no line, explanation or reason is longer than `most` characters."""

    def lines(found: list[str]) -> list[str]:
        return [shorter_line(line, most) for line in found]

    for rollout in text["rollouts"]:
        rollout |= {name: shorter(rollout[name], most) for name in ("explanation", "reason")}
    return text | {
        "context": lines(text["context"]),
        "tools": "\n".join(lines(text["tools"].split("\n"))),
        "rubric": shorter(text["rubric"], most),
        "strings": lines(text["strings"]),
        "cut": True,
    }


def _text(text: GroupText, marked: ScoredGroup) -> dict[str, Any]:
    """The text and the marks of its rollouts; each different line of theirs once, in `strings`."""
    strings: dict[str, int] = {}
    rollouts = [
        rollout_json(rollout) | {"lines": [strings.setdefault(line, len(strings)) for line in lines]}
        for rollout, lines in zip(marked.rollouts, text.rollouts, strict=True)
    ]
    return {
        "key": page_key(marked.key),
        "context": text.context,
        "tools": text.tools,
        "rubric": text.rubric,
        "strings": list(strings),
        "rollouts": rollouts,
        "identical": text.identical,
        "cut": False,
    }


def _row(ordinal: int, group: Group, marked: ScoredGroup) -> list[Any]:
    """The group's values of COLUMNS."""
    rollouts = marked.rollouts
    return [
        *(page_key(marked.key), _task(group), marked.status, marked.kind),
        *(shorter(marked.reason, NAME), shorter(marked.judge, NAME), marked.passes),
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
        before = rollout.messages[: first_turn(rollout.messages)] if rollout.error is None else []
        for message in reversed(before):
            if message.get("role") == "user":
                return " ".join(_words(message.get("content"))[: 8 * _TASK].split())[:_TASK]
    return ""


def _words(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return " ".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _decimals(value: float | None) -> float | None:
    """A figure without the noise of the last digits, which does not compress."""
    return None if value is None else round(value, 9)
