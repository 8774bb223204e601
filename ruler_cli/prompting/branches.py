"""Messages with which several rollouts of a request begin, shown once: a tree over their lines.

Rollouts that were sampled as a tree part late. Each path from the root of that tree to a leaf is a rollout, each
branching makes a block of the messages before it, and a rollout keeps those behind its last branching.

All blocks stand before all rollouts, an outer one before those inside it. If a block stood before the first rollout
that needs it, that rollout alone would be read in one piece, which a judge might prefer. Blocks follow the drawn
order of the rollouts, and never the other way round, so the order does not reveal the tree.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ruler_cli.prompting import templates

_BLOCK_BYTES = 120
_ID_BYTES = 55
"""Bytes that a block takes beside its lines, and each id in it with the note of what stands before."""
_MEDIA = ("(picture ", "(audio ", "(video ", "(file ")
_OURS = "("
"""The beginning of a line that is not a message: a message begins with a role, `call` or `tool`."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The blocks of a request, the text that each of its rollouts has behind them, and the bytes saved.

    A block is the numbers of its rollouts in the request, and its text.
    """

    rest: Sequence[str]
    blocks: Sequence[tuple[Sequence[int], str]] = ()
    saved: int = 0

    def shown(self, labels: Sequence[str]) -> list[str]:
        """Return the text before the rollouts, for their labels in order: a sentence and the blocks, if any."""
        shown = [templates.SHARED] if self.blocks else []
        for number, (rollouts, text) in enumerate(self.blocks, 1):
            ids = " ".join([labels[at] for at in rollouts])
            head = f'<shared_messages number="{number}" ids="{ids}">'
            shown.append(f"{head}\n{text}\n</shared_messages>")
        return shown


def find_branches(
    texts: Sequence[str],
    least: float,
) -> Branches:
    """Find the beginnings that some of several texts share, if showing each once saves `least` bytes or more."""
    if not _may_save(texts, least):
        return Branches(texts)
    lines = [text.split("\n") for text in texts]
    # of each text the line of the blocks that name it, and the number of lines that they show
    heads = [""] * len(texts)
    starts = [0] * len(texts)
    blocks: list[tuple[Sequence[int], str]] = []
    saved = -len(templates.SHARED)
    # rollouts with some first lines in common, of which blocks show a part
    nodes: list[tuple[Sequence[int], int, Sequence[int]]] = [
        (range(len(texts)), 0, ())
    ]
    while nodes:  # no recursion: a tree may be as deep as rollouts are many
        rollouts, equal, path = nodes.pop()
        first = rollouts[0]
        while True:
            column = {_line_to_share(lines[at], equal) for at in rollouts}
            if len(column) > 1 or "" in column:
                break
            equal += 1
        text = "\n".join(lines[first][starts[first] : equal])
        gain = (len(rollouts) - 1) * len(text.encode()) - _BLOCK_BYTES
        gain -= _ID_BYTES * len(rollouts)
        if gain > 0:
            blocks.append((rollouts, heads[first] + text))
            saved += gain
            path = [*path, len(blocks)]
            numbers = ", ".join(map(str, path))
            head = f"(continues shared_messages {numbers}: {equal} messages)\n"
            for at in rollouts:
                heads[at] = head
                starts[at] = equal
        parted = defaultdict[str, list[int]](list)
        for at in rollouts:
            line = _line_to_share(lines[at], equal)
            parted[line].append(at)
        parted.pop("", None)
        # the first branch is taken from the end
        for alike in reversed(parted.values()):
            if len(alike) > 1:
                nodes.append((alike, equal, path))
    if saved < least:
        return Branches(texts)
    rest = []
    for head, start, all_lines in zip(
        heads,
        starts,
        lines,
        strict=True,
    ):
        rest.append(head + "\n".join(all_lines[start:]))
    return Branches(rest, blocks, saved)


def _may_save(
    texts: Sequence[str],
    least: float,
) -> bool:
    """Return whether two texts begin alike for long enough, without a look at their lines: most groups end here.

    In order, neighbours share as much in all as a tree saves, so one pair shares its part of `least`.
    """
    size = int(least / max(1, len(texts) - 1))
    ordered = sorted(texts)
    for text, following in itertools.pairwise(ordered):
        head = text[:size]
        if not head.isascii():  # a character takes up to four bytes
            head = head[: size // 4]
        if following.startswith(head):
            return True
    return False


def _line_to_share(
    lines: Sequence[str],
    at: int,
) -> str:
    """Return a line that others may share: a message before further parts, and not the last; else nothing."""
    if at + 1 >= len(lines):
        return ""
    line, following = lines[at : at + 2]
    # a picture stands right below its message
    if line.startswith(_OURS) or following.startswith(_MEDIA):
        return ""
    return line
