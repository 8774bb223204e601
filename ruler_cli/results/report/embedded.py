"""Groups → the data that a page for a browser embeds: rows of a table, explanations, texts.

Each block of data is gzip in base64, so that no foreign character stands in the page.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

import orjson

from ruler_cli.files.scratch import Scratch
from ruler_cli.results.compare import ComparedGroup
from ruler_cli.results.report.figures import curve_positions
from ruler_cli.results.report.group_text import (
    GroupText,
    page_key,
    rollout_json,
    shorter,
    summary,
)
from ruler_cli.results.report.highlights import Highlight, Shortlist, reasons
from ruler_cli.results.scored_groups import ScoredGroup
from ruler_cli.types import readable_text

MOST_TEXTS = 32 << 20
"""Bytes of all groups' texts in the file."""
MOST_TEXT = 16 << 20
"""Bytes of JSON of one group's text; a browser cannot show more."""
MOST_BLOCK = 2 << 20
"""Bytes that the text of one group takes in the file."""
NAME, _EXPLANATION = 500, 4_000
"""Characters of a reason or a judge's name, and of an explanation in the table."""
_LEVEL = 6
"""Level 9 takes a fifth longer and saves a thousandth; 3 is twice as fast and a tenth larger."""
_GZIP = zlib.MAX_WBITS | 16


def as_json(value: Any) -> bytes:
    """Write JSON that every reader takes: lone surrogates become U+FFFD, NaN and Infinity null.

    Integers beyond 64 bits, up to the largest double, are rounded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, a huge integer
        return orjson.dumps(readable(value))


def readable(value: Any) -> Any:
    """Replace lone surrogates, and integers beyond 64 bits, which not every JSON reader takes."""
    if isinstance(value, str):
        return readable_text(value)
    if isinstance(value, int):
        return (
            value if abs(value) < 1 << 63 else float(value)
        )  # as JavaScript reads it anyway
    if isinstance(value, dict):
        return {readable_text(name): readable(item) for name, item in value.items()}
    return (
        [readable(item) for item in value] if isinstance(value, list | tuple) else value
    )


def packed(pieces: Iterable[bytes]) -> bytes:
    """Pack pieces of bytes into one block; the same bytes give the same block."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    done = [packer.compress(piece) for piece in pieces]
    return base64.b64encode(b"".join((*done, packer.flush())))


class EmbeddedGroups:
    """The groups of a page: on disk, as they come, until those of the page are chosen.

    Texts are those of the most telling groups, until the next does not fit into MOST_TEXTS; one that is too
    large for a browser is left out.
    """

    def __init__(self, stack: ExitStack) -> None:
        """The temporary file is removed when `stack` ends."""
        self._spool = stack.enter_context(Scratch())
        self._put: dict[
            int, tuple[int, int, int]
        ] = {}  # by ordinal: begin, size of the row, of the text
        self._columns: tuple[str, ...] = ()
        self._chosen: list[tuple[int, int]] = []  # in input order: ordinal, rank
        self._texts: dict[
            int, tuple[int, int]
        ] = {}  # by ordinal: begin and size of a block

    def put(
        self,
        ordinal: int,
        text: GroupText,
        scored_group: ScoredGroup,
        compared: ComparedGroup | None = None,
    ) -> None:
        """Add the `ordinal`th group of the file: its row, a value a line, its explanations, its text.

        With another judge's scores of it, they are added to all three.
        """
        explanations = [
            shorter(r.explanation, _EXPLANATION) or None for r in scored_group.rollouts
        ]
        values = _row(ordinal, text, scored_group)
        text_value = _text(text, scored_group)
        if compared is not None:
            values |= _second_row(ordinal, text, compared)
            second = compared.other.rollouts
            explanations += [
                shorter(r.explanation, _EXPLANATION) or None for r in second
            ]
            for one, other in zip(text_value["rollouts"], second, strict=True):
                one["second"] = rollout_json(other)
        self._columns = tuple(values)
        row = b"\n".join(map(as_json, [*values.values(), explanations]))
        text_json = as_json(text_value)
        self._put[ordinal] = (self._spool.write(row), len(row), len(text_json))
        self._spool.write(text_json)

    def finish(self, chosen: Collection[int]) -> dict[str, int]:
        """Choose groups by their ordinals, the most telling first.

        Return the numbers of `rows` and of `texts`.
        """
        left = MOST_TEXTS
        self._chosen = sorted((ordinal, rank) for rank, ordinal in enumerate(chosen))
        for ordinal in chosen:
            at, row, size = self._put[ordinal]
            text = self._spool.read(size, at + row) if size <= MOST_TEXT else b""
            block = packed([text])
            if not text or len(block) > MOST_BLOCK:
                continue
            left -= len(block) + 1
            if left < 0:
                break
            self._texts[ordinal] = (self._spool.write(block), len(block))
        return {"rows": len(chosen), "texts": len(self._texts)}

    def _rows(self) -> Iterator[list[bytes]]:
        for ordinal, _ in self._chosen:
            at, size, _ = self._put[ordinal]
            yield self._spool.read(size, at).split(b"\n")

    def data(self, head: dict[str, Any]) -> bytes:
        """Pack the page's data: `head` and the rows, column by column, in input order."""
        columns = dict(
            zip(
                self._columns,
                map(b",".join, zip(*self._rows(), strict=True)),
                strict=False,
            )
        )
        spans: list[
            tuple[int, int] | None
        ] = []  # of each row's text among the blocks, which are a line each
        at = 0
        for ordinal, _ in self._chosen:
            _, size = self._texts.get(ordinal, (0, 0))
            spans.append((at, size) if size else None)
            at += size + bool(size)
        more = {"telling": [rank for _, rank in self._chosen], "text": spans}
        columns |= {name: as_json(values)[1:-1] for name, values in more.items()}
        rows = b",".join(
            b'"%s":[%s]' % (name.encode(), values) for name, values in columns.items()
        )
        return packed((as_json(head)[:-1], b',"rows":{', rows, b"}}"))

    def explanations(self) -> bytes:
        """Pack the explanations of all rows."""
        pieces = (b"," * (n > 0) + row[-1] for n, row in enumerate(self._rows()))
        return packed(chain((b"[",), pieces, (b"]",)))

    def texts(self) -> Iterator[str]:
        """Return the blocks of texts, in the order of their rows."""
        spans = (
            self._texts[ordinal]
            for ordinal, _ in self._chosen
            if ordinal in self._texts
        )
        return (self._spool.read(size, at).decode("ascii") for at, size in spans)


def _text(text: GroupText, group: ScoredGroup) -> dict[str, Any]:
    """Return the text and the annotations as JSON; each different line stands once, in `strings`."""
    strings: dict[str, int] = {}
    rollouts = [
        rollout_json(rollout)
        | {"lines": [strings.setdefault(line, len(strings)) for line in lines]}
        for rollout, lines in zip(group.rollouts, text.rollouts, strict=True)
    ]
    return {
        "context": text.context,
        "tools": text.tools,
        "rubric": text.rubric,
        "strings": list(strings),
        "rollouts": rollouts,
    }


def lists(shortlist: Shortlist) -> dict[str, Any]:
    """Return the groups that the page names first, as they are in the table; some may have no row there."""
    return {
        "dispute": shortlist.dispute,
        "worst": [_entry(one) for one in shortlist.worst()],
        "disputed": [_entry(one) for one in shortlist.disputed()],
        "others": [_entry(one) for one in shortlist.others()],
    }


def _entry(highlight: Highlight) -> dict[str, Any]:
    g = highlight.group
    return {
        "ordinal": highlight.ordinal,
        "key": page_key(g.key),
        "why": shorter(highlight.why, NAME),
        "status": g.status,
        "reason": shorter(g.reason, NAME),
        "scores": [r.score for r in g.rollouts],
        "labels": [r.label for r in g.rollouts],
    }


def _row(ordinal: int, text: GroupText, scored_group: ScoredGroup) -> dict[str, Any]:
    """Return the group's values in the columns of the table, by their names."""
    g, rollouts, figures = scored_group, scored_group.rollouts, summary(scored_group)
    return {name: figures[name] for name in _OF_GROUP} | {
        "key": page_key(g.key),
        "task": text.task,
        "reason": shorter(g.reason, NAME),
        "judge": shorter(g.judge, NAME),
        "bytes": [r.size for r in rollouts],
        "places": [_decimals(r.mean_position) for r in rollouts],
        "slots": curve_positions(g),
        "spreads": [r.spread for r in rollouts],
        "mean": _decimals(g.mean),
        "sd": _decimals(g.sd),
        "cost": g.cost,
        "tokens": g.usage.prompt + g.usage.completion,
        "latency": g.latency,
        "at": g.judged_at,
        "ordinal": ordinal,
        "reasons": reasons(g),
    }


_OF_GROUP = (
    "status", "kind", "passes", "scores", "labels", "reliability", "weight", "tied", "live", "disagreement",
    "flags",
)  # fmt: skip
"""Columns that are figures of `ruler report --group KEY --json`, as they are."""
_OF_BOTH = (
    "status", "kind", "reason", "judge", "passes", "scores", "spreads", "mean", "sd", "reliability",
    "disagreement", "cost",
)  # fmt: skip
"""Columns that a page of two files has of both; the second one's begin with `b_`."""


def _second_row(
    ordinal: int, text: GroupText, compared: ComparedGroup
) -> dict[str, Any]:
    """Return the other judge's values of a group, and those that compare both judges."""
    second = _row(ordinal, text, compared.other)
    return {f"b_{name}": second[name] for name in _OF_BOTH} | {
        "pairs": compared.pairs,
        "against": compared.against,
        "order": compared.disagreement,
        "distance": _decimals(compared.distance),
        "reasons": compared.reasons,
        "flags": list(dict.fromkeys((*compared.one.flags, *compared.other.flags))),
    }


def differing(groups: Iterable[ComparedGroup]) -> list[dict[str, Any]]:
    """Return the groups that the page names first, as they are in the table; some may have no row there."""
    return [
        {
            "ordinal": group.number,
            "key": page_key(group.one.key),
            "pairs": group.pairs,
            "against": group.against,
            "distance": group.distance,
            "scores": [r.score for r in group.one.rollouts],
            "b_scores": [r.score for r in group.other.rollouts],
            "labels": [r.label for r in group.one.rollouts],
        }
        for group in groups
    ]


def _decimals(value: float | None) -> float | None:
    """Round a figure: the noise of the last digits does not compress."""
    return None if value is None else round(value, 9)
