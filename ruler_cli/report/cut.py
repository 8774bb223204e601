"""A group's text that is too large for a page → less of it, with a mark where something is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import orjson

from ruler_cli.report.texts import GroupText

_LEFT_OUT = "left out of this report"
_MARK = 64
"""Characters that a mark may take beside the room there is."""


def shortened(text: GroupText, room: int) -> GroupText:
    """The text with at most about `room` characters; its longest parts lose the most.

    The context, the tools and each distinct rollout are the parts. Of each its beginning and its end
    stay, and a line between them says how much is left out.
    """
    tools = text.tools.split("\n")
    first = [lines for at, lines in enumerate(text.rollouts) if text.identical[at] == at]
    share = _share([_size(lines) for lines in (text.context, tools, [text.rubric], *first)], room)
    rollouts = [_part(lines, share) if own == at else () for at, (lines, own) in enumerate(_owned(text))]
    return replace(
        text,
        context=_part(text.context, share),
        tools="\n".join(_part(tools, share)),
        rubric=shorter(text.rubric, share),
        rollouts=tuple(rollouts[own] for own in text.identical),
    )


def shorter(text: str, room: int) -> str:
    """Text without its middle where it is longer than `room`, with a mark of how much is gone."""
    if len(text) <= room:
        return text
    half = room // 2
    return f"{text[:half]}[… {len(text) - 2 * half:,} characters {_LEFT_OUT} …]{text[len(text) - half :]}"


def _owned(text: GroupText) -> Sequence[tuple[tuple[str, ...], int]]:
    return list(zip(text.rollouts, text.identical, strict=True))


def _size(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


def _share(sizes: Sequence[int], room: int) -> int:
    """The size that parts may have so that all of them together have `room`."""
    left = max(room, 0)
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = left // (len(ordered) - at)
        if size > share:
            return share
        left -= size
    return ordered[-1]


def _part(lines: Sequence[str], room: int) -> tuple[str, ...]:
    if _size(lines) <= room:
        return tuple(lines)
    less = [_line(line, room // 4) for line in lines]
    head = _fitting(less, room // 2)
    tail = min(_fitting(less[::-1], room // 2), len(less) - head)
    gone = lines[head : len(less) - tail]
    mark = [f"({len(gone):,} lines, {_size(gone):,} characters, {_LEFT_OUT})"] if gone else []
    return (*less[:head], *mark, *less[len(less) - tail :])


def _fitting(lines: Sequence[str], room: int) -> int:
    """How many first lines have at most so many characters together."""
    ends = accumulate(len(line) + 1 for line in lines)
    return next((at for at, end in enumerate(ends) if end > room), len(lines))


def _line(line: str, room: int) -> str:
    """A line that is still `head: JSON`; JSON that is cut becomes a string."""
    if len(line) <= room:
        return line
    head, colon, rest = line.partition(": ")
    if not colon or len(head) > room:
        return shorter(line, room)
    try:
        value = orjson.loads(rest)
    except ValueError:
        value = rest
    said = value if isinstance(value, str) else rest
    keep, cut = room, _string(said, room)
    while keep and len(cut) > room + _MARK:  # escapes add to what is kept
        keep //= 2
        cut = _string(said, keep)
    return f"{head}: {cut}"


def _string(text: str, room: int) -> str:
    return orjson.dumps(shorter(text, room)).decode()
