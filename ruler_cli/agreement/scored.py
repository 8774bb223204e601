"""Groups of scored files → what is measured of them: scores, labels, places, lengths, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import zip_longest
from typing import Any

from ruler_cli.files.parse import dump
from ruler_cli.formats.reader import Reader
from ruler_cli.marked.read import MOST_JUDGES, Marks
from ruler_cli.marked.values import MarkedRollout
from ruler_cli.records import Group, Rollout

_JUDGES = "judges."
COUNTS = (
    "groups", "rollouts", "scored", "failed", "unmarked", "odd_scores", "moved", "unlabelled", "outcomes",
    "odd_labels", "odd_costs", "more_judges",
)  # fmt: skip
"""Counts of rollouts in a file; what could not be used is never taken for a zero.

`failed`: not scored by ruler; `unmarked`: without a mark; `odd_scores`: marked as scored, by what is no
finite number; `moved`: scored, but by --blend or --order-by-outcome away from what judges said;
`unlabelled`: without a label; `outcomes`: labelled by what a verifier or a person said, for want of a
reward; `odd_labels`: with a label that is no number.
"""
LEFT_OUT = {
    "failed": "not scored",
    "unmarked": "without a mark",
    "odd_scores": "with a score that is no number",
    "unlabelled": "without a label",
    "odd_labels": "with a label that is no number",
    "more_judges": "scores of too many judges",
}
"""Counts of what is not measured, in words."""


@dataclass(frozen=True, slots=True)
class Item:
    """One rollout as it is measured; None: there is nothing that can be used.

    `place` is where it was shown, the mean over all passes, from 0 (first) to 1 (last); `size` bytes of
    what the agent did, as JSON; `judges` the scores of a panel; `digest` that of its messages, empty
    where none was wanted.
    """

    score: float | None
    label: float | None
    place: float | None = None
    size: int | None = None
    judges: Mapping[str, float | None] = field(default_factory=dict)
    digest: bytes = b""


@dataclass(frozen=True, slots=True)
class Scored:
    """One group, its rollouts in input order, and its cost in USD."""

    key: str
    items: tuple[Item, ...]
    cost: float | None = None


class Extract:
    """Reads the marks of one scored file, group by group.

    It counts in `seen` what it finds, also `own_labels`: scores that stand where the user said that labels
    do. `names` are those of the judges. `given`: the reader hands over labels, which stand where the user
    said, as the outcome; else a label is the first original reward, or where there is none the outcome that
    the format knows. `digests`: rollouts are to be known again in another file.
    """

    def __init__(self, reader: Reader, *, given: bool, digests: bool = False) -> None:
        self._marks, self._given, self._digests = Marks(reader, given=given), given, digests
        self._panel: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.names: dict[str, None] = {}

    def group(self, group: Group) -> Scored:
        """One group; rollouts that are parts of one count once."""
        marked = self._marks.group(group)
        self.seen["groups"] += 1
        self.seen["odd_costs"] += "cost_usd" in marked.odd
        parts = group.rollouts if self._digests else ()
        return Scored(group.key, tuple([self._item(one, parts) for one in marked.rollouts]), marked.cost)

    def _item(self, rollout: MarkedRollout, parts: Sequence[Rollout]) -> Item:
        self._count(rollout)
        digest = b""
        if parts:
            held = b"".join(_json(parts[at]) for at in rollout.at)
            digest = blake2b(held, digest_size=8).digest()
        # a score with the reward in it agrees with the reward: what the judge said is what is measured
        judges = self._judges(rollout)
        return Item(rollout.judged, rollout.label, rollout.place, rollout.size, judges, digest)

    def _count(self, rollout: MarkedRollout) -> None:
        seen = self.seen
        seen["rollouts"] += 1
        if rollout.judged is not None:
            seen["scored"] += 1
            seen["moved"] += rollout.judged != rollout.score
            if rollout.judge and len(self.names) < MOST_JUDGES:
                self.names[rollout.judge] = None
        else:
            seen["odd_scores" if rollout.odd else rollout.status] += 1
        if not rollout.label_from:
            seen["unlabelled"] += 1
        elif rollout.label is None:
            seen["odd_labels"] += 1
        seen["outcomes"] += not self._given and rollout.label_from == "outcome"
        seen["own_labels"] += self._given and rollout.label is not None and rollout.label == rollout.score

    def _judges(self, rollout: MarkedRollout) -> dict[str, float | None]:
        """The scores of the first few judges that the file names; the others are counted."""
        self.seen["more_judges"] += rollout.more_judges
        told: dict[str, float | None] = dict(rollout.judges)
        told |= {name.removeprefix(_JUDGES): None for name in rollout.odd if name.startswith(_JUDGES)}
        for name in list(told):
            if name in self._panel or len(self._panel) < MOST_JUDGES:
                self._panel.add(name)
            else:
                self.seen["more_judges"] += 1
                del told[name]
        return told


def _json(rollout: Rollout) -> bytes:
    """All that a part of a rollout holds."""
    try:
        return b"".join(dump(messages) for messages in (rollout.messages, *rollout.histories))
    except RecursionError:  # so deep that it can be read but not written
        return b""


def paired(
    first: Iterator[Scored],
    second: Iterator[Scored],
    matched: dict[str, Any],
    on_unlike: Callable[[str], object],
) -> Iterator[tuple[Scored, Scored]]:
    """Groups of both files by key and content: the same rollouts, both with the same labels.

    `matched` becomes the number of such `groups`, that of `unlike` ones (of one key, but with other
    rollouts or labels), and how many are `alone` in each file; `on_unlike` is told of each that is left out.
    Files in one order are read side by side; what waits for its like in memory is what the other file has
    not, or has elsewhere.
    """
    matched |= {"groups": 0, "unlike": 0}
    waiting: tuple[dict[tuple[str, int], Scored], ...] = ({}, {})
    times: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for found in zip_longest(first, second):
        for side, group in enumerate(found):
            if group is None:
                continue
            key = (group.key, times[side][group.key])  # a key may stand in a file more than once
            times[side][group.key] += 1
            other = waiting[1 - side].pop(key, None)
            if other is None:
                waiting[side][key] = group
                continue
            one, two = (other, group) if side else (group, other)
            if why := _unlike(one, two):
                matched["unlike"] += 1
                on_unlike(f"group {group.key!r}: {why}; it is left out")
                continue
            matched["groups"] += 1
            yield _labelled(one, two), _labelled(two, one)
    matched["alone"] = [len(groups) for groups in waiting]
    for side, name in enumerate(("first", "second")):
        for alone, _ in waiting[side]:
            on_unlike(f"group {alone!r} stands only in the {name} file; it is left out")


def _unlike(one: Scored, other: Scored) -> str:
    """Why two groups of one key are not the same; empty where they are."""
    if len(one.items) != len(other.items):
        return f"has {len(one.items)} rollouts in the first file and {len(other.items)} in the second"
    both = list(zip(one.items, other.items, strict=True))
    if differ := sum(a.digest != b.digest for a, b in both):
        return f"{differ} of its {len(both)} rollouts are others in the second file than in the first"
    if any(None not in (a.label, b.label) and a.label != b.label for a, b in both):
        return "its labels in the first file are not those in the second"
    return ""


def _labelled(one: Scored, other: Scored) -> Scored:
    """A group with the labels of its like where it has none of its own."""
    both = zip(one.items, other.items, strict=True)
    return replace(one, items=tuple(replace(a, label=b.label) if a.label is None else a for a, b in both))
